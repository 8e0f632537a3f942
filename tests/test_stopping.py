"""Stop conditions (T135 and what design adds to it)."""

from __future__ import annotations

from typing import Any

import pytest
from kit import calls

from loopwright import (
    AllOf,
    AnyOf,
    CostBudget,
    HasToolCall,
    InvalidArgumentError,
    Never,
    RepeatedToolCall,
    StepCountIs,
    StepResult,
    TimeBudget,
    TokenBudget,
    ToolLoopAgent,
    Usage,
    tool,
)
from loopwright.stopping import StopCondition, first_that_holds
from loopwright.testing import ScriptedModel, answer, call


def step(*parts: Any, usage: Usage | None = None, elapsed: float = 0.0) -> StepResult:
    return StepResult(1, answer(*parts, usage=usage), (), elapsed)


def test_T135_repeated_calls() -> None:
    same = step(call("look", what="x"))
    spaced = step(call("look").__class__("other", "look", '{ "what": "x" }'))
    other = step(call("look", what="y"))
    condition = RepeatedToolCall(3)
    assert not condition([same, same])
    assert condition([same, same, same])
    assert condition([other, same, spaced, same])
    assert not condition([same, other, same])
    assert not condition([step("text"), step("text"), step("text")])
    assert RepeatedToolCall() == condition


def test_token_budget() -> None:
    condition = TokenBudget(10)
    assert not condition([])
    assert not condition([step(usage=Usage(5, 4))])
    assert condition([step(usage=Usage(5, 4)), step(), step(usage=Usage(1, 0))])
    assert condition([step(usage=Usage(1, 1, total_tokens=10))])


def test_cost_budget() -> None:
    def price(step: StepResult) -> float | None:
        return None if step.usage is None or step.usage.output_tokens is None else step.usage.output_tokens / 8

    condition = CostBudget(1.25, price)
    assert not condition([step(usage=Usage(0, 9))])
    assert condition([step(usage=Usage(0, 9)), step(usage=Usage(0, 1))])
    assert condition([step()])
    assert not CostBudget(1.25, price, go_on_when_unknown=True)([step()])


def test_time_budget() -> None:
    condition = TimeBudget(2.0)
    assert not condition([])
    assert not condition([step(elapsed=1.9)])
    assert condition([step(elapsed=1.9), step(elapsed=2.0)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: StepCountIs(0),
        lambda: RepeatedToolCall(1),
        lambda: TokenBudget(0),
        lambda: TokenBudget(True),
        lambda: TimeBudget(0),
        lambda: TimeBudget(float("nan")),
        lambda: CostBudget(-1, lambda step: 0.0),
        lambda: CostBudget(1, None),  # type: ignore[arg-type]
    ],
)
def test_conditions_that_cannot_work_are_refused(make: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="takes a"):
        make()


async def test_T135_conditions_compose() -> None:
    steps = [step(call("look")), step("done")]
    never: StopCondition = Never()
    assert await first_that_holds([never, HasToolCall("look")], steps) == HasToolCall("look")
    assert await first_that_holds([AllOf(HasToolCall("look"), StepCountIs(3))], steps) is None
    assert await first_that_holds([AnyOf(never, AllOf(HasToolCall("look"), StepCountIs(2)))], steps) is not None


@pytest.mark.parametrize("how", ["generate", "stream"])
async def test_T135_a_run_says_which_condition_ended_it(how: str) -> None:
    class Looping(ToolLoopAgent):
        instructions = ""

        @tool
        async def look(self) -> str:
            """Look."""
            return "nothing new"

    agent = Looping(
        model=ScriptedModel([calls("look")], repeat_last=True), stop_when=[StepCountIs(9), RepeatedToolCall(3)]
    )
    if how == "generate":
        result = await agent.generate("Go.")
    else:
        async with agent.stream("Go.") as run:
            result = await run.result()
    assert (len(result.steps), result.stopped_by) == (3, "stop_condition")
    assert result.stop_condition == RepeatedToolCall(3)
    assert all(step.elapsed >= 0 for step in result.steps)
