"""Streams as vendors send them. The excerpts are short forms of recorded traffic; the numbers are those of its quirks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.errors import InvalidResponseError, ModelError, ModelResponseError, StreamTruncatedError
from loopwright.events import (
    File,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseDone,
    ResponseError,
    ResponseStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from loopwright.messages import AssistantMessage, ReasoningPart, RefusalPart, SourcePart
from loopwright.models.base import ModelInfo
from loopwright.models.openai_chat import ChatCodec, ChatQuirks
from loopwright.usage import Usage

MODEL = ModelInfo("openai", "openai-chat", "gpt-test")
DONE = "[DONE]"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **members: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if delta is not None:
        choice["delta"] = delta
    return {"id": "r1", "model": "m1", "choices": [choice], **members}


def call(
    index: int | None, id: str | None = None, name: str | None = None, arguments: str | None = "", **more: Any
) -> dict:
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    delta: dict[str, Any] = {"function": function, **more}
    if index is not None:
        delta["index"] = index
    if id is not None:
        delta["id"] = id
    return delta


def calls(*deltas: dict, finish: str | None = None, **members: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(deltas)}, finish, **members)


def sse(*chunks: Any) -> bytes:
    return b"".join(f"data: {one if one == DONE else json.dumps(one)}\n\n".encode() for one in chunks)


def read(body: bytes, quirks: ChatQuirks | None = None) -> list[Any]:
    decoder = ChatCodec(quirks).decoder(MODEL)
    return decoder.feed(body) + decoder.close()


def answer(*chunks: Any, quirks: ChatQuirks | None = None) -> AssistantMessage:
    last = read(sse(*chunks), quirks)[-1]
    assert isinstance(last, ResponseDone)
    return last.message


def fails(body: bytes) -> tuple[ModelError, AssistantMessage]:
    decoder = ChatCodec().decoder(MODEL)
    with pytest.raises(ModelError) as caught:
        decoder.feed(body)
        decoder.close()
    return caught.value, decoder.partial()


def called(message: AssistantMessage) -> list[tuple[str, str, str]]:
    return [(one.id, one.name, one.arguments) for one in message.tool_calls]


# ---------------------------------------------------------------- the plain stream


def test_text_and_call_events_are_bracketed_and_numbered():
    events = read(
        sse(
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning_content": "hm"}),
            chunk({"content": "Let"}),
            chunk({"content": " me."}),
            calls(call(0, "c1", "add")),
            calls(call(0, arguments='{"a"')),
            calls(call(0, arguments=":1}")),
            calls(call(1, "c2", "mul", '{"b":2}')),
            chunk({}, "tool_calls"),
            DONE,
        )
    )
    assert events[:-1] == [
        ResponseStart(),
        ReasoningStart(0),
        ReasoningDelta(0, "hm"),
        ReasoningEnd(0),
        TextStart(1),
        TextDelta(1, "Let"),
        TextDelta(1, " me."),
        TextEnd(1),
        ToolInputStart(2, "c1", "add"),
        ToolInputDelta(2, "c1", '{"a"'),
        ToolInputDelta(2, "c1", ":1}"),
        ToolInputEnd(2, "c1"),
        ToolInputStart(3, "c2", "mul"),
        ToolInputDelta(3, "c2", '{"b":2}'),
        ToolInputEnd(3, "c2"),
    ]
    message = events[-1].message
    assert (message.text, message.reasoning) == ("Let me.", "hm")
    assert (message.provider, message.api, message.model) == ("openai", "openai-chat", "gpt-test")
    assert (message.response_id, message.response_model) == ("r1", "m1")
    assert (message.finish_reason, message.raw_finish_reason) == ("tool-calls", "tool_calls")


def test_interleaved_calls_stay_open_until_they_are_whole():
    events = read(
        sse(
            calls(call(0, "a", "t", '{"x"')),
            calls(call(1, "b", "t", '{"y"')),
            calls(call(0, arguments=":1}")),
            calls(call(1, arguments=":2}")),
            chunk({}, "tool_calls"),
            DONE,
        )
    )
    assert called(events[-1].message) == [("a", "t", '{"x":1}'), ("b", "t", '{"y":2}')]
    assert [event.type for event in events if event.type == "tool-input-end"] == ["tool-input-end"] * 2
    assert events[-3:-1] == [ToolInputEnd(0, "a"), ToolInputEnd(1, "b")]


def test_partial_is_what_there_is():
    decoder = ChatCodec().decoder(MODEL)
    decoder.feed(sse(chunk({"content": "Hel"}), calls(call(0, "c", "t", "{}"))))
    partial = decoder.partial()
    assert (partial.text, partial.finish_reason, partial.tool_calls[0].incomplete) == ("Hel", "aborted", True)
    decoder.feed(sse(chunk({"content": "lo"}, "stop"), DONE))
    assert decoder.partial().text == "Hello"


def test_nothing_is_read_after_the_end():
    decoder = ChatCodec().decoder(MODEL)
    decoder.feed(sse(chunk({"content": "a"}, "stop"), DONE, chunk({"content": "b"})))
    assert decoder.feed(b"data: {garbage\n\n") == []
    assert decoder.close() == []
    assert decoder.partial().text == "a"


# ---------------------------------------------------------------- framing


def test_quirk_1_comments():
    body = b": OPENROUTER PROCESSING\n\n: \n\n" + sse(chunk({"content": "a"})) + b":\n\n" + sse(chunk({}, "stop"), DONE)
    assert read(body)[-1].message.text == "a"


def test_quirk_2_crlf_and_3_no_done():
    body = sse(chunk({"content": "a"}), chunk({}, "stop")).replace(b"\n", b"\r\n")
    assert read(body)[-1] == ResponseDone(answer(chunk({"content": "a"}), chunk({}, "stop")))


def test_quirk_6_error_event_in_a_stream_without_event_lines():
    body = sse(chunk({"reasoning": "We need"})) + (
        b'event: error\ndata: {"error":{"message":"Tool call validation failed","type":"invalid_request_error",'
        b'"code":"tool_use_failed","failed_generation":"{}","status_code":400}}\n\n'
    )
    last = read(body)[-1]
    assert isinstance(last, ResponseError)
    assert isinstance(last.error, ModelResponseError)
    assert (last.error.code, last.error.type, last.error.retryable) == (
        "tool_use_failed",
        "invalid_request_error",
        False,
    )
    assert last.error.body["error"]["failed_generation"] == "{}"
    assert (last.message.finish_reason, last.message.reasoning) == ("error", "We need")
    assert "Tool call validation failed" in last.message.error


def test_error_event_of_plain_text():
    last = read(b"event: error\ndata: out of memory\n\n")[-1]
    assert str(last.error).endswith("out of memory")


@pytest.mark.parametrize(
    "stray",
    [
        b'{\n  "error": {\n    "code": 503,\n    "message": "Overloaded."\n  }\n}\n',
        b'\n\n   \n\n{"error": {"code": 503, "message": "Overloaded."}}',
        b'[{\n "error": {"code": 503, "message": "Overloaded."}}]\n',
        b'error: {"error":{"code": 503, "message": "Overloaded."}}\n\n',
    ],
)
def test_quirk_7_bare_error_object_in_the_body(stray):
    last = read(sse(chunk({"content": "a"})) + stray)[-1]
    assert isinstance(last, ResponseError)
    assert (last.error.code, last.error.retryable, last.message.text) == (503, True, "a")


def test_json_body_in_place_of_a_stream():
    body = {"id": "r1", "choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    events = read(json.dumps(body, indent=1).encode())
    assert events[:-1] == [ResponseStart(), TextStart(0), TextDelta(0, "whole"), TextEnd(0)]
    assert events[-1].message.text == "whole"


def test_body_that_is_no_stream():
    error, partial = fails(b"<html>\n\n<body>Sign in</body>\n\n</html>")
    assert isinstance(error, InvalidResponseError)
    assert (error.offset, partial.content) == (0, ())
    assert "'<html>'" in str(error)


def test_quirk_9_last_event_without_its_blank_line():
    assert read(sse(chunk({"content": "a"}, "stop")) + b"data: [DONE]")[-1].message.text == "a"
    assert read(sse(chunk({"content": "a"}), chunk({}, "stop"))[:-2])[-1].message.finish_reason == "stop"


def test_quirk_10_truncated_inside_an_event():
    body = sse(calls(call(0, "c1", "add", '{"a":1}')), calls(call(1, "c2", "mul", '{"a"')))
    error, partial = fails(body + b'data: {"id":"r1","cho')
    assert isinstance(error, StreamTruncatedError)
    assert f"byte {len(body)}" in str(error)
    assert error.retryable
    assert [one.incomplete for one in partial.tool_calls] == [True, True]


def test_truncated_after_the_finish_reason_is_complete():
    assert read(sse(chunk({"content": "a"}, "stop")) + b'data: {"usage":{"prom')[-1].message.text == "a"


def test_done_alone_is_no_answer():
    error, _ = fails(sse(DONE))
    assert isinstance(error, StreamTruncatedError)


def test_empty_body_is_truncated():
    assert isinstance(fails(b"")[0], StreamTruncatedError)


def test_garbage_has_an_offset_and_what_came_before_is_told():
    good = sse(chunk({"content": "a"}))
    decoder = ChatCodec().decoder(MODEL)
    assert decoder.feed(good + b"data: {nonsense\n\n")[-1] == TextDelta(0, "a")
    with pytest.raises(InvalidResponseError) as caught:
        decoder.feed(b"")
    assert caught.value.offset == len(good)
    with pytest.raises(InvalidResponseError):
        decoder.close()


@pytest.mark.parametrize("data", [b"null", b"[1]", b'"x"', b"nonsense"])
def test_event_that_is_no_object(data):
    error, _ = fails(b"data: " + data + b"\n\n")
    assert isinstance(error, InvalidResponseError)
    assert error.offset == 0


def test_quirk_11_padding_is_ignored():
    padded = chunk({"content": "a", "p": ""}, p="abcdef", obfuscation="x")
    assert answer(padded, padded, chunk({}, "stop"), DONE).text == "aa"


def test_half_a_surrogate_pair_is_replaced():
    body = b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n' + sse(chunk({}, "stop"), DONE)
    assert read(body)[-1].message.text == "a\ufffd"


# ---------------------------------------------------------------- chunks


def test_quirk_13_empty_first_chunk_and_14_choice_without_delta():
    first = {"id": "", "model": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    message = answer(first, chunk({"content": "a"}), chunk(content_filter_offsets={}), chunk({}, "stop"), DONE)
    assert (message.response_id, message.response_model, message.text) == ("r1", "m1", "a")
    assert message.provider_data["prompt_filter_results"] == [{"prompt_index": 0}]


USAGE = {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({}, "stop"), {"choices": [], "usage": USAGE}],
        [chunk({}, "stop", usage=USAGE)],
        [chunk({"content": "x"}, usage={"prompt_tokens": 12, "completion_tokens": 1}), chunk({}, "stop", usage=USAGE)],
        [chunk({}, "stop", usage=USAGE, x_groq={"usage": USAGE}), {"choices": [], "usage": USAGE}],
        [chunk({}, "stop", x_groq={"id": "req", "usage": USAGE})],
        [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}],
        [chunk({}, "stop", usage=USAGE), {"choices": [], "usage": None}],
    ],
)
def test_quirk_15_usage_wherever_it_stands(chunks):
    message = answer(chunk({"content": "a"}, usage=None), *chunks, DONE)
    assert message.usage == Usage(12, 8, 20)
    assert message.provider_data["usage"] == USAGE


def test_quirk_16_no_usage():
    assert answer(chunk({"content": "a"}, "stop"), DONE).usage is None


def test_quirk_17_role_repeated_and_finish_reason_twice():
    role = {"role": "assistant"}
    message = answer(
        chunk(role | {"content": "a"}),
        chunk(role | {"content": ""}, "stop"),
        chunk(role | {"content": ""}, "stop", usage=USAGE),
        DONE,
    )
    assert (message.text, message.raw_finish_reason, message.usage) == ("a", "stop", Usage(12, 8, 20))


def test_quirk_18_first_response_id_stays():
    message = answer(chunk({"content": "a"}), chunk({}, "stop") | {"id": "gen-2"}, DONE)
    assert message.response_id == "r1"


def test_quirk_19_whole_message_beside_the_delta():
    def both(so_far: str, new: str, finish: str | None = None) -> dict[str, Any]:
        one = chunk({"content": new}, finish)
        one["choices"][0]["message"] = {"role": "assistant", "content": so_far}
        one["choices"][0]["text"] = new
        return one

    assert answer(both("1", "1"), both("1 2", " 2"), both("1 2", "", "stop")).text == "1 2"


def test_quirk_20_other_choices():
    def choice(index: int, delta: dict, finish: str | None = None) -> dict[str, Any]:
        return {"id": "r", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    events = read(
        sse(
            choice(0, {"content": "a"}),
            choice(1, {"content": "x"}),
            choice(0, {"content": "b"}),
            choice(1, {"tool_calls": [call(0, "c", "t", "{}")]}),
            choice(1, {}, "tool_calls"),
            choice(0, {}, "stop"),
            DONE,
        )
    )
    message = events[-1].message
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == message.text == "ab"
    assert message.tool_calls == ()
    (other,) = message.provider_data["other_choices"]
    assert (other["index"], other["text"], other["finish_reason"]) == (1, "x", "tool_calls")
    assert other["tool_calls"] == [{"id": "c", "name": "t", "arguments": "{}"}]


def test_quirk_21_content_is_a_list_of_parts():
    def thinking(text: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}], "closed": True}

    message = answer(
        chunk({"content": ""}),
        chunk({"content": [thinking("I know")]}),
        chunk({"content": [thinking("."), {"type": "text", "text": "1"}]}),
        chunk({"content": "44"}, "stop"),
        DONE,
    )
    assert (message.reasoning, message.text, len(message.content)) == ("I know.", "144", 2)
    assert message.content[0].provider_data == {"reasoning_field": "thinking"}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_quirk_22_reasoning_fields(field):
    message = answer(
        chunk({field: "I "}), chunk({field: "think", "content": ""}), chunk({"content": "a"}), chunk({}, "stop"), DONE
    )
    assert message.content[0] == ReasoningPart("I think", provider_data={"reasoning_field": field})
    assert message.text == "a"


def test_quirk_22_reasoning_details_grow_and_are_kept_as_received():
    def detail(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "text": text, "index": 0, "format": "f", **more}

    message = answer(
        chunk({"reasoning": "I ", "reasoning_details": [detail("I ")]}),
        chunk({"reasoning": "see", "reasoning_details": [detail("see", signature=None)]}),
        chunk({"content": "", "reasoning_details": [detail("", signature="sig")]}),
        chunk({"content": "a"}),
        chunk({}, "stop"),
        DONE,
    )
    assert message.reasoning == "I see"
    assert message.content[0].provider_data["reasoning_details"] == [detail("I see", signature="sig")]


def test_quirk_22_encrypted_details_alone():
    detail = {"type": "reasoning.encrypted", "data": "EjQK", "id": "tool_1", "index": 0}
    events = read(
        sse(
            chunk({"content": "", "reasoning": None, "reasoning_details": [detail]}),
            calls(call(0, "tool_1", "add", "{}")),
            chunk({}, "tool_calls"),
            DONE,
        )
    )
    part, _ = events[-1].message.content
    assert part.provider_data == {"reasoning_field": "reasoning_details", "reasoning_details": [detail]}
    assert part.text == ""


# ---------------------------------------------------------------- tool calls


def test_quirk_24_two_whole_calls_in_one_chunk():
    message = answer(calls(call(0, "a", "t", '{"x":1}'), call(1, "b", "u", "{}"), finish="tool_calls"), DONE)
    assert called(message) == [("a", "t", '{"x":1}'), ("b", "u", "{}")]


def test_quirk_25_no_index():
    message = answer(
        calls(call(None, "a", "t", '{"x"')),
        calls(call(None, arguments=":1}")),
        calls(call(None, "b", "t", "{}"), call(None, "c", "t", "{}")),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert called(message) == [("a", "t", '{"x":1}'), ("b", "t", "{}"), ("c", "t", "{}")]


def test_neither_index_nor_id_tells_whole_calls_apart_by_name():
    message = answer(
        calls(call(None, None, "t", '{"x":1}')), calls(call(None, None, "t", '{"x":2}')), chunk({}, "stop"), DONE
    )
    assert [one.arguments for one in message.tool_calls] == ['{"x":1}', '{"x":2}']


def test_same_index_for_each_whole_call():
    message = answer(calls(call(0, "a", "t", '{"x":1}')), calls(call(0, "b", "t", '{"x":2}')), chunk({}, "stop"), DONE)
    assert called(message) == [("a", "t", '{"x":1}'), ("b", "t", '{"x":2}')]


def test_quirk_26_first_index_is_1():
    message = answer(
        calls(call(1, "c", "t")), calls(call(1, arguments='{"a":')), calls(call(1, arguments="1}")), chunk({}, "stop")
    )
    assert called(message) == [("c", "t", '{"a":1}')]


def test_quirk_27_id_and_name_in_every_delta():
    message = answer(
        calls(call(0, "0", "version", "")), calls(call(0, "0", "version", "{}")), chunk({}, "tool_calls"), DONE
    )
    assert called(message) == [("0", "version", "{}")]


def test_quirk_27_placeholder_object_before_the_arguments():
    events = read(
        sse(
            calls(call(0, "c", "t", "{}")), calls(call(0, arguments='{"a"')), calls(call(0, arguments=":1}")),
            chunk({}, "tool_calls"), DONE,
        )
    )  # fmt: skip
    assert called(events[-1].message) == [("c", "t", '{"a":1}')]
    assert "".join(event.delta for event in events if isinstance(event, ToolInputDelta)) == '{"a":1}'


@pytest.mark.parametrize("written", [None, "", "null", "{}"])
def test_quirk_28_no_arguments(written):
    (one,) = answer(calls(call(0, "c", "t", written)), chunk({}, "tool_calls"), DONE).tool_calls
    assert one.input == {}
    assert one.incomplete is False


def test_quirk_29_empty_ids_are_made_up_and_unique():
    body = sse(
        calls(call(0, "", "t", "{}"), call(1, "", "u", "{}"), call(2, "x", "u", "{}"), call(3, "x", "u", "{}")), DONE
    )
    message = read(body)[-1].message
    ids = [one.id for one in message.tool_calls]
    assert ids == ["call_r1_0", "call_r1_1", "x", "call_r1_3"]
    assert ids == [one.id for one in read(body)[-1].message.tool_calls]


@pytest.mark.parametrize("finish", ["stop", "", None, "tool_calls", "function_call"])
def test_quirk_30_calls_decide_not_the_finish_reason(finish):
    message = answer(calls(call(0, "c", "t", '{"a":1}')), chunk({}, finish), DONE)
    assert (message.finish_reason, message.raw_finish_reason) == ("tool-calls", finish)
    assert message.tool_calls[0].incomplete is False


def test_tool_calls_as_finish_reason_without_calls():
    assert answer(chunk({"content": "a"}, "tool_calls"), DONE).finish_reason == "stop"


def test_empty_finish_reason_in_every_chunk_is_none():
    error, _ = fails(sse(chunk({"content": "a"}, ""), chunk({"content": "b"}, "")))
    assert isinstance(error, StreamTruncatedError)
    assert answer(chunk({"content": "a"}, ""), chunk({}, "stop"), chunk({}, ""), DONE).raw_finish_reason == "stop"


def test_quirk_31_zero_valued_members_are_no_calls():
    zero = {"function_call": {"name": "", "arguments": ""}, "audio": {"id": "", "data": "", "expires_at": 0}}
    custom = {"custom": {"name": "", "input": ""}, "type": "function"}
    message = answer(
        chunk(zero | {"content": "a"}), calls(call(0, "c", "t", "{}", **custom)), chunk(zero, "stop"), DONE
    )
    assert called(message) == [("c", "t", "{}")]
    assert len(message.content) == 2
    assert message.tool_calls[0].custom is False


def test_quirk_32_arguments_cut_by_the_limit():
    message = answer(
        calls(call(0, "a", "t", '{"x":1}')), calls(call(1, "b", "t", '{"sum": ')), chunk({}, "length"), DONE
    )
    assert [one.incomplete for one in message.tool_calls] == [False, True]
    assert message.finish_reason == "length"


def test_limit_right_after_the_name():
    assert answer(calls(call(0, "a", "t", "")), chunk({}, "length"), DONE).tool_calls[0].incomplete is True


def test_invalid_json_of_a_finished_call_is_not_incomplete():
    (one,) = answer(calls(call(0, "a", "t", "{'x'")), chunk({}, "tool_calls"), DONE).tool_calls
    assert (one.incomplete, one.input) == (False, None)


def test_quirk_33_custom_call_and_legacy_function_call():
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "math", "input": "4 +"}}
    more = {"index": 0, "type": "custom", "custom": {"input": " 4"}}
    (one,) = answer(calls(custom), calls(more), chunk({}, "tool_calls"), DONE).tool_calls
    assert (one.custom, one.name, one.arguments) == (True, "math", "4 + 4")
    message = answer(
        chunk({"function_call": {"name": "add", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"a":1}'}}),
        chunk({}, "function_call"),
        DONE,
    )
    assert called(message) == [("call_r1_0", "add", '{"a":1}')]
    assert message.finish_reason == "tool-calls"


def test_call_signature_is_kept():
    extra = {"google": {"thought_signature": "sig"}}
    (one,) = answer(calls(call(0, "c", "t", "{}", extra_content=extra)), chunk({}, "stop"), DONE).tool_calls
    assert one.provider_data == {"extra_content": extra}


# ---------------------------------------------------------------- ends and errors


def test_quirk_34_refusal():
    message = answer(
        chunk({"role": "assistant", "content": None, "refusal": ""}),
        chunk({"refusal": "I'm "}),
        chunk({"refusal": "sorry."}),
        chunk({}, "stop"),
        DONE,
    )
    assert message.content == (RefusalPart("I'm sorry."),)
    assert message.finish_reason == "stop"


def test_quirk_36_error_beside_choices():
    failing = chunk({"content": ""}, usage=USAGE, error={"code": 400, "message": "Token limit reached"})
    events = read(sse(chunk({"reasoning": "We need"}, "length"), failing, DONE))
    last = events[-1]
    assert isinstance(last, ResponseError)
    assert (last.error.code, last.message.raw_finish_reason, last.message.usage) == (400, "length", Usage(12, 8, 20))
    assert (last.message.finish_reason, last.message.reasoning) == ("error", "We need")
    assert events[-2] == ReasoningEnd(0)


def test_error_in_the_choice_and_error_as_finish_reason():
    one = chunk({"content": ""}, "error")
    assert str(read(sse(one, DONE))[-1].error).endswith("finish reason 'error'.")
    one["choices"][0]["error"] = {"code": 502, "message": "Upstream."}
    last = read(sse(one, DONE))[-1]
    assert (last.error.code, last.error.retryable, last.message.finish_reason) == (502, True, "error")


def test_error_as_the_first_event():
    (only,) = [
        event for event in read(sse({"error": {"message": "Busy", "code": 429}})) if event.type != "response-start"
    ]
    assert isinstance(only, ResponseError)
    assert only.error.retryable is True


@pytest.mark.parametrize(
    ("usage", "quirks", "expected"),
    [
        ((432, 68, 636, 136), ChatQuirks(), Usage(432, 204, 636, None, None, 136)),
        ((432, 68, None, 136), ChatQuirks(output_excludes_reasoning=True), Usage(432, 204, 636, None, None, 136)),
        ((432, 68, 500, 60), ChatQuirks(output_excludes_reasoning=True), Usage(432, 68, 500, None, None, 60)),
        ((43, 10, 53, 11), ChatQuirks(), Usage(43, 10, 53, None, None, 11)),
    ],
)
def test_quirk_40_output_that_leaves_reasoning_out(usage, quirks, expected):
    prompt, output, total, reasoning = usage
    raw = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": total,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    assert answer(chunk({"content": "a"}, "stop", usage=raw), DONE, quirks=quirks).usage == expected


@pytest.mark.parametrize(
    ("more", "cached", "written"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2}}, 5, 2),
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 6}, 6, None),
        ({"cached_tokens": 7}, 7, None),
        ({"prompt_tokens_details": None}, None, None),
    ],
)
def test_quirk_40_cached_tokens(more, cached, written):
    usage = answer(chunk({"content": "a"}, "stop", usage=USAGE | more), DONE).usage
    assert (usage.cached_input_tokens, usage.cache_write_tokens) == (cached, written)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL"),
    ],
)
def test_quirk_68_finish_reasons(raw, reason):
    message = answer(chunk({"content": "a"}, raw), DONE)
    assert (message.finish_reason, message.raw_finish_reason) == (reason, raw)


def test_finish_reason_as_a_number():
    assert answer(chunk({"content": "a"}, 1), DONE).raw_finish_reason == "1"  # type: ignore[arg-type]


# ---------------------------------------------------------------- what else an answer has


def test_citations_are_sources_once_each():
    results = [{"url": "https://a", "title": "A"}, {"url": "https://c", "title": "C"}]
    more = {"citations": ["https://a", "https://b"], "search_results": results}
    events = read(sse(chunk({"content": "1"}, **more), chunk({"content": "2"}, **more), chunk({}, "stop", **more)))
    sources = [event.part for event in events if isinstance(event, Source)]
    assert [(part.url, part.title) for part in sources] == [("https://a", "A"), ("https://b", None), ("https://c", "C")]
    assert [part for part in events[-1].message.content if isinstance(part, SourcePart)] == sources
    assert events[-1].message.text == "12"


def test_annotations_are_sources():
    note = {
        "type": "url_citation",
        "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 3},
    }
    message = answer(
        chunk({"content": "abc"}), chunk({"annotations": [note]}), chunk({"annotations": [note]}, "stop"), DONE
    )
    assert message.content[1:] == (SourcePart("https://a", "A", provider_data=note),)


def test_logprobs_are_kept():
    def token(text: str) -> dict[str, Any]:
        one = chunk({"content": text})
        one["choices"][0]["logprobs"] = {"content": [{"token": text, "logprob": -0.5}], "refusal": None}
        return one

    message = answer(token("Foo"), token("!"), chunk({}, "stop"), DONE)
    assert message.text == "Foo!"
    assert [one["token"] for one in message.provider_data["logprobs"]["content"]] == ["Foo", "!"]


def test_images_are_files():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    events = read(sse(chunk({"content": "See:"}), chunk({"images": [image]}), chunk({}, "stop"), DONE))
    part = events[-1].message.content[1]
    assert (part.media_type, part.data) == ("image/png", bytes([0x89, 0x50, 0x4E]))
    assert [event.part for event in events if isinstance(event, File)] == [part]


def test_spoken_answer_is_kept_for_its_provider():
    message = answer(
        chunk({"audio": {"id": "au_1", "transcript": "Hel"}}),
        chunk({"audio": {"transcript": "lo", "data": "UklG"}}, "stop"),
        DONE,
    )
    assert message.content[0].data == {"id": "au_1", "transcript": "Hello", "data": "UklG"}
