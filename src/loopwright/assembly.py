"""Putting a run together: an agent's settings and one call's options become what the loop takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from .asking import Asking, ModelHook
from .defaults import RunDefaults
from .driving import RunDriver, RunHooks, Watcher
from .errors import InvalidArgumentError, InvalidInputError
from .lifecycle import Started
from .loop.calls import BatchContext, ResumedCalls
from .loop.checks import check_history
from .loop.options import Content
from .loop.run import LoopRun
from .messages import Message
from .planning import ApprovalRules, CallHooks, CallPlanner, ToolRunner, overridden
from .preparing import Preparation, PreparingHooks
from .settings import CallOptions
from .signals import AbortSignal
from .telemetry.integration import TelemetryEvent, emitter_of
from .tools.answers import AnsweredCall, OpenStep, read_open_step

__all__ = ["RunnableAgent", "begin_run"]


class RunnableAgent(RunHooks, CallHooks, PreparingHooks, ModelHook, Protocol):
    """The hooks of an agent."""


_CALL_OPTIONS = frozenset(CallOptions.__annotations__)


def begin_run(
    agent: RunnableAgent,
    defaults: RunDefaults,
    prompt: Content | None,
    *,
    context: Any,
    call: CallOptions,
    streaming: bool,
    watcher: Watcher | None = None,
) -> RunDriver:
    """Make a run; nothing happens before it is pulled.

    Raises:
        InvalidArgumentError: An option cannot work.
        InvalidInputError: The prompt, the messages or an answer in them cannot be used.
    """
    unknown = sorted(set(call) - _CALL_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"There is no call option {', '.join(map(repr, unknown))}. There are: {', '.join(sorted(_CALL_OPTIONS))}."
        )
    settled = defaults.for_call(call)
    history = _history_of(call)
    signal = AbortSignal.any(call["signal"]) if "signal" in call else AbortSignal()
    run_id = call.get("run_id") or uuid4().hex
    control = RunDriver(
        agent,
        settled.stop_when,
        signal,
        run_id=run_id,
        cancel_grace=settled.cancel_grace,
        max_invalid_calls=settled.max_invalid_calls,
    )
    asking = Asking(
        streaming=streaming,
        max_retries=settled.max_retries,
        policy=settled.retry_policy,
        hook=agent if overridden(agent, "wrap_model_call") else None,
    )
    rules = ApprovalRules(settled.approval_secret, settled.approval_seconds, settled.approval_ledger, time.time)
    planner = CallPlanner(agent, rules)
    runner = ToolRunner(agent)
    steering, follow_ups = control.polls
    preparation = Preparation(agent, settled, control, asking, prompt)
    open_step = read_open_step(history, secret=settled.approval_secret, now=time.time(), passed_over=prompt is not None)
    options = replace(
        settled.loop_options(asking),
        context=context,
        run_id=run_id,
        get_steering_messages=steering,
        get_follow_up_messages=follow_ups,
        finish_turn=control.finish_turn,
        prepare_request=preparation.prepare_step,
        plan_calls=planner.plan,
        run_tool=runner.run if runner.is_needed else None,
        resume_calls=partial(_resume, planner, open_step.answered) if open_step and open_step.answered else None,
    )
    loop = LoopRun(prompt, history, options, signal, handle=control)
    control.attach(loop, preparation.prepare_call)
    _pause_if_open(control, settled, open_step)
    envelope = TelemetryEvent(
        run_id,
        settled.id,
        settled.version,
        f"{settled.model.provider}:{settled.model.name}",
        settled.telemetry.function_id,
        Started(prompt, tuple(history)),
    )
    asking.emitter = control.emitter = emitter_of(settled.telemetry, envelope)
    control.started = Started(prompt, tuple(history))
    control.watcher = watcher
    return control


def _history_of(call: CallOptions) -> list[Message]:
    messages: object = call.get("messages", ())
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise InvalidInputError(f"messages must be a list of messages, not {type(messages).__name__}.")
    history = list(call.get("messages", ()))
    check_history(history)
    return history


def _pause_if_open(control: RunDriver, settled: RunDefaults, open_step: OpenStep | None) -> None:
    """A run without a prompt whose history waits for someone does nothing but say so."""
    if open_step is None:
        return
    client_side = {tool.name for tool in settled.tools if tool.is_client_side}
    waiting = tuple(call for call in open_step.open_calls if call.name in client_side)
    if open_step.pending or waiting:
        control.pause(open_step.pending, waiting)


async def _resume(planner: CallPlanner, answered: Sequence[AnsweredCall], batch: BatchContext) -> ResumedCalls:
    return await planner.resume(answered, batch)
