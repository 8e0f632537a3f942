"""How vendors differ on the Chat Completions wire, as data."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChatQuirks"]


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """One vendor's dialect.

    Attributes:
        max_tokens_field: The member that limits the answer's length.
        stream_usage: Whether `stream_options.include_usage` is sent with a stream.
        reasoning_field: The member under which earlier reasoning goes back with an assistant message:
            `reasoning_content`, `reasoning` or `reasoning_details`; None: it does not go back.
        output_excludes_reasoning: Whether `completion_tokens` leaves reasoning tokens out (xAI).
        tool_images: Whether a tool message may hold images; where not, they follow in a user message.
    """

    max_tokens_field: str = "max_tokens"
    stream_usage: bool = True
    reasoning_field: str | None = None
    output_excludes_reasoning: bool = False
    tool_images: bool = False
