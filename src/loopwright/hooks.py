"""The hooks of an agent: what a subclass may override."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec

from typing_extensions import TypeVar

from .asking import Proceed
from .control import RunControl
from .errors import Partial
from .messages import AssistantMessage, ToolApprovalResponsePart, ToolCallPart
from .models.base import ModelRequest, ModelStream
from .planning import FailedCall, RetryCall
from .results import GenerateResult, StepResult
from .settings import CallContext, CallSettings, StepContext, StepSettings
from .tools.approval import ApprovalDecision, PendingApproval
from .tools.context import ToolContext

__all__ = ["AgentHooks"]

C = TypeVar("C", default=None)
O = TypeVar("O", default=str)  # noqa: E741  # the output type, named so throughout
P = ParamSpec("P")
R = TypeVar("R")


def _does_nothing(hook: Callable[P, R]) -> Callable[P, R]:
    """Mark a hook's own version, so that a run need not await what nobody overrode."""
    hook.does_nothing = True  # type: ignore[attr-defined]  # a function may carry attributes
    return hook


class AgentHooks(Generic[C, O]):
    """The hooks of an agent, each of which does nothing. `ToolLoopAgent` has them; mixins may override them too."""

    @_does_nothing
    async def prepare_call(self, call: CallContext[C]) -> CallSettings | None:
        """Called once, before the run begins. What it returns holds for the whole run."""

    @_does_nothing
    async def prepare_step(self, step: StepContext[C]) -> StepSettings | None:
        """Called before each model request. What it returns holds for this one step, but a `context` for later ones."""

    @_does_nothing
    async def wrap_model_call(self, request: ModelRequest, proceed: Proceed) -> ModelStream | AssistantMessage:
        """Stands around each model call: may change the request, or answer in the model's place.

        Args:
            request: What is asked.
            proceed: Asks the model, with its retries: `await proceed()`, or `await proceed(other_request)`.

        Returns:
            What `proceed` gave, another stream, or a whole answer.
        """
        return await proceed(request)

    @_does_nothing
    async def repair_tool_call(self, failed: FailedCall) -> ToolCallPart | None:
        """A call names no tool, or its arguments do not fit. Asked once for each such call.

        Returns:
            A call that is run instead, also of another tool; None lets the model be told what is wrong.
        """

    @_does_nothing
    async def approve(self, call: ToolCallPart, ctx: ToolContext[C]) -> ApprovalDecision:
        """Asked before any call runs.

        Returns:
            `approve`, `deny` or `Denial(reason)`, `ask` (a person); None leaves it to the tool's `needs_approval`.
        """

    @_does_nothing
    async def on_approval_request(
        self, pending: PendingApproval, ctx: ToolContext[C]
    ) -> ToolApprovalResponsePart | None:
        """A call waits for a person. Here one may be asked at once.

        Returns:
            `pending.approve()` or `pending.deny(reason)`; None ends the run, to be resumed with an answer.
        """

    @_does_nothing
    async def wrap_tool_call(
        self,
        ctx: ToolContext[C],
        arguments: dict[str, Any],  # noqa: ARG002  # for overriders
        proceed: Callable[..., Awaitable[Any]],
    ) -> Any:
        """Stands around each tool's run: may change the arguments, or give a result in its place.

        Args:
            ctx: Tells which call and which tool.
            arguments: The validated values by parameter.
            proceed: Runs the tool: `await proceed()`, or `await proceed(other_arguments)`.
        """
        del ctx
        return await proceed()

    @_does_nothing
    async def on_tool_error(self, ctx: ToolContext[C], error: Exception) -> str | RetryCall | None:
        """A tool raised.

        Returns:
            None to tell the model the error, text to tell it that instead, `RetryCall()` to run the call again
            (`ctx.attempt` counts). Raising ends the run with what is raised.
        """

    async def on_start(self, run: RunControl) -> None:
        """A run begins; nothing was sent yet."""

    @_does_nothing
    async def on_step_start(self, step: StepContext[C]) -> None:
        """A step begins: the request is about to be made."""

    async def on_step_finish(self, step: StepResult) -> None:
        """A step is complete, its tool results included. An exception ends the run, which keeps the step."""

    async def on_finish(self, result: GenerateResult[O]) -> None:
        """The run ended well. Exactly one of `on_finish`, `on_abort` and `on_error` is called for each run."""

    async def on_abort(self, partial: Partial) -> None:
        """The run was cancelled."""

    async def on_error(self, error: Exception) -> None:
        """The run failed."""
