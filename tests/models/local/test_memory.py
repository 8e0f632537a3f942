"""How much memory there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwright.models.local.memory import available_memory


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:    1000 kB\n")
    return path


def cgroup(folder: Path, limit: str, used: int, inactive: int) -> Path:
    folder.mkdir()
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
    return folder


def test_what_the_machine_has(tmp_path: Path, meminfo: Path) -> None:
    assert available_memory(meminfo, tmp_path / "none") == 1_024_000


def test_the_limit_of_the_container_counts_and_cached_files_do_not(tmp_path: Path, meminfo: Path) -> None:
    assert available_memory(meminfo, cgroup(tmp_path / "c", "500000", 300_000, 100_000)) == 300_000


def test_a_container_without_a_limit(tmp_path: Path, meminfo: Path) -> None:
    assert available_memory(meminfo, cgroup(tmp_path / "c", "max", 300_000, 0)) == 1_024_000


def test_a_container_over_its_limit_has_none(tmp_path: Path, meminfo: Path) -> None:
    assert available_memory(meminfo, cgroup(tmp_path / "c", "500", 700, 0)) == 0


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "none", tmp_path / "none") is None
