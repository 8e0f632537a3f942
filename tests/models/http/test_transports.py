"""What each transport does with a connection: reads, breaks, cancels, closes."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from http_kit import WIRES, Exchange, Wire, collect_garbage, serve

from loopwright.errors import ModelConnectionError, ModelTimeoutError
from loopwright.models.http import Timeouts, Transport, close_shared_transports, shared_transport

HEADERS = {"content-type": "application/json"}
TIMEOUTS = Timeouts()


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture
def anyio_backend(wire: Wire) -> object:
    return wire.backend


@asynccontextmanager
async def transport_for(wire: Wire) -> AsyncIterator[Transport]:
    yield await shared_transport(wire.transport)
    await close_shared_transports()


async def chunks_of(response: Any) -> bytes:
    body = b""
    while chunk := await response.read_chunk():
        body += chunk
    return body


async def test_status_headers_and_chunks_as_they_come(wire: Wire) -> None:
    go_on = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin(201, X_Request_Id="r1")
        await exchange.chunk(b"one")
        await go_on.wait()
        await exchange.chunk(b"two")
        await exchange.end()

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url + "/path?a=b", HEADERS, b"question", TIMEOUTS)
        assert response.status == 201
        assert response.headers.get("x-request-id") == "r1"
        assert await response.read_chunk() == b"one"
        go_on.set()
        assert await response.read_chunk() == b"two"
        assert await response.read_chunk() == b""
        assert await response.read_chunk() == b""
        await response.aclose()
        asked = server.exchanges[0]
        assert (asked.method, asked.target, asked.body) == ("POST", "/path?a=b", b"question")
        assert asked.headers["content-type"] == "application/json"


async def test_connection_is_used_again_after_the_whole_body(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"x" * 10)
        await exchange.end()

    async with serve(handler) as server, transport_for(wire) as transport:
        for _ in range(3):
            response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
            assert await response.read() == b"x" * 10
            await response.aclose()
        assert [exchange.connection for exchange in server.exchanges] == [1, 1, 1]


async def test_read_with_limit_leaves_the_rest(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"0123456789" * 100)

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
        assert await response.read(7) == b"0123456"
        await response.aclose()


async def test_gzip_is_unpacked_chunk_by_chunk(wire: Wire) -> None:
    packed = gzip.compress(b"data: hello\n\n" * 50)

    async def handler(exchange: Exchange) -> None:
        await exchange.begin(content_encoding="gzip")
        for at in range(0, len(packed), 7):
            await exchange.chunk(packed[at : at + 7])
        await exchange.end()

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
        assert await chunks_of(response) == b"data: hello\n\n" * 50
        await response.aclose()


async def test_broken_gzip_is_a_connection_error(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin(content_encoding="gzip")
        await exchange.chunk(b"this is no gzip at all")
        await exchange.end()

    async with serve(handler) as server, transport_for(wire) as transport:
        with pytest.raises(ModelConnectionError, match=r"127\.0\.0\.1"):
            response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
            try:
                await chunks_of(response)
            finally:
                await response.aclose()


async def test_closing_a_gzip_body_early_leaves_nothing(wire: Wire) -> None:
    closed = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin(content_encoding="gzip")
        await exchange.chunk(gzip.compress(b"a" * 1000))
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
        assert await response.read_chunk() == b"a" * 1000
        await response.aclose()
        await closed.wait()
        del response
        await collect_garbage()


async def test_large_request_body_goes_out_whole_and_without_warnings(wire: Wire) -> None:
    body = bytes(range(256)) * 12_000  # 3 MB

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(str(len(exchange.body)).encode())

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url, HEADERS, body, TIMEOUTS)
        assert await response.read() == b"3072000"
        await response.aclose()
        assert server.exchanges[0].body == body
        assert server.exchanges[0].headers["content-type"] == "application/json"
        assert server.exchanges[0].headers["content-length"] == "3072000"


async def test_connection_cut_in_the_body(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one")
        await exchange.cut()

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url + "?key=hush", HEADERS, b"", TIMEOUTS)
        assert await response.read_chunk() == b"one"
        with pytest.raises(ModelConnectionError, match=r"The connection to 127\.0\.0\.1:\d+ failed") as caught:
            await response.read_chunk()
        await response.aclose()
        assert caught.value.retryable
        assert caught.value.__cause__ is not None
        assert "hush" not in str(caught.value)


async def test_connection_cut_before_the_headers(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nset-cookie: hush\r\n")
        await exchange.cut()

    async with serve(handler) as server, transport_for(wire) as transport:
        with pytest.raises(ModelConnectionError, match=r"127\.0\.0\.1:\d+") as caught:
            await transport.post(server.url, HEADERS, b"", TIMEOUTS)
        assert "hush" not in str(caught.value)


async def test_no_one_listens(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        raise AssertionError("never asked")

    async with serve(handler) as server:
        url = server.url
    async with transport_for(wire) as transport:
        with pytest.raises(ModelConnectionError, match=r"127\.0\.0\.1:\d+"):
            await transport.post(url + "/v1?key=hush", HEADERS, b"", TIMEOUTS)


@pytest.mark.parametrize("after_head", [False, True], ids=["headers", "body"])
async def test_read_timeout(wire: Wire, after_head: bool) -> None:
    closed = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        if after_head:
            await exchange.begin()
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server, transport_for(wire) as transport:
        with pytest.raises(ModelTimeoutError, match=r"127\.0\.0\.1:\d+ was too slow") as caught:
            response = await transport.post(server.url, HEADERS, b"", Timeouts(read=0.01))
            try:
                await response.read_chunk()
            finally:
                await response.aclose()
        assert caught.value.retryable
        await closed.wait()


async def test_cancel_while_waiting_for_headers_closes_the_connection(wire: Wire) -> None:
    asked, closed = anyio.Event(), anyio.Event()

    async def handler(exchange: Exchange) -> None:
        asked.set()
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server, transport_for(wire) as transport:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.post, server.url, HEADERS, b"", TIMEOUTS)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await closed.wait()
        await collect_garbage()


async def test_close_by_another_task_wakes_the_reader(wire: Wire) -> None:
    closed = anyio.Event()
    errors: list[Exception] = []

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one")
        await exchange.wait_closed()
        closed.set()

    async def read_on(response: Any) -> None:
        try:
            await response.read_chunk()
        except ModelConnectionError as error:
            errors.append(error)

    async with serve(handler) as server, transport_for(wire) as transport:
        response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
        assert await response.read_chunk() == b"one"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_on, response)
            await anyio.wait_all_tasks_blocked()
            await response.aclose()
        await closed.wait()
        assert len(errors) == 1
        await response.aclose()
        await collect_garbage()


async def test_closing_the_transport_closes_what_is_open(wire: Wire) -> None:
    closed = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one")
        await exchange.wait_closed()
        closed.set()

    async with serve(handler) as server:
        transport = await shared_transport(wire.transport)
        response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
        assert await response.read_chunk() == b"one"
        await close_shared_transports()
        await closed.wait()
        del response, transport
        await collect_garbage()


async def test_no_cookie_is_kept(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"{}", set_cookie="session=1")

    async with serve(handler) as server, transport_for(wire) as transport:
        for _ in range(2):
            response = await transport.post(server.url, HEADERS, b"", TIMEOUTS)
            await response.read()
            await response.aclose()
        assert [exchange.headers.get("cookie") for exchange in server.exchanges] == [None, None]


async def test_three_hundred_at_once_all_have_a_connection(wire: Wire) -> None:
    count = 300
    waiting = 0
    all_wait = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == count:
            all_wait.set()
        await all_wait.wait()  # hangs when the pool lets fewer through
        await exchange.begin()
        await exchange.chunk(exchange.body)
        await exchange.end()

    got: list[bytes] = []

    async def ask(transport: Transport, url: str, number: int) -> None:
        response = await transport.post(url, HEADERS, b"%d" % number, TIMEOUTS)
        got.append(await response.read())
        await response.aclose()

    async with serve(handler) as server, transport_for(wire) as transport:
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(ask, transport, server.url, number)
        assert server.connections == count
    assert sorted(map(int, got)) == list(range(count))


async def test_a_pooled_connection_that_just_died_is_replaced() -> None:
    """Only aiohttp finds out while it writes; nothing was sent, so the request goes over another connection."""
    aiohttp = pytest.importorskip("aiohttp")
    from loopwright.models.http.aiohttp_transport import AiohttpTransport
    from loopwright.models.http.transport import Timeouts

    class Session:
        def __init__(self) -> None:
            self.bodies: list[object] = []

        async def post(self, url: str, *, data: object, **options: object) -> object:
            self.bodies.append(data)
            if len(self.bodies) == 1:
                raise aiohttp.ClientOSError(
                    None, "Can not write request body"
                ) from aiohttp.ClientConnectionResetError()
            return _Answer()

    class _Answer:
        status = 200
        headers: dict[str, str] = {}

    session = Session()
    response = await AiohttpTransport(session).post("http://127.0.0.1:1/v1", {}, b"{}", Timeouts())  # type: ignore[arg-type]
    assert (response.status, session.bodies) == (200, [b"{}", b"{}"])
