"""Async generators that their owner closes, and the event loop does not."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Generator
from typing import Any, Generic, TypeVar, cast

__all__ = ["FirstItem"]

T = TypeVar("T")


class FirstItem(Generic[T]):
    """Awaited once, gives an async generator's first item, and keeps the generator out of the loop's hands.

    At its end asyncio closes all the generators that it knows at once, nested ones too, which fails where one is being
    closed by the one above it. A loop learns of a generator through a hook of the interpreter when the generator
    starts, so the hooks are away while this one starts, and with it those that it starts before it first waits.
    """

    __slots__ = ("_body", "_steps")

    def __init__(self, body: AsyncGenerator[T, None]) -> None:
        self._body = body
        self._steps: Generator[Any, Any, T] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return cast("Generator[Any, Any, T]", self)  # an iterator that can be sent to is all that await needs

    def __iter__(self) -> FirstItem[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Go on after a wait. The first time, start."""
        if self._steps is not None:
            return self._steps.send(value)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            self._steps = self._body.__anext__().__await__()
            return self._steps.send(None)
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def throw(self, *error: Any) -> Any:
        """End a wait with an error."""
        if self._steps is None:
            raise RuntimeError("An await starts with send, so there is no wait to end.")
        return self._steps.throw(*error)

    def close(self) -> None:
        """Give up waiting."""
        if self._steps is not None:
            self._steps.close()
