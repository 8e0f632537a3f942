"""One worker process: started, watched, stopped. Everything here blocks."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any

from ...errors import LocalModelError

__all__ = ["WORKER", "WorkerProcess", "WorkerSettings", "python_environment"]

WORKER: tuple[str, ...] = (sys.executable, "-P", "-m", "loopwright.models.local.worker")
"""The command line of the worker. `-P` keeps the working directory's files from standing in for modules."""

_LOG_LINES = 200
_LOG_LINE_CHARACTERS = 2_000
_TAIL_LINES = 8
_STOP_SECONDS = 2.0
_HEALTH_SECONDS = 0.05
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker serves.

    Attributes:
        name: The model's name.
        path: The model's file.
        n_ctx: Tokens of the context window.
        threads: Threads to compute with.
        template: The chat template, None for the one in the model's file.
    """

    name: str
    path: str
    n_ctx: int
    threads: int
    template: str | None = None


class WorkerProcess:
    """A process that serves one model on a port of 127.0.0.1, to those who have its key.

    Attributes:
        base_url: Where its Chat Completions API is; empty until it is ready.
        key: What requests must show.
    """

    def __init__(self, settings: WorkerSettings, command: Sequence[str] = WORKER) -> None:
        """Start it.

        Args:
            settings: What it serves.
            command: The worker's command line.

        Raises:
            LocalModelError: No process can be made.
        """
        self.base_url = ""
        self.key = secrets.token_urlsafe(24)
        self._name = settings.name
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._announced: queue.SimpleQueue[str] = queue.SimpleQueue()
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own worker
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=python_environment(),
                text=True,
                encoding="utf-8",
                errors="replace",
                **_group_of_its_own(),
            )
        except OSError as error:
            raise LocalModelError(f"The server of the local model {self._name!r} cannot be started: {error}") from error
        self._log_reader = _follow(self._process.stderr, self._log.append)
        _follow(self._process.stdout, self._announced.put, at_end="")
        self._send({**asdict(settings), "key": self.key})

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The process's id."""
        return self._process.pid

    def wait_ready(self, seconds: float) -> None:
        """Wait until it serves.

        Args:
            seconds: How long at most.

        Raises:
            LocalModelError: It ended, or took too long (then it is stopped); the message has the end of its log.
        """
        deadline = time.monotonic() + seconds
        try:
            port = self._read_port(seconds)
            while not _is_healthy(port):
                if not self.alive:
                    raise self._error(f"its process {self._how_it_ended()}")
                if time.monotonic() > deadline:
                    raise self._error(f"it was not ready after {seconds:g} s")
                time.sleep(_HEALTH_SECONDS)
        except LocalModelError:
            self.stop()
            raise
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def death(self, seconds: float) -> str:
        """How it died, with the end of its log; empty where it lives on.

        Args:
            seconds: How long to wait for its end: its connections break a moment before.
        """
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return ""
        self._close_input()
        return f"its process {self._how_it_ended()}{self._tail()}"

    def stop(self) -> None:
        """End the process: ask it to, then kill it. Safe from any thread, and again."""
        self._close_input()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def disown(self) -> None:
        """In a forked child: leave the process to the parent, and do not keep it from seeing the parent's end."""
        self._close_input()
        self._process.returncode = 0  # nothing to wait for, and nothing to warn of

    # ------------------------------------------------------------ inside

    def _close_input(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _send(self, message: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it ended at once; waiting for it tells why
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()

    def _read_port(self, seconds: float) -> int:
        try:
            line = self._announced.get(timeout=seconds)
        except queue.Empty:
            raise self._error(f"it was not ready after {seconds:g} s") from None
        if not line:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            raise self._error(f"its process {self._how_it_ended()}")
        try:
            return int(json.loads(line)["port"])
        except (ValueError, TypeError, KeyError):
            raise self._error(f"its process said {line[:200]!r} and not its port") from None

    def _how_it_ended(self) -> str:
        status = self._process.poll()
        if status is None:
            return "closed its output"
        if status >= 0:
            return f"ended with status {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"

    def _error(self, why: str) -> LocalModelError:
        return LocalModelError(
            f"The server of the local model {self._name!r} could not be started: {why}{self._tail()}"
        )

    def _tail(self) -> str:
        if not self.alive:
            self._log_reader.join(_STOP_SECONDS)
        lines = [line for line in list(self._log) if line.strip()][-_TAIL_LINES:]
        return ". Its log ends:\n" + "\n".join(f"  {line}" for line in lines) if lines else "."

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.process_id} of {self._name}>"


def python_environment() -> dict[str, str]:
    """The environment of a child Python that finds the modules that this process finds."""
    paths = dict.fromkeys([*filter(None, sys.path), _PACKAGE_ROOT])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _group_of_its_own() -> dict[str, Any]:
    """What keeps Control-C in the terminal from a process."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"process_group": 0}


def _follow(stream: IO[str] | None, take: Callable[[str], object], *, at_end: str | None = None) -> threading.Thread:
    """Read lines in a thread, so that a full pipe never holds the process up."""
    assert stream is not None
    source = stream

    def read() -> None:
        with source, contextlib.suppress(OSError, ValueError):
            while line := source.readline(_LOG_LINE_CHARACTERS):
                take(line.rstrip("\n"))
        if at_end is not None:
            take(at_end)

    thread = threading.Thread(target=read, name="loopwright local model log", daemon=True)
    thread.start()
    return thread


def _is_healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
