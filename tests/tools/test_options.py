"""Names and options that cannot work are refused, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.errors import InvalidArgumentError
from loopwright.tools import Tool, tool


async def later(value: Any) -> Any:
    return value


def decorate(**options: Any) -> Any:
    return tool(name="t", **options)(lambda: None)


def by_hand(**options: Any) -> Any:
    return Tool("t", **options)


def replaced(**options: Any) -> Any:
    return Tool("t").replace(**options)


@pytest.mark.parametrize("make", [decorate, by_hand, replaced])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequential": 1}, "sequential must be a bool, not 1"),
        ({"timeout": 0}, "timeout must be a positive number of seconds or None, not 0"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"timeout": float("inf")}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"max_result_chars": 0}, "max_result_chars must be a positive whole number or None, not 0"),
        ({"max_result_chars": True}, "max_result_chars must be"),
        ({"to_model_output": later}, "to_model_output must be a function that is not async"),
        ({"description": 5}, "description must be text, not 5"),
        ({"nmae": "x"}, "there is no option 'nmae' (there are: "),
    ],
)
def test_bad_options_are_refused(make: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(**options)
    assert words in str(caught.value)
    assert "'t'" in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        by_hand(timeout=-1, sequential=None, oops=1)
    assert all(word in str(caught.value) for word in ("timeout", "sequential", "oops"))


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 65, "a\n", None, 5])
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="models take letters, digits"):
        Tool(name)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_good_names_are_taken(name: str) -> None:
    assert Tool(name).name == name


@pytest.mark.parametrize("make", [decorate, by_hand, replaced])
def test_options_are_kept(make: Any) -> None:
    made = make(sequential=True, timeout=2, max_result_chars=9, to_model_output=str)
    assert (made.sequential, made.timeout, made.max_result_chars, made.to_model_output) == (True, 2, 9, str)


@pytest.mark.parametrize("make", [decorate, by_hand, replaced])
def test_options_that_are_not_given_have_defaults(make: Any) -> None:
    made = make()
    assert (made.sequential, made.timeout, made.max_result_chars, made.to_model_output) == (False, None, None, None)
