"""A request's body. Messages are encoded once and kept in the request's memo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from ...messages import ApprovalMessage, AssistantMessage, FilePart, ImagePart, Message, ToolResultMessage, UserMessage
from ..base import ModelIdentity, ModelRequest, ModelSettings, ResponseSchema, ToolDeclaration
from .assistant import assistant_message
from .media import user_part
from .quirks import ChatQuirks

__all__ = ["encode_request", "settings_warnings"]

_SAMPLING = (
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("stop", "stop_sequences"),
    ("seed", "seed"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("reasoning_effort", "reasoning_effort"),
    ("service_tier", "service_tier"),
)
_FOLLOWS = "(Its images and files follow in the next user message.)"


class _Memo:
    """What was encoded for one model, kept from request to request."""

    __slots__ = ("counts", "messages", "moved", "sent", "settings", "settings_raw", "tools", "tools_raw")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.sent: list[bytes] = []  # the encoded messages, those that are not sent left out
        self.counts: list[int] = []  # how many of `sent` each message made
        self.moved: list[dict[str, Any]] = []  # parts of tool results that wait for the next user message
        self.tools: list[ToolDeclaration] = []
        self.tools_raw = b""
        self.settings: ModelSettings | None = None
        self.settings_raw: dict[str, bytes] = {}


def encode_request(model: ModelIdentity, request: ModelRequest, quirks: ChatQuirks, *, stream: bool) -> bytes:
    """The body of a request.

    Raises:
        InvalidContentError: The messages hold something that this wire cannot carry.
    """
    context, settings = request.context, request.settings
    memo = _memo_of(model, request, quirks)
    members = _other_members(memo, request, quirks)
    if stream:
        members["stream"] = b"true"
        if quirks.stream_usage:
            members["stream_options"] = b'{"include_usage":true}'
    if settings.extra_body:
        members |= {name: to_json(value) for name, value in settings.extra_body.items()}
    members.setdefault("model", to_json(model.name))
    pieces: list[bytes] = []
    if "messages" not in members:
        # The largest part is copied twice, here and in the last join, and not once more.
        _add_messages(memo, model, context.messages, quirks)
        head = [to_json({"role": quirks.system_role, "content": context.system})] if context.system else []
        tail = [_moved_chunk(memo.moved)] if memo.moved else []
        pieces += [b',"messages":[', b",".join(head + memo.sent + tail if head or tail else memo.sent), b"]"]
    for name, raw in members.items():
        pieces += (b",", to_json(name), b":", raw)
    pieces[0] = b"{" + pieces[0][1:]
    return b"".join([*pieces, b"}"])


def _other_members(memo: _Memo, request: ModelRequest, quirks: ChatQuirks) -> dict[str, bytes]:
    """Tools and settings."""
    settings, tools = request.settings, request.context.tools
    if memo.settings is not settings:
        memo.settings_raw = _settings_raw(settings, quirks)
        memo.settings = settings
    members = dict(memo.settings_raw)
    if tools:
        members["tools"] = _tools_raw(memo, tools)
        members |= _tool_settings_raw(settings)
    return members


def _memo_of(model: ModelIdentity, request: ModelRequest, quirks: ChatQuirks) -> _Memo:
    key = f"openai-chat {model.provider} {model.name} {hash(quirks)}"
    memo = request.memo.get(key)
    if not isinstance(memo, _Memo):
        memo = request.memo[key] = _Memo()
    return memo


# ---------------------------------------------------------------- messages


def _add_messages(memo: _Memo, model: ModelIdentity, messages: Sequence[Message], quirks: ChatQuirks) -> None:
    """Encode the messages that are not in the memo yet."""
    kept = len(memo.messages)
    # Comparing lists compares identities first, so a history that only grew costs next to nothing here.
    if messages[:kept] != memo.messages:
        kept = _same_prefix(memo.messages, messages)
        # What moved out of tool results depends on the whole batch, so a batch is kept whole or not at all.
        while kept and isinstance(messages[kept - 1], ToolResultMessage):
            kept -= 1
        del memo.messages[kept:], memo.counts[kept:]
        del memo.sent[sum(memo.counts) :]
        memo.moved = []
    for message in messages[kept:]:
        chunk, moved = _encoded(message, model, quirks)
        before = len(memo.sent)
        if moved:
            memo.moved = [*memo.moved, *moved]
        elif chunk and memo.moved and not isinstance(message, ToolResultMessage):
            memo.sent.append(_moved_chunk(memo.moved))
            memo.moved = []
        if chunk:
            memo.sent.append(chunk)
        memo.messages.append(message)
        memo.counts.append(len(memo.sent) - before)


def _same_prefix(kept: Sequence[Message], messages: Sequence[Message]) -> int:
    count = 0
    for old, new in zip(kept, messages, strict=False):
        if old is not new and old != new:
            break
        count += 1
    return count


def _encoded(message: Message, model: ModelIdentity, quirks: ChatQuirks) -> tuple[bytes, list[dict[str, Any]]]:
    """A message's JSON, empty for one that is not sent, and the parts of it that move to a user message."""
    if isinstance(message, ToolResultMessage):
        return _tool_message(message, quirks)
    if isinstance(message, UserMessage):
        return _user_message(message), []
    if isinstance(message, ApprovalMessage):
        return b"", []
    return _assistant_chunk(message, model, quirks), []


def _assistant_chunk(message: AssistantMessage, model: ModelIdentity, quirks: ChatQuirks) -> bytes:
    data = assistant_message(message, model, quirks)
    return b"" if data is None else to_json(data)


def _user_message(message: UserMessage) -> bytes:
    parts = [user_part(part) for part in message.content if part.type != "text" or part.text]
    if not parts:
        return b""
    content: Any = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    return to_json({"role": "user", "content": content})


def _tool_message(message: ToolResultMessage, quirks: ChatQuirks) -> tuple[bytes, list[dict[str, Any]]]:
    content: Any = message.text
    moved: list[dict[str, Any]] = []
    if any(isinstance(part, (ImagePart, FilePart)) for part in message.content):
        if quirks.tool_images:
            content = [user_part(part) for part in message.content if part.type != "text" or part.text]
        else:
            media = [user_part(part) for part in message.content if isinstance(part, (ImagePart, FilePart))]
            title = f"Images and files of the result of {message.tool_name} (tool call {message.tool_call_id}):"
            moved = [{"type": "text", "text": title}, *media]
            content = f"{content}\n{_FOLLOWS}" if content else _FOLLOWS
    return to_json({"role": "tool", "tool_call_id": message.tool_call_id, "content": content}), moved


def _moved_chunk(parts: list[dict[str, Any]]) -> bytes:
    return to_json({"role": "user", "content": parts})


# ---------------------------------------------------------------- tools and settings


def _tools_raw(memo: _Memo, tools: list[ToolDeclaration]) -> bytes:
    if memo.tools != tools:
        memo.tools = [*tools]
        memo.tools_raw = to_json([_tool(tool) for tool in tools])
    return memo.tools_raw


def _tool(tool: ToolDeclaration) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _settings_raw(settings: ModelSettings, quirks: ChatQuirks) -> dict[str, bytes]:
    values: Mapping[str, Any] = {name: getattr(settings, attribute) for name, attribute in _SAMPLING}
    raw = {name: to_json(value) for name, value in values.items() if value is not None}
    if settings.max_output_tokens is not None:
        raw[quirks.max_tokens_field] = to_json(settings.max_output_tokens)
    if settings.response_format is not None:
        raw["response_format"] = to_json(_response_format(settings.response_format))
    return raw


def _response_format(given: ResponseSchema | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(given, ResponseSchema):
        return given
    schema: dict[str, Any] = {"name": given.name, "schema": given.schema, "strict": given.strict}
    if given.description:
        schema["description"] = given.description
    return {"type": "json_schema", "json_schema": schema}


def settings_warnings(settings: ModelSettings) -> tuple[str, ...]:
    """What has no place on this wire."""
    if settings.reasoning_budget is None:
        return ()
    return ("reasoning_budget was left out: Chat Completions has no such setting; use reasoning_effort.",)


def _tool_settings_raw(settings: ModelSettings) -> dict[str, bytes]:
    """Settings that providers refuse in a request without tools."""
    raw: dict[str, bytes] = {}
    choice = settings.tool_choice
    if choice is not None:
        named = choice not in ("auto", "none", "required")
        raw["tool_choice"] = to_json({"type": "function", "function": {"name": choice}} if named else choice)
    if settings.parallel_tool_calls is not None:
        raw["parallel_tool_calls"] = b"true" if settings.parallel_tool_calls else b"false"
    return raw
