"""A streamed chat completion: bytes of the body in, model events out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json

from ...errors import InvalidResponseError, ModelError, ModelResponseError, StreamTruncatedError
from ...events import ModelEvent, ResponseDone, ResponseError, ResponseStart
from ...messages import AssistantMessage
from ..base import ModelIdentity
from ..http_errors import response_error
from ..json_shapes import is_array, is_object
from ..sse import SSEDecoder, SSEEvent
from .message import Completion
from .quirks import ChatQuirks

__all__ = ["ChatStreamDecoder", "parse_json"]

Json: TypeAlias = Mapping[str, Any]

_SHOWN = 120  # bytes of an unreadable body that an error shows


class ChatStreamDecoder:
    """Reads the body of one streamed answer; a `StreamDecoder`.

    The answer ends with `[DONE]`, or with the body where a finish reason came before. A body that is no event stream
    but one JSON object (an error, or a whole completion) is read as such.
    """

    __slots__ = ("_completion", "_ended", "_failure", "_last", "_sse", "_started", "_stray", "_stray_offset")

    def __init__(self, model: ModelIdentity, quirks: ChatQuirks) -> None:
        self._sse = SSEDecoder()
        self._completion = Completion(model, quirks)
        self._started = False
        self._ended = False
        self._failure: ModelError | None = None
        self._last: AssistantMessage | None = None
        self._stray = b""
        self._stray_offset = 0

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Take the next bytes of the body, cut anywhere.

        Returns:
            The events that are complete now. After the last one, nothing more is read.

        Raises:
            InvalidResponseError: An event is not a JSON object. What came before it in the same bytes is returned
                first, and the error raised by the next call.
            StreamTruncatedError: `[DONE]` came before anything else.
        """
        if self._failure is not None:
            raise self._failure
        events: list[ModelEvent] = []
        try:
            self._read(data, events)
        except ModelError as error:
            self._failure = error
            if not events:
                raise
        return events

    def close(self) -> list[ModelEvent]:
        """The body has ended.

        Raises:
            StreamTruncatedError: There was neither `[DONE]` nor a finish reason.
            InvalidResponseError: The body was no event stream at all.
        """
        if self._failure is not None:
            raise self._failure
        events: list[ModelEvent] = []
        if self._ended:
            return events
        tail = self._sse.close()
        broken_tail = False
        if tail is not None:
            try:
                self._take_odd(tail, events)
            except InvalidResponseError:
                broken_tail = True
        if not self._ended:
            if not self._completion.finished:
                raise self._truncated(tail if broken_tail else None)
            self._finish(events)
        return events

    def partial(self) -> AssistantMessage:
        """What there is of the answer; marked `aborted` unless it ended."""
        if self._last is not None:
            return self._last
        return self._completion.message(cut=not self._completion.finished, failure="aborted")

    # ------------------------------------------------------------ inside

    def _read(self, data: bytes, events: list[ModelEvent]) -> None:
        answer = self._completion.answer
        for event in self._sse.feed(data):
            if self._ended:
                break
            if event.type or event.stray or event.data[:1] != b"{":
                self._take_odd(event, events)
                continue
            try:
                chunk = from_json(event.data)
            except ValueError:
                chunk = _parsed(event)
            # The shortest path: one more piece of what is being written.
            delta = _lone_delta(chunk)
            if delta is None or not answer.goes_on(delta, events):
                self._take(chunk, events)

    def _take_odd(self, event: SSEEvent, events: list[ModelEvent]) -> None:
        """Take an event that is not plainly a chunk."""
        data = event.data.strip()
        if event.stray:
            self._take_stray(event, events)
        if not data or self._ended:
            return
        if data == b"[DONE]":
            self._done(events)
        elif event.type == "error" and data[:1] != b"{":
            self._fail(response_error(data.decode("utf-8", "replace")), events)
        else:
            chunk = _parsed(event)
            if event.type == "error" and not chunk.get("error"):
                self._fail(response_error(chunk), events)
            else:
                self._take(chunk, events)

    def _take_stray(self, event: SSEEvent, events: list[ModelEvent]) -> None:
        """A JSON object in place of events: lines that no event stream has, perhaps with blank lines among them."""
        if not self._stray:
            self._stray_offset = event.offset
            self._stray = event.stray.removeprefix(b"error:").lstrip()
        elif self._stray[:1] in b"{[":
            self._stray += b"\n" + event.stray
        try:
            body = from_json(self._stray)
        except ValueError:
            return
        self._stray = b""
        if is_array(body) and body:
            body = body[0]
        if not is_object(body):
            return
        chunk = body
        if chunk.get("error") or chunk.get("choices"):
            self._take(chunk, events)
        elif not self._started and (chunk.get("detail") or chunk.get("message")):
            self._fail(response_error(chunk), events)

    def _take(self, chunk: Json, events: list[ModelEvent]) -> None:
        if not self._started:
            self._started = True
            events.append(ResponseStart())
        self._completion.take(chunk, events)
        error = _error_of(chunk)
        if error is not None:
            self._fail(response_error(error), events)

    def _done(self, events: list[ModelEvent]) -> None:
        completion = self._completion
        if not completion.finished and not completion.answer.has_content:
            raise StreamTruncatedError(
                "The answer ended without content and without a finish reason. Ask again; if it happens each time, "
                "the server does not speak Chat Completions at this URL."
            )
        self._finish(events)

    def _finish(self, events: list[ModelEvent]) -> None:
        completion = self._completion
        completion.answer.end(events)
        message = completion.message()
        if message.finish_reason == "error":
            word = message.raw_finish_reason
            self._fail(
                ModelResponseError(f"The provider ended its answer with finish reason {word!r}.", retryable=True),
                events,
            )
            return
        self._ended = True
        self._last = message
        events.append(ResponseDone(message))

    def _fail(self, error: ModelResponseError, events: list[ModelEvent]) -> None:
        completion = self._completion
        if self._started:
            completion.answer.end(events)
        self._ended = True
        self._last = completion.message(cut=not completion.finished, failure="error", error=str(error))
        events.append(ResponseError(self._last, error))

    def _truncated(self, tail: SSEEvent | None) -> StreamTruncatedError | InvalidResponseError:
        if not self._started and self._stray:
            return InvalidResponseError(
                f"The body is no event stream; it begins with {_shown(self._stray)}. Check that the base URL leads to "
                "a Chat Completions server.",
                offset=self._stray_offset,
            )
        where = "" if tail is None else f", inside the event at byte {tail.offset}"
        return StreamTruncatedError(
            f"The body ended in the middle of the answer{where}: no finish reason came. Ask again."
        )


def parse_json(data: bytes) -> Any:
    """Parse JSON. Half a surrogate pair, which some servers send when they cut a text inside a character, is replaced.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        if b"\\u" not in data:
            raise
        text = json.dumps(json.loads(data), ensure_ascii=False)
        return from_json(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _parsed(event: SSEEvent) -> Json:
    try:
        chunk = parse_json(event.data)
    except ValueError as error:
        raise InvalidResponseError(
            f"An event of the stream is no JSON ({error}): {_shown(event.data)}", offset=event.offset
        ) from None
    if not is_object(chunk):
        raise InvalidResponseError(
            f"An event of the stream is no JSON object: {_shown(event.data)}", offset=event.offset
        )
    return chunk


def _lone_delta(chunk: Json) -> Json | None:
    """The delta of a chunk that holds nothing else for the first choice; None for any other chunk."""
    get = chunk.get
    choices = get("choices")
    if not is_array(choices) or len(choices) != 1 or get("usage") or get("error") or get("citations"):
        return None
    choice = choices[0]
    if not is_object(choice):
        return None
    get = choice.get
    if get("index") or get("finish_reason") or get("logprobs") or get("error"):
        return None
    delta = get("delta")
    return delta if is_object(delta) else None


def _error_of(chunk: Json) -> Any:
    """The error object of a chunk or of its first choice, with what holds it."""
    if chunk.get("error"):
        return chunk
    choices = chunk.get("choices")
    if choices and is_array(choices):
        first = choices[0]
        if is_object(first) and first.get("error"):
            return first
    return None


def _shown(data: bytes) -> str:
    text = data[:_SHOWN].decode("utf-8", "replace")
    return repr(text) if len(data) <= _SHOWN else f"{text!r} and {len(data) - _SHOWN} bytes more"
