"""What the tests of the HTTP layer share: a raw server that does just what a test says, and a codec of a few lines."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream

from loopwright.errors import ModelHTTPError, StreamTruncatedError
from loopwright.events import ModelEvent, ResponseDone, TextDelta
from loopwright.messages import AssistantMessage, TextPart
from loopwright.models.base import ModelRequest, RequestContext


@dataclass(frozen=True)
class Wire:
    """A backend and a transport on it."""

    name: str
    transport: Any
    backend: tuple[str, dict[str, Any]]


WIRES = [
    Wire("asyncio-aiohttp", "aiohttp", ("asyncio", {"debug": True})),
    Wire("asyncio-httpx2", "httpx2", ("asyncio", {"debug": True})),
    Wire("trio-httpx2", "httpx2", ("trio", {"restrict_keyboard_interrupt_to_checkpoints": True})),
]


# ---------------------------------------------------------------- server


class Exchange:
    """One request as the server got it, and the way to answer it."""

    def __init__(self, stream: SocketStream, connection: int, head: bytes, body: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.body = body
        self.connection = connection
        self._stream = stream

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def begin(self, status: int = 200, **headers: str) -> None:
        """Send the head of an answer that comes in chunks."""
        fields = {"content-type": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}}
        await self.send(_head(status, {**fields, "transfer-encoding": "chunked"}))

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Send a whole answer."""
        fields = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        await self.send(_head(status, {**fields, "content-length": str(len(body))}) + body)

    async def wait_closed(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            while await self._stream.receive():
                pass
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return

    async def cut(self) -> None:
        """Close the connection here and now."""
        await self._stream.aclose()


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class Server:
    """A server on loopback.

    Attributes:
        url: Its address.
        connections: How many were opened.
        exchanges: What was asked, in order.
    """

    url: str
    connections: int = 0
    exchanges: list[Exchange] = field(default_factory=list)


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[Server]:
    """A server that answers each request with `handler`."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=1000)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    server = Server(f"http://127.0.0.1:{port}")

    async def talk(stream: SocketStream) -> None:
        server.connections += 1
        connection = server.connections
        buffer = b""
        async with stream:
            try:
                while True:
                    while b"\r\n\r\n" not in buffer:
                        buffer += await stream.receive()
                    head, _, buffer = buffer.partition(b"\r\n\r\n")
                    exchange = Exchange(stream, connection, head, b"")
                    length = int(exchange.headers.get("content-length", "0"))
                    while len(buffer) < length:
                        buffer += await stream.receive()
                    exchange.body, buffer = buffer[:length], buffer[length:]
                    server.exchanges.append(exchange)
                    await handler(exchange)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, talk)
        yield server
        tasks.cancel_scope.cancel()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


# ---------------------------------------------------------------- codec


class LineDecoder:
    """A body of lines: each is a text delta, `END` is the end."""

    def __init__(self) -> None:
        self._rest = b""
        self._texts: list[str] = []
        self._done = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: list[ModelEvent] = []
        for line in lines:
            text = line.decode()
            if text == "BAD":
                raise ValueError("a bad line")
            if text == "END":
                self._done = True
                events.append(ResponseDone(self.partial()))
            elif not self._done:
                self._texts.append(text)
                events.append(TextDelta(0, text))
        return events

    def close(self) -> list[ModelEvent]:
        if self._done:
            return []
        if self._texts and self._texts[-1] == "last":  # a wire where the end of the body may be the end of the answer
            self._done = True
            return [ResponseDone(self.partial())]
        raise StreamTruncatedError("The body ended in the middle of the answer.")

    def partial(self) -> AssistantMessage:
        return AssistantMessage((TextPart(" ".join(self._texts)),), model="m")


class LineCodec:
    """A wire without anything to it."""

    api = "lines"
    streams_json = False

    def path(self, model: Any, *, stream: bool) -> str:
        return "/lines" if stream else "/whole"

    def encode(self, model: Any, request: ModelRequest, *, stream: bool) -> bytes:
        return request.context.system.encode() if request.context.system else b"ask"

    def warnings(self, model: Any, request: ModelRequest) -> tuple[str, ...]:
        return ("no seed",) if request.settings.seed is not None else ()

    def decode(self, model: Any, body: bytes) -> AssistantMessage:
        return AssistantMessage((TextPart(body.decode()),), model="m")

    def decoder(self, model: Any) -> LineDecoder:
        return LineDecoder()

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelHTTPError:
        return ModelHTTPError(
            "refused",
            status=status,
            body=body,
            request_id=headers.get("x-request-id"),
            retryable=status >= 500,
            retry_after=float(headers["retry-after"]) if "retry-after" in headers else None,
        )


REQUEST = ModelRequest(RequestContext([], system="hello"))


async def events_of(stream: Any) -> list[str]:
    """What a stream tells, as short texts."""
    return [event.text if isinstance(event, TextDelta) else event.type async for event in stream]


async def collect_garbage() -> None:
    """Collect, and let the loop do what finalizers left to it."""
    gc.collect()
    await anyio.wait_all_tasks_blocked()
