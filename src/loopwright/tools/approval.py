"""Asking a person before a call runs: the request, its signature, the answer, and the ledger of answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ..errors import ApprovalSignatureError
from ..messages import ApprovalMessage, ToolApprovalRequestPart, ToolApprovalResponsePart, ToolCallPart

__all__ = [
    "ApprovalDecision",
    "ApprovalLedger",
    "Denial",
    "InMemoryApprovalLedger",
    "PendingApproval",
    "approvals",
    "check_signature",
    "sign",
]

_DOMAIN = b"loopwright/tool-approval/1"


@dataclass(frozen=True, slots=True)
class Denial:
    """A call must not run.

    Attributes:
        reason: Told to the model; None for no reason.
    """

    reason: str | None = None


ApprovalDecision: TypeAlias = Literal["approve", "deny", "ask"] | Denial | None
"""What `approve` says of a call: run it, deny it (with a reason: `Denial`), ask a person; None leaves it to the tool's
own `needs_approval`."""


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call that waits for a person.

    Attributes:
        request: The request, as it stands on the assistant message.
        call: The call.
    """

    request: ToolApprovalRequestPart
    call: ToolCallPart

    @property
    def approval_id(self) -> str:
        """Names the request in an answer."""
        return self.request.approval_id

    @property
    def tool_name(self) -> str:
        """The tool that would run."""
        return self.call.name

    @property
    def input(self) -> dict[str, Any] | None:
        """The arguments as an object."""
        return self.call.input

    def approve(
        self, *, arguments: dict[str, Any] | str | None = None, approver: str | None = None
    ) -> ToolApprovalResponsePart:
        """The answer yes.

        Args:
            arguments: Run it with these in place of the model's: an object, or its JSON text.
            approver: Who says so.
        """
        text = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments
        return ToolApprovalResponsePart(
            self.approval_id, approved=True, arguments=text, approver=approver, answered_at=time.time()
        )

    def deny(self, reason: str | None = None, *, approver: str | None = None) -> ToolApprovalResponsePart:
        """The answer no.

        Args:
            reason: Told to the model.
            approver: Who says so.
        """
        return ToolApprovalResponsePart(
            self.approval_id, approved=False, reason=reason, approver=approver, answered_at=time.time()
        )


def approvals(*answers: ToolApprovalResponsePart) -> ApprovalMessage:
    """The message that answers approval requests: append it to the messages of the result, and go on.

    Args:
        answers: Made with `PendingApproval.approve` and `.deny`, or `ToolApprovalResponsePart(id, approved)`.
    """
    return ApprovalMessage(answers, created_at=time.time())


# ---------------------------------------------------------------- signatures


def sign(secret: bytes, request: ToolApprovalRequestPart, call: ToolCallPart) -> str:
    """The signature of a request: HMAC-SHA-256, base64url without padding.

    Covered are the approval id (which names run, step and call), the call's id, place, name and input, and the expiry.
    The input counts as canonical JSON (keys sorted, no spaces), so the order of keys does not matter.

    Args:
        secret: The key.
        request: The request; its own signature does not count.
        call: The call that it is for.
    """
    arguments = call.input
    covered = [
        request.approval_id,
        request.tool_call_id,
        request.call_index,
        request.expires_at,
        call.name,
        call.arguments if arguments is None else arguments,
        call.custom,
    ]
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hmac.new(secret, _DOMAIN + b"\0" + text.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def check_signature(secret: bytes, request: ToolApprovalRequestPart, call: ToolCallPart) -> None:
    """Refuse a request that was not signed, or is not what was signed.

    Raises:
        ApprovalSignatureError: It says which of the two.
    """
    given = request.signature
    if given is None:
        raise ApprovalSignatureError(
            f"The approval request {request.approval_id!r} carries no signature, and this agent signs its requests. It "
            "was not made by it, or not with this approval_secret. Nothing ran.",
            request.approval_id,
        )
    if not hmac.compare_digest(given.encode("utf-8", "replace"), sign(secret, request, call).encode()):
        raise ApprovalSignatureError(
            f"The signature of the approval request {request.approval_id!r} does not fit: the request or its call was "
            "changed since, or was signed with another approval_secret. Nothing ran.",
            request.approval_id,
        )


# ---------------------------------------------------------------- single use


class ApprovalLedger(Protocol):
    """Remembers which requests were answered, so that an answer is applied once.

    Also when the same saved messages are resumed twice at once. Hosts of several processes bring one that these share.
    """

    async def claim(self, approval_ids: Sequence[str]) -> Sequence[str]:
        """Mark requests as answered: all of them in one atomic step, or none.

        Returns:
            Those that were marked before; then nothing was changed. Empty when all are marked now.
        """
        ...


class InMemoryApprovalLedger:
    """An `ApprovalLedger` for one process. Works from any thread."""

    def __init__(self) -> None:
        self._claimed: set[str] = set()
        self._lock = threading.Lock()

    async def claim(self, approval_ids: Sequence[str]) -> Sequence[str]:
        """Mark requests as answered: all, or none when one was before."""
        with self._lock:
            before = [approval_id for approval_id in approval_ids if approval_id in self._claimed]
            if not before:
                self._claimed.update(approval_ids)
        return before
