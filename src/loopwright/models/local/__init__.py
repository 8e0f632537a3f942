"""Models that run on this machine, without a key: llama.cpp from pip packages, in a process of its own."""

from __future__ import annotations

from .catalog import CATALOG
from .model import LocalModel, local_model
from .progress import ModelProgress, ProgressPrinter, silent

__all__ = ["CATALOG", "LocalModel", "ModelProgress", "ProgressPrinter", "local_model", "silent"]
