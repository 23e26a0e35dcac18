"""On cuda an index or a class out of range is the CPU's error, found without a wait; repeated places are in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import backends
from core.nn import functional as F
from tests import fake_gpu


class Unread(np.ndarray):
    """An array that the host must not look into: on a GPU that would be a wait."""

    def _looked(self, *_: Any) -> Any:
        raise AssertionError("the host read a value of the device")

    __bool__ = __int__ = __index__ = __float__ = item = tolist = any = all = min = max = _looked  # type: ignore


def test_a_class_out_of_range() -> None:
    x = core.randn(4, 5).cuda()
    for where in (core.tensor([0, 1, 5, 2]), core.tensor([0, -3, 1, 2])):
        bad = 5 if int(where.max()) == 5 else -3
        for function in (F.cross_entropy, F.nll_loss):
            for device in ("cpu", "cuda"):
                with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
                    function(x.to(device), where.to(device))
    assert F.cross_entropy(x, core.tensor([0, 1, 4, -100]).cuda()).isfinite()  # told once, and not again


def test_the_host_does_not_look_at_the_targets(rng: np.random.Generator) -> None:
    x, target = rng.standard_normal((6, 5)).astype("f").view(Unread), rng.integers(0, 5, 6).view(Unread)
    weight, g = rng.uniform(1, 2, 5).astype("f").view(Unread), np.ones(6, "f").view(Unread)
    params = {"ignore_index": -100, "label_smoothing": 0.1}
    losses, lse = backends.rows("cross_entropy", "cuda")[0].run(x, target, weight, **params)
    backends.rows("cross_entropy.backward", "cuda")[0].run(g, x, target, weight, lse, **params)
    backends.rows("nll_loss", "cuda")[0].run(x, target, weight, -100)
    backends.rows("class_weight", "cuda")[0].run(target, weight, -100)
    assert losses.shape == (6,)
    with pytest.raises(AssertionError, match="the host read"):
        (target >= 0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 7)])
def test_classes_in_the_middle_are_those_of_the_cpu(shape: tuple[int, ...], smoothing: float) -> None:
    core.manual_seed(0)
    x, weight = core.randn(*shape), core.rand(3) + 0.5
    target = core.randint(0, 3, (shape[0], *shape[2:]))
    found = []
    for device in ("cpu", "cuda"):
        leaf = x.detach().to(device).requires_grad_()
        loss = F.cross_entropy(leaf, target.to(device), weight.to(device), label_smoothing=smoothing)
        loss.backward()
        found.append((loss.item(), leaf.grad.cpu().numpy()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [core.float32, core.bfloat16])
def test_the_mean_is_over_the_rows_that_count(dtype: Any) -> None:
    target = core.tensor([0, -100] * 1031)  # 1031 is no bfloat16
    losses = [
        F.cross_entropy(core.ones(2062, 3, dtype=dtype, device=where), target.to(where)) for where in ("cpu", "cuda")
    ]
    assert losses[1].dtype is dtype
    assert losses[0].item() == losses[1].item()


def test_an_index_out_of_range(rng: np.random.Generator) -> None:
    """As the kernels tell it, where the host does not look first."""
    x, bad = rng.random((3, 4)).astype("f"), np.array([[0, 3]])
    for name, arrays, params, error, phrase in [
        ("embedding", (x, bad), {"padding_idx": -1}, IndexError, "index out of range in self"),
        ("gather", (x, bad), {"dim": 0}, RuntimeError, "index 3 is out of bounds for dimension 0 with size 3"),
        ("index", (x, bad[0]), {"where": (True,)}, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        ("index", (x, bad[0] - 6, bad[0]), {"where": (True, True)}, IndexError, "index -6 is out of bounds"),
        ("scatter_add", (x, bad, x), {"dim": 0}, RuntimeError, "index 3 is out of bounds"),
        ("one_hot_rows", (bad,), {"classes": 3}, RuntimeError, "Class values must be smaller than num_classes"),
    ]:
        row = backends.rows(name, "cuda")[0]
        assert row.declines(*arrays, **params, **({"scale_grad_by_freq": False} if name == "embedding" else {})) is None
        with pytest.raises(error, match=phrase):
            row.run(*arrays, **params)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0"):
        core.ones(3).cuda()[core.tensor([0, 3]).cuda()]


@pytest.mark.parametrize(
    "key", [(slice(None), [3, 0, 3]), ([0, 2, 0], [1, 1, -3]), ([0, 2, 0], slice(None), [1, 0, -1])]
)
def test_written_in_order(key: Any) -> None:
    """The last value of equal places stays, in place, in a copy and by `scatter`; NumPy says which."""
    want = np.zeros((3, 4, 2), np.float32)
    values = np.arange(want[key].size, dtype="f").reshape(want[key].shape)
    want[key] = values
    x = core.zeros(3, 4, 2).cuda()
    x[key] = core.tensor(values).cuda()
    assert np.array_equal(x.cpu().numpy(), want)
    leaf = core.zeros(3, 4, 2, device="cuda", requires_grad=True)
    y = leaf * 1.0
    y[key] = core.tensor(values).cuda()
    assert np.array_equal(y.detach().cpu().numpy(), want)
    y.sum().backward()
    assert float(leaf.grad.sum()) == 24 - np.count_nonzero(np.isin(np.arange(24), _places(key)))
    x[key] = 7.0
    want[key] = 7
    assert np.array_equal(x.cpu().numpy(), want)


def _places(key: Any) -> Any:
    return np.arange(24).reshape(3, 4, 2)[key].reshape(-1)


def test_told_where_the_host_waits() -> None:
    """On a GPU, here one that is none: launches raise nothing, `.item()`, `.cpu()` and synchronize() do, once."""
    told = fake_gpu.run("""
        import json, core
        from core.backends.cuda import faults
        from core.nn import functional as F
        from triton_kernels import notes
        weight = core.ones(7, 4, device="cuda", requires_grad=True)
        index = core.tensor([1, 2, 3]).cuda()
        loss = F.cross_entropy(F.embedding(index, weight), index)
        loss.backward()
        x = core.zeros(7, 4, device="cuda")
        x[index] = x[index + 1]
        told = []
        for look in (loss.item, weight.grad.cpu, core.cuda.synchronize, lambda: bool(loss), loss.item):
            if len(told) < 4:
                notes._notes[0][0][faults.target_slot("cross_entropy", 4)] = 10  # as the kernel notes the class 9
            F.cross_entropy(F.embedding(index, weight), index)
            try:
                look()
                told.append(None)
            except IndexError as error:
                told.append([str(error).splitlines()[0], *error.__notes__])
        print(json.dumps(told))
    """)
    assert [t and t[0] for t in told] == ["Target 9 is out of bounds."] * 4 + [None]
    assert "CUDA_LAUNCH_BLOCKING=1" in told[0][1]
