"""What a tool is told about its call."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.messages import ToolCallPart, UserMessage
from loopwright.signals import AbortSignal
from loopwright.tools import ToolContext

CALL = ToolCallPart("call_1", "find")


def test_all_of_it() -> None:
    signal, run, messages = AbortSignal(), object(), [UserMessage("hi")]
    ctx = ToolContext(
        "shop", CALL, messages=messages, signal=signal, step_number=3, idempotency_key="r/3/call_1", run=run
    )
    assert (ctx.context, ctx.call, ctx.messages, ctx.signal, ctx.run) == ("shop", CALL, messages, signal, run)
    assert (ctx.step_number, ctx.idempotency_key, ctx.tool_call_id, ctx.tool_name) == (
        3,
        "r/3/call_1",
        "call_1",
        "find",
    )
    assert repr(ctx) == "<ToolContext find call_1, step 3>"


def test_two_arguments_are_enough_in_tests_of_tools() -> None:
    ctx = ToolContext(None, CALL)
    assert (list(ctx.messages), ctx.signal.aborted, ctx.step_number, ctx.run) == ([], False, 1, None)
    assert ctx.idempotency_key == "run/1/call_1"
    ctx.progress("told to nobody")


def test_progress_is_passed_on() -> None:
    seen: list[Any] = []
    ctx: ToolContext[None] = ToolContext(None, CALL, report=seen.append)
    ctx.progress(1)
    ctx.progress({"a": 2})
    assert seen == [1, {"a": 2}]


def test_it_is_slotted() -> None:
    with pytest.raises(AttributeError):
        ToolContext(None, CALL).other = 1  # type: ignore[attr-defined]
