"""An answer that came whole, in the shape of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..events import ModelEvent, ResponseDone, ResponseError
from ..messages import AssistantMessage

__all__ = ["CompletedStream"]


class CompletedStream:
    """A `ModelStream` of one event: the whole answer."""

    __slots__ = ("_error", "_message", "_told", "failed_attempts")

    def __init__(
        self, message: AssistantMessage, error: Exception | None = None, *, failed_attempts: Sequence[Any] = ()
    ) -> None:
        """Tell one answer.

        Args:
            message: The answer.
            error: Why it failed, where it did.
            failed_attempts: What was tried before; see `loopwright.models.retry`.
        """
        self.failed_attempts = failed_attempts
        self._message = message
        self._error = error
        self._told = False

    def __aiter__(self) -> CompletedStream:
        return self

    async def __anext__(self) -> ModelEvent:
        if self._told:
            raise StopAsyncIteration
        self._told = True
        if self._error is not None or self._message.failed:
            return ResponseError(self._message, self._error)
        return ResponseDone(self._message)

    async def result(self) -> AssistantMessage:
        """The whole answer."""
        return self._message
