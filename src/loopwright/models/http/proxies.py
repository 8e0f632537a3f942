"""Which proxy the environment names for a URL, looked up once per host.

aiohttp can do it itself, but asks the environment anew for each request, in a worker thread, and then reads netrc too.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ...errors import InvalidArgumentError

__all__ = ["EnvironmentProxies"]


class EnvironmentProxies:
    """`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, as they are when this is made."""

    __slots__ = ("_by_host", "_proxies")

    def __init__(self) -> None:
        self._proxies = getproxies()
        self._by_host: dict[tuple[str, str], str | None] = {}

    def proxy_for(self, url: str) -> str | None:
        """The proxy's URL, None for none.

        Raises:
            InvalidArgumentError: It is a kind of proxy that aiohttp cannot use.
        """
        if not self._proxies:
            return None
        parts = urlsplit(url)
        key = parts.scheme, parts.netloc
        if key not in self._by_host:
            self._by_host[key] = self._look_up(parts.scheme, parts.netloc)
        return self._by_host[key]

    def _look_up(self, scheme: str, netloc: str) -> str | None:
        proxy = self._proxies.get(scheme) or self._proxies.get("all")
        if not proxy or proxy_bypass(netloc):
            return None
        kind = urlsplit(proxy).scheme if "://" in proxy else "http"
        if kind not in ("http", "https"):
            raise InvalidArgumentError(
                f"The environment names a {kind} proxy for {scheme} addresses, which aiohttp cannot use. Set "
                "LOOPWRIGHT_TRANSPORT=httpx2 and install httpx2[socks], or pass a client of your own."
            )
        return proxy if "://" in proxy else f"http://{proxy}"
