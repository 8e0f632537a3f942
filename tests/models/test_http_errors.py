"""Error bodies of every shape, and when to ask again."""

from __future__ import annotations

import json

import pytest

from loopwright.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelHTTPError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from loopwright.models.http_errors import http_error, read_error, response_error
from loopwright.models.retry_hints import retry_after

NOW = 1_754_667_600.0


def error_of(status: int, body: object = None, **headers: str) -> ModelHTTPError:
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return http_error(status, names, raw, clock=lambda: NOW)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (403, PermissionDeniedError, False),
        (404, NotFoundError, False),
        (408, ModelHTTPError, True),
        (409, ModelHTTPError, True),
        (413, BadRequestError, False),
        (418, ModelHTTPError, False),
        (422, BadRequestError, False),
        (429, RateLimitError, True),
        (500, ServerError, True),
        (529, ServerError, True),
    ],
)
def test_status_decides_the_class(status, kind, retryable):
    error = error_of(status, {"error": {"message": "No."}})
    assert type(error) is kind
    assert (error.status, error.retryable) == (status, retryable)


@pytest.mark.parametrize(
    ("body", "message", "code", "kind"),
    [
        ({"error": {"message": "m", "code": "c", "type": "t"}}, "m", "c", "t"),
        ({"error": {"message": "m", "code": 400, "status": "INVALID"}}, "m", 400, "INVALID"),
        ({"code": "c", "error": "m"}, "m", "c", None),
        ({"detail": "m"}, "m", None, None),
        ({"detail": [{"loc": ["body", "n"], "msg": "too big"}]}, "body.n: too big", None, None),
        ({"object": "error", "message": "m", "type": "t", "code": 404}, "m", 404, "t"),
        ([{"error": {"message": "m", "code": 429}}], "m", 429, None),
        ("plain words", "plain words", None, None),
        (None, "", None, None),
        ([], "", None, None),
        ({"error": {"message": None, "code": None, "type": ""}}, "", None, None),
    ],
)
def test_bodies_of_every_shape(body, message, code, kind):
    error = read_error(body)
    assert (error.message, error.code, error.type) == (message, code, kind)


def test_body_that_is_no_json_is_text_and_capped():
    assert error_of(502, b"<html>").body == "<html>"
    assert len(error_of(502, b"x" * 100_000).body) < 20_000
    assert error_of(500).body is None
    assert "without a message" in str(error_of(500))


def test_request_id_comes_from_headers():
    assert error_of(500, x_request_id="req_1").request_id == "req_1"
    assert error_of(500).request_id is None


@pytest.mark.parametrize(
    "error",
    [
        {"message": "m", "code": "context_length_exceeded"},
        {"message": "request (2009 tokens) exceeds the available context size (512 tokens)", "code": 400},
        {"message": "prompt too long; exceeded max context length by 1119046 tokens"},
        {"message": "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021"},
        {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
        {"message": "The input token count (1) exceeds the maximum number of tokens allowed (0)."},
        {"message": "Your input exceeds the context window of this model."},
    ],
)
def test_context_overflow(error):
    assert type(error_of(400, {"error": error})) is ContextOverflowError


@pytest.mark.parametrize(
    "message",
    ["Request too large for model `m` on tokens per minute (TPM): Limit 6000", "Invalid 'temperature': above maximum"],
)
def test_no_context_overflow(message):
    assert type(error_of(413, {"error": {"message": message}})) is BadRequestError


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "1", "retry-after-ms": "0"}, 1.0),
        ({"retry-after-ms": "0"}, 0.0),
        ({"retry-after": "Fri, 08 Aug 2025 15:40:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 08 Aug 2025 15:39:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"x-ratelimit-reset": "1754667660000"}, 60.0),
        ({"x-ratelimit-reset": "1754667605"}, 5.0),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}, 90.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1m30s"}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers, None, lambda: NOW) == (None if seconds is None else pytest.approx(seconds))


def test_retry_after_from_bodies():
    google = {"error": {"details": [{"@type": "x/ErrorInfo"}, {"@type": "x/RetryInfo", "retryDelay": "3.5s"}]}}
    assert error_of(429, google).retry_after == 3.5
    router = {"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1754667660000"}}}}
    assert error_of(429, router).retry_after == 60.0


def test_provider_says_whether_to_try_again():
    assert error_of(400, x_should_retry="true").retryable is True
    assert error_of(503, x_should_retry="false").retryable is False
    assert error_of(429, {"error": {"message": "m", "code": "insufficient_quota"}}).retryable is False


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        ({"code": 503, "message": "m"}, True),
        ({"code": "502", "message": "m"}, True),
        ({"code": 400, "message": "m"}, False),
        ({"type": "overloaded_error", "message": "m"}, True),
        ({"code": "tool_use_failed", "type": "invalid_request_error", "message": "m"}, False),
        ({"code": "insufficient_quota", "type": "server_error", "message": "m"}, False),
    ],
)
def test_error_inside_an_answer(error, retryable):
    raised = response_error({"error": error})
    assert raised.retryable is retryable
    assert raised.body == {"error": error}
    assert str(raised).endswith(": m")
