"""Tools: functions that a model may call."""

from __future__ import annotations

from .base import FunctionTool, Tool
from .context import ToolContext
from .decorator import collect_tools, tool
from .result import ToolOutput, ToolOutputError

__all__ = ["FunctionTool", "Tool", "ToolContext", "ToolOutput", "ToolOutputError", "collect_tools", "tool"]
