"""The agent loop, usable without an agent."""

from __future__ import annotations

from .options import (
    Content,
    HistorySource,
    LoopOptions,
    RequestMetadata,
    RequestUpdate,
    ToolRepairSource,
    TurnFinished,
)
from .queue import MessageQueue
from .run import run_agent_loop

__all__ = [
    "Content",
    "HistorySource",
    "LoopOptions",
    "MessageQueue",
    "RequestMetadata",
    "RequestUpdate",
    "ToolRepairSource",
    "TurnFinished",
    "run_agent_loop",
]
