"""One client per event loop, made when first needed and closed when the loop ends.

The client is held by an async generator that waits at its only `yield`. `asyncio.run` (and `asyncio.Runner`, and
`anyio.run`) and trio close the async generators of a loop after its tasks have ended, so the client is closed there, in
its own loop, without a hook or a task of ours. A loop that is driven by hand with `run_until_complete` needs
`loop.shutdown_asyncgens()`, as asyncio demands anyway, or `close_shared_transports()` before it is closed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from anyio import CancelScope, move_on_after
from anyio.lowlevel import RunVar, current_token

from ...errors import InvalidArgumentError
from .transport import Transport

__all__ = ["TransportName", "close_shared_transports", "shared_transport", "transport_of"]

TransportName: TypeAlias = Literal["httpx2", "aiohttp"]

_CLOSE_SECONDS = 2.0

Keeper: TypeAlias = AsyncGenerator[Transport, None]
_kept: RunVar[dict[TransportName, tuple[Keeper, Transport]]] = RunVar("loopwright_transports")


async def shared_transport(name: TransportName | None = None) -> Transport:
    """The transport of the running event loop.

    Args:
        name: Which; by default that which `LOOPWRIGHT_TRANSPORT` names, else aiohttp on asyncio where it is installed,
            else httpx2.

    Raises:
        InvalidArgumentError: There is no such transport, or it cannot run here.
    """
    chosen = _choose(name)
    kept = _kept.get(None)
    if kept is None:
        kept = dict[TransportName, tuple[Keeper, Transport]]()
        _kept.set(kept)
    if chosen not in kept:
        keeper = _keep(_make(chosen), chosen, kept)
        kept[chosen] = keeper, await anext(keeper)  # never waits, so no other task comes in between
    return kept[chosen][1]


async def close_shared_transports() -> None:
    """Close the clients of the running event loop now, and not when it ends."""
    for keeper, _ in list((_kept.get(None) or {}).values()):
        await keeper.aclose()


def _choose(name: str | None) -> TransportName:
    wanted = name or os.environ.get("LOOPWRIGHT_TRANSPORT")
    on_asyncio = hasattr(current_token().native_token, "create_task")
    if wanted is None:
        return "aiohttp" if on_asyncio and _has_aiohttp() and not _has_socks_proxy() else "httpx2"
    if wanted == "httpx2":
        return "httpx2"
    if wanted != "aiohttp":
        raise InvalidArgumentError(f"There is no transport {wanted!r}. There are 'httpx2' and 'aiohttp'.")
    if not on_asyncio:
        raise InvalidArgumentError("The transport 'aiohttp' runs on asyncio only. Use 'httpx2' on trio.")
    if not _has_aiohttp():
        raise InvalidArgumentError("The transport 'aiohttp' is not installed: pip install 'loopwright[aiohttp]'.")
    return "aiohttp"


@cache
def _has_aiohttp() -> bool:
    return find_spec("aiohttp") is not None


@cache
def _has_socks_proxy() -> bool:
    """Whether the environment names a proxy that aiohttp cannot use."""
    from urllib.request import getproxies

    return any(proxy.startswith("socks") for proxy in getproxies().values())


def _make(name: TransportName) -> Transport:
    if name == "aiohttp":
        from .aiohttp_transport import AiohttpTransport

        return AiohttpTransport()
    from .httpx2_transport import Httpx2Transport

    return Httpx2Transport()


async def _keep(
    transport: Transport, name: TransportName, kept: dict[TransportName, tuple[Keeper, Transport]]
) -> Keeper:
    try:
        yield transport
    finally:
        # What is kept refers to its loop, so leaving it here would keep every loop that ever was.
        kept.pop(name, None)
        with CancelScope(shield=True), move_on_after(_CLOSE_SECONDS):
            await transport.aclose()


def transport_of(client: Any) -> Transport:
    """A transport over a client of the caller's own, which is never closed here.

    Raises:
        InvalidArgumentError: It is neither an `httpx2.AsyncClient`, an `aiohttp.ClientSession` nor a `Transport`.
    """
    if _is_a(client, "aiohttp", "ClientSession"):
        from .aiohttp_transport import AiohttpTransport

        return AiohttpTransport(client)
    if _is_a(client, "httpx2", "AsyncClient"):
        from .httpx2_transport import Httpx2Transport

        return Httpx2Transport(client)
    origin = type(client).__module__.partition(".")[0]
    if hasattr(client, "post") and hasattr(client, "aclose") and origin not in ("httpx", "httpx2"):
        transport: Transport = client
        return transport
    raise InvalidArgumentError(
        "client must be an httpx2.AsyncClient, an aiohttp.ClientSession or a Transport, "
        f"not {origin}.{type(client).__name__}."
    )


def _is_a(client: Any, module: str, name: str) -> bool:
    """Whether it is an instance of a class of a module that may not be there: whoever made it has imported it."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(client, cls)
