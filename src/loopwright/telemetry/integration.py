"""What observes runs, and how it is registered."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import InvalidArgumentError
from ..lifecycle import (
    AgentEvent,
    Chunk,
    Finished,
    Started,
    StepFinished,
    StepStarted,
    TelemetryOnly,
    ToolCallFinished,
    ToolCallStarted,
)

__all__ = ["Emitter", "Integration", "TelemetryEvent", "TelemetrySettings", "emitter_of", "register_integration"]

_log = logging.getLogger("loopwright")


@dataclass(frozen=True, slots=True)
class TelemetryEvent:
    """An event with the envelope of its run.

    Attributes:
        call_id: Names the run; all its events have the same.
        agent_id: The agent's `id`.
        version: The agent's `version`.
        model_id: The model that the run begins with, as `provider:name`.
        function_id: What the agent's settings say the run is for.
        event: What happened.
    """

    call_id: str
    agent_id: str
    version: str | None
    model_id: str
    function_id: str | None
    event: AgentEvent | TelemetryOnly


class Integration(Protocol):
    """Observes runs. What it raises is logged once and changes nothing; only cancellation passes."""

    def on_event(self, event: TelemetryEvent) -> Awaitable[None] | None:
        """Told of each event, in order; an awaitable is awaited."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Who observes an agent's runs, and what they are told.

    Attributes:
        is_enabled: False silences global integrations and the agent's own.
        function_id: Stamped on each event.
        integrations: In place of the globally registered ones, unless empty.
        record_inputs: Whether prompts, messages and tool inputs are told.
        record_outputs: Whether texts and tool results are told.
    """

    is_enabled: bool = True
    function_id: str | None = None
    integrations: Sequence[Integration] = ()
    record_inputs: bool = False
    record_outputs: bool = False


_registered: list[Integration] = []


def register_integration(integration: Integration) -> Callable[[], None]:
    """Let an integration observe every run that begins from now on, of every agent without integrations of its own.

    Returns:
        Takes it away again; may be called more than once.

    Raises:
        InvalidArgumentError: It has no `on_event`.
    """
    if not callable(getattr(integration, "on_event", None)):
        raise InvalidArgumentError(f"An integration has a method on_event(event); {integration!r} has none.")
    _registered.append(integration)

    def remove() -> None:
        if integration in _registered:
            _registered.remove(integration)

    return remove


def emitter_of(settings: TelemetrySettings, envelope: TelemetryEvent) -> Emitter | None:
    """What tells a run's events to those who observe it; None where nobody does."""
    if not settings.is_enabled:
        return None
    integrations = tuple(settings.integrations) or tuple(_registered)
    return Emitter(integrations, settings, envelope) if integrations else None


class Emitter:
    """Tells one run's events to its integrations."""

    __slots__ = ("_envelope", "_integrations", "_settings", "_warned")

    def __init__(
        self, integrations: Sequence[Integration], settings: TelemetrySettings, envelope: TelemetryEvent
    ) -> None:
        self._integrations = integrations
        self._settings = settings
        self._envelope = envelope
        self._warned: set[int] = set()

    async def tell(self, event: AgentEvent | TelemetryOnly) -> None:
        """Tell an event; without inputs and outputs, unless they are to be recorded."""
        told = _redacted(event, self._settings)
        if told is None:
            return
        enveloped = replace(self._envelope, event=told)
        for integration in self._integrations:
            try:
                answer = integration.on_event(enveloped)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:
                self._warn(integration, error)

    def _warn(self, integration: Integration, error: Exception) -> None:
        if id(integration) in self._warned:
            return
        self._warned.add(id(integration))
        _log.warning(
            "The telemetry integration %s raised; the run goes on, and further errors of it are not logged.",
            type(integration).__name__,
            exc_info=error,
        )


def _redacted(event: AgentEvent | TelemetryOnly, settings: TelemetrySettings) -> AgentEvent | TelemetryOnly | None:
    if not settings.record_inputs:
        match event:
            case Started():
                return replace(event, prompt=None, messages=())
            case StepStarted():
                return replace(event, messages=())
            case ToolCallStarted():
                return replace(event, input=None)
            case _:
                pass
    if not settings.record_outputs:
        match event:
            case Chunk():
                return None
            case ToolCallFinished():
                return replace(event, result=None)
            case StepFinished():
                return replace(event, step=None)
            case Finished():
                return replace(event, result=None)
            case _:
                pass
    return event
