"""Settings and what is prepared for a run and for a step (T122, T128 to T132)."""

from __future__ import annotations

from typing import Any

import pytest
from kit import calls

from loopwright import (
    AgentSettings,
    CallContext,
    CallSettings,
    GenerateResult,
    InvalidArgumentError,
    ModelSettings,
    Never,
    RetryPolicy,
    StepContext,
    StepCountIs,
    StepSettings,
    ToolContext,
    ToolExecutionPolicy,
    ToolLoopAgent,
    UserMessage,
    tool,
)
from loopwright.errors import ModelHTTPError, RetryError
from loopwright.lifecycle import Errored, Finished
from loopwright.testing import ScriptedModel, call

both = pytest.mark.parametrize("how", ["generate", "stream"])


class Agent(ToolLoopAgent[Any, str]):
    """Works in its context."""

    instructions = "Work."
    seen: list[Any]

    def __init__(self, *script: Any, **settings: Any) -> None:
        super().__init__(model=ScriptedModel(script), **settings)
        self.seen = []

    @tool
    async def work(self, ctx: ToolContext[Any]) -> str:
        """Work."""
        self.seen.append(ctx.context)
        return "worked"

    @tool(needs_approval=True)
    async def pay(self, ctx: ToolContext[Any]) -> str:
        """Pay."""
        self.seen.append(("paid", ctx.context))
        return "paid"

    @property
    def requests(self) -> list[Any]:
        return self.language_model.requests  # type: ignore[attr-defined, no-any-return]


async def run(agent: Agent, how: str, prompt: Any = "Go.", **options: Any) -> GenerateResult[str]:
    options.setdefault("context", None)
    if how == "generate":
        return await agent.generate(prompt, **options)
    async with agent.stream(prompt, **options) as handle:
        return await handle.result()


# ---------------------------------------------------------------- policies


def test_T122_defaults_and_what_is_refused() -> None:
    policy = ToolExecutionPolicy()
    assert (policy.max_parallel_tool_calls, policy.max_tool_calls_per_step) == (8, 128)
    assert (policy.progress_buffer_capacity, policy.timeout, policy.per_tool_timeout) == (64, None, {})
    assert policy.cancel_grace == 2.0
    for wrong in (
        {"max_parallel_tool_calls": 0},
        {"max_parallel_tool_calls": True},
        {"max_tool_calls_per_step": 0},
        {"progress_buffer_capacity": -1},
        {"timeout": 0},
        {"per_tool_timeout": {"work": 0}},
        {"per_tool_timeout": 3},
        {"cancel_grace": -1},
    ):
        (name,) = wrong
        with pytest.raises(InvalidArgumentError, match=name):
            ToolExecutionPolicy(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"max_parallel_tool_calls.*timeout"):
        ToolExecutionPolicy(max_parallel_tool_calls=0, timeout=-1)


def test_a_timeout_by_name_wins_over_the_tools_own_and_that_over_the_policys() -> None:
    policy = ToolExecutionPolicy(timeout=5, per_tool_timeout={"a": 1, "b": None})
    assert [policy.timeout_of("a", 3), policy.timeout_of("b", 3), policy.timeout_of("c", 3)] == [1, None, 3]
    assert policy.timeout_of("c", None) == 5


def test_T128_the_cap_mirrors_an_explicit_policy() -> None:
    agent = Agent(tool_policy=ToolExecutionPolicy(max_parallel_tool_calls=3, cancel_grace=0))
    assert (agent.max_parallel_tool_calls, agent.max_tool_calls_per_step, agent.cancel_grace) == (3, 128, 0)
    agent = Agent(tool_policy=ToolExecutionPolicy(max_parallel_tool_calls=3), max_parallel_tool_calls=4)
    assert agent.max_parallel_tool_calls == agent.tool_policy.max_parallel_tool_calls == 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"max_invalid_calls": 0}, "max_invalid_calls"),
        ({"approval_seconds": 0}, "approval_seconds"),
        ({"approval_secret": ""}, "approval_secret"),
        ({"approval_ledger": object()}, "approval_ledger"),
        ({"tool_policy": 8}, "tool_policy"),
        ({"telemetry": True}, "telemetry"),
        ({"retry_policy": 2}, "retry_policy"),
    ],
)
def test_T132_settings_that_cannot_work(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Agent(**settings)


async def test_T132_in_a_call_and_in_a_step() -> None:
    with pytest.raises(InvalidArgumentError, match="max_retries"):
        await Agent("x").generate("Go.", context=None, max_retries=-1)

    class Step(Agent):
        async def prepare_step(self, step: StepContext[Any]) -> StepSettings:
            return StepSettings(max_retries=-1)

    with pytest.raises(InvalidArgumentError, match="max_retries"):
        await Step("x").generate("Go.", context=None)


# ---------------------------------------------------------------- precedence


@both
async def test_T129_step_over_call_over_agent(how: str) -> None:
    class Stepped(Agent):
        async def prepare_step(self, step: StepContext[Any]) -> StepSettings | None:
            if step.step_number == 1:
                return StepSettings(model_settings=ModelSettings(temperature=0.3, response_format={"type": "step"}))
            return None

    base = ModelSettings(
        temperature=0.1, frequency_penalty=0.1, presence_penalty=0.1, stop_sequences=["a"], response_format={"a": 1}
    )
    agent = Stepped(calls("work"), "Done.", model_settings=base)
    await run(agent, how, model_settings=ModelSettings(temperature=0.2, frequency_penalty=0.2, stop_sequences=["b"]))
    first, second = (request.settings for request in agent.requests)
    assert (first.temperature, first.frequency_penalty, first.presence_penalty) == (0.3, 0.2, 0.1)
    assert (first.stop_sequences, first.response_format) == (["b"], {"type": "step"})
    assert (second.temperature, second.frequency_penalty, second.response_format) == (0.2, 0.2, {"a": 1})


def failing(times: int) -> list[Any]:
    return [ModelHTTPError("busy", status=503, retryable=True)] * times


@both
@pytest.mark.parametrize(
    ("agent_retries", "call_retries", "step_retries", "attempts"),
    [(2, None, None, 3), (0, None, None, 1), (2, 1, None, 2), (0, 1, 3, 4), (1, 2, 0, 1)],
)
async def test_T129_max_retries(
    how: str, agent_retries: int, call_retries: int | None, step_retries: int | None, attempts: int
) -> None:
    class Stepped(Agent):
        async def prepare_step(self, step: StepContext[Any]) -> StepSettings:
            return StepSettings(max_retries=step_retries)

    agent = Stepped(*failing(9), max_retries=agent_retries, retry_policy=RetryPolicy(initial_delay=1e-9))
    options = {} if call_retries is None else {"max_retries": call_retries}
    with pytest.raises(RetryError if attempts > 1 else ModelHTTPError, match="busy"):
        await run(agent, how, **options)
    assert len(agent.requests) == attempts


@both
async def test_T180_a_retry_in_step_2_does_not_run_the_tools_of_step_1_again(how: str) -> None:
    agent = Agent(calls("work"), *failing(2), "Done.", retry_policy=RetryPolicy(initial_delay=1e-9))
    result = await run(agent, how)
    assert (result.output, len(agent.seen), len(agent.requests)) == ("Done.", 1, 4)


# ---------------------------------------------------------------- prepare_call, prepare_step


@both
async def test_T130_prepare_call_is_asked_once_and_holds_for_the_run(how: str) -> None:
    asked: list[CallContext[Any]] = []

    class Prepared(Agent):
        async def prepare_call(self, call: CallContext[Any]) -> CallSettings:
            asked.append(call)
            return CallSettings(
                instructions="Work well.",
                tools=[self.work],
                model_settings=ModelSettings(seed=7),
                stop_when=StepCountIs(2),
                context="theirs",
            )

    agent = Prepared(calls("work"), calls("work"), "never", stop_when=Never())
    result = await run(agent, how, context="mine")
    (asked_once,) = asked
    assert (asked_once.prompt, asked_once.context, asked_once.instructions) == ("Go.", "mine", "Work.")
    assert [request.context.system for request in agent.requests] == ["Work well."] * 2
    assert [[t.name for t in request.context.tools] for request in agent.requests] == [["work"]] * 2
    assert [request.settings.seed for request in agent.requests] == [7, 7]
    assert agent.seen == ["theirs", "theirs"]
    assert (result.stopped_by, result.stop_condition) == ("stop_condition", StepCountIs(2))


@pytest.mark.parametrize(("hook", "source"), [("prepare_call", "prepare-call"), ("prepare_step", "prepare-step"),
                                              ("on_start", "hook"), ("on_step_finish", "hook"), ("on_finish", "hook")])  # fmt: skip
async def test_T130_a_hook_that_raises_says_where(hook: str, source: str) -> None:
    async def broken(self: Any, *_: Any) -> Any:
        raise ValueError("broken")

    cls = type("Broken", (Agent,), {hook: broken})
    messages = [UserMessage("hi")]
    events = [event async for event in cls("x").events("Go.", context=None, messages=messages)]
    assert isinstance(events[-1], Errored)
    assert (events[-1].source, events[-1].error.message) == (source, "broken")
    assert not any(isinstance(event, Finished) for event in events)
    assert messages == [UserMessage("hi")]


@both
async def test_T131_a_context_set_in_a_step_is_seen_by_this_and_later_steps(how: str) -> None:
    class Stepped(Agent):
        async def prepare_step(self, step: StepContext[Any]) -> StepSettings | None:
            self.seen.append(("step", step.context))
            return StepSettings(context="new") if step.step_number == 2 else None

    agent = Stepped(calls("work"), calls("work"), calls("work"), "Done.")
    await run(agent, how, context="old")
    tools = [seen for seen in agent.seen if not isinstance(seen, tuple)]
    assert tools == ["old", "new", "new"]
    assert [seen[1] for seen in agent.seen if isinstance(seen, tuple)] == ["old", "old", "new", "new"]


@both
async def test_a_forced_tool_choice_holds_until_it_is_satisfied(how: str) -> None:
    agent = Agent("Not yet.", model_settings=ModelSettings(tool_choice="required"))
    await run(agent, how)
    assert [r.settings.tool_choice for r in agent.requests] == ["required"]
    agent = Agent(calls("work"), calls("work"), "Done.", model_settings=ModelSettings(tool_choice="required"))
    await run(agent, how)
    assert [r.settings.tool_choice for r in agent.requests] == ["required", None, None]
    named = ModelSettings(tool_choice="pay")
    agent = Agent(calls("work"), [call("pay", id="p")], model_settings=named)
    await run(agent, how)
    assert [r.settings.tool_choice for r in agent.requests] == ["pay", "pay"]
    agent = Agent(calls("work"), "Done.", model_settings=ModelSettings(tool_choice="none"))
    await run(agent, how)
    assert [r.settings.tool_choice for r in agent.requests] == ["none", "none"]


def test_settings_in_one_object_are_whole() -> None:
    names = set(AgentSettings.__dataclass_fields__)
    constructor = set(ToolLoopAgent.__init__.__annotations__) - {"return", "settings"}
    assert names == constructor
