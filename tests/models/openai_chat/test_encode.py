"""Requests as they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.errors import InvalidContentError
from loopwright.messages import (
    ApprovalMessage,
    AssistantMessage,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    SourcePart,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models.base import (
    ModelInfo,
    ModelRequest,
    ModelSettings,
    RequestContext,
    ResponseSchema,
    ToolDeclaration,
)
from loopwright.models.openai_chat import ChatCodec, ChatQuirks
from loopwright.models.openai_chat import encode as encode_module

MODEL = ModelInfo("p", "openai-chat", "m")
TOOL = ToolDeclaration("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def body_of(
    *messages: Any,
    system: str | None = None,
    tools: tuple[ToolDeclaration, ...] = (),
    stream: bool = False,
    quirks: ChatQuirks | None = None,
    **settings: Any,
) -> dict[str, Any]:
    request = ModelRequest(RequestContext(list(messages), system, list(tools)), ModelSettings(**settings))
    return json.loads(ChatCodec(quirks).encode(MODEL, request, stream=stream))


def sent(*messages: Any, quirks: ChatQuirks | None = None) -> list[dict[str, Any]]:
    return body_of(*messages, quirks=quirks)["messages"]


def own(*parts: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(parts, provider="p", api="openai-chat", model="m", **more)


def test_the_least():
    assert body_of(UserMessage("Hi")) == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_system_tools_and_stream():
    body = body_of(UserMessage("Hi"), system="Be brief.", tools=(TOOL,), stream=True)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    function = {"name": "add", "description": "Adds.", "parameters": TOOL.parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    quirks = ChatQuirks(stream_usage=False, system_role="developer")
    body = body_of(UserMessage("Hi"), system="s", stream=True, quirks=quirks)
    assert "stream_options" not in body
    assert body["messages"][0]["role"] == "developer"


def test_all_settings():
    body = body_of(
        UserMessage("Hi"),
        tools=(TOOL,),
        quirks=ChatQuirks(max_tokens_field="max_completion_tokens"),
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        max_output_tokens=9,
        stop_sequences=("a", "b"),
        seed=0,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        reasoning_effort="low",
        tool_choice="add",
        parallel_tool_calls=False,
        response_format={"type": "json_object"},
        extra_body={"temperature": 1, "n": 2},
        extra_headers={"x": "secret"},
    )
    del body["messages"], body["tools"]
    assert body == {
        "model": "m",
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 3,
        "max_completion_tokens": 9,
        "stop": ["a", "b"],
        "seed": 0,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "n": 2,
    }


def test_schema_tier_and_what_has_no_place():
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body = body_of(UserMessage("Hi"), response_format=ResponseSchema(schema), service_tier="flex", reasoning_budget=9)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }
    assert body["service_tier"] == "flex"
    assert "reasoning_budget" not in body
    named = ResponseSchema(schema, "verdict", "What to do.", strict=False)
    assert body_of(UserMessage("Hi"), response_format=named)["response_format"]["json_schema"] == {
        "name": "verdict",
        "description": "What to do.",
        "schema": schema,
        "strict": False,
    }
    request = ModelRequest(RequestContext([]), ModelSettings(reasoning_budget=9))
    (warning,) = ChatCodec().warnings(MODEL, request)
    assert "reasoning_budget" in warning
    assert ChatCodec().warnings(MODEL, ModelRequest(RequestContext([]), ModelSettings(seed=1))) == ()


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_tool_choice_words_and_none_without_tools(choice):
    assert body_of(UserMessage("Hi"), tools=(TOOL,), tool_choice=choice)["tool_choice"] == choice
    body = body_of(UserMessage("Hi"), tool_choice=choice, parallel_tool_calls=True)
    assert body.keys() == {"model", "messages"}


def test_images_and_files():
    (message,) = sent(
        UserMessage(
            [
                TextPart("See:"),
                TextPart(""),
                ImagePart(b"\x89PN", "image/png", provider_data={"detail": "low"}),
                ImagePart(url="https://x/a.png"),
                FilePart(b"%PDF", "application/pdf", filename="a.pdf"),
                FilePart(b"%PDF", "application/pdf"),
                FilePart(b"RIFF", "audio/x-wav"),
            ]
        )
    )
    assert message["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(),
        ImagePart(b"x"),
        FilePart(media_type="application/pdf"),
        FilePart(url="https://x", media_type="audio/wav"),
    ],
)
def test_parts_that_cannot_be_sent(part):
    with pytest.raises(InvalidContentError):
        sent(UserMessage([part]))


def test_messages_without_anything_to_send_are_skipped():
    messages = sent(
        UserMessage([TextPart("")]),
        ApprovalMessage((ToolApprovalResponsePart("a", True),)),
        own(SourcePart("https://a"), ToolApprovalRequestPart("a", "c"), ReasoningPart("hm"), TextPart("")),
        own(ToolCallPart("s", "search", provider_executed=True), ProviderPart("x", {})),
        UserMessage("Hi"),
    )
    assert messages == [{"role": "user", "content": "Hi"}]


def test_calls_and_results():
    messages = sent(
        own(
            TextPart("a"),
            ToolCallPart("1", "add", '{"a": 1}'),
            TextPart("b"),
            ToolCallPart("2", "math", "4+4", custom=True),
        ),
        ToolResultMessage("1", "add", "five"),
        ToolResultMessage("2", "math", [TextPart("ei"), TextPart("ght")], status="error"),
    )
    assert messages == [
        {
            "role": "assistant",
            "content": "ab",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
                {"id": "2", "type": "custom", "custom": {"name": "math", "input": "4+4"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "five"},
        {"role": "tool", "tool_call_id": "2", "content": "eight"},
    ]


@pytest.mark.parametrize(
    ("written", "safe"),
    [
        ("", {}),
        (" null ", {}),
        ('{"a":1}', {"a": 1}),
        ('{"a": "cut', {"invalid_json": '{"a": "cut'}),
        ('{"a": NaN}', {"invalid_json": '{"a": NaN}'}),
        ("[1]", {"invalid_arguments": [1]}),
    ],
)
def test_arguments_are_made_safe(written, safe):
    (message,) = sent(own(ToolCallPart("1", "", written, incomplete=True)))
    function = message["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == safe
    assert function["name"] == "unknown"
    assert message["content"] is None


DETAILS = [{"type": "reasoning.text", "text": "hm", "signature": "s"}]
REASONING = ReasoningPart("hm", provider_data={"reasoning_details": DETAILS})


@pytest.mark.parametrize(
    ("field", "part", "expected"),
    [
        (None, REASONING, {"content": "a"}),
        ("reasoning_content", REASONING, {"content": "a", "reasoning_content": "hm"}),
        ("reasoning", REASONING, {"content": "a", "reasoning": "hm"}),
        ("reasoning_details", REASONING, {"content": "a", "reasoning_details": DETAILS}),
        ("reasoning_details", ReasoningPart("hm"), {"content": "a", "reasoning": "hm"}),
        ("reasoning_content", ReasoningPart(""), {"content": "a"}),
        (
            "thinking",
            REASONING,
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "a"},
                ]
            },
        ),
    ],
)
def test_reasoning_goes_back(field, part, expected):
    (message,) = sent(own(part, TextPart("a")), quirks=ChatQuirks(reasoning_field=field))
    assert message == {"role": "assistant", **expected}


def test_refusal_goes_back():
    assert sent(own(RefusalPart("No."))) == [{"role": "assistant", "content": "No."}]
    (message,) = sent(own(RefusalPart("No.")), quirks=ChatQuirks(refusal_field=True))
    assert message == {"role": "assistant", "content": None, "refusal": "No."}


def test_provider_data_goes_back_to_its_own_model_only():
    extra = {"google": {"thought_signature": "s"}}
    call = ToolCallPart("1", "t", provider_data={"extra_content": extra})
    (message,) = sent(own(call, ProviderPart("audio", {"id": "au"}), provider_data={"extra_content": extra}))
    assert message["extra_content"] == message["tool_calls"][0]["extra_content"] == extra
    assert message["audio"] == {"id": "au"}
    (message,) = sent(AssistantMessage((call,), provider="q", model="m", provider_data={"extra_content": extra}))
    assert "extra_content" not in message
    assert "extra_content" not in message["tool_calls"][0]


IMAGE = ImagePart(url="https://x/a.png")
IMAGE_JSON = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}


def test_tool_images_inside_the_result():
    message = sent(ToolResultMessage("1", "t", [TextPart("See"), IMAGE]), quirks=ChatQuirks(tool_images=True))[0]
    assert message["content"] == [{"type": "text", "text": "See"}, IMAGE_JSON]


def test_tool_images_follow_the_whole_batch():
    batch = [
        own(ToolCallPart("1", "shot"), ToolCallPart("2", "add")),
        ToolResultMessage("1", "shot", [TextPart("Done."), IMAGE]),
        ToolResultMessage("2", "add", "5"),
    ]
    messages = sent(*batch)
    assert [one["role"] for one in messages] == ["assistant", "tool", "tool", "user"]
    assert messages[1]["content"].startswith("Done.\n")
    title, image = messages[3]["content"]
    assert "shot (tool call 1)" in title["text"]
    assert image == IMAGE_JSON
    assert sent(*batch, UserMessage("Go on")) == [*messages, {"role": "user", "content": "Go on"}]


# ---------------------------------------------------------------- what is kept


def history(turns: int) -> list[Any]:
    messages: list[Any] = [UserMessage("Hi")]
    for number in range(turns):
        messages += [
            own(ToolCallPart(f"c{number}", "t")),
            ToolResultMessage(f"c{number}", "t", [TextPart("r"), IMAGE] if number % 2 else "r"),
        ]
    return messages


def request(messages: list[Any], memo: dict[str, Any]) -> ModelRequest:
    return ModelRequest(RequestContext(messages, "sys", [TOOL]), ModelSettings(seed=1), memo)


@pytest.fixture
def encoded(monkeypatch):
    count: list[Any] = []
    real = encode_module._encoded

    def counting(message: Any, *rest: Any) -> Any:
        count.append(message)
        return real(message, *rest)

    monkeypatch.setattr(encode_module, "_encoded", counting)
    return count


def test_each_message_is_encoded_once(encoded):
    codec, memo, messages = ChatCodec(), {}, history(20)
    for end in range(1, len(messages) + 1):
        body = codec.encode(MODEL, request(messages[:end], memo), stream=False)
        fresh = ChatCodec().encode(MODEL, request(messages[:end], {}), stream=False)
        assert body == fresh
    encoded.clear()
    codec.encode(MODEL, request(messages, memo), stream=False)
    codec.encode(MODEL, request([*messages, UserMessage("x")], memo), stream=False)
    assert encoded == [UserMessage("x")]


@pytest.mark.parametrize("change", [0, 1, 3, 5, 8])
def test_changed_history_is_encoded_from_the_change_on(change):
    codec, memo, messages = ChatCodec(), {}, history(4)
    codec.encode(MODEL, request(messages, memo), stream=False)
    for other in (messages[:change], [*messages[:change], UserMessage("new"), *messages[change + 1 :]]):
        body = codec.encode(MODEL, request(list(other), memo), stream=False)
        assert body == codec.encode(MODEL, request(list(other), {}), stream=False)


def test_models_and_dialects_do_not_share_what_is_kept():
    memo: dict[str, Any] = {}
    messages = [own(REASONING, TextPart("a"))]
    bodies = [
        ChatCodec(quirks).encode(model, request(messages, memo), stream=False)
        for quirks in (ChatQuirks(), ChatQuirks(reasoning_field="reasoning"))
        for model in (MODEL, ModelInfo("p", "openai-chat", "n"))
    ]
    assert len(set(bodies)) == 4


def test_path_and_api():
    assert (ChatCodec().path(MODEL, stream=True), ChatCodec().api) == ("/chat/completions", "openai-chat")
