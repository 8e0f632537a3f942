"""The clock that tests set."""

from __future__ import annotations

from loopwright.testing import FakeClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(100.0)
    assert (clock(), clock()) == (100.0, 100.0)
    clock.advance(2.5)
    assert clock() == 102.5
    clock.now = 7.0
    assert clock() == 7.0


def test_it_may_tick_with_each_reading() -> None:
    clock = FakeClock(1.0, tick=0.5)
    assert [clock(), clock(), clock()] == [1.0, 1.5, 2.0]
