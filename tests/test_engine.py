"""The engine: its table, its state, and driving an agent through `dispatch` alone (T185 to T192, G8)."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_args

import anyio
import anyio.to_thread
import pytest
from kit import roles

from loopwright import (
    Approve,
    Cancel,
    Deny,
    FollowUp,
    Reset,
    RunError,
    Steer,
    StepContext,
    StepSettings,
    Submit,
    ToolContext,
    ToolLoopAgent,
    tool,
)
from loopwright.engine import RUNNING, TRANSITIONS, EngineState, Machine, Phase, Signal
from loopwright.errors import LoopwrightError, ModelError
from loopwright.events import ResponseStart, TextDelta, TextStart
from loopwright.testing import ScriptedModel, answer, call, check_history, events_of


class Worker(ToolLoopAgent[Any, str]):
    """Works and pays."""

    instructions = "Work."

    def __init__(self, *script: Any, **settings: Any) -> None:
        super().__init__(model=ScriptedModel(script), **settings)
        self.seen: list[Any] = []
        self.started = anyio.Event()
        self.stopped = anyio.Event()
        self.aborted: list[bool] = []

    @tool
    async def work(self, ctx: ToolContext[Any], hang: bool = False) -> str:
        """Work."""
        self.seen.append(ctx.context)
        if hang:
            self.started.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.aborted.append(ctx.signal.aborted)
                self.stopped.set()
        return "worked"

    @tool(needs_approval=True)
    async def pay(self, ctx: ToolContext[Any], amount: int = 1) -> str:
        """Pay."""
        self.seen.append(("paid", amount, ctx.context))
        return "paid"


class Watched:
    """Follows an agent's states, and waits for one."""

    def __init__(self, agent: Worker) -> None:
        self.agent = agent
        self.states: list[EngineState] = []
        self._changed = anyio.Event()

    async def follow(self) -> None:
        async for state in self.agent.engine_states():
            self.states.append(state)
            self._changed.set()
            self._changed = anyio.Event()

    async def until(self, fits: Any) -> EngineState:
        while not (self.states and fits(self.states[-1])):
            await self._changed.wait()
        return self.states[-1]

    async def rest(self, after: int = 0) -> EngineState:
        return await self.until(lambda s: len(self.states) > after and not s.is_running and s.run_id is not None)


@asynccontextmanager
async def watched(agent: Worker) -> AsyncIterator[Watched]:
    watch = Watched(agent)
    async with anyio.create_task_group() as group:
        group.start_soon(watch.follow)
        await watch.until(lambda state: True)
        yield watch
        agent.close()
    gc.collect()


# ---------------------------------------------------------------- the table


def test_the_table_is_whole() -> None:
    phases, signals = get_args(Phase), get_args(Signal)
    assert {phase for phase, _ in TRANSITIONS} | set(TRANSITIONS.values()) == set(phases)
    assert {signal for _, signal in TRANSITIONS} == set(signals)
    reached = {"idle"}
    while True:
        more = {target for (phase, _), target in TRANSITIONS.items() if phase in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(phases)
    for phase in RUNNING:
        assert {"abort", "fail", "finish", "hold"} <= {s for p, s in TRANSITIONS if p == phase}


def test_an_undefined_transition_raises_here_and_is_logged_elsewhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    with pytest.raises(LoopwrightError, match="cannot 'answer'"):
        machine.move("answer")
    assert machine.phase == "idle"
    monkeypatch.setattr(Machine, "strict", False)
    assert machine.move("answer") == "streaming"
    assert "cannot 'answer'" in caplog.text


# ---------------------------------------------------------------- submit


async def test_T185_submit() -> None:
    gate = anyio.Event()
    half = [ResponseStart(), TextStart(0), TextDelta(0, "Half"), gate.wait, *events_of(answer("Half done."))[3:]]
    agent = Worker(call("work", id="w"), half)
    async with watched(agent) as watch:
        assert agent.dispatch(Submit("Go.", context="ctx"))
        state = await watch.until(lambda s: s.streaming_text == "Half")
        assert (state.phase, state.is_streaming, state.is_running, state.total_steps) == ("streaming", True, True, 1)
        gate.set()
        state = await watch.until(lambda s: s.phase == "idle" and s.total_steps == 2)
        assert (state.streaming_text, state.last_finish_reason, state.error) == ("", "stop", None)
        assert roles(state.messages) == "u a work a"
        assert agent.seen == ["ctx"]
    phases = [state.phase for state in watch.states]
    assert phases[0] == "idle"
    assert "streaming" in phases


async def test_each_run_has_a_state_of_its_own() -> None:
    agent = Worker(call("work", id="w"), "Done.")
    phases: list[str] = []
    async with agent.stream("Go.", context=None) as run:
        assert run.engine_state.phase == "idle"
        async for _ in run:
            state = run.engine_state
            if phases[-1:] != [state.phase]:
                phases.append(state.phase)
    assert phases == ["requesting", "streaming", "executing", "preparing", "requesting", "streaming", "preparing",
                      "finished"]  # fmt: skip
    assert agent.engine_state.phase == "idle"


async def test_T186_cancel_while_streaming() -> None:
    agent = Worker(call("work", id="w", hang=True))
    async with watched(agent) as watch:
        agent.dispatch(Submit("Go."))
        await agent.started.wait()
        assert [c.id for c in agent.engine_state.current_tool_calls] == ["w"]
        assert agent.dispatch(Cancel)
        state = await watch.until(lambda s: s.phase == "idle" and s.messages)
        assert agent.aborted == [True]
        assert roles(state.messages) == "u a work!"
        assert state.current_tool_calls == ()
        check_history(list(state.messages))


async def test_T187_cancel_with_nothing_to_cancel() -> None:
    agent = Worker("Done.")
    before = agent.engine_state
    assert not agent.dispatch(Cancel)
    assert not agent.dispatch(Cancel())
    assert agent.engine_state is before
    async with watched(agent) as watch:
        agent.dispatch(Submit("Go."))
        after = await watch.rest()
        assert not agent.dispatch(Cancel("another run"))
        assert not agent.dispatch(Cancel())
        assert agent.engine_state is after


async def test_T188_a_second_submit_supersedes() -> None:
    agent = Worker([ResponseStart(), TextStart(0), TextDelta(0, "First"), anyio.sleep_forever], "Second.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("One."))
        await watch.until(lambda s: s.streaming_text == "First")
        agent.dispatch(Submit("Two."))
        state = await watch.until(
            lambda s: s.phase == "idle" and "Second." in [getattr(m, "text", "") for m in s.messages]
        )
        assert [m.text for m in state.messages] == ["One.", "Two.", "Second."]  # type: ignore[union-attr]


async def test_submit_goes_on_with_its_own_conversation() -> None:
    agent = Worker("One.", "Aside.", "Two.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("First."))
        await watch.rest()
        aside = await agent.generate("Elsewhere.", context=None)
        assert [m.text for m in agent.engine_state.messages] == ["Elsewhere.", "Aside."]  # type: ignore[union-attr]
        agent.dispatch(Submit("Second."))
        state = await watch.until(lambda s: len(s.messages) == 4 and not s.is_running)
    # T191: a run that was started otherwise left the conversation alone.
    assert [m.text for m in state.messages] == ["First.", "One.", "Second.", "Two."]  # type: ignore[union-attr]
    assert len(aside.messages) == 2
    assert state.total_steps == 3


async def test_T191_cancel_reaches_runs_started_otherwise() -> None:
    agent = Worker(call("work", id="w", hang=True))
    async with agent.stream("Go.", context=None) as run, anyio.create_task_group() as group:

        async def stop() -> None:
            await agent.started.wait()
            assert not agent.dispatch(Cancel("other"))
            assert agent.dispatch(Cancel(run.run_id, reason="enough"))

        group.start_soon(stop)
        parts = [part async for part in run]
    assert (parts[-1].type, parts[-1].reason) == ("abort", "enough")  # type: ignore[union-attr]


# ---------------------------------------------------------------- approvals


async def test_T189_G8_approve_and_deny() -> None:
    agent = Worker([call("pay", id="a", amount=1), call("pay", id="b", amount=2)], "Done.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("Pay.", context="ctx"))
        state = await watch.until(lambda s: s.phase == "awaiting_approval")
        first, second = state.pending_approvals
        assert not agent.dispatch(Approve("nothing"))
        state = agent.engine_state
        assert state.phase == "failed"
        assert state.error is not None
        assert "'nothing'" in state.error
        assert state.pending_approvals == (first, second)
        assert agent.dispatch(Approve(first.approval_id, arguments={"amount": 7}))
        assert agent.engine_state.phase == "awaiting_approval"
        assert agent.seen == []
        assert agent.dispatch(Deny("b", "too much"))
        state = await watch.until(lambda s: s.phase == "idle" and s.total_steps == 2)
        assert agent.seen == [("paid", 7, "ctx")]
        assert [m.role for m in state.messages] == ["user", "assistant", "approval", "tool", "tool", "assistant"]
        assert state.pending_approvals == ()
        idle = agent.engine_state
        assert not agent.dispatch(Cancel)
        assert agent.engine_state is idle


async def test_T131_a_resumed_approval_sees_the_latest_context() -> None:
    class Stepped(Worker):
        async def prepare_step(self, step: StepContext[Any]) -> StepSettings | None:
            return StepSettings(context="newer") if step.step_number == 1 else None

    agent = Stepped(call("pay", id="a"), "Done.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("Pay.", context="old"))
        await watch.until(lambda s: s.phase == "awaiting_approval")
        agent.dispatch(Approve("a"))
        await watch.until(lambda s: s.phase == "idle" and s.total_steps == 2)
    assert agent.seen == [("paid", 1, "newer")]


async def test_an_answer_that_is_refused_can_be_given_again() -> None:
    agent = Worker(call("pay", id="a"), "Done.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("Pay."))
        await watch.until(lambda s: s.phase == "awaiting_approval")
        agent.dispatch(Approve("a", arguments={"amount": "lots"}))
        state = await watch.until(lambda s: s.phase == "failed")
        assert [p.call.id for p in state.pending_approvals] == ["a"]
        agent.dispatch(Approve("a", arguments={"amount": 3}))
        await watch.until(lambda s: s.phase == "idle" and s.total_steps == 2)
    assert agent.seen == [("paid", 3, None)]


async def test_a_new_input_passes_what_waits_over() -> None:
    agent = Worker(call("pay", id="a"), "Other.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("Pay."))
        await watch.until(lambda s: s.phase == "awaiting_approval")
        agent.dispatch(Submit("No, talk."))
        state = await watch.until(lambda s: s.phase == "idle" and s.total_steps == 2)
        assert state.pending_approvals == ()
        assert not agent.dispatch(Approve("a"))
    assert agent.seen == []


# ---------------------------------------------------------------- the rest


async def test_steer_and_follow_up() -> None:
    gate = anyio.Event()

    class Slow(Worker):
        @tool
        async def wait(self) -> str:
            """Wait."""
            self.started.set()
            await gate.wait()
            return "waited"

    agent = Slow(call("wait", id="w"), "One.", "Two.")
    assert not agent.dispatch(Steer("too early"))
    async with watched(agent) as watch:
        agent.dispatch(Submit("Go."))
        await agent.started.wait()
        assert agent.dispatch(Steer("Left."))
        assert agent.dispatch(FollowUp("And then?"))
        gate.set()
        state = await watch.until(lambda s: s.phase == "idle" and s.total_steps == 3)
        assert [m.text for m in state.messages if m.role == "user"] == ["Go.", "Left.", "And then?"]
        assert not agent.dispatch(FollowUp("too late"))


async def test_T190_reset_and_close() -> None:
    agent = Worker("One.", call("work", id="w", hang=True))
    async with watched(agent) as watch:
        assert not agent.dispatch(Reset)
        agent.dispatch(Submit("Go."))
        await watch.rest()
        agent.dispatch(Submit("Hang."))
        await agent.started.wait()
        assert agent.dispatch(Reset())
        state = agent.engine_state
        assert (state.phase, state.messages, state.pending_approvals, state.error) == ("idle", (), (), None)
    agent.close()
    for action in (Submit("x"), Cancel, Reset, Approve("a")):
        with pytest.raises(RunError, match="was closed"):
            agent.dispatch(action)


async def test_closing_stops_what_runs_and_ends_the_states() -> None:
    agent = Worker(call("work", id="w", hang=True))
    async with watched(agent) as watch:
        agent.dispatch(Submit("Go."))
        await agent.started.wait()
        agent.close()
        await agent.stopped.wait()
    assert agent.aborted == [True]
    assert watch.states


async def test_T192_a_failure_stays_in_sight_until_the_next_input() -> None:
    agent = Worker(ModelError("no such model"), "Better.")
    async with watched(agent) as watch:
        agent.dispatch(Submit("Go."))
        state = await watch.until(lambda s: s.phase == "failed")
        assert (state.error, state.is_streaming, state.is_running) == ("no such model", False, False)
        agent.dispatch(Submit("Again."))
        state = await watch.until(lambda s: s.phase == "idle" and s.total_steps == 1)
        assert state.error is None
        assert [m.text for m in state.messages] == ["Go.", "Again.", "Better."]  # type: ignore[union-attr]


async def test_an_action_that_is_none_is_told_so() -> None:
    with pytest.raises(LoopwrightError, match="There is no action 'go'"):
        Worker().dispatch("go")  # type: ignore[arg-type]


def test_dispatch_without_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="engine_states"):
        Worker("x").dispatch(Submit("Go."))


async def test_dispatch_from_a_thread() -> None:
    agent = Worker(call("work", id="w", hang=True))
    async with watched(agent) as watch:
        await anyio.to_thread.run_sync(agent.dispatch, Submit("Go."))
        await agent.started.wait()
        assert await anyio.to_thread.run_sync(agent.dispatch, Cancel)
        state = await watch.until(lambda s: s.phase == "idle" and s.messages)
        assert roles(state.messages) == "u a work!"


async def test_cancelling_from_a_thread_stops_a_batch_of_a_hundred() -> None:
    running = 0
    all_run = anyio.Event()

    class Many(Worker):
        @tool
        async def stubborn(self) -> str:
            """Work."""
            nonlocal running
            running += 1
            if running == 8:
                all_run.set()
            await anyio.sleep_forever()
            return ""

    agent = Many([call("stubborn", id=f"c{n}") for n in range(100)])
    async with watched(agent) as watch:
        agent.dispatch(Submit("Go."))
        await all_run.wait()
        thread = threading.Thread(target=agent.dispatch, args=(Cancel,))
        thread.start()
        state = await watch.until(lambda s: s.phase == "idle" and s.messages)
        await anyio.to_thread.run_sync(thread.join)
    statuses = [m.status for m in state.messages if m.role == "tool"]
    assert statuses == ["cancelled"] * 8 + ["skipped"] * 92
    check_history(list(state.messages))
