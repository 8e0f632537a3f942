"""A llama.cpp server in a process of its own: started when needed, shared, restarted when it died, ended with us."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ...errors import LocalModelError
from .progress import ModelProgress, ProgressListener

__all__ = ["LocalServer", "ServerSettings", "shared_server"]

_START_SECONDS = 300.0
_LOG_LINES = 200
_TAIL_LINES = 8


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server runs. Equal settings share a server.

    Attributes:
        name: The model's name in requests.
        path: The model's file.
        n_ctx: Tokens of the context window.
        threads: Threads to compute with.
        memory: Bytes of memory that it takes, 0 where unknown.
    """

    name: str
    path: str
    n_ctx: int
    threads: int
    memory: int = 0


class LocalServer:
    """One server. Every method may be called from any thread; those that wait block."""

    def __init__(self, settings: ServerSettings, command: Sequence[str] | None = None) -> None:
        """Describe a server; nothing is started yet.

        Args:
            settings: What it runs.
            command: The worker's command line before the settings; our own worker by default.
        """
        self._settings = settings
        self._command = list(command or (sys.executable, "-m", "loopwright.models.local.worker"))
        self._needs_engine = command is None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._address = ""
        self._log: deque[str] = deque(maxlen=_LOG_LINES)

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int | None:
        """The process's id, None while there is none."""
        return self._process.pid if self._process is not None and self.running else None

    def ensure(self, report: ProgressListener) -> str:
        """Start it unless it runs; wait until it is ready. Callers who come meanwhile wait for the same start.

        Returns:
            The base URL of its API.

        Raises:
            LocalModelError: It cannot be started; the message has the end of its log.
        """
        with self._lock:
            if not self.running:
                self._start(report)
            return f"{self._address}/v1"

    def stop(self) -> None:
        """End its process."""
        with self._lock:
            self._stop()

    def failure(self) -> str:
        """How it died, with the end of its log; empty while it runs."""
        if self.running or self._process is None:
            return ""
        return f"its process ended with status {self._process.poll()}{self._tail()}"

    # ------------------------------------------------------------ starting

    def _start(self, report: ProgressListener) -> None:
        self._check()
        report(ModelProgress("loading", self._settings.name, f"{self._settings.threads} threads, on 127.0.0.1"))
        self._log.clear()
        process = self._process = subprocess.Popen(  # noqa: S603  # our own worker
            [*self._command, json.dumps(asdict(self._settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        atexit.register(self.stop)
        first_line: queue.SimpleQueue[str] = queue.SimpleQueue()
        _follow(process.stderr, self._log.append)
        _follow(process.stdout, first_line.put, at_end="")
        try:
            line = first_line.get(timeout=_START_SECONDS)
        except queue.Empty:
            self._stop()
            raise self._cannot_start(f"it was not ready after {_START_SECONDS:.0f} s") from None
        if not line:
            process.wait()
            raise self._cannot_start(f"its process ended with status {process.returncode}")
        self._address = str(json.loads(line)["address"])
        report(ModelProgress("ready", self._settings.name))

    def _check(self) -> None:
        if self._needs_engine and find_spec("xllamacpp") is None:
            raise LocalModelError(
                'Local models need the extra "local", which is not installed: pip install "loopwright[local]"'
            )
        if not Path(self._settings.path).is_file():
            raise LocalModelError(f"There is no model file {self._settings.path}.")
        free = _free_memory()
        if free is not None and free < self._settings.memory:
            raise LocalModelError(
                f"The local model {self._settings.name!r} takes about {self._settings.memory / 1e6:.0f} MB of memory, and "
                f"{free / 1e6:.0f} MB are free. End other programs, or choose a smaller model (local:smollm2-135m)."
            )

    def _cannot_start(self, why: str) -> LocalModelError:
        return LocalModelError(f"The local model {self._settings.name!r} could not be started: {why}{self._tail()}")

    def _tail(self) -> str:
        lines = [line for line in self._log if line.strip()][-_TAIL_LINES:]
        return ". Its log ends:\n" + "\n".join(f"  {line}" for line in lines) if lines else "."

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None and not process.stdin.closed:
            try:
                process.stdin.close()
            except OSError:
                pass
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        atexit.unregister(self.stop)


def _follow(stream: IO[str] | None, take: Callable[[str], object], *, at_end: str | None = None) -> None:
    """Read lines in a thread, so that a full pipe never holds the process up."""
    assert stream is not None

    def read() -> None:
        with stream:
            for line in stream:
                take(line.rstrip("\n"))
        if at_end is not None:
            take(at_end)

    threading.Thread(target=read, name="loopwright local model log", daemon=True).start()


def _free_memory() -> int | None:
    """Bytes that programs may still take, where the system says so."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123  # not a file of ours
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


_servers: dict[ServerSettings, LocalServer] = {}
_servers_lock = threading.Lock()


def shared_server(settings: ServerSettings) -> LocalServer:
    """The process-wide server of these settings."""
    with _servers_lock:
        server = _servers.get(settings)
        if server is None:
            server = _servers[settings] = LocalServer(settings)
        return server


def default_threads() -> int:
    """As many threads as there are processors for this process."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:
        return os.cpu_count() or 1
