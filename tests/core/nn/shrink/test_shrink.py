"""`core.nn.utils.shrink`: what is chosen, what is kept, what follows."""

from __future__ import annotations

import itertools

import pytest

import core
from core import nn
from core.nn import functional as F
from core.nn.utils import prune, shrink

from .sequences import GPT, Config


def net():
    core.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3))


def test_the_smallest_are_removed():
    model = net()
    with core.no_grad():
        model[0].weight[3:11] *= 1e-3
    plan = shrink.plan(model, core.ones(1, 4), amount={"0": 0.5})
    assert plan.keep["0.weight"][0].tolist() == [0, 1, 2, 11, 12, 13, 14, 15]
    assert plan.keep["2.weight"][1].tolist() == [0, 1, 2, 11, 12, 13, 14, 15]
    assert "4.weight" not in plan.keep


def test_taylor_takes_the_gradients_that_are_there():
    model, x = net(), core.randn(5, 4)
    with pytest.raises(RuntimeError, match="needs a gradient"):
        shrink.plan(model, x, by="taylor")
    model(x).sum().backward()
    with core.no_grad():
        keep = [0, 5, 7]
        gone = [i for i in range(12) if i not in keep]
        model[4].weight.grad[:, gone] = 0
        for p in (model[2].weight, model[2].bias):
            p.grad[gone] = 0
    assert shrink.plan(model, x, amount={"2": 0.75}, by="taylor").keep["2.weight"][0].tolist() == keep


def test_movement_and_scores_by_name():
    model, x = net(), core.randn(5, 4)
    movement = shrink.Movement(model)
    for _ in range(3):
        model.zero_grad()
        model(x).square().sum().backward()
        movement.update()
    plan = shrink.plan(model, x, amount=0.5, by=movement)
    assert {name: [len(i) for i in keep.values()] for name, keep in plan.keep.items()} == {
        "0.weight": [8],
        "0.bias": [8],
        "2.weight": [6, 8],
        "2.bias": [6],
        "4.weight": [6],
    }
    scores = {"0.weight": core.arange(16.0)[:, None].expand(16, 4)}
    assert shrink.plan(model, x, amount=0.5, by=scores).keep["0.bias"][0].tolist() == list(range(8, 16))
    by_function = shrink.plan(model, x, amount=0.5, by=lambda name, p: scores.get(name))
    assert by_function.keep["0.bias"][0].tolist() == list(range(8, 16))


def test_globally_some_layers_lose_more():
    model = net()
    with core.no_grad():
        model[0].weight[:12] *= 1e-4
        model[0].bias[:12] *= 1e-4
        model[2].weight[:, :12] *= 1e-4
    plan = shrink.plan(model, core.ones(1, 4), amount=12 / 28, globally=True)
    assert [g.keep for g in plan.groups] == [4, 12]


def test_multiples_and_kept_layers():
    model = net()
    plan = shrink.plan(model, core.ones(1, 4), amount=0.4, round_to=8)
    assert [g.keep for g in plan.groups] == [16, 8]
    with pytest.raises(shrink.ShrinkError, match="to be kept as it is"):
        shrink.plan(model, core.ones(1, 4), keep=["2"])


def test_a_kept_layer_keeps_its_shape():
    model = net()
    model.append(nn.Linear(3, 8)).append(nn.Linear(8, 1))
    plan = shrink.shrink(model, core.ones(1, 4), keep=[model[2]])
    assert model[2].weight.shape == (12, 16)
    assert model[5].weight.shape == (4, 1 + 1)
    assert ("2.weight axis 0", "to be kept as it is") in plan.kept


def test_optimizers_follow():
    model, x = net(), core.randn(8, 4)
    optimizers = [core.optim.AdamW(model[:3].parameters()), core.optim.SGD(model[3:].parameters(), 0.1, momentum=0.9)]

    def step():
        for o in optimizers:
            o.zero_grad()
        model(x).square().sum().backward()
        for o in optimizers:
            o.step()

    step()
    before = optimizers[0].state[model[0].weight]["exp_avg"].clone()
    parameters = list(model.parameters())
    plan = shrink.shrink(model, x, optimizer=optimizers)
    after = optimizers[0].state[model[0].weight]["exp_avg"]
    assert core.equal(after, before[plan.keep["0.weight"][0].tolist()])
    assert optimizers[1].state[model[4].weight]["momentum_buffer"].shape == model[4].weight.shape == (3, 6)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert model[0].weight.grad.shape == model[0].weight.shape
    step()


def test_tied_weights_stay_tied():
    model = GPT(Config())
    shrink.shrink(model, core.randint(0, 20, (2, 8)))
    assert model.wte.weight is model.lm_head.weight
    assert model.wte.weight.shape == (20, 16)
    assert (model.wte.embedding_dim, model.lm_head.in_features) == (16, 16)
    assert [b.attn.n_head for b in model.h] == [2, 2]
    assert model.h[0].attn.n_embd == 16


def test_nothing_is_changed_by_a_plan():
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Dropout(), nn.Flatten(), nn.Linear(8 * 4, 2))
    x = core.randn(2, 1, 4, 4)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    core.manual_seed(3)
    drawn = core.rand(3)
    core.manual_seed(3)
    plan = shrink.plan(model, x)
    assert core.equal(core.rand(3), drawn)
    assert all(core.equal(v, state[k]) for k, v in model.state_dict().items())
    assert type(model[0].groups) is int
    assert type(model[1].num_features) is int
    plan.apply()
    with pytest.raises(shrink.ShrinkError, match="applied already"):
        plan.apply()


class Literal(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)
        self.other, self.end = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        heads = self.first(x).view(-1, 2, 4).transpose(1, 2)
        return self.last(heads.reshape(-1, 8)) + self.end(F.relu(self.other(x)))


def test_a_number_in_the_source_stays_and_says_where():
    model = Literal()
    plan = shrink.shrink(model, core.randn(3, 4))
    assert model.first.weight.shape == (8, 4)
    assert model.other.weight.shape == (4, 4)
    said = str(plan)
    assert "would not go with a number in view at test_shrink.py line" in said
    assert "view(-1, 2, 4)" in said


class ByData(nn.Module):
    """Control flow of Python, a call of NumPy, an op in place, an early exit."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 2)
        self.steps = 3

    def forward(self, x):
        x = self.first(x)
        for _ in range(self.steps):
            if x.abs().max() > 100:
                break
            x = x.clone()
            x += self.middle(x)
            x[:, :] = F.relu(x)
        return self.last(x)


def test_python_decides():
    model = ByData()
    plan = shrink.plan(model, core.randn(3, 4))
    plan.zero()
    x = core.randn(5, 4)
    before = model(x)
    plan.apply()
    assert model.first.weight.shape == (8, 4)
    assert model.middle.weight.shape == (8, 8)
    assert model.steps == 3
    assert core.allclose(model(x), before, atol=1e-6)


def test_values_that_leave_for_numpy_stay():
    class Leaves(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            x = self.first(x)
            return self.last(core.from_numpy(x.detach().numpy() * 2))

    with pytest.raises(shrink.ShrinkError, match="reads it in Python"):
        shrink.shrink(Leaves(), core.ones(2, 4))


def test_masks_of_prune_go_along():
    model = net()
    prune.l1_unstructured(model[0], "weight", 0.5)
    shrink.shrink(model, core.ones(1, 4))
    assert model[0].weight_mask.shape == model[0].weight_orig.shape == (8, 4)
    assert model(core.ones(2, 4)).shape == (2, 3)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="amount is a share"):
        shrink.plan(net(), core.ones(1, 4), amount=1.0)
    with pytest.raises(ValueError, match="no way to score"):
        shrink.plan(net(), core.ones(1, 4), by="importance")
    with pytest.raises(ValueError, match="no layer 'head'"):
        shrink.plan(net(), core.ones(1, 4), keep=["head"])


# -- patterns and schedules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 3, 3)])
def test_two_in_four(shape):
    layer = nn.Linear(8, 6) if len(shape) == 2 else nn.Conv2d(8, 6, 3)
    shrink.pattern_structured(layer, "weight")
    rows = layer.weight_mask.transpose(1, -1).reshape(-1, 4)
    assert (rows.sum(1) == 2).all()
    kept = (layer.weight_orig.abs() * layer.weight_mask).transpose(1, -1).reshape(-1, 4)
    cut = (layer.weight_orig.abs() * (1 - layer.weight_mask)).transpose(1, -1).reshape(-1, 4)
    assert (kept.topk(2).values[:, 1] >= cut.max(1).values).all()
    prune.remove(layer, "weight")
    assert (layer.weight == 0).float().mean() == 0.5


def test_a_pattern_that_does_not_fit():
    with pytest.raises(ValueError, match="2 in 4 does not fit"):
        shrink.pattern_structured(nn.Linear(6, 3), "weight")


@pytest.mark.parametrize("by", ["magnitude", "movement"])
def test_gradual_pruning(by):
    model, x = net(), core.randn(16, 4)
    weights = [(m, "weight") for m in model if isinstance(m, nn.Linear)]
    schedule = shrink.GradualPruning(weights, 0.6, begin=2, end=8, every=2, by=by)
    optimizer = core.optim.SGD(model.parameters(), 0.05)
    shares, masks = [], []
    for _ in range(10):
        optimizer.zero_grad()
        (model(x) - 1).square().mean().backward()
        optimizer.step()
        schedule.step()
        masks.append(core.cat([m.weight_mask.reshape(-1).clone() for m, _ in weights]))
        shares.append(1 - float(masks[-1].mean()))
    assert all((b <= a).all() for a, b in itertools.pairwise(masks)), "what was cut came back"
    assert shares[:3] == [0, 0, 0]
    assert shares[9] == pytest.approx(0.6, abs=0.01)
    assert shares[4] > 0.3
    schedule.remove()
    assert not prune.is_pruned(model)


def test_gradual_shrink_in_training():
    model, x = net(), core.randn(16, 4)
    optimizer = core.optim.Adam(model.parameters())
    schedule = shrink.GradualShrink(model, x, 0.5, begin=1, end=7, times=3, optimizer=optimizer, by="taylor")
    plans = []
    for _ in range(10):
        optimizer.zero_grad()
        (model(x) - 1).square().mean().backward()
        optimizer.step()
        plans.append(schedule.step())
    assert [k for k, p in enumerate(plans) if p is not None] == [3, 5, 7]
    assert [m.weight.shape[0] for m in model if isinstance(m, nn.Linear)][:2] == [8, 6]
    assert optimizer.state[model[0].weight]["exp_avg"].shape == model[0].weight.shape


# -- what is found out by the trial, or marked as not exact ------------------------------------------------------------


class WrittenMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        return self.last(x - x.sum(-1, keepdim=True) / x.shape[-1])


def test_a_mean_that_is_written_out_is_not_as_with_zeros():
    plan = shrink.plan(WrittenMean(), core.randn(3, 4))
    assert not plan.exact
    assert "not as with zeros: true_divide at test_shrink.py line" in plan.groups[0].note


def test_the_scale_of_attention_by_head_size_is_not_as_with_zeros():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads, self.size = 2, 6
            self.q, self.k, self.v, self.o = nn.Linear(4, 12), nn.Linear(4, 12), nn.Linear(4, 12), nn.Linear(12, 3)

        def forward(self, x):
            b, t = x.shape[:2]
            q, k, v = (f(x).view(b, t, self.heads, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
            share = (q @ k.transpose(2, 3) / self.size**0.5).softmax(-1)
            return self.o((share @ v).transpose(1, 2).reshape(b, t, -1))

    model, x = Attention(), core.randn(2, 5, 4)
    assert shrink.plan(model, x).exact  # whole heads
    plan = shrink.shrink(model, x, heads=False)
    assert not plan.exact
    assert (model.heads, model.size, model.o.in_features) == (2, 3, 6)


def test_noise_and_zeros_follow_what_they_are_added_to():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            x = self.first(x)
            x = x + core.randn_like(x) + core.zeros_like(x)
            return self.last(core.maximum(x, x.new_zeros(x.shape)))

    model = Noisy()
    shrink.shrink(model, core.randn(3, 4))
    assert model.first.weight.shape == (4, 4)


def test_a_channel_dropout_in_training():
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.Dropout2d(0.5), nn.BatchNorm2d(8), nn.Conv2d(8, 3, 3)).train()
    shrink.shrink(model, core.randn(2, 2, 8, 8))
    assert model[0].out_channels == model[2].num_features == model[3].in_channels == 4
    model(core.randn(2, 2, 8, 8)).sum().backward()


def test_an_op_nobody_follows_is_named():
    class Fourier(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.last(core.fft.fft(self.first(x)).real)

    with pytest.raises(shrink.ShrinkError, match=r"fft\w* at test_shrink.py line \d+ .* is not followed"):
        shrink.shrink(Fourier(), core.randn(3, 4))


def test_standardised_weights_are_not_as_with_zeros():
    class StdConv(nn.Conv2d):
        def forward(self, x):
            w = F.batch_norm(self.weight.reshape(1, self.out_channels, -1), None, None, training=True)
            return F.conv2d(x, w.reshape_as(self.weight), self.bias)

    model = nn.Sequential(StdConv(2, 8, 3), nn.ReLU(), StdConv(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 3, 1))
    plan = shrink.shrink(model, core.randn(2, 2, 6, 6))
    assert [g.exact for g in plan.groups] == [False, True]
    assert model[2].weight.shape == (4, 4, 3, 3)
