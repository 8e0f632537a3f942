"""One client per event loop, made when first needed and closed when the loop ends.

The client is held by an async generator that waits at its only `yield`. Both asyncio and trio close the async
generators of a loop when it ends, so the client is closed there, in its own loop, without a hook of ours.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
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
        kept = {}
        _kept.set(kept)
    if chosen not in kept:
        keeper = _keep(_make(chosen))
        kept[chosen] = keeper, await anext(keeper)
    return kept[chosen][1]


async def close_shared_transports() -> None:
    """Close the clients of the running event loop now, and not when it ends."""
    kept = _kept.get(None)
    while kept:
        _, (keeper, _) = kept.popitem()
        await keeper.aclose()


def _choose(name: str | None) -> TransportName:
    wanted = name or os.environ.get("LOOPWRIGHT_TRANSPORT")
    on_asyncio = hasattr(current_token().native_token, "create_task")
    if wanted is None:
        return "aiohttp" if on_asyncio and find_spec("aiohttp") is not None else "httpx2"
    if wanted == "httpx2":
        return "httpx2"
    if wanted != "aiohttp":
        raise InvalidArgumentError(f"There is no transport {wanted!r}. There are 'httpx2' and 'aiohttp'.")
    if not on_asyncio:
        raise InvalidArgumentError("The transport 'aiohttp' runs on asyncio only. Use 'httpx2' on trio.")
    if find_spec("aiohttp") is None:
        raise InvalidArgumentError("The transport 'aiohttp' is not installed: pip install 'loopwright[aiohttp]'.")
    return "aiohttp"


def _make(name: TransportName) -> Transport:
    if name == "aiohttp":
        from .aiohttp_transport import AiohttpTransport

        return AiohttpTransport()
    from .httpx2_transport import Httpx2Transport

    return Httpx2Transport()


async def _keep(transport: Transport) -> Keeper:
    try:
        yield transport
    finally:
        with CancelScope(shield=True), move_on_after(_CLOSE_SECONDS):
            await transport.aclose()


def transport_of(client: Any) -> Transport:
    """A transport over a client of the caller's own, which is never closed here.

    Raises:
        InvalidArgumentError: It is neither an `httpx2.AsyncClient`, an `aiohttp.ClientSession` nor a `Transport`.
    """
    origin = type(client).__module__.partition(".")[0]
    if origin == "aiohttp":
        from .aiohttp_transport import AiohttpTransport

        return AiohttpTransport(client)
    if origin == "httpx2":
        from .httpx2_transport import Httpx2Transport

        return Httpx2Transport(client)
    if hasattr(client, "post") and hasattr(client, "aclose"):
        transport: Transport = client
        return transport
    raise InvalidArgumentError(
        f"client must be an httpx2.AsyncClient, an aiohttp.ClientSession or a Transport, not {type(client).__name__}."
    )
