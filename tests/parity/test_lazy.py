"""Lazy modules, and those for several devices, against PyTorch: keys, reprs, values, first weights, mistakes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

LAZY = {
    "linear": (lambda n: n.LazyLinear(3), (2, 4)),
    "linear without bias": (lambda n: n.LazyLinear(3, bias=False), (4,)),
    "conv1d": (lambda n: n.LazyConv1d(4, 3, stride=2), (2, 6, 8)),
    "conv2d": (lambda n: n.LazyConv2d(4, (3, 2), padding=1, groups=2), (2, 6, 8, 8)),
    "conv2d alone": (lambda n: n.LazyConv2d(4, 3, bias=False, padding_mode="reflect", padding=1), (6, 8, 8)),
    "conv3d": (lambda n: n.LazyConv3d(4, 2, dilation=2), (2, 3, 4, 4, 4)),
    "transposed1d": (lambda n: n.LazyConvTranspose1d(4, 3, 2, 1, 1), (2, 3, 5)),
    "transposed2d": (lambda n: n.LazyConvTranspose2d(4, 3, groups=2), (2, 6, 4, 4)),
    "transposed3d": (lambda n: n.LazyConvTranspose3d(4, 2, bias=False), (2, 3, 2, 2, 2)),
    "batchnorm1d": (lambda n: n.LazyBatchNorm1d(), (3, 4)),
    "batchnorm2d": (lambda n: n.LazyBatchNorm2d(eps=1e-3, momentum=None, bias=False), (3, 4, 2, 2)),
    "batchnorm3d": (lambda n: n.LazyBatchNorm3d(affine=False), (3, 4, 2, 2, 2)),
    "batchnorm bare": (lambda n: n.LazyBatchNorm2d(affine=False, track_running_stats=False), (3, 4, 2, 2)),
    "instance1d": (lambda n: n.LazyInstanceNorm1d(), (3, 4, 5)),
    "instance2d": (lambda n: n.LazyInstanceNorm2d(affine=True, track_running_stats=False), (3, 4, 3, 3)),
    "instance3d": (lambda n: n.LazyInstanceNorm3d(), (3, 4, 2, 2, 2)),
}


@pytest.mark.parametrize("case", LAZY)
def test_a_lazy_module(case: str) -> None:
    make, shape = LAZY[case]
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    found = []
    for lib in (core, torch):
        torch.manual_seed(0)
        core.manual_seed(0, kind="torch")
        m = make(lib.nn)
        before = [repr(m), list(m.state_dict()), [repr(p) for p in m.parameters()], type(m).__name__]
        if lib is core:
            for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
                assert repr(other) == repr(m)
                assert list(other.state_dict()) == list(m.state_dict())
        y = m(lib.tensor(x).requires_grad_())
        y.sum().backward()
        after = [repr(m), list(m.state_dict()), type(m).__name__, len(m._forward_pre_hooks), len(list(m.buffers()))]
        found.append((before, after, y.detach().numpy(), [t.numpy() for t in m.state_dict().values()]))
    core.manual_seed(0)
    assert found[0][:2] == found[1][:2]
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-4, atol=1e-5)
    for got, want in zip(found[0][3], found[1][3], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_loading_before_the_first_input() -> None:
    found = []
    for lib in (core, torch):
        lazy, ready = lib.nn.LazyLinear(3), lib.nn.Linear(4, 3)
        said = [repr(lazy.load_state_dict(ready.state_dict())), repr(lazy), tuple(lazy.weight.shape)]
        y = lazy(lib.ones(1, 4))
        np.testing.assert_array_equal(y.detach().numpy(), ready(lib.ones(1, 4)).detach().numpy())
        said += [repr(lazy), repr(lib.nn.LazyLinear(3).load_state_dict(lib.nn.LazyLinear(3).state_dict()))]
        conv = lib.nn.LazyBatchNorm1d()
        conv.load_state_dict(lib.nn.BatchNorm1d(4).state_dict())
        found.append([*said, repr(conv), tuple(conv.running_mean.shape)])
    assert found[0] == found[1]


def _mistakes(lib: Any) -> list[Any]:
    nn, ones = lib.nn, lib.ones
    mixin = nn.modules.lazy.LazyModuleMixin

    def unwritten(self: Any) -> None:
        nn.Module.__init__(self)

    own = type("Own", (mixin, nn.Module), {"forward": lambda self, x: x})
    half = type("Half", (own,), {"initialize_parameters": lambda self, x: None})

    def with_parameter(cls: Any) -> Any:
        m = cls()
        m.w = nn.UninitializedParameter()
        return m

    return [
        lambda: nn.LazyLinear(3).weight.shape,
        lambda: nn.LazyLinear(3).weight + 1,
        lambda: ones(3) * nn.LazyLinear(3).bias,
        lambda: nn.init.ones_(nn.LazyLinear(3).weight),
        lambda: nn.Linear(4, 3).load_state_dict(nn.LazyLinear(3).state_dict()),
        lambda: nn.LazyConv2d(4, 3)(ones(8, 8)),
        lambda: nn.LazyConv2d(4, 3, groups=2)(ones(1, 3, 8, 8)),
        lambda: with_parameter(own)(ones(2)),
        lambda: with_parameter(half)(ones(2)),
        lambda: nn.SyncBatchNorm(3)(ones(3)),
        lambda: nn.LazyLinear(3).share_memory(),
        lambda: nn.factory_kwargs({"a": 1}),
        lambda: nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"device": "cpu"}}),
    ]


def outcome(f: Any) -> tuple[str, str]:
    try:
        f()
    except Exception as e:
        return type(e).__name__, str(e).replace("torch.", "core.")[:40]
    return "fine", ""


def test_mistakes_end_alike() -> None:
    for i, (mine, theirs) in enumerate(zip(_mistakes(core), _mistakes(torch), strict=True)):
        assert outcome(mine) == outcome(theirs), i


def test_for_several_devices() -> None:
    found = []
    for lib in (core, torch):
        n = lib.nn
        model = n.Sequential(n.Conv2d(1, 2, 1), n.BatchNorm2d(2), n.Sequential(n.BatchNorm1d(2, affine=False)))
        keys, norm = list(model.state_dict()), model[1].weight
        model = n.SyncBatchNorm.convert_sync_batchnorm(model)
        assert model[1].weight is norm
        parallel = n.DataParallel(n.Linear(2, 1))
        found.append([keys, list(model.state_dict()), repr(model), repr(parallel), list(parallel.state_dict()),
                      tuple(parallel(lib.ones(3, 2)).shape), parallel.device_ids])  # fmt: skip
    assert found[0] == found[1]
