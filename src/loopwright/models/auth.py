"""Keys, held so that they do not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

__all__ = ["Auth", "Secret", "bearer", "header_key"]

Auth: TypeAlias = Callable[[], Mapping[str, str]]
"""Gives the headers that authenticate a request; asked anew for each, so that a token may be renewed."""


class Secret:
    """A string that does not show in reprs, logs and tracebacks."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The string itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('****')"

    __str__ = __repr__


def bearer(key: Secret | str | None) -> Auth:
    """`Authorization: Bearer KEY`; nothing without a key."""
    return header_key("authorization", key, prefix="Bearer ")


def header_key(name: str, key: Secret | str | None, *, prefix: str = "") -> Auth:
    """A header that holds the key; nothing without one."""
    secret = Secret(key) if isinstance(key, str) else key

    def headers() -> Mapping[str, str]:
        return {} if secret is None else {name: prefix + secret.reveal()}

    return headers
