"""Where recorded cases are, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    folder: Path
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.meta.get("name") or self.folder)

    @property
    def wire(self) -> str:
        return str(self.meta.get("wire_api", ""))

    @property
    def provider(self) -> str:
        return str(self.meta.get("provider", ""))

    @property
    def status(self) -> int:
        return int(self.meta.get("response", {}).get("status") or 200)

    @property
    def headers(self) -> dict[str, str]:
        headers = self.meta.get("response", {}).get("headers") or {}
        return {str(name).lower(): str(value) for name, value in headers.items()}

    @property
    def expected(self) -> dict[str, Any]:
        return self.meta["expected"]

    @property
    def is_stream(self) -> bool:
        return (self.folder / "response.sse").exists()

    @cached_property
    def body(self) -> bytes:
        return (self.folder / ("response.sse" if self.is_stream else "response.json")).read_bytes()

    @cached_property
    def request(self) -> dict[str, Any] | None:
        path = self.folder / "request.json"
        return json.loads(path.read_bytes()) if path.exists() else None


@dataclass(frozen=True)
class Case:
    """One conversation: an exchange, or several in order."""

    folder: Path
    exchanges: tuple[Exchange, ...]


def find_cases(folders: Iterable[Path]) -> Iterator[Case]:
    """Every case below the folders, at any depth."""
    for folder in folders:
        yield from _cases_below(folder)


def _cases_below(folder: Path) -> Iterator[Case]:
    if _has_body(folder):
        yield Case(folder, (_exchange(folder),))
        return
    below = sorted((path for path in folder.iterdir() if path.is_dir()), key=_in_order)
    steps = [path for path in below if path.name.isdecimal() and _has_body(path)]
    if steps:
        yield Case(folder, tuple(map(_exchange, steps)))
    for path in below:
        if path not in steps:
            yield from _cases_below(path)


def _in_order(path: Path) -> tuple[int, str]:
    return (int(path.name), "") if path.name.isdecimal() else (0, path.name)


def _has_body(folder: Path) -> bool:
    if not (folder / "meta.json").exists():
        return False
    return (folder / "response.sse").exists() or (folder / "response.json").exists()


def _exchange(folder: Path) -> Exchange:
    return Exchange(folder, json.loads((folder / "meta.json").read_bytes()))
