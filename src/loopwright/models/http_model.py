"""A model behind HTTP: a codec, a transport and an address."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..errors import InvalidArgumentError, InvalidResponseError, ModelConnectionError, ModelHTTPError, ModelTimeoutError
from ..messages import AssistantMessage
from .auth import Auth, bearer, checked_headers
from .base import Capabilities, ModelRequest
from .codec import Codec
from .http.pool import TransportName, shared_transport, transport_of
from .http.transport import HTTPResponse, Timeouts, Transport, host_of
from .http_stream import HTTPStream, free

__all__ = ["HTTPModel", "HTTPStream"]

_ERROR_BODY_BYTES = 65_536
_ANSWER_BYTES = 64 * 1024 * 1024
_EXCERPT_BYTES = 200

_PAGES = ("text/html", "application/xhtml", "text/xml", "application/xml", "image/")
_DEFAULT_HEADERS = {"content-type": "application/json", "user-agent": "loopwright"}
# Small events gain nothing from compression, and would come in bursts.
_STREAM_HEADERS = {**_DEFAULT_HEADERS, "accept": "text/event-stream", "accept-encoding": "identity"}
_WHOLE_HEADERS = {**_DEFAULT_HEADERS, "accept": "application/json"}


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
            base_url: Where the wire's paths begin; it may have a query, which goes after the path.
            auth: Gives the headers that authenticate a request.
            headers: Sent with each request.
            capabilities: What it can do.
            client: A client of the caller's own: `httpx2.AsyncClient`, `aiohttp.ClientSession` or a `Transport`. It is
                never closed here.
            transport: Which of the shared clients to use, where there is no `client`.
            timeouts: How long to wait.
            clock: Tells the time of answers, in seconds since the epoch.

        Raises:
            InvalidArgumentError: An argument cannot work.
        """
        self.provider = provider
        self.name = name
        self.capabilities = capabilities
        self.base_url, self._query = _split(base_url)
        self._codec = codec
        self._auth = auth or bearer(None)
        self._headers = checked_headers(headers or {})
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
        response = await self._post(request, stream=False)
        if "event-stream" in _kind(response):  # a server that only streams
            return await self._stream_of(response, request).result()
        return self._warned(await self._read_whole(response), request)

    async def stream(self, request: ModelRequest) -> HTTPStream:
        """Ask, and get the answer as it comes.

        Raises:
            ModelError: The provider refused before the answer began.
        """
        response = await self._post(request, stream=True)
        stream = self._stream_of(response, request)
        if "json" in _kind(response) and not self._codec.streams_json:  # a server that does not stream
            stream.end_with(self._warned(await self._read_whole(response), request))
        return stream

    def _stream_of(self, response: HTTPResponse, request: ModelRequest) -> HTTPStream:
        warnings = self._codec.warnings(self, request)
        return HTTPStream(response, self._codec.decoder(self), self._clock, warnings)

    def _warned(self, message: AssistantMessage, request: ModelRequest) -> AssistantMessage:
        warnings = self._codec.warnings(self, request)
        return replace(message, warnings=(*message.warnings, *warnings)) if warnings else message

    async def _post(self, request: ModelRequest, *, stream: bool) -> HTTPResponse:
        """Send the request, and get an answer that may be one of a model."""
        body = self._codec.encode(self, request, stream=stream)
        path = self._codec.path(self, stream=stream)
        headers = self._request_headers(request, stream=stream)
        transport = await self._transport()
        response = await transport.post(self.base_url + path + self._query, headers, body, self._timeouts)
        if response.status < 300 and not _kind(response).startswith(_PAGES):
            return response
        try:
            error = await self._refusal(response)
        finally:
            await free(response)
        raise error

    def _request_headers(self, request: ModelRequest, *, stream: bool) -> dict[str, str]:
        headers = {**(_STREAM_HEADERS if stream else _WHOLE_HEADERS), **self._headers}
        headers |= checked_headers(self._auth())
        if request.settings.extra_headers:
            headers |= checked_headers(request.settings.extra_headers)
        return headers

    async def _transport(self) -> Transport:
        return self._own_transport or await shared_transport(self._transport_name)

    async def _refusal(self, response: HTTPResponse) -> Exception:
        status = response.status
        host = host_of(self.base_url)
        if 300 <= status < 400:
            target = urlsplit(urljoin(self.base_url, response.headers.get("location", "")))
            return ModelHTTPError(
                f"{host} answered with a redirect ({status}) to {target.scheme}://{host_of(target.geturl())}"
                f"{target.path}, which is not followed, for the request holds a key. Set base_url to the new address.",
                status=status,
            )
        body = await _read_some(response)
        if status >= 400:
            return self._codec.error(status, {name.lower(): v for name, v in response.headers.items()}, body)
        excerpt = body[:_EXCERPT_BYTES].decode("utf-8", "replace")
        return InvalidResponseError(
            f"{host} answered with {_kind(response)}, which is no model's answer: {excerpt!r}. Check base_url."
        )

    async def _read_whole(self, response: HTTPResponse) -> AssistantMessage:
        try:
            body = await response.read(_ANSWER_BYTES + 1)
        finally:
            await free(response)
        if len(body) > _ANSWER_BYTES:
            raise InvalidResponseError(f"The answer of {host_of(self.base_url)} is longer than {_ANSWER_BYTES} bytes.")
        return replace(self._codec.decode(self, body), created_at=self._clock())

    def __repr__(self) -> str:
        return f"<HTTPModel {self.provider}:{self.name} at {host_of(self.base_url)}>"


def _kind(response: HTTPResponse) -> str:
    """The content type in lower case, empty where there is none."""
    return response.headers.get("content-type", "").lower()


def _split(base_url: str) -> tuple[str, str]:
    """A base URL without its query and last slash, and the query with its question mark."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgumentError(
            f"base_url must be an address like https://api.example.com/v1, not {parts.path or parts.scheme!r}."
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidArgumentError(f"base_url for {parts.hostname} holds credentials. Give them as api_key or auth.")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", query


async def _read_some(response: HTTPResponse) -> bytes:
    """An error's body, as much of it as is worth reading."""
    body = bytearray()
    try:
        while len(body) < _ERROR_BODY_BYTES and (chunk := await response.read_chunk()):
            body += chunk
    except (ModelConnectionError, ModelTimeoutError):
        pass
    return bytes(body[:_ERROR_BODY_BYTES])
