"""Waiting for something that a signal may cut short."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anyio import CancelScope, move_on_after

from .._backend import Waker
from ..signals import AbortSignal

__all__ = ["AbortableWaits", "finish_quietly"]

T = TypeVar("T")


class AbortableWaits:
    """All the waits of one run: one listener on the run's signal, however many waits there are.

    Only one wait is under way at a time, that of the task which drives the run.
    """

    __slots__ = ("_remove", "_scope", "_waker", "signal")

    def __init__(self, signal: AbortSignal) -> None:
        self.signal = signal
        self._scope: CancelScope | None = None
        self._waker = Waker()
        self._remove: Callable[[], None] = signal.add_listener(self._on_abort)

    def _on_abort(self) -> None:
        self._waker.call(self._cancel)

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Await, until it is done or the signal is aborted.

        What is done in the same moment as the abort counts as done.

        Args:
            awaitable: What to wait for; it is cancelled by an abort.

        Returns:
            Its value.

        Raises:
            RunCancelled: The signal was aborted first; this also stands for an error that the abort caused.
        """
        try:
            with CancelScope() as scope:
                self._scope = scope
                # An abort from another thread may have come before there was a scope to cancel.
                if self.signal.aborted:
                    scope.cancel()
                return await awaitable
        except Exception as error:
            if self.signal.aborted:
                raise self.signal.error() from error
            raise
        finally:
            self._scope = None
        raise self.signal.error()

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that may be async; wait for it if it is.

        Raises:
            RunCancelled: The signal was aborted first.
        """
        value = function(*arguments)
        return await self.wait(value) if inspect.isawaitable(value) else value

    def close(self) -> None:
        """Take the listener off the signal."""
        self._remove()


async def finish_quietly(closing: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Clean up even when cancelled, for a bounded time; an error in it does not hide the one that led here.

    Args:
        closing: What to call and await.
        seconds: How long it may take.
    """
    with CancelScope(shield=True), move_on_after(seconds):
        try:
            await closing()
        except Exception:
            return
