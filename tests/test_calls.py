"""Repair, and the hooks round a tool call (T142 to T148)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest
from kit import calls

from loopwright import (
    AbortRun,
    FailedCall,
    GenerateResult,
    RetryCall,
    Tool,
    ToolCallPart,
    ToolContext,
    ToolLoopAgent,
    ToolRetry,
    tool,
)
from loopwright.errors import TooManyInvalidCalls
from loopwright.events import ToolError
from loopwright.lifecycle import ToolCallFinished, ToolCallStarted
from loopwright.testing import ScriptedModel, call, check_history

BAD = ToolCallPart("c1", "add", '{"a": "one", "b": 2}')
GOOD = '{"a": 1, "b": 2}'


class Calc(ToolLoopAgent[int | None, str]):
    """Adds; a test gives it its repair."""

    instructions = "Add."

    def __init__(self, *script: Any, **settings: Any) -> None:
        super().__init__(model=ScriptedModel(script), **settings)
        self.failed: list[FailedCall] = []
        self.added: list[tuple[int, int]] = []

    @tool
    async def add(self, a: int, b: int) -> int:
        """Add."""
        self.added.append((a, b))
        return a + b

    @tool
    async def shout(self, word: str) -> str:
        """Shout."""
        return word.upper()


class Repairing(Calc):
    """Repairs with what it is told to."""

    reply: Any = None

    async def repair_tool_call(self, failed: FailedCall) -> ToolCallPart | None:
        self.failed.append(failed)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


async def run(agent: Any, how: str, prompt: Any = "Go.", **options: Any) -> GenerateResult[Any]:
    options.setdefault("context", None)
    if how == "generate":
        return await agent.generate(prompt, **options)
    async with agent.stream(prompt, **options) as handle:
        return await handle.result()


def results(result: GenerateResult[Any]) -> list[Any]:
    check_history(result.messages)
    return [m for m in result.messages if m.role == "tool"]


both = pytest.mark.parametrize("how", ["generate", "stream"])


# ---------------------------------------------------------------- repair


@both
async def test_T142_a_repaired_call_runs_with_the_repaired_input(how: str) -> None:
    agent = Repairing(BAD, "3.")
    agent.reply = replace(BAD, arguments=GOOD)
    result = await run(agent, how)
    assert agent.added == [(1, 2)]
    (failed,) = agent.failed
    assert failed.call == BAD
    assert "a: Input should be a valid integer" in failed.error
    assert [t.name for t in failed.tools] == ["add", "shout"]
    assert [m.role for m in failed.messages] == ["user", "assistant"]
    assert [(m.tool_name, m.status, m.text) for m in results(result)] == [("add", "success", "3")]
    assert result.steps[0].tool_calls == (BAD,)


@both
@pytest.mark.parametrize(
    ("reply", "details"),
    [
        (None, None),
        (replace(BAD, arguments='{"a": 1}'), "b: Field required"),
        (ValueError("broken"), "ValueError: broken"),
    ],
)
async def test_T143_a_call_that_cannot_be_repaired_is_told_to_the_model(how: str, reply: Any, details: Any) -> None:
    agent = Repairing(BAD, "Sorry.")
    agent.reply = reply
    result = await run(agent, how)
    assert agent.added == []
    (told,) = results(result)
    assert told.status == "invalid"
    assert "a: Input should be a valid integer" in told.text
    if details is not None:
        assert details in told.details["repair_error"]
        assert "a: Input should be a valid integer" in told.details["error"]
    assert result.output == "Sorry."


async def test_T143_the_error_is_told_to_the_stream() -> None:
    parts = [part async for part in Repairing(BAD, "Sorry.").stream("Go.", context=None)]
    assert [part.call.id for part in parts if isinstance(part, ToolError)] == ["c1"]


async def test_T144_repair_is_asked_once_and_may_be_cancelled() -> None:
    agent = Repairing(BAD, "Sorry.")
    agent.reply = replace(BAD, arguments='{"a": "still"}')
    await agent.generate("Go.", context=None)
    assert len(agent.failed) == 1

    reached = anyio.Event()

    class Hanging(Calc):
        async def repair_tool_call(self, failed: FailedCall) -> ToolCallPart | None:
            reached.set()
            await anyio.sleep_forever()
            return None

    hanging = Hanging(BAD)
    ended = False
    async with hanging.stream("Go.", context=None) as handle, anyio.create_task_group() as group:

        async def read() -> None:
            nonlocal ended
            try:
                async for _ in handle:
                    pass
            finally:
                ended = True

        group.start_soon(read)
        await reached.wait()
        group.cancel_scope.cancel()
    assert ended
    assert [m.role for m in handle.messages] == ["user", "assistant", "tool"]
    check_history(handle.messages)


@both
async def test_T145_a_repair_may_choose_another_tool(how: str) -> None:
    agent = Repairing(BAD, "HEY")
    agent.reply = ToolCallPart("c1", "shout", '{"word": "hey"}')
    result = await run(agent, how)
    assert [(m.tool_call_id, m.tool_name, m.text) for m in results(result)] == [("c1", "add", "HEY")]


async def test_T145_events_carry_the_tool_that_ran() -> None:
    agent = Repairing(BAD, "HEY")
    agent.reply = ToolCallPart("c1", "shout", '{"word": "hey"}')
    told = [e async for e in agent.events("Go.", context=None) if isinstance(e, ToolCallStarted | ToolCallFinished)]
    assert [e.tool_name for e in told] == ["shout", "shout"]


async def test_T145_a_repair_to_a_tool_that_is_not_there_is_an_error() -> None:
    agent = Repairing(BAD, "Sorry.")
    agent.reply = ToolCallPart("c1", "nothing", "{}")
    (told,) = results(await agent.generate("Go.", context=None))
    assert told.status == "invalid"
    assert "There is no tool named 'nothing'" in told.details["repair_error"]


@both
async def test_T146_unknown_names_reach_repair(how: str) -> None:
    agent = Repairing(ToolCallPart("c1", "functions.add", GOOD), "3.")
    agent.reply = ToolCallPart("c1", "add", GOOD)
    result = await run(agent, how)
    assert "There is no tool named 'functions.add'" in agent.failed[0].error
    assert [(m.tool_name, m.text) for m in results(result)] == [("functions.add", "3")]


@both
async def test_T147_nobody_is_asked_to_approve_a_repaired_call(how: str) -> None:
    async def pay(amount: int) -> str:
        raise AssertionError

    bad = ToolCallPart("p", "pay", '{"amount": "five"}')
    agent = Repairing(bad, "Sorry.", tools=[Tool.from_function(pay, needs_approval=True)])
    agent.reply = replace(bad, arguments='{"amount": 5}')
    result = await run(agent, how)
    (told,) = results(result)
    assert (told.status, "needs the approval" in told.text) == ("invalid", True)
    assert result.pending_approvals == ()


@both
async def test_T148_on_input_available_gets_repaired_input_and_cannot_stop_the_run(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []

    async def available(given: Any, ctx: ToolContext) -> None:
        told.append((given.word, ctx.tool is not None and ctx.tool.name, ctx.call.name))
        raise ValueError("listener broke")

    async def loud(word: str) -> str:
        return word.upper()

    agent = Repairing([BAD, call("loud", id="c2")], "Done.",
                      tools=[Tool.from_function(loud, on_input_available=available)])  # fmt: skip
    agent.reply = ToolCallPart("c1", "loud", '{"word": "hey"}')
    with caplog.at_level(logging.WARNING, "loopwright"):
        result = await run(agent, how)
    assert told == [("hey", "loud", "add"), ("hey", "loud", "loud")]
    assert [m.text for m in results(result)] == ["HEY", "HEY"]
    assert "on_input_available of 'loud' raised" in caplog.text


# ---------------------------------------------------------------- invalid calls in a row


@both
async def test_invalid_calls_in_a_row_end_the_run(how: str) -> None:
    agent = Calc(BAD, BAD, BAD, "never")
    with pytest.raises(TooManyInvalidCalls, match="In 3 steps in a row") as raised:
        await run(agent, how)
    assert len(agent.language_model.requests) == 3  # type: ignore[attr-defined]
    assert len(raised.value.steps) == 3
    check_history(list(raised.value.messages))


@both
async def test_a_valid_call_between_begins_the_count_anew(how: str) -> None:
    good = replace(BAD, arguments=GOOD)
    result = await run(Calc(BAD, BAD, good, BAD, BAD, "Done."), how)
    assert result.output == "Done."
    unlimited = await run(Calc(*[BAD] * 5, "Done.", max_invalid_calls=None), how)
    assert unlimited.output == "Done."


# ---------------------------------------------------------------- hooks round a call


class Fragile(Calc):
    """Has a tool that fails as often as it is told to."""

    failures: int = 1

    @tool
    async def work(self, ctx: ToolContext[int | None]) -> str:
        """Work."""
        if ctx.attempt <= self.failures:
            raise ValueError(f"attempt {ctx.attempt} failed")
        return f"worked at attempt {ctx.attempt}"


@both
async def test_on_tool_error_may_retry_tell_or_end(how: str) -> None:
    class Retrying(Fragile):
        async def on_tool_error(self, ctx: ToolContext[int | None], error: Exception) -> Any:
            return RetryCall() if ctx.attempt < 3 else f"gave up: {error}"

    agent = Retrying(calls("work"), "Done.")
    agent.failures = 2
    assert [m.text for m in results(await run(agent, how))] == ["worked at attempt 3"]
    agent = Retrying(calls("work"), "Done.")
    agent.failures = 9
    (told,) = results(await run(agent, how))
    assert (told.status, told.text) == ("error", "gave up: attempt 3 failed")

    class Silent(Fragile):
        async def on_tool_error(self, ctx: ToolContext[int | None], error: Exception) -> Any:
            return None

    (told,) = results(await run(Silent(calls("work"), "Done."), how))
    assert (told.status, told.text) == ("error", "attempt 1 failed")

    class Ending(Fragile):
        async def on_tool_error(self, ctx: ToolContext[int | None], error: Exception) -> Any:
            raise KeyError("end") from error

    with pytest.raises(KeyError, match="end") as raised:
        await run(Ending(calls("work", "add"), "never"), how)
    partial = raised.value.partial  # type: ignore[attr-defined]
    assert [m.role for m in partial.messages] == ["user", "assistant", "tool", "tool"]
    check_history(list(partial.messages))


@both
async def test_wrap_tool_call_changes_arguments_and_results(how: str) -> None:
    class Doubling(Calc):
        async def wrap_tool_call(self, ctx: Any, arguments: dict[str, Any], proceed: Any) -> Any:
            if ctx.tool_name == "shout":
                return "hushed"
            return await proceed({**arguments, "b": 10}) * 2

    agent = Doubling([replace(BAD, arguments=GOOD), call("shout", word="x")], "Done.")
    assert [m.text for m in results(await run(agent, how))] == ["22", "hushed"]
    assert agent.added == [(1, 10)]


@both
async def test_mixins_compose_through_super(how: str) -> None:
    log: list[str] = []

    class Logged(ToolLoopAgent[int | None, str]):
        async def wrap_tool_call(self, ctx: Any, arguments: dict[str, Any], proceed: Any) -> Any:
            log.append(f"log {ctx.tool_name}")
            return await super().wrap_tool_call(ctx, arguments, proceed)

        async def on_step_finish(self, step: Any) -> None:
            log.append("step")
            await super().on_step_finish(step)

    class Timed(ToolLoopAgent[int | None, str]):
        async def wrap_tool_call(self, ctx: Any, arguments: dict[str, Any], proceed: Any) -> Any:
            log.append("time")
            return await super().wrap_tool_call(ctx, arguments, proceed)

    class Both(Logged, Timed, Calc):
        """Composed."""

    agent = Both(replace(BAD, arguments=GOOD), "Done.")
    await run(agent, how)
    assert log == ["log add", "time", "step", "step"]
    assert agent.added == [(1, 2)]


@both
async def test_wrap_model_call_changes_the_request_or_answers_itself(how: str) -> None:
    from loopwright.testing import answer

    class Guarded(Calc):
        async def wrap_model_call(self, request: Any, proceed: Any) -> Any:
            if "secret" in request.context.messages[-1].text:
                return answer("I will not.")
            return await proceed(replace(request, settings=replace(request.settings, temperature=0.5)))

    agent = Guarded("Fine.")
    assert (await run(agent, how, "Tell me a secret.")).output == "I will not."
    assert (await run(agent, how, "Tell me.")).output == "Fine."
    assert [r.settings.temperature for r in agent.language_model.requests] == [0.5]  # type: ignore[attr-defined]


@both
async def test_tool_retry_and_abort_run(how: str) -> None:
    class Two(Calc):
        @tool
        async def again(self) -> str:
            """Ask again."""
            raise ToolRetry("Use metres.")

        @tool
        async def stop(self) -> str:
            """Stop."""
            raise AbortRun("enough")

    (told,) = results(await run(Two(calls("again"), "Done."), how))
    assert (told.status, told.text) == ("error", "Use metres.")
    with pytest.raises(AbortRun, match="enough") as raised:
        await run(Two(calls("stop"), "never"), how)
    check_history(list(raised.value.messages))


async def test_idempotency_keys_name_run_step_and_call() -> None:
    keys: list[str] = []

    class Keyed(Calc):
        @tool
        async def work(self, ctx: ToolContext[int | None]) -> str:
            """Work."""
            keys.append(ctx.idempotency_key)
            return ""

    twice = [ToolCallPart("x", "work"), ToolCallPart("x", "work"), ToolCallPart("y", "work")]
    await Keyed(twice, ToolCallPart("x", "work"), "Done.").generate("Go.", context=None, run_id="r")
    assert sorted(keys) == ["r/1/x", "r/1/x#2", "r/1/y", "r/2/x"]
