"""A run in hand: what a consumer holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from .driving import RunDriver
from .engine import EngineState
from .errors import Partial
from .events import StreamPart, TextDelta
from .lifecycle import AgentEvent
from .loop.options import Content
from .messages import Message
from .results import GenerateResult, StepResult
from .tools.approval import PendingApproval
from .usage import Usage

__all__ = ["EventsHandle", "EventsRun", "Run", "StreamHandle"]

O = TypeVar("O", default=str)  # noqa: E741  # the output type, named so throughout


class Run(Generic[O]):
    """One run in hand: iterate over it, steer it, stop it, ask for its result.

    Iterating gives stream parts; nothing happens while nobody asks for the next one. The last part is `Finish`, `Abort`
    or `Error`.
    """

    __slots__ = ("__weakref__", "_control")

    def __init__(self, control: RunDriver) -> None:
        self._control = control

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, StreamPart]:
        if self._control.detached:
            raise RuntimeError("The run was detached: it goes on without a reader. Await its result().")
        return self._control.next_part()

    async def result(self) -> GenerateResult[O]:
        """Read the run to its end, and give its result. May be called more than once.

        Raises:
            RunCancelled: The run was cancelled.
            Exception: What the run failed with.
        """
        if self._control.detached:
            await self._control.wait_detached()
        else:
            async for _ in self:
                pass
        return self._control.outcome()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text as it comes, of all steps. Raises what the run fails with."""
        return _text_of(self)

    @property
    def run_id(self) -> str:
        """Names the run."""
        return self._control.run_id

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._control.done

    @property
    def detached(self) -> bool:
        """Whether it goes on without a reader."""
        return self._control.detached

    @property
    def messages(self) -> list[Message]:
        """The history so far, a snapshot."""
        return self._control.messages

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """The completed steps."""
        return tuple(self._control.steps)

    @property
    def usage(self) -> Usage | None:
        """Tokens of the completed answers, None while there are none."""
        return self._control.usage

    @property
    def partial(self) -> Partial:
        """What the run has done so far, the text of an unfinished answer included."""
        return self._control.partial

    @property
    def engine_state(self) -> EngineState:
        """What a user interface shows of the run; a snapshot."""
        return self._control.engine_state

    @property
    def unread_inputs(self) -> list[Content]:
        """Steering and follow-ups that no request has read, in that order."""
        return self._control.unread_inputs

    @property
    def pending_approvals(self) -> tuple[PendingApproval, ...]:
        """Calls that wait for a person."""
        return self._control.pending_approvals

    def steer(self, content: Content) -> str:
        """Say something that the model reads before its next request. Nothing is cut short for it.

        Returns:
            Names the input; an `InputDelivered` part with it tells when it is in the history.
        """
        return self._control.steer(content)

    def follow_up(self, content: Content) -> str:
        """Say something that the model reads when it would otherwise be done.

        Returns:
            Names the input; an `InputDelivered` part with it tells when it is in the history.
        """
        return self._control.follow_up(content)

    def detach(self) -> None:
        """Let the run go on to its end without a reader; `result()` then waits for that end.

        The run belongs to the event loop and to no one else from now on: leaving the block or dropping the handle does
        not stop it, `cancel` does.
        """
        self._control.detach()

    def cancel(self, reason: object = None) -> bool:
        """Stop the run, from any task or thread.

        Returns:
            False when there was nothing to stop.
        """
        return self._control.cancel(reason)

    async def aclose(self) -> None:
        """Stop the run and wait until nothing of it is left."""
        await self._control.aclose()

    def __repr__(self) -> str:
        state = "done" if self.done else "going"
        return f"<Run {self.run_id} {state}, {len(self._control.steps)} steps>"

    def __del__(self) -> None:
        self._control.abandon()


class StreamHandle(Generic[O]):
    """A run that has not begun. Each iteration is a run of its own; `async with` gives one in hand."""

    __slots__ = ("_begin", "_entered")

    def __init__(self, begin: Callable[[], Run[O]]) -> None:
        self._begin = begin
        self._entered: list[Run[O]] = []

    def __aiter__(self) -> Run[O]:
        return self._begin()

    async def first(self) -> StreamPart:
        """The first part of a run of its own, which is then closed."""
        async with self as run:
            return await anext(run)

    async def __aenter__(self) -> Run[O]:
        run = self._begin()
        self._entered.append(run)
        return run

    async def __aexit__(self, *exc_info: object) -> None:
        run = self._entered.pop()
        if not run.detached:
            await run.aclose()


async def _text_of(run: Run[Any]) -> AsyncIterator[str]:
    async for part in run:
        if type(part) is TextDelta:
            yield part.text
    await run.result()  # raises what the run failed with


class EventsRun(Run[O]):
    """One run in hand whose iteration gives the events of its life: `Started`, `StepStarted`, ..., `Finished`."""

    __slots__ = ()

    def __init__(self, control: RunDriver) -> None:
        super().__init__(control)
        control.narrate()

    def __anext__(self) -> Coroutine[Any, Any, AgentEvent]:  # type: ignore[override]  # another vocabulary
        return self._control.next_event()


class EventsHandle(Generic[O]):
    """A run that has not begun, told as `AgentEvent`s. Each iteration is a run of its own."""

    __slots__ = ("_begin", "_entered")

    def __init__(self, begin: Callable[[], EventsRun[O]]) -> None:
        self._begin = begin
        self._entered: list[EventsRun[O]] = []

    def __aiter__(self) -> EventsRun[O]:
        return self._begin()

    async def first(self) -> AgentEvent:
        """The first event of a run of its own, which is then closed."""
        async with self as run:
            return await anext(run)

    async def __aenter__(self) -> EventsRun[O]:
        run = self._begin()
        self._entered.append(run)
        return run

    async def __aexit__(self, *exc_info: object) -> None:
        run = self._entered.pop()
        if not run.detached:
            await run.aclose()
