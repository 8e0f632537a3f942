"""Arguments are checked, and what does not fit is told to the model and never run."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator
from pydantic_core import from_json, to_json

from loopwright.errors import ToolInputError
from loopwright.messages import ToolCallPart
from loopwright.tools import Tool, tool
from loopwright.tools.parse import find_tool, unknown_tool_message


class Order(BaseModel):
    id: int
    lines: list[int] = []


@tool
def take(a: int = 1, b: float = 1.0, c: str = "", order: Order | None = None, anything: Any = None) -> None:
    """Every parameter has a default."""


by_hand = Tool("by_hand", execute=lambda **arguments: None)

SURROGATE = "\ud800"


@pytest.mark.parametrize("made", [take, by_hand])
@pytest.mark.parametrize("arguments", ["", "  \n", "null", " null ", "{}", " {} "])
def test_no_arguments(made: Tool, arguments: str) -> None:
    assert made.validate(arguments) == {}


@pytest.mark.parametrize("made", [take, by_hand])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"a": 1', "Invalid JSON"),
        ('{"a": 1,}', "Invalid JSON"),
        ('{"a": 1} and more', "Invalid JSON"),
        ('{"a": 1}{"a": 2}', "Invalid JSON"),
        ("{'a': 1}", "Invalid JSON"),
        ("{a: 1}", "Invalid JSON"),
        ('{"a": 01}', "Invalid JSON"),
        ('```json\n{"a": 1}\n```', "Invalid JSON"),
        ("a=1", "Invalid JSON"),
        ("[]", "Input should be an object"),
        ("[1]", "Input should be an object"),
        ('"{}"', "Input should be an object"),
        ("7", "Input should be an object"),
        ("true", "Input should be an object"),
        ('{"c": "\\ud800"}', "Invalid JSON"),
        ('{"anything": ' + "[" * 10_000 + "]" * 10_000 + "}", "Invalid JSON: recursion limit exceeded"),
        ('{"anything": ' + "[" * 10_000, "Invalid JSON"),
        ('{"a": ' + "9" * 10_000 + "}", "Invalid JSON: number out of range"),
        ('{"anything": ' + "9" * 10_000 + "}", "Invalid JSON: number out of range"),
    ],
)
def test_what_is_no_json_object_is_refused(made: Tool, arguments: str, problem: str) -> None:
    with pytest.raises(ToolInputError) as caught:
        made.validate(arguments)
    assert problem in str(caught.value)
    assert f"The arguments of '{made.name}' are not valid, so it was not run" in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("made", [take, by_hand])
def test_lone_surrogates_in_the_text_are_refused_and_the_message_can_be_sent(made: Tool) -> None:
    with pytest.raises(ToolInputError) as caught:
        made.validate(f'{{"c": "{SURROGATE}"}}')
    str(caught.value).encode()
    assert "nicode" in str(caught.value) or "surrogates" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ('{"a": "many"}', [("a", "Input should be a valid integer, unable to parse string as an integer")]),
        ('{"a": 1.5}', [("a", "Input should be a valid integer, got a number with a fractional part")]),
        ('{"a": null}', [("a", "Input should be a valid integer")]),
        ('{"c": 5}', [("c", "Input should be a valid string")]),
        ('{"z": 5}', [("z", "Extra inputs are not permitted")]),
        ('{"b": NaN}', [("b", "Input should be a finite number")]),
        ('{"b": "NaN"}', [("b", "Input should be a finite number")]),
        ('{"b": "Infinity"}', [("b", "Input should be a finite number")]),
        ('{"b": 1e999}', [("b", "Input should be a finite number")]),
        ('{"order": {"lines": [1, "x"]}}', [("order.id", "Field required"), ("order.lines.1", None)]),
        ('{"a": "x", "c": 1, "z": 0}', [("a", None), ("c", None), ("z", None)]),
    ],
)
def test_all_problems_are_told_with_their_paths(arguments: str, problems: list[tuple[str, str | None]]) -> None:
    with pytest.raises(ToolInputError) as caught:
        take.validate(arguments)
    assert [path for path, _ in caught.value.errors] == [path for path, _ in problems]
    for (path, told), (_, expected) in zip(caught.value.errors, problems, strict=True):
        assert expected is None or told == expected
        assert f"- {path}: {told}" in str(caught.value)
    assert f"Received: {arguments}\n" in str(caught.value)


def test_what_was_received_is_cut() -> None:
    with pytest.raises(ToolInputError) as caught:
        take.validate('{"a": "' + "x" * 100_000 + '"}')
    assert "(100009 characters)" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_many_problems_and_long_names_are_cut() -> None:
    with pytest.raises(ToolInputError) as caught:
        take.validate('{"order": {"id": 1, "lines": [' + ",".join(['"x"'] * 5000) + "]}}")
    assert len(caught.value.errors) == 5000
    assert "- and 4980 more" in str(caught.value)
    assert "order.lines.19:" in str(caught.value)
    assert "order.lines.20:" not in str(caught.value)
    with pytest.raises(ToolInputError) as caught:
        take.validate('{"' + "k" * 100_000 + '": 1}')
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("made", [take, by_hand])
def test_of_a_key_that_stands_twice_the_last_value_counts_everywhere(made: Tool) -> None:
    text = '{"a": 1, "a": 2}'
    assert made.validate(text) == {"a": 2} == ToolCallPart("1", "take", text).input


def test_conversion() -> None:
    assert take.validate('{"a": "12", "b": "1.5"}') == {"a": 12, "b": 1.5}
    assert take.validate('{"order": {"id": "7"}}') == {"order": Order(id=7)}
    assert take.validate('{"anything": {"a": [1, null, "x"]}}') == {"anything": {"a": [1, None, "x"]}}


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "order", "anything", "z"]), st.none() | st.integers() | st.text())
)
def test_bad_input_raises_nothing_but_its_error(arguments: dict[str, Any]) -> None:
    text = to_json(arguments).decode()
    try:
        values = take.validate(text)
    except ToolInputError as error:
        assert error.errors
    else:
        assert set(values) == set(from_json(text))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for made in (take, by_hand):
        try:
            assert isinstance(made.validate(text), dict)
        except ToolInputError as error:
            str(error).encode()


def explode(value: Any) -> Any:
    raise KeyError("the user's own mistake")


def test_a_validator_that_breaks_is_an_input_error() -> None:
    @tool
    def check(a: Annotated[int, BeforeValidator(explode)]) -> None: ...

    with pytest.raises(ToolInputError, match="the user's own mistake") as caught:
        check.validate('{"a": 1}')
    assert isinstance(caught.value.__cause__, KeyError)


# ---------------------------------------------------------------- tools made by hand


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {}},
    "required": ["a"],
    "additionalProperties": False,
}


def test_a_hand_made_schema_holds_for_names_only() -> None:
    made = Tool("t", "", SCHEMA, execute=print)
    assert made.validate('{"a": "not checked"}') == {"a": "not checked"}
    with pytest.raises(ToolInputError) as caught:
        made.validate('{"c": 1, "d": 2}')
    assert caught.value.errors == (
        ("a", "Field required"),
        ("c", "Extra inputs are not permitted"),
        ("d", "Extra inputs are not permitted"),
    )
    with pytest.raises(ToolInputError, match="Invalid JSON"):
        made.validate('{"a": NaN}')


def test_a_check_of_ones_own() -> None:
    def check(arguments: dict[str, Any]) -> dict[str, Any] | None:
        if arguments["a"] == 0:
            raise ValueError("a: must not be 0")
        if arguments["a"] == 1:
            raise KeyError
        if arguments["a"] == 2:
            raise ToolInputError("mine")
        return {"a": arguments["a"] * 10} if arguments["a"] == 3 else None

    made = Tool("t", "", SCHEMA, execute=print, validate=check)
    with pytest.raises(ToolInputError, match="a: must not be 0"):
        made.validate('{"a": 0}')
    with pytest.raises(ToolInputError, match="could not be checked: KeyError"):
        made.validate('{"a": 1}')
    with pytest.raises(ToolInputError, match="^mine$"):
        made.validate('{"a": 2}')
    assert made.validate('{"a": 3}') == {"a": 30}
    assert made.validate('{"a": 4}') == {"a": 4}


# ---------------------------------------------------------------- names


def test_T67_unknown_names() -> None:
    tools = [Tool(f"tool_{n}") for n in range(25)]
    told = unknown_tool_message("nope", tools)
    assert told.startswith("There is no tool named 'nope'. Nothing was executed.")
    assert "the first 20 of 25" in told
    assert told.endswith(", ".join(f"tool_{n}" for n in range(20)) + ". Use the exact name.")
    few = unknown_tool_message("nope", {t.name: t for t in tools[:20]})
    assert "first" not in few
    assert "tool_19. Use the exact name." in few
    none = unknown_tool_message("nope", [])
    assert none == (
        "There is no tool named 'nope'. Nothing was executed. No tools are available now; answer without calling tools."
    )


def test_T68_wrapper_shaped_names() -> None:
    for name in ("multi_tool_use.parallel", "parallel", "functions.tool_1"):
        told = unknown_tool_message(name, [Tool("tool_1")])
        assert "Calls cannot be wrapped" in told
        assert "Nothing was executed" in told


def test_hostile_names_are_cut_and_can_be_sent() -> None:
    told = unknown_tool_message("x" * 100_000 + SURROGATE, [])
    assert len(told) < 500
    unknown_tool_message(f"a{SURROGATE}\n", []).encode()


def test_find_tool() -> None:
    one, two = Tool("one"), Tool("two")
    assert find_tool("two", [one, two]) is two
    assert find_tool("two", {"one": one, "two": two}) is two
    for name in ("Two", " two", "functions.two", ""):
        assert find_tool(name, [one, two]) is None
        assert find_tool(name, {"two": two}) is None
