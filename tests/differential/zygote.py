"""A process that has imported what every run needs and forks one child a run: a fresh process without the wait.

Two kinds: plain ones never import the lab. A task comes as a line of JSON on standard input, the child's exit status
goes back as a line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path


def main(argv: list[str]) -> None:
    """``zygote PACKAGE plain|recorded``."""
    package, kind = argv
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits it ignored
    importlib.import_module(package)
    if package == "torch":
        importlib.import_module("torch").set_num_threads(1)
        importlib.import_module("core")
    for name in ("IPython.core.interactiveshell", "IPython.core.completer", "matplotlib.pyplot", "numpy.random"):
        importlib.import_module(name)

    from . import run

    if kind == "recorded":
        importlib.import_module("lab.notebook.magics")
        importlib.import_module("lab.run")
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            code = 3
            try:
                os.close(0)
                os.open(os.devnull, os.O_RDONLY)
                run.write(task, Path(task["folder"]), Path(task["out"]), Path(task["into"]))
                code = 0
            finally:
                os._exit(code)
        print(_wait(child, task["limit_s"]), flush=True)


def _wait(child: int, limit_s: float) -> int:
    """The child's exit status; 124 where it took too long. What it left running is ended with it."""
    end = time.monotonic() + limit_s
    status = 124
    while time.monotonic() < end:
        done, code = os.waitpid(child, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(code)
            break
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status == 124:
        os.waitpid(child, 0)
    return status


if __name__ == "__main__":
    main(sys.argv[1:])
