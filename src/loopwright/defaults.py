"""An agent's settings, resolved and checked, and one call's options on top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from .errors import InvalidArgumentError
from .loop.checks import check_options
from .loop.options import LoopOptions, StreamFunction
from .models.base import LanguageModel, ModelSettings, StreamOptions
from .models.registry import resolve_model
from .models.retry import RetryPolicy
from .settings import AgentTool, CallOptions
from .stopping import StopCondition
from .telemetry.integration import TelemetrySettings
from .tools.approval import ApprovalLedger
from .tools.base import Tool
from .tools.policy import ToolExecutionPolicy

__all__ = ["RunDefaults", "conditions_of", "model_of", "secret_of", "tools_of"]


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """An agent's settings, resolved."""

    id: str
    version: str | None
    model: LanguageModel
    instructions: str
    tools: tuple[Tool, ...]
    stop_when: tuple[StopCondition, ...]
    max_turns: int | None
    model_settings: ModelSettings
    tool_policy: ToolExecutionPolicy
    max_invalid_calls: int | None
    max_retries: int
    retry_policy: RetryPolicy
    approval_secret: bytes | None = field(repr=False)
    approval_seconds: float | None
    approval_ledger: ApprovalLedger
    telemetry: TelemetrySettings

    @property
    def max_parallel_tool_calls(self) -> int:
        """How many calls of one step run at once."""
        return self.tool_policy.max_parallel_tool_calls

    @property
    def max_tool_calls_per_step(self) -> int | None:
        """How many calls one answer may ask for."""
        return self.tool_policy.max_tool_calls_per_step

    @property
    def cancel_grace(self) -> float:
        """Seconds that a cancelled tool is given to end."""
        return self.tool_policy.cancel_grace

    def check(self, owner: str) -> None:
        """Refuse what cannot work, when the agent is made and not when it is first run.

        Raises:
            InvalidArgumentError: Names all that cannot work, and the agent's class.
        """
        problems = list(self._problems())
        try:
            check_options(self.loop_options(_never_asked))
        except InvalidArgumentError as error:
            problems.append(str(error))
        if problems:
            raise InvalidArgumentError(f"{owner}: {' '.join(problems)}") from None

    def _problems(self) -> Iterable[str]:
        retries: object = self.max_retries
        if not _is_count(retries, 0):
            yield f"max_retries must be a whole number, 0 or more, not {retries!r}."
        if self.max_invalid_calls is not None and not _is_count(self.max_invalid_calls, 1):
            yield f"max_invalid_calls must be a positive whole number or None, not {self.max_invalid_calls!r}."
        seconds: object = self.approval_seconds
        if seconds is not None and (not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0):
            yield f"approval_seconds must be a positive number of seconds or None, not {seconds!r}."
        if not callable(getattr(self.approval_ledger, "claim", None)):
            yield f"approval_ledger must have an async method claim(approval_ids), {self.approval_ledger!r} has none."
        for name, kind in (("telemetry", TelemetrySettings), ("retry_policy", RetryPolicy)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                yield f"{name} must be {kind.__name__}(...), not {value!r}."

    def loop_options(self, stream: StreamFunction) -> LoopOptions:
        """The part of the loop's options that they settle."""
        policy = self.tool_policy
        return LoopOptions(
            model=self.model,
            stream=stream,
            system=self.instructions or None,
            tools=self.tools,
            stream_options=StreamOptions(self.model_settings),
            max_turns=self.max_turns,
            max_parallel_tool_calls=policy.max_parallel_tool_calls,
            max_tool_calls_per_step=policy.max_tool_calls_per_step,
            cancel_grace=policy.cancel_grace,
            progress_capacity=policy.progress_buffer_capacity,
            timeout_of=policy.timeout_of if policy.timeout is not None or policy.per_tool_timeout else None,
        )

    def for_call(self, call: CallOptions) -> RunDefaults:
        """With one call's options on top."""
        changes: dict[str, Any] = {}
        if "model" in call:
            changes["model"] = model_of(call["model"])
        if "instructions" in call:
            changes["instructions"] = call["instructions"]
        if "tools" in call:
            changes["tools"] = tools_of(call["tools"])
        if "stop_when" in call:
            changes["stop_when"] = conditions_of(call["stop_when"])
        if "max_turns" in call:
            changes["max_turns"] = call["max_turns"]
        if "model_settings" in call:
            changes["model_settings"] = self.model_settings.merged(call["model_settings"])
        if "max_retries" in call:
            changes["max_retries"] = call["max_retries"]
        if not changes:
            return self
        changed = replace(self, **changes)
        changed.check("The call")
        return changed


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _never_asked(*_: object) -> Any:
    raise AssertionError("options are only checked with it")


def secret_of(secret: object) -> bytes | None:
    """A secret as bytes of its own, so that no one changes it later.

    Raises:
        InvalidArgumentError: It is neither bytes nor text, or empty.
    """
    if secret is None:
        return None
    if isinstance(secret, str):
        secret = secret.encode()
    if not isinstance(secret, bytes | bytearray) or not secret:
        raise InvalidArgumentError("approval_secret must be bytes or text, and not empty.")
    return bytes(secret)


def model_of(model: object) -> LanguageModel:
    """A model, from a string or as it is.

    Raises:
        ModelError: The string does not resolve.
        InvalidArgumentError: It is neither a string nor a model.
    """
    if isinstance(model, str):
        return resolve_model(model)
    lacking = [
        name for name in ("provider", "api", "name", "capabilities", "generate", "stream") if not hasattr(model, name)
    ]
    if lacking:
        raise InvalidArgumentError(
            f"model must be a LanguageModel or a string like 'openai:gpt-5-mini', not {type(model).__name__} "
            f"(which has no {', '.join(lacking)})."
        )
    return cast("LanguageModel", model)


def tools_of(tools: object) -> tuple[Tool, ...]:
    """Tools, from tools and functions.

    Raises:
        InvalidArgumentError: Something is neither, or a function's signature cannot become a schema.
    """
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise InvalidArgumentError(f"tools must be a list of tools and functions, not {type(tools).__name__}.")
    made: list[Tool] = []
    for tool in cast("Sequence[AgentTool]", tools):
        if isinstance(tool, Tool):
            made.append(tool)
        elif callable(tool):
            made.append(Tool.from_function(tool))
        else:
            raise InvalidArgumentError(
                f"tools must hold tools and functions; {tool!r} is neither. Decorate a function with @tool."
            )
    return tuple(made)


def conditions_of(stop_when: object) -> tuple[StopCondition, ...]:
    """Stop conditions, from one or several.

    Raises:
        InvalidArgumentError: Something is not callable.
    """
    conditions = cast("Sequence[object]", stop_when) if isinstance(stop_when, Sequence) else (stop_when,)
    for condition in conditions:
        if not callable(condition):
            raise InvalidArgumentError(
                f"stop_when must be a stop condition like StepCountIs(20), or a list of them; {condition!r} is none."
            )
    return tuple(cast("Sequence[StopCondition]", conditions))
