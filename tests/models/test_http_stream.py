"""Streams over HTTP: told in order, ended in every way, and nothing left open."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import httpx2
import pytest
from http_kit import REQUEST, WIRES, Exchange, LineCodec, Wire, collect_garbage, events_of, serve

from loopwright.errors import (
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    StreamTruncatedError,
)
from loopwright.models.base import ModelRequest, RequestContext
from loopwright.models.http import Timeouts, close_shared_transports
from loopwright.models.http_model import HTTPModel


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture
def anyio_backend(wire: Wire) -> object:
    return wire.backend


@pytest.fixture(autouse=True)
async def nothing_is_left(wire: Wire) -> Any:
    yield
    await close_shared_transports()
    await collect_garbage()


def model_at(url: str, wire: Wire, **options: Any) -> HTTPModel:
    options.setdefault("clock", lambda: 1234.5)
    return HTTPModel(provider="acme", name="m", codec=LineCodec(), base_url=url, transport=wire.transport, **options)


def answering(*lines: bytes) -> Any:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        for line in lines:
            await exchange.chunk(line)
        await exchange.end()

    return handler


async def test_events_that_are_there_cost_no_waiting(wire: Wire) -> None:
    async with serve(answering(b"one\ntwo\nthree\nEND\n")) as server:
        stream: Any = await model_at(server.url, wire).stream(REQUEST)
        assert stream.pop_ready() is None
        assert (await anext(stream)).text == "one"
        assert [stream.pop_ready().text, stream.pop_ready().text] == ["two", "three"]
        assert stream.pop_ready() is None
        assert (await anext(stream)).type == "response-done"


async def test_result_alone_reads_to_the_end(wire: Wire) -> None:
    async with serve(answering(b"one\n", b"two\n", b"END\n")) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert (await stream.result()).text == "one two"
        assert await events_of(stream) == ["one", "two", "response-done"]


async def test_connection_is_free_when_the_last_event_is_told(wire: Wire) -> None:
    """Although the end of the body comes only after the end of the answer."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\nEND\n")
        await exchange.chunk(b"more\n")
        await exchange.end()

    async with serve(handler) as server:
        model = model_at(server.url, wire)
        for _ in range(3):
            assert await events_of(await model.stream(REQUEST)) == ["one", "response-done"]
        assert server.connections == 1


async def test_server_that_keeps_the_body_open_after_the_answer(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.models.http_stream._DRAIN_SECONDS", 0.01)
    closed = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\nEND\n")
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert await events_of(stream) == ["one", "response-done"]
        await closed.wait()


async def test_end_of_the_body_may_be_the_end_of_the_answer(wire: Wire) -> None:
    async with serve(answering(b"one\nlast\n")) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert await events_of(stream) == ["one", "last", "response-done"]


async def test_break_after_the_whole_answer_does_no_harm(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\nlast\n")
        await exchange.cut()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert await events_of(stream) == ["one", "last", "response-done"]


async def test_truncated_answer(wire: Wire) -> None:
    async with serve(answering(b"one\n")) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert (await anext(stream)).text == "one"
        with pytest.raises(StreamTruncatedError):
            await anext(stream)
        with pytest.raises(StreamTruncatedError):
            await stream.result()


async def test_break_in_the_answer(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\n")
        await exchange.cut()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert (await anext(stream)).text == "one"
        with pytest.raises(ModelConnectionError, match=r"127\.0\.0\.1:\d+ failed") as caught:
            await anext(stream)
        assert type(caught.value) is ModelConnectionError
        with pytest.raises(ModelConnectionError):
            await stream.result()


async def test_bytes_that_the_codec_refuses_close_the_connection(wire: Wire) -> None:
    closed = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"BAD\n")
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        with pytest.raises(ValueError, match="a bad line"):
            await anext(stream)
        await closed.wait()


async def test_silence_between_chunks(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\n")
        await exchange.wait_closed()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire, timeouts=Timeouts(read=0.01)).stream(REQUEST)
        with pytest.raises(ModelTimeoutError):
            await events_of(stream)


class Waiting:
    """A server that sends one event and then waits to see the connection closed."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.closed = anyio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\n")
        self.asked.set()
        await exchange.wait_closed()
        self.closed.set()


async def test_cancel_between_chunks(wire: Wire) -> None:
    handler = Waiting()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert (await anext(stream)).text == "one"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events_of, stream)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await handler.closed.wait()
        assert await events_of(stream) == []
        with pytest.raises(ModelError, match="closed before its answer was complete") as caught:
            await stream.result()
        assert not caught.value.retryable


async def test_timeout_round_one_event(wire: Wire) -> None:
    handler = Waiting()

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert (await anext(stream)).text == "one"
        with anyio.move_on_after(0.01) as scope:
            await anext(stream)
        assert scope.cancelled_caught
        await handler.closed.wait()


async def test_cancel_while_waiting_for_headers(wire: Wire) -> None:
    asked, closed = anyio.Event(), anyio.Event()

    async def handler(exchange: Exchange) -> None:
        asked.set()
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model_at(server.url, wire).stream, REQUEST)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await closed.wait()


async def test_cancel_in_the_body_of_a_whole_answer(wire: Wire) -> None:
    asked, closed = anyio.Event(), anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin(content_type="application/json")
        await exchange.chunk(b"{")
        asked.set()
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model_at(server.url, wire).generate, REQUEST)
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await closed.wait()


async def test_close_by_another_task_ends_the_stream(wire: Wire) -> None:
    handler = Waiting()
    told: list[str] = []

    async def read(stream: Any) -> None:
        told.extend(await events_of(stream))
        told.append("over")

    async with serve(handler) as server:
        stream: Any = await model_at(server.url, wire).stream(REQUEST)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, stream)
            await handler.asked.wait()
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
            await stream.aclose()
        await handler.closed.wait()
        assert told == ["one", "over"]
        with pytest.raises(ModelError, match="closed before"):
            await stream.result()


async def test_close_before_the_first_event(wire: Wire) -> None:
    handler = Waiting()

    async with serve(handler) as server:
        stream: Any = await model_at(server.url, wire).stream(REQUEST)
        await stream.aclose()
        await handler.closed.wait()
        assert await events_of(stream) == []


async def test_close_drops_what_was_not_told(wire: Wire) -> None:
    async with serve(answering(b"one\ntwo\n")) as server:
        stream: Any = await model_at(server.url, wire).stream(REQUEST)
        assert (await anext(stream)).text == "one"
        await stream.aclose()
        assert stream.pop_ready() is None
        assert await events_of(stream) == []


async def test_two_readers_are_one_too_many(wire: Wire) -> None:
    handler = Waiting()

    async with serve(handler) as server:
        stream: Any = await model_at(server.url, wire).stream(REQUEST)
        assert (await anext(stream)).text == "one"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events_of, stream)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError, match="one task only"):
                await anext(stream)
            await stream.aclose()


@pytest.mark.parametrize("in_a_cycle", [False, True], ids=["plain", "cycle"])
@pytest.mark.parametrize("events", [0, 1])
async def test_dropped_stream_is_closed(wire: Wire, events: int, in_a_cycle: bool) -> None:
    handler = Waiting()

    async with serve(handler) as server:
        stream: Any = await model_at(server.url, wire).stream(REQUEST)
        await handler.asked.wait()
        for _ in range(events):
            assert (await anext(stream)).text == "one"
        if in_a_cycle:
            ring: list[Any] = [stream]
            ring.append(ring)
            del ring
        del stream
        gc.collect()
        await handler.closed.wait()


async def test_dropped_stream_on_a_client_of_the_callers(wire: Wire) -> None:
    handler = Waiting()

    async with serve(handler) as server, httpx2.AsyncClient() as client:
        model = HTTPModel(provider="acme", name="m", codec=LineCodec(), base_url=server.url, client=client)
        stream: Any = await model.stream(REQUEST)
        assert (await anext(stream)).text == "one"
        del stream, model
        gc.collect()
        await handler.closed.wait()
        assert not client.is_closed


async def test_three_hundred_streams_at_once(wire: Wire) -> None:
    count, waiting = 300, 0
    all_wait = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        nonlocal waiting
        await exchange.begin()
        await exchange.chunk(b"%b\n" % exchange.body)
        waiting += 1
        if waiting == count:
            all_wait.set()
        await all_wait.wait()
        await exchange.chunk(b"END\n")
        await exchange.end()

    texts: list[str] = []

    async def ask(model: HTTPModel, number: int) -> None:
        request = ModelRequest(RequestContext([], system=str(number)))
        texts.append((await (await model.stream(request)).result()).text)

    async with serve(handler) as server:
        model = model_at(server.url, wire)
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(ask, model, number)
        assert server.connections == count
    assert sorted(map(int, texts)) == list(range(count))
