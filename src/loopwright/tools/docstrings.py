"""Reading a docstring: what a function does and what its parameters mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Docs", "read_docstring"]


class Docs(NamedTuple):
    """A docstring's content.

    Attributes:
        description: The text before the first section of parameters, results or exceptions.
        parameters: What each documented parameter means.
    """

    description: str
    parameters: dict[str, str]


def read_docstring(function: Callable[..., Any]) -> Docs:
    """Read the docstring of a function, in Google, NumPy or Sphinx style.

    One that cannot be parsed is all description. The parser is imported here, when a tool is first declared to a
    model, so that making an agent does not pay for it.
    """
    text = inspect.getdoc(function)
    if not text:
        return Docs("", {})
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docs(text, {})
    parameters = {param.arg_name.lstrip("*"): " ".join((param.description or "").split()) for param in parsed.params}
    return Docs((parsed.description or "").strip(), {name: words for name, words in parameters.items() if words})
