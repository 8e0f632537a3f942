"""Running a tool's function, whatever kind it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Literal, TypeAlias, cast

import anyio.to_thread

from .context import ToolContext

__all__ = ["FunctionKind", "execute", "kind_of"]

FunctionKind: TypeAlias = Literal["async", "async-generator", "sync", "generator"]


def kind_of(function: Callable[..., Any]) -> FunctionKind:
    """How a function must be run."""
    target: Any = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = getattr(cast("object", type(target)), "__call__", target)  # noqa: B004  # an object that is called like a function
    if inspect.isasyncgenfunction(target):
        return "async-generator"
    if inspect.iscoroutinefunction(target):
        return "async"
    return "generator" if inspect.isgeneratorfunction(target) else "sync"


async def execute(kind: FunctionKind, function: Callable[[], Any], context: ToolContext[Any] | None, name: str) -> Any:
    """Run a function and give its result.

    Async functions are awaited here. Others run in a worker thread, with the context variables of the caller; when the
    run is cancelled the thread is left to itself, for Python cannot stop it. What a generator yields is progress, and
    the last of it the result.

    Args:
        kind: What `function` is.
        function: The function with its arguments bound.
        context: Where progress goes.
        name: The tool's, for messages.

    Raises:
        RuntimeError: A generator yielded nothing.
        Exception: What the function raised.
    """
    report = _nowhere if context is None else context.progress
    if kind == "async":
        return await function()
    if kind == "async-generator":
        return await _exhaust(function(), report, name)
    if kind == "generator":
        return await anyio.to_thread.run_sync(_exhaust_sync, function, report, name, abandon_on_cancel=True)
    value = await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value


async def _exhaust(values: AsyncGenerator[Any, None], report: Callable[[Any], None], name: str) -> Any:
    result: Any = _NOTHING
    try:
        async for value in values:
            result = value
            report(value)
    finally:
        await values.aclose()
    return _checked(result, name)


def _exhaust_sync(function: Callable[[], Any], report: Callable[[Any], None], name: str) -> Any:
    result: Any = _NOTHING
    for value in cast("Generator[Any, None, None]", function()):
        result = value
        report(value)
    return _checked(result, name)


_NOTHING: Any = object()


def _checked(result: Any, name: str) -> Any:
    if result is _NOTHING:
        raise RuntimeError(f"The tool {name!r} ended without yielding a value; the last value it yields is its result.")
    return result


def _nowhere(value: Any) -> None:
    del value
