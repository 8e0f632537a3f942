"""Keys, held so that they do not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..errors import InvalidArgumentError

__all__ = ["Auth", "Secret", "bearer", "checked_headers", "header_key"]

Auth: TypeAlias = Callable[[], Mapping[str, str]]
"""Gives the headers that authenticate a request; asked anew for each, so that a token may be renewed."""


class Secret:
    """A string that does not show in reprs, logs and tracebacks."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Hold `value`, without white space around it: keys are often read from files."""
        self._value = value.strip()

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


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with names in lower case and values that HTTP can carry.

    HTTP clients find bad values too, but quote them in their errors, keys included.

    Raises:
        InvalidArgumentError: A value holds a line break, another control character, or one that is not ASCII.
    """
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise InvalidArgumentError(
                f"The value of the HTTP header {name!r} holds a line break or a character that is not plain ASCII. "
                "If it is made from an API key, check how the key was copied."
            )
    return {name.lower(): value for name, value in headers.items()}
