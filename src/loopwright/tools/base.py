"""What a tool is."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Self, Unpack, cast, overload

from pydantic_core import SchemaValidator
from typing_extensions import TypeVar

from ..errors import InvalidArgumentError, ToolSchemaError
from ..models.base import ToolDeclaration
from .annotations import is_method
from .context import ToolContext
from .docstrings import read_docstring
from .execute import FunctionKind, execute, kind_of
from .options import (
    FunctionToolOptions,
    NamedToolOptions,
    NeedsApproval,
    ToolOptions,
    check_name,
    check_options,
)
from .parse import check_against, validate_arguments
from .schema import Signature, context_parameter_of, read_signature

__all__ = ["FunctionTool", "Tool"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
A = TypeVar("A")

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class Tool:
    """Something that a model may call.

    Most tools are functions decorated with `@tool`. One made by hand has a JSON schema; the arguments are checked to be
    an object with all `required` names, and no others where `additionalProperties` is false; `validate` checks the
    rest. `execute` takes them by name. Without `execute` it is a client-side tool: the run ends with its call open, and
    the host answers.

    Attributes:
        name: Letters, digits, `_` and `-`, at most 64.
        sequential: A batch with a call of it runs one call at a time.
        timeout: Seconds that one call may take; None for no limit.
        max_result_chars: Longer text is cut, with a note; None for no limit.
        to_model_output: What the model sees of the result; None for all of it.
        needs_approval: Whether a person is asked before a call runs.
        on_input_available: Told of the validated input.
    """

    sequential: bool
    timeout: float | None
    max_result_chars: int | None
    to_model_output: Callable[[Any], Any] | None
    needs_approval: NeedsApproval
    on_input_available: Callable[[Any, Any], Any] | None

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        execute: Callable[..., Any] | None = None,
        *,
        validate: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Make a tool by hand.

        Args:
            name: Its name.
            description: What it does and when to use it.
            parameters: JSON schema of its arguments; no arguments when None.
            execute: Runs it, with the arguments by name, and the `ToolContext` in a parameter so annotated; None for a
                client-side tool.
            validate: Checks the arguments beyond their names: raises, with a message for the model, where they do not
                fit; may return others in their place.
            options: See `ToolOptions`.

        Raises:
            InvalidArgumentError: The name, the schema or an option cannot work.
        """
        check_name(name)
        check_options(name, {"description": description, **options}, (*_OPTIONS, "description"))
        for given, function in (("execute", execute), ("validate", validate)):
            if function is not None and not callable(function):
                raise InvalidArgumentError(f"{given} of {name!r} must be a function, not {function!r}.")
        schema = dict(_NO_PARAMETERS if parameters is None else parameters)
        if schema.get("type") != "object":
            raise InvalidArgumentError(
                f"The parameters of {name!r} must be a JSON schema of an object (type: object), "
                f"not of type {schema.get('type')!r}."
            )
        self.name = name
        for option, default in _OPTIONS.items():
            setattr(self, option, options.get(option, default))
        self._description: str | None = description
        self._parameters: dict[str, Any] = schema
        self._check = validate
        self._function = execute
        self._kind: FunctionKind = "sync" if execute is None else kind_of(execute)
        self._context_parameter = None if execute is None else context_parameter_of(execute)
        self._declared: list[ToolDeclaration] = []

    @staticmethod
    def from_function(function: Callable[Q, A], **options: Unpack[FunctionToolOptions]) -> FunctionTool[Q, A]:
        """Make a tool of a function; takes the options of `@tool`. Of a tool, it makes a copy with these options.

        Raises:
            ToolSchemaError: The signature cannot become a schema.
            InvalidArgumentError: An option does not exist or cannot work.
        """
        if isinstance(function, FunctionTool):
            return cast("FunctionTool[Q, A]", function.replace(**cast("Any", options)))
        return FunctionTool(function, **options)

    @property
    def description(self) -> str:
        """What it does and when to use it, as told to the model."""
        return self.declaration().description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON schema of its arguments."""
        return self.declaration().parameters

    @property
    def runs_in_thread(self) -> bool:
        """Whether a call may run in a worker thread, which nothing can stop."""
        return self._kind in ("sync", "generator")

    @property
    def is_client_side(self) -> bool:
        """Whether the host runs it and not the loop."""
        return self._function is None

    def declaration(self) -> ToolDeclaration:
        """The tool as a model sees it; made once."""
        if not self._declared:
            self._declared.append(self._declare())
        return self._declared[0]

    def _declare(self) -> ToolDeclaration:
        return ToolDeclaration(self.name, self._description or "", self._parameters)

    def validate(self, arguments: str) -> dict[str, Any]:
        """Check and convert arguments.

        Args:
            arguments: JSON text as the model wrote it; empty text and `null` mean none. Of a key that stands twice the
                last value counts.

        Returns:
            The values by parameter, in a new dict.

        Raises:
            ToolInputError: They do not fit; the message is for the model.
        """
        return check_against(self._parameters, self._check, arguments, self.name)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext[Any] | None = None) -> Any:
        """Run it with validated arguments.

        Args:
            arguments: What `validate` returned.
            context: For a tool that takes it; where progress goes.

        Returns:
            What the tool returned; of a generator the last value it yielded.

        Raises:
            RuntimeError: It is a client-side tool, which the host runs, or a method's that is not bound to an instance.
            Exception: What the tool raised.
        """
        if self._function is None:
            raise RuntimeError(f"{self.name!r} is a client-side tool: the host runs it and appends its result.")
        return await execute(self._kind, self._bound_call(self._function, arguments, context), context, self.name)

    def _bound_call(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], context: ToolContext[Any] | None
    ) -> Callable[[], Any]:
        if self._context_parameter is None:
            return functools.partial(function, **arguments)
        return functools.partial(function, **{**arguments, self._context_parameter: context})

    def replace(self, **changes: Unpack[NamedToolOptions]) -> Self:
        """A copy with other options; see `NamedToolOptions`.

        Raises:
            InvalidArgumentError: There is no such option, or its value cannot work.
        """
        check_options(self.name, changes, (*_OPTIONS, "name", "description"))
        other = copy.copy(self)
        for option, value in changes.items():
            if option in _OPTIONS:
                setattr(other, option, value)
        name, description = changes.get("name"), changes.get("description")
        if name is not None:
            check_name(name)
            other.name = name
        if description is not None:
            other._description = description  # noqa: SLF001  # its own kind
        other._declared = []  # noqa: SLF001
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{' (client-side)' if self.is_client_side else ''}>"


_OPTIONS: dict[str, Any] = {
    "sequential": False,
    "timeout": None,
    "max_result_chars": None,
    "to_model_output": None,
    "needs_approval": False,
    "on_input_available": None,
}


class FunctionTool(Tool, Generic[P, R]):
    """A tool made of a function, whose signature is its schema. It can still be called like the function.

    Of a method it is a descriptor: `agent.find_order` is the tool bound to that agent.
    """

    def __init__(self, function: Callable[P, R], **options: Unpack[FunctionToolOptions]) -> None:
        """Make a tool of a function.

        Args:
            function: An async function, a sync one (run in a worker thread), or a generator of either kind.
            options: See `FunctionToolOptions`.

        Raises:
            ToolSchemaError: The signature cannot become a schema.
            InvalidArgumentError: An option does not exist or cannot work.
        """
        name = options.get("name") or getattr(function, "__name__", None)
        if not name or name == "<lambda>":
            raise ToolSchemaError(f"{function!r} has no name of its own; give one: tool(name='...').")
        check_options(name, options, (*_OPTIONS, "name", "description", "client_side"))
        self._is_method = is_method(function)
        self._signature: Signature = read_signature(function, is_method=self._is_method)
        common = cast("Any", {option: value for option, value in options.items() if option in _OPTIONS})
        super().__init__(name, **common)
        self._description = options.get("description")  # the docstring's where None
        self._wrapped: Callable[..., Any] = function
        self._function = None if options.get("client_side") else function
        self._kind = kind_of(function)
        self._instance: Any = None
        functools.update_wrapper(cast("Any", self), function, updated=())

    @property
    def validator(self) -> SchemaValidator:
        """Checks arguments."""
        return self._signature.validator

    def _declare(self) -> ToolDeclaration:
        docs = read_docstring(self._wrapped)
        schema = copy.deepcopy(self._signature.parameters)
        for parameter, words in docs.parameters.items():
            property_name = self._signature.properties.get(parameter)
            if property_name in schema["properties"]:
                schema["properties"][property_name].setdefault("description", words)
        description = docs.description if self._description is None else self._description
        return ToolDeclaration(self.name, description, schema)

    def validate(self, arguments: str) -> dict[str, Any]:
        """Check and convert arguments against the signature."""
        return validate_arguments(self._signature.validator, arguments, self.name)

    def _bound_call(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], context: ToolContext[Any] | None
    ) -> Callable[[], Any]:
        if self._is_method and self._instance is None:
            raise RuntimeError(
                f"{self.name!r} is the tool of a method and has no instance to run on. Take it from an instance of "
                "its class, or from collect_tools(instance)."
            )
        leading = (self._instance,) if self._is_method else ()
        values, keywords = self._signature.bind(arguments, context, leading)
        return functools.partial(function, *values, **keywords)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], A], instance: object, owner: type | None = None
    ) -> FunctionTool[Q, A]: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None or not self._is_method:
            return self
        # The declaration is shared: it is made once for all instances.
        bound = copy.copy(self)
        bound._instance = instance  # noqa: SLF001  # its own kind
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written."""
        if self._is_method and self._instance is not None:
            return cast("R", self._wrapped(self._instance, *args, **kwargs))
        return cast("R", self._wrapped(*args, **kwargs))
