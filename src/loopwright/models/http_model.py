"""A model behind HTTP: a codec, a transport and an address."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from anyio import CancelScope, move_on_after

from .._backend import Waker, spawn
from ..errors import InvalidResponseError, ModelConnectionError
from ..events import ModelEvent, ResponseDone, ResponseError
from ..messages import AssistantMessage
from .auth import Auth, bearer
from .base import Capabilities, ModelRequest
from .codec import Codec, StreamDecoder
from .http.pool import TransportName, shared_transport, transport_of
from .http.transport import HTTPResponse, Timeouts, Transport, host_of

__all__ = ["HTTPModel", "HTTPStream"]

_ERROR_BODY_LIMIT = 65_536
_DRAIN_SECONDS = 0.25
_CLOSE_SECONDS = 2.0


class HTTPModel:
    """A `LanguageModel` behind HTTP.

    Attributes:
        provider: Who serves it.
        name: Its name at the provider.
        capabilities: What it can do.
        base_url: Where the wire's paths begin.
    """

    def __init__(  # noqa: PLR0913  # what a model at an address is
        self,
        *,
        provider: str,
        name: str,
        codec: Codec,
        base_url: str,
        auth: Auth | None = None,
        headers: Mapping[str, str] | None = None,
        capabilities: Capabilities = Capabilities(),  # noqa: B008  # immutable
        client: Any = None,
        transport: TransportName | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  # immutable
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Describe a model; nothing is opened or imported yet.

        Args:
            provider: Who serves it.
            name: Its name at the provider.
            codec: The wire that it speaks.
            base_url: Where the wire's paths begin.
            auth: Gives the headers that authenticate a request.
            headers: Sent with each request.
            capabilities: What it can do.
            client: A client of the caller's own: `httpx2.AsyncClient`, `aiohttp.ClientSession` or a `Transport`. It is
                never closed here.
            transport: Which of the shared clients to use, where there is no `client`.
            timeouts: How long to wait.
            clock: Tells the time of answers.
        """
        self.provider = provider
        self.name = name
        self.capabilities = capabilities
        self.base_url = base_url.rstrip("/")
        self._codec = codec
        self._auth = auth or bearer(None)
        self._headers = {"content-type": "application/json", **(headers or {})}
        self._own_transport = None if client is None else transport_of(client)
        self._transport_name: TransportName | None = transport
        self._timeouts = timeouts
        self._clock = clock

    @property
    def api(self) -> str:
        """The wire that it speaks."""
        return self._codec.api

    async def generate(self, request: ModelRequest) -> AssistantMessage:
        """Ask, and wait for the whole answer.

        Raises:
            ModelError: There is no whole answer.
        """
        return await self._read_whole(await self._post(request, stream=False))

    async def stream(self, request: ModelRequest) -> HTTPStream:
        """Ask, and get the answer as it comes.

        Raises:
            ModelError: The provider refused before the answer began.
        """
        response = await self._post(request, stream=True)
        stream = HTTPStream(response, self._codec.decoder(self), self._clock)
        kind = response.headers.get("content-type", "")
        if "json" in kind or "html" in kind:  # a server that does not stream, or no such server at all
            stream.finish_with(await self._read_whole(response))
        return stream

    async def _read_whole(self, response: HTTPResponse) -> AssistantMessage:
        try:
            body = await response.read()
        finally:
            await _close(response)
        self._check_type(response, body)
        return replace(self._codec.decode(self, body), created_at=self._clock())

    async def _post(self, request: ModelRequest, *, stream: bool) -> HTTPResponse:
        body = self._codec.encode(self, request, stream=stream)
        headers = {**self._headers, **self._auth(), **(request.settings.extra_headers or {})}
        if stream:
            headers.setdefault("accept-encoding", "identity")  # small events gain nothing, and would come in bursts
        url = self.base_url + self._codec.path(self, stream=stream)
        transport = await self._transport()
        response = await transport.post(url, headers, body, self._timeouts)
        if response.status < 300:
            return response
        try:
            if response.status < 400:
                raise InvalidResponseError(
                    f"{host_of(url)} answered with a redirect ({response.status}) to "
                    f"{host_of(response.headers.get('location', 'nowhere'))}, which is not followed: the request holds "
                    "a key. Set base_url to the new address."
                )
            error_body = await _read_some(response)
        finally:
            await _close(response)
        raise self._codec.error(response.status, {k.lower(): v for k, v in response.headers.items()}, error_body)

    async def _transport(self) -> Transport:
        return self._own_transport or await shared_transport(self._transport_name)

    def _check_type(self, response: HTTPResponse, body: bytes) -> None:
        kind = response.headers.get("content-type", "")
        if "html" in kind:
            excerpt = body[:200].decode("utf-8", "replace")
            raise InvalidResponseError(
                f"{host_of(self.base_url)} answered with a web page ({kind}), not with a model's answer: {excerpt!r}. "
                "Check base_url."
            )

    def __repr__(self) -> str:
        return f"<HTTPModel {self.provider}:{self.name} at {host_of(self.base_url)}>"


class HTTPStream:
    """One answer as it comes; a `ModelStream`.

    The network is waited for only when no decoded event is left.
    """

    __slots__ = ("_clock", "_closed", "_decoder", "_ended", "_error", "_events", "_message", "_response", "_waker")

    def __init__(self, response: HTTPResponse, decoder: StreamDecoder, clock: Callable[[], float]) -> None:
        self._response = response
        self._decoder = decoder
        self._clock = clock
        self._events: deque[ModelEvent] = deque()
        self._message: AssistantMessage | None = None
        self._error: Exception | None = None
        self._ended = False
        self._closed = False
        self._waker = Waker()

    def finish_with(self, message: AssistantMessage) -> None:
        """The answer came whole."""
        self._ended = self._closed = True
        self._message = message
        self._events.append(ResponseDone(message))

    def __aiter__(self) -> HTTPStream:
        return self

    async def __anext__(self) -> ModelEvent:
        events = self._events
        while not events:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return events.popleft()

    def pop_ready(self) -> ModelEvent | None:
        """An event that is decoded already, or None."""
        return self._events.popleft() if self._events else None

    async def _read(self) -> None:
        try:
            try:
                chunk = await self._response.read_chunk()
            except ModelConnectionError as error:
                self._take(self._after_break(error))
                self._ended = True
            else:
                self._take(self._decoder.feed(chunk) if chunk else self._decoder.close())
                if not chunk:
                    self._ended = True
                elif self._message is not None:
                    await self._drain()
        except Exception as error:
            self._error = error
            self._ended = True
        if self._ended:
            await self.aclose()

    def _after_break(self, error: ModelConnectionError) -> list[ModelEvent]:
        """A connection that breaks after the answer was complete does no harm."""
        try:
            return self._decoder.close()
        except Exception:
            raise error from error.__cause__

    def _take(self, events: list[ModelEvent]) -> None:
        self._events.extend(events)
        if events and isinstance(last := events[-1], ResponseDone | ResponseError):
            last.message = self._message = replace(last.message, created_at=self._clock())

    async def _drain(self) -> None:
        """Read to the end of the body, which lets the connection be used again; it is a few bytes away."""
        self._ended = True
        with move_on_after(_DRAIN_SECONDS):
            while await self._response.read_chunk():
                pass

    async def result(self) -> AssistantMessage:
        """The complete answer.

        Raises:
            ModelError: It is not complete.
        """
        while self._message is None:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise InvalidResponseError("The answer ended without a message.")
            await self._read()
        return self._message

    async def aclose(self) -> None:
        """Free the connection. Safe from any task, and more than once."""
        if not self._closed:
            self._closed = self._ended = True
            await _close(self._response)

    def __del__(self) -> None:
        if not self._closed:
            response = self._response

            def begin() -> None:
                try:
                    spawn(lambda: _close(response), "loopwright abandoned stream")
                except RuntimeError:
                    return

            self._waker.call(begin)


async def _close(response: HTTPResponse) -> None:
    """Free a connection even when cancelled, for a bounded time; it does not matter how that ends."""
    with CancelScope(shield=True), move_on_after(_CLOSE_SECONDS):
        try:
            await response.aclose()
        except Exception:
            return


async def _read_some(response: HTTPResponse) -> bytes:
    """An error's body, as much of it as is worth reading."""
    body = b""
    try:
        while len(body) < _ERROR_BODY_LIMIT and (chunk := await response.read_chunk()):
            body += chunk
    except ModelConnectionError:
        return body
    return body[:_ERROR_BODY_LIMIT]
