"""Calling the loop: validation, continuing without content, building requests (T1 to T32)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kit import MODEL, TEXT_ONLY, Recorder, Streams, calls, is_cancelled, named, options, roles, valid

from loopwright.agent import ToolLoopAgent
from loopwright.errors import ContentRequiredError, InvalidArgumentError, InvalidContentError, InvalidInputError
from loopwright.loop import HistorySource, RequestUpdate, ToolRepairSource, run_agent_loop
from loopwright.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models.base import ModelSettings, StreamOptions
from loopwright.signals import AbortSignal
from loopwright.testing import ScriptedModel, ScriptedStream, answer, events_of
from loopwright.tools.decorator import tool

IMAGE = ImagePart(b"\x89PNG", "image/png")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_T1_text_prompt_gives_user_and_assistant() -> None:
    streams, history = Streams("hello"), list[Message]()
    final = await run_agent_loop("hi", history, options(streams))
    assert roles(history) == "u a"
    assert streams.count == 1
    assert final == history[-1]
    assert final is not history[-1]
    assert final.text == "hello"


async def test_T1_positional_and_keyword_calls_are_the_same() -> None:
    a, b = list[Message](), list[Message]()
    await run_agent_loop("hi", a, options(Streams("x")), None, None)
    await run_agent_loop(content="hi", history=b, options=options(Streams("x")), on_event=None, signal=None)
    assert a == b


async def test_T2_image_alone_reaches_a_vision_model_unchanged() -> None:
    streams = Streams("seen")
    await run_agent_loop([IMAGE], [], options(streams))
    assert streams.contexts[0].messages[0].content == (IMAGE,)


async def test_T3_image_on_a_text_only_model_rejects_before_anything() -> None:
    streams, history, recorder = Streams("x"), list[Message](), Recorder()
    with pytest.raises(InvalidContentError, match="Part 0 of the content is an image"):
        await run_agent_loop([IMAGE], history, options(streams, model=TEXT_ONLY), recorder)
    assert (history, streams.count, recorder.events) == ([], 0, [])


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", ContentRequiredError),
        (" \n\t", ContentRequiredError),
        ([], ContentRequiredError),
        ([TextPart(" ")], ContentRequiredError),
        ([None], InvalidContentError),
        ([TextPart(3)], InvalidContentError),  # type: ignore[arg-type]
        ([ImagePart(None, "image/png")], InvalidContentError),
        ([ImagePart(b"", "image/png")], InvalidContentError),
        ([ImagePart(b"x", None)], InvalidContentError),
        ([TextPart(""), None], InvalidContentError),
        ({"role": "user"}, InvalidContentError),
        (b"bytes", InvalidContentError),
        (7, InvalidContentError),
    ],
    ids=repr,
)
async def test_T4_malformed_and_empty_content_rejects(content: Any, error: type[Exception]) -> None:
    streams, history = Streams("x"), list[Message]()
    with pytest.raises(error):
        await run_agent_loop(content, history, options(streams))
    assert (history, streams.count) == ([], 0)


@pytest.mark.parametrize("stream", [None, "openai:gpt", 3])
async def test_T5_missing_stream_function_rejects(stream: Any) -> None:
    history = list[Message]()
    with pytest.raises(InvalidArgumentError, match="stream must be a function"):
        await run_agent_loop("hi", history, options(stream))
    assert history == []


@pytest.mark.parametrize("limit", [0, -1, 1.5, float("inf"), float("nan"), True, "3"])
async def test_T6_turn_limits_that_cannot_work_reject(limit: Any) -> None:
    history = list[Message]()
    with pytest.raises(InvalidArgumentError, match="max_turns must be a positive whole number"):
        await run_agent_loop("hi", history, options(Streams("x"), max_turns=limit))
    assert history == []


async def test_T6_a_limit_of_one_is_accepted() -> None:
    assert (await run_agent_loop("hi", [], options(Streams("x"), max_turns=1))).text == "x"


async def test_T6_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="max_turns .* max_parallel_tool_calls .* cancel_grace"):
        await run_agent_loop("hi", [], options(Streams("x"), max_turns=0, max_parallel_tool_calls=0, cancel_grace=-1.0))


@pytest.mark.parametrize("reason", [ValueError("enough"), "a string", None])
async def test_T7_aborted_before_rejects_with_the_same_reason(reason: object) -> None:
    signal, history, recorder = AbortSignal(), list[Message](), Recorder()
    signal.abort(reason)
    with pytest.raises(Exception) as caught:
        await run_agent_loop("hi", history, options(Streams("x")), recorder, signal)
    assert is_cancelled(caught.value, signal.reason)
    assert (history, recorder.events) == ([], [])


async def test_T7_a_bad_argument_is_told_before_an_abort() -> None:
    signal = AbortSignal()
    signal.abort()
    with pytest.raises(ContentRequiredError):
        await run_agent_loop("", [], options(Streams("x")), None, signal)


async def test_T8_two_default_runs_do_not_share_a_signal() -> None:
    streams = Streams("x")
    await run_agent_loop("hi", [], options(streams))
    await run_agent_loop("hi", [], options(streams))
    first, second = (o.signal for o in streams.options)
    assert first is not second
    assert not first.aborted


async def test_T9_content_given_as_a_list_is_copied() -> None:
    content: list[Any] = [TextPart("hi"), IMAGE]
    history = list[Message]()
    await run_agent_loop(content, history, options(Streams("x")))
    content.clear()
    assert history[0].content == (TextPart("hi"), IMAGE)


async def test_T10_the_list_is_only_appended_to() -> None:
    first, second = UserMessage("old"), answer("older")
    history: list[Message] = [first, second]
    same = history
    await run_agent_loop("hi", history, options(Streams("x")))
    assert same is history
    assert history[0] is first
    assert history[1] is second
    assert roles(history) == "u a u a"


async def test_T11_agent_and_loop_write_the_same_history() -> None:
    script = [answer(ToolCallPart("1", "add", '{"a":1,"b":2}')), answer("3")]

    class Adder(ToolLoopAgent):
        instructions = ""
        tools = [add]

    result = await Adder(model=ScriptedModel(script, provider="test", api="test", name="model")).generate("sum")
    history = list[Message]()
    await run_agent_loop("sum", history, options(Streams(*map(_stamp, script)), add))
    assert list(map(_timeless, result.messages)) == list(map(_timeless, history))


def _stamp(message: AssistantMessage) -> AssistantMessage:
    return replace(message, provider="test", api="test", model="model")


def _timeless(message: Any) -> Any:
    return replace(message, created_at=None) if not isinstance(message, UserMessage) else message.content


# ---------------------------------------------------------------- continue without content


async def test_T12_no_content_continues_a_user_message() -> None:
    history: list[Message] = [UserMessage("hi")]
    recorder = Recorder()
    await run_agent_loop(None, history, options(Streams("x")), recorder)
    assert roles(history) == "u a"
    assert "u" not in recorder.trace.replace("mu(", "").replace("tu(", "")


@pytest.mark.parametrize("history", [[], [answer("hello")]], ids=["empty", "assistant only"])
async def test_T13_no_content_and_no_user_input_rejects(history: list[Message]) -> None:
    before = list(history)
    with pytest.raises(InvalidInputError, match="no user message"):
        await run_agent_loop(None, history, options(Streams("x")))
    assert history == before


async def test_T14_continues_after_tool_results() -> None:
    history: list[Message] = [UserMessage("hi"), answer(*calls("a")), ToolResultMessage("a", "a", "ok")]
    await run_agent_loop(None, history, options(Streams("x")))
    assert roles(history) == "u a a a"


async def test_T15_steering_comes_before_the_first_request() -> None:
    streams = Streams("x")
    steering = iter([["and this"]])
    history: list[Message] = [UserMessage("hi")]
    await run_agent_loop(None, history, options(streams, get_steering_messages=lambda signal: next(steering, [])))
    assert [m.text for m in streams.contexts[0].messages] == ["hi", "and this"]
    assert roles(history) == "u u a"


async def test_T16_an_unanswered_call_is_repaired_in_the_request_only() -> None:
    streams = Streams("x")
    history: list[Message] = [UserMessage("hi"), answer(*calls("a"))]
    await run_agent_loop(None, history, options(streams))
    assert streams.metadata[0].sources == [HistorySource(0), HistorySource(1), ToolRepairSource(1, "a")]
    assert roles(history) == "u a a"
    assert isinstance(history[2], AssistantMessage)


async def test_C17_system_messages_in_the_history_are_refused() -> None:
    history: list[Any] = [{"role": "system", "content": "be nice"}]
    with pytest.raises(InvalidInputError, match="instructions"):
        await run_agent_loop("hi", history, options(Streams("x")))
    assert len(history) == 1


# ---------------------------------------------------------------- building requests


async def test_T17_declarations_hold_name_description_parameters_and_no_more() -> None:
    streams = Streams("x")
    await run_agent_loop("hi", [], options(streams, add))
    (declared,) = streams.contexts[0].tools
    assert set(type(declared).__slots__) == {"name", "description", "parameters"}
    assert (declared.name, declared.description) == ("add", "Add two numbers.")
    assert declared.parameters["required"] == ["a", "b"]


async def test_T18_the_system_prompt_never_enters_the_messages() -> None:
    streams, history = Streams("x"), list[Message]()
    for _ in range(2):
        await run_agent_loop("hi", history, options(streams, system="be brief"))
    assert [context.system for context in streams.contexts] == ["be brief", "be brief"]
    assert "be brief" not in "".join(m.text for context in streams.contexts for m in context.messages)
    assert roles(history) == "u a u a"


async def test_T19_what_a_stream_function_does_to_its_context_stays_there() -> None:
    streams = Streams(calls("a"), "x")
    history = list[Message]()

    def spoil(at: int) -> None:
        context = streams.contexts[at]
        seen.append((len(context.messages), len(context.tools)))
        context.messages.clear()
        context.tools.clear()
        context.system = "spoiled"

    seen: list[tuple[int, int]] = []
    streams.on_request = spoil
    await run_agent_loop("hi", history, options(streams, named("a", lambda: "ok")))
    assert seen == [(1, 1), (3, 1)]
    assert roles(history) == "u a a a"


async def test_T20_stream_options_pass_through_with_the_signal() -> None:
    streams, signal = Streams("x"), AbortSignal()
    given = StreamOptions(ModelSettings(temperature=0.5), extra={"my": 1})
    await run_agent_loop("hi", [], options(streams, stream_options=given), None, signal)
    (seen,) = streams.options
    assert (seen.settings.temperature, seen.extra, seen.signal) == (0.5, {"my": 1}, signal)
    assert given.signal is None


async def test_T21_history_message_count_is_the_length_at_dispatch() -> None:
    streams, history = Streams(calls("a"), "text", "more", "last"), list[Message]()
    lengths: list[int] = []
    streams.on_request = lambda at: lengths.append(len(history))
    steering = iter([[], [], ["steer"]])
    follow_ups = iter([["follow"]])
    await run_agent_loop(
        "hi",
        history,
        options(
            streams,
            named("a", lambda: "ok"),
            get_steering_messages=lambda signal: next(steering, []),
            get_follow_up_messages=lambda signal: next(follow_ups, []),
        ),
    )
    assert [m.history_message_count for m in streams.metadata] == lengths == [1, 3, 5, 7]


async def test_T22_T24_failed_answers_are_skipped_and_missing_results_repaired() -> None:
    failed = answer("half", finish_reason="error", error="broke")
    history: list[Message] = [
        UserMessage("hi"),
        failed,
        answer(*calls("x", "y")),
        ToolResultMessage("x", "x", "ok"),
        UserMessage("go on"),
    ]
    streams = Streams("z")
    await run_agent_loop(None, history, options(streams))
    (context,), (metadata,) = streams.contexts, streams.metadata
    assert metadata.sources == [
        HistorySource(0), HistorySource(2), HistorySource(3), ToolRepairSource(2, "y"), HistorySource(4),
    ]  # fmt: skip
    assert len(context.messages) == len(metadata.sources)
    assert failed in history
    assert failed not in context.messages


async def test_T23_sources_match_the_messages_on_every_request() -> None:
    streams, history = Streams(calls("a"), calls("a"), "x"), list[Message]()
    await run_agent_loop("hi", history, options(streams, named("a", lambda: "ok")))
    for context, metadata in zip(streams.contexts, streams.metadata, strict=True):
        assert [history[s.message_index] for s in metadata.sources] == context.messages


async def test_T25_a_reused_missing_id_gives_two_repairs_with_their_own_origin() -> None:
    history: list[Message] = [UserMessage("hi"), answer(*calls("x")), answer(*calls("x")), UserMessage("go")]
    streams = Streams("z")
    await run_agent_loop(None, history, options(streams))
    repairs = [s for s in streams.metadata[0].sources if isinstance(s, ToolRepairSource)]
    assert repairs == [ToolRepairSource(1, "x"), ToolRepairSource(2, "x")]


async def test_T26_equal_user_messages_keep_their_own_index() -> None:
    history: list[Message] = [UserMessage("same"), UserMessage("same")]
    streams = Streams("z")
    await run_agent_loop(None, history, options(streams))
    assert streams.metadata[0].sources == [HistorySource(0), HistorySource(1)]


async def test_T27_a_switched_model_has_the_same_sources() -> None:
    result = ToolResultMessage("x", "x", [IMAGE])
    history: list[Message] = [UserMessage("hi"), answer(*calls("x", "y")), result, UserMessage("go on")]
    per_model = []
    for model in (MODEL, TEXT_ONLY):
        streams = Streams("z")
        await run_agent_loop(None, list(history), options(streams, model=model))
        per_model.append(streams.metadata[0].sources)
    assert per_model[0] == per_model[1]


async def test_T28_T30_messages_carry_no_mark_of_their_origin() -> None:
    user = UserMessage("hi")
    streams = Streams("z")
    await run_agent_loop(None, [user], options(streams))
    assert streams.contexts[0].messages[0] is user


async def test_T29_stream_functions_with_fewer_parameters_work() -> None:
    seen: list[int] = []

    def three(model: Any, context: Any, options: Any) -> Any:
        seen.append(3)
        return ScriptedStream(events_of(answer("x")))

    def anything(*args: Any) -> Any:
        seen.append(len(args))
        return ScriptedStream(events_of(answer("x")))

    def four(model: Any, context: Any, options: Any, metadata: Any) -> Any:
        seen.append(metadata.history_message_count)
        return ScriptedStream(events_of(answer("x")))

    for stream in (three, anything, four):
        await run_agent_loop("hi", [], options(stream))
    assert seen == [3, 4, 1]


async def test_T30_sync_async_and_awaitable_stream_functions_are_each_called_once() -> None:
    counts = {"sync": 0, "async": 0, "returns": 0}

    def sync(model: Any, context: Any, options: Any) -> Any:
        counts["sync"] += 1
        return ScriptedStream(events_of(answer("x")))

    async def asynchronous(model: Any, context: Any, options: Any) -> Any:
        counts["async"] += 1
        return ScriptedStream(events_of(answer("x")))

    def returns(model: Any, context: Any, options: Any) -> Any:
        counts["returns"] += 1
        return asynchronous(model, context, options)

    for stream in (sync, returns):
        assert (await run_agent_loop("hi", [], options(stream))).text == "x"
    assert counts == {"sync": 1, "async": 1, "returns": 1}


async def test_T32_the_same_history_gives_the_same_request() -> None:
    history: list[Message] = [UserMessage("hi"), answer(*calls("x"), created_at=5.0), UserMessage("go")]
    contexts = []
    for _ in range(2):
        streams = Streams("z")
        await run_agent_loop(None, list(history), options(streams))
        contexts.append(streams.contexts[0].messages)
    assert contexts[0] == contexts[1]
    repair = contexts[0][2]
    assert (repair.status, repair.created_at, repair.tool_name) == ("missing", 5.0, "x")


async def test_C18_messages_of_prepare_request_touch_the_view_and_not_the_history() -> None:
    streams, history = Streams("x"), list[Message]()
    update = RequestUpdate(messages=[UserMessage("instead")])
    await run_agent_loop("hi", history, options(streams, prepare_request=lambda signal: update))
    assert [m.text for m in streams.contexts[0].messages] == ["instead"]
    assert [m.text for m in history] == ["hi", "x"]
    valid(history)
