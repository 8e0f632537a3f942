"""One tool call: look the tool up, check the arguments, run it, make its one result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import AbortRun, ToolInputError, ToolRetry
from ..messages import Message, ToolCallPart, ToolResultMessage, ToolResultStatus
from ..signals import AbortSignal
from ..tools.base import Tool
from ..tools.context import ToolContext
from ..tools.parse import unknown_tool_message
from ..tools.result import to_result

__all__ = ["BatchContext", "PreparedCall", "make_result", "prepare_call", "run_call"]


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
        step_number: The step, from 1.
        clock: Tells the time of results.
    """

    tools: Mapping[str, Tool]
    messages: Sequence[Message]
    signal: AbortSignal
    context: Any
    run: Any
    run_id: str
    step_number: int
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose tool is known and whose arguments fit."""

    tool: Tool
    arguments: dict[str, Any]


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


async def run_call(
    call: ToolCallPart, prepared: PreparedCall, batch: BatchContext, progress: Callable[[Any], None]
) -> ToolResultMessage:
    """Run a prepared call. What the tool raises becomes an error result.

    Raises:
        AbortRun: The tool ends the run.
    """
    context: ToolContext[Any] = ToolContext(
        context=batch.context,
        call=call,
        messages=batch.messages,
        signal=batch.signal,
        step_number=batch.step_number,
        idempotency_key=f"{batch.run_id}/{batch.step_number}/{call.id}",
        run=batch.run,
        report=progress,
    )
    try:
        value = await prepared.tool.run(prepared.arguments, context)
        content, details = to_result(value, prepared.tool)
    except AbortRun:
        raise
    except ToolRetry as error:
        text = str(error) or f"{call.name!r} asks to be called again with other arguments."
        return make_result(call, text, "error", batch.clock)
    except Exception as error:
        text = str(error) or f"The tool {call.name!r} failed with {type(error).__name__}."
        return make_result(call, text, "error", batch.clock)
    return ToolResultMessage(call.id, call.name, content, details=details, created_at=batch.clock())
