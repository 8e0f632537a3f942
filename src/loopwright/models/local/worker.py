"""The process that runs llama.cpp: `python -m loopwright.models.local.worker SETTINGS`.

It says on standard output, in one line of JSON, where it listens, and ends when its standard input does: with its parent,
however that ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Load the model, say where the server listens, and wait for the end of standard input."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    # What llama.cpp itself prints belongs into the log; standard output is for the one line.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.use_jinja = True
    server = xllamacpp.Server(params)
    out.write(json.dumps({"address": server.listening_address}) + "\n")
    out.flush()
    sys.stdin.buffer.read()
    # The server's own shutdown may wait for a request that is under way; nobody waits for its answer any more.
    os._exit(0)


if __name__ == "__main__":
    main()
