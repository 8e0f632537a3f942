"""Messages, events and usage as JSON and back: nothing is lost, and nothing is dropped silently."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import InvalidDocumentError
from loopwright.events import (
    Error,
    ErrorInfo,
    LoopEvent,
    MessageUpdate,
    ModelEvent,
    ResponseError,
    StreamPart,
    TextDelta,
    ToolExecutionUpdate,
    ToolProgress,
)
from loopwright.messages import (
    ApprovalMessage,
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.serialization import (
    VERSION,
    AnyEvent,
    dump_events,
    dump_messages,
    dump_usage,
    load_events,
    load_messages,
    load_usage,
)
from loopwright.usage import Usage

# ---------------------------------------------------------------- everything there is, at random

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe_text = st.none() | text
times = st.none() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
provider_data = st.none() | st.dictionaries(text, json_values, max_size=3)
data = st.none() | st.binary(max_size=64)
counts = st.none() | st.integers(0, 10**12)

usages = st.builds(Usage, counts, counts, counts, counts, counts, counts, st.booleans())
text_parts = st.builds(TextPart, text, maybe_text, provider_data)
image_parts = st.builds(ImagePart, data, maybe_text, maybe_text, provider_data)
file_parts = st.builds(FilePart, data, maybe_text, maybe_text, maybe_text, provider_data)
tool_calls = st.builds(
    ToolCallPart,
    text,
    text,
    text,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    maybe_text,
    provider_data,
)


def built(cls: type, **fields: Any) -> st.SearchStrategy[Any]:
    """A strategy for a class whose other fields are plain."""
    for name, annotation in cls.__annotations__.items():
        if name in fields or name == "type":
            continue
        for kind, strategy in (
            ("ProviderData |", provider_data),
            ("ProviderData", st.dictionaries(text, json_values, max_size=3)),
            ("bool", st.booleans()),
            ("int", st.integers(0, 100)),
            ("float | None", times),
            ("Literal['steering", st.sampled_from(["steering", "follow-up"])),
            ("Usage", st.none() | usages),
            ("str | None", maybe_text),
            ("str", text),
        ):
            if annotation.startswith(kind):
                fields[name] = strategy
                break
        else:
            raise AssertionError(f"{cls.__name__}.{name}: no strategy for {annotation}")
    return st.builds(cls, **fields)


media = st.lists(text_parts | image_parts | file_parts, max_size=3).map(tuple)
OWN_STRATEGY = {TextPart: text_parts, ImagePart: image_parts, FilePart: file_parts, ToolCallPart: tool_calls}
parts = {cls: OWN_STRATEGY[cls] if cls in OWN_STRATEGY else built(cls) for cls in get_args(Part)}
assistant_parts = st.one_of(*(strategy for cls, strategy in parts.items() if cls is not ToolApprovalResponsePart))
user_messages = st.builds(UserMessage, media, times)
assistant_messages = st.builds(
    AssistantMessage,
    st.lists(assistant_parts, max_size=4).map(tuple),
    text,
    text,
    text,
    text,
    maybe_text,
    st.none() | usages,
    maybe_text,
    maybe_text,
    maybe_text,
    times,
    provider_data,
    st.lists(text, max_size=2).map(tuple),
)
statuses = st.sampled_from(
    ["success", "error", "invalid", "denied", "cancelled", "timeout", "skipped", "missing"],
)
tool_results = st.builds(ToolResultMessage, text, text, media, statuses, json_values, times)
approval_messages = st.builds(ApprovalMessage, st.lists(parts[ToolApprovalResponsePart], max_size=2).map(tuple), times)
messages = {
    UserMessage: user_messages,
    AssistantMessage: assistant_messages,
    ToolResultMessage: tool_results,
    ApprovalMessage: approval_messages,
}

MODEL_EVENTS, LOOP_EVENTS, STREAM_PARTS = map(get_args, (ModelEvent, LoopEvent, StreamPart))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "message": assistant_messages,
    "call": tool_calls,
    "result": tool_results,
    "progress": json_values,
    "request": parts[ToolApprovalRequestPart],
}


def event_strategy(cls: type) -> st.SearchStrategy[Any]:
    fields: dict[str, Any] = {name: FIELDS[name] for name in cls.__annotations__ if name in FIELDS}
    match cls.__name__:
        case "MessageStart" | "MessageEnd":
            fields["message"] = st.one_of(*messages.values())
        case "MessageUpdate":
            fields["event"] = st.one_of(*map(event_strategy, MODEL_EVENTS))
        case "Source":
            fields["part"] = parts[SourcePart]
        case "File":
            fields["part"] = image_parts | file_parts
        case "ResponseError":
            fields["error"] = st.none()
        case "Error":
            fields = {"error": st.builds(ErrorInfo, text, text), "exception": st.none()}
        case "StepReset":
            fields["error"] = st.builds(ErrorInfo, text, text)
        case _:
            pass
    return built(cls, **fields)


EVENTS = list(dict.fromkeys([*MODEL_EVENTS, *LOOP_EVENTS, *STREAM_PARTS]))


@pytest.mark.parametrize("cls", get_args(Message), ids=lambda cls: cls.__name__)
def test_every_message_comes_back_as_it_was(cls: type) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(messages[cls], max_size=3))
    def check(history: list[Message]) -> None:
        document = dump_messages(history)
        assert load_messages(document) == history
        assert load_messages(document.decode()) == history
        assert dump_messages(load_messages(document)) == document

    check()


@pytest.mark.parametrize("cls", get_args(Part), ids=lambda cls: cls.__name__)
def test_every_part_comes_back_as_it_was(cls: type) -> None:
    @settings(max_examples=40, deadline=None)
    @given(parts[cls])
    def check(part: Any) -> None:
        holder: Any = ApprovalMessage if cls is ToolApprovalResponsePart else AssistantMessage
        (loaded,) = load_messages(dump_messages([holder((part,))]))
        assert loaded.content == (part,)
        assert type(loaded.content) is tuple
        assert type(loaded.content[0]) is cls

    check()


@pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: cls.__name__)
def test_every_event_comes_back_as_it_was(cls: type) -> None:
    @settings(max_examples=25, deadline=None)
    @given(event_strategy(cls))
    def check(event: Any) -> None:
        (loaded,) = load_events(dump_events([event]))
        assert loaded == event
        assert type(loaded) is cls

    check()


@given(usages)
def test_usage_comes_back_as_it_was(usage: Usage) -> None:
    assert load_usage(dump_usage(usage)) == usage


def test_all_events_are_told_apart_by_their_type() -> None:
    types = [cls.__dataclass_fields__["type"].default for cls in EVENTS]
    assert len(set(types)) == len(types)
    assert set(get_args(AnyEvent)) == set(EVENTS)


# ---------------------------------------------------------------- the document


def test_the_document_names_its_version() -> None:
    document = json.loads(dump_messages([UserMessage("hi", 5.0)]))
    assert document == {
        "loopwright": 1,
        "messages": [
            {
                "content": [{"text": "hi", "signature": None, "provider_data": None, "type": "text"}],
                "created_at": 5.0,
                "role": "user",
            }
        ],
    }
    assert json.loads(dump_usage(Usage(1, 2)))["usage"]["input_tokens"] == 1
    assert json.loads(dump_events([TextDelta(0, "x")])) == {
        "loopwright": 1,
        "events": [{"index": 0, "text": "x", "type": "text-delta"}],
    }


@pytest.mark.parametrize("raw", [bytes(range(256)), b"\xfb\xff\xfe", b"", b"\x00"], ids=["all", "high", "none", "zero"])
@pytest.mark.parametrize("cls", [ImagePart, FilePart])
def test_arbitrary_bytes_survive_as_base64(cls: type, raw: bytes) -> None:
    part = cls(raw, "application/x")
    document = dump_messages([UserMessage([part])])
    assert document.isascii()
    assert load_messages(document)[0].content == (part,)


def test_base64_of_other_writers_is_read_too() -> None:
    document = '{"loopwright": 1, "messages": [{"role": "user", "content": [{"type": "image", "data": "+/8="}]}]}'
    assert load_messages(document) == [UserMessage([ImagePart(b"\xfb\xff")])]


def test_what_a_document_leaves_out_has_its_default() -> None:
    (loaded,) = load_messages('{"loopwright": 1, "messages": [{"role": "assistant", "content": []}]}')
    assert loaded == AssistantMessage()


def test_an_empty_history_is_a_document() -> None:
    assert load_messages(dump_messages([])) == []
    assert load_events(dump_events(iter([]))) == []


def test_a_generator_of_messages_is_read_once() -> None:
    assert len(load_messages(dump_messages(UserMessage(str(n)) for n in range(3)))) == 3


def test_exceptions_stay_behind_and_their_description_goes() -> None:
    failed = AssistantMessage(finish_reason="error", error="broke")
    events: list[AnyEvent] = [
        Error(ErrorInfo("ValueError", "no"), ValueError("no, secret-key")),
        ResponseError(failed, ValueError("secret-key")),
        MessageUpdate(ResponseError(failed, ValueError("secret-key"))),
    ]
    document = dump_events(events)
    assert b"secret-key" not in document
    assert load_events(document) == [
        Error(ErrorInfo("ValueError", "no")),
        ResponseError(failed),
        MessageUpdate(ResponseError(failed)),
    ]
    first = load_events(document)[0]
    assert isinstance(first, Error)
    assert first.exception is None


def test_progress_is_written_in_its_json_form() -> None:
    @dataclass
    class Done:
        percent: int
        at: datetime

    progress = Done(40, datetime(2026, 1, 2, tzinfo=UTC))
    (event,) = load_events(dump_events([ToolProgress(ToolCallPart("1", "t"), progress)]))
    assert isinstance(event, ToolProgress)
    assert event.progress == {"percent": 40, "at": "2026-01-02T00:00:00Z"}


# ---------------------------------------------------------------- refused when read


def document_of(message: dict[str, Any], **more: Any) -> str:
    return json.dumps({"loopwright": 1, "messages": [message], **more})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ('{"loopwright": 2, "messages": []}', "of version 2; this package reads up to 1. Upgrade loopwright"),
        ('{"loopwright": 2, "messages": [], "new": 1}', "Upgrade loopwright"),
        ('{"loopwright": 2, "messages": [{"role": "new"}]}', "Upgrade loopwright"),
        ('{"loopwright": 0, "messages": []}', "version is 0; it must be a whole number"),
        ('{"loopwright": true, "messages": []}', "version is True"),
        ('{"loopwright": "1", "messages": []}', "version is '1'"),
        ('{"loopwright": 1.5, "messages": []}', "version is 1.5"),
        ('{"loopwright": null, "messages": []}', "version is None"),
        ('{"messages": []}', "holds no messages: it must be an object like"),
        ('{"loopwright": 1, "events": []}', "holds no messages: .* as dump_messages writes it"),
        ("[]", "holds no messages"),
        ("null", "holds no messages"),
        ("", "is no JSON: EOF"),
        (b"", "is no JSON: EOF"),
        (b"\xff\xfe", "is no JSON"),
        ('{"loopwright": 1, "messages": [', "is no JSON: EOF while parsing a list at line 1 column 31"),
        ('{"loopwright": 1, "messages": []}\ud800', "is no JSON"),
        ('{"loopwright": 1, "messages": {}}', "at messages: "),
        ('{"loopwright": 1, "messages": [], "extra": 1}', "at extra: this version of loopwright knows no such field"),
        ('{"loopwright": Infinity, "messages": []}', "version is inf"),
        (None, "must be bytes or a string, not NoneType"),
        ({"loopwright": 1, "messages": []}, "must be bytes or a string, not dict"),
    ],
)
def test_what_is_no_document_is_refused(document: Any, words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        load_messages(document)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "system", "content": []}, "at messages.0: .*'system'"),
        ({"content": []}, "at messages.0: "),
        ({"role": "user"}, "at messages.0.content: Field required"),
        ({"role": "user", "content": "hi"}, "at messages.0.content: Input should be a valid array"),
        ({"role": "user", "content": None}, "at messages.0.content: "),
        ({"role": "user", "content": [], "mood": 1}, "at messages.0.mood: this version .* knows no such field"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "mood": 1}]},
            "at messages.0.content.0.mood: this version of loopwright knows no such field",
        ),
        ({"role": "user", "content": [{"type": "text", "text": 1}]}, "at messages.0.content.0.text: "),
        ({"role": "user", "content": [{"type": "text"}]}, "at messages.0.content.0.text: Field required"),
        ({"role": "user", "content": [{"type": "video"}]}, "at messages.0.content.0: .*'video'"),
        ({"role": "user", "content": [{"type": "reasoning"}]}, "at messages.0.content.0: "),
        ({"role": "user", "content": [{"text": "x"}]}, "at messages.0.content.0: "),
        ({"role": "user", "content": [{"type": "image", "data": "!"}]}, "at messages.0.content.0.data: .*base64"),
        ({"role": "user", "content": [], "created_at": "now"}, "at messages.0.created_at: "),
        ({"role": "user", "content": [], "created_at": math.nan}, "at messages.0.created_at: .*finite"),
        (
            {"role": "assistant", "content": [], "usage": {"input_tokens": "12"}},
            "at messages.0.usage.input_tokens: ",
        ),
        ({"role": "assistant", "content": [], "usage": {"energy": 1}}, "at messages.0.usage.energy: this version"),
        (
            {"role": "assistant", "content": [{"type": "tool-call", "id": "1", "name": "t", "incomplete": 1}]},
            "at messages.0.content.0.incomplete: ",
        ),
        (
            {"role": "tool", "tool_call_id": "1", "tool_name": "t", "content": [], "status": "great"},
            "at messages.0.status: .*'success'",
        ),
    ],
)
def test_what_this_version_does_not_know_is_refused_with_its_path(message: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words) as caught:
        load_messages(document_of(message))
    assert "upgrade to read it" in str(caught.value)


def test_unknown_events_are_refused() -> None:
    with pytest.raises(InvalidDocumentError, match=r"at events.0: .*'telepathy'"):
        load_events('{"loopwright": 1, "events": [{"type": "telepathy"}]}')
    with pytest.raises(InvalidDocumentError, match="at events.0.event.mood: this version"):
        load_events(
            '{"loopwright": 1, "events": [{"type": "message-update", "event": {"type": "text-end", "index": 0, "mood": 1}}]}'
        )
    with pytest.raises(InvalidDocumentError, match="at events.0.error.mood: this version"):
        load_events(
            '{"loopwright": 1, "events": [{"type": "error", "error": {"type": "error", "message": "x", "mood": 1}}]}'
        )


def test_unknown_usage_is_refused() -> None:
    with pytest.raises(InvalidDocumentError, match="at usage.energy: this version"):
        load_usage('{"loopwright": 1, "usage": {"energy": 3}}')


def test_a_document_that_is_nested_too_deep_is_refused() -> None:
    deep = "[" * 5000 + "]" * 5000
    with pytest.raises(InvalidDocumentError, match="is no JSON: recursion limit"):
        load_messages('{"loopwright": 1, "messages": ' + deep + "}")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60) | json_values.map(json.dumps))
def test_whatever_is_read_gives_messages_or_a_clear_error(document: bytes | str) -> None:
    with pytest.raises(InvalidDocumentError, match="document"):
        load_messages(document)


# ---------------------------------------------------------------- refused when written


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "at messages.0.details cannot be written: object is no JSON"),
        ({"a": [1, {2}]}, "at messages.0.details.a.1 cannot be written: set is no JSON"),
        (b"raw", "at messages.0.details cannot be written: bytes is no JSON"),
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "at messages.0.details.when cannot be written: datetime"),
        ({"a": {1: 2}}, "at messages.0.details.a cannot be written: its key 1 is no string"),
        ([math.nan], "at messages.0.details.0 cannot be written: JSON has no nan"),
        ([-math.inf], "at messages.0.details.0 cannot be written: JSON has no -inf"),
        (CYCLE, "contains itself"),
        (nested(1000), "nested more than 180 levels"),
        ("\ud800", "text must be valid Unicode"),
        ({"\ud800": 1}, "text must be valid Unicode"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_details_that_are_no_json_are_refused(value: Any, words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        dump_messages([ToolResultMessage("1", "t", "ok", details=value)])


@pytest.mark.parametrize("levels", [179, 180])
def test_what_is_written_can_be_read_however_deep(levels: int) -> None:
    history: list[Message] = [ToolResultMessage("1", "t", "ok", details=nested(levels))]
    assert load_messages(dump_messages(history)) == history
    update: list[AnyEvent] = [MessageUpdate(ResponseError(AssistantMessage((ProviderPart("k", {"x": nested(179)}),))))]
    assert load_events(dump_events(update)) == update


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (UserMessage([TextPart("x", provider_data={"a": object()})]), "messages.0.content.0.provider_data.a"),
        (
            AssistantMessage((ReasoningPart("x", provider_data={"a": object()}),)),
            "messages.0.content.0.provider_data.a",
        ),
        (AssistantMessage((ProviderPart("k", {"a": object()}),)), "messages.0.content.0.data.a"),
        (AssistantMessage(provider_data={"a": object()}), "messages.0.provider_data.a"),
        (UserMessage("x", math.inf), "messages.0.created_at"),
    ],
)
def test_provider_data_that_is_no_json_is_refused(message: Message, path: str) -> None:
    with pytest.raises(InvalidDocumentError, match=f"at {path} cannot be written"):
        dump_messages([message])


def test_progress_that_has_no_json_form_is_refused() -> None:
    with pytest.raises(InvalidDocumentError, match="progress must have a JSON form"):
        dump_events([ToolExecutionUpdate(ToolCallPart("1", "t"), object())])


def test_what_events_carry_is_checked_too() -> None:
    call = ToolCallPart("1", "t", provider_data={"a": object()})
    with pytest.raises(InvalidDocumentError, match=r"at events.0.call.provider_data.a cannot be written"):
        dump_events([ToolProgress(call, 1)])


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (["hi"], "messages.0 is str, which is no message of loopwright"),
        ([UserMessage("x"), {"role": "user"}], "messages.1 is dict, which is no message"),
        ([TextPart("x")], "messages.0 is TextPart, which is no message"),
        ([UserMessage([3])], "cannot be written as JSON: Expected"),  # type: ignore[list-item]
        ([UserMessage([ReasoningPart("x")])], "cannot be written as JSON: Expected"),  # type: ignore[list-item]
        ([UserMessage([TextPart(3)])], "cannot be written as JSON: Expected `str`"),  # type: ignore[arg-type]
        ([replace(AssistantMessage(), warnings=[3])], "cannot be written as JSON: Expected"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_message_is_refused(messages: Any, words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        dump_messages(messages)


def test_what_is_no_event_or_no_usage_is_refused() -> None:
    with pytest.raises(InvalidDocumentError, match=r"events.0 is UserMessage, which is no event"):
        dump_events([UserMessage("x")])  # type: ignore[list-item]
    with pytest.raises(InvalidDocumentError, match="3 is no Usage"):
        dump_usage(3)  # type: ignore[arg-type]


def test_the_version_is_one() -> None:
    assert VERSION == 1
