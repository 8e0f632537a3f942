"""What importing the package loads, what its rooms import of each other, and what it exports."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

import loopwright

SOURCES = Path(loopwright.__file__).parent
HEAVY = {
    "aiohttp",
    "dbos",
    "docstring_parser",
    "griffe",
    "httpcore2",
    "httpx2",
    "huggingface_hub",
    "mcp",
    "opentelemetry.sdk",
    "rich",
    "sqlalchemy",
    "ssl",
    "starlette",
    "trio",
    "typer",
    "uvicorn",
    "xllamacpp",
}
INTERNALS = [
    ("loopwright.loop.run", "LoopRun"),
    ("loopwright.loop.checks", "check_content"),
    ("loopwright.loop.view", "RequestView"),
    ("loopwright.loop.response", "ModelResponse"),
    ("loopwright.loop.batch", "ToolBatch"),
    ("loopwright.loop.calls", "prepare_call"),
    ("loopwright.loop.waits", "AbortableWaits"),
]


def loaded_after(statement: str) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def nodes_of(tree: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """All nodes of a module; without `types`, those that only type checkers read are left out."""
    for node in ast.iter_child_nodes(tree):
        if types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes_of(node, types=types)


def imports_of(path: Path, *, types: bool = True) -> set[str]:
    """What a module imports, at its top or later: modules, and names that may be modules."""
    inside = path.relative_to(SOURCES.parent).with_suffix("").parts
    package = ".".join(inside[:-1])
    found: set[str] = set()
    for node in nodes_of(ast.parse(path.read_text("utf-8")), types=types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else str(node.module)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def import_graph() -> dict[str, set[str]]:
    """The modules of the package, and which of them each imports when it runs."""
    paths = {
        ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCES.rglob("*.py")
    }
    return {name: imports_of(path, types=False) & paths.keys() - {name} for name, path in paths.items()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import loopwright") & HEAVY == set()


def test_making_an_agent_loads_nothing_heavy() -> None:
    statement = (
        "from loopwright import OpenAICompatible, ToolLoopAgent, tool\n"
        "class Agent(ToolLoopAgent):\n"
        "    model = OpenAICompatible('m', base_url='http://127.0.0.1:1/v1')\n"
        "    instructions = ''\n"
        "    @tool\n"
        "    def add(self, a: int) -> int:\n"
        "        'Add.'\n"
        "        return a\n"
        "Agent()"
    )
    assert loaded_after(statement) & HEAVY == set()


def test_T193_A32_A48_the_loop_imports_no_network_and_nothing_above_it() -> None:
    imported = set().union(*(imports_of(path) for path in (SOURCES / "loop").glob("*.py")))
    # Of the models it knows the shapes and nothing that is one.
    allowed = {"loop", "tools", "models.base", "events", "messages", "usage", "errors", "signals", "_backend"}
    inside = {name.removeprefix("loopwright.") for name in imported if name.startswith("loopwright.")}
    assert {name for name in inside if not any(f"{name}.".startswith(f"{room}.") for room in allowed)} <= {"models"}
    assert {name.partition(".")[0] for name in imported - inside} & {*HEAVY, "asyncio", "http", "socket"} == set()


def test_T193_nothing_imports_itself_in_a_circle() -> None:
    TopologicalSorter(import_graph()).prepare()


@pytest.mark.parametrize(("module", "name"), INTERNALS)
def test_T194_A39_internals_are_not_exported(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)
    assert name not in loopwright.__all__
    assert name not in loopwright.loop.__all__
    assert not hasattr(loopwright, name)


def test_everything_exported_is_there_once() -> None:
    assert [name for name in loopwright.__all__ if not hasattr(loopwright, name)] == []
    assert len(loopwright.__all__) == len(set(loopwright.__all__))
