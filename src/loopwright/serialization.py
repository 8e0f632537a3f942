"""Messages, events and usage as JSON, and back.

A document is an object that names its version: `{"loopwright": 1, "messages": [...]}`. What this version does not know
is refused and never dropped: reading and writing a newer document would lose what it had to say. Nor is anything
written that could not be read back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json
from typing_extensions import TypedDict

from .errors import InvalidDocumentError
from .events import LoopEvent, ModelEvent, StreamPart
from .messages import FilePart, ImagePart, Message
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
        InvalidDocumentError: Something is no message, or its details or provider data are no JSON; the message says
            where.
    """
    return _dump("messages", list(messages))


def load_messages(document: bytes | str) -> list[Message]:
    """Read messages from a JSON document.

    Raises:
        InvalidDocumentError: It is no such document, or a newer one; the message says where and what to do.
    """
    return cast("list[Message]", _load("messages", document))


def dump_events(events: Iterable[AnyEvent]) -> bytes:
    """Write events as a JSON document.

    The exceptions of `Error` and `ResponseError` stay behind; their descriptions go with the events. Progress is
    written in its JSON form, dataclasses and models as objects.

    Raises:
        InvalidDocumentError: Something is no event, or holds what is no JSON; the message says where.
    """
    return _dump("events", list(events))


def load_events(document: bytes | str) -> list[AnyEvent]:
    """Read events from a JSON document.

    Raises:
        InvalidDocumentError: It is no such document, or a newer one; the message says where and what to do.
    """
    return cast("list[AnyEvent]", _load("events", document))


def dump_usage(usage: Usage) -> bytes:
    """Write usage as a JSON document.

    Raises:
        InvalidDocumentError: It is no `Usage`.
    """
    return _dump("usage", usage)


def load_usage(document: bytes | str) -> Usage:
    """Read usage from a JSON document.

    Raises:
        InvalidDocumentError: It is no such document, or a newer one; the message says where and what to do.
    """
    return cast("Usage", _load("usage", document))


# ---------------------------------------------------------------- how

_Kind: TypeAlias = Literal["messages", "events", "usage"]
_CONFIG = ConfigDict(
    extra="forbid",
    strict=True,
    allow_inf_nan=False,
    ser_json_bytes="base64",
    val_json_bytes="base64",
    arbitrary_types_allowed=True,
)
_MAX_DEPTH = 180
"""How deep data may be nested. JSON parsers give up somewhere; pydantic's does at 200."""


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


# ---------------------------------------------------------------- writing


def _dump(kind: _Kind, value: Any) -> bytes:
    _check_classes(kind, value)
    _check_data(value, kind)
    try:
        return _adapter(kind).dump_json({"loopwright": VERSION, kind: value}, warnings="error")
    except (PydanticSerializationError, ValueError) as error:
        expected = re.search(r"Expected `.*", str(error))
        raise InvalidDocumentError(
            f"The {kind} cannot be written as JSON: {expected[0] if expected else error}. Fields must be of the types "
            "that their classes declare, text must be valid Unicode, and progress must have a JSON form."
        ) from None


def _check_classes(kind: _Kind, value: Any) -> None:
    if kind == "usage":
        if not isinstance(value, Usage):
            raise InvalidDocumentError(f"{value!r} is no Usage.")
        return
    classes = get_args(Message if kind == "messages" else AnyEvent)
    for at, item in enumerate(value):
        if not isinstance(item, classes):
            raise InvalidDocumentError(
                f"The item at {kind}.{at} is {type(item).__name__}, which is no {kind.removesuffix('s')} of loopwright."
            )


def _check_data(value: Any, path: str) -> None:
    """Find the open fields of messages and events, whose data pydantic would write in ways that change it."""
    if isinstance(value, list | tuple):
        for at, item in enumerate(cast("Sequence[Any]", value)):
            _check_data(item, f"{path}.{at}")
        return
    names = ("details", "provider_data", "created_at")
    for name in names if isinstance(value, ImagePart | FilePart) else (*names, "data"):
        data = getattr(value, name, None)
        if data is not None:
            _check_json(data, f"{path}.{name}", _MAX_DEPTH)
    for name in ("content", "message", "event", "part", "call", "result"):
        inner = getattr(value, name, None)
        if inner is not None:
            _check_data(inner, f"{path}.{name}")


def _check_json(value: Any, path: str, depth: int) -> None:
    if value is None or isinstance(value, str | bool | int):
        return
    if depth == 0:
        raise _unwritable(path, f"it is nested more than {_MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _unwritable(path, f"JSON has no {value}")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise _unwritable(path, f"its key {key!r} is no string")
            _check_json(item, f"{path}.{key}", depth - 1)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(cast("Sequence[Any]", value)):
            _check_json(item, f"{path}.{at}", depth - 1)
    else:
        raise _unwritable(path, f"{type(value).__name__} is no JSON")


def _unwritable(path: str, why: str) -> InvalidDocumentError:
    where = path if len(path) <= 100 else f"{path[:100]}..."
    return InvalidDocumentError(
        f"The value at {where} cannot be written: {why}. Details and provider data must be plain data: strings, finite "
        "numbers, booleans, None, lists, and dicts with string keys."
    )


# ---------------------------------------------------------------- reading


def _load(kind: _Kind, document: bytes | str) -> Any:
    if not isinstance(document, bytes | bytearray | str):
        raise InvalidDocumentError(f"The document must be bytes or a string, not {type(document).__name__}.")
    try:
        return _adapter(kind).validate_json(document)[kind]
    except UnicodeEncodeError:
        raise InvalidDocumentError("The document is no JSON: the string is no valid Unicode.") from None
    except ValidationError as error:
        raise InvalidDocumentError(_explain(kind, document, error)) from None


def _explain(kind: _Kind, document: bytes | str, error: ValidationError) -> str:
    try:
        envelope: Any = from_json(document)
    except (ValueError, TypeError) as cause:
        return f"The document is no JSON: {str(cause).rstrip('.')}."
    if not isinstance(envelope, dict) or not {"loopwright", kind} <= set(cast("dict[str, Any]", envelope)):
        return (
            f'The document holds no {kind}: it must be an object like {{"loopwright": {VERSION}, "{kind}": ...}}, as '
            f"dump_{kind} writes it."
        )
    version = cast("dict[str, Any]", envelope)["loopwright"]
    if type(version) is not int or version < 1:
        return f"The document's version is {version!r}; it must be a whole number from 1 to {VERSION}."
    if version > VERSION:
        return (
            f"The document is of version {version}; this package reads up to {VERSION}. Upgrade loopwright to read it."
        )
    first = error.errors(include_url=False, include_context=False)[0]
    unknown = first["type"] in ("unexpected_keyword_argument", "extra_forbidden")
    what = "this version of loopwright knows no such field" if unknown else first["msg"].rstrip(".")
    return (
        f"The document cannot be read, at {_path(envelope, first['loc'])}: {what}. Nothing is dropped silently: if a "
        "newer version of loopwright wrote it, upgrade to read it."
    )


def _path(document: Any, location: Sequence[int | str]) -> str:
    """Where it is in the document: pydantic's location without the tags of the classes that it names in between."""
    value, path, tag_seen = document, list[str](), False
    for step in location:
        if isinstance(value, dict):
            members = cast("dict[object, object]", value)
            if not tag_seen and step in (members.get("role"), members.get("type")):
                tag_seen = True
                continue
            value = members.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            items = cast("list[object]", value)
            value = items[step] if step < len(items) else None
        path.append(str(step))
        tag_seen = False
    return ".".join(path)
