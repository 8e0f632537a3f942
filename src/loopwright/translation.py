"""Saying what the loop tells in the words of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from .engine import Machine
from .events import (
    File,
    FinishStep,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StartStep,
    StepReset,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolError,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolOutputDenied,
    ToolProgress,
    ToolResult,
)
from .loop.run import EngineEvent
from .messages import AssistantMessage, ToolApprovalRequestPart, ToolCallPart, ToolResultMessage, UserMessage

__all__ = ["PARTS_ALREADY", "Translator"]

PARTS_ALREADY: Final = frozenset(
    {
        TextStart, TextDelta, TextEnd, ReasoningStart, ReasoningDelta, ReasoningEnd, ToolInputStart, ToolInputDelta,
        ToolInputEnd, Source, File, StepReset,
    }
)  # fmt: skip
"""What the loop yields that a stream tells in the same words: handed on as it is."""


class Translator:
    """Keeps the parts that are not yet told.

    Attributes:
        parts: What is to be told next. `ToolExecutionStart` stands among them where `tells_starts`; it is no part of a
            stream, and only the life of a run is told with it.
        tells_starts: Whether it does.
        machine: Follows the phases of the run.
        running: The calls that run.
    """

    __slots__ = ("_on_input", "_untold", "machine", "parts", "running", "tells_starts")

    def __init__(self, on_input: Callable[[MessageEnd], None]) -> None:
        """Begin with nothing.

        Args:
            on_input: Told of each user message in the history.
        """
        self.parts: deque[StreamPart | ToolExecutionStart] = deque()
        self.tells_starts = False
        self.machine = Machine()
        self.running: list[ToolCallPart] = []
        self._untold: deque[ToolCallPart] = deque()
        self._on_input = on_input

    def take(self, event: EngineEvent) -> None:  # one case for each event
        """Translate one event of the loop."""
        match event:
            case StartStep():
                self.machine.move("request")
                self.parts.append(event)
            case FinishStep():
                self.machine.move("step-done")
                self.parts.append(event)
            case MessageStart(message=AssistantMessage()):
                self.machine.move("answer")
            case MessageEnd(message=AssistantMessage() as message):
                self._tell_calls(message)
            case MessageEnd(message=UserMessage()):
                self._on_input(event)
            case MessageEnd(message=ToolResultMessage() as result):
                self._tell_unstarted(result)
            case ToolExecutionStart(call=call):
                self.machine.move("execute")
                self.running.append(call)
                if self.tells_starts:
                    self.parts.append(event)
            case ToolExecutionUpdate(call=call, progress=progress):
                self.parts.append(ToolProgress(call, progress))
            case ToolExecutionEnd(call=call, result=result):
                self._untold = deque(other for other in self._untold if other is not call)
                self.running = [other for other in self.running if other is not call]
                self._tell_result(call, result)
            case _:
                return

    def _tell_calls(self, message: AssistantMessage) -> None:
        calls = message.tool_calls
        self._untold = deque(calls)
        self.parts.extend(ToolCall(call) for call in calls)
        self.parts.extend(
            ToolApprovalRequest(part, calls[part.call_index])
            for part in message.content
            if isinstance(part, ToolApprovalRequestPart) and part.call_index < len(calls)
        )

    def _tell_result(self, call: ToolCallPart, result: ToolResultMessage) -> None:
        if result.status == "denied":
            self.parts.append(ToolOutputDenied(call, result))
        else:
            self.parts.append(ToolError(call, result) if result.is_error else ToolResult(call, result))

    def _tell_unstarted(self, result: ToolResultMessage) -> None:
        """A call that never ran has no execution events; its result is told all the same."""
        for call in self._untold:
            if result.status == "skipped" and call.id == result.tool_call_id:
                self._untold.remove(call)
                self._tell_result(call, result)
                return
