"""What holds for a run and for each step of it: `prepare_call` and `prepare_step`, in the loop's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from .asking import Asking
from .defaults import RunDefaults, conditions_of, model_of, tools_of
from .driving import RunDriver
from .errors import InvalidArgumentError
from .loop.checks import check_content
from .loop.options import Content, RequestUpdate
from .models.base import LanguageModel, ModelSettings, StreamOptions
from .planning import overridden
from .settings import NOT_GIVEN, CallContext, CallSettings, StepContext, StepSettings
from .signals import AbortSignal
from .tools.base import Tool

__all__ = ["PreparingHooks", "Preparation"]


class PreparingHooks(Protocol):
    """The hooks of an agent that settle what is asked."""

    async def prepare_call(self, call: CallContext[Any]) -> CallSettings | None: ...
    async def prepare_step(self, step: StepContext[Any]) -> StepSettings | None: ...
    async def on_step_start(self, step: StepContext[Any]) -> None: ...


class Preparation:
    """Settles what a run asks, step by step."""

    def __init__(
        self, agent: PreparingHooks, settled: RunDefaults, control: RunDriver, asking: Asking, prompt: Content | None
    ) -> None:
        self._agent = agent
        self._settled = settled
        self._control = control
        self._asking = asking
        self._prompt = prompt
        self._has_call_hook = overridden(agent, "prepare_call")
        self._step_hooks = overridden(agent, "prepare_step"), overridden(agent, "on_step_start")

    # ------------------------------------------------------------ once for the run

    async def prepare_call(self) -> None:
        """Ask `prepare_call`, and let what it sets hold for the run."""
        if not self._has_call_hook:
            return
        control, settled = self._control, self._settled
        try:
            settings = await self._agent.prepare_call(
                CallContext(
                    prompt=self._prompt,
                    messages=tuple(control.loop.history),
                    context=control.loop.context,
                    model=settled.model,
                    instructions=settled.instructions,
                    tools=settled.tools,
                    run=control,
                )
            )
            if settings is not None:
                self._apply(settings)
        except Exception:
            control.failed_in = "prepare-call"
            raise

    def _apply(self, settings: CallSettings) -> None:
        control, changes = self._control, dict[str, Any]()
        if settings.model is not None:
            changes["model"] = model_of(settings.model)
            if self._prompt is not None:
                check_content(self._prompt, changes["model"])
        if settings.instructions is not None:
            changes["instructions"] = settings.instructions
        if settings.tools is not None:
            changes["tools"] = tools_of(settings.tools)
        if settings.max_turns is not None:
            changes["max_turns"] = settings.max_turns
        if settings.model_settings is not None:
            changes["model_settings"] = self._settled.model_settings.merged(settings.model_settings)
        if settings.max_retries is not None:
            changes["max_retries"] = settings.max_retries
        if settings.stop_when is not None:
            control.stop_when = conditions_of(settings.stop_when)
        self._settled = settled = replace(self._settled, **changes)
        settled.check("prepare_call")
        control.loop.options = replace(
            control.loop.options,
            model=settled.model,
            system=settled.instructions or None,
            tools=settled.tools,
            max_turns=settled.max_turns,
            stream_options=StreamOptions(settled.model_settings),
        )
        if settings.context is not NOT_GIVEN:
            control.loop.context = settings.context

    # ------------------------------------------------------------ for each step

    async def prepare_step(self, signal: AbortSignal) -> RequestUpdate | None:
        """Ask `prepare_step`, then tell `on_step_start`."""
        settled, control = self._settled, self._control
        self._asking.max_retries = settled.max_retries
        self._asking.step_number = len(control.steps) + 1
        relaxed = self._relaxed(settled.model_settings)
        update = None if relaxed is settled.model_settings else RequestUpdate(stream_options=StreamOptions(relaxed))
        if not any(self._step_hooks):
            return update
        step: StepContext[Any] = StepContext(
            step_number=len(control.steps) + 1,
            messages=tuple(control.loop.history),
            steps=tuple(control.steps),
            context=control.loop.context,
            model=settled.model,
            instructions=settled.instructions,
            tools=settled.tools,
            run=control,
        )
        try:
            settings = await self._agent.prepare_step(step)
            signal.raise_if_aborted()
            if settings is not None:
                update = self._update(settings, relaxed)
        except Exception:
            control.failed_in = "prepare-step"
            raise
        if update is not None:
            step = replace(
                step,
                model=cast("LanguageModel", update.model or settled.model),
                instructions=settled.instructions if update.system is None else update.system,
                tools=settled.tools if update.tools is None else update.tools,
                context=step.context if update.context is None else update.context[0],
            )
        await self._agent.on_step_start(step)
        return update

    def _relaxed(self, settings: ModelSettings) -> ModelSettings:
        """A forced tool choice holds until it is satisfied: forced for ever, the model could never answer."""
        choice = settings.tool_choice
        if choice in (None, "auto", "none"):
            return settings
        called = {call.name for step in self._control.steps for call in step.tool_calls}
        satisfied = bool(called) if choice == "required" else choice in called
        return replace(settings, tool_choice=None) if satisfied else settings

    def _update(self, settings: StepSettings, base: ModelSettings) -> RequestUpdate:
        model_settings = base.merged(settings.model_settings)
        if settings.tool_choice is not None:
            model_settings = replace(model_settings, tool_choice=settings.tool_choice)
        if settings.max_retries is not None:
            self._asking.max_retries = checked_retries(settings.max_retries)
        return RequestUpdate(
            model=None if settings.model is None else model_of(settings.model),
            system=settings.instructions,
            tools=self._tools(settings),
            stream_options=StreamOptions(model_settings),
            messages=settings.messages,
            context=None if settings.context is NOT_GIVEN else (settings.context,),
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


def checked_retries(value: object) -> int:
    """A number of retries.

    Raises:
        InvalidArgumentError: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgumentError(f"max_retries must be a whole number, 0 or more, not {value!r}.")
    return value
