"""Telling how far a local model is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TextIO, TypeAlias

__all__ = ["ModelProgress", "ProgressListener", "ProgressPrinter", "silent"]


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """How far a local model is.

    Attributes:
        stage: `fetching`, `verifying`, `loading` or `ready`.
        model: Its name.
        detail: What is going on, in words.
        done: Bytes so far, where they are counted.
        total: Bytes in all, where they are counted.
    """

    stage: Literal["fetching", "verifying", "loading", "ready"]
    model: str
    detail: str = ""
    done: int | None = None
    total: int | None = None


ProgressListener: TypeAlias = Callable[[ModelProgress], None]
"""Called from a worker thread."""


def silent(progress: ModelProgress) -> None:
    """Tell nobody."""
    del progress


class ProgressPrinter:
    """Prints progress to standard error: a line that renews itself in a terminal, a few plain lines elsewhere."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Print to a stream, standard error by default."""
        self._stream = stream
        self._clock = clock
        self._last: tuple[str, str] = ("", "")
        self._next_at = 0.0

    def __call__(self, progress: ModelProgress) -> None:
        """Print it, unless the same was printed a moment ago."""
        stream = self._stream or sys.stderr
        in_terminal = stream.isatty()
        now = self._clock()
        news = (progress.stage, progress.detail) != self._last
        finished = progress.done is not None and progress.done == progress.total
        if not news and not finished and now < self._next_at:
            return
        self._last = (progress.stage, progress.detail)
        self._next_at = now + (0.2 if in_terminal else 5.0)
        line = f"[local model] {progress.stage} {progress.model}{_counted(progress)}"
        if progress.detail:
            line += f": {progress.detail}"
        if in_terminal:
            end = "\n" if progress.stage == "ready" else ""
            stream.write(f"\r\x1b[K{line}{end}")
        else:
            stream.write(line + "\n")
        stream.flush()


def _counted(progress: ModelProgress) -> str:
    if progress.done is None or not progress.total:
        return ""
    return f", {progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB"
