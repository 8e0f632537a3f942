"""One choice of a chat completion, put together from whole messages or from deltas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...events import (
    File,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
)
from ...messages import (
    AssistantPart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from ..json_shapes import is_array, is_object
from .calls import CallBlock, Calls
from .media import audio_merged, image_of
from .reasoning import add_details, details_text
from .sources import Sources

__all__ = ["Answer", "TextBlock"]

Json: TypeAlias = Mapping[str, Any]


_OWN_ENDS = frozenset({"stop", "tool_calls", "tool_use", "function_call"})


class TextBlock:
    """A run of text of one kind."""

    __slots__ = ("chunks", "field", "index", "kind")

    def __init__(self, kind: str, index: int, field: str) -> None:
        self.kind = kind
        self.index = index
        self.field = field
        self.chunks: list[str] = []


class Answer:
    """What one choice has said so far.

    Attributes:
        open: The text block that goes on with the next text of its kind, None where there is none.
        finish: The last finish reason that was more than an empty word; empty text where only such came.
        response_id: The answer's id, from which missing call ids are made.
        extras: What is kept in the message's `provider_data`.
    """

    __slots__ = (
        "_audio",
        "_blocks",
        "_calls",
        "_details",
        "_images",
        "_logprobs",
        "_sources",
        "extras",
        "finish",
        "open",
        "response_id",
    )

    def __init__(self) -> None:
        self.open: TextBlock | None = None
        self.finish: str | None = None
        self.response_id = ""
        self.extras: dict[str, Any] = {}
        self._blocks: list[TextBlock | CallBlock] = []
        self._calls = Calls()
        self._details: list[dict[str, Any]] = []
        self._sources = Sources()
        self._images: list[ImagePart] = []
        self._logprobs: dict[str, list[Any]] = {}
        self._audio: dict[str, Any] = {}

    @property
    def has_content(self) -> bool:
        """Whether anything was said."""
        return bool(self._blocks or self._details or self._images or self._audio)

    @property
    def has_calls(self) -> bool:
        """Whether there are calls for the client to run."""
        return bool(self._calls.blocks)

    # ------------------------------------------------------------ what came

    def add(self, delta: Json, events: list[ModelEvent]) -> None:
        """Take a delta, or a whole message.

        Reasoning comes first, then text, then calls, whatever their order in it.
        """
        get = delta.get
        self._add_reasoning(delta, events)
        if content := get("content"):
            self._add_content(content, events)
        if (refusal := get("refusal")) and isinstance(refusal, str):
            self._say("refusal", "refusal", refusal, events)
        if is_array(tool_calls := get("tool_calls")):
            for call in tool_calls:
                self._add_call(call, events)
        if (function := get("function_call")) and is_object(function) and any(function.values()):
            self._add_call({"index": 0, "function": function}, events)
        self._add_rest(delta, events)

    def goes_on(self, delta: Json, events: list[ModelEvent]) -> bool:
        """Take a delta that only goes on with the block that is open, without looking further.

        Returns:
            False where it is no such delta: then nothing was taken.
        """
        block = self.open
        if block is None:
            return self._calls.go_on(delta, events)
        text = delta.get(block.field)
        if type(text) is not str or not text or block.kind == "refusal":
            return False
        if len(delta) > 1:
            for name, value in delta.items():
                if value and name not in (block.field, "role"):
                    return False
        block.chunks.append(text)
        events.append((TextDelta if block.kind == "text" else ReasoningDelta)(block.index, text))
        return True

    def cite(self, urls: Any, results: Any, events: list[ModelEvent]) -> None:
        """Take the `citations` and `search_results` of the whole answer."""
        events.extend(map(Source, self._sources.add_citations(urls, results)))

    def add_logprobs(self, logprobs: Any) -> None:
        """Take the log probabilities of a chunk."""
        if not is_object(logprobs):
            return
        for name, tokens in logprobs.items():
            if tokens and is_array(tokens):
                self._logprobs.setdefault(name, []).extend(tokens)

    def text(self, text: str, events: list[ModelEvent]) -> None:
        """Take more text."""
        self._say("text", "content", text, events)

    def end(self, events: list[ModelEvent]) -> None:
        """No more comes: end what is open."""
        self._end_text(events)
        self._calls.end(events)

    # ------------------------------------------------------------ what it is

    def parts(self, *, cut: bool) -> tuple[AssistantPart, ...]:
        """The parts so far.

        Args:
            cut: Whether the answer stopped before its own end, so that no call is known to be whole.
        """
        parts: list[AssistantPart] = []
        details = self._details
        for block in self._blocks:
            if isinstance(block, CallBlock):
                if block.started or not cut:
                    parts.append(block.part(incomplete=cut or self._is_cut(block)))
            elif block.kind == "text":
                parts.append(TextPart("".join(block.chunks)))
            elif block.kind == "refusal":
                parts.append(RefusalPart("".join(block.chunks)))
            else:
                data: dict[str, Any] = {"reasoning_field": block.field}
                if details:
                    data["reasoning_details"] = [*details]
                    details = []
                parts.append(ReasoningPart("".join(block.chunks), provider_data=data))
        if details:
            data = {"reasoning_field": "reasoning_details", "reasoning_details": [*details]}
            parts.insert(0, ReasoningPart(provider_data=data))
        parts.extend(self._images)
        if self._audio:
            parts.append(ProviderPart("audio", dict(self._audio)))
        parts.extend(self._sources.parts)
        return tuple(parts)

    def provider_data(self) -> dict[str, Any]:
        """What else came, as JSON."""
        data = dict(self.extras)
        if self._logprobs:
            data["logprobs"] = {name: [*tokens] for name, tokens in self._logprobs.items()}
        return data

    def as_json(self) -> dict[str, Any]:
        """The choice as plain data, for one that is not the answer."""
        parts = self.parts(cut=False)
        data: dict[str, Any] = {"text": "".join(p.text for p in parts if isinstance(p, TextPart))}
        for name, kind in (("reasoning", ReasoningPart), ("refusal", RefusalPart)):
            if text := "".join(part.text for part in parts if isinstance(part, kind)):
                data[name] = text
        if calls := [block.as_json() for block in self._calls.blocks]:
            data["tool_calls"] = calls
        data["finish_reason"] = self.finish
        data.update(self.provider_data())
        return data

    # ------------------------------------------------------------ inside

    def _is_cut(self, block: CallBlock) -> bool:
        """Whether a call lacks its end, told by the reason that the answer ended for and by the call itself."""
        if block.is_whole or self.finish in _OWN_ENDS:
            return False
        if block.custom or not block.arguments.strip():
            return bool(self.finish) and block is self._blocks[-1]
        return True

    def _say(self, kind: str, field: str, text: str, events: list[ModelEvent]) -> None:
        block = self.open
        if block is None or block.kind != kind:
            block = self._begin(kind, field, events)
        block.chunks.append(text)
        if kind == "text":
            events.append(TextDelta(block.index, text))
        elif kind == "reasoning":
            events.append(ReasoningDelta(block.index, text))

    def _begin(self, kind: str, field: str, events: list[ModelEvent]) -> TextBlock:
        self._end_text(events)
        self._calls.end_whole(events)
        block = self.open = TextBlock(kind, len(self._blocks), field)
        self._blocks.append(block)
        if kind == "text":
            events.append(TextStart(block.index))
        elif kind == "reasoning":
            events.append(ReasoningStart(block.index))
        return block

    def _end_text(self, events: list[ModelEvent]) -> None:
        block = self.open
        if block is None:
            return
        self.open = None
        if block.kind == "text":
            events.append(TextEnd(block.index))
        elif block.kind == "reasoning":
            events.append(ReasoningEnd(block.index))

    def _add_reasoning(self, delta: Json, events: list[ModelEvent]) -> None:
        """Take reasoning. A vendor that gives it under several names says the same under each."""
        get = delta.get
        if details := get("reasoning_details"):
            add_details(self._details, details)
        field = "reasoning_content"
        reasoning = get(field)
        if not reasoning:
            field = "reasoning"
            reasoning = get(field)
        if not reasoning and details:
            field = "reasoning_details"
            reasoning = details_text(details)
        if reasoning and isinstance(reasoning, str):
            self._say("reasoning", field, reasoning, events)

    def _add_rest(self, delta: Json, events: list[ModelEvent]) -> None:
        """Take what is neither text nor calls."""
        get = delta.get
        if annotations := get("annotations"):
            events.extend(map(Source, self._sources.add_annotations(annotations)))
        if images := get("images"):
            self._add_images(images, events)
        if audio := get("audio"):
            audio_merged(self._audio, audio)
        if extra := get("extra_content"):
            self.extras["extra_content"] = extra

    def _add_content(self, content: Any, events: list[ModelEvent]) -> None:
        if isinstance(content, str):
            self._say("text", "content", content, events)
        elif is_array(content):
            for part in content:
                self._add_content_part(part, events)

    def _add_content_part(self, part: Any, events: list[ModelEvent]) -> None:
        if isinstance(part, str):
            kind, text = "text", part
        elif is_object(part):
            kind, text = _part_text(part)
        else:
            return
        if text:
            self._say(kind, "thinking" if kind == "reasoning" else "content", text, events)
        elif is_object(part) and (image := image_of(part)):
            self._add_image(image, events)

    def _add_call(self, delta: Any, events: list[ModelEvent]) -> None:
        if not is_object(delta):
            return
        block, is_new = self._calls.block_for(delta, self.response_id)
        if block is None:
            return
        if is_new:
            self._end_text(events)
            self._calls.end_whole(events)
            block.index = len(self._blocks)
            self._blocks.append(block)
            self._calls.blocks.append(block)
        elif self.open is not None:
            self._end_text(events)
        self._calls.take(block, delta, events)

    def _add_images(self, images: Any, events: list[ModelEvent]) -> None:
        for image in images if is_array(images) else ():
            if is_object(image) and (part := image_of(image)):
                self._add_image(part, events)

    def _add_image(self, part: ImagePart, events: list[ModelEvent]) -> None:
        if part not in self._images:
            self._images.append(part)
            events.append(File(part))


def _part_text(part: Json) -> tuple[str, str]:
    thinking = part.get("thinking")
    if isinstance(thinking, str):
        return "reasoning", thinking
    if is_array(thinking):
        pieces = (_part_text(p)[1] for p in thinking if is_object(p))
        return "reasoning", "".join(pieces)
    for kind, name in (("text", "text"), ("refusal", "refusal")):
        if isinstance(text := part.get(name), str):
            return kind, text
    return "text", ""
