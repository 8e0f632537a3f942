"""One answer as it comes over HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from anyio import move_on_after

from .._backend import Later, spawn
from ..errors import ModelConnectionError, ModelError, ModelTimeoutError
from ..events import ModelEvent, ResponseDone, ResponseError
from ..messages import AssistantMessage
from .codec import StreamDecoder
from .http.transport import HTTPResponse

__all__ = ["HTTPStream", "free"]

_DRAIN_SECONDS = 0.25
_DRAIN_BYTES = 65_536
_CLOSE_SECONDS = 2.0


class HTTPStream:
    """One answer as it comes; a `ModelStream`.

    The network is waited for only when no decoded event is left. The connection is free again when the last event is
    given out, and at once when waiting for the next one fails or is cancelled. A stream that is dropped is closed by
    its event loop.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_decoder",
        "_error",
        "_last",
        "_later",
        "_message",
        "_reading",
        "_ready",
        "_response",
        "_warnings",
    )

    def __init__(
        self,
        response: HTTPResponse,
        decoder: StreamDecoder,
        clock: Callable[[], float],
        warnings: tuple[str, ...] = (),
    ) -> None:
        """Read an answer.

        Args:
            response: Where its bytes come from; closed here.
            decoder: Reads them.
            clock: Tells the time of the answer, in seconds since the epoch.
            warnings: What could not be asked as wanted, for the answer to tell.
        """
        self._warnings = warnings
        self._closed = False
        self._response = response
        self._decoder = decoder
        self._clock = clock
        self._ready: deque[ModelEvent] = deque()
        self._last: ModelEvent | None = None
        self._message: AssistantMessage | None = None
        self._error: Exception | None = None
        self._reading = False
        self._later = Later()

    def end_with(self, message: AssistantMessage) -> None:
        """The answer came whole, and the response is closed already."""
        self._closed = True
        self._message = message
        self._last = ResponseError(message) if message.failed else ResponseDone(message)

    def __aiter__(self) -> HTTPStream:
        return self

    async def __anext__(self) -> ModelEvent:
        if self._ready:
            return self._ready.popleft()
        return await self._wait_for_next()

    def pop_ready(self) -> ModelEvent | None:
        """An event that is decoded already, or None. The last event is not among them: it waits for the connection."""
        return self._ready.popleft() if self._ready else None

    async def result(self) -> AssistantMessage:
        """The complete answer. Reads on to its end where that has not come yet.

        Raises:
            ModelError: It is not complete.
        """
        while self._message is None:
            self._raise_if_over()
            await self._read()
        await self._release()
        return self._message

    async def aclose(self) -> None:
        """Free the connection; a task that waits for an event sees the stream end. Safe from any task, and again."""
        if self._message is None:
            self._ready.clear()
        await self._free()

    async def _wait_for_next(self) -> ModelEvent:
        while not self._ready:
            if self._last is not None:
                await self._release()
                last, self._last = self._last, None
                return last
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            await self._read()
        return self._ready.popleft()

    def _raise_if_over(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ModelError("The stream was closed before its answer was complete, so there is no result.")

    async def _read(self) -> None:
        """Decode the next bytes, or the end of the body."""
        if self._reading:
            raise RuntimeError("Another task waits for this stream already. Read a stream from one task only.")
        self._reading = True
        more = False
        try:
            chunk = await self._response.read_chunk()
            self._take(self._decoder.feed(chunk) if chunk else self._decoder.close())
            more = bool(chunk)
        except Exception as error:
            self._fail(error)
        finally:
            self._reading = False
            if not more:
                await self._free()

    def _take(self, events: list[ModelEvent]) -> None:
        if events and isinstance(last := events[-1], ResponseDone | ResponseError):
            warnings = (*last.message.warnings, *self._warnings)
            last.message = self._message = replace(last.message, created_at=self._clock(), warnings=warnings)
            self._last = events.pop()
        self._ready.extend(events)

    def _fail(self, error: Exception) -> None:
        if self._closed:  # by another task: the reader sees the end and not what the closing did to its read
            return
        self._error = error
        if isinstance(error, ModelConnectionError | ModelTimeoutError):
            try:
                self._take(self._decoder.close())
            except Exception:  # the answer is incomplete, and the first error says why
                return
            self._error = None  # the connection broke after the answer was complete, which does no harm

    async def _release(self) -> None:
        """Read to the end of the body, a few bytes away, so that the connection can be used again."""
        if self._closed:
            return
        try:
            with move_on_after(_DRAIN_SECONDS):
                drained = 0
                while drained < _DRAIN_BYTES and (chunk := await self._response.read_chunk()):
                    drained += len(chunk)
        except ModelError:
            return
        finally:
            await self._free()

    async def _free(self) -> None:
        if not self._closed:
            self._closed = True
            await free(self._response)

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        response = self._response

        def begin() -> None:
            try:
                spawn(lambda: free(response), "loopwright dropped stream")
            except RuntimeError:  # the loop is ending, which closes the connection too
                return

        self._later.call(begin)


async def free(response: HTTPResponse) -> None:
    """Free a connection even when cancelled, for a bounded time; it does not matter how that ends."""
    with move_on_after(_CLOSE_SECONDS, shield=True):
        try:
            await response.aclose()
        except Exception:
            return
