"""How much memory there is for a model."""

from __future__ import annotations

from pathlib import Path

__all__ = ["available_memory"]

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Bytes that programs may still take, the limit of the container included; None where the system does not say.

    Args:
        meminfo: What the Linux kernel says of the machine.
        cgroup: What it says of the container (cgroup 2).
    """
    known = [free for free in (_of_machine(meminfo), _of_container(cgroup)) if free is not None]
    return min(known) if known else None


def _of_machine(meminfo: Path) -> int | None:
    return _field(meminfo, "MemAvailable:", unit=1024)


def _of_container(cgroup: Path) -> int | None:
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    if not limit.isdecimal():  # "max": no limit
        return None
    # Pages of files that were read are given back when they are needed.
    reclaimable = _field(cgroup / "memory.stat", "inactive_file", unit=1) or 0
    return max(0, int(limit) - used + reclaimable)


def _field(path: Path, name: str, *, unit: int) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdecimal():
            return int(words[1]) * unit
    return None
