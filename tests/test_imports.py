"""What importing the package loads, and what it exports."""

from __future__ import annotations

import subprocess
import sys

import pytest

import loopwright

HEAVY = [
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
    "starlette",
    "trio",
    "typer",
    "uvicorn",
    "xllamacpp",
]


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import loopwright").isdisjoint(HEAVY)


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
    assert loaded_after(statement).isdisjoint(HEAVY)


def test_T193_the_loop_loads_no_network_code() -> None:
    loaded = loaded_after("import loopwright.loop")
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "internal", ["check_content", "RequestView", "ModelResponse", "ToolBatch", "run_call", "AbortableWaits"]
)
def test_T194_A39_internals_are_not_exported(internal: str) -> None:
    assert internal not in loopwright.__all__
    assert internal not in loopwright.loop.__all__


def test_everything_exported_is_there() -> None:
    assert all(hasattr(loopwright, name) for name in loopwright.__all__)
    assert len(set(loopwright.__all__)) == len(loopwright.__all__)
