"""The agent loop: input → model → tools → model, until the model answers without tool calls.

`LoopRun.events` is the loop itself, an async generator that its consumer pulls: nothing runs ahead of the consumer, and
no cancel scope is open while an event is in the consumer's hands. `run_agent_loop` pulls it for a listener; an agent
pulls the same one for a stream.

A turn is one model request and the batch of tool calls that its answer asks for.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast, get_args
from uuid import uuid4

from ..errors import (
    MaxToolCallsPerStepExceeded,
    MaxTurnsReached,
    ModelFailed,
    Partial,
    UnsupportedStopReason,
    attach_partial,
)
from ..events import (
    FinishStep,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelEvent,
    StartStep,
)
from ..messages import (
    AssistantMessage,
    Message,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from ..models.base import Capabilities, ModelIdentity, RequestContext, StreamOptions
from ..signals import AbortSignal
from ..tools.approval import PendingApproval
from ..tools.base import Tool
from ..usage import Usage
from .batch import ToolBatch
from .calls import BatchContext, CallPlan, HeldCall, PreparedCall, call_keys
from .checks import check_content, check_history, check_options
from .options import (
    Content,
    EventListener,
    LoopOptions,
    PollInputs,
    RequestMetadata,
    RequestSource,
    RequestUpdate,
    StreamFunction,
    TurnFinished,
)
from .response import ModelResponse, ask, takes_metadata
from .view import RequestView
from .waits import AbortableWaits

__all__ = ["EngineEvent", "LoopRun", "run_agent_loop"]

EngineEvent: TypeAlias = LoopEvent | ModelEvent | StartStep | FinishStep
"""What the loop yields. Model events come bare, so that a delta is handed on without being wrapped."""

_LOOP_EVENTS = frozenset(get_args(LoopEvent))
_RUNS_ON = ("stop", "tool-calls")


@dataclass(frozen=True, slots=True)
class _Turn:
    """What holds for one request and its batch: the options, with `prepare_request` on top."""

    model: ModelIdentity
    stream: StreamFunction
    system: str | None
    tools: Sequence[Tool]
    stream_options: StreamOptions
    messages: Sequence[Message] | None

    @classmethod
    def of(cls, options: LoopOptions, update: RequestUpdate | None) -> _Turn:
        if update is None:
            update = RequestUpdate()
        return cls(
            update.model or options.model,
            update.stream or options.stream,
            options.system if update.system is None else update.system,
            options.tools if update.tools is None else update.tools,
            update.stream_options or options.stream_options,
            update.messages,
        )


class LoopRun:
    """One execution of the loop.

    Attributes:
        history: The caller's list; only this run writes it while it goes.
        final: The last answer, once the run has ended well.
        usage: Tokens of the completed answers, None while there are none.
        open_calls: Calls of tools without an executor, which the host answers; they have no result.
        held_calls: Calls that wait for a person, each with its request; they have no result.
        context: The run's context object, given to tools.
    """

    def __init__(
        self,
        content: Content | None,
        history: list[Message],
        options: LoopOptions,
        signal: AbortSignal | None = None,
        *,
        handle: Any = None,
    ) -> None:
        """Check everything; change nothing yet.

        Args:
            content: What the user says; None goes on with the history.
            history: The messages so far.
            options: How the loop works.
            signal: Stops the run.
            handle: Given to tools as `ToolContext.run`.

        Raises:
            InvalidArgumentError: An option cannot work.
            InvalidInputError: The content or the history cannot be sent.
        """
        self.signal = AbortSignal() if signal is None else signal
        check_options(options)
        check_history(history, needs_user=content is None)
        self._input = None if content is None else check_content(content, options.model)
        self.options = options
        self.history = history
        self.final: AssistantMessage | None = None
        self.usage: Usage | None = None
        self.open_calls: tuple[ToolCallPart, ...] = ()
        self.held_calls: tuple[PendingApproval, ...] = ()
        self.context = options.context
        self.run_id = options.run_id or uuid4().hex
        self._handle = handle
        self._clock = options.clock or time.time
        self._views: dict[tuple[str, str, str, Capabilities], RequestView] = {}
        self._batch: ToolBatch | None = None
        self._response: ModelResponse | None = None
        self._signature: tuple[StreamFunction, bool] | None = None
        self._turns = 0

    # ------------------------------------------------------------ the loop

    async def events(self) -> AsyncGenerator[EngineEvent, None]:  # noqa: C901, PLR0912, PLR0915  # one loop, one place
        """Run. However it ends, the history is valid afterwards and nothing is left running.

        Raises:
            RunError: The run ended without its answer.
            ModelError: The model could not be asked.
            Exception: What a callback raised.
        """
        self._waits = waits = AbortableWaits(self.signal)
        options, signal, history = self.options, self.signal, self.history
        untold: AssistantMessage | None = None
        opened = False
        try:
            signal.raise_if_aborted()
            if options.resume_calls is not None:
                self._batch = batch = await self._resume()
                if batch is not None:
                    while (batch_event := await batch.next_event()) is not None:
                        yield batch_event
                    self._batch = None
                    signal.raise_if_aborted()
            if self._input is not None:
                for event in self._append(UserMessage(self._input, self._clock())):
                    yield event
            for event in await self._poll(options.get_steering_messages):
                yield event
            while True:
                signal.raise_if_aborted()
                turn = await self._prepare()
                self._turns += 1
                yield StartStep(self._turns)
                signal.raise_if_aborted()

                self._response = response = await self._dispatch(turn)
                opened = False
                while response.message is None:
                    events = await response.read()
                    if response.started and not opened:
                        opened = True
                        yield MessageStart(_empty_answer(turn.model))
                    for model_event in events:
                        signal.raise_if_aborted()
                        yield model_event
                    signal.raise_if_aborted()
                await response.close()
                message = response.message
                for attempt in getattr(response.stream, "failed_attempts", ()):
                    self._count_failed(attempt.usage)
                self._count(message.usage)
                calls = () if message.failed else _local_calls(message)
                refusal = self._refusal(response, message, calls)
                plans: Sequence[CallPlan | None] = [None] * len(calls)
                untold = message
                try:
                    if calls and refusal is None and options.plan_calls is not None:
                        shared = self._batch_context(turn.tools, (*history, message), self._turns)
                        plans = await waits.wait(options.plan_calls(message, calls, shared))
                        untold = message = _with_requests(message, plans)
                finally:
                    # Also when a hook failed or the run was cancelled in the meantime: the answer is complete.
                    history.append(message)
                    self.open_calls = _without_executor(calls, plans, turn.tools)
                    self.held_calls = _held(calls, plans)
                    self._batch = batch = self._new_batch(calls, plans, turn.tools) if calls else None
                if not opened:
                    yield MessageStart(message)
                untold = None
                yield MessageEnd(message)
                signal.raise_if_aborted()
                if refusal is not None:
                    raise refusal

                results: list[ToolResultMessage] = []
                if batch is not None:
                    while (batch_event := await batch.next_event()) is not None:
                        yield batch_event
                    results = batch.results
                    self._batch = None
                    signal.raise_if_aborted()

                ended = await self._finish_turn(message, results)
                yield FinishStep(self._turns, message.finish_reason, message.usage)
                signal.raise_if_aborted()
                if ended or self.open_calls or self.held_calls:
                    break
                if self._turns == options.max_turns:
                    if calls:
                        raise MaxTurnsReached(self._turns)
                    break
                steering = await self._poll(options.get_steering_messages)
                for event in steering:
                    yield event
                if steering or calls:
                    continue
                follow_ups = await self._poll(options.get_follow_up_messages)
                for event in follow_ups:
                    yield event
                signal.raise_if_aborted()
                if not follow_ups:
                    break
            self.final = replace(message)
        except Exception as error:
            if untold is not None:
                if not opened:
                    yield MessageStart(untold)
                yield MessageEnd(untold)
            if self._batch is not None:
                self._batch.cancel()
                await self._batch.wait_ended(options.cancel_grace)
                for event in self._batch.close(_reason_of(error)):
                    yield event
            attach_partial(error, self.partial())
            raise
        finally:
            waits.close()
            self._release()
            await self._settle()

    def _release(self) -> None:
        """Make the history valid, at once: no await, for the run may be under cancellation."""
        if self._batch is not None:
            self._batch.cancel()
            self._batch.close("the run was cancelled")

    async def _settle(self) -> None:
        """Free the connection, and see the cancelled tools end; for a bounded time."""
        if self._response is not None:
            await self._response.close()
        if self._batch is not None:
            await self._batch.wait_ended(self.options.cancel_grace)

    def partial(self) -> Partial:
        """What the run has done so far."""
        text = self._response.draft_text if self._response is not None else ""
        return Partial(tuple(self.history), (), self.usage, text)

    # ------------------------------------------------------------ its parts

    def _count(self, usage: Usage | None) -> None:
        """Add one answer's tokens: the sum is unknown while no answer reported any."""
        if self.usage is not None:
            self.usage += usage
        elif usage is not None:
            self.usage = usage if self._turns == 1 else Usage() + usage

    def _count_failed(self, usage: Usage | None) -> None:
        """Add the tokens of an attempt that failed, where it told them."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def _append(self, message: UserMessage) -> tuple[LoopEvent, LoopEvent]:
        self.history.append(message)
        return MessageStart(message), MessageEnd(message)

    async def _poll(self, poll: PollInputs | None) -> list[LoopEvent]:
        """Take the inputs that wait into the history: all of them, or none when one is malformed."""
        self.signal.raise_if_aborted()
        if poll is None:
            return []
        inputs = await self._waits.call(poll, self.signal)
        checked = [check_content(content, self.options.model) for content in inputs or ()]
        return [event for content in checked for event in self._append(UserMessage(content, self._clock()))]

    async def _prepare(self) -> _Turn:
        prepare = self.options.prepare_request
        update = None if prepare is None else await self._waits.call(prepare, self.signal)
        self.signal.raise_if_aborted()
        if update is not None and update.context is not None:
            (self.context,) = update.context
        return _Turn.of(self.options, cast("RequestUpdate | None", update))

    async def _dispatch(self, turn: _Turn) -> ModelResponse:
        messages, sources = self._view(turn)
        context = RequestContext(messages, turn.system, [tool.declaration() for tool in turn.tools])
        return await ask(
            turn.stream,
            turn.model,
            context,
            replace(turn.stream_options, signal=self.signal),
            RequestMetadata(len(self.history), sources),
            with_metadata=self._takes_metadata(turn.stream),
            waits=self._waits,
        )

    def _takes_metadata(self, stream: StreamFunction) -> bool:
        """Reading a signature costs more than all else that a request costs here (40 µs), so it is read once."""
        if self._signature is None or self._signature[0] is not stream:
            self._signature = stream, takes_metadata(stream)
        return self._signature[1]

    def _view(self, turn: _Turn) -> tuple[list[Message], list[RequestSource]]:
        if turn.messages is not None:
            return RequestView(turn.model).build(turn.messages)
        key = (turn.model.provider, turn.model.api, turn.model.name, turn.model.capabilities)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = RequestView(turn.model)
        return view.build(self.history)

    def _batch_context(self, tools: Sequence[Tool], messages: tuple[Message, ...], step_number: int) -> BatchContext:
        return BatchContext(
            tools={tool.name: tool for tool in tools},
            messages=messages,
            signal=self.signal,
            context=self.context,
            run=self._handle,
            run_id=self.run_id,
            step_number=step_number,
            clock=self._clock,
            run_tool=self.options.run_tool,
            timeout_of=self.options.timeout_of,
        )

    def _new_batch(
        self,
        calls: Sequence[ToolCallPart],
        plans: Sequence[CallPlan | None],
        tools: Sequence[Tool],
        *,
        step_number: int | None = None,
    ) -> ToolBatch:
        """A batch of the calls that are neither held nor the host's."""
        step_number = self._turns if step_number is None else step_number
        keys = call_keys(self.run_id, step_number, calls)
        left_open = [*self.open_calls, *(held.call for held in self.held_calls)]
        runnable = [
            (call, plan, key)
            for call, plan, key in zip(calls, plans, keys, strict=True)
            if not isinstance(plan, HeldCall) and not any(call is other for other in left_open)
        ]
        options = self.options
        return ToolBatch(
            [call for call, _, _ in runnable],
            self._batch_context(tools, tuple(self.history), step_number),
            self.history,
            self._waits,
            plans=[plan for _, plan, _ in runnable],
            keys=[key for _, _, key in runnable],
            max_parallel=options.max_parallel_tool_calls,
            cancel_grace=options.cancel_grace,
            progress_capacity=options.progress_capacity,
        )

    async def _resume(self) -> ToolBatch | None:
        """The calls of an earlier run that were answered, as a batch before the first turn."""
        assert self.options.resume_calls is not None
        shared = self._batch_context(self.options.tools, tuple(self.history), 0)
        resumed = await self._waits.wait(self.options.resume_calls(shared))
        if resumed is None or not resumed.calls:
            return None
        return self._new_batch(resumed.calls, resumed.plans, self.options.tools, step_number=0)

    def _refusal(
        self, response: ModelResponse, message: AssistantMessage, calls: Sequence[ToolCallPart]
    ) -> Exception | None:
        """Why the run cannot go on from an answer; its calls are then paired with errors, unless it failed itself."""
        if response.failure is not None or message.failed:
            return response.failure or ModelFailed(message)
        if message.finish_reason not in _RUNS_ON:
            return UnsupportedStopReason(message)
        limit = self.options.max_tool_calls_per_step
        if limit is not None and len(calls) > limit:
            return MaxToolCallsPerStepExceeded(len(calls), limit)
        return None

    async def _finish_turn(self, message: AssistantMessage, results: Sequence[ToolResultMessage]) -> bool:
        finish = self.options.finish_turn
        if finish is None:
            return False
        turn = TurnFinished(message, tuple(results), tuple(self.history), self._turns)
        return bool(await self._waits.call(finish, turn, self.signal))


async def run_agent_loop(
    content: Content | None,
    history: list[Message],
    options: LoopOptions,
    on_event: EventListener | None = None,
    signal: AbortSignal | None = None,
) -> AssistantMessage:
    """Run user input → model → tools → model until the model finishes without tool calls.

    The loop writes the input, the answers and the tool results into `history`; do not append them again.

    Args:
        content: What the user says; None goes on with a history that has user input.
        history: The messages so far. The loop is its only writer while it runs.
        options: How the loop works.
        on_event: Told of each event and awaited; an exception in it ends the run.
        signal: Stops the run; a fresh one when None.

    Returns:
        The last answer, detached from the history.

    Raises:
        InvalidArgumentError: An option cannot work; nothing was changed.
        InvalidInputError: The content or the history cannot be sent; nothing was changed.
        RunCancelled: The signal was aborted.
        RunError: The run ended without its answer.
        ModelError: The model could not be asked.
        Exception: What a callback or the listener raised.
    """
    run = LoopRun(content, history, options, signal)
    events = run.events()
    listener_failed = False
    try:
        event = await anext(events, None)
        while event is not None:
            if type(event) is StartStep or type(event) is FinishStep or on_event is None:
                event = await anext(events, None)
                continue
            told = event if type(event) in _LOOP_EVENTS else MessageUpdate(cast("ModelEvent", event))
            try:
                awaitable = on_event(cast("LoopEvent", told))
                if awaitable is not None:
                    await awaitable
            except Exception as error:
                # The first failure ends the run; what the run still tells is told as well as can be.
                event = await anext(events, None) if listener_failed else await events.athrow(error)
                listener_failed = True
            else:
                event = await anext(events, None)
    finally:
        await events.aclose()
    assert run.final is not None
    return run.final


def _empty_answer(model: ModelIdentity) -> AssistantMessage:
    return AssistantMessage(provider=model.provider, api=model.api, model=model.name)


def _local_calls(message: AssistantMessage) -> tuple[ToolCallPart, ...]:
    return tuple(call for call in message.tool_calls if not call.provider_executed)


def _without_executor(
    calls: Sequence[ToolCallPart], plans: Sequence[CallPlan | None], tools: Sequence[Tool]
) -> tuple[ToolCallPart, ...]:
    names = {tool.name for tool in tools if tool.is_client_side}
    if not names:
        return ()
    settled = (ToolResultMessage, HeldCall)
    return tuple(
        call
        for call, plan in zip(calls, plans, strict=True)
        if (plan.tool.is_client_side if isinstance(plan, PreparedCall) else call.name in names)
        and not isinstance(plan, settled)
    )


def _held(calls: Sequence[ToolCallPart], plans: Sequence[CallPlan | None]) -> tuple[PendingApproval, ...]:
    return tuple(
        PendingApproval(plan.request, call)
        for call, plan in zip(calls, plans, strict=True)
        if isinstance(plan, HeldCall)
    )


def _with_requests(message: AssistantMessage, plans: Sequence[CallPlan | None]) -> AssistantMessage:
    """The answer with the requests of its held calls, added before it enters the history. A model makes none itself."""
    requests = [plan.request for plan in plans if isinstance(plan, HeldCall)]
    forged = any(isinstance(part, ToolApprovalRequestPart) for part in message.content)
    if not requests and not forged:
        return message
    own = (part for part in message.content if not isinstance(part, ToolApprovalRequestPart))
    return replace(message, content=(*own, *requests))


def _reason_of(error: Exception) -> str:
    return str(error) or type(error).__name__
