"""Every elementwise op of the table beside PyTorch's: values, dtypes and gradients in float32 and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import core
from core.declare.op import Elementwise, table
from core.dispatch import publish

# Ops that people reach under another name, as an expression that runs under either library.
SPELT: dict[str, Callable[..., Any]] = {
    "true_divide": lambda lib, a, b: a / b,
    "pow_tensor": lambda lib, a, b: lib.pow(a, b),
    "pow_scalar": lambda lib, x: x**2.5,
    "scalar_pow": lambda lib, x: 2.5**x,
    "select": lambda lib, c, a, b: lib.where(c, a, b),
    "clamp_both": lambda lib, x, low, high: lib.clamp(x, low, high),
    "clamp_below": lambda lib, x, low: lib.clamp(x, min=low),
    "clamp_above": lambda lib, x, high: lib.clamp(x, max=high),
    "pow_half": lambda lib, x: x**0.5,
    "cube": lambda lib, x: x**3,
    "clip_between": lambda lib, x: lib.clamp(x, -0.5, 0.7),
    "gelu_erf": lambda lib, x: lib.nn.functional.gelu(x),
    "gelu_tanh": lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"),
    "threshold": lambda lib, x: lib.nn.functional.threshold(x, 0.0, 0.0),
    "squared_error": lambda lib, a, b: lib.nn.functional.mse_loss(a, b, reduction="none"),
    "absolute_error": lambda lib, a, b: lib.nn.functional.l1_loss(a, b, reduction="none"),
    "smooth_l1_error": lambda lib, a, b: lib.nn.functional.smooth_l1_loss(a, b, reduction="none"),
    "huber_error": lambda lib, a, b: lib.nn.functional.huber_loss(a, b, reduction="none"),
    "binary_entropy": lambda lib, x, t: lib.nn.functional.binary_cross_entropy(x, t, reduction="none"),
    "binary_entropy_logits": lambda lib, x, t: lib.nn.functional.binary_cross_entropy_with_logits(
        x, t, reduction="none"),
    "binary_entropy_logits_pos": lambda lib, x, t, pos: lib.nn.functional.binary_cross_entropy_with_logits(
        x, t, pos_weight=pos, reduction="none"),
    "divergence": lambda lib, x, t: lib.nn.functional.kl_div(x, t, reduction="none"),
    "logit_within": lambda lib, x: lib.logit(x),
    "nan_to_number": lambda lib, x: lib.nan_to_num(x),
    "add_product": lambda lib, x, a, b: lib.addcmul(x, a, b),
    "add_quotient": lambda lib, x, a, b: lib.addcdiv(x, a, b),
    "tanh_gradient": lambda lib, a, y: a * (1.0 - y * y),
    "tanh_curve": lambda lib, a, b, c: -2.0 * (a * b * c),
    "relu6": lambda lib, x: lib.nn.functional.relu6(x),
    "ndtr": lambda lib, x: lib.special.ndtr(x),
    "entr": lambda lib, x: lib.special.entr(x),
    "xlog1py": lambda lib, a, b: lib.special.xlog1py(a, b),
    "divergence_log": lambda lib, x, t: lib.nn.functional.kl_div(x, t, reduction="none", log_target=True),
}  # fmt: skip
CONSTANT = {"binary_entropy", "binary_entropy_logits_pos"}  # PyTorch gives no gradient to a target or a weight here
LOOSER = {"hardsigmoid": 1e-7}  # PyTorch's own factor 1/6 is a float32
MAPS = [o for o in table.values() if isinstance(o, Elementwise)]


def call(o: Elementwise, lib: Any, args: list[Any]) -> Any:
    if o.name in SPELT:
        return SPELT[o.name](lib, *args)
    in_functional = o.name in publish.namespaces["nn.functional"] and o.name not in publish.namespaces[""]
    return getattr(lib.nn.functional if in_functional else lib, o.name)(*args)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("o", MAPS, ids=lambda o: o.name)
def test_elementwise(o: Elementwise, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.random((3, 4)) < 0.5 if n in o.bools else rng.uniform(lo, hi, (3, 4)).astype(dtype)
              for n, (lo, hi) in zip(o.inputs, o.domain, strict=True)]  # fmt: skip
    seed = rng.uniform(0.5, 1.5, (3, 4)).astype(dtype)
    results = []
    for lib in (core, torch):
        leaves = [lib.tensor(a) for a in arrays]
        for leaf, v in zip(leaves, o.vjps or [None] * len(leaves), strict=False):
            if v is not None and leaf.is_floating_point() and not (o.name in CONSTANT and leaf is not leaves[0]):
                leaf.requires_grad_()
        y = call(o, lib, leaves)
        if y.requires_grad:
            y.backward(lib.tensor(seed))
        results.append((y, leaves))
    (ours, our_leaves), (theirs, their_leaves) = results
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert ours.requires_grad == theirs.requires_grad
    tolerance = max(1e-6 if dtype == "float32" else 1e-13, LOOSER.get(o.name, 0))
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)
    for a, b in zip(our_leaves, their_leaves, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=20 * tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("o", [o for o in MAPS if o.name not in SPELT and not o.bools], ids=lambda o: o.name)
def test_dtypes_of_integers_and_mixtures(o: Elementwise) -> None:
    """Integers, half-precision types and mixtures give PyTorch's dtype, or its class of error."""
    for first in ("int64", "int32", "uint8", "bool", "float16", "bfloat16"):
        if (o.name, first) == ("sign", "bool"):
            continue  # the one known difference: NumPy has no sign of bools
        for second in ("int64", "float32")[: len(o.inputs)] if len(o.inputs) == 2 else ("",):
            outcomes = []
            for lib in (core, torch):
                args = [lib.ones(2, dtype=getattr(lib, first))]
                args += [lib.ones(2, dtype=getattr(lib, second))] if second else []
                if len(o.inputs) > len(args):
                    continue
                try:
                    outcomes.append(str(call(o, lib, args).dtype).split(".")[-1])
                except (RuntimeError, TypeError, NotImplementedError) as e:
                    outcomes.append("error" if lib is torch else type(e).__name__)
            if outcomes and outcomes[-1] != "error":
                assert outcomes[0] == outcomes[1], (first, second, outcomes)
