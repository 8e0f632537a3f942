"""One message, made fit for the model at hand.

Where nothing needs to change, the message itself is returned: what was encoded for it once can be found again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TypeVar

from ..messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from ..models.base import Capabilities, ModelIdentity

__all__ = ["adapt_assistant", "adapt_result", "adapt_user", "fit_id", "is_same_model", "takes_any_id"]

_USER_NOTE = "[An image or file stood here that this model cannot take.]"
_RESULT_NOTE = "[The tool returned an image or file that this model cannot take.]"

M = TypeVar("M", UserMessage, ToolResultMessage)
Media = TextPart | ImagePart | FilePart


def is_same_model(message: AssistantMessage, model: ModelIdentity) -> bool:
    """Whether the model wrote the message: provider, wire and name are all equal."""
    return message.provider == model.provider and message.api == model.api and message.model == model.name


def adapt_user(message: UserMessage, capabilities: Capabilities) -> UserMessage:
    """Replace what the model cannot take by a note."""
    return _with_notes(message, capabilities, _USER_NOTE)


def adapt_result(message: ToolResultMessage, capabilities: Capabilities, call_id: str) -> ToolResultMessage:
    """Replace what the model cannot take by a note, and the id by that of the call as the model sees it."""
    adapted = _with_notes(message, capabilities, _RESULT_NOTE)
    return adapted if adapted.tool_call_id == call_id else replace(adapted, tool_call_id=call_id)


def _with_notes(message: M, capabilities: Capabilities, note: str) -> M:
    content: list[Media] = []
    in_run = False
    for part in message.content:
        unfit = (isinstance(part, ImagePart) and not capabilities.images) or (
            isinstance(part, FilePart) and not capabilities.files
        )
        if unfit and not in_run:
            content.append(TextPart(note))
        elif not unfit and not (isinstance(part, TextPart) and not part.text):
            content.append(part)
        in_run = unfit
    return message if _same_parts(content, message.content) else replace(message, content=tuple(content))


def adapt_assistant(message: AssistantMessage, ids: Sequence[str], *, same_model: bool) -> AssistantMessage:
    """Keep for its own model what only that one understands, and take it out for others.

    Args:
        message: The answer.
        ids: The ids of its calls as the model at hand sees them, in order.
        same_model: Whether the model at hand wrote it.
    """
    call_ids = iter(ids)
    content: list[AssistantPart] = []
    for part in message.content:
        if isinstance(part, ToolCallPart):
            call_id = next(call_ids)
            # A call that its provider ran has its result in a block that only that provider understands.
            if same_model or not part.provider_executed:
                content.append(_adapt_call(part, call_id, same_model=same_model))
        elif not isinstance(part, ToolApprovalRequestPart):
            content.extend(_adapt_part(part, same_model=same_model))
    provider_data = message.provider_data if same_model else None
    if _same_parts(content, message.content) and provider_data is message.provider_data:
        return message
    return replace(message, content=tuple(content), provider_data=provider_data)


def _adapt_part(part: AssistantPart, *, same_model: bool) -> Iterable[AssistantPart]:
    match part:
        case TextPart():
            if not part.text and not (same_model and part.signature):
                return
            if not same_model and (part.signature is not None or part.provider_data is not None):
                part = TextPart(part.text)
            yield part
        case ReasoningPart():
            if same_model:
                if part.text or part.signature or part.redacted or part.id or part.provider_data:
                    yield part
            elif part.text and part.redacted is None:
                yield TextPart(part.text)
        case ProviderPart():
            if same_model:
                yield part
        case ImagePart() | FilePart() | SourcePart() if part.provider_data is not None and not same_model:
            yield replace(part, provider_data=None)
        case _:
            yield part


def _adapt_call(call: ToolCallPart, call_id: str, *, same_model: bool) -> ToolCallPart:
    if not same_model and (call.signature is not None or call.provider_data is not None):
        return replace(call, id=call_id, signature=None, provider_data=None)
    return call if call.id == call_id else replace(call, id=call_id)


def _same_parts(new: Sequence[object], old: Sequence[object]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def takes_any_id(capabilities: Capabilities) -> bool:
    """Whether the model has no rules for the ids of tool calls."""
    return capabilities.tool_call_id_pattern is None and capabilities.tool_call_id_max_length is None


def fit_id(call_id: str, capabilities: Capabilities, taken: Collection[str] = ()) -> str:
    """An id that the vendor takes: the same for the same id, and none that is taken.

    Args:
        call_id: The id as the writing model gave it; it is kept where it fits.
        capabilities: What the model at hand takes.
        taken: Ids that stand for other calls of the conversation; a set, where there may be many.
    """
    limit = capabilities.tool_call_id_max_length
    fitted = _in_alphabet(call_id, capabilities.tool_call_id_pattern)
    fits = bool(fitted) and (limit is None or len(fitted) <= limit)
    if capabilities.tool_call_id_exact_length:
        fits = fits and len(fitted) == limit
    attempt = 0
    while not fits or fitted in taken:
        # A constant id would try all the digests it had before, were the number of the call not in the seed.
        seed = f"{call_id}/{len(taken) + attempt}" if attempt else call_id
        digest = blake2b(seed.encode("utf-8", "surrogatepass")).hexdigest()
        fitted = digest[: limit if capabilities.tool_call_id_exact_length else min(limit or 24, 24)]
        fits = True
        attempt += 1
    return fitted


def _in_alphabet(call_id: str, alphabet: str | None) -> str:
    if alphabet is None:
        return call_id
    stand_in = "_" if re.fullmatch(f"[{alphabet}]", "_") else ""
    return re.sub(f"[^{alphabet}]", stand_in, call_id)
