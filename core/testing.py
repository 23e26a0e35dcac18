"""Comparisons for tests: `assert_close`, under PyTorch's path ``torch.testing``."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .base import dtypes
from .base.dtypes import promote_types
from .ops.creation import as_tensor
from .random import rand, randint
from .tensors.tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# (rtol, atol) by dtype, as PyTorch's documentation of assert_close gives them; whole numbers have to be equal
TOLERANCES = {dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
              dtypes.float64: (1e-7, 1e-7), dtypes.complex64: (1.3e-6, 1e-5),
              dtypes.complex128: (1e-7, 1e-7)}  # fmt: skip


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
                 atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
                 check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
                 msg: str | Callable[[str], str] | None = None) -> None:  # fmt: skip
    """Raise AssertionError where |actual - expected| > atol + rtol |expected| somewhere.

    Tensors, arrays and numbers are compared, and lists, tuples and dicts of them, entry by entry. The tolerances are by
    the dtypes where none are given: float32 1.3e-6 and 1e-5, float64 1e-7 and 1e-7, float16 1e-3 and 1e-5, bfloat16
    1.6e-2 and 1e-5, whole numbers 0 and 0.

    Raises
    ------
    AssertionError
        With how many elements differ, the largest differences and where they are; or what else differs (shape, dtype,
        device, strides).
    ValueError
        Where only one of rtol and atol is given.

    >>> import core
    >>> core.testing.assert_close(core.ones(2), core.ones(2) + 1e-7)
    >>> core.testing.assert_close([1, 2], [1, 3])
    Traceback (most recent call last):
        ...
    AssertionError: Scalars are not equal!
    <BLANKLINE>
    Expected 3 but got 2.
    Absolute difference: 1
    Relative difference: 0.3333333333333333
    <BLANKLINE>
    The failure occurred for item [1]
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified, but got "
                         f"rtol={rtol} and atol={atol}.")  # fmt: skip
    asked = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_device": check_device,
             "check_dtype": check_dtype, "check_stride": check_stride, "subclasses": allow_subclasses}  # fmt: skip
    said = _difference(actual, expected, "", asked)
    if said is not None:
        raise AssertionError(said if msg is None else msg(said) if callable(msg) else msg)


def _difference(a: Any, b: Any, at: str, asked: dict[str, Any]) -> str | None:
    """Return what is different; None where nothing is."""
    where = f"\n\nThe failure occurred for item {at}" if at else ""
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return None if a == b else f"Object comparison failed: {a!r} != {b!r}{where}"
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"The keys of the mappings do not match:\nMissing keys in the actual mapping: " \
                   f"{sorted(b.keys() - a.keys(), key=str)}\nAdditional keys in the actual mapping: " \
                   f"{sorted(a.keys() - b.keys(), key=str)}{where}"  # fmt: skip
        return next((d for k in a if (d := _difference(a[k], b[k], f"{at}[{k!r}]", asked)) is not None), None)
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        if len(a) != len(b):
            return f"The length of the sequences mismatch: {len(a)} != {len(b)}{where}"
        pairs = enumerate(zip(a, b, strict=True))
        return next((d for k, (x, y) in pairs if (d := _difference(x, y, f"{at}[{k}]", asked)) is not None), None)
    if isinstance(a, numbers.Number) and isinstance(b, numbers.Number):
        return _of_numbers(a, b, where, asked)
    if not asked["subclasses"] and type(a) is not type(b):
        return f"{type(a)} and {type(b)} are different classes{where}"
    if isinstance(a, Tensor | np.ndarray) and isinstance(b, Tensor | np.ndarray):
        return _of_tensors(as_tensor(a), as_tensor(b), where, asked)
    raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}.{where}")


def _tolerances(dtype: Any, asked: dict[str, Any]) -> tuple[float, float]:
    if asked["rtol"] is not None:
        return asked["rtol"], asked["atol"]
    return TOLERANCES.get(dtype, (0.0, 0.0))


def _of_numbers(a: Any, b: Any, where: str, asked: dict[str, Any]) -> str | None:
    exact = isinstance(a, int) and isinstance(b, int)
    kind = dtypes.int64 if exact else dtypes.float64
    rtol, atol = _tolerances(kind, asked)
    if asked["check_dtype"] and type(a) is not type(b) and not exact:
        return f"The (d)types do not match: {type(a)} != {type(b)}.{where}"
    if a == b or (asked["equal_nan"] and a != a and b != b):
        return None
    off = abs(a - b)
    if math.isfinite(off) and off <= atol + rtol * abs(b):
        return None
    relative = off / abs(b) if b else float("inf")
    allowed = ("", "") if not rtol and not atol else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (f"Scalars are not {'equal' if not rtol and not atol else 'close'}!\n\nExpected {b} but got {a}.\n"
            f"Absolute difference: {off}{allowed[0]}\nRelative difference: {relative}{allowed[1]}{where}")  # fmt: skip


def _of_tensors(a: Tensor, b: Tensor, where: str, asked: dict[str, Any]) -> str | None:
    checks = (("values for attribute 'shape'", a.shape == b.shape, a.shape, b.shape),
              ("values for attribute 'device'", not asked["check_device"] or a.device == b.device, a.device, b.device),
              ("values for attribute 'dtype'", not asked["check_dtype"] or a.dtype == b.dtype, a.dtype, b.dtype),
              ("values for attribute 'stride()'", not asked["check_stride"] or a.stride() == b.stride(), a.stride(),
               b.stride()))  # fmt: skip
    for what, same, mine, other in checks:
        if not same:
            return f"The {what} do not match: {mine} != {other}.{where}"
    found = [_tolerances(x.dtype, asked) for x in (a, b)]
    rtol, atol = max(r for r, _ in found), max(t for _, t in found)
    common = promote_types(a.dtype, b.dtype)
    wide = np.complex128 if common.is_complex else np.float64 if common.is_floating_point else None
    x, y = (np.asarray(t.detach().cpu().to(common).numpy() if common != dtypes.bfloat16
                       else t.detach().cpu().float().numpy()) for t in (a, b))  # fmt: skip
    if wide is not None:
        x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        off = np.abs(x - y) if wide is not None else np.where(x == y, 0.0, np.abs(x.astype(float) - y.astype(float)))
        good = (x == y) | (np.isfinite(y) & (off <= atol + rtol * np.abs(y)) if wide is not None else False)
        if asked["equal_nan"] and wide is not None:
            good |= np.isnan(x) & np.isnan(y)
        if np.all(good):
            return None
        bad = int(good.size - np.count_nonzero(good))
        relative = np.where(good, 0.0, off / np.abs(y.astype(float) if wide is None else y))
        largest = np.where(good, 0.0, off)
    places = [np.unravel_index(int(np.argmax(d)), d.shape) for d in (largest, relative)]
    exact = not rtol and not atol
    allowed = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    at = [f" at index {tuple(map(int, p))}" if a.ndim else "" for p in places]
    return (f"{'Tensor-likes' if a.ndim else 'Scalars'} are not {'equal' if exact else 'close'}!\n\n"
            f"Mismatched elements: {bad} / {good.size} ({100 * bad / good.size:.1f}%)\n"
            f"Greatest absolute difference: {largest.max()}{at[0]}{allowed[0]}\n"
            f"Greatest relative difference: {relative.max()}{at[1]}{allowed[1]}{where}")  # fmt: skip


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
                    equal_nan: bool = True, msg: str = "") -> None:  # fmt: skip
    """Compare as `assert_close` does, of any dtypes; its older name."""
    assert_close(as_tensor(actual), as_tensor(expected), rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 check_device=False, msg=msg or None)  # fmt: skip


def make_tensor(*shape: Any, dtype: Any, device: Any = "cpu", low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """Return a tensor of random values, evenly from `low` (-9) to `high` (9).

    >>> import core
    >>> core.testing.make_tensor((2, 3), dtype=core.float32).shape
    core.Size([2, 3])
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    start, stop = -9 if low is None else low, 9 if high is None else high
    if dtype == dtypes.bool_:
        start, stop = 0, 2
    elif dtype == dtypes.uint8:
        start = max(start, 0)
    if dtype.is_floating_point or dtype.is_complex:
        made = rand(size, dtype=dtype, device=device) * (stop - start) + start  # type: ignore[attr-defined]
    else:
        made = randint(int(start), int(stop), size, device=device).to(dtype)
    if noncontiguous and made.numel() > 1:
        made = made.repeat_interleave(2, -1)[..., ::2]
    return made.requires_grad_(requires_grad)
