"""Asking a `LanguageModel` the way the loop asks: with retries, through `wrap_model_call`, observed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, cast

from .events import ErrorInfo, ModelEvent, ResponseDone, ResponseError
from .lifecycle import ModelCallFinished, ModelCallStarted
from .loop.options import RequestMetadata
from .messages import AssistantMessage
from .models.base import LanguageModel, ModelIdentity, ModelRequest, ModelStream, RequestContext, StreamOptions
from .models.completed import CompletedStream
from .models.retry import RetryingModel, RetryPolicy
from .telemetry.integration import Emitter

__all__ = ["Asking", "ModelHook", "Proceed"]


Proceed = Callable[..., Awaitable[ModelStream]]
"""Asks the model: with the request, or with another that it is given."""


class ModelHook(Protocol):
    """The hook that stands around a model call."""

    async def wrap_model_call(self, request: ModelRequest, proceed: Proceed) -> ModelStream | AssistantMessage: ...


class Asking:
    """A stream function for the loop.

    Attributes:
        max_retries: How often a request that failed is made again; set anew for each step.
    """

    def __init__(
        self, *, streaming: bool, max_retries: int = 0, policy: RetryPolicy | None = None, hook: ModelHook | None = None
    ) -> None:
        """Ask.

        Args:
            streaming: Whether answers are streamed, or come whole.
            max_retries: How often a request that failed is made again.
            policy: How long to wait before that.
            hook: Stands around each call, where the agent overrides it.
        """
        self.max_retries = max_retries
        self.emitter: Emitter | None = None
        self.step_number = 0
        self._streaming = streaming
        self._policy = policy or RetryPolicy()
        self._hook = hook
        self._memos: dict[tuple[str, str, str], dict[str, Any]] = {}

    async def __call__(
        self, model: ModelIdentity, context: RequestContext, options: StreamOptions, metadata: RequestMetadata, /
    ) -> ModelStream:
        """Make one request."""
        del metadata  # it is not for providers
        memo = self._memos.setdefault((model.provider, model.api, model.name), {})
        request = ModelRequest(context, options.settings, memo)
        language_model = cast("LanguageModel", model)
        if self.emitter is None:
            return await self._wrapped(language_model, request)
        return await self._observed(language_model, request, self.emitter)

    async def _wrapped(self, model: LanguageModel, request: ModelRequest) -> ModelStream:
        if self._hook is None:
            return await self._ask(model, request)

        async def proceed(other: ModelRequest | None = None) -> ModelStream:
            return await self._ask(model, request if other is None else other)

        answer = await self._hook.wrap_model_call(request, proceed)
        return CompletedStream(answer) if isinstance(answer, AssistantMessage) else answer

    async def _ask(self, model: LanguageModel, request: ModelRequest) -> ModelStream:
        if self._streaming:
            if not self.max_retries:
                return await model.stream(request)
            return await RetryingModel(model, self.max_retries, self._policy).stream(request)
        try:
            if not self.max_retries:
                return CompletedStream(await model.generate(request))
            retrying = RetryingModel(model, self.max_retries, self._policy)
            message, failed = await retrying.generate_with_attempts(request)
            return CompletedStream(message, failed_attempts=failed)
        except Exception as error:
            answer = getattr(error, "answer", None)  # see ModelError.answer
            if not isinstance(answer, AssistantMessage):
                raise
            return CompletedStream(answer, error)

    async def _observed(self, model: LanguageModel, request: ModelRequest, emitter: Emitter) -> ModelStream:
        bracket = ModelCallFinished(self.step_number, model.provider, model.name)
        await emitter.tell(ModelCallStarted(self.step_number, model.provider, model.name))
        opened = False
        try:
            stream = await self._wrapped(model, request)
            opened = True
        except Exception as error:
            bracket.error = ErrorInfo.of(error)
            raise
        finally:
            if not opened:
                if bracket.error is None:
                    bracket.error = ErrorInfo("Cancelled", "The call was cancelled.")
                await emitter.tell(bracket)
        return _ObservedStream(stream, bracket, emitter)


class _ObservedStream:
    """A stream that tells its end, whichever it is."""

    def __init__(self, stream: ModelStream, bracket: ModelCallFinished, emitter: Emitter) -> None:
        self._stream = stream
        self._iterator: AsyncIterator[ModelEvent] = aiter(stream)
        self._bracket = bracket
        self._emitter = emitter
        self._told = False

    @property
    def failed_attempts(self) -> Any:
        return getattr(self._stream, "failed_attempts", ())

    def __aiter__(self) -> _ObservedStream:
        return self

    async def __anext__(self) -> ModelEvent:
        try:
            event = await anext(self._iterator)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._bracket.error = ErrorInfo.of(error)
            await self._tell()
            raise
        if isinstance(event, ResponseDone | ResponseError):
            self._bracket.usage = event.message.usage
            self._bracket.finish_reason = event.message.finish_reason
            if isinstance(event, ResponseError):
                text = str(event.error) if event.error is not None else event.message.error or "The answer failed."
                self._bracket.error = ErrorInfo(
                    "ModelFailed" if event.error is None else type(event.error).__name__, text
                )
            await self._tell()
        return event

    async def result(self) -> AssistantMessage:
        return await self._stream.result()

    async def aclose(self) -> None:
        closing = getattr(self._stream, "aclose", None)
        try:
            if closing is not None:
                await closing()
        finally:
            if not self._told and self._bracket.error is None:
                self._bracket.error = ErrorInfo("Cancelled", "The call was cancelled.")
            await self._tell()

    async def _tell(self) -> None:
        if not self._told:
            self._told = True
            await self._emitter.tell(self._bracket)
