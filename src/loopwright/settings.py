"""Settings of an agent, and how the places where they may stand give way to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypedDict

from typing_extensions import TypeVar

from .messages import Message
from .models.base import LanguageModel, ModelSettings, ToolChoice
from .models.retry import RetryPolicy
from .signals import AbortSignal
from .stopping import StopCondition
from .telemetry.integration import TelemetrySettings
from .tools.approval import ApprovalLedger
from .tools.base import Tool
from .tools.policy import ToolExecutionPolicy

__all__ = [
    "NOT_GIVEN",
    "AgentSettings",
    "AgentTool",
    "CallContext",
    "CallOptions",
    "CallSettings",
    "NotGiven",
    "StepContext",
    "StepSettings",
    "resolve",
]


C = TypeVar("C", default=None)


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
        tool_policy: Bounds of tool batches.
        max_parallel_tool_calls: How many calls of one step run at once; in place of the policy's.
        max_tool_calls_per_step: How many calls one answer may ask for; in place of the policy's.
        cancel_grace: Seconds that a cancelled tool is given to end; in place of the policy's.
        max_invalid_calls: The run fails after this many steps in a row in which no call was valid. None for never.
        max_retries: How often a request that failed is made again. 0 for never.
        retry_policy: How long to wait before that, and for how long in all.
        approval_secret: Signs approval requests, so that what comes back can be told from what was made up.
        approval_seconds: How long a request may be approved; None for ever.
        approval_ledger: Remembers which requests were answered; one in memory by default.
        telemetry: Who observes the runs, and what they are told.
    """

    id: str | NotGiven = NOT_GIVEN
    version: str | NotGiven | None = NOT_GIVEN
    model: LanguageModel | str | NotGiven = NOT_GIVEN
    instructions: str | NotGiven = NOT_GIVEN
    tools: Sequence[AgentTool] | NotGiven = NOT_GIVEN
    stop_when: StopCondition | Sequence[StopCondition] | NotGiven = NOT_GIVEN
    max_turns: int | NotGiven | None = NOT_GIVEN
    model_settings: ModelSettings | NotGiven = NOT_GIVEN
    tool_policy: ToolExecutionPolicy | NotGiven = NOT_GIVEN
    max_parallel_tool_calls: int | NotGiven = NOT_GIVEN
    max_tool_calls_per_step: int | NotGiven | None = NOT_GIVEN
    cancel_grace: float | NotGiven = NOT_GIVEN
    max_invalid_calls: int | NotGiven | None = NOT_GIVEN
    max_retries: int | NotGiven = NOT_GIVEN
    retry_policy: RetryPolicy | NotGiven = NOT_GIVEN
    approval_secret: bytes | str | NotGiven | None = field(default=NOT_GIVEN, repr=False)
    approval_seconds: float | NotGiven | None = NOT_GIVEN
    approval_ledger: ApprovalLedger | NotGiven = NOT_GIVEN
    telemetry: TelemetrySettings | NotGiven = NOT_GIVEN


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
        max_retries: In place of the agent's.
        run_id: Names the run; made up when left out. No two runs may have the same.
    """

    messages: Sequence[Message]
    signal: AbortSignal
    model: LanguageModel | str
    instructions: str
    tools: Sequence[AgentTool]
    stop_when: StopCondition | Sequence[StopCondition]
    max_turns: int | None
    model_settings: ModelSettings
    max_retries: int
    run_id: str


@dataclass(frozen=True, slots=True)
class CallContext(Generic[C]):
    """What `prepare_call` is given.

    Attributes:
        prompt: What the user says, None where the run goes on with its messages.
        messages: The messages that were given, a snapshot.
        context: The run's context object.
        model: Who would be asked.
        instructions: What it would be told.
        tools: What it could call.
        run: The run: to steer it or to stop it.
    """

    prompt: Any
    messages: Sequence[Message]
    context: C
    model: LanguageModel
    instructions: str
    tools: Sequence[Tool]
    run: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """What `prepare_call` may set, for the whole run. What is None stays as it is.

    Attributes:
        model: Who is asked.
        instructions: The system prompt; an empty string for none.
        tools: The tools to declare and to run, the decorated methods included.
        stop_when: When the run is over.
        max_turns: Hard budget of model requests.
        model_settings: On top of the call's.
        max_retries: How often a request that failed is made again.
        context: The run's context object.
    """

    model: LanguageModel | str | None = None
    instructions: str | None = None
    tools: Sequence[AgentTool] | None = None
    stop_when: StopCondition | Sequence[StopCondition] | None = None
    max_turns: int | None = None
    model_settings: ModelSettings | None = None
    max_retries: int | None = None
    context: Any = NOT_GIVEN


@dataclass(frozen=True, slots=True)
class StepContext(Generic[C]):
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
    context: C
    model: LanguageModel
    instructions: str
    tools: Sequence[Tool]
    run: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """What `prepare_step` may set. What is None stays as it is. All lasts for this one step, but for `context`.

    Attributes:
        model: Who is asked.
        instructions: The system prompt; an empty string for none.
        tools: The tools to declare and to run.
        active_tools: Names of the tools to keep.
        tool_choice: Whether and what the model must call.
        model_settings: On top of the call's.
        max_retries: How often a request that failed is made again.
        messages: What the model reads in place of the history; the history stays as it is.
        context: The run's context object, from now on.
    """

    model: LanguageModel | str | None = None
    instructions: str | None = None
    tools: Sequence[AgentTool] | None = None
    active_tools: Sequence[str] | None = None
    tool_choice: ToolChoice | None = None
    model_settings: ModelSettings | None = None
    max_retries: int | None = None
    messages: Sequence[Message] | None = None
    context: Any = NOT_GIVEN


def resolve(name: str, places: Sequence[Mapping[str, Any]]) -> Any:
    """The first place that gives the setting `name`; `NOT_GIVEN` where none does."""
    for place in places:
        value = place.get(name, NOT_GIVEN)
        if value is not NOT_GIVEN:
            return value
    return NOT_GIVEN
