"""One tool call: look the tool up, check the arguments, run it, make its one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import AbortRun, ToolInputError, ToolRetry
from ..messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultStatus,
)
from ..signals import AbortSignal
from ..tools.base import Tool
from ..tools.context import ToolContext
from ..tools.parse import unknown_tool_message
from ..tools.result import to_result

__all__ = [
    "BatchContext",
    "CallPlan",
    "EndRun",
    "HeldCall",
    "PlanCalls",
    "PreparedCall",
    "ResumeCalls",
    "ResumedCalls",
    "RunTool",
    "call_keys",
    "make_result",
    "prepare_call",
    "run_call",
    "tool_context",
]


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What all calls of one batch share.

    Attributes:
        tools: The tools of this request, by name.
        messages: The history at the start of the batch; every call sees the same.
        signal: The run's signal.
        context: The run's context object.
        run: A handle to the run, None in the bare loop.
        run_id: Names the run.
        step_number: The step, from 1; 0 for calls that were resumed before the first.
        clock: Tells the time of results.
        run_tool: Runs a prepared call in place of the tool itself.
        timeout_of: Gives a tool's timeout, from its name and its own one.
    """

    tools: Mapping[str, Tool]
    messages: Sequence[Message]
    signal: AbortSignal
    context: Any
    run: Any
    run_id: str
    step_number: int
    clock: Callable[[], float]
    run_tool: RunTool | None = None
    timeout_of: Callable[[str, float | None], float | None] | None = None

    def timeout(self, tool: Tool) -> float | None:
        """Seconds that a call of the tool may take."""
        return tool.timeout if self.timeout_of is None else self.timeout_of(tool.name, tool.timeout)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose tool is known and whose arguments fit.

    Attributes:
        tool: What runs.
        arguments: The values by parameter.
        key: The idempotency key, where it is not made of run, step and call.
        note: Told to the model in front of the result.
    """

    tool: Tool
    arguments: dict[str, Any]
    key: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that waits for a person: the run ends with its step."""

    request: ToolApprovalRequestPart


CallPlan: TypeAlias = PreparedCall | ToolResultMessage | HeldCall
"""What becomes of a call: it runs, it has its result already, or it waits for a person."""

RunTool: TypeAlias = Callable[[ToolContext[Any], PreparedCall], Awaitable[Any]]
"""Runs a prepared call and gives what the tool returned; raises what it raised, or `EndRun`."""


class EndRun(Exception):
    """Ends the run with `error`; what else is raised in a call is told to the model."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


PlanCalls: TypeAlias = Callable[
    [AssistantMessage, Sequence[ToolCallPart], BatchContext], Awaitable[Sequence["CallPlan | None"]]
]
"""Called with a complete answer and its calls, before the answer enters the history: one plan for each call; None lets
the loop find the tool and check the arguments itself."""


@dataclass(frozen=True, slots=True)
class ResumedCalls:
    """Calls of an earlier run that were answered.

    Attributes:
        calls: The calls, in source order.
        plans: What becomes of each.
    """

    calls: Sequence[ToolCallPart]
    plans: Sequence[CallPlan | None]


ResumeCalls: TypeAlias = Callable[[BatchContext], Awaitable[ResumedCalls | None]]
"""Called once, before anything else: the calls to run before the first request."""


def make_result(
    call: ToolCallPart, text: str, status: ToolResultStatus, clock: Callable[[], float]
) -> ToolResultMessage:
    """A result that is a sentence for the model."""
    return ToolResultMessage(call.id, call.name, text, status, created_at=clock())


def prepare_call(call: ToolCallPart, batch: BatchContext) -> PreparedCall | ToolResultMessage:
    """Find the tool and validate the arguments; what does not fit becomes a result that tells the model why."""
    tool = batch.tools.get(call.name)
    if tool is None:
        text = unknown_tool_message(call.name, list(batch.tools.values()))
        return make_result(call, text, "invalid", batch.clock)
    if call.incomplete:
        text = (
            f"The call of {call.name!r} was cut off before its arguments were complete. It was not run; call it anew."
        )
        return make_result(call, text, "invalid", batch.clock)
    try:
        return PreparedCall(tool, tool.validate(call.arguments))
    except ToolInputError as error:
        return make_result(call, str(error), "invalid", batch.clock)


def call_keys(run_id: str, step_number: int, calls: Sequence[ToolCallPart]) -> list[str]:
    """Names of calls that stay theirs for ever: `run id / step / call id`; `#2` and so on where an id stands again."""
    seen: Counter[str] = Counter()
    keys: list[str] = []
    for call in calls:
        seen[call.id] += 1
        again = f"#{seen[call.id]}" if seen[call.id] > 1 else ""
        keys.append(f"{run_id}/{step_number}/{call.id}{again}")
    return keys


def tool_context(
    batch: BatchContext,
    call: ToolCallPart,
    tool: Tool,
    key: str,
    *,
    report: Callable[[Any], None] | None = None,
    send: Callable[[Any], Awaitable[None]] | None = None,
) -> ToolContext[Any]:
    """What a tool is told about its call."""
    return ToolContext(
        context=batch.context,
        call=call,
        messages=batch.messages,
        signal=batch.signal,
        step_number=batch.step_number,
        idempotency_key=key,
        run=batch.run,
        report=report,
        send=send,
        tool=tool,
    )


async def run_call(
    call: ToolCallPart, prepared: PreparedCall, batch: BatchContext, context: ToolContext[Any]
) -> ToolResultMessage:
    """Run a prepared call. What the tool raises becomes an error result.

    Raises:
        AbortRun: The tool ends the run.
        EndRun: A hook does.
    """
    try:
        if batch.run_tool is None:
            value = await prepared.tool.run(prepared.arguments, context)
        else:
            value = await batch.run_tool(context, prepared)
        content, details = to_result(value, prepared.tool)
    except (AbortRun, EndRun):
        raise
    except ToolRetry as error:
        text = str(error) or f"{call.name!r} asks to be called again with other arguments."
        return make_result(call, text, "error", batch.clock)
    except Exception as error:
        text = str(error) or f"The tool {call.name!r} failed with {type(error).__name__}."
        return make_result(call, text, "error", batch.clock)
    if prepared.note is not None:
        content = (TextPart(prepared.note), *content)
    return ToolResultMessage(call.id, call.name, content, details=details, created_at=batch.clock())
