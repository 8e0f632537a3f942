"""The life of a run, told whole: what `agent.events()` yields, and what telemetry observes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .errors import ModelError, ModelFailed, StreamProtocolError
from .events import ErrorInfo, StreamPart
from .messages import Message, ToolResultMessage
from .results import GenerateResult, StepResult
from .usage import Usage

__all__ = [
    "Aborted",
    "AgentEvent",
    "Chunk",
    "ErrorSource",
    "Errored",
    "Finished",
    "ModelCallFinished",
    "ModelCallStarted",
    "Started",
    "StepFinished",
    "StepStarted",
    "TelemetryOnly",
    "ToolCallFinished",
    "ToolCallStarted",
    "source_of",
]

ErrorSource: TypeAlias = Literal["hook", "tool", "prepare-step", "prepare-call", "model", "unknown"]
"""Where a run failed."""


@dataclass(slots=True)
class Started:
    """The run began.

    Attributes:
        prompt: What the user said, None where the run goes on with its messages.
        messages: The messages that were given.
    """

    prompt: Any
    messages: Sequence[Message]
    type: Literal["started"] = "started"


@dataclass(slots=True)
class StepStarted:
    """A step began: the request is about to be made."""

    step_number: int
    messages: Sequence[Message]
    type: Literal["step-started"] = "step-started"


@dataclass(slots=True)
class Chunk:
    """A stream part that has no event of its own here: text, reasoning, tool input, progress."""

    part: StreamPart
    step_number: int
    type: Literal["chunk"] = "chunk"


@dataclass(slots=True)
class ModelCallStarted:
    """A model is asked. Told to telemetry only."""

    step_number: int
    provider: str
    model: str
    type: Literal["model-call-started"] = "model-call-started"


@dataclass(slots=True)
class ModelCallFinished:
    """A model call is over, on whatever way. Told to telemetry only.

    Attributes:
        step_number: The step.
        provider: Who was asked.
        model: Which model.
        finish_reason: Why the answer ended; None where there is no whole answer.
        usage: Tokens of the request, None where not reported.
        error: Why there is no answer.
    """

    step_number: int
    provider: str
    model: str
    finish_reason: str | None = None
    usage: Usage | None = None
    error: ErrorInfo | None = None
    type: Literal["model-call-finished"] = "model-call-finished"


@dataclass(slots=True)
class ToolCallStarted:
    """A call is about to run.

    Attributes:
        tool_call_id: The call.
        tool_name: The tool that runs.
        input: The arguments as the model wrote them, as an object where they are one.
        step_number: The step; 0 for a call that was resumed before the first.
    """

    tool_call_id: str
    tool_name: str
    input: Any
    step_number: int
    type: Literal["tool-call-started"] = "tool-call-started"


@dataclass(slots=True)
class ToolCallFinished:
    """A call ended.

    Attributes:
        tool_call_id: The call.
        tool_name: The tool that ran.
        status: How it ended, as in `ToolResultMessage.status`.
        result: Its result; None where outputs are not told.
        step_number: The step; 0 for a call that was resumed before the first.
    """

    tool_call_id: str
    tool_name: str
    status: str
    result: ToolResultMessage | None
    step_number: int
    type: Literal["tool-call-finished"] = "tool-call-finished"


@dataclass(slots=True)
class StepFinished:
    """A step is complete; `step` is None where outputs are not told."""

    step_number: int
    step: StepResult | None
    finish_reason: str
    usage: Usage | None
    type: Literal["step-finished"] = "step-finished"


@dataclass(slots=True)
class Errored:
    """The run failed. The last event.

    Attributes:
        error: The exception as data.
        source: Where it failed.
        exception: The exception itself.
    """

    error: ErrorInfo
    source: ErrorSource
    exception: Exception | None = field(default=None, compare=False, repr=False)
    type: Literal["errored"] = "errored"


@dataclass(slots=True)
class Aborted:
    """The run was cancelled. The last event.

    Attributes:
        reason: Why, as text.
        steps: The completed steps.
    """

    reason: str
    steps: Sequence[StepResult]
    type: Literal["aborted"] = "aborted"


@dataclass(slots=True)
class Finished:
    """The run ended well. The last event; `result` is None where outputs are not told."""

    result: GenerateResult[Any] | None
    finish_reason: str
    usage: Usage | None
    type: Literal["finished"] = "finished"


AgentEvent: TypeAlias = (
    Started | StepStarted | Chunk | ToolCallStarted | ToolCallFinished | StepFinished | Errored | Aborted | Finished
)
TelemetryOnly: TypeAlias = ModelCallStarted | ModelCallFinished


def source_of(error: BaseException) -> ErrorSource:
    """Where a failure comes from, as far as its class says."""
    return "model" if isinstance(error, ModelError | ModelFailed | StreamProtocolError) else "unknown"
