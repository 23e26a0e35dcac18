"""``python -m lab run script.py``: a script as it is, recorded, with the card as a page or as text."""

from __future__ import annotations

import argparse
import linecache
import os
import sys
import traceback
import types
from pathlib import Path

import widgets
from widgets.text import findings

from .console.options import Parser
from .report.export import FORMS
from .session.recording import Recording, error_row


def main(argv: list[str]) -> int:
    """Run a script under a recording; the exit status is the script's, 1 if it raised."""
    parser = Parser(prog="python -m lab run", description=__doc__, script=True,
                    example="python -m lab run --report report.html train.py --epochs 3")  # fmt: skip
    parser.add_argument("--report", metavar="FILE", help=f"write the record there ({', '.join(FORMS)}); else as text")
    parser.add_argument("--trace", metavar="FILE", help="write the timeline for Perfetto there")
    parser.add_argument("script", help="a Python file")
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        help="what the script gets as sys.argv[1:], up to --report and --trace; all that follows a --",
    )
    options = parser.parse_args(argv)
    late = argparse.ArgumentParser(prog=parser.prog, add_help=False, allow_abbrev=False)
    for name in ("report", "trace"):  # also where most people put them: behind the script
        late.add_argument(f"--{name}", default=getattr(options, name))
    ours, theirs = options.arguments, []
    if "--" in ours:
        ours, theirs = ours[: ours.index("--")], ours[ours.index("--") + 1 :]
    options, others = late.parse_known_args(ours, options)
    options.arguments = [*others, *theirs]
    if options.report and Path(options.report).suffix not in FORMS:
        parser.error(f"--report {options.report}: needs a name that ends in {', '.join(FORMS)}")
    if not Path(options.script).is_file():
        parser.error(f"no such file: {options.script}")
    for name in ("report", "trace"):  # said now, not when a long script has run
        path = getattr(options, name)
        if path and not (parent := Path(path).absolute().parent).is_dir():
            parser.error(f"--{name} {path}: there is no folder {parent}; make it first")
    recording, status = record_script(options.script, options.arguments)
    found = len(recording.record.findings)
    for path in filter(None, (options.report, options.trace)):
        recording.save(path) if path == options.report else recording.to_chrome_trace(path)
        left = recording.record.runs_left
        if path == options.trace and left:
            kept = len(recording.record.runs)
            print(f"lab: the timeline holds the first {kept:,} of {kept + left:,} runs", file=sys.stderr)
        told = f" ({found or 'no'} finding{'' if found == 1 else 's'})" if path == options.report else ""
        print(f"lab: wrote {path}{told}", file=sys.stderr)
    if options.report and (found or recording.record.error or recording.record.stopped):
        print("\n".join(findings(recording.record)), file=sys.stderr)
    if not options.report:
        print(widgets.text(recording.record), file=sys.stderr)
    return status


def record_script(script: str, arguments: list[str]) -> tuple[Recording, int]:
    """Run a script as ``python script`` would, in a module named ``__main__``; the recording and the exit status."""
    text = Path(script).read_text(encoding="utf-8")
    module = types.ModuleType("__main__")
    module.__file__ = script
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    sys.argv, sys.path[0:1] = [script, *arguments], [os.path.dirname(os.path.abspath(script))]
    sys.modules["__main__"] = module
    recording, status, error = Recording(os.path.basename(script)), 0, None
    try:
        code = compile(text, script, "exec")
        recording.start({script: 0})
        exec(code, module.__dict__)
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
    except BaseException as raised:
        status, error = 130 if isinstance(raised, KeyboardInterrupt) else 1, raised
        inner = raised.__traceback__.tb_next if raised.__traceback__ else None
        traceback.print_exception(type(raised), raised, inner)
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]
    if recording.recorder is None:  # it did not even compile
        recording.start({script: 0})
    linecache.checkcache(script)
    recording.stop(module.__dict__, text, error_row(error, {script: 0}), error)
    return recording, status
