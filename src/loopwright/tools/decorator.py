"""`@tool`: makes tools of functions and of methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, overload

from typing_extensions import TypeVar

from ..errors import InvalidArgumentError
from .base import FunctionTool, Tool
from .schema import caller_namespace

__all__ = ["collect_tools", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    sequential: bool = False,
    max_result_chars: int | None = None,
    to_model_output: Callable[[Any], Any] | None = None,
    client_side: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    sequential: bool = False,
    max_result_chars: int | None = None,
    to_model_output: Callable[[Any], Any] | None = None,
    client_side: bool = False,
) -> Any:
    """Make a tool of a function, or of a method of an agent class.

    The schema comes from the signature, the descriptions from the docstring (Google, NumPy or Sphinx style). A
    parameter annotated `ToolContext` is filled in and not shown to the model. A method's first parameter must be called
    `self`.

    A subclass overrides a tool by decorating its own method of that name, and takes one away with `name = None`.

    Args:
        function: The function, when used without parentheses.
        name: The function's name when None.
        description: From the docstring when None.
        sequential: Whether a batch with a call of it runs one call at a time.
        max_result_chars: Longer text is cut, with a note to the model.
        to_model_output: What the model sees of the result; programs see all of it in the result's details.
        client_side: Only the signature is used; the host runs the call and appends its result.

    Raises:
        ToolSchemaError: The signature cannot become a schema.
    """
    namespace = caller_namespace(1)

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(
            function,
            name=name,
            description=description,
            sequential=sequential,
            max_result_chars=max_result_chars,
            to_model_output=to_model_output,
            client_side=client_side,
            namespace=namespace,
        )

    return decorate if function is None else decorate(function)


def collect_tools(instance: object) -> list[Tool]:
    """The tools among an object's methods, bound to it: base classes first, in order of definition.

    An overridden tool keeps its place.

    Raises:
        InvalidArgumentError: A tool is overridden by a method without `@tool`, which would silently not be one.
    """
    found: dict[str, None] = {}
    for cls in reversed(type(instance).__mro__):
        for name, value in vars(cls).items():
            if isinstance(value, FunctionTool):
                found.setdefault(name)
            elif name in found:
                if value is not None:
                    raise InvalidArgumentError(
                        f"{cls.__qualname__}.{name} overrides a tool without @tool. Decorate it, or write "
                        f"{name} = None to take the tool away."
                    )
                del found[name]
    return [getattr(instance, name) for name in found]
