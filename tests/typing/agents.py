"""What type checkers must infer of typical code. Checked by mypy and pyright in strict mode; never run."""

from __future__ import annotations

from typing import assert_type

from loopwright import GenerateResult, Run, ToolContext, ToolLoopAgent, tool
from loopwright.events import StreamPart


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


class PlainAgent(ToolLoopAgent):
    """An agent without a context."""

    model = "local:"
    instructions = ""
    tools = []


async def with_context(ctx: ToolContext[Shop]) -> None:
    agent = ShopAgent()
    result = await agent.generate("hi", context=Shop())
    assert_type(result, GenerateResult[str])
    assert_type(result.output, str)
    assert_type(await agent.find(ctx, "17"), int)
    assert_type(agent.count(["a"]), int)
    async for part in agent.stream("hi", context=Shop()):
        assert_type(part, StreamPart)
    async with agent.stream("hi", context=Shop(), max_turns=3) as run:
        assert_type(run, Run[str])
        assert_type((await run.result()).output, str)


async def without_context() -> None:
    result = await PlainAgent().generate("hi")
    assert_type(result, GenerateResult[str])
    assert_type(PlainAgent().generate_sync("hi").text, str)
    async for part in PlainAgent().stream("hi"):
        assert_type(part, StreamPart)
