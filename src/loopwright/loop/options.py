"""What the loop is told, and the shapes of what it calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..events import LoopEvent
from ..messages import AssistantMessage, Message, ToolResultMessage, UserPart
from ..models.base import ModelIdentity, ModelStream, RequestContext, StreamOptions
from ..signals import AbortSignal

if TYPE_CHECKING:
    from ..tools.base import Tool
    from .calls import PlanCalls, ResumeCalls, RunTool

__all__ = [
    "Content",
    "EventListener",
    "FinishTurn",
    "HistorySource",
    "LoopOptions",
    "PollInputs",
    "PrepareRequest",
    "RequestMetadata",
    "RequestSource",
    "RequestUpdate",
    "StreamFunction",
    "ToolRepairSource",
    "TurnFinished",
]

Content: TypeAlias = str | Sequence[UserPart]
"""What a user says: a string, or text, image and file parts."""


# ---------------------------------------------------------------- where a request's messages come from


@dataclass(frozen=True, slots=True)
class HistorySource:
    """The message stands in the history, at zero-based `message_index`."""

    message_index: int


@dataclass(frozen=True, slots=True)
class ToolRepairSource:
    """The message was made because the call `tool_call_id` of the assistant at `message_index` has no result."""

    message_index: int
    tool_call_id: str


RequestSource: TypeAlias = HistorySource | ToolRepairSource


@dataclass(frozen=True, slots=True)
class RequestMetadata:
    """Where the messages of a request come from. It must not be sent to the provider.

    Attributes:
        history_message_count: Completed history entries at dispatch, the accepted input included.
        sources: `sources[i]` tells where `context.messages[i]` comes from.
    """

    history_message_count: int
    sources: Sequence[RequestSource]


# ---------------------------------------------------------------- what the loop calls


class StreamFunction(Protocol):
    """Asks the model: returns a stream, or an awaitable of one. The fourth argument may be left out."""

    def __call__(
        self, model: ModelIdentity, context: RequestContext, options: StreamOptions, metadata: RequestMetadata, /
    ) -> ModelStream | Awaitable[ModelStream]: ...


EventListener: TypeAlias = Callable[[LoopEvent], Awaitable[None] | None]
"""Told of each event, and awaited. An exception ends the run."""

PollInputs: TypeAlias = Callable[[AbortSignal], "Awaitable[Sequence[Content] | None] | Sequence[Content] | None"]
"""Returns the inputs that wait, each of which becomes a user message."""


@dataclass(frozen=True, slots=True)
class RequestUpdate:
    """What `prepare_request` sets for the next request and the tool batch that it leads to. None keeps the options'.

    Attributes:
        model: Who is asked.
        stream: How.
        system: The system prompt; an empty string for none.
        tools: The tools to declare and to run.
        stream_options: Settings of the request.
        messages: Replaces the history as the base of the request view; the history stays as it is.
        context: The run's context object from now on, in a tuple of one.
    """

    model: ModelIdentity | None = None
    stream: StreamFunction | None = None
    system: str | None = None
    tools: Sequence[Tool] | None = None
    stream_options: StreamOptions | None = None
    messages: Sequence[Message] | None = None
    context: tuple[Any] | None = None


PrepareRequest: TypeAlias = Callable[[AbortSignal], "Awaitable[RequestUpdate | None] | RequestUpdate | None"]


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """What `finish_turn` is given: one answer with its results, and a snapshot of the history.

    Attributes:
        message: The answer.
        results: The results of its calls, in order.
        history: All messages so far; a snapshot.
        turn: Number of the turn, from 1.
    """

    message: AssistantMessage
    results: Sequence[ToolResultMessage]
    history: Sequence[Message]
    turn: int


FinishTurn: TypeAlias = Callable[[TurnFinished, AbortSignal], "Awaitable[bool | None] | bool | None"]
"""Called after each answer and its tool batch, before queues are polled. True ends the run well."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How `run_agent_loop` works.

    Attributes:
        model: Who is asked.
        stream: How the model is asked. There is no default: the loop never looks a provider up.
        system: The system prompt.
        tools: The tools to declare and to run.
        stream_options: Settings of each request.
        max_turns: Hard budget of model requests, None for none.
        get_steering_messages: Polled before the first request and after each answer with its tool batch.
        get_follow_up_messages: Polled after an answer without tools, when there is no steering.
        prepare_request: Called before each request.
        finish_turn: Called after each answer and its tool batch.
        max_parallel_tool_calls: How many calls of one batch run at once.
        max_tool_calls_per_step: How many calls one answer may ask for.
        cancel_grace: Seconds that a cancelled tool is given to end.
        context: Given to tools as `ToolContext.context`.
        run_id: Names the run in idempotency keys; made up when None.
        clock: Tells the time of messages, in seconds since the epoch.
        progress_capacity: How much progress may wait for the consumer before tools that send it wait.
        timeout_of: Gives a tool's timeout, from its name and its own one; the tool's own when None.
        plan_calls: Says what becomes of each call of an answer, before the answer enters the history.
        resume_calls: Gives the calls of an earlier run that run before the first request.
        run_tool: Runs a prepared call, in place of the tool itself.
    """

    model: ModelIdentity
    stream: StreamFunction
    system: str | None = None
    tools: Sequence[Tool] = ()
    stream_options: StreamOptions = field(default_factory=StreamOptions)
    max_turns: int | None = None
    get_steering_messages: PollInputs | None = None
    get_follow_up_messages: PollInputs | None = None
    prepare_request: PrepareRequest | None = None
    finish_turn: FinishTurn | None = None
    max_parallel_tool_calls: int = 1
    max_tool_calls_per_step: int | None = None
    cancel_grace: float = 2.0
    context: Any = None
    run_id: str | None = None
    clock: Callable[[], float] | None = None
    progress_capacity: int = 64
    timeout_of: Callable[[str, float | None], float | None] | None = None
    plan_calls: PlanCalls | None = None
    resume_calls: ResumeCalls | None = None
    run_tool: RunTool | None = None
