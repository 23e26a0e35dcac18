"""PyTorch's names for the tracing that its compiler does, which is not here: see `core.compiler`.

Marks are taken and change nothing; `export`, `explain` and `optimize`, which are asked for what a trace found, refuse.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from .. import compiler
from ..base.errors import text
from ..compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)
from . import config, exc

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
           "exc", "explain", "export", "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_supported",
           "is_inductor_supported", "list_backends", "mark_dynamic", "mark_static", "mark_static_address",
           "maybe_mark_dynamic", "nonstrict_trace", "optimize", "reset", "run", "set_stance", "skip_frame",
           "substitute_in_graph"]  # fmt: skip

eval_frame = decorators = external_utils = utils = sys.modules[__name__]  # PyTorch's files, whose names stand here

forbid_in_graph = disallow_in_graph = nonstrict_trace = run = skip_frame = allow_in_graph


def mark_dynamic(t: Any, index: Any, *ignored: Any, **more: Any) -> None:
    """Tell that a size varies: nothing is compiled for one size."""


def mark_static(t: Any, index: Any = None) -> None:
    """Tell that a size stays: nothing is compiled for one size."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Tell that a tensor's memory stays: nothing is compiled for it."""


maybe_mark_dynamic = mark_dynamic


def graph_break(msg: str = "") -> None:
    """Tell where a trace ends: there is none."""


def is_dynamo_supported() -> bool:
    """Return False: nothing is traced here."""
    return False


is_inductor_supported = is_dynamo_supported


def is_compile_supported(device_type: str) -> bool:
    """Return False: nothing is compiled here."""
    return False


def optimize(backend: Any = "inductor", *, nopython: bool = False, **ignored: Any) -> Any:
    """Return `compile` for a backend, by its older name."""
    return lambda fn: compiler.compile(fn, backend=backend, fullgraph=nopython)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(text("nothing is traced from Python's bytecode here", op=f"_dynamo.{name}",
                                   remedy="core.export(function, args) captures a program from a call"))  # fmt: skip


def export(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: `core.export` captures a program."""
    _refuse("export")


def explain(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: no trace is there to be explained; `core.explain` tells of kernels."""
    _refuse("explain")
