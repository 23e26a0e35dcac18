"""Optimizer steps in place: SGD with momentum, Adam and AdamW. One launch a tensor.

Algorithm: each parameter, its gradient and its state are read once and written once, in one pass. The bias corrections
1 - beta**t are computed in Python; everything else in float32 (float64 for float64 parameters), whatever the storage.

Bytes moved: AdamW reads 4 and writes 3 arrays of the parameter's size, SGD with momentum reads 3 and writes 2.
Operations: about 15 and 6 an element. Source: Loshchilov and Hutter, Decoupled weight decay regularization (2019);
Kingma and Ba, Adam (2015); the conventions are PyTorch's.
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
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.space import Config, Constraint, Space, powers_of_two

SPACE = Space(
    [powers_of_two("BLOCK", 512, 1024, default=1024), powers_of_two("num_warps", 4, 8, default=4)],
    [Constraint("at least 4 elements a thread", lambda c: c["BLOCK"] >= 128 * c["num_warps"])],
)
_INTERPRETED_BLOCK = 1 << 17
_launches: Memo = Memo()


@triton.jit
def adamw_kernel(
    p_ptr, g_ptr, m_ptr, v_ptr,
    lr: tl.float64, beta1: tl.float64, beta2: tl.float64, eps: tl.float64, weight_decay: tl.float64,
    correction1: tl.float64, correction2: tl.float64,
    numel,
    DECOUPLED: tl.constexpr, MAXIMIZE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    p = tl.load(p_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    g = tl.load(g_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    m = tl.load(m_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    v = tl.load(v_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    if MAXIMIZE:
        g = g * -1.0
    if DECOUPLED:
        p = p * (1.0 - lr * weight_decay).to(COMPUTE)
    else:
        g = g + p * weight_decay.to(COMPUTE)
    m = m + (g - m) * (1.0 - beta1).to(COMPUTE)
    v = v * beta2.to(COMPUTE) + (g * g) * (1.0 - beta2).to(COMPUTE)
    root = scalar.sqrt(v) * (1.0 / tl.sqrt(correction2)).to(COMPUTE) + eps.to(COMPUTE)
    p = p - scalar.div(m * (lr / correction1).to(COMPUTE), root)
    tl.store(p_ptr + index, p.to(p_ptr.dtype.element_ty), mask=mask)
    tl.store(m_ptr + index, m.to(m_ptr.dtype.element_ty), mask=mask)
    tl.store(v_ptr + index, v.to(v_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sgd_kernel(
    p_ptr, g_ptr, buffer_ptr,
    lr: tl.float64, momentum: tl.float64, dampening: tl.float64, weight_decay: tl.float64,
    numel,
    BUFFER: tl.constexpr, FIRST: tl.constexpr, NESTEROV: tl.constexpr, MAXIMIZE: tl.constexpr,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    p = tl.load(p_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    g = tl.load(g_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    if MAXIMIZE:
        g = g * -1.0
    g = g + p * weight_decay.to(COMPUTE)
    if BUFFER:
        if FIRST:
            b = g
        else:
            b = tl.load(buffer_ptr + index, mask=mask, other=0.0).to(COMPUTE)
            b = b * momentum.to(COMPUTE) + g * (1.0 - dampening).to(COMPUTE)
        tl.store(buffer_ptr + index, b.to(buffer_ptr.dtype.element_ty), mask=mask)
        if NESTEROV:
            g = g + b * momentum.to(COMPUTE)
        else:
            g = b
    p = p - g * lr.to(COMPUTE)
    tl.store(p_ptr + index, p.to(p_ptr.dtype.element_ty), mask=mask)


def adamw_step(
    params: Sequence[Any],
    grads: Sequence[Any],
    first_moments: Sequence[Any],
    second_moments: Sequence[Any],
    *,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    decoupled: bool = True,
    maximize: bool = False,
    config: Config | None = None,
) -> None:
    """One AdamW step in place (``decoupled=False``: Adam, whose decay joins the gradient). `step` counts from 1."""
    if step < 1:
        raise ValueError(f"adamw_step: step counts from 1, got {step}")
    floats = (float(lr), beta1, beta2, eps, float(weight_decay), 1.0 - beta1**step, 1.0 - beta2**step)
    flags = {"DECOUPLED": decoupled, "MAXIMIZE": maximize}
    for arrays in zip(params, grads, first_moments, second_moments, strict=True):
        _run("adamw_step", adamw_kernel, arrays, floats, flags, config)


def sgd_step(
    params: Sequence[Any],
    grads: Sequence[Any],
    buffers: Sequence[Any] | None = None,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
    config: Config | None = None,
) -> None:
    """One SGD step in place. With momentum, `buffers` are updated; on the `first` step they are set to the gradient."""
    if momentum and buffers is None:
        raise ValueError("sgd_step: momentum needs buffers, one for each parameter")
    floats = (float(lr), float(momentum), float(dampening), float(weight_decay))
    flags = {"BUFFER": bool(momentum), "FIRST": first, "NESTEROV": nesterov, "MAXIMIZE": maximize}
    held = buffers if momentum and buffers is not None else params  # an unused pointer still needs an array
    for arrays in zip(params, grads, held, strict=True):
        _run("sgd_step", sgd_kernel, arrays, floats, flags, config)


def _run(
    name: str,
    kernel: Any,
    arrays: tuple[Any, ...],
    floats: tuple[float, ...],
    flags: dict[str, bool],
    config: Config | None,
) -> None:
    key = (name, *runtime.key_of(*arrays), *flags.values(), config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        p = arrays[0]
        described = ", ".join(f"{a.dtype} {tuple(a.shape)} strides {tuple(a.strides)}" for a in arrays)
        if any(a.shape != p.shape or a.dtype not in FLOATING for a in arrays):
            raise ValueError(
                f"{name}: parameter, gradient and state must be floating and of one shape, got {described}"
            )
        if not all(runtime.is_contiguous(a) for a in arrays):
            raise ValueError(f"{name}: the arrays must be contiguous, got {described}. Remedy: .contiguous() first.")
        settings = SPACE.complete(config)
        warps = settings.pop("num_warps")
        if INTERPRET and config is None:
            settings["BLOCK"] = min(triton.next_power_of_2(max(p.size, 1)), _INTERPRETED_BLOCK)
        compute = tl.float64 if p.dtype == np.float64 else tl.float32
        grid = (triton.cdiv(p.size, settings["BLOCK"]),)
        constants = {**flags, "COMPUTE": compute, **settings}
        launch = _launches[key] = Launch(kernel, grid, [p.size], constants, num_warps=warps)
    if arrays[0].size:
        launch(arrays, floats)


def compile_cases(dtype: str) -> list[Case]:
    """What the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    adamw = {"DECOUPLED": True, "MAXIMIZE": False, "COMPUTE": compute}
    sgd = {"BUFFER": True, "FIRST": False, "NESTEROV": True, "MAXIMIZE": False, "COMPUTE": compute}
    return [
        Case("adamw", adamw_kernel, (*[pointer] * 4, *[0.5] * 7, 1000), adamw, SPACE),
        Case("sgd", sgd_kernel, (*[pointer] * 3, *[0.5] * 4, 1000), sgd, SPACE),
    ]
