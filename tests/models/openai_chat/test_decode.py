"""Whole bodies, and HTTP errors of this wire's vendors."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import ContextOverflowError, InvalidResponseError, ModelError, ModelResponseError, RateLimitError
from loopwright.messages import ReasoningPart, RefusalPart, TextPart, ToolCallPart
from loopwright.models.base import ModelInfo
from loopwright.models.openai_chat import ChatCodec

MODEL = ModelInfo("p", "openai-chat", "m")
CODEC = ChatCodec()


def decode(message: Any, finish: str | None = "stop", **members: Any):
    choice = {"index": 0, "finish_reason": finish} | ({} if message is None else {"message": message})
    return CODEC.decode(MODEL, json.dumps({"id": "r", "choices": [choice], **members}).encode())


def test_reasoning_comes_before_text_before_calls():
    message = decode(
        {
            "tool_calls": [{"id": "c", "index": 0, "function": {"name": "t", "arguments": '{"a": 1}'}}],
            "content": "Let me see.",
            "reasoning_content": "Hm.",
            "role": "assistant",
        },
        "tool_calls",
    )
    assert [type(part) for part in message.content] == [ReasoningPart, TextPart, ToolCallPart]
    assert message.tool_calls[0].input == {"a": 1}


def test_white_space_before_the_body():
    assert CODEC.decode(MODEL, b'\n   \n{"choices":[{"message":{"content":"a"}}]}').text == "a"


def test_arguments_as_an_object():
    message = decode({"tool_calls": [{"id": "c", "function": {"name": "t", "arguments": {"a": 1}}}]})
    assert message.tool_calls[0].arguments == '{"a":1}'


def test_quirk_29_empty_call_id_with_signature():
    extra = {"google": {"thought_signature": "sig"}}
    call = {"id": "", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    message = decode({"extra_content": extra, "tool_calls": [call, call]}, "tool_calls")
    assert [one.id for one in message.tool_calls] == ["call_r_0", "call_r_1"]
    assert message.provider_data["extra_content"] == extra


def test_quirk_34_refusal_and_content_filter():
    message = decode({"content": None, "refusal": "No."}, "content_filter")
    assert message.content == (RefusalPart("No."),)
    assert message.finish_reason == "content-filter"


def test_quirk_35_error_with_status_200():
    body = {"error": {"code": "content_filter", "status": 400, "message": "Filtered.", "innererror": {"x": 1}}}
    with pytest.raises(ModelResponseError, match="Filtered") as caught:
        CODEC.decode(MODEL, json.dumps(body).encode())
    assert (caught.value.code, caught.value.retryable, caught.value.body) == ("content_filter", False, body)


def test_quirk_35_choice_without_message():
    message = decode(None, "content_filter", model="gpt-35-turbo")
    assert (message.content, message.finish_reason) == ((), "content-filter")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"choices":null}'])
def test_body_that_is_no_completion(body):
    with pytest.raises(InvalidResponseError):
        CODEC.decode(MODEL, body)


def test_finish_reason_error():
    with pytest.raises(ModelResponseError, match="'error'"):
        decode({"content": "a"}, "error")


def test_quirk_38_and_39_http_errors():
    overflow = CODEC.error(
        400,
        {},
        b'{"error":{"message":"exceeds the available context size","type":"exceed_context_size_error","code":400}}',
    )
    assert isinstance(overflow, ContextOverflowError)
    assert (overflow.code, overflow.type) == (400, "exceed_context_size_error")
    limit = CODEC.error(
        429, {"retry-after": "1", "retry-after-ms": "0"}, b'{"error":{"code":"RateLimitReached","message":"m"}}'
    )
    assert isinstance(limit, RateLimitError)
    assert (limit.retry_after, limit.code, limit.retryable) == (1.0, "RateLimitReached", True)
    empty = CODEC.error(500, {"x-request-id": "q"}, b"")
    assert (empty.body, empty.request_id, empty.retryable) == (None, "q", True)


NAMES = st.sampled_from(
    [
        "id",
        "model",
        "choices",
        "index",
        "delta",
        "message",
        "content",
        "role",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "custom",
        "input",
        "type",
        "text",
        "thinking",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "completion_tokens_details",
        "reasoning_tokens",
        "error",
        "code",
        "detail",
        "citations",
        "search_results",
        "url",
        "annotations",
        "images",
        "image_url",
        "audio",
        "data",
        "logprobs",
        "x_groq",
        "refusal",
        "function_call",
        "extra_content",
    ]
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "x", "{}", "null", "stop", "reasoning.text"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=20
)
DELTAS = st.dictionaries(NAMES, VALUES, max_size=5)
CHOICES = st.fixed_dictionaries(
    {}, optional={"delta": DELTAS | VALUES, "message": DELTAS, "index": VALUES, "finish_reason": VALUES}
)
CHUNKS = st.dictionaries(NAMES, VALUES, max_size=4) | st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2)}, optional={"usage": VALUES, "id": VALUES, "error": VALUES}
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CHUNKS, max_size=4))
def test_members_of_any_shape_raise_nothing_but_model_errors(chunks):
    decoder = CODEC.decoder(MODEL)
    try:
        for chunk in chunks:
            decoder.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        decoder.close()
    except ModelError:
        assert decoder.partial().finish_reason == "aborted"
    for chunk in chunks:
        body = json.dumps(chunk).encode()
        assert CODEC.error(400, {}, body).status == 400
        with suppress(ModelError):
            assert CODEC.decode(MODEL, body).api == "openai-chat"
