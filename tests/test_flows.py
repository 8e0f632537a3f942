"""Events of a run's life, telemetry, and what a run in hand can do (T139, T169 to T178, G2)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from kit import calls

from loopwright import (
    AbortSignal,
    RunCancelled,
    TelemetrySettings,
    ToolCallPart,
    ToolContext,
    ToolLoopAgent,
    Usage,
    approvals,
    register_integration,
    tool,
)
from loopwright.errors import ModelError, ModelHTTPError
from loopwright.events import (
    Abort,
    Error,
    ErrorInfo,
    FinishStep,
    InputDelivered,
    ResponseDone,
    ResponseError,
    ResponseStart,
    StepReset,
    TextDelta,
    TextStart,
)
from loopwright.lifecycle import (
    Aborted,
    Chunk,
    Errored,
    Finished,
    ModelCallFinished,
    ModelCallStarted,
    Started,
    StepFinished,
    StepStarted,
    ToolCallFinished,
    ToolCallStarted,
)
from loopwright.models.retry import RetryPolicy
from loopwright.telemetry import TelemetryEvent
from loopwright.testing import ScriptedModel, answer, call, check_history


class Worker(ToolLoopAgent):
    """Works."""

    instructions = "Work."

    def __init__(self, *script: Any, **settings: Any) -> None:
        super().__init__(model=ScriptedModel(script), **settings)
        self.worked = 0

    @tool
    async def work(self, ctx: ToolContext) -> str:
        """Work."""
        self.worked += 1
        return "worked"

    @tool(needs_approval=True)
    async def pay(self, ctx: ToolContext) -> str:
        """Pay."""
        return "paid"


def words(events: list[Any]) -> list[str]:
    """Events by name, chunks in a row as one."""
    names: list[str] = []
    for event in events:
        number = f" {event.step_number}" if hasattr(event, "step_number") and not isinstance(event, Chunk) else ""
        name = f"{type(event).__name__}{number}"
        if name != "Chunk" or names[-1:] != ["Chunk"]:
            names.append(name)
    return names


# ---------------------------------------------------------------- events()


async def test_T169_G2_one_tool_then_text() -> None:
    agent = Worker(calls("work"), "Done.")
    events = [event async for event in agent.events("Go.")]
    assert words(events) == [
        "Started", "StepStarted 1", "Chunk", "ToolCallStarted 1", "ToolCallFinished 1", "StepFinished 1",
        "StepStarted 2", "Chunk", "StepFinished 2", "Finished",
    ]  # fmt: skip
    assert isinstance(events[0], Started)
    assert events[0].prompt == "Go."
    started, finished = events[-7], events[-6]
    started = next(e for e in events if isinstance(e, ToolCallStarted))
    finished = next(e for e in events if isinstance(e, ToolCallFinished))
    assert (started.tool_call_id, started.tool_name, started.input) == ("work", "work", {})
    assert finished.status == "success"
    assert finished.result is not None
    assert finished.result.text == "worked"
    steps = [e for e in events if isinstance(e, StepFinished)]
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.result is not None
    assert tuple(e.step for e in steps) == last.result.steps
    assert "".join(e.part.text for e in events if isinstance(e, Chunk) and isinstance(e.part, TextDelta)) == "Done."


async def test_T167_each_iteration_is_a_run_and_first_closes_its_own() -> None:
    agent = Worker(calls("work"), "Done.", calls("work"), "Done.", calls("work"))
    events = agent.events("Go.")
    assert agent.language_model.requests == []  # type: ignore[attr-defined]
    first = [event async for event in events]
    second = [event async for event in events]
    assert words(first) == words(second)
    assert agent.worked == 2
    assert isinstance(await events.first(), Started)
    assert agent.worked == 2
    assert (await agent.stream("Go.").first()).type == "start-step"


async def test_T170_collecting_gives_the_same() -> None:
    told: list[Any] = []

    async def handle(event: Any) -> None:
        told.append(event)

    await Worker(calls("work"), "Done.").collect_agent_events(handle, "Go.")
    assert words(told) == words([event async for event in Worker(calls("work"), "Done.").events("Go.")])
    told.clear()
    await Worker("Done.").collect_agent_events(told.append, "Go.")
    assert words(told) == ["Started", "StepStarted 1", "Chunk", "StepFinished 1", "Finished"]

    def broken(event: Any) -> None:
        raise ValueError("handler broke")

    agent = Worker("Done.")
    with pytest.raises(ValueError, match="handler broke"):
        await agent.collect_agent_events(broken, "Go.")


async def test_T171_a_model_error_is_the_end() -> None:
    def failing() -> Worker:
        return Worker(ModelError("no such model"))

    events = [event async for event in failing().events("Go.")]
    assert words(events) == ["Started", "StepStarted 1", "Errored"]
    assert isinstance(events[-1], Errored)
    assert (events[-1].source, events[-1].error) == ("model", ErrorInfo("ModelError", "no such model"))
    with pytest.raises(ModelError, match="no such model"):
        await failing().generate("Go.")
    parts = [part async for part in failing().stream("Go.")]
    assert isinstance(parts[-1], Error)
    assert [part async for part in failing().stream("Go.")][-1] == parts[-1]


async def test_T172_aborted_before_it_began() -> None:
    signal = AbortSignal()
    signal.abort("early")
    agent = Worker("never")
    events = [event async for event in agent.events("Go.", signal=signal)]
    assert words(events) == ["Started", "Aborted"]
    assert [part async for part in agent.stream("Go.", signal=signal)] == [Abort("early")]
    assert agent.language_model.requests == []  # type: ignore[attr-defined]


async def test_T173_aborted_in_the_middle() -> None:
    agent = Worker(calls("work"), "Done.")
    events: list[Any] = []
    async with agent.events("Go.") as run:
        async for event in run:
            events.append(event)
            if isinstance(event, StepStarted) and event.step_number == 2:
                run.cancel("enough")
    assert words(events)[-2:] == ["StepStarted 2", "Aborted"]
    (aborted,) = [event for event in events if isinstance(event, Aborted)]
    assert (aborted.reason, [step.step_number for step in aborted.steps]) == ("enough", [1])


# ---------------------------------------------------------------- telemetry


class Seen:
    """An integration that remembers, and can raise."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.events: list[TelemetryEvent] = []
        self.error = error

    def on_event(self, event: TelemetryEvent) -> None:
        self.events.append(event)
        if self.error is not None:
            raise self.error

    @property
    def words(self) -> list[str]:
        return words([event.event for event in self.events])


both = pytest.mark.parametrize("how", ["generate", "stream"])


async def run(agent: Worker, how: str, **options: Any) -> Any:
    if how == "generate":
        return await agent.generate("Go.", **options)
    async with agent.stream("Go.", **options) as handle:
        return await handle.result()


@both
async def test_T174_global_integrations_see_every_run(how: str) -> None:
    seen = Seen()
    remove = register_integration(seen)
    try:
        agent = Worker(calls("work"), "Done.", id="worker", version="2", telemetry=TelemetrySettings(function_id="f"))
        await run(agent, how)
        first = len(seen.events)
        other = Worker("Done.")
        await run(other, how)
    finally:
        remove()
        remove()
    await run(Worker("Done."), how)
    assert seen.words[: seen.words.index("Finished") + 1] == [
        "Started", "StepStarted 1", "ModelCallStarted 1", "ModelCallFinished 1", "ToolCallStarted 1",
        "ToolCallFinished 1", "StepFinished 1", "StepStarted 2", "ModelCallStarted 2", "ModelCallFinished 2",
        "StepFinished 2", "Finished",
    ]  # fmt: skip
    envelope = seen.events[0]
    assert (envelope.agent_id, envelope.version, envelope.function_id) == ("worker", "2", "f")
    assert envelope.model_id == "scripted:script"
    assert len({event.call_id for event in seen.events[:first]}) == 1
    assert len({event.call_id for event in seen.events}) == 2
    assert seen.events[-1].function_id is None


async def test_T174_an_agents_own_replace_them_and_may_be_silenced() -> None:
    everyone, own = Seen(), Seen()
    remove = register_integration(everyone)
    try:
        await Worker("Done.", telemetry=TelemetrySettings(integrations=[own])).generate("Go.")
        assert (everyone.events, own.words[-1]) == ([], "Finished")
        own.events.clear()
        silent = TelemetrySettings(integrations=[own], is_enabled=False)
        await Worker("Done.", telemetry=silent).generate("Go.")
        await Worker("Done.", telemetry=TelemetrySettings(is_enabled=False)).generate("Go.")
        assert (everyone.events, own.events) == ([], [])
    finally:
        remove()


@both
async def test_T175_an_integration_that_raises_changes_nothing(how: str, caplog: pytest.LogCaptureFixture) -> None:
    broken, after = Seen(ValueError("broke")), Seen()
    agent = Worker(calls("work"), "Done.", telemetry=TelemetrySettings(integrations=[broken, after]))
    with caplog.at_level(logging.WARNING, "loopwright"):
        result = await run(agent, how)
    assert result.output == "Done."
    assert after.words == broken.words
    assert [record.getMessage().split(" raised")[0] for record in caplog.records] == ["The telemetry integration Seen"]


async def test_T175_cancellation_in_an_integration_passes() -> None:
    class Hanging:
        async def on_event(self, event: TelemetryEvent) -> None:
            if isinstance(event.event, StepStarted):
                reached.set()
                await anyio.sleep_forever()

    reached = anyio.Event()
    agent = Worker("Done.", telemetry=TelemetrySettings(integrations=[Hanging()]))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.generate, "Go.")
            await reached.wait()
            scope.cancel()
    assert scope.cancelled_caught


@both
@pytest.mark.parametrize(
    ("step", "error"),
    [
        (ModelError("refused"), "refused"),
        ([ResponseStart(), ResponseError(answer("half", finish_reason="error", error="burst"))], "burst"),
        ([ResponseStart(), TextStart(0), ValueError("broke")], "broke"),
    ],
)
async def test_T176_the_bracket_of_a_model_call_closes(how: str, step: Any, error: str) -> None:
    seen = Seen()
    agent = Worker(step, telemetry=TelemetrySettings(integrations=[seen]), max_retries=0)
    with pytest.raises(Exception, match=error):
        await run(agent, how)
    brackets = [e.event for e in seen.events if isinstance(e.event, ModelCallStarted | ModelCallFinished)]
    assert [type(b).__name__ for b in brackets] == ["ModelCallStarted", "ModelCallFinished"]
    assert brackets[1].error is not None  # type: ignore[union-attr]
    assert brackets[1].error.message == error  # type: ignore[union-attr]
    assert seen.words[-1] == "Errored"


@both
@pytest.mark.parametrize("stop", ["signal", "task"])
async def test_T176_also_when_it_is_cancelled(how: str, stop: str) -> None:
    seen, reached, signal = Seen(), anyio.Event(), AbortSignal()

    async def hang() -> None:
        reached.set()
        await anyio.sleep_forever()

    agent = Worker([ResponseStart(), hang], telemetry=TelemetrySettings(integrations=[seen]))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def go() -> None:
                with pytest.raises(RunCancelled):
                    await run(agent, how, signal=signal)

            group.start_soon(go)
            await reached.wait()
            _ = scope.cancel() if stop == "task" else signal.abort("enough")
    assert seen.words[-2:] == ["ModelCallFinished 1", "Aborted"]


async def test_T177_inputs_and_outputs_are_told_only_on_request() -> None:
    quiet, loud = Seen(), Seen()
    settings = [
        TelemetrySettings(integrations=[quiet]),
        TelemetrySettings(integrations=[loud], record_inputs=True, record_outputs=True),
    ]
    for telemetry in settings:
        direct = [
            e async for e in Worker([call("work", id="w", secret=1)], "Done.", telemetry=telemetry).events("Hush.")
        ]
        assert "Hush." in repr(direct)
        assert "Done." in repr(direct)
    assert not any(word in repr(quiet.events) for word in ("Hush.", "Done.", "secret", "worked"))
    assert not any(isinstance(e.event, Chunk) for e in quiet.events)
    assert all(word in repr(loud.events) for word in ("Hush.", "Done.", "secret"))


async def test_T178_a_resumed_call_is_told_under_the_new_run() -> None:
    seen = Seen()
    agent = Worker([call("pay", id="p")], "Done.", telemetry=TelemetrySettings(integrations=[seen]))
    first = await agent.generate("Go.")
    before = len(seen.events)
    await agent.generate(messages=[*first.messages, approvals(first.pending_approvals[0].approve())])
    later = seen.events[before:]
    told = [e for e in later if isinstance(e.event, ToolCallStarted | ToolCallFinished)]
    assert [(type(e.event).__name__, e.event.step_number) for e in told] == [  # type: ignore[union-attr]
        ("ToolCallStarted", 0),
        ("ToolCallFinished", 0),
    ]
    assert {e.call_id for e in later}.isdisjoint({e.call_id for e in seen.events[:before]})


# ---------------------------------------------------------------- retries seen from a run


async def test_a_stream_that_is_begun_again_says_so() -> None:
    broken = [ResponseStart(), TextStart(0), TextDelta(0, "Hal"), ModelHTTPError("gone", status=503, retryable=True)]
    usage = Usage(3, 2)
    policy = RetryPolicy(initial_delay=1e-9, restart_after_output=True)
    agent = Worker(broken, answer("Hallo.", usage=usage), retry_policy=policy)
    parts: list[Any] = []
    async with agent.stream("Go.") as handle:
        async for part in handle:
            parts.append(part)
            if isinstance(part, StepReset):
                assert handle.partial.text == ""
        result = await handle.result()
    at = next(n for n, part in enumerate(parts) if isinstance(part, StepReset))
    assert parts[at].attempt == 2
    assert "".join(p.text for p in parts[:at] if isinstance(p, TextDelta)) == "Hal"
    assert result.output == "Hallo."
    assert sum(isinstance(part, FinishStep) for part in parts) == 1
    check_history(result.messages)


@both
async def test_failed_attempts_count_in_the_usage_of_the_run(how: str) -> None:
    failed = answer("", finish_reason="error", error="busy", usage=Usage(10, 1))
    error = ModelHTTPError("busy", status=503, retryable=True)
    script = [[ResponseStart(), ResponseError(failed, error)], answer("Done.", usage=Usage(10, 5))]
    result = await run(Worker(*script, retry_policy=RetryPolicy(initial_delay=1e-9)), how)
    assert result.usage == Usage(20, 6)
    assert result.last_usage == Usage(10, 5)


# ---------------------------------------------------------------- provider-executed calls


@both
async def test_T139_calls_that_the_provider_runs_are_not_ours(how: str) -> None:
    theirs = ToolCallPart("s1", "web_search", '{"q": "x"}', provider_executed=True)
    agent = Worker(answer(theirs, "Found.", finish_reason="stop"), "Done.", calls("work"))
    result = await run(agent, how)
    assert len(agent.language_model.requests) == 1  # type: ignore[attr-defined]
    assert result.output == "Found."
    assert [m.role for m in result.messages] == ["user", "assistant"]
    later = await agent.generate("More.", messages=result.messages)
    assert [m.role for m in agent.language_model.requests[1].context.messages] == ["user", "assistant", "user"]  # type: ignore[attr-defined]
    assert later.output == "Done."


# ---------------------------------------------------------------- a run in hand


async def test_inputs_are_acknowledged_with_their_message() -> None:
    agent = Worker(calls("work"), "Half.", "Done.")
    told: list[InputDelivered] = []
    async with agent.stream("Go.") as handle:
        first, second = handle.steer("a"), handle.steer("b")
        third = handle.follow_up("c")
        async for part in handle:
            if isinstance(part, InputDelivered):
                told.append(part)
                assert handle.messages[part.message_index].role == "user"
    assert [(part.input_id, part.queue) for part in told] == [
        (first, "steering"), (second, "steering"), (third, "follow-up"),
    ]  # fmt: skip
    texts = [handle.messages[part.message_index].text for part in told]  # type: ignore[union-attr]
    assert texts == ["a", "b", "c"]
    assert len({first, second, third}) == 3


async def test_a_detached_run_goes_on_without_a_reader() -> None:
    gate, ended = anyio.Event(), anyio.Event()

    class Slow(Worker):
        @tool
        async def work(self, ctx: ToolContext) -> str:
            """Work."""
            await gate.wait()
            return "worked"

        async def on_finish(self, result: Any) -> None:
            ended.set()

    agent = Slow(calls("work"), "Done.")
    async with agent.stream("Go.") as handle:
        assert (await anext(handle)).type == "start-step"
        handle.detach()
        handle.detach()
        with pytest.raises(RuntimeError, match="detached"):
            await anext(handle)
    assert not handle.done
    gate.set()
    result = await handle.result()
    assert ended.is_set()
    assert (result.output, handle.done) == ("Done.", True)


async def test_a_detached_run_can_be_cancelled_and_dropped() -> None:
    started = anyio.Event()
    aborted = anyio.Event()

    class Slow(Worker):
        @tool
        async def work(self, ctx: ToolContext) -> str:
            """Work."""
            started.set()
            await anyio.sleep_forever()
            return ""

        async def on_abort(self, partial: Any) -> None:
            aborted.set()

    agent = Slow(calls("work"))
    signal = AbortSignal()
    handle = agent.stream("Go.", signal=signal)
    run_in_hand = await handle.__aenter__()
    await anext(run_in_hand)
    run_in_hand.detach()
    await started.wait()
    del run_in_hand, handle
    signal.abort("enough")
    await aborted.wait()


async def test_text_stream_and_done_event() -> None:
    async with Worker(ResponseDoneScript(), max_retries=0).stream("Go.") as handle:
        assert [text async for text in handle.text_stream] == []
        assert (await handle.result()).output == "Whole."


def ResponseDoneScript() -> Any:
    """A stream of one event."""
    return [ResponseDone(answer("Whole."))]
