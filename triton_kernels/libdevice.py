"""What the functions of libdevice compute, in NumPy: in Triton's interpreter its own give None.

`install` puts them in their places for good, in a process that interprets and compiles nothing. A kernel that has taken
a function by name (``from triton.language.extra.libdevice import tanh``) before that has the old one in its module:
`mended` replaces such names, and built-in functions of the language that were taken by name, while the kernel runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as it

_HOMES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice",
          "triton.language.extra.hip.libdevice")  # fmt: skip
_ONE_TO_ONE = (
    "tanh sinh cosh tan log1p expm1 exp exp2 log log2 log10 sqrt sin cos floor ceil trunc rint cbrt hypot fmod copysign"
)
_OTHERS: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "pow": np.power, "fast_powf": np.power, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "div_rn": np.divide, "div_rz": np.divide, "fast_dividef": np.divide, "fast_expf": np.exp, "fast_logf": np.log,
    "fast_log2f": np.log2, "fast_tanhf": np.tanh, "fast_sinf": np.sin, "fast_cosf": np.cos, "exp10": lambda x: 10.0**x,
    "nearbyint": np.rint, "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "abs": np.abs, "fabs": np.abs,
    "erf": np.vectorize(math.erf, [float]), "erfc": np.vectorize(math.erfc, [float]),
    "lgamma": np.vectorize(math.lgamma, [float]), "tgamma": np.vectorize(math.gamma, [float]),
    "fma": lambda x, y, z: x.astype(np.float64) * y + z, "max": np.fmax, "min": np.fmin, "fmax": np.fmax,
    "fmin": np.fmin,
}  # fmt: skip
_WHOLE: dict[str, Callable[..., Any]] = {
    "isnan": np.isnan, "isinf": np.isinf, "finitef": np.isfinite, "isfinited": np.isfinite, "signbit": np.signbit,
}  # fmt: skip
_ROUNDED = {"llrint": (np.rint, tl.int64), "float2int_rn": (np.rint, tl.int32), "float2int_rz": (np.trunc, tl.int32)}


def _function(compute: Callable[..., Any], kind: Any = None) -> Callable[..., Any]:
    def call(*arguments: Any, **_: Any) -> Any:
        tensors = [it.interpreter_semantic.to_tensor(a) for a in arguments]
        first = next(t for t, a in zip(tensors, arguments, strict=True) if isinstance(a, tl.tensor))
        result = kind or first.dtype.scalar
        with np.errstate(all="ignore"):
            found = np.asarray(compute(*[t.handle.data for t in tensors])).astype(it._get_np_dtype(result))
        type_ = tl.block_type(result, first.shape) if first.type.is_block() else result
        return tl.tensor(it.TensorHandle(found, result), type_)

    return call


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """By name, what takes tensors of the interpreter and gives one."""
    found = {name: _function(getattr(np, name)) for name in _ONE_TO_ONE.split()}
    found |= {name: _function(f) for name, f in _OTHERS.items()}
    found |= {name: _function(f, tl.int32) for name, f in _WHOLE.items()}
    return found | {name: _function(f, kind) for name, (f, kind) in _ROUNDED.items()}


def install() -> None:
    """Let the modules of libdevice have them, and raise for those that are not here."""
    for home in _HOMES:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(home)
            for name, value in list(vars(module).items()):
                if inspect.isfunction(value) and value.__module__ == home:
                    setattr(module, name, _at(home, name))


def _at(home: str, name: str) -> Callable[..., Any]:
    """Return a function that says it is of libdevice's module, so that a kernel's text can name it."""
    compute = functions().get(name) or _absent(name)

    def call(*arguments: Any, **named: Any) -> Any:
        return compute(*arguments, **named)

    call.__module__, call.__name__ = home, name
    return call


def _absent(name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **_: Any) -> Any:
        raise NotImplementedError(f"libdevice.{name} is not known to the interpreter here; there are "
                                  f"{', '.join(sorted(functions()))}")  # fmt: skip

    return call


@contextlib.contextmanager
def mended(fn: Any) -> Iterator[None]:
    """Within, what a kernel and those that it calls have taken by name is what the interpreter needs."""
    undo: list[tuple[dict[str, Any], str, Any]] = []
    seen: set[int] = set()
    waiting = [fn]
    while waiting:
        space = waiting.pop().__globals__
        if id(space) in seen:
            continue
        seen.add(id(space))
        for name, value in list(space.items()):
            if isinstance(value, it.InterpretedFunction):
                waiting.append(value.fn)
            elif (new := _instead(value)) is not None:
                undo.append((space, name, value))
                space[name] = new
    try:
        yield
    finally:
        for space, name, value in undo:
            space[name] = value


def _instead(value: Any) -> Any:
    """Return what stands in the place of a function that was taken by name; None where it can stay."""
    home = getattr(value, "__module__", None) or ""
    if not inspect.isfunction(value) or not home.startswith("triton.language"):
        return None
    if home in _HOMES:
        return functions().get(value.__name__) or _absent(value.__name__)
    if not tl.core.is_builtin(value):
        return None

    def call(*arguments: Any, **named: Any) -> Any:
        return value(*arguments, **{**named, "_semantic": it.interpreter_semantic})

    return call
