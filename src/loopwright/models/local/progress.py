"""Telling how far a local model is."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TextIO, TypeAlias

__all__ = ["ModelProgress", "ProgressListener", "ProgressPrinter", "Stage", "silent", "tell"]

_logger = logging.getLogger(__name__)

_TERMINAL_SECONDS = 0.1
_PLAIN_SECONDS = 5.0

Stage: TypeAlias = Literal["fetching", "skipped", "joining", "verifying", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """How far a local model is.

    Attributes:
        stage: `fetching` (bytes are coming), `skipped` (a source cannot serve, the next one is tried), `joining`
            (slices become one file), `verifying` (the SHA-256 is computed), `loading` (the server starts), `ready`, or
            `failed`.
        model: Its name.
        detail: More, in words; empty where there is no more to say.
        source: Where bytes come from, in words.
        target: The file that they go to.
        done: Bytes so far, where they are counted.
        total: Bytes in all, where they are counted.
    """

    stage: Stage
    model: str
    detail: str = ""
    source: str = ""
    target: str = ""
    done: int | None = None
    total: int | None = None


ProgressListener: TypeAlias = Callable[[ModelProgress], None]
"""Called from a worker thread, one event at a time. What it raises is logged and changes nothing."""


def silent(progress: ModelProgress) -> None:
    """Tell nobody."""
    del progress


def tell(listener: ProgressListener, progress: ModelProgress) -> None:
    """Call a listener; whoever only listens must not stop a download."""
    try:
        listener(progress)
    except Exception:
        _logger.exception("A progress listener of the local model %s failed.", progress.model)


class ProgressPrinter:
    """Prints progress to standard error: a line that renews itself in a terminal, a few plain lines elsewhere."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Print to a stream.

        Args:
            stream: Where to; what `sys.stderr` is at the time by default.
            clock: Tells seconds.
        """
        self._stream = stream
        self._clock = clock
        self._last: tuple[str, str, str] = ("", "", "")
        self._next_at = 0.0

    def __call__(self, progress: ModelProgress) -> None:
        """Print it, unless a line like it was printed a moment ago."""
        # There is no standard error in a program without a console.
        stream: TextIO | None = self._stream or sys.stderr
        if stream is None:
            return
        in_terminal = stream.isatty()
        if not self._is_due(progress, _TERMINAL_SECONDS if in_terminal else _PLAIN_SECONDS):
            return
        line = _line(progress)
        if in_terminal:
            stays = progress.stage in ("skipped", "ready", "failed")
            stream.write(f"\r\x1b[K{line}" + ("\n" if stays else ""))
        else:
            stream.write(line + "\n")
        stream.flush()

    def _is_due(self, progress: ModelProgress, every: float) -> bool:
        now = self._clock()
        this = (progress.stage, progress.source, progress.detail)
        is_last = progress.done is not None and progress.done == progress.total
        if this == self._last and not is_last and now < self._next_at:
            return False
        self._last = this
        self._next_at = now + every
        return True


def _line(progress: ModelProgress) -> str:
    line = f"[local model] {progress.model}: {progress.stage}"
    if progress.done is not None and progress.total:
        line += f" {progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB"
    if progress.source:
        line += f" from {progress.source}"
    if progress.target:
        line += f" to {progress.target}"
    if progress.detail:
        line += f" ({progress.detail})"
    return line
