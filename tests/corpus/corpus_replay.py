"""Feeding a body to a codec, cut in every way that could matter."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loopwright.errors import ModelError
from loopwright.events import (
    ModelEvent,
    ReasoningDelta,
    ResponseDone,
    ResponseError,
    TextDelta,
    ToolInputDelta,
)
from loopwright.messages import AssistantMessage
from loopwright.models.base import ModelIdentity
from loopwright.models.codec import Codec

_WHOLE_BYTES = 200_000  # bodies up to this size are also read byte by byte
_SINGLE_CUTS = 24
_RANDOM_ROUNDS = 4

_AWKWARD = re.compile(rb"\r\n|\n|\r|\bdata:|\bevent:|[\x80-\xbf]|\xef\xbb\xbf")


@dataclass
class Outcome:
    """What a codec made of an answer."""

    message: AssistantMessage | None
    error: Exception | None
    events: list[ModelEvent]

    @property
    def comparable(self) -> tuple[Any, ...]:
        """The same for the same answer, however its bytes were cut."""
        deltas: dict[tuple[str, int], str] = {}
        others: list[object] = []
        for event in self.events:
            if isinstance(event, (TextDelta, ReasoningDelta, ToolInputDelta)):
                text = event.delta if isinstance(event, ToolInputDelta) else event.text
                key = (event.type, event.index)
                deltas[key] = deltas.get(key, "") + text
            elif isinstance(event, ResponseError):
                others.append((event.type, event.message, type(event.error), str(event.error)))
            else:
                others.append(event)
        return self.message, type(self.error), str(self.error), deltas, others


def replay(codec: Codec, model: ModelIdentity, pieces: Iterable[bytes]) -> Outcome:
    """Read a streamed body."""
    decoder = codec.decoder(model)
    events: list[ModelEvent] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.close()
    except ModelError as error:
        return Outcome(decoder.partial(), error, events)
    last = events[-1] if events else None
    if isinstance(last, ResponseDone):
        return Outcome(last.message, None, events)
    if isinstance(last, ResponseError):
        return Outcome(last.message, last.error, events)
    return Outcome(decoder.partial(), AssertionError("the stream ended without a last event"), events)


def ways_to_cut(body: bytes, seed: str) -> Iterator[tuple[str, list[bytes]]]:
    """Name and pieces of each way, the whole body left out."""
    if len(body) <= _WHOLE_BYTES:
        yield "byte by byte", [body[i : i + 1] for i in range(len(body))]
    else:
        yield "1 to 7 bytes", list(_cycling(body))
    places = sorted(_awkward_places(body))
    yield "at every awkward place", _cut(body, places)
    rng = random.Random(seed)
    for place in rng.sample(places, min(_SINGLE_CUTS, len(places))):
        yield f"at byte {place}", _cut(body, [place])
    for number in range(_RANDOM_ROUNDS):
        count = min(len(body), rng.choice((3, 10, 100)))
        yield f"at random ({number})", _cut(body, sorted(rng.sample(range(len(body) + 1), count)))


def _cycling(body: bytes) -> Iterator[bytes]:
    start = 0
    size = 1
    while start < len(body):
        yield body[start : start + size]
        start += size
        size = size % 7 + 1


def _awkward_places(body: bytes) -> set[int]:
    """Inside characters, inside and around line ends, inside field names."""
    places: set[int] = set()
    for match in _AWKWARD.finditer(body):
        places.update(range(match.start(), match.end() + 1))
    return {place for place in places if 0 < place < len(body)}


def _cut(body: bytes, places: list[int]) -> list[bytes]:
    return [body[start:end] for start, end in pairwise([0, *places, len(body)])]
