"""Work that a finalizer leaves to its event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.lowlevel import current_token

__all__ = ["Later"]


class Later:
    """Runs functions in the event loop where it was made, soon, and from wherever it is called.

    Never at once: a finalizer may run in the middle of anything, in another thread, and after its loop has ended while
    another one runs.
    """

    __slots__ = ("_schedule",)

    def __init__(self) -> None:
        loop: Any = current_token().native_token
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
