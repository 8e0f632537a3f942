"""The tree of exceptions is the one that is drawn, and each says what happened and carries what it knows."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import pytest

import loopwright
from loopwright import errors
from loopwright.errors import (
    InvalidArgumentError,
    InvalidResponseError,
    LoopwrightError,
    MaxToolCallsPerStepExceeded,
    MaxTurnsReached,
    ModelFailed,
    ModelHTTPError,
    ModelResponseError,
    Partial,
    RateLimitError,
    RunCancelled,
    ToolInputError,
    ToolRetry,
    UnsupportedStopReason,
    attach_partial,
)
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.usage import Usage


def drawn_tree() -> dict[str, str | None]:
    """Each class of the drawing with its parent."""
    parents: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ((?:│   |    )*)(?:[├└]── )?(\w+)(?: |$)", line)
        if match is None:
            continue
        depth = len(match[1]) // 4 + ("── " in line)
        parents[match[2]] = above[depth - 1] if depth else None
        above[depth:] = [match[2]]
    return parents


def real_tree() -> dict[str, str | None]:
    """Each class of the package with its parent."""
    for module in pkgutil.walk_packages(loopwright.__path__, "loopwright."):
        importlib.import_module(module.name)
    parents: dict[str, str | None] = {"LoopwrightError": None}
    waiting = [LoopwrightError]
    while waiting:
        parent = waiting.pop()
        for child in parent.__subclasses__():
            if child.__module__.startswith("loopwright."):
                parents[child.__name__] = parent.__name__
                waiting.append(child)
    return parents


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    drawn, real = drawn_tree(), real_tree()
    assert len(drawn) > 30
    assert drawn == real


def test_every_exception_is_exported_and_described() -> None:
    classes = [getattr(errors, name) for name in drawn_tree()]
    assert {cls.__name__ for cls in classes} <= set(errors.__all__)
    assert all((cls.__doc__ or "").strip() for cls in classes)


def test_what_is_drawn_as_a_value_error_is_one() -> None:
    drawn = re.findall(r"(\w+) .*\(also ValueError\)", errors.__doc__ or "")
    assert drawn == ["InvalidArgumentError", "InvalidInputError", "InvalidDocumentError"]
    for name in drawn:
        assert issubclass(getattr(errors, name), ValueError)


def test_none_of_them_stands_for_a_cancelled_task() -> None:
    assert all(issubclass(getattr(errors, name), Exception) for name in drawn_tree())


# ---------------------------------------------------------------- what they say and carry


@pytest.mark.parametrize("reason", [None, "enough", ValueError("no"), 0])
def test_run_cancelled_keeps_the_very_reason(reason: object) -> None:
    error = RunCancelled(reason)
    assert error.reason is reason
    assert str(error).startswith("The run was cancelled")


def test_run_cancelled_says_the_reason() -> None:
    assert str(RunCancelled("closing time")) == "The run was cancelled: closing time"
    assert str(RunCancelled()) == "The run was cancelled."


def test_T81_limits_name_themselves() -> None:
    assert "budget of 2 model requests (max_turns=2)" in str(MaxTurnsReached(2))
    assert MaxTurnsReached(2).max_turns == 2
    flood = MaxToolCallsPerStepExceeded(200, 128)
    assert (flood.count, flood.limit) == (200, 128)
    assert "200 tool calls in one step; the limit is 128 (max_tool_calls_per_step)" in str(flood)


def test_the_failed_answer_travels_with_the_error() -> None:
    message = AssistantMessage(finish_reason="length", error=None)
    stopped = UnsupportedStopReason(message)
    assert stopped.message is message
    assert stopped.finish_reason == "length"
    assert "'length'" in str(stopped)
    assert str(ModelFailed(AssistantMessage(finish_reason="error", error="overloaded"))) == "overloaded"
    assert "'aborted'" in str(ModelFailed(AssistantMessage(finish_reason="aborted")))


def test_http_errors_keep_what_the_provider_said() -> None:
    error = RateLimitError(
        "slow down",
        status=429,
        body={"error": 1},
        request_id="req_1",
        retryable=True,
        retry_after=1.5,
        code="rate",
        type="limit",
    )
    assert isinstance(error, ModelHTTPError)
    assert (error.status, error.body, error.request_id) == (429, {"error": 1}, "req_1")
    assert (error.retryable, error.retry_after, error.code, error.type) == (True, 1.5, "rate", "limit")
    assert str(error) == "slow down"
    plain = ModelHTTPError("no", status=500)
    assert (plain.retryable, plain.retry_after, plain.request_id) == (False, None, None)


def test_errors_within_an_answer_say_where() -> None:
    assert str(InvalidResponseError("no JSON", offset=12)) == "no JSON (at byte 12 of the body)"
    assert str(InvalidResponseError("no JSON")) == "no JSON"
    error = ModelResponseError("bad", code=7, type="t", body={"a": 1})
    assert (error.code, error.type, error.body, error.retryable) == (7, "t", {"a": 1}, False)


def test_tool_input_errors_list_the_problems() -> None:
    error = ToolInputError("no", errors=[("a.0", "too big")])
    assert error.errors == (("a.0", "too big"),)
    assert ToolInputError("no").errors == ()


# ---------------------------------------------------------------- what the run had done


def test_an_error_that_left_no_run_has_nothing_to_show() -> None:
    error = InvalidArgumentError("no")
    assert error.partial is None
    assert (error.messages, error.steps, error.usage) == ((), (), None)


def test_partial_is_shown_by_the_error() -> None:
    error = MaxTurnsReached(1)
    messages, usage = [UserMessage("hi")], Usage(1, 2)
    attach_partial(error, Partial(messages, ["step"], usage, "half"))
    assert error.messages is messages
    assert error.steps == ["step"]
    assert error.usage is usage
    assert error.partial is not None
    assert error.partial.text == "half"


def test_the_innermost_partial_stays() -> None:
    error = ToolRetry("again")
    inner = Partial([UserMessage("inner")])
    attach_partial(error, inner)
    attach_partial(error, Partial([UserMessage("outer")]))
    assert error.partial is inner


def test_one_error_that_was_given_a_partial_gives_none_to_others() -> None:
    attach_partial(ToolRetry("a"), Partial([UserMessage("x")]))
    assert ToolRetry("b").partial is None


def test_foreign_exceptions_carry_it_too() -> None:
    error = ZeroDivisionError("by zero")
    partial = Partial([UserMessage("x")])
    attach_partial(error, partial)
    assert error.partial is partial  # type: ignore[attr-defined]


def test_an_exception_that_takes_no_attribute_gets_a_note() -> None:
    class Stiff(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "partial":
                raise AttributeError(name)
            super().__setattr__(name, value)

    error = Stiff("no")
    attach_partial(error, Partial([UserMessage("x"), UserMessage("y")]))
    assert error.__notes__ == ["The run failed after 2 messages."]


FAILED = AssistantMessage(finish_reason="error", error="overloaded")
ARGUMENTS: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "RunCancelled": (("late",), {}),
    "MaxTurnsReached": ((2,), {}),
    "UnsupportedStopReason": ((FAILED,), {}),
    "ModelFailed": ((FAILED,), {}),
    "MaxToolCallsPerStepExceeded": ((200, 128), {}),
    "TooManyInvalidCalls": ((3, "no such tool"), {}),
    "RetryError": ((["timed out", "refused"],), {}),
    **dict.fromkeys(
        (
            "ApprovalError",
            "UnknownApprovalError",
            "ApprovalAnsweredError",
            "ApprovalExpiredError",
            "ApprovalSignatureError",
            "ApprovalEditError",
        ),
        (("no", "run/1/a"), {}),
    ),
    "InvalidResponseError": (("no JSON",), {"offset": 12}),
    "ModelResponseError": (("bad",), {"code": 7, "body": {"a": 1}}),
    "ToolInputError": (("no",), {"errors": [("a.0", "too big")]}),
}


@pytest.mark.parametrize("name", drawn_tree())
@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_every_error_can_be_copied_and_sent_to_another_process(name: str, copied: Callable[[Exception], Any]) -> None:
    cls = getattr(errors, name)
    default = {"status": 500, "retry_after": 1.5} if issubclass(cls, ModelHTTPError) else {}
    positional, named = ARGUMENTS.get(name, (("what happened",), default))
    error = cls(*positional, **named)
    attach_partial(error, Partial([UserMessage("hi")], usage=Usage(1, 2)))
    error.add_note("in the shop")
    twin = copied(error)
    assert type(twin) is cls
    assert str(twin) == str(error)
    assert twin.args == error.args
    assert vars(twin) == vars(error)
