"""What the models need of an HTTP client, and no more: post a body, read status and headers, read chunks, close."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from ...errors import InvalidArgumentError

__all__ = ["HTTPResponse", "Timeouts", "Transport", "host_of"]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds; None for ever.

    Attributes:
        connect: For a connection.
        read: For the next bytes, the first included. There is no limit on the whole: an answer may take its time.
    """

    connect: float | None = 10.0
    read: float | None = 600.0

    def __post_init__(self) -> None:
        for name in ("connect", "read"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidArgumentError(f"Timeouts.{name} must be a positive number of seconds or None, not {value!r}.")


class HTTPResponse(Protocol):
    """The answer to one request; its body is read as it comes."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, with names in lower case."""
        ...

    async def read_chunk(self) -> bytes:
        """The next bytes of the body, decompressed; empty at its end.

        Raises:
            ModelConnectionError: The connection broke.
            ModelTimeoutError: Nothing came in time.
        """
        ...

    async def read(self) -> bytes:
        """The rest of the body."""
        ...

    async def aclose(self) -> None:
        """Free the connection: it is kept for others when the body was read to its end, else closed."""
        ...


class Transport(Protocol):
    """An HTTP client."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> HTTPResponse:
        """Post a body, and wait for the headers of the answer. Redirects are not followed.

        Raises:
            ModelConnectionError: There is no connection.
            ModelTimeoutError: Nothing came in time.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


def host_of(url: str) -> str:
    """The part of a URL that may stand in messages: neither path nor query nor credentials."""
    parts = urlsplit(url)
    host = parts.hostname or url
    return f"{host}:{parts.port}" if parts.port else host
