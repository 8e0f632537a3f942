"""What the loop demands of a model stream, and stop reasons (T46 to T63)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from kit import MODEL, Recorder, Streams, calls, named, options, roles, valid

from loopwright.agent import ToolLoopAgent
from loopwright.errors import ModelFailed, ModelResponseError, StreamProtocolError, UnsupportedStopReason
from loopwright.events import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ResponseDone,
    ResponseError,
    ResponseStart,
    TextDelta,
)
from loopwright.loop import run_agent_loop
from loopwright.messages import AssistantMessage, Message, TextPart, ToolCallPart
from loopwright.testing import ScriptedModel, ScriptedStream, answer, events_of


async def test_G1_T46_text_gives_start_updates_and_end() -> None:
    recorder = Recorder()
    await run_agent_loop("hi", [], options(Streams("hello")), recorder)
    assert recorder.trace == "ms(u) me(u) ms(a) mu(text-start) mu(text-delta) mu(text-end) me(a)"


async def test_T46_updates_carry_the_models_own_event() -> None:
    delta = TextDelta(0, "hello")
    recorder = Recorder()
    stream = [ResponseStart(), delta, ResponseDone(answer("hello"))]
    await run_agent_loop("hi", [], options(Streams(stream)), recorder)
    (update,) = (event for event in recorder.events if isinstance(event, MessageUpdate))
    assert update.event is delta


async def test_T47_a_stream_of_its_end_alone_gives_start_and_end_with_the_full_message() -> None:
    recorder = Recorder()
    await run_agent_loop("hi", [], options(Streams([ResponseDone(answer("all"))])), recorder)
    assert recorder.trace == "ms(u) me(u) ms(a) me(a)"
    start, end = recorder.events[2:]
    assert (start.message.text, end.message.text) == ("all", "all")


async def test_G10_a_final_only_stream_after_tools_tells_the_complete_message_twice() -> None:
    recorder = Recorder()
    script = [ResponseDone(answer(*calls("t")))], [ResponseDone(answer("all"))]
    await run_agent_loop("hi", [], options(Streams(*script), named("t", lambda: "ok")), recorder)
    assert recorder.trace == "ms(u) me(u) ms(a) me(a) ts(t) te(t) ms(t) me(t) ms(a) me(a)"
    assert [event.message.text for event in recorder.events[-2:]] == ["all", "all"]


@pytest.mark.parametrize(
    "script",
    [
        [TextDelta(0, "early"), ResponseDone(answer("x"))],
        [],
        [ResponseStart()],
        [ResponseStart(), TextDelta(0, "half")],
    ],
    ids=["delta before start", "empty", "start then closed", "closed in the middle"],
)
async def test_T48_T49_broken_streams_reject(script: list[Any]) -> None:
    stream = ScriptedStream(script)
    history, recorder = list[Message](), Recorder()
    with pytest.raises(StreamProtocolError):
        await run_agent_loop("hi", history, options(Streams(stream)), recorder)
    assert roles(history) == "u"
    assert "me(a)" not in recorder.trace
    assert (stream.closes, stream.result_reads) == (1, 0)


async def test_T50_result_is_read_once_and_the_stream_asked_for_once() -> None:
    streams = Streams("hello")
    await run_agent_loop("hi", [], options(streams))
    assert (streams.count, streams.streams[0].result_reads, streams.streams[0].closes) == (1, 1, 1)


async def test_T50_the_message_is_what_result_says() -> None:
    history = list[Message]()
    stream = ScriptedStream([ResponseDone(answer("event"))], answer("result"))
    final = await run_agent_loop("hi", history, options(Streams(stream)))
    assert (final.text, history[-1]) == ("result", answer("result"))


async def test_T51_payloads_are_snapshots() -> None:
    recorder = Recorder()
    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams("hello")), recorder)
    message = recorder.events[-1].message
    with pytest.raises(FrozenInstanceError):
        message.content = ()
    with pytest.raises(FrozenInstanceError):
        message.content[0].text = "spoiled"
    assert history[-1].content == (TextPart("hello"),)


async def test_T51_changing_an_update_changes_neither_history_nor_answer() -> None:
    def spoil(event: Any) -> None:
        if isinstance(event, MessageUpdate) and isinstance(event.event, TextDelta):
            event.event.text = "spoiled"

    history = list[Message]()
    final = await run_agent_loop("hi", history, options(Streams("hello")), Recorder(spoil))
    assert (final.text, history[-1].text) == ("hello", "hello")


async def test_T52_the_draft_is_never_in_the_history() -> None:
    history = list[Message]()
    lengths: list[int] = []
    await run_agent_loop(
        "hi",
        history,
        options(Streams("one two three")),
        Recorder(lambda event: lengths.append(len(history)) if isinstance(event, MessageUpdate) else None),
    )
    assert set(lengths) == {1}


async def test_T53_a_stream_function_that_raises_rejects_with_its_error_and_is_not_asked_again() -> None:
    error = ModelResponseError("overloaded", retryable=True)
    streams, history = Streams(error), list[Message]()
    with pytest.raises(ModelResponseError) as caught:
        await run_agent_loop("hi", history, options(streams))
    assert caught.value is error
    assert (roles(history), streams.count) == ("u", 1)
    assert error.messages == tuple(history)


async def test_T54_an_iterator_that_raises_rejects_and_a_failing_close_does_not_hide_it() -> None:
    class Stubborn(ScriptedStream):
        async def aclose(self) -> None:
            await super().aclose()
            raise RuntimeError("close failed")

    error = ValueError("network")
    stream = Stubborn([ResponseStart(), TextDelta(0, "ha"), error])
    history = list[Message]()
    with pytest.raises(ValueError, match="network") as caught:
        await run_agent_loop("hi", history, options(Streams(stream)))
    assert caught.value is error
    assert (roles(history), stream.closes) == ("u", 1)
    assert error.partial.text == "ha"  # type: ignore[attr-defined]


async def test_T55_events_after_the_end_are_ignored() -> None:
    stream = ScriptedStream([ResponseDone(answer("x")), TextDelta(0, "late"), ValueError("late")])
    recorder = Recorder()
    await run_agent_loop("hi", [], options(Streams(stream)), recorder)
    assert recorder.trace == "ms(u) me(u) ms(a) me(a)"
    assert stream.reads == 1


async def test_T56_a_stream_without_aclose_works() -> None:
    class Bare:
        def __init__(self) -> None:
            self._events = iter(events_of(answer("bare")))

        def __aiter__(self) -> AsyncIterator[Any]:
            return self

        async def __anext__(self) -> Any:
            return next(self._events)

        async def result(self) -> AssistantMessage:
            return answer("bare")

    assert (await run_agent_loop("hi", [], options(Streams(Bare())))).text == "bare"


async def test_T56_pop_ready_spares_waiting_and_loses_nothing() -> None:
    class Ready(ScriptedStream):
        def __init__(self) -> None:
            super().__init__([])
            self._ready: list[Any] = list(events_of(answer("a b c d")))
            self._message = answer("a b c d")

        async def __anext__(self) -> Any:
            self.reads += 1
            return self._ready.pop(0)

        def pop_ready(self) -> Any:
            return self._ready.pop(0) if self._ready else None

    stream, recorder = Ready(), Recorder()
    await run_agent_loop("hi", [], options(Streams(stream)), recorder)
    assert stream.reads == 1
    assert (
        "".join(
            e.event.text for e in recorder.events if isinstance(e, MessageUpdate) and isinstance(e.event, TextDelta)
        )
        == "a b c d"
    )


# ---------------------------------------------------------------- stop reasons


@pytest.mark.parametrize("reason", ["error", "aborted", "length", "content-filter", "deferred", "pending", "whatever"])
async def test_T57_other_stop_reasons_reject_after_the_answer_is_in_the_history(reason: str) -> None:
    ran: list[str] = []
    streams, history = Streams(answer("half", *calls("t"), finish_reason=reason)), list[Message]()
    expected = ModelFailed if reason in ("error", "aborted") else UnsupportedStopReason
    with pytest.raises(expected):
        await run_agent_loop("hi", history, options(streams, named("t", lambda: ran.append("t"))))
    assert isinstance(history[1], AssistantMessage)
    assert history[1].finish_reason == reason
    assert (ran, streams.count) == ([], 1)
    valid(history)


async def test_T58_length_pairs_its_calls_and_errors_do_not() -> None:
    for reason, expected in (("length", "u a t! s!"), ("error", "u a"), ("aborted", "u a")):
        history, recorder = list[Message](), Recorder()
        script = answer("half", *calls("t", "s"), finish_reason=reason)
        with pytest.raises((UnsupportedStopReason, ModelFailed)):
            await run_agent_loop("hi", history, options(Streams(script), named("t", int), named("s", int)), recorder)
        assert roles(history) == expected
        assert "ts(" not in recorder.trace
        if reason == "length":
            assert recorder.trace.endswith("me(a) ms(t!) me(t!) ms(s!) me(s!)")
            assert [m.status for m in history[2:]] == ["skipped", "skipped"]
            assert "length" in history[2].text


async def test_T59_the_providers_error_text_is_what_is_raised() -> None:
    script = answer("half", finish_reason="error", error="the provider broke")
    with pytest.raises(ModelFailed, match="^the provider broke$") as caught:
        await run_agent_loop("hi", [], options(Streams(script)))
    assert caught.value.message.text == "half"


async def test_T59_an_exception_of_the_stream_is_raised_itself_and_its_text_marks_the_answer() -> None:
    error = ModelResponseError("rate limited")
    history = list[Message]()
    with pytest.raises(ModelResponseError) as caught:
        await run_agent_loop(
            "hi", history, options(Streams([ResponseStart(), ResponseError(AssistantMessage(), error)]))
        )
    assert caught.value is error
    assert (history[-1].finish_reason, history[-1].error) == ("error", "rate limited")


async def test_T60_tool_calls_without_calls_returns_and_stop_with_calls_runs_them() -> None:
    final = await run_agent_loop("hi", [], options(Streams(answer("x", finish_reason="tool-calls"))))
    assert final.text == "x"
    history = list[Message]()
    streams = Streams(answer(*calls("t"), finish_reason="stop"), "done")
    await run_agent_loop("hi", history, options(streams, named("t", lambda: "ok")))
    assert roles(history) == "u a t a"


class Agent(ToolLoopAgent):
    instructions = ""
    tools = [named("t", lambda: "ok")]


@pytest.mark.parametrize("mode", ["generate", "stream"])
@pytest.mark.parametrize("reason", ["length", "content-filter", "other"])
async def test_T61_T62_an_agent_ends_normally_with_the_finish_reason(reason: str, mode: str) -> None:
    model = ScriptedModel([answer("half", ToolCallPart("1", "t"), finish_reason=reason)])
    agent = Agent(model=model)
    result = await agent.generate("hi") if mode == "generate" else await aiter(agent.stream("hi")).result()
    assert (result.finish_reason, result.stopped_by, result.text) == (reason, "finish_reason", "half")
    assert len(model.requests) == 1
    assert roles(result.messages) == "u a t!"
    assert [step.results for step in result.steps] == [(result.messages[-1],)]
    valid(result.messages)


async def test_T63_after_a_failed_run_the_next_one_works_and_the_failure_is_not_sent_again() -> None:
    history = list[Message]()
    streams = Streams(answer("broken", finish_reason="error"), "fine")
    with pytest.raises(ModelFailed):
        await run_agent_loop("hi", history, options(streams))
    await run_agent_loop("again", history, options(streams))
    assert roles(history) == "u a u a"
    assert [m.text for m in streams.contexts[1].messages] == ["hi", "again"]


async def test_A35_the_empty_message_of_a_start_names_the_model() -> None:
    recorder = Recorder()
    await run_agent_loop("hi", [], options(Streams("hello")), recorder)
    start = next(e for e in recorder.events if isinstance(e, MessageStart) and e.message.role == "assistant")
    assert (start.message.content, start.message.model) == ((), MODEL.name)
    assert isinstance(recorder.events[-1], MessageEnd)
