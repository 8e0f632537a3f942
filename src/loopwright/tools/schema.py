"""From a signature to a schema: what a function takes, checked and compiled once, at decoration."""

from __future__ import annotations

import collections.abc
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, cast, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, SchemaError, SchemaValidator, to_jsonable_python
from typing_extensions import TypedDict

from ..errors import ToolSchemaError
from .annotations import is_context, name_of, resolve_annotation, scope_of, signature_of

__all__ = ["Signature", "context_parameter_of", "read_signature", "without_titles"]

_EMPTY = inspect.Parameter.empty
_SCHEMA_FAILURES = (PydanticUserError, PydanticInvalidForJsonSchema, SchemaError, TypeError, NameError, ValueError)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes from the model.

    Attributes:
        validator: Checks and converts the arguments, from JSON text.
        parameters: JSON schema of the arguments, without the descriptions of the docstring.
        properties: For each parameter its name in the schema, which is its alias where it has one.
        positional: Names of the positional-only parameters in order, the context's included, with their defaults.
        context_parameter: The parameter that takes the `ToolContext`, None where there is none.
    """

    validator: SchemaValidator
    parameters: dict[str, Any]
    properties: Mapping[str, str]
    positional: tuple[tuple[str, Any], ...]
    context_parameter: str | None

    def bind(
        self, arguments: Mapping[str, Any], context: Any, leading: tuple[Any, ...] = ()
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments for the function itself.

        Args:
            arguments: Validated arguments by parameter.
            context: The `ToolContext`, for the parameter that takes it.
            leading: What comes before all parameters: a method's instance.

        Returns:
            Positional arguments and keyword arguments.
        """
        keywords = dict(arguments)
        if self.context_parameter is not None:
            keywords[self.context_parameter] = context
        values = list(leading)
        for name, default in self.positional:
            values.append(keywords.pop(name, default))
        return values, keywords


def read_signature(function: Callable[..., Any], *, is_method: bool) -> Signature:
    """Compile a function's signature.

    Args:
        function: The function.
        is_method: Whether the first parameter is the instance, which the model does not give.

    Raises:
        ToolSchemaError: It cannot become a schema; the message names function, parameter and what to do.
    """
    name = name_of(function)
    scope = scope_of(function)
    context_parameter: str | None = None
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    properties: dict[str, str] = {}
    positional: list[tuple[str, Any]] = []
    for parameter in _open_parameters(function)[1 if is_method else 0 :]:
        where = f"{name}: the parameter {parameter.name!r}"
        _check_parameter(parameter, where)
        annotation = resolve_annotation(parameter.annotation, scope, where)
        default = parameter.default
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append((parameter.name, None if isinstance(default, FieldInfo) else default))
        if is_context(annotation):
            if context_parameter is not None:
                raise ToolSchemaError(f"{where} takes the ToolContext, and {context_parameter!r} does too. Keep one.")
            context_parameter = parameter.name
            continue
        if _is_lazy(annotation):
            raise ToolSchemaError(f"{where} would be checked only while it is read. Use list[...] or Sequence[...].")
        if isinstance(default, FieldInfo):
            # pydantic fills in its default: Python would hand the function the FieldInfo itself.
            fields[parameter.name] = annotation = Annotated[annotation, default]
        elif default is _EMPTY:
            fields[parameter.name] = annotation
        else:
            fields[parameter.name] = NotRequired[annotation]
            defaults[parameter.name] = default
        properties[parameter.name] = _property_name(parameter.name, annotation)
    validator, schema = _compile(name, fields)
    _add_defaults(schema, {properties[parameter]: default for parameter, default in defaults.items()})
    return Signature(validator, schema, properties, tuple(positional), context_parameter)


def context_parameter_of(function: Callable[..., Any]) -> str | None:
    """The parameter of a function that takes the `ToolContext`, where other annotations need not be types."""
    try:
        parameters, scope = _open_parameters(function), scope_of(function)
    except ToolSchemaError:
        return None
    for parameter in parameters:
        try:
            if is_context(resolve_annotation(parameter.annotation, scope, "")):
                return parameter.name
        except ToolSchemaError:
            continue
    return None


def _open_parameters(function: Any) -> list[inspect.Parameter]:
    """The parameters, without those that a partial has filled in by name."""
    filled: Mapping[str, Any] = cast("Any", function).keywords if isinstance(function, functools.partial) else {}
    return [
        parameter for name, parameter in signature_of(cast("Any", function)).parameters.items() if name not in filled
    ]


def _check_parameter(parameter: inspect.Parameter, where: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise ToolSchemaError(
            f"{where} ({stars}{parameter.name}) cannot become a schema, for the model must know each argument by name. "
            "Use named parameters, or one of a list or dict type."
        )
    if parameter.annotation is _EMPTY:
        raise ToolSchemaError(f"{where} has no annotation. Give it a type, like {parameter.name}: str.")


def _is_lazy(annotation: Any) -> bool:
    """Whether pydantic would validate some of it only when it is iterated, when the tool already runs."""
    kind = get_origin(annotation) or annotation
    if kind is collections.abc.Iterable or kind is collections.abc.Generator:
        return True
    return any(_is_lazy(argument) for argument in get_args(annotation))


def _property_name(name: str, annotation: Any) -> str:
    while get_origin(annotation) is Annotated:
        for info in reversed(annotation.__metadata__):
            alias = (info.validation_alias or info.alias) if isinstance(info, FieldInfo) else None
            if isinstance(alias, str):
                return alias
        annotation = annotation.__origin__
    return name


def _compile(name: str, fields: dict[str, Any]) -> tuple[SchemaValidator, dict[str, Any]]:
    try:
        adapter = _adapter_of(name, fields)
        schema = without_titles(adapter.json_schema())
    except _SCHEMA_FAILURES as error:
        raise ToolSchemaError(_blame(name, fields, error)) from None
    # A TypedDict of simple types compiles to a plain validator; the adapter itself adds 0.3 µs for each call.
    ordered: dict[str, Any] = {"type": "object", "properties": {}, **schema}
    return cast("SchemaValidator", adapter.validator), ordered


def _adapter_of(name: str, fields: dict[str, Any]) -> TypeAdapter[Any]:
    make: Any = TypedDict  # checkers know only TypedDicts that are written out
    arguments = make(name.replace("<locals>", "").replace(".", "_"), fields)
    # JSON has no NaN; one would slip through every comparison that guards the tool.
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    return TypeAdapter(arguments)


def _blame(name: str, fields: dict[str, Any], error: Exception) -> str:
    for field, annotation in fields.items():
        try:
            _adapter_of(name, {field: annotation}).json_schema()
        except _SCHEMA_FAILURES as cause:
            shown = get_args(annotation)[0] if get_origin(annotation) is NotRequired else annotation
            reason = str(cause).partition("\n")[0].rstrip(".")
            return (
                f"{name}: the parameter {field!r} of type {shown!r} cannot become a schema ({reason}). Use plain "
                "types, dataclasses, TypedDicts or pydantic models; for what the model need not give, use ToolContext."
            )
    return f"{name}: the signature cannot become a schema: {error}"


def _add_defaults(schema: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    properties = schema["properties"]
    for name, default in defaults.items():
        if name in properties and "$ref" not in properties[name]:
            try:
                properties[name]["default"] = to_jsonable_python(default)
            except (PydanticSerializationError, ValueError):
                continue


_NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_DATA = ("default", "const", "enum", "examples")


def without_titles(schema: Any) -> Any:
    """A JSON schema without the titles that pydantic makes of names: they say nothing new and cost tokens."""
    if isinstance(schema, list):
        return list(map(without_titles, cast("Any", schema)))
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in _NAMED_SCHEMAS:
            kept[key] = {name: without_titles(inner) for name, inner in value.items()}
        elif key != "title":
            kept[key] = value if key in _DATA else without_titles(value)
    return kept
