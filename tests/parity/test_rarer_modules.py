"""The rarer layers and losses against PyTorch: repr, keys, outputs and gradients in evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

LAYERS = (
    """
SELU() | SELU(True) | CELU(2.0) | Hardsigmoid() | Hardswish() | Mish() | Threshold(0.1, 2)
RReLU() | PReLU() | PReLU(3)
Softsign() | Tanhshrink() | Softshrink(0.3) | Hardshrink() | GLU(-1) | Softmin(1)
Softmax2d() | Dropout2d(0.3)
Dropout3d() | AlphaDropout() | FeatureAlphaDropout() | LocalResponseNorm(2) | LocalResponseNorm(3, 0.1, 0.5, 2.0)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)

LOSSES = [
    ("MarginRankingLoss(0.3)", "a b s"), ("HingeEmbeddingLoss()", "a s"), ("CosineEmbeddingLoss(0.1)", "m n s"),
    ("SoftMarginLoss(reduction='sum')", "a s"), ("MultiLabelMarginLoss()", "m labels"),
    ("MultiLabelSoftMarginLoss()", "m bits"), ("MultiMarginLoss(2, 0.7)", "m k"),
    ("TripletMarginLoss(swap=True)", "m n o"),
    ("TripletMarginWithDistanceLoss(margin=0.5)", "m n o"), ("PoissonNLLLoss()", "a p"),
    ("GaussianNLLLoss(full=True)", "a b p"), ("PairwiseDistance()", "m n"), ("CosineSimilarity()", "m n"),
    ("CTCLoss(zero_infinity=True)", "logs targets steps lengths"),
]  # fmt: skip


def _same(theirs: list[Any], mine: list[Any]) -> None:
    assert len(theirs) == len(mine)
    for a, b in zip(theirs, mine, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9)
        else:
            assert a == b


@pytest.mark.parametrize("text", LAYERS)
def test_layers(text: str) -> None:
    found = []
    for lib in (torch, core):
        layer = eval("nn." + text, {"nn": lib.nn}).double().eval()
        x = lib.tensor(np.random.default_rng(0).uniform(-2, 2, (2, 3, 4, 4))).requires_grad_()
        y = layer(x * 1.0)
        (y * y).sum().backward()
        found.append([repr(layer), *layer.state_dict(), y.detach().numpy(), x.grad.numpy()])
    _same(*found)


@pytest.mark.parametrize(("text", "names"), LOSSES)
def test_losses(text: str, names: str) -> None:
    found = []
    for lib in (torch, core):
        rng = np.random.default_rng(0)
        t = lib.tensor
        have = {n: t(rng.uniform(-1, 1, (4,))).requires_grad_() for n in "ab"}
        have |= {n: t(rng.uniform(-1, 1, (4, 3))).requires_grad_() for n in "mno"}
        have |= {"s": t(np.array([1.0, -1, -1, 1])), "p": t(rng.uniform(0.5, 2, 4)), "k": t(np.array([0, 2, 1, 1])),
                 "bits": t(np.array([[1.0, 0, 1]] * 4)),
                 "labels": t(np.array([[0, -1, 1], [2, 1, -1], [0, 1, 2], [-1, 0, 1]])),
                 "targets": t(np.array([[1, 2], [2, 2]])), "steps": t(np.array([5, 4])),
                 "lengths": t(np.array([2, 1]))}  # fmt: skip
        logs = t(rng.uniform(-1, 1, (5, 2, 3))).requires_grad_()
        have["logs"] = logs.log_softmax(-1)
        loss = eval("nn." + text, {"nn": lib.nn})
        y = loss(*(have[n] for n in names.split()))
        y.sum().backward()
        used = [have[n] for n in names.split() if n in "abmno"] or [logs]
        found.append([repr(loss), y.detach().numpy(), *(v.grad.numpy() for v in used)])
    _same(*found)


@pytest.mark.parametrize("text", [
    "MultiheadAttention(6, 2)", "MultiheadAttention(6, 3, bias=False, add_zero_attn=True)",
    "MultiheadAttention(6, 2, batch_first=True, add_bias_kv=True)", "EmbeddingBag(7, 3)",
    "EmbeddingBag(7, 3, mode='sum', padding_idx=1, max_norm=1.0)", "EmbeddingBag(7, 3, mode='max')",
])  # fmt: skip
def test_layers_with_weights(text: str) -> None:
    found = []
    for lib in (torch, core):
        lib.manual_seed(3, **({"kind": "torch"} if lib is core else {}))
        layer = eval("nn." + text, {"nn": lib.nn})
        rng = np.random.default_rng(0)
        shown = repr(layer).replace("NonDynamicallyQuantizableLinear", "Linear")
        rows: list[Any] = [shown, *layer.state_dict(), *(v.numpy().copy() for v in layer.state_dict().values())]
        if "Bag" in text:
            y = layer(lib.tensor(np.array([1, 2, 4, 5, 4, 3])), lib.tensor(np.array([0, 2])))
        else:
            x = lib.tensor(rng.uniform(-1, 1, (3, 2, 6)).astype("float32"))
            y = layer(x, x, x)[0]
        (y * y).sum().backward()
        rows += [y.detach().numpy(), *(p.grad.numpy() for p in layer.parameters())]
        found.append(rows)
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
        else:
            assert a == b
