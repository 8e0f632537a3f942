"""Token counts of a chat completion, whoever counted them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...usage import Usage
from ..json_shapes import is_object

__all__ = ["read_usage"]


def read_usage(raw: Mapping[str, Any], *, output_excludes_reasoning: bool = False) -> Usage | None:
    """Read a `usage` object.

    Args:
        raw: As received.
        output_excludes_reasoning: Whether this vendor leaves reasoning tokens out of `completion_tokens`. It decides
            where there is no total to tell it by.

    Returns:
        None where the object holds no counts.
    """
    prompt = _count(raw, "prompt_tokens")
    output = _count(raw, "completion_tokens")
    if prompt is None and output is None:
        return None
    total = _count(raw, "total_tokens")
    prompt_details = _details(raw, "prompt_tokens_details")
    reasoning = _count(_details(raw, "completion_tokens_details"), "reasoning_tokens", "reasoning")
    if reasoning is None:
        reasoning = _count(raw, "reasoning_tokens")
    if output is not None and reasoning and _excludes(prompt, output, total, reasoning, output_excludes_reasoning):
        output += reasoning
    cached = _count(prompt_details, "cached_tokens")
    if cached is None:
        cached = _count(raw, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
    written = _count(prompt_details, "cache_write_tokens", "cache_creation_tokens")
    if written is None:
        written = _count(raw, "cache_creation_input_tokens")
    if total is None and prompt is not None and output is not None:
        total = prompt + output
    return Usage(prompt, output, total, cached, written, reasoning)


def _excludes(prompt: int | None, output: int, total: int | None, reasoning: int, by_vendor: bool) -> bool:
    if total is None or prompt is None:
        return by_vendor
    return total == prompt + output + reasoning


def _count(raw: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = raw.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
    return None


def _details(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name)
    return value if is_object(value) else {}
