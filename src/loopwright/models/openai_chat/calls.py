"""The tool calls of one choice: which delta belongs to which call, and what a call is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from ...events import ModelEvent, ToolInputDelta, ToolInputEnd, ToolInputStart
from ...messages import ToolCallPart
from ..json_shapes import is_array, is_object

__all__ = ["CallBlock", "Calls"]

Json: TypeAlias = Mapping[str, Any]

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9]")


class CallBlock:
    """One call."""

    __slots__ = ("chunks", "custom", "data", "ended", "held", "id", "index", "key", "name", "started")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.index = -1
        self.id = ""
        self.name = ""
        self.chunks: list[str] = []
        self.custom = False
        self.data: dict[str, Any] | None = None
        self.held: list[str] = []  # arguments that were not told yet
        self.started = False
        self.ended = False

    @property
    def arguments(self) -> str:
        """What was written so far."""
        return "".join(self.chunks) + "".join(self.held)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a JSON value that ends. Of free text no one can tell."""
        return not self.custom and _parses(self.arguments)

    def part(self, *, incomplete: bool) -> ToolCallPart:
        """The call as a message part."""
        return ToolCallPart(
            self.id, self.name, self.arguments, incomplete=incomplete, custom=self.custom, provider_data=self.data
        )

    def as_json(self) -> dict[str, Any]:
        """The call as plain data."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


class Calls:
    """The calls of one choice, in order of appearance."""

    __slots__ = ("_ids", "_last", "blocks")

    def __init__(self) -> None:
        self.blocks: list[CallBlock] = []
        self._last: CallBlock | None = None
        self._ids: set[str] = set()

    def block_for(self, delta: Json, response_id: str) -> tuple[CallBlock | None, bool]:
        """The call that a delta goes on with, or a new one; None for a member that only looks like a call.

        The index is a key, not a position. Where a vendor gives none, or the same one to each of its whole calls, the
        id tells, and a name that comes when the last call's arguments are whole.
        """
        function = _function(delta)
        name = _text(function.get("name"))
        given_id = _text(delta.get("id"))
        block = self._known(delta.get("index"), given_id, name)
        if block is not None and not self._is_another(block, given_id, name, function):
            self._last = block
            return block, False
        if not name and not given_id and not _arguments(function):
            return None, False
        block = CallBlock(delta.get("index"))
        block.id = self._unique_id(given_id, response_id)
        self._last = block
        return block, True

    def take(self, block: CallBlock, delta: Json, events: list[ModelEvent]) -> None:
        """Add a delta to its call."""
        function = _function(delta)
        if function is delta.get("custom"):
            block.custom = True
        if not block.name:
            block.name = _text(function.get("name"))
        if extra := delta.get("extra_content"):
            block.data = {"extra_content": extra}
        if block.name and not block.started:
            _start(block, events)
        text = _arguments(function)
        if not text:
            return
        if block.held == ["{}"]:
            # Some servers begin with `{}` as a placeholder and then send the arguments.
            block.held.clear()
        block.held.append(text)
        if block.started and not (text == "{}" and not block.chunks and len(block.held) == 1):
            _tell(block, events)

    def go_on(self, delta: Json, events: list[ModelEvent]) -> bool:
        """Take a delta that only has more arguments of the last call. Returns False, and takes nothing, for others."""
        block = self._last
        if block is None or block.ended or block.held or not block.chunks or len(delta) > 1:
            return False
        calls = delta.get("tool_calls")
        if not is_array(calls) or len(calls) != 1:
            return False
        call = calls[0]
        if not is_object(call) or len(call) > 2 or call.get("index", block) != block.key:
            return False
        function = call.get("function")
        if not is_object(function) or len(function) != 1:
            return False
        text = function.get("arguments")
        if type(text) is not str or not text:
            return False
        block.chunks.append(text)
        events.append(ToolInputDelta(block.index, block.id, text))
        return True

    def end_whole(self, events: list[ModelEvent]) -> None:
        """Another block begins: end the calls that are whole. One that is not may go on after it."""
        for block in self.blocks:
            if not block.started:
                _start(block, events)
            if not block.ended and block.arguments and block.is_whole:
                _end(block, events)

    def end(self, events: list[ModelEvent]) -> None:
        """End all calls."""
        for block in self.blocks:
            if not block.ended:
                _end(block, events)

    def _known(self, index: Any, given_id: str, name: str) -> CallBlock | None:
        if index is not None:
            return next((block for block in reversed(self.blocks) if block.key == index), None)
        if given_id:
            return next((block for block in self.blocks if block.id == given_id), None)
        return None if name and self._last is not None and self._last.arguments else self._last

    @staticmethod
    def _is_another(block: CallBlock, given_id: str, name: str, function: Json) -> bool:
        if not name or given_id == block.id:
            return False
        written = block.arguments.strip()
        begins = _arguments(function).lstrip()[:1]
        return bool(written) and _parses(written) and (begins in ("{", "n") or bool(given_id and not begins))

    def _unique_id(self, given: str, response_id: str) -> str:
        made = given
        number = len(self.blocks)
        while not made or made in self._ids:
            made = f"call_{_NOT_IN_IDS.sub('', response_id)[-24:]}_{number}" if response_id else f"call_{number}"
            number += 1
        self._ids.add(made)
        return made


def _start(block: CallBlock, events: list[ModelEvent]) -> None:
    block.started = True
    events.append(ToolInputStart(block.index, block.id, block.name))


def _tell(block: CallBlock, events: list[ModelEvent]) -> None:
    for text in block.held:
        block.chunks.append(text)
        events.append(ToolInputDelta(block.index, block.id, text))
    block.held.clear()


def _end(block: CallBlock, events: list[ModelEvent]) -> None:
    block.ended = True
    if not block.started:
        _start(block, events)
    _tell(block, events)
    events.append(ToolInputEnd(block.index, block.id))


def _function(delta: Json) -> Json:
    """What holds name and arguments. Zero-valued members of the kind that it is not are no calls."""
    function, custom = delta.get("function"), delta.get("custom")
    if is_object(custom) and (delta.get("type") == "custom" or not is_object(function)):
        return custom
    return function if is_object(function) else {}


def _arguments(function: Json) -> str:
    value = function.get("arguments")
    if value is None:
        value = function.get("input")
    if value is None or isinstance(value, str):
        return value or ""
    return to_json(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _parses(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True
