"""What tools return becomes content and details."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr, model_serializer

from loopwright.messages import FilePart, ImagePart, TextPart
from loopwright.tools import Tool, ToolOutput, ToolOutputError
from loopwright.tools.result import to_result

IMAGE = ImagePart(b"\x89PNG\xff", "image/png")
PDF = FilePart(url="https://example.com/a.pdf")


class Order(BaseModel):
    id: int
    total: Decimal = Decimal("1.10")


@dataclass
class Point:
    x: int
    day: date


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):  # noqa: UP042
    YES = "yes"


def told(value: Any, **options: Any) -> tuple[Any, Any]:
    content, details = to_result(value, Tool("t", **options))
    return content, details


def text(value: Any, **options: Any) -> str:
    (part,), _ = told(value, **options)
    return part.text


@pytest.mark.parametrize("value", ["", "found", "naïve 🎉", '{"a": 1}', "NaN"])
def test_text_stays_as_it_is(value: str) -> None:
    assert told(value) == ((TextPart(value),), None)


def test_none_is_done() -> None:
    assert told(None) == ((TextPart("Done."),), None)


def test_a_str_enum_is_its_text() -> None:
    assert told(Word.YES) == ((TextPart("yes"),), None)
    assert type(text(Word.YES)) is str


@pytest.mark.parametrize(
    ("value", "json", "details"),
    [
        (7, "7", 7),
        (1.5, "1.5", 1.5),
        (True, "true", True),
        ([], "[]", []),
        ({}, "{}", {}),
        (["a", "b"], '["a","b"]', ["a", "b"]),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}', {"a": [1, None, "ü"]}),
        ({1: "a", None: "b"}, '{"1":"a","None":"b"}', {"1": "a", "None": "b"}),
        ((1, 2), "[1,2]", [1, 2]),
        ({3}, "[3]", [3]),
        (b"bytes", '"bytes"', "bytes"),
        (Decimal("1.10"), '"1.10"', "1.10"),
        (datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02T03:04:05"', "2026-01-02T03:04:05"),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"', "00000000-0000-0000-0000-000000000001"),
        (Path("/a"), '"/a"', "/a"),
        (Colour.RED, '"red"', "red"),
        (Order(id=1), '{"id":1,"total":"1.10"}', {"id": 1, "total": "1.10"}),
        ([Order(id=1)], '[{"id":1,"total":"1.10"}]', [{"id": 1, "total": "1.10"}]),
        (Point(1, date(2026, 1, 2)), '{"x":1,"day":"2026-01-02"}', {"x": 1, "day": "2026-01-02"}),
        ({"key": SecretStr("hidden")}, '{"key":"**********"}', {"key": "**********"}),
        ({"NaN": "Infinity"}, '{"NaN":"Infinity"}', {"NaN": "Infinity"}),
    ],
)
def test_values_become_json_and_details(value: Any, json: str, details: Any) -> None:
    assert told(value) == ((TextPart(json),), details)


def test_an_iterator_is_read_once() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    assert told(numbers()) == ((TextPart("[1,2]"),), [1, 2])


def test_details_are_detached_from_what_the_tool_keeps() -> None:
    kept = {"a": [1]}
    _, details = told(kept)
    kept["a"].append(2)
    assert details == {"a": [1]}


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (TextPart("a"), (TextPart("a"),)),
        (IMAGE, (IMAGE,)),
        (PDF, (PDF,)),
        ([TextPart("see"), IMAGE], (TextPart("see"), IMAGE)),
        ((IMAGE, "that was it", PDF), (IMAGE, TextPart("that was it"), PDF)),
    ],
)
def test_T70_parts_stay_as_they_are(value: Any, content: Any) -> None:
    assert told(value) == (content, None)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([IMAGE, 5], "int among parts"),
        ([None, IMAGE], "NoneType among parts"),
        (ImagePart(), "ImagePart that cannot be sent"),
        (ImagePart(b"x"), "give it data with a media_type, or a url"),
        (FilePart(b"x", "text/plain", url="https://x.y"), "FilePart that cannot be sent"),
        ([TextPart("\ud800")], "lone surrogates"),
    ],
)
def test_parts_that_cannot_be_sent_are_refused(value: Any, words: str) -> None:
    with pytest.raises(ToolOutputError, match="^The tool 't' returned") as caught:
        told(value)
    assert words in str(caught.value)


# ---------------------------------------------------------------- two faces


def test_tool_output_has_two_faces() -> None:
    assert told(ToolOutput("short", {"rows": [1, 2]})) == ((TextPart("short"),), {"rows": [1, 2]})
    assert told(ToolOutput([IMAGE], Order(id=1))) == ((IMAGE,), {"id": 1, "total": "1.10"})
    assert told(ToolOutput("short")) == ((TextPart("short"),), None)
    assert told(ToolOutput({"a": 1}, 0)) == ((TextPart('{"a":1}'),), 0)


@pytest.mark.parametrize(
    ("value", "shown", "content", "details"),
    [
        (Order(id=1), lambda order: f"order {order.id}", (TextPart("order 1"),), {"id": 1, "total": "1.10"}),
        (Order(id=1), lambda order: {"id": order.id}, (TextPart('{"id":1}'),), {"id": 1, "total": "1.10"}),
        ("a long text", lambda value: value[:6], (TextPart("a long"),), "a long text"),
        (7, lambda value: None, (TextPart("Done."),), 7),
        (7, lambda value: [IMAGE], (IMAGE,), 7),
        (None, lambda value: "nothing", (TextPart("nothing"),), None),
    ],
)
def test_to_model_output(value: Any, shown: Any, content: Any, details: Any) -> None:
    assert told(value, to_model_output=shown) == (content, details)


def test_to_model_output_of_parts_keeps_them_in_the_details() -> None:
    content, details = told([IMAGE], to_model_output=lambda parts: f"{len(parts)} image")
    assert content == (TextPart("1 image"),)
    assert details[0]["data"] == "iVBOR_8="


def test_tool_output_is_not_given_to_to_model_output() -> None:
    assert told(ToolOutput("mine", 1), to_model_output=lambda value: "other") == ((TextPart("mine"),), 1)


def test_what_to_model_output_raises_comes_out() -> None:
    def fail(value: Any) -> Any:
        raise LookupError("no view")

    with pytest.raises(LookupError, match="no view"):
        told(1, to_model_output=fail)


# ---------------------------------------------------------------- what cannot be told


class Handle: ...


class Broken(BaseModel):
    @model_serializer
    def serialise(self) -> Any:
        raise KeyError("broken")


def cycle() -> Any:
    items: list[Any] = []
    items.append(items)
    return items


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Handle(), ["returned Handle", "Return text, parts, a pydantic model, a dataclass, or plain lists and dicts"]),
        ({"a": Handle()}, ["returned dict", "Handle"]),
        (ValueError("x"), ["returned ValueError"]),
        (Handle, ["returned type"]),
        (Broken(), ["returned Broken", "broken"]),
        (cycle(), ["returned list", "Circular reference"]),
        (deep(5000), ["returned list"]),
        (deep(220), ["returned list", "nested too deep"]),
        (math.nan, ["returned float", "NaN", "Return None or text"]),
        ({"a": [math.inf]}, ["returned dict", "NaN or infinity"]),
        (-math.inf, ["returned float"]),
        (b"\xff", ["returned bytes", "utf-8"]),
        ("\ud800", ["returned text with lone surrogates", "errors='replace'"]),
        ({"a": "\ud800"}, ["returned dict", "surrogates"]),
        ({"\ud800": 1}, ["returned dict", "surrogates"]),
        ([10**5000], ["returned list"]),
        (ToolOutput(Handle()), ["returned Handle"]),
        (ToolOutput("x", Handle()), ["returned Handle"]),
    ],
)
def test_what_cannot_be_told_is_a_clear_error(value: Any, words: list[str]) -> None:
    with pytest.raises(ToolOutputError) as caught:
        told(value)
    for word in ["The tool 't'", *words]:
        assert word in str(caught.value)
    str(caught.value).encode()


async def test_a_coroutine_that_nobody_awaited_is_a_clear_error() -> None:
    async def later() -> None: ...

    with pytest.raises(ToolOutputError, match="coroutine that nobody awaited. Await it"):
        told(later())


# ---------------------------------------------------------------- the cap


def test_long_text_is_cut_with_a_note() -> None:
    assert text("x" * 30, max_result_chars=10) == (
        "x" * 10 + "\n[Cut here: the result has 30 characters, of which the first 10 are shown.]"
    )
    assert text("x" * 10, max_result_chars=10) == "x" * 10


def test_the_cap_counts_all_text_and_leaves_other_parts_alone() -> None:
    content, _ = told([TextPart("a" * 6), IMAGE, TextPart("b" * 6), TextPart("c"), PDF], max_result_chars=8)
    note = "\n[Cut here: the result has 13 characters, of which the first 8 are shown.]"
    assert content == (TextPart("a" * 6), IMAGE, TextPart("bb" + note), PDF)
    content, _ = told([TextPart("a" * 8), TextPart("b")], max_result_chars=8)
    assert content[1].text == "\n[Cut here: the result has 9 characters, of which the first 8 are shown.]"


def test_details_are_not_cut() -> None:
    (part,), details = told(list(range(100)), max_result_chars=5)
    assert part.text.startswith("[0,1,\n[Cut here")
    assert details == list(range(100))
