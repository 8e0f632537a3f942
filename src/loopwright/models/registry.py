"""From `vendor:model` to a model."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError, UnknownModelError
from .base import LanguageModel

if TYPE_CHECKING:
    from .vendors import Vendor

__all__ = ["known_schemes", "register_scheme", "register_vendor", "resolve_model"]

_factories: dict[str, Callable[[str], LanguageModel]] = {}
"""What users have registered; it goes before what comes with the package."""


def register_scheme(scheme: str, factory: Callable[[str], LanguageModel]) -> None:
    """Make `scheme:name` resolve to `factory(name)`. The last one registered holds.

    Raises:
        InvalidArgumentError: The scheme is empty or has a colon.
    """
    if not scheme or ":" in scheme:
        raise InvalidArgumentError(f"A scheme is the part before the colon, like 'acme'; {scheme!r} is none.")
    _factories[scheme] = factory


def register_vendor(vendor: Vendor) -> None:
    """Make `vendor.name:model` resolve to a model of that vendor."""
    register_scheme(vendor.name, vendor.model)


def known_schemes() -> list[str]:
    """What may stand before the colon."""
    from .vendors import VENDORS

    return sorted({"local", *VENDORS, *_factories})


def resolve_model(model: str) -> LanguageModel:
    """The model that a string names.

    Args:
        model: Like `openai:gpt-5-mini`, or `local:` for the default local model. Keys are read from the environment
            now.

    Raises:
        UnknownModelError: The string names no vendor that is known.
        MissingAPIKeyError: The vendor needs a key and there is none.
    """
    scheme, colon, name = model.partition(":")
    if not colon:
        raise UnknownModelError(
            f"{model!r} does not say who serves the model. Write vendor:model, like 'openai:gpt-5-mini', or 'local:'. "
            f"Vendors: {', '.join(known_schemes())}."
        )
    if scheme in _factories:
        return _factories[scheme](name)
    if scheme == "local":
        from .local import local_model

        return local_model(name)
    from .vendors import VENDORS

    vendor = VENDORS.get(scheme)
    if vendor is None:
        close = get_close_matches(scheme, known_schemes(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownModelError(
            f"There is no vendor {scheme!r} (in {model!r}).{hint} Vendors: {', '.join(known_schemes())}. Others can be "
            "registered with register_vendor, or used through OpenAICompatible."
        )
    if not name:
        raise UnknownModelError(f"{model!r} names no model of {scheme!r}. Write {scheme}:MODEL.")
    return vendor.model(name)
