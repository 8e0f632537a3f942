"""Reading a call: the arguments, and names that no tool has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_core import SchemaValidator, from_json

from ..errors import ToolInputError

if TYPE_CHECKING:
    from .base import Tool

__all__ = ["parse_object", "unknown_tool_message", "validate_arguments"]

_NAMES_SHOWN = 20
_INPUT_SHOWN = 500


def validate_arguments(validator: SchemaValidator, arguments: str, tool_name: str) -> dict[str, Any]:
    """Check and convert arguments; empty text and `null` mean none.

    Args:
        validator: The tool's.
        arguments: JSON text as the model wrote it.
        tool_name: For the message.

    Returns:
        The values by parameter, in a new dict.

    Raises:
        ToolInputError: They do not fit; the message names every problem, for the model to mend.
    """
    try:
        values: dict[str, Any] = validator.validate_json(_object_text(arguments))
    except ValidationError as error:
        problems = [
            (_path(item["loc"]), item["msg"]) for item in error.errors(include_url=False, include_context=False)
        ]
        raise _input_error(tool_name, problems, arguments) from None
    except UnicodeError:
        raise _input_error(tool_name, [("", "The text is not valid Unicode.")], arguments) from None
    return values


def parse_object(arguments: str, tool_name: str) -> dict[str, Any]:
    """Read arguments that have no schema to be checked against: they must be a JSON object.

    Raises:
        ToolInputError: They are not.
    """
    try:
        value = from_json(_object_text(arguments))
    except ValueError as error:
        raise _input_error(tool_name, [("", f"Invalid JSON: {error}")], arguments) from None
    if not isinstance(value, dict):
        raise _input_error(tool_name, [("", "Input should be an object")], arguments)
    return cast("dict[str, Any]", value)


def _object_text(arguments: str) -> str:
    text = arguments.strip()
    return "{}" if text in ("", "null") else text


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))


def _input_error(tool_name: str, problems: Sequence[tuple[str, str]], arguments: str) -> ToolInputError:
    lines = [f"- {path}: {problem}" if path else f"- {problem}" for path, problem in problems]
    shown = arguments.encode("utf-8", "replace").decode()
    if len(shown) > _INPUT_SHOWN:
        shown = f"{shown[:_INPUT_SHOWN]}… ({len(arguments)} characters)"
    return ToolInputError(
        f"The arguments of {tool_name!r} are not valid, so it was not run:\n"
        + "\n".join(lines)
        + f"\nReceived: {shown}\nCall it again with arguments that fit its schema.",
        errors=problems,
    )


def unknown_tool_message(name: str, tools: Sequence[Tool] | Mapping[str, Tool]) -> str:
    """What the model is told when it calls a tool that does not exist.

    Wrapper-shaped names like `multi_tool_use.parallel` are unknown names like any other: nothing in them is called.
    """
    names = [tool.name for tool in (tools.values() if isinstance(tools, Mapping) else tools)]
    start = f"There is no tool named {name!r}. Nothing was executed."
    if "." in name or "parallel" in name:
        start += " Calls cannot be wrapped in another call; call each tool by itself."
    if not names:
        return f"{start} No tools are available now; answer without calling tools."
    shown = ", ".join(names[:_NAMES_SHOWN])
    count = f"the first {_NAMES_SHOWN} of {len(names)}" if len(names) > _NAMES_SHOWN else "use the exact name"
    hint = " Use the exact name." if len(names) > _NAMES_SHOWN else ""
    return f"{start} Available tools ({count}): {shown}.{hint}"
