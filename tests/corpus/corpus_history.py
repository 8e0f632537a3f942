"""Whether answers go back acceptably: the recorded conversation, rebuilt from what was decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from corpus_cases import Exchange

from loopwright.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models.base import ModelIdentity, ModelRequest, RequestContext
from loopwright.models.codec import Codec

_SYSTEM = ("system", "developer")


def history_faults(
    codec: Codec, model: ModelIdentity, exchanges: Sequence[Exchange], answers: Sequence[AssistantMessage | None]
) -> Iterator[str]:
    """One sentence for each thing that a provider would refuse, or that came out of order."""
    memo: dict[str, Any] = {}
    for number, exchange in enumerate(exchanges):
        if exchange.request is None or number == 0:
            continue
        recorded = [one for one in exchange.request["messages"] if one["role"] not in _SYSTEM and not _is_empty(one)]
        messages = _rebuilt(recorded, answers[:number])
        request = ModelRequest(RequestContext(messages), memo=memo)
        body = codec.encode(model, request, stream=False)
        if body != codec.encode(model, ModelRequest(RequestContext(messages)), stream=False):
            yield f"step {number + 1}: the body depends on what was encoded before"
        for fault in _body_faults(json.loads(body)["messages"], recorded):
            yield f"step {number + 1}: {fault}"


def _rebuilt(recorded: list[dict[str, Any]], answers: Sequence[AssistantMessage | None]) -> list[Message]:
    """The recorded messages, with the decoded answers where the client sent them back."""
    usable = [answer for answer in answers if answer is not None and not answer.failed]
    open_ids: list[str] = []
    messages: list[Message] = []
    for one in recorded:
        role = one["role"]
        if role == "user":
            messages.append(UserMessage(_user_parts(one["content"])))
        elif role == "assistant":
            message = _decoded(one, usable) or _recorded_assistant(one)
            messages.append(message)
            open_ids = [call.id for call in message.tool_calls]
        else:
            # Ids that a client made up stand for ours, in order.
            given = one["tool_call_id"]
            id_ = given if given in open_ids else open_ids[0]
            open_ids.remove(id_)
            messages.append(ToolResultMessage(id_, one.get("name") or "tool", _text_of(one["content"])))
    return messages


def _decoded(recorded: dict[str, Any], answers: list[AssistantMessage]) -> AssistantMessage | None:
    text = _text_of(recorded.get("content")).strip()
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"] or "{}") or {})
        for call in recorded.get("tool_calls") or ()
        if "function" in call
    ]
    for answer in answers:
        same_text = bool(answer.text) and answer.text.strip() == text
        if [(call.name, call.input) for call in answer.tool_calls] == calls and (calls or same_text):
            answers.remove(answer)
            return answer
    return None


def _recorded_assistant(one: dict[str, Any]) -> AssistantMessage:
    calls = [
        ToolCallPart(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in one.get("tool_calls") or ()
    ]
    text = _text_of(one.get("content"))
    return AssistantMessage((*([TextPart(text)] if text else []), *calls))


def _is_empty(one: dict[str, Any]) -> bool:
    return one["role"] == "assistant" and not one.get("content") and not one.get("tool_calls")


def _user_parts(content: Any) -> list[TextPart | ImagePart]:
    if isinstance(content, str):
        return [TextPart(content)]
    return [
        TextPart(part["text"]) if part["type"] == "text" else ImagePart(url=part["image_url"]["url"])
        for part in content
        if part["type"] in ("text", "image_url")
    ]


def _text_of(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text", "") for part in content)


def _body_faults(sent: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> Iterator[str]:
    roles = [one["role"] for one in sent]
    if roles != [one["role"] for one in recorded]:
        yield f"roles {roles}, recorded {[one['role'] for one in recorded]}"
        return
    waiting: list[str] = []
    for one, old in zip(sent, recorded, strict=True):
        if one["role"] == "tool":
            if one["tool_call_id"] not in waiting:
                yield f"a tool message answers {one['tool_call_id']!r}, which no call before it has"
            else:
                waiting.remove(one["tool_call_id"])
            continue
        if waiting:
            yield f"calls {waiting} have no result"
        calls = one.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        if one["role"] != "assistant":
            continue
        if one["content"] is None and not calls and "refusal" not in one:
            yield "an assistant message without content"
        yield from _call_faults(calls, old.get("tool_calls") or [])
        if "reasoning_details" in old and one.get("reasoning_details") != old["reasoning_details"]:
            yield "reasoning_details do not go back as the recording client sent them"


def _call_faults(calls: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> Iterator[str]:
    if [call["function"]["name"] for call in calls] != [call["function"]["name"] for call in recorded]:
        yield "other tool calls than recorded"
        return
    for call, old in zip(calls, recorded, strict=True):
        arguments = json.loads(call["function"]["arguments"])
        if not isinstance(arguments, dict):
            yield f"arguments {arguments!r} are no object"
        elif arguments != (json.loads(old["function"]["arguments"] or "{}") or {}):
            yield f"arguments {arguments!r}, recorded {old['function']['arguments']!r}"
