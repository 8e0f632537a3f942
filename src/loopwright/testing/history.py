"""Checking that a history is valid: an independent reading of the pairing rule, on purpose not the loop's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ..messages import ApprovalMessage, AssistantMessage, Message, ToolResultMessage

__all__ = ["check_history", "history_problems"]


def history_problems(history: Sequence[Message], *, open_calls: Collection[str] = ()) -> list[str]:
    """What is wrong with a history.

    The rule: after an answer that did not fail come the results of its calls, each exactly once and in the order of the
    calls, before the next user or assistant message; there are no other results. Answers to approval requests may stand
    between results: the calls that they let run begin the order anew.

    Args:
        history: The messages.
        open_calls: Ids of calls that may lack their result, or have it out of order: those of client-side tools, and
            those that wait for approval.

    Returns:
        One sentence per problem; none when the history is valid.
    """
    problems: list[str] = []
    latest: _Answer | None = None
    for at, message in enumerate(history):
        if isinstance(message, ApprovalMessage):
            if latest is not None:
                latest.batches.append([])
        elif not isinstance(message, ToolResultMessage):
            if latest is not None:
                problems += latest.problems(open_calls)
            latest = _Answer(message, at) if isinstance(message, AssistantMessage) else None
        elif latest is not None:
            latest.batches[-1].append(message.tool_call_id)
        else:
            problems.append(f"Message {at} is a result of {message.tool_call_id!r}, which no call before it waits for.")
    if latest is not None:
        problems += latest.problems(open_calls)
    return problems


class _Answer:
    """An assistant message, and the ids of the results that follow it: one list up to each approval message."""

    __slots__ = ("at", "batches", "calls")

    def __init__(self, message: AssistantMessage, at: int) -> None:
        self.at = at
        self.calls = [] if message.failed else [call.id for call in message.tool_calls if not call.provider_executed]
        self.batches: list[list[str]] = [[]]

    def problems(self, open_calls: Collection[str]) -> list[str]:
        expected, found = Counter(self.calls), Counter(call_id for batch in self.batches for call_id in batch)
        missing = [call_id for call_id in expected - found if call_id not in open_calls]
        problems = [f"The call {call_id!r} of message {self.at} has no result." for call_id in missing]
        problems += [f"Message {self.at} has a result too many for {call_id!r}." for call_id in found - expected]
        if problems:
            return problems
        return [
            f"The results after message {self.at} are not in the order of its calls: {batch}."
            for batch in self.batches
            if not _is_subsequence([call_id for call_id in batch if call_id not in open_calls], self.calls)
        ]


def _is_subsequence(some: Sequence[str], all_of_them: Sequence[str]) -> bool:
    rest = iter(all_of_them)
    return all(one in rest for one in some)


def check_history(history: Sequence[Message], *, open_calls: Collection[str] = ()) -> None:
    """Fail when a history is not valid.

    Args:
        history: The messages.
        open_calls: As for `history_problems`.

    Raises:
        AssertionError: It says what is wrong.
    """
    problems = history_problems(history, open_calls=open_calls)
    if problems:
        raise AssertionError("The history is not valid:\n" + "\n".join(problems))
