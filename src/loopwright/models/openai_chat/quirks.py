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
            `reasoning_content`, `reasoning`, `reasoning_details` (with `reasoning` where there are no details), or
            `thinking` for parts inside `content` (Mistral); None: it does not go back.
        output_excludes_reasoning: Whether `completion_tokens` leaves reasoning tokens out (xAI).
        tool_images: Whether a tool message may hold images and files; where not, they follow in a user message.
        system_role: The role of the system prompt: `system` or `developer`.
        refusal_field: Whether an earlier refusal goes back as `refusal`; where not, it goes back as text.
    """

    max_tokens_field: str = "max_tokens"
    stream_usage: bool = True
    reasoning_field: str | None = None
    output_excludes_reasoning: bool = False
    tool_images: bool = False
    system_role: str = "system"
    refusal_field: bool = False
