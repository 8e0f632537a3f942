"""The shared server, served by a fake worker: starting, waiting, dying, stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from loopwright.errors import LocalModelError
from loopwright.models.local import server as server_module
from loopwright.models.local.process import WorkerProcess, WorkerSettings
from loopwright.models.local.progress import ModelProgress, silent
from loopwright.models.local.server import LocalServer, ServerKey, check_installed, shared_server, stop_local_servers

FILE = Path("/models/tiny.gguf")
KEY = ServerKey(str(FILE), 512)


@pytest.fixture
def make(workers: Any) -> Callable[..., LocalServer]:
    def make(mode: str = "good", key: ServerKey = KEY, **more: Any) -> LocalServer:
        more.setdefault("locate", lambda report: FILE)
        locate = more.pop("locate")
        return shared_server(key, lambda: LocalServer(key, "tiny", locate, command=workers.command(mode), **more))

    return make


async def test_a_server_starts_when_asked_for_and_is_kept(make: Callable[..., LocalServer], workers: Any) -> None:
    server = make()
    assert workers.process_ids == []
    worker = await server.ready(silent)
    assert await server.ready(silent) is worker
    assert workers.process_ids == [worker.process_id] == [server.process_id]
    assert worker.base_url.startswith("http://127.0.0.1:")


async def test_it_is_waited_for_until_it_is_healthy(make: Callable[..., LocalServer]) -> None:
    told: list[str] = []
    await make("slow").ready(lambda progress: told.append(progress.stage))
    assert told == ["loading", "ready"]


async def test_many_first_users_wait_for_one_start_and_all_hear_of_it(
    make: Callable[..., LocalServer], workers: Any
) -> None:
    gate = threading.Event()
    told: dict[int, list[str]] = {n: [] for n in range(60)}
    got: list[WorkerProcess] = []

    def locate(report: Callable[[ModelProgress], None]) -> Path:
        assert gate.wait(10)
        return FILE

    async def use(number: int) -> None:
        got.append(await make(locate=locate).ready(lambda progress: told[number].append(progress.stage)))

    async with anyio.create_task_group() as group:
        for number in told:
            group.start_soon(use, number)
        await anyio.wait_all_tasks_blocked()  # the loop is free, and no worker thread is taken
        await anyio.to_thread.run_sync(gate.set)
    assert len(got) == 60
    assert len(set(map(id, got))) == 1
    assert len(workers.process_ids) == 1
    assert all(stages == ["loading", "ready"] for stages in told.values())


async def test_who_gives_up_waiting_leaves_the_start_to_the_others(
    make: Callable[..., LocalServer], workers: Any
) -> None:
    gate = threading.Event()

    def locate(report: object) -> Path:
        assert gate.wait(10)
        return FILE

    server = make(locate=locate)
    with anyio.move_on_after(0) as scope:
        await server.ready(silent)
    assert scope.cancelled_caught
    gate.set()
    await server.ready(silent)
    assert len(workers.process_ids) == 1


def test_event_loops_one_after_the_other_share_it(make: Callable[..., LocalServer], workers: Any) -> None:
    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(make().ready, silent, backend=backend)
    assert len(workers.process_ids) == 1


async def test_other_settings_are_another_server(make: Callable[..., LocalServer], workers: Any) -> None:
    one = await make().ready(silent)
    other = await make(key=ServerKey(KEY.path, 1024)).ready(silent)
    assert one.process_id != other.process_id


async def test_a_dead_server_starts_again(make: Callable[..., LocalServer], workers: Any) -> None:
    server = make()
    first = await server.ready(silent)
    os.kill(first.process_id, signal.SIGKILL)
    assert "was ended by SIGKILL" in await anyio.to_thread.run_sync(first.death, 5)
    assert server.process_id is None
    second = await server.ready(silent)
    assert second.process_id != first.process_id
    assert second.key != first.key
    assert len(workers.process_ids) == 2


async def test_one_that_lives_has_not_died(make: Callable[..., LocalServer]) -> None:
    assert (await make().ready(silent)).death(0) == ""


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("corrupt", r"ended with status 1\. Its log ends:\n(.*\n)*  error: tensor data is cut off"),
        ("babble", "said 'hello' and not its port"),
        ("mute", r"not ready after 0\.2 s"),
        ("never", r"not ready after 0\.2 s"),
    ],
)
async def test_a_worker_that_does_not_come_up(
    make: Callable[..., LocalServer], workers: Any, mode: str, words: str
) -> None:
    told: list[str] = []
    server = make(mode, start_seconds=20 if mode in ("corrupt", "babble") else 0.2)
    with pytest.raises(LocalModelError, match=words) as caught:
        await server.ready(lambda progress: told.append(progress.stage))
    assert "'tiny'" in str(caught.value)
    assert told == ["loading", "failed"]
    assert server.process_id is None


async def test_the_next_request_after_a_failure_tries_again_with_an_error_of_its_own(
    make: Callable[..., LocalServer], workers: Any
) -> None:
    server = make("corrupt")
    errors: list[LocalModelError] = []

    async def use() -> None:
        try:
            await server.ready(silent)
        except LocalModelError as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        group.start_soon(use)
    assert len(workers.process_ids) == 1
    assert errors[0] is not errors[1]
    assert str(errors[0]) == str(errors[1])
    await use()
    assert len(workers.process_ids) == 2


async def test_a_program_that_is_not_there(workers: Any) -> None:
    server = LocalServer(KEY, "tiny", lambda report: FILE, command=["/no/such/python"])
    with pytest.raises(LocalModelError, match=r"cannot be started: .*No such file"):
        await server.ready(silent)


async def test_an_error_of_another_kind_while_locating(make: Callable[..., LocalServer]) -> None:
    def locate(report: object) -> Path:
        raise ZeroDivisionError("oh")

    with pytest.raises(LocalModelError, match="could not be started: ZeroDivisionError: oh"):
        await make(locate=locate).ready(silent)


async def test_too_little_memory_is_said_beforehand(
    make: Callable[..., LocalServer], workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "available_memory", lambda: 300_000_000)
    with pytest.raises(LocalModelError, match=r"takes about 800 MB of memory .* 300 MB are free.*smollm2-135m"):
        await make(memory=800_000_000).ready(silent)
    assert workers.process_ids == []
    await make(key=ServerKey(KEY.path, 1), memory=200_000_000).ready(silent)
    assert len(workers.process_ids) == 1


async def test_stopping_ends_the_process_and_the_next_request_starts_it_again(
    make: Callable[..., LocalServer], workers: Any
) -> None:
    worker = await make().ready(silent)
    await anyio.to_thread.run_sync(stop_local_servers)
    assert not worker.alive
    assert worker.death(0).startswith("its process ended with status 0")
    await make().ready(silent)
    assert len(workers.process_ids) == 2


async def test_stopping_while_it_starts(make: Callable[..., LocalServer], workers: Any) -> None:
    server = make("mute")

    def stop_once_started(progress: ModelProgress) -> None:
        if progress.stage == "loading":
            server.stop()

    with pytest.raises(LocalModelError, match="was stopped while it started"):
        await server.ready(stop_once_started)
    assert workers.process_ids == []


def test_a_process_that_does_not_end_by_itself_is_killed(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.models.local.process._STOP_SECONDS", 0.1)
    worker = WorkerProcess(WorkerSettings("tiny", "x", 1, 1), workers.command("stubborn"))
    worker.wait_ready(10)
    worker.stop()
    worker.stop()
    assert "SIGKILL" in worker.death(0)


def test_the_key_shows_nowhere(workers: Any) -> None:
    worker = WorkerProcess(WorkerSettings("tiny", "x", 1, 1), workers.command("good"))
    worker.wait_ready(10)
    assert worker.key not in repr(worker)
    assert worker.key not in Path(f"/proc/{worker.process_id}/cmdline").read_text()
    worker.stop()
    assert worker.key not in worker.death(0)


CHILD = """
import anyio, os, sys
from pathlib import Path
from loopwright.models.local.server import LocalServer, ServerKey, shared_server
from loopwright.models.local.progress import silent
key = ServerKey("x", 1)
server = shared_server(key, lambda: LocalServer(key, "tiny", lambda report: Path("x"), command=sys.argv[2:]))
worker = anyio.run(server.ready, silent)
print(worker.process_id, flush=True)
if sys.argv[1] == "fork":
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(worker.alive, flush=True)
if sys.argv[1] == "wait":
    sys.stdin.read()
"""


def run_parent(what: str, workers: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, what, *workers.command("good")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_until_gone(process_id: int) -> None:
    """The process is not our child, so its end is seen by its entry."""
    pause = threading.Event()
    for _ in range(1000):
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        pause.wait(0.01)
    raise AssertionError(f"process {process_id} is still there")


linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")


@linux
def test_it_ends_with_its_parent(workers: Any) -> None:
    with run_parent("exit", workers) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        assert parent.wait(20) == 0
    wait_until_gone(process_id)


@linux
def test_it_ends_when_its_parent_is_killed(workers: Any) -> None:
    with run_parent("wait", workers) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        assert Path(f"/proc/{process_id}").exists()
        parent.kill()
        parent.wait(20)
    wait_until_gone(process_id)


@linux
def test_a_forked_child_that_ends_leaves_it_to_the_parent(workers: Any) -> None:
    with run_parent("fork", workers) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        assert parent.stdout.readline() == "True\n"
        assert parent.wait(20) == 0
    wait_until_gone(process_id)


@linux
def test_control_c_in_the_terminal_does_not_reach_it(workers: Any) -> None:
    worker = WorkerProcess(WorkerSettings("tiny", "x", 1, 1), workers.command("good"))
    assert os.getpgid(worker.process_id) != os.getpgid(0)
    worker.stop()


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "find_spec", lambda name: None if name == "xllamacpp" else object())
    with pytest.raises(LocalModelError, match=r'xllamacpp cannot be found.*pip install "loopwright\[local\]"'):
        check_installed()
