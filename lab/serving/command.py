"""``python -m lab serve model.gl``: programs behind HTTP, by the Open Inference Protocol.

A program is a file that ``program.save(path)`` wrote; its name is the file's, or NAME=FILE. GET /v2/models/NAME says
what it takes, POST /v2/models/NAME/infer runs it, /metrics is for Prometheus. SIGTERM and Ctrl-C end it when what it
has accepted is answered.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from core import export as core_export

from ..console.options import Parser
from .app import app
from .limits import Limits


def main(argv: list[str]) -> int:
    """Run the command line; 0 when it was told to stop and answered everything, 1 when it could not start."""
    options = _parser().parse_args(argv)
    try:
        limits = Limits(body=options.max_body, elements=options.max_elements, queue=options.queue)
        application = app(_programs(options.model), limits=limits, batch=options.batch, wait_ms=options.wait_ms)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"python -m lab serve: {error}", file=sys.stderr)
        return 1
    return serve(application, options.host, options.port, options.drain)


def _parser() -> Parser:
    parser = Parser(prog="python -m lab serve", description=__doc__,
                    example="python -m lab serve model.gl --port 8000 --batch 32")  # fmt: skip
    parser.add_argument("model", nargs="+", metavar="[NAME=]FILE", help="a saved program")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="the port (8000); 0: one that is free")
    parser.add_argument("--batch", type=int, default=32, help="rows that share a run, at most (32); 1: none do")
    parser.add_argument("--wait-ms", type=float, default=2.0, help="what a request may wait for others (2)")
    parser.add_argument("--max-body", type=int, default=Limits().body, help="bytes of a request (16 MiB)")
    parser.add_argument("--max-elements", type=int, default=Limits().elements, help="elements of a tensor (4 Mi)")
    parser.add_argument("--queue", type=int, default=Limits().queue, help="requests that wait for a model (256)")
    parser.add_argument("--drain", type=int, default=30, help="seconds to answer what is left, when told to stop (30)")
    return parser


def _programs(files: list[str]) -> dict[str, Any]:
    """Return the programs of the files, by name. *Raises*: ValueError for two of one name; what reading raises."""
    load = vars(core_export).get("load")
    if load is None:
        raise RuntimeError("this core reads no saved programs (core.export.load)")
    found: dict[str, Any] = {}
    for word in files:
        name, equals, path = word.partition("=")
        if not equals:
            name, path = Path(word).stem, word
        if name in found:
            raise ValueError(f"two models are called {name}. Remedy: NAME={path}")
        found[name] = load(path)
    return found


def serve(application: Any, host: str, port: int, drain_s: int) -> int:
    """Serve an application until SIGTERM or SIGINT; the exit status."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        print(f"python -m lab serve: cannot listen at {host} port {port}: {error}", file=sys.stderr)
        return 1
    # one line a client's mistake is the metrics' business; a keep-alive longer than most proxies' own
    config = uvicorn.Config(application, log_level="warning", access_log=False, timeout_keep_alive=75,
                            timeout_graceful_shutdown=drain_s)  # fmt: skip
    server = uvicorn.Server(config)
    # uvicorn raises the signal once more when it has shut down: an orderly end is no death by a signal
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    shown = f"[{host}]" if ":" in host else host
    print(f"lab serve: http://{shown}:{listening.getsockname()[1]}/v2, process {os.getpid()}", flush=True)
    for name, model in application.state.models.items():
        print(f"  {name}: {model.program!r}; batching {model.why}", flush=True)
    server.run(sockets=[listening])
    counts = application.state.counts
    print(f"lab serve: stopped; answered {counts['answered']} of {counts['accepted']} requests", flush=True)
    return 0 if server.started and counts["answered"] == counts["accepted"] else 1
