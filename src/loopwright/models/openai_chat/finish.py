"""Why a chat completion ended, in one vocabulary."""

from __future__ import annotations

__all__ = ["finish_reason", "raw_finish_reason"]

_REASONS = {
    "stop": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "safety": "content-filter",
    "error": "error",
    "insufficient_system_resource": "error",
    "other": "other",
    "unknown": "other",
}


def raw_finish_reason(value: object) -> str | None:
    """The provider's word as text; some gateways send a number."""
    if value is None or isinstance(value, str):
        return value
    return str(value)


def finish_reason(raw: str | None, *, has_calls: bool) -> str:
    """The normalised reason; a word that no one knows stays as it is.

    Whether there are tool calls is decided by the calls: vendors end an answer that calls tools with `stop`, with an
    empty word or with none, and one that calls none with `tool_calls`.

    Args:
        raw: The provider's word.
        has_calls: Whether the answer has calls for the client to run.
    """
    reason = _REASONS.get(raw.lower(), raw) if raw else "stop"
    if reason in ("stop", "tool-calls"):
        return "tool-calls" if has_calls else "stop"
    return reason
