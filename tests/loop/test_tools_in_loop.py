"""Tools and the turn budget (T64 to T81)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from kit import Recorder, Streams, calls, named, options, roles, valid

from loopwright.errors import AbortRun, MaxToolCallsPerStepExceeded, MaxTurnsReached, ToolRetry
from loopwright.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from loopwright.loop import RequestUpdate, run_agent_loop
from loopwright.messages import ImagePart, Message, TextPart, ToolCallPart
from loopwright.signals import AbortSignal
from loopwright.testing import answer
from loopwright.tools.base import Tool
from loopwright.tools.context import ToolContext
from loopwright.tools.decorator import tool

IMAGE = ImagePart(b"\x89PNG", "image/png")


async def test_T64_two_calls_never_overlap_and_keep_their_order() -> None:
    log: list[str] = []

    def work(name: str) -> Any:
        async def run() -> str:
            log.append(f"{name} begins")
            await anyio.lowlevel.checkpoint()
            log.append(f"{name} ends")
            return name

        return named(name, run)

    streams, history = Streams(calls("a", "b"), "done"), list[Message]()
    await run_agent_loop("hi", history, options(streams, work("a"), work("b")))
    assert log == ["a begins", "a ends", "b begins", "b ends"]
    assert roles(history) == "u a a b a"
    assert [m.role for m in streams.contexts[1].messages] == ["user", "assistant", "tool", "tool"]
    assert [(m.tool_call_id, m.tool_name) for m in history[2:4]] == [("a", "a"), ("b", "b")]


@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    RAN.append((a, b))
    return a + b


RAN: list[tuple[int, int]] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


@tool
async def optional(a: int = 1) -> int:
    """Every parameter has a default."""
    RAN.append((a, 0))
    return a


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("add", '{"a": "many"}', "a: Input should be a valid integer"),
        ("add", "{}", "a: Field required"),
        ("add", '{"a": 1, "c": 2}', "c: Extra inputs are not permitted"),
        ("add", '{"a": 1', "Invalid JSON"),
        ("optional", '{"a": 1', "Invalid JSON"),
        ("optional", "not json", "Invalid JSON"),
        ("optional", "[1]", "Input should be an object"),
        ("optional", '"text"', "Input should be an object"),
        ("optional", "7", "Input should be an object"),
    ],
)
async def test_T65_bad_arguments_do_not_run_the_tool(name: str, arguments: str, words: str) -> None:
    history = list[Message]()
    script = answer(ToolCallPart("1", name, arguments)), "sorry"
    final = await run_agent_loop("hi", history, options(Streams(*script), add, optional))
    assert RAN == []
    assert words in history[2].text
    assert history[2].status == "invalid"
    assert final.text == "sorry"


async def test_T65_a_call_that_was_cut_off_is_not_run() -> None:
    history = list[Message]()
    script = answer(ToolCallPart("1", "optional", "{}", incomplete=True)), "sorry"
    await run_agent_loop("hi", history, options(Streams(*script), optional))
    assert (RAN, history[2].status) == ([], "invalid")
    assert "cut off" in history[2].text


@pytest.mark.parametrize("arguments", ["", "null", "  ", "{}"])
async def test_T65_empty_arguments_are_no_arguments(arguments: str) -> None:
    await run_agent_loop("hi", [], options(Streams(answer(ToolCallPart("1", "optional", arguments)), "ok"), optional))
    assert RAN == [(1, 0)]


async def test_T66_coercion_reaches_the_tool_and_not_the_history() -> None:
    history = list[Message]()
    script = answer(ToolCallPart("1", "add", '{"a": "12"}')), "ok"
    await run_agent_loop("hi", history, options(Streams(*script), add))
    assert RAN == [(12, 1)]
    assert history[1].tool_calls[0].arguments == '{"a": "12"}'


async def test_T67_an_unknown_tool_is_told_the_names() -> None:
    many = [named(f"tool_{n}", int) for n in range(25)]
    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("nope"), "ok"), *many))
    text = history[2].text
    assert "first 20 of 25" in text
    assert "tool_19" in text
    assert "tool_20" not in text
    assert "Nothing was executed" in text
    without = list[Message]()
    await run_agent_loop("hi", without, options(Streams(calls("nope"), "ok")))
    assert "No tools are available" in without[2].text


async def test_T68_a_wrapper_call_runs_nothing_inside() -> None:
    history = list[Message]()
    inner = '{"tool_uses": [{"recipient_name": "functions.add", "parameters": {"a": 1}}]}'
    script = answer(ToolCallPart("1", "multi_tool_use.parallel", inner)), "ok"
    await run_agent_loop("hi", history, options(Streams(*script), add))
    assert RAN == []
    assert "cannot be wrapped" in history[2].text


async def test_T69_a_tool_that_raises_gives_an_error_result() -> None:
    def broken() -> None:
        raise ValueError("no such order")

    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("t"), "sorry"), named("t", broken)))
    assert (history[2].text, history[2].status) == ("no such order", "error")
    assert roles(history) == "u a t! a"


async def test_T69_an_exception_without_text_is_named() -> None:
    def broken() -> None:
        raise KeyError

    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("t"), "sorry"), named("t", broken)))
    assert history[2].text == "The tool 't' failed with KeyError."


async def test_T69_what_cannot_be_told_is_an_error_result() -> None:
    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("t"), "sorry"), named("t", object)))
    assert "returned object, which cannot be told to a model" in history[2].text
    assert history[2].status == "error"


async def test_T69_tool_retry_tells_the_model_to_try_again() -> None:
    def again() -> None:
        raise ToolRetry("Use the full id.")

    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("t"), "sorry"), named("t", again)))
    assert (history[2].text, history[2].status) == ("Use the full id.", "error")


async def test_T69_abort_run_ends_the_run_and_pairs_every_call() -> None:
    error = AbortRun("the shop is closed")

    def stop() -> None:
        raise error

    history = list[Message]()
    with pytest.raises(AbortRun) as caught:
        await run_agent_loop("hi", history, options(Streams(calls("t", "s")), named("t", stop), named("s", int)))
    assert caught.value is error
    assert [m.status for m in history[2:]] == ["error", "skipped"]
    assert "the shop is closed" in history[2].text
    valid(history)


async def test_T70_image_results_are_kept() -> None:
    history = list[Message]()
    await run_agent_loop(
        "hi", history, options(Streams(calls("t"), "ok"), named("t", lambda: [TextPart("see"), IMAGE]))
    )
    assert history[2].content == (TextPart("see"), IMAGE)


async def test_T71_start_carries_raw_arguments_and_end_the_complete_result() -> None:
    recorder = Recorder()
    call = ToolCallPart("1", "add", '{"a": "12"}')
    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(answer(call), "ok"), add), recorder)
    (start,) = (e for e in recorder.events if isinstance(e, ToolExecutionStart))
    (end,) = (e for e in recorder.events if isinstance(e, ToolExecutionEnd))
    assert start.call.arguments == '{"a": "12"}'
    assert end.result is history[2]
    assert (end.result.text, end.result.details, end.result.is_error) == ("13", 13, False)


async def test_T72_the_result_is_in_the_history_before_its_end_is_told() -> None:
    history = list[Message]()
    seen: list[str] = []
    recorder = Recorder(lambda e: seen.append(roles(history)) if isinstance(e, ToolExecutionEnd) else None)
    await run_agent_loop("hi", history, options(Streams(calls("t"), "ok"), named("t", lambda: "x")), recorder)
    assert seen == ["u a t"]


async def test_T73_progress_after_the_end_is_ignored() -> None:
    kept: list[ToolContext[Any]] = []

    @tool
    async def work(ctx: ToolContext[Any]) -> str:
        """Work."""
        ctx.progress("half")
        kept.append(ctx)
        return "done"

    def late(event: Any) -> None:
        if isinstance(event, ToolExecutionEnd):
            kept[0].progress("late")

    recorder = Recorder(late)
    await run_agent_loop("hi", [], options(Streams(calls("work"), "ok"), work), recorder)
    assert [e.progress for e in recorder.events if isinstance(e, ToolExecutionUpdate)] == ["half"]
    kept[0].progress("very late")


async def test_T74_the_tools_of_this_request_run_its_calls() -> None:
    sets = iter([[named("t", lambda: "first set")], [named("t", lambda: "second set")]])
    history = list[Message]()
    streams = Streams(calls("t"), calls("t"), "ok")
    updates = iter([RequestUpdate(tools=next(sets)), RequestUpdate(tools=next(sets)), RequestUpdate(tools=[])])
    await run_agent_loop("hi", history, options(streams, prepare_request=lambda signal: next(updates)))
    assert [history[2].text, history[4].text] == ["first set", "second set"]


async def test_T75_sync_and_async_tools_get_the_signal_and_the_call_id() -> None:
    seen: list[Any] = []

    @tool
    async def one(ctx: ToolContext[Any]) -> str:
        """One."""
        seen.append((ctx.signal, ctx.tool_call_id, ctx.step_number))
        return "1"

    @tool
    def two(ctx: ToolContext[Any]) -> str:
        """Two."""
        seen.append((ctx.signal, ctx.tool_call_id, ctx.step_number))
        return "2"

    signal, history = AbortSignal(), list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("one", "two"), "ok"), one, two), None, signal)
    assert seen == [(signal, "one", 1), (signal, "two", 1)]
    assert [m.text for m in history[2:4]] == ["1", "2"]


async def test_idempotency_keys_name_run_step_and_call() -> None:
    seen: list[str] = []

    @tool
    async def work(ctx: ToolContext[Any]) -> None:
        """Work."""
        seen.append(ctx.idempotency_key)

    await run_agent_loop("hi", [], options(Streams(calls("work"), calls("work"), "ok"), work, run_id="run9"))
    assert seen == ["run9/1/work", "run9/2/work"]


async def test_C22_every_tool_of_a_batch_sees_the_same_messages() -> None:
    seen: list[Any] = []

    @tool
    async def look(ctx: ToolContext[Any]) -> None:
        """Look."""
        seen.append(ctx.messages)

    script = answer(ToolCallPart("1", "look"), ToolCallPart("2", "look")), "ok"
    await run_agent_loop("hi", [], options(Streams(*script), look))
    assert seen[0] is seen[1]
    assert roles(seen[0]) == "u a"


async def test_C8_a_client_side_call_stays_open_and_its_siblings_run() -> None:
    history = list[Message]()
    client = Tool("ask_user")
    final = await run_agent_loop(
        "hi", history, options(Streams(calls("ask_user", "t")), client, named("t", lambda: "ok"))
    )
    assert final.tool_calls[0].name == "ask_user"
    assert roles(history) == "u a t"


async def test_C20_a_flood_of_calls_runs_none() -> None:
    ran: list[int] = []
    history = list[Message]()
    with pytest.raises(MaxToolCallsPerStepExceeded) as caught:
        await run_agent_loop(
            "hi",
            history,
            options(Streams(calls("t", "t", "t")), named("t", lambda: ran.append(1)), max_tool_calls_per_step=2),
        )
    assert (caught.value.count, caught.value.limit, ran) == (3, 2, [])
    assert [m.status for m in history[2:]] == ["skipped"] * 3
    valid(history)


async def test_C29_a_call_that_the_provider_ran_is_left_alone() -> None:
    history = list[Message]()
    script = answer(ToolCallPart("s", "web_search", provider_executed=True), "found it")
    final = await run_agent_loop("hi", history, options(Streams(script)))
    assert (final.text, roles(history)) == ("found it", "u a")


# ---------------------------------------------------------------- the turn budget


async def test_T76_the_budget_lets_the_last_tools_finish_and_then_rejects() -> None:
    ran: list[int] = []
    streams, history = Streams(calls("t")), list[Message]()
    with pytest.raises(MaxTurnsReached, match="max_turns=2") as caught:
        await run_agent_loop("hi", history, options(streams, named("t", lambda: ran.append(1)), max_turns=2))
    assert (streams.count, len(ran), roles(history)) == (2, 2, "u a t a t")
    assert caught.value.max_turns == 2


async def test_T77_A19_only_requests_count() -> None:
    streams = Streams(calls("t", "t", "t", "t", "t"), "done")
    await run_agent_loop("hi", [], options(streams, named("t", lambda: "ok"), max_turns=2))
    assert streams.count == 2


async def test_T78_a_natural_end_at_the_budget_polls_nothing() -> None:
    polls: list[str] = []
    await run_agent_loop(
        "hi",
        [],
        options(
            Streams("done"),
            max_turns=1,
            get_steering_messages=lambda signal: polls.append("steering") or [],
            get_follow_up_messages=lambda signal: polls.append("follow-up") or ["more"],
        ),
    )
    assert polls == ["steering"]


async def test_T79_tools_at_the_budget_reject_without_taking_an_input_and_after_finish_turn() -> None:
    log: list[str] = []
    with pytest.raises(MaxTurnsReached):
        await run_agent_loop(
            "hi",
            [],
            options(
                Streams(calls("t")),
                named("t", lambda: "ok"),
                max_turns=1,
                get_steering_messages=lambda signal: log.append("steering") or [],
                finish_turn=lambda turn, signal: log.append("finish"),
            ),
        )
    assert log == ["steering", "finish"]


async def test_G7_T80_turns_of_steering_and_follow_ups_count() -> None:
    polls: list[str] = []
    queue = iter([[], ["s1"], ["s2"]])

    def steer(signal: Any) -> list[str]:
        items = next(queue)
        polls.append(f"steer {items}")
        return items

    streams, history = Streams("T1", "T2"), list[Message]()
    final = await run_agent_loop(
        "hi",
        history,
        options(
            streams,
            max_turns=2,
            get_steering_messages=steer,
            get_follow_up_messages=lambda signal: polls.append("follow-up") or [],
            finish_turn=lambda turn, signal: polls.append(f"finish {turn.message.text}"),
        ),
    )
    assert polls == ["steer []", "finish T1", "steer ['s1']", "finish T2"]
    assert (final.text, roles(history)) == ("T2", "u a u a")
    assert next(queue) == ["s2"]


async def test_T81_the_exception_carries_what_was_done() -> None:
    history = list[Message]()
    with pytest.raises(MaxTurnsReached) as caught:
        await run_agent_loop("hi", history, options(Streams(calls("t")), named("t", lambda: "ok"), max_turns=1))
    assert caught.value.messages == tuple(history)
    assert roles(caught.value.messages) == "u a t"


# ---------------------------------------------------------------- time limits


@pytest.mark.parametrize("cap", [1, 2, 8])
async def test_T116_a_tool_that_is_too_slow_is_cancelled_and_its_siblings_are_not(cap: int) -> None:
    ended: list[str] = []

    @tool(timeout=0.01)
    async def slow() -> None:
        """Wait for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("slow")

    history = list[Message]()
    final = await run_agent_loop(
        "hi",
        history,
        options(Streams(calls("slow", "fast"), "ok"), slow, named("fast", lambda: "real"), max_parallel_tool_calls=cap),
    )
    assert [(m.tool_name, m.status) for m in history[2:4]] == [("slow", "timeout"), ("fast", "success")]
    assert history[2].text == "The tool 'slow' took longer than 0.01 s and was cancelled."
    assert (ended, final.text) == (["slow"], "ok")
    valid(history)


async def test_T116_a_tool_that_does_not_end_in_its_grace_is_left() -> None:
    release = anyio.Event()

    @tool(timeout=0.01)
    async def stubborn() -> None:
        """Do not end."""
        with anyio.CancelScope(shield=True):
            await release.wait()

    history = list[Message]()
    final = await run_agent_loop("hi", history, options(Streams(calls("stubborn"), "ok"), stubborn, cancel_grace=0.0))
    assert (history[2].status, final.text) == ("timeout", "ok")
    valid(history)
    release.set()
    await anyio.wait_all_tasks_blocked()


async def test_T116_a_tool_in_time_is_not_told_of_its_limit() -> None:
    @tool(timeout=5)
    async def quick() -> str:
        """Be quick."""
        return "in time"

    history = list[Message]()
    await run_agent_loop("hi", history, options(Streams(calls("quick"), "ok"), quick))
    assert (history[2].status, history[2].text) == ("success", "in time")
