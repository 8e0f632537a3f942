"""Server-sent events, as the WHATWG standard defines them: bytes in, events out, no I/O.

Two ways through. The usual body has one kind of line end and an event ends with a blank line, so a read is cut into
events by one `bytes.split`, and an event of a single `data:` line needs no look at its lines. Everything else (mixed
line ends, a lone CR, an event that is longer than what is kept back) goes line by line with `bytes.splitlines`, which
knows just the three line ends of the standard.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SSEDecoder", "SSEEvent"]

_BOM = b"\xef\xbb\xbf"
_KEPT_BACK = 4096  # an unfinished event up to this size is kept as bytes and split again with the next read


@dataclass(slots=True)
class SSEEvent:
    """One event of a body.

    Attributes:
        data: The `data` lines, joined by line feeds.
        offset: Byte offset in the body of the event's first line.
        type: The `event` field, empty where there is none.
        stray: Lines whose field no one knows, joined by line feeds: the standard ignores them, but a server that drops
            a bare JSON object into its stream sends just that. An event may consist of them alone.
    """

    data: bytes
    offset: int
    type: str = ""
    stray: bytes = b""


class SSEDecoder:
    """Reads a body that is cut anywhere.

    Attributes:
        last_event_id: The last `id` field.
        retry: The last `retry` field in milliseconds, None where there was none.
        comments: How many comment lines there were, those of unread events not counted.
    """

    __slots__ = (
        "_data",
        "_first",
        "_pending",
        "_pos",
        "_skip_lf",
        "_start",
        "_stray",
        "_type",
        "comments",
        "last_event_id",
        "retry",
    )

    def __init__(self) -> None:
        self.last_event_id = ""
        self.retry: int | None = None
        self.comments = 0
        self._pending: list[bytes] = []
        self._pos = 0  # offset in the body of the first pending byte
        self._start = True
        self._skip_lf = False
        self._data: list[bytes] = []
        self._stray: list[bytes] = []
        self._type = ""
        self._first = -1  # offset of the open event's first line; -1: no event is open

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Take the next bytes of the body.

        Returns:
            The events that are complete now.
        """
        if self._skip_lf and data:
            self._skip_lf = False
            if data[0] == 10:
                self._pos += 1
                data = data[1:]
        pending = self._pending
        if b"\n" not in data and b"\r" not in data:
            if data:
                pending.append(data)
            return []
        if pending:
            pending.append(data)
            data = b"".join(pending)
            pending.clear()
        if self._start:
            self._start = False
            if data.startswith(_BOM):
                self._pos = 3
                data = data[3:]
        events: list[SSEEvent] = []
        blank = _blank_line(data) if self._first < 0 else b""
        if blank:
            data = self._split(data, blank, events)
        if data and (not blank or len(data) > _KEPT_BACK):
            data = self._read_lines(data, events)
        if data:
            pending.append(data)
        return events

    def close(self) -> SSEEvent | None:
        """The body has ended.

        Returns:
            The last event where its blank line is missing. The standard drops it; whoever reads the body knows
            whether it is whole.
        """
        tail = b"".join(self._pending)
        self._pending.clear()
        if self._start and tail.startswith(_BOM):
            tail = tail[3:]
        events: list[SSEEvent] = []
        self._read_lines(tail + b"\n\n" if tail else b"\n", events)
        return events[0] if events else None

    def _split(self, data: bytes, blank: bytes, events: list[SSEEvent]) -> bytes:
        """Cut `data` at blank lines. Returns what follows the last one."""
        blocks = data.split(blank)
        tail = blocks.pop()
        width = len(blank)
        line_end = blank[:1]
        pos = self._pos
        append = events.append
        for block in blocks:
            if block[:6] == b"data: " and line_end not in block:
                append(SSEEvent(block[6:], pos))
                pos += len(block) + width
            else:
                self._pos = pos
                self._read_lines(block + blank, events)
                pos = self._pos
        self._pos = pos
        return tail

    def _read_lines(self, data: bytes, events: list[SSEEvent]) -> bytes:
        """Read whole lines. Returns the unfinished one at the end."""
        lines = data.splitlines(keepends=True)
        tail = b""
        if lines and lines[-1][-1] not in b"\r\n":
            tail = lines.pop()
        elif lines and lines[-1][-1] == 13:
            self._skip_lf = True
        for line in lines:
            self._read_line(line.rstrip(b"\r\n"), events)
            self._pos += len(line)
        return tail

    def _read_line(self, line: bytes, events: list[SSEEvent]) -> None:
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        if not name and line[0] == 58:
            self.comments += 1
            return
        if value[:1] == b" ":
            value = value[1:]
        if self._first < 0:
            self._first = self._pos
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self.last_event_id = value.decode("utf-8", "replace")
        elif name == b"retry":
            if value.isdigit():
                self.retry = int(value)
        else:
            self._stray.append(line)

    def _dispatch(self, events: list[SSEEvent]) -> None:
        if self._first < 0:
            return
        data, stray = self._data, self._stray
        if data or stray:
            events.append(SSEEvent(b"\n".join(data), self._first, self._type, b"\n".join(stray)))
            self._data, self._stray = [], []
        self._type = ""
        self._first = -1


def _blank_line(data: bytes) -> bytes:
    """What ends an event in `data`, empty where its line ends are mixed."""
    if b"\r" not in data:
        return b"\n\n"
    pairs = data.count(b"\r\n")
    return b"\r\n\r\n" if pairs == data.count(b"\r") == data.count(b"\n") else b""
