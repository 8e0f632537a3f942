"""Every Python block of the documentation runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[tuple[str, str, int]]:
    text = page.read_text()
    return [(match[1], match[2], text[: match.start(2)].count("\n")) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_code_blocks_run(page: Path) -> None:
    module = types.ModuleType("page")
    module.__dict__["__name__"] = "page"

    async def run_all() -> None:
        for info, source, line in blocks_of(page):
            tree = ast.parse("\n" * line + source, filename=str(page))
            code = compile(tree, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if "no-run" in info:
                continue
            value = eval(code, module.__dict__)
            if inspect.isawaitable(value):
                await value

    asyncio.run(run_all())


def test_the_blocks_are_found() -> None:
    assert sum(len(blocks_of(page)) for page in PAGES) > 15
