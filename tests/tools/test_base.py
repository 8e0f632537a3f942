"""Tools: made by hand and of functions, copied, declared, run."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.errors import InvalidArgumentError, ToolSchemaError
from loopwright.messages import ToolCallPart
from loopwright.models.base import ToolDeclaration
from loopwright.tools import FunctionTool, Tool, ToolContext, tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def double(a: int) -> int:
    """Double a number.

    Args:
        a: The number.
    """
    return 2 * a


async def test_a_tool_made_by_hand() -> None:
    async def execute(a: int) -> int:
        return 2 * a

    made = Tool("double", "Doubles.", SCHEMA, execute)
    assert made.declaration() == ToolDeclaration("double", "Doubles.", SCHEMA)
    assert made.declaration() is made.declaration()
    assert (made.name, made.description, made.parameters) == ("double", "Doubles.", SCHEMA)
    assert not made.is_client_side
    assert await made.run(made.validate('{"a": 4}')) == 8
    assert repr(made) == "<Tool double>"


async def test_a_tool_made_by_hand_gets_the_context() -> None:
    seen: list[Any] = []

    async def execute(hidden: ToolContext[Any], **arguments: Any) -> str:
        seen.append((hidden, arguments))
        return "ok"

    ctx = ToolContext("shop", ToolCallPart("1", "t"))
    made = Tool("t", execute=execute)
    assert await made.run(made.validate('{"a": 1, "hidden": "by the model"}'), ctx) == "ok"
    assert seen == [(ctx, {"a": 1})]


def test_a_tool_without_parameters() -> None:
    assert Tool("now").parameters == {"type": "object", "properties": {}}
    assert Tool("now").description == ""


async def test_without_execute_it_is_client_side() -> None:
    made = Tool("ask", "Asks.", SCHEMA)
    assert made.is_client_side
    assert repr(made) == "<Tool ask (client-side)>"
    assert made.validate('{"a": 1}') == {"a": 1}
    with pytest.raises(RuntimeError, match="'ask' is a client-side tool: the host runs it"):
        await made.run({"a": 1})


async def test_a_client_side_function_gives_its_signature_only() -> None:
    @tool(client_side=True)
    def pick_file(folder: str) -> str:
        """Pick a file."""
        raise AssertionError("never run")

    assert pick_file.is_client_side
    assert pick_file.declaration().description == "Pick a file."
    assert pick_file.validate('{"folder": "/"}') == {"folder": "/"}
    with pytest.raises(RuntimeError, match="client-side"):
        await pick_file.run({"folder": "/"})


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"anyOf": []}])
def test_a_schema_that_is_not_of_an_object_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="'t' must be a JSON schema of an object"):
        Tool("t", parameters=schema)


def test_from_function_takes_the_options_of_the_decorator() -> None:
    made = Tool.from_function(double, name="twice", description="Twice.", sequential=True)
    assert (made.name, made.description, made.sequential) == ("twice", "Twice.", True)
    assert made.parameters["properties"]["a"]["description"] == "The number."
    assert Tool.from_function(double).name == "double"
    assert Tool.from_function(double).description == "Double a number."


def test_from_function_of_a_tool_is_a_copy() -> None:
    made = tool(double)
    copy = Tool.from_function(made, name="twice")
    assert (copy.name, made.name) == ("twice", "double")
    assert isinstance(copy, FunctionTool)
    with pytest.raises(InvalidArgumentError, match="no option 'client_side'"):
        Tool.from_function(made, client_side=True)


@pytest.mark.parametrize("make", [lambda: tool(double), lambda: Tool("double", "Double a number.", SCHEMA, double)])
async def test_replace_makes_a_copy_that_differs(make: Any) -> None:
    made = make()
    before = made.declaration()
    other = made.replace(name="twice", description="Twice.", timeout=2.0, sequential=True)
    assert (other.name, other.description, other.timeout, other.sequential) == ("twice", "Twice.", 2.0, True)
    assert (made.name, made.timeout, made.sequential) == ("double", None, False)
    assert made.declaration() is before
    assert other.declaration().name == "twice"
    assert other.parameters == made.parameters
    assert await other.run(other.validate('{"a": 2}')) == 4
    assert made.replace(name=None, description=None).declaration() == before
    assert made.replace(description="").description == ""


def test_a_description_may_be_empty_on_purpose() -> None:
    assert tool(description="")(double).description == ""


def test_declarations_are_made_once_and_shared_by_all_instances() -> None:
    class Agent:
        @tool
        def find(self, a: int) -> int:
            """Find."""
            return a

    one, two = Agent(), Agent()
    assert one.find.declaration() is two.find.declaration() is Agent.find.declaration()
    assert one.find.replace(name="other").declaration() is not one.find.declaration()


async def test_a_tool_that_changes_its_arguments_changes_nothing_else() -> None:
    @tool
    async def spoil(items: list[int], data: dict[str, Any]) -> int:
        items.append(9)
        data.clear()
        return len(items)

    call = ToolCallPart("1", "spoil", '{"items": [1], "data": {"a": 1}}')
    arguments = spoil.validate(call.arguments)
    for _ in range(2):
        assert await spoil.run(spoil.validate(call.arguments)) == 2
    assert arguments == {"items": [1], "data": {"a": 1}} == call.input


async def test_running_twice_with_the_same_arguments_takes_none_away() -> None:
    @tool
    async def take(a: int, ctx: ToolContext, /, b: int) -> Any:
        return a, ctx, b

    arguments = take.validate('{"a": 1, "b": 2}')
    assert await take.run(arguments) == await take.run(arguments) == (1, None, 2)
    assert arguments == {"a": 1, "b": 2}


async def test_parameters_may_have_any_name() -> None:
    @tool
    async def take(self_: int, function: int, name: int, arguments: int, context: int, args: int, keywords: int) -> Any:
        return self_ + function + name + arguments + context + args + keywords

    names = ["self_", "function", "name", "arguments", "context", "args", "keywords"]
    assert list(take.parameters["properties"]) == names
    assert await take.run(dict.fromkeys(names, 1)) == 7


def test_a_bad_name_of_a_function_is_refused() -> None:
    def size() -> None: ...

    size.__name__ = "größe"
    with pytest.raises(InvalidArgumentError, match="cannot be named 'größe'"):
        tool(size)
    with pytest.raises(ToolSchemaError, match="no name of its own"):
        tool(lambda: None)


@pytest.mark.parametrize("option", ["execute", "validate"])
def test_what_is_no_function_is_refused(option: str) -> None:
    wrong: dict[str, Any] = {option: 3}
    with pytest.raises(InvalidArgumentError, match=f"{option} of 't' must be a function, not 3"):
        Tool("t", **wrong)
