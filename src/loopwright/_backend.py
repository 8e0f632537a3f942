"""The few things that asyncio and trio do differently, in one place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any

from anyio.lowlevel import current_token

__all__ = ["Later", "Waker", "spawn"]

_running: set[Any] = set()


def spawn(body: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run `body` in a task that belongs to no one's scope. It must not raise.

    Args:
        body: What to run. Its own scopes bound its life.
        name: Seen in debuggers.
    """
    _start(current_token().native_token, body, name)


def _start(loop: Any, body: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    if hasattr(loop, "create_task"):
        task = loop.create_task(body(), name=name)
        _running.add(task)
        task.add_done_callback(_running.discard)
    else:
        import trio

        trio.lowlevel.spawn_system_task(body, name=name)


class Later:
    """Runs functions in the event loop where it was made, soon, and from wherever it is called.

    Never at once: a finalizer may run in the middle of anything, in another thread, and after its loop has ended while
    another one runs.
    """

    __slots__ = ("_loop", "_schedule")

    def __init__(self) -> None:
        loop: Any = current_token().native_token
        self._loop = loop
        self._schedule: Callable[[Callable[[], object]], object] = (
            loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon
        )

    def call(self, function: Callable[[], object]) -> bool:
        """Run `function` in the loop soon.

        Returns:
            False when the loop has ended: then it never runs.
        """
        try:
            self._schedule(function)
        except RuntimeError:
            return False
        return True

    def spawn(self, body: Callable[[], Coroutine[Any, Any, None]], name: str) -> bool:
        """Like the function `spawn`, in the loop where it was made, and from wherever it is called.

        Returns:
            False when the loop has ended: then it never runs.
        """
        # What is scheduled from a thread runs with the thread's context, in which no event loop can be found.
        return self.call(lambda: _start(self._loop, body, name))


class Waker(Later):
    """Wakes what waits in the event loop where it was made: at once from the loop's own thread, else soon."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def call(self, function: Callable[[], object]) -> bool:
        """Run `function`, which must do no more than wake.

        Returns:
            False when the loop has ended: then it never runs.
        """
        if threading.get_ident() == self._thread:
            function()
            return True
        return super().call(function)
