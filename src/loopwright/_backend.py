"""The few things that asyncio and trio do differently, in one place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any

from anyio.lowlevel import current_token

__all__ = ["Waker", "spawn"]

_running: set[Any] = set()


def spawn(body: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run `body` in a task that belongs to no one's scope. It must not raise.

    Args:
        body: What to run. Its own scopes bound its life.
        name: Seen in debuggers.
    """
    loop: Any = current_token().native_token
    if hasattr(loop, "create_task"):
        task = loop.create_task(body(), name=name)
        _running.add(task)
        task.add_done_callback(_running.discard)
    else:
        import trio

        trio.lowlevel.spawn_system_task(body, name=name)


class Waker:
    """Runs a function in the event loop where the waker was made, from any thread."""

    __slots__ = ("_schedule", "_thread")

    def __init__(self) -> None:
        loop: Any = current_token().native_token
        self._thread = threading.get_ident()
        self._schedule: Callable[[Callable[[], object]], object] = (
            loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon
        )

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` now when in the loop's own thread, else soon. A loop that has ended is left alone."""
        if threading.get_ident() == self._thread:
            function()
            return
        try:
            self._schedule(function)
        except RuntimeError:
            return
