"""What an error answer says: generic readers of error bodies, shared by the wire codecs.

Vendors agree on little: `{"error": {...}}`, `{"error": "text"}`, `{"detail": ...}`, `{"message": ...}`, a list around
any of them, plain text, nothing at all. The readers here look at the shape and never at the vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from ..errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelHTTPError,
    ModelResponseError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from .json_shapes import is_array, is_object
from .retry_hints import epoch_now, retry_after, should_retry

__all__ = ["ErrorBody", "http_error", "is_context_overflow", "parse_body", "read_error", "response_error"]

_BODY_LIMIT = 16_384  # bytes kept of a body that is no JSON
_MESSAGE_LIMIT = 2_000  # characters of the provider's message that go into ours

_REQUEST_ID_HEADERS = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "x-goog-request-id",
    "x-generation-id",
    "cf-ray",
)

_OVERFLOW_WORDS = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|prompt (?:is )?too long|input (?:is )?too long"
    r"|exceed\w* (?:the )?(?:max\w*|model'?s?|available) (?:\w+ ){0,3}(?:context|input|prompt)"
    r"|token count .{0,40}exceeds|too many (?:input |prompt )?tokens|too large for model with \d+ maximum",
    re.IGNORECASE,
)
_RATE_WORDS = re.compile(r"per[ _-](?:minute|second|hour|day)|rate[ _-]?limit|\b[rt]p[md]\b|quota", re.IGNORECASE)
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"})

_USED_UP_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})
_PASSING_CODES = frozenset(
    {
        "api_error",
        "capacity_exceeded",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "resource_exhausted",
        "server_error",
        "server_overloaded",
        "service_unavailable",
        "timeout",
        "timeout_error",
        "too_many_requests",
        "unavailable",
        "upstream_error",
    }
)
_PASSING_STATUSES = frozenset({408, 409, 425, 429})

_CLASSES: Mapping[int, tuple[type[ModelHTTPError], str]] = {
    400: (BadRequestError, "Check the request's settings and messages."),
    401: (AuthenticationError, "Check the API key."),
    403: (PermissionDeniedError, "Check what the API key may do."),
    404: (NotFoundError, "Check the model name and the base URL."),
    413: (BadRequestError, "Send less."),
    422: (BadRequestError, "Check the request's settings and messages."),
    429: (RateLimitError, "Wait, or raise the limit at the provider."),
}


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What an error object says.

    Attributes:
        message: In words; empty where there are none.
        code: The provider's code.
        type: The provider's error type.
    """

    message: str = ""
    code: str | int | None = None
    type: str | None = None


def parse_body(body: bytes) -> Any:
    """The body as JSON where it is JSON, else as text, capped; None when empty."""
    if not body.strip():
        return None
    try:
        return from_json(body)
    except ValueError:
        text = body[:_BODY_LIMIT].decode("utf-8", "replace")
        return text if len(body) <= _BODY_LIMIT else f"{text} [{len(body) - _BODY_LIMIT} bytes left out]"


def read_error(body: Any) -> ErrorBody:
    """Find message, code and type in a parsed error body of any shape."""
    if is_array(body) and body:
        body = body[0]
    if not is_object(body):
        return ErrorBody(message=body.strip() if isinstance(body, str) else "")
    outer = body
    inner = outer.get("error")
    error: Mapping[str, Any] = inner if is_object(inner) else outer
    message = error.get("message") or error.get("detail") or error.get("msg") or error.get("title")
    if not message and isinstance(inner, str):
        message = inner
    if not message and error.get("errors"):
        message = error["errors"]
    kind = error.get("type") or error.get("status")
    return ErrorBody(_as_text(message), _as_code(error.get("code")), kind if isinstance(kind, str) else None)


def is_context_overflow(error: ErrorBody) -> bool:
    """Whether an error says that the request does not fit the model's context window."""
    if error.code in _OVERFLOW_CODES or error.type in _OVERFLOW_CODES:
        return True
    return bool(_OVERFLOW_WORDS.search(error.message)) and not _RATE_WORDS.search(error.message)


def http_error(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    clock: Callable[[], float] = epoch_now,
) -> ModelHTTPError:
    """The exception for an HTTP error answer.

    Args:
        status: The HTTP status.
        headers: Names in lower case.
        body: As received.
        clock: Seconds since the epoch; dates in hints are read against it.
    """
    parsed = parse_body(body)
    error = read_error(parsed)
    kind, advice = _CLASSES.get(status, (ModelHTTPError, ""))
    if status >= 500:
        kind, advice = ServerError, "The provider failed; try again later."
    if kind is BadRequestError and is_context_overflow(error):
        kind, advice = ContextOverflowError, "Shorten the history or take a model with a larger context window."
    said = _shortened(error.message) or "without a message"
    label = f"HTTP {status}" if error.code is None else f"HTTP {status}, code {error.code}"
    advice = f" {advice}" if advice else ""
    retryable = (status in _PASSING_STATUSES or status >= 500) and error.code not in _USED_UP_CODES
    return kind(
        f"The provider refused the request ({label}): {said}{_stop(said)}{advice}",
        status=status,
        body=parsed,
        request_id=_first(headers, _REQUEST_ID_HEADERS),
        retryable=should_retry(headers, retryable),
        retry_after=retry_after(headers, parsed, clock),
        code=error.code,
        type=error.type,
    )


def response_error(body: Any) -> ModelResponseError:
    """The exception for an error object inside a successful HTTP answer.

    Args:
        body: The parsed object: the one that holds `error`, or what stands under it.
    """
    error = read_error(body)
    said = _shortened(error.message) or "no message"
    label = f" (code {error.code})" if error.code is not None else ""
    return ModelResponseError(
        f"The provider sent an error instead of an answer{label}: {said}",
        code=error.code,
        type=error.type,
        body=body,
        retryable=_passes(error),
    )


def _passes(error: ErrorBody) -> bool:
    code: str | int | None = error.code
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int):
        return code in _PASSING_STATUSES or 500 <= code < 600
    names = (word.lower() for word in (code, error.type) if word)
    return code not in _USED_UP_CODES and any(name in _PASSING_CODES for name in names)


def _as_text(message: Any) -> str:
    if isinstance(message, str):
        return message.strip()
    if is_array(message):
        return "; ".join(filter(None, map(_as_text, message)))
    if is_object(message):
        detail = message
        said = _as_text(detail.get("message") or detail.get("msg") or detail.get("detail"))
        place = detail.get("loc")
        if said and is_array(place):
            return f"{'.'.join(map(str, place))}: {said}"
        return said
    return ""


def _as_code(code: Any) -> str | int | None:
    if isinstance(code, bool) or not isinstance(code, (str, int)):
        return None
    return None if code == "" else code


def _shortened(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[:_MESSAGE_LIMIT]} …"


def _stop(said: str) -> str:
    return "" if said.endswith((".", "!", "?")) else "."


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((headers[name] for name in names if headers.get(name)), None)
