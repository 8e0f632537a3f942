"""The states of a run as a user interface sees them, and the table of what leads from one to the next.

The table is all there is to it: a signal that a phase has no row for is a mistake in this package. Each run has a
machine of its own; what an agent shows is the state of its latest run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from .errors import LoopwrightError
from .messages import Message, ToolCallPart
from .tools.approval import PendingApproval
from .usage import Usage

__all__ = ["RUNNING", "TRANSITIONS", "EngineState", "Machine", "Phase", "Signal"]

_log = logging.getLogger("loopwright")

Phase: TypeAlias = Literal[
    "idle", "preparing", "requesting", "streaming", "executing", "awaiting_approval", "finished", "aborted", "failed"
]
Signal: TypeAlias = Literal[
    "begin", "request", "answer", "execute", "step-done", "hold", "finish", "abort", "fail", "settle"
]

RUNNING: Final[tuple[Phase, ...]] = ("preparing", "requesting", "streaming", "executing")
_RESTING: Final[tuple[Phase, ...]] = ("idle", "awaiting_approval", "finished", "aborted", "failed")

TRANSITIONS: Final[Mapping[tuple[Phase, Signal], Phase]] = {
    # An input, or the answers to all that waited, begins a run.
    **{(phase, "begin"): "preparing" for phase in _RESTING},
    # One step.
    ("preparing", "request"): "requesting",
    ("requesting", "answer"): "streaming",
    ("streaming", "execute"): "executing",
    ("executing", "execute"): "executing",
    ("preparing", "execute"): "executing",  # calls that were approved since the last run
    ("executing", "request"): "requesting",
    ("streaming", "step-done"): "preparing",
    ("executing", "step-done"): "preparing",
    # Ends.
    **{(phase, "hold"): "awaiting_approval" for phase in RUNNING},
    **{(phase, "finish"): "finished" for phase in RUNNING},
    **{(phase, "abort"): "aborted" for phase in ("idle", *RUNNING)},
    **{(phase, "fail"): "failed" for phase in ("idle", "awaiting_approval", *RUNNING)},
    # What has ended rests; a failure stays in sight until the next input.
    **{(phase, "settle"): "idle" for phase in _RESTING},
}
"""`(phase, signal)` leads to a phase; a pair that is not here cannot happen."""

_TARGETS: Final[Mapping[Signal, Phase]] = {signal: target for (_, signal), target in TRANSITIONS.items()}
assert set(_TARGETS) == set(get_args(Signal))


class Machine:
    """Walks the table.

    Attributes:
        phase: Where it is.
        strict: Whether a pair that is not in the table raises. Tests set it; a run of a user's goes on, and the mistake
            is logged.
    """

    strict: ClassVar[bool] = False

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase: Phase = "idle"

    def move(self, signal: Signal) -> Phase:
        """Follow a signal.

        Raises:
            LoopwrightError: The table has no such row, and the machine is strict.
        """
        target = TRANSITIONS.get((self.phase, signal))
        if target is None:
            message = f"A run in the phase {self.phase!r} cannot {signal!r}: this is a mistake in Loopwright."
            if self.strict:
                raise LoopwrightError(message)
            _log.error(message)
            target = _TARGETS[signal]
        self.phase = target
        return target


@dataclass(frozen=True, slots=True)
class EngineState:
    """What a user interface shows of an agent; a snapshot.

    Attributes:
        phase: Where it is.
        messages: The conversation.
        streaming_text: Text of the answer that is being streamed, empty between answers.
        current_tool_calls: The calls that run at this moment.
        pending_approvals: The calls that wait for a person.
        total_steps: Steps of all runs of the agent so far.
        last_finish_reason: Why the last answer ended, None while there was none.
        usage: Tokens of the run, None where nothing was reported.
        run_id: Names the run, None before the first.
        error: What failed, as text; None where nothing did.
    """

    phase: Phase = "idle"
    messages: tuple[Message, ...] = ()
    streaming_text: str = ""
    current_tool_calls: tuple[ToolCallPart, ...] = ()
    pending_approvals: tuple[PendingApproval, ...] = ()
    total_steps: int = 0
    last_finish_reason: str | None = None
    usage: Usage | None = None
    run_id: str | None = None
    error: str | None = None

    @property
    def is_streaming(self) -> bool:
        """Whether an answer is being streamed."""
        return self.phase == "streaming"

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self.phase in RUNNING
