"""What users need to test their agents."""

from __future__ import annotations

from .clock import FakeClock
from .scripted import Gate, ScriptedModel, ScriptedStream, answer, call, events_of

__all__ = ["FakeClock", "Gate", "ScriptedModel", "ScriptedStream", "answer", "call", "events_of"]
