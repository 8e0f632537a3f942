"""Driving a run: pulls the loop, calls the agent's hooks, and says in a stream's words what happens.

`RunControl` is given to tools and hooks; `Run` is the consumer's handle on it. They are two objects so that a consumer
who walks away lets go of `Run`, while the tools that still hold the control do not keep the run alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

import anyio
from typing_extensions import TypeVar

from ._backend import Later, spawn
from .errors import Partial, RunCancelled, RunError, UnsupportedStopReason
from .events import (
    Abort,
    Error,
    ErrorInfo,
    File,
    Finish,
    FinishStep,
    MessageEnd,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StartStep,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolError,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolProgress,
    ToolResult,
)
from .loop.checks import check_content
from .loop.options import Content, PollInputs, TurnFinished
from .loop.queue import MessageQueue
from .loop.run import EngineEvent, LoopRun
from .loop.waits import AbortableWaits, finish_quietly
from .messages import AssistantMessage, Message, ToolCallPart, ToolResultMessage, UserMessage
from .models.base import ModelIdentity
from .results import GenerateResult, StepResult
from .signals import AbortSignal
from .stopping import StopCondition, first_that_holds
from .usage import Usage

__all__ = ["RunControl", "RunHooks"]

_PARTS_ALREADY = frozenset(
    {
        TextStart, TextDelta, TextEnd, ReasoningStart, ReasoningDelta, ReasoningEnd, ToolInputStart, ToolInputDelta,
        ToolInputEnd, Source, File, StartStep, FinishStep,
    }
)  # fmt: skip
"""What the loop yields that a stream tells in the same words: handed on as it is."""

T = TypeVar("T")

_going: set[RunControl] = set()
"""Runs that have begun and not ended. One that its consumer drops must not be garbage before it is closed: its
generator would be closed by the garbage collector, and trio warns of that."""


class RunHooks(Protocol):
    """The hooks of an agent that end a run or a step."""

    async def on_start(self, run: Any) -> None: ...  # the agent's own say what they are for
    async def on_step_finish(self, step: StepResult) -> None: ...
    async def on_finish(self, result: Any) -> None: ...
    async def on_abort(self, partial: Partial) -> None: ...
    async def on_error(self, error: Exception) -> None: ...


class RunControl:
    """One run: steers it, stops it, tells what it has done. Given to tools and hooks.

    Attributes:
        signal: Stops the run.
        steps: The completed steps.
        run_id: Names the run.
    """

    def __init__(
        self,
        hooks: RunHooks,
        stop_when: Sequence[StopCondition],
        signal: AbortSignal,
        *,
        run_id: str,
        cancel_grace: float,
    ) -> None:
        self.signal = signal
        self.steps: list[StepResult] = []
        self.run_id = run_id
        self._hooks = hooks
        self._stop_when = stop_when
        self._cancel_grace = cancel_grace
        self._stopped_by = "model"
        self._condition: StopCondition | None = None
        self._steering = MessageQueue(mode="all")
        self._follow_ups = MessageQueue(mode="all")
        self._model: ModelIdentity | None = None
        self._loop: LoopRun | None = None
        self._events: AsyncGenerator[EngineEvent, None] | None = None
        self._parts: deque[StreamPart] = deque()
        self._untold: deque[ToolCallPart] = deque()
        self._later: Later | None = None
        self._busy = False
        self._closing = False
        self._idle: anyio.Event | None = None
        self._done = False
        self._error: Exception | None = None
        self._result: GenerateResult[Any] | None = None

    def attach(self, loop: LoopRun) -> None:
        """Give it the loop that it drives."""
        self._loop = loop
        self._model = loop.options.model

    @property
    def loop(self) -> LoopRun:
        """The loop that it drives."""
        assert self._loop is not None
        return self._loop

    @property
    def polls(self) -> tuple[PollInputs, PollInputs]:
        """Where the loop gets steering and follow-ups from."""
        return _unless_empty(self._steering), _unless_empty(self._follow_ups)

    # ------------------------------------------------------------ for whoever holds it

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._done

    @property
    def messages(self) -> list[Message]:
        """The history so far, a snapshot."""
        return list(self.loop.history)

    @property
    def usage(self) -> Usage | None:
        """Tokens of the completed answers, None while there are none."""
        return self.loop.usage

    @property
    def partial(self) -> Partial:
        """What the run has done so far, the text of an unfinished answer included."""
        partial = self.loop.partial()
        return Partial(partial.messages, tuple(self.steps), partial.usage, partial.text)

    def steer(self, content: Content) -> None:
        """Say something that the model reads before its next request. Nothing is cut short for it.

        Args:
            content: A string or parts.

        Raises:
            InvalidInputError: The content cannot be sent.
            RunError: The run has ended.
        """
        self._steering.push(self._accept(content))

    def follow_up(self, content: Content) -> None:
        """Say something that the model reads when it would otherwise be done.

        Args:
            content: A string or parts.

        Raises:
            InvalidInputError: The content cannot be sent.
            RunError: The run has ended.
        """
        self._follow_ups.push(self._accept(content))

    def _accept(self, content: Content) -> Content:
        if self._done:
            raise RunError("The run has ended, so nothing can be added to it. Start another with its messages.")
        return content if self._model is None else check_content(content, self._model)

    @property
    def unread_inputs(self) -> list[Content]:
        """Steering and follow-ups that no request has read, in that order."""
        return [*self._steering.pending, *self._follow_ups.pending]

    def cancel(self, reason: object = None) -> bool:
        """Stop the run, from any task or thread.

        Args:
            reason: Told to whoever asks why.

        Returns:
            False when there was nothing to stop.
        """
        return False if self._done else self.signal.abort(reason)

    # ------------------------------------------------------------ called by the loop

    async def finish_turn(self, turn: TurnFinished, signal: AbortSignal) -> bool:  # noqa: ARG002
        """Record the step, tell the agent, ask the stop conditions."""
        await self._record_step(turn.message, turn.results)
        self._condition = await first_that_holds(self._stop_when, self.steps)
        if self._condition is not None:
            self._stopped_by = "stop_condition"
        return self._condition is not None

    async def _record_step(self, message: AssistantMessage, results: Sequence[ToolResultMessage]) -> None:
        step = StepResult(len(self.steps) + 1, message, tuple(results))
        self.steps.append(step)
        await self._hooks.on_step_finish(step)

    # ------------------------------------------------------------ pulled by the consumer

    async def next_part(self) -> StreamPart:
        """The next thing that happened.

        Raises:
            StopAsyncIteration: The run has ended.
        """
        parts = self._parts
        while not parts:
            if self._done or self._closing:
                raise StopAsyncIteration
            event = await self._exclusively(self._advance)
            if type(event) in _PARTS_ALREADY:
                return cast("StreamPart", event)
            if event is not None:
                self._translate(event)
        return parts.popleft()

    async def _exclusively(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._busy:
            raise RuntimeError("This run is already being read by another task. One reader at a time.")
        self._busy = True
        try:
            return await work()
        finally:
            self._busy = False
            if self._idle is not None:
                self._idle.set()

    async def _advance(self) -> EngineEvent | None:
        """One event of the loop; None when it has ended, whose last part is then in `_parts`."""
        settled = False
        try:
            if self._events is None:
                self._events = await self._start()
            event = await anext(self._events, None)
            if event is None:
                await self._finish()
            settled = True
            return event
        except RunCancelled as error:
            settled = True
            await self._abort(error)
        except UnsupportedStopReason as error:
            settled = True
            await self._finish_early(error)
        except Exception as error:
            settled = True
            await self._fail(error)
        finally:
            if not settled:
                await self._interrupt()
        return None

    async def _start(self) -> AsyncGenerator[EngineEvent, None]:
        self._later = Later()
        _going.add(self)
        self.signal.raise_if_aborted()
        waits = AbortableWaits(self.signal)
        try:
            await waits.wait(self._hooks.on_start(self))
        finally:
            waits.close()
        return self.loop.events()

    def _translate(self, event: EngineEvent) -> None:
        """Say it in the words of a stream."""
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self._untold = deque(message.tool_calls)
                self._parts.extend(ToolCall(call) for call in message.tool_calls)
            case MessageEnd(message=UserMessage()):
                self._steering.observe(event)
                self._follow_ups.observe(event)
            case MessageEnd(message=ToolResultMessage() as result):
                self._tell_unstarted(result)
            case ToolExecutionUpdate(call=call, progress=progress):
                self._parts.append(ToolProgress(call, progress))
            case ToolExecutionEnd(call=call, result=result):
                self._untold = deque(other for other in self._untold if other is not call)
                self._tell_result(call, result)
            case _:
                return

    def _tell_result(self, call: ToolCallPart, result: ToolResultMessage) -> None:
        self._parts.append(ToolError(call, result) if result.is_error else ToolResult(call, result))

    def _tell_unstarted(self, result: ToolResultMessage) -> None:
        """A call that never ran has no execution events; its result is told all the same."""
        for call in self._untold:
            if result.status == "skipped" and call.id == result.tool_call_id:
                self._untold.remove(call)
                self._tell_result(call, result)
                return

    # ------------------------------------------------------------ ends: exactly one of them

    async def _finish(self) -> None:
        if self.loop.open_calls and self._stopped_by == "model":
            self._stopped_by = "client_tool"
        await self._conclude()

    async def _finish_early(self, error: UnsupportedStopReason) -> None:
        """The model stopped for a reason that ends the run, but ends it well: C4."""
        loop = self.loop
        self._stopped_by = "finish_reason"
        at = max(i for i, message in enumerate(loop.history) if message is error.message)
        results = [message for message in loop.history[at + 1 :] if isinstance(message, ToolResultMessage)]
        try:
            await self._record_step(error.message, results)
        except Exception as hook_error:
            await self._fail(hook_error)
            return
        self._parts.append(FinishStep(len(self.steps), error.finish_reason, error.message.usage))
        await self._conclude()

    async def _conclude(self) -> None:
        loop = self.loop
        result: GenerateResult[Any] = GenerateResult(
            messages=list(loop.history),
            steps=tuple(self.steps),
            usage=loop.usage,
            stopped_by=self._stopped_by,
            run_id=self.run_id,
            stop_condition=self._condition,
            unresolved_tool_calls=loop.open_calls,
        )
        self._end()
        try:
            await self._hooks.on_finish(result)
        except Exception as error:
            self._end_with(error)
        else:
            self._result = result
            self._parts.append(Finish(result.finish_reason, result.usage, result.stopped_by))

    async def _abort(self, error: RunCancelled) -> None:
        error.partial = self.partial
        self._end()
        self._error = error
        self._parts.append(Abort(str(error.reason or error), error.partial.text))
        try:
            await self._hooks.on_abort(error.partial)
        except Exception as hook_error:
            error.add_note(f"on_abort raised {hook_error!r}")

    async def _fail(self, error: Exception) -> None:
        self._end_with(error)
        try:
            await self._hooks.on_error(error)
        except Exception as hook_error:
            error.add_note(f"on_error raised {hook_error!r}")

    def _end_with(self, error: Exception) -> None:
        try:
            error.partial = self.partial  # type: ignore[attr-defined]  # any exception object may carry it
        except AttributeError:
            error.add_note(f"The run failed after {len(self.steps)} steps.")
        self._end()
        self._error = error
        self._parts.append(Error(ErrorInfo.of(error), error))

    async def _interrupt(self) -> None:
        """The task that reads was cancelled, or the run was closed. The loop has cleaned up already."""
        if self._done:
            return
        error = (
            RunCancelled("the task that read the run was cancelled") if not self.signal.aborted else self.signal.error()
        )
        partial = error.partial = self.partial
        self._end()
        self._error = error
        self._parts.append(Abort(str(error.reason or error), partial.text))
        await finish_quietly(lambda: self._hooks.on_abort(partial), self._cancel_grace)

    def _end(self) -> None:
        self._done = True
        self.signal.close()
        _going.discard(self)

    async def aclose(self) -> None:
        """Stop the run and wait until nothing of it is left. Safe from any task, and more than once."""
        if not self._done:
            self.signal.abort(RunCancelled("the run was closed"))
        while self._busy:
            self._idle = anyio.Event()
            await self._idle.wait()
        if self._done:
            return
        self._closing = True
        await self._exclusively(self._close)

    async def _close(self) -> None:
        if self._events is None:
            self._end()
            self._error = self.signal.error()
            return
        try:
            await self._events.aclose()
        finally:
            await self._interrupt()

    def abandon(self) -> None:
        """The consumer is gone: clean up in the run's own event loop, if it still runs."""
        if self._done or self._later is None:
            return
        if not self._later.call(lambda: spawn(self._close_abandoned, "loopwright abandoned run")):
            _going.discard(self)

    async def _close_abandoned(self) -> None:
        try:
            await self.aclose()
        except Exception:  # nobody is left to be told
            _going.discard(self)

    def outcome(self) -> GenerateResult[Any]:
        """The result of a run that has ended.

        Raises:
            Exception: What the run failed with.
        """
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


def _unless_empty(queue: MessageQueue) -> PollInputs:
    """Poll a queue that has something; nearly always it has nothing, and an await under a scope costs 10 µs."""
    return lambda signal: queue.poll(signal) if len(queue) else ()
