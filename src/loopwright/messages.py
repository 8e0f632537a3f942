"""Messages and their parts: plain data, immutable, no I/O.

A history is a list of messages. Messages and parts never change once made, so a snapshot of a history is
a shallow copy and the same object can stand in the history, in an event and in a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field
from pydantic_core import from_json

from .usage import Usage

__all__ = [
    "ApprovalMessage",
    "AssistantMessage",
    "AssistantPart",
    "FilePart",
    "ImagePart",
    "Message",
    "Part",
    "ProviderPart",
    "ReasoningPart",
    "RefusalPart",
    "SourcePart",
    "TextPart",
    "ToolApprovalRequestPart",
    "ToolApprovalResponsePart",
    "ToolCallPart",
    "ToolResultMessage",
    "ToolResultPart",
    "ToolResultStatus",
    "UserMessage",
    "UserPart",
]

ProviderData: TypeAlias = Mapping[str, Any]

_BY_TYPE = Field(discriminator="type")
"""Tells pydantic to look at a part's type, and not to try one class after the other."""


# ---------------------------------------------------------------- parts


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text.

    Attributes:
        text: The text.
        signature: Opaque token of the provider that must come back with the text.
        provider_data: What else the provider sent with it (JSON), replayed only to the same model.
    """

    text: str
    signature: str | None = None
    provider_data: ProviderData | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image, as bytes or as a URL: exactly one of the two.

    Attributes:
        data: The image file's bytes.
        media_type: Like `image/png`; required with `data`.
        url: Where the provider can fetch it.
        provider_data: What else the provider sent with it (JSON).
    """

    data: bytes | None = None
    media_type: str | None = None
    url: str | None = None
    provider_data: ProviderData | None = None
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file (PDF, audio, ...), as bytes or as a URL: exactly one of the two.

    Attributes:
        data: The file's bytes.
        media_type: Like `application/pdf`; required with `data`.
        url: Where the provider can fetch it.
        filename: A name to show.
        provider_data: What else the provider sent with it (JSON).
    """

    data: bytes | None = None
    media_type: str | None = None
    url: str | None = None
    filename: str | None = None
    provider_data: ProviderData | None = None
    type: Literal["file"] = "file"


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What the model wrote before its answer.

    Attributes:
        text: Visible reasoning, or its summary; may be empty.
        signature: Opaque token that must come back with it.
        redacted: Opaque payload that stands for reasoning the provider hides.
        id: The provider's id of the item.
        provider_data: What else the provider sent with it (JSON), replayed only to the same model.
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    id: str | None = None
    provider_data: ProviderData | None = None
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class RefusalPart:
    """The model's words for not answering, where its wire keeps them apart from text."""

    text: str
    type: Literal["refusal"] = "refusal"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """The model asks for a tool.

    Attributes:
        id: The provider's id of the call; the result carries the same.
        name: The tool's name as the model wrote it.
        arguments: The arguments as the model wrote them: the text of a JSON object, or anything else a model
            may write instead. Free text when `custom`.
        incomplete: The call was never finished, so it must not be run.
        custom: A free-text call: `arguments` is no JSON.
        provider_executed: The provider runs it; it is never run or answered here.
        signature: Opaque token of the provider that must come back with the call.
        provider_data: What else the provider sent with it (JSON), replayed only to the same model.
    """

    id: str
    name: str
    arguments: str = "{}"
    incomplete: bool = False
    custom: bool = False
    provider_executed: bool = False
    signature: str | None = None
    provider_data: ProviderData | None = None
    type: Literal["tool-call"] = "tool-call"

    @property
    def input(self) -> dict[str, Any] | None:
        """The arguments as an object; None when the text is no JSON object. Empty text and `null` mean `{}`."""
        text = self.arguments.strip()
        if self.custom:
            return None
        if text in ("", "null"):
            return {}
        try:
            # Encoded here, for the parser takes a string with lone surrogates for no string at all.
            value = from_json(text.encode())
        except ValueError:
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A source that the answer cites.

    Attributes:
        url: Its address, None for a document.
        title: Its title.
        id: The provider's id of it.
        provider_data: What else the provider sent with it (JSON).
    """

    url: str | None = None
    title: str | None = None
    id: str | None = None
    provider_data: ProviderData | None = None
    type: Literal["source"] = "source"


@dataclass(frozen=True, slots=True)
class ProviderPart:
    """A block that only its own provider understands: kept, replayed to the same model, never run.

    Attributes:
        kind: The provider's name of the block.
        data: The block as received (JSON).
    """

    kind: str
    data: ProviderData
    type: Literal["provider"] = "provider"


@dataclass(frozen=True, slots=True)
class ToolApprovalRequestPart:
    """A call waits for a person.

    Attributes:
        approval_id: Names the request in the answer: `run id / step / call id`. It is also the call's idempotency key.
        tool_call_id: The call that waits.
        call_index: Its place among the calls of the answer, from 0; ids may stand twice.
        expires_at: From when on it may be approved no more, in seconds since the epoch; None for never.
        signature: Proves that nothing of the request or its call was changed; None where no secret was set.
    """

    approval_id: str
    tool_call_id: str
    call_index: int = 0
    expires_at: float | None = None
    signature: str | None = None
    type: Literal["tool-approval-request"] = "tool-approval-request"


@dataclass(frozen=True, slots=True)
class ToolApprovalResponsePart:
    """The answer to one approval request.

    Attributes:
        approval_id: The request.
        approved: Whether the call may run.
        reason: Why not, told to the model.
        arguments: The text of a JSON object to run the call with instead of the model's own; checked like those.
        approver: Who answered.
        answered_at: When, in seconds since the epoch.
    """

    approval_id: str
    approved: bool
    reason: str | None = None
    arguments: str | None = None
    approver: str | None = None
    answered_at: float | None = None
    type: Literal["tool-approval-response"] = "tool-approval-response"


UserPart: TypeAlias = TextPart | ImagePart | FilePart
ToolResultPart: TypeAlias = TextPart | ImagePart | FilePart
AssistantPart: TypeAlias = (
    TextPart
    | ReasoningPart
    | RefusalPart
    | ToolCallPart
    | ImagePart
    | FilePart
    | SourcePart
    | ProviderPart
    | ToolApprovalRequestPart
)
Part: TypeAlias = AssistantPart | ToolApprovalResponsePart


# ---------------------------------------------------------------- messages


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person, or the host for them, says.

    Attributes:
        content: The parts. A plain string becomes one text part.
        created_at: Seconds since the epoch, None when unknown.
    """

    content: tuple[Annotated[UserPart, _BY_TYPE], ...]
    created_at: float | None = None
    role: Literal["user"] = "user"

    def __init__(
        self,
        content: str | Iterable[UserPart],
        created_at: float | None = None,
        role: Literal["user"] = "user",
    ) -> None:
        parts = parts_of(content)
        object.__setattr__(self, "content", parts)
        object.__setattr__(self, "created_at", created_at)
        object.__setattr__(self, "role", role)

    @property
    def text(self) -> str:
        """All text parts joined."""
        return _joined_text(self.content)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One complete answer of a model.

    Attributes:
        content: The parts, in the order the model made them.
        provider: Who was asked.
        api: The wire that was spoken, like `openai-chat`.
        model: The model that was asked for.
        finish_reason: Normalised: `stop`, `tool-calls`, `length`, `content-filter`, `error`, `aborted`, `other`;
            a reason no one knows stays as the provider's own word.
        raw_finish_reason: The provider's own word, None where it gave none.
        usage: Tokens of the request, None where not reported.
        response_id: The provider's id of the answer.
        response_model: The model that answered, where the provider says.
        error: Why the answer failed, for `error` and `aborted`.
        created_at: Seconds since the epoch, None when unknown.
        provider_data: What else the provider sent with the answer (JSON).
        warnings: What could not be done as asked, one sentence each.
    """

    content: tuple[Annotated[AssistantPart, _BY_TYPE], ...] = ()
    provider: str = ""
    api: str = ""
    model: str = ""
    finish_reason: str = "stop"
    raw_finish_reason: str | None = None
    usage: Usage | None = None
    response_id: str | None = None
    response_model: str | None = None
    error: str | None = None
    created_at: float | None = None
    provider_data: ProviderData | None = None
    warnings: tuple[str, ...] = ()
    role: Literal["assistant"] = "assistant"

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            object.__setattr__(self, "content", parts_of(self.content))

    @property
    def text(self) -> str:
        """All text parts joined, without reasoning."""
        return _joined_text(self.content)

    @property
    def reasoning(self) -> str:
        """All visible reasoning joined."""
        return "".join(part.text for part in self.content if isinstance(part, ReasoningPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls, in order, those that the provider runs itself included."""
        return tuple(part for part in self.content if isinstance(part, ToolCallPart))

    @property
    def failed(self) -> bool:
        """Whether the answer failed or was aborted: it stays in the history and is never sent again."""
        return self.finish_reason in ("error", "aborted")


ToolResultStatus: TypeAlias = Literal[
    "success", "error", "invalid", "denied", "cancelled", "timeout", "skipped", "missing"
]


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The one result of one tool call.

    Attributes:
        tool_call_id: The call's id.
        tool_name: The name that the model called.
        content: What the model sees. A plain string becomes one text part.
        status: How the call ended: `success`; `error` (the tool raised); `invalid` (unknown tool or bad
            arguments, not run); `denied`; `cancelled`; `timeout`; `skipped` (never started); `missing`
            (no result was recorded).
        details: The tool's own value for programs (JSON), None when it says no more than `content`.
        created_at: Seconds since the epoch, None when unknown.
    """

    tool_call_id: str
    tool_name: str
    content: tuple[Annotated[ToolResultPart, _BY_TYPE], ...]
    status: ToolResultStatus = "success"
    details: Any = None
    created_at: float | None = None
    role: Literal["tool"] = "tool"

    def __init__(
        self,
        tool_call_id: str,
        tool_name: str,
        content: str | Iterable[ToolResultPart] = (),
        status: ToolResultStatus = "success",
        details: Any = None,
        created_at: float | None = None,
        role: Literal["tool"] = "tool",
    ) -> None:
        parts = parts_of(content)
        set_field = object.__setattr__
        set_field(self, "tool_call_id", tool_call_id)
        set_field(self, "tool_name", tool_name)
        set_field(self, "content", parts)
        set_field(self, "status", status)
        set_field(self, "details", details)
        set_field(self, "created_at", created_at)
        set_field(self, "role", role)

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call failed."""
        return self.status != "success"

    @property
    def text(self) -> str:
        """All text parts joined."""
        return _joined_text(self.content)


@dataclass(frozen=True, slots=True)
class ApprovalMessage:
    """Answers to approval requests. The model never sees it.

    Attributes:
        content: The answers.
        created_at: Seconds since the epoch, None when unknown.
    """

    content: tuple[ToolApprovalResponsePart, ...]
    created_at: float | None = None
    role: Literal["approval"] = "approval"

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            object.__setattr__(self, "content", tuple(self.content))


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage | ApprovalMessage


def _joined_text(content: Sequence[Any]) -> str:
    return "".join(part.text for part in content if isinstance(part, TextPart))


def parts_of(content: Any) -> tuple[Any, ...]:
    """Content as a tuple of parts: a string becomes one text part, None none at all."""
    if content is None:
        return ()
    return (TextPart(content),) if isinstance(content, str) else tuple(content)
