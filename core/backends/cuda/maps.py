"""Elementwise kernels as dispatch calls them: printed from the declarations, their launches found by layout.

The commonest calls (one or two arrays of one type, or an array and a number) take a short way: one look-up by shapes
and strides gives the frozen launch and the shape of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.device import Kind
from ...declare.expr import Joint, Program, python_operand, triton_lines, triton_statements
from .. import Kernel
from .devices import guarded
from .memory import following
from .shared import FLOATING, array_library, availability, name, retell


def map(program: Program, kind: Kind) -> Kernel | str:
    """Return the Triton kernel of a program, or why there is none."""
    there, reason = availability()
    if not there:
        return reason
    conditions = all(k == "bool" for k in program.kinds)
    if kind.dtype.name not in FLOATING and not (kind.dtype.name == "bool" and conditions):
        return f"takes {', '.join(FLOATING)}, got {kind.dtype.name}"
    from triton_kernels import elementwise
    from triton_kernels.primitives import PRIMITIVES

    lines, result = triton_lines(program, PRIMITIVES)
    bools = [n for n, k in zip(program.inputs, program.kinds, strict=True) if k == "bool"]
    kernel = elementwise.build(program.name, program.inputs, program.params, lines, result,
                               "bool" if program.is_bool else "same", bools)  # fmt: skip
    dtype = np.dtype(bool) if program.is_bool else kind.dtype.numpy
    general = _general(kernel, len(program.inputs), dtype)
    short = {1: _of_one, 2: _of_two}.get(len(program.inputs))
    run = general if short is None or program.params or bools else short(kernel, dtype, general)
    return Kernel(following(guarded(run, kind.device)), f"{program.name}_kernel", name)


def map_joint(joint: Joint, kind: Kind) -> Kernel | str:
    """Return the Triton kernel that gives several gradients in one launch, as a tuple, or why there is none."""
    there, reason = availability()
    if not there:
        return reason
    if kind.dtype.name not in FLOATING:
        return f"takes {', '.join(FLOATING)}, got {kind.dtype.name}"
    kernel = joint_kernel(joint)
    n, dtype, empty = len(joint.inputs), kind.dtype.numpy, array_library().empty

    def run(*args: Any) -> Any:
        shape = np.broadcast_shapes(*(a.shape for a in args[:n] if hasattr(a, "shape")))
        try:
            outs = [empty(shape, dtype) for _ in joint.results]
            kernel(args[:n], args[n:], outs[0], more=outs[1:])
        except RuntimeError as error:
            retell(error)
        return tuple(outs)

    return Kernel(following(guarded(run, kind.device)), f"{joint.name}_kernel", name)


def joint_kernel(joint: Joint) -> Any:
    """Return the printed kernel of several expressions."""
    from triton_kernels import elementwise
    from triton_kernels.primitives import PRIMITIVES

    first, *more = [python_operand(r, "") for r in joint.results]
    bools = [n for n, k in zip(joint.inputs, joint.kinds, strict=True) if k == "bool"]
    lines = triton_statements(joint.statements, PRIMITIVES)
    return elementwise.build(joint.name, joint.inputs, joint.params, lines, first, "same", bools, more)


def _general(kernel: Any, n: int, dtype: Any) -> Any:
    """Any operands: numbers among them, shapes that broadcast, parameters."""
    empty = array_library().empty

    def run(*args: Any) -> Any:
        shapes = [a.shape for a in args[:n] if hasattr(a, "shape")]
        shape = shapes[0] if all(s == shapes[0] for s in shapes) else np.broadcast_shapes(*shapes)
        try:
            out = empty(shape, dtype)
            kernel(args[:n], args[n:], out)
        except RuntimeError as error:
            retell(error)
        return out

    return run


def _of_one(kernel: Any, dtype: Any, general: Any) -> Any:
    from triton_kernels.runtime import Memo

    known, make = Memo(), _maker()

    def run(x: Any) -> Any:
        try:
            shape, launch = known[x.shape, x.strides]
        except KeyError:
            out = general(x)
            if out.size:
                known[x.shape, x.strides] = out.shape, kernel.launch_of((x,), out)
            return out
        try:
            out = make(shape, dtype)
            launch((x, out))
        except RuntimeError as error:
            retell(error)
        return out

    return run


def _of_two(kernel: Any, dtype: Any, general: Any) -> Any:
    from triton_kernels.runtime import Memo

    known, make = Memo(), _maker()

    def run(x: Any, y: Any) -> Any:
        key: tuple[Any, ...]
        arrays: tuple[Any, ...]
        numbers: tuple[float, ...]
        if y.__class__ is float or y.__class__ is int:
            key, arrays, numbers = (x.shape, x.strides, None), (x,), (float(y),)
        elif x.__class__ is float or x.__class__ is int:
            key, arrays, numbers = (None, y.shape, y.strides), (y,), (float(x),)
        else:
            key, arrays, numbers = (x.shape, x.strides, y.shape, y.strides), (x, y), ()
        found = known.get(key)
        if found is None:
            out = general(x, y)
            if out.size:
                known[key] = out.shape, kernel.launch_of((x, y), out)
            return out
        try:
            out = make(found[0], dtype)
            found[1]((*arrays, out), numbers)
        except RuntimeError as error:
            retell(error)
        return out

    return run


def _maker() -> Any:
    """Return what makes an array of a shape and a dtype, without detours."""
    xp = array_library()
    return np.empty if xp is np else xp.ndarray
