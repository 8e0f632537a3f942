"""Messages and parts: plain, immutable, made from what people write."""

from __future__ import annotations

import copy
import pickle
from dataclasses import MISSING, FrozenInstanceError, fields, replace
from typing import Any, get_args, get_type_hints

import pytest

from loopwright.messages import (
    ApprovalMessage,
    AssistantMessage,
    AssistantPart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultStatus,
    UserMessage,
)

MESSAGES: list[Message] = [
    UserMessage("hi"),
    AssistantMessage((TextPart("x"),)),
    ToolResultMessage("1", "t", "ok"),
    ApprovalMessage(()),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.role)
def test_messages_are_slotted_frozen_and_copied_by_value(message: Any) -> None:
    assert not hasattr(message, "__dict__")
    for field in fields(message):
        with pytest.raises(FrozenInstanceError):
            setattr(message, field.name, None)
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message
    assert replace(message, created_at=5.0).created_at == 5.0
    assert replace(message, created_at=5.0) != message


@pytest.mark.parametrize("cls", get_args(Part), ids=lambda cls: cls.__name__)
def test_parts_are_slotted_and_frozen_and_name_their_type(cls: Any) -> None:
    assert "__dict__" not in dir(cls)
    default = {field.name: field.default for field in fields(cls)}["type"]
    assert get_args(get_type_hints(cls)["type"]) == (default,)
    part = cls(*["x" for field in fields(cls) if field.default is MISSING])
    assert part.type == default
    for field in fields(cls):
        with pytest.raises(FrozenInstanceError):
            setattr(part, field.name, None)


def test_types_and_roles_are_distinct() -> None:
    types = [{field.name: field.default for field in fields(cls)}["type"] for cls in get_args(Part)]
    assert len(set(types)) == len(types)
    assert {message.role for message in MESSAGES} == {"user", "assistant", "tool", "approval"}
    assert len(get_args(Message)) == 4


# ---------------------------------------------------------------- content


def test_a_string_becomes_one_text_part() -> None:
    assert UserMessage("hi").content == (TextPart("hi"),)
    assert ToolResultMessage("1", "t", "ok").content == (TextPart("ok"),)
    assert UserMessage("").content == (TextPart(""),)


def test_a_list_becomes_a_tuple_and_is_copied() -> None:
    image = ImagePart(b"x", "image/png")
    parts: list[Any] = [TextPart("hi"), image]
    user, tool, assistant = UserMessage(parts), ToolResultMessage("1", "t", parts), AssistantMessage(parts)  # type: ignore[arg-type]
    parts.clear()
    for message in (user, tool, assistant):
        assert message.content == (TextPart("hi"), image)
        assert type(message.content) is tuple


def test_answers_to_approval_requests_become_a_tuple_too() -> None:
    answers: Any = [ToolApprovalResponsePart("ap", True)]
    message = ApprovalMessage(answers)
    answers.clear()
    assert message.content == (ToolApprovalResponsePart("ap", True),)


def test_a_generator_becomes_a_tuple() -> None:
    assert UserMessage(TextPart(c) for c in "ab").content == (TextPart("a"), TextPart("b"))


def test_text_given_to_an_assistant_becomes_a_part_too() -> None:
    text: Any = "hello"
    assert AssistantMessage(text).content == (TextPart("hello"),)


def test_no_content_is_empty_content() -> None:
    nothing: Any = None
    assert UserMessage(nothing).content == ()
    assert AssistantMessage(nothing).content == ()
    assert ToolResultMessage("1", "t", nothing).content == ()
    assert ToolResultMessage("1", "t").content == ()


def test_replacing_content_takes_what_making_takes() -> None:
    instead: Any = "there"
    assert replace(UserMessage("hi", 1.0), content=instead) == UserMessage("there", 1.0)


def test_text_is_all_text_parts_joined() -> None:
    content = (ReasoningPart("hm"), TextPart("a"), RefusalPart("no"), ToolCallPart("1", "t"), TextPart("b"))
    message = AssistantMessage(content)
    assert message.text == "ab"
    assert message.reasoning == "hm"
    assert message.tool_calls == (ToolCallPart("1", "t"),)
    assert UserMessage([TextPart("a"), ImagePart(b"x"), TextPart("b")]).text == "ab"
    assert ToolResultMessage("1", "t", [TextPart("a"), TextPart("b")]).text == "ab"
    assert AssistantMessage().text == ""


@pytest.mark.parametrize(
    ("reason", "failed"),
    [("stop", False), ("tool-calls", False), ("length", False), ("error", True), ("aborted", True), ("weird", False)],
)
def test_failed_answers_are_those_with_an_error_or_an_abort(reason: str, failed: bool) -> None:
    assert AssistantMessage(finish_reason=reason).failed is failed


@pytest.mark.parametrize("status", get_args(ToolResultStatus))
def test_only_success_is_no_error(status: Any) -> None:
    assert ToolResultMessage("1", "t", "x", status).is_error is (status != "success")


def test_all_calls_are_listed_those_of_the_provider_included() -> None:
    served = ToolCallPart("1", "search", provider_executed=True)
    own = ToolCallPart("2", "t")
    parts: tuple[AssistantPart, ...] = (served, own, ToolApprovalRequestPart("a", "2"), ProviderPart("k", {}))
    assert AssistantMessage(parts).tool_calls == (served, own)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (' {"a": {"b": [1, null]}}\n', {"a": {"b": [1, None]}}),
        ("", {}),
        ("  ", {}),
        ("null", {}),
        ("{}", {}),
        ("[1]", None),
        ('"text"', None),
        ("7", None),
        ("true", None),
        ('{"a": 1', None),
        ("not json", None),
        ("{'a': 1}", None),
        ('{"a": "\ud800"}', None),
        ("\ud800", None),
        ("[" * 5000, None),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_input_is_the_object_that_the_arguments_hold(arguments: str, value: object) -> None:
    assert ToolCallPart("1", "t", arguments).input == value


def test_free_text_is_no_input() -> None:
    assert ToolCallPart("1", "t", '{"a": 1}', custom=True).input is None


def test_each_reading_gives_an_object_of_its_own() -> None:
    call = ToolCallPart("1", "t", '{"a": []}')
    first = call.input
    assert first is not None
    first["a"].append(1)
    assert call.input == {"a": []}
