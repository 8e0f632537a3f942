"""What type checkers must infer of typical agents. Checked by mypy and pyright in strict mode; never run."""

from __future__ import annotations

from typing import assert_type

from loopwright import (
    AbortSignal,
    GenerateResult,
    Run,
    StepContext,
    StepResult,
    StepSettings,
    ToolContext,
    ToolLoopAgent,
    tool,
)
from loopwright.events import StreamPart
from loopwright.messages import Message


class Shop:
    """A context object."""

    name = "shop"


class ShopAgent(ToolLoopAgent[Shop, str]):
    """An agent with a context."""

    model = "openai:gpt-5-mini"
    instructions = "You sell."

    @tool
    async def find(self, ctx: ToolContext[Shop], order_id: str) -> int:
        """Find an order."""
        assert_type(ctx.context, Shop)
        return len(order_id)

    @tool(sequential=True)
    def count(self, things: list[str]) -> int:
        """Count things."""
        return len(things)

    async def prepare_step(self, step: StepContext[Shop]) -> StepSettings | None:
        """Set what holds for one step."""
        assert_type(step.step_number, int)
        return StepSettings(active_tools=["find"]) if step.steps else None

    async def on_step_finish(self, step: StepResult) -> None:
        """Look at what the step did."""
        assert_type(step.text, str)

    async def on_finish(self, result: GenerateResult[str]) -> None:
        """Look at what the run did."""
        assert_type(result.output, str)


class Child(ShopAgent):
    """Inherits the context and the output from its base."""

    instructions = "You sell less."


class OnlyContext(ToolLoopAgent[Shop]):
    """Its output is text, as nothing else is said."""


class PlainAgent(ToolLoopAgent):
    """An agent without a context."""

    model = "local:"
    instructions = ""
    tools = []


class StatedPlainAgent(ToolLoopAgent[None, str]):
    """Says that it has no context."""


async def with_context(ctx: ToolContext[Shop], signal: AbortSignal, messages: list[Message]) -> None:
    agent = ShopAgent()
    result = await agent.generate("hi", context=Shop())
    assert_type(result, GenerateResult[str])
    assert_type(result.output, str)
    assert_type(result.messages, list[Message])
    assert_type(await agent.find(ctx, "17"), int)
    assert_type(agent.count(["a"]), int)
    async for part in agent.stream("hi", context=Shop()):
        assert_type(part, StreamPart)
    async with agent.stream("hi", context=Shop(), max_turns=3, signal=signal, messages=messages) as run:
        assert_type(run, Run[str])
        assert_type((await run.result()).output, str)
    assert_type(agent.generate_sync("hi", context=Shop()), GenerateResult[str])
    assert_type(await Child().generate("hi", context=Shop()), GenerateResult[str])
    assert_type(await OnlyContext().generate("hi", context=Shop()), GenerateResult[str])


async def without_context() -> None:
    result = await PlainAgent().generate("hi")
    assert_type(result, GenerateResult[str])
    assert_type(PlainAgent().generate_sync("hi").text, str)
    async for part in PlainAgent().stream("hi"):
        assert_type(part, StreamPart)
    assert_type(await StatedPlainAgent().generate("hi", context=None), GenerateResult[str])
    assert_type(await StatedPlainAgent().generate(None, messages=result.messages), GenerateResult[str])


async def constructed() -> None:
    agent = ShopAgent(model="local:", instructions="Be brief.", max_turns=3)
    assert_type(agent, ShopAgent)
    assert_type((await agent.generate("hi", context=Shop())).text, str)


async def refused(agent: ShopAgent) -> None:
    await agent.generate("hi")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await agent.generate("hi", context=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    agent.stream("hi")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    agent.generate_sync("hi")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await PlainAgent().generate("hi", context=Shop())  # type: ignore[call-overload]  # pyright: ignore
    await PlainAgent().generate("hi", max_trns=3)  # type: ignore[call-overload]  # pyright: ignore
    agent.count("a", "b")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
