"""What an answer cites: annotations, `citations`, `search_results`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...messages import SourcePart
from ..json_shapes import is_array, is_object

__all__ = ["Sources"]


class Sources:
    """The sources of one answer, each once.

    Attributes:
        parts: The sources, in order of appearance.
    """

    __slots__ = ("_seen", "parts")

    def __init__(self) -> None:
        self.parts: list[SourcePart] = []
        self._seen: set[object] = set()

    def add_annotations(self, annotations: Any) -> list[SourcePart]:
        """Take annotations; each is one place in the text that cites one source. Returns what is new."""
        before = len(self.parts)
        for item in _objects(annotations):
            kind = item.get("type")
            inner = item.get(kind) if isinstance(kind, str) else None
            source = inner if is_object(inner) else item
            url = source.get("url")
            if isinstance(url, str) and url:
                places = (url, source.get("start_index"), source.get("end_index"))
                self._add(places, SourcePart(url, _title(source), provider_data=dict(item)))
                self._seen.add(url)
        return self.parts[before:]

    def add_citations(self, urls: Any, results: Any) -> list[SourcePart]:
        """Take the lists that some vendors repeat in each chunk. Returns what is new."""
        before = len(self.parts)
        found = {str(item["url"]): item for item in _objects(results) if item.get("url")}
        cited = [url for url in urls if isinstance(url, str)] if is_array(urls) else []
        for url in [*cited, *found]:
            result = found.get(url)
            data = dict(result) if result is not None else None
            self._add(url, SourcePart(url, _title(result or {}), provider_data=data))
        return self.parts[before:]

    def _add(self, key: object, part: SourcePart) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self.parts.append(part)


def _title(source: Mapping[str, Any]) -> str | None:
    title = source.get("title")
    return title if isinstance(title, str) and title else None


def _objects(value: Any) -> list[Mapping[str, Any]]:
    if not is_array(value):
        return []
    items = value
    return [item for item in items if is_object(item)]
