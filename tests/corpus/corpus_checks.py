"""Whether an answer was read as `expected` in its `meta.json` says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from corpus_cases import Exchange
from corpus_replay import Outcome

from loopwright.errors import ModelHTTPError, ModelResponseError, StreamTruncatedError
from loopwright.messages import AssistantMessage, ReasoningPart, RefusalPart, SourcePart, ToolCallPart
from loopwright.models.sse import SSEDecoder
from loopwright.usage import Usage

Faults = Iterator[str]

_USAGE = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
# Members that say what was in the bytes, not what a reader gets out of them.
_FOR_ORIENTATION = frozenset(
    {"block_types", "event_types", "output_read_from", "output_types", "part_kinds", "server_tool_blocks"}
    | {"server_tool_items", "code_execution", "stream", "reasoning_text"}
)
# Members whose value must be found somewhere in what the message keeps of its provider's words.
_KEPT = frozenset(
    {"finish_message", "finish_reason_detail", "native_finish_reason", "prompt_block_reason", "stop_details"}
    | {"stop_sequence"}
)


def expectation_faults(exchange: Exchange, outcome: Outcome) -> Faults:
    """One sentence for each thing that differs."""
    expected = exchange.expected
    yield from _failure_faults(exchange, outcome)
    if exchange.is_stream:
        yield from _framing_faults(exchange)
    message = outcome.message
    if message is None:
        return
    for check in _MESSAGE_CHECKS:
        yield from check(expected, message)
    for name in expected.keys() - _CHECKED - _FOR_ORIENTATION:
        if name not in _KEPT:
            yield f"no check for the expected member {name!r}"
        elif _canonical(expected[name]) not in _canonical(message.provider_data):
            yield f"{name}: {expected[name]!r} is not kept in provider_data"
    if exchange.wire == "openai_chat":
        yield from _chat_faults(expected, message)


# ---------------------------------------------------------------- failures


def _failure_faults(exchange: Exchange, outcome: Outcome) -> Faults:
    expected, error = exchange.expected, outcome.error
    said = expected.get("error")
    if said is None:
        if _is_truncated(exchange):
            if not isinstance(error, StreamTruncatedError):
                yield f"the body is cut off, yet the error is {error!r}"
        elif error is not None:
            yield f"unexpected error: {error!r}"
        return
    if "http_status" in said:
        if not isinstance(error, ModelHTTPError):
            yield f"expected an HTTP error, got {error!r}"
            return
        if error.status != said["http_status"]:
            yield f"status {error.status}, expected {said['http_status']}"
    elif not isinstance(error, ModelResponseError):
        yield f"expected an error in the answer, got {error!r}"
        return
    yield from _error_faults(said, error)


def _error_faults(said: dict[str, Any], error: ModelHTTPError | ModelResponseError) -> Faults:
    if said.get("code") is not None and error.code != said["code"]:
        yield f"error code {error.code!r}, expected {said['code']!r}"
    kind = said.get("type") or said.get("status")
    if isinstance(kind, str) and error.type != kind:
        yield f"error type {error.type!r}, expected {kind!r}"
    message = str(said.get("message") or "").strip()
    if message[:300] not in str(error):
        yield f"error message {str(error)!r} lacks {message[:300]!r}"
    if said.get("param") is not None and _canonical(said["param"]) not in _canonical(error.body):
        yield f"param {said['param']!r} is not in the error's body"
    waits = [
        float(text) * unit
        for name, unit in (("retry_after_ms", 0.001), ("retry_after", 1.0), ("retry_delay", 1.0))
        if re.fullmatch(r"[0-9.]+", text := str(said.get(name, "")).removesuffix("s"))
    ]
    if waits and isinstance(error, ModelHTTPError):
        wait = next((wait for wait in waits if wait > 0), 0.0)
        if error.retry_after is None or abs(error.retry_after - wait) > 0.001:
            yield f"retry_after {error.retry_after!r}, expected {wait}"


def _is_truncated(exchange: Exchange) -> bool:
    expected = exchange.expected
    if not exchange.is_stream or expected.get("finish_reason") is not None:
        return False
    return not expected.get("stream", {}).get("done") and "prompt_block_reason" not in expected


def _framing_faults(exchange: Exchange) -> Faults:
    expected = exchange.expected.get("stream", {})
    decoder = SSEDecoder()
    events = decoder.feed(exchange.body)
    tail = decoder.close()
    found = {"events": sum(bool(event.data) for event in events), "comments": decoder.comments}
    if tail is not None and tail.data:
        found["events"] += 1
    if "events" in expected and expected["events"] - expected.get("bad_json", 0) not in (
        found["events"],
        found["events"] - expected.get("bad_json", 0),
    ):
        yield f"{found['events']} server-sent events, expected {expected['events']}"
    if "comments" in expected and found["comments"] != expected["comments"]:
        yield f"{found['comments']} comments, expected {expected['comments']}"


# ---------------------------------------------------------------- messages


def _text_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    yield from _same_text("text", expected.get("text"), message.text)


def _reasoning_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    said = [expected[name] for name in ("reasoning", "reasoning_text") if name in expected]
    faults = [list(_same_text("reasoning", text, message.reasoning)) for text in said or [None]]
    if all(faults):
        yield from faults[0]


def _refusal_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    refusal = "".join(part.text for part in message.content if isinstance(part, RefusalPart))
    yield from _same_text("refusal", expected.get("refusal"), refusal)


def _same_text(name: str, expected: Any, found: str) -> Faults:
    if isinstance(expected, dict):
        digest = sha256(found.encode()).hexdigest()
        if (len(found), digest) != (expected["length"], expected["sha256"]):
            yield f"{name}: {len(found)} characters {found[:80]!r}, expected {expected['length']} {expected['head']!r}"
        elif not (found.startswith(expected["head"]) and found.endswith(expected["tail"])):
            yield f"{name}: head or tail differ"
    elif found != (expected or ""):
        yield f"{name}: {found[:300]!r}, expected {expected!r}"


def _call_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    said = expected.get("tool_calls", [])
    calls = [call for call in message.tool_calls if not call.provider_executed]
    if len(calls) != len(said):
        yield f"{len(calls)} tool calls, expected {len(said)}"
        return
    ids = [call.id for call in calls]
    if len(set(ids)) != len(ids) or "" in ids:
        yield f"tool call ids {ids} are empty or repeated"
    for call, one in zip(calls, said, strict=True):
        for fault in _one_call_faults(one, call, expected):
            yield f"call {call.id!r}: {fault}"


def _one_call_faults(said: dict[str, Any], call: ToolCallPart, expected: dict[str, Any]) -> Faults:
    if said.get("id") and call.id != said["id"]:
        yield f"id, expected {said['id']!r}"
    if call.name != said["name"]:
        yield f"name {call.name!r}, expected {said['name']!r}"
    if bool(said.get("custom")) != call.custom:
        yield f"custom is {call.custom}"
    if call.custom:
        if call.arguments != said["input"]:
            yield f"input {call.arguments!r}, expected {said['input']!r}"
    elif said.get("arguments_invalid_json"):
        if call.input is not None or call.arguments != said["arguments_raw"]:
            yield f"arguments {call.arguments!r}, expected the invalid {said['arguments_raw']!r}"
    else:
        raw = said.get("arguments_raw", "{}")
        if raw and "arguments_raw" in said and call.arguments != raw:
            yield f"arguments {call.arguments!r}, expected {raw!r}"
        no_object = said.get("arguments_not_an_object") and raw not in ("null", "", None)
        wanted = None if no_object else said.get("arguments") or {}
        if call.input != wanted:
            yield f"arguments {call.arguments!r}, expected {wanted!r}"
    if call.incomplete != _is_incomplete(said, expected):
        yield f"incomplete is {call.incomplete}"


def _is_incomplete(said: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether a call must not be run.

    A stream that was closed properly ends its calls even where no finish reason came: there the arguments tell.
    """
    if said.get("arguments_invalid_json"):
        ended = expected.get("finish_reason") in ("stop", "tool_calls", "tool_use", "end_turn", "STOP", "completed")
        return not ended
    if expected.get("stream", {}).get("done") and "error" not in expected:
        return False
    return bool(said.get("incomplete"))


def _end_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    raw = expected.get("finish_reason")
    if message.raw_finish_reason != raw:
        yield f"raw finish reason {message.raw_finish_reason!r}, expected {raw!r}"
    runnable = any(not (call.incomplete or call.provider_executed) for call in message.tool_calls)
    if runnable and message.finish_reason == "stop":
        yield "there are tool calls, yet the finish reason is 'stop'"
    if not message.tool_calls and message.finish_reason == "tool-calls":
        yield "there are no tool calls, yet the finish reason is 'tool-calls'"


def _origin_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    for name, found in (("model", message.response_model), ("response_id", message.response_id)):
        if (found or None) != (expected.get(name) or None):
            yield f"{name} {found!r}, expected {expected.get(name)!r}"


def _usage_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    said = expected.get("usage")
    if said is None:
        if message.usage is not None:
            yield f"usage {message.usage}, expected none"
        return
    usage = message.usage or Usage()
    for name in _USAGE:
        found = getattr(usage, name)
        if name in said and found != said[name]:
            yield f"usage.{name} {found}, expected {said[name]}"
        elif name not in said and found and str(found) not in _canonical(expected.get("usage_raw")):
            yield f"usage.{name} {found}, expected none"


def _citation_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    sources = [part for part in message.content if isinstance(part, SourcePart)]
    said = expected.get("citations")
    if said is None:
        if sources:
            yield f"{len(sources)} sources, expected none"
        return
    if len(sources) != said["count"]:
        yield f"{len(sources)} sources, expected {said['count']}"
    if (urls := sorted({part.url for part in sources if part.url})) != sorted(said["urls"]):
        yield f"sources {urls}, expected {said['urls']}"


_MESSAGE_CHECKS: tuple[Callable[[dict[str, Any], AssistantMessage], Faults], ...] = (
    _text_faults,
    _reasoning_faults,
    _refusal_faults,
    _call_faults,
    _end_faults,
    _origin_faults,
    _usage_faults,
    _citation_faults,
)
_CHECKED = frozenset(
    {"text", "reasoning", "refusal", "tool_calls", "finish_reason", "model", "response_id", "usage", "usage_raw"}
    | {"citations", "error", "other_choices", "reasoning_field", "reasoning_details_types"}
)


# ---------------------------------------------------------------- Chat Completions only


def _chat_faults(expected: dict[str, Any], message: AssistantMessage) -> Faults:
    data = message.provider_data or {}
    if "usage_raw" in expected and data.get("usage") != expected["usage_raw"]:
        yield f"raw usage {data.get('usage')}, expected {expected['usage_raw']}"
    parts = [part.provider_data or {} for part in message.content if isinstance(part, ReasoningPart)]
    fields = {"content[].thinking": "thinking"}
    if said := expected.get("reasoning_field"):
        found = {part.get("reasoning_field") for part in parts}
        if fields.get(said, said) not in found:
            yield f"reasoning came under {found}, expected {said!r}"
    types = {detail.get("type") for part in parts for detail in part.get("reasoning_details", ())}
    if types != set(expected.get("reasoning_details_types", ())):
        yield f"reasoning details {types}, expected {expected.get('reasoning_details_types')}"
    others = data.get("other_choices", [])
    said_others = expected.get("other_choices", [])
    if len(others) != len(said_others):
        yield f"{len(others)} other choices, expected {len(said_others)}"
        return
    for found, said in zip(others, said_others, strict=True):
        yield from _same_text("other choice", said.get("text"), found["text"])
        if found["finish_reason"] != said.get("finish_reason"):
            yield f"other choice ended with {found['finish_reason']!r}, expected {said.get('finish_reason')!r}"
        named = [(call["name"], call["id"]) for call in found.get("tool_calls", ())]
        if named != [(call["name"], call["id"]) for call in said.get("tool_calls", ())]:
            yield f"other choice calls {named}, expected {said.get('tool_calls')}"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
