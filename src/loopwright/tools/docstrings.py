"""Reading a docstring: what a function does and what its parameters mean."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Docs", "read_docstring"]


class Docs(NamedTuple):
    """A docstring's content.

    Attributes:
        description: The text without its sections of parameters, results and exceptions.
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
    description = _without_sections(text)
    if description == text:
        return Docs(text, {})
    import docstring_parser

    try:
        # The parser cleans the text again; the empty line keeps it from taking the first one for a summary.
        parsed = docstring_parser.parse(f"\n{text}")
    except Exception:  # a docstring is prose: whatever the parser trips over, the tool still works
        return Docs(text, {})
    parameters: dict[str, str] = {}
    for param in parsed.params:
        words = " ".join((param.description or "").split())
        if words:
            # NumPy's style documents several parameters at once: `a, b : int`.
            parameters.update(dict.fromkeys((name.strip().lstrip("*") for name in param.arg_name.split(",")), words))
    return Docs(description, parameters)


_GOOGLE = re.compile(
    r"(args|arguments|param(eter)?s|key(word)? (args|arguments|parameters)|other (args|arguments|parameters)"
    r"|returns?|yields?|raises|except(ion)?s?)\s*:",
    re.IGNORECASE,
)
_NUMPY = re.compile(r"((other )?parameters|params|returns?|yields?|receives|raises|warns)", re.IGNORECASE)
_SPHINX = re.compile(
    r"[:@](param(eter)?|arg(ument)?|key(word)?|type|returns?|rtype|raises?|except(ion)?|yields?|ytype)\b[^:]*:"
)


def _without_sections(text: str) -> str:
    """The text without what is said about parameters, results and exceptions; all else stays as it was written.

    A section of Google's style ends with its indentation, one of NumPy's with the next title, a field of Sphinx's with
    its indentation or a blank line.
    """
    lines = text.split("\n")
    kept: list[str] = []
    section = ""
    for at, line in enumerate(lines):
        below = lines[at + 1] if at + 1 < len(lines) else ""
        begins = _section_at(line, below)
        if begins or (section and not _goes_on(section, line, below)):
            section = begins
        if not section:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _section_at(line: str, below: str) -> str:
    if _GOOGLE.fullmatch(line.rstrip()):
        return "google"
    if _NUMPY.fullmatch(line.rstrip()) and _is_underline(below):
        return "numpy"
    return "sphinx" if _SPHINX.match(line) else ""


def _goes_on(section: str, line: str, below: str) -> bool:
    if section == "numpy":
        return not (line.strip() and _is_underline(below))
    if section == "sphinx":
        return line.startswith((" ", "\t"))
    return not line.strip() or line.startswith((" ", "\t"))


def _is_underline(line: str) -> bool:
    stripped = line.strip()
    return len(stripped) > 2 and set(stripped) == {"-"}
