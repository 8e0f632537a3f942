"""Transport over httpx2: asyncio and trio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import httpcore2
import httpx2

from ...errors import ModelConnectionError, ModelTimeoutError
from .transport import HTTPResponse, Timeouts, host_of

__all__ = ["Httpx2Transport"]


class Httpx2Transport:
    """A `Transport` over `httpx2.AsyncClient`."""

    def __init__(self, client: httpx2.AsyncClient | None = None) -> None:
        """Use a client.

        Args:
            client: The caller's own, which stays open at `aclose`; a new one without a limit on connections when None.
        """
        self._owns_client = client is None
        self._client = client or httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            follow_redirects=False,
            timeout=None,
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> HTTPResponse:
        """Post a body; see `Transport.post`."""
        limits = httpx2.Timeout(connect=timeouts.connect, read=timeouts.read, write=timeouts.read, pool=None)
        request = self._client.build_request("POST", url, headers=headers, content=body, timeout=limits)
        with _mapped(url):
            response = await self._client.send(request, stream=True, follow_redirects=False)
        return _Response(response, url)

    async def aclose(self) -> None:
        """Close all connections, unless the client is the caller's."""
        if self._owns_client:
            await self._client.aclose()


class _Response:
    __slots__ = ("_body", "_response", "_url", "headers", "status")

    def __init__(self, response: httpx2.Response, url: str) -> None:
        self._response = response
        self._url = url
        self._body: AsyncGenerator[bytes, None] | None = None
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def read_chunk(self) -> bytes:
        if self._body is None:
            self._body = _body_of(self._response)
        with _mapped(self._url):
            async for chunk in self._body:
                if chunk:
                    return chunk
            await self._response.aclose()
        return b""

    async def read(self) -> bytes:
        if self._body is None:
            with _mapped(self._url):
                return await self._response.aread()
        return b"".join([chunk async for chunk in self._body])

    async def aclose(self) -> None:
        if self._body is not None:
            await self._body.aclose()
        await self._response.aclose()


def _body_of(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """The body's chunks, from as near to the socket as can be.

    Above the connection's own generator httpx2 (2.16) stacks three more, one of which drops the one below it unclosed when
    a body is closed early; trio warns of that. Where the layers are not as expected (a mock, the caller's own transport)
    and where the body is compressed, the public iterators serve.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())
    core = getattr(getattr(response.stream, "_stream", None), "_httpcore_stream", None)
    if core is None:
        return cast("AsyncGenerator[bytes, None]", response.aiter_raw())
    return cast("AsyncGenerator[bytes, None]", aiter(core))


@contextmanager
def _mapped(url: str) -> Iterator[None]:
    try:
        yield
    except (httpx2.TimeoutException, httpcore2.TimeoutException) as error:
        raise ModelTimeoutError(f"{host_of(url)} was too slow: {type(error).__name__}.") from error
    except (httpx2.RequestError, httpx2.StreamError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        words = str(error) or type(error).__name__
        raise ModelConnectionError(f"The connection to {host_of(url)} failed: {words}") from error
