"""autocast: what it casts and when, its cache, threads, custom functions. tests/parity holds the table to PyTorch's."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading

import numpy as np
import pytest

import core
from core.backends import half, half_products
from core.dispatch import autocast
from core.events import observe

F = core.nn.functional


class Casts(observe.Observer):
    """How many casts ran, by dtype of their result."""

    def __init__(self) -> None:
        self.to: list[str] = []

    def op(self, event: observe.OpEvent) -> None:
        if event.declared is not None and event.declared.name == "cast" and event.phase == "forward":
            self.to.append(event.outputs[0].dtype.name)


@pytest.fixture(autouse=True)
def off_afterwards():
    yield
    assert not autocast.state.on
    assert not autocast._count
    assert not autocast.state.cache
    assert not autocast.state.inside


def test_blocks_nest_and_end():
    x = core.ones(2, 2)
    with core.autocast("cpu"):
        assert (x @ x).dtype is core.bfloat16
        with core.autocast("cpu", dtype=core.float16):
            assert (x @ x).dtype is core.float16
            with core.autocast("cpu", enabled=False):
                assert (x @ x).dtype is core.float32
                assert not core.is_autocast_enabled("cpu")
        assert (x @ x).dtype is core.bfloat16
        assert core.is_autocast_enabled("cpu")
        assert not core.is_autocast_enabled("cuda")
    assert (x @ x).dtype is core.float32
    with pytest.raises(ZeroDivisionError), core.autocast("cpu"):
        raise ZeroDivisionError
    assert not core.is_autocast_enabled("cpu")


def test_a_decorated_function_in_two_threads_at_once():
    meet = threading.Barrier(2)

    @core.autocast("cpu")
    def product(x):
        meet.wait()
        return (x @ x).dtype

    found = []
    threads = [threading.Thread(target=lambda: found.append(product(core.ones(2, 2)))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [core.bfloat16] * 2
    assert product.__name__ == "product"


def test_another_thread_is_not_cast():
    x, found = core.ones(2, 2), []
    with core.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [core.float32]


def test_functions_methods_operators_and_out():
    x, out = core.ones(2, 2), core.zeros(2, 2)
    with core.autocast("cpu"):
        for y in (
            x @ x,
            x.matmul(x),
            core.matmul(x, x),
            core.mm(input=x, mat2=x),
            F.linear(x, weight=x),
            x.__matmul__(x),
        ):
            assert y.dtype is core.bfloat16
        assert core.matmul(x.double(), x.double()).dtype is core.float64
        assert core.matmul(x.long(), x.long()).dtype is core.int64
        core.mm(x, x, out=out)
        assert (x + x).dtype is core.float32
        assert (x.bfloat16() + x).dtype is core.float32
        assert F.cross_entropy(x.bfloat16(), core.tensor([0, 1])).dtype is core.float32
        assert core.cat([x, x.bfloat16()]).dtype is core.float32
        y = x.bfloat16()
        y += x
        assert y.dtype is core.bfloat16
    assert out.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_faces_are_the_functions_they_show():
    linear = F.linear
    assert linear.__name__ == "linear"
    assert list(inspect.signature(linear).parameters) == ["input", "weight", "bias"]
    assert pickle.loads(pickle.dumps(linear)) is linear
    assert copy.deepcopy(linear) is linear
    assert "the layer of a network" in inspect.getdoc(linear)
    assert core.exp.op.name == "exp"


def test_gradients_arrive_in_the_parameters_type():
    core.manual_seed(0)
    model = core.nn.Sequential(core.nn.Linear(4, 8), core.nn.LayerNorm(8), core.nn.GELU(), core.nn.Linear(8, 2))
    x = core.randn(5, 4, requires_grad=True)
    with core.autocast("cpu"):
        y = model(x)
        loss = F.mse_loss(y, core.ones(5, 2))
    assert (y.dtype, loss.dtype) == (core.bfloat16, core.float32)
    loss.backward()
    half = [p.grad for p in model.parameters()]
    assert {g.dtype for g in (*half, x.grad)} == {core.float32}
    model.zero_grad()
    F.mse_loss(model(x), core.ones(5, 2)).backward()
    for p, g in zip(model.parameters(), half, strict=True):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), atol=0.02 * float(p.grad.abs().max()) + 1e-3)


def test_weights_are_cast_once_a_block():
    layer, x = core.nn.Linear(3, 3), core.ones(2, 3)

    def casts(**settings) -> int:
        with observe.observing(Casts()) as seen, core.autocast("cpu", **settings):
            y = layer(layer(layer(x)))
            with core.autocast("cpu", **settings):
                layer(y)
        return seen.to.count("bfloat16")

    assert casts() == 3  # weight, bias and x
    assert casts(cache_enabled=False) == 9
    with core.autocast("cpu"):
        layer(x)
        before = layer(x)
        with core.no_grad():
            layer.weight.add_(1)
        assert not before.equal(layer(x))  # a weight that was written is cast anew
        with core.no_grad():
            quiet = layer(x)
        assert not quiet.requires_grad
        assert layer(x).requires_grad
        assert autocast.state.cache
        core.clear_autocast_cache()
        assert not autocast.state.cache


def test_backward_within_the_block_and_second_order():
    x = core.full((2, 2), 0.5, requires_grad=True)
    with core.autocast("cpu"):
        y = (x @ x).float().tanh().sum()
        (g,) = core.autograd.grad(y, x, create_graph=True)
        penalty = (g * g).sum()
        penalty.backward()
    assert g.dtype is core.float32
    assert x.grad.dtype is core.float32
    x2 = core.full((2, 2), 0.5, dtype=core.float64, requires_grad=True)
    (g2,) = core.autograd.grad((x2 @ x2).tanh().sum(), x2, create_graph=True)
    (g2 * g2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), x2.grad.numpy(), rtol=0.03)


def test_custom_functions():
    told = []

    class Product(core.autograd.Function):
        @staticmethod
        @core.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @core.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            told.append((core.is_autocast_enabled("cpu"), (g @ b.mT).dtype))
            return g @ b.mT, a.mT @ g

    class Exact(core.autograd.Function):
        @staticmethod
        @core.amp.custom_fwd(device_type="cpu", cast_inputs=core.float32)
        def forward(ctx, a, pair):
            told.append((core.is_autocast_enabled("cpu"), a.dtype, pair[0].dtype))
            return a @ pair[0]

        @staticmethod
        @core.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            told.append(core.is_autocast_enabled("cpu"))
            return g, None

    a = core.ones(2, 2, requires_grad=True)
    with core.autocast("cpu"):
        y = Product.apply(a, a)
    assert y.dtype is core.bfloat16
    y.sum().backward()
    assert told == [(True, core.bfloat16)]
    assert a.grad.dtype is core.float32
    told.clear()
    with core.autocast("cpu"):
        y = Exact.apply(a.bfloat16(), (core.ones(2, 2).bfloat16(),))
    y.sum().backward()
    assert told == [(False, core.float32, core.float32), False]
    Product.apply(a, a).sum().backward()  # outside, a plain function
    assert told[-1] == (False, core.float32)


def test_under_inference_vmap_and_einsum():
    x = core.ones(3, 2, 2)
    with core.autocast("cpu"):
        with core.inference_mode():
            assert core.bmm(x, x).dtype is core.bfloat16
        assert core.vmap(lambda a: a @ a)(x).dtype is core.bfloat16
        assert core.einsum("bij,bjk->bik", x, x).dtype is core.bfloat16
        attended, _ = core.nn.MultiheadAttention(4, 2)(*[core.ones(2, 1, 4)] * 3)
        assert attended.dtype is core.bfloat16


def test_on_cuda_the_other_table():
    x = core.ones(2, 2, device="cuda")
    with core.autocast("cuda"):
        y = x @ x
        assert y.dtype is core.float16
        assert y.exp().dtype is core.float32
        assert y.softmax(0).dtype is core.float32
        assert y.softmax(0, core.float16).dtype is core.float16
        assert y.sum().dtype is core.float32
        assert (y**2).dtype is core.float32
        assert y.relu().dtype is core.float16
        assert (core.ones(2, 2) @ core.ones(2, 2)).dtype is core.float32  # of the CPU
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x, x)
    with core.autocast("cpu"):
        assert (x @ x).dtype is core.float32


@pytest.mark.skipif(half.c is None, reason="the C kernels are not there")
def test_half_types_on_the_cpu_run_in_c():
    for dtype, name in ((core.bfloat16, "bf16"), (core.float16, "f16")):
        x = core.randn(4, 6).to(dtype)
        assert core.explain("tanh", x).runs[:2] == (f"tanh_{name}", "C")
        assert core.explain("softmax", x, 1).runs.backend == "C"
        own = half_products.there and dtype is core.bfloat16  # where the processor multiplies bfloat16
        assert core.explain("matmul", x, x.mT).runs[:2] == (("gemm_bf16", "C") if own else ("gemm", "C"))
        want = (x.double() @ x.double().mT).to(dtype)
        assert bool(((x @ x.mT).double() - want.double()).abs().max() <= want.double().abs().max() * 2**-7)


@pytest.mark.parametrize("dtype", [core.bfloat16, core.float16], ids=str)
def test_conversions_round_to_nearest(dtype):
    rng = np.random.default_rng(0)
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 2**-24, 2**-25, 3e38])
    bits = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), special])
    with np.errstate(all="ignore"):
        want = x.astype(dtype.numpy)
    got = core.tensor(x).to(dtype)._a
    number = ~np.isnan(x)
    assert np.array_equal(got.view(np.uint16)[number], want.view(np.uint16)[number])
    assert np.isnan(got[~number].astype(np.float32)).all()
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    back = core.from_numpy(every).float().numpy()
    number = ~np.isnan(every.astype(np.float32))
    assert np.array_equal(back[number], every.astype(np.float32)[number])
    plain = rng.normal(size=(60, 100)).astype(np.float32)
    turned = core.tensor(plain).mT
    assert turned.to(dtype).stride() == turned.stride()
    assert np.array_equal(turned[::2].to(dtype)._a.view(np.uint16), plain.T[::2].astype(dtype.numpy).view(np.uint16))


@pytest.mark.skipif(not half_products.there, reason="the processor does not multiply bfloat16")
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (12, 32, 2), (13, 33, 513), (49, 65, 1023), (130, 7, 40)])
def test_products_of_bfloat16(sizes):
    (m, n, k), rng = sizes, np.random.default_rng(0)
    dtype = core.bfloat16.numpy
    bias = rng.normal(size=n).astype(np.float32)
    for a in (rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, m)).astype(dtype).T):
        for b in (rng.normal(size=(k, n)).astype(dtype), rng.normal(size=(n, k)).astype(dtype).T):
            want = a.astype(np.float64) @ b.astype(np.float64) + bias
            got = half.c.gemm_bf16(a, b, bias).astype(np.float64)
            assert np.abs(got - want).max() <= np.abs(want).max() * 2**-8
    a = rng.normal(size=(3, 2, m, 2 * k)).astype(dtype)[..., ::2]
    b = rng.normal(size=(2, k, n)).astype(dtype)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(half_products.product(a, b).astype(np.float64) - want).max() <= np.abs(want).max() * 2**-8
    bad = np.full((m, k), np.nan, dtype)
    assert np.isnan(half.c.gemm_bf16(bad, b[0], None).astype(np.float32)).all()
    for zero in ((0, n, k), (m, 0, k), (m, n, 0)):
        found = half.c.gemm_bf16(np.ones((zero[0], zero[2]), dtype), np.ones((zero[2], zero[1]), dtype), None)
        assert found.shape == zero[:2]
        assert not found.astype(np.float32).any()


@pytest.mark.parametrize(
    ("run", "error", "phrase"),
    [
        (lambda: core.autocast(1), ValueError, "Expected `device_type` of type `str`"),
        (lambda: core.autocast("tpu"), RuntimeError, "Expected one of cpu, cuda.* device type"),
        (lambda: core.autocast("cpu", dtype="half"), TypeError, "must be torch.dtype, not str"),
        (lambda: core.autocast("cpu")(3), TypeError, "requires a callable, but got int"),
        (lambda: core.set_autocast_dtype("cpu", 16), TypeError, "must be torch.dtype, not int"),
        (lambda: core.amp.custom_fwd(device_type=3), ValueError, "Expected `device_type`"),
    ],
)
def test_refusals(run, error, phrase):
    with pytest.raises(error, match=phrase):
        run()


def test_warnings_and_older_names():
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        assert not core.autocast("cpu", dtype=core.float64)._enabled
    with pytest.warns(FutureWarning, match="deprecated"):
        assert core.cpu.amp.autocast()._enabled
    with pytest.warns(FutureWarning, match="deprecated"):
        assert core.cuda.amp.autocast(enabled=False).fast_dtype is core.float16
    with pytest.warns(FutureWarning, match="custom_fwd"):
        core.cuda.amp.custom_fwd(lambda ctx: None)
    core.set_autocast_enabled("cpu", True)
    core.set_autocast_dtype("cpu", core.float16)
    try:
        assert (core.ones(2, 2) @ core.ones(2, 2)).dtype is core.float16
        assert core.is_autocast_cpu_enabled()
    finally:
        core.set_autocast_enabled("cpu", False)
        core.set_autocast_dtype("cpu", core.bfloat16)
    assert core.autocast_increment_nesting() == 1
    assert core.autocast_decrement_nesting() == 0
