"""Vendors as rows: where they are, how they are asked, what their models can do.

To add one, add a row. What a row cannot say belongs into the codec's quirks as one more member.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from ..errors import InvalidArgumentError, MissingAPIKeyError
from .auth import Auth, Secret, bearer, header_key
from .base import Capabilities
from .codec import Codec
from .http_model import HTTPModel
from .openai_chat.quirks import ChatQuirks

__all__ = ["VENDORS", "OpenAICompatible", "Vendor"]


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor of the Chat Completions wire.

    Attributes:
        name: The part before the colon in `vendor:model`.
        base_url: Where the wire's paths begin; empty where each account has its own address.
        key_variables: Environment variables that may hold the key, the first found wins.
        url_variables: Environment variables that may hold another base URL.
        url_suffix: Added to a base URL from the environment that lacks it.
        version_variables: Environment variables that may hold a dated API version, where a vendor has such.
        versioned_path: What goes between the vendor's address and the wire's path when one of them is set; `{model}`
            stands for the model's name. The version itself becomes the query `api-version`.
        needs_key: Whether a request without a key is refused.
        auth_header: Where the key goes.
        quirks: The dialect.
        capabilities: What its models can do, unless said otherwise.
        headers: Sent with each request.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    url_suffix: str = ""
    version_variables: tuple[str, ...] = ()
    versioned_path: str = ""
    needs_key: bool = True
    auth_header: Literal["authorization", "api-key"] = "authorization"
    quirks: ChatQuirks = ChatQuirks()  # noqa: RUF009  # immutable
    capabilities: Capabilities = Capabilities()  # noqa: RUF009  # immutable
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def model(self, name: str, *, api_key: str | None = None, base_url: str | None = None, **options: Any) -> HTTPModel:
        """One of its models.

        Args:
            name: The model's name at the vendor.
            api_key: The key; from the environment when None.
            base_url: The address; from the environment or the row when None.
            options: More for `HTTPModel`, like `client` or `timeouts`.

        Raises:
            MissingAPIKeyError: There is no key, and the vendor needs one.
            InvalidArgumentError: There is no address.
        """
        from .openai_chat.codec import ChatCodec

        codec: Codec = ChatCodec(self.quirks)
        options.setdefault("capabilities", self.capabilities)
        return HTTPModel(
            provider=self.name,
            name=name,
            codec=codec,
            base_url=base_url or self._address(name),
            auth=self._auth(api_key),
            headers=self.headers,
            **options,
        )

    def _address(self, model: str) -> str:
        url = _first_set(self.url_variables)
        if url is None:
            if not self.base_url:
                raise InvalidArgumentError(
                    f"The vendor {self.name!r} has no address of its own. Set {_either(self.url_variables)}, "
                    "or give base_url."
                )
            return self.base_url
        url = url.rstrip("/").removesuffix(self.url_suffix)
        version = _first_set(self.version_variables)
        if version is None:
            return url + self.url_suffix
        path = self.versioned_path.replace("{model}", quote(model, safe=""))
        return f"{url}{path}?api-version={quote(version, safe='')}"

    def _auth(self, api_key: str | None) -> Auth:
        key = api_key or _first_set(self.key_variables)
        if key is None and self.needs_key:
            raise MissingAPIKeyError(
                f"There is no key for {self.name!r}. Set the environment variable {_either(self.key_variables)}, "
                "or give api_key."
            )
        secret = None if key is None else Secret(key)
        return bearer(secret) if self.auth_header == "authorization" else header_key(self.auth_header, secret)


def _first_set(variables: tuple[str, ...]) -> str | None:
    """What the first of the environment variables that is not blank holds."""
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), None)


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(names) or "none"


_OPENAI_IDS = Capabilities(tool_call_id_max_length=40)
_MISTRAL_IDS = Capabilities(tool_call_id_pattern="a-zA-Z0-9", tool_call_id_max_length=9, tool_call_id_exact_length=True)
_TEXT_ONLY = Capabilities(images=False, files=False)
_NO_FILES = Capabilities(files=False)
_REASONING_CONTENT = ChatQuirks(reasoning_field="reasoning_content")
_REASONING = ChatQuirks(reasoning_field="reasoning")
_LOCAL = ChatQuirks(reasoning_field="reasoning_content")

VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            "openai",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            ("OPENAI_BASE_URL",),
            quirks=ChatQuirks(max_tokens_field="max_completion_tokens", system_role="developer", refusal_field=True),
            capabilities=_OPENAI_IDS,
        ),
        Vendor(
            "azure",
            "",
            ("AZURE_OPENAI_API_KEY",),
            ("AZURE_OPENAI_ENDPOINT",),
            url_suffix="/openai/v1",
            version_variables=("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION"),
            versioned_path="/openai/deployments/{model}",
            auth_header="api-key",
            quirks=ChatQuirks(max_tokens_field="max_completion_tokens", refusal_field=True),
            capabilities=_OPENAI_IDS,
        ),
        Vendor("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), capabilities=_NO_FILES, quirks=_REASONING),
        Vendor(
            "deepseek",
            "https://api.deepseek.com/v1",
            ("DEEPSEEK_API_KEY",),
            ("DEEPSEEK_BASE_URL",),
            quirks=_REASONING_CONTENT,
            capabilities=_TEXT_ONLY,
        ),
        Vendor(
            "mistral",
            "https://api.mistral.ai/v1",
            ("MISTRAL_API_KEY",),
            quirks=ChatQuirks(reasoning_field="thinking", stream_usage=False),
            capabilities=_MISTRAL_IDS,
        ),
        Vendor(
            "xai",
            "https://api.x.ai/v1",
            ("XAI_API_KEY",),
            quirks=ChatQuirks(output_excludes_reasoning=True, reasoning_field="reasoning_content"),
            capabilities=_NO_FILES,
        ),
        Vendor("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), capabilities=_NO_FILES),
        Vendor(
            "fireworks",
            "https://api.fireworks.ai/inference/v1",
            ("FIREWORKS_API_KEY",),
            quirks=_REASONING_CONTENT,
            capabilities=_NO_FILES,
        ),
        Vendor(
            "openrouter",
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            ("OPENROUTER_BASE_URL",),
            quirks=ChatQuirks(reasoning_field="reasoning_details"),
        ),
        Vendor(
            "cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), quirks=_REASONING, capabilities=_TEXT_ONLY
        ),
        Vendor(
            "moonshot",
            "https://api.moonshot.ai/v1",
            ("MOONSHOT_API_KEY",),
            ("MOONSHOT_BASE_URL",),
            quirks=_REASONING_CONTENT,
            capabilities=_NO_FILES,
        ),
        Vendor(
            "zai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",), quirks=_REASONING_CONTENT, capabilities=_NO_FILES
        ),
        Vendor("perplexity", "https://api.perplexity.ai", ("PERPLEXITY_API_KEY",), capabilities=_NO_FILES),
        Vendor(
            "huggingface",
            "https://router.huggingface.co/v1",
            ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
            capabilities=_NO_FILES,
        ),
        Vendor(
            "gemini-openai",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ),
        Vendor(
            "ollama",
            "http://127.0.0.1:11434/v1",
            ("OLLAMA_API_KEY",),
            ("OLLAMA_BASE_URL",),
            url_suffix="/v1",
            needs_key=False,
            quirks=_REASONING,
            capabilities=_NO_FILES,
        ),
        Vendor(
            "vllm",
            "http://127.0.0.1:8000/v1",
            ("VLLM_API_KEY",),
            ("VLLM_BASE_URL",),
            url_suffix="/v1",
            needs_key=False,
            quirks=_LOCAL,
            capabilities=_NO_FILES,
        ),
        Vendor(
            "lmstudio",
            "http://127.0.0.1:1234/v1",
            ("LMSTUDIO_API_KEY",),
            ("LMSTUDIO_BASE_URL",),
            url_suffix="/v1",
            needs_key=False,
            quirks=_LOCAL,
            capabilities=_NO_FILES,
        ),
        Vendor(
            "llamacpp",
            "http://127.0.0.1:8080/v1",
            ("LLAMACPP_API_KEY",),
            ("LLAMACPP_BASE_URL",),
            url_suffix="/v1",
            needs_key=False,
            quirks=_LOCAL,
            capabilities=_NO_FILES,
        ),
    )
}
"""The vendors that come with the package, by name."""


class OpenAICompatible(HTTPModel):
    """A model at any endpoint that speaks Chat Completions."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        provider: str = "openai-compatible",
        quirks: ChatQuirks = ChatQuirks(),  # noqa: B008  # immutable
        auth: Auth | None = None,
        **options: Any,
    ) -> None:
        """Describe a model.

        Args:
            name: Its name at the endpoint.
            base_url: Where the wire's paths begin, like `http://127.0.0.1:8000/v1`.
            api_key: Sent as a bearer token, when there is one.
            provider: What to call who serves it.
            quirks: The dialect.
            auth: Gives the headers that authenticate a request, in place of a bearer token.
            options: More for `HTTPModel`, like `headers`, `capabilities`, `client` or `timeouts`.
        """
        from .openai_chat.codec import ChatCodec

        codec: Codec = ChatCodec(quirks)
        super().__init__(
            provider=provider, name=name, codec=codec, base_url=base_url, auth=auth or bearer(api_key), **options
        )
