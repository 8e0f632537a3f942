"""Running functions of every kind."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from loopwright.messages import ToolCallPart
from loopwright.tools import Tool, ToolContext, tool
from loopwright.tools.execute import kind_of

VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="unset")


def context(seen: list[Any] | None = None) -> ToolContext[Any]:
    return ToolContext(None, ToolCallPart("1", "t"), report=None if seen is None else seen.append)


async def run(function: Callable[..., Any], seen: list[Any] | None = None, **arguments: Any) -> Any:
    return await Tool("t", execute=function).run(arguments, context(seen))


async def an_async(a: int = 1) -> int:
    await anyio.lowlevel.checkpoint()
    return a


def a_sync(a: int = 1) -> int:
    return a


async def an_async_generator(a: int = 1) -> AsyncIterator[int]:
    yield a
    yield a + 1


def a_generator(a: int = 1) -> Iterator[int]:
    yield a
    yield a + 1


class Callable1:
    async def __call__(self, a: int = 1) -> int:
        return a


class Callable2:
    def __call__(self, a: int = 1) -> int:
        return a


@pytest.mark.parametrize(
    ("function", "kind", "result"),
    [
        (an_async, "async", 1),
        (a_sync, "sync", 1),
        (an_async_generator, "async-generator", 2),
        (a_generator, "generator", 2),
        (functools.partial(an_async, 5), "async", 5),
        (functools.partial(functools.partial(a_generator, 5)), "generator", 6),
        (functools.partial(Callable1(), 5), "async", 5),
        (Callable1(), "async", 1),
        (Callable2(), "sync", 1),
        (Callable1().__call__, "async", 1),
        (lambda: an_async(), "sync", 1),
        (lambda: an_async_generator(), "sync", 2),
        (functools.lru_cache(a_sync), "sync", 1),
        (int, "sync", 0),
    ],
)
async def test_every_kind_runs(function: Callable[..., Any], kind: str, result: Any) -> None:
    assert kind_of(function) == kind
    assert await run(function) == result


@pytest.mark.parametrize("function", [an_async_generator, a_generator, lambda a: an_async_generator(a)])
async def test_what_a_generator_yields_is_progress_and_the_last_is_the_result(function: Any) -> None:
    seen: list[Any] = []
    assert await run(function, seen, a=5) == 6
    assert seen == [5, 6]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_generator_without_a_value_is_a_clear_error(kind: str) -> None:
    async def nothing() -> AsyncIterator[int]:
        for item in ():
            yield item

    def nothing_sync() -> Iterator[int]:
        yield from ()

    with pytest.raises(
        RuntimeError, match="'t' ended without yielding a value; the last value it yields is its result"
    ):
        await run(nothing if kind == "async" else nothing_sync)


async def test_none_is_a_value() -> None:
    async def one() -> AsyncIterator[None]:
        yield None

    assert await run(one) is None


async def test_sync_functions_run_in_another_thread_with_the_callers_context_variables() -> None:
    def look() -> Any:
        return threading.get_ident(), VARIABLE.get()

    def look_generator() -> Iterator[Any]:
        yield look()

    token = VARIABLE.set("mine")
    try:
        for function in (look, look_generator):
            thread, value = await run(function)
            assert thread != threading.get_ident()
            assert value == "mine"
    finally:
        VARIABLE.reset(token)


async def test_an_exception_comes_out_as_it_is() -> None:
    error = LookupError("no such order")

    async def fail() -> None:
        raise error

    def fail_sync() -> None:
        raise error

    async def fail_later() -> AsyncIterator[int]:
        yield 1
        raise error

    def fail_later_sync() -> Iterator[int]:
        yield 1
        raise error

    for function in (fail, fail_sync, fail_later, fail_later_sync):
        with pytest.raises(LookupError) as caught:
            await run(function)
        assert caught.value is error


async def test_stop_iteration_does_not_pass_for_an_end() -> None:
    def fail() -> None:
        raise StopIteration(5)

    with pytest.raises(RuntimeError, match="StopIteration"):
        await run(fail)


async def test_an_async_generator_is_closed_when_progress_fails() -> None:
    closed: list[str] = []

    async def work() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append("closed")

    def refuse(value: Any) -> None:
        raise ValueError("no progress")

    ctx: ToolContext[Any] = ToolContext(None, ToolCallPart("1", "t"), report=refuse)
    with pytest.raises(ValueError, match="no progress"):
        await Tool("t", execute=work).run({}, ctx)
    assert closed == ["closed"]


async def test_cancellation_reaches_async_functions_and_generators() -> None:
    log: list[str] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            log.append("function")

    async def wait_generator() -> AsyncIterator[int]:
        yield 1
        try:
            await anyio.sleep_forever()
        finally:
            log.append("generator")

    for function in (wait, wait_generator):
        async with anyio.create_task_group() as group:
            group.start_soon(run, function)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert log == ["function", "generator"]


async def test_a_cancelled_thread_is_left_behind_and_its_generator_stops_at_the_next_yield() -> None:
    started, go_on, ended = anyio.Event(), threading.Event(), threading.Event()
    log: list[str] = []
    seen: list[Any] = []

    def work() -> Iterator[int]:
        try:
            log.append("first")
            anyio.from_thread.run_sync(started.set)
            go_on.wait(30)
            yield 1
            log.append("not reached")
            yield 2
        finally:
            log.append("closed")
            ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run, work, seen)
        await started.wait()
        group.cancel_scope.cancel()
    assert log == ["first"]  # the wait is over, the thread is not
    go_on.set()
    assert await anyio.to_thread.run_sync(ended.wait, 30)
    assert log == ["first", "closed"]
    assert seen == []


async def test_progress_from_a_thread() -> None:
    seen: list[Any] = []

    @tool
    def work(ctx: ToolContext) -> str:
        ctx.progress({"done": 1})
        return "done"

    assert await work.run({}, context(seen)) == "done"
    assert seen == [{"done": 1}]


async def test_a_tool_runs_without_a_context() -> None:
    assert await Tool("t", execute=an_async_generator).run({"a": 1}) == 2
    assert await Tool("t", execute=a_generator).run({"a": 1}) == 2


async def test_a_cancelled_sync_function_is_left_behind() -> None:
    started, go_on, ended = anyio.Event(), threading.Event(), threading.Event()

    def work() -> None:
        anyio.from_thread.run_sync(started.set)
        go_on.wait(30)
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run, work)
        await started.wait()
        group.cancel_scope.cancel()
    assert not ended.is_set()
    go_on.set()
    assert await anyio.to_thread.run_sync(ended.wait, 30)
