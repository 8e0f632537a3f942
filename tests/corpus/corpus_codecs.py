"""Which codec reads which wire, and each provider's dialect of it."""

from __future__ import annotations

from collections.abc import Callable

from loopwright.models.codec import Codec
from loopwright.models.openai_chat import ChatCodec, ChatQuirks

_REASONING_FIELDS = {
    "avian": "reasoning_content",
    "cerebras": "reasoning",
    "deepseek": "reasoning_content",
    "groq": "reasoning",
    "llamacpp": "reasoning_content",
    "mistral": "thinking",
    "moonshot": "reasoning_content",
    "ollama": "reasoning",
    "openrouter": "reasoning_details",
    "vllm": "reasoning_content",
    "zai": "reasoning_content",
}


def chat_codec(provider: str) -> Codec:
    return ChatCodec(
        ChatQuirks(
            reasoning_field=_REASONING_FIELDS.get(provider),
            output_excludes_reasoning=provider == "xai",
            refusal_field=provider in ("openai", "azure-openai"),
        )
    )


CODECS: dict[str, Callable[[str], Codec]] = {
    "openai_chat": chat_codec,
}
