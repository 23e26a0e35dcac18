"""The command line: ``python -m lab doctor``, ``bench``, ``rows``, ``run``, ``serve`` and ``tune``."""

from __future__ import annotations

import importlib
import sys

from core.base import shadowing

from .console.options import meant

COMMANDS = {
    "doctor": "what this machine can do, and what to do about the rest",
    "bench": "measurements, as ratios",
    "tune": "a kernel at a shape: tune matmul_f32 512x512x512 float32 --budget 60s",
    "run": "a script, recorded: run script.py --report report.html",
    "serve": "saved programs behind HTTP: serve model.gl --port 8000",
    "rows": "what is built, with the command that shows each: rows --run",
}
USAGE = "usage: python -m lab COMMAND [options]\n\n" + "\n".join(
    f"  {name:8} {what}" for name, what in COMMANDS.items()
)


def main(argv: list[str]) -> int:
    """Run a command; 2 for one that does not exist."""
    if argv[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if not argv or argv[0] not in COMMANDS:
        came = f"unknown command {argv[0]!r}{meant(argv[0], COMMANDS)}" if argv else "a command is needed"
        print(f"python -m lab: {came}\n\n{USAGE}", file=sys.stderr)
        return 2
    if argv[0] == "tune" and (said := shadowing.hidden("triton_kernels")):
        print(f"python -m lab tune: {said}", file=sys.stderr)
        return 2
    module = {"bench": "benchmarks.command", "tune": "tuning.command", "serve": "serving.command"}
    try:
        found = importlib.import_module(f".{module.get(argv[0], argv[0])}", __package__)
    except ImportError as error:
        if argv[0] != "serve":  # whose packages are optional, and the error says which
            raise
        print(f"python -m lab serve: {error}", file=sys.stderr)
        return 2
    return int(found.main(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
