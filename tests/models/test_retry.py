"""Asking again: what is asked again, after what wait, and what a stream tells meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import httpx2
import pytest
from kit import named, options

from loopwright.errors import (
    InvalidArgumentError,
    ModelConnectionError,
    ModelError,
    ModelFailed,
    ModelHTTPError,
    ModelResponseError,
    ModelTimeoutError,
    RetryError,
    RunCancelled,
    StreamTruncatedError,
)
from loopwright.events import (
    ErrorInfo,
    ModelEvent,
    ResponseDone,
    ResponseError,
    ResponseStart,
    StepReset,
    TextDelta,
    TextStart,
)
from loopwright.loop import run_agent_loop
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.models import retry
from loopwright.models.base import Capabilities, ModelRequest, RequestContext
from loopwright.models.completed import CompletedStream
from loopwright.models.http_errors import http_error
from loopwright.models.retry import FailedAttempt, RetryingModel, RetryPolicy
from loopwright.models.vendors import OpenAICompatible
from loopwright.signals import AbortSignal
from loopwright.testing import FakeClock, ScriptedModel, ScriptedStream, answer, call
from loopwright.usage import Usage

REQUEST = ModelRequest(RequestContext([UserMessage("Hi")]))
NOW = 1_754_667_600.0  # Fri, 08 Aug 2025 15:40:00 GMT
DEFAULT = RetryPolicy()
RESTARTING = RetryPolicy(restart_after_output=True)

START = ResponseStart()
HEL = (START, TextStart(0), TextDelta(0, "Hel"))
FINE = ["response-start", "text-start", "fine", "text-end", "response-done"]

both = pytest.mark.parametrize("ask", ["generate", "stream"])


class Model(ScriptedModel):
    """A scripted model whose script may also hold streams."""

    def _stream_of(self, step: Any) -> Any:
        return step if hasattr(step, "result") else super()._stream_of(step)


class Asked:
    """A model with a script, asked with retries; in place of sleeping the clock moves on."""

    def __init__(
        self, *script: Any, retries: int = 2, policy: RetryPolicy = DEFAULT, share: float = 1.0, sleep: Any = None
    ) -> None:
        self.inner = Model(script)
        self.clock = FakeClock(0.0)
        self.delays: list[float] = []
        self.model = self.around(self.inner, retries, policy, share, sleep)

    def around(self, model: Any, retries: int, policy: RetryPolicy, share: float, sleep: Any = None) -> RetryingModel:
        return RetryingModel(
            model, retries, policy, sleep=sleep or self.sleep, monotonic=self.clock, random=lambda: share
        )

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self.clock.advance(seconds)

    async def stream(self) -> Any:
        return await self.model.stream(REQUEST)

    async def run(self, history: list[Any], *tools: Any, signal: AbortSignal | None = None) -> AssistantMessage:
        async def ask(_model: Any, context: RequestContext, _options: Any) -> Any:
            return await self.model.stream(ModelRequest(context))

        return await run_agent_loop("Hi", history, options(ask, *tools, model=self.model), signal=signal)

    @property
    def closes(self) -> list[int]:
        return [stream.closes for stream in self.inner.streams]


class Popping(ScriptedStream):
    """A stream that has the rest of its events ready once the first was read."""

    def __init__(self, *events: ModelEvent, reads: int = 0) -> None:
        super().__init__([])
        self.events = list(events)
        self.reads = reads

    def pop_ready(self) -> ModelEvent | None:
        return self.events.pop(0) if self.reads and self.events else None

    async def __anext__(self) -> ModelEvent:
        self.reads += 1
        if not self.events:
            raise StopAsyncIteration
        return self.events.pop(0)


class NoResult(ScriptedStream):
    """A stream whose result is not to be had."""

    def __init__(self, *events: Any, error: Exception) -> None:
        super().__init__(events)
        self.error = error

    async def result(self) -> AssistantMessage:
        self.result_reads += 1
        raise self.error


def busy(**headers: str) -> ModelHTTPError:
    return http_error(503, {name.replace("_", "-"): value for name, value in headers.items()}, b"", lambda: NOW)


def gone(text: str = "Gone.") -> ModelConnectionError:
    return ModelConnectionError(text)


def overloaded() -> ModelResponseError:
    return ModelResponseError("Overloaded.", retryable=True)


def raised(error: Exception) -> Exception:
    return error


def failed(error: Exception | None, text: str = "Hel", usage: Usage | None = None) -> ResponseError:
    return ResponseError(answer(text, finish_reason="error", usage=usage, provider="p"), error)


class Hang:
    """A wait that does not end by itself."""

    def __init__(self) -> None:
        self.begun = anyio.Event()

    async def __call__(self, _seconds: float) -> None:
        self.begun.set()
        await anyio.sleep_forever()


async def read(stream: Any) -> list[Any]:
    return [event async for event in stream]


async def failure_of(stream: Any) -> Exception:
    """What a stream fails with, the same however often and in whichever way it is asked."""
    errors: list[Exception] = []
    for ask in (stream.__anext__, stream.__anext__, stream.result):
        with pytest.raises(ModelError) as caught:
            await ask()
        errors.append(caught.value)
    assert errors[0] is errors[1] is errors[2]
    return errors[0]


def words(events: Sequence[ModelEvent | None]) -> list[str]:
    return [event.text if isinstance(event, TextDelta) else event.type for event in events if event is not None]


def lists(error: BaseException, *attempts: Exception) -> bool:
    """Whether it is the error of these attempts, the same objects."""
    same = isinstance(error, RetryError) and list(map(id, error.attempts)) == list(map(id, attempts))
    return same and error.__cause__ is attempts[-1]


# ---------------------------------------------------------------- what is asked again


async def test_T179_whole_answer_is_asked_for_again() -> None:
    errors = [busy(), gone()]
    asked = Asked(*errors, "fine")
    message, attempts = await asked.model.generate_with_attempts(REQUEST)
    assert message.text == "fine"
    assert attempts == tuple(FailedAttempt(error, None) for error in errors)
    assert [request is REQUEST for request in asked.inner.requests] == [True] * 3
    assert asked.delays == [0.1, 0.2]


async def test_T179_three_attempts_are_one_turn() -> None:
    asked = Asked(busy(), gone(), "fine")

    async def ask(_model: Any, context: RequestContext, _options: Any) -> CompletedStream:
        return CompletedStream(await asked.model.generate(ModelRequest(context)))

    history: list[Any] = []
    await run_agent_loop("Hi", history, options(ask, model=asked.model, max_turns=1))
    assert [(entry.role, entry.text) for entry in history] == [("user", "Hi"), ("assistant", "fine")]
    assert len(asked.inner.requests) == 3


async def test_T180_retry_in_the_second_step_runs_no_tool_again() -> None:
    ran: list[str] = []
    asked = Asked(call("look"), busy(), [START, gone()], "fine")
    assert (await asked.run([], named("look", lambda: ran.append("look") or "seen"))).text == "fine"
    assert (ran, len(asked.inner.requests)) == (["look"], 4)


@both
@pytest.mark.parametrize(
    ("errors", "retries", "listed"),
    [
        ([http_error(401, {}, b"")], 2, False),
        ([busy(), ModelTimeoutError("Slow."), gone()], 2, True),
        ([busy(), http_error(400, {}, b"")], 5, True),
        ([busy()], 0, False),
        ([busy(), KeyError("api_key")], 2, False),
    ],
    ids=["will-not-pass", "used-up", "will-not-pass-later", "no-retries", "not-the-models"],
)
async def test_T181_one_error_is_raised_bare_and_several_as_a_list(
    errors: list[Exception], retries: int, listed: bool, ask: str
) -> None:
    asked = Asked(*errors, retries=retries)
    with pytest.raises(RetryError if listed else type(errors[-1])) as caught:
        await getattr(asked.model, ask)(REQUEST)
    assert lists(caught.value, *errors) if listed else caught.value is errors[-1]
    assert asked.delays == [0.1, 0.2][: len(errors) - 1]


async def test_error_of_a_retrying_model_within_is_not_asked_again() -> None:
    asked = Asked(*(errors := [busy(), busy()]), retries=1)
    with pytest.raises(RetryError) as caught:
        await asked.around(asked.model, 2, DEFAULT, 1.0).generate(REQUEST)
    assert lists(caught.value, *errors)


async def test_answers_of_failed_attempts_are_kept() -> None:
    first, last = gone(), gone()
    first.answer, last.answer = answer("Hel", usage=Usage(7, 2)), answer("Hell")
    _, attempts = await Asked(first, busy(), "fine").model.generate_with_attempts(REQUEST)
    assert [attempt.usage for attempt in attempts] == [Usage(7, 2), None]
    with pytest.raises(RetryError) as caught:
        await Asked(busy(), last, retries=1).model.generate(REQUEST)
    assert caught.value.answer is last.answer


# ---------------------------------------------------------------- waits


@pytest.mark.parametrize(
    ("headers", "share", "delay"),
    [
        ({"retry_after_ms": "1500"}, 1.0, 1.5),
        ({"retry_after": "7"}, 1.0, 7.0),
        ({"retry_after": "Fri, 08 Aug 2025 15:40:30 GMT"}, 1.0, 30.0),
        ({"retry_after": "Fri, 08 Aug 2025 15:39:00 GMT"}, 1.0, 0.1),
        ({"retry_after": "3600"}, 1.0, 40.0),
        ({"retry_after_ms": "20"}, 1.0, 0.1),
        ({"retry_after_ms": "20"}, 0.0, 0.02),
        ({"retry_after": "0"}, 0.5, 0.05),
        ({}, 0.0, 0.0),
    ],
)
async def test_T183_hint_is_the_least_and_is_capped(headers: dict[str, str], share: float, delay: float) -> None:
    asked = Asked(busy(**headers), "fine", share=share, policy=RetryPolicy(max_retry_after=40))
    await asked.model.generate(REQUEST)
    assert asked.delays == [pytest.approx(delay)]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
async def test_T183_jitter_is_full_and_bounded(share: float) -> None:
    asked = Asked(*(gone() for _ in range(1100)), "fine", share=share, retries=1100)
    await asked.model.generate(REQUEST)
    assert asked.delays[:7] == pytest.approx([share * most for most in (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0)])
    assert asked.delays[7:] == [share * 2.0] * 1093


@pytest.mark.parametrize(
    ("hints", "duration", "budget", "delays"),
    [
        ([3, 2], 0.0, 5, [3, 2]),
        ([3, 2], 0.0, 4.9, [3]),
        ([3, 3], 2.5, 11, [3, 3]),
        ([3, 3], 2.5, 10.9, [3]),
        ([3], 0.0, 2.9, []),
    ],
)
async def test_budget_is_for_attempts_and_waits(
    hints: list[int], duration: float, budget: float, delays: list[float]
) -> None:
    errors = [busy(retry_after=str(hint)) for hint in hints]

    def slow(request: ModelRequest) -> Any:
        asked.clock.advance(duration)
        return [*errors, "fine"][len(asked.inner.requests) - 1]

    asked = Asked(slow, slow, slow, policy=RetryPolicy(budget=budget))
    if len(delays) == len(hints):
        assert (await asked.model.generate(REQUEST)).text == "fine"
    else:
        with pytest.raises(ModelError) as caught:
            await asked.model.generate(REQUEST)
        assert lists(caught.value, *errors) if delays else caught.value is errors[0]
    assert asked.delays == delays


# ---------------------------------------------------------------- abort


@pytest.mark.parametrize(
    ("ask", "first", "closes"),
    [
        ("generate", busy(), []),
        ("stream", busy(), []),
        ("stream", [START, gone()], [1]),
        ("stream", [*HEL, gone()], [1]),
    ],
    ids=["whole", "refused", "broken", "void"],
)
async def test_T184_cancelled_back_off_ends_at_once(ask: str, first: Any, closes: list[int]) -> None:
    hang = Hang()

    async def work() -> None:
        value = await getattr(asked.model, ask)(REQUEST)
        await read(value)
        raise AssertionError("it was not cancelled")

    asked = Asked(first, sleep=hang, policy=RESTARTING)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await hang.begun.wait()
        assert asked.closes == closes
        tasks.cancel_scope.cancel()
    assert (len(asked.inner.requests), asked.closes) == (1, closes)


async def test_T184_aborted_run_ends_in_the_back_off() -> None:
    signal = AbortSignal()

    async def sleep(_seconds: float) -> None:
        signal.abort("enough")
        await anyio.sleep_forever()

    asked = Asked([START, gone()], sleep=sleep)
    history: list[Any] = []
    with pytest.raises(RunCancelled, match="enough"):
        await asked.run(history, signal=signal)
    assert [entry.role for entry in history] == ["user"]
    assert asked.closes == [1]


async def test_cancelled_reader_may_go_on() -> None:
    scope = anyio.CancelScope()

    async def sleep(_seconds: float) -> None:
        if not scope.cancel_called:
            scope.cancel()
            await anyio.sleep_forever()

    asked = Asked([START, gone()], "fine", sleep=sleep)
    stream = await asked.stream()
    assert await anext(stream) == START
    with scope:
        await anext(stream)
    assert scope.cancelled_caught
    assert words(await read(stream)) == FINE[1:]
    assert asked.closes == [1, 0]


async def test_closing_ends_a_reader_in_the_back_off() -> None:
    hang = Hang()
    told: list[ModelEvent] = []

    async def work() -> None:
        told.extend(await read(stream))

    asked = Asked([START, gone()], sleep=hang)
    stream = await asked.stream()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await hang.begun.wait()
        with pytest.raises(RuntimeError, match="one task only"):
            await anext(stream)
        await stream.aclose()
    assert told == [START]
    with pytest.raises(ModelError, match="closed before its answer was complete"):
        await stream.result()
    assert asked.closes == [1]


async def test_attempt_that_begins_while_the_stream_is_closed_is_closed_too() -> None:
    async def begin(_request: ModelRequest) -> Any:
        await stream.aclose()
        return "fine"

    asked = Asked([gone()], begin)
    stream = await asked.stream()
    assert await read(stream) == []
    assert asked.closes == [1, 1]


async def test_closed_stream_makes_no_other_attempt() -> None:
    asked = Asked([START, error := gone()])
    stream = await asked.stream()
    assert await anext(stream) == START
    await stream.aclose()
    await stream.aclose()
    assert (await failure_of(stream) is error, asked.closes) == (True, [1])


# ---------------------------------------------------------------- streams


async def test_T182_stream_that_is_refused_is_asked_for_again() -> None:
    asked = Asked(busy(retry_after="1"), gone(), "fine")
    stream = await asked.stream()
    assert words(await read(stream)) == FINE
    assert (await stream.result()).text == "fine"
    assert (asked.delays, len(stream.failed_attempts)) == ([1, 0.2], 2)


@pytest.mark.parametrize("before", [[START], []], ids=["started", "nothing"])
@pytest.mark.parametrize("wrap", [raised, failed], ids=["raised", "told"])
async def test_T182_stream_that_breaks_before_output_is_begun_again(before: list[Any], wrap: Any) -> None:
    error = StreamTruncatedError("Cut.")
    asked = Asked([*before, wrap(error)], "fine")
    stream = await asked.stream()
    assert words(await read(stream)) == FINE
    await stream.aclose()
    assert [attempt.error for attempt in stream.failed_attempts] == [error]
    assert asked.closes == [1, 1]


@pytest.mark.parametrize("output", [TextStart(0), TextDelta(0, "")], ids=["block", "delta"])
async def test_T182_stream_that_breaks_after_output_raises_bare(output: ModelEvent) -> None:
    asked = Asked([START, output, error := gone()])
    stream = await asked.stream()
    assert [await anext(stream), await anext(stream)] == [START, output]
    assert await failure_of(stream) is error
    await stream.aclose()
    assert (stream.failed_attempts, asked.closes) == ((), [1])


async def test_T182_failure_after_retries_and_output_lists_them() -> None:
    errors = [busy(), gone(), gone()]
    stream = await Asked(errors[0], [START, errors[1]], [*HEL, errors[2]], retries=5).stream()
    assert [await anext(stream) for _ in HEL] == list(HEL)
    assert lists(await failure_of(stream), *errors)
    assert [attempt.error for attempt in stream.failed_attempts] == errors[:2]


async def test_T182_stream_begun_again_may_be_refused() -> None:
    errors = [gone(), busy(), http_error(401, {}, b"")]
    asked = Asked([START, errors[0]], *errors[1:], retries=5)
    stream = await asked.stream()
    assert await anext(stream) == START
    assert lists(await failure_of(stream), *errors)
    assert asked.closes == [1]


async def test_failed_stream_is_closed_once_and_before_the_next_begins() -> None:
    def then(script: Any) -> Any:
        def begin(_request: ModelRequest) -> Any:
            assert asked.closes == [1] * len(asked.inner.streams)
            return script

        return begin

    asked = Asked(then([START, gone()]), then([gone()]), then("fine"))
    stream = await asked.stream()
    assert words(await read(stream)) == FINE
    await stream.aclose()
    await stream.aclose()
    assert asked.closes == [1, 1, 1]


async def test_failed_stream_is_closed_whatever_happens() -> None:
    class Stuck(ScriptedStream):
        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            await super().aclose()
            raise OSError("no")

    async def cancel() -> None:
        scope.cancel()

    stuck = Stuck([START, cancel, gone()])
    stream = await Asked(stuck, CompletedStream(answer("fine"))).stream()
    assert await anext(stream) == START
    with anyio.CancelScope() as scope:
        assert words([await anext(stream)]) == ["response-done"]
        assert stuck.closes == 1
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    await stream.aclose()  # what was read last has no aclose
    assert stuck.closes == 1


# ---------------------------------------------------------------- answers that say they failed


async def test_failed_answer_is_told_as_it_is_after_output() -> None:
    last = failed(error := overloaded())
    stream = await Asked(ScriptedStream([*HEL, last])).stream()
    assert (await read(stream))[-1] is last
    assert (last.error, error.answer) == (error, last.message)


@pytest.mark.parametrize("error", [None, ModelResponseError("No."), ValueError("odd")], ids=["none", "model", "other"])
@pytest.mark.parametrize("earlier", [0, 1])
async def test_failed_answer_that_will_not_pass_is_told_as_it_is(error: Exception | None, earlier: int) -> None:
    last = failed(error)
    stream = await Asked(*[[START, gone()]] * earlier, ScriptedStream([START, last])).stream()
    told = await read(stream)
    assert (len(told), told[1] is last, last.error is error) == (2, True, True)
    assert len(stream.failed_attempts) == earlier


async def test_T181_failed_answers_in_every_attempt_are_listed() -> None:
    errors = [overloaded() for _ in range(3)]
    events = [failed(error, f"{n}", Usage(n, n)) for n, error in enumerate(errors)]
    errors[1].answer = kept = answer("kept")
    stream = await Asked(*([START, event] for event in events)).stream()
    start, last = await read(stream)
    assert (start, isinstance(last, ResponseError)) == (START, True)
    assert lists(last.error, *errors)
    assert (last.message, last.error.answer) == (events[2].message, events[2].message)
    assert [error.answer for error in errors] == [events[0].message, kept, events[2].message]
    # What the last one used is in its message.
    assert [attempt.usage for attempt in stream.failed_attempts] == [Usage(0, 0), Usage(1, 1)]


async def test_run_fails_with_the_list_and_keeps_the_answer() -> None:
    errors = [overloaded(), overloaded()]
    history: list[Any] = []
    with pytest.raises(RetryError) as caught:
        await Asked(*([START, failed(error)] for error in errors), retries=1).run(history)
    assert lists(caught.value, *errors)
    assert [(entry.text, entry.role == "assistant" and entry.failed) for entry in history] == [
        ("Hi", False),
        ("Hel", True),
    ]


@both
async def test_failed_answer_without_a_cause_is_an_answer(ask: str) -> None:
    asked = Asked([START, failed(None)])
    if ask == "generate":
        assert (await asked.model.generate(REQUEST)).failed
    else:
        with pytest.raises(ModelFailed):
            await asked.run([])


# ---------------------------------------------------------------- again after output


@pytest.mark.parametrize("wrap", [raised, failed], ids=["raised", "told"])
async def test_restart_after_output_voids_what_was_told(wrap: Any) -> None:
    asked = Asked([*HEL, wrap(StreamTruncatedError("Cut."))], "fine", policy=RESTARTING)
    stream = await asked.stream()
    told = [await anext(stream) for _ in range(4)]
    assert told == [*HEL, StepReset(2, ErrorInfo("StreamTruncatedError", "Cut."))]
    # Before the wait, so that nobody looks at void text meanwhile.
    assert (asked.delays, asked.closes, stream.pop_ready()) == ([], [1], None)
    assert words(await read(stream)) == FINE[1:]
    assert ((await stream.result()).text, asked.delays) == ("fine", [0.1])


async def test_restart_after_output_counts_attempts_and_voids_each_text_once() -> None:
    script = [busy(), [*HEL, gone("1")], gone("2"), [START, gone("3")], [*HEL, gone("4")], "fine"]
    stream = await Asked(*script, retries=5, policy=RESTARTING).stream()
    told = await read(stream)
    assert words(told) == [*words(HEL), "step-reset", *words(HEL[1:]), "step-reset", *FINE[1:]]
    assert [(e.attempt, e.error.message) for e in told if isinstance(e, StepReset)] == [(3, "1"), (6, "4")]


async def test_restart_after_output_ends_with_the_list() -> None:
    errors = [gone(), gone()]
    stream = await Asked(*([*HEL, error] for error in errors), retries=1, policy=RESTARTING).stream()
    assert words([await anext(stream) for _ in range(6)]) == [*words(HEL), "step-reset", *words(HEL[1:])]
    assert lists(await failure_of(stream), *errors)


async def test_reset_by_the_stream_within_leaves_nothing_to_void() -> None:
    stream = await Asked([*HEL, StepReset(2, ErrorInfo("E", "within")), gone()], "fine").stream()
    assert words(await read(stream)) == [*words(HEL), "step-reset", *FINE[1:]]


# ---------------------------------------------------------------- result


async def test_result_alone_is_begun_again() -> None:
    asked = Asked([*HEL, gone()], [*HEL, failed(overloaded(), usage=Usage(3, 1))], "fine")
    stream = await asked.stream()
    assert [(await stream.result()).text, (await stream.result()).text] == ["fine", "fine"]
    # What was read for it is told afterwards, and of the attempts that failed nothing.
    assert stream.pop_ready() is None
    assert words(await read(stream)) == FINE
    assert [attempt.usage for attempt in stream.failed_attempts] == [None, Usage(3, 1)]
    assert asked.closes == [1, 1, 0]
    assert asked.inner.streams[2].reads == len(FINE)


async def test_what_a_cancelled_result_has_read_is_told_in_order() -> None:
    async def cancel() -> None:
        scope.cancel()
        await anyio.sleep_forever()

    stream = await Asked([*HEL, cancel, TextDelta(0, "lo"), ResponseDone(answer("Hello"))]).stream()
    with anyio.CancelScope() as scope:
        await stream.result()
    assert words(await read(stream)) == [*words(HEL), "lo", "response-done"]


async def test_result_that_fails_is_begun_again_where_nothing_was_told() -> None:
    first = NoResult(START, ResponseDone(answer("lost")), error=(error := gone()))
    stream = await Asked(first, "fine").stream()
    assert words(await read(stream)) == ["response-start", "response-done"]
    assert (await stream.result()).text == "fine"
    assert await read(stream) == []
    assert ([attempt.error for attempt in stream.failed_attempts], first.closes) == ([error], 1)


@pytest.mark.parametrize("policy", [DEFAULT, RESTARTING], ids=["default", "restarting"])
async def test_result_that_fails_after_output_is_raised_bare(policy: RetryPolicy) -> None:
    first = NoResult(*HEL, ResponseDone(answer("lost")), error=(error := gone()))
    stream = await Asked(first, policy=policy).stream()
    assert len(await read(stream)) == 4
    for _ in range(2):
        with pytest.raises(ModelConnectionError) as caught:
            await stream.result()
        assert caught.value is error
    assert first.result_reads == 1


async def test_result_in_the_middle_voids_what_was_told() -> None:
    script = [[*HEL, TextDelta(0, "lo"), gone("1")], [*HEL, gone("2")], "fine"]
    stream = await Asked(*script, policy=RESTARTING).stream()
    assert [await anext(stream) for _ in HEL] == list(HEL)
    assert (await stream.result()).text == "fine"
    reset, *told = await read(stream)
    assert reset == StepReset(3, ErrorInfo("ModelConnectionError", "2"))
    assert words(told) == FINE[1:]


# ---------------------------------------------------------------- what the loop relies on


async def test_stream_without_an_end_is_left_to_the_loop() -> None:
    stream = await Asked([START]).stream()
    assert [await read(stream), await read(stream)] == [[START], []]


async def test_ready_events_are_told_without_waiting() -> None:
    events = (*HEL, TextDelta(0, "lo"), ResponseDone(answer("Hello")))
    stream = await Asked(inner := Popping(*events)).stream()
    assert stream.pop_ready() is None
    assert await anext(stream) is START
    assert [stream.pop_ready() for _ in range(5)] == [*events[1:], None]
    assert (await read(stream), inner.reads) == ([], 1)


async def test_ready_failure_is_kept_for_the_next_reading() -> None:
    fine = Popping(START, TextDelta(0, "fine"), ResponseDone(answer("fine")))
    stream = await Asked(Popping(START, failed(gone())), fine).stream()
    assert await anext(stream) is START
    assert [stream.pop_ready(), stream.pop_ready()] == [None, None]
    assert words([await anext(stream), stream.pop_ready(), stream.pop_ready()]) == ["fine", "response-done"]
    stream = await Asked(Popping(*HEL, last := failed(gone()))).stream()
    assert await anext(stream) is START
    assert [stream.pop_ready() for _ in HEL] == [*HEL[1:], None]
    assert await read(stream) == [last]  # for there was output


async def test_ready_start_is_told_once() -> None:
    reset = StepReset(2, ErrorInfo("E", "within"))
    within = Popping(*HEL, reset, START, TextDelta(0, "fine"), ResponseDone(answer("fine")), reads=1)
    stream = await Asked(within).stream()
    told = [stream.pop_ready() for _ in range(7)]
    assert words(told) == [*words(HEL), "step-reset", "fine", "response-done"]


async def test_stream_without_ready_events() -> None:
    stream = await Asked("fine").stream()
    assert (await anext(stream), stream.pop_ready()) == (START, None)
    assert words(await read(stream)) == FINE[1:]


async def test_event_costs_one_call_more() -> None:
    entered: list[str] = []

    def watch(frame: Any, what: str, _value: Any) -> None:
        if what == "call" and frame.f_code.co_filename == retry.__file__:
            entered.append(frame.f_code.co_name)

    stream = await Asked(Popping(*HEL, TextDelta(0, "lo"))).stream()
    assert await anext(stream) is START
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        events = [await anext(stream), stream.pop_ready()]
    finally:
        sys.setprofile(before)
    assert (events, entered) == ([*HEL[1:]], ["__anext__", "pop_ready"])


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"initial_delay": -1}, ["initial_delay"]),
        ({"max_delay": float("nan"), "max_retry_after": float("inf")}, ["max_delay", "max_retry_after"]),
        ({"initial_delay": True, "budget": 0}, ["initial_delay", "budget"]),
        (
            {"max_delay": "2", "budget": -2.5, "restart_after_output": 1},
            ["max_delay", "budget", "restart_after_output"],
        ),
    ],
)
def test_policy_that_cannot_work(settings: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        RetryPolicy(**settings)
    assert [name for name in RetryPolicy.__dataclass_fields__ if f"{name} must be" in str(caught.value)] == [
        name for name in RetryPolicy.__dataclass_fields__ if name in names
    ]


def test_policy_that_works() -> None:
    assert RetryPolicy() == RetryPolicy(0.1, 2.0, 60.0, None, restart_after_output=False)
    assert RetryPolicy(0, 0, 0, 1).budget == 1


@pytest.mark.parametrize("max_retries", [-1, True, 1.0, "2", None])
def test_number_of_retries_that_cannot_work(max_retries: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="max_retries must be a whole number"):
        RetryingModel(ScriptedModel([]), max_retries)


def test_everything_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="model must be.*str.*max_retries must be.*policy must be.*float"):
        RetryingModel("openai:m", -1, 0.5)  # type: ignore[arg-type]


def test_it_is_the_model_that_it_wraps() -> None:
    inner = ScriptedModel([], provider="p", api="a", name="n", capabilities=Capabilities(images=False))
    model = RetryingModel(inner)
    assert (model.provider, model.api, model.name, model.capabilities) == ("p", "a", "n", inner.capabilities)
    assert (model.model, model.max_retries, model.policy) == (inner, 2, DEFAULT)
    assert repr(model) == "<RetryingModel of <ScriptedModel p:n, 0 of 0 answers given>, max_retries=2>"


# ---------------------------------------------------------------- over HTTP


class Body(httpx2.AsyncByteStream):
    """A body that is read as from a network."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield b"data: " + json.dumps({"choices": [{"index": 0, **chunk}]}).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("header", "value", "delay"),
    [("Retry-After", "7", 7.0), ("RETRY-AFTER-MS", "2500", 2.5), ("retry-after", "100", 60.0)],
)
@both
async def test_T183_header_of_an_http_answer_in_any_case(header: str, value: str, delay: float, ask: str) -> None:
    requests: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        if len(requests) == 1:
            return httpx2.Response(503, headers={header: value}, stream=Body())
        body = Body({"delta": {"content": "fi"}}, {"delta": {"content": "ne"}}, {"delta": {}, "finish_reason": "stop"})
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)

    asked = Asked()
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handle)) as client:
        http = OpenAICompatible("m", base_url="http://api.test/v1", client=client)
        model = asked.around(http, 2, DEFAULT, 1.0)
        if ask == "generate":
            message, attempts = await model.generate_with_attempts(REQUEST)
        else:
            stream = await model.stream(REQUEST)
            assert words(await read(stream))[:4] == ["response-start", "text-start", "fi", "ne"]
            message, attempts = await stream.result(), stream.failed_attempts
    assert (message.text, asked.delays) == ("fine", [delay])
    assert [getattr(attempt.error, "status", None) for attempt in attempts] == [503]
    assert len(requests) == 2
