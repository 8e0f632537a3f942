"""`@tool` on functions and on methods, and collecting what it made."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest

from loopwright.errors import InvalidArgumentError, ToolSchemaError
from loopwright.messages import ToolCallPart
from loopwright.tools import FunctionTool, Tool, ToolContext, collect_tools, tool


@tool
async def shout(text: str, *, loud: bool = True) -> str:
    """Shout."""
    return text.upper() if loud else text


class Shop:
    def __init__(self, name: str = "shop") -> None:
        self.name = name

    @tool
    async def find(self, ctx: ToolContext[Any], order_id: str) -> str:
        """Find an order."""
        return f"{self.name} {order_id} {ctx.tool_name}"

    @tool(name="count_orders", sequential=True)
    def count(self, least: int = 0) -> int:
        """Count orders."""
        return least + len(self.name)

    def helper(self) -> None: ...

    @tool
    def close(self) -> str:
        """Close."""
        return f"{self.name} closed"


CTX = ToolContext(None, ToolCallPart("1", "find"))


async def test_a_decorated_function_is_a_tool_and_can_still_be_called() -> None:
    assert isinstance(shout, Tool)
    assert (shout.name, shout.description) == ("shout", "Shout.")
    assert (shout.__name__, shout.__doc__, shout.__module__) == ("shout", "Shout.", __name__)
    assert await shout("a", loud=True) == "A"
    assert await shout.run(shout.validate('{"text": "a", "loud": false}')) == "a"
    assert list(inspect.signature(shout).parameters) == ["text", "loud"]


async def test_a_decorated_method_is_bound_to_its_instance() -> None:
    one, two = Shop("one"), Shop("two")
    assert await one.find(CTX, order_id="x") == "one x find"
    assert await two.find.run(two.find.validate('{"order_id": "y"}'), CTX) == "two y find"
    assert one.count(2) == 5
    assert await one.count.run({"least": 1}) == 4
    assert one.count.sequential
    assert list(one.find.parameters["properties"]) == ["order_id"]


async def test_a_method_taken_from_its_class_can_be_called_and_declared_but_not_run() -> None:
    assert isinstance(Shop.close, FunctionTool)
    assert Shop.close(Shop("x")) == "x closed"
    assert Shop.close.declaration().name == "close"
    with pytest.raises(RuntimeError, match="'close' is the tool of a method and has no instance"):
        await Shop.close.run({})


def test_collecting_keeps_the_order_of_definition() -> None:
    assert [t.name for t in collect_tools(Shop())] == ["find", "count_orders", "close"]
    assert [t.name for t in collect_tools(Shop)] == ["find", "count_orders", "close"]
    assert collect_tools(object()) == []


class Better(Shop):
    @tool
    def extra(self) -> str:
        """More."""
        return "more"

    @tool
    def close(self) -> str:
        """Close well."""
        return f"{super().close()} well"


async def test_tools_are_inherited_and_overridden_like_methods() -> None:
    tools = collect_tools(Better("b"))
    assert [t.name for t in tools] == ["find", "count_orders", "close", "extra"]
    assert [t.description for t in tools] == ["Find an order.", "Count orders.", "Close well.", "More."]
    assert await tools[2].run({}) == "b closed well"
    assert await tools[0].run({"order_id": "x"}, CTX) == "b x find"


def test_none_takes_a_tool_away_and_it_can_come_back() -> None:
    class Less(Shop):
        find = None  # type: ignore[assignment]

    class Again(Less):
        @tool
        def find(self) -> str:  # type: ignore[override]
            """Find again."""
            return ""

    assert [t.name for t in collect_tools(Less())] == ["count_orders", "close"]
    assert [t.name for t in collect_tools(Again())] == ["count_orders", "close", "find"]


@pytest.mark.parametrize("value", [lambda self: "closed", 5, property(lambda self: 1)])
def test_overriding_a_tool_with_something_else_is_refused(value: Any) -> None:
    cls = type("Wrong", (Shop,), {"close": value})
    for source in (cls, cls()):
        with pytest.raises(InvalidArgumentError, match=r"Wrong.close overrides a tool without @tool. Decorate it"):
            collect_tools(source)


def test_an_attribute_of_the_instance_counts_too() -> None:
    shop = Shop()
    shop.find = None  # type: ignore[assignment]
    assert [t.name for t in collect_tools(shop)] == ["count_orders", "close"]
    shop.close = lambda: "closed"  # type: ignore[assignment]
    with pytest.raises(InvalidArgumentError, match="close of .* overrides a tool without @tool"):
        collect_tools(shop)


async def test_several_bases() -> None:
    class Left:
        @tool
        def left(self) -> str:
            """Left."""
            return "left"

        @tool
        def both(self) -> str:
            """Both, of the left."""
            return "left"

    class Right:
        @tool
        def both(self) -> str:
            """Both, of the right."""
            return "right"

    class Child(Left, Right): ...

    tools = {t.name: t for t in collect_tools(Child())}
    assert list(tools) == ["both", "left"]
    assert await tools["both"].run({}) == "left"


async def test_tools_made_by_hand_and_static_ones_may_stand_in_a_class() -> None:
    class Mixed:
        ask = Tool("ask", "Asks the user.")
        again = shout

        @staticmethod
        @tool
        def first(a: int) -> int:
            """First."""
            return a

        @tool
        @staticmethod
        def second(a: int) -> int:
            """Second."""
            return a

    tools = collect_tools(Mixed())
    assert [t.name for t in tools] == ["ask", "shout", "first", "second"]
    assert tools[0].is_client_side
    assert await tools[1].run({"text": "a"}) == "A"
    assert await tools[2].run({"a": 1}) == 1
    assert await tools[3].run({"a": 2}) == 2


def test_class_methods_are_refused() -> None:
    with pytest.raises(ToolSchemaError, match="without @classmethod"):

        class Above:
            @tool
            @classmethod
            def make(cls) -> None: ...

    class Below:
        @classmethod
        @tool
        def make(cls) -> None: ...

    with pytest.raises(InvalidArgumentError, match="Below.make is a classmethod"):
        collect_tools(Below)


async def test_the_instance_may_have_another_name() -> None:
    class Odd:
        @tool
        def find(this, a: int) -> Any:  # noqa: N805
            """Find."""
            return this, a

    odd = Odd()
    assert await odd.find.run(odd.find.validate('{"a": 1}')) == (odd, 1)


async def test_a_method_beneath_another_decorator() -> None:
    def log(function: Any) -> Any:
        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return "logged", await function(*args, **kwargs)

        return call

    class Logged:
        @tool
        @log
        async def find(self, a: int) -> int:
            """Find."""
            return a

    logged = Logged()
    assert await logged.find.run(logged.find.validate('{"a": 1}')) == ("logged", 1)


async def test_a_function_that_becomes_a_method_later() -> None:
    def find(self: Any, a: int) -> Any:
        """Find."""
        return self, a

    cls = type("Late", (), {"find": tool(find)})
    late = cls()
    assert await late.find.run({"a": 1}) == (late, 1)


async def test_a_bound_method_is_a_function() -> None:
    class Plain:
        def find(self, a: int) -> Any:
            """Find."""
            return self, a

    plain = Plain()
    made = tool(plain.find)
    assert await made.run(made.validate('{"a": 1}')) == (plain, 1)


def test_options_and_a_second_decoration() -> None:
    made = tool(name="other", max_result_chars=5)(shout)
    assert (made.name, made.max_result_chars, shout.name) == ("other", 5, "shout")
