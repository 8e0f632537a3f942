"""What the models need of an HTTP client, and no more: post a body, read status and headers, read chunks, close."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from ...errors import InvalidArgumentError

__all__ = ["HTTPResponse", "OpenResponses", "Timeouts", "Transport", "cause_in_words", "host_of"]


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
                raise InvalidArgumentError(
                    f"Timeouts.{name} must be a positive number of seconds or None, not {value!r}."
                )


class HTTPResponse(Protocol):
    """The answer to one request; its body is read as it comes, by one task."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, found by their names in lower case."""
        ...

    async def read_chunk(self) -> bytes:
        """The next bytes of the body, decompressed; empty at its end. After an error or a cancellation, call `aclose`.

        Raises:
            ModelConnectionError: The connection broke, or was closed by another task.
            ModelTimeoutError: Nothing came in time.
        """
        ...

    async def read(self, limit: int | None = None) -> bytes:
        """The rest of the body, or its next `limit` bytes: what comes after them is left unread.

        Raises:
            ModelConnectionError: The connection broke.
            ModelTimeoutError: Nothing came in time.
        """
        ...

    async def aclose(self) -> None:
        """Free the connection: it is kept for others when the body was read to its end, else closed.

        May be called again, and by a task other than the one that reads, which is then woken with an error.
        """
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


class OpenResponses:
    """The responses of one transport whose bodies are not at their end.

    They are held here and by nothing that may vanish, so a response that its reader drops is closed in its own event
    loop by whoever saw that, and never collected as it is: HTTP clients warn of that.
    """

    __slots__ = ("_responses",)

    _everywhere: ClassVar[set[OpenResponses]] = set()

    def __init__(self) -> None:
        self._responses: set[HTTPResponse] = set()

    def add(self, response: HTTPResponse) -> None:
        """Hold a response. Its transport's own lifetime does not matter from now on."""
        self._responses.add(response)
        self._everywhere.add(self)

    def discard(self, response: HTTPResponse) -> None:
        """Hold it no more."""
        self._responses.discard(response)
        if not self._responses:
            self._everywhere.discard(self)

    async def aclose(self) -> None:
        """Close those that are left."""
        for response in list(self._responses):
            await response.aclose()


def host_of(url: str) -> str:
    """The part of a URL that may stand in messages: neither path nor query nor credentials."""
    parts = urlsplit(url)
    host = parts.hostname or "an address without a host"
    return f"{host}:{parts.port}" if parts.port else host


def cause_in_words(error: Exception, url: str) -> str:
    """What a client says of an error, without the query of the URL, which may hold a key."""
    words = str(error)
    query = urlsplit(url).query
    if not words or (query and query in words):
        return type(error).__name__
    return f"{type(error).__name__}: {words}"
