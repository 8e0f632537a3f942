"""Models that run on this machine, without a key: llama.cpp from pip packages, in a process of its own."""

from __future__ import annotations

from .catalog import CATALOG, IndexFile, LocalModelFile
from .model import LocalModel, local_model
from .progress import ModelProgress, ProgressListener, ProgressPrinter, silent
from .server import stop_local_servers

__all__ = [
    "CATALOG",
    "IndexFile",
    "LocalModel",
    "LocalModelFile",
    "ModelProgress",
    "ProgressListener",
    "ProgressPrinter",
    "local_model",
    "silent",
    "stop_local_servers",
]
