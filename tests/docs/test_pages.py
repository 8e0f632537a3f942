"""What the pages say is so: commands, links, names of files, tables that repeat what the code knows."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest

import loopwright
from loopwright import actions, stopping
from loopwright.engine import EngineState
from loopwright.errors import ApprovalError
from loopwright.events import StreamPart
from loopwright.hooks import AgentHooks
from loopwright.lifecycle import AgentEvent, TelemetryOnly
from loopwright.models.local import CATALOG
from loopwright.models.local.catalog import DEFAULT
from loopwright.models.retry import RetryPolicy
from loopwright.models.vendors import VENDORS
from loopwright.run import Run
from loopwright.settings import AgentSettings, CallOptions, CallSettings, StepSettings
from loopwright.telemetry import TelemetrySettings
from loopwright.tools.options import FunctionToolOptions
from loopwright.tools.policy import ToolExecutionPolicy

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]+\]\((?P<target>[^)\s]+)\)")
BOTH_COMMANDS = """
```bash
python -m pip install nox && python -m nox -s quickstart
python -m nox -s tests
```
"""


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def sessions() -> set[str]:
    """Names of the nox sessions."""
    functions = [node for node in ast.parse(read("noxfile.py")).body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if "nox.session" in map(ast.unparse, node.decorator_list)}


def table_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def first_column(text: str, heading: str) -> list[str]:
    """What is set in code in the first column of the table with this heading."""
    _, _, table = text.partition(f"| {heading} |")
    rows, _, _ = table.partition("\n\n")
    return [name for row in table_rows(rows) for name in re.findall(r"`([^`]+)`", row[0])]


def public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def written(kind: Any) -> str:
    """A call of a class, with the names of its fields."""
    names = [field.name for field in fields(kind)]
    return f"{kind.__name__}({', '.join(names)})" if names else kind.__name__


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_the_two_commands(page: str) -> None:
    assert BOTH_COMMANDS in read(page)


def test_the_commands_come_first_in_the_readme() -> None:
    assert read("README.md").startswith("# Loopwright\n" + BOTH_COMMANDS)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    pattern = re.search(r"grep -m 1 -xE '([^']+)' README\.md", read(".ci/run"))
    assert pattern is not None
    found = [line for line in read("README.md").splitlines() if re.fullmatch(pattern[1], line)]
    assert found == ["python -m nox -s tests"]


@pytest.mark.parametrize("page", [*PAGES, ROOT / ".ci" / "run", ROOT / "noxfile.py"], ids=name_of)
def test_sessions_that_are_named_exist(page: Path) -> None:
    assert set(re.findall(r"nox -s ([a-z]+)", page.read_text("utf-8"))) <= sessions()


def test_scripts_that_sessions_run_exist() -> None:
    scripts = re.findall(r'session\.run\("python", "([\w/]+\.py)"', read("noxfile.py"))
    assert len(scripts) == 3
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [urlsplit(match["target"]) for match in LINK.finditer(page.read_text("utf-8"))]
    missing = [
        url.path for url in targets if not url.scheme and url.path and not (page.parent / url.path).resolve().exists()
    ]
    assert missing == []


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"- ([\w./-]+\.md)$", read("mkdocs.yml"), re.MULTILINE)
    assert sorted(listed) == sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")
    )


def test_decisions_are_numbered_dated_and_indexed() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    index = read("docs/decisions/index.md")
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for number, record in enumerate(records, 1):
        lines = record.read_text("utf-8").splitlines()
        title = lines[0].removeprefix(f"# {number}. ")
        assert title != lines[0]
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", lines[2])
        assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
        assert f"{number}. [{title}]({record.name})\n" in index


def test_the_table_of_stream_parts_is_complete() -> None:
    told = first_column(read("docs/concepts/events.md"), "part")
    parts = {part.__dataclass_fields__["type"].default for part in get_args(StreamPart)}
    assert sorted(told) == sorted(parts)


def test_the_table_of_lifecycle_events_is_complete() -> None:
    told = first_column(read("docs/concepts/observing.md"), "event")
    events = [*get_args(AgentEvent), *get_args(TelemetryOnly)]
    assert sorted(told) == sorted(event.__dataclass_fields__["type"].default for event in events)


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("loop", StepSettings),
        ("tools", ToolExecutionPolicy),
        ("models", RetryPolicy),
        ("observing", TelemetrySettings),
        ("engine", EngineState),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_tables_of_fields_are_complete(page: str, kind: Any) -> None:
    told = first_column(read(f"docs/concepts/{page}.md"), f"`{kind.__name__}`")
    assert sorted(told) == sorted(field.name for field in fields(kind))


@pytest.mark.parametrize(("page", "kind"), [("tools", ToolExecutionPolicy), ("models", RetryPolicy)])
def test_defaults_in_tables_are_those_of_the_code(page: str, kind: Any) -> None:
    _, _, table = read(f"docs/concepts/{page}.md").partition(f"| `{kind.__name__}` |")
    rows = table_rows(table.partition("\n\n")[0])
    told = {row[0].strip("`"): row[1] for row in rows if row[0].startswith("`")}
    words = {"None": "none", "{}": "none", "False": "no"}
    values = {field.name: str(getattr(kind(), field.name)).removesuffix(".0") for field in fields(kind)}
    assert told == {name: words.get(value, value) for name, value in values.items()}


OF_AN_OUTPUT_TYPE = {"output_mode", "output_retries", "final_output_step", "partial_outputs", "elements"}
"""What only an output that is more than text has."""


def test_the_table_of_settings_is_complete() -> None:
    _, _, table = read("docs/concepts/settings-and-hooks.md").partition("| setting |")
    rows = [row for row in table_rows("| setting |" + table.partition("\n\n")[0]) if row[0].startswith("`")]
    places = [
        {field.name for field in fields(AgentSettings)} - OF_AN_OUTPUT_TYPE,
        set(CallOptions.__annotations__) | {"context"},
        {field.name for field in fields(CallSettings)},
        {field.name for field in fields(StepSettings)},
    ]
    for column, names in enumerate(places, 1):
        told = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0]) if row[column] == "yes"]
        assert sorted(told) == sorted(names)
        assert {row[column] for row in rows} <= {"yes", ""}


def test_the_table_of_hooks_is_complete() -> None:
    told = first_column(read("docs/concepts/settings-and-hooks.md"), "hook")
    assert sorted(told) == sorted(public_names(AgentHooks))


def test_the_table_of_a_run_is_complete() -> None:
    told = {name.partition("(")[0] for name in first_column(read("docs/concepts/running.md"), "`Run`")}
    assert told == public_names(Run) - OF_AN_OUTPUT_TYPE


def test_the_table_of_actions_is_complete() -> None:
    told = first_column(read("docs/concepts/engine.md"), "action")
    assert sorted(told) == sorted(written(action) for action in get_args(actions.Action))


def test_the_table_of_stop_conditions_is_complete() -> None:
    told = {name.partition("(")[0] for name in first_column(read("docs/concepts/loop.md"), "condition")}
    assert told == {name for name in stopping.__all__ if name[0].isupper()} - {"StopCondition"}


def test_the_table_of_approval_errors_is_complete() -> None:
    told = first_column(read("docs/concepts/approval.md"), "error")
    assert sorted(told) == sorted(error.__name__ for error in ApprovalError.__subclasses__())


def test_the_diagram_of_the_engine_is_the_one_of_its_table() -> None:
    spec = importlib.util.spec_from_file_location("engine_diagram", ROOT / "docs" / "engine_diagram.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = read("docs/concepts/engine.md")
    assert script.written(page) == page


def test_the_table_of_tool_options_is_complete() -> None:
    told = first_column(read("docs/concepts/tools.md"), "option")
    assert sorted(told) == sorted(FunctionToolOptions.__required_keys__ | FunctionToolOptions.__optional_keys__)


def test_the_table_of_vendors_is_complete() -> None:
    rows = [row for row in table_rows(read("docs/concepts/models.md")) if row[0].strip("`") in VENDORS]
    told = {row[0].strip("`"): tuple(re.findall(r"`([A-Z0-9_]+)`", row[1])) for row in rows}
    assert told == {vendor.name: vendor.key_variables for vendor in VENDORS.values()}
    addresses = {row[0].strip("`"): tuple(re.findall(r"`([^`]+)`", row[2])) for row in rows}
    assert addresses == {
        vendor.name: (*vendor.url_variables, *filter(None, [vendor.base_url])) for vendor in VENDORS.values()
    }
    optional = {row[0].strip("`") for row in rows if row[1].endswith(", if it asks for one")}
    assert optional == {vendor.name for vendor in VENDORS.values() if not vendor.needs_key}


def test_the_table_of_local_models_is_complete() -> None:
    rows = [
        row for row in table_rows(read("docs/concepts/models.md")) if row[0].removeprefix("`local:")[:-1] in CATALOG
    ]
    told = [(row[0], row[1], row[2]) for row in rows]
    assert told == [(f"`local:{row.name}`", f"{row.size / 1e6:.0f} MB", row.licence) for row in CATALOG.values()]


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md", "noxfile.py"])
def test_the_size_of_the_download_is_told(page: str) -> None:
    assert f"{CATALOG[DEFAULT].size / 1e6:.0f} MB" in read(page)


def test_the_version_is_told_once() -> None:
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == loopwright.__version__


def test_extras_in_the_readme_exist() -> None:
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    assert set(re.findall(r"loopwright\[(\w+)\]", read("README.md"))) == set(extras)
