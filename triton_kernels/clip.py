"""The norm of many tensors as if they were one, and their scaling by it: clipping gradients in three launches.

Algorithm: as in `optim`, a table on the device holds the address and the length of each tensor, and a second one gives
each program its tensor and its stretch. A program adds up the squares, the magnitudes, or keeps the greatest magnitude,
of its stretch; one program joins the shares in order. The factor min(1, most / (norm + 1e-6)) is computed where it is
used, from the norm in device memory: the host waits for nothing. No atomics: the bits depend on the lengths and the
config alone. float16 and bfloat16 are computed in float32.

Bytes moved: each tensor once for the norm, in and out for the scaling. Operations: 2 an element, and 1.
Source: Pascanu et al., On the difficulty of training recurrent neural networks (2013); NVIDIA's Apex, multi-tensor
apply.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .optim import _TABLES, _TYPES, _blocks
from .runtime import FLOATING, INTERPRET, TYPE_NAMES, Launch, Memo
from .tune.declared import TritonKernel, call, copied, each, empty, float64, normal, wide
from .tune.space import Config, Constraint, Space, powers_of_two

SPACE = Space(
    [powers_of_two("BLOCK", 1024, 2048, default=1024), powers_of_two("num_warps", 4, 8, default=4)],
    [Constraint("at least 8 elements a thread", lambda c: c["BLOCK"] >= 256 * c["num_warps"])],
)
NORMS = {2.0: "square", 1.0: "abs", float("inf"): "max"}
_STEPS = 8  # blocks that a program of the norm walks: fewer shares
_INTERPRETED_BLOCK = 1 << 15
_tables: dict[Any, Any] = {}
_launches: Memo = Memo()


@triton.jit
def norm_share_kernel(
    table_ptr, stretches_ptr, share_ptr,
    MADE: tl.constexpr, STORED: tl.constexpr, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    row = table_ptr + tl.load(stretches_ptr + 2 * place) * 2
    x_ptr = tl.load(row).to(tl.pointer_type(STORED))
    if ALIGNED:
        x_ptr = tl.multiple_of(x_ptr, 16)
    numel = tl.load(row + 1)
    acc = tl.zeros([BLOCK], COMPUTE)
    for step in tl.static_range(STEPS):
        index = tl.load(stretches_ptr + 2 * place + 1) * (STEPS * BLOCK) + step * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + index, mask=index < numel, other=0.0).to(COMPUTE)
        if MADE == "square":
            acc += x * x
        elif MADE == "abs":
            acc += tl.abs(x)
        else:
            acc = scalar.maximum(acc, tl.abs(x))
    if MADE == "max":
        share = _greatest(acc)
    else:
        share = tl.sum(acc, 0)
    tl.store(share_ptr + place, share)


@triton.jit
def _greatest(x):
    """The largest of magnitudes; NaN where there is one (tl.max alone drops it)."""
    nans = tl.max((x != x).to(tl.int32), 0)
    return tl.where(nans > 0, float("nan"), tl.max(tl.where(x != x, 0.0, x), 0))


@triton.jit
def norm_total_kernel(share_ptr, out_ptr, shares, MADE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], COMPUTE)
    for begin in range(0, shares, BLOCK):
        index = begin + tl.arange(0, BLOCK)
        x = tl.load(share_ptr + index, mask=index < shares, other=0.0).to(COMPUTE)
        if MADE == "max":
            acc = scalar.maximum(acc, x)
        else:
            acc += x
    if MADE == "max":
        total = _greatest(acc)
    else:
        total = tl.sum(acc, 0)
        if MADE == "square":
            total = scalar.sqrt(total)
    tl.store(out_ptr, total.to(out_ptr.dtype.element_ty))


@triton.jit
def norm_scale_kernel(
    table_ptr, stretches_ptr, total_ptr, most: tl.float64,
    STORED: tl.constexpr, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    row = table_ptr + tl.load(stretches_ptr + 2 * place) * 2
    x_ptr = tl.load(row).to(tl.pointer_type(STORED))
    if ALIGNED:
        x_ptr = tl.multiple_of(x_ptr, 16)
    factor = scalar.minimum(scalar.div(most.to(COMPUTE), tl.load(total_ptr).to(COMPUTE) + 1e-6), 1.0)
    index = tl.load(stretches_ptr + 2 * place + 1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < tl.load(row + 1)
    x = tl.load(x_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    tl.store(x_ptr + index, (x * factor).to(STORED), mask=mask)


def total_norm(tensors: Sequence[Any], p: float, out: Any, config: Config | None = None) -> None:
    """The norm of order 1, 2 or infinity of all tensors into `out`, one number. They are contiguous, of any type."""
    if p not in NORMS:
        raise ValueError(f"total_norm: takes the norms {', '.join(map(str, NORMS))}, got {p}")
    groups = _by_type(tensors)
    wide = any(dtype == np.float64 for dtype in groups)
    plans = [_plan(norm_share_kernel, many, {"MADE": NORMS[p], "STEPS": _STEPS}, _STEPS, config)
             for many in groups.values()]  # fmt: skip
    count = sum(launch.grid[0] for launch, *_ in plans)
    shares = runtime.empty((max(count, 1),), np.dtype(np.float64 if wide else np.float32))
    begin = 0
    for (launch, table, stretches), many in zip(plans, groups.values(), strict=True):
        end = begin + launch.grid[0]
        launch((table, stretches, shares[begin:end]), reached=many if INTERPRET else ())
        begin = end
    key = (NORMS[p], count, *runtime.key_of(shares, out))
    last = _launches.get(key)
    if last is None:
        constants = {"MADE": NORMS[p], "COMPUTE": tl.float64 if wide else tl.float32, "BLOCK": 1024}
        last = _launches[key] = Launch(norm_total_kernel, (1,), [count], constants, num_warps=4)
    last((shares, out))


def scale_by_norm(tensors: Sequence[Any], total: Any, most: float, config: Config | None = None) -> None:
    """Multiply all tensors in place by ``min(1, most / (total + 1e-6))``; `total` is one number on the device."""
    for many in _by_type(tensors).values():
        launch, table, stretches = _plan(norm_scale_kernel, many, {}, 1, config)
        launch((table, stretches, total), (float(most),), reached=many if INTERPRET else ())


def _by_type(tensors: Sequence[Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for t in tensors:
        if t.dtype not in FLOATING or not runtime.is_contiguous(t):
            raise ValueError(f"clip: takes contiguous floating-point arrays, got {t.dtype} {tuple(t.shape)} strides "
                             f"{tuple(t.strides)}")  # fmt: skip
        if t.size:
            groups.setdefault(t.dtype, []).append(t)
    return groups


def _plan(kernel: Any, tensors: list[Any], constants: dict[str, Any], steps: int,
          config: Config | None) -> tuple[Launch, Any, Any]:  # fmt: skip
    """Return the launch over tensors of one type, its table of addresses and its stretches of `steps` blocks."""
    dtype, sizes = tensors[0].dtype, tuple([t.size for t in tensors])
    table, aligned = _table(tensors)
    device = 0 if INTERPRET else runtime.host().current_device()
    key = (kernel.fn, device, dtype, aligned, config and tuple(config.items()), *constants.values(), sizes)
    found = _launches.get(key)
    if found is None:
        asked = (len(sizes), triton.cdiv(sum(sizes), len(sizes)))
        config = config or runtime.tuned(kernel, SPACE, asked, dtype)
        settings = SPACE.complete(config)
        warps = settings.pop("num_warps")
        if INTERPRET and config is None:
            settings["BLOCK"] = min(triton.next_power_of_2(max(sizes)), _INTERPRETED_BLOCK)
        stretches = _blocks(sizes, settings["BLOCK"] * steps)
        kind = {"STORED": _TYPES[TYPE_NAMES[dtype]], "ALIGNED": aligned, **constants, **settings}
        kind["COMPUTE"] = tl.float64 if dtype == np.float64 else tl.float32
        found = _launches[key] = (
            Launch(kernel, (len(stretches),), (), kind, num_warps=warps),
            runtime.upload(stretches),
        )
    return found[0], table, found[1]


def _table(tensors: list[Any]) -> tuple[Any, bool]:
    rows = tuple([(runtime.address(t), t.size) for t in tensors])
    found = _tables.get(rows)
    if found is None:
        if len(_tables) >= _TABLES:
            _tables.clear()
        aligned = all(address % 16 == 0 for address, _ in rows)
        found = _tables[rows] = (runtime.upload(np.array(rows, np.int64)), aligned)
    return found


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    wide = "*fp64" if dtype == "fp64" else "*fp32"
    constants = {"STORED": _TYPES[dtype], "COMPUTE": tl.float64 if dtype == "fp64" else tl.float32, "ALIGNED": True}
    cases = [Case("norm_scale", norm_scale_kernel, ("*i64", "*i64", wide, 1.0), constants, SPACE)]
    for made in ("square", "max"):
        kind = {**constants, "MADE": made, "STEPS": _STEPS}
        cases.append(Case(f"norm_share_{made}", norm_share_kernel, ("*i64", "*i64", wide), kind, SPACE))
        kind = {"MADE": made, "COMPUTE": constants["COMPUTE"]}
        cases.append(Case(f"norm_total_{made}", norm_total_kernel, (wide, wide, 999), kind, Space.of([SPACE.default])))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: the norm of order 2 of so many tensors of so many items each, and scaling by
    it."""

    def tensors(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape[1], dtype) for _ in range(shape[0])]

    def scaled(shape: Any, dtype: str, rng: Any) -> Any:
        given = tensors(shape, dtype, rng)
        return [np.full(1, 2.0, wide(dtype)), *given], [empty(shape[1], dtype) for _ in given]

    def norm(inputs: Any) -> Any:
        squares = sum((a * a).sum() for a in float64(inputs))
        return [(np.sqrt(squares)[None], np.sqrt(squares)[None], inputs[0].size * len(inputs))]

    def smaller(inputs: Any) -> Any:
        return [(a / (2.0 + 1e-6), np.abs(a), 1) for a in float64(inputs[1:])]

    common: Any = {"axes": ("tensors", "items"), "space": SPACE, "small": (3, 5000)}
    return [
        TritonKernel(norm_share_kernel, reference=norm, work=each(1, 2),
                     arrays=lambda s, dtype, rng: (tensors(s, dtype, rng), [empty(1, wide(dtype))]),
                     launch=lambda i, o, c: call(total_norm, i, 2.0, *o, c), **common),
        TritonKernel(norm_scale_kernel, arrays=scaled, reference=smaller, work=each(2, 1), begin=copied,
                     launch=lambda i, o, c: scale_by_norm(o, i[0], 1.0, c), **common),
    ]  # fmt: skip
