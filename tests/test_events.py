"""Events: three vocabularies of slotted data, each kind told apart by its type."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args

import pytest

from loopwright import events as module
from loopwright.errors import RunCancelled
from loopwright.events import Abort, Error, ErrorInfo, LoopEvent, ModelEvent, ResponseError, StreamPart, TextDelta
from loopwright.messages import AssistantMessage

ALL = list(dict.fromkeys([*get_args(ModelEvent), *get_args(LoopEvent), *get_args(StreamPart)]))


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_each_is_slotted_data_that_names_its_type(cls: Any) -> None:
    assert is_dataclass(cls)
    assert "__dict__" not in dir(cls)
    last = fields(cls)[-1]
    assert last.name == "type"
    assert last.default == "".join(f"-{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("-")
    assert cls.__doc__


def test_types_are_distinct_and_all_are_exported() -> None:
    types = [fields(cls)[-1].default for cls in ALL]
    assert len(set(types)) == len(types)
    exported = {name for name in module.__all__ if isinstance(getattr(module, name), type)}
    assert exported == {cls.__name__ for cls in ALL} | {"ErrorInfo"}


def test_text_reasoning_and_tool_input_are_the_same_objects_in_both_vocabularies() -> None:
    shared = set(get_args(ModelEvent)) & set(get_args(StreamPart))
    assert {cls.__name__ for cls in shared} == {
        *(f"{kind}{end}" for kind in ("Text", "Reasoning", "ToolInput") for end in ("Start", "Delta", "End")),
        "Source",
        "File",
        "StepReset",
    }


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_no_default_is_shared_between_events(cls: Any) -> None:
    for field in fields(cls):
        assert field.default is MISSING or field.default is None or isinstance(field.default, str)


def test_an_exception_is_described_as_data() -> None:
    assert ErrorInfo.of(ValueError("no such order")) == ErrorInfo("ValueError", "no such order")
    assert ErrorInfo.of(RunCancelled("late")) == ErrorInfo("RunCancelled", "The run was cancelled: late")
    assert ErrorInfo.of(KeyboardInterrupt()) == ErrorInfo("KeyboardInterrupt", "")


def test_the_exception_of_an_error_is_neither_shown_nor_compared() -> None:
    error = Error(ErrorInfo("ValueError", "no"), ValueError("secret-key"))
    assert "secret-key" not in repr(error)
    assert error == Error(ErrorInfo("ValueError", "no"))


def test_model_events_can_be_compared_and_changed() -> None:
    delta = TextDelta(0, "a")
    delta.text += "b"
    assert delta == TextDelta(0, "ab")
    assert ResponseError(AssistantMessage()).error is None
    assert Abort("why").text == ""
