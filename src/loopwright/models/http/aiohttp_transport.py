"""Transport over aiohttp: asyncio only, and several times cheaper than httpx2 there."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from ...errors import ModelConnectionError, ModelError, ModelTimeoutError
from .proxies import EnvironmentProxies
from .transport import HTTPResponse, OpenResponses, Timeouts, cause_in_words, host_of

__all__ = ["AiohttpTransport"]

_KEEP_ALIVE_SECONDS = 30.0
_HEADER_BYTES = 65_536
_LARGE_BODY = 512 * 1024


class AiohttpTransport:
    """A `Transport` over `aiohttp.ClientSession`."""

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        """Use a session.

        Args:
            session: The caller's own, which stays open at `aclose` and decides about proxies itself. When None a new
                one is made, in the running event loop: without a limit on connections, without cookies, with the
                environment's proxies.
        """
        self._owns_session = session is None
        self._session = session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        self._proxies = EnvironmentProxies() if session is None else None
        self._limits: dict[Timeouts, aiohttp.ClientTimeout] = {}
        self._open = OpenResponses()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> HTTPResponse:
        """Post a body; see `Transport.post`."""
        limits = self._limits.get(timeouts)
        if limits is None:
            limits = self._limits[timeouts] = aiohttp.ClientTimeout(
                total=None, connect=timeouts.connect, sock_connect=timeouts.connect, sock_read=timeouts.read
            )
        # As plain bytes a large body is written in one go, of which aiohttp warns.
        data = body if len(body) < _LARGE_BODY else io.BytesIO(body)
        options = self._proxy_options(url)
        options |= {"headers": headers, "timeout": limits, "allow_redirects": False}
        try:
            try:
                response = await self._session.post(url, data=data, **options)
            except aiohttp.ClientOSError as error:
                if not isinstance(error.__cause__, aiohttp.ClientConnectionResetError):
                    raise
                # A pooled connection that the server closed in this very moment. Nothing was sent, so asking again over
                # another one asks once.
                data = body if len(body) < _LARGE_BODY else io.BytesIO(body)
                response = await self._session.post(url, data=data, **options)
        except (aiohttp.ClientError, OSError) as error:
            raise _translated(error, url) from error
        return _Response(response, url, self._open)

    def _proxy_options(self, url: str) -> dict[str, Any]:
        proxy = None if self._proxies is None else self._proxies.proxy_for(url)
        if proxy is None:
            return {}
        address = URL(proxy)
        if address.user is None:
            return {"proxy": address}
        login = b64encode(f"{address.user}:{address.password or ''}".encode()).decode()
        # aiohttp renames the header, and puts it where the proxy looks for it.
        return {"proxy": address.with_user(None), "proxy_headers": {"Authorization": f"Basic {login}"}}

    async def aclose(self) -> None:
        """Close all connections, unless the session is the caller's."""
        if self._owns_session:
            await self._open.aclose()
            await self._session.close()


class _Response:
    __slots__ = ("_open", "_response", "_url", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, url: str, open_responses: OpenResponses) -> None:
        self._response = response
        self._url = url
        self._open = open_responses
        self.status = response.status
        # aiohttp's own mapping: names in any case find their header.
        self.headers: Mapping[str, str] = response.headers
        open_responses.add(self)

    async def read_chunk(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise _translated(error, self._url) from error
        except RuntimeError as error:  # what aiohttp says when the connection was closed meanwhile
            raise ModelConnectionError(f"The connection to {host_of(self._url)} is closed.") from error

    async def read(self, limit: int | None = None) -> bytes:
        body = bytearray()
        while limit is None or len(body) < limit:
            chunk = await self.read_chunk()
            if not chunk:
                break
            body += chunk
        return bytes(body if limit is None else body[:limit])

    async def aclose(self) -> None:
        # At the end of the body aiohttp has given the connection back already; before it, this closes it.
        self._open.discard(self)
        self._response.close()


def _translated(error: Exception, url: str) -> ModelError:
    if isinstance(error, TimeoutError):
        return ModelTimeoutError(f"{host_of(url)} was too slow: {type(error).__name__}.")
    if isinstance(error, aiohttp.ServerDisconnectedError):  # its words may be half a response with all its headers
        return ModelConnectionError(f"The connection to {host_of(url)} failed: the server disconnected.")
    return ModelConnectionError(f"The connection to {host_of(url)} failed: {cause_in_words(error, url)}")
