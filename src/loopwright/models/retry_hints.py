"""When to ask again: what headers and error bodies say about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from .json_shapes import is_array, is_object

__all__ = ["epoch_now", "retry_after", "should_retry"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EPOCH_FLOOR = 1e9  # a reset time above it is a date, not a number of seconds to wait


def epoch_now() -> float:
    """Seconds since the epoch."""
    return time.time()


def should_retry(headers: Mapping[str, str], default: bool) -> bool:
    """Whether to try again: `x-should-retry` where the provider sends it, else `default`."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower(), default)


def retry_after(headers: Mapping[str, str], body: Any, clock: Callable[[], float] = epoch_now) -> float | None:
    """Seconds to wait before the next try, None where nothing says so.

    The first of these that asks for a wait counts: `retry-after-ms`, `retry-after` (seconds or a date), Google's
    `RetryInfo` in the body, `x-ratelimit-reset` in a header or in OpenRouter's body, the reset of an OpenAI-style limit
    that is used up. Where all that there are say zero, it is zero.

    Args:
        headers: Names in lower case.
        body: The parsed body.
        clock: Seconds since the epoch.
    """
    hints = (
        _number(headers.get("retry-after-ms"), 0.001),
        _seconds_or_date(headers.get("retry-after"), clock),
        _google_delay(body),
        _reset(headers.get("x-ratelimit-reset"), clock),
        _reset(_openrouter_reset(body), clock),
        _used_up(headers),
    )
    known = [hint for hint in hints if hint is not None]
    return next((hint for hint in known if hint > 0), 0.0 if known else None)


def _number(text: str | None, unit: float = 1.0) -> float | None:
    if text is None:
        return None
    try:
        value = float(text) * unit
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds_or_date(text: str | None, clock: Callable[[], float]) -> float | None:
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - clock())
    except (ValueError, TypeError, OverflowError):
        return None


def _duration(text: str | None) -> float | None:
    """Seconds of `1m30s`, `130ms`, `6s`."""
    text = (text or "").strip()
    pieces = _DURATION.findall(text)
    if not pieces or "".join(map("".join, pieces)) != text:
        return _number(text or None)
    return sum(float(value) * _SECONDS[unit] for value, unit in pieces)


def _reset(text: str | None, clock: Callable[[], float]) -> float | None:
    """Seconds until a reset given as epoch milliseconds, epoch seconds, or a duration."""
    value = _duration(text)
    if value is None or value < _EPOCH_FLOOR:
        return value
    seconds = value / 1000 if value > _EPOCH_FLOOR * 100 else value
    return max(0.0, seconds - clock())


def _used_up(headers: Mapping[str, str]) -> float | None:
    waits = [
        wait
        for limit in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{limit}", "").strip() == "0"
        and (wait := _duration(headers.get(f"x-ratelimit-reset-{limit}"))) is not None
    ]
    return max(waits, default=None)


def _member(value: Any, *path: str) -> Any:
    for name in path:
        if not is_object(value):
            return None
        value = value.get(name)
    return value


def _openrouter_reset(body: Any) -> str | None:
    headers = _member(body, "error", "metadata", "headers")
    if not is_object(headers):
        return None
    lower = {str(name).lower(): value for name, value in headers.items()}
    value = lower.get("x-ratelimit-reset")
    return None if value is None else str(value)


def _google_delay(body: Any) -> float | None:
    if is_array(body) and body:
        body = body[0]
    details = _member(body, "error", "details")
    if not is_array(details):
        return None
    for detail in details:
        delay = _member(detail, "retryDelay")
        if isinstance(delay, str):
            return _duration(delay)
    return None
