"""What a tool returned, as the model sees it and as programs see it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from pydantic_core import from_json, to_json

from ..errors import ToolOutputError
from ..messages import FilePart, ImagePart, TextPart, ToolResultPart

if TYPE_CHECKING:
    from .base import Tool

__all__ = ["ToolOutput", "ToolOutputError", "to_result"]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A result whose two faces differ.

    Attributes:
        content: What the model sees: text, parts, or a value that becomes JSON text.
        details: What programs see in `ToolResultMessage.details`; JSON-compatible.
    """

    content: str | Sequence[ToolResultPart] | Any
    details: Any = None


def to_result(value: Any, tool: Tool) -> tuple[tuple[ToolResultPart, ...], Any]:
    """Turn what a tool returned into content for the model and details for programs.

    Text and parts stay as they are; None is told as "Done."; everything else becomes JSON text, and the same as plain
    data in the details. `to_model_output` of the tool decides what the model sees of the value, where it is given; it
    is not asked about a `ToolOutput`, which decides that itself.

    Args:
        value: What the tool returned.
        tool: The tool.

    Returns:
        Content parts, and details, None where they would say no more.

    Raises:
        ToolOutputError: The value cannot be told to a model.
        Exception: What `to_model_output` raised.
    """
    if isinstance(value, ToolOutput):
        details = None if value.details is None else _plain(value.details, tool.name)
        content, _ = _told(value.content, tool.name)
    elif tool.to_model_output is None:
        content, details = _told(value, tool.name)
    else:
        # The details come first: making the model's view may use the value up.
        details = None if value is None else _plain(value, tool.name)
        content, _ = _told(tool.to_model_output(value), tool.name)
    return _capped(content, tool.max_result_chars), details


def _told(value: Any, name: str) -> tuple[tuple[ToolResultPart, ...], Any]:
    """Content, and the value as plain data where content is JSON."""
    if value is None:
        return (TextPart("Done."),), None
    if isinstance(value, str):
        return (TextPart(_checked_text(value, name)),), None
    if _is_part(value):
        return (_checked_part(value, name),), None
    if isinstance(value, list | tuple) and any(map(_is_part, cast("Sequence[Any]", value))):
        return tuple(_mixed_parts(cast("Sequence[Any]", value), name)), None
    text, plain = _json(value, name)
    return (TextPart(text),), plain


def _is_part(value: Any) -> TypeGuard[ToolResultPart]:
    return isinstance(value, TextPart | ImagePart | FilePart)


def _mixed_parts(values: Sequence[Any], name: str) -> Iterable[ToolResultPart]:
    for value in values:
        if not _is_part(value) and not isinstance(value, str):
            raise ToolOutputError(
                f"The tool {name!r} returned {type(value).__name__} among parts. Return a list of text, TextPart, "
                "ImagePart and FilePart only, or ToolOutput(content=..., details=...)."
            )
        yield _checked_part(TextPart(value) if isinstance(value, str) else value, name)


def _checked_part(part: ToolResultPart, name: str) -> ToolResultPart:
    if isinstance(part, TextPart):
        _checked_text(part.text, name)
    elif (part.data is None) == (part.url is None) or (part.data is not None and not part.media_type):
        raise ToolOutputError(
            f"The tool {name!r} returned a {type(part).__name__} that cannot be sent: give it data with a media_type, "
            "or a url."
        )
    return part


def _checked_text(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolOutputError(
            f"The tool {name!r} returned text with lone surrogates, which cannot be sent. "
            "Decode bytes with errors='replace' before returning them."
        ) from None
    # A subclass of str, like an Enum's, is told as the text that it is.
    return str.__str__(text)


def _plain(value: Any, name: str) -> Any:
    return _json(value, name, bytes_mode="base64" if _holds_parts(value) else "utf8")[1]


def _holds_parts(value: Any) -> bool:
    return _is_part(value) or (isinstance(value, list | tuple) and any(map(_is_part, cast("Sequence[Any]", value))))


def _json(value: Any, name: str, *, bytes_mode: Any = "utf8") -> tuple[str, Any]:
    """A value as JSON text and as the plain data that this text is; it is read once, for it may be an iterator."""
    if inspect.iscoroutine(value):
        value.close()
        raise ToolOutputError(f"The tool {name!r} returned a coroutine that nobody awaited. Await it.")
    try:
        text = to_json(value, bytes_mode=bytes_mode).decode()
    except Exception as error:
        raise ToolOutputError(
            f"The tool {name!r} returned {type(value).__name__}, which cannot be told to a model ({error}). Return "
            "text, parts, a pydantic model, a dataclass, or plain lists and dicts."
        ) from error
    try:
        return text, from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ToolOutputError(
            f"The tool {name!r} returned {type(value).__name__} with a number that JSON does not have, like NaN or "
            f"infinity, or nested too deep ({error}). Return None or text in its place."
        ) from None


def _capped(content: tuple[ToolResultPart, ...], limit: int | None) -> tuple[ToolResultPart, ...]:
    total = 0 if limit is None else sum(len(part.text) for part in content if isinstance(part, TextPart))
    if limit is None or total <= limit:
        return content
    left: int = limit
    parts: list[ToolResultPart] = []
    for part in content:
        if not isinstance(part, TextPart):
            parts.append(part)
        elif left >= len(part.text):
            parts.append(part)
            left -= len(part.text)
        elif left >= 0:
            note = f"\n[Cut here: the result has {total} characters, of which the first {limit} are shown.]"
            parts.append(TextPart(part.text[:left] + note))
            left = -1
    return tuple(parts)
