"""One sample of an OpInfo under both libraries, and the first thing in which they differ."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import core

from .translate import SEED, Absent, array, function, value

# A float32 gradient is a sum of roundings; PyTorch's own tests of these samples take 1e-3 for several ops.
TOLERANCE = {"float64": 1e-8, "float32": 1e-4, "complex128": 1e-8, "complex64": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}
KINDS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


def flatten(x: Any) -> list[Any]:
    """The tensors and plain values in a result."""
    if isinstance(x, tuple | list) and not isinstance(x, torch.Size | core.Size):
        return [leaf for part in x for leaf in flatten(part)]
    if isinstance(x, dict):
        return [leaf for k in x for leaf in flatten(x[k])]
    return [x]


def leaves(x: Any) -> list[Any]:
    """The tensors that require a gradient, each once."""
    found = {id(t): t for t in flatten(x) if isinstance(t, torch.Tensor | core.Tensor) and t.requires_grad}
    return list(found.values())


def differs(ours: Any, theirs: Any, loose: float = 1.0, values: bool = True) -> str | None:
    """How a value differs from PyTorch's; None if it does not."""
    if not isinstance(theirs, torch.Tensor):
        if isinstance(ours, core.Tensor):
            return f"a tensor in place of {theirs!r}"
        if isinstance(theirs, torch.Size | tuple | list):
            return None if tuple(ours) == tuple(theirs) else f"{ours!r} in place of {theirs!r}"
        if isinstance(theirs, float | complex):
            close = np.allclose(ours, theirs, rtol=1e-4, equal_nan=True)
            return None if close or not values else f"{ours!r} in place of {theirs!r}"
        same = str(ours).removeprefix("core.") == str(theirs).removeprefix("torch.")
        return None if same else f"{ours!r} in place of {theirs!r}"
    if not isinstance(ours, core.Tensor):
        return f"{type(ours).__name__} in place of a tensor"
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"shape {tuple(ours.shape)} in place of {tuple(theirs.shape)}"
    mine, name = str(ours.dtype).split(".")[-1], str(theirs.dtype).split(".")[-1]
    if mine != name:
        return f"dtype {mine} in place of {name}"
    if not values:
        return None
    x, y = ours.detach(), array(theirs)
    x = (x.float() if mine == "bfloat16" else x).numpy()
    if x.dtype.kind not in "fc":
        return None if np.array_equal(x, y) else _shown(x, y, x != y)
    tolerance = TOLERANCE.get(name, 1e-2) * loose
    finite = np.abs(y[np.isfinite(y)])
    scale = min(float(finite.max()) if finite.size else 0.0, 1e30)  # the greatest sets the rounding of a sum
    with np.errstate(all="ignore"):
        close = np.isclose(x, y, rtol=tolerance, atol=tolerance * max(scale, 0.1), equal_nan=True)
    return None if close.all() else _shown(x, y, ~close)


def _shown(x: Any, y: Any, bad: Any) -> str:
    return f"{x[bad].ravel()[0]} in place of {y[bad].ravel()[0]} ({int(bad.sum())} of {bad.size})"


def gradients(lib: Any, outputs: list[Any], inputs: list[Any]) -> list[Any]:
    """The gradients of a weighted sum of the outputs."""
    outputs = [o for o in outputs if isinstance(o, lib.Tensor) and o.requires_grad]
    if not outputs:
        return [None] * len(inputs)
    if not inputs:
        return []
    weights = []
    for k, o in enumerate(outputs):
        shape = tuple(o.shape)
        rng = np.random.default_rng(zlib.crc32(repr((k, shape)).encode()))
        w = rng.uniform(0.5, 1.5, shape) + (1j * rng.uniform(0.5, 1.5, shape) if o.is_complex() else 0)
        weights.append(lib.tensor(w, dtype=o.dtype))
    found = lib.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return [
        g if x.numel() else None for g, x in zip(found, inputs, strict=True)
    ]  # none or an empty one is all the same


def seed() -> None:
    torch.manual_seed(SEED)
    core.manual_seed(SEED, kind="torch")


def said(e: BaseException) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())[:150]}"


def compare(theirs: Callable[..., Any], ours: Callable[..., Any], sample: Any, *, grads: bool = True,
            loose: float = 1.0, values: bool = True, copied: bool = False) -> str | None:  # fmt: skip
    """The first difference of `ours` from `theirs` on a sample: values, dtypes, shapes, gradients, or the error.

    copied : the function writes into its first argument: it is given a copy that is no leaf.
    """
    args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
    mine_args, mine_kwargs = value((args, kwargs))
    finish = sample.output_process_fn_grad
    mine_finish = function(finish)
    seed()
    try:
        copy = (args[0].clone(), *args[1:]) if copied else args
        result = theirs(*copy, **kwargs)
        wanted = flatten(finish(result))
        their_grads = gradients(torch, wanted, leaves((args, kwargs))) if grads else []
    except KINDS:
        return None  # what PyTorch refuses is the matter of the error inputs
    seed()
    stage = "the call"
    try:
        copy = (mine_args[0].clone(), *mine_args[1:]) if copied else mine_args
        result = ours(*copy, **mine_kwargs)
        if copied and result is not copy[0]:
            return "returned another tensor than it wrote"
        found = flatten(mine_finish(result))
        stage = "backward"
        our_grads = gradients(core, found, leaves((mine_args, mine_kwargs))) if grads else []
    except Absent:
        raise
    except Exception as e:
        return f"{stage}: {said(e)}"
    if len(found) != len(wanted):
        return f"{len(found)} results in place of {len(wanted)}"
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if difference := differs(a, b, loose, values):
            return f"result {k}: {difference}"
        if grads and isinstance(b, torch.Tensor) and b.numel() and a.requires_grad != b.requires_grad:
            return f"result {k}: requires_grad {a.requires_grad} in place of {b.requires_grad}"
    if len(our_grads) != len(their_grads):
        return f"{len(our_grads)} gradients in place of {len(their_grads)}"
    for k, (a, b) in enumerate(zip(our_grads, their_grads, strict=True)):
        if (a is None) != (b is None):
            return f"gradient {k}: {'none' if a is None else 'one'} in place of {'none' if b is None else 'one'}"
        difference = None if b is None else differs(a, b, loose * 10, values)
        if difference and not nearer(a, b, theirs, sample, k):
            return f"gradient {k}: {difference}"
    return None


def nearer(ours: Any, theirs: torch.Tensor, op: Callable[..., Any], sample: Any, k: int) -> bool:
    """Whether gradient `k` in float32 is nowhere farther from PyTorch's in float64 than PyTorch's in float32 is.

    A gradient that cancels to 0 is rounding noise on both sides: `cov` of two weighted observations is one.
    """
    if theirs.dtype is not torch.float32:
        return False

    def wide(t: torch.Tensor) -> torch.Tensor:
        return t.detach().double().requires_grad_(t.requires_grad) if t.dtype is torch.float32 else t

    wider = sample.transform(lambda t: wide(t) if isinstance(t, torch.Tensor) else t)
    args, kwargs = (wider.input, *wider.args), dict(wider.kwargs)
    seed()
    try:
        exact = gradients(torch, flatten(sample.output_process_fn_grad(op(*args, **kwargs))), leaves((args, kwargs)))[k]
    except KINDS:
        return False
    away = [np.abs(t.detach().numpy().astype(np.float64) - exact.numpy()) for t in (ours, theirs)]
    return bool((away[0] <= away[1] + 1e-6 * np.abs(exact.numpy())).all())


def shown(sample: Any) -> str:
    """The sample in a line: shapes and dtypes of tensors, the rest as it is."""
    return ", ".join(
        [*map(_brief, (sample.input, *sample.args)), *(f"{k}={_brief(v)}" for k, v in sample.kwargs.items())]
    )


def _brief(v: Any) -> str:
    if isinstance(v, torch.Tensor):
        return f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}"
    if isinstance(v, tuple | list):
        inner = ", ".join(map(_brief, v))
        return f"[{inner}]" if isinstance(v, list) else f"({inner})"
    return str(v) if not isinstance(v, str) else repr(v)


def main_dtype(info: Any) -> torch.dtype:
    """The dtype of the first look: float32, or the first of these that the op takes."""
    takes = info.supported_dtypes("cpu")
    order = (torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool)
    return next((d for d in order if d in takes), torch.float32)


def samples(info: Any, dtype: torch.dtype, grads: bool) -> Iterator[Any]:
    seed()
    yield from info.sample_inputs("cpu", dtype, requires_grad=grads)
