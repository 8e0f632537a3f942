"""`reasoning_details`: reasoning as a list of objects, which goes back as it came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..json_shapes import is_array, is_object

__all__ = ["add_details", "details_text"]

_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}


def add_details(details: list[dict[str, Any]], new: Any) -> None:
    """Add the details of a delta: pieces of one text or summary grow together, all else stays as received."""
    for item in new if is_array(new) else ():
        if not is_object(item):
            continue
        detail = dict(item)
        field = _GROWING.get(str(detail.get("type")))
        last = details[-1] if details else None
        if field is None or last is None or not _goes_on(last, detail):
            details.append(detail)
            continue
        text = (last.get(field) or "") + (detail.get(field) or "")
        last.update({name: value for name, value in detail.items() if value is not None})
        if field in last:
            last[field] = text


def details_text(details: Any) -> str:
    """The visible text of details."""
    if not is_array(details):
        return ""
    texts = [item.get(_GROWING.get(str(item.get("type")), "")) for item in details if is_object(item)]
    return "".join(text for text in texts if isinstance(text, str))


def _goes_on(last: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    if last.get("type") != detail.get("type") or last.get("index") != detail.get("index"):
        return False
    # A signature closes a text; an id of its own begins another.
    return not last.get("signature") and detail.get("id") in (None, last.get("id"))
