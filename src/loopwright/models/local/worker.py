"""The process that runs llama.cpp: `python -m loopwright.models.local.worker`.

It reads its settings from the first line of standard input, as JSON, says on standard output in one line of JSON on
which port of 127.0.0.1 it listens, and ends when standard input does: with its parent, however that ends.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

__all__ = ["main"]

_CACHE_MIB = 128


def main() -> None:
    """Load the model, say where the server listens, and wait for the end of standard input."""
    # Control-C in a terminal reaches every process there; whether it ends the server is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    # What llama.cpp itself prints belongs into the log; standard output is for the one line.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    watcher = threading.Thread(target=_end_with_parent, daemon=True)
    watcher.start()
    server = _serve(settings)
    port = urlsplit(str(server.listening_address)).port
    out.write(json.dumps({"port": port}) + "\n")
    out.flush()
    watcher.join()


def _end_with_parent() -> None:
    # Not through sys.stdin: its lock, held by a thread that waits, breaks the interpreter's end.
    while os.read(0, 4096):
        pass
    # The server's own shutdown waits for a request that is under way; nobody waits for its answer any more.
    os._exit(0)


def _serve(settings: dict[str, Any]) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.cache_ram_mib = _CACHE_MIB
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_threads_http = 64
    # Any page in a browser, and any user of the machine, can reach a port of loopback.
    params.api_keys = [settings["key"]]
    params.ui = False
    params.use_jinja = True
    if settings["template"] is not None:
        params.chat_template = settings["template"]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
