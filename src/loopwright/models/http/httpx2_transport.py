"""Transport over httpx2: asyncio and trio."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast

import httpcore2
import httpx2

from ...errors import ModelConnectionError, ModelError, ModelTimeoutError
from .transport import HTTPResponse, OpenResponses, Timeouts, cause_in_words, host_of
from .unhooked import FirstItem

__all__ = ["Httpx2Transport"]

_KEEP_ALIVE_SECONDS = 30.0
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS

_TIMEOUTS = (httpx2.TimeoutException, httpcore2.TimeoutException)
_FAILURES = (
    *_TIMEOUTS,
    httpx2.RequestError,
    httpx2.StreamError,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    OSError,
    zlib.error,
)


class Httpx2Transport:
    """A `Transport` over `httpx2.AsyncClient`."""

    def __init__(self, client: httpx2.AsyncClient | None = None) -> None:
        """Use a client.

        Args:
            client: The caller's own, which stays open at `aclose`. When None a new one is made: without a limit on
                connections, without cookies, with the environment's proxies.
        """
        self._owns_client = client is None
        self._client = client or httpx2.AsyncClient(
            limits=httpx2.Limits(keepalive_expiry=_KEEP_ALIVE_SECONDS),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            timeout=None,
        )
        self._open = OpenResponses()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> HTTPResponse:
        """Post a body; see `Transport.post`."""
        limits = httpx2.Timeout(connect=timeouts.connect, read=timeouts.read, write=timeouts.read, pool=None)
        request = self._client.build_request("POST", url, headers=headers, content=body, timeout=limits)
        try:
            response = await self._client.send(request, stream=True, follow_redirects=False)
        except _FAILURES as error:
            raise _translated(error, url) from error
        return _Response(response, url, self._open)

    async def aclose(self) -> None:
        """Close all connections, unless the client is the caller's."""
        if self._owns_client:
            await self._open.aclose()
            await self._client.aclose()


class _Response:
    __slots__ = ("_body", "_decode", "_open", "_reading", "_response", "_started", "_url", "headers", "status")

    def __init__(self, response: httpx2.Response, url: str, open_responses: OpenResponses) -> None:
        self._response = response
        self._url = url
        self._open = open_responses
        self._body, self._decode = _body_of(response)
        self._reading = False
        self._started = False
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        open_responses.add(self)

    async def read_chunk(self) -> bytes:
        self._reading = True
        try:
            while True:
                chunk = await (self._body.__anext__() if self._started else self._start())
                if data := self._decode(chunk):
                    return data
        except StopAsyncIteration:
            await self.aclose()
            return b""
        except _FAILURES as error:
            raise _translated(error, self._url) from error
        finally:
            self._reading = False

    def _start(self) -> FirstItem[bytes]:
        self._started = True
        return FirstItem(self._body)

    async def read(self, limit: int | None = None) -> bytes:
        body = bytearray()
        while limit is None or len(body) < limit:
            chunk = await self.read_chunk()
            if not chunk:
                break
            body += chunk
        return bytes(body if limit is None else body[:limit])

    async def aclose(self) -> None:
        self._open.discard(self)
        try:
            # A generator that is in use cannot be closed. It ends by itself, as its connection is closed.
            if not self._reading:
                await self._body.aclose()
        finally:
            await self._response.aclose()


def _unchanged(data: bytes) -> bytes:
    return data


def _body_of(response: httpx2.Response) -> tuple[AsyncGenerator[bytes, None], Callable[[bytes], bytes]]:
    """The body's chunks, from as near to the socket as can be, and what decompresses them.

    Above the connection's own generator httpx2 (2.16) stacks three more, one of which drops the one below it unclosed
    when a body is closed early; trio warns of that. Where the layers are not as expected (a mock, a transport of the
    caller's) and where the body is compressed, the public iterators serve.
    """
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        return response.aiter_bytes(), _unchanged
    core = getattr(getattr(response.stream, "_stream", None), "_httpcore_stream", None)
    body = response.aiter_raw() if core is None else cast("AsyncGenerator[bytes, None]", aiter(core))
    decode = _unchanged if encoding == "identity" else zlib.decompressobj(_GZIP_OR_ZLIB).decompress
    return body, decode


def _translated(error: Exception, url: str) -> ModelError:
    if isinstance(error, _TIMEOUTS):
        return ModelTimeoutError(f"{host_of(url)} was too slow: {type(error).__name__}.")
    return ModelConnectionError(f"The connection to {host_of(url)} failed: {cause_in_words(error, url)}")
