"""Reading a history that ends in calls without results: what waits for whom, and what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..errors import ApprovalAnsweredError, ApprovalExpiredError, UnknownApprovalError
from ..messages import (
    ApprovalMessage,
    AssistantMessage,
    Message,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from .approval import PendingApproval, check_signature

__all__ = ["AnsweredCall", "OpenStep", "pending_approvals", "read_open_step"]


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A request with its answer."""

    pending: PendingApproval
    answer: ToolApprovalResponsePart


@dataclass(frozen=True, slots=True)
class OpenStep:
    """The last answer of a history, as far as its calls have no results.

    Attributes:
        message_index: Where it stands.
        answered: Requests that were answered, in the order of the calls; not yet applied.
        pending: Requests that were not.
        open_calls: Calls without a result that wait for no approval.
    """

    message_index: int
    answered: tuple[AnsweredCall, ...] = ()
    pending: tuple[PendingApproval, ...] = ()
    open_calls: tuple[ToolCallPart, ...] = ()


def pending_approvals(messages: Sequence[Message]) -> tuple[PendingApproval, ...]:
    """The requests of a conversation that still wait for an answer: for a host that has nothing but its messages."""
    step = _find(messages)
    return () if step is None else step.pending


def read_open_step(
    messages: Sequence[Message], *, secret: bytes | None = None, now: float = 0.0, passed_over: bool = False
) -> OpenStep | None:
    """Read what a history leaves open, and check the answers in it.

    Only answers behind the last assistant message count: earlier ones were applied, or passed over.

    Args:
        messages: The history.
        secret: What requests are signed with; None where they are not.
        now: The time, in seconds since the epoch.
        passed_over: A new prompt follows, so requests without an answer are given up.

    Returns:
        None where nothing is open.

    Raises:
        ApprovalError: An answer must not be applied. Nothing ran.
    """
    step = _find(messages)
    if step is None:
        return None
    if secret is not None:
        for one in step.answered:
            check_signature(secret, one.pending.request, one.pending.call)
    for one in step.answered:
        expires_at = one.pending.request.expires_at
        if one.answer.approved and expires_at is not None and now >= expires_at:
            approval_id = one.pending.approval_id
            raise ApprovalExpiredError(
                f"The approval request {approval_id!r} for {one.pending.tool_name!r} has expired. Nothing ran. Deny "
                "it, or give a new prompt.",
                approval_id,
            )
    if passed_over:
        step = OpenStep(step.message_index, step.answered)
    return step if step.answered or step.pending or step.open_calls else None


def _find(messages: Sequence[Message]) -> OpenStep | None:
    at = _last_answer(messages)
    tail = messages[at + 1 :]
    answers = [part for message in tail if isinstance(message, ApprovalMessage) for part in message.content]
    assistant = messages[at] if at >= 0 else None
    # A prompt behind the answer has passed its requests over.
    closed = any(isinstance(message, UserMessage) for message in tail)
    requests: dict[str, PendingApproval] = {}
    calls: list[ToolCallPart] = []
    if isinstance(assistant, AssistantMessage) and not closed:
        calls = list(assistant.tool_calls)
        requests = _requests_of(assistant)
    _check_known(answers, requests, messages[: at + 1])
    if not calls:
        return None
    has_result = _with_result(calls, {one.request.call_index for one in requests.values()}, tail)
    by_id = {answer.approval_id: answer for answer in answers}
    answered: list[AnsweredCall] = []
    pending: list[PendingApproval] = []
    for one in sorted(requests.values(), key=lambda one: one.request.call_index):
        if one.request.call_index in has_result:
            continue
        answer = by_id.get(one.approval_id)
        if answer is None:
            pending.append(one)
        else:
            answered.append(AnsweredCall(one, answer))
    gated = {one.request.call_index for one in requests.values()}
    open_calls = tuple(
        call for n, call in enumerate(calls) if n not in gated and n not in has_result and not call.provider_executed
    )
    return OpenStep(at, tuple(answered), tuple(pending), open_calls)


def _last_answer(messages: Sequence[Message]) -> int:
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage) and not message.failed:
            return at
    return -1


def _requests_of(message: AssistantMessage) -> dict[str, PendingApproval]:
    calls = message.tool_calls
    found: dict[str, PendingApproval] = {}
    for part in message.content:
        if not isinstance(part, ToolApprovalRequestPart):
            continue
        fits = part.call_index < len(calls) and calls[part.call_index].id == part.tool_call_id
        if fits and not calls[part.call_index].provider_executed:
            found[part.approval_id] = PendingApproval(part, calls[part.call_index])
    return found


def _check_known(
    answers: Sequence[ToolApprovalResponsePart], requests: Collection[str], before: Sequence[Message]
) -> None:
    for approval_id, count in Counter(answer.approval_id for answer in answers).items():
        if approval_id not in requests:
            if any(approval_id in _requests_of(m) for m in before if isinstance(m, AssistantMessage)):
                raise ApprovalAnsweredError(
                    f"The approval request {approval_id!r} waits no more: it was answered, or a new prompt passed it "
                    "over. An answer is applied once. Nothing ran.",
                    approval_id,
                )
            raise UnknownApprovalError(
                f"No approval request {approval_id!r} waits in these messages. Waiting: "
                f"{', '.join(map(repr, requests)) or 'none'}. Nothing ran.",
                approval_id,
            )
        if count > 1:
            raise ApprovalAnsweredError(
                f"The approval request {approval_id!r} is answered {count} times. Give one answer. Nothing ran.",
                approval_id,
            )


def _with_result(calls: Sequence[ToolCallPart], gated: Collection[int], tail: Sequence[Message]) -> set[int]:
    """Places of the calls that have a result. Of calls with one id those that needed no approval came first."""
    found: set[int] = set()
    order = sorted(range(len(calls)), key=lambda n: n in gated)
    for message in tail:
        if isinstance(message, ToolResultMessage):
            for n in order:
                if n not in found and calls[n].id == message.tool_call_id:
                    found.add(n)
                    break
    return found
