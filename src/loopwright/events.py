"""What is told to whoever listens. Events never change the loop.

Three vocabularies, one built on the other:

- `ModelEvent`: what one model answer is made of, as a codec decodes it;
- `LoopEvent`: what `run_agent_loop` tells its listener (`MessageUpdate` carries the model event);
- `StreamPart`: what `agent.stream()` yields. Text, reasoning and tool-input events are the very objects that the
  codec made: nothing is wrapped or copied on the way.

Model events are slotted and not frozen, for a frozen one costs twice as much to make (0.54 µs to 0.24).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from .messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    SourcePart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolResultMessage,
)
from .usage import Usage

__all__ = [
    "Abort",
    "Error",
    "ErrorInfo",
    "File",
    "Finish",
    "FinishStep",
    "InputDelivered",
    "LoopEvent",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "ModelEvent",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningStart",
    "ResponseDone",
    "ResponseError",
    "ResponseStart",
    "Source",
    "StartStep",
    "StepReset",
    "StreamPart",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ToolApprovalRequest",
    "ToolCall",
    "ToolError",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "ToolInputDelta",
    "ToolInputEnd",
    "ToolInputStart",
    "ToolOutputDenied",
    "ToolProgress",
    "ToolResult",
]


_NOT_DATA = Field(exclude=True)


# ---------------------------------------------------------------- one model answer


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as data.

    Attributes:
        type: The class name of the exception.
        message: Its text.
    """

    type: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> ErrorInfo:
        """Describe an exception."""
        return cls(type(error).__name__, str(error))


@dataclass(slots=True)
class ResponseStart:
    """The model began to answer."""

    type: Literal["response-start"] = "response-start"


@dataclass(slots=True)
class TextStart:
    """A text block begins. `index` numbers the blocks of one answer, in order of appearance."""

    index: int
    type: Literal["text-start"] = "text-start"


@dataclass(slots=True)
class TextDelta:
    """More text of block `index`."""

    index: int
    text: str
    type: Literal["text-delta"] = "text-delta"


@dataclass(slots=True)
class TextEnd:
    """Text block `index` is complete."""

    index: int
    type: Literal["text-end"] = "text-end"


@dataclass(slots=True)
class ReasoningStart:
    """A reasoning block begins."""

    index: int
    type: Literal["reasoning-start"] = "reasoning-start"


@dataclass(slots=True)
class ReasoningDelta:
    """More reasoning of block `index`."""

    index: int
    text: str
    type: Literal["reasoning-delta"] = "reasoning-delta"


@dataclass(slots=True)
class ReasoningEnd:
    """Reasoning block `index` is complete."""

    index: int
    type: Literal["reasoning-end"] = "reasoning-end"


@dataclass(slots=True)
class ToolInputStart:
    """The model begins to write the arguments of a call."""

    index: int
    tool_call_id: str
    tool_name: str
    type: Literal["tool-input-start"] = "tool-input-start"


@dataclass(slots=True)
class ToolInputDelta:
    """More of the arguments' JSON text."""

    index: int
    tool_call_id: str
    delta: str
    type: Literal["tool-input-delta"] = "tool-input-delta"


@dataclass(slots=True)
class ToolInputEnd:
    """The arguments are complete."""

    index: int
    tool_call_id: str
    type: Literal["tool-input-end"] = "tool-input-end"


@dataclass(slots=True)
class Source:
    """The answer cites a source."""

    part: SourcePart
    type: Literal["source"] = "source"


@dataclass(slots=True)
class File:
    """The answer contains a file or an image."""

    part: Annotated[FilePart | ImagePart, Field(discriminator="type")]
    type: Literal["file"] = "file"


@dataclass(slots=True)
class StepReset:
    """The answer broke off and is asked for again: what was told of it since the step began is void.

    Attributes:
        attempt: Number of the attempt that begins, from 2.
        error: Why the one before broke off.
    """

    attempt: int
    error: ErrorInfo
    type: Literal["step-reset"] = "step-reset"


@dataclass(slots=True)
class ResponseDone:
    """The answer is complete. The last event of a stream."""

    message: AssistantMessage
    type: Literal["response-done"] = "response-done"


@dataclass(slots=True)
class ResponseError:
    """The answer failed: `message` holds what came before, marked `error` or `aborted`. The last event of a stream.

    Attributes:
        message: What there is of the answer.
        error: The cause, where there is an exception; it is what the run raises, and it is not serialised.
    """

    message: AssistantMessage
    error: Annotated[Exception | None, _NOT_DATA] = None
    type: Literal["response-error"] = "response-error"


ModelEvent: TypeAlias = (
    ResponseStart
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | Source
    | File
    | StepReset
    | ResponseDone
    | ResponseError
)


# ---------------------------------------------------------------- the loop


@dataclass(slots=True)
class MessageStart:
    """A message begins. For an answer that is being streamed, `message` is empty but for its origin."""

    message: Annotated[Message, Field(discriminator="role")]
    type: Literal["message-start"] = "message-start"


@dataclass(slots=True)
class MessageUpdate:
    """More of the answer being streamed; `event` is the model's own event."""

    event: Annotated[ModelEvent, Field(discriminator="type")]
    type: Literal["message-update"] = "message-update"


@dataclass(slots=True)
class MessageEnd:
    """A message is complete and in the history."""

    message: Annotated[Message, Field(discriminator="role")]
    type: Literal["message-end"] = "message-end"


@dataclass(slots=True)
class ToolExecutionStart:
    """A call is about to run; its arguments are raw, not yet validated.

    Attributes:
        call: The call as the model made it.
        ran: The tool that runs, where a repair chose another than the call names.
    """

    call: ToolCallPart
    ran: str | None = None
    type: Literal["tool-execution-start"] = "tool-execution-start"


@dataclass(slots=True)
class ToolExecutionUpdate:
    """A running tool reports progress: any value, best JSON-compatible."""

    call: ToolCallPart
    progress: Any
    type: Literal["tool-execution-update"] = "tool-execution-update"


@dataclass(slots=True)
class ToolExecutionEnd:
    """A call ended; its result is recorded.

    Attributes:
        call: The call as the model made it.
        result: Its one result.
        ran: The tool that ran, where a repair chose another than the call names.
    """

    call: ToolCallPart
    result: ToolResultMessage
    ran: str | None = None
    type: Literal["tool-execution-end"] = "tool-execution-end"


LoopEvent: TypeAlias = (
    MessageStart | MessageUpdate | MessageEnd | ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd
)


# ---------------------------------------------------------------- what an agent streams


@dataclass(slots=True)
class StartStep:
    """A step begins: a model request is about to be made. Steps count from 1 in each run."""

    step_number: int
    type: Literal["start-step"] = "start-step"


@dataclass(slots=True)
class ToolCall:
    """A call is complete and will run."""

    call: ToolCallPart
    type: Literal["tool-call"] = "tool-call"


@dataclass(slots=True)
class ToolProgress:
    """A running tool reports progress."""

    call: ToolCallPart
    progress: Any
    type: Literal["tool-progress"] = "tool-progress"


@dataclass(slots=True)
class ToolResult:
    """A call ended well."""

    call: ToolCallPart
    result: ToolResultMessage
    type: Literal["tool-result"] = "tool-result"


@dataclass(slots=True)
class ToolError:
    """A call did not end well; the model is told by `result`."""

    call: ToolCallPart
    result: ToolResultMessage
    type: Literal["tool-error"] = "tool-error"


@dataclass(slots=True)
class ToolOutputDenied:
    """A call was not run, for someone said no; the model is told by `result`."""

    call: ToolCallPart
    result: ToolResultMessage
    type: Literal["tool-output-denied"] = "tool-output-denied"


@dataclass(slots=True)
class InputDelivered:
    """A queued input stands in the history now, as the user message at `message_index`.

    Attributes:
        input_id: What `steer` or `follow_up` returned.
        queue: Which of the two it was.
        message_index: Where the message stands, from 0.
    """

    input_id: str
    queue: Literal["steering", "follow-up"]
    message_index: int
    type: Literal["input-delivered"] = "input-delivered"


@dataclass(slots=True)
class ToolApprovalRequest:
    """A call waits for a person."""

    request: ToolApprovalRequestPart
    call: ToolCallPart
    type: Literal["tool-approval-request"] = "tool-approval-request"


@dataclass(slots=True)
class FinishStep:
    """A step is complete: the answer and all its tool results are in the history."""

    step_number: int
    finish_reason: str
    usage: Usage | None = None
    type: Literal["finish-step"] = "finish-step"


@dataclass(slots=True)
class Finish:
    """The run ended well. The last part."""

    finish_reason: str
    usage: Usage | None = None
    stopped_by: str = "model"
    type: Literal["finish"] = "finish"


@dataclass(slots=True)
class Abort:
    """The run was cancelled. The last part.

    Attributes:
        reason: Why, as text.
        text: Text of the answer that was being streamed and is not in the history.
    """

    reason: str
    text: str = ""
    type: Literal["abort"] = "abort"


@dataclass(slots=True)
class Error:
    """The run failed. The last part.

    Attributes:
        error: The exception as data.
        exception: The exception itself; it is not serialised.
    """

    error: ErrorInfo
    exception: Annotated[Exception | None, _NOT_DATA] = field(default=None, compare=False, repr=False)
    type: Literal["error"] = "error"


StreamPart: TypeAlias = (
    StartStep
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | Source
    | File
    | ToolCall
    | ToolProgress
    | ToolResult
    | ToolError
    | ToolOutputDenied
    | ToolApprovalRequest
    | InputDelivered
    | StepReset
    | FinishStep
    | Finish
    | Abort
    | Error
)
