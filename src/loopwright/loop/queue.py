"""A queue of inputs for a run: nothing that was taken and not delivered is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from ..events import LoopEvent, MessageEnd
from ..messages import UserMessage, parts_of
from ..signals import AbortSignal
from .options import Content

__all__ = ["MessageQueue"]


class MessageQueue:
    """Inputs that wait for a run.

    Give `poll` to the loop as `get_steering_messages` or `get_follow_up_messages`, and `observe` each of its events. An
    input that was polled is in flight until an event says that it is in the history, or the same run polls again, which
    it does only once it has taken what it polled. What a run that ended left in flight goes back to the front at the
    next run's poll, or at `restore`.

    Attributes:
        mode: `one-at-a-time`: each poll takes one input; `all`: each poll takes all.
    """

    def __init__(
        self, inputs: Iterable[Content] = (), *, mode: Literal["one-at-a-time", "all"] = "one-at-a-time"
    ) -> None:
        self.mode = mode
        self._waiting: deque[Content] = deque(inputs)
        self._in_flight: deque[Content] = deque()
        self._run: AbortSignal | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def pending(self) -> list[Content]:
        """The inputs that are not delivered, in order."""
        return [*self._in_flight, *self._waiting]

    def push(self, content: Content) -> None:
        """Add an input at the end."""
        self._waiting.append(content)

    async def poll(self, signal: AbortSignal | None = None) -> Sequence[Content]:
        """Take what a run may have now.

        Args:
            signal: The run's; it tells one run from another.
        """
        if signal is not None and signal is self._run:
            self._in_flight.clear()
        self.restore()
        self._run = signal
        count = len(self._waiting) if self.mode == "all" else min(1, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._in_flight.extend(taken)
        return taken

    def observe(self, event: LoopEvent) -> bool:
        """Learn from an event of the run which input was delivered.

        Returns:
            Whether it was one of this queue.
        """
        message = event.message if isinstance(event, MessageEnd) else None
        if self._in_flight and isinstance(message, UserMessage) and parts_of(self._in_flight[0]) == message.content:
            self._in_flight.popleft()
            return True
        return False

    def restore(self) -> None:
        """Put what is in flight back to the front."""
        while self._in_flight:
            self._waiting.appendleft(self._in_flight.pop())
