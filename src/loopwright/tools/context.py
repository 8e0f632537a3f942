"""What a tool is told about the call that it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ..messages import Message, ToolCallPart
from ..signals import AbortSignal

if TYPE_CHECKING:
    from .base import Tool

__all__ = ["ToolContext"]

C = TypeVar("C", default=None)


class ToolContext(Generic[C]):
    """Given to a tool that has a parameter annotated `ToolContext` or `ToolContext[C]`; the model never sees it.

    Attributes:
        context: The run's context object.
        call: The call.
        messages: The history at the start of the tool batch; every call of the batch sees the same.
        signal: Aborted when the run is cancelled.
        step_number: The step, from 1.
        idempotency_key: Names this call for ever: `run id / step / call id`. Hand it to services that take one.
        run: The run, to steer it or to stop it; None in the bare loop.
        tool: The tool that runs; a repair may have chosen another than the call names.
        attempt: Which try of this call it is, from 1.
    """

    __slots__ = (
        "_report", "_send", "attempt", "call", "context", "idempotency_key", "messages", "run", "signal", "step_number",
        "tool",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913  # what a tool is told
        self,
        context: C,
        call: ToolCallPart,
        *,
        messages: Sequence[Message] = (),
        signal: AbortSignal | None = None,
        step_number: int = 1,
        idempotency_key: str | None = None,
        run: Any = None,
        report: Callable[[Any], None] | None = None,
        send: Callable[[Any], Awaitable[None]] | None = None,
        tool: Tool | None = None,
    ) -> None:
        """Make a context; in tests of a tool only the first two matter."""
        self.context = context
        self.call = call
        self.messages = messages
        self.signal = AbortSignal() if signal is None else signal
        self.step_number = step_number
        self.idempotency_key = f"run/{step_number}/{call.id}" if idempotency_key is None else idempotency_key
        self.run = run
        self.tool = tool
        self.attempt = 1
        self._report = report
        self._send = send

    @property
    def tool_call_id(self) -> str:
        """The call's id."""
        return self.call.id

    @property
    def tool_name(self) -> str:
        """The name that the model called."""
        return self.call.name

    def progress(self, value: Any) -> None:
        """Tell whoever listens how far it is. Works from threads too; ignored once the call has settled.

        It never waits, so nothing bounds what piles up: many values are better sent with `send_progress`.

        Args:
            value: Any value, best JSON-compatible.
        """
        if self._report is not None:
            self._report(value)

    async def send_progress(self, value: Any) -> None:
        """Tell whoever listens how far it is, and wait while the progress buffer is full.

        Args:
            value: Any value, best JSON-compatible.
        """
        if self._send is not None:
            await self._send(value)
        else:
            self.progress(value)

    def __repr__(self) -> str:
        return f"<ToolContext {self.call.name} {self.call.id}, step {self.step_number}>"
