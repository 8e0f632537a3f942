"""Transport over aiohttp: asyncio only, and several times cheaper than httpx2 there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp

from ...errors import ModelConnectionError, ModelTimeoutError
from .transport import HTTPResponse, Timeouts, host_of

__all__ = ["AiohttpTransport"]


class AiohttpTransport:
    """A `Transport` over `aiohttp.ClientSession`."""

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        """Use a session. Must be called in a running event loop.

        Args:
            session: The caller's own, which stays open at `aclose`; a new one without a limit on connections when None.
        """
        self._owns_session = session is None
        self._session = session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), trust_env=True, cookie_jar=aiohttp.DummyCookieJar()
        )
        self._limits: dict[Timeouts, aiohttp.ClientTimeout] = {}

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> HTTPResponse:
        """Post a body; see `Transport.post`."""
        limits = self._limits.get(timeouts)
        if limits is None:
            limits = self._limits[timeouts] = aiohttp.ClientTimeout(
                total=None, sock_connect=timeouts.connect, sock_read=timeouts.read
            )
        with _mapped(url):
            response = await self._session.post(
                url, data=body, headers=headers, timeout=limits, allow_redirects=False
            )
        return _Response(response, url)

    async def aclose(self) -> None:
        """Close all connections, unless the session is the caller's."""
        if self._owns_session:
            await self._session.close()


class _Response:
    __slots__ = ("_response", "_url", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self._response = response
        self._url = url
        self.status = response.status
        # aiohttp's own mapping: names in any case find their header.
        self.headers: Mapping[str, str] = response.headers

    async def read_chunk(self) -> bytes:
        with _mapped(self._url):
            return await self._response.content.readany()

    async def read(self) -> bytes:
        with _mapped(self._url):
            return await self._response.content.read()

    async def aclose(self) -> None:
        # At the end of the body aiohttp has given the connection back already; before it, this closes it.
        self._response.close()


@contextmanager
def _mapped(url: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ModelTimeoutError(f"{host_of(url)} was too slow: {type(error).__name__}.") from error
    except (aiohttp.ClientError, OSError) as error:
        words = str(error) or type(error).__name__
        raise ModelConnectionError(f"The connection to {host_of(url)} failed: {words}") from error
