"""Checking that a history is valid: an independent reading of the pairing rule, on purpose not the loop's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ..messages import AssistantMessage, Message, ToolResultMessage

__all__ = ["check_history", "history_problems"]


def history_problems(history: Sequence[Message], *, open_calls: Collection[str] = ()) -> list[str]:
    """What is wrong with a history.

    The rule: after an answer that did not fail come the results of its calls, each exactly once and in the order of the
    calls, before anything else; there are no other results.

    Args:
        history: The messages.
        open_calls: Ids of calls that may lack their result, as those of client-side tools.

    Returns:
        One sentence per problem; none when the history is valid.
    """
    problems: list[str] = []
    at = 0
    while at < len(history):
        message = history[at]
        at += 1
        if isinstance(message, ToolResultMessage):
            problems.append(
                f"Message {at - 1} is a result of {message.tool_call_id!r}, which no call before it waits for."
            )
        if not isinstance(message, AssistantMessage):
            continue
        results: list[str] = []
        start = at
        while at < len(history) and isinstance(result := history[at], ToolResultMessage):
            results.append(result.tool_call_id)
            at += 1
        expected = [] if message.failed else [call.id for call in message.tool_calls if not call.provider_executed]
        problems.extend(_compare(expected, results, start, open_calls))
    return problems


def _compare(expected: list[str], results: list[str], start: int, open_calls: Collection[str]) -> list[str]:
    missing = Counter(expected) - Counter(results)
    extra = Counter(results) - Counter(expected)
    problems = [
        f"The call {call_id!r} of message {start - 1} has no result."
        for call_id in missing
        if call_id not in open_calls
    ]
    problems += [f"Message {start - 1} has a result too many for {call_id!r}." for call_id in extra]
    in_order = [call_id for call_id in expected if call_id not in missing]
    if not problems and not missing and results != in_order:
        problems.append(f"The results after message {start - 1} are not in the order of its calls: {results}.")
    return problems


def check_history(history: Sequence[Message], *, open_calls: Collection[str] = ()) -> None:
    """Fail when a history is not valid.

    Raises:
        AssertionError: It says what is wrong.
    """
    problems = history_problems(history, open_calls=open_calls)
    if problems:
        raise AssertionError("The history is not valid:\n" + "\n".join(problems))
