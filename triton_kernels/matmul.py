"""Matrix products of strided, broadcast batches, with a bias and an activation applied before the result is stored.

Algorithm: a program computes a BLOCK_M x BLOCK_N tile, walking K by BLOCK_K; programs are numbered in groups of GROUP_M
rows of tiles, so that the tiles in flight share operands in the L2 cache. Strides are free: transposed views cost no
copy. FORM says how tiles meet programs: "tile" is one each; "persistent" is as many programs as multiprocessors, each
walking every so-manieth tile, so that the loads of one overlap the stores of another; "descriptors" is that with tensor
descriptors (TMA from sm_90 on) for matrices of 16 bits whose rows or columns are dense and aligned.
Where tiles are too few to fill a GPU, K is split among programs: float32 parts go to scratch, and `join_kernel` adds
them in order, so that the bits depend on shape, strides, config and device alone.
float16 and bfloat16 accumulate in float32, float32 in float32 and, by default, multiplies in float32 too
(`input_precision="ieee"`; "tf32" is 8 times as fast on an A100 and keeps 10 bits), float64 in float64.

Bytes moved: 2 M N K (1 / BLOCK_M + 1 / BLOCK_N) elements at worst, M K + K N + M N at best; a split product 8 M N bytes
a part besides. Operations: 2 M N K.
Sources: Triton's tutorials on matrix multiplication (grouped ordering) and persistent matmul; Osama et al., Stream-K
(2023), on splitting.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .epilogue import activate, check_activation
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .strided import described, index_type, merge_batches
from .tune.declared import TritonKernel, call, empty, float64, normal, of_products
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

FORMS = ("tile", "persistent", "descriptors")


def _narrow(c: Mapping[str, Any]) -> bool:
    return min(c["BLOCK_M"], c["BLOCK_N"]) <= 32


def _per_thread(c: Mapping[str, Any]) -> int:
    return c["BLOCK_M"] * c["BLOCK_N"] // (32 * c["num_warps"])


_STAGES = {32: (4,), 64: (3, 4), 128: (2,)}  # by BLOCK_K: 128 to 256 elements of K under way

SPACE = Space(
    [
        powers_of_two("BLOCK_M", 16, 256, default=128),
        powers_of_two("BLOCK_N", 16, 256, default=128),
        powers_of_two("BLOCK_K", 32, 128, default=64),
        Tunable("GROUP_M", (8,), default=8),
        Tunable("FORM", FORMS, default="tile"),
        powers_of_two("num_warps", 4, 8, default=8),
        Tunable("num_stages", (2, 3, 4), default=3),
    ],
    [
        Constraint("tiles at most twice as long as wide, or 16 or 32 by 64 or 128",
                   lambda c: max(c["BLOCK_M"], c["BLOCK_N"]) in (64, 128) if _narrow(c)
                   else max(c["BLOCK_M"], c["BLOCK_N"]) <= 2 * min(c["BLOCK_M"], c["BLOCK_N"])),
        Constraint("at most 128 accumulators a thread, and with 8 warps at least 64",
                   lambda c: 64 <= _per_thread(c) <= 128 or (_per_thread(c) < 64 and c["num_warps"] == 4)),
        Constraint("K by 32 in 4 stages, by 64 in 3 or 4, by 128 in 2; for narrow tiles by 128 in 4",
                   lambda c: (c["BLOCK_K"], c["num_stages"]) == (128, 4) if _narrow(c)
                   else c["num_stages"] in _STAGES[c["BLOCK_K"]]),
        Constraint("persistent programs have 8 warps and tiles of 128 x 128 at least, and walk K by 64",
                   lambda c: c["FORM"] == "tile"
                   or (c["BLOCK_M"] * c["BLOCK_N"] >= 128 * 128 and c["BLOCK_K"] == 64 and c["num_warps"] == 8)),
    ],
)  # fmt: skip
# float32 multiplied exactly runs on the ordinary units, an accumulator a register: smaller tiles, no deep pipeline.
SPACE_FLOAT32 = Space(
    [
        powers_of_two("BLOCK_M", 32, 128, default=64),
        powers_of_two("BLOCK_N", 32, 128, default=64),
        powers_of_two("BLOCK_K", 16, 32, default=16),
        Tunable("GROUP_M", (8,), default=8),
        Tunable("FORM", FORMS, default="tile"),
        powers_of_two("num_warps", 4, 8, default=4),
        Tunable("num_stages", (2, 3), default=3),
    ],
    [
        Constraint("tiles at most twice as long as wide",
                   lambda c: max(c["BLOCK_M"], c["BLOCK_N"]) <= 2 * min(c["BLOCK_M"], c["BLOCK_N"])),
        Constraint("8 warps for tiles above 4096 elements, 4 below",
                   lambda c: (c["BLOCK_M"] * c["BLOCK_N"] > 4096) == (c["num_warps"] == 8)),
        Constraint("K by 16 in 3 stages, by 32 in 2, or in 3 for tiles of 64 x 64",
                   lambda c: (c["BLOCK_K"] == 16) == (c["num_stages"] == 3)
                   or (c["BLOCK_M"] * c["BLOCK_N"] == 4096 and c["BLOCK_K"] == 32)),
        Constraint("float32 has one tile a program", lambda c: c["FORM"] == "tile"),
    ],
)  # fmt: skip
_INTERPRETED_TILE = 512
_INTERPRETED_UNITS = 3  # programs of a persistent launch in the interpreter: each then has tiles of several rows
_FEW_TILES = 132  # of 128 x 128: fewer leave multiprocessors of an H100 idle
_PART_OF_K = 512  # the least that is worth a program of its own
_MAX_PARTS = 32
_launches: Memo = Memo()


def space_for(dtype: Any) -> Space:
    """Return what may be tuned for products of this dtype."""
    return SPACE if np.dtype(dtype).itemsize == 2 else SPACE_FLOAT32


@triton.jit
def _one_tile(
    program, first, last, a_from, b_from, bias_ptr, out_ptr,
    M, N, K, am, ak, bk, bn, bias_stride, om, on, n1, n2, a0, a1, a2, b0, b1, b2, o0, o1, o2,
    PRECISION: tl.constexpr, COMPUTE: tl.constexpr, ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr,
    EVEN_K: tl.constexpr, INDEX: tl.constexpr, FORM: tl.constexpr, A_DENSE: tl.constexpr, B_DENSE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """The tile `program`, over K from `first` to `last`."""
    columns = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * columns
    tile = program % tiles
    batch = (program // tiles).to(tl.int64)
    group = tile // (GROUP_M * columns)
    height = tl.minimum(tl.cdiv(M, BLOCK_M) - group * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * columns)
    top = (group * GROUP_M + within % height) * BLOCK_M
    left = (within // height) * BLOCK_N
    row = (top + tl.arange(0, BLOCK_M)).to(INDEX)
    column = (left + tl.arange(0, BLOCK_N)).to(INDEX)
    i2 = batch % n2
    i1 = batch // n2 % n1
    i0 = batch // (n2 * n1)
    acc = tl.zeros([BLOCK_M, BLOCK_N], COMPUTE)
    if FORM == "descriptors":
        for begin in range(first, last, BLOCK_K):
            if A_DENSE:
                a = a_from.load([top, begin])
            else:
                a = a_from.load([begin, top]).T
            if B_DENSE:
                b = b_from.load([begin, left])
            else:
                b = b_from.load([left, begin]).T
            acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=COMPUTE)
    else:
        k = tl.arange(0, BLOCK_K).to(INDEX)
        # One address moves on; a tile's offsets from it stay the same, in fewer registers than a tile of addresses.
        a_from += i0 * a0 + i1 * a1 + i2 * a2 + tl.cast(first, tl.int64) * ak
        b_from += i0 * b0 + i1 * b1 + i2 * b2 + tl.cast(first, tl.int64) * bk
        for begin in range(first, last, BLOCK_K):
            a_at = a_from + (row[:, None] * am + k[None, :] * ak)
            b_at = b_from + (k[:, None] * bk + column[None, :] * bn)
            if EVEN_K:
                a = tl.load(a_at, mask=(row < M)[:, None], other=0.0)
                b = tl.load(b_at, mask=(column < N)[None, :], other=0.0)
            else:
                more = k < last - begin
                a = tl.load(a_at, mask=(row < M)[:, None] & more[None, :], other=0.0)
                b = tl.load(b_at, mask=more[:, None] & (column < N)[None, :], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=COMPUTE)
            a_from += BLOCK_K * ak
            b_from += BLOCK_K * bk
    if HAS_BIAS:
        bias = tl.load(bias_ptr + column * bias_stride, mask=column < N, other=0.0)
        acc += bias.to(COMPUTE)[None, :]
    y = activate(acc, ACTIVATION).to(out_ptr.dtype.element_ty)
    at = out_ptr + (i0 * o0 + i1 * o1 + i2 * o2) + (row[:, None] * om + column[None, :] * on)
    tl.store(at, y, mask=(row < M)[:, None] & (column < N)[None, :])


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr,
    M, N, K, am, ak, bk, bn, bias_stride, om, on, n1, n2, a0, a1, a2, b0, b1, b2, o0, o1, o2, batches, parts, part_size,
    PRECISION: tl.constexpr, COMPUTE: tl.constexpr, ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr,
    EVEN_K: tl.constexpr, INDEX: tl.constexpr, FORM: tl.constexpr, A_DENSE: tl.constexpr, B_DENSE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    if FORM == "tile":
        share = tl.cdiv(tl.cdiv(K, BLOCK_K), parts) * BLOCK_K
        part = tl.program_id(1)
        _one_tile(
            tl.program_id(0), part * share, tl.minimum(part * share + share, K), a_ptr, b_ptr, bias_ptr,
            out_ptr + part.to(tl.int64) * part_size,
            M, N, K, am, ak, bk, bn, bias_stride, om, on, n1, n2, a0, a1, a2, b0, b1, b2, o0, o1, o2,
            PRECISION, COMPUTE, ACTIVATION, HAS_BIAS, EVEN_K, INDEX, FORM, A_DENSE, B_DENSE,
            BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        )  # fmt: skip
    else:
        if FORM == "descriptors":
            if A_DENSE:
                a_from = tl.make_tensor_descriptor(a_ptr, [M, K], [am, 1], [BLOCK_M, BLOCK_K])
            else:
                a_from = tl.make_tensor_descriptor(a_ptr, [K, M], [ak, 1], [BLOCK_K, BLOCK_M])
            if B_DENSE:
                b_from = tl.make_tensor_descriptor(b_ptr, [K, N], [bk, 1], [BLOCK_K, BLOCK_N])
            else:
                b_from = tl.make_tensor_descriptor(b_ptr, [N, K], [bn, 1], [BLOCK_N, BLOCK_K])
        else:
            a_from = a_ptr
            b_from = b_ptr
        total = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N) * batches
        for program in tl.range(tl.program_id(0), total, tl.num_programs(0), flatten=True):
            _one_tile(
                program, 0, K, a_from, b_from, bias_ptr, out_ptr,
                M, N, K, am, ak, bk, bn, bias_stride, om, on, n1, n2, a0, a1, a2, b0, b1, b2, o0, o1, o2,
                PRECISION, COMPUTE, ACTIVATION, HAS_BIAS, EVEN_K, INDEX, FORM, A_DENSE, B_DENSE,
                BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
            )  # fmt: skip


@triton.jit
def join_kernel(
    parts_ptr, bias_ptr, out_ptr, size, N, bias_stride, rows, n1, n2, o0, o1, o2, om, on, parts,
    ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the parts of a split product in their order; they lie one behind the other, each (batch, M, N) and dense."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < size
    part = parts_ptr + at
    acc = tl.load(part, mask=live, other=0.0)
    for _ in range(1, parts):
        part += size
        acc += tl.load(part, mask=live, other=0.0)
    column = at % N
    if HAS_BIAS:
        acc += tl.load(bias_ptr + column * bias_stride, mask=live, other=0.0).to(acc.dtype)
    row = at // N
    batch = row // rows
    to = out_ptr + batch // (n1 * n2) * o0 + batch // n2 % n1 * o1 + batch % n2 * o2 + row % rows * om + column * on
    tl.store(to, activate(acc, ACTIVATION).to(out_ptr.dtype.element_ty), mask=live)


def matmul_forward(
    a: Any,
    b: Any,
    out: Any,
    config: Config | None = None,
    bias: Any | None = None,
    input_precision: str = "ieee",
    activation: str = "",
    parts: int | None = None,
) -> None:
    """``out = activation(a @ b + bias)``: (..., M, K) by (..., K, N), batch dimensions broadcast, any strides.

    `a` and `b` have one floating dtype; `bias` is a vector of N. `input_precision` is for float32: ``"ieee"``,
    ``"tf32"`` or, on NVIDIA's, ``"tf32x3"``. `activation` is "", "relu", "gelu", "gelu_tanh" or "silu". `parts` is how
    many programs share K; by default as many as it takes to fill the GPU.
    """
    key = (*runtime.key_of(a, b, out), bias is not None and runtime.key_of(bias), input_precision, activation, parts,
           config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(a, b, out, config, bias, input_precision, activation, parts)
    if out.size:
        launch((a, b, a if bias is None else bias, out))


class _Split:
    """The two launches of a product whose K is shared out."""

    def __init__(self, products: Launch, join: Launch, shape: tuple[int, ...], dtype: Any) -> None:
        self.products, self.join, self.shape, self.dtype = products, join, shape, dtype

    def __call__(self, arrays: tuple[Any, ...]) -> None:
        a, b, bias, out = arrays
        scratch = runtime.empty(self.shape, self.dtype)
        self.products((a, b, a, scratch))
        self.join((scratch, bias, out))


class _Aligned:
    """A launch through tensor descriptors, which ask for addresses in whole 16 bytes, and the one for all others."""

    def __init__(self, launch: Launch, other: Launch) -> None:
        self.launch, self.other = launch, other

    def __call__(self, arrays: tuple[Any, ...]) -> None:
        aligned = (runtime.address(arrays[0]) | runtime.address(arrays[1])) & 15 == 0
        (self.launch if aligned else self.other)(arrays)


def _prepare(
    a: Any, b: Any, out: Any, config: Config | None, bias: Any, input_precision: str, activation: str, parts: int | None
) -> Any:
    check_activation("matmul", activation)
    shapes = f"{tuple(a.shape)} @ {tuple(b.shape)} -> {tuple(out.shape)}"
    if min(a.ndim, b.ndim, out.ndim) < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied: {shapes} needs (..., M, K) and (..., K, N)"
        )
    if a.dtype != b.dtype or a.dtype not in FLOATING:
        raise TypeError(f"matmul: expected two arrays of one floating dtype, got {a.dtype} and {b.dtype}")
    (m, k), n = a.shape[-2:], b.shape[-1]
    if tuple(out.shape[-2:]) != (m, n) or (bias is not None and tuple(bias.shape) != (n,)):
        raise ValueError(
            f"matmul: {shapes} with bias {None if bias is None else tuple(bias.shape)}: N is {n}, M is {m}"
        )
    sizes, (sa, sb, so) = merge_batches("matmul", out.shape[:-2], (a, b, out), shapes)
    batches = math.prod(sizes)
    compute = np.dtype(np.float64 if a.dtype == np.float64 else np.float32)
    space = space_for(a.dtype)
    am, ak = runtime.element_strides(a)[-2:]
    bk, bn = runtime.element_strides(b)[-2:]
    # What has no dense dimension is loaded element by element, which leaves registers for small tiles only.
    m_, n_ = (m, n) if 1 in (am, ak) and 1 in (bk, bn) else (min(m, 64), min(n, 64))
    settings = _settings(config or runtime.tuned(matmul_kernel, space, (m, n, k), a.dtype), m_, n_, k, a.dtype)
    warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
    om, on = runtime.element_strides(out)[-2:]
    bias_stride = 0 if bias is None else runtime.element_strides(bias)[0]
    tiles = triton.cdiv(m, settings["BLOCK_M"]) * triton.cdiv(n, settings["BLOCK_N"]) * batches
    form = settings["FORM"]
    if form == "descriptors" and not (batches == 1 and described(am, ak, a) and described(bn, bk, b)):
        form = settings["FORM"] = "persistent"
    parts = parts_for(tiles, k, settings) if parts is None else parts
    if form != "tile":
        parts = 1
    constants = {"PRECISION": input_precision, "COMPUTE": tl.float64 if compute == np.float64 else tl.float32,
                 "ACTIVATION": activation, "HAS_BIAS": bias is not None, "EVEN_K": k % settings["BLOCK_K"] == 0,
                 "INDEX": index_type(a, b, out), "A_DENSE": ak == 1, "B_DENSE": bn == 1, **settings}  # fmt: skip
    batched = [*sizes[1:], *sa, *sb, *so]
    ints = [m, n, k, am, ak, bk, bn, bias_stride, om, on, *batched, batches]

    def launch(**changed: Any) -> Launch:
        grid = (tiles, parts) if form == "tile" else (min(_units(), tiles),)
        return Launch(matmul_kernel, grid, [*ints, parts, batches * m * n], {**constants, **changed},
                      num_warps=warps, num_stages=stages)  # fmt: skip

    if parts == 1:
        return _Aligned(launch(), launch(FORM="persistent")) if form == "descriptors" else launch()
    ints[8:10] = [n, 1]  # the parts are dense
    ints[-4:-1] = [m * n * sizes[1] * sizes[2], m * n * sizes[2], m * n]
    join = Launch(join_kernel, (triton.cdiv(batches * m * n, 1024),),
                  [batches * m * n, n, bias_stride, m, *sizes[1:], *so, om, on, parts],
                  {"ACTIVATION": activation, "HAS_BIAS": bias is not None, "BLOCK": 1024})  # fmt: skip
    products = launch(ACTIVATION="", HAS_BIAS=False)
    return _Split(products, join, (parts, batches, m, n), compute)


def _units() -> int:
    """Return the multiprocessors of the current GPU; 132, an H100's, where kernels are compiled for one that is not
    here."""
    if INTERPRET:
        return _INTERPRETED_UNITS
    try:
        driver = triton.runtime.driver.active
        return int(driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"])
    except Exception:
        return 132


def parts_for(tiles: int, k: int, config: Config) -> int:
    """Into how many parts K is split: none where the tiles fill half a GPU, or where a part would be short.

    Of narrow tiles a multiprocessor holds three, and needs them: their product waits for memory.
    """
    return max(1, min(_units() * (3 if _narrow(config) else 1) // max(tiles, 1), k // _PART_OF_K, _MAX_PARTS))


def _settings(config: Config | None, m: int, n: int, k: int, dtype: Any) -> Config:
    if config is not None:
        return space_for(dtype).complete(config)
    settings = default_for((m, n, k), dtype)
    if INTERPRET:  # one tile where it fits: the interpreter's cost is by tile
        largest = _INTERPRETED_TILE
        for name, size in (("BLOCK_M", m), ("BLOCK_N", n), ("BLOCK_K", k)):
            settings[name] = min(triton.next_power_of_2(max(size, 1)), largest)
        settings["FORM"] = "tile"
    return settings


def default_for(shape: tuple[int, ...], dtype: Any) -> Config:
    """Return what is launched on a GPU where nothing was tuned."""
    m, n, _ = shape
    settings = space_for(dtype).default
    if dtype == np.float64:
        settings.update(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, num_stages=2)  # an accumulator takes two registers
    elif dtype == np.float32:
        if m <= 32 or n <= 32:
            settings.update(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, num_stages=2)
    elif m <= 32 or n <= 32:  # bound by the bytes of the other operand: deep loads of it, and K is split
        narrow, wide = 16 if min(m, n) <= 16 else 32, 64
        settings.update(BLOCK_M=narrow if m <= 32 else wide, BLOCK_N=wide if m <= 32 else narrow, BLOCK_K=128,
                        num_warps=4, num_stages=4)  # fmt: skip
    elif triton.cdiv(m, 128) * triton.cdiv(n, 128) < _FEW_TILES:
        settings.update(BLOCK_M=64, BLOCK_N=64, num_warps=4)
    return settings


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    half = dtype in ("fp16", "bf16")
    space = SPACE if half else SPACE_FLOAT32
    of = {"fp64": np.float64, "fp32": np.float32}.get(dtype, np.float16)
    default = default_for((4096, 4096, 4096), of)
    only, small = Space.of([default]), Space.of([default_for((64, 64, 4096), of)])
    batches = [1, 1, *[0] * 9]

    def case(name: str, steps: list[int], space: Space, parts: int = 1, **constants: Any) -> Case:
        out = pointer if parts == 1 else f"*{'fp64' if dtype == 'fp64' else 'fp32'}"
        values = {"PRECISION": "ieee", "COMPUTE": compute, "ACTIVATION": "", "HAS_BIAS": parts == 1, "EVEN_K": True,
                  "INDEX": tl.int32, "A_DENSE": steps[1] == 1, "B_DENSE": steps[3] == 1, **constants}  # fmt: skip
        return Case(name, matmul_kernel,
                    (pointer, pointer, pointer, out, 1000, 1024, 1024, *steps, 1, 1024, 1, *batches, 1, parts, 1024000),
                    values, space, default if space is not small else small.default)  # fmt: skip

    cases = [
        case("matmul", [1024, 1, 1, 1024], space),
        case("matmul_of_rows", [1024, 1, 1024, 1], only, ACTIVATION="gelu_tanh"),
        case("matmul_gelu", [1024, 1, 1, 1024], only, ACTIVATION="gelu"),
        case("matmul_split", [1, 1024, 1024, 1], only, parts=8, EVEN_K=False),
        case("matmul_strided", [2048, 2, 2, 2048], small, EVEN_K=False, INDEX=tl.int64),
    ]
    if dtype == "fp32":
        cases.append(case("matmul_tf32", [1024, 1, 1, 1024], only, PRECISION="tf32"))
    join = (
        "*fp64" if dtype == "fp64" else "*fp32",
        pointer,
        pointer,
        1024000,
        1024,
        1,
        1000,
        1,
        1,
        0,
        0,
        0,
        1024,
        1,
        8,
    )
    constants = {"ACTIVATION": "silu", "HAS_BIAS": True}
    return [*cases, Case("matmul_join", join_kernel, join, constants, Space.of([{"BLOCK": 1024, "num_warps": 4}]))]


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        m, n, k = shape
        return [normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)], [empty((m, n), dtype)]

    def expected(inputs: Any) -> Any:
        a, b = float64(inputs)
        return [(a @ b, np.abs(a) @ np.abs(b), a.shape[1])]

    return [TritonKernel(matmul_kernel, ("M", "N", "K"), space_for, arrays,
                         lambda i, o, c: call(matmul_forward, *i, *o, config=c), expected, of_products(lambda s: s),
                         (70, 70, 150), lambda shape, dtype, target: default_for(shape, dtype))]  # fmt: skip
