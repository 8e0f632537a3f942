"""Settings of an agent, and how the places where they may stand give way to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, TypeAlias, TypedDict

from .messages import Message
from .models.base import LanguageModel, ModelSettings, ToolChoice
from .signals import AbortSignal
from .stopping import StopCondition
from .tools.base import Tool

__all__ = [
    "NOT_GIVEN",
    "AgentSettings",
    "AgentTool",
    "CallOptions",
    "NotGiven",
    "StepContext",
    "StepSettings",
    "resolve",
]


class NotGiven(Enum):
    """Stands for "left out" where None means something."""

    NOT_GIVEN = "NOT_GIVEN"

    def __repr__(self) -> str:
        return self.value


NOT_GIVEN: Final = NotGiven.NOT_GIVEN

AgentTool: TypeAlias = Tool | Callable[..., Any]
"""A tool, or a function to make one of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """All settings of an agent in one object. What is left out is looked for on the class.

    Attributes:
        id: Names the agent in logs and telemetry.
        version: Of the agent.
        model: A `LanguageModel`, or a string like `openai:gpt-5-mini`.
        instructions: The system prompt; an empty string for none.
        tools: Tools besides the decorated methods.
        stop_when: A stop condition, or several of which any may hold.
        max_turns: Hard budget of model requests for one run; using it up is an error. None for none.
        model_settings: How the model should answer.
        max_parallel_tool_calls: How many calls of one step run at once.
        max_tool_calls_per_step: How many calls one answer may ask for.
        cancel_grace: Seconds that a cancelled tool is given to end.
    """

    id: str | NotGiven = NOT_GIVEN
    version: str | NotGiven | None = NOT_GIVEN
    model: LanguageModel | str | NotGiven = NOT_GIVEN
    instructions: str | NotGiven = NOT_GIVEN
    tools: Sequence[AgentTool] | NotGiven = NOT_GIVEN
    stop_when: StopCondition | Sequence[StopCondition] | NotGiven = NOT_GIVEN
    max_turns: int | NotGiven | None = NOT_GIVEN
    model_settings: ModelSettings | NotGiven = NOT_GIVEN
    max_parallel_tool_calls: int | NotGiven = NOT_GIVEN
    max_tool_calls_per_step: int | NotGiven = NOT_GIVEN
    cancel_grace: float | NotGiven = NOT_GIVEN


SETTING_NAMES: Final = tuple(f.name for f in fields(AgentSettings))


class CallOptions(TypedDict, total=False):
    """What one call may set. It wins over everything but what `prepare_step` sets for one step.

    Attributes:
        messages: The conversation so far, as in `result.messages`.
        signal: Stops the run.
        model: In place of the agent's.
        instructions: In place of the agent's.
        tools: In place of the agent's, the decorated methods included.
        stop_when: In place of the agent's.
        max_turns: In place of the agent's.
        model_settings: On top of the agent's.
        run_id: Names the run; made up when left out.
    """

    messages: Sequence[Message]
    signal: AbortSignal
    model: LanguageModel | str
    instructions: str
    tools: Sequence[AgentTool]
    stop_when: StopCondition | Sequence[StopCondition]
    max_turns: int | None
    model_settings: ModelSettings
    run_id: str


@dataclass(frozen=True, slots=True)
class StepContext:
    """What `prepare_step` is given.

    Attributes:
        step_number: The step that is about to begin, from 1.
        messages: The history so far, a snapshot.
        steps: The completed steps of this run.
        context: The run's context object.
        model: Who would be asked.
        instructions: What it would be told.
        tools: What it could call.
        run: The run: to steer it or to stop it.
    """

    step_number: int
    messages: Sequence[Message]
    steps: Sequence[Any]
    context: Any
    model: LanguageModel
    instructions: str
    tools: Sequence[Tool]
    run: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """What `prepare_step` may set. Everything lasts for this one step; None leaves it as it is.

    Attributes:
        model: Who is asked.
        instructions: The system prompt; an empty string for none.
        tools: The tools to declare and to run.
        active_tools: Names of the tools to keep.
        tool_choice: Whether and what the model must call.
        model_settings: On top of the call's.
        messages: What the model reads in place of the history; the history stays as it is.
    """

    model: LanguageModel | str | None = None
    instructions: str | None = None
    tools: Sequence[AgentTool] | None = None
    active_tools: Sequence[str] | None = None
    tool_choice: ToolChoice | None = None
    model_settings: ModelSettings | None = None
    messages: Sequence[Message] | None = None


def resolve(name: str, places: Sequence[Mapping[str, Any]]) -> Any:
    """The first place that gives the setting `name`; `NOT_GIVEN` where none does."""
    for place in places:
        value = place.get(name, NOT_GIVEN)
        if value is not NOT_GIVEN:
            return value
    return NOT_GIVEN
