"""The request view: what the model at hand is sent of a history.

The history stays as it happened. The view leaves out what failed, closes what was left open, and fits each message to
the model. It is built incrementally: a message is adapted once, and only the last answer whose calls are not all
answered is looked at again, for a result may still come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from ..errors import LoopwrightError
from ..messages import (
    ApprovalMessage,
    AssistantMessage,
    Message,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from ..models.base import ModelIdentity
from .adapt import adapt_assistant, adapt_result, adapt_user, fit_id, is_same_model, takes_any_id
from .checks import not_a_message
from .options import HistorySource, RequestSource, ToolRepairSource

__all__ = ["RequestView"]

_NO_RESULT = "No result was recorded for this call."


class _OpenCall:
    """A call of the latest answer that waits for its result."""

    __slots__ = ("call", "sent_id")

    def __init__(self, call: ToolCallPart, sent_id: str) -> None:
        self.call = call
        self.sent_id = sent_id


class RequestView:
    """The view of one growing history, for one model."""

    __slots__ = (
        "_created_at", "_is_same", "_messages", "_model", "_open", "_open_at", "_results", "_seen", "_sources",
        "_taken",
    )  # fmt: skip

    def __init__(
        self, model: ModelIdentity, *, is_same: Callable[[AssistantMessage, ModelIdentity], bool] | None = None
    ) -> None:
        """Begin with nothing read.

        Args:
            model: Who will read it.
            is_same: Whether the model wrote an answer. Default: provider, wire and name are all equal.
        """
        self._model = model
        self._is_same = is_same or is_same_model
        self._reset()

    def _reset(self) -> None:
        self._messages: list[Message] = []
        self._sources: list[RequestSource] = []
        self._seen: list[Message] = []
        self._taken: set[str] = set()
        # The latest answer, while calls of it wait: where it stands, its calls, and the results that came.
        self._open: list[_OpenCall] = []
        self._open_at = 0
        self._created_at: float | None = None
        self._results: dict[int, tuple[Message, RequestSource]] = {}

    def build(self, history: Sequence[Message]) -> tuple[list[Message], list[RequestSource]]:
        """The messages to send, and where each comes from.

        Args:
            history: The history; what was seen of it before must be unchanged, else it is read anew.

        Returns:
            Messages and sources, of equal length; the lists are the receiver's own.

        Raises:
            InvalidInputError: The history holds what is no message.
            LoopwrightError: The view broke its own promise.
        """
        if len(self._seen) > len(history) or not all(map(is_, self._seen, history)):
            self._reset()
        for at in range(len(self._seen), len(history)):
            self._take(history[at], at)
            self._seen.append(history[at])
        messages, sources = list(self._messages), list(self._sources)
        for message, source in self._closing():
            messages.append(message)
            sources.append(source)
        if len(messages) != len(sources):
            raise LoopwrightError("The request view lost track of where its messages come from; nothing was sent.")
        return messages, sources

    # ------------------------------------------------------------ reading on

    def _take(self, message: Message, at: int) -> None:
        match message:
            case UserMessage():
                self._close()
                self._add(adapt_user(message, self._model.capabilities), HistorySource(at))
            case AssistantMessage():
                self._close()
                if not message.failed:
                    self._add_assistant(message, at)
            case ToolResultMessage():
                self._take_result(message, at)
            case ApprovalMessage():
                return
            case _:
                raise not_a_message(message, at)

    def _add(self, message: Message, source: RequestSource) -> None:
        self._messages.append(message)
        self._sources.append(source)

    def _add_assistant(self, message: AssistantMessage, at: int) -> None:
        same_model = self._is_same(message, self._model)
        calls = message.tool_calls
        sent_ids = [self._sent_id(call, at, n, same_model=same_model) for n, call in enumerate(calls)]
        self._add(adapt_assistant(message, sent_ids, same_model=same_model), HistorySource(at))
        self._open = [
            _OpenCall(call, sent) for call, sent in zip(calls, sent_ids, strict=True) if not call.provider_executed
        ]
        self._open_at = at
        self._results = {}
        self._created_at = message.created_at

    def _sent_id(self, call: ToolCallPart, at: int, n: int, *, same_model: bool) -> str:
        """The id to send.

        An id of the model's own is an opaque token and stays. Any other is made fit, and unique, where the model has
        rules for ids: such vendors refuse one that they have seen. No result could be told to answer a call without an
        id, so such a call gets one, be it the model's own.
        """
        sent = call.id
        if not sent or not (same_model or takes_any_id(self._model.capabilities)):
            sent = fit_id(sent or f"call_{at}_{n}", self._model.capabilities, self._taken)
        self._taken.add(sent)
        return sent

    def _take_result(self, message: ToolResultMessage, at: int) -> None:
        """Answer the first open call of that id; what answers none is dropped."""
        for n, waiting in enumerate(self._open):
            if n not in self._results and waiting.call.id == message.tool_call_id:
                adapted = adapt_result(message, self._model.capabilities, waiting.sent_id)
                self._results[n] = (adapted, HistorySource(at))
                break
        else:
            return
        if len(self._results) == len(self._open):
            self._close()

    # ------------------------------------------------------------ pairing

    def _closing(self) -> list[tuple[Message, RequestSource]]:
        """The results of the latest answer as they came, then repairs for those that are missing."""
        repairs = [self._repair(waiting) for n, waiting in enumerate(self._open) if n not in self._results]
        return [*self._results.values(), *repairs]

    def _repair(self, waiting: _OpenCall) -> tuple[Message, RequestSource]:
        """A result for a call that has none. It takes the answer's time, so that equal histories give equal bytes."""
        call = waiting.call
        result = ToolResultMessage(waiting.sent_id, call.name, _NO_RESULT, "missing", created_at=self._created_at)
        return result, ToolRepairSource(self._open_at, call.id)

    def _close(self) -> None:
        """The latest answer is settled: nothing that comes later can change its results."""
        for message, source in self._closing():
            self._add(message, source)
        self._open = []
        self._results = {}
