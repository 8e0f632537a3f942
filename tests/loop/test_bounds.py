"""What bounds a batch: its size, its progress buffer, threads that cannot be stopped (T115 to T121)."""

from __future__ import annotations

import logging
import threading
from typing import Any

import anyio
import pytest
from kit import Recorder, Streams, calls, named, options, roles, valid

from loopwright import RunControl, StepCountIs, Tool, ToolContext, ToolExecutionPolicy, ToolLoopAgent
from loopwright.errors import MaxToolCallsPerStepExceeded, RunCancelled
from loopwright.events import ToolExecutionUpdate, ToolProgress
from loopwright.loop import run_agent_loop
from loopwright.messages import Message
from loopwright.signals import AbortSignal
from loopwright.testing import ScriptedModel, call, check_history


class Empty(ToolLoopAgent[Any, str]):
    """Has the tools that a test gives it."""

    instructions = ""


both = pytest.mark.parametrize("how", ["generate", "stream"])


async def run(agent: Any, how: str, prompt: Any = "Go.") -> Any:
    if how == "generate":
        return await agent.generate(prompt, context=None)
    async with agent.stream(prompt, context=None) as handle:
        return await handle.result()


@both
async def test_T115_too_many_calls_and_none_runs(how: str) -> None:
    ran: list[str] = []
    agent = Empty(
        model=ScriptedModel([calls("a", "b", "c")]),
        tools=[named(name, lambda name=name: ran.append(name)) for name in "abc"],
        max_tool_calls_per_step=2,
    )
    with pytest.raises(MaxToolCallsPerStepExceeded, match="3 tool calls in one step; the limit is 2") as raised:
        await run(agent, how)
    assert ran == []
    assert roles(raised.value.messages) == "u a a! b! c!"
    assert (raised.value.count, raised.value.limit) == (3, 2)
    check_history(list(raised.value.messages))


@both
@pytest.mark.parametrize("by", ["tool", "policy", "name"])
async def test_T116_a_call_that_takes_too_long(how: str, by: str) -> None:
    async def slow() -> str:
        await anyio.sleep_forever()
        return ""

    async def quick() -> str:
        return "quick"

    own = {"timeout": 0.01} if by == "tool" else {}
    policy = {
        "tool": ToolExecutionPolicy(),
        "policy": ToolExecutionPolicy(timeout=0.01),
        "name": ToolExecutionPolicy(timeout=60, per_tool_timeout={"slow": 0.01}),
    }[by]
    tools = [Tool.from_function(slow, **own), Tool.from_function(quick)]  # type: ignore[arg-type]
    agent = Empty(model=ScriptedModel([calls("slow", "quick"), "Done."]), tools=tools, tool_policy=policy)
    result = await run(agent, how)
    first, second = (m for m in result.messages if m.role == "tool")
    assert (first.status, first.text) == ("timeout", "The tool 'slow' took longer than 0.01 s and was cancelled.")
    assert (second.status, second.text) == ("success", "quick")
    assert result.output == "Done."


@pytest.mark.parametrize("cap", [1, 2, 8])
@pytest.mark.parametrize("stop", ["signal", "task"])
async def test_T117_abort_with_calls_in_the_queue(cap: int, stop: str) -> None:
    """The first call ends at once; all others hang. Then comes the abort."""
    history: list[Message] = []
    signal, hangs = AbortSignal(), anyio.Event()
    running: list[str] = []

    def make(n: int) -> Tool:
        async def work() -> str:
            if n == 0:
                return "real"
            running.append(str(n))
            if len(running) == min(cap, 9):
                hangs.set()
            await anyio.sleep_forever()
            return ""

        return named(f"t{n}", work)

    names = [f"t{n}" for n in range(10)]
    ends: list[str] = []

    async def go() -> None:
        try:
            stream = Streams(calls(*names))
            await run_agent_loop(
                "hi", history, options(stream, *map(make, range(10)), max_parallel_tool_calls=cap), None, signal
            )
        except RunCancelled:
            ends.append("cancelled")
        finally:
            ends.append("ended")

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await hangs.wait()
        _ = group.cancel_scope.cancel() if stop == "task" else signal.abort("enough")
    valid(history)
    statuses = [m.status for m in history if m.role == "tool"]
    assert statuses == ["success", *["cancelled"] * min(cap, 9), *["skipped"] * (9 - min(cap, 9))]
    assert ends == (["cancelled", "ended"] if stop == "signal" else ["ended"])
    assert len(running) == min(cap, 9)


@pytest.mark.parametrize("cap", [1, 2, 8])
async def test_T118_a_tool_that_fails_in_an_unusual_way_does_not_hang_the_batch(cap: int) -> None:
    """A tool may end its own task: its scope is cancelled from within, or it returns what cannot be told."""

    async def cancels_itself() -> str:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep_forever()
        raise KeyError("after all")

    async def gives_nonsense() -> Any:
        return object()

    async def fine() -> str:
        return "fine"

    history: list[Message] = []
    tools = [named("a", cancels_itself), named("b", gives_nonsense), named("c", fine)]
    await run_agent_loop(
        "hi", history, options(Streams(calls("a", "b", "c"), "ok"), *tools, max_parallel_tool_calls=cap)
    )
    valid(history)
    assert roles(history) == "u a a! b! c a"


async def test_T120_C22_all_calls_of_a_batch_see_the_same_messages() -> None:
    seen: list[Any] = []
    first_done = anyio.Event()

    async def first(ctx: ToolContext) -> str:
        seen.append(ctx.messages)
        first_done.set()
        return "first"

    async def second(ctx: ToolContext) -> str:
        await first_done.wait()
        seen.append(ctx.messages)
        return "second"

    for cap in (1, 2):
        seen.clear()
        tools = [Tool.from_function(first), Tool.from_function(second)]
        model = ScriptedModel([calls("first", "second"), "Done."])
        await Empty(model=model, tools=tools, max_parallel_tool_calls=cap).generate("Go.", context=None)
        assert seen[0] == seen[1]
        assert [m.role for m in seen[0]] == ["user", "assistant"]


# ---------------------------------------------------------------- progress


@pytest.mark.parametrize("kind", ["async generator", "generator", "send_progress"])
@pytest.mark.parametrize("capacity", [0, 3])
async def test_T121_a_full_buffer_lets_the_producer_wait_and_loses_nothing(kind: str, capacity: int) -> None:
    made = 0
    highest = 0

    async def async_generator() -> Any:
        nonlocal made
        for n in range(20):
            made += 1
            yield n

    def generator() -> Any:
        nonlocal made
        for n in range(20):
            made += 1
            yield n

    async def send_progress(ctx: ToolContext) -> int:
        nonlocal made
        for n in range(20):
            made += 1
            await ctx.send_progress(n)
        return 19

    function: Any = {"async generator": async_generator, "generator": generator, "send_progress": send_progress}[kind]
    model = ScriptedModel([[call(function.__name__, id="c")], "Done."])
    policy = ToolExecutionPolicy(progress_buffer_capacity=capacity)
    agent = Empty(model=model, tools=[Tool.from_function(function)], tool_policy=policy)
    told: list[Any] = []
    async with agent.stream("Go.", context=None) as handle:
        async for part in handle:
            if isinstance(part, ToolProgress):
                told.append(part.progress)
                highest = max(highest, made - len(told))
        result = await handle.result()
    assert told == list(range(20))
    assert highest <= capacity + 2
    assert [m.text for m in result.messages if m.role == "tool"] == ["19"]


async def test_T121_a_waiting_producer_is_released_by_cancel() -> None:
    waiting = anyio.Event()

    async def chatty(ctx: ToolContext) -> None:
        await ctx.send_progress(1)
        waiting.set()
        while True:
            await ctx.send_progress(2)

    history: list[Message] = []
    signal = AbortSignal()

    def stop(event: Any) -> None:
        if isinstance(event, ToolExecutionUpdate):
            signal.abort("enough")

    tools = [Tool.from_function(chatty)]
    with pytest.raises(RunCancelled, match="enough"):
        await run_agent_loop(
            "hi", history, options(Streams(calls("chatty")), *tools, progress_capacity=1), Recorder(stop), signal
        )
    assert [m.status for m in history if m.role == "tool"] == ["cancelled"]


# ---------------------------------------------------------------- threads that go on


@both
async def test_a_thread_that_cannot_be_stopped_is_reported(how: str, caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    def stubborn() -> str:
        release.wait(30)
        return "late"

    model = ScriptedModel([calls("stubborn"), "Done."])
    policy = ToolExecutionPolicy(timeout=0.01, cancel_grace=0.05)
    agent = Empty(model=model, tools=[stubborn], tool_policy=policy)
    try:
        with caplog.at_level(logging.WARNING, "loopwright"):
            result = await run(agent, how)
    finally:
        release.set()
    (told,) = (m for m in result.messages if m.role == "tool")
    assert told.status == "timeout"
    assert told.text.endswith("It runs in a thread, which cannot be stopped: it may still take effect.")
    assert "'stubborn' runs on in a thread" in caplog.text
    assert result.output == "Done."


# ---------------------------------------------------------------- as many as there may be


@both
async def test_128_calls_and_never_more_than_8_at_once(how: str) -> None:
    running, highest, full = 0, 0, anyio.Event()

    async def work(n: int) -> int:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        if running == 8:
            full.set()
        await full.wait()
        await anyio.lowlevel.checkpoint()
        running -= 1
        return n

    model = ScriptedModel([[call("work", id=f"c{n}", n=n) for n in range(128)], "Done."])
    result = await run(Empty(model=model, tools=[work], stop_when=StepCountIs(5)), how)
    assert highest == 8
    assert [m.text for m in result.messages if m.role == "tool"] == [str(n) for n in range(128)]


async def test_a_tool_may_steer_its_run() -> None:
    async def work(ctx: ToolContext) -> str:
        assert isinstance(ctx.run, RunControl)
        ctx.run.steer("And this.")
        return "worked"

    model = ScriptedModel([calls("work"), "Done."])
    result = await Empty(model=model, tools=[work]).generate("Go.", context=None)
    assert [m.text for m in result.messages] == ["Go.", "", "worked", "And this.", "Done."]
