"""Every Python block of the documentation runs, on both backends.

The blocks of a page share a namespace, in order, as if the page were one module; `await` is allowed anywhere. A block
marked `python data-run="no"` is compiled and not run: it needs a key, or a download.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<source>.*?)^```$", re.MULTILINE | re.DOTALL)
# What both GitHub and the documentation's Markdown take for the beginning of a block; others swallow what follows.
INFO = re.compile(r'python( data-run="no")?|bash|text|json|toml|mermaid')


class Block(NamedTuple):
    """A block of a page, and the number of lines before it."""

    info: str
    source: str
    lines_before: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(match["info"], match["source"], text.count("\n", 0, match.start("source")))
        for match in BLOCK.finditer(text)
    ]


def python_blocks_of(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.info.startswith("python")]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks_of(page)], ids=name_of)
async def test_python_blocks_run(page: Path) -> None:
    module = types.ModuleType("page")
    for block in python_blocks_of(page):
        # The empty lines make the line numbers of a traceback those of the page.
        tree = ast.parse("\n" * block.lines_before + block.source, filename=str(page))
        code = compile(tree, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if block.info != "python":
            continue
        value = eval(code, module.__dict__)
        if inspect.isawaitable(value):
            await value


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_begin_and_end_in_a_way_that_renders(page: Path) -> None:
    fences = [line for line in page.read_text("utf-8").splitlines() if line.lstrip().startswith("```")]
    assert all(INFO.fullmatch(fence[3:]) for fence in fences[::2]), fences[::2]
    assert set(fences[1::2]) <= {"```"}
    assert len(fences) == 2 * len(blocks_of(page))


def test_nearly_all_blocks_run() -> None:
    blocks = [block for page in PAGES for block in python_blocks_of(page)]
    assert len(blocks) > 15
    assert len([block for block in blocks if block.info != "python"]) < len(blocks) / 5
