"""Running a tool's function, whatever kind it is."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Literal, TypeAlias, cast

import anyio.from_thread
import anyio.to_thread

from .context import ToolContext

__all__ = ["FunctionKind", "execute", "kind_of"]

FunctionKind: TypeAlias = Literal["async", "async-generator", "sync", "generator"]


def kind_of(function: Callable[..., Any]) -> FunctionKind:
    """How a function must be run."""
    target: Any = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = inspect.unwrap(target.func)
    if not inspect.isroutine(target) and not inspect.isclass(target):
        # An object that is called like a function.
        target = getattr(cast("object", type(target)), "__call__", target)  # noqa: B004
    if inspect.isasyncgenfunction(target):
        return "async-generator"
    if inspect.iscoroutinefunction(target):
        return "async"
    return "generator" if inspect.isgeneratorfunction(target) else "sync"


async def execute(kind: FunctionKind, function: Callable[[], Any], context: ToolContext[Any] | None, name: str) -> Any:
    """Run a function and give its result.

    Async functions are awaited here. Others run in a worker thread, with the context variables of the caller; when the
    run is cancelled the thread is left to itself, for Python cannot stop it. What a generator yields is progress, and
    the last of it the result. A generator that was left to itself in a thread is closed at its next yield.

    Args:
        kind: What `function` is.
        function: The function with its arguments bound.
        context: Where progress goes.
        name: The tool's, for messages.

    Raises:
        RuntimeError: A generator yielded nothing.
        Exception: What the function raised.
    """
    send = _nowhere if context is None else context.send_progress
    if kind == "async":
        return await function()
    if kind == "async-generator":
        return await _exhaust(function(), send, name)
    if kind == "generator":
        return await _exhaust_in_thread(function, send, name)
    # In a tuple, for trio refuses to bring a coroutine out of a thread.
    (value,) = await anyio.to_thread.run_sync(lambda: (function(),), abandon_on_cancel=True)
    if inspect.isawaitable(value):
        return await value
    # What a function without `async` of its own, like a lambda, passes on.
    return await _exhaust(cast("Any", value), send, name) if isinstance(value, AsyncIterator) else value


async def _exhaust(values: AsyncIterator[Any], send: Callable[[Any], Awaitable[None]], name: str) -> Any:
    result: Any = _NOTHING
    try:
        async for value in values:
            result = value
            await send(value)
    finally:
        if isinstance(values, AsyncGenerator):
            await cast("AsyncGenerator[Any, None]", values).aclose()
    return _checked(result, name)


async def _exhaust_in_thread(function: Callable[[], Any], send: Callable[[Any], Awaitable[None]], name: str) -> Any:
    abandoned = threading.Event()

    def exhaust() -> Any:
        result: Any = _NOTHING
        values = cast("Generator[Any, None, None]", function())
        for value in values:
            if abandoned.is_set():
                values.close()
                break
            result = value
            anyio.from_thread.run(cast("Any", send), value)
        return _checked(result, name)

    try:
        return await anyio.to_thread.run_sync(exhaust, abandon_on_cancel=True)
    finally:
        abandoned.set()


_NOTHING: Any = object()


def _checked(result: Any, name: str) -> Any:
    if result is _NOTHING:
        raise RuntimeError(f"The tool {name!r} ended without yielding a value; the last value it yields is its result.")
    return result


async def _nowhere(value: Any) -> None:
    del value
