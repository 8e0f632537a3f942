"""The table of local models."""

from __future__ import annotations

import re

import pytest

from loopwright.models.local.catalog import CATALOG, DEFAULT, LocalModelFile


def test_the_default_is_in_the_table_and_can_call_tools() -> None:
    assert CATALOG[DEFAULT].capabilities.tools
    assert CATALOG[DEFAULT].licence == "Apache-2.0"


@pytest.mark.parametrize("row", CATALOG.values(), ids=list(CATALOG))
def test_rows_are_whole(row: LocalModelFile) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", row.sha256)
    assert row.file.endswith(".gguf")
    assert row.size > 50_000_000
    assert row.memory > row.size
    assert row.hub or row.index
    assert row.max_context >= 4096


def test_memory_grows_with_the_context_and_never_shrinks() -> None:
    row = CATALOG[DEFAULT]
    assert row.memory_for(1024) == row.memory_for(4096) == row.memory
    assert row.memory_for(8192) == row.memory + 4096 * row.memory_per_token
