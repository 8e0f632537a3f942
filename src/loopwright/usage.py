"""Token counts of model requests."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request or of many.

    Everything is counted once: `input_tokens` is the whole prompt, cached and cache-written tokens
    included; `output_tokens` is the whole answer, reasoning included. None means that the provider did
    not say, which is not the same as zero.

    Attributes:
        input_tokens: The whole prompt.
        output_tokens: The whole answer.
        total_tokens: As the provider sums it, or input plus output.
        cached_input_tokens: Part of `input_tokens` that was read from a cache.
        cache_write_tokens: Part of `input_tokens` that was written to a cache.
        reasoning_tokens: Part of `output_tokens` that was spent on reasoning.
        complete: False when a sum lacks a request that reported no counts, so that it is a lower bound.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    complete: bool = True

    def __add__(self, other: Usage | None) -> Usage:
        """Sum two counts. What neither side knows stays unknown; what one side lacks clears `complete`."""
        if other is None:
            other = _UNKNOWN
        return Usage(
            _add(self.input_tokens, other.input_tokens),
            _add(self.output_tokens, other.output_tokens),
            _add(self.total_tokens, other.total_tokens),
            _add(self.cached_input_tokens, other.cached_input_tokens),
            _add(self.cache_write_tokens, other.cache_write_tokens),
            _add(self.reasoning_tokens, other.reasoning_tokens),
            self._is_known and other._is_known,
        )

    @property
    def _is_known(self) -> bool:
        return self.complete and self.input_tokens is not None and self.output_tokens is not None


_UNKNOWN = Usage()


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b
