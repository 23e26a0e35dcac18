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
import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as it

from . import ptx

_HOMES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice",
          "triton.language.extra.hip.libdevice")  # fmt: skip
_ONE_TO_ONE = (
    "tanh sinh cosh tan log1p expm1 exp exp2 log log2 log10 sqrt sin cos floor ceil trunc rint cbrt hypot fmod copysign"
)
_OTHERS: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "pow": np.power, "fast_powf": np.power, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "fast_dividef": np.divide, "fast_expf": np.exp, "fast_logf": np.log,
    "fast_log2f": np.log2, "fast_tanhf": np.tanh, "fast_sinf": np.sin, "fast_cosf": np.cos, "exp10": lambda x: 10.0**x,
    "nearbyint": np.rint, "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "abs": np.abs, "fabs": np.abs,
    "erf": np.vectorize(math.erf, [float]), "erfc": np.vectorize(math.erfc, [float]),
    "lgamma": np.vectorize(math.lgamma, [float]), "tgamma": np.vectorize(math.gamma, [float]),
    "fma": lambda x, y, z: x.astype(np.float64) * y + z, "max": np.fmax, "min": np.fmin, "fmax": np.fmax,
    "fmin": np.fmin,
}  # fmt: skip
_OTHERS |= {
    "saturatef": lambda x: np.clip(x, 0, 1), "sinpi": lambda x: np.sin(np.pi * x),
    "cospi": lambda x: np.cos(np.pi * x),
    "fast_tanf": np.tan, "fast_exp10f": lambda x: 10.0**x, "fast_log10f": np.log10, "nextafter": np.nextafter,
    "fdim": lambda x, y: np.fmax(x - y, 0), "ldexp": np.ldexp, "scalbn": np.ldexp, "rcbrt": lambda x: 1 / np.cbrt(x),
    "remainder": np.vectorize(math.remainder, [float]), "logb": lambda x: np.floor(np.log2(np.abs(x))),
    "normcdf": np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2, [float]), "cyl_bessel_i0": np.i0,
    "erfinv": np.vectorize(lambda x: _quantile((x + 1) / 2) / math.sqrt(2), [float]),
    "normcdfinv": np.vectorize(lambda x: _quantile(x), [float]), "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": lambda *x: np.sqrt(sum(each * each for each in x)), "hadd": lambda x, y: (x.astype(np.int64) + y) >> 1,
    "norm4d": lambda *x: np.sqrt(sum(each * each for each in x)), "sad": lambda x, y, z: np.abs(x.astype(int) - y) + z,
    "rnorm3d": lambda *x: 1 / np.sqrt(sum(each * each for each in x)),
    "rnorm4d": lambda *x: 1 / np.sqrt(sum(each * each for each in x)),
    "rhadd": lambda x, y: (x.astype(np.int64) + y + 1) >> 1, "byte_perm": lambda *x: ptx.permuted(*x),
    "mulhi": lambda x, y: (x.astype(object) * y.astype(object)) >> (8 * x.itemsize),
}  # fmt: skip
_WHOLE: dict[str, Callable[..., Any]] = {
    "isnan": np.isnan, "isinf": np.isinf, "finitef": np.isfinite, "isfinited": np.isfinite, "signbit": np.signbit,
    "clz": ptx.leading_zeros, "popc": ptx.ones, "ilogb": lambda x: np.floor(np.log2(np.abs(x))),
    "ffs": np.vectorize(lambda x: (int(x) & -int(x)).bit_length(), [int]),
}  # fmt: skip
_ROUNDED: dict[str, tuple[Callable[..., Any], Any]] = {
    "llrint": (np.rint, tl.int64), "llround": (lambda x: np.trunc(x + np.copysign(0.5, x)), tl.int64),
}  # fmt: skip
_SEEN_AS = {"float_as_int": tl.int32, "float_as_uint": tl.int32, "int_as_float": tl.float32,
            "uint_as_float": tl.float32, "double_as_longlong": tl.int64, "longlong_as_double": tl.float64}  # fmt: skip
_NUMBERS = {"int": tl.int32, "uint": tl.int32, "ll": tl.int64, "ull": tl.int64, "float": tl.float32,
            "double": tl.float64}  # fmt: skip
_MODES = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda x: 1 / x, "sqrt": np.sqrt,
    "fma": lambda x, y, z: x * y + z, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


def _quantile(p: float) -> float:
    """Return where the normal distribution function is p."""
    if not 0 < p < 1:
        return math.nan if p not in (0, 1) else math.copysign(math.inf, p - 0.5)
    return statistics.NormalDist().inv_cdf(p)


def _directed(compute: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """Return arithmetic that is rounded as its name says, of float64 to nearest."""

    def call(*arrays: np.ndarray) -> np.ndarray:
        return ptx.rounded(mode, compute(*(a.astype(np.float64) for a in arrays)), arrays[0].dtype)

    return call


def _conversion(of: str, to: str, mode: str) -> Callable[..., Any]:
    """Return a conversion between numbers; integers saturate."""

    def call(x: np.ndarray) -> np.ndarray:
        given = x.view(f"u{x.itemsize}") if of in ("uint", "ull") else x
        if to in ("float", "double"):
            return ptx.rounded(mode, given.astype(np.float64), np.dtype(it._get_np_dtype(_NUMBERS[to])))
        info = np.iinfo({"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}[to])
        whole = [0 if v != v else min(max(v, info.min), info.max) for v in _MODES[mode](given).reshape(-1).tolist()]
        return np.array(list(map(int, whole)), info.dtype).reshape(x.shape).view(f"i{info.dtype.itemsize}")

    return call


def _function(compute: Callable[..., Any], kind: Any = None) -> Callable[..., Any]:
    def call(*arguments: Any, **_: Any) -> Any:
        tensors = [it.interpreter_semantic.to_tensor(a) for a in arguments]
        first = next((t for t, a in zip(tensors, arguments, strict=True) if isinstance(a, tl.tensor)), tensors[0])
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
    for mode in _MODES:
        directed = {"rn": "", "rz": "rz", "rd": "rm", "ru": "rp"}[mode]
        found |= {f"{name}_{mode}": _function(_directed(f, directed)) for name, f in _ARITHMETIC.items()}
        for of, to in itertools.permutations(_NUMBERS, 2):
            if "float" in (of, to) or "double" in (of, to):
                convert = _conversion(of, to, directed if to in ("float", "double") else mode)
                found[f"{of}2{to}_{mode}"] = _function(convert, _NUMBERS[to])
    for name, kind in _SEEN_AS.items():
        found[name] = _function(functools.partial(_viewed, np.dtype(it._get_np_dtype(kind))), kind)
    return found | {name: _function(f, kind) for name, (f, kind) in _ROUNDED.items()}


def _viewed(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    return x.view(dtype)


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
