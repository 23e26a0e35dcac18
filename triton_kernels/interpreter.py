"""Running kernels in Triton's interpreter over NumPy arrays: mended, bounds-checked and quick enough for tests.

Triton's interpreter (3.6 to 3.9) computes bfloat16 on its bit patterns, fails on loop bounds under NumPy 2.4 (3.6),
reads garbage or kills the process on an address outside its arrays, and patches `triton.language` anew in every call of
a device function. `install` mends the four; `execute` runs one launch and says which lane of which program went astray.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import threading
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as it
from triton.runtime.jit import _normalize_ty

from . import interpreter_ops, interpreter_text, libdevice, ptx
from .runtime import BFLOAT16, TYPE_NAMES, KernelError

if TYPE_CHECKING:
    from .runtime import Launch

_LOCK = threading.RLock()  # the interpreter's program id and our ranges are global
_ELEMENT = {"fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64, "i8": tl.int8,
            "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "u8": tl.uint8}  # fmt: skip
_POINTER = {dtype: tl.pointer_type(_ELEMENT[name]) for dtype, name in TYPE_NAMES.items()}
_FLOATS = (tl.float16, tl.bfloat16, tl.float32, tl.float64)


class OutOfBounds(KernelError):
    """A lane that is not masked out reads or writes outside every array of its launch; `short` says it in a line."""

    short = ""


class _Arrays:
    """The address ranges of the launch that runs now."""

    def __init__(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        bounds = [_byte_range(a) for a in arrays]
        self.names, self.arrays, self.bounds = names, arrays, bounds
        self.low = np.array([b[0] for b in bounds], np.uint64)
        self.high = np.array([b[1] for b in bounds], np.uint64)

    def check(self, kind: str, pointers: np.ndarray, mask: np.ndarray | None, size_bytes: int) -> np.ndarray | None:
        if mask is not None:
            mask = np.asarray(mask)  # 3.6 hands the mask of a tensor descriptor over as a memoryview
        live = pointers if mask is None or mask.all() else pointers[np.broadcast_to(mask, pointers.shape)]
        if live.size == 0:
            return None
        first, last = int(live.min()), int(live.max()) + size_bytes
        if any(low <= first and last <= high for low, high in self.bounds):
            return None  # the usual case: one array holds every lane
        live = live.reshape(-1, 1)
        inside = ((live >= self.low) & (live + np.uint64(size_bytes) <= self.high)).any(axis=1)
        if inside.all():
            return None
        stray = int(live[~inside][0, 0])
        lines = "".join(
            f"\n  {name}: {a.dtype} {a.shape} strides {a.strides} at [{low:#x}, {high:#x}): {_place(stray, low, high)}"
            for name, a, (low, high) in zip(self.names, self.arrays, self.bounds, strict=False)
        )
        what = (
            f"out-of-bounds {kind} of {size_bytes} bytes: {int((~inside).sum())} of {inside.size} unmasked lanes in "
            f"program {it.interpreter_builder.grid_idx}"
        )
        error = OutOfBounds(f"{what}, the first at {stray:#x}. Arrays of the launch:{lines}")
        near = min(range(len(self.bounds)), key=lambda k: min(abs(stray - b) for b in self.bounds[k]))
        error.short = f"{what}; of {self.names[near]} the first is {_place(stray, *self.bounds[near])}"
        raise error


_current: _Arrays | Memory | None = None


def _byte_range(array: Any) -> tuple[int, int]:
    start = array.__array_interface__["data"][0]
    if array.size == 0:
        return start, start
    low = high = 0
    for n, stride in zip(array.shape, array.strides, strict=True):
        low, high = (low + (n - 1) * stride, high) if stride < 0 else (low, high + (n - 1) * stride)
    return start + low, start + high + array.itemsize


def _place(address: int, low: int, high: int) -> str:
    if address < low:
        return f"{low - address} bytes before its start"
    return f"{address - high} bytes past its end" if address >= high else "inside, but crossing its end"


class _Memory:
    """The interpreter's loads and stores, with every unmasked address checked and bfloat16 passed as its bits."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        if (
            _current is not None
            and (inside := _current.check("load", pointers, mask, np.dtype(dtype).itemsize)) is not None
        ):
            if odd := getattr(_current, "odd", 0):
                asked = np.broadcast_to(True if mask is None else np.asarray(mask, bool), inside.shape)
                strange = np.where(np.arange(inside.size) % 2, odd, -odd).reshape(inside.shape).astype(dtype)
                other = np.where(asked & ~inside, strange, other).astype(dtype)
            mask = inside
        if dtype == BFLOAT16:
            bits = np.ascontiguousarray(other).view(np.uint16)
            return self._native.load(pointers, mask, bits, np.dtype(np.uint16)).view(BFLOAT16)
        return self._native.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        if _current is not None and (inside := _current.check("store", pointers, mask, value.itemsize)) is not None:
            mask = inside
        if value.dtype == BFLOAT16:
            value = np.ascontiguousarray(value).view(np.uint16)
        return self._native.store(pointers, value, mask)

    def atomic_rmw(self, op: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        if _current is not None:
            _current.check("atomic", pointers, mask, value.itemsize)
        if value.dtype == BFLOAT16:
            return self._one_by_one(op, pointers, value, mask)
        return self._native.atomic_rmw(op, pointers, value, mask, order)

    def _one_by_one(self, op: Any, pointers: np.ndarray, value: np.ndarray, mask: Any) -> np.ndarray:
        """Combine bfloat16 with what lies in memory, which the stock one does not know; return what lay there."""
        compute = {"FADD": np.add, "ADD": np.add, "MAX": np.maximum, "MIN": np.minimum}.get(op.name)
        before = np.zeros(pointers.shape, BFLOAT16)
        for lane in zip(*np.nonzero(np.broadcast_to(np.asarray(mask, bool), pointers.shape)), strict=True):
            at, one = pointers[lane].reshape(1), np.ones(1, bool)
            bits = self._native.load(at, one, np.zeros(1, np.uint16), np.dtype(np.uint16)).view(BFLOAT16)
            before[lane] = bits[0]
            now = value[lane] if compute is None else compute(np.float32(bits[0]), np.float32(value[lane]))
            self._native.store(at, np.array([now], BFLOAT16).view(np.uint16), one)
        return before

    def atomic_cas(self, pointers: Any, compare: Any, value: Any, order: Any) -> Any:
        if _current is not None:
            _current.check("atomic", pointers, None, value.itemsize)
        return self._native.atomic_cas(pointers, compare, value, order)


@dataclasses.dataclass(frozen=True)
class _Options(it.InterpreterOptions):  # type: ignore[misc]
    """What kernels ask of the options that they are compiled with, and the precisions that a product may name."""

    num_warps: int = 4
    num_ctas: int = 1
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


class _Patched:
    """Stands for the scope that Triton would restore: `triton.language` stays patched in this process."""

    def restore(self) -> None: ...


def install() -> None:
    """Mend the interpreter. Runs once, when this module is imported."""
    if isinstance(it._interpreter, _Memory):
        return
    it._interpreter = _Memory(it._interpreter)
    stock_dtype, stock_cast = it._get_np_dtype, it.InterpreterBuilder.cast_impl
    stock_round = it.InterpreterBuilder.create_fp_to_fp

    def numpy_dtype(ty: Any) -> np.dtype:
        element = ty.element_ty if isinstance(ty, tl.block_type) else ty
        return BFLOAT16 if not isinstance(element, tl.pointer_type) and element == tl.bfloat16 else stock_dtype(ty)

    def cast(self: Any, source: Any, to: Any) -> Any:
        if source.dtype.scalar in _FLOATS and to.scalar in _FLOATS:  # NumPy and ml_dtypes round to nearest even
            return it.TensorHandle(source.data.astype(numpy_dtype(to.scalar)), to.scalar)
        return stock_cast(self, source, to)

    def convert(self: Any, source: Any, to: Any, rounding: Any) -> Any:
        if source.dtype.scalar in _FLOATS and to.scalar in _FLOATS and rounding != it._ir.ROUNDING_MODE.RTZ:
            return cast(self, source, to)
        return stock_round(self, source, to, rounding)

    def splat(self: Any, block: Any, value: Any) -> Any:
        # The stock one takes the dtype of a comparison's operands for that of its result, and makes floats of bools.
        return it.TensorHandle(np.full(block.shape, value.data.reshape(-1)[0]), value.dtype.scalar)

    if not hasattr(it._interpreter, "fma_fp64"):
        it.InterpreterBuilder.create_fma = _fma
    stock_extreme = it.ReduceOps.min_max

    def extreme(self: Any, given: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        """np.nanmax warns of a row that is all NaN, which fmax, and a GPU, take in their stride."""
        quiet = {np.nanmax: np.fmax.reduce, np.nanmin: np.fmin.reduce}
        return stock_extreme(self, given, quiet.get(val_reduce_op, val_reduce_op), idx_reduce_op)

    it.ReduceOps.min_max = extreme
    it.ScanOps.generic_scan = _scanned
    stock_reduce = it.ReduceOps.generic_reduce

    def reduced(self: Any, given: Any) -> Any:
        if self.axis is None or self.keep_dims:
            return stock_reduce(self, given)
        lasts = [steps[-1] for steps in _walked(self, given)]
        return [self.to_tensor(last, a.dtype) for last, a in zip(lasts, given, strict=True)]

    it.ReduceOps.generic_reduce = reduced
    # Each integer operation would be done again in 64 bits to look for overflow: the bounds check finds what it breaks.
    it.interpreter_builder.options = _Options(sanitize_overflow=False)
    it._get_np_dtype = numpy_dtype
    it.InterpreterBuilder.create_splat = splat
    it.InterpreterBuilder.cast_impl = cast
    it.InterpreterBuilder.create_fp_to_fp = convert
    it.InterpreterBuilder.get_bf16 = lambda self, v: it.TensorHandle(np.array([v], BFLOAT16), tl.bfloat16)

    # Patching the language takes longer than most kernels do: do it once, for good.
    it._patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    tl.tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])
    kept = _Patched()
    it._patch_lang = lambda fn: kept

    stock_call = it.GridExecutor.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        """A kernel launched as ``kernel[grid](Pointer(x), ...)``, by a person in a notebook."""
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        held = {name: a.array for name, a in named.items() if hasattr(a, "array")}
        with _LOCK, _Checked(_Arrays(list(held), list(held.values())) if held else None):
            stock_call(self, *args, **kwargs)

    it.GridExecutor.__call__ = call


def _walked(self: Any, given: Any) -> list[list[np.ndarray]]:
    """Combine along the axis in order, whole slices at a time; the stock way takes every element by itself."""
    arrays = [a.handle.data for a in given]
    steps: list[list[np.ndarray]] = [[] for _ in arrays]
    state: tuple[Any, ...] = ()
    for k in range(arrays[0].shape[self.axis]):
        now = tuple([self.to_tensor(x.take(k, self.axis), a.dtype) for x, a in zip(arrays, given, strict=True)])
        found = self.combine_fn.fn(*state, *now) if state else now
        state = found if isinstance(found, tuple) else (found,)
        for kept, value, x in zip(steps, state, arrays, strict=True):
            kept.append(value.handle.data.reshape(x.shape[: self.axis] + x.shape[self.axis + 1 :]))
    return steps


def _scanned(self: Any, given: Any) -> list[Any]:
    return [
        self.to_tensor(np.stack(kept, self.axis), a.dtype) for kept, a in zip(_walked(self, given), given, strict=True)
    ]


def _fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """x y + z without rounding the product, which 3.6 rounds: Dekker's two-product (1971)."""
    a, b, c = (v.data.astype(np.float64) for v in (x, y, z))
    p = a * b
    if z.data.dtype == np.float64:
        split = 134217729.0  # 2**27 + 1
        a1, b1 = a * split - (a * split - a), b * split - (b * split - b)
        error = ((a1 * b1 - p) + a1 * (b - b1) + (a - a1) * b1) + (a - a1) * (b - b1)
        exact = np.isfinite(error)
        return it.TensorHandle((p + c) + np.where(exact, error, 0.0), z.dtype.scalar)
    return it.TensorHandle((p + c).astype(z.data.dtype), z.dtype.scalar)


class Memory(Protocol):
    """Who is asked whether a launch may touch addresses, and may note that it does; `check` gives the lanes that are
    left of a load or a store where not all may be. multiplies : whether products of matrices are computed, or only
    noted, with their operations. *Raises*: OutOfBounds."""

    program: int
    multiplies: bool

    def check(self, kind: str, pointers: np.ndarray, mask: np.ndarray | None, size_bytes: int) -> np.ndarray | None: ...

    def dot(self, dtype: str, depth: int, flops: int) -> None: ...


class _Checked:
    def __init__(self, arrays: _Arrays | Memory | None) -> None:
        self.arrays = arrays
        self.quiet = np.errstate(all="ignore")  # a GPU does not warn of 0/0 either

    def __enter__(self) -> None:
        global _current
        self.before, _current = _current, self.arrays
        self.quiet.__enter__()

    def __exit__(self, *error: Any) -> None:
        global _current
        _current = self.before
        self.quiet.__exit__(*error)


class _Prepared:
    """A launch's arguments that do not change, as the interpreter holds them."""

    __slots__ = ("fixed", "float_types", "function", "names")

    def __init__(self, function: Any, names: list[str], float_types: list[Any], fixed: dict[str, Any]) -> None:
        self.function, self.names, self.float_types, self.fixed = function, names, float_types, fixed


def prepare(launch: Launch, arrays: Sequence[Any], floats: Sequence[float]) -> _Prepared:
    """Check a launch's arguments against its kernel's parameters and make those that are frozen."""
    names = list(launch.kernel.arg_names)
    given = len(arrays) + len(floats) + len(launch.ints)
    ints = names[len(arrays) + len(floats) : given]
    missing = [n for n in names[given:] if n not in launch.constexprs]
    if missing or given + len(launch.constexprs) > len(names):
        raise KernelError(
            f"{launch.describe(arrays, floats)}: the kernel takes {', '.join(names)}; "
            f"got {len(arrays)} arrays, {len(floats)} floats, {len(launch.ints)} integers and the constexprs "
            f"{', '.join(launch.constexprs) or '(none)'}"
        )
    annotations = launch.kernel.fn.__annotations__
    float_names = names[len(arrays) : len(arrays) + len(floats)]
    # An unannotated float is float32 on a GPU; so it must be here, or the interpreter would flatter the kernel.
    types_ = [tl.float64 if "64" in str(annotations.get(name, "")) else tl.float32 for name in float_names]
    fixed: dict[str, Any] = {name: _integer(i) for name, i in zip(ints, launch.ints, strict=True)}
    fixed |= launch.constexprs
    return _Prepared(launch.kernel.rewrite(), names, types_, fixed)


def _integer(value: int) -> Any:
    ty = tl.int32 if -(2**31) <= value < 2**31 else tl.int64
    return tl.tensor(it.TensorHandle(np.array([value], it._get_np_dtype(ty)), ty), ty)


def execute(launch: Launch, prepared: _Prepared, arrays: Sequence[Any], floats: Sequence[float],
            reached: Sequence[Any] = ()) -> None:  # fmt: skip
    """Run every program of the launch, one after another; `reached` are arrays that it finds by addresses in memory."""
    for a in (*arrays, *reached):
        if not isinstance(a, np.ndarray):
            raise TypeError(
                f"{launch.name}: interpreted kernels take NumPy arrays, got {type(a).__name__} (TRITON_INTERPRET=1)"
            )
    arguments = dict(prepared.fixed)
    names = prepared.names
    for name, a in zip(names, arrays, strict=False):
        ty = _POINTER[a.dtype]
        arguments[name] = tl.tensor(it.TensorHandle(np.array([a.__array_interface__["data"][0]], np.uint64), ty), ty)
    for name, value, ty in zip(names[len(arrays) :], floats, prepared.float_types, strict=False):
        arguments[name] = tl.tensor(it.TensorHandle(np.array([value], it._get_np_dtype(ty)), ty), ty)
    function, builder = prepared.function, it.interpreter_builder
    known = [*names[: len(arrays)], *(f"array {i} of a table" for i in range(len(reached)))]
    with _LOCK, _Checked(_Arrays(known, [*arrays, *reached])):
        builder.set_grid_dim(*launch.grid)
        try:
            for x in range(launch.grid[0]):
                for y in range(launch.grid[1]):
                    for z in range(launch.grid[2]):
                        builder.set_grid_idx(x, y, z)
                        function(**arguments)
        except Exception as error:
            root: BaseException = error
            while isinstance(root, it.InterpreterError) and root.__cause__ is not None:
                root = root.__cause__
            kind = OutOfBounds if isinstance(root, OutOfBounds) else KernelError
            raise kind(f"{launch.describe(arrays, floats)} failed: {type(root).__name__}: {root}") from root


def constexprs_of(fn: Any) -> set[str]:
    """Return the names of a kernel's parameters that are constants of its text."""
    return {n for n, ty in inspect.get_annotations(fn).items() if _normalize_ty(ty) == "constexpr"}


def run(
    kernel: Any,
    arguments: Mapping[str, Any],
    grid: Sequence[int],
    memory: Memory,
    programs: Sequence[int] | None = None,
    warps: int = 4,
) -> None:
    """Run every program of a kernel that anyone has written, one after another, or only those of these numbers.

    arguments : all of them by name; pointers as Triton takes them, with `data_ptr` and `dtype`. *Raises*: OutOfBounds,
    and what the kernel raises, without the interpreter's errors around it.
    """
    constant, builder = constexprs_of(kernel.fn), it.interpreter_builder
    sizes = (*(int(n) for n in grid), 1, 1)[:3]
    with _LOCK, libdevice.mended(kernel.fn), _Checked(memory):
        ready = {n: a if n in constant else _as_given(a) for n, a in arguments.items()}
        function = kernel.rewrite()
        builder.set_grid_dim(*sizes)
        builder.options = dataclasses.replace(builder.options, num_warps=warps)

        def dot(a: Any, b: Any, c: Any, *rest: Any) -> Any:
            memory.dot(str(a.dtype.scalar), a.data.shape[-1], 2 * a.data.size * b.data.shape[-1])
            return type(builder).create_dot(builder, a, b, c, *rest) if memory.multiplies else c

        builder.create_dot = dot
        try:
            for number, index in enumerate(itertools.product(*map(range, sizes))):
                if programs is not None and number not in programs:
                    continue
                memory.program = number
                builder.set_grid_idx(*index)
                function(**ready)
        except Exception as error:
            root: BaseException = error
            while isinstance(root, it.InterpreterError) and root.__cause__ is not None:
                root = root.__cause__
            raise root from None
        finally:
            del builder.create_dot


def _as_given(value: Any) -> Any:
    """Return an argument as the interpreter holds it. A float is float32 on a GPU."""
    if isinstance(value, float | np.floating):
        return tl.tensor(it.TensorHandle(np.array([value], np.float32), tl.float32), tl.float32)
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, tuple):
        return it._tuple_create(value, map(_as_given, value))
    return it._implicit_cvt(value)


libdevice.install()
interpreter_text.install()
ptx.install()
install()
interpreter_ops.install()
