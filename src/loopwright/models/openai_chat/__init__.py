"""OpenAI Chat Completions, and every vendor that speaks it."""

from .codec import ChatCodec
from .quirks import ChatQuirks

__all__ = ["ChatCodec", "ChatQuirks"]
