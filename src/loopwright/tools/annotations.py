"""What the annotations of a function stand for, where they are strings and where they are not."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from ..errors import ToolSchemaError
from .context import ToolContext

__all__ = ["Scope", "is_context", "is_method", "name_of", "resolve_annotation", "scope_of", "signature_of"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a function's annotations may use.

    Attributes:
        outer: Its module's.
        inner: Those of the functions and classes that it is written in, and of its closure; they come first.
    """

    outer: dict[str, Any]
    inner: Mapping[str, Any]


def name_of(function: Callable[..., Any]) -> str:
    """How messages call a function."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of anything that can be called.

    Raises:
        ToolSchemaError: It has none that can be read, or cannot be called.
    """
    if not callable(function):
        hint = " Put @tool above a plain method, without @classmethod." if isinstance(function, classmethod) else ""
        raise ToolSchemaError(f"A tool is made of a function; {cast('object', function)!r} cannot be called.{hint}")
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            # Names that are not there yet must not fail before the message can say whose they are.
            return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(function)
    except (ValueError, TypeError):
        raise ToolSchemaError(
            f"{name_of(function)} has no signature that can be read. Wrap it in a function whose parameters have types."
        ) from None


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function was written in a class, so that its first parameter is the instance."""
    if not inspect.isroutine(function) or inspect.ismethod(function) or isinstance(function, staticmethod):
        return False
    first = next(iter(signature_of(function).parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    parent = name_of(function).rpartition(".")[0]
    is_in_class = bool(parent) and not parent.endswith("<locals>")
    return first.name == "self" or (is_in_class and first.annotation is first.empty)


def scope_of(function: Callable[..., Any]) -> Scope:
    """Where to look for the names in a function's annotations.

    Python keeps the local names of an enclosing function or class nowhere but in its frame, so this works for them only
    while that frame runs, that is at decoration.
    """
    target = _written(function)
    outer: dict[str, Any] = getattr(target, "__globals__", {})
    qualified = name_of(target)
    inner: dict[str, Any] = _closure_of(target)
    frame = inspect.currentframe() if "." in qualified else None
    while frame is not None:
        if frame.f_globals is outer and qualified.startswith(f"{frame.f_code.co_qualname}."):
            inner = {**frame.f_locals, **inner}
        frame = frame.f_back
    return Scope(outer, inner)


def _written(function: Any) -> Any:
    """The function that someone wrote, beneath partials, wrappers, methods and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("Any", function).func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isroutine(function):
            return function
        elif inspect.isclass(function):
            return function.__init__
        else:
            function = type(function).__call__


def _closure_of(function: Any) -> dict[str, Any]:
    names: tuple[str, ...] = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    return found


class _AnyName(type):
    """Lets what is unknown be subscripted and have attributes."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: Any) -> Any:
        return cls


class _Unknown(metaclass=_AnyName):
    """Stands for a name that does not exist (yet)."""


def resolve_annotation(annotation: Any, scope: Scope, where: str) -> Any:
    """What an annotation stands for.

    A `ToolContext` is recognised even where it, or the type of its context object, is imported for type checkers only:
    nothing of it is needed at run time.

    Args:
        annotation: The annotation, a string or not.
        scope: Where its names are looked for.
        where: Function and parameter, for messages.

    Raises:
        ToolSchemaError: A name does not exist, or the annotation cannot be read.
    """
    unknown: dict[str, Any] = {}
    while True:
        try:
            resolved = _evaluate(annotation, scope, unknown)
            break
        except NameError as error:
            if not error.name or error.name in unknown:
                raise _unreadable(where, error) from None
            unknown[error.name] = ToolContext if error.name == ToolContext.__name__ else _Unknown
        except Exception as error:
            raise _unreadable(where, error) from None
    if unknown and not is_context(resolved):
        names = " and ".join(map(repr, unknown))
        raise ToolSchemaError(
            f"{where}: its annotation {annotation!r} uses {names}, which cannot be resolved. Define or import it "
            "before the function is decorated, outside `if TYPE_CHECKING`."
        )
    return resolved


def _evaluate(annotation: Any, scope: Scope, unknown: Mapping[str, Any]) -> Any:
    def stand_in() -> None:
        """Carries the one annotation: what a function returns must not be resolved with it."""

    stand_in.__annotations__ = {"annotation": annotation}
    return get_type_hints(stand_in, scope.outer, {**scope.inner, **unknown}, include_extras=True)["annotation"]


def _unreadable(where: str, error: Exception) -> ToolSchemaError:
    return ToolSchemaError(f"{where}: its annotation cannot be read ({type(error).__name__}: {error}). Use a type.")


def is_context(annotation: Any) -> bool:
    """Whether a parameter so annotated takes the `ToolContext`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_context(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(is_context(member) for member in get_args(annotation))
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, ToolContext)
