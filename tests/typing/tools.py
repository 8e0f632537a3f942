"""What type checkers must infer of tools. Checked by mypy and pyright in strict mode; never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, assert_type

from loopwright import ToolLoopAgent
from loopwright.tools import FunctionTool, Tool, ToolContext, ToolOutput, collect_tools, tool


class Shop:
    """A context object."""

    name = "shop"


@tool
async def find(order_id: str, *, deep: bool = False) -> int:
    """Find an order."""
    return len(order_id)


@tool(name="count_things", sequential=True, timeout=2.5, max_result_chars=100)
def count(things: list[str]) -> int:
    """Count things."""
    return len(things)


@tool(description="Waits.", to_model_output=str, client_side=False)
async def watch(ctx: ToolContext[Shop]) -> AsyncIterator[str]:
    """Watch."""
    assert_type(ctx.context, Shop)
    yield ctx.context.name


class Agent(ToolLoopAgent[Shop, str]):
    """Has tools."""

    @tool
    async def find_order(self, ctx: ToolContext[Shop], order_id: str) -> int:
        """Find an order."""
        return len(order_id)

    @tool(timeout=5)
    def refund(self, amount: float) -> str:
        """Pay back."""
        return str(amount)

    @tool(max_result_chars=80)
    def refund_later(self, amount: float) -> ToolOutput:
        """Pay back."""
        return ToolOutput(str(amount))


class Other(Agent):
    """Overrides two."""

    @tool
    async def find_order(self, ctx: ToolContext[Shop], order_id: str) -> int:
        """Find an order elsewhere."""
        return await super().find_order(ctx, order_id) + 1

    @tool(sequential=True)
    def refund(self, amount: float) -> str:
        """Pay back otherwise."""
        return f"{super().refund(amount)}!"


async def uses(ctx: ToolContext[Shop], agent: Agent, other: Other) -> None:
    assert_type(await find("17", deep=True), int)
    assert_type(count(["a"]), int)
    assert_type(count.name, str)
    async for text in watch(ctx):
        assert_type(text, str)
    assert_type(await agent.find_order(ctx, order_id="x"), int)
    assert_type(await other.find_order(ctx, "x"), int)
    assert_type(agent.refund(1.5), str)
    assert_type(agent.refund_later(amount=1.5), ToolOutput)
    assert_type(Agent.refund(agent, 1.5), str)
    assert_type(collect_tools(agent), list[Tool])
    assert_type(await agent.refund.run(agent.refund.validate("{}"), ctx), Any)
    made: Tool = agent.find_order
    assert_type(made.name, str)
    assert_type(count.replace(timeout=None)(["a"]), int)
    assert_type(Tool.from_function(plain, name="p")("x"), str)
    same: Callable[[str], str] = Tool.from_function(plain)
    pending: Callable[[ToolContext[Shop], str], Awaitable[int]] = agent.find_order
    kept: FunctionTool[..., int] = count
    del same, pending, kept


def plain(text: str) -> str:
    """Say it again."""
    return text


class Box:
    """Not an agent, and has tools all the same."""

    @tool
    async def find_order(self, ctx: ToolContext[Shop], order_id: str) -> int:
        """Find an order."""
        return len(order_id)


async def uses_box(ctx: ToolContext[Shop], box: Box) -> None:
    assert_type(await box.find_order(ctx, order_id="x"), int)
    assert_type(collect_tools(box), list[Tool])


def refused(agent: Agent) -> None:
    count("a", "b")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    agent.refund()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tool(nmae="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    tool(timeout="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
