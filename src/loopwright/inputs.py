"""What is said to a run as it goes on: steering, read before the next request, and follow-ups, read at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from .errors import RunError
from .events import InputDelivered, MessageEnd
from .loop.checks import check_content
from .loop.options import Content, PollInputs
from .loop.queue import MessageQueue
from .messages import Message
from .models.base import ModelIdentity

__all__ = ["RunInputs"]

QueueName = Literal["steering", "follow-up"]


class RunInputs:
    """The two queues of a run, and which input each of their messages is."""

    __slots__ = ("_closed", "_count", "_ids", "_queues", "_run_id")

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._queues: dict[QueueName, MessageQueue] = {
            "steering": MessageQueue(mode="all"),
            "follow-up": MessageQueue(mode="all"),
        }
        self._ids: dict[QueueName, deque[str]] = {"steering": deque(), "follow-up": deque()}
        self._count = 0
        self._closed = False

    def add(self, name: QueueName, content: Content, model: ModelIdentity | None) -> str:
        """Queue an input for this model.

        Returns:
            Names the input.

        Raises:
            InvalidInputError: The content cannot be sent.
            RunError: The run has ended.
        """
        if self._closed:
            raise RunError("The run has ended, so nothing can be added to it. Start another with its messages.")
        checked = content if model is None else check_content(content, model)
        self._count += 1
        input_id = f"{self._run_id}/input/{self._count}"
        self._ids[name].append(input_id)
        self._queues[name].push(checked)
        return input_id

    @property
    def polls(self) -> tuple[PollInputs, PollInputs]:
        """Where the loop gets steering and follow-ups from."""
        return _unless_empty(self._queues["steering"]), _unless_empty(self._queues["follow-up"])

    @property
    def unread(self) -> list[Content]:
        """What no request has read: steering, then follow-ups."""
        return [content for queue in self._queues.values() for content in queue.pending]

    def delivered(self, event: MessageEnd, history: Sequence[Message]) -> InputDelivered | None:
        """Which input a user message is that came into the history, if any."""
        for name, queue in self._queues.items():
            if queue.observe(event):
                index = next(i for i in range(len(history) - 1, -1, -1) if history[i] is event.message)
                return InputDelivered(self._ids[name].popleft(), name, index)
        return None

    def close(self) -> None:
        """The run has ended: take no more."""
        self._closed = True


def _unless_empty(queue: MessageQueue) -> PollInputs:
    """Poll a queue that has something; nearly always it has nothing, and an await under a scope costs 10 µs."""
    return lambda signal: queue.poll(signal) if len(queue) else ()
