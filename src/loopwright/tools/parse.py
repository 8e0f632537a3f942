"""Reading a call: the arguments, and names that no tool has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_core import SchemaValidator, from_json

from ..errors import ToolInputError

if TYPE_CHECKING:
    from .base import Tool

__all__ = ["check_against", "find_tool", "parse_object", "unknown_tool_message", "validate_arguments"]

_NAMES_SHOWN = 20
_PROBLEMS_SHOWN = 20
_INPUT_SHOWN = 500
_WORDS_SHOWN = 200


def validate_arguments(validator: SchemaValidator, arguments: str, tool_name: str) -> dict[str, Any]:
    """Check and convert arguments; empty text and `null` mean none. Of a key that stands twice the last value counts.

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
            (_path(item["loc"]), item["msg"])
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise _input_error(tool_name, problems, arguments) from None
    except UnicodeError:
        raise _input_error(tool_name, [("", "The text is not valid Unicode.")], arguments) from None
    except Exception as error:
        # A validator of the user's own that raised something else: bad input never raises out of a run.
        raise _input_error(tool_name, [("", _told(error))], arguments) from error
    return values


def parse_object(arguments: str, tool_name: str) -> dict[str, Any]:
    """Read arguments of a tool without a signature: they must be a JSON object.

    Raises:
        ToolInputError: They are not.
    """
    try:
        # Encoded here, for the parser takes a string with lone surrogates for no string at all.
        value = from_json(_object_text(arguments).encode(), allow_inf_nan=False)
    except ValueError as error:
        raise _input_error(tool_name, [("", f"Invalid JSON: {error}")], arguments) from None
    if not isinstance(value, dict):
        raise _input_error(tool_name, [("", "Input should be an object")], arguments)
    return cast("dict[str, Any]", value)


def check_against(
    schema: Mapping[str, Any],
    check: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None,
    arguments: str,
    tool_name: str,
) -> dict[str, Any]:
    """Read arguments of a tool with a hand-made schema: its names are checked, and what `check` checks.

    Args:
        schema: JSON schema; `required` holds, and `properties` where `additionalProperties` is false.
        check: The tool's own check of the values; may return others.
        arguments: JSON text as the model wrote it.
        tool_name: For the message.

    Raises:
        ToolInputError: They do not fit; what `check` raised is its cause.
    """
    values = parse_object(arguments, tool_name)
    problems = [(name, "Field required") for name in schema.get("required", ()) if name not in values]
    if schema.get("additionalProperties") is False:
        known = schema.get("properties", {})
        problems += [(name, "Extra inputs are not permitted") for name in values if name not in known]
    if problems:
        raise _input_error(tool_name, problems, arguments)
    if check is None:
        return values
    try:
        checked = check(values)
    except ToolInputError:
        raise
    except Exception as error:
        raise _input_error(tool_name, [("", _told(error))], arguments) from error
    return values if checked is None else dict(checked)


def _object_text(arguments: str) -> str:
    text = arguments.strip()
    return "{}" if text in ("", "null") else text


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))


def _told(error: Exception) -> str:
    return str(error) or f"The arguments could not be checked: {type(error).__name__}."


def _cut(text: str, limit: int) -> str:
    # What comes from a model may hold lone surrogates, which no request can carry back to it.
    shown = text[:limit].encode("utf-8", "replace").decode()
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def _input_error(tool_name: str, problems: Sequence[tuple[str, str]], arguments: str) -> ToolInputError:
    cut = [(_cut(path, _WORDS_SHOWN), _cut(problem, _WORDS_SHOWN)) for path, problem in problems]
    lines = [f"- {path}: {problem}" if path else f"- {problem}" for path, problem in cut[:_PROBLEMS_SHOWN]]
    if len(cut) > _PROBLEMS_SHOWN:
        lines.append(f"- and {len(cut) - _PROBLEMS_SHOWN} more")
    return ToolInputError(
        f"The arguments of {tool_name!r} are not valid, so it was not run:\n"
        + "\n".join(lines)
        + f"\nReceived: {_cut(arguments, _INPUT_SHOWN)}\nCall it again with arguments that fit its schema.",
        errors=cut,
    )


def find_tool(name: str, tools: Sequence[Tool] | Mapping[str, Tool]) -> Tool | None:
    """The tool that a model means by a name: the one with just this name, or none."""
    if isinstance(tools, Mapping):
        return tools.get(name)
    return next((tool for tool in tools if tool.name == name), None)


def unknown_tool_message(name: str, tools: Sequence[Tool] | Mapping[str, Tool]) -> str:
    """What the model is told when it calls a tool that does not exist.

    Wrapper-shaped names like `multi_tool_use.parallel` are unknown names like any other: nothing in them is called.
    """
    names = [tool.name for tool in (tools.values() if isinstance(tools, Mapping) else tools)]
    start = f"There is no tool named {_cut(name, _WORDS_SHOWN)!r}. Nothing was executed."
    if "." in name or "parallel" in name:
        start += " Calls cannot be wrapped in another call; call each tool by itself."
    if not names:
        return f"{start} No tools are available now; answer without calling tools."
    shown = ", ".join(names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        return f"{start} Available tools (the first {_NAMES_SHOWN} of {len(names)}): {shown}. Use the exact name."
    return f"{start} Available tools: {shown}. Use the exact name."
