"""The order of a batch, with a cap (G3, T111 to T121 as far as the loop has them)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from kit import Recorder, Streams, calls, named, options, roles, valid

from loopwright.events import ToolExecutionStart, ToolExecutionUpdate
from loopwright.loop import HistorySource, ToolRepairSource, run_agent_loop
from loopwright.messages import Message, ToolCallPart, ToolResultMessage, UserMessage
from loopwright.testing import answer
from loopwright.tools.base import Tool
from loopwright.tools.context import ToolContext
from loopwright.tools.decorator import tool


def in_order(*names: str) -> tuple[list[Tool], list[str]]:
    """Tools that end in this order, whatever the order in which they start; and the log of their starts."""
    ended = {name: anyio.Event() for name in names}
    started: list[str] = []

    def make(name: str) -> Tool:
        async def run() -> str:
            started.append(name)
            at = names.index(name)
            if at:
                await ended[names[at - 1]].wait()
            ended[name].set()
            return name

        return named(name, run)

    return [make(name) for name in sorted(names)], started


async def traced(tools: list[Tool], cap: int) -> tuple[str, list[Message]]:
    recorder, history = Recorder(), list[Message]()
    await run_agent_loop(
        "hi", history, options(Streams(calls("a", "b", "c"), "ok"), *tools, max_parallel_tool_calls=cap), recorder
    )
    valid(history)
    batch = recorder.trace.split("me(a) ", 1)[1].split(" ms(a) mu(", 1)[0]
    return batch, history


async def test_G3_at_cap_1_each_call_ends_before_the_next_begins() -> None:
    tools, started = in_order("a", "b", "c")
    batch, history = await traced(tools, 1)
    assert batch == "ts(a) te(a) ms(a) me(a) ts(b) te(b) ms(b) me(b) ts(c) te(c) ms(c) me(c)"
    assert (started, roles(history)) == (["a", "b", "c"], "u a a b c a")


async def test_G3_T111_at_cap_2_ends_come_as_they_come_and_results_in_source_order() -> None:
    tools, started = in_order("b", "a", "c")
    batch, history = await traced(tools, 2)
    assert batch == "ts(a) ts(b) te(b) ts(c) te(a) ms(a) me(a) ms(b) me(b) te(c) ms(c) me(c)"
    # Which of two tasks that may both run runs first is trio's to choose, and it throws dice.
    assert (sorted(started[:2]), started[2:], roles(history)) == (["a", "b"], ["c"], "u a a b c a")


async def test_G5_provenance_with_a_failed_answer_and_a_missing_result() -> None:
    history: list[Message] = [
        UserMessage("hi"),
        answer("half", finish_reason="error"),
        answer(*calls("x", "y")),
        ToolResultMessage("x", "x", "ok"),
        UserMessage("go on"),
    ]
    streams = Streams("done")
    await run_agent_loop(None, history, options(streams))
    assert streams.metadata[0].history_message_count == 5
    assert streams.metadata[0].sources == [
        HistorySource(0), HistorySource(2), HistorySource(3), ToolRepairSource(2, "y"), HistorySource(4),
    ]  # fmt: skip


@pytest.mark.parametrize("cap", [1, 4, 8])
async def test_T112_never_more_run_than_the_cap(cap: int) -> None:
    running, most = 0, 0
    release = anyio.Event()

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1

    history = list[Message]()
    script = answer(*(ToolCallPart(str(n), "work") for n in range(200))), "ok"
    async with anyio.create_task_group() as tasks:

        async def open_up() -> None:
            await anyio.wait_all_tasks_blocked()
            blocked.append(running)
            release.set()

        blocked: list[int] = []
        tasks.start_soon(open_up)
        await run_agent_loop("hi", history, options(Streams(*script), named("work", work), max_parallel_tool_calls=cap))
    assert (most, blocked) == (cap, [cap])
    assert [m.tool_call_id for m in history[2:-1]] == [str(n) for n in range(200)]  # type: ignore[union-attr]
    valid(history)


async def test_T113_tools_that_wait_for_each_other_end_at_cap_2() -> None:
    first, second = anyio.Event(), anyio.Event()

    async def one() -> str:
        first.set()
        await second.wait()
        return "one"

    async def two() -> str:
        await first.wait()
        second.set()
        return "two"

    history = list[Message]()
    await run_agent_loop(
        "hi",
        history,
        options(Streams(calls("one", "two"), "ok"), named("one", one), named("two", two), max_parallel_tool_calls=2),
    )
    assert [m.text for m in history[2:4]] == ["one", "two"]


async def test_T113_at_cap_1_a_time_limit_lets_the_run_go_on() -> None:
    history = list[Message]()
    tools = named("one", anyio.sleep_forever, timeout=0.01), named("two", lambda: "two")
    await run_agent_loop("hi", history, options(Streams(calls("one", "two"), "ok"), *tools))
    assert [m.status for m in history[2:4]] == ["timeout", "success"]  # type: ignore[union-attr]


async def test_T114_one_sequential_tool_makes_the_batch_serial() -> None:
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    tools = named("a", work), named("b", work, sequential=True), named("c", work)
    await run_agent_loop("hi", [], options(Streams(calls("a", "b", "c"), "ok"), *tools, max_parallel_tool_calls=8))
    assert most == 1


async def test_T119_duplicate_ids_run_each_with_its_own_arguments() -> None:
    @tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    history = list[Message]()
    script = answer(ToolCallPart("1", "echo", '{"text":"one"}'), ToolCallPart("1", "echo", '{"text":"two"}')), "ok"
    await run_agent_loop("hi", history, options(Streams(*script), echo, max_parallel_tool_calls=2))
    assert [m.text for m in history[2:4]] == ["one", "two"]


async def test_T121_progress_is_told_while_a_sibling_still_runs() -> None:
    release = anyio.Event()

    @tool
    async def fast(ctx: ToolContext[Any]) -> str:
        """Report."""
        for n in range(100):
            ctx.progress(n)
        return "fast"

    async def slow() -> str:
        await release.wait()
        return "slow"

    def let_go(event: Any) -> None:
        if isinstance(event, ToolExecutionUpdate) and event.progress == 99:
            release.set()

    recorder = Recorder(let_go)
    await run_agent_loop(
        "hi",
        [],
        options(Streams(calls("slow", "fast"), "ok"), named("slow", slow), fast, max_parallel_tool_calls=2),
        recorder,
    )
    assert [e.progress for e in recorder.events if isinstance(e, ToolExecutionUpdate)] == list(range(100))


async def test_a_call_does_not_run_before_its_start_was_told() -> None:
    ran: list[str] = []
    seen: list[list[str]] = []
    recorder = Recorder(lambda event: seen.append(list(ran)) if isinstance(event, ToolExecutionStart) else None)
    tools = [named(name, lambda name=name: ran.append(name)) for name in "ab"]
    await run_agent_loop("hi", [], options(Streams(calls("a", "b"), "ok"), *tools, max_parallel_tool_calls=1), recorder)
    assert seen == [[], ["a"]]
