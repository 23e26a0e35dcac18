"""The gradients of attention, from each row's log-sum-exp: the weights are made again, and never stored.

Algorithm: with P the weights, dP = g vT and delta = sum(g y) a row, the scores' gradient is dS = P (dP - delta), and
dv = PT g, dk = scale dST q, dq = scale dS k. `delta_kernel` makes delta. `keys_backward_kernel` owns BLOCK_N keys and
walks the rows of every head of queries that shares them, so that dk and dv are summed in registers; `rows_backward_
kernel` owns BLOCK_M rows of q and walks the keys. No atomics: the same bits every time. Dropped weights are told anew
by Philox from their places.

Bytes moved: q, k, v, g and y about once each and three gradients, where a head fits the L2 cache. Operations: 14 L S D
a head, half of it where causal, and two exp2 a score. Source: Dao, FlashAttention-2 (2023), algorithm 2, in two passes.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .attention import (
    AXES,
    LIMITS,
    LOG2_E,
    Dropout,
    Lengths,
    bounds,
    case,
    checked,
    flags_of,
    kept,
    numbers,
    settings_for,
    strides_of,
    tuning_arrays,
    tuning_work,
)
from .attention_backward_space import default_for, space_for
from .cases import Case
from .runtime import Launch, Memo
from .tune import references
from .tune.declared import SINGLES, TritonKernel, call, empty, float64, normal
from .tune.space import Config, Space

_launches: Memo = Memo()


@triton.jit
def delta_kernel(
    g_ptr, y_ptr, delta_ptr, length, E, heads, g0, g1, g2, g3, y0, y1, y2, y3, l0, l1, l2,
    VALUE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.arange(0, VALUE)
    mask = (row < length)[:, None] & (value < E)[None, :]
    g = tl.load(g_ptr + batch * g0 + head * g1 + row[:, None] * g2 + value[None, :] * g3, mask=mask, other=0.0)
    y = tl.load(y_ptr + batch * y0 + head * y1 + row[:, None] * y2 + value[None, :] * y3, mask=mask, other=0.0)
    delta = tl.sum(g.to(tl.float32) * y.to(tl.float32), 1)
    tl.store(delta_ptr + batch * l0 + head * l1 + row * l2, delta, mask=row < length)


@triton.jit
def _scores(
    x, factor, mask_at, row, column, rows, keys, shift, mask_row, mask_column,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, TEST: tl.constexpr,
):  # fmt: skip
    """The scores in base 2 of products x; `row` and `column` broadcast against them, either way round."""
    x = x * factor
    if MASK != "":
        at = mask_at + row.to(tl.int64) * mask_row + column.to(tl.int64) * mask_column
        m = tl.load(at, mask=(row < rows) & (column < keys), other=0.0)
        if MASK == "bool":
            # x or -inf, without a condition, which AMD's compiler cannot bring into the layout of a product's operand
            x = tl.minimum(x, (m.to(tl.float32) - 0.5) * float("inf"))
        else:
            x += m.to(tl.float32) * LOG2_E
    if TEST:
        x = tl.where(column < keys, x, -float("inf"))
        if CAUSAL:
            x = tl.where(column <= row + shift, x, -float("inf"))
    return x


@triton.jit
def _over_rows(
    dk, dv, k, v, q_ptr, g_ptr, logs_ptr, delta_ptr, mask_at, begin, end, rows, keys, column, shift,
    q_row, q_item, g_row, g_item, log_row, mask_row, mask_column, factor, p, inverse, seed, first, S, D, E,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, TEST: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    HEAD: tl.constexpr, VALUE: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add to the gradients of a block of keys and values what the rows from `begin` to `end` bring."""
    item = tl.arange(0, HEAD)
    value = tl.arange(0, VALUE)
    near = tl.arange(0, BLOCK_M)
    far = tl.cast(begin, tl.int64)
    q_ptr += far * q_row  # one address moves on; a tile's offsets from it are the same for all tiles
    g_ptr += far * g_row
    logs_ptr += far * log_row
    delta_ptr += far * log_row
    for start in range(begin, end, BLOCK_M):
        row = start + near
        live = row < rows
        q_at = q_ptr + (near[:, None] * q_row + item[None, :] * q_item)
        g_at = g_ptr + (near[:, None] * g_row + value[None, :] * g_item)
        q = tl.load(q_at, mask=live[:, None] & (item < D)[None, :], other=0.0)
        g = tl.load(g_at, mask=live[:, None] & (value < E)[None, :], other=0.0)
        logs = tl.load(logs_ptr + near * log_row, mask=live, other=float("inf"))  # a row that is not there weighs 0
        delta = tl.load(delta_ptr + near * log_row, mask=live, other=0.0)
        x = tl.dot(k, q.T, input_precision=PRECISION)
        x = _scores(x, factor, mask_at, row[None, :], column[:, None], rows, keys, shift, mask_row, mask_column,
                    MASK, CAUSAL, TEST)  # fmt: skip
        weight = tl.exp2(x - (logs * LOG2_E)[None, :])
        slope = tl.dot(v, g.T, input_precision=PRECISION)
        if DROPOUT:
            keep = tl.where(kept(seed, first, row[None, :], column[:, None], S, p), inverse, 0.0)
            slope = slope * keep
            dropped = weight * keep
        else:
            dropped = weight
        dv = tl.dot(dropped.to(g.dtype), g, dv, input_precision=PRECISION)
        slope = weight * (slope - delta[None, :])
        dk = tl.dot(slope.to(q.dtype), q, dk, input_precision=PRECISION)
        q_ptr += BLOCK_M * q_row
        g_ptr += BLOCK_M * g_row
        logs_ptr += BLOCK_M * log_row
        delta_ptr += BLOCK_M * log_row
    return dk, dv


@triton.jit
def keys_backward_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, places_q, places_k, g_ptr, delta_ptr, dk_ptr, dv_ptr, logs_ptr, place_ptr,
    scale: tl.float64, p: tl.float64, inverse: tl.float64, seed_0: tl.float64, seed_1: tl.float64,
    offset_0: tl.float64, offset_1: tl.float64,
    L, S, D, E, heads, group, q0, q1, q2, q3, k0, k1, k2, k3, v0, v1, v2, v3, m0, m1, m2, m3, g0, g1, g2, g3,
    dk0, dk1, dk2, dk3, dv0, dv1, dv2, dv3, l0, l1, l2,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, PLACED: tl.constexpr, VARIABLE: tl.constexpr,
    PRECISION: tl.constexpr, HEAD: tl.constexpr, VALUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    shared = heads // group
    batch = (tl.program_id(1) // shared).to(tl.int64)
    owner = tl.program_id(1) % shared
    q_first, k_first, rows, keys, shift = bounds(places_q, places_k, batch, L, S, VARIABLE)
    start = tl.program_id(0) * BLOCK_N  # under a diagonal the first keys are seen by most rows
    if start < keys:
        near = tl.arange(0, BLOCK_N)
        column = start + near
        item = tl.arange(0, HEAD)
        value = tl.arange(0, VALUE)
        live = column < keys
        far = k_first + start
        k_at = k_ptr + batch * k0 + owner * k1 + far * k2 + near[:, None] * k2 + item[None, :] * k3
        v_at = v_ptr + batch * v0 + owner * v1 + far * v2 + near[:, None] * v2 + value[None, :] * v3
        k = tl.load(k_at, mask=live[:, None] & (item < D)[None, :], other=0.0)
        v = tl.load(v_at, mask=live[:, None] & (value < E)[None, :], other=0.0)
        factor = (scale * LOG2_E).to(tl.float32)
        thick = inverse.to(tl.float32)
        seed, offset = numbers(place_ptr, seed_0, seed_1, offset_0, offset_1, PLACED)
        dk = tl.zeros([BLOCK_N, HEAD], tl.float32)
        dv = tl.zeros([BLOCK_N, VALUE], tl.float32)
        begin = tl.cast(0, tl.int32)
        clear = begin
        if CAUSAL:
            begin = tl.minimum(tl.maximum(start - shift, 0), rows) // BLOCK_M * BLOCK_M
            clear = tl.minimum(tl.cdiv(tl.maximum(start + BLOCK_N - 1 - shift, 0), BLOCK_M), tl.cdiv(rows, BLOCK_M))
            clear = clear * BLOCK_M
            if q_ptr.dtype.element_ty == tl.float32:
                clear = rows  # one walk, which tests: beside exact products a test is cheap, a second loop spills
        for i in range(group):
            head = owner * group + i
            q_base = q_ptr + batch * q0 + head * q1 + q_first * q2
            g_base = g_ptr + batch * g0 + head * g1 + q_first * g2
            log_base = logs_ptr + batch * l0 + head * l1 + q_first * l2
            delta_base = delta_ptr + batch * l0 + head * l1 + q_first * l2
            mask_base = mask_ptr + batch * m0 + head * m1
            first = offset + (batch * heads + head) * L * S
            if CAUSAL:
                dk, dv = _over_rows(
                    dk, dv, k, v, q_base, g_base, log_base, delta_base, mask_base, begin, clear, rows, keys, column,
                    shift, q2, q3, g2, g3, l2, m2, m3, factor, p.to(tl.float32), thick, seed, first, S, D, E,
                    MASK, CAUSAL, True, DROPOUT, PRECISION, HEAD, VALUE, BLOCK_M,
                )  # fmt: skip
            if not CAUSAL or q_ptr.dtype.element_ty != tl.float32:
                dk, dv = _over_rows(
                    dk, dv, k, v, q_base, g_base, log_base, delta_base, mask_base, clear, rows, rows, keys, column,
                    shift, q2, q3, g2, g3, l2, m2, m3, factor, p.to(tl.float32), thick, seed, first, S, D, E,
                    MASK, CAUSAL, False, DROPOUT, PRECISION, HEAD, VALUE, BLOCK_M,
                )  # fmt: skip
        dk_at = dk_ptr + batch * dk0 + owner * dk1 + far * dk2 + near[:, None] * dk2 + item[None, :] * dk3
        dv_at = dv_ptr + batch * dv0 + owner * dv1 + far * dv2 + near[:, None] * dv2 + value[None, :] * dv3
        dk = dk * scale.to(tl.float32)
        tl.store(dk_at, dk.to(dk_ptr.dtype.element_ty), mask=live[:, None] & (item < D)[None, :])
        tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=live[:, None] & (value < E)[None, :])


@triton.jit
def _over_keys(
    dq, q, g, logs, delta, k_ptr, v_ptr, mask_at, begin, end, rows, keys, row, shift,
    k_row, k_item, v_row, v_item, mask_row, mask_column, factor, p, inverse, seed, first, S, D, E,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, TEST: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    HEAD: tl.constexpr, VALUE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add to the gradient of a block of rows what the keys from `begin` to `end` bring."""
    item = tl.arange(0, HEAD)
    value = tl.arange(0, VALUE)
    near = tl.arange(0, BLOCK_N)
    far = tl.cast(begin, tl.int64)
    k_ptr += far * k_row
    v_ptr += far * v_row
    for start in range(begin, end, BLOCK_N):
        column = start + near
        k_at = k_ptr + (near[:, None] * k_row + item[None, :] * k_item)
        v_at = v_ptr + (near[:, None] * v_row + value[None, :] * v_item)
        if TEST:
            k = tl.load(k_at, mask=(column < keys)[:, None] & (item < D)[None, :], other=0.0)
            v = tl.load(v_at, mask=(column < keys)[:, None] & (value < E)[None, :], other=0.0)
        else:
            k = tl.load(k_at, mask=(item < D)[None, :], other=0.0)
            v = tl.load(v_at, mask=(value < E)[None, :], other=0.0)
        x = tl.dot(q, k.T, input_precision=PRECISION)
        x = _scores(x, factor, mask_at, row[:, None], column[None, :], rows, keys, shift, mask_row, mask_column,
                    MASK, CAUSAL, TEST)  # fmt: skip
        weight = tl.exp2(x - (logs * LOG2_E)[:, None])
        slope = tl.dot(g, v.T, input_precision=PRECISION)
        if DROPOUT:
            slope = slope * tl.where(kept(seed, first, row[:, None], column[None, :], S, p), inverse, 0.0)
        slope = weight * (slope - delta[:, None])
        dq = tl.dot(slope.to(k.dtype), k, dq, input_precision=PRECISION)
        k_ptr += BLOCK_N * k_row
        v_ptr += BLOCK_N * v_row
    return dq


@triton.jit
def rows_backward_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, places_q, places_k, g_ptr, delta_ptr, dq_ptr, logs_ptr, place_ptr,
    scale: tl.float64, p: tl.float64, inverse: tl.float64, seed_0: tl.float64, seed_1: tl.float64,
    offset_0: tl.float64, offset_1: tl.float64,
    L, S, D, E, heads, group, q0, q1, q2, q3, k0, k1, k2, k3, v0, v1, v2, v3, m0, m1, m2, m3, g0, g1, g2, g3,
    dq0, dq1, dq2, dq3, l0, l1, l2,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr, DROPOUT: tl.constexpr, PLACED: tl.constexpr,
    VARIABLE: tl.constexpr, PRECISION: tl.constexpr, HEAD: tl.constexpr, VALUE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    q_first, k_first, rows, keys, shift = bounds(places_q, places_k, batch, L, S, VARIABLE)
    start = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    if start < rows:
        near = tl.arange(0, BLOCK_M)
        row = start + near
        item = tl.arange(0, HEAD)
        value = tl.arange(0, VALUE)
        live = row < rows
        far = q_first + start
        q_at = q_ptr + batch * q0 + head * q1 + far * q2 + near[:, None] * q2 + item[None, :] * q3
        g_at = g_ptr + batch * g0 + head * g1 + far * g2 + near[:, None] * g2 + value[None, :] * g3
        q = tl.load(q_at, mask=live[:, None] & (item < D)[None, :], other=0.0)
        g = tl.load(g_at, mask=live[:, None] & (value < E)[None, :], other=0.0)
        log_at = batch * l0 + head * l1 + far * l2 + near * l2
        logs = tl.load(logs_ptr + log_at, mask=live, other=float("inf"))
        delta = tl.load(delta_ptr + log_at, mask=live, other=0.0)
        k_base = k_ptr + batch * k0 + (head // group) * k1 + k_first * k2
        v_base = v_ptr + batch * v0 + (head // group) * v1 + k_first * v2
        mask_base = mask_ptr + batch * m0 + head * m1
        factor = (scale * LOG2_E).to(tl.float32)
        thick = inverse.to(tl.float32)
        seed, first = numbers(place_ptr, seed_0, seed_1, offset_0, offset_1, PLACED)
        first += tl.program_id(1).to(tl.int64) * L * S
        dq = tl.zeros([BLOCK_M, HEAD], tl.float32)
        clear = keys // BLOCK_N * BLOCK_N
        end = keys
        if CAUSAL:
            clear = tl.minimum(clear, tl.maximum(start + 1 + shift, 0) // BLOCK_N * BLOCK_N)
            end = tl.minimum(keys, tl.maximum(start + BLOCK_M + shift, 0))
        dq = _over_keys(
            dq, q, g, logs, delta, k_base, v_base, mask_base, tl.cast(0, tl.int32), clear, rows, keys, row, shift,
            k2, k3, v2, v3, m2, m3, factor, p.to(tl.float32), thick, seed, first, S, D, E,
            MASK, CAUSAL, False, DROPOUT, PRECISION, HEAD, VALUE, BLOCK_N,
        )  # fmt: skip
        if not EVEN:
            dq = _over_keys(
                dq, q, g, logs, delta, k_base, v_base, mask_base, clear, end, rows, keys, row, shift,
                k2, k3, v2, v3, m2, m3, factor, p.to(tl.float32), thick, seed, first, S, D, E,
                MASK, CAUSAL, True, DROPOUT, PRECISION, HEAD, VALUE, BLOCK_N,
            )  # fmt: skip
        dq_at = dq_ptr + batch * dq0 + head * dq1 + far * dq2 + near[:, None] * dq2 + item[None, :] * dq3
        dq = dq * scale.to(tl.float32)
        tl.store(dq_at, dq.to(dq_ptr.dtype.element_ty), mask=live[:, None] & (item < D)[None, :])


def attention_backward(
    g: Any,
    q: Any,
    k: Any,
    v: Any,
    y: Any,
    logs: Any,
    dq: Any | None,
    dk: Any | None,
    dv: Any | None,
    scale: float,
    causal: bool = False,
    mask: Any | None = None,
    dropout: Dropout | None = None,
    lengths: Lengths | None = None,
    config: Config | None = None,
    input_precision: str = "ieee",
) -> None:
    """The gradients of q, k and v where `dq`, or `dk` and `dv`, are given; `y` and `logs` are `attention_forward`'s.

    *Shapes*: those of `attention_forward`; g as y.
    """
    if (dk is None) != (dv is None):
        raise ValueError("attention_backward: dk and dv are made by one kernel: give both, or neither")
    dropout = dropout or Dropout()
    delta = runtime.empty(logs.shape, np.float32)
    key = (*runtime.key_of(g, q, k, v, y, logs), *(a is not None and runtime.key_of(a) for a in (mask, dq, dk, dv)),
           causal, *flags_of(dropout), lengths and (runtime.key_of(*lengths[:2]), lengths[2:]), input_precision,
           config and tuple(config.items()))  # fmt: skip
    launches = _launches.get(key)
    if launches is None:
        launches = _launches[key] = _prepare(g, q, k, v, y, logs, delta, dq, dk, dv, causal, mask, dropout,
                                             lengths, config, input_precision)  # fmt: skip
    first, over_rows, over_keys = launches
    places = (logs, logs) if lengths is None else lengths[:2]
    inputs = (q, k, v, q if mask is None else mask, *places, g, delta)
    last = (logs, logs if dropout.place is None else dropout.place)
    floats = (float(scale), *dropout.floats())
    if g.size:
        first((g, y, delta))
        if over_keys is not None:
            over_keys((*inputs, dq, *last), floats)
    if over_rows is not None and (k.size or v.size):
        over_rows((*inputs, dk, dv, *last), floats)


def _prepare(
    g: Any, q: Any, k: Any, v: Any, y: Any, logs: Any, delta: Any, dq: Any, dk: Any, dv: Any, causal: bool,
    mask: Any, dropout: Dropout, lengths: Lengths | None, config: Config | None, input_precision: str,
) -> Any:  # fmt: skip
    sizes, flags = checked(q, k, v, y, logs, mask, causal, dropout, lengths)
    for name, gradient, x in (("g", g, y), ("dq", dq, q), ("dk", dk, k), ("dv", dv, v)):
        if gradient is not None and (gradient.shape != x.shape or gradient.dtype != x.dtype):
            raise ValueError(
                f"attention_backward: {name} is {gradient.dtype} {gradient.shape}, not {x.dtype} {x.shape}"
            )
    batch, heads, group, length, keys, head, value = sizes
    constants = {**flags, "PRECISION": input_precision}
    ints = [length, keys, head, value, heads, group]

    def of(*arrays: Any) -> list[int]:
        return strides_of(lengths, *arrays)

    # delta, written densely, shares its strides with logs
    spot = strides_of(lengths, delta)
    if runtime.element_strides(logs) != runtime.element_strides(delta):
        raise ValueError(f"attention_backward: logs must be contiguous, got strides {logs.strides}")
    block = 64
    first = Launch(delta_kernel, (triton.cdiv(y.shape[2], block), y.shape[0] * heads),
                   [y.shape[2], value, heads, *strides_of(None, g, y, delta)],
                   {"VALUE": flags["VALUE"], "BLOCK": block})  # fmt: skip

    def launch(kernel: Any, gradients: tuple[Any, ...], walked: str, count: int, programs: int) -> Launch | None:
        if gradients[0] is None:
            return None
        space = space_for(q.dtype)
        found = config or runtime.tuned(kernel, space, (batch * heads, length, keys, head), q.dtype)
        default = default_for((batch * heads, length, max(head, value)), q.dtype, "", dropout.p > 0,
                              kernel is rows_backward_kernel)  # fmt: skip
        settings = settings_for(found, space, default, length, keys)
        warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
        values = {**constants, **settings}
        if kernel is rows_backward_kernel:
            values["EVEN"] = keys % settings["BLOCK_N"] == 0 and not causal and lengths is None
        return Launch(kernel, (triton.cdiv(count, settings[walked]), batch * programs),
                      [*ints, *of(q, k, v, mask, g, *gradients), *spot], values,
                      num_warps=warps, num_stages=stages)  # fmt: skip

    return (
        first,
        launch(keys_backward_kernel, (dk, dv), "BLOCK_N", keys, heads // group),
        launch(rows_backward_kernel, (dq,), "BLOCK_M", length, heads),
    )


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    if dtype == "fp64":
        return []
    of, x = np.float32 if dtype == "fp32" else np.float16, f"*{dtype}"
    cases = []
    masked: dict[str, Any] = {"MASK": "bool", "DROPOUT": True}
    variants: list[tuple[int, dict[str, Any]]] = [(128, {}), (64, {}), (256, {}), (64, masked)]
    if dtype == "fp32":
        variants += [(64, {"DROPOUT": True}), (128, masked)]
    for head, flags in variants:
        whole = head == (64 if dtype == "fp32" else 128) and not flags
        name = "_".join(["backward", str(head), *(["mask"] if "MASK" in flags else []),
                         *(["dropout"] if flags else [])])  # fmt: skip
        for kind, kernel, others, strides in (
            ("keys", keys_backward_kernel, [x, "*fp32", x, x], 7),
            ("rows", rows_backward_kernel, [x, "*fp32", x], 6),
        ):
            drops, by_rows = "DROPOUT" in flags, kind == "rows"
            defaults = {t: default_for((64, 1000, head), of, t, drops, by_rows)
                        for t in ("sm_90", "sm_80", "sm_100", "gfx942")}  # fmt: skip
            default = defaults.pop("sm_90")
            space = space_for(of) if whole else Space.of([default])
            even = {"EVEN": False} if by_rows else {}
            cases.append(case(f"attention_{kind}_{name}", kernel, dtype, others, head, space, default, strides,
                              defaults, **even, **flags))  # fmt: skip
    pointer = f"*{dtype}"
    row = 16 * 64
    delta = (pointer, pointer, "*fp32", 1000, 64, 16, *[1000 * row, 64, row, 1] * 2, 16000, 1000, 1)
    return [*cases, Case("attention_delta", delta_kernel, delta, {"VALUE": 64, "BLOCK": 64},
                         Space.of([{"num_warps": 4}]))]  # fmt: skip


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: causal, without a mask."""

    def arrays(*names: int) -> Any:
        def made(shape: Any, dtype: str, rng: Any) -> Any:
            (q, k, v), (out, logs) = tuning_arrays(shape, dtype, rng)
            if rng is not None:
                for h, part in enumerate(references.attended(*float64([q, k, v]))):
                    out[0, h], logs[0, h] = part.out, part.logs
            return [normal(rng, out.shape, dtype), q, k, v, out, logs], [
                empty((q, k, v)[n].shape, dtype) for n in names
            ]

        return made

    def declared(kernel: Any, names: tuple[str, ...], launch: Any, given: Any, work: Any) -> TritonKernel:
        def expected(inputs: Any) -> Any:
            g, q, k, v = float64(inputs[:4])
            parts = list(references.attended(q, k, v, g))
            return [(*references.heads(parts, name), k.shape[2]) for name in names]

        def default(s: Any, dtype: Any, target: str) -> Config:
            return default_for((s[0], s[1], s[3]), dtype, target, by_rows=kernel is rows_backward_kernel)

        return TritonKernel(kernel, AXES, space_for, given, launch, expected, work, (2, 70, 70, 24), default, SINGLES,
                            ("items",), LIMITS)  # fmt: skip

    def keys(i: Any, o: Any, c: Any) -> None:
        call(attention_backward, *i, None, *o, i[1].shape[3] ** -0.5, True, config=c)

    def rows(i: Any, o: Any, c: Any) -> None:
        call(attention_backward, *i, *o, None, None, i[1].shape[3] ** -0.5, True, config=c)

    return [declared(keys_backward_kernel, ("dk", "dv"), keys, arrays(1, 2), tuning_work(4, 6)),
            declared(rows_backward_kernel, ("dq",), rows, arrays(0), tuning_work(3, 5))]  # fmt: skip
