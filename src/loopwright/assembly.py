"""Putting a run together: an agent's settings, one call's options and each step's become what the loop takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast
from uuid import uuid4

from .control import RunControl, RunHooks
from .errors import InvalidArgumentError
from .loop.checks import check_options
from .loop.options import Content, LoopOptions, RequestMetadata, RequestUpdate
from .loop.run import LoopRun
from .messages import AssistantMessage
from .models.base import (
    LanguageModel,
    ModelIdentity,
    ModelRequest,
    ModelSettings,
    ModelStream,
    RequestContext,
    StreamOptions,
)
from .models.completed import CompletedStream
from .models.registry import resolve_model
from .settings import AgentTool, CallOptions, StepContext, StepSettings
from .signals import AbortSignal
from .stopping import StopCondition
from .tools.base import Tool

__all__ = ["RunDefaults", "begin_run", "conditions_of", "model_of", "tools_of"]


class AgentHooks(RunHooks, Protocol):
    """The hooks of an agent that a run calls."""

    async def prepare_step(self, step: StepContext) -> StepSettings | None: ...
    async def on_step_start(self, step: StepContext) -> None: ...


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """An agent's settings, resolved."""

    model: LanguageModel
    instructions: str
    tools: tuple[Tool, ...]
    stop_when: tuple[StopCondition, ...]
    max_turns: int | None
    model_settings: ModelSettings
    max_parallel_tool_calls: int
    max_tool_calls_per_step: int
    cancel_grace: float

    def check(self, owner: str) -> None:
        """Refuse what the loop would refuse, when the agent is made and not when it is first run.

        Raises:
            InvalidArgumentError: Names all that cannot work, and the agent's class.
        """
        try:
            check_options(self.loop_options(_StreamFunction({}, streaming=True)))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{owner}: {error}") from None

    def loop_options(self, stream: _StreamFunction) -> LoopOptions:
        """The part of the loop's options that they settle."""
        return LoopOptions(
            model=self.model,
            stream=stream,
            system=self.instructions or None,
            tools=self.tools,
            stream_options=StreamOptions(self.model_settings),
            max_turns=self.max_turns,
            max_parallel_tool_calls=self.max_parallel_tool_calls,
            max_tool_calls_per_step=self.max_tool_calls_per_step,
            cancel_grace=self.cancel_grace,
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
        return replace(self, **changes) if changes else self


_CALL_OPTIONS = frozenset(CallOptions.__annotations__)


def begin_run(
    agent: AgentHooks,
    defaults: RunDefaults,
    prompt: Content | None,
    *,
    context: Any,
    call: CallOptions,
    streaming: bool,
) -> RunControl:
    """Make a run; nothing happens before it is pulled.

    Raises:
        InvalidArgumentError: An option cannot work.
        InvalidInputError: The prompt or the messages cannot be sent.
    """
    unknown = sorted(set(call) - _CALL_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"There is no call option {', '.join(map(repr, unknown))}. There are: {', '.join(sorted(_CALL_OPTIONS))}."
        )
    settled = defaults.for_call(call)
    signal = AbortSignal.any(call["signal"]) if "signal" in call else AbortSignal()
    run_id = call.get("run_id") or uuid4().hex
    control = RunControl(agent, settled.stop_when, signal, run_id=run_id, cancel_grace=settled.cancel_grace)
    steering, follow_ups = control.polls
    options = replace(
        settled.loop_options(_StreamFunction({}, streaming=streaming)),
        context=context,
        run_id=run_id,
        get_steering_messages=steering,
        get_follow_up_messages=follow_ups,
        finish_turn=control.finish_turn,
        prepare_request=_StepPreparation(agent, settled, control, context).prepare,
    )
    history = list(call.get("messages", ()))
    control.attach(LoopRun(prompt, history, options, signal, handle=control))
    return control


class _StepPreparation:
    """Calls `prepare_step` before each request, and says what it set in the loop's words."""

    def __init__(self, agent: AgentHooks, settled: RunDefaults, control: RunControl, context: Any) -> None:
        self._agent = agent
        self._settled = settled
        self._control = control
        self._context = context

    async def prepare(self, signal: AbortSignal) -> RequestUpdate | None:
        settled, control = self._settled, self._control
        step = StepContext(
            step_number=len(control.steps) + 1,
            messages=tuple(control.loop.history),
            steps=tuple(control.steps),
            context=self._context,
            model=settled.model,
            instructions=settled.instructions,
            tools=settled.tools,
            run=control,
        )
        settings = await self._agent.prepare_step(step)
        signal.raise_if_aborted()
        update = None if settings is None else self._update(settings)
        if update is not None:
            step = replace(
                step,
                model=cast("LanguageModel", update.model or settled.model),
                instructions=settled.instructions if update.system is None else update.system,
                tools=settled.tools if update.tools is None else update.tools,
            )
        await self._agent.on_step_start(step)
        return update

    def _update(self, settings: StepSettings) -> RequestUpdate:
        model_settings = self._settled.model_settings.merged(settings.model_settings)
        if settings.tool_choice is not None:
            model_settings = replace(model_settings, tool_choice=settings.tool_choice)
        return RequestUpdate(
            model=None if settings.model is None else model_of(settings.model),
            system=settings.instructions,
            tools=self._tools(settings),
            stream_options=StreamOptions(model_settings),
            messages=settings.messages,
        )

    def _tools(self, settings: StepSettings) -> Sequence[Tool] | None:
        tools = None if settings.tools is None else tools_of(settings.tools)
        if settings.active_tools is None:
            return tools
        available = self._settled.tools if tools is None else tools
        unknown = set(settings.active_tools) - {tool.name for tool in available}
        if unknown:
            raise InvalidArgumentError(
                f"prepare_step names active_tools that do not exist: {', '.join(sorted(unknown))}. "
                f"There are: {', '.join(tool.name for tool in available) or 'none'}."
            )
        return [tool for tool in available if tool.name in settings.active_tools]


class _StreamFunction:
    """Asks a `LanguageModel` the way the loop asks: streamed, or as one whole answer."""

    def __init__(self, memos: dict[tuple[str, str, str], dict[str, Any]], *, streaming: bool) -> None:
        self._memos = memos
        self._streaming = streaming

    async def __call__(
        self, model: ModelIdentity, context: RequestContext, options: StreamOptions, metadata: RequestMetadata, /
    ) -> ModelStream:
        del metadata  # it is not for providers
        language_model = cast("LanguageModel", model)
        memo = self._memos.setdefault((model.provider, model.api, model.name), {})
        request = ModelRequest(context, options.settings, memo)
        if self._streaming:
            return await language_model.stream(request)
        try:
            return CompletedStream(await language_model.generate(request))
        except Exception as error:
            answer = getattr(error, "answer", None)  # see ModelError.answer
            if not isinstance(answer, AssistantMessage):
                raise
            return CompletedStream(answer, error)


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
