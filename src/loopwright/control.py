"""One run, as those see it who hold it: tools, hooks, and through its handle the consumer.

`RunControl` is what may be known and asked of a run. Its driver, which the consumer pulls, is a subclass in a file of
its own.
"""

from __future__ import annotations

from typing import Any

from .engine import EngineState
from .errors import Partial, RunCancelled
from .events import MessageEnd
from .inputs import RunInputs
from .loop.options import Content
from .loop.run import LoopRun
from .messages import Message, ToolCallPart
from .models.base import ModelIdentity
from .results import StepResult
from .signals import AbortSignal
from .tools.approval import PendingApproval
from .translation import Translator
from .usage import Usage

__all__ = ["RunControl"]


class RunControl:
    """One run: steers it, stops it, tells what it has done. Given to tools and hooks.

    Attributes:
        signal: Stops the run.
        steps: The completed steps.
        run_id: Names the run.
    """

    def __init__(self, signal: AbortSignal, *, run_id: str) -> None:
        self.signal = signal
        self.steps: list[StepResult] = []
        self.run_id = run_id
        self._inputs = RunInputs(run_id)
        self._model: ModelIdentity | None = None
        self._loop: LoopRun | None = None
        self._paused: tuple[tuple[PendingApproval, ...], tuple[ToolCallPart, ...]] | None = None
        self._translator = Translator(self._acknowledge)
        self._parts = self._translator.parts
        self._done = False
        self._error: Exception | None = None

    @property
    def loop(self) -> LoopRun:
        """The loop that it drives."""
        assert self._loop is not None
        return self._loop

    # ------------------------------------------------------------ for whoever holds it

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._done

    @property
    def context(self) -> Any:
        """The run's context object, as `prepare_call` and `prepare_step` left it."""
        return self.loop.context

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

    @property
    def pending_approvals(self) -> tuple[PendingApproval, ...]:
        """Calls of this run that wait for a person."""
        return self._paused[0] if self._paused is not None else self.loop.held_calls

    @property
    def engine_state(self) -> EngineState:
        """What a user interface shows of the run; a snapshot."""
        steps, error, partial = self.steps, self._error, self.loop.partial()
        return EngineState(
            phase=self._translator.machine.phase,
            messages=tuple(partial.messages),
            streaming_text="" if self._done else partial.text,
            current_tool_calls=() if self._done else tuple(self._translator.running),
            pending_approvals=self.pending_approvals,
            total_steps=len(steps),
            last_finish_reason=steps[-1].finish_reason if steps else None,
            usage=partial.usage,
            run_id=self.run_id,
            error=None if error is None or isinstance(error, RunCancelled) else str(error) or type(error).__name__,
        )

    @property
    def error(self) -> Exception | None:
        """What the run failed with, or its cancellation."""
        return self._error

    def steer(self, content: Content) -> str:
        """Say something that the model reads before its next request. Nothing is cut short for it.

        Args:
            content: A string or parts.

        Returns:
            Names the input; an `InputDelivered` with it tells when it is in the history.

        Raises:
            InvalidInputError: The content cannot be sent.
            RunError: The run has ended.
        """
        return self._inputs.add("steering", content, self._model)

    def follow_up(self, content: Content) -> str:
        """Say something that the model reads when it would otherwise be done.

        Args:
            content: A string or parts.

        Returns:
            Names the input; an `InputDelivered` with it tells when it is in the history.

        Raises:
            InvalidInputError: The content cannot be sent.
            RunError: The run has ended.
        """
        return self._inputs.add("follow-up", content, self._model)

    @property
    def unread_inputs(self) -> list[Content]:
        """Steering and follow-ups that no request has read, in that order."""
        return self._inputs.unread

    def cancel(self, reason: object = None) -> bool:
        """Stop the run, from any task or thread.

        Args:
            reason: Told to whoever asks why.

        Returns:
            False when there was nothing to stop.
        """
        return False if self._done else self.signal.abort(reason)

    def _acknowledge(self, event: MessageEnd) -> None:
        delivered = self._inputs.delivered(event, self.loop.history)
        if delivered is not None:
            self._parts.append(delivered)
