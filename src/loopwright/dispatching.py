"""Driving an agent from a user interface: `dispatch` in, `EngineState` out, from any task or thread.

The engine has a conversation of its own. One run of it is in flight at a time: a new input supersedes it. Runs that are
started otherwise on the same agent are seen (their state is shown, `Cancel` stops them) and do not touch it.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import anyio
from anyio.lowlevel import current_token

from ._backend import Later, Waker
from .actions import Action, Approve, Cancel, Deny, FollowUp, Reset, Steer, Submit
from .driving import RunDriver
from .engine import EngineState
from .errors import LoopwrightError, RunError
from .messages import ApprovalMessage, Message, ToolApprovalResponsePart
from .settings import NOT_GIVEN
from .tools.approval import PendingApproval, approvals

__all__ = ["Engine"]

BeginRun = Callable[[Any, "list[Message]", Any], RunDriver]
"""Makes a run from a prompt, messages and a context."""


class Engine:
    """The engine of one agent instance."""

    def __init__(self, begin: BeginRun) -> None:
        self._begin = begin
        self._lock = threading.RLock()
        self._in_flight: dict[int, RunDriver] = {}
        self._watchers: list[Callable[[], None]] = []
        self._total_steps = 0
        self._loop: Later | None = None
        self._shown = EngineState()
        self._latest: RunDriver | None = None
        self._closed = False
        self._clear()

    def _clear(self) -> None:
        self._messages: list[Message] = []
        self._pending: tuple[PendingApproval, ...] = ()
        self._answers: dict[str, ToolApprovalResponsePart] = {}
        self._context: Any = None
        self._problem: str | None = None
        self._run: RunDriver | None = None
        self._job = object()
        self._starting = False

    # ------------------------------------------------------------ told by runs

    def run_begins(self, run: RunDriver) -> None:
        """A run on this agent begins."""
        with self._lock:
            self._loop = Later()
            self._in_flight[id(run)] = run
            self._latest = run
        self.changed()

    def run_ends(self, run: RunDriver) -> None:
        """A run on this agent ended."""
        with self._lock:
            self._in_flight.pop(id(run), None)
        self.changed()

    def step_done(self) -> None:
        """A step of any run is complete."""
        with self._lock:
            self._total_steps += 1

    @property
    def is_watched(self) -> bool:
        """Whether anyone waits for changes."""
        return bool(self._watchers)

    def changed(self) -> None:
        """Something of what is shown changed."""
        for wake in tuple(self._watchers):
            wake()

    # ------------------------------------------------------------ shown

    @property
    def state(self) -> EngineState:
        """A snapshot; the same object as before where nothing changed."""
        with self._lock:
            now = self._snapshot()
            if now != self._shown:
                self._shown = now
            return self._shown

    def _snapshot(self) -> EngineState:
        run = self._latest
        state = EngineState() if run is None else run.engine_state
        if run is self._run:
            # The engine's own conversation: what has ended rests, and what waits for answers waits.
            phase = "idle" if state.phase in ("finished", "aborted") else state.phase
            if self._pending and phase == "idle":
                phase = "awaiting_approval"
            state = replace(
                state,
                phase=phase,
                messages=tuple(self._messages) if run is None or run.done else state.messages,
                pending_approvals=self._pending if run is None or run.done else state.pending_approvals,
            )
            if self._problem is not None:
                state = replace(state, phase="failed", error=self._problem)
        elif state.phase in ("finished", "aborted"):
            state = replace(state, phase="idle")
        return replace(state, total_steps=self._total_steps)

    async def states(self) -> AsyncIterator[EngineState]:
        """Snapshots as they change, the present one first. A reader that is slow misses some, never the latest."""
        waker = Waker()
        self._loop = Later()
        woken = anyio.Event()

        def wake() -> None:
            woken.set()  # the event of that moment: another may wait by now than when a thread asked

        def wake_soon() -> None:
            waker.call(wake)

        self._watchers.append(wake_soon)
        try:
            last: EngineState | None = None
            while True:
                now = self.state
                if now is not last:
                    last = now
                    yield now
                    continue
                if self._closed:
                    return
                woken = anyio.Event()
                if self.state is last and not self._closed:
                    await woken.wait()
        finally:
            self._watchers.remove(wake_soon)

    # ------------------------------------------------------------ told by a person

    def dispatch(self, action: Action | type[Any]) -> bool:
        """Do what a user interface asks.

        Args:
            action: An action; for those without fields the class will do.

        Returns:
            False where there was nothing to act on; then nothing changed.

        Raises:
            LoopwrightError: There is no such action, or the engine was closed.
            RuntimeError: A run would have to begin, and no event loop is known.
        """
        told: Any = action() if isinstance(action, type) else action
        if self._closed:
            raise RunError("The agent was closed, so it takes no actions. Make another instance.")
        match told:
            case Submit():
                return self._submit(told)
            case Approve() | Deny():
                return self._answer(told)
            case Steer(content=content):
                return self._say(content, "steer")
            case FollowUp(content=content):
                return self._say(content, "follow_up")
            case Cancel():
                return self._cancel(told)
            case Reset():
                return self._reset()
            case _:
                raise LoopwrightError(
                    f"There is no action {action!r}. There are Submit, Approve, Deny, Steer, FollowUp, Cancel, Reset."
                )

    def _submit(self, action: Submit) -> bool:
        self._known_loop()
        with self._lock:
            if action.context is not NOT_GIVEN:
                self._context = action.context
            self._start(action.prompt, ())
        return True

    def _answer(self, action: Approve | Deny) -> bool:
        self._known_loop()
        with self._lock:
            one = next((p for p in self._pending if action.id in (p.approval_id, p.call.id)), None)
            if one is None:
                waiting = ", ".join(repr(p.approval_id) for p in self._pending) or "none"
                return self._fail(f"No approval request {action.id!r} waits. Waiting: {waiting}.")
            if isinstance(action, Approve):
                answer = one.approve(arguments=action.arguments, approver=action.approver)
            else:
                answer = one.deny(action.reason, approver=action.approver)
            self._answers[one.approval_id] = answer
            self._problem = None
            if all(p.approval_id in self._answers for p in self._pending):
                self._start(None, tuple(self._answers[p.approval_id] for p in self._pending))
        self.changed()
        return True

    def _fail(self, problem: str) -> bool:
        """Show a mistake of the caller's; what waits keeps waiting."""
        self._problem = problem
        self._latest = self._run
        self.changed()
        return False

    def _say(self, content: Any, how: str) -> bool:
        with self._lock:
            run = self._run
            if run is None or run.done:
                return False
            getattr(run, how)(content)
        return True

    def _cancel(self, action: Cancel) -> bool:
        with self._lock:
            runs = list(self._in_flight.values())
            mine = self._run
            if mine is not None and not mine.done and id(mine) not in self._in_flight:
                runs.append(mine)
            not_begun = self._starting and action.run_id is None
            if not_begun:
                self._starting = False
                self._job = object()
        stopped = [run.cancel(action.reason) for run in runs if action.run_id in (None, run.run_id)]
        return any(stopped) or not_begun

    def _reset(self) -> bool:
        with self._lock:
            run = self._run
            if run is None and not self._messages and self._problem is None and not self._starting:
                return False
            if run is not None:
                run.cancel("the conversation was reset")
            self._clear()
            self._latest = None
        self.changed()
        return True

    def close(self) -> None:
        """Stop every run in flight. Nothing can be dispatched any more; may be called more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            runs = list(self._in_flight.values())
            if self._run is not None:
                runs.append(self._run)
        for run in runs:
            run.cancel("the agent was closed")
        self.changed()

    # ------------------------------------------------------------ its own runs

    def _known_loop(self) -> Later:
        try:
            current_token()
        except RuntimeError:
            if self._loop is None:
                raise RuntimeError(
                    "dispatch was called outside any event loop, and this agent has not been used in one yet. Iterate "
                    "agent.engine_states() in the event loop, or dispatch from there."
                ) from None
        else:
            self._loop = Later()
        return self._loop

    def _start(self, prompt: Any, answers: tuple[ToolApprovalResponsePart, ...]) -> None:
        """Begin a run of the conversation, once the one before has ended. The lock is held."""
        before, job, waited = self._run, object(), self._pending
        self._job, self._starting = job, True
        self._problem, self._pending, self._answers = None, (), {}
        if before is not None and not before.done:
            before.cancel("another input took its place")

        async def go() -> None:
            if before is not None:
                await before.aclose()
            run = self._begun(job, prompt, answers, waited)
            if run is not None:
                await self._read(run, job, waited if answers else ())
            self.changed()

        assert self._loop is not None
        self._loop.spawn(go, "loopwright engine run")

    def _begun(
        self,
        job: object,
        prompt: Any,
        answers: tuple[ToolApprovalResponsePart, ...],
        waited: tuple[PendingApproval, ...],
    ) -> RunDriver | None:
        """The run of a job, unless another took its place in the meantime."""
        with self._lock:
            if self._job is not job or self._closed:
                return None
            self._starting = False
            before = self._run
            if before is not None and not (before.error is not None and _applied_nothing(before)):
                self._messages = before.messages
            messages = [*self._messages, approvals(*answers)] if answers else list(self._messages)
            try:
                run = self._begin(prompt, messages, self._context)
            except Exception as error:  # told where a user interface looks
                self._problem = f"{type(error).__name__}: {error}"
                self._pending = waited if answers else ()
                return None
            self._run = self._latest = run
            return run

    async def _read(self, run: RunDriver, job: object, waited: tuple[PendingApproval, ...]) -> None:
        try:
            while True:
                await run.next_part()
        except StopAsyncIteration:
            pass
        except Exception as error:
            run.cancel(error)
        with self._lock:
            if self._job is not job:
                return
            self._context = run.context
            if run.error is not None and _applied_nothing(run):
                self._pending = waited
                return
            self._messages = run.messages
            self._pending = run.pending_approvals


def _applied_nothing(run: RunDriver) -> bool:
    """Whether a run ended before it applied the answers that it began with: they may be given again."""
    messages = run.messages
    return bool(messages) and isinstance(messages[-1], ApprovalMessage)
