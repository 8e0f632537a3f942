"""What a tool returned, as the model sees it and as programs see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ..errors import LoopwrightError
from ..messages import FilePart, ImagePart, TextPart, ToolResultPart

if TYPE_CHECKING:
    from .base import Tool

__all__ = ["ToolOutput", "ToolOutputError", "to_result"]


class ToolOutputError(LoopwrightError):
    """A tool returned what cannot be told to a model. The message says what to return instead."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A result whose two faces differ.

    Attributes:
        content: What the model sees: text, or parts.
        details: What programs see in `ToolResultMessage.details`; JSON-compatible.
    """

    content: str | Sequence[ToolResultPart]
    details: Any = None


def to_result(value: Any, tool: Tool) -> tuple[tuple[ToolResultPart, ...], Any]:
    """Turn what a tool returned into content for the model and details for programs.

    Text and parts stay as they are; None is told as "Done."; everything else becomes JSON text, and the same as plain
    data in the details. `to_model_output` of the tool decides what the model sees of the value, where it is given.

    Returns:
        Content parts, and details, None where they would say no more.

    Raises:
        ToolOutputError: The value cannot be told to a model.
    """
    if isinstance(value, ToolOutput):
        details = None if value.details is None else _plain(value.details, tool.name)
        shown: Any = value.content
    elif tool.to_model_output is not None:
        details = None if isinstance(value, str) else _plain(value, tool.name)
        shown = tool.to_model_output(value)
    elif value is None or isinstance(value, str | TextPart | ImagePart | FilePart) or _is_parts(value):
        details, shown = None, value
    else:
        details = _plain(value, tool.name)
        shown = value
    return _capped(_content(shown, tool.name), tool.max_result_chars), details


def _content(value: Any, name: str) -> tuple[ToolResultPart, ...]:
    if value is None:
        return (TextPart("Done."),)
    if isinstance(value, str):
        return (TextPart(_checked(value, name)),)
    if isinstance(value, TextPart | ImagePart | FilePart):
        return (value,)
    if _is_parts(value):
        return tuple(cast("Sequence[ToolResultPart]", value))
    return (TextPart(_json(value, name)),)


def _is_parts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(cast("Sequence[Any]", value))
        and all(isinstance(item, TextPart | ImagePart | FilePart) for item in cast("Sequence[Any]", value))
    )


def _checked(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolOutputError(
            f"The tool {name!r} returned text with lone surrogates, which cannot be sent. "
            "Decode bytes with errors='replace' before returning them."
        ) from None
    return text


def _json(value: Any, name: str) -> str:
    try:
        return to_json(value, inf_nan_mode="strings").decode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise _unserialisable(value, name, error) from None


def _plain(value: Any, name: str) -> Any:
    try:
        return to_jsonable_python(value, inf_nan_mode="strings")
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise _unserialisable(value, name, error) from None


def _unserialisable(value: Any, name: str, error: Exception) -> ToolOutputError:
    return ToolOutputError(
        f"The tool {name!r} returned {type(value).__name__}, which cannot be told to a model ({error}). Return text, "
        "parts, a pydantic model, a dataclass, or plain lists and dicts."
    )


def _capped(content: tuple[ToolResultPart, ...], limit: int | None) -> tuple[ToolResultPart, ...]:
    if limit is None:
        return content
    left = limit
    parts: list[ToolResultPart] = []
    for part in content:
        if isinstance(part, TextPart):
            if len(part.text) > left:
                note = f"\n[Cut here: the result has {len(part.text)} characters, of which {left} are shown.]"
                parts.append(TextPart(part.text[:left] + note))
                left = 0
                continue
            left -= len(part.text)
        parts.append(part)
    return tuple(parts)
