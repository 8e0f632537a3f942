"""What the tests of the loop share: scripted streams, recorded events, compact traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from loopwright.errors import RunCancelled
from loopwright.events import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from loopwright.loop.options import LoopOptions
from loopwright.messages import AssistantMessage, Message, ToolCallPart, ToolResultMessage
from loopwright.models.base import Capabilities, ModelInfo
from loopwright.testing import ScriptedStream, answer, events_of
from loopwright.testing.history import check_history
from loopwright.tools.base import Tool

MODEL = ModelInfo("test", "test", "model")
TEXT_ONLY = ModelInfo("test", "test", "blind", Capabilities(images=False, files=False))


class Streams:
    """A stream function that plays answers, and remembers what it was asked."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.streams: list[ScriptedStream] = []
        self.contexts: list[Any] = []
        self.options: list[Any] = []
        self.metadata: list[Any] = []
        self.models: list[Any] = []
        self.on_request: Callable[[int], Any] | None = None

    @property
    def count(self) -> int:
        return len(self.contexts)

    async def __call__(self, model: Any, context: Any, options: Any, metadata: Any, /) -> ScriptedStream:
        at = self.count
        self.models.append(model)
        self.contexts.append(context)
        self.options.append(options)
        self.metadata.append(metadata)
        if self.on_request is not None:
            self.on_request(at)
        step = self.script[min(at, len(self.script) - 1)] if self.script else "done"
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            step = answer(step)
        if isinstance(step, ToolCallPart):
            step = answer(step)
        if isinstance(step, AssistantMessage):
            step = events_of(step)
        elif isinstance(step, list | tuple) and step and all(isinstance(item, ToolCallPart) for item in step):
            step = events_of(answer(*step))
        stream = step if not isinstance(step, list | tuple) else ScriptedStream(step)
        self.streams.append(stream)
        return stream


def options(stream: Any, *tools: Tool, **more: Any) -> LoopOptions:
    """Loop options with a model and a clock that stands still."""
    more.setdefault("model", MODEL)
    more.setdefault("clock", lambda: 1000.0)
    return LoopOptions(stream=stream, tools=tools, **more)


def named(name: str, function: Callable[..., Any], **more: Any) -> Tool:
    """A tool without a schema of its own, for tests that are not about schemas."""

    async def execute(**arguments: Any) -> Any:
        value = function(**arguments)
        return await value if hasattr(value, "__await__") else value

    return Tool(name, execute=execute, **more)


class Recorder:
    """A listener that remembers, and can act at the n-th event or at those that fit."""

    def __init__(self, act: Callable[[Any], Any] | None = None) -> None:
        self.events: list[Any] = []
        self.act = act

    async def __call__(self, event: Any) -> None:
        self.events.append(event)
        if self.act is not None:
            value = self.act(event)
            if hasattr(value, "__await__"):
                await value

    @property
    def trace(self) -> str:
        return trace(self.events)


def trace(events: Iterable[Any]) -> str:
    """Events in the notation of the golden traces."""
    return " ".join(_word(event) for event in events)


def _word(event: Any) -> str:
    match event:
        case MessageStart(message=message):
            return f"ms({_who(message)})"
        case MessageEnd(message=message):
            return f"me({_who(message)})"
        case MessageUpdate(event=inner):
            return f"mu({inner.type})"
        case ToolExecutionStart(call=call):
            return f"ts({call.name})"
        case ToolExecutionUpdate(call=call):
            return f"tu({call.name})"
        case ToolExecutionEnd(call=call, result=result):
            return f"te({call.name}{'!' if result.is_error else ''})"
        case _:
            raise AssertionError(f"not an event of the loop: {event!r}")


def _who(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return f"{message.tool_name}{'!' if message.is_error else ''}"
    return message.role[0]


def roles(history: Iterable[Message]) -> str:
    """A history in one word per message: u, a, and the tool names of results, with ! for errors."""
    return " ".join(_who(message) for message in history)


def valid(history: list[Message]) -> None:
    """Every call of a finished assistant has exactly one result."""
    check_history(history)


def calls(*names: str) -> list[ToolCallPart]:
    """Calls without arguments, with the name as id."""
    return [ToolCallPart(name, name) for name in names]


def is_cancelled(error: BaseException, reason: object) -> bool:
    """Whether an error is the cancellation with this reason, the same object."""
    return isinstance(error, RunCancelled) and (error is reason or error.reason is reason)
