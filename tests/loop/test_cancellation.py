"""Cancellation and failure (T97 to T110, G4, G9)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from kit import Recorder, Streams, calls, is_cancelled, named, options, roles, valid

from loopwright.errors import RunCancelled
from loopwright.events import MessageEnd, MessageUpdate, ResponseStart, TextDelta, ToolExecutionEnd, ToolExecutionStart
from loopwright.loop import run_agent_loop
from loopwright.loop.waits import AbortableWaits
from loopwright.messages import AssistantMessage, Message, ToolResultMessage
from loopwright.signals import AbortSignal
from loopwright.testing import ScriptedStream, answer
from loopwright.tools.context import ToolContext
from loopwright.tools.decorator import tool


@pytest.fixture(autouse=True)
def _no_garbage_left() -> Any:
    """Warnings of what was left lying about belong to the test that left it."""
    yield
    gc.collect()


async def rejects(running: Awaitable[Any], reason: object) -> None:
    with pytest.raises(RunCancelled) as caught:
        await running
    assert is_cancelled(caught.value, reason)


class Forever:
    """A tool that waits until it is cancelled."""

    def __init__(self, name: str) -> None:
        self.started = anyio.Event()
        self.ended = False
        self.tool = named(name, self._run)

    async def _run(self) -> None:
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.ended = True


# ---------------------------------------------------------------- in a stream


async def test_T97_an_abort_while_the_stream_is_awaited_rejects_at_once() -> None:
    signal, history, reached = AbortSignal(), list[Message](), anyio.Event()

    async def stream(model: Any, context: Any, options: Any) -> Any:
        reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("late failure")

    async with anyio.create_task_group() as tasks:

        async def abort() -> None:
            await reached.wait()
            signal.abort("enough")

        tasks.start_soon(abort)
        await rejects(run_agent_loop("hi", history, options(stream), None, signal), "enough")
    assert roles(history) == "u"


async def test_T98_an_abort_between_events_rejects_and_closes_the_stream_once() -> None:
    signal, history = AbortSignal(), list[Message]()
    stream = ScriptedStream([ResponseStart(), TextDelta(0, "one "), TextDelta(0, "two "), TextDelta(0, "three")])
    recorder = Recorder(lambda e: signal.abort("enough") if isinstance(e, MessageUpdate) else None)
    with pytest.raises(RunCancelled) as caught:
        await run_agent_loop("hi", history, options(Streams(stream)), recorder, signal)
    assert is_cancelled(caught.value, "enough")
    assert (roles(history), stream.closes) == ("u", 1)
    assert recorder.trace == "ms(u) me(u) ms(a) mu(text-delta)"
    assert caught.value.partial is not None
    assert caught.value.partial.text == "one "


async def test_T98_an_abort_while_an_event_is_awaited_closes_the_stream() -> None:
    signal, history, reached = AbortSignal(), list[Message](), anyio.Event()

    async def gate() -> None:
        reached.set()
        await anyio.sleep_forever()

    stream = ScriptedStream([ResponseStart(), TextDelta(0, "half"), gate])
    async with anyio.create_task_group() as tasks:

        async def abort() -> None:
            await reached.wait()
            signal.abort("enough")

        tasks.start_soon(abort)
        await rejects(run_agent_loop("hi", history, options(Streams(stream)), None, signal), "enough")
    assert (roles(history), stream.closes) == ("u", 1)


async def test_T105_a_cancelled_task_closes_the_stream_and_stays_cancelled() -> None:
    history, reached = list[Message](), anyio.Event()

    async def gate() -> None:
        reached.set()
        await anyio.sleep_forever()

    stream = ScriptedStream([ResponseStart(), TextDelta(0, "half"), gate])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await reached.wait()
                scope.cancel()

            tasks.start_soon(cancel)
            await run_agent_loop("hi", history, options(Streams(stream)))
    assert scope.cancelled_caught
    assert (roles(history), stream.closes) == ("u", 1)


# ---------------------------------------------------------------- round a batch


async def test_T99_an_abort_after_the_answer_runs_no_tool_and_pairs_all() -> None:
    signal, history, ran = AbortSignal(), list[Message](), list[int]()
    recorder = Recorder(
        lambda e: (
            signal.abort("enough") if isinstance(e, MessageEnd) and isinstance(e.message, AssistantMessage) else None
        )
    )
    running = run_agent_loop(
        "hi",
        history,
        options(Streams(calls("t", "s")), named("t", lambda: ran.append(1)), named("s", int)),
        recorder,
        signal,
    )
    await rejects(running, "enough")
    assert (ran, roles(history)) == ([], "u a t! s!")
    assert recorder.trace.endswith("me(a) ms(t!) me(t!) ms(s!) me(s!)")
    assert "enough" in history[2].text
    valid(history)


async def test_T100_an_abort_after_the_final_answer_rejects_though_it_is_in_the_history() -> None:
    signal, history, polls = AbortSignal(), list[Message](), list[str]()
    recorder = Recorder(
        lambda e: (
            signal.abort("enough") if isinstance(e, MessageEnd) and isinstance(e.message, AssistantMessage) else None
        )
    )
    running = run_agent_loop(
        "hi",
        history,
        options(Streams("x"), get_follow_up_messages=lambda signal: polls.append("follow-up") or []),
        recorder,
        signal,
    )
    await rejects(running, "enough")
    assert (roles(history), polls) == ("u a", [])


@pytest.mark.parametrize("cap", [1, 2, 8])
async def test_G4_T101_an_abort_in_the_first_of_three(cap: int) -> None:
    signal, history = AbortSignal(), list[Message]()
    first, second, third = Forever("a"), Forever("b"), Forever("c")
    streams, recorder = Streams(calls("a", "b", "c"), "later"), Recorder()

    async with anyio.create_task_group() as tasks:

        async def abort() -> None:
            for tool in (first, second, third)[:cap]:
                await tool.started.wait()
            signal.abort("enough")

        tasks.start_soon(abort)
        running = run_agent_loop(
            "hi",
            history,
            options(streams, first.tool, second.tool, third.tool, max_parallel_tool_calls=cap),
            recorder,
            signal,
        )
        await rejects(running, "enough")
    assert roles(history) == "u a a! b! c!"
    assert [m.status for m in history[2:]] == (["cancelled"] * min(cap, 3) + ["skipped"] * 3)[:3]
    assert all("enough" in m.text for m in history[2:])
    assert [tool.ended for tool in (first, second, third)] == [True] * min(cap, 3) + [False] * (3 - min(cap, 3))
    if cap == 1:
        assert recorder.trace.endswith("me(a) ts(a) te(a!) ms(a!) me(a!) ms(b!) me(b!) ms(c!) me(c!)")
    assert streams.count == 1
    valid(history)
    await run_agent_loop("go on", history, options(streams))
    assert [m.role for m in streams.contexts[1].messages] == ["user", "assistant", "tool", "tool", "tool", "user"]


async def test_T101_a_finished_sibling_keeps_its_real_result() -> None:
    signal, history = AbortSignal(), list[Message]()
    slow, fast = Forever("slow"), named("fast", lambda: "real")
    recorder = Recorder(
        lambda e: signal.abort("enough") if isinstance(e, ToolExecutionEnd) and e.call.name == "fast" else None
    )
    running = run_agent_loop(
        "hi",
        history,
        options(Streams(calls("slow", "fast")), slow.tool, fast, max_parallel_tool_calls=2),
        recorder,
        signal,
    )
    await rejects(running, "enough")
    assert [(m.tool_name, m.status, m.text == "real") for m in history[2:]] == [
        ("slow", "cancelled", False),
        ("fast", "success", True),
    ]
    valid(history)


async def test_T102_a_tool_that_raises_as_the_abort_comes_gives_the_reason() -> None:
    signal, history = AbortSignal(), list[Message]()

    def stop_and_raise() -> None:
        signal.abort("enough")
        raise ValueError("own error")

    running = run_agent_loop("hi", history, options(Streams(calls("t")), named("t", stop_and_raise)), None, signal)
    await rejects(running, "enough")
    assert history[2].status == "cancelled"
    assert "enough" in history[2].text
    assert "own error" not in history[2].text


async def test_T102_a_tool_that_finishes_as_the_abort_comes_keeps_its_result() -> None:
    signal, history = AbortSignal(), list[Message]()

    def stop_and_finish() -> str:
        signal.abort("enough")
        return "done all the same"

    running = run_agent_loop("hi", history, options(Streams(calls("t")), named("t", stop_and_finish)), None, signal)
    await rejects(running, "enough")
    assert (history[2].status, history[2].text) == ("success", "done all the same")


async def test_T103_an_abort_in_finish_turn_polls_nothing_more() -> None:
    signal, polls = AbortSignal(), list[str]()
    running = run_agent_loop(
        "hi",
        [],
        options(
            Streams("x"),
            finish_turn=lambda turn, signal: signal.abort("enough") and None,
            get_steering_messages=lambda signal: polls.append("steering") or [],
            get_follow_up_messages=lambda signal: polls.append("follow-up") or [],
        ),
        None,
        signal,
    )
    await rejects(running, "enough")
    assert polls == ["steering"]


@pytest.mark.parametrize("cap", [1, 2, 8])
async def test_T104_a_cancelled_task_pairs_before_it_leaves(cap: int) -> None:
    history, first = list[Message](), Forever("a")
    others = [Forever("b"), Forever("c")]
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await first.started.wait()
                scope.cancel()

            tasks.start_soon(cancel)
            await run_agent_loop(
                "hi",
                history,
                options(
                    Streams(calls("a", "b", "c")), first.tool, *(t.tool for t in others), max_parallel_tool_calls=cap
                ),
            )
    assert scope.cancelled_caught
    assert roles(history) == "u a a! b! c!"
    assert first.ended
    valid(history)


async def test_G9_T106_a_listener_that_raises_at_an_end_keeps_that_result() -> None:
    error, history, ran = ValueError("listener"), list[Message](), list[int]()

    def fail(event: Any) -> None:
        if isinstance(event, ToolExecutionEnd) or (ran_into and isinstance(event, MessageEnd)):
            ran_into.append(1)
            raise error if len(ran_into) == 1 else KeyError("while pairing")

    ran_into: list[int] = []
    with pytest.raises(ValueError, match="listener") as caught:
        await run_agent_loop(
            "hi",
            history,
            options(Streams(calls("a", "b")), named("a", lambda: "real"), named("b", lambda: ran.append(1))),
            Recorder(fail),
        )
    assert caught.value is error
    assert [(m.status, m.tool_name) for m in history[2:]] == [("success", "a"), ("skipped", "b")]
    assert history[2].text == "real"
    assert (ran, len(ran_into) > 1) == ([], True)
    valid(history)


@pytest.mark.parametrize("cap", [1, 2, 8])
@pytest.mark.parametrize("kind", [ToolExecutionStart, ToolExecutionEnd, MessageEnd])
async def test_T106_a_failing_listener_leaves_a_valid_history_wherever_it_fails(kind: type, cap: int) -> None:
    for at in range(8):
        seen: list[int] = []

        def fail(event: Any, seen: list[int] = seen, at: int = at) -> None:
            if isinstance(event, kind):
                seen.append(1)
                if len(seen) == at + 1:
                    raise ValueError("listener")

        history = list[Message]()
        tools = [named(name, lambda: "ok") for name in "abc"]
        try:
            await run_agent_loop(
                "hi",
                history,
                options(Streams(calls("a", "b", "c"), "done"), *tools, max_parallel_tool_calls=cap),
                Recorder(fail),
            )
        except ValueError:
            assert len(seen) > at
        else:
            assert len(seen) <= at
        valid(history)


async def test_a_listener_that_raises_on_the_end_of_an_answer_keeps_it() -> None:
    def fail(event: Any) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            raise ValueError("listener")

    history = list[Message]()
    with pytest.raises(ValueError, match="listener"):
        await run_agent_loop("hi", history, options(Streams("x")), Recorder(fail))
    assert roles(history) == "u a"


# ---------------------------------------------------------------- tools that do not want to end


async def test_a_tool_that_swallows_cancellation_is_left_after_the_grace() -> None:
    signal, history, reached, release = AbortSignal(), list[Message](), anyio.Event(), anyio.Event()

    async def stubborn() -> None:
        reached.set()
        with anyio.CancelScope(shield=True):
            await release.wait()

    async with anyio.create_task_group() as tasks:

        async def abort() -> None:
            await reached.wait()
            signal.abort("enough")

        tasks.start_soon(abort)
        running = run_agent_loop(
            "hi", history, options(Streams(calls("t")), named("t", stubborn), cancel_grace=0.0), None, signal
        )
        await rejects(running, "enough")
    assert history[2].status == "cancelled"
    valid(history)
    release.set()
    await anyio.wait_all_tasks_blocked()


async def test_a_tool_that_cancels_itself_gives_an_error_result() -> None:
    async def inner() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep_forever()
        raise ValueError("after its own scope")

    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("t"), "ok"), named("t", inner)))
    assert (history[2].status, history[2].text) == ("error", "after its own scope")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_raises_cancelled_error_does_not_end_the_run(anyio_backend: str) -> None:
    import asyncio

    def cancelled() -> None:
        raise asyncio.CancelledError

    history = list[Message]()
    final = await run_agent_loop("hi", history, options(Streams(calls("t"), "ok"), named("t", cancelled)))
    assert (history[2].status, final.text) == ("error", "ok")
    assert "cancelled from within" in history[2].text


async def test_a_tool_that_exits_ends_the_program_and_not_the_history() -> None:
    def leave() -> None:
        raise SystemExit(3)

    history = list[Message]()
    with pytest.raises(SystemExit) as caught:
        await run_agent_loop("hi", history, options(Streams(calls("t", "s")), named("t", leave), named("s", int)))
    assert caught.value.code == 3
    valid(history)


async def test_a_thread_that_cannot_be_stopped_does_not_hold_the_run() -> None:
    signal, history = AbortSignal(), list[Message]()
    started, release = threading.Event(), threading.Event()

    @tool
    def stuck() -> str:
        """Wait."""
        started.set()
        release.wait(10)
        return "late"

    async with anyio.create_task_group() as tasks:

        async def abort() -> None:
            await anyio.to_thread.run_sync(started.wait, abandon_on_cancel=True)
            signal.abort("enough")

        tasks.start_soon(abort)
        await rejects(run_agent_loop("hi", history, options(Streams(calls("stuck")), stuck), None, signal), "enough")
    release.set()
    assert history[2].status == "cancelled"
    valid(history)


# ---------------------------------------------------------------- signals in the loop


async def test_T107_aborting_twice_and_after_the_end_is_safe() -> None:
    signal = AbortSignal()
    await run_agent_loop("hi", [], options(Streams("x")), None, signal)
    assert signal.abort() is True
    assert signal.abort("again") is False
    assert isinstance(signal.reason, RunCancelled)


async def test_T108_listeners_are_removed_after_each_wait() -> None:
    signal = AbortSignal()
    waits = AbortableWaits(signal)
    during = signal.listener_count
    for _ in range(1000):
        await waits.wait(anyio.lowlevel.checkpoint())
    assert signal.listener_count == during == 1
    waits.close()
    assert signal.listener_count == 0


async def test_T108_a_run_leaves_no_listener() -> None:
    signal = AbortSignal()
    await run_agent_loop("hi", [], options(Streams(calls("t"), "x"), named("t", lambda: "ok")), None, signal)
    assert signal.listener_count == 0


async def test_T109_a_combined_signal_stops_the_run() -> None:
    one, two = AbortSignal(), AbortSignal()
    both = AbortSignal.any(one, two)
    two.abort("second")
    await rejects(run_agent_loop("hi", [], options(Streams("x")), None, both), "second")
    assert one.listener_count == 0


@pytest.mark.parametrize("where", ["stream", "tool", "callback"])
async def test_T110_an_abort_from_another_thread_wakes_the_loop(where: str) -> None:
    signal, history = AbortSignal(), list[Message]()
    threads: list[threading.Thread] = []

    async def hang(*args: Any) -> None:
        thread = threading.Thread(target=signal.abort, args=("from a thread",))
        threads.append(thread)
        thread.start()
        await anyio.sleep_forever()

    streams: Any = Streams(calls("t")) if where == "tool" else Streams([ResponseStart(), hang])
    more: dict[str, Any] = {"prepare_request": hang} if where == "callback" else {}
    running = run_agent_loop("hi", history, options(streams, named("t", hang), **more), None, signal)
    await rejects(running, "from a thread")
    for thread in threads:
        thread.join()
    valid(history)


# ---------------------------------------------------------------- everywhere: inject at each await


Fault = Callable[[], Awaitable[None]]


@pytest.mark.parametrize("cap", [1, 2, 8])
@pytest.mark.parametrize("fault", ["raise", "abort"])
async def test_a_fault_at_any_await_leaves_a_valid_history(fault: str, cap: int) -> None:
    at = 0
    while await _run_with_fault(fault, at, cap):
        at += 1
    assert at > 20


async def _run_with_fault(fault: str, at: int, cap: int) -> bool:
    """Run a script of two batches with a fault at the n-th await of user code; False when it was never reached."""
    signal, count = AbortSignal(), 0
    error = ValueError("injected")

    async def point(*args: Any) -> Any:
        nonlocal count
        count += 1
        await anyio.lowlevel.checkpoint()
        if count == at + 1:
            if fault == "raise":
                raise error
            signal.abort("injected")
        return None

    async def stream(model: Any, context: Any, options: Any, metadata: Any) -> Any:
        await point()
        return await script(model, context, options, metadata)

    @tool
    async def work(ctx: ToolContext[Any]) -> str:
        """Work."""
        await point()
        return "worked"

    script = Streams([*_gated(answer(*calls("work", "work")), point)], [*_gated(answer(*calls("work")), point)], "done")
    history = list[Message]()
    try:
        await run_agent_loop(
            "hi",
            history,
            options(
                stream,
                work,
                get_steering_messages=point,
                get_follow_up_messages=point,
                prepare_request=point,
                finish_turn=point,
                max_parallel_tool_calls=cap,
            ),
            Recorder(point),
            signal,
        )
    except ValueError as caught:
        assert caught is error
    except RunCancelled as caught:
        assert is_cancelled(caught, "injected")
    valid(history)
    results = [m for m in history if isinstance(m, ToolResultMessage)]
    assert len(results) == sum(len(m.tool_calls) for m in history if isinstance(m, AssistantMessage))
    assert signal.listener_count == 0
    return count > at


def _gated(message: AssistantMessage, gate: Fault) -> list[Any]:
    from loopwright.testing import events_of

    first, *rest = events_of(message)
    return [first, gate, *rest]
