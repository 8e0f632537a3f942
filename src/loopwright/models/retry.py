"""Asking a model again when it failed in a way that passes.

What may be asked again is what the error says of itself: `ModelError.retryable`. A whole answer is asked for again
freely. A streamed one is begun again as long as nothing of it was told, and afterwards only where the policy says so.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard, TypeVar

import anyio

from ..errors import InvalidArgumentError, ModelError, ModelHTTPError, RetryError
from ..events import ErrorInfo, ModelEvent, ResponseDone, ResponseError, ResponseStart, StepReset
from ..messages import AssistantMessage
from ..usage import Usage
from .base import Capabilities, LanguageModel, ModelRequest, ModelStream

__all__ = ["FailedAttempt", "RetryPolicy", "RetryingModel", "RetryingStream"]

T = TypeVar("T")

_CLOSE_SECONDS = 2.0
_MAX_DOUBLINGS = 64  # far above any delay, and far below where a float overflows

_LAST = frozenset({ResponseDone, ResponseError})
_MARKS = _LAST | {ResponseStart, StepReset}  # events that are no part of the answer itself


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often a model is asked again.

    The delay before the n-th retry is drawn between nothing and `initial_delay * 2**(n - 1)`, and at most `max_delay`.
    Where the provider says how long to wait, that is the least.

    Attributes:
        initial_delay: Seconds; the most that the first delay may be.
        max_delay: Seconds; the most that any delay may be of which the provider says nothing.
        max_retry_after: Seconds; a provider that asks for more is asked again after these.
        budget: Seconds that all attempts and waits of one request may take together. No attempt is begun when the wait
            for it would end later. None for no limit.
        restart_after_output: Begin a streamed answer again also when some of it was told; a `StepReset` says that it is
            void. No tool of such an answer has run.
    """

    initial_delay: float = 0.1
    max_delay: float = 2.0
    max_retry_after: float = 60.0
    budget: float | None = None
    restart_after_output: bool = False

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a number of seconds, 0 or more, not {value!r}"
            for name in ("initial_delay", "max_delay", "max_retry_after")
            if not _is_seconds(value := getattr(self, name))
        ]
        if self.budget is not None and not (_is_seconds(self.budget) and self.budget > 0):
            problems.append(f"budget must be a positive number of seconds or None, not {self.budget!r}")
        if not isinstance(self.restart_after_output, bool):
            problems.append(f"restart_after_output must be True or False, not {self.restart_after_output!r}")
        if problems:
            raise InvalidArgumentError(f"RetryPolicy: {'; '.join(problems)}.")


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed and was followed by another.

    Attributes:
        error: Why it failed.
        usage: Tokens that it used nevertheless, None where it reported none.
    """

    error: ModelError
    usage: Usage | None = None


class RetryingModel:
    """A `LanguageModel` that asks another one, again where it fails in a way that passes.

    Attributes:
        model: The model that is asked.
        max_retries: How often it is asked again for one request.
        policy: When it is asked again.
    """

    def __init__(
        self,
        model: LanguageModel,
        max_retries: int = 2,
        policy: RetryPolicy = RetryPolicy(),
        *,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        monotonic: Callable[[], float] = anyio.current_time,
        random: Callable[[], float] = random.random,
    ) -> None:
        """Wrap a model.

        Args:
            model: The model to ask.
            max_retries: How often to ask again for one request; 0 for never.
            policy: When to ask again.
            sleep: Waits some seconds.
            monotonic: Tells the time in seconds; only differences count.
            random: Gives a number from 0 to 1.

        Raises:
            InvalidArgumentError: An argument cannot work; the message names all that cannot.
        """
        _check(model, max_retries, policy)
        self.model = model
        self.max_retries = max_retries
        self.policy = policy
        self._rules = _Rules(max_retries, policy, sleep, monotonic, random)

    @property
    def provider(self) -> str:
        """Who serves the model."""
        return self.model.provider

    @property
    def api(self) -> str:
        """The wire that it speaks."""
        return self.model.api

    @property
    def name(self) -> str:
        """Its name at the provider."""
        return self.model.name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self.model.capabilities

    async def generate(self, request: ModelRequest) -> AssistantMessage:
        """Ask, and wait for the whole answer.

        Raises:
            RetryError: Several attempts failed; it lists them.
            ModelError: The only attempt failed.
        """
        return (await self.generate_with_attempts(request))[0]

    async def generate_with_attempts(self, request: ModelRequest) -> tuple[AssistantMessage, tuple[FailedAttempt, ...]]:
        """Ask, and wait for the whole answer.

        Returns:
            The answer, and the attempts that failed before it.

        Raises:
            RetryError: Several attempts failed; it lists them.
            ModelError: The only attempt failed.
        """
        attempts = _Attempts(self._rules)
        message = await attempts.until_one_succeeds(partial(self.model.generate, request))
        return message, tuple(attempts.failed)

    async def stream(self, request: ModelRequest) -> RetryingStream:
        """Ask, and get the answer as it comes.

        Raises:
            RetryError: Several attempts failed before an answer began; it lists them.
            ModelError: The only attempt did.
        """
        attempts = _Attempts(self._rules)
        begin = partial(self.model.stream, request)
        return RetryingStream(attempts, begin, await attempts.until_one_succeeds(begin))

    def __repr__(self) -> str:
        return f"<RetryingModel of {self.model!r}, max_retries={self.max_retries}>"


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds for every request of a model."""

    max_retries: int
    policy: RetryPolicy
    sleep: Callable[[float], Awaitable[object]]
    monotonic: Callable[[], float]
    random: Callable[[], float]


class _Attempts:
    """The attempts to have one request answered."""

    __slots__ = ("_began", "_delay", "failed", "rules")

    def __init__(self, rules: _Rules) -> None:
        self.rules = rules
        self._began = rules.monotonic()
        self._delay = 0.0
        self.failed: list[FailedAttempt] = []

    async def until_one_succeeds(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make attempts, each but the first one after a wait, until one succeeds or there are no more.

        Raises:
            Exception: That of the only attempt, or a `RetryError`.
        """
        while True:
            if self.failed:
                await self.rules.sleep(self._delay)
            try:
                return await attempt()
            except Exception as error:
                if self.goes_on(error, _usage_of(error)):
                    continue
                outcome = self.outcome(error)
                if outcome is error:
                    raise
                raise outcome from error

    def goes_on(self, error: Exception, usage: Usage | None) -> bool:
        """Whether another attempt follows the one that failed so."""
        if not _passes(error) or len(self.failed) >= self.rules.max_retries:
            return False
        delay = self._delay_after(error)
        budget = self.rules.policy.budget
        if budget is not None and self.rules.monotonic() - self._began + delay > budget:
            return False
        self.failed.append(FailedAttempt(error, usage))
        self._delay = delay
        return True

    def outcome(self, error: Exception) -> Exception:
        """What is raised when no attempt follows the one that failed so."""
        # An error that is none of the model's, such as a mistake in a program, is nothing that attempts add up to.
        if not self.failed or not isinstance(error, ModelError):
            return error
        outcome = RetryError([*(attempt.error for attempt in self.failed), error])
        outcome.__cause__ = error
        return outcome

    def _delay_after(self, error: ModelError) -> float:
        policy = self.rules.policy
        doublings = min(len(self.failed), _MAX_DOUBLINGS)
        delay = self.rules.random() * min(policy.max_delay, policy.initial_delay * 2.0**doublings)
        if isinstance(error, ModelHTTPError) and error.retry_after is not None:
            delay = max(delay, min(policy.max_retry_after, error.retry_after))
        return delay


class RetryingStream:
    """One answer as it comes, of the first attempt that does not fail; a `ModelStream`."""

    __slots__ = (
        "_attempts",
        "_begin",
        "_beginning",
        "_closed",
        "_failure",
        "_held",
        "_inner",
        "_last_read",
        "_last_told",
        "_next",
        "_open",
        "_output_told",
        "_pop",
        "_ready",
        "_reset",
        "_start_told",
        "_straight",
    )

    def __init__(self, attempts: _Attempts, begin: Callable[[], Awaitable[ModelStream]], first: ModelStream) -> None:
        """Read an answer.

        Args:
            attempts: Those that were made so far.
            begin: Begins another attempt.
            first: The stream of the attempt under way; closed here.
        """
        self._attempts = attempts
        self._begin = begin
        self._beginning: anyio.CancelScope | None = None  # round the wait for another attempt and its beginning
        self._closed = False
        self._failure: Exception | None = None  # what the stream ended with
        self._held: ModelEvent | Exception | None = None  # given by the attempt, not judged yet
        self._ready: deque[ModelEvent] = deque()  # judged, not told yet: `result` has read on
        self._reset: StepReset | None = None
        self._start_told = False
        self._output_told = False  # and not voided by a StepReset since
        self._last_told = False
        self._inner: ModelStream | None = None
        self._use(first)
        self._straight = True  # the attempt may be read without a look at the rest

    @property
    def failed_attempts(self) -> tuple[FailedAttempt, ...]:
        """The attempts that failed and were followed by another.

        The one that ends the stream is not among them: what it used is in its own message or error.
        """
        return tuple(self._attempts.failed)

    def __aiter__(self) -> RetryingStream:
        return self

    async def __anext__(self) -> ModelEvent:
        if self._straight:  # the short way, for all but the edges of an attempt
            try:
                event = await self._next()
            except Exception as error:
                self._held = error
            else:
                if type(event) not in _MARKS:
                    self._output_told = True
                    return event
                self._held = event
            self._straight = False
        return await self._next_judged()

    def pop_ready(self) -> ModelEvent | None:
        """An event that is decoded already, or None. A failure is not among them: another attempt may follow it."""
        while self._straight and (event := self._pop()) is not None:
            kind = type(event)
            if kind not in _MARKS:
                self._output_told = True
                return event
            if kind is ResponseError:
                self._held = event
                self._straight = False
            elif self._tells(event):
                return event
        return None

    async def result(self) -> AssistantMessage:
        """The complete answer. Reads on to its end where that has not come yet.

        Raises:
            RetryError: Several attempts failed; it lists them.
            ModelError: The answer is not complete.
        """
        self._straight = False
        while True:
            with suppress(StopAsyncIteration):
                while not self._last_read:
                    self._ready.append(await self._read())
            if self._failure is not None:
                raise self._failure
            if self._inner is None:
                raise ModelError("The stream was closed before its answer was complete, so there is no result.")
            try:
                return await self._inner.result()
            except Exception as error:
                failure = error
            await self._restart_or_raise(failure)

    async def aclose(self) -> None:
        """Free the connection; a task that waits for another attempt sees the stream end. Safe from any task, again."""
        self._closed = True
        if self._beginning is not None:
            self._beginning.cancel()
        await self._free(self._inner)

    # ------------------------------------------------------------ inside

    async def _next_judged(self) -> ModelEvent:
        while not self._last_told:
            event = self._ready.popleft() if self._ready else await self._read()
            if self._tells(event):
                self._straight = not (self._last_told or self._ready or self._inner is None)
                return event
        raise StopAsyncIteration

    def _tells(self, event: ModelEvent) -> bool:
        """Note that an event goes out. False where it must not: the start of an answer is told once."""
        kind = type(event)
        if kind is ResponseStart:
            told, self._start_told = self._start_told, True
            return not told
        if kind in _LAST:
            self._last_read = self._last_told = True
            self._straight = False
        else:
            self._output_told = kind is not StepReset
        return True

    async def _read(self) -> ModelEvent:
        """The next event, of the attempt under way or of one that follows it."""
        while True:
            if self._reset is not None:
                reset, self._reset = self._reset, None
                return reset
            event = await self._judge(await self._take())
            if event is not None:
                self._last_read = type(event) in _LAST
                return event

    async def _take(self) -> ModelEvent | Exception:
        """What the attempt gives next; a failure of it is given and not raised."""
        if self._failure is not None:
            raise self._failure
        if self._held is not None:
            held, self._held = self._held, None
            return held
        if self._inner is None:
            await self._begin_attempt()
        try:
            return await self._next()
        except Exception as error:
            return error

    async def _judge(self, given: ModelEvent | Exception) -> ModelEvent | None:
        """What to tell of what an attempt gave; None where another attempt follows."""
        if isinstance(given, Exception):
            await self._restart_or_raise(given)
            return None
        error = given.error if isinstance(given, ResponseError) else None
        if not isinstance(given, ResponseError) or not _passes(error):
            return given
        if error.answer is None:
            error.answer = given.message
        if await self._restart(error, given.message.usage):
            return None
        outcome = self._attempts.outcome(error)
        return given if outcome is error else ResponseError(given.message, outcome)

    async def _restart_or_raise(self, error: Exception) -> None:
        if await self._restart(error, _usage_of(error)):
            return
        outcome = self._attempts.outcome(error)
        if isinstance(outcome, ModelError):
            self._failure = outcome
        raise outcome

    async def _restart(self, error: Exception, usage: Usage | None) -> bool:
        """Make ready for another attempt, where one may follow."""
        void = self._output_told
        if self._closed or (void and (self._last_told or not self._attempts.rules.policy.restart_after_output)):
            return False
        if not self._attempts.goes_on(error, usage):
            return False
        self._reset = StepReset(len(self._attempts.failed) + 1, ErrorInfo.of(error)) if void else None
        self._ready.clear()
        self._last_read = False
        inner, self._inner = self._inner, None
        await self._free(inner)
        return True

    async def _begin_attempt(self) -> None:
        if self._beginning is not None:
            raise RuntimeError("Another task waits for this stream already. Read a stream from one task only.")
        if not self._closed:
            with anyio.CancelScope() as scope:
                self._beginning = scope
                try:
                    self._use(await self._attempts.until_one_succeeds(self._begin))
                except Exception as error:
                    self._failure = error
                    raise
                finally:
                    self._beginning = None
        if self._closed:  # perhaps in the very moment in which the attempt began
            await self._free(self._inner)
            raise StopAsyncIteration

    def _use(self, inner: ModelStream) -> None:
        self._inner = inner
        self._open = True
        self._next: Callable[[], Awaitable[ModelEvent]] = aiter(inner).__anext__
        self._pop: Callable[[], ModelEvent | None] = getattr(inner, "pop_ready", lambda: None)
        self._last_read = False

    async def _free(self, inner: ModelStream | None) -> None:
        """Close the attempt's stream even when cancelled, for a bounded time; it does not matter how that ends."""
        closing = getattr(inner, "aclose", None)
        if closing is None or not self._open:
            return
        self._open = False
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            try:
                await closing()
            except Exception:
                return


def _passes(error: Exception | None) -> TypeGuard[ModelError]:
    """Whether the same request may succeed later."""
    return isinstance(error, ModelError) and error.retryable


def _usage_of(error: Exception) -> Usage | None:
    answer = getattr(error, "answer", None)
    return answer.usage if isinstance(answer, AssistantMessage) else None


def _check(model: object, max_retries: object, policy: object) -> None:
    problems: list[str] = []
    if not (hasattr(model, "generate") and hasattr(model, "stream")):
        problems.append(f"model must be a LanguageModel, not {type(model).__name__}")
    if not isinstance(max_retries, int) or isinstance(max_retries, bool) or max_retries < 0:
        problems.append(f"max_retries must be a whole number, 0 or more, not {max_retries!r}")
    if not isinstance(policy, RetryPolicy):
        problems.append(f"policy must be a RetryPolicy, not {type(policy).__name__}")
    if problems:
        raise InvalidArgumentError(f"RetryingModel: {'; '.join(problems)}.")
