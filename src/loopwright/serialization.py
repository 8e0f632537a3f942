"""Messages, events and usage as JSON, and back.

A document is an object that names its version: `{"loopwright": 1, "messages": [...]}`. What this version does not know
is refused and never dropped: reading and writing a newer document would lose what it had to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json
from typing_extensions import TypedDict

from .errors import InvalidDocumentError
from .events import LoopEvent, ModelEvent, StreamPart
from .messages import Message
from .usage import Usage

__all__ = [
    "VERSION",
    "AnyEvent",
    "dump_events",
    "dump_messages",
    "dump_usage",
    "load_events",
    "load_messages",
    "load_usage",
]

VERSION = 1

AnyEvent: TypeAlias = ModelEvent | LoopEvent | StreamPart


def dump_messages(messages: Iterable[Message]) -> bytes:
    """Write messages as a JSON document.

    Raises:
        InvalidDocumentError: Details or provider data hold what is no JSON.
    """
    return _dump("messages", list(messages))


def load_messages(document: bytes | str) -> list[Message]:
    """Read messages from a JSON document.

    Raises:
        InvalidDocumentError: It is no such document, or a newer one; the message says where and what to do.
    """
    return cast("list[Message]", _load("messages", document))


def dump_events(events: Iterable[AnyEvent]) -> bytes:
    """Write events as a JSON document. The exception of an `Error` stays behind; its description goes with it."""
    return _dump("events", list(events))


def load_events(document: bytes | str) -> list[AnyEvent]:
    """Read events from a JSON document.

    Raises:
        InvalidDocumentError: It is no such document, or a newer one.
    """
    return cast("list[AnyEvent]", _load("events", document))


def dump_usage(usage: Usage) -> bytes:
    """Write usage as a JSON document."""
    return _dump("usage", usage)


def load_usage(document: bytes | str) -> Usage:
    """Read usage from a JSON document.

    Raises:
        InvalidDocumentError: It is no such document, or a newer one.
    """
    return cast("Usage", _load("usage", document))


# ---------------------------------------------------------------- how

_Kind: TypeAlias = Literal["messages", "events", "usage"]
_CONFIG = ConfigDict(
    extra="forbid",
    ser_json_bytes="base64",
    val_json_bytes="base64",
    arbitrary_types_allowed=True,
    ser_json_inf_nan="constants",
)


@cache
def _adapter(kind: _Kind) -> TypeAdapter[Any]:
    """Compiled at first use: an import should not pay for it."""
    shapes: dict[_Kind, Any] = {
        "messages": list[Annotated[Message, Field(discriminator="role")]],
        "events": list[Annotated[AnyEvent, Field(discriminator="type")]],
        "usage": Usage,
    }
    members = {"loopwright": Annotated[int, Field(ge=1, le=VERSION)], kind: shapes[kind]}
    make: Any = TypedDict  # checkers know only TypedDicts that are written out
    document = make("Document", members)
    document.__pydantic_config__ = _CONFIG
    return TypeAdapter(document)


def _dump(kind: _Kind, value: Any) -> bytes:
    try:
        return _adapter(kind).dump_json({"loopwright": VERSION, kind: value})
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidDocumentError(
            f"The {kind} cannot be written as JSON: {error}. Details, progress and provider data must be plain data: "
            "strings, numbers, lists and dicts."
        ) from None


def _load(kind: _Kind, document: bytes | str) -> Any:
    try:
        return _adapter(kind).validate_json(document)[kind]
    except ValidationError as error:
        raise InvalidDocumentError(_explain(kind, document, error)) from None


def _explain(kind: _Kind, document: bytes | str, error: ValidationError) -> str:
    try:
        envelope: Any = from_json(document)
    except ValueError as cause:
        return f"The document is no JSON: {cause}."
    if not isinstance(envelope, dict) or not {"loopwright", kind} <= set(cast("dict[str, Any]", envelope)):
        return (
            f'The document holds no {kind}: it must be an object like {{"loopwright": {VERSION}, "{kind}": ...}}, as '
            f"dump_{kind} writes it."
        )
    version = cast("dict[str, Any]", envelope)["loopwright"]
    if type(version) is not int or not 1 <= version <= VERSION:
        return (
            f"The document is of version {version!r}; this package reads up to {VERSION}. "
            "Upgrade loopwright to read it."
        )
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    return (
        f"The document cannot be read, at {where}: {first['msg']}. Nothing is dropped silently: if a newer version of "
        "loopwright wrote it, upgrade to read it."
    )
