"""Driving a run: pulls the loop, calls the agent's hooks, and says in a stream's words what happens.

The driver is given to tools and hooks as a `RunControl`; `Run` is the consumer's handle on it. They are two objects so
that a consumer who walks away lets go of `Run`, while the tools that still hold the driver do not keep the run alive.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

import anyio
from typing_extensions import TypeVar

from ._backend import Later, spawn
from .control import RunControl
from .errors import AbortRun, Partial, RunCancelled, TooManyInvalidCalls, UnsupportedStopReason
from .events import (
    Abort,
    Error,
    ErrorInfo,
    Finish,
    FinishStep,
    StreamPart,
    ToolExecutionStart,
)
from .lifecycle import AgentEvent, ErrorSource, Started, source_of
from .loop.options import PollInputs, TurnFinished
from .loop.run import EngineEvent, LoopRun
from .loop.waits import AbortableWaits, finish_quietly
from .messages import AssistantMessage, ToolCallPart, ToolResultMessage
from .narration import Narrator
from .results import GenerateResult, StepResult
from .signals import AbortSignal
from .stopping import StopCondition, first_that_holds
from .telemetry.integration import Emitter
from .tools.approval import PendingApproval
from .translation import PARTS_ALREADY

__all__ = ["RunDriver", "RunHooks", "Watcher"]

T = TypeVar("T")

_going: set[RunDriver] = set()
"""Runs that have begun and not ended. One that its consumer drops must not be garbage before it is closed: its
generator would be closed by the garbage collector, and trio warns of that."""


class Watcher(Protocol):
    """Who sees all runs of an agent."""

    def run_begins(self, run: RunDriver) -> None: ...
    def run_ends(self, run: RunDriver) -> None: ...
    def step_done(self) -> None: ...
    def changed(self) -> None: ...
    @property
    def is_watched(self) -> bool: ...


class RunHooks(Protocol):
    """The hooks of an agent that end a run or a step."""

    async def on_start(self, run: Any) -> None: ...  # the agent's own say what they are for
    async def on_step_finish(self, step: StepResult) -> None: ...
    async def on_finish(self, result: Any) -> None: ...
    async def on_abort(self, partial: Partial) -> None: ...
    async def on_error(self, error: Exception) -> None: ...


class RunDriver(RunControl):
    """The driver of one run.

    Attributes:
        stop_when: The stop conditions.
        failed_in: Where the run failed, once a hook has.
        started: What it began with.
        emitter: Tells those who observe the run; None where nobody does.
        narrator: Tells the life of the run; None where nobody wants to know.
        watcher: Sees all runs of the agent.
    """

    def __init__(
        self,
        hooks: RunHooks,
        stop_when: Sequence[StopCondition],
        signal: AbortSignal,
        *,
        run_id: str,
        cancel_grace: float,
        max_invalid_calls: int | None = None,
    ) -> None:
        super().__init__(signal, run_id=run_id)
        self.stop_when = stop_when
        self.failed_in: ErrorSource | None = None
        self.started = Started(None, ())
        self.emitter: Emitter | None = None
        self.narrator: Narrator | None = None
        self.watcher: Watcher | None = None
        self._hooks = hooks
        self._cancel_grace = cancel_grace
        self._max_invalid_calls = max_invalid_calls
        self._invalid_steps = 0
        self._stopped_by = "model"
        self._condition: StopCondition | None = None
        self._prepare: Callable[[], Awaitable[None]] | None = None
        self._events: AsyncGenerator[EngineEvent, None] | None = None
        self._clock_at_start = 0.0
        self._later: Later | None = None
        self._busy = False
        self._closing = False
        self._detached: anyio.Event | None = None
        self._idle: anyio.Event | None = None
        self._result: GenerateResult[Any] | None = None

    def attach(self, loop: LoopRun, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Give it the loop that it drives, and what is to be awaited before that begins."""
        self._loop = loop
        self._model = loop.options.model
        self._prepare = prepare

    def pause(self, pending: tuple[PendingApproval, ...], waiting: tuple[ToolCallPart, ...]) -> None:
        """Let the run end as soon as it begins: its history waits for answers."""
        self._paused = pending, waiting
        self._stopped_by = "approval" if pending else "client_tool"

    @property
    def polls(self) -> tuple[PollInputs, PollInputs]:
        """Where the loop gets steering and follow-ups from."""
        return self._inputs.polls

    # ------------------------------------------------------------ called by the loop

    async def finish_turn(self, turn: TurnFinished, signal: AbortSignal) -> bool:  # noqa: ARG002
        """Record the step, tell the agent, ask the stop conditions."""
        await self._record_step(turn.message, turn.results)
        self._check_invalid(turn.results)
        self._condition = await first_that_holds(self.stop_when, self.steps)
        if self._condition is not None:
            self._stopped_by = "stop_condition"
        return self._condition is not None

    async def _record_step(self, message: AssistantMessage, results: Sequence[ToolResultMessage]) -> None:
        elapsed = anyio.current_time() - self._clock_at_start
        step = StepResult(len(self.steps) + 1, message, tuple(results), elapsed)
        self.steps.append(step)
        if self.watcher is not None:
            self.watcher.step_done()
        try:
            await self._hooks.on_step_finish(step)
        except Exception:
            self.failed_in = "hook"
            raise

    def _check_invalid(self, results: Sequence[ToolResultMessage]) -> None:
        if not results:
            return
        invalid = all(result.status == "invalid" for result in results)
        self._invalid_steps = self._invalid_steps + 1 if invalid else 0
        if self._invalid_steps == self._max_invalid_calls:
            raise TooManyInvalidCalls(self._invalid_steps, results[-1].text)

    # ------------------------------------------------------------ pulled by the consumer

    async def next_part(self) -> StreamPart:
        """The next thing that happened.

        Raises:
            StopAsyncIteration: The run has ended.
        """
        parts = self._parts
        while True:
            while not parts:
                if self._done or self._closing:
                    raise StopAsyncIteration
                event = await self._exclusively(self._advance)
                if type(event) in PARTS_ALREADY:
                    if self.narrator is None and (self.watcher is None or not self.watcher.is_watched):
                        return cast("StreamPart", event)
                    parts.append(cast("StreamPart", event))
                elif event is not None:
                    self._translator.take(event)
            part = parts.popleft()
            if self.watcher is not None and self.watcher.is_watched:
                self.watcher.changed()
            if self.narrator is not None:
                await self.narrator.tell(part, self)
            if type(part) is not ToolExecutionStart:
                return cast("StreamPart", part)

    async def next_event(self) -> AgentEvent:
        """The next event of the run's life.

        Raises:
            StopAsyncIteration: The run has ended.
        """
        narrator = self.narrate()
        while not narrator.told:
            await self.next_part()
        return narrator.told.popleft()

    def narrate(self) -> Narrator:
        """Keep the events of the run's life from now on; must be called before the run begins."""
        narrator = self._narrated()
        narrator.keeps = True
        return narrator

    def _narrated(self) -> Narrator:
        if self.narrator is None:
            self.narrator = Narrator(self.emitter)
            self._translator.tells_starts = True
        return self.narrator

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
            if self._paused is not None:
                settled = True
                await self._conclude()
                return None
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
        self._clock_at_start = anyio.current_time()
        _going.add(self)
        self._translator.machine.move("begin")
        if self.watcher is not None:
            self.watcher.run_begins(self)
        if self.emitter is not None:
            self._narrated()
        if self.narrator is not None:
            await self.narrator.begin(self.started)
        self.signal.raise_if_aborted()
        waits = AbortableWaits(self.signal)
        try:
            if self._prepare is not None:
                await waits.wait(self._prepare())
                self._model = self.loop.options.model
            try:
                await waits.wait(self._hooks.on_start(self))
            except Exception:
                self.failed_in = "hook"
                raise
        finally:
            waits.close()
        return self.loop.events()

    def source_of_error(self, error: Exception) -> ErrorSource:
        """Where the run failed."""
        if isinstance(error, AbortRun):
            return "tool"
        return self.failed_in or source_of(error)

    # ------------------------------------------------------------ ends: exactly one of them

    async def _finish(self) -> None:
        if self._stopped_by == "model":
            if self.loop.held_calls:
                self._stopped_by = "approval"
            elif self.loop.open_calls:
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
            unresolved_tool_calls=loop.open_calls if self._paused is None else self._paused[1],
            pending_approvals=self.pending_approvals,
        )
        self._end()
        try:
            await self._hooks.on_finish(result)
        except Exception as error:
            self.failed_in = "hook"
            self._end_with(error)
        else:
            self._translator.machine.move("hold" if result.pending_approvals else "finish")
            self._result = result
            self._parts.append(Finish(result.finish_reason, result.usage, result.stopped_by))

    async def _abort(self, error: RunCancelled) -> None:
        error.partial = self.partial
        self._end()
        self._translator.machine.move("abort")
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
        self._translator.machine.move("fail")
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
        self._translator.machine.move("abort")
        self._error = error
        self._parts.append(Abort(str(error.reason or error), partial.text))
        await finish_quietly(lambda: self._hooks.on_abort(partial), self._cancel_grace)
        narrator = self.narrator
        if narrator is not None:
            await finish_quietly(lambda: narrator.tell(self._parts[-1], self), self._cancel_grace)

    def _end(self) -> None:
        self._done = True
        self._inputs.close()
        self.signal.close()
        _going.discard(self)
        if self.watcher is not None:
            self.watcher.run_ends(self)

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

    def detach(self) -> None:
        """Let the run go on to its end without a reader: progress is read and dropped, the result is kept.

        Raises:
            RuntimeError: Another task is reading the run at this moment.
        """
        if self._done or self._detached is not None:
            return
        if self._busy:
            raise RuntimeError("This run is being read by another task at this moment; detach it between two parts.")
        self._detached = anyio.Event()
        spawn(self._drain, "loopwright detached run")

    async def _drain(self) -> None:
        try:
            while not self._done:
                await self.next_part()
        except Exception:
            return  # `outcome` says what the run failed with
        finally:
            if self._detached is not None:
                self._detached.set()

    @property
    def detached(self) -> bool:
        """Whether it goes on without a reader."""
        return self._detached is not None

    async def wait_detached(self) -> None:
        """Wait for the end of a run that goes on without a reader."""
        if self._detached is not None:
            await self._detached.wait()

    def abandon(self) -> None:
        """The consumer is gone: clean up in the run's own event loop, if it still runs."""
        if self._done or self._later is None or self._detached is not None:
            return
        if not self._later.spawn(self._close_abandoned, "loopwright abandoned run"):
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
