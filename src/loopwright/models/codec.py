"""The shape of a wire codec: pure functions of bytes, no I/O.

A codec turns a request into a body and a body into events. It can be tested by feeding recorded bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..errors import ModelHTTPError
from ..events import ModelEvent
from ..messages import AssistantMessage
from .base import ModelIdentity, ModelRequest

__all__ = ["Codec", "StreamDecoder"]


class StreamDecoder(Protocol):
    """Reads the body of one streamed answer."""

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Take the next bytes of the body, cut anywhere.

        Returns:
            The events that are complete now, often none. An error object in the stream ends it with `ResponseError`.

        Raises:
            InvalidResponseError: The bytes are not what the wire promises.
        """
        ...

    def close(self) -> list[ModelEvent]:
        """The body has ended.

        Returns:
            The last events, `ResponseDone` or `ResponseError` at their end unless it came before.

        Raises:
            StreamTruncatedError: The answer is not complete.
        """
        ...

    def partial(self) -> AssistantMessage:
        """What there is of the answer."""
        ...


class Codec(Protocol):
    """One wire API."""

    @property
    def api(self) -> str:
        """Its name, like `openai-chat`."""
        ...

    @property
    def streams_json(self) -> bool:
        """Whether a streamed answer may come as `application/json`, for the decoder to read; mostly not."""
        ...

    def path(self, model: ModelIdentity, *, stream: bool) -> str:
        """The path below the base URL, like `/chat/completions`."""
        ...

    def encode(self, model: ModelIdentity, request: ModelRequest, *, stream: bool) -> bytes:
        """The request's body. What was encoded is kept in `request.memo`, so that a long history is encoded once.

        Raises:
            InvalidContentError: The messages hold something that this wire cannot carry.
        """
        ...

    def warnings(self, model: ModelIdentity, request: ModelRequest) -> tuple[str, ...]:
        """What of the request's settings this wire has no place for, one sentence each; mostly none."""
        ...

    def decode(self, model: ModelIdentity, body: bytes) -> AssistantMessage:
        """Read the body of an answer that was not streamed.

        Raises:
            ModelResponseError: The body is an error object.
            InvalidResponseError: The body is not what the wire promises.
        """
        ...

    def decoder(self, model: ModelIdentity) -> StreamDecoder:
        """Begin to read a streamed answer."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelHTTPError:
        """Read the body of an HTTP error. Header names are in lower case."""
        ...
