"""How many calls run at once, and for how long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..errors import InvalidArgumentError

__all__ = ["ToolExecutionPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionPolicy:
    """Bounds of tool batches.

    Attributes:
        max_parallel_tool_calls: How many calls of one step run at once.
        max_tool_calls_per_step: How many calls one answer may ask for; with more, none runs and the run fails. None for
            no limit.
        progress_buffer_capacity: How much progress may wait for the consumer. When it is full, generators and
            `ToolContext.send_progress` wait.
        timeout: Seconds that a call may take, where its tool sets no timeout of its own; None for no limit.
        per_tool_timeout: Seconds by tool name. They win over the tool's own.
        cancel_grace: Seconds that a cancelled tool is given to end. Then it is waited for no longer.
    """

    max_parallel_tool_calls: int = 8
    max_tool_calls_per_step: int | None = 128
    progress_buffer_capacity: int = 64
    timeout: float | None = None
    per_tool_timeout: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    cancel_grace: float = 2.0

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            InvalidArgumentError: Names all that cannot.
        """
        problems = list(self._problems())
        if problems:
            raise InvalidArgumentError(" ".join(problems))
        object.__setattr__(self, "per_tool_timeout", dict(self.per_tool_timeout))

    def _problems(self) -> Iterable[str]:
        if not _is_whole(self.max_parallel_tool_calls, 1):
            yield f"max_parallel_tool_calls must be a positive whole number, not {self.max_parallel_tool_calls!r}."
        if self.max_tool_calls_per_step is not None and not _is_whole(self.max_tool_calls_per_step, 1):
            given = self.max_tool_calls_per_step
            yield f"max_tool_calls_per_step must be a positive whole number or None, not {given!r}."
        if not _is_whole(self.progress_buffer_capacity, 0):
            yield f"progress_buffer_capacity must be a whole number, 0 or more, not {self.progress_buffer_capacity!r}."
        grace: object = self.cancel_grace
        if not _is_seconds(grace) and not (grace == 0 and not isinstance(grace, bool)):
            yield f"cancel_grace must be a number of seconds, 0 or more, not {grace!r}."
        if self.timeout is not None and not _is_seconds(self.timeout):
            yield f"timeout must be a positive number of seconds or None, not {self.timeout!r}."
        by_name: object = self.per_tool_timeout
        if not isinstance(by_name, Mapping):
            yield f"per_tool_timeout must map tool names to seconds, not {by_name!r}."
            return
        for name, seconds in self.per_tool_timeout.items():
            if seconds is not None and not _is_seconds(seconds):
                yield f"per_tool_timeout[{name!r}] must be a positive number of seconds or None, not {seconds!r}."

    def timeout_of(self, tool_name: str, own: float | None) -> float | None:
        """Seconds that a call of a tool may take.

        Args:
            tool_name: The tool.
            own: The tool's own timeout, None where it has none.
        """
        if tool_name in self.per_tool_timeout:
            return self.per_tool_timeout[tool_name]
        return self.timeout if own is None else own


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
