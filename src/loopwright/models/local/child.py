"""A child process that downloads into a folder: watched by the bytes that are there, ended when none come. Blocks."""

from __future__ import annotations

import atexit
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ChildFailed", "run_child"]

_LOOK_SECONDS = 0.25


class ChildFailed(Exception):  # its caller makes an error of it
    """The child did not do its work; the message is the last line that it said, or why it was ended."""


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    on_size: Callable[[int], None],
    stall_seconds: float,
) -> None:
    """Run a child until it ends.

    Args:
        command: Its command line.
        environment: Its environment variables.
        folder: Where it puts what it downloads.
        on_size: Told the bytes in the folder, every now and then.
        stall_seconds: It is ended when the folder has not changed in size for so long.

    Raises:
        ChildFailed: It ended with an error, or was ended.
    """
    options: dict[str, Any] = {"process_group": 0} if sys.platform != "win32" else {}
    process = subprocess.Popen(  # noqa: S603  # our own interpreter, and arguments from a table
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        text=True,
        encoding="utf-8",
        errors="replace",
        **options,
    )
    atexit.register(process.kill)
    try:
        said = _watch(process, folder, on_size, stall_seconds)
    finally:
        process.kill()
        process.wait()
        atexit.unregister(process.kill)
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        raise ChildFailed(lines[-1] if lines else f"it ended with status {process.returncode}")


def _watch(process: subprocess.Popen[str], folder: Path, on_size: Callable[[int], None], stall_seconds: float) -> str:
    size = -1
    changed_at = time.monotonic()
    while True:
        try:
            said, _ = process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            size_now = _size_of(folder)
            if size_now != size:
                size, changed_at = size_now, now
                on_size(size)
            elif now - changed_at > stall_seconds:
                raise ChildFailed(f"no byte came in {stall_seconds:g} s") from None
        else:
            return said


def _size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # it was moved or removed in between
            continue
    return total
