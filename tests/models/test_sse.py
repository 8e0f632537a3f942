"""The event-stream decoder against the standard, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.models.sse import SSEDecoder, SSEEvent


def read(*pieces: bytes) -> list[SSEEvent]:
    decoder = SSEDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    tail = decoder.close()
    return [*events, tail] if tail is not None else events


def data_of(*pieces: bytes) -> list[bytes]:
    return [event.data for event in read(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end):
    body = end.join([b"data: a", b"", b"event: x", b"data: b", b"data: c", b"", b""])
    assert [(event.type, event.data) for event in read(body)] == [("", b"a"), ("x", b"b\nc")]


def test_mixed_line_ends():
    assert data_of(b"data: a\r\n\ndata: b\r\rdata: c\n\r\ndata: d\n\n") == [b"a", b"b", b"c", b"d"]


def test_lone_cr_dispatches_at_once_and_a_line_feed_after_it_is_no_blank_line():
    decoder = SSEDecoder()
    assert [event.data for event in decoder.feed(b"data: a\r\r")] == [b"a"]
    assert decoder.feed(b"\ndata: b\r") == []
    assert decoder.feed(b"\ndata: c") == []
    assert [event.data for event in decoder.feed(b"\r\r")] == [b"b\nc"]


def test_byte_order_mark_only_at_the_beginning():
    assert data_of(b"\xef", b"\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a", b""]
    assert data_of(b"\xef\xbb\xbfdata: a") == [b"a"]


def test_one_space_after_the_colon_is_dropped():
    assert data_of(b"data:a\n\ndata:  a\n\ndata\n\ndata:\n\n") == [b"a", b" a", b"", b""]


def test_comments_are_counted_and_skipped():
    decoder = SSEDecoder()
    events = decoder.feed(b": OPENROUTER PROCESSING\n\n: \n\n:\ndata: a\n\n: b\n\n")
    assert [event.data for event in events] == [b"a"]
    assert decoder.comments == 4


def test_id_and_retry():
    decoder = SSEDecoder()
    decoder.feed(b"id: 7\nretry: 300\n\nid: a\0b\nretry: 1x\n\n")
    assert (decoder.last_event_id, decoder.retry) == ("7", 300)


def test_event_without_data_is_not_dispatched_and_its_type_is_forgotten():
    assert [(event.type, event.data) for event in read(b"event: ping\n\ndata: a\n\n")] == [("", b"a")]


def test_last_event_without_blank_line_comes_at_close():
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\n\nevent: x\ndata: b") != []
    assert decoder.close() == SSEEvent(b"b", 9, "x")
    assert decoder.close() is None


def test_lines_that_are_no_sse_are_visible():
    body = b'data: {}\n\n{\n  "error": {\n    "code": 503\n  }\n}\n'
    first, second = read(body)
    assert (first.data, first.stray) == (b"{}", b"")
    assert (second.data, second.offset) == (b"", 10)
    assert second.stray == b'{\n  "error": {\n    "code": 503\n  }\n}'


def test_offsets_point_at_the_first_line_of_each_event():
    body = b"\xef\xbb\xbf: hi\r\n\r\ndata: a\r\n\r\n\r\nevent: x\r\ndata: b\r\n\r\ndata: c"
    offsets = [event.offset for event in read(body)]
    assert [body[offset : offset + 5] for offset in offsets] == [b"data:", b"event", b"data:"]
    assert offsets == [event.offset for event in read(*[bytes([byte]) for byte in body])]


def test_long_event_in_small_reads():
    body = b"event: x\n" + b"data: " + b"y" * 20_000 + b"\ndata: z\n\n"
    pieces = [body[i : i + 1000] for i in range(0, len(body), 1000)]
    assert read(*pieces) == [SSEEvent(b"y" * 20_000 + b"\nz", 0, "x")]


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:\xc3\xbc",
        b"data",
        b": c",
        b"event: x",
        b"id: 1",
        b"{",
        b"",
        b"",
        b"retry: 5",
        b"data: " + b"z" * 5000,
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(
    lines=st.lists(LINES, max_size=12),
    end=ENDS | st.none(),
    ends=st.lists(ENDS, min_size=12, max_size=12),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_cuts_never_matter(lines, end, ends, cuts):
    body = b"".join(line + (end or other) for line, other in zip(lines, ends, strict=False))
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[a:b] for a, b in pairwise(places)]
    assert read(*pieces) == read(body) == read(*[bytes([byte]) for byte in body])
