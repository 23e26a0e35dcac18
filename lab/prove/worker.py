"""What runs in a trial's process: the cell's text, behind the fence, measured or recorded."""

from __future__ import annotations

import ast
import asyncio
import builtins
import hashlib
import io
import linecache
import logging
import os
import sys
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from core.base import syntax
from core.base.pytorch import libraries

from ..recorder.sampling import Queue
from ..session.recording import Recording, error_row
from . import elsewhere, fence
from .descriptors import CannotFence
from .measure import Enough, Measured, marked
from .values import of_clocks

if TYPE_CHECKING:
    from .snapshot import Order, Scene

FILE = "<the cell again>"
LONGEST = 160  # characters of an error, as it is told


def warm() -> None:
    """Let the packages load what they load at a first step: else each trial would pay for it."""
    for library in libraries():
        with suppress(Exception):
            if hasattr(library, "optim"):
                _one_thread(library)
                w = library.zeros(1, requires_grad=True)
                w.sum().backward()
                library.optim.SGD([w], lr=0.0).step()


def work(scene: Scene, order: Order, keep: set[int], folder: str) -> dict[str, Any]:
    """Run an order behind the fence; what it printed, found or measured is the answer."""
    try:
        shown = _silence(scene)
        fence.close_in(keep, folder, order.seconds, order.megabytes)
    except (CannotFence, OSError) as error:
        return {"error": f"no fence: {error}", "refused": True}
    tempfile.tempdir = folder
    measured = Measured(scene.space, order.steps)
    try:
        elsewhere.put(order.others, order.again, scene.space, measured.ran_there)
    except BaseException as error:
        return {"error": f"an earlier cell that runs again for it fails: {said(error)}"}
    python = scene.transform(order.text)
    linecache.cache[FILE] = (len(python), None, python.splitlines(True), FILE)
    if order.what == "record" and not order.steps:
        return _record(scene, python)  # nothing is wrapped that a finding could name
    with measured:
        if order.what == "record":
            return _record(scene, python)
        answer, said_all = _measure(scene, python, measured), shown.getvalue()
        return {**answer, "printed": said_all.count("\n"), "output": hashlib.sha256(said_all.encode()).hexdigest()}


def _measure(scene: Scene, python: str, measured: Measured) -> dict[str, Any]:
    error, stopped = None, False
    queue = Queue()
    before = time.process_time_ns(), time.perf_counter_ns()
    try:
        _run(scene, marked(python, FILE, Measured.MARK), measured)
    except Enough:
        stopped = True
    except BaseException as raised:
        error = raised
    cpu, wall = time.process_time_ns() - before[0], time.perf_counter_ns() - before[1]
    wall -= queue.since()[1]  # while others had the processor
    told = measured.told()
    for name in of_clocks(syntax.parse(python, FILE)):
        told["values"].pop(name, None)
    told["cpu_ms"], told["wall_ms"] = ((ns - measured.own_ns) / 1e6 for ns in (cpu, wall))
    return {"error": said(error), "stopped": stopped, **told}


def _record(scene: Scene, python: str) -> dict[str, Any]:
    recording, error = Recording(), None
    recording.start({FILE: 0})
    try:
        _run(scene, syntax.parse(python, FILE), None)
    except Enough:
        pass
    except BaseException as raised:  # sys.exit() as well
        error = raised
    record = recording.stop(scene.space, python, error_row(error, {FILE: 0}), error)
    told = ("kind", "severity", "line", "message", "remedy", "reads")
    found = [{name: getattr(f, name) for name in told} for f in record.findings]
    return {"error": said(error), "found": found}


def _run(scene: Scene, tree: ast.Module, measured: Measured | None) -> None:
    """Run the text as a notebook does, but for its hooks, its history and its event loop.

    A loop is made anew: the kernel's has a descriptor that its own process uses.
    """
    code = compile(tree, FILE, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if measured is not None:
        scene.space[measured.MARK] = measured.ran
    made = eval(code, scene.space)
    if made is not None:
        asyncio.run(made)


def said(error: BaseException | None) -> str | None:
    """Return an exception in a line: of a long message the sentences that have room in it.

    >>> said(ValueError("It is wrong. " + "Much is said of what to do about it, " * 9))
    'ValueError: It is wrong.'
    """
    if error is None:
        return None
    try:
        text = str(error)
    except Exception:
        text = ""
    line = f"{type(error).__name__}: {text}".rstrip(": ").splitlines()[0]
    if len(line) <= LONGEST:
        return line
    whole, _, _ = line[:LONGEST].rpartition(". ")
    return f"{whole}." if whole else f"{line[:LONGEST]}…"


def _silence(scene: Scene) -> io.StringIO:
    """Let nothing of the copy be seen, heard or asked: what it prints is gathered, warnings and bars apart from it."""
    shown, aside, was = io.StringIO(), io.StringIO(), {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}
    for stream, name in ((shown, "stdout"), (aside, "stderr")):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - it lives as long as the process
    loggers = [logging.root, *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))]
    for handler in [h for logger in loggers for h in logger.handlers]:
        if isinstance(handler, logging.StreamHandler) and handler.stream in was:
            handler.stream = aside  # its stream would write to the kernel's socket

    def refuse(*_: object, **__: object) -> Any:
        raise RuntimeError("the cell asks for input, which a trial does not have")

    builtins.input = refuse
    scene.quiet()
    for library in libraries():
        if hasattr(library, "utils"):
            _one_thread(library)
            _no_workers(library)
    return shown


def _one_thread(library: Any) -> None:
    """One thread: a pool that was forked waits for ever for threads that are not there (libgomp's)."""
    if hasattr(library, "set_num_threads"):
        with suppress(Exception):
            library.set_num_threads(1)
        library.set_num_threads = lambda *_: None


def _no_workers(library: Any) -> None:
    """Let loaders load in this process: a trial begins no others."""
    loader = getattr(getattr(library.utils, "data", None), "DataLoader", None)
    if loader is None:
        return
    began = loader.__iter__
    alone = {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "timeout": 0, "_iterator": None,
             "multiprocessing_context": None}  # fmt: skip

    def begin(self: Any) -> Any:
        if getattr(self, "num_workers", 0):
            for key, value in alone.items():
                names = {key, f"_DataLoader__{key}"} & set(vars(self))
                for name in names:
                    self.__dict__[name] = value
        return began(self)

    loader.__iter__ = begin
