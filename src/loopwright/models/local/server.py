"""The server of a model, shared by the whole process: started when first needed, again when it died, ended with us.

Any number of tasks, in any event loop, may ask for it at once: one of them begins the start, in a thread of its own,
and all of them wait for the same future. A start that nobody waits for any more goes on; the next one to ask finds it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import anyio

from ..._backend import Waker
from ...errors import LocalModelError
from .memory import available_memory
from .process import WORKER, WorkerProcess, WorkerSettings
from .progress import ModelProgress, ProgressListener, tell

__all__ = ["LocalServer", "ServerKey", "check_installed", "shared_server", "stop_local_servers"]

_START_SECONDS = 300.0
_EXTRA = ("xllamacpp", "filelock", "platformdirs")


@dataclass(frozen=True, slots=True)
class ServerKey:
    """What tells servers apart.

    Attributes:
        path: The model's file, in one spelling.
        n_ctx: Tokens of the context window.
        template: Name of the chat template, None for the one in the model's file.
    """

    path: str
    n_ctx: int
    template: str | None = None


Outcome: TypeAlias = WorkerProcess | LocalModelError


class LocalServer:
    """One server. Its methods may be called from any thread and any event loop."""

    def __init__(
        self,
        key: ServerKey,
        name: str,
        locate: Callable[[ProgressListener], Path],
        *,
        memory: int = 0,
        template: str | None = None,
        command: Sequence[str] = WORKER,
        start_seconds: float = _START_SECONDS,
    ) -> None:
        """Describe a server; nothing is started yet.

        Args:
            key: What tells it apart.
            name: The model's name.
            locate: Gives the model's file, fetched if need be. Called in a thread.
            memory: Bytes of memory that it takes, 0 where unknown.
            template: The chat template, None for the one in the model's file.
            command: The worker's command line.
            start_seconds: How long loading may take.
        """
        self._key = key
        self._name = name
        self._locate = locate
        self._memory = memory
        self._template = template
        self._command = command
        self._start_seconds = start_seconds
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._starting: Future[Outcome] | None = None
        self._listeners: list[ProgressListener] = []
        self._stops = 0

    @property
    def process_id(self) -> int | None:
        """The id of its process, None while it does not run."""
        worker = self._worker
        return worker.process_id if worker is not None and worker.alive else None

    async def ready(self, listener: ProgressListener) -> WorkerProcess:
        """The worker, ready to serve; started if need be. Never blocks the event loop.

        Args:
            listener: Told how far the start is.

        Raises:
            LocalModelError: It cannot be started.
        """
        worker = self._worker
        if worker is not None and worker.base_url and worker.alive:
            return worker
        future = self._begin(listener)
        done = anyio.Event()
        waker = Waker()
        future.add_done_callback(lambda _: waker.call(done.set))
        await done.wait()
        outcome = future.result()
        if isinstance(outcome, LocalModelError):
            # An error of one's own: each of those who wait may put its partial result on it.
            raise LocalModelError(str(outcome)) from outcome
        return outcome

    def stop(self) -> None:
        """End its process, also one that is starting. The next request starts it again."""
        with self._lock:
            self._stops += 1
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def disown(self) -> None:
        """In a forked child: leave the process to the parent."""
        if self._worker is not None:
            self._worker.disown()

    # ------------------------------------------------------------ starting

    def _begin(self, listener: ProgressListener) -> Future[Outcome]:
        with self._lock:
            if self._starting is None:
                self._starting = Future()
                thread = threading.Thread(
                    target=self._start,
                    args=(self._starting, self._stops),
                    name="loopwright local model start",
                    daemon=True,
                )
                thread.start()
            if listener not in self._listeners:
                self._listeners.append(listener)
            return self._starting

    def _start(self, future: Future[Outcome], stops: int) -> None:
        outcome: Outcome
        try:
            outcome = self._running_worker() or self._new_worker(stops)
        except LocalModelError as error:
            outcome = error
        except Exception as error:
            outcome = LocalModelError(
                f"The local model {self._name!r} could not be started: {type(error).__name__}: {error}"
            )
            outcome.__cause__ = error
        if isinstance(outcome, LocalModelError):
            self._report(ModelProgress("failed", self._name))
        with self._lock:
            self._starting = None
            self._listeners = []
        future.set_result(outcome)

    def _running_worker(self) -> WorkerProcess | None:
        """The one that another start made ready between the first look and this one."""
        worker = self._worker
        return worker if worker is not None and worker.base_url and worker.alive else None

    def _new_worker(self, stops: int) -> WorkerProcess:
        path = self._locate(self._report)
        self._check_memory()
        settings = WorkerSettings(self._name, str(path), self._key.n_ctx, _threads(), self._template)
        detail = f"{settings.threads} threads, {settings.n_ctx} tokens of context, on 127.0.0.1"
        self._report(ModelProgress("loading", self._name, detail))
        with self._lock:
            if self._stops != stops:
                raise LocalModelError(f"The local model {self._name!r} was stopped while it started.")
            dead = self._worker
            worker = self._worker = WorkerProcess(settings, self._command)
        if dead is not None:
            dead.stop()
        worker.wait_ready(self._start_seconds)
        self._report(ModelProgress("ready", self._name))
        return worker

    def _check_memory(self) -> None:
        free = available_memory()
        if free is not None and free < self._memory:
            raise LocalModelError(
                f"The local model {self._name!r} takes about {self._memory / 1e6:.0f} MB of memory with a context of "
                f"{self._key.n_ctx} tokens, and {free / 1e6:.0f} MB are free. End other programs, choose a smaller "
                "context (?n_ctx=2048), or a smaller model (local:smollm2-135m)."
            )

    def _report(self, progress: ModelProgress) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            tell(listener, progress)

    def __repr__(self) -> str:
        return f"<LocalServer {self._name} {'running' if self.process_id else 'not running'}>"


def check_installed() -> None:
    """See whether what comes with the extra `local` is there.

    Raises:
        LocalModelError: It is not.
    """
    missing = [module for module in _EXTRA if find_spec(module) is None]
    if missing:
        raise LocalModelError(
            f'Local models need the extra "local" ({", ".join(missing)} cannot be found): '
            'pip install "loopwright[local]"'
        )


def _threads() -> int:
    """As many threads as there are processors for this process."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class _Servers:
    """The servers of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[ServerKey, LocalServer] = {}
        self._hooked = False

    def get(self, key: ServerKey, make: Callable[[], LocalServer]) -> LocalServer:
        server = self._by_key.get(key)
        if server is not None:
            return server
        with self._lock:
            if not self._hooked:
                self._hooked = True
                atexit.register(self.stop)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=self._forget)
            return self._by_key.setdefault(key, make())

    def stop(self) -> None:
        with self._lock:
            servers = list(self._by_key.values())
            self._by_key.clear()
        for server in servers:
            server.stop()

    def _forget(self) -> None:
        self._lock = threading.Lock()  # whoever held it is not here
        for server in self._by_key.values():
            server.disown()
        self._by_key.clear()


_servers = _Servers()


def shared_server(key: ServerKey, make: Callable[[], LocalServer]) -> LocalServer:
    """The one server of this process with this key.

    Args:
        key: What tells it apart.
        make: Describes it, where there is none yet.
    """
    return _servers.get(key, make)


def stop_local_servers() -> None:
    """End every local model of this process now, and not at its exit, to have the memory back. Blocks up to seconds."""
    _servers.stop()
