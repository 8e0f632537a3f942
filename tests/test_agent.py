"""The agent: construction, settings, hooks, streams, and that generate and stream agree (T11, T123 to T141 as far as they go)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from kit import calls, named, roles, valid

from loopwright import (
    AbortSignal,
    AgentSettings,
    HasToolCall,
    InvalidArgumentError,
    InvalidInputError,
    ModelSettings,
    NoOutputGenerated,
    RunCancelled,
    RunControl,
    RunError,
    StepContext,
    StepCountIs,
    StepResult,
    StepSettings,
    Tool,
    ToolContext,
    ToolLoopAgent,
    ToolResultMessage,
    Usage,
    tool,
)
from loopwright.errors import ModelResponseError, Partial, UnknownModelError
from loopwright.events import Abort, Error, Finish, ResponseError, ResponseStart, TextDelta, TextStart, ToolProgress
from loopwright.testing import ScriptedModel, answer, call

WORK = [[call("work", id="w1")], [call("work", id="w2")], "done"]


class Worker(ToolLoopAgent):
    """Works, and logs what its hooks are told."""

    instructions = "Work."

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.log: list[str] = []

    @tool
    async def work(self, ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("half")
        return "worked"

    async def on_start(self, run: RunControl) -> None:
        self.log.append("start")

    async def on_step_start(self, step: StepContext) -> None:
        self.log.append(f"step {step.step_number} starts")

    async def on_step_finish(self, step: StepResult) -> None:
        self.log.append(f"step {step.step_number} finishes: {step.finish_reason}")

    async def on_finish(self, result: Any) -> None:
        self.log.append(f"finish: {result.stopped_by}")

    async def on_abort(self, partial: Partial) -> None:
        self.log.append(f"abort: {partial.text!r}")

    async def on_error(self, error: Exception) -> None:
        self.log.append(f"error: {error}")


# ---------------------------------------------------------------- construction


def test_T123_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="ToolLoopAgent lacks model, instructions and tools"):
        ToolLoopAgent()

    class Bare(ToolLoopAgent):
        pass

    with pytest.raises(InvalidArgumentError, match="Bare lacks model, instructions and tools"):
        Bare()
    with pytest.raises(InvalidArgumentError, match="Bare lacks tools"):
        Bare(model=ScriptedModel([]), instructions="")


def test_T123_the_base_itself_is_not_an_agent() -> None:
    with pytest.raises(TypeError, match="Write a subclass"):
        ToolLoopAgent(model=ScriptedModel([]), instructions="", tools=[])


def test_T124_settings_or_arguments_and_arguments_win() -> None:
    class Plain(ToolLoopAgent):
        instructions = "class"
        tools = []
        id = "from-class"

    model = ScriptedModel([])
    settings = AgentSettings(model=model, instructions="settings", max_turns=3)
    agent = Plain(settings=settings)
    assert (agent.instructions, agent.max_turns, agent.id) == ("settings", 3, "from-class")
    assert agent.language_model is model
    other = Plain(settings=settings, instructions="argument", max_turns=None)
    assert (other.instructions, other.max_turns) == ("argument", None)
    assert Plain(model=model).instructions == "class"


def test_T125_empty_tools_and_instructions_are_accepted() -> None:
    class Plain(ToolLoopAgent):
        pass

    agent = Plain(model=ScriptedModel([]), instructions="", tools=[])
    assert (agent.all_tools, agent.instructions) == ((), "")


def test_T126_a_subclass_may_define_state() -> None:
    class Stateful(Worker):
        state = "mine"

    assert Stateful(model=ScriptedModel([])).state == "mine"


def test_T127_id_and_version() -> None:
    class Named(Worker):
        id = "named"
        version = "2"

    model = ScriptedModel([])
    assert (Worker(model=model).id, Worker(model=model).version) == ("agent", None)
    assert (Named(model=model).id, Named(model=model).version, Named(model=model, id="x").id) == ("named", "2", "x")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_turns": 0}, "Worker: max_turns must be"),
        ({"max_parallel_tool_calls": 0}, "max_parallel_tool_calls must be"),
        ({"max_tool_calls_per_step": -1}, "max_tool_calls_per_step must be"),
        ({"cancel_grace": -1}, "cancel_grace must be"),
        ({"tools": [named("work", int)]}, "Two tools are named 'work'"),
        ({"tools": ["work"]}, "'work' is neither"),
        ({"tools": "work"}, "tools must be a list"),
        ({"stop_when": 3}, "stop_when must be a stop condition"),
        ({"model": 3}, "model must be a LanguageModel"),
        ({"instructions": 3}, "instructions must be a string"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_construction(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Worker(**{"model": ScriptedModel([]), **settings})
    assert words in str(caught.value)


def test_a_model_string_that_names_nothing_is_refused_at_construction() -> None:
    with pytest.raises(UnknownModelError, match="There is no vendor 'opanai'.* Did you mean 'openai'"):
        Worker(model="opanai:gpt-5")


def test_an_output_type_that_is_not_text_is_refused() -> None:
    class Structured(ToolLoopAgent[None, int]):
        instructions = ""
        tools = []

    with pytest.raises(InvalidArgumentError, match="the output of an agent is text"):
        Structured(model=ScriptedModel([]))


def test_unknown_call_options_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="no call option 'temprature'"):
        Worker(model=ScriptedModel([])).generate_sync("hi", temprature=1)  # type: ignore[call-overload]


def test_B31_tools_and_repr() -> None:
    agent = Worker(model=ScriptedModel([]), tools=[named("other", int)])
    assert [t.name for t in agent.all_tools] == ["work", "other"]
    assert repr(agent) == "<Worker model=scripted:script tools=work, other>"


async def test_functions_in_tools_become_tools() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    agent = Worker(model=ScriptedModel([[call("shout", text="hi")], "done"]), tools=[shout])
    result = await agent.generate("go")
    assert result.messages[2].text == "HI"


# ---------------------------------------------------------------- generate and stream are one engine

SCRIPTS: dict[str, Callable[[], list[Any]]] = {
    "text": lambda: ["hello world"],
    "tools": lambda: list(WORK),
    "unknown tool": lambda: [[call("nope")], "sorry"],
    "bad arguments": lambda: [[call("work", extra=1)], "sorry"],
    "length": lambda: [answer("half", *calls("work"), finish_reason="length")],
    "failed answer": lambda: [answer("half", finish_reason="error", error="broke")],
    "refused": lambda: [ModelResponseError("overloaded")],
    "broken in the middle": lambda: [
        [
            ResponseStart(),
            TextStart(0),
            TextDelta(0, "ha"),
            ResponseError(answer("ha", finish_reason="error", error="cut"), ModelResponseError("cut")),
        ]
    ],
    "broken by something else": lambda: [
        [ResponseStart(), ResponseError(answer("ha", finish_reason="error"), ValueError("a bug"))]
    ],
    "client side": lambda: [[call("ask"), call("work")]],
    "limit": lambda: [[call("work")]] * 5,
    "flood": lambda: [[call("work", id=str(n)) for n in range(5)]],
}


class Both(Worker):
    """Every kind of end."""

    max_turns = 3
    max_tool_calls_per_step = 4
    tools = [Tool("ask")]


async def ending(mode: str, script: list[Any]) -> dict[str, Any]:
    model = ScriptedModel(script)
    agent = Both(model=model)
    outcome: Any
    try:
        if mode == "generate":
            result = await agent.generate("go")
        else:
            result = await aiter(agent.stream("go")).result()
        outcome = (result.stopped_by, result.text, result.usage, [c.name for c in result.unresolved_tool_calls])
        messages = result.messages
    except Exception as error:
        outcome = (type(error), str(error))
        messages = list(error.partial.messages)  # type: ignore[attr-defined]
    timeless = [(type(m), m.content, getattr(m, "status", None), getattr(m, "finish_reason", None)) for m in messages]
    return {"outcome": outcome, "log": agent.log, "messages": timeless, "requests": len(model.requests)}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_T11_generate_and_stream_agree(name: str) -> None:
    generated, streamed = await ending("generate", SCRIPTS[name]()), await ending("stream", SCRIPTS[name]())
    assert generated == streamed
    assert generated["requests"] >= 1


async def test_the_order_of_hooks() -> None:
    agent = Worker(model=ScriptedModel(WORK))
    await agent.generate("go")
    assert agent.log == [
        "start",
        "step 1 starts",
        "step 1 finishes: tool-calls",
        "step 2 starts",
        "step 2 finishes: tool-calls",
        "step 3 starts",
        "step 3 finishes: stop",
        "finish: model",
    ]


# ---------------------------------------------------------------- results


async def test_T140_usage_and_text_of_the_run_and_of_its_last_step() -> None:
    script = [answer("one ", *calls("work"), usage=Usage(1, 2, 3)), answer("two", usage=Usage(10, 20, 30))]
    result = await Worker(model=ScriptedModel(script)).generate("go")
    assert (result.usage, result.last_usage) == (Usage(11, 22, 33), Usage(10, 20, 30))
    assert (result.text, result.full_text, result.output) == ("two", "one two", "two")


async def test_T140_usage_that_was_not_reported_is_unknown_or_incomplete() -> None:
    assert (await Worker(model=ScriptedModel(WORK)).generate("go")).usage is None
    script = [answer(*calls("work")), answer("x", usage=Usage(1, 2, 3))]
    usage = (await Worker(model=ScriptedModel(script)).generate("go")).usage
    assert usage == Usage(1, 2, 3, complete=False)


async def test_T133_twenty_steps_by_default_and_a_normal_return() -> None:
    model = ScriptedModel([[call("work")]], repeat_last=True)
    result = await Worker(model=model).generate("go")
    assert (len(model.requests), result.stopped_by, result.stop_condition) == (20, "stop_condition", StepCountIs(20))
    assert (result.finish_reason, len(result.steps)) == ("tool-calls", 20)
    valid(result.messages)
    with pytest.raises(NoOutputGenerated, match="stop_condition"):
        _ = result.output


async def test_T134_a_condition_is_asked_once_for_each_step_and_may_be_async() -> None:
    asked: list[int] = []

    async def condition(steps: Any) -> bool:
        asked.append(len(steps))
        return False

    await Worker(model=ScriptedModel(WORK), stop_when=condition).generate("go")
    assert asked == [1, 2, 3]


async def test_T134_a_condition_that_raises_fails_the_run_and_keeps_the_step() -> None:
    def condition(steps: Any) -> bool:
        raise ValueError("no idea")

    agent = Worker(model=ScriptedModel(WORK), stop_when=condition)
    with pytest.raises(ValueError, match="no idea") as caught:
        await agent.generate("go")
    partial: Partial = caught.value.partial  # type: ignore[attr-defined]
    assert (len(partial.steps), roles(partial.messages)) == (1, "u a work")


async def test_T135_conditions_combine() -> None:
    result = await Worker(model=ScriptedModel(WORK), stop_when=[StepCountIs(9), HasToolCall("work")]).generate("go")
    assert (len(result.steps), result.stop_condition) == (1, HasToolCall("work"))


async def test_T136_a_condition_that_holds_on_a_text_answer_leaves_follow_ups_alone() -> None:
    model = ScriptedModel(["text", "more"])
    async with Worker(model=model, stop_when=StepCountIs(1)).stream("go") as run:
        run.follow_up("and then?")
        result = await run.result()
    assert (result.text, len(model.requests)) == ("text", 1)
    assert len(run.unread_inputs) == 1


async def test_T137_a_condition_and_the_budget_at_once_end_well() -> None:
    agent = Worker(model=ScriptedModel([[call("work")]]), stop_when=StepCountIs(1), max_turns=1)
    assert (await agent.generate("go")).stopped_by == "stop_condition"


async def test_T138_a_client_side_call_is_answered_by_the_host() -> None:
    agent = Both(model=ScriptedModel([[call("ask", id="q"), call("work", id="w")], "thanks"]))
    first = await agent.generate("go")
    assert (first.stopped_by, roles(first.messages)) == ("client_tool", "u a work")
    assert [c.id for c in first.unresolved_tool_calls] == ["q"]
    with pytest.raises(NoOutputGenerated):
        _ = first.output
    second = await agent.generate(messages=[*first.messages, ToolResultMessage("q", "ask", "yes")])
    assert second.output == "thanks"


async def test_going_on_with_the_messages_of_a_result() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Worker(model=model)
    first = await agent.generate("a")
    before = list(first.messages)
    second = await agent.generate("b", messages=first.messages)
    assert [m.text for m in model.requests[1].context.messages] == ["a", "one", "b"]
    assert first.messages == before
    assert roles(second.messages) == "u a u a"


async def test_prompts_that_cannot_be_sent_are_told_before_anything() -> None:
    model = ScriptedModel([])
    agent = Worker(model=model)
    for bad in ("", None):
        with pytest.raises(InvalidInputError):
            await agent.generate(bad)
        with pytest.raises(InvalidInputError):
            async for _ in agent.stream(bad):
                pass
    assert (model.requests, agent.log) == ([], [])


# ---------------------------------------------------------------- settings of a call and of a step


async def test_a_call_overrides_the_agent() -> None:
    model, other = ScriptedModel([]), ScriptedModel(["other"])
    agent = Worker(model=model, model_settings=ModelSettings(temperature=0.1, seed=7))
    await agent.generate(
        "go", model=other, instructions="Other.", tools=[], model_settings=ModelSettings(temperature=0.9)
    )
    (request,) = other.requests
    assert (request.context.system, request.context.tools) == ("Other.", [])
    assert (request.settings.temperature, request.settings.seed) == (0.9, 7)


async def test_T130_prepare_step_is_called_for_each_step_and_holds_for_it() -> None:
    class Prepared(Worker):
        async def prepare_step(self, step: StepContext) -> StepSettings | None:
            self.log.append(f"prepare {step.step_number}")
            if step.step_number == 2:
                return StepSettings(
                    instructions="Two.",
                    active_tools=[],
                    tool_choice="none",
                    model_settings=ModelSettings(temperature=0.5),
                )
            return None

    model = ScriptedModel(WORK)
    agent = Prepared(model=model, model_settings=ModelSettings(temperature=0.1))
    await agent.generate("go")
    assert [entry for entry in agent.log if entry.startswith("prepare")] == ["prepare 1", "prepare 2", "prepare 3"]
    assert [r.context.system for r in model.requests] == ["Work.", "Two.", "Work."]
    assert [len(r.context.tools) for r in model.requests] == [1, 0, 1]
    assert [r.settings.temperature for r in model.requests] == [0.1, 0.5, 0.1]
    assert [r.settings.tool_choice for r in model.requests] == [None, "none", None]


async def test_prepare_step_may_change_the_model() -> None:
    other = ScriptedModel(["from the other"], name="other")

    class Escalating(Worker):
        async def prepare_step(self, step: StepContext) -> StepSettings | None:
            return StepSettings(model=other) if step.step_number == 2 else None

    result = await Escalating(model=ScriptedModel([[call("work")]])).generate("go")
    assert (result.output, result.steps[1].message.model) == ("from the other", "other")


async def test_prepare_step_that_names_unknown_tools_is_told_so() -> None:
    class Wrong(Worker):
        async def prepare_step(self, step: StepContext) -> StepSettings | None:
            return StepSettings(active_tools=["wrok"])

    agent = Wrong(model=ScriptedModel([]))
    with pytest.raises(InvalidArgumentError, match="wrok"):
        await agent.generate("go")
    assert agent.log[-1].startswith("error: prepare_step names active_tools")


@pytest.mark.parametrize("hook", ["on_start", "prepare_step", "on_step_start", "on_step_finish", "on_finish"])
async def test_a_hook_that_raises_fails_the_run_with_its_error(hook: str) -> None:
    error = RuntimeError(hook)

    async def fail(*args: Any) -> Any:
        raise error

    agent = Worker(model=ScriptedModel(WORK))
    setattr(agent, hook, fail)
    with pytest.raises(RuntimeError) as caught:
        await agent.generate("go")
    assert caught.value is error
    ends = [entry for entry in agent.log if entry.split(":")[0] in ("finish", "abort", "error")]
    assert ends == ([] if hook == "on_finish" else [f"error: {hook}"])
    valid(list(error.partial.messages))  # type: ignore[attr-defined]


async def test_T104_a_hanging_hook_is_released_by_cancel() -> None:
    for hook in ("on_start", "prepare_step", "on_step_finish"):
        reached = anyio.Event()

        async def hang(*args: Any, reached: anyio.Event = reached) -> None:
            reached.set()
            await anyio.sleep_forever()

        agent = Worker(model=ScriptedModel(["x"]))
        setattr(agent, hook, hang)
        async with agent.stream("go") as run, anyio.create_task_group() as tasks:

            async def cancel(run: Any = run, reached: anyio.Event = reached) -> None:
                await reached.wait()
                run.cancel("enough")

            tasks.start_soon(cancel)
            with pytest.raises(RunCancelled):
                await run.result()
        assert agent.log[-1].startswith("abort")


# ---------------------------------------------------------------- streams: cold, closed, steered


async def test_T166_T167_nothing_runs_before_iteration_and_each_iteration_runs_anew() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Worker(model=model)
    stream = agent.stream("go")
    coroutine = agent.generate("go")
    assert model.requests == []
    coroutine.close()
    texts = ["".join([p.text async for p in stream if isinstance(p, TextDelta)]) for _ in range(2)]
    assert (texts, len(model.requests)) == (["one", "two"], 2)


async def test_one_terminal_part_ends_each_stream() -> None:
    for script, kind in ((["x"], Finish), ([ModelResponseError("down")], Error)):
        parts = [part async for part in Worker(model=ScriptedModel(script)).stream("go")]
        assert [part for part in parts if isinstance(part, Finish | Abort | Error)] == [parts[-1]]
        assert isinstance(parts[-1], kind)


async def test_T172_aborted_before_it_begins() -> None:
    signal, model = AbortSignal(), ScriptedModel([])
    signal.abort("never mind")
    agent = Worker(model=model)
    parts = [part async for part in agent.stream("go", signal=signal)]
    assert [type(part) for part in parts] == [Abort]
    assert (parts[0].reason, model.requests) == ("never mind", [])  # type: ignore[union-attr]
    with pytest.raises(RunCancelled) as caught:
        await agent.generate("go", signal=signal)
    assert caught.value.reason == "never mind"


async def test_a_runs_cancel_does_not_abort_the_callers_signal() -> None:
    signal = AbortSignal()
    async with Worker(model=ScriptedModel(["a b c"])).stream("go", signal=signal) as run:
        await anext(run)
        run.cancel("this one")
    assert not signal.aborted
    assert signal.listener_count == 0


async def test_the_callers_signal_stops_a_run() -> None:
    signal = AbortSignal()
    parts = []
    async for part in Worker(model=ScriptedModel(["a b c d"])).stream("go", signal=signal):
        parts.append(part)
        if isinstance(part, TextDelta):
            signal.abort("stop")
    assert parts[-1] == Abort("stop", "a b c d"[: len(parts[-1].text)])  # type: ignore[union-attr]


async def test_T173_a_cancelled_run_keeps_its_steps_and_tells_its_text() -> None:
    agent = Worker(model=ScriptedModel([[call("work")], "one two three"]))
    async with agent.stream("go") as run:
        async for part in run:
            if isinstance(part, TextDelta):
                run.cancel("enough")
        with pytest.raises(RunCancelled) as caught:
            await run.result()
    partial = caught.value.partial
    assert partial is not None
    assert (len(partial.steps), partial.text.startswith("one "), roles(partial.messages)) == (1, True, "u a work")
    assert agent.log[-1] == f"abort: {partial.text!r}"
    assert [entry for entry in agent.log if entry.split(":")[0] in ("finish", "abort", "error")] == agent.log[-1:]


async def test_steering_and_follow_ups_are_read_and_acknowledged() -> None:
    model = ScriptedModel([[call("work")], "steered", "followed"])
    async with Worker(model=model).stream("go") as run:
        async for part in run:
            if isinstance(part, ToolProgress):
                run.steer("this way")
                run.follow_up("and then?")
        result = await run.result()
    assert [m.text for m in result.messages if m.role == "user"] == ["go", "this way", "and then?"]
    assert roles(result.messages) == "u a work u a u a"
    assert run.unread_inputs == []
    with pytest.raises(RunError, match="has ended"):
        run.steer("too late")


async def test_what_is_not_read_stays_with_the_run() -> None:
    async with Worker(model=ScriptedModel(["a b c"])).stream("go") as run:
        async for part in run:
            if isinstance(part, TextDelta):
                run.steer("unread")
                run.cancel()
    assert len(run.unread_inputs) >= 1


async def test_tools_can_steer_and_stop_their_run() -> None:
    class Steering(Worker):
        @tool
        async def work(self, ctx: ToolContext) -> str:
            """Work."""
            ctx.run.steer("from the tool")
            return "worked"

    result = await Steering(model=ScriptedModel([[call("work")], "ok"])).generate("go")
    assert [m.text for m in result.messages if m.role == "user"] == ["go", "from the tool"]


async def test_one_reader_at_a_time() -> None:
    reached = anyio.Event()

    async def gate() -> None:
        reached.set()
        await anyio.sleep_forever()

    async with Worker(model=ScriptedModel([[ResponseStart(), gate]])).stream("go") as run:  # noqa: SIM117  # in this order
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                async for _ in run:
                    pass

            tasks.start_soon(read)
            await reached.wait()
            with pytest.raises(RuntimeError, match="One reader at a time"):
                await anext(run)
            run.cancel()


async def test_text_stream_raises_what_the_run_fails_with() -> None:
    async with Worker(model=ScriptedModel([ModelResponseError("down")])).stream("go") as run:
        with pytest.raises(ModelResponseError, match="down"):
            async for _ in run.text_stream:
                pass


async def test_result_may_be_asked_for_again() -> None:
    async with Worker(model=ScriptedModel(["x"])).stream("go") as run:
        assert await run.result() is await run.result()
    assert run.done


# ---------------------------------------------------------------- walking away, in text and in a batch


class Slow(Worker):
    """Its tool waits until it is cancelled."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.started = anyio.Event()
        self.cancelled = anyio.Event()

    @tool
    async def work(self, ctx: ToolContext) -> None:
        """Wait."""
        ctx.progress("waiting")
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled.set()


def in_text() -> tuple[Slow, ScriptedModel]:
    model = ScriptedModel([[ResponseStart(), TextStart(0), TextDelta(0, "half"), anyio.sleep_forever]])
    return Slow(model=model), model


def in_batch() -> tuple[Slow, ScriptedModel]:
    model = ScriptedModel([[call("work", id="1"), call("work", id="2")]])
    return Slow(model=model), model


def midway(part: Any) -> bool:
    return isinstance(part, TextDelta | ToolProgress)


PLACES = [in_text, in_batch]


async def cleaned(agent: Slow, model: ScriptedModel) -> None:
    """Nothing is left: the stream is closed, the tools are cancelled, the end was told."""
    for _ in range(50):
        gc.collect()
        await anyio.wait_all_tasks_blocked()
        if agent.log[-1].startswith("abort"):
            break
    assert {stream.closes for stream in model.streams} <= {1}
    assert agent.log[-1].startswith("abort")
    assert [entry for entry in agent.log if entry.split(":")[0] in ("finish", "abort", "error")] == agent.log[-1:]
    if agent.started.is_set():
        with anyio.fail_after(5):
            await agent.cancelled.wait()


@pytest.mark.parametrize("place", PLACES)
async def test_T168_breaking_out_of_a_stream(place: Any) -> None:
    agent, model = place()

    async def read() -> None:
        async for part in agent.stream("go"):
            if midway(part):
                break

    await read()
    await cleaned(agent, model)


@pytest.mark.parametrize("place", PLACES)
async def test_leaving_the_block_of_a_run(place: Any) -> None:
    agent, model = place()
    async with agent.stream("go") as run:
        async for part in run:
            if midway(part):
                break
    valid(run.messages)
    await cleaned(agent, model)


@pytest.mark.parametrize("place", PLACES)
async def test_a_run_that_is_garbage_collected(place: Any) -> None:
    agent, model = place()

    async def read() -> None:
        run = aiter(agent.stream("go"))
        cycle: list[Any] = [run]
        cycle.append(cycle)
        while not midway(await anext(run)):
            pass

    await read()
    await cleaned(agent, model)


@pytest.mark.parametrize("place", PLACES)
async def test_a_timeout_round_one_anext(place: Any) -> None:
    agent, model = place()
    async with agent.stream("go") as run:
        while not midway(await anext(run)):
            pass
        with anyio.move_on_after(0.01) as scope:
            while True:
                await anext(run)
        assert scope.cancelled_caught
        rest = [part async for part in run]
        assert [type(part) for part in rest if isinstance(part, Abort | Finish | Error)] == [Abort]
        valid(run.messages)
    await cleaned(agent, model)


@pytest.mark.parametrize("mode", ["generate", "stream"])
@pytest.mark.parametrize("place", PLACES)
async def test_cancelling_the_task(place: Any, mode: str) -> None:
    agent, model = place()
    reached = anyio.Event()
    holder: list[Any] = []

    async def run_it() -> None:
        if mode == "generate":
            await agent.generate("go")
        else:
            async with agent.stream("go") as run:
                holder.append(run)
                async for _ in run:
                    pass

    original = agent.on_step_start

    async def told(step: StepContext) -> None:
        await original(step)
        reached.set()

    agent.on_step_start = told  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_it)
        await reached.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    for run in holder:
        valid(run.messages)
        with pytest.raises(RunCancelled):
            await run.result()
    await cleaned(agent, model)


@pytest.mark.parametrize("place", PLACES)
async def test_T110_cancelling_from_a_thread(place: Any) -> None:
    agent, model = place()
    async with agent.stream("go") as run:
        parts = []
        async for part in run:
            parts.append(part)
            if midway(part):
                thread = threading.Thread(target=run.cancel, args=("from a thread",))
                thread.start()
                thread.join()
        assert parts[-1].type == "abort"
        assert parts[-1].reason == "from a thread"
        valid(run.messages)
    await cleaned(agent, model)


@pytest.mark.parametrize("place", PLACES)
async def test_closing_from_another_task_while_it_is_read(place: Any) -> None:
    agent, model = place()
    async with agent.stream("go") as run:
        async with anyio.create_task_group() as tasks:
            parts: list[Any] = []

            async def read() -> None:
                parts.extend([part async for part in run])

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await run.aclose()
        assert parts[-1].type == "abort"
        valid(run.messages)
    await cleaned(agent, model)


# ---------------------------------------------------------------- many runs, and scripts that are not async


async def test_C24_runs_of_one_agent_are_independent() -> None:
    agent = Worker(model=ScriptedModel([[call("work")]] * 10 + ["done"] * 10))
    results: list[Any] = []

    async def one() -> None:
        results.append(await agent.generate("go", stop_when=StepCountIs(1)))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(one)
    assert len({result.run_id for result in results}) == 10
    for result in results:
        valid(result.messages)


def test_generate_sync() -> None:
    assert Worker(model=ScriptedModel(["x"])).generate_sync("go").output == "x"


async def test_generate_sync_in_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="await agent.generate"):
        Worker(model=ScriptedModel([])).generate_sync("go")


async def test_T77_late_steps_cost_what_early_ones_do() -> None:
    """Counted, not timed: each message is adapted once however long the run."""
    from loopwright.loop import view

    adapted: list[object] = []
    original = view.adapt_assistant

    def counting(message: Any, *args: Any, **more: Any) -> Any:
        adapted.append(message)
        return original(message, *args, **more)

    view.adapt_assistant = counting
    try:
        model = ScriptedModel([[call("work", id=str(n))] for n in range(60)] + ["done"])
        await Worker(model=model, stop_when=StepCountIs(100)).generate("go")
    finally:
        view.adapt_assistant = original
    assert len(adapted) == 60
