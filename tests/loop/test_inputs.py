"""Scheduled inputs and checkpoints (T82 to T96)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from kit import Recorder, Streams, calls, is_cancelled, named, options, roles, valid

from loopwright.errors import ContentRequiredError, ModelError
from loopwright.events import MessageEnd, MessageUpdate, ToolExecutionEnd
from loopwright.loop import MessageQueue, RequestUpdate, TurnFinished, run_agent_loop
from loopwright.messages import Message, TextPart, UserMessage
from loopwright.signals import AbortSignal
from loopwright.testing import ScriptedStream, answer, events_of


class Polls:
    """Callbacks that log, and return what they were given."""

    def __init__(
        self, steering: dict[int, list[Any]] | None = None, follow_ups: dict[int, list[Any]] | None = None
    ) -> None:
        self.log: list[str] = []
        self._steering = steering or {}
        self._follow_ups = follow_ups or {}
        self.signals: list[AbortSignal] = []

    def _count(self, kind: str) -> int:
        return sum(1 for entry in self.log if entry == kind)

    async def steering(self, signal: AbortSignal) -> list[Any]:
        self.signals.append(signal)
        self.log.append("steering")
        return self._steering.get(self._count("steering"), [])

    async def follow_ups(self, signal: AbortSignal) -> list[Any]:
        self.signals.append(signal)
        self.log.append("follow-ups")
        return self._follow_ups.get(self._count("follow-ups"), [])

    async def prepare(self, signal: AbortSignal) -> None:
        self.signals.append(signal)
        self.log.append("prepare")

    async def finish(self, turn: TurnFinished, signal: AbortSignal) -> None:
        self.signals.append(signal)
        self.log.append("finish")

    @property
    def given(self) -> dict[str, Any]:
        return {
            "get_steering_messages": self.steering,
            "get_follow_up_messages": self.follow_ups,
            "prepare_request": self.prepare,
            "finish_turn": self.finish,
        }


async def test_T82_A17_when_each_callback_is_called() -> None:
    polls = Polls()
    await run_agent_loop(
        "hi", [], options(Streams(calls("t"), calls("t"), "x"), named("t", lambda: "ok"), **polls.given)
    )
    assert polls.log == [
        "steering", "prepare", "finish", "steering", "prepare", "finish", "steering", "prepare", "finish", "steering",
        "follow-ups",
    ]  # fmt: skip


async def test_T83_no_follow_up_is_polled_when_there_is_steering() -> None:
    polls = Polls(steering={2: ["steer"]}, follow_ups={1: ["follow"]})
    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams("one", "two", "three"), **polls.given))
    assert [m.text for m in history] == ["hi", "one", "steer", "two", "follow", "three"]
    assert [entry for entry in polls.log if entry in ("steering", "follow-ups")] == [
        "steering", "steering", "steering", "follow-ups", "steering", "follow-ups",
    ]  # fmt: skip


async def test_T84_two_items_become_two_messages_with_their_own_events() -> None:
    recorder, history = Recorder(), list[Message]()
    polls = Polls(steering={1: ["one", [TextPart("two")]]})
    await run_agent_loop("hi", history, options(Streams("x"), **polls.given), recorder)
    assert recorder.trace.startswith("ms(u) me(u) ms(u) me(u) ms(u) me(u) ms(a)")
    assert [m.text for m in history] == ["hi", "one", "two", "x"]


async def test_T85_steering_in_a_batch_skips_no_tool_and_comes_after_the_results() -> None:
    waiting: list[str] = []
    streams, history = Streams(calls("a", "b"), "done"), list[Message]()

    def steer(signal: AbortSignal) -> list[str]:
        taken, waiting[:] = list(waiting), []
        return taken

    await run_agent_loop(
        "hi",
        history,
        options(
            streams,
            named("a", lambda: waiting.append("stop it") or "a"),
            named("b", lambda: "b"),
            get_steering_messages=steer,
        ),
    )
    assert roles(history) == "u a a b u a"
    assert [m.role for m in streams.contexts[1].messages] == ["user", "assistant", "tool", "tool", "user"]


async def test_T86_steering_while_streaming_cuts_nothing() -> None:
    queue = MessageQueue()
    streams, history = Streams("one two three", "ok"), list[Message]()

    def steer_once(event: Any) -> None:
        if isinstance(event, MessageUpdate) and event.event.type == "text-start" and len(history) == 1:
            queue.push("wait")

    recorder = Recorder(steer_once)
    await run_agent_loop("hi", history, options(streams, get_steering_messages=queue.poll), recorder)
    assert [m.text for m in history] == ["hi", "one two three", "wait", "ok"]
    assert queue.pending == []


async def test_T87_finish_turn_gets_the_answer_and_a_snapshot_also_at_the_end() -> None:
    turns: list[TurnFinished] = []
    history = list[Message]()
    await run_agent_loop(
        "hi",
        history,
        options(
            Streams(calls("t"), "x"), named("t", lambda: "ok"), finish_turn=lambda turn, signal: turns.append(turn)
        ),
    )
    assert [roles(turn.history) for turn in turns] == ["u a t", "u a t a"]
    assert [roles(turn.results) for turn in turns] == ["t", ""]
    assert [turn.turn for turn in turns] == [1, 2]
    assert turns[-1].message.text == "x"
    assert isinstance(turns[0].history, tuple)


async def test_finish_turn_may_end_the_run_well() -> None:
    streams = Streams(calls("t"))
    final = await run_agent_loop(
        "hi", [], options(streams, named("t", lambda: "ok"), finish_turn=lambda turn, signal: turn.turn == 2)
    )
    assert (streams.count, final.tool_calls[0].name) == (2, "t")


async def test_T88_a_failing_finish_turn_rejects_polls_nothing_and_keeps_the_turn() -> None:
    polls = Polls()
    error = OSError("disk full")

    async def finish(turn: TurnFinished, signal: AbortSignal) -> None:
        raise error

    history = list[Message]()
    with pytest.raises(OSError) as caught:
        await run_agent_loop(
            "hi",
            history,
            options(Streams(calls("t")), named("t", lambda: "ok"), **{**polls.given, "finish_turn": finish}),
        )
    assert caught.value is error
    assert polls.log == ["steering", "prepare"]
    assert roles(history) == "u a t"
    valid(history)


@pytest.mark.parametrize("name", ["get_steering_messages", "get_follow_up_messages", "prepare_request", "finish_turn"])
async def test_T89_A51_each_failing_callback_rejects_with_its_error(name: str) -> None:
    error = RuntimeError(name)

    def fail(*args: Any) -> Any:
        raise error

    history = list[Message]()
    with pytest.raises(RuntimeError) as caught:
        await run_agent_loop("hi", history, options(Streams("x"), **{name: fail}))
    assert caught.value is error
    assert roles(history) == ("u" if name in ("get_steering_messages", "prepare_request") else "u a")


async def test_T90_one_bad_item_of_two_appends_nothing() -> None:
    history = list[Message]()
    polls = Polls(steering={1: ["good", ""]})
    with pytest.raises(ContentRequiredError):
        await run_agent_loop("hi", history, options(Streams("x"), **polls.given))
    assert roles(history) == "u"


async def test_T91_A52_after_a_model_failure_nothing_is_polled() -> None:
    polls = Polls()
    with pytest.raises(ModelError):
        await run_agent_loop("hi", [], options(Streams(ModelError("down")), **polls.given))
    assert polls.log == ["steering", "prepare"]


async def test_T92_prepare_request_swaps_what_the_next_request_uses() -> None:
    one, two = Streams(calls("t")), Streams("x")
    updates = iter([
        RequestUpdate(system="first", stream=one, tools=[named("t", lambda: "ok")]),
        RequestUpdate(system="", stream=two, tools=[]),
    ])  # fmt: skip
    log: list[str] = []

    def prepare(signal: AbortSignal) -> RequestUpdate:
        log.append(roles(history))
        return next(updates)

    history = list[Message]()
    polls = Polls(steering={2: ["steer"]})
    await run_agent_loop(
        "hi", history, options(Streams("never"), system="base", **{**polls.given, "prepare_request": prepare})
    )
    assert log == ["u", "u a t u"]
    assert (one.contexts[0].system, two.contexts[0].system) == ("first", "")
    assert (len(one.contexts[0].tools), len(two.contexts[0].tools)) == (1, 0)


async def test_T92_none_keeps_the_options() -> None:
    streams = Streams("x")
    await run_agent_loop(
        "hi", [], options(streams, named("t", int), system="base", prepare_request=lambda signal: None)
    )
    assert (streams.contexts[0].system, len(streams.contexts[0].tools)) == ("base", 1)


async def test_T93_A56_everything_sees_the_same_signal() -> None:
    polls, signal, streams = Polls(), AbortSignal(), Streams(calls("t"), "x")
    await run_agent_loop("hi", [], options(streams, named("t", lambda: "ok"), **polls.given), None, signal)
    assert {id(seen) for seen in polls.signals} == {id(signal)}
    assert all(o.signal is signal for o in streams.options)


@pytest.mark.parametrize("name", ["get_steering_messages", "get_follow_up_messages", "prepare_request", "finish_turn"])
async def test_T94_A49_a_hanging_callback_is_released_by_an_abort(name: str) -> None:
    signal, reached, history = AbortSignal(), anyio.Event(), list[Message]()

    async def hang(*args: Any) -> None:
        reached.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:

        async def abort() -> None:
            await reached.wait()
            signal.abort("enough")

        tasks.start_soon(abort)
        with pytest.raises(Exception) as caught:
            await run_agent_loop("hi", history, options(Streams("x"), **{name: hang}), None, signal)
    assert is_cancelled(caught.value, "enough")
    valid(history)


async def test_T95_a_poll_that_completes_as_the_abort_comes_is_kept_and_no_request_made() -> None:
    signal, streams, history = AbortSignal(), Streams("x"), list[Message]()

    async def steer(signal: AbortSignal) -> list[str]:
        signal.abort("enough")
        return ["kept"]

    with pytest.raises(Exception) as caught:
        await run_agent_loop("hi", history, options(streams, get_steering_messages=steer), None, signal)
    assert is_cancelled(caught.value, "enough")
    assert ([m.text for m in history], streams.count) == (["hi", "kept"], 0)


# ---------------------------------------------------------------- the queue


async def test_T96_one_at_a_time_and_all() -> None:
    queue = MessageQueue(["a", "b"])
    assert await queue.poll() == ["a"]
    queue.observe(MessageEnd(UserMessage("a")))
    assert await queue.poll() == ["b"]
    everything = MessageQueue(["a", "b"], mode="all")
    assert await everything.poll() == ["a", "b"]


async def test_T96_an_item_that_was_not_committed_returns_to_the_front() -> None:
    queue = MessageQueue(["a", "b"])
    await queue.poll()
    queue.push("c")
    queue.restore()
    assert queue.pending == ["a", "b", "c"]
    assert len(queue) == 3
    assert await queue.poll() == ["a"]


async def test_T96_a_committed_item_is_not_delivered_again() -> None:
    queue, history = MessageQueue(["a", "b"]), list[Message]()
    await run_agent_loop(
        "hi", history, options(Streams("x"), get_steering_messages=queue.poll), Recorder(queue.observe)
    )
    assert [m.text for m in history if m.role == "user"] == ["hi", "a", "b"]
    assert queue.pending == []


async def test_T96_an_abort_between_poll_and_commit_loses_nothing() -> None:
    signal, queue, history = AbortSignal(), MessageQueue(["a", "b"]), list[Message]()

    async def poll(signal: AbortSignal) -> Any:
        taken = await queue.poll(signal)
        raise RuntimeError(f"lost {taken}")

    with pytest.raises(RuntimeError):
        await run_agent_loop(
            "hi", history, options(Streams("x"), get_steering_messages=poll), Recorder(queue.observe), signal
        )
    queue.restore()
    assert queue.pending == ["a", "b"]


async def test_T96_an_abort_after_the_end_event_of_an_answer_polls_nothing() -> None:
    signal, queue = AbortSignal(), MessageQueue()
    queue_polls: list[int] = []

    def stop(event: Any) -> None:
        if isinstance(event, MessageEnd) and event.message.role == "assistant":
            queue.push("later")
            signal.abort("enough")

    async def poll(signal: AbortSignal) -> Any:
        queue_polls.append(len(queue))
        return await queue.poll(signal)

    with pytest.raises(Exception) as caught:
        await run_agent_loop("hi", [], options(Streams("x"), get_steering_messages=poll), Recorder(stop), signal)
    assert is_cancelled(caught.value, "enough")
    assert (queue_polls, queue.pending) == ([0], ["later"])


async def test_A43_A57_one_input_at_a_time_keeps_its_own_request() -> None:
    queue = MessageQueue(["one", "two"])
    seen: list[str] = []
    streams = Streams("x")
    streams.on_request = lambda at: seen.append(streams.contexts[at].messages[-1].text)
    await run_agent_loop("hi", [], options(streams, get_follow_up_messages=queue.poll), Recorder(queue.observe))
    assert seen == ["hi", "one", "two"]


async def test_A7_a_slow_listener_delays_the_next_step() -> None:
    log: list[str] = []

    async def listen(event: Any) -> None:
        if isinstance(event, ToolExecutionEnd):
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            log.append("listened")

    streams = Streams(calls("t"), "x")
    streams.on_request = lambda at: log.append(f"request {at}")
    await run_agent_loop("hi", [], options(streams, named("t", lambda: "ok")), listen)
    assert log == ["request 0", "listened", "request 1"]


async def test_A31_the_first_await_gets_the_stream_and_result_is_of_the_same_request() -> None:
    stream = ScriptedStream(events_of(answer("x")))
    streams = Streams(stream)
    await run_agent_loop("hi", [], options(streams))
    assert (streams.count, stream.result_reads) == (1, 1)
