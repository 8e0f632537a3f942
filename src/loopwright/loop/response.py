"""One model answer: build the request, ask once, read the stream to its end."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from ..errors import ModelFailed, StreamProtocolError
from ..events import ModelEvent, ResponseDone, ResponseError, ResponseStart, StepReset, TextDelta
from ..messages import AssistantMessage
from ..models.base import ModelIdentity, ModelStream, RequestContext, StreamOptions
from .options import RequestMetadata, StreamFunction
from .waits import AbortableWaits, finish_quietly

__all__ = ["ModelResponse", "ask", "takes_metadata"]

_CLOSE_SECONDS = 2.0


class ModelResponse:
    """The answer to one request, as it comes.

    `read` gives the events that came, one list at a time, until `message` is set.
    """

    __slots__ = ("_closed", "_draft", "_next", "_pop_ready", "_waits", "failure", "message", "started", "stream")

    def __init__(self, stream: ModelStream, waits: AbortableWaits) -> None:
        self.stream = stream
        self._waits = waits
        self._next = aiter(stream).__anext__
        self._pop_ready: Callable[[], ModelEvent | None] | None = getattr(stream, "pop_ready", None)
        self._draft: list[str] = []
        self._closed = False
        self.started = False
        self.message: AssistantMessage | None = None
        self.failure: Exception | None = None

    @property
    def draft_text(self) -> str:
        """The text that was read so far; empty once the answer is complete."""
        return "" if self.message is not None else "".join(self._draft)

    async def read(self) -> list[ModelEvent]:
        """Wait for more of the answer.

        Returns:
            The events that came, the last one's message in `message` if the answer ended. `ResponseStart` and the
            last event are not among them: they are what `started` and `message` say.

        Raises:
            StreamProtocolError: The stream broke its contract.
            RunCancelled: The run's signal was aborted.
        """
        try:
            event: ModelEvent | None = await self._waits.wait(self._next())
        except StopAsyncIteration:
            raise StreamProtocolError(
                "The model stream ended without ResponseDone or ResponseError, so the answer is not known to be "
                "complete. A stream must end with one of the two."
            ) from None
        events: list[ModelEvent] = []
        pop_ready = self._pop_ready
        while event is not None:
            kind = type(event)
            if kind is TextDelta and self.started:
                self._draft.append(cast("TextDelta", event).text)
                events.append(event)
            elif kind is ResponseStart:
                self.started = True
            elif kind is ResponseDone or kind is ResponseError:
                await self._end(cast("ResponseDone | ResponseError", event))
                break
            elif self.started or kind is StepReset:
                if kind is StepReset:
                    self._draft.clear()
                events.append(event)
            else:
                raise StreamProtocolError(
                    f"The model stream sent {event.type!r} before 'response-start'. A stream must begin with "
                    "ResponseStart, or be a single ResponseDone or ResponseError."
                )
            event = pop_ready() if pop_ready is not None else None
        return events

    async def _end(self, event: ResponseDone | ResponseError) -> None:
        if isinstance(event, ResponseDone):
            self.message = await self._waits.wait(self.stream.result())
            return
        message = event.message
        if not message.failed:
            message = replace(message, finish_reason="error")
        if message.error is None and event.error is not None:
            message = replace(message, error=str(event.error))
        self.message = message
        self.failure = event.error or ModelFailed(message)

    async def close(self) -> None:
        """Free the connection. Safe to call again, also when cancelled."""
        if self._closed:
            return
        self._closed = True
        closing = getattr(self.stream, "aclose", None)
        if closing is not None:
            await finish_quietly(closing, _CLOSE_SECONDS)


def takes_metadata(stream: StreamFunction) -> bool:
    """Whether a stream function takes the fourth argument; one whose signature cannot be read does."""
    try:
        signature = inspect.signature(stream)
    except (TypeError, ValueError):
        return True
    positional = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return True
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional += 1
    return positional >= 4


async def ask(
    stream: StreamFunction,
    model: ModelIdentity,
    context: RequestContext,
    options: StreamOptions,
    metadata: RequestMetadata,
    *,
    with_metadata: bool,
    waits: AbortableWaits,
) -> ModelResponse:
    """Call the stream function, once.

    Raises:
        RunCancelled: The run's signal was aborted first.
    """
    function = cast("Callable[..., Any]", stream)
    arguments = (model, context, options, metadata)
    answer = await waits.call(function, *arguments[: 4 if with_metadata else 3])
    return ModelResponse(answer, waits)
