"""Signatures become schemas, or are refused."""

from __future__ import annotations

import collections.abc
import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Optional, Union
from uuid import UUID

import pytest
from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypedDict

from loopwright.errors import ToolInputError, ToolSchemaError
from loopwright.messages import ToolCallPart
from loopwright.tools import Tool, ToolContext, tool
from loopwright.tools.schema import without_titles

if TYPE_CHECKING:
    from somewhere_else import Hidden


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(tool(function).parameters)


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return schema(function)["properties"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    title: str = Field(title="Item title", description="What it is called.")
    price: Decimal = Decimal(1)


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Tree(BaseModel):
    children: list[Tree] = []


# ---------------------------------------------------------------- what a schema looks like


def test_the_whole_schema_of_a_documented_function() -> None:
    @tool
    async def refund(
        order_id: str,
        amount: Annotated[Decimal, Field(gt=0, description="In euro.")],
        *,
        reason: Literal["broken", "late"] = "broken",
        note: str | None = None,
    ) -> None:
        """Pay money back.

        Args:
            order_id: The id on the receipt.
            amount: Not used: the annotation says it.
            reason: Why.
        """

    made = refund.declaration()
    assert (made.name, made.description) == ("refund", "Pay money back.")
    assert made.parameters == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "The id on the receipt."},
            "amount": {
                "anyOf": [
                    {"type": "number", "exclusiveMinimum": 0},
                    {"type": "string"},
                ],
                "description": "In euro.",
            },
            "reason": {"type": "string", "enum": ["broken", "late"], "default": "broken", "description": "Why."},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["order_id", "amount"],
        "additionalProperties": False,
    }


def test_no_parameters() -> None:
    def now() -> str: ...

    assert schema(now) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_schema_holds_no_titles_but_keeps_what_is_named_title() -> None:
    def add(item: Item, title: str, data: dict[str, str] = {"title": "kept"}) -> None: ...  # noqa: B006

    made = schema(add)
    assert made["properties"]["title"] == {"type": "string"}
    assert made["properties"]["data"]["default"] == {"title": "kept"}
    assert made["properties"]["item"] == {"$ref": "#/$defs/Item"}
    assert made["$defs"]["Item"]["properties"]["title"] == {"type": "string", "description": "What it is called."}
    assert "title" not in made
    assert "title" not in made["$defs"]["Item"]


@pytest.mark.parametrize(
    ("annotation", "expected", "text", "value"),
    [
        (int, {"type": "integer"}, "3", 3),
        (int, {"type": "integer"}, '"12"', 12),
        (float, {"type": "number"}, "3", 3.0),
        (bool, {"type": "boolean"}, '"true"', True),
        (str, {"type": "string"}, '"x"', "x"),
        (Any, {}, '{"a": [1]}', {"a": [1]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}, '[1, "2"]', [1, 2]),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}, "[1]", [1]),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1, 1]", {1}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
            '[1, "a"]',
            (1, "a"),
        ),
        (
            dict[str, list[int]],
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
            '{"a": [1]}',
            {"a": [1]},
        ),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": 1}', {"a": 1}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "1", 1),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, '"1"', "1"),  # noqa: UP007
        (Literal["a", 1], {"enum": ["a", 1]}, '"a"', "a"),
        (Literal["a"], {"type": "string", "const": "a"}, '"a"', "a"),
        (
            datetime,
            {"type": "string", "format": "date-time"},
            '"2026-01-02T03:04:05Z"',
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ),
        (date, {"type": "string", "format": "date"}, '"2026-01-02"', date(2026, 1, 2)),
        (timedelta, {"type": "string", "format": "duration"}, '"PT1M"', timedelta(minutes=1)),
        (UUID, {"type": "string", "format": "uuid"}, '"00000000-0000-0000-0000-000000000001"', UUID(int=1)),
        (Annotated[int, Field(ge=1, le=3)], {"type": "integer", "minimum": 1, "maximum": 3}, "2", 2),
        (Annotated[str, "a remark"], {"type": "string"}, '"x"', "x"),
    ],
)
def test_types(annotation: Any, expected: dict[str, Any], text: str, value: Any) -> None:
    def take(given): ...

    take.__annotations__ = {"given": annotation}
    made = tool(take)
    assert made.parameters["properties"] == {"given": expected}
    assert made.validate(f'{{"given": {text}}}') == {"given": value}


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Colour, '"red"', Colour.RED),
        (Item, '{"title": "a", "price": "2.50"}', Item(title="a", price=Decimal("2.50"))),
        (Point, '{"x": "1"}', Point(1)),
        (Options, '{"deep": true}', {"deep": True}),
        (list[Item | None], '[null, {"title": "a"}]', [None, Item(title="a")]),
        (Tree, '{"children": [{"children": []}]}', Tree(children=[Tree()])),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, '"1.10"', Decimal("1.10")),
    ],
)
def test_named_types(annotation: Any, text: str, value: Any) -> None:
    def take(given): ...

    take.__annotations__ = {"given": annotation}
    assert tool(take).validate(f'{{"given": {text}}}') == {"given": value}


def test_named_types_are_referred_to() -> None:
    def take(point: Point, colour: Colour, options: Options, tree: Tree) -> None: ...

    made = schema(take)
    assert made["$defs"]["Point"]["required"] == ["x"]
    assert made["$defs"]["Colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert made["$defs"]["Options"]["required"] == ["deep"]
    assert made["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


# ---------------------------------------------------------------- defaults and kinds of parameters


async def test_defaults_are_the_functions_own_and_are_declared() -> None:
    unique = object()

    @tool
    async def take(
        a: int = 1,
        b: list[int] = [2],  # noqa: B006
        c: Any = unique,
        d: Colour = Colour.RED,
        e: str | None = None,
    ) -> Any:
        return a, b, c, d, e

    made = take.parameters["properties"]
    assert (made["a"]["default"], made["b"]["default"], made["e"]["default"]) == (1, [2], None)
    assert "default" not in made["c"]
    assert "required" not in take.parameters
    assert take.validate("{}") == {}
    assert await take.run({}) == (1, [2], unique, Colour.RED, None)


async def test_defaults_in_field() -> None:
    @tool
    async def take(
        a: int = Field(5, ge=1, description="A."),
        b: list[int] = Field(default_factory=list),  # noqa: B008
        c: int = Field(description="C."),
        d: Annotated[int, Field(default=7)] = Field(description="D."),
    ) -> Any:
        b.append(a)
        return a, b, c, d

    made = take.parameters
    assert made["required"] == ["c"]
    assert made["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 5, "description": "A."}
    assert made["properties"]["c"] == {"type": "integer", "description": "C."}
    assert made["properties"]["d"] == {"type": "integer", "default": 7, "description": "D."}
    for _ in range(2):  # a default list is not shared between calls
        assert await take.run(take.validate('{"c": 1}')) == (5, [5], 1, 7)
    with pytest.raises(ToolInputError, match="greater than or equal to 1"):
        take.validate('{"a": 0, "c": 1}')


async def test_aliases_are_what_the_model_sees() -> None:
    @tool
    async def send(
        sender: Annotated[str, Field(alias="from")], to: str = Field("all", validation_alias="class")
    ) -> Any:
        """Send.

        Args:
            sender: Who sends.
            to: Who gets it.
        """
        return sender, to

    assert send.parameters["properties"] == {
        "from": {"type": "string", "description": "Who sends."},
        "class": {"type": "string", "default": "all", "description": "Who gets it."},
    }
    assert await send.run(send.validate('{"from": "a", "class": "b"}')) == ("a", "b")
    with pytest.raises(ToolInputError, match="from: Field required"):
        send.validate('{"sender": "a"}')


def test_an_alias_of_several_does_not_get_in_the_way() -> None:
    def take(a: Annotated[int, Field(validation_alias=AliasChoices("b", "c"))]) -> None: ...

    assert tool(take).validate('{"c": 1}') == {"a": 1}


async def test_positional_only_and_keyword_only_parameters() -> None:
    @tool
    async def take(a: int, ctx: ToolContext, b: int = 2, /, c: int = 3, *, d: int) -> Any:
        return a, ctx, b, c, d

    ctx = ToolContext(None, ToolCallPart("1", "take"))
    assert list(take.parameters["properties"]) == ["a", "b", "c", "d"]
    assert await take.run(take.validate('{"a": 1, "d": 4}'), ctx) == (1, ctx, 2, 3, 4)
    assert await take.run(take.validate('{"a": 1, "b": 5, "d": 4}'), ctx) == (1, ctx, 5, 3, 4)


async def test_a_partial_hides_what_it_fills_in() -> None:
    async def take(a: int, b: Point, c: object) -> Any:
        return a, b, c

    unique = object()
    made = Tool.from_function(functools.partial(take, c=unique), name="take")
    assert list(made.parameters["properties"]) == ["a", "b"]
    assert await made.run(made.validate('{"a": 1, "b": {"x": 2}}')) == (1, Point(2), unique)


async def test_a_wrapped_function_keeps_its_signature() -> None:
    def log(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return "logged", await function(*args, **kwargs)

        return call

    @tool
    @log
    async def take(a: int) -> Any:
        return a

    assert await take.run(take.validate('{"a": 1}')) == ("logged", 1)


async def test_callable_objects_and_bound_methods() -> None:
    class Adder:
        def __init__(self, more: int) -> None:
            self.more = more

        async def __call__(self, a: int) -> int:
            """Add."""
            return a + self.more

        async def add_twice(self, a: int) -> int:
            """Add twice."""
            return a + 2 * self.more

    made, method = Tool.from_function(Adder(2), name="add"), Tool.from_function(Adder(2).add_twice)
    assert await made.run(made.validate('{"a": 1}')) == 3
    assert (method.name, list(method.parameters["properties"])) == ("add_twice", ["a"])
    assert await method.run(method.validate('{"a": 1}')) == 5


# ---------------------------------------------------------------- the context


@pytest.mark.parametrize("position", range(3))
async def test_the_context_is_injected_wherever_it_stands(position: int) -> None:
    async def first(anything: ToolContext, a: int, b: int = 2) -> Any:
        return anything, a, b

    async def middle(a: int, context: ToolContext[Point], b: int = 2) -> Any:
        return context, a, b

    async def last(a: int, b: int = 2, *, ctx: Annotated[ToolContext[Any], "it"] | None = None) -> Any:
        return ctx, a, b

    made = tool([first, middle, last][position])
    ctx = ToolContext(None, ToolCallPart("1", "t"))
    assert list(made.parameters["properties"]) == ["a", "b"]
    assert await made.run(made.validate('{"a": 1}'), ctx) == (ctx, 1, 2)


def test_the_model_cannot_give_the_context() -> None:
    @tool
    def take(ctx: ToolContext) -> None: ...

    with pytest.raises(ToolInputError, match="ctx: Extra inputs are not permitted"):
        take.validate('{"ctx": 1}')


@pytest.mark.parametrize(
    "annotation",
    ["ToolContext[Hidden]", "ToolContext[module.Hidden]", "ToolContext[list[Hidden]]", "ToolContext[Hidden] | None"],
)
async def test_the_type_of_the_context_may_be_hidden_from_the_run_time(annotation: str) -> None:
    async def take(ctx):
        return ctx

    take.__annotations__ = {"ctx": annotation, "return": "Hidden"}
    ctx = ToolContext(None, ToolCallPart("1", "take"))
    assert await tool(take).run({}, ctx) is ctx


async def test_tool_context_itself_may_be_hidden_from_the_run_time() -> None:
    scope: dict[str, Any] = {}
    exec("async def take(ctx: 'ToolContext[Hidden]', a: int):\n    return ctx, a", scope)  # a module without the import
    ctx = ToolContext(None, ToolCallPart("1", "take"))
    made = tool(scope["take"])
    assert await made.run(made.validate('{"a": 1}'), ctx) == (ctx, 1)


# ---------------------------------------------------------------- names of annotations


def test_local_names_resolve() -> None:
    class Local(BaseModel):
        a: int

    class Holder:
        class Inner(BaseModel):
            b: int

        @tool
        def take(self, local: Local, inner: Inner) -> Missing:  # noqa: F821  # what it returns is nobody's business
            ...

    made = Holder().take
    assert set(made.parameters["$defs"]) == {"Local", "Inner"}
    assert made.validate('{"local": {"a": 1}, "inner": {"b": 2}}') == {"local": Local(a=1), "inner": Holder.Inner(b=2)}


def test_names_of_callers_that_do_not_enclose_the_function_do_not_leak_in() -> None:
    def make() -> Any:
        def take(a: Stranger) -> None: ...

        return tool(take)

    class Stranger(BaseModel): ...

    def elsewhere() -> Any:
        Foreign = int  # noqa: F841, N806
        return outside()

    assert make().parameters["$defs"] == {"Stranger": {"type": "object", "properties": {}}}
    with pytest.raises(ToolSchemaError, match="'Foreign'"):
        elsewhere()


def outside() -> Any:
    def take(a: Foreign) -> None: ...  # noqa: F821

    return tool(take)


def test_names_of_a_closure_resolve_after_its_function_has_returned() -> None:
    def make() -> Any:
        class Kept(BaseModel): ...

        def take(a: Kept) -> Any:
            return Kept

        return take

    assert list(tool(make()).parameters["$defs"]) == ["Kept"]


# ---------------------------------------------------------------- refusals


class Handle:
    """No schema."""


def unannotated(a, b: int) -> None: ...
def unknown(a: Nowhere) -> None: ...  # noqa: F821
def hidden(a: list[Hidden]) -> None: ...
def handle(a: int, b: Handle) -> None: ...
def callback(a: Callable[[], None]) -> None: ...
def stars(*a: int) -> None: ...
def double_stars(**a: int) -> None: ...
def two(a: ToolContext, b: ToolContext[int]) -> None: ...
def nested(a: list[ToolContext]) -> None: ...
def broken(a: "int |") -> None: ...  # noqa: F722
def attribute(a: enum.Nothing) -> None: ...
def lazy(a: Iterable[int]) -> None: ...
def lazy_inside(a: dict[str, collections.abc.Generator[int, None, None]]) -> None: ...
def wrong(a: 5) -> None: ...
def bad_model(a: Model) -> None: ...


class Model(BaseModel):
    later: Undefined  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unannotated, ["'a' has no annotation", "a: str"]),
        (unknown, ["'a'", "uses 'Nowhere', which cannot be resolved", "Define or import it"]),
        (hidden, ["'a'", "uses 'Hidden'", "TYPE_CHECKING"]),
        (handle, ["'b' of type <class", "Handle", "cannot become a schema", "ToolContext"]),
        (callback, ["'a'", "cannot become a schema"]),
        (stars, ["'a' (*a)", "Use named parameters"]),
        (double_stars, ["'a' (**a)", "Use named parameters"]),
        (two, ["'b' takes the ToolContext", "'a' does too"]),
        (nested, ["'a'", "cannot become a schema"]),
        (broken, ["'a': its annotation cannot be read (SyntaxError"]),
        (attribute, ["'a': its annotation cannot be read (AttributeError"]),
        (lazy, ["'a' would be checked only while it is read", "list[...]"]),
        (lazy_inside, ["'a' would be checked only while it is read"]),
        (wrong, ["'a'"]),
        (bad_model, ["'a'", "cannot become a schema"]),
    ],
)
def test_what_cannot_become_a_schema_is_refused_at_decoration(function: Any, words: list[str]) -> None:
    with pytest.raises(ToolSchemaError) as caught:
        tool(function)
    for word in [f"{function.__qualname__}: ", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("function", [len, dict.get])
def test_builtins_without_annotations_are_refused(function: Any) -> None:
    with pytest.raises(ToolSchemaError):
        tool(function)


@pytest.mark.parametrize(
    ("function", "words"), [(lambda: None, "no name"), (functools.partial(len), "no name"), (5, "no name")]
)
def test_what_has_no_name_is_refused(function: Any, words: str) -> None:
    with pytest.raises(ToolSchemaError, match=words):
        tool(function)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ToolSchemaError, match="5 cannot be called"):
        tool(name="five")(5)


# ---------------------------------------------------------------- fine points


def test_data_in_a_schema_is_not_taken_for_a_schema() -> None:
    def take(
        a: Annotated[dict[str, str], Field(default={"title": "kept"}, examples=[{"title": "kept"}])],
        b: Annotated[Any, Field(json_schema_extra={"const": {"title": "kept"}})],
    ) -> None: ...

    made = properties(take)
    assert (made["a"]["default"], made["a"]["examples"]) == ({"title": "kept"}, [{"title": "kept"}])
    assert made["b"] == {"const": {"title": "kept"}}


def test_names_that_map_to_schemas_are_kept_whatever_they_are() -> None:
    inner = {"title": {"type": "string", "title": "Title"}}
    clean = {"title": {"type": "string"}}
    for key in ("properties", "patternProperties", "dependentSchemas", "$defs"):
        assert without_titles({"title": "T", key: inner, "anyOf": [{"title": "T"}]}) == {key: clean, "anyOf": [{}]}


def test_a_scope_is_that_of_the_functions_own_module() -> None:
    class Foreign(BaseModel): ...

    here = inspect.currentframe().f_code.co_qualname
    scope: dict[str, Any] = {}
    exec("def take(a: 'Foreign'): ...", scope)  # a function of another module, with a name like one of this function
    scope["take"].__qualname__ = f"{here}.<locals>.take"
    with pytest.raises(ToolSchemaError, match="'Foreign'"):
        tool(scope["take"])
    assert Foreign


def test_the_first_parameter_of_a_bound_method_is_not_the_instance() -> None:
    class Plain:
        def find(self, a): ...

    with pytest.raises(ToolSchemaError, match="'a' has no annotation"):
        tool(Plain().find)
