"""Telling the life of a run from its stream parts, to those who observe it and to `agent.events()`."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from .events import (
    Abort,
    Error,
    Finish,
    FinishStep,
    StartStep,
    StreamPart,
    ToolError,
    ToolExecutionStart,
    ToolOutputDenied,
    ToolResult,
)
from .lifecycle import (
    Aborted,
    AgentEvent,
    Chunk,
    Errored,
    ErrorSource,
    Finished,
    Started,
    StepFinished,
    StepStarted,
    ToolCallFinished,
    ToolCallStarted,
)
from .messages import Message
from .results import GenerateResult, StepResult
from .telemetry.integration import Emitter

__all__ = ["Narrator"]


class _Run(Protocol):
    """What is told about."""

    steps: list[StepResult]

    @property
    def messages(self) -> list[Message]: ...
    def outcome(self) -> GenerateResult[Any]: ...
    def source_of_error(self, error: Exception) -> ErrorSource: ...


class Narrator:
    """Makes the events of one run's life.

    Attributes:
        keeps: Whether events are kept in `told`.
        told: Events that nobody has read.
    """

    __slots__ = ("_emitter", "_ended", "_ran", "_step", "keeps", "told")

    def __init__(self, emitter: Emitter | None) -> None:
        self.keeps = False
        self.told: deque[AgentEvent] = deque()
        self._emitter = emitter
        self._step = 0
        self._ran: dict[int, str] = {}
        self._ended = False

    async def begin(self, started: Started) -> None:
        """The run begins."""
        await self._emit(started)

    async def tell(self, part: StreamPart | ToolExecutionStart, run: _Run) -> None:
        """Something happened."""
        if not self._ended:
            event = self._event(part, run)
            self._ended = isinstance(event, Errored | Aborted | Finished)
            await self._emit(event)

    async def _emit(self, event: AgentEvent) -> None:
        if self.keeps:
            self.told.append(event)
        if self._emitter is not None:
            await self._emitter.tell(event)

    def _event(self, part: StreamPart | ToolExecutionStart, run: _Run) -> AgentEvent:
        match part:
            case StartStep(step_number=number):
                self._step = number
                return StepStarted(number, tuple(run.messages))
            case FinishStep(step_number=number, finish_reason=reason, usage=usage):
                return StepFinished(number, run.steps[number - 1], reason, usage)
            case ToolExecutionStart(call=call, ran=ran):
                self._ran[id(call)] = ran or call.name
                arguments = call.input
                told = call.arguments if arguments is None else arguments
                return ToolCallStarted(call.id, ran or call.name, told, self._step)
            case (
                ToolResult(call=call, result=result)
                | ToolError(call=call, result=result)
                | ToolOutputDenied(call=call, result=result)
            ):
                name = self._ran.pop(id(call), None)
                if name is None:  # it never began
                    return Chunk(part, self._step)
                return ToolCallFinished(call.id, name, result.status, result, self._step)
            case Error(error=error, exception=exception):
                source = "unknown" if exception is None else run.source_of_error(exception)
                return Errored(error, source, exception)
            case Abort(reason=reason):
                return Aborted(reason, tuple(run.steps))
            case Finish(finish_reason=reason, usage=usage):
                return Finished(run.outcome(), reason, usage)
            case _:
                return Chunk(part, self._step)
