"""`@tool`: makes tools of functions and of methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, Unpack, cast, overload

from typing_extensions import TypeVar

from ..errors import InvalidArgumentError
from .base import FunctionTool, Tool
from .options import FunctionToolOptions

__all__ = ["collect_tools", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


class _Agent(Protocol):
    @property
    def all_tools(self) -> tuple[Tool, ...]: ...


S = TypeVar("S", bound=_Agent)


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[Concatenate[S, P], R], /) -> FunctionTool[Concatenate[Any, P], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R]: ...


# Methods of agents forget the type of `self`: with it no subclass could override a tool in the eyes of type checkers.
@overload
def tool(function: Callable[Concatenate[S, P], R], /) -> FunctionTool[Concatenate[Any, P], R]: ...


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(**options: Unpack[FunctionToolOptions]) -> _Decorator: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[FunctionToolOptions]) -> Any:
    """Make a tool of a function, or of a method of an agent class.

    The schema comes from the signature, the descriptions from the docstring (Google, NumPy or Sphinx style). A
    parameter annotated `ToolContext` is filled in and not shown to the model. Annotations are resolved here and now: a
    name that is defined further down cannot be used in one, except for the type of the context.

    A method is what is written in a class with a first parameter `self`, or one without annotation. A subclass
    overrides a tool by decorating its own method of that name, and takes one away with `name = None`.

    Args:
        function: The function, when used without parentheses.
        options: See `FunctionToolOptions`: `name` (the function's when left out), `description` (the docstring's when
            left out), `sequential`, `timeout`, `max_result_chars`, `to_model_output` and `client_side`.

    Raises:
        ToolSchemaError: The signature cannot become a schema.
        InvalidArgumentError: An option does not exist or cannot work.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        return Tool.from_function(function, **options)

    return decorate if function is None else decorate(function)


def collect_tools(source: object) -> list[Tool]:
    """The tools among the attributes of a class: base classes first, in order of definition.

    An overridden tool keeps its place. So do tools made by hand that stand in the class.

    Args:
        source: An object, to whose methods the tools are then bound, or a class, whose tools can be declared but not
            run.

    Raises:
        InvalidArgumentError: A tool is overridden by something that is none, which would silently take it away.
    """
    owner = source if isinstance(source, type) else type(source)
    found: dict[str, None] = {}
    for cls in reversed(owner.__mro__):
        for name, value in vars(cls).items():
            inner: object = getattr(value, "__func__", None)  # of a staticmethod or classmethod
            if isinstance(value, Tool) or (isinstance(value, staticmethod) and isinstance(inner, Tool)):
                found.setdefault(name)
            elif name in found:
                _check_removal(f"{cls.__qualname__}.{name}", name, cast("object", value))
                del found[name]
            elif isinstance(inner, Tool):
                raise InvalidArgumentError(
                    f"{cls.__qualname__}.{name} is a classmethod, which cannot be a tool. Make it a plain method."
                )
    values = {name: getattr(source, name) for name in found}
    for name, value in values.items():
        if not isinstance(value, Tool):
            _check_removal(f"{name} of {source!r}", name, value)
    return [value for value in values.values() if isinstance(value, Tool)]


def _check_removal(where: str, name: str, value: object) -> None:
    if value is not None:
        raise InvalidArgumentError(
            f"{where} overrides a tool without @tool. Decorate it, or write {name} = None to take the tool away."
        )
