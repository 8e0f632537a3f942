"""Stop conditions: when a run is over though the model would go on.

A condition is any callable of the run's steps, sync or async, that says whether to stop. It is asked once after each
step. A list of conditions stops when any of them holds.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .errors import InvalidArgumentError
from .messages import ToolCallPart
from .results import StepResult

__all__ = [
    "AllOf",
    "AnyOf",
    "CostBudget",
    "HasToolCall",
    "Never",
    "RepeatedToolCall",
    "StepCountIs",
    "StopCondition",
    "TimeBudget",
    "TokenBudget",
    "first_that_holds",
]

StopCondition: TypeAlias = Callable[[Sequence[StepResult]], "bool | Awaitable[bool]"]


@dataclass(frozen=True, slots=True)
class StepCountIs:
    """Stop after `count` steps, or more."""

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise InvalidArgumentError(f"StepCountIs takes a positive whole number of steps, not {self.count!r}.")

    def __call__(self, steps: Sequence[StepResult]) -> bool:
        return len(steps) >= self.count


@dataclass(frozen=True, slots=True)
class HasToolCall:
    """Stop once any step has called the tool `name`."""

    name: str

    def __call__(self, steps: Sequence[StepResult]) -> bool:
        return any(call.name == self.name for step in steps for call in step.tool_calls)


@dataclass(frozen=True, slots=True)
class RepeatedToolCall:
    """Stop when the first call of `count` steps in a row was the same: the same tool with the same arguments."""

    count: int = 3

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 2:
            raise InvalidArgumentError(
                f"RepeatedToolCall takes a whole number of steps, 2 or more, not {self.count!r}."
            )

    def __call__(self, steps: Sequence[StepResult]) -> bool:
        if len(steps) < self.count:
            return False
        first = [step.tool_calls[0] if step.tool_calls else None for step in steps[-self.count :]]
        latest = first[-1]
        if latest is None:
            return False
        return all(call is not None and call.name == latest.name and _same_input(call, latest) for call in first)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Stop once the steps have used `tokens`, or more: input and output of each request.

    Steps whose tokens the provider did not tell do not count.
    """

    tokens: int

    def __post_init__(self) -> None:
        if type(self.tokens) is not int or self.tokens < 1:
            raise InvalidArgumentError(f"TokenBudget takes a positive whole number of tokens, not {self.tokens!r}.")

    def __call__(self, steps: Sequence[StepResult]) -> bool:
        return sum(_tokens_of(step) for step in steps) >= self.tokens


@dataclass(frozen=True, slots=True)
class CostBudget:
    """Stop once the steps have cost `limit`, or more.

    Attributes:
        limit: In the currency of `price`.
        price: The cost of one step; None where it is not known. Unknown is not zero: such a step stops the run, unless
            `go_on_when_unknown`.
        go_on_when_unknown: Leave steps of unknown cost out of the sum.
    """

    limit: float
    price: Callable[[StepResult], float | None]
    go_on_when_unknown: bool = False

    def __post_init__(self) -> None:
        if not _is_amount(self.limit):
            raise InvalidArgumentError(f"CostBudget takes a positive amount, not {self.limit!r}.")
        if not callable(self.price):
            raise InvalidArgumentError(f"CostBudget takes a function that gives a step's cost, not {self.price!r}.")

    def __call__(self, steps: Sequence[StepResult]) -> bool:
        total = 0.0
        for step in steps:
            cost = self.price(step)
            if cost is None and not self.go_on_when_unknown:
                return True
            total += cost or 0.0
        return total >= self.limit


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """Stop after the step that ends `seconds`, or more, after the run began. A running step is not cut short."""

    seconds: float

    def __post_init__(self) -> None:
        if not _is_amount(self.seconds):
            raise InvalidArgumentError(f"TimeBudget takes a positive number of seconds, not {self.seconds!r}.")

    def __call__(self, steps: Sequence[StepResult]) -> bool:
        return bool(steps) and steps[-1].elapsed >= self.seconds


@dataclass(frozen=True, slots=True)
class Never:
    """Do not stop: the model decides."""

    def __call__(self, steps: Sequence[StepResult]) -> bool:  # noqa: ARG002  # what a condition is given
        return False


@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """Stop when any of the conditions holds."""

    conditions: tuple[StopCondition, ...]

    def __init__(self, *conditions: StopCondition) -> None:
        object.__setattr__(self, "conditions", conditions)

    async def __call__(self, steps: Sequence[StepResult]) -> bool:
        return await first_that_holds(self.conditions, steps) is not None


@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """Stop when all of the conditions hold."""

    conditions: tuple[StopCondition, ...]

    def __init__(self, *conditions: StopCondition) -> None:
        object.__setattr__(self, "conditions", conditions)

    async def __call__(self, steps: Sequence[StepResult]) -> bool:
        for condition in self.conditions:
            if not await _holds(condition, steps):
                return False
        return bool(self.conditions)


async def first_that_holds(conditions: Sequence[StopCondition], steps: Sequence[StepResult]) -> StopCondition | None:
    """Ask conditions in order.

    Returns:
        The first one that holds, or None.
    """
    for condition in conditions:
        if await _holds(condition, steps):
            return condition
    return None


async def _holds(condition: StopCondition, steps: Sequence[StepResult]) -> bool:
    answer = condition(steps)
    return await answer if inspect.isawaitable(answer) else bool(answer)


def _same_input(a: ToolCallPart, b: ToolCallPart) -> bool:
    """Whether two calls have the same arguments, however they are written."""
    return a.arguments == b.arguments or (a.input is not None and a.input == b.input)


def _tokens_of(step: StepResult) -> int:
    usage = step.usage
    if usage is None:
        return 0
    if usage.total_tokens is not None:
        return usage.total_tokens
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
