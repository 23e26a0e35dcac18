"""Run programs one after another, each in a fork of this process, which has imported PyTorch: that is waited for once.

``python forked.py SECONDS program.py ...`` prints a line of JSON for each: its exit status, and its output's and its
errors' lines that matter.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import tempfile
from pathlib import Path

import torch


def run(path: str, seconds: int) -> None:
    """Run a program in a fork, and print what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("out", "err")]
        pid = os.fork()
        if not pid:
            for file, number in zip(files, (1, 2), strict=True):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
            signal.alarm(seconds)
            sys.argv, sys.path[0] = [path], str(Path(path).parent)
            status = 1
            try:
                runpy.run_path(path, run_name="__main__")
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        out, err = (file.read_text(errors="replace") if file.exists() else "" for file in files)
    print(json.dumps({"path": path, "status": status, "out": out, "err": err}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for program in sys.argv[2:]:
        run(program, int(sys.argv[1]))
