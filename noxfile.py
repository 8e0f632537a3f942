"""Everything the project does, each in an environment that it makes itself.

`python -m pip install nox`, then `python -m nox -s NAME`; `python -m nox -l` lists the names, and `-R` uses the
environment of the last time as it is.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
# Some systems ship Python without the part that venv needs; virtualenv, which nox brings along, does without it.
nox.options.default_venv_backend = "venv" if find_spec("ensurepip") else "virtualenv"
nox.options.sessions = ["tests", "checks"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
CORPUS = [ROOT.parent / "shared" / "corpus" / group for group in ("openai_chat", "openai_compatible")]


def install(session: nox.Session, *extras: str, group: str | None = None) -> None:
    """Install the project, with extras and a dependency group, and say what is fetched."""
    project = f".[{','.join(extras)}]" if extras else "."
    # The pip that comes with Python may be too old for groups, so they are read here.
    packages = nox.project.dependency_groups(PROJECT, group) if group else ()
    session.log(f"From the package index: what {project}{f' and the group {group!r}' if group else ''} asks for")
    session.install("-e", project, *packages, env={"PIP_DISABLE_PIP_VERSION_CHECK": "1"})


@nox.session
def quickstart(session: nox.Session) -> None:
    """Run an agent on a model on this machine: no key, no account. Downloads 491 MB once."""
    install(session, "local", "aiohttp")
    session.run("python", "examples/quickstart.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, on asyncio and on trio: `nox -s tests -- -k NAME` for some."""
    install(session, "local", "aiohttp", group="test")
    session.run("python", "-X", "dev", "-m", "pytest", *(session.posargs or ["-q"]))


@nox.session
def checks(session: nox.Session) -> None:
    """Format, lint, types, layers."""
    install(session, "local", "aiohttp", group="checks")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy", "--strict")
    session.run("pyright", env={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    session.run("lint-imports")


@nox.session
def corpus(session: nox.Session) -> None:
    """Replay recorded provider traffic: `nox -s corpus -- DIR...`."""
    folders = session.posargs or [str(folder) for folder in CORPUS if folder.is_dir()]
    if not folders:
        session.error("Name the folders of recorded traffic: nox -s corpus -- DIR...")
    install(session)
    session.run("python", "tests/corpus/run.py", *folders)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure against a plain loop on the same HTTP client, in the same run."""
    if not (ROOT / "benchmarks" / "run.py").is_file():
        session.error("There is no benchmarks/run.py.")
    install(session, "aiohttp", group="bench")
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation strictly, into site/, and run its code."""
    install(session, "aiohttp", group="docs")
    session.run("mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "-m", "pytest", "-q", "tests/docs")
