"""The checker of histories finds each way in which one can be wrong."""

from __future__ import annotations

import pytest

from loopwright.messages import ApprovalMessage, AssistantMessage, Message, ToolCallPart, ToolResultMessage, UserMessage
from loopwright.testing import answer
from loopwright.testing.history import check_history, history_problems

HI = UserMessage("hi")


def asks(*ids: str, finish_reason: str = "tool-calls") -> AssistantMessage:
    return answer(*(ToolCallPart(one, one) for one in ids), finish_reason=finish_reason)


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(call_id, call_id, "ok")


@pytest.mark.parametrize(
    "history",
    [
        [],
        [HI],
        [HI, answer("x")],
        [HI, asks("a"), result("a")],
        [HI, asks("a", "b"), result("a"), result("b"), answer("x"), HI],
        [HI, asks("same"), result("same"), asks("same"), result("same")],
        [HI, asks("same", "same"), result("same"), result("same")],
        [HI, asks("a", finish_reason="error"), HI],
        [HI, asks("a", finish_reason="aborted")],
        [HI, asks("a", finish_reason="length"), result("a")],
        [HI, answer(ToolCallPart("s", "search", provider_executed=True), "x")],
        [HI, answer(ToolCallPart("s", "search", provider_executed=True), ToolCallPart("a", "a")), result("a")],
        [HI, answer("x"), ApprovalMessage(())],
    ],
)
def test_a_valid_history_has_no_problems(history: list[Message]) -> None:
    assert history_problems(history) == []
    check_history(history)


@pytest.mark.parametrize(
    ("history", "problems"),
    [
        ([HI, asks("a")], ["The call 'a' of message 1 has no result."]),
        ([HI, asks("a", "b"), result("b")], ["The call 'a' of message 1 has no result."]),
        ([HI, asks("a"), HI], ["The call 'a' of message 1 has no result."]),
        (
            [HI, asks("a"), HI, result("a")],
            [
                "The call 'a' of message 1 has no result.",
                "Message 3 is a result of 'a', which no call before it waits for.",
            ],
        ),
        ([HI, asks("a"), result("a"), result("a")], ["Message 1 has a result too many for 'a'."]),
        ([HI, asks("same", "same"), result("same")], ["The call 'same' of message 1 has no result."]),
        (
            [HI, asks("a", "b"), result("b"), result("a")],
            ["The results after message 1 are not in the order of its calls: ['b', 'a']."],
        ),
        ([result("a"), HI], ["Message 0 is a result of 'a', which no call before it waits for."]),
        ([HI, result("a")], ["Message 1 is a result of 'a', which no call before it waits for."]),
        ([HI, asks("a", finish_reason="error"), result("a")], ["Message 1 has a result too many for 'a'."]),
        (
            [HI, answer(ToolCallPart("s", "search", provider_executed=True)), result("s")],
            ["Message 1 has a result too many for 's'."],
        ),
        (
            [HI, asks("a"), result("b")],
            ["The call 'a' of message 1 has no result.", "Message 1 has a result too many for 'b'."],
        ),
        ([asks("a"), asks("b"), result("b")], ["The call 'a' of message 0 has no result."]),
    ],
)
def test_each_fault_is_named(history: list[Message], problems: list[str]) -> None:
    assert history_problems(history) == problems
    with pytest.raises(AssertionError, match="The history is not valid") as caught:
        check_history(history)
    for problem in problems:
        assert problem in str(caught.value)


def test_calls_that_wait_for_the_host_may_be_open() -> None:
    history: list[Message] = [HI, asks("a", "b"), result("a")]
    assert history_problems(history, open_calls=["b"]) == []
    assert history_problems(history, open_calls=["a"]) == ["The call 'b' of message 1 has no result."]
    check_history([HI, asks("b")], open_calls={"b"})
