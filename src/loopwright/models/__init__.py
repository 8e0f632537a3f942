"""Models: what they are asked and what they answer, and those that come with the package."""

from __future__ import annotations

from .registry import known_schemes, register_scheme, register_vendor, resolve_model

__all__ = ["known_schemes", "register_scheme", "register_vendor", "resolve_model"]
