"""The tool calls of one answer, run with a cap.

The batch is a schedule that its consumer pulls: `next_event` gives one event at a time, and nothing new starts
before the event that announces it was delivered. Only the tools' own code runs elsewhere, each call in a task that
belongs to no one's scope, so that no scope is ever open while the consumer holds an event.

Order: calls start in source order, end as they finish, and enter the history in source order as the finished
prefix grows.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import anyio
from anyio import CancelScope, move_on_after
from anyio.lowlevel import checkpoint

from .._backend import Waker, spawn
from ..events import (
    LoopEvent,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from ..messages import Message, ToolCallPart, ToolResultMessage
from .calls import BatchContext, EndRun, PreparedCall, call_keys, make_result, prepare_call, run_call, tool_context
from .waits import AbortableWaits

__all__ = ["ToolBatch"]

_log = logging.getLogger("loopwright")


class _CallRun:
    """One call of the batch, from waiting to its result."""

    __slots__ = (
        "batch", "call", "crash", "ended", "give_up_at", "key", "outcome", "plan", "prepared", "result", "scope",
        "timed_out",
    )  # fmt: skip

    def __init__(
        self, call: ToolCallPart, plan: PreparedCall | ToolResultMessage | None, key: str, batch: ToolBatch
    ) -> None:
        self.call = call
        self.plan = plan
        self.key = key
        self.batch = batch
        self.prepared: PreparedCall | None = None
        self.scope: CancelScope | None = None
        self.ended = False
        # When its time is over the tool is cancelled; when the grace is over too, it is waited for no longer.
        self.timed_out = False
        self.give_up_at = math.inf
        # What the tool's task left: a result, or what ended it. Read when the consumer comes to it.
        self.outcome: ToolResultMessage | None = None
        self.crash: Exception | SystemExit | KeyboardInterrupt | None = None
        # The one recorded result.
        self.result: ToolResultMessage | None = None

    async def host(self) -> None:
        """The body of the call's task. It never raises, except to pass cancellation on."""
        assert self.scope is not None
        assert self.prepared is not None
        try:
            prepared, shared = self.prepared, self.batch.context
            key = prepared.key or self.key
            context = tool_context(shared, self.call, prepared.tool, key, report=self.report, send=self.send)
            with self.scope:
                self.outcome = await run_call(self.call, prepared, shared, context)
            self.timed_out = self.outcome is None and anyio.current_time() >= self.scope.deadline
        except EndRun as end:
            self.crash = end.error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            self.crash = error
        finally:
            self.ended = True
            self.batch.task_ended(self)

    def report(self, value: Any) -> None:
        """Progress, from any thread. After the call has settled it is ignored."""
        if self.result is None and not self.ended:
            self.batch.progress(self, value)

    async def send(self, value: Any) -> None:
        """Progress, waiting while the buffer is full."""
        # A tool that does nothing but send would otherwise never notice that it was cancelled.
        await checkpoint()
        if self.result is None and not self.ended:
            await self.batch.send_progress(self, value)

    @property
    def ran(self) -> str | None:
        """The tool that runs, where it is not the one that the call names."""
        plan = self.prepared or self.plan
        return plan.tool.name if isinstance(plan, PreparedCall) and plan.tool.name != self.call.name else None

    @property
    def abandoned(self) -> bool:
        """Whether its thread goes on though nobody waits for it."""
        return self.prepared is not None and self.prepared.tool.runs_in_thread


class ToolBatch:
    """Runs calls and tells what happens, one event at a time."""

    def __init__(  # noqa: PLR0913  # what a batch is made of
        self,
        calls: Sequence[ToolCallPart],
        context: BatchContext,
        history: list[Message],
        waits: AbortableWaits,
        *,
        plans: Sequence[PreparedCall | ToolResultMessage | None] | None = None,
        keys: Sequence[str] | None = None,
        max_parallel: int,
        cancel_grace: float,
        progress_capacity: int = 64,
    ) -> None:
        """Prepare a batch; nothing runs yet.

        Args:
            calls: The calls, in source order.
            context: What they share.
            history: Where results are written, in source order.
            waits: The run's waits.
            plans: What becomes of each call, where that is settled; None where the call is yet to be prepared.
            keys: Idempotency keys of the calls.
            max_parallel: How many calls run at once.
            cancel_grace: Seconds that a cancelled tool is given to end.
            progress_capacity: How many values may wait for the consumer before those who send them wait.
        """
        self.context = context
        plans = plans or [None] * len(calls)
        keys = keys or call_keys(context.run_id, context.step_number, calls)
        self._runs = [_CallRun(call, plan, key, self) for call, plan, key in zip(calls, plans, keys, strict=True)]
        self._history = history
        self._waits = waits
        self._cancel_grace = cancel_grace
        self._cap = 1 if any(map(self._is_sequential, self._runs)) else max_parallel
        self._next_start = 0
        self._recorded = 0
        self._running = 0
        self._launching: _CallRun | None = None
        self._out: deque[LoopEvent] = deque()
        self._inbox: deque[tuple[_CallRun, Any, bool] | _CallRun] = deque()
        self._wake: anyio.Event | None = None
        self._waker = Waker()
        self._capacity = progress_capacity
        self._buffered = 0
        self._room: anyio.Event | None = None

    def _is_sequential(self, run: _CallRun) -> bool:
        tool = run.plan.tool if isinstance(run.plan, PreparedCall) else self.context.tools.get(run.call.name)
        return tool is not None and tool.sequential

    @property
    def results(self) -> list[ToolResultMessage]:
        """The recorded results, in source order."""
        return [run.result for run in self._runs if run.result is not None]

    # ------------------------------------------------------------ pulled by the consumer

    async def next_event(self) -> LoopEvent | None:
        """The next thing that happened; None when every call has its result in the history.

        Raises:
            RunCancelled: The run's signal was aborted; `stop` must follow.
            AbortRun: A tool ends the run; `stop` must follow.
        """
        while True:
            if self._launching is not None:
                self._launch(self._launching)
            if self._out:
                return self._out.popleft()
            # Results that wait in the inbox are kept by `close`; progress could go on for ever.
            self._waits.signal.raise_if_aborted()
            if self._running < self._cap and self._next_start < len(self._runs):
                self._announce()
            elif self._inbox:
                self._take(self._inbox.popleft())
            elif self._running:
                await self._waits.wait(self._wait())
            else:
                return None

    def _announce(self) -> None:
        run = self._runs[self._next_start]
        self._next_start += 1
        self._running += 1
        self._launching = run
        self._out.append(ToolExecutionStart(run.call, run.ran))

    def _launch(self, run: _CallRun) -> None:
        self._launching = None
        self._waits.signal.raise_if_aborted()
        prepared = run.plan or prepare_call(run.call, self.context)
        if isinstance(prepared, ToolResultMessage):
            run.ended = True
            self._settle(run, prepared)
            return
        run.prepared = prepared
        run.scope = CancelScope()
        timeout = self.context.timeout(prepared.tool)
        if timeout is not None:
            run.scope.deadline = anyio.current_time() + timeout
            run.give_up_at = run.scope.deadline + self._cancel_grace
        spawn(run.host, f"loopwright tool {run.call.name}")

    async def _wait(self) -> None:
        if self._inbox:
            return
        self._wake = anyio.Event()
        give_up_at = min(run.give_up_at for run in self._runs if not run.ended)
        if give_up_at == math.inf:
            await self._wake.wait()
            return
        with CancelScope(deadline=give_up_at):
            await self._wake.wait()
        for run in self._runs:
            if not run.ended and run.give_up_at <= anyio.current_time():
                run.timed_out = True
                self._inbox.append(run)

    def _take(self, item: tuple[_CallRun, Any, bool] | _CallRun) -> None:
        if isinstance(item, tuple):
            run, value, waits = item
            if waits:
                self._buffered -= 1
                self._make_room()
            if run.result is None:
                self._out.append(ToolExecutionUpdate(run.call, value))
            return
        if item.result is not None:
            return
        if item.crash is not None:
            raise item.crash
        self._settle(item, item.outcome or self._interrupted(item))

    def _interrupted(self, run: _CallRun) -> ToolResultMessage:
        if run.timed_out and run.prepared is not None:
            seconds = self.context.timeout(run.prepared.tool)
            text = f"The tool {run.call.name!r} took longer than {seconds:g} s and was cancelled.{_abandoned(run)}"
            return make_result(run.call, text, "timeout", self.context.clock)
        text = f"The tool {run.call.name!r} was cancelled from within and gave no result."
        return make_result(run.call, text, "error", self.context.clock)

    def _settle(self, run: _CallRun, result: ToolResultMessage) -> None:
        """Record a result, tell of it, and write what is now a finished prefix to the history."""
        run.result = result
        self._running -= 1
        grown = self._record_prefix()
        self._out.append(ToolExecutionEnd(run.call, result, run.ran))
        for message in grown:
            self._out.append(MessageStart(message))
            self._out.append(MessageEnd(message))

    def _record_prefix(self) -> list[ToolResultMessage]:
        grown: list[ToolResultMessage] = []
        while self._recorded < len(self._runs):
            result = self._runs[self._recorded].result
            if result is None:
                break
            self._history.append(result)
            grown.append(result)
            self._recorded += 1
        return grown

    # ------------------------------------------------------------ told by the tools' tasks

    def task_ended(self, run: _CallRun) -> None:
        """A call's task is over."""
        self._inbox.append(run)
        self._notify()

    def progress(self, run: _CallRun, value: Any) -> None:
        """A tool reports progress, from any thread."""
        self._inbox.append((run, value, False))
        self._waker.call(self._notify)

    async def send_progress(self, run: _CallRun, value: Any) -> None:
        """A tool reports progress from the event loop's thread, and waits until there is room for more."""
        self._buffered += 1
        self._inbox.append((run, value, True))
        self._notify()
        while self._buffered > self._capacity and run.result is None:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()

    # ------------------------------------------------------------ ending early

    def cancel(self) -> None:
        """Cancel the tools that run. Does not wait."""
        for run in self._runs:
            if run.scope is not None and not run.ended:
                run.scope.cancel()

    async def wait_ended(self, seconds: float) -> None:
        """Wait until the tools' tasks are over, for a bounded time, also when cancelled."""
        with CancelScope(shield=True), move_on_after(seconds):
            while any(run.scope is not None and not run.ended for run in self._runs):
                self._wake = anyio.Event()
                await self._wake.wait()

    def close(self, reason: str) -> list[LoopEvent]:
        """Give every call that has none its one result, and write them to the history. Contains no await.

        A call that finished keeps its own result, but for an error that the abort may have caused; one that ran is
        `cancelled`, one that did not is `skipped`.

        Args:
            reason: Told to the model.

        Returns:
            The events that tell of it.
        """
        events: list[LoopEvent] = [event for event in self._out if not isinstance(event, ToolExecutionStart)]
        self._out.clear()
        self._inbox.clear()
        self._buffered = 0
        for run in self._runs:
            if run.result is not None:
                continue
            run.result = self._last_result(run, reason)
            if run.scope is not None:
                events.append(ToolExecutionEnd(run.call, run.result, run.ran))
        self._make_room()
        self._running = 0
        self._next_start = len(self._runs)
        self._launching = None
        for message in self._record_prefix():
            events.extend((MessageStart(message), MessageEnd(message)))
        return events

    def _last_result(self, run: _CallRun, reason: str) -> ToolResultMessage:
        name, clock = run.call.name, self.context.clock
        aborted = self._waits.signal.aborted
        if run.outcome is not None and not (aborted and run.outcome.is_error):
            return run.outcome
        if run.crash is not None and not aborted:
            return make_result(run.call, f"The tool {name!r} ended the run: {run.crash}", "error", clock)
        if isinstance(run.plan, ToolResultMessage):
            return run.plan
        if run.scope is not None:
            text = f"The tool {name!r} was cancelled before it finished: {reason}{_abandoned(run)}"
            return make_result(run.call, text, "cancelled", clock)
        return make_result(run.call, f"The tool {name!r} was not run: {reason}", "skipped", clock)


def _abandoned(run: _CallRun) -> str:
    """Report a worker thread that is left to itself, for nothing can stop one."""
    if not run.abandoned:
        return ""
    _log.warning("The tool %r runs on in a thread that cannot be stopped; nobody waits for it any more.", run.call.name)
    return " It runs in a thread, which cannot be stopped: it may still take effect."
