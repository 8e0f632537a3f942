"""One client per event loop: shared, chosen, closed with its loop."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import aiohttp
import anyio
import httpx2
import pytest
import trio
from http_kit import REQUEST, WIRES, Exchange, LineCodec, Wire, events_of, serve

from loopwright.errors import InvalidArgumentError
from loopwright.models.http import close_shared_transports, shared_transport
from loopwright.models.http.aiohttp_transport import AiohttpTransport
from loopwright.models.http.httpx2_transport import Httpx2Transport
from loopwright.models.http.pool import transport_of
from loopwright.models.http.proxies import EnvironmentProxies
from loopwright.models.http_model import HTTPModel


def run(wire: Wire, function: Any) -> Any:
    name, options = wire.backend
    return anyio.run(function, backend=name, backend_options=options)


async def test_shared_and_made_anew_after_closing() -> None:
    first = await shared_transport("httpx2")
    assert await shared_transport("httpx2") is first
    await close_shared_transports()
    second = await shared_transport("httpx2")
    assert second is not first
    await close_shared_transports()
    await close_shared_transports()


async def test_chosen_by_itself_by_environment_and_by_argument(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPWRIGHT_TRANSPORT", raising=False)
    expected = AiohttpTransport if anyio_backend_name == "asyncio" else Httpx2Transport
    assert type(await shared_transport()) is expected
    monkeypatch.setenv("LOOPWRIGHT_TRANSPORT", "httpx2")
    assert type(await shared_transport()) is Httpx2Transport
    if anyio_backend_name == "asyncio":
        assert type(await shared_transport("aiohttp")) is AiohttpTransport
    else:
        with pytest.raises(InvalidArgumentError, match="asyncio only"):
            await shared_transport("aiohttp")
    monkeypatch.setenv("LOOPWRIGHT_TRANSPORT", "curl")
    with pytest.raises(InvalidArgumentError, match="'curl'.*'httpx2' and 'aiohttp'"):
        await shared_transport()
    await close_shared_transports()


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@pytest.mark.parametrize("left_open", [False, True], ids=["read", "left-open"])
def test_closed_when_its_loop_ends(wire: Wire, left_open: bool, caplog: pytest.LogCaptureFixture) -> None:
    """No warning (they are errors here) and no word in the log, whatever was left open."""
    kept: list[Any] = []

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\n")
        if left_open:
            await exchange.wait_closed()
        else:
            await exchange.chunk(b"END\n")
            await exchange.end()

    async def main() -> weakref.ref[Any]:
        async with serve(handler) as server:
            model = HTTPModel(provider="p", name="m", codec=LineCodec(), base_url=server.url, transport=wire.transport)
            stream = await model.stream(REQUEST)
            if left_open:
                assert (await anext(stream)).text == "one"
                kept.append(stream)
            else:
                assert await events_of(stream) == ["one", "response-done"]
        return weakref.ref(await shared_transport(wire.transport))

    transport = run(wire, main)
    gc.collect()
    assert transport() is None or left_open
    kept.clear()
    gc.collect()
    assert transport() is None, "a closed client is kept, and with it its loop"
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_each_loop_has_its_own() -> None:
    async def main() -> object:
        return await shared_transport("aiohttp")

    assert asyncio.run(main()) is not asyncio.run(main())


def test_loop_driven_by_hand() -> None:
    async def main() -> None:
        await shared_transport("aiohttp")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    gc.collect()


def test_stream_dropped_after_its_loop_ended_while_another_runs() -> None:
    """Its finalizer must not touch the other loop."""
    kept: list[Any] = []

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\n")
        await exchange.wait_closed()

    async def first() -> None:
        async with serve(handler) as server:
            model = HTTPModel(provider="p", name="m", codec=LineCodec(), base_url=server.url, transport="httpx2")
            kept.append(await model.stream(REQUEST))

    async def second() -> int:
        kept.clear()
        gc.collect()
        await anyio.wait_all_tasks_blocked()
        return len(asyncio.all_tasks())

    asyncio.run(first())
    assert asyncio.run(second()) == 1
    trio.run(first)
    kept.clear()
    gc.collect()


async def test_own_clients_are_recognised_and_stay_open(anyio_backend_name: str) -> None:
    class MyClient(httpx2.AsyncClient):
        pass

    async with MyClient() as client:
        transport = transport_of(client)
        assert type(transport) is Httpx2Transport
        await transport.aclose()
        assert not client.is_closed
        assert transport_of(transport) is transport
    if anyio_backend_name == "asyncio":
        async with aiohttp.ClientSession() as session:
            transport = transport_of(session)
            assert type(transport) is AiohttpTransport
            await transport.aclose()
            assert not session.closed


@pytest.mark.parametrize("client", [object(), httpx2.Client(), "httpx2"], ids=["object", "sync-client", "name"])
def test_other_clients_are_refused(client: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"client must be an httpx2\.AsyncClient"):
        transport_of(client)


def test_import_of_the_package_loads_no_http_client() -> None:
    code = "import sys, loopwright; print([n for n in ('httpx2', 'httpcore2', 'aiohttp', 'trio') if n in sys.modules])"
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_proxies_of_the_environment(no_proxies: pytest.MonkeyPatch) -> None:
    assert EnvironmentProxies().proxy_for("https://api.example.com/v1") is None
    no_proxies.setenv("HTTPS_PROXY", "http://user:word@proxy.example:3128")
    no_proxies.setenv("NO_PROXY", "localhost,.internal")
    proxies = EnvironmentProxies()
    assert proxies.proxy_for("https://api.example.com/v1") == "http://user:word@proxy.example:3128"
    assert proxies.proxy_for("https://llm.internal/v1") is None
    assert proxies.proxy_for("http://api.example.com/v1") is None
    no_proxies.setenv("ALL_PROXY", "other.example:80")
    assert EnvironmentProxies().proxy_for("http://api.example.com/v1") == "http://other.example:80"


def test_socks_proxy_is_refused_by_aiohttp(no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    with pytest.raises(InvalidArgumentError, match="socks5 proxy.*LOOPWRIGHT_TRANSPORT=httpx2"):
        EnvironmentProxies().proxy_for("https://api.example.com")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_request_goes_through_the_proxy_with_its_login(
    anyio_backend: str, no_proxies: pytest.MonkeyPatch
) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"{}")

    async with serve(handler) as proxy:
        no_proxies.setenv("HTTP_PROXY", proxy.url.replace("//", "//user:word@"))
        for name in ("aiohttp", "httpx2"):
            model = HTTPModel(
                provider="p", name="m", codec=LineCodec(), base_url="http://api.example.com/v1", transport=name
            )
            assert (await model.generate(REQUEST)).text == "{}"
        assert [exchange.target for exchange in proxy.exchanges] == ["http://api.example.com/v1/whole"] * 2
        assert {exchange.headers["proxy-authorization"] for exchange in proxy.exchanges} == {"Basic dXNlcjp3b3Jk"}
        await close_shared_transports()
