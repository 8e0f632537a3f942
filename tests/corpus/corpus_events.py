"""Whether the events of a stream tell the message that they end in."""

from __future__ import annotations

from collections.abc import Iterator

from corpus_replay import Outcome

from loopwright.events import (
    File,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseDone,
    ResponseError,
    ResponseStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from loopwright.messages import FilePart, ImagePart, SourcePart

_STARTS = (TextStart, ReasoningStart, ToolInputStart)
_DELTAS = (TextDelta, ReasoningDelta, ToolInputDelta)
_ENDS = (TextEnd, ReasoningEnd, ToolInputEnd)


def event_faults(outcome: Outcome) -> Iterator[str]:
    """One sentence for each thing that does not agree."""
    yield from _frame_faults(outcome)
    yield from _bracket_faults(outcome)
    yield from _content_faults(outcome)


def _frame_faults(outcome: Outcome) -> Iterator[str]:
    events = outcome.events
    terminal = [event for event in events if isinstance(event, (ResponseDone, ResponseError))]
    if len(terminal) > 1 or (terminal and events[-1] is not terminal[0]):
        yield "the last event is not the only one of its kind"
    starts = sum(isinstance(event, ResponseStart) for event in events)
    lone = len(events) == len(terminal)
    if not lone and (starts != 1 or not isinstance(events[0], ResponseStart)):
        yield f"{starts} response-start events, or not at the beginning"


def _bracket_faults(outcome: Outcome) -> Iterator[str]:
    open_blocks: dict[int, str] = {}
    begun: list[int] = []
    for event in outcome.events:
        kind = event.type.rpartition("-")[0]
        if isinstance(event, _STARTS):
            if event.index in begun or (begun and event.index < begun[-1]):
                yield f"block {event.index} begins again or out of order"
            if kind != "tool-input" and open_blocks:
                overlap = [index for index, other in open_blocks.items() if other != "tool-input"]
                if overlap:
                    yield f"block {event.index} begins inside block {overlap[0]}"
            begun.append(event.index)
            open_blocks[event.index] = kind
        elif isinstance(event, _DELTAS):
            if open_blocks.get(event.index) != kind:
                yield f"{event.type} for block {event.index}, which is not open"
        elif isinstance(event, _ENDS) and open_blocks.pop(event.index, None) != kind:
            yield f"{event.type} for block {event.index}, which is not open"
        elif isinstance(event, ResponseDone) and open_blocks:
            yield f"blocks {sorted(open_blocks)} are open at the end"


def _content_faults(outcome: Outcome) -> Iterator[str]:
    message, events = outcome.message, outcome.events
    if message is None:
        return
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    if text != message.text:
        yield f"text deltas join to {text!r}, the message has {message.text!r}"
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    if reasoning != message.reasoning:
        yield f"reasoning deltas join to {reasoning[:200]!r}, the message has {message.reasoning[:200]!r}"
    told = {event.tool_call_id: event.tool_name for event in events if isinstance(event, ToolInputStart)}
    arguments = dict.fromkeys(told, "")
    for event in events:
        if isinstance(event, ToolInputDelta):
            arguments[event.tool_call_id] = arguments.get(event.tool_call_id, "") + event.delta
    calls = {call.id: call for call in message.tool_calls}
    for id_, call in calls.items():
        if id_ not in told:
            if not call.provider_executed:
                yield f"no tool-input-start for call {id_!r}"
        elif told[id_] != call.name:
            yield f"tool-input-start names {told[id_]!r}, the message {call.name!r}"
        elif arguments[id_] != call.arguments and not call.provider_executed and outcome.error is None:
            yield f"arguments deltas of {id_!r} join to {arguments[id_]!r}, the message has {call.arguments!r}"
    if missing := told.keys() - calls.keys():
        yield f"calls {sorted(missing)} are in events only"
    if [event.part for event in events if isinstance(event, Source)] != _parts(outcome, SourcePart):
        yield "source events and source parts differ"
    if [event.part for event in events if isinstance(event, File)] != _parts(outcome, (ImagePart, FilePart)):
        yield "file events and file parts differ"


def _parts(outcome: Outcome, kind: type | tuple[type, ...]) -> list[object]:
    return [part for part in outcome.message.content if isinstance(part, kind)] if outcome.message else []
