"""What becomes of an agent's tool calls: parse, repair, approve, run. Reached through the loop's extension points."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from anyio.lowlevel import checkpoint

from .errors import AbortRun, ApprovalAnsweredError, ApprovalEditError, ToolInputError, ToolRetry
from .loop.calls import (
    BatchContext,
    CallPlan,
    EndRun,
    HeldCall,
    PreparedCall,
    ResumedCalls,
    call_keys,
    make_result,
    prepare_call,
    tool_context,
)
from .messages import (
    AssistantMessage,
    Message,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
)
from .tools.answers import AnsweredCall
from .tools.approval import ApprovalDecision, ApprovalLedger, Denial, PendingApproval, sign
from .tools.base import Tool
from .tools.context import ToolContext

__all__ = [
    "ApprovalRules",
    "CallHooks",
    "CallPlanner",
    "FailedCall",
    "RetryCall",
    "ToolInput",
    "ToolRunner",
    "overridden",
]

_log = logging.getLogger("loopwright")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that cannot run as it is: what `repair_tool_call` is given.

    Attributes:
        call: The call as the model made it.
        error: What is wrong, as the model would be told.
        messages: The history, the answer with the call included.
        tools: The tools that there are.
        context: The run's context object.
    """

    call: ToolCallPart
    error: str
    messages: Sequence[Message]
    tools: Sequence[Tool]
    context: Any


@dataclass(frozen=True, slots=True)
class RetryCall:
    """Returned by `on_tool_error`: run the same call again. `ToolContext.attempt` counts."""


class ToolInput(dict[str, Any]):
    """Validated arguments, as items and as attributes: `input["amount"]`, `input.amount`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The input has no {name!r}; it has: {', '.join(self) or 'nothing'}.") from None


class CallHooks(Protocol):
    """The hooks of an agent that its calls go through."""

    async def repair_tool_call(self, failed: FailedCall) -> ToolCallPart | None: ...
    async def approve(self, call: ToolCallPart, ctx: ToolContext[Any]) -> ApprovalDecision: ...
    async def on_approval_request(
        self, pending: PendingApproval, ctx: ToolContext[Any]
    ) -> ToolApprovalResponsePart | None: ...
    async def wrap_tool_call(
        self, ctx: ToolContext[Any], arguments: dict[str, Any], proceed: Callable[..., Awaitable[Any]]
    ) -> Any: ...
    async def on_tool_error(self, ctx: ToolContext[Any], error: Exception) -> str | RetryCall | None: ...


def overridden(owner: object, hook: str) -> bool:
    """Whether a hook is more than the base class's own, which does nothing: then it need not be awaited."""
    return not getattr(getattr(owner, hook), "does_nothing", False)


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """How requests are made and answers taken.

    Attributes:
        secret: Signs requests; None for no signatures.
        seconds: How long a request may be approved; None for ever.
        ledger: Remembers what was answered.
        clock: Tells the time, in seconds since the epoch.
    """

    secret: bytes | None
    seconds: float | None
    ledger: ApprovalLedger
    clock: Callable[[], float]


class CallPlanner:
    """Says what becomes of each call of an answer, and of calls that were answered since an earlier run."""

    def __init__(self, hooks: CallHooks, rules: ApprovalRules) -> None:
        self._hooks = hooks
        self._rules = rules
        self._repairs = overridden(hooks, "repair_tool_call")
        self._approves = overridden(hooks, "approve")
        self._answers = overridden(hooks, "on_approval_request")

    async def plan(
        self, message: AssistantMessage, calls: Sequence[ToolCallPart], batch: BatchContext
    ) -> Sequence[CallPlan | None]:
        """One plan for each call, in source order."""
        all_calls = message.tool_calls
        plans: list[CallPlan | None] = []
        for call, key in zip(calls, call_keys(batch.run_id, batch.step_number, calls), strict=True):
            index = next(n for n, other in enumerate(all_calls) if other is call)
            plans.append(await self._plan(call, index, key, batch))
        return plans

    async def _plan(self, call: ToolCallPart, index: int, key: str, batch: BatchContext) -> CallPlan | None:
        prepared = prepare_call(call, batch)
        repaired = False
        if isinstance(prepared, ToolResultMessage) and self._repairs:
            prepared = await self._repair(call, prepared, batch)
            repaired = True
        if isinstance(prepared, ToolResultMessage):
            return prepared
        ctx = tool_context(batch, call, prepared.tool, key)
        await _tell_input(prepared, ctx)
        if prepared.tool.is_client_side:
            return prepared
        return await self._gate(prepared, ctx, index, repaired=repaired)

    # ------------------------------------------------------------ repair

    async def _repair(
        self, call: ToolCallPart, failed: ToolResultMessage, batch: BatchContext
    ) -> PreparedCall | ToolResultMessage:
        tools = tuple(batch.tools.values())
        try:
            mended = await self._hooks.repair_tool_call(
                FailedCall(call, failed.text, batch.messages, tools, batch.context)
            )
        except Exception as error:
            _log.warning("repair_tool_call raised for the call %r of %r", call.id, call.name, exc_info=error)
            return _why(call, failed.text, batch, repair_error=f"{type(error).__name__}: {error}")
        if mended is None:
            return failed
        prepared = prepare_call(mended, batch)
        if isinstance(prepared, ToolResultMessage):
            return _why(call, failed.text, batch, repair_error=prepared.text)
        return prepared

    # ------------------------------------------------------------ approval

    async def _gate(self, prepared: PreparedCall, ctx: ToolContext[Any], index: int, *, repaired: bool) -> CallPlan:
        call, clock = ctx.call, self._rules.clock
        try:
            decision = await self._decide(prepared, ctx)
        except Exception as error:
            return make_result(call, _undecided(call, error), "error", clock)
        if isinstance(decision, Denial):
            return _denied(call, decision.reason, clock)
        if decision == "approve":
            return prepared
        if repaired:
            text = (
                f"The call of {call.name!r} was not run: it needs the approval of a person, and its arguments had to "
                "be repaired. Nobody is asked to approve what the model did not write. Call it again, with valid ones."
            )
            return make_result(call, text, "invalid", clock)
        pending = self._request(call, index, ctx.idempotency_key)
        answer = await self._hooks.on_approval_request(pending, ctx) if self._answers else None
        if answer is None:
            return HeldCall(pending.request)
        if not answer.approved:
            return _denied(call, answer.reason, clock)
        try:
            return _as_edited(prepared, answer)
        except ToolInputError as error:
            return make_result(call, str(error), "invalid", clock)

    async def _decide(self, prepared: PreparedCall, ctx: ToolContext[Any]) -> ApprovalDecision:
        """Approve, ask or a `Denial`."""
        decision = await self._hooks.approve(ctx.call, ctx) if self._approves else None
        if decision == "deny":
            return Denial()
        if decision is not None:
            if decision not in ("approve", "ask") and not isinstance(decision, Denial):
                raise TypeError(
                    f"approve must return 'approve', 'deny', 'ask', Denial(reason) or None, not {decision!r}"
                )
            return decision
        needs = prepared.tool.needs_approval
        if not isinstance(needs, bool):
            answer = needs(ToolInput(prepared.arguments), ctx)
            needs = await answer if inspect.isawaitable(answer) else answer
        return "ask" if needs else "approve"

    def _request(self, call: ToolCallPart, index: int, key: str) -> PendingApproval:
        rules = self._rules
        expires_at = None if rules.seconds is None else rules.clock() + rules.seconds
        request = ToolApprovalRequestPart(key, call.id, index, expires_at)
        if rules.secret is not None:
            request = replace(request, signature=sign(rules.secret, request, call))
        return PendingApproval(request, call)

    # ------------------------------------------------------------ answers of an earlier run

    async def resume(self, answered: Sequence[AnsweredCall], batch: BatchContext) -> ResumedCalls:
        """Plans for calls that were answered; marks the answers as applied.

        Everything is checked once more, for time has passed: the tool, its schema, whether approval is still needed.

        Raises:
            ApprovalEditError: The approver's arguments do not fit; nothing was marked.
            ApprovalAnsweredError: An answer was applied before; nothing was marked.
        """
        plans = [await self._plan_answered(one, batch) for one in answered]
        ids = [one.pending.approval_id for one in answered]
        before = await self._rules.ledger.claim(ids)
        if before:
            raise ApprovalAnsweredError(
                f"The approval request {before[0]!r} was answered before, and an answer is applied once. Nothing ran. "
                "Go on with the messages of the run that applied it.",
                before[0],
            )
        return ResumedCalls([one.pending.call for one in answered], plans)

    async def _plan_answered(self, one: AnsweredCall, batch: BatchContext) -> CallPlan:
        call, answer, clock = one.pending.call, one.answer, self._rules.clock
        if not answer.approved:
            return _denied(call, answer.reason, clock)
        prepared = prepare_call(call, batch)
        if isinstance(prepared, ToolResultMessage):
            return prepared
        ctx = tool_context(batch, call, prepared.tool, one.pending.approval_id)
        try:
            decision = await self._decide(prepared, ctx)
        except Exception as error:
            return make_result(call, _undecided(call, error), "error", clock)
        if isinstance(decision, Denial):
            return _denied(call, decision.reason, clock)
        if decision != "ask":
            return _denied(call, "it needs no approval now, so this one is not what lets it run", clock)
        try:
            edited = _as_edited(prepared, answer)
        except ToolInputError as error:
            raise ApprovalEditError(
                f"The answer to {answer.approval_id!r} changes the arguments, and they do not fit. Nothing ran. "
                f"{error}",
                answer.approval_id,
            ) from error
        return replace(edited, key=one.pending.approval_id)


def _as_edited(prepared: PreparedCall, answer: ToolApprovalResponsePart) -> PreparedCall:
    if answer.arguments is None:
        return prepared
    note = f"[The approver changed the arguments to: {answer.arguments}]\n"
    return replace(prepared, arguments=prepared.tool.validate(answer.arguments), note=note)


def _denied(call: ToolCallPart, reason: str | None, clock: Callable[[], float]) -> ToolResultMessage:
    text = f"The call of {call.name!r} was denied and did not run{f': {reason}' if reason else ''}."
    return make_result(call, text.replace("..", "."), "denied", clock)


def _undecided(call: ToolCallPart, error: Exception) -> str:
    return f"The call of {call.name!r} was not run: whether it needs approval could not be told ({error})."


def _why(call: ToolCallPart, text: str, batch: BatchContext, **details: str) -> ToolResultMessage:
    """The error of a call that could not be repaired either; what went wrong with the repair is kept for programs."""
    return replace(make_result(call, text, "invalid", batch.clock), details={"error": text, **details})


async def _tell_input(prepared: PreparedCall, ctx: ToolContext[Any]) -> None:
    told = prepared.tool.on_input_available
    if told is None:
        return
    try:
        answer = told(ToolInput(prepared.arguments), ctx)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        _log.warning("on_input_available of %r raised", prepared.tool.name, exc_info=error)


class ToolRunner:
    """Runs a prepared call through `wrap_tool_call`, and asks `on_tool_error` what follows an error."""

    def __init__(self, hooks: CallHooks) -> None:
        self._hooks = hooks
        self._wraps = overridden(hooks, "wrap_tool_call")
        self._handles = overridden(hooks, "on_tool_error")

    @property
    def is_needed(self) -> bool:
        """Whether the agent overrides either hook."""
        return self._wraps or self._handles

    async def run(self, ctx: ToolContext[Any], prepared: PreparedCall) -> Any:
        """Run it.

        Raises:
            EndRun: `on_tool_error` raised: the run ends with that.
            Exception: What the tool raised; told to the model.
        """
        while True:
            try:
                return await self._run_once(ctx, prepared)
            except (AbortRun, EndRun):
                raise
            except Exception as error:
                if not self._handles:
                    raise
                action = await self._ask(ctx, error)
                if action is None:
                    raise
                if isinstance(action, str):
                    raise ToolRetry(action) from error
            ctx.attempt += 1
            await checkpoint()

    async def _ask(self, ctx: ToolContext[Any], error: Exception) -> str | RetryCall | None:
        try:
            return await self._hooks.on_tool_error(ctx, error)
        except Exception as end:
            raise EndRun(end) from error

    async def _run_once(self, ctx: ToolContext[Any], prepared: PreparedCall) -> Any:
        if not self._wraps:
            return await prepared.tool.run(prepared.arguments, ctx)

        async def proceed(arguments: dict[str, Any] | None = None) -> Any:
            return await prepared.tool.run(prepared.arguments if arguments is None else arguments, ctx)

        return await self._hooks.wrap_tool_call(ctx, prepared.arguments, proceed)
