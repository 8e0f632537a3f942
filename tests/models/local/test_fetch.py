"""Getting a model file: the cache, the order of sources, the SHA-256, the disk, the lock."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from loopwright.errors import LocalModelError
from loopwright.models.local import fetch
from loopwright.models.local.catalog import LocalModelFile
from loopwright.models.local.fetch import cache_folder, fetch_model
from loopwright.models.local.progress import ModelProgress, silent
from loopwright.models.local.sources import Source, SourceUnavailable

Row = Callable[..., LocalModelFile]


class Counting:
    """A source that gives some bytes, and counts how often it was asked."""

    def __init__(self, content: bytes | str, name: str = "test source") -> None:
        self.content = content
        self.asked = 0
        self.folder: Path | None = None
        self.source = Source(name, self.fetch)

    def fetch(self, model: LocalModelFile, folder: Path, report: Callable[[ModelProgress], None]) -> Path:
        self.asked += 1
        self.folder = folder
        if isinstance(self.content, str):
            raise SourceUnavailable(self.content)
        (folder / model.file).write_bytes(self.content)
        return folder / model.file


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.delenv("LOOPWRIGHT_CACHE", raising=False)
    assert cache_folder() == Path(platformdirs.user_cache_path("loopwright", appauthor=False)) / "models"


def test_the_cache_can_be_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


def test_a_file_is_fetched_once(cache: Path, row: Row, content: bytes) -> None:
    source = Counting(content)
    for _ in range(2):
        path = fetch_model(row(), silent, sources=[source.source])
        assert path == cache / "tiny.gguf"
        assert path.read_bytes() == content
    assert source.asked == 1
    assert not (cache / "tiny.gguf.partial").exists()


def test_sources_are_tried_in_order_and_a_listener_hears_why(cache: Path, row: Row, content: bytes) -> None:
    told: list[ModelProgress] = []
    first, second, third = Counting("out of order", "first"), Counting(content, "second"), Counting(content, "third")
    fetch_model(row(), told.append, sources=[first.source, second.source, third.source])
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)
    assert ("skipped", "out of order", "the first") in [(t.stage, t.detail, t.source) for t in told]


def test_when_no_source_has_it_the_error_says_what_was_tried_and_what_to_do(cache: Path, row: Row) -> None:
    sources = [Counting("no network", "first").source, Counting("no wheel", "second").source]
    with pytest.raises(LocalModelError) as caught:
        fetch_model(row(), silent, sources=sources)
    for words in ("'tiny'", "first: no network", "second: no wheel", "tiny.gguf", str(cache), "local:/path/to"):
        assert words in str(caught.value)


def test_a_wrong_file_is_an_error_and_is_removed(cache: Path, row: Row, content: bytes) -> None:
    wrong = Counting(content[:-1] + b"!")
    with pytest.raises(LocalModelError, match="SHA-256"):
        fetch_model(row(), silent, sources=[wrong.source])
    assert not list(cache.rglob("*.gguf"))


def test_after_a_wrong_file_the_next_source_is_asked(cache: Path, row: Row, content: bytes) -> None:
    path = fetch_model(row(), silent, sources=[Counting(b"wrong", "a").source, Counting(content, "b").source])
    assert path.read_bytes() == content


def test_a_file_that_the_user_put_there_is_checked_and_used(cache: Path, row: Row, content: bytes) -> None:
    source = Counting(content)
    told: list[ModelProgress] = []
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(content)
    fetch_model(row(), told.append, sources=[source.source])
    assert source.asked == 0
    assert [t.stage for t in told] == ["verifying"]
    fetch_model(row(), told.append, sources=[source.source])
    assert len(told) == 1, "it is read through once"


@pytest.mark.parametrize("change", [lambda b: b[:-1] + b"!", lambda b: b[:-5], lambda b: b""])
def test_a_damaged_file_in_the_cache_is_fetched_anew(
    cache: Path, row: Row, content: bytes, change: Callable[[bytes], bytes]
) -> None:
    source = Counting(content)
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(change(content))
    assert fetch_model(row(), silent, sources=[source.source]).read_bytes() == content
    assert source.asked == 1


def test_what_a_cut_download_left_is_there_for_the_next_try(cache: Path, row: Row, content: bytes) -> None:
    source = Counting(content)

    def cut(model: LocalModelFile, folder: Path, report: object) -> Path:
        (folder / "half").write_bytes(b"half")
        raise SourceUnavailable("the line went dead")

    with pytest.raises(LocalModelError):
        fetch_model(row(), silent, sources=[Source("test source", cut)])
    seen: list[bytes] = []

    def resume(model: LocalModelFile, folder: Path, report: Callable[[ModelProgress], None]) -> Path:
        seen.append((folder / "half").read_bytes())
        return source.fetch(model, folder, report)

    fetch_model(row(), silent, sources=[Source("test source", resume)])
    assert seen == [b"half"]
    assert not (cache / "tiny.gguf.partial").exists()


def test_too_little_disk_is_said_beforehand(
    cache: Path, row: Row, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=50_000_000))
    source = Counting(content)
    with pytest.raises(LocalModelError, match=r"needs 100 MB of disk .* 50 MB are free.*LOOPWRIGHT_CACHE"):
        fetch_model(row(), silent, sources=[source.source])
    assert source.asked == 0


def test_a_cache_that_cannot_be_made_is_said(
    tmp_path: Path, row: Row, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LocalModelError, match="LOOPWRIGHT_CACHE"):
        fetch_model(row(), silent, sources=[Counting(content).source])


def test_a_good_file_in_a_cache_that_cannot_be_written_is_used(
    cache: Path, row: Row, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(content)

    def refuse(self: FileLock, timeout: float | None = None) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert fetch_model(row(), silent, sources=[]) == cache / "tiny.gguf"
    (cache / "tiny.gguf").write_bytes(b"other")
    with pytest.raises(LocalModelError, match="read-only"):
        fetch_model(row(), silent, sources=[])


def test_who_finds_the_lock_taken_waits_says_so_and_fetches_nothing(cache: Path, row: Row, content: bytes) -> None:
    cache.mkdir()
    waiting = threading.Event()
    told: list[ModelProgress] = []
    source = Counting(content)

    def report(progress: ModelProgress) -> None:
        told.append(progress)
        waiting.set()

    with FileLock(cache / "tiny.gguf.lock"):
        thread = threading.Thread(target=fetch_model, args=(row(), report), kwargs={"sources": [source.source]})
        thread.start()
        assert waiting.wait(5)
        (cache / "tiny.gguf").write_bytes(content)
        fetch._mark(cache / "tiny.gguf", row())
    thread.join(5)
    assert not thread.is_alive()
    assert source.asked == 0
    assert "waiting" in told[0].detail
