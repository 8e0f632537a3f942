"""Pieces made of messages: made once, and made anew where the history before them changed."""

from __future__ import annotations

from loopwright.messages import Message, UserMessage
from loopwright.models.memo import MessageMemo


def test_made_once_while_the_history_grows_and_anew_from_where_it_differs() -> None:
    made: list[str] = []

    def make(message: Message) -> str:
        assert isinstance(message, UserMessage)
        made.append(message.text)
        return message.text.upper()

    memo = MessageMemo[str]()
    a, b, c, d = (UserMessage(text) for text in "abcd")
    assert memo.pieces([a, b], make) == ["A", "B"]
    assert memo.pieces([a, UserMessage("b"), c], make) == ["A", "B", "C"]
    assert made == ["a", "b", "c"]
    assert memo.pieces([a, d, c], make) == ["A", "D", "C"]
    assert made == ["a", "b", "c", "d", "c"]
    assert memo.pieces([a], make) == ["A"]
    assert memo.pieces([], make) == []
    assert made == ["a", "b", "c", "d", "c"]
