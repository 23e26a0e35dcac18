"""Forty architectures made smaller: they run, and give what zeros in place of what is gone give; or are refused."""

from __future__ import annotations

import copy

import pytest

import core
from core import nn
from core.nn.utils import shrink
from core.utils._pytree import tree_leaves

from .sequences import CASES

REFUSED = {
    "hypernetwork": r"reshape\(8, 6\)\) cannot follow",
    "sorted_features": r"the order along it counts for sort at sequences.py line \d+",
}
NAMES = [name for name in CASES if name not in REFUSED]
NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


def made(name):
    core.manual_seed(0)
    model, args = CASES[name]()
    for p in model.parameters():  # biases and norms that are not all alike
        if p.ndim == 1:
            p.data = core.rand_like(p) + 0.5
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith(("running_mean", "running_var")):
            buffer.copy_(core.rand_like(buffer) + 0.5)
    return model.eval(), args


def results(model, args):
    return [x for x in tree_leaves(model(*args)) if isinstance(x, core.Tensor)]


def norms(model):
    """Layers over whose channels an average is taken: without some of them it is another."""
    return [n for n, m in model.named_modules() if isinstance(m, NORMS) or type(m).__name__ == "RMSNorm"]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_shapes_and_sizes(name):
    model, args = made(name)
    before = [x.shape for x in results(model, args)]
    plan = shrink.plan(model, args, amount=0.5)
    assert plan.parameters_after < 0.85 * plan.parameters
    plan.apply()
    assert sum(p.numel() for p in model.parameters()) == plan.parameters_after
    assert [x.shape for x in results(model, args)] == before
    for m in model.modules():
        if isinstance(m, nn.Linear):
            assert m.weight.shape == (m.out_features, m.in_features)
        if isinstance(m, nn.Conv2d):
            assert m.weight.shape[:2] == (m.out_channels, m.in_channels // m.groups)
        if isinstance(m, nn.MultiheadAttention):
            assert m.head_dim * m.num_heads == m.embed_dim == m.out_proj.weight.shape[1]
    model.train()
    sum(x.float().sum() for x in results(model, args)).backward()
    assert all(p.grad is None or p.grad.shape == p.shape for p in model.parameters())
    copied = copy.deepcopy(model)
    copied.load_state_dict(model.state_dict())


@pytest.mark.parametrize("name", [n for n in NAMES if n != "gan_critic"])  # its weight norm divides by a row's norm
def test_what_zeros_give(name):
    model, args = made(name)
    plan = shrink.plan(model, args, amount=0.5)
    if not plan.exact:
        plan = shrink.plan(model, args, amount=0.5, keep=norms(model))
    assert plan.exact
    whole = results(model, args)
    plan.zero()
    zeros = results(model, args)
    plan.apply()
    less = results(model, args)
    assert any(not core.allclose(a, b) for a, b in zip(whole, zeros, strict=True)), "nothing that counts was removed"
    for a, b in zip(zeros, less, strict=True):
        assert float((a - b).abs().max()) <= 1e-5 * max(1.0, float(a.abs().max()))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    model, args = made(name)
    before = {n: p.shape for n, p in model.named_parameters()}
    with pytest.raises(shrink.ShrinkError, match="nothing can be removed") as refused:
        shrink.shrink(model, args)
    refused.match(REFUSED[name])
    assert {n: p.shape for n, p in model.named_parameters()} == before


@pytest.mark.parametrize("options", [
    {"amount": 0.25}, {"amount": 0.75}, {"globally": True}, {"heads": False}, {"round_to": 4}, {"by": "random"},
    {"globally": True, "by": "random", "amount": 0.3}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ["resnext", "mobilenet_v2", "shufflenet", "gpt", "bert", "transformer", "unet", "vit",
                                  "llama", "gru_seq2seq", "efficientnet"])  # fmt: skip
def test_other_shares(name, options):
    model, args = made(name)
    before = [x.shape for x in results(model, args)]
    plan = shrink.shrink(model, args, **options)
    assert [x.shape for x in results(model, args)] == before
    assert plan.parameters_after < plan.parameters
