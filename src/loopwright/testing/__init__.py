"""What users need to test their agents."""

from __future__ import annotations

from .clock import FakeClock
from .history import check_history, history_problems
from .scripted import Gate, ScriptedModel, ScriptedStream, answer, call, events_of

__all__ = [
    "FakeClock",
    "Gate",
    "ScriptedModel",
    "ScriptedStream",
    "answer",
    "call",
    "check_history",
    "events_of",
    "history_problems",
]
