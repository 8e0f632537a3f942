"""The codec of OpenAI's Chat Completions, as OpenAI and everyone else speaks it."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import InvalidResponseError, ModelHTTPError, ModelResponseError
from ...messages import AssistantMessage
from ..base import ModelIdentity, ModelRequest
from ..codec import StreamDecoder
from ..http_errors import http_error, response_error
from ..json_shapes import is_array, is_object
from .encode import encode_request, settings_warnings
from .message import API, Completion
from .quirks import ChatQuirks
from .stream import ChatStreamDecoder, parse_json

__all__ = ["ChatCodec"]


class ChatCodec:
    """Chat Completions in one vendor's dialect; a `Codec`."""

    __slots__ = ("quirks",)

    def __init__(self, quirks: ChatQuirks | None = None) -> None:
        """Speak a dialect.

        Args:
            quirks: The dialect, the plainest by default.
        """
        self.quirks = quirks or ChatQuirks()

    @property
    def api(self) -> str:
        """`openai-chat`."""
        return API

    @property
    def streams_json(self) -> bool:
        """No: where JSON comes in place of a stream, it is a whole answer."""
        return False

    def path(self, model: ModelIdentity, *, stream: bool) -> str:  # noqa: ARG002  (other wires need both)
        """`/chat/completions`."""
        return "/chat/completions"

    def encode(self, model: ModelIdentity, request: ModelRequest, *, stream: bool) -> bytes:
        """The request's body.

        Raises:
            InvalidContentError: The messages hold something that this wire cannot carry.
        """
        return encode_request(model, request, self.quirks, stream=stream)

    def warnings(self, model: ModelIdentity, request: ModelRequest) -> tuple[str, ...]:  # noqa: ARG002
        """What of the settings Chat Completions has no place for."""
        return settings_warnings(request.settings)

    def decode(self, model: ModelIdentity, body: bytes) -> AssistantMessage:
        """Read the body of an answer that was not streamed.

        Raises:
            ModelResponseError: The body is an error object, or the answer says that it failed.
            InvalidResponseError: The body is no chat completion.
        """
        try:
            value = parse_json(body)
        except ValueError as error:
            raise InvalidResponseError(
                f"The answer is no JSON ({error}); it begins with {body[:120].decode('utf-8', 'replace')!r}."
            ) from None
        if not is_object(value):
            raise InvalidResponseError(f"The answer is a JSON {type(value).__name__}, not an object.")
        answer = value
        if answer.get("error"):
            raise response_error(answer)
        choices = answer.get("choices")
        if not is_array(choices) or not choices:
            raise InvalidResponseError("The answer has no choices; a chat completion has at least one.")
        first = choices[0]
        if is_object(first) and first.get("error"):
            raise response_error(first)
        completion = Completion(model, self.quirks)
        completion.take(answer, [])
        completion.answer.end([])
        message = completion.message()
        if message.finish_reason == "error":
            raise ModelResponseError(
                f"The provider ended its answer with finish reason {message.raw_finish_reason!r}.",
                body=answer,
                retryable=True,
            )
        return message

    def decoder(self, model: ModelIdentity) -> StreamDecoder:
        """Begin to read a streamed answer."""
        return ChatStreamDecoder(model, self.quirks)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelHTTPError:
        """Read the body of an HTTP error. Header names are in lower case."""
        return http_error(status, headers, body)
