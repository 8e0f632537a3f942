"""An earlier answer, as it goes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from ...messages import AssistantMessage, AssistantPart, ProviderPart, ReasoningPart, RefusalPart, ToolCallPart
from ..base import ModelIdentity
from ..json_shapes import is_object
from .quirks import ChatQuirks

__all__ = ["assistant_message", "safe_arguments"]


def assistant_message(message: AssistantMessage, model: ModelIdentity, quirks: ChatQuirks) -> dict[str, Any] | None:
    """The message as JSON, None where nothing of it can be sent."""
    parts = message.content
    is_own = message.provider == model.provider and message.model == model.name
    text = message.text
    refusal = "".join([part.text for part in parts if isinstance(part, RefusalPart)])
    data: dict[str, Any] = {"role": "assistant", "content": None}
    if refusal and quirks.refusal_field:
        data["refusal"] = refusal
    else:
        text += refusal
    data["content"] = text or None
    calls = [part for part in parts if isinstance(part, ToolCallPart) and not part.provider_executed]
    if calls:
        data["tool_calls"] = [_call(part, with_extra=is_own) for part in calls]
    if is_own and (audio := _audio_id(parts)):
        data["audio"] = {"id": audio}
    if not text and len(data) == 2:
        return None
    reasoning = [part for part in parts if isinstance(part, ReasoningPart)]
    if reasoning:
        _add_reasoning(data, reasoning, quirks.reasoning_field)
    if is_own and message.provider_data and (extra := message.provider_data.get("extra_content")):
        data["extra_content"] = extra
    return data


def _audio_id(parts: Sequence[AssistantPart]) -> Any:
    spoken = (part.data.get("id") for part in parts if isinstance(part, ProviderPart) and part.kind == "audio")
    return next(spoken, None)


def _add_reasoning(data: dict[str, Any], parts: list[ReasoningPart], field: str | None) -> None:
    text = "".join(part.text for part in parts)
    if field == "reasoning_details":
        details = [detail for part in parts for detail in (part.provider_data or {}).get("reasoning_details", ())]
        if details:
            data["reasoning_details"] = details
        elif text:
            data["reasoning"] = text
    elif field == "thinking" and text:
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
        answer = [{"type": "text", "text": data["content"]}] if data["content"] else []
        data["content"] = [thinking, *answer]
    elif field not in (None, "thinking") and text:
        data[field] = text


def _call(part: ToolCallPart, *, with_extra: bool) -> dict[str, Any]:
    # No vendor takes an empty name back, yet models do write one.
    name = part.name or "unknown"
    call: dict[str, Any] = {"id": part.id}
    if part.custom:
        call |= {"type": "custom", "custom": {"name": name, "input": part.arguments}}
    else:
        call |= {"type": "function", "function": {"name": name, "arguments": safe_arguments(part.arguments)}}
    if with_extra and part.provider_data and (extra := part.provider_data.get("extra_content")):
        call["extra_content"] = extra
    return call


def safe_arguments(text: str) -> str:
    """Arguments that every vendor takes back.

    The text itself where it is a JSON object, `{}` for none, else an object that shows what was written.
    """
    if not text.strip():
        return "{}"
    try:
        value = from_json(text.encode(), allow_inf_nan=False)
    except ValueError:  # a lone surrogate, which cannot be encoded, is one too
        return to_json({"invalid_json": text.encode("utf-8", "replace").decode()}).decode()
    if value is None:
        return "{}"
    return text if is_object(value) else to_json({"invalid_arguments": value}).decode()
