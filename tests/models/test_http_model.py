"""A model behind HTTP: requests, answers, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest
from http_kit import REQUEST, WIRES, Exchange, LineCodec, Wire, collect_garbage, events_of, serve

from loopwright.errors import (
    AuthenticationError,
    InvalidArgumentError,
    InvalidResponseError,
    ModelHTTPError,
    RateLimitError,
)
from loopwright.events import TextDelta
from loopwright.messages import UserMessage
from loopwright.models.auth import bearer
from loopwright.models.base import ModelRequest, ModelSettings, ModelStream, RequestContext
from loopwright.models.http import close_shared_transports
from loopwright.models.http_model import HTTPModel
from loopwright.models.vendors import OpenAICompatible


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


# ---------------------------------------------------------------- requests


async def test_generate(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"fine")

    async with serve(handler) as server:
        message = await model_at(server.url + "/v1/?version=2", wire).generate(REQUEST)
        assert (message.text, message.created_at) == ("fine", 1234.5)
        asked = server.exchanges[0]
        assert (asked.method, asked.target, asked.body) == ("POST", "/v1/whole?version=2", b"hello")


async def test_stream(wire: Wire) -> None:
    async with serve(answering(b"one\ntw", b"o\nEND\n")) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert isinstance(stream, ModelStream)
        events = [event async for event in stream]
        assert events[:2] == [TextDelta(0, "one"), TextDelta(0, "two")]
        assert events[2].message is await stream.result()
        assert events[2].message.text == "one two"
        assert events[2].message.created_at == 1234.5
        assert await events_of(stream) == []
        assert server.exchanges[0].target == "/lines"


async def test_headers_of_model_auth_and_settings(wire: Wire) -> None:
    keys = iter(["k1", "k2"])
    model = None

    async with serve(answering(b"END\n")) as server:
        model = model_at(
            server.url,
            wire,
            headers={"X-Team": "blue", "User-Agent": "mine"},
            auth=lambda: {"Authorization": f"Bearer {next(keys)}"},
        )
        settings = ModelSettings(extra_headers={"X-Team": "red", "X-Trace": "7"})
        await (await model.stream(REQUEST)).result()
        await (await model.stream(replace(REQUEST, settings=settings))).result()
        first, second = (exchange.headers for exchange in server.exchanges)
        assert [first["authorization"], second["authorization"]] == ["Bearer k1", "Bearer k2"]
        assert [first["x-team"], second["x-team"]] == ["blue", "red"]
        assert [first.get("x-trace"), second["x-trace"]] == [None, "7"]
        assert first["user-agent"] == "mine"
        assert first["content-type"] == "application/json"
        assert first["accept"] == "text/event-stream"
        assert first["accept-encoding"] == "identity"


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("ask", ["generate", "stream"])
async def test_what_a_wire_has_no_place_for_is_told_on_the_answer(wire: Wire, ask: str, kind: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin(content_type=kind)
        await exchange.chunk(b"END\n")
        await exchange.end()

    async with serve(handler) as server:
        model = model_at(server.url, wire)
        answer = await getattr(model, ask)(replace(REQUEST, settings=ModelSettings(seed=1)))
        if ask == "stream":
            answer = await answer.result()
        assert answer.warnings == ("no seed",)


@pytest.mark.parametrize("key", ["sk-hush\nmore", "sk-hush’s"], ids=["line-break", "quote"])
async def test_bad_key_is_refused_without_showing_it(wire: Wire, key: str) -> None:
    async with serve(answering(b"END\n")) as server:
        with pytest.raises(InvalidArgumentError, match="'authorization'.*how the key was copied") as caught:
            await model_at(server.url, wire, auth=bearer(key)).stream(REQUEST)
        assert "hush" not in str(caught.value)
        assert server.exchanges == []


async def test_key_with_white_space_around_it(wire: Wire) -> None:
    async with serve(answering(b"END\n")) as server:
        await (await model_at(server.url, wire, auth=bearer(" sk-1\n")).stream(REQUEST)).result()
        assert server.exchanges[0].headers["authorization"] == "Bearer sk-1"


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("ask", ["generate", "stream"])
async def test_http_error(wire: Wire, ask: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"busy", 503, X_Request_Id="r1", Retry_After="7")

    async with serve(handler) as server:
        with pytest.raises(ModelHTTPError) as caught:
            await getattr(model_at(server.url, wire), ask)(REQUEST)
        error = caught.value
        assert (error.status, error.body, error.request_id) == (503, b"busy", "r1")
        assert (error.retryable, error.retry_after) == (True, 7.0)


async def test_error_body_is_read_to_its_limit(wire: Wire) -> None:
    closed = anyio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin(500)
        try:
            while True:
                await exchange.chunk(b"x" * 10_000)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            closed.set()

    async with serve(handler) as server:
        with pytest.raises(ModelHTTPError) as caught:
            await model_at(server.url, wire).stream(REQUEST)
        assert caught.value.body == b"x" * 65_536
        await closed.wait()


async def test_error_body_that_breaks_off(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin(401)
        await exchange.chunk(b"no such")
        await exchange.cut()

    async with serve(handler) as server:
        with pytest.raises(ModelHTTPError) as caught:
            await model_at(server.url, wire).stream(REQUEST)
        assert (caught.value.status, caught.value.body) == (401, b"no such")


@pytest.mark.parametrize("ask", ["generate", "stream"])
async def test_web_page_in_place_of_an_answer(wire: Wire, ask: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"<html><title>Log in</title>" + b" " * 1000, content_type="text/html; charset=utf-8")

    async with serve(handler) as server:
        with pytest.raises(InvalidResponseError, match=r"127\.0\.0\.1:\d+ answered with text/html.*Log in.*base_url"):
            await getattr(model_at(server.url, wire), ask)(REQUEST)


@pytest.mark.parametrize(
    ("location", "target"),
    [("https://other.example/v2?token=hush", "https://other.example/v2"), ("/login?token=hush", "/login")],
)
async def test_redirect_is_not_followed(wire: Wire, location: str, target: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"", 307, location=location)

    async with serve(handler) as server:
        with pytest.raises(ModelHTTPError, match=f"redirect .307.*{target},.*base_url") as caught:
            await model_at(server.url, wire).stream(REQUEST)
        assert "hush" not in str(caught.value)
        assert caught.value.status == 307
        assert not caught.value.retryable
        assert len(server.exchanges) == 1


async def test_server_that_does_not_stream(wire: Wire) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(b"whole")

    async with serve(handler) as server:
        stream = await model_at(server.url, wire).stream(REQUEST)
        assert await events_of(stream) == ["response-done"]
        assert (await stream.result()).text == "whole"


async def test_server_that_only_streams(wire: Wire) -> None:
    async with serve(answering(b"one\n", b"two\nEND\n")) as server:
        message = await model_at(server.url, wire).generate(REQUEST)
        assert (message.text, message.created_at) == ("one two", 1234.5)


@pytest.mark.parametrize(
    "url", ["api.example.com/v1", "ftp://api.example.com", "https://", "https://user:hush@api.example.com", ""]
)
async def test_bad_address(wire: Wire, url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="base_url") as caught:
        model_at(url, wire)
    assert "hush" not in str(caught.value)


async def test_repr_shows_who_and_where_but_no_key(wire: Wire) -> None:
    auth = bearer("sk-hush")
    model = model_at("https://api.example.com:8443/v1/secret?key=hush", wire, auth=auth)
    assert repr(model) == "<HTTPModel acme:m at api.example.com:8443>"
    assert "hush" not in repr(auth)


# ---------------------------------------------------------------- with the Chat Completions codec


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c1", "model": "m-2", "choices": [choice]}).encode() + b"\n\n"


CHAT = ModelRequest(RequestContext([UserMessage("Hi")], system="Be brief."))


async def test_chat_completions_stream(wire: Wire) -> None:
    async with serve(
        answering(
            chat_chunk({"content": "Hel"}), chat_chunk({"content": "lo"}), chat_chunk({}, "stop"), b"data: [DONE]\n\n"
        )
    ) as server:
        model = OpenAICompatible("m", base_url=server.url + "/v1", api_key="sk-1", transport=wire.transport)
        stream = await model.stream(CHAT)
        assert [event.text async for event in stream if isinstance(event, TextDelta)] == ["Hel", "lo"]
        message = await stream.result()
        assert (message.text, message.finish_reason, message.response_model) == ("Hello", "stop", "m-2")
        assert message.created_at is not None
        asked = server.exchanges[0]
        assert (asked.target, asked.headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-1")
        assert json.loads(asked.body)["messages"][-1]["content"] == "Hi"
        assert (model.provider, model.api, model.name) == ("openai-compatible", "openai-chat", "m")


@pytest.mark.parametrize(("status", "error"), [(401, AuthenticationError), (429, RateLimitError)])
async def test_chat_completions_refusal(wire: Wire, status: int, error: type[ModelHTTPError]) -> None:
    async def handler(exchange: Exchange) -> None:
        body = json.dumps({"error": {"message": "no", "code": "c"}}).encode()
        await exchange.answer(body, status, Retry_After="3", X_Request_Id="r9")

    async with serve(handler) as server:
        model = OpenAICompatible("m", base_url=server.url, api_key="sk-hush", transport=wire.transport)
        with pytest.raises(error) as caught:
            await model.generate(CHAT)
        assert (caught.value.code, caught.value.request_id) == ("c", "r9")
        assert (caught.value.retryable, caught.value.retry_after) == (
            status == 429,
            3.0 if status == 429 else caught.value.retry_after,
        )
        assert "hush" not in str(caught.value)


async def test_respx_mocks_the_httpx2_transport(wire: Wire, httpx2_mock: Any) -> None:
    if wire.transport != "httpx2":
        return
    route = httpx2_mock.post("https://api.example.com/v1/lines").respond(
        200, headers={"content-type": "text/event-stream"}, content=b"one\nEND\n"
    )
    stream = await model_at("https://api.example.com/v1", wire).stream(REQUEST)
    assert await events_of(stream) == ["one", "response-done"]
    assert route.call_count == 1
