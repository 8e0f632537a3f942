"""What a tool is."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Self, cast, overload

from pydantic_core import SchemaValidator
from typing_extensions import TypeVar

from ..errors import InvalidArgumentError, ToolSchemaError
from ..models.base import ToolDeclaration
from .context import ToolContext
from .docstrings import read_docstring
from .execute import FunctionKind, execute, kind_of
from .parse import parse_object, validate_arguments
from .schema import Signature, read_signature, without_titles

__all__ = ["FunctionTool", "Tool"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
A = TypeVar("A")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool:
    """Something that a model may call.

    Most tools are functions decorated with `@tool`. One made by hand has a JSON schema, against which the arguments are
    checked to be an object and no more; `execute` takes them by name. Without `execute` it is a client-side tool: the
    run ends with its call open, and the host answers.

    Attributes:
        name: Letters, digits, `_` and `-`, at most 64.
        sequential: A batch with a call of it runs one call at a time.
        max_result_chars: Longer text is cut, with a note; None for no limit.
        to_model_output: What the model sees of the result; None for all of it.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        execute: Callable[..., Any] | None = None,
        *,
        sequential: bool = False,
        max_result_chars: int | None = None,
        to_model_output: Callable[[Any], Any] | None = None,
    ) -> None:
        """Make a tool by hand.

        Args:
            name: Its name.
            description: What it does and when to use it.
            parameters: JSON schema of its arguments; no arguments when None.
            execute: Runs it; None for a client-side tool.
            sequential: Whether a batch with a call of it runs one call at a time.
            max_result_chars: Longer text is cut, with a note.
            to_model_output: What the model sees of the result.

        Raises:
            InvalidArgumentError: The name or the schema cannot be sent to a model.
        """
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(
                f"A tool cannot be named {name!r}: models take letters, digits, '_' and '-', at most 64 of them."
            )
        if max_result_chars is not None and max_result_chars < 1:
            raise InvalidArgumentError(f"max_result_chars of {name!r} must be positive, not {max_result_chars!r}.")
        schema: dict[str, Any] = {"type": "object", "properties": {}} if parameters is None else dict(parameters)
        if schema.get("type") != "object":
            raise InvalidArgumentError(
                f"The parameters of {name!r} must be a JSON schema of an object (type: object), "
                f"not of type {schema.get('type')!r}."
            )
        self.name = name
        self.sequential = sequential
        self.max_result_chars = max_result_chars
        self.to_model_output = to_model_output
        self._description = description
        self._parameters: dict[str, Any] = schema
        self._function = execute
        self._kind: FunctionKind = "sync" if execute is None else kind_of(execute)
        self._declaration: ToolDeclaration | None = None

    @staticmethod
    def from_function(function: Callable[Q, A], **options: Any) -> FunctionTool[Q, A]:
        """Make a tool of a function; takes the options of `@tool`.

        Raises:
            ToolSchemaError: The signature cannot become a schema.
        """
        if isinstance(function, FunctionTool):
            return cast("FunctionTool[Q, A]", function.replace(**options))
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
    def is_client_side(self) -> bool:
        """Whether the host runs it and not the loop."""
        return self._function is None

    def declaration(self) -> ToolDeclaration:
        """The tool as a model sees it; made once."""
        if self._declaration is None:
            self._declaration = self._declare()
        return self._declaration

    def _declare(self) -> ToolDeclaration:
        return ToolDeclaration(self.name, self._description, self._parameters)

    def validate(self, arguments: str) -> dict[str, Any]:
        """Check and convert arguments.

        Args:
            arguments: JSON text as the model wrote it; empty text and `null` mean none.

        Returns:
            The values by parameter, in a new dict.

        Raises:
            ToolInputError: They do not fit; the message is for the model.
        """
        return parse_object(arguments, self.name)

    async def run(self, arguments: dict[str, Any], context: ToolContext[Any] | None = None) -> Any:
        """Run it with validated arguments.

        Raises:
            RuntimeError: It is a client-side tool, which the host runs.
            Exception: What the tool raised.
        """
        if self._function is None:
            raise RuntimeError(f"{self.name!r} is a client-side tool: the host runs it and appends its result.")
        return await execute(self._kind, self._bound_call(self._function, arguments, context), context, self.name)

    def _bound_call(
        self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext[Any] | None
    ) -> Callable[[], Any]:
        del context
        return functools.partial(function, **arguments)

    def replace(self, **changes: Any) -> Self:
        """A copy with other options: `name`, `description`, `sequential`, `max_result_chars`, `to_model_output`.

        Raises:
            InvalidArgumentError: There is no such option, or its value cannot work.
        """
        known = {"name", "description", "sequential", "max_result_chars", "to_model_output"}
        unknown = sorted(set(changes) - known)
        if unknown:
            raise InvalidArgumentError(
                f"A tool has no option {', '.join(map(repr, unknown))}. It has: {', '.join(sorted(known))}."
            )
        # The constructor checks the values; what it makes is thrown away.
        Tool(str(changes.get("name", self.name)), max_result_chars=changes.get("max_result_chars"))
        other = copy.copy(self)
        for name, value in changes.items():
            setattr(other, "_description" if name == "description" else name, value)
        other._declaration = None  # noqa: SLF001  # its own kind
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{' (client-side)' if self.is_client_side else ''}>"


class FunctionTool(Tool, Generic[P, R]):
    """A tool made of a function, whose signature is its schema. It can still be called like the function.

    Of a method it is a descriptor: `agent.find_order` is the tool bound to that agent.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        sequential: bool = False,
        max_result_chars: int | None = None,
        to_model_output: Callable[[Any], Any] | None = None,
        client_side: bool = False,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a tool of a function.

        Args:
            function: An async function, a sync one (run in a worker thread), or a generator of either kind.
            name: The function's name when None.
            description: From the docstring when None.
            sequential: Whether a batch with a call of it runs one call at a time.
            max_result_chars: Longer text is cut, with a note.
            to_model_output: What the model sees of the result.
            client_side: Only the signature is used; the host runs it.
            namespace: Local names for annotations that are strings.

        Raises:
            ToolSchemaError: The signature cannot become a schema.
        """
        own_name = name or getattr(function, "__name__", None)
        if not own_name or own_name == "<lambda>":
            raise ToolSchemaError(f"{function!r} has no name of its own; give one: tool(name='...').")
        super().__init__(
            own_name,
            description or "",
            execute=None if client_side else function,
            sequential=sequential,
            max_result_chars=max_result_chars,
            to_model_output=to_model_output,
        )
        self._described = description is not None
        self._wrapped: Callable[..., Any] = function
        self._is_method = _is_method(function)
        self._signature: Signature = read_signature(function, is_method=self._is_method, namespace=namespace or {})
        self._instance: Any = None
        functools.update_wrapper(cast("Any", self), function, updated=())

    @property
    def validator(self) -> SchemaValidator:
        """Checks arguments."""
        return self._signature.validator

    def _declare(self) -> ToolDeclaration:
        docs = read_docstring(self._wrapped)
        schema = copy.deepcopy(self._signature.parameters)
        properties: dict[str, Any] = schema.get("properties", {})
        for name, words in docs.parameters.items():
            if name in properties:
                properties[name].setdefault("description", words)
        description = self._description if self._described or self._description else docs.description
        return ToolDeclaration(self.name, description, without_titles(schema))

    def validate(self, arguments: str) -> dict[str, Any]:
        """Check and convert arguments against the signature."""
        return validate_arguments(self._signature.validator, arguments, self.name)

    def _bound_call(
        self, function: Callable[..., Any], arguments: dict[str, Any], context: ToolContext[Any] | None
    ) -> Callable[[], Any]:
        signature = self._signature
        leading: list[Any] = [self._instance] if self._is_method else []
        keywords = dict(arguments)
        if signature.context_parameter is not None and not signature.context_is_positional:
            keywords[signature.context_parameter] = context
        if signature.context_is_positional:
            leading.append(context)
        for name, default in signature.positional:
            leading.append(keywords.pop(name, default))
        return functools.partial(function, *leading, **keywords)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], A], instance: object, owner: type | None = None
    ) -> FunctionTool[Q, A]: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None or not self._is_method:
            return self
        bound = copy.copy(self)
        bound._instance = instance  # noqa: SLF001  # its own kind
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written."""
        if self._is_method and self._instance is not None:
            return cast("R", self._wrapped(self._instance, *args, **kwargs))
        return cast("R", self._wrapped(*args, **kwargs))


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether the function was written in a class: its first parameter is then the instance."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount > 0 and code.co_varnames[0] == "self"
