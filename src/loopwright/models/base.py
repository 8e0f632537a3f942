"""What a model is: who it is, what it is asked, what it answers.

No network here: a wire codec, a transport and a vendor row make a model elsewhere, and the loop sees only this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from ..events import ModelEvent
from ..messages import AssistantMessage, Message
from ..signals import AbortSignal

__all__ = [
    "Capabilities",
    "LanguageModel",
    "ModelIdentity",
    "ModelInfo",
    "ModelRequest",
    "ModelSettings",
    "ModelStream",
    "RequestContext",
    "ResponseSchema",
    "StreamOptions",
    "ToolChoice",
    "ToolDeclaration",
]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do.

    Attributes:
        images: Takes images.
        files: Takes files such as PDFs.
        tools: Can call tools.
        reasoning: Writes reasoning apart from its answer.
        json_schema: Can be held to a JSON schema.
        context_window: Tokens, None when unknown.
        tool_call_id_pattern: Characters that may stand in a tool call id, as the inside of a regular-expression class
            (like `a-zA-Z0-9_-`); None means any.
        tool_call_id_max_length: None means any.
        tool_call_id_exact_length: Whether ids must have just `tool_call_id_max_length` characters.
    """

    images: bool = True
    files: bool = True
    tools: bool = True
    reasoning: bool = True
    json_schema: bool = True
    context_window: int | None = None
    tool_call_id_pattern: str | None = None
    tool_call_id_max_length: int | None = None
    tool_call_id_exact_length: bool = False


class ModelIdentity(Protocol):
    """Who a model is. Two are the same when provider, api and name are."""

    @property
    def provider(self) -> str:
        """Who serves it, like `openai`."""
        ...

    @property
    def api(self) -> str:
        """The wire it speaks, like `openai-chat`."""
        ...

    @property
    def name(self) -> str:
        """Its name at the provider, like `gpt-5-mini`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Who a model is, as plain data."""

    provider: str
    api: str
    name: str
    capabilities: Capabilities = Capabilities()


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as a model sees it.

    Attributes:
        name: Its name.
        description: What it does and when to use it.
        parameters: JSON schema of its arguments, an object schema.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


ToolChoice: TypeAlias = str
"""`auto`, `none`, `required`, or the name of the tool to call."""


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The JSON schema that an answer must follow, in the same words for all wires.

    Attributes:
        schema: The JSON schema.
        name: Names it: letters, digits, underscores and hyphens, up to 64.
        description: What it is for, told to the model where the wire can.
        strict: Whether the provider shall hold the model to it without exception, where it can.
    """

    schema: Mapping[str, Any]
    name: str = "answer"
    description: str | None = None
    strict: bool = True


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model should answer. None leaves it to the provider.

    Attributes:
        temperature: Randomness.
        top_p: Share of probability to sample from.
        top_k: Number of tokens to sample from.
        max_output_tokens: Length limit of the answer, reasoning included.
        stop_sequences: Texts that end the answer.
        seed: Makes sampling repeatable where the provider can.
        presence_penalty: Discourages what was said already.
        frequency_penalty: Discourages what was said often.
        reasoning_effort: Like `low`, `medium`, `high`.
        reasoning_budget: How many tokens the model may reason for.
        tool_choice: `auto`, `none`, `required`, or the name of the tool to call.
        parallel_tool_calls: Whether one answer may ask for several calls.
        response_format: What form the answer must have: a schema, or the provider's own JSON.
        service_tier: The provider's name of how fast and at which price the request is served.
        cache: Whether marks for prompt caching are set where a wire needs such; None is `auto`.
        extra_body: Members merged into the request body.
        extra_headers: HTTP headers to add.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: Sequence[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    reasoning_budget: int | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseSchema | Mapping[str, Any] | None = None
    service_tier: str | None = None
    cache: Literal["auto", "off"] | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = field(default=None, repr=False)

    def merged(self, over: ModelSettings | None) -> ModelSettings:
        """These settings, with what `over` sets on top."""
        if over is None:
            return self
        values = {
            f.name: value if (value := getattr(over, f.name)) is not None else getattr(self, f.name)
            for f in fields(self)
        }
        return ModelSettings(**values)


@dataclass(slots=True)
class RequestContext:
    """What a model reads. Lists are the receiver's own: changing them changes nothing else.

    Attributes:
        messages: The request view of the history.
        system: The system prompt.
        tools: The tools it may call.
    """

    messages: list[Message]
    system: str | None = None
    tools: list[ToolDeclaration] = field(default_factory=list[ToolDeclaration])


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a request is to be made.

    Attributes:
        settings: How the model should answer.
        signal: The run's signal; the loop sets it.
        extra: Whatever a stream function of one's own wants to know.
    """

    settings: ModelSettings = ModelSettings()
    signal: AbortSignal | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class ModelRequest:
    """One request to a `LanguageModel`.

    Attributes:
        context: What the model reads.
        settings: How it should answer.
        memo: Kept by the caller from request to request of one run; a model keeps there what it has encoded.
    """

    context: RequestContext
    settings: ModelSettings = ModelSettings()
    memo: dict[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class ModelStream(Protocol):
    """One answer of a model as it comes.

    The contract: `ResponseStart` before anything else, then what the answer is made of, and `ResponseDone` or
    `ResponseError` at the end. A stream that has nothing to tell in between may yield the last event alone.
    Blocks do not overlap in meaning: each has its own `index`. After the end, `result()` gives the same message.

    A stream may also have `aclose()`, which frees its connection, and `pop_ready()`, which returns an event that is
    already decoded or None; the loop uses it so that an event that is there costs no waiting.
    """

    def __aiter__(self) -> ModelStream: ...

    async def __anext__(self) -> ModelEvent: ...

    async def result(self) -> AssistantMessage:
        """The complete answer, of this same request.

        Raises:
            ModelError: The answer is not complete.
        """
        ...


class LanguageModel(ModelIdentity, Protocol):
    """A model that can be asked."""

    async def generate(self, request: ModelRequest) -> AssistantMessage:
        """Ask, and wait for the whole answer.

        Raises:
            ModelError: There is no whole answer.
        """
        ...

    async def stream(self, request: ModelRequest) -> ModelStream:
        """Ask, and get the answer as it comes.

        Raises:
            ModelError: The provider refused before the answer began.
        """
        ...
