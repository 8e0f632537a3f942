"""What a user interface can tell an agent: `agent.dispatch(action)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from .loop.options import Content
from .settings import NOT_GIVEN

__all__ = ["Action", "Approve", "Cancel", "Deny", "FollowUp", "Reset", "Steer", "Submit"]


@dataclass(frozen=True, slots=True)
class Submit:
    """Say something in the engine's own conversation. It supersedes what is in flight there.

    Attributes:
        prompt: A string or parts.
        context: The run's context object; that of the last run when left out.
    """

    prompt: Content
    context: Any = NOT_GIVEN


@dataclass(frozen=True, slots=True)
class Approve:
    """Let a call run. The conversation goes on once every waiting call is answered.

    Attributes:
        id: The approval id, or the id of the call.
        arguments: Run it with these in place of the model's.
        approver: Who says so.
    """

    id: str
    arguments: dict[str, Any] | str | None = None
    approver: str | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not let a call run.

    Attributes:
        id: The approval id, or the id of the call.
        reason: Told to the model.
        approver: Who says so.
    """

    id: str
    reason: str | None = None
    approver: str | None = None


@dataclass(frozen=True, slots=True)
class Steer:
    """Say something that the model reads before its next request."""

    content: Content


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Say something that the model reads when it would otherwise be done."""

    content: Content


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop every run in flight on the agent, or one.

    Attributes:
        run_id: The run; None for all.
        reason: Told to whoever asks why.
    """

    run_id: str | None = None
    reason: Any = None


@dataclass(frozen=True, slots=True)
class Reset:
    """Stop what is in flight in the engine's own conversation, and forget the conversation."""


Action: TypeAlias = Submit | Approve | Deny | Steer | FollowUp | Cancel | Reset
