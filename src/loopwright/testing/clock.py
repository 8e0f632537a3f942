"""A clock that tests set."""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """Tells the time that it was set to: give it where a `clock` is asked for.

    Attributes:
        now: Seconds since the epoch.
        tick: How far each reading moves it on.
    """

    def __init__(self, now: float = 1_700_000_000.0, *, tick: float = 0.0) -> None:
        self.now = now
        self.tick = tick

    def __call__(self) -> float:
        """The time."""
        now = self.now
        self.now += self.tick
        return now

    def advance(self, seconds: float) -> None:
        """Move it on."""
        self.now += seconds
