"""What can be said about a tool besides what it does."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from ..errors import InvalidArgumentError

__all__ = [
    "FunctionToolOptions",
    "NamedToolOptions",
    "NeedsApproval",
    "ToolOptions",
    "check_name",
    "check_options",
]


NeedsApproval: TypeAlias = bool | Callable[[Any, Any], "bool | Awaitable[bool]"]
"""Whether a call waits for a person: always, never, or as a function of input and context says."""


class ToolOptions(TypedDict, total=False):
    """Options of every tool.

    Attributes:
        sequential: Whether a batch with a call of it runs one call at a time.
        timeout: Seconds that one call may take; then it is cancelled, and the model is told. None for no limit.
        max_result_chars: Longer text is cut, with a note to the model; None for no limit.
        to_model_output: What the model sees of the result (text, parts, or a value that becomes JSON); programs see
            all of it in the result's details.
        needs_approval: Whether a person is asked before a call runs: a bool, or a function of the input (its values
            are attributes and items) and the `ToolContext`, which may be async.
        on_input_available: Told of the validated input and the `ToolContext` before a call runs or waits for approval;
            may be async. An error in it is logged and changes nothing.
    """

    sequential: bool
    timeout: float | None
    max_result_chars: int | None
    to_model_output: Callable[[Any], Any] | None
    needs_approval: NeedsApproval
    on_input_available: Callable[[Any, Any], Any] | None


class NamedToolOptions(ToolOptions, total=False):
    """Options with which a copy of a tool can differ.

    Attributes:
        name: Letters, digits, `_` and `-`, at most 64.
        description: What it does and when to use it.
    """

    name: str | None
    description: str | None


class FunctionToolOptions(NamedToolOptions, total=False):
    """Options of a tool that is made of a function, which has a name and a docstring of its own.

    Attributes:
        client_side: Only the signature is used; the host runs the call and appends its result.
    """

    client_side: bool


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_name(name: object) -> None:
    """Refuse a name that models do not take.

    Raises:
        InvalidArgumentError: The name has other characters, or too many.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"A tool cannot be named {name!r}: models take letters, digits, '_' and '-', at most 64 of them."
        )


def check_options(name: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse options that do not exist or cannot work.

    Args:
        name: The tool's.
        options: What was given.
        known: The names of the options that there are.

    Raises:
        InvalidArgumentError: Names all that is wrong.
    """
    known = sorted(known)
    unknown = [option for option in options if option not in known]
    problems = [f"there is no option {option!r} (there are: {', '.join(known)})" for option in unknown]
    for option, (fits, wanted) in _CHECKS.items():
        if option in options and not fits(options[option]):
            problems.append(f"{option} must be {wanted}, not {options[option]!r}")
    if problems:
        raise InvalidArgumentError(f"The tool {name!r} cannot be made: {'; '.join(problems)}.")


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0)


def _is_duration(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and math.isfinite(value)
    )


def _is_plain_callable(value: object) -> bool:
    return value is None or (callable(value) and not inspect.iscoroutinefunction(value))


_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "sequential": (lambda value: isinstance(value, bool), "a bool"),
    "timeout": (_is_duration, "a positive number of seconds or None"),
    "max_result_chars": (_is_count, "a positive whole number or None"),
    "to_model_output": (_is_plain_callable, "a function that is not async, or None"),
    "description": (lambda value: value is None or isinstance(value, str), "text"),
    "needs_approval": (lambda value: isinstance(value, bool) or callable(value), "a bool or a function"),
    "on_input_available": (lambda value: value is None or callable(value), "a function or None"),
    "client_side": (lambda value: isinstance(value, bool), "a bool"),
}
