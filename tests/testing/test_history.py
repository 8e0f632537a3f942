"""The pairing rule, as a test may ask for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import calls

from loopwright.messages import (
    ApprovalMessage,
    Message,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.testing import answer
from loopwright.testing.history import check_history, history_problems

HI = UserMessage("hi")
YES = ApprovalMessage((ToolApprovalResponsePart("ap", True),))
SERVED = ToolCallPart("s", "search", provider_executed=True)


def results(*call_ids: str) -> list[ToolResultMessage]:
    return [ToolResultMessage(call_id, call_id, "ok") for call_id in call_ids]


def asking(*names: str, **fields: Any) -> Message:
    return answer(*calls(*names), **fields)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [HI],
        [HI, answer("x")],
        [HI, asking("a", "b"), *results("a", "b"), answer("x"), HI],
        [HI, asking("a"), *results("a"), asking("a"), *results("a")],
        [HI, asking("a", "a"), *results("a", "a")],
        [HI, answer(SERVED, *calls("a")), *results("a")],
        [HI, answer(SERVED), HI],
        [HI, asking("a", finish_reason="error"), HI],
        [HI, asking("a", "b", finish_reason="length"), *results("a", "b")],
        [HI, asking("a", finish_reason="aborted")],
        [HI, answer("x"), ApprovalMessage(())],
        [HI, YES, HI, YES],
        [HI, asking("a", "b", "c"), *results("a", "c"), YES, *results("b"), answer("x")],
        [HI, asking("a", "b", "c"), *results("c"), YES, *results("b"), YES, *results("a")],
    ],
)
def test_a_valid_history_has_no_problems(history: list[Message]) -> None:
    assert history_problems(history) == []
    check_history(history)


@pytest.mark.parametrize(
    ("history", "problems"),
    [
        ([HI, asking("a")], ["The call 'a' of message 1 has no result."]),
        ([HI, asking("a", "b"), *results("b"), HI], ["The call 'a' of message 1 has no result."]),
        (
            [HI, asking("a"), HI, *results("a")],
            [
                "The call 'a' of message 1 has no result.",
                "Message 3 is a result of 'a', which no call before it waits for.",
            ],
        ),
        ([*results("a"), HI], ["Message 0 is a result of 'a', which no call before it waits for."]),
        ([HI, answer("x"), *results("a")], ["Message 1 has a result too many for 'a'."]),
        ([HI, *results("a")], ["Message 1 is a result of 'a', which no call before it waits for."]),
        ([HI, asking("a"), HI], ["The call 'a' of message 1 has no result."]),
        ([HI, asking("a"), *results("a", "a")], ["Message 1 has a result too many for 'a'."]),
        ([HI, asking("a", "a"), *results("a")], ["The call 'a' of message 1 has no result."]),
        ([HI, asking("a"), *results("b")], [
            "The call 'a' of message 1 has no result.", "Message 1 has a result too many for 'b'.",
        ]),
        ([HI, asking("a", finish_reason="error"), *results("a")], ["Message 1 has a result too many for 'a'."]),
        ([HI, asking("a", finish_reason="aborted"), *results("a")], ["Message 1 has a result too many for 'a'."]),
        ([HI, answer(SERVED), *results("s")], ["Message 1 has a result too many for 's'."]),
        ([HI, asking("a"), *results("a"), YES, *results("a")], ["Message 1 has a result too many for 'a'."]),
        (
            [HI, asking("a", "b"), *results("b", "a")],
            ["The results after message 1 are not in the order of its calls: ['b', 'a']."],
        ),
        (
            [HI, asking("a", "b", "c"), *results("b", "a"), YES, *results("c")],
            ["The results after message 1 are not in the order of its calls: ['b', 'a']."],
        ),
        (
            [HI, asking("a"), asking("a"), *results("a")],
            ["The call 'a' of message 1 has no result."],
        ),
    ],
)  # fmt: skip
def test_each_problem_is_named_with_its_place(history: list[Message], problems: list[str]) -> None:
    assert history_problems(history) == problems
    with pytest.raises(AssertionError, match="The history is not valid:\n") as caught:
        check_history(history)
    assert str(caught.value).splitlines()[1:] == problems


def test_T138_an_open_call_may_lack_its_result_and_its_siblings_may_not() -> None:
    history = [HI, asking("client", "a", "b"), *results("a", "b")]
    check_history(history, open_calls=["client"])
    assert history_problems(history[:-1], open_calls=["client"]) == ["The call 'b' of message 1 has no result."]
    assert "The call 'client'" in history_problems(history, open_calls=["a"])[0]
    swapped = [HI, asking("client", "a", "b"), *results("b", "a")]
    assert "not in the order" in history_problems(swapped, open_calls=["client"])[0]


def test_T138_an_open_call_may_be_answered_late_and_only_once() -> None:
    history = [HI, asking("client", "a"), *results("a", "client")]
    check_history(history, open_calls={"client"})
    assert history_problems([*history, *results("client")], open_calls={"client"}) == [
        "Message 1 has a result too many for 'client'."
    ]


def test_all_problems_of_a_history_are_told() -> None:
    history = [*results("o"), asking("a"), HI, asking("b"), *results("b", "b")]
    assert len(history_problems(history)) == 3


ids = st.sampled_from(["a", "b", "c"])
turns = st.lists(
    st.one_of(
        st.just([HI]),
        st.lists(ids, max_size=4).map(lambda names: [asking(*names), *results(*names)]),
        st.lists(ids, max_size=2).map(lambda names: [asking(*names, finish_reason="error")]),
    ),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(turns, st.data())
def test_no_change_of_the_results_goes_unseen(made: list[list[Message]], data: st.DataObject) -> None:
    history = [message for turn in made for message in turn]
    assert history_problems(history) == []
    places = [at for at, message in enumerate(history) if isinstance(message, ToolResultMessage)]
    if not places:
        return
    at = data.draw(st.sampled_from(places))
    result = history[at]
    assert history_problems([*history[:at], *history[at + 1 :]])
    assert history_problems([*history[:at], result, *history[at:]])
    assert history_problems([*history[:at], HI, *history[at:]])
    assert history_problems([result, *history])
