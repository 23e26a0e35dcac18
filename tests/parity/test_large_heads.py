"""The adaptive softmax, the linear cross entropy and the last pools and norms against PyTorch."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402


def _filled(lib: Any, layer: Any) -> Any:
    rng = np.random.default_rng(0)
    layer = layer.double()
    for p in layer.parameters():
        p.data = lib.from_numpy(rng.uniform(-0.5, 0.5, tuple(p.shape)))
    return layer


def _same(theirs: list[Any], mine: list[Any]) -> None:
    assert len(theirs) == len(mine)
    for a, b in zip(theirs, mine, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)
        else:
            assert a == b


@pytest.mark.parametrize("targets", [[0, 3, 4, 9, 10, 19, 5], [1, 2, 0], [11, 12], 7, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax(targets: Any, bias: bool) -> None:
    found = []
    for lib in (torch, core):
        rng = np.random.default_rng(1)
        layer = _filled(lib, lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=bias))
        t = lib.tensor(targets)
        x = lib.from_numpy(rng.standard_normal((*tuple(t.shape), 8))).requires_grad_()
        output, loss = layer(x, t)
        (loss + (output * output).sum()).backward()
        grads = [x.grad, *(p.grad for p in layer.parameters())]
        more = lib.from_numpy(rng.standard_normal((9, 8)))
        found.append([repr(layer), list(layer.state_dict()), layer.cutoffs, layer.head_size, output.detach().numpy(),
                      loss.detach().numpy(), layer.log_prob(more).detach().numpy(), layer.predict(more).numpy(),
                      *(None if g is None else g.numpy() for g in grads)])  # fmt: skip
    _same(*found)


LINEAR = [
    ("8, 5", "(4,)", {}), ("8, 5, bias=True", "(4,)", {"weight": True}), ("8, 5, reduction='sum'", "(4,)", {}),
    ("8, 5, reduction='none', ignore_index=2", "(4,)", {}), ("8, 5, out_features=(2, 3), bias=True", "(4, 2, 3)", {}),
    ("8, 5, label_smoothing=0.2", "(4,)", {}), ("8, 5", "probabilities", {}),
    ("8, 5, options=O(batch_chunk_size=3)", "(4,)", {}),
    ("8, 5, bias=True, options=O()", "(4,)", {"weight": True}),
    ("8, 5, reduction='none', ignore_index=2, options=O(batch_chunk_size=1)", "(4,)", {}),
    ("8, 5, ignore_index=2, options=O(chunking_method='aspect_ratio')", "(4,)", {"weight": True}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "target", "more"), LINEAR)
def test_linear_cross_entropy(text: str, target: str, more: dict[str, bool]) -> None:
    found = []
    for lib in (torch, core):
        rng = np.random.default_rng(2)
        given = {"weight": lib.from_numpy(rng.uniform(0.5, 1.5, 5))} if more else {}
        names = {"nn": lib.nn, "O": lib.nn.LinearCrossEntropyOptions, "given": given}
        layer = _filled(lib, eval(f"nn.LinearCrossEntropyLoss({text}, **given)", names))
        x = lib.from_numpy(rng.standard_normal((4, 8))).requires_grad_()
        t = rng.dirichlet(np.ones(5), 4) if target == "probabilities" else rng.integers(0, 5, eval(target))
        loss = layer(x, lib.from_numpy(t))
        (loss * loss).sum().backward()
        said = repr(layer).replace("torch.", "core.")
        found.append([said, list(layer.state_dict()), loss.detach().numpy(), x.grad.numpy(),
                      *(p.grad.numpy() for p in layer.parameters())])  # fmt: skip
    _same(*found)


LAYERS = ["FractionalMaxPool2d(2, output_size=3, _random_samples=s)",
          "FractionalMaxPool2d((2, 3), output_ratio=(0.5, 0.4), return_indices=True, _random_samples=s)",
          "FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=s3)",
          "CrossMapLRN2d(3, 0.5, 0.75, 2.0)", "CrossMapLRN2d(4, 0.5)", "CrossMapLRN2d(1, 1.0)"]  # fmt: skip


@pytest.mark.parametrize("text", LAYERS)
def test_pools_and_norms(text: str) -> None:
    found = []
    for lib in (torch, core):
        rng = np.random.default_rng(3)
        names = {"nn": lib.nn, "s": lib.from_numpy(rng.random((2, 6, 2))), "s3": lib.from_numpy(rng.random((2, 6, 3)))}
        layer = eval("nn." + text, names)
        x = lib.from_numpy(rng.standard_normal((2, 6, 8, 8, 8) if "3d" in text else (2, 6, 8, 8))).requires_grad_()
        y = layer(x)
        outs = list(y) if isinstance(y, tuple) else [y]
        found.append([repr(layer), list(layer.state_dict()), *(o.detach().numpy() for o in outs)])
        if "Cross" not in text:  # PyTorch's gradient there is not that of its output; ours passes gradcheck
            (outs[0] * outs[0]).sum().backward()
            found[-1].append(x.grad.numpy())
        elif lib is core:
            assert core.autograd.gradcheck(layer, x)
    _same(*found)


BAD = """nn.AdaptiveLogSoftmaxWithLoss(8, 20, []) | nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 20])
A(t.ones(2, 8), t.tensor([1, 25])) | A(t.ones(2, 8), t.tensor([1, 2, 3]))
A(t.ones(2, 8), t.tensor(1)) | A(t.ones(2, 8), t.tensor([[1, 2]])) | A(t.ones(2, 7), t.tensor([1, 2]))
O(batch_chunk_size=0) | O(chunking_method="x") | O(chunking_method="aspect_ratio:a") | O(acc_policy="x")
L(t.ones(2, 7), t.tensor([1, 2])) | L(t.ones(2, 8), t.tensor([1, 2, 3]))
nn.LinearCrossEntropyLoss(8, 5, label_smoothing=2.0)
nn.LinearCrossEntropyLoss(8, 5, ignore_index=1)(t.ones(2, 8), t.rand(2, 5)) | nn.CrossMapLRN2d(3)(t.ones(4, 2, 2))
nn.FractionalMaxPool2d(2) | nn.FractionalMaxPool2d(2, output_size=3, output_ratio=0.5)
nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 2))""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("text", BAD)
def test_errors(text: str) -> None:
    said = []
    for lib in (torch, core):
        adaptive, linear = lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], 2.0), lib.nn.LinearCrossEntropyLoss(8, 5)
        names = {"nn": lib.nn, "t": lib, "O": lib.nn.LinearCrossEntropyOptions, "A": adaptive, "L": linear}
        with pytest.raises(Exception) as caught:  # noqa: PT011
            eval(text, names)
        said.append((caught.type, str(caught.value).replace("torch.", "core.")))
    assert said[1][0] is said[0][0]
    assert said[0][1].strip() in said[1][1]


def test_options_that_do_not_fit_are_said() -> None:
    for lib in (torch, core):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lib.nn.functional.linear_cross_entropy(lib.ones(4, 3), lib.ones(5, 3), lib.ones(4, 5),
                                                   options=lib.nn.LinearCrossEntropyOptions())  # fmt: skip
        assert len(caught) == 1
        assert "``options`` ignored; chunked path needs reduction in" in str(caught[0].message)


def test_signatures() -> None:
    for name in ("AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "CrossMapLRN2d",
                 "FractionalMaxPool2d", "FractionalMaxPool3d"):  # fmt: skip
        a, b = (inspect.signature(getattr(lib.nn, name)) for lib in (torch, core))
        assert [(p.name, p.default) for p in a.parameters.values()] == [
            (p.name, p.default) for p in b.parameters.values()
        ]
