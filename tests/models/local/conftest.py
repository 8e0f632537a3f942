"""What the tests of local models share: a worker that is none, and models that are a few bytes long."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from loopwright.models.base import Capabilities
from loopwright.models.local.catalog import IndexFile, LocalModelFile
from loopwright.models.local.server import stop_local_servers

FAKE_WORKER = Path(__file__).parent / "fake_worker.py"
CONTENT = bytes(range(256)) * 40


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("xllamacpp") is not None:
        return
    for item in items:
        if item.get_closest_marker("local"):
            item.add_marker(pytest.mark.skip(reason="xllamacpp is not installed"))


@pytest.fixture
def no_servers_left() -> Iterator[None]:
    """Whatever a test started is ended."""
    yield
    stop_local_servers()


class FakeWorkers:
    """Command lines of fake workers, and how often one was started."""

    def __init__(self, folder: Path) -> None:
        self._starts = folder / "starts"

    def command(self, mode: str) -> list[str]:
        return [sys.executable, "-S", str(FAKE_WORKER), mode, str(self._starts)]

    @property
    def process_ids(self) -> list[int]:
        return [int(line) for line in self._starts.read_text().split()] if self._starts.exists() else []


@pytest.fixture
def workers(tmp_path: Path, no_servers_left: None) -> FakeWorkers:
    return FakeWorkers(tmp_path)


@pytest.fixture
def row() -> Callable[..., LocalModelFile]:
    """Makes a row of the catalog whose file is CONTENT."""

    def make(content: bytes = CONTENT, **more: Any) -> LocalModelFile:
        values: dict[str, Any] = {
            "name": "tiny",
            "file": "tiny.gguf",
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "licence": "Apache-2.0",
            "max_context": 8192,
            "memory": 1,
            "memory_per_token": 0,
            "hub": None,
            "index": tuple(IndexFile(f"lw-tiny-{n}", "1.0", f"lw_tiny_{n}/data.bin") for n in (1, 2, 3)),
            "capabilities": Capabilities(images=False, files=False),
        }
        return LocalModelFile(**(values | more))

    return make


@pytest.fixture
def content() -> bytes:
    return CONTENT


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(folder))
    return folder
