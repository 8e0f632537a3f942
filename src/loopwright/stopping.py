"""Stop conditions: when a run is over though the model would go on.

A condition is any callable of the run's steps, sync or async, that says whether to stop. It is asked once after each
step. A list of conditions stops when any of them holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .errors import InvalidArgumentError
from .results import StepResult

__all__ = ["AllOf", "AnyOf", "HasToolCall", "Never", "StepCountIs", "StopCondition", "first_that_holds"]

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
