"""Models that answer from a script, for tests of agents and of the loop."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Self, TypeAlias, cast
from zlib import crc32

from ..events import (
    File,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseDone,
    ResponseError,
    ResponseStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from ..messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
)
from ..models.base import Capabilities, ModelRequest
from ..usage import Usage

__all__ = ["Gate", "Script", "ScriptedModel", "ScriptedStream", "answer", "call", "events_of"]

Gate: TypeAlias = Callable[[], Awaitable[object]]
"""Awaited in the middle of a stream: a barrier."""

Script: TypeAlias = (
    str
    | AssistantMessage
    | AssistantPart
    | Sequence[str | AssistantPart]
    | Sequence[ModelEvent | Gate | Exception]
    | Exception
)
"""One answer: its text, the message, its parts, the events with gates between them, or the error that is raised."""


def call(name: str, /, *, id: str | None = None, **arguments: Any) -> ToolCallPart:
    """A tool call with these arguments.

    Args:
        name: The tool.
        id: The call's id; made from the name and the arguments when None.
        arguments: JSON-compatible.
    """
    text = json.dumps(arguments)
    return ToolCallPart(id or f"call_{name}_{crc32(text.encode()):08x}", name, text)


def answer(
    *parts: str | AssistantPart, finish_reason: str | None = None, usage: Usage | None = None, **fields: Any
) -> AssistantMessage:
    """An answer of these parts; the finish reason is `tool-calls` where it has calls, else `stop`."""
    content = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    has_calls = any(isinstance(part, ToolCallPart) for part in content)
    reason = finish_reason or ("tool-calls" if has_calls else "stop")
    return AssistantMessage(content, finish_reason=reason, usage=usage, **fields)


def events_of(message: AssistantMessage) -> list[ModelEvent]:
    """The events that a streamed answer would come as: text in words, arguments in pieces."""
    events: list[ModelEvent] = [ResponseStart()]
    for index, part in enumerate(message.content):
        match part:
            case TextPart(text=text):
                events.append(TextStart(index))
                events.extend(TextDelta(index, piece) for piece in _words(text))
                events.append(TextEnd(index))
            case ReasoningPart(text=text):
                events.append(ReasoningStart(index))
                events.extend(ReasoningDelta(index, piece) for piece in _words(text))
                events.append(ReasoningEnd(index))
            case ToolCallPart(id=call_id, name=name, arguments=arguments):
                events.append(ToolInputStart(index, call_id, name))
                pieces = [arguments[at : at + 8] for at in range(0, len(arguments), 8)]
                events.extend(ToolInputDelta(index, call_id, piece) for piece in pieces)
                events.append(ToolInputEnd(index, call_id))
            case SourcePart():
                events.append(Source(part))
            case FilePart() | ImagePart():
                events.append(File(part))
            case _:
                continue
    events.append(ResponseError(message) if message.failed else ResponseDone(message))
    return events


class ScriptedStream:
    """A `ModelStream` that plays a list.

    Attributes:
        reads: How many events were asked for.
        result_reads: How often `result()` was awaited.
        closes: How often it was closed.
    """

    def __init__(
        self, script: Iterable[ModelEvent | Gate | Exception], message: AssistantMessage | None = None
    ) -> None:
        """Prepare a stream.

        Args:
            script: Events, gates that are awaited, exceptions that are raised.
            message: What `result()` gives; by default the message of the `ResponseDone` that was played.
        """
        self._script = iter(list(script))
        self._message = message
        self.reads = 0
        self.result_reads = 0
        self.closes = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        self.reads += 1
        for item in self._script:
            if isinstance(item, Exception):
                raise item
            if callable(item):
                await item()
                continue
            if isinstance(item, ResponseDone) and self._message is None:
                self._message = item.message
            return item
        raise StopAsyncIteration

    async def result(self) -> AssistantMessage:
        """The complete answer."""
        self.result_reads += 1
        assert self._message is not None, "result() was awaited before the scripted stream was done"
        return self._message

    async def aclose(self) -> None:
        """Count that it was closed."""
        self.closes += 1


class ScriptedModel:
    """A `LanguageModel` that gives scripted answers, one for each request.

    Use it as a context manager, or call `assert_done()`, so that answers which were never asked for fail the test.

    Attributes:
        requests: The requests that were made.
        streams: The streams that were handed out.
    """

    def __init__(
        self,
        script: Iterable[Script | Callable[[ModelRequest], Any]],
        *,
        provider: str = "scripted",
        api: str = "scripted",
        name: str = "script",
        capabilities: Capabilities = Capabilities(),  # noqa: B008  # immutable
        repeat_last: bool = False,
    ) -> None:
        """Prepare a model.

        Args:
            script: The answers in order. A function is given the request, where it may assert, and returns the answer;
                it may be async.
            provider: Who serves it.
            api: The wire it is said to speak.
            name: Its name.
            capabilities: What it is said to be able to do.
            repeat_last: Give the last answer again and again.
        """
        self.provider = provider
        self.api = api
        self.name = name
        self.capabilities = capabilities
        self.requests: list[ModelRequest] = []
        self.streams: list[ScriptedStream] = []
        self._script = list(script)
        self._repeat_last = repeat_last

    async def stream(self, request: ModelRequest) -> ScriptedStream:
        """Play the next answer."""
        stream = self._stream_of(await self._next(request))
        self.streams.append(stream)
        return stream

    async def generate(self, request: ModelRequest) -> AssistantMessage:
        """Give the next answer whole."""
        stream = self._stream_of(await self._next(request))
        async for event in stream:
            if isinstance(event, ResponseDone):
                return event.message
            if isinstance(event, ResponseError):
                if event.error is not None:
                    event.error.answer = event.message  # type: ignore[attr-defined]  # as ModelError.answer
                    raise event.error
                return event.message
        raise AssertionError("A scripted answer must end with ResponseDone or ResponseError.")

    async def _next(self, request: ModelRequest) -> Script:
        at = len(self.requests)
        self.requests.append(request)
        if at >= len(self._script):
            if not (self._repeat_last and self._script):
                raise AssertionError(
                    f"The scripted model was asked {at + 1} times, but its script has only {len(self._script)} "
                    f"answers. The last message it was sent: {request.context.messages[-1:]!r}"
                )
            at = len(self._script) - 1
        step: Any = self._script[at]
        if callable(step):
            step = step(request)
            if inspect.isawaitable(step):
                step = await step
        return cast("Script", step)

    def _stream_of(self, step: Script) -> ScriptedStream:
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            step = answer(step)
        if isinstance(step, AssistantMessage):
            return ScriptedStream(events_of(self._stamped(step)))
        items: list[Any] = [step] if isinstance(step, AssistantPart) else list(step)
        if items and all(isinstance(item, str | AssistantPart) for item in items):
            return ScriptedStream(events_of(self._stamped(answer(*items))))
        for item in items:
            if not isinstance(item, ModelEvent | Exception) and not callable(item):
                raise TypeError(
                    f"A scripted answer cannot hold {item!r}: it is text, an AssistantMessage, a list of its parts, or "
                    "a list of model events, gates and exceptions."
                )
        return ScriptedStream([self._stamped_event(item) for item in items])

    def _stamped(self, message: AssistantMessage) -> AssistantMessage:
        if message.provider:
            return message
        return replace(message, provider=self.provider, api=self.api, model=self.name)

    def _stamped_event(self, item: ModelEvent | Gate | Exception) -> ModelEvent | Gate | Exception:
        if isinstance(item, ResponseDone | ResponseError):
            return replace(item, message=self._stamped(item.message))
        return item

    def assert_done(self) -> None:
        """Fail if an answer was never asked for.

        Raises:
            AssertionError: It says how many are left.
        """
        left = len(self._script) - len(self.requests)
        if left > 0:
            raise AssertionError(f"{left} of {len(self._script)} scripted answers were never asked for.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.assert_done()

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.provider}:{self.name}, {len(self.requests)} of {len(self._script)} answers given>"


def _words(text: str) -> list[str]:
    """Text in pieces that join to it again."""
    pieces = text.split(" ")
    return [piece + " " for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
