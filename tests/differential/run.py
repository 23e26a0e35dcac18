"""One run of one program in this process, plain or recorded, and what can be observed of it."""

from __future__ import annotations

import builtins
import ctypes
import json
import linecache
import os
import random
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import describe

PLAIN, MARK = "# a cell", "%%autograd --no-card"
M_PERTURB = -6  # of glibc's mallopt: which bytes fresh memory holds


def observe(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run a task (way, recorded, cells, space) in a folder of its own; its output goes to this
    process's own streams."""
    os.chdir(folder)
    script = folder / "main.py"
    script.write_text("\n".join(task["cells"]), encoding="utf-8")
    before = describe.files(folder)
    sys.argv = [str(script)]
    sys.path.insert(0, str(folder))
    _seed()
    warnings.resetwarnings()
    warnings.simplefilter("default")
    space: dict[str, Any] = {}
    if task["space"]:
        exec(task["space"], space)
    run = {"cell": _cells, "script": _script, "block": _block}[task["way"]]
    told = run(task, script, space)
    sys.stdout.flush()
    sys.stderr.flush()
    given = {*space, *dir(__builtins__), "In", "Out", "exit", "quit", "get_ipython", "open"}
    told["random"] = describe.randomness()
    told["process"] = describe.process()
    told["files"] = {k: v for k, v in describe.files(folder).items() if before.get(k) != v}
    told["values"], told["copies"] = describe.left(told.pop("space"), given)
    return told


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - programs use it
    for name in ("core", "torch"):
        library = sys.modules.get(name)
        if library is not None:
            library.manual_seed(0)


def _error(error: BaseException | None, files: set[str]) -> dict[str, Any] | None:
    """An exception: its class, its message and notes, the user's frames of its traceback; those behind it likewise."""
    if error is None:
        return None
    frames = [
        [describe.plain(os.path.basename(frame.f_code.co_filename)), line, frame.f_code.co_name]
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename in files or "<ipython-input" in frame.f_code.co_filename
    ]
    return {
        "type": f"{type(error).__module__}.{type(error).__name__}",
        "message": describe.plain(str(error)),
        "args": describe.attempt(lambda: [describe.value(a) for a in error.args]),
        "notes": getattr(error, "__notes__", []),
        "frames": frames,
        "cause": _error(error.__cause__, files),
        "context": _error(error.__context__, files),
    }


def _files(script: Path) -> set[str]:
    return {str(p) for p in script.parent.rglob("*.py")}


# -- three ways a user runs code, each with and without recording ------------------------------------------------------


def _cells(task: dict[str, Any], script: Path, space: dict[str, Any]) -> dict[str, Any]:
    """The cells of a notebook, under ``%%autograd`` where recorded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from .shell import displays

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config, user_ns={**space, "__file__": str(script)})
    InteractiveShell._instance = shell
    shell.showtraceback = lambda *args, **kwargs: None  # the exception is compared itself, with the user's frames
    shown = displays(shell)
    cards: list[Any] = []
    if task["recorded"]:
        import lab.notebook.magics

        lab.notebook.magics._publish = cards.append
        shell.run_line_magic("load_ext", "lab")
    errors, ops = [], 0
    for text in task["cells"]:
        result = shell.run_cell(f"{MARK if task['recorded'] else PLAIN}\n{text}")
        ops += _ops() if task["recorded"] else 0
        errors.append(_error(result.error_before_exec or result.error_in_exec, _files(script)))
    told: dict[str, Any] = {"errors": errors, "displays": shown, "space": dict(shell.user_ns)}
    if task["recorded"]:
        told["ops"] = ops
    return told


def _script(task: dict[str, Any], script: Path, space: dict[str, Any]) -> dict[str, Any]:
    """``python main.py``; recorded by ``python -m lab run main.py``."""
    if not task["recorded"]:
        return _alone(task, script, space)
    import lab.run
    from lab.session.recording import Recording

    stop, seen = Recording.stop, {}

    def stopped(self: Any, own: Any, text: str, row: Any = None, raised: BaseException | None = None) -> Any:
        seen.update(space=dict(own), raised=raised)
        return stop(self, own, text, row, raised)

    Recording.stop = stopped
    _, status = lab.run.record_script(str(script), [])
    return {"errors": [_error(seen["raised"], _files(script))], "space": seen["space"], "status": status,
            "displays": [], "ops": _ops()}  # fmt: skip


def _block(task: dict[str, Any], script: Path, space: dict[str, Any]) -> dict[str, Any]:
    """A function's call, recorded by ``lab.record``."""
    if not task["recorded"]:
        return _alone(task, script, space)
    import lab

    def listen(function: Any) -> Any:
        return lab.record(function).value

    return _alone(task, script, space, listen)


def _alone(task: dict[str, Any], script: Path, space: dict[str, Any], call: Any = None) -> dict[str, Any]:
    """A script run as Python runs it, or handed to `call` as a function."""
    module = types.ModuleType("__main__")
    module.__file__ = str(script)
    module.__dict__.update(space, __builtins__=builtins)
    main, sys.modules["__main__"] = sys.modules.get("__main__"), module
    status, raised = 0, None
    text = script.read_text(encoding="utf-8")
    linecache.checkcache(str(script))
    try:
        code = compile(text, str(script), "exec")
        function = types.FunctionType(code, module.__dict__)
        (call or _call)(function)
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
    except BaseException as error:
        status, raised = 1, error
        own = next((tb for tb in _links(error) if tb.tb_frame.f_code.co_filename == str(script)), None)
        traceback.print_exception(type(error), error, own)
    finally:
        if main is not None:
            sys.modules["__main__"] = main
    told = {
        "errors": [_error(raised, _files(script))],
        "space": dict(module.__dict__),
        "status": status,
        "displays": [],
    }
    if call is not None:
        told["ops"] = _ops()
    return told


def _call(function: Any) -> None:
    function()


def _links(error: BaseException) -> list[Any]:
    links, tb = [], error.__traceback__
    while tb is not None:
        links.append(tb)
        tb = tb.tb_next
    return links


def _ops() -> int:
    """How many ops the record made last counts; it is taken away."""
    from lab.session.recording import _last

    return sum(row.count for row in _last.pop().ops) if _last else 0


def write(task: dict[str, Any], folder: Path, out: Path, into: Path) -> None:
    """Run a task with its output in files, and write the observation as JSON."""
    if task["filled"] and hasattr(ctypes.CDLL(None), "mallopt"):
        ctypes.CDLL(None).mallopt(M_PERTURB, 0xA5)
    streams = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        streams[name] = out / name
        file = os.open(streams[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(file, number)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    try:
        told = observe(task, folder)
    except BaseException:
        told = {"harness": describe.plain(traceback.format_exc())}
    for name, path in streams.items():
        told[name] = describe.lines(path.read_text(encoding="utf-8", errors="replace"), folder)
    into.write_text(json.dumps(told, default=repr), encoding="utf-8")
