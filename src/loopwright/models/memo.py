"""What was made of a history's messages, kept from request to request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..messages import Message

__all__ = ["MessageMemo"]

T = TypeVar("T")


class MessageMemo(Generic[T]):
    """One piece per message, made once as long as all messages before it stay the same."""

    __slots__ = ("_messages", "_pieces")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._pieces: list[T] = []

    def pieces(self, messages: Sequence[Message], make: Callable[[Message], T]) -> list[T]:
        """The pieces of these messages, in order. The list is the memo's own: read it, and leave it as it is.

        Args:
            messages: All messages of the request.
            make: Makes the piece of one message, of nothing but that message.
        """
        kept = len(self._messages)
        # Comparing lists compares identities first, so a history that only grew costs next to nothing here.
        if messages[:kept] != self._messages:
            kept = _same_prefix(self._messages, messages)
            del self._messages[kept:], self._pieces[kept:]
        for message in messages[kept:]:
            piece = make(message)
            self._messages.append(message)
            self._pieces.append(piece)
        return self._pieces


def _same_prefix(kept: Sequence[Message], messages: Sequence[Message]) -> int:
    count = 0
    for old, new in zip(kept, messages, strict=False):
        if old is not new and old != new:
            break
        count += 1
    return count
