"""From choices to an `AssistantMessage`: what a whole body and a stream have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...events import ModelEvent
from ...messages import AssistantMessage
from ..base import ModelIdentity
from ..json_shapes import is_array, is_object
from .answer import Answer
from .finish import finish_reason, raw_finish_reason
from .quirks import ChatQuirks
from .usage import read_usage

__all__ = ["API", "Completion"]

API = "openai-chat"

Json: TypeAlias = Mapping[str, Any]

_KEPT = ("service_tier", "prompt_filter_results")
_KEPT_OF_CHOICE = ("native_finish_reason", "content_filter_results")


class Completion:
    """One chat completion, put together.

    Attributes:
        answer: The first choice; the message is made of it.
        raw_usage: The last usage object.
    """

    __slots__ = ("_extras", "_model", "_others", "_quirks", "_response_model", "answer", "raw_usage", "response_id")

    def __init__(self, model: ModelIdentity, quirks: ChatQuirks) -> None:
        self.answer = Answer()
        self.raw_usage: Json | None = None
        self.response_id: str | None = None
        self._model = model
        self._quirks = quirks
        self._response_model: str | None = None
        self._others: dict[int, Answer] = {}
        self._extras: dict[str, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether the first choice told why it ended."""
        return bool(self.answer.finish)

    def take(self, chunk: Json, events: list[ModelEvent]) -> None:
        """Take a chunk, or a whole body."""
        get = chunk.get
        if not self.response_id and (response_id := get("id")) and isinstance(response_id, str):
            self.response_id = self.answer.response_id = response_id
        if not self._response_model and (name := get("model")) and isinstance(name, str):
            self._response_model = name
        for name in _KEPT:
            if value := get(name):
                self._extras[name] = value
        self._take_usage(get("usage"), get("x_groq"))
        choices = get("choices")
        for choice in choices if is_array(choices) else ():
            if is_object(choice):
                self._take_choice(choice, events)
        citations, results = get("citations"), get("search_results")
        if citations or results:
            self.answer.cite(citations, results, events)

    def message(self, *, cut: bool = False, failure: str | None = None, error: str | None = None) -> AssistantMessage:
        """The message as it is now.

        Args:
            cut: Whether the answer stopped before its own end.
            failure: The finish reason of an answer that failed, `error` or `aborted`.
            error: Why it failed.
        """
        answer, raw = self.answer, self.answer.finish
        usage = self.raw_usage
        data = self._extras | answer.provider_data()
        if usage is not None:
            data["usage"] = usage
        if self._others:
            data["other_choices"] = [
                {"index": index, **other.as_json()} for index, other in sorted(self._others.items())
            ]
        excludes = self._quirks.output_excludes_reasoning
        return AssistantMessage(
            answer.parts(cut=cut),
            provider=self._model.provider,
            api=API,
            model=self._model.name,
            finish_reason=failure or finish_reason(raw, has_calls=answer.has_calls),
            raw_finish_reason=raw,
            usage=None if usage is None else read_usage(usage, output_excludes_reasoning=excludes),
            response_id=self.response_id,
            response_model=self._response_model,
            error=error,
            provider_data=data or None,
        )

    def _take_usage(self, usage: Any, x_groq: Any) -> None:
        if not usage and is_object(x_groq):
            usage = x_groq.get("usage")
        if usage and is_object(usage):
            self.raw_usage = usage

    def _take_choice(self, choice: Json, events: list[ModelEvent]) -> None:
        get = choice.get
        index = get("index")
        index = index if isinstance(index, int) else 0
        answer = self.answer
        if index:
            answer = self._others.get(index) or self._others.setdefault(index, Answer())
            answer.response_id = f"{self.response_id or ''}n{index}"
            events = []
        delta = get("delta")
        if delta is None and not answer.has_content:
            # A whole message; beside deltas it only repeats them.
            delta = get("message")
        if delta and is_object(delta):
            answer.add(delta, events)
        reason = raw_finish_reason(get("finish_reason"))
        if reason or (reason == "" and answer.finish is None):
            answer.finish = reason
        if logprobs := get("logprobs"):
            answer.add_logprobs(logprobs)
        for name in _KEPT_OF_CHOICE:
            if value := get(name):
                answer.extras[name] = value
        if not index and (usage := get("usage")):
            self._take_usage(usage, None)
