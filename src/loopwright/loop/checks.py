"""Refusing what cannot work, before anything changes: content, options, history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, cast, get_args

from ..errors import ContentRequiredError, InvalidArgumentError, InvalidContentError, InvalidInputError
from ..messages import (
    ApprovalMessage,
    AssistantMessage,
    AssistantPart,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolApprovalResponsePart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
    UserPart,
)
from ..models.base import ModelIdentity, StreamOptions
from ..tools.base import Tool
from .options import Content, LoopOptions

__all__ = ["check_content", "check_history", "check_options", "not_a_message"]


# ---------------------------------------------------------------- content


def check_content(content: Content, model: ModelIdentity) -> tuple[UserPart, ...]:
    """Check what a user says, and copy it.

    Args:
        content: A string, or text, image and file parts.
        model: Who will read it.

    Returns:
        The parts.

    Raises:
        InvalidContentError: A part is malformed, or the model cannot take it. Checked first.
        ContentRequiredError: There is nothing but blanks.
    """
    parts = tuple(_checked_part(part, at, model) for at, part in enumerate(_parts(content)))
    if not any(not isinstance(part, TextPart) or part.text.strip() for part in parts):
        raise ContentRequiredError("The content is empty. Say something: text that is not blank, an image or a file.")
    return parts


def _parts(content: Any) -> Iterable[Any]:
    if isinstance(content, str):
        return (TextPart(content),)
    if content is None:
        raise ContentRequiredError("There is no content. Say something: text that is not blank, an image or a file.")
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return cast("Iterable[Any]", content)
    raise InvalidContentError(
        f"The content must be a string or a list of TextPart, ImagePart and FilePart, not {type(content).__name__}."
    )


def _checked_part(part: Any, at: int, model: ModelIdentity) -> UserPart:
    match part:
        case TextPart(text=text):
            if not isinstance(text, str):
                raise InvalidContentError(f"Part {at} of the content: its text is {type(text).__name__}, not a string.")
            _check_unicode(text, at)
        case ImagePart():
            _check_source(part, at, "image")
            if not model.capabilities.images:
                raise InvalidContentError(f"Part {at} of the content is an image, and {_named(model)} takes none.")
        case FilePart():
            _check_source(part, at, "file")
            if not model.capabilities.files:
                raise InvalidContentError(f"Part {at} of the content is a file, and {_named(model)} takes none.")
        case _:
            raise InvalidContentError(
                f"Part {at} of the content is {type(part).__name__}, not a TextPart, ImagePart or FilePart."
            )
    checked: UserPart = part
    return checked


def _check_unicode(text: str, at: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidContentError(
            f"Part {at} of the content: its text has a lone surrogate at character {error.start}, which cannot be "
            "sent. Decode bytes with errors='replace'."
        ) from None


def _check_source(part: ImagePart | FilePart, at: int, kind: str) -> None:
    where = f"Part {at} of the content, an {kind}," if kind == "image" else f"Part {at} of the content, a {kind},"
    data: object = part.data
    url: object = part.url
    if url is not None and not isinstance(url, str):
        raise InvalidContentError(f"{where} has a url of type {type(url).__name__}. Give a string.")
    if data is None and not url:
        raise InvalidContentError(f"{where} has neither data nor url. Give one of them.")
    if data is not None and url is not None:
        raise InvalidContentError(f"{where} has both data and url. Give one of them.")
    if data is None:
        return
    if not isinstance(data, bytes):
        raise InvalidContentError(f"{where} has data of type {type(data).__name__}. Give the bytes of the file.")
    if not data:
        raise InvalidContentError(f"{where} has empty data.")
    if not isinstance(part.media_type, str) or "/" not in part.media_type:
        raise InvalidContentError(f"{where} needs a media_type, like 'image/png'; it has {part.media_type!r}.")


def _named(model: ModelIdentity) -> str:
    return f"the model {model.provider}:{model.name}"


# ---------------------------------------------------------------- options


def check_options(options: LoopOptions) -> None:
    """Check the loop's options.

    Raises:
        InvalidArgumentError: Names all that cannot work, at once.
    """
    problems = list(_option_problems(options))
    if problems:
        raise InvalidArgumentError(" ".join(problems))


_IDENTITY = ("provider", "api", "name", "capabilities")
_CALLBACKS = (
    "get_steering_messages",
    "get_follow_up_messages",
    "prepare_request",
    "finish_turn",
    "clock",
    "timeout_of",
    "plan_calls",
    "resume_calls",
    "run_tool",
)


def _option_problems(options: LoopOptions) -> Iterable[str]:
    if not all(hasattr(options.model, name) for name in _IDENTITY):
        yield f"model must say who it is (a ModelInfo or a model), not {options.model!r}."
    if not callable(options.stream):
        yield f"stream must be a function that asks the model, not {options.stream!r}: the loop looks no provider up."
    if not isinstance(options.stream_options, StreamOptions):
        yield f"stream_options must be StreamOptions, not {type(options.stream_options).__name__}."
    for name in _CALLBACKS:
        callback: object = getattr(options, name)
        if callback is not None and not callable(callback):
            yield f"{name} must be a function or None, not {callback!r}."
    counts = (("max_turns", True), ("max_parallel_tool_calls", False), ("max_tool_calls_per_step", True))
    for name, may_be_none in counts:
        value: object = getattr(options, name)
        if not (may_be_none and value is None) and (type(value) is not int or value < 1):
            yield f"{name} must be a positive whole number{' or None' if may_be_none else ''}, not {value!r}."
    grace: object = options.cancel_grace
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not math.isfinite(grace) or grace < 0:
        yield f"cancel_grace must be a number of seconds, 0 or more, not {grace!r}."
    yield from _tool_problems(options.tools)


def _tool_problems(tools: Sequence[Tool]) -> Iterable[str]:
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        yield f"tools must be a list of Tool objects, not {tools!r}."
        return
    names: set[str] = set()
    for tool in tools:
        if not isinstance(tool, Tool):
            yield f"tools must hold Tool objects; {tool!r} is none. Decorate a function with @tool."
        elif tool.name in names:
            yield f"Two tools are named {tool.name!r}. Give one of them another name."
        else:
            names.add(tool.name)


# ---------------------------------------------------------------- history


_PARTS: tuple[tuple[type[Message], tuple[type, ...]], ...] = (
    (UserMessage, get_args(UserPart)),
    (AssistantMessage, get_args(AssistantPart)),
    (ToolResultMessage, get_args(ToolResultPart)),
    (ApprovalMessage, (ToolApprovalResponsePart,)),
)


def check_history(history: Sequence[Message], *, needs_user: bool = False) -> None:
    """Check that a history is made of messages, and messages of their parts.

    Args:
        history: The messages.
        needs_user: Whether one of them must be the user's, for there is no new input.

    Raises:
        InvalidContentError: A message holds what is none of its parts.
        InvalidInputError: It holds something else, or no user input.
    """
    if not isinstance(history, Sequence) or isinstance(history, str | bytes | bytearray):
        raise InvalidInputError(f"The history must be a list of messages, not {type(history).__name__}.")
    for at, message in enumerate(history):
        _check_parts(message, at)
    if needs_user and not any(isinstance(message, UserMessage) for message in history):
        raise InvalidInputError(
            "There is no new content, and the history has no user message to go on from. Give content, or a history "
            "with user input."
        )


def _check_parts(message: Message, at: int) -> None:
    for kind, allowed in _PARTS:
        if isinstance(message, kind):
            for n, part in enumerate(message.content):
                if not isinstance(part, allowed):
                    names = ", ".join(cls.__name__ for cls in allowed)
                    raise InvalidContentError(
                        f"Part {n} of message {at}, of role {message.role}, is {type(part).__name__}; it must be one "
                        f"of {names}."
                    )
            return
    raise not_a_message(message, at)


def not_a_message(message: object, at: int) -> InvalidInputError:
    """The error for what stands in a history at `at` and is no message."""
    kind = type(message).__name__
    role: object = getattr(message, "role", None)
    if isinstance(message, dict):
        role = cast("dict[str, object]", message).get("role")
    if role in ("system", "developer"):
        return InvalidInputError(
            f"Message {at} is a {role} message. The system prompt does not stand in the history; give it as the "
            "agent's instructions (or the loop's system)."
        )
    return InvalidInputError(
        f"Message {at} is {kind}, not a message. Use UserMessage, AssistantMessage and ToolResultMessage; stored JSON "
        "is read with load_messages."
    )
