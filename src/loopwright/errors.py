"""Every exception Loopwright raises on purpose.

The tree::

    LoopwrightError
    ├── InvalidArgumentError            a setting or argument that cannot work (also ValueError)
    │   └── ToolSchemaError             a function signature that cannot become a tool schema
    ├── InvalidInputError               prompt content or history that cannot be sent (also ValueError)
    │   ├── ContentRequiredError        the content is empty
    │   ├── InvalidContentError         the content has a malformed part
    │   └── ApprovalError               an answer to an approval request that must not be applied
    │       ├── UnknownApprovalError    no request of that id waits
    │       ├── ApprovalAnsweredError   the request was answered before
    │       ├── ApprovalExpiredError    it is too late to approve it
    │       ├── ApprovalSignatureError  the request or its call is not what was signed
    │       └── ApprovalEditError       the arguments of the approver do not fit the tool
    ├── InvalidDocumentError            stored JSON that cannot be read back (also ValueError)
    ├── RunError                        a run ended without its answer
    │   ├── RunCancelled                its signal was aborted
    │   ├── MaxTurnsReached             the hard budget of model requests is used up
    │   ├── UnsupportedStopReason       the model stopped in a way the loop cannot go on from
    │   ├── MaxToolCallsPerStepExceeded one answer asked for more calls than the policy takes
    │   ├── TooManyInvalidCalls         the model could not make a valid call, several steps in a row
    │   ├── ModelFailed                 the model's own answer says that it failed
    │   ├── NoOutputGenerated           the run ended before there was an output to read
    │   └── StreamProtocolError         a model stream broke its contract
    ├── ModelError                      a model could not be asked, or answered with an error
    │   ├── UnknownModelError           a model string that resolves to nothing
    │   ├── MissingAPIKeyError          no key for a vendor that needs one
    │   ├── ModelConnectionError        the network failed before an answer was complete
    │   │   └── StreamTruncatedError    the body ended in the middle of an answer
    │   ├── ModelTimeoutError           the provider was too slow
    │   ├── RetryError                  every attempt failed; it lists them
    │   ├── InvalidResponseError        an answer that is not what the wire promises
    │   ├── ModelResponseError          an error inside a successful HTTP answer
    │   ├── ModelHTTPError              an HTTP error status
    │   │   ├── BadRequestError         400, 413, 422
    │   │   │   └── ContextOverflowError  the request does not fit the context window
    │   │   ├── AuthenticationError     401
    │   │   ├── PermissionDeniedError   403
    │   │   ├── NotFoundError           404
    │   │   ├── RateLimitError          429
    │   │   └── ServerError             5xx
    │   └── LocalModelError             the local model cannot be had, started or reached
    ├── ToolInputError                  arguments that do not fit a tool
    ├── ToolOutputError                 a tool returned what cannot be told to a model
    ├── ToolRetry                       raised by a tool: tell the model to try again
    └── AbortRun                        raised by a tool: end the run now

Each message says what happened, where, and what to do. No message holds a key.
An exception that leaves a run carries what the run had done so far as `.partial`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .messages import AssistantMessage, Message
    from .usage import Usage

__all__ = [
    "AbortRun",
    "ApprovalAnsweredError",
    "ApprovalEditError",
    "ApprovalError",
    "ApprovalExpiredError",
    "ApprovalSignatureError",
    "AuthenticationError",
    "BadRequestError",
    "ContentRequiredError",
    "ContextOverflowError",
    "InvalidArgumentError",
    "InvalidContentError",
    "InvalidDocumentError",
    "InvalidInputError",
    "InvalidResponseError",
    "LocalModelError",
    "LoopwrightError",
    "MaxToolCallsPerStepExceeded",
    "MaxTurnsReached",
    "MissingAPIKeyError",
    "ModelConnectionError",
    "ModelError",
    "ModelFailed",
    "ModelHTTPError",
    "ModelResponseError",
    "ModelTimeoutError",
    "NoOutputGenerated",
    "NotFoundError",
    "Partial",
    "PermissionDeniedError",
    "RateLimitError",
    "RetryError",
    "RunCancelled",
    "RunError",
    "ServerError",
    "StreamProtocolError",
    "StreamTruncatedError",
    "TooManyInvalidCalls",
    "ToolInputError",
    "ToolOutputError",
    "ToolRetry",
    "ToolSchemaError",
    "UnknownApprovalError",
    "UnknownModelError",
    "UnsupportedStopReason",
    "attach_partial",
]


@dataclass(frozen=True, slots=True)
class Partial:
    """What a run had done when it failed.

    Attributes:
        messages: The history at that moment, the caller's messages included. It is valid: every
            call of a completed assistant message has exactly one result.
        steps: The completed steps (`StepResult`), empty where the bare loop ran.
        usage: Tokens of the completed steps, None where nothing was reported.
        text: Text of the answer that was being streamed and is not in `messages`.
    """

    messages: Sequence[Message] = ()
    steps: Sequence[Any] = ()
    usage: Usage | None = None
    text: str = ""


class LoopwrightError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        partial: What the run had done so far, or None when the error did not leave a run.
    """

    partial: Partial | None = None

    @property
    def messages(self) -> Sequence[Message]:
        """History of the failed run so far; empty when there is none."""
        return self.partial.messages if self.partial is not None else ()

    @property
    def steps(self) -> Sequence[Any]:
        """Completed steps of the failed run; empty when there are none."""
        return self.partial.steps if self.partial is not None else ()

    @property
    def usage(self) -> Usage | None:
        """Tokens used by the failed run so far, None when unknown."""
        return self.partial.usage if self.partial is not None else None

    def __reduce__(self) -> tuple[Any, ...]:
        # The message is made from the arguments of `__init__`, so that calling it again with the message, as
        # exceptions are copied and unpickled, would fail or wrap the message in another.
        return _rebuilt, (type(self), self.args), self.__dict__


def _rebuilt(cls: type[LoopwrightError], args: tuple[Any, ...]) -> LoopwrightError:
    return cls.__new__(cls, *args)


def attach_partial(error: BaseException, partial: Partial) -> None:
    """Put `partial` on any exception that can carry attributes, once.

    The innermost run knows best what it did, so a `.partial` that is already there stays.
    """
    if getattr(error, "partial", None) is not None:
        return
    try:
        error.partial = partial  # type: ignore[attr-defined]  # any exception object may carry it
    except AttributeError:
        error.add_note(f"The run failed after {len(partial.messages)} messages.")


# ---------------------------------------------------------------- arguments and input


class InvalidArgumentError(LoopwrightError, ValueError):
    """A setting or argument that cannot work. The message names all that are wrong at once."""


class ToolSchemaError(InvalidArgumentError):
    """A function whose signature cannot become a tool schema; raised at decoration."""


class InvalidInputError(LoopwrightError, ValueError):
    """Prompt content or history that cannot be sent. Nothing was changed and no request was made."""


class ContentRequiredError(InvalidInputError):
    """The content is empty or blank."""


class InvalidContentError(InvalidInputError):
    """The content has a malformed part, or one that the model cannot take."""


class ApprovalError(InvalidInputError):
    """An answer to an approval request that must not be applied. Nothing ran.

    Attributes:
        approval_id: The request.
    """

    def __init__(self, message: str, approval_id: str = "") -> None:
        self.approval_id = approval_id
        super().__init__(message)


class UnknownApprovalError(ApprovalError):
    """No request of that id waits for an answer."""


class ApprovalAnsweredError(ApprovalError):
    """The request was answered before; an answer is applied once."""


class ApprovalExpiredError(ApprovalError):
    """It is too late to approve the request. It can still be denied, or passed over with a new prompt."""


class ApprovalSignatureError(ApprovalError):
    """The request carries no valid signature: it, or the call it is for, is not what was signed."""


class ApprovalEditError(ApprovalError):
    """The arguments that the approver gave do not fit the tool."""


class InvalidDocumentError(LoopwrightError, ValueError):
    """Stored JSON that cannot be read back: the message says where and why."""


# ---------------------------------------------------------------- runs


class RunError(LoopwrightError):
    """A run ended without its answer."""


class RunCancelled(RunError):
    """The run's signal was aborted.

    Attributes:
        reason: What was given to `AbortSignal.abort`, the same object.
    """

    def __init__(self, reason: object = None) -> None:
        self.reason = reason
        super().__init__(f"The run was cancelled: {reason}" if reason else "The run was cancelled.")


class MaxTurnsReached(RunError):
    """The hard budget of model requests is used up while the model still calls tools.

    Attributes:
        max_turns: The budget.
    """

    def __init__(self, max_turns: int) -> None:
        self.max_turns = max_turns
        super().__init__(
            f"The run used its budget of {max_turns} model requests (max_turns={max_turns}) and the model "
            "still asks for tools. Raise max_turns, or go on from `.messages`."
        )


class UnsupportedStopReason(RunError):
    """The model stopped in a way the loop cannot go on from.

    Attributes:
        finish_reason: The reason as normalised, or the provider's own word.
        message: The assistant message; it is in the history.
    """

    def __init__(self, message: AssistantMessage) -> None:
        self.finish_reason = message.finish_reason
        self.message = message
        super().__init__(
            f"The model stopped with finish reason {message.finish_reason!r}; its answer is incomplete and "
            "none of its tool calls was run. The answer is in `.messages`."
        )


class ModelFailed(RunError):
    """The model's own answer says that it failed or was aborted; the answer stays in the history, marked.

    Attributes:
        message: The failed assistant message.
    """

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        super().__init__(message.error or f"The model's answer ended with {message.finish_reason!r}.")


class MaxToolCallsPerStepExceeded(RunError):
    """One answer asked for more tool calls than the policy takes; none of them was run.

    Attributes:
        count: How many calls the answer asked for.
        limit: How many one step may have.
    """

    def __init__(self, count: int, limit: int) -> None:
        self.count = count
        self.limit = limit
        super().__init__(
            f"The model asked for {count} tool calls in one step; the limit is {limit} "
            "(max_tool_calls_per_step). None was run."
        )


class TooManyInvalidCalls(RunError):
    """The model made no valid tool call in several steps in a row, and was told each time what was wrong.

    Attributes:
        count: How many steps.
    """

    def __init__(self, count: int, last: str) -> None:
        self.count = count
        super().__init__(
            f"In {count} steps in a row (max_invalid_calls={count}) no tool call of the model was valid. The last one: "
            f"{last}"
        )


class NoOutputGenerated(RunError):
    """The run ended before there was an output to read."""


class StreamProtocolError(RunError):
    """A model stream broke its contract: see `loopwright.models.base.ModelStream`."""


# ---------------------------------------------------------------- models


class ModelError(LoopwrightError):
    """A model could not be asked, or answered with an error.

    Attributes:
        retryable: Whether the same request may succeed later.
        answer: What there is of the answer, where it failed in the middle; a run keeps it in its history, marked.
    """

    retryable: bool = False
    answer: AssistantMessage | None = None


class UnknownModelError(ModelError):
    """A model string that resolves to nothing."""


class MissingAPIKeyError(ModelError):
    """No key for a vendor that needs one. The message names the environment variable."""


class ModelConnectionError(ModelError):
    """The network failed before an answer was complete."""

    retryable = True


class StreamTruncatedError(ModelConnectionError):
    """The body ended in the middle of an answer: no finish reason, or half an event."""


class ModelTimeoutError(ModelError):
    """The provider was too slow."""

    retryable = True


class RetryError(ModelError):
    """Every attempt to ask the model failed.

    Attributes:
        attempts: What each attempt failed with, in order.
    """

    def __init__(self, attempts: Sequence[Exception]) -> None:
        self.attempts = tuple(attempts)
        last = self.attempts[-1]
        self.answer = getattr(last, "answer", None)
        super().__init__(
            f"The model could not be asked in {len(self.attempts)} attempts. The last one failed with "
            f"{type(last).__name__}: {last}"
        )


class InvalidResponseError(ModelError):
    """An answer that is not what the wire promises.

    Attributes:
        offset: Byte offset in the body of the event that could not be read, None where unknown.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        self.offset = offset
        super().__init__(message if offset is None else f"{message} (at byte {offset} of the body)")


class ModelResponseError(ModelError):
    """An error inside a successful HTTP answer: an error object in a stream, or in a 200 body.

    Attributes:
        code: The provider's code, None where it gave none.
        type: The provider's error type, None where it gave none.
        body: The error object as received.
        retryable: Whether the same request may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | int | None = None,
        type: str | None = None,
        body: Any = None,
        retryable: bool = False,
    ) -> None:
        self.code = code
        self.type = type
        self.body = body
        self.retryable = retryable
        super().__init__(message)


class ModelHTTPError(ModelError):
    """An HTTP error status.

    Attributes:
        status: The HTTP status.
        body: The body: parsed JSON where it is JSON, else text, capped in length.
        request_id: The provider's id of the request, None where it sent none.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait before that, None where the provider did not say.
        code: The provider's code, None where it gave none.
        type: The provider's error type, None where it gave none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        body: Any = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        code: str | int | None = None,
        type: str | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        self.code = code
        self.type = type
        super().__init__(message)


class BadRequestError(ModelHTTPError):
    """400, 413 or 422: the provider does not take this request."""


class ContextOverflowError(BadRequestError):
    """The request does not fit the model's context window."""


class AuthenticationError(ModelHTTPError):
    """401: the key is missing or wrong."""


class PermissionDeniedError(ModelHTTPError):
    """403: the key may not do this."""


class NotFoundError(ModelHTTPError):
    """404: no such model or endpoint."""


class RateLimitError(ModelHTTPError):
    """429: too many requests, or a used-up quota."""


class ServerError(ModelHTTPError):
    """5xx: the provider failed."""


class LocalModelError(ModelError):
    """The local model cannot be had, started or reached. The message says what to do."""


# ---------------------------------------------------------------- tools


class ToolInputError(LoopwrightError):
    """Arguments that do not fit a tool. The message is written for the model.

    Attributes:
        errors: One entry per problem: dotted path and what is wrong there.
    """

    def __init__(self, message: str, *, errors: Sequence[tuple[str, str]] = ()) -> None:
        self.errors = tuple(errors)
        super().__init__(message)


class ToolOutputError(LoopwrightError):
    """A tool returned what cannot be told to a model. The message says what to return instead."""


class ToolRetry(LoopwrightError):
    """Raised by a tool to ask the model to try again; the text goes to the model."""


class AbortRun(LoopwrightError):
    """Raised by a tool to end the run now; the run fails with this error."""
