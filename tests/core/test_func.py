"""Functions of functions: derivatives, nested; vmap beside a loop over the examples; per-sample gradients."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import func, nn
from core.base import modes
from core.nn import functional as F

B = 3


def data(*shape: int) -> core.Tensor:
    core.manual_seed(sum(shape))
    return core.randn(*shape, dtype=core.float64)


CASES = {
    "add": (lambda x, y: x + y, (4,), (4,)),
    "0-d with 1-d": (lambda x, y: x.sum() * y, (4,), (4,)),
    "scalar operand": (lambda x, y: 2 - x * 3 + y**2, (2, 2), (2, 2)),
    "different ranks": (lambda x, y: x * y, (2, 3), (3,)),
    "where": (lambda x, y: core.where(x > 0, x, y), (4,), (4,)),
    "clamp": (lambda x, y: x.clamp(-0.5, 0.5) + y.exp(), (4,), (4,)),
    "sum all": (lambda x, y: x.sum() + y.mean(), (2, 3), (4,)),
    "sum dim": (lambda x, y: x.sum(-1) + x.sum(1, keepdim=True).squeeze(1) + y, (2, 3), (2,)),
    "amax var": (lambda x, y: x.amax(0) + x.var(0) - y.std(), (4, 3), (4,)),
    "max dim": (lambda x, y: x.max(1).values + y, (2, 3), (2,)),
    "softmax": (lambda x, y: x.softmax(-1) * y.log_softmax(0), (3,), (3,)),
    "cumsum": (lambda x, y: x.cumsum(0) + y.flip(0), (3,), (3,)),
    "dot": (lambda x, y: x @ y, (4,), (4,)),
    "matrix vector": (lambda x, y: x @ y, (2, 4), (4,)),
    "matmul": (lambda x, y: x @ y.t(), (2, 4), (3, 4)),
    "einsum": (lambda x, y: core.einsum("ij,jk->ik", x, y), (2, 4), (4, 3)),
    "movement": (lambda x, y: x.transpose(0, 1).reshape(-1) + y.unsqueeze(0).expand(2, 3).flatten(), (2, 3), (3,)),
    "permute": (lambda x, y: x.permute(2, 0, 1)[..., None] + y, (2, 3, 4), (1,)),
    "index": (lambda x, y: x[0] + x[1:, ::2].sum() + y[-1], (3, 4), (2,)),
    "index tensor": (lambda x, y: x[core.tensor([0, 2, 0])] + y[[1, 0, 1]], (3,), (2,)),
    "cat stack": (lambda x, y: core.cat([x, y, x]).sum() + core.stack([x, x], 1), (3,), (2,)),
    "split": (lambda x, y: x.split(2)[1] * y + x.unbind(0)[0], (4,), (2,)),
    "diagonal": (lambda x, y: x.diagonal() + y + x.tril().sum(0), (3, 3), (3,)),
    "norm": (lambda x, y: x.norm() + y.logsumexp(0) + x.prod(), (3,), (3,)),
    "layer norm": (lambda x, y: F.layer_norm(x, (4,)) + y, (2, 4), (4,)),
    "no rule": (lambda x, y: F.mse_loss(x, y) + F.cross_entropy(x.unsqueeze(0), core.tensor([1])), (3,), (3,)),
    "in place": (lambda x, y: x.clone().mul_(y).add_(1), (3,), (3,)),
    "assignment": (lambda x, y: _assign(x, y.sum()), (3,), (1,)),
    "index assignment": (lambda x, y: _assign_at(x, y), (3,), (2,)),
    "cast": (lambda x, y: x.float().double() + (y > 0).to(core.float64), (3,), (3,)),
}


def _assign(x, y):
    z = x * 1
    z[1] = y
    return z * x


def _assign_at(x, y):
    z = x.detach() * 1
    z[core.tensor([2, 0])] = y
    return z * x


def loop(f, *batches):
    return core.stack([f(*(b[i] for b in batches)) for i in range(B)])


@pytest.mark.parametrize("name", list(CASES))
def test_vmap_is_the_loop(name):
    f, *shapes = CASES[name]
    args = tuple(data(B, *shape) for shape in shapes)
    np.testing.assert_allclose(func.vmap(f)(*args).numpy(), loop(f, *args).numpy(), rtol=1e-12)
    leaves = tuple(a.clone().requires_grad_() for a in args)
    again = tuple(a.clone().requires_grad_() for a in args)
    func.vmap(f)(*leaves).sum().backward()
    loop(f, *again).sum().backward()
    for a, b in zip(leaves, again, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in CASES if n != "cast"])
def test_vmap_with_one_argument_for_all(name):
    f, *shapes = CASES[name]
    x, y = data(B, *shapes[0]), data(*shapes[1])
    got = func.vmap(f, in_dims=(0, None))(x, y)
    np.testing.assert_allclose(got.numpy(), core.stack([f(x[i], y) for i in range(B)]).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", list(CASES))
def test_per_sample_gradients(name):
    f, *shapes = CASES[name]
    args = tuple(data(B, *shape) for shape in shapes)

    def loss(x, y):
        return (f(x, y) ** 2).sum()

    got = func.vmap(func.grad(loss, argnums=(0, 1)))(*args)
    for i in range(B):
        want = func.grad(loss, argnums=(0, 1))(*(a[i] for a in args))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g[i].numpy(), w.numpy(), rtol=1e-9, atol=1e-10)


def test_dims_in_and_out():
    x, y = data(4, B), data(B, 4)
    f = func.vmap(lambda x, y: (x * y, x.sum()), in_dims=(1, 0), out_dims=(1, 0))
    a, b = f(x, y)
    assert a.shape == (4, B)
    np.testing.assert_allclose(a.numpy(), x.numpy() * y.numpy().T)
    np.testing.assert_allclose(b.numpy(), x.numpy().sum(0))
    nested = func.vmap(lambda d: d["a"] + d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": y[0, :3]})
    np.testing.assert_allclose(nested.numpy(), x.numpy() + y.numpy()[0, :3])


def test_chunks():
    x = data(7, 2)
    np.testing.assert_allclose(func.vmap(lambda t: t.sum(), chunk_size=3)(x).numpy(), x.numpy().sum(1))


def test_nested_vmap():
    x, y = data(2, 4), data(3, 4)
    got = func.vmap(lambda a: func.vmap(lambda b: a @ b)(y))(x)
    np.testing.assert_allclose(got.numpy(), x.numpy() @ y.numpy().T)
    twice = func.vmap(func.vmap(func.grad(lambda t: (t**3).sum())))(data(2, 3, 4))
    np.testing.assert_allclose(twice.numpy(), 3 * data(2, 3, 4).numpy() ** 2)


def test_what_needs_values_raises():
    x = data(B, 2)
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        func.vmap(lambda t: t if t.sum() > 0 else -t)(x)
    for f in (lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: t[t > 0], lambda t: core.nonzero(t),
              lambda t: t.numpy()):  # fmt: skip
        with pytest.raises(RuntimeError, match="vmap: It looks like you're calling"):
            func.vmap(f)(x)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        func.vmap(lambda t: core.zeros(2, dtype=core.float64).add_(t))(x)


def test_sizes_must_agree():
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        func.vmap(lambda x, y: x + y)(data(2), data(3))
    with pytest.raises(ValueError, match="in_dims"):
        func.vmap(lambda x, y: x + y, in_dims=(0,))(data(2), data(2))


def test_orders():
    x = core.tensor(0.5, dtype=core.float64)
    f = core.sin
    for want in (np.cos(0.5), -np.sin(0.5), -np.cos(0.5)):
        f = func.grad(f)
        g = f(x)
        assert g.item() == pytest.approx(want)
        assert not g.requires_grad


def test_the_caller_may_differentiate_further():
    x = core.tensor(2.0, requires_grad=True)
    w = core.tensor(3.0, requires_grad=True)
    g = func.grad(lambda t: w * t**3)(x)
    g.backward()
    assert x.grad.item() == 36.0
    assert w.grad.item() == 12.0


def test_aux_argnums_and_structures():
    def f(p, x):
        y = p["w"] * x + p["b"]
        return (y**2).sum(), y

    p = {"w": core.tensor(2.0), "b": core.tensor(1.0)}
    g, (value, aux) = func.grad_and_value(f, has_aux=True)(p, core.tensor([1.0, 2.0]))
    assert (g["w"].item(), g["b"].item(), value.item(), aux.tolist()) == (26.0, 16.0, 34.0, [3.0, 5.0])
    with pytest.raises(RuntimeError, match="return a scalar tensor"):
        func.grad(lambda x: x * 2)(core.ones(2))


def test_products_and_matrices():
    x = data(3)
    a = data(2, 3)

    def f(t):
        return (a @ t).tanh()

    j = func.jacrev(f)(x)
    np.testing.assert_allclose(j.numpy(), core.autograd.functional.jacobian(f, x).numpy())
    np.testing.assert_allclose(func.jacfwd(f)(x).numpy(), j.numpy())
    y, pull = func.vjp(f, x)
    np.testing.assert_allclose(pull(core.ones(2, dtype=core.float64))[0].numpy(), j.numpy().sum(0))
    _, pushed = func.jvp(f, (x,), (core.ones(3, dtype=core.float64),))
    np.testing.assert_allclose(pushed.numpy(), j.numpy().sum(1))
    h = func.hessian(lambda t: f(t).sum())(x)
    np.testing.assert_allclose(h.numpy(), core.autograd.functional.hessian(lambda t: f(t).sum(), x).numpy())
    np.testing.assert_allclose(func.vmap(func.jacrev(f))(data(B, 3)).numpy(),
                               np.stack([func.jacrev(f)(r).numpy() for r in data(B, 3)]))  # fmt: skip
    assert not y.requires_grad


def test_an_ensemble_and_per_sample_gradients_of_a_module():
    core.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)) for _ in range(3)]
    x = core.randn(6, 4)
    params, buffers = func.stack_module_state(models)
    got = func.vmap(lambda p, b: func.functional_call(models[0], (p, b), (x,)))(params, buffers)
    want = core.stack([m(x) for m in models])
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5)

    model, targets = models[0], core.tensor([0, 1, 0, 1, 1, 0])
    own = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, example, target):
        out = func.functional_call(model, p, (example.unsqueeze(0),))
        return F.cross_entropy(out, target.unsqueeze(0))

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(own, x, targets)
    F.cross_entropy(model(x), targets).backward()
    for k, p in model.named_parameters():
        assert each[k].shape == (6, *p.shape)
        np.testing.assert_allclose(each[k].numpy().mean(0), p.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_what_comes_after_a_vmap_takes_the_quick_way_again():
    def failing(x):
        raise KeyError("inside")

    func.vmap(lambda x: func.vmap(lambda y: y * 2)(x))(core.ones(2, 3))
    with pytest.raises(KeyError):
        func.vmap(failing)(core.ones(2))
    func.grad(lambda x: x.sum())(core.ones(2))
    assert modes.state.batch is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_vmap_of_a_pass_through_a_graph_that_was_made_outside(create_graph: bool) -> None:
    """Each row of a Jacobian by its own pass, and not by that of the first example."""
    x, w = data(3).requires_grad_(), data(3, 4)
    y, rows = (x * x) @ w, core.eye(4, dtype=core.float64)

    def pulled(v: core.Tensor) -> core.Tensor:
        return core.autograd.grad(y, x, v, retain_graph=True, create_graph=create_graph)[0]

    wanted = (2 * x.detach()[:, None] * w).t()
    found = func.vmap(pulled)(rows)
    assert found.requires_grad is create_graph
    assert core.allclose(found, wanted)
    assert core.allclose(func.vmap(func.vmap(pulled))(core.stack([rows, 2 * rows])), core.stack([wanted, 2 * wanted]))
    _, pull = func.vjp(lambda x: (x * x) @ w, x.detach())
    assert core.allclose(func.vmap(pull)(rows)[0], wanted)


def test_backward_inside_a_vmap_is_refused() -> None:
    x = data(3).requires_grad_()
    y = x * x
    with pytest.raises(RuntimeError, match="called inside a functorch transform"):
        func.vmap(lambda v: y.backward(v, retain_graph=True))(core.eye(3, dtype=core.float64))
    assert x.grad is None


def test_linearize_gives_the_tangents_of_many_directions_and_runs_the_function_once():
    ran = []

    def f(d):
        ran.append(1)
        return {"sum": d["a"] + d["b"], "product": d["a"] * d["b"]}

    at = {"a": core.tensor([1.0, 2.0]), "b": core.tensor([3.0, 4.0])}
    y, push = func.linearize(f, at)
    assert y["product"].tolist() == [3.0, 8.0]
    for t in (1.0, 10.0):
        found = push({"a": core.full((2,), t), "b": core.zeros(2)})
        assert (found["sum"].tolist(), found["product"].tolist()) == ([t, t], [3 * t, 4 * t])
    assert len(ran) == 1
    with pytest.raises(RuntimeError, match="same python structure"):
        push(core.ones(2))
    with pytest.raises(RuntimeError, match="different size"):
        push({"a": core.ones(3), "b": core.ones(2)})


def test_jvp_of_outputs_that_do_not_move_and_what_it_refuses():
    x = core.ones(2)
    assert func.jvp(lambda x: ((x * 2).int(), core.ones(1)), (x,), (x,))[1][0].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        func.jvp(lambda x: core.ones(2), (x,), (x,), strict=True)
    with pytest.raises(RuntimeError, match="Expected primals to be a tuple"):
        func.jvp(core.sin, x, x)
    with pytest.raises(RuntimeError, match="same python structure"):
        func.jvp(core.sin, (x,), (x, x))
    with pytest.raises(RuntimeError, match="different size"):
        func.jvp(core.sin, (x,), (core.ones(3),))
    with pytest.raises(RuntimeError, match="only tensors"):
        func.jvp(lambda x: 3, (x,), (x,))


def test_jacfwd_column_by_column_is_jacrev():
    def f(x, y):
        return {"outer": core.outer(x, y).sin(), "same": x * 2, "still": core.ones(7)}

    x, y = core.randn(2, dtype=core.float64), core.randn(3, dtype=core.float64)
    mine, theirs = (j(f, argnums=(0, 1))(x, y) for j in (func.jacfwd, func.jacrev))
    for name, rows in theirs.items():
        for a, b in zip(mine[name], rows, strict=True):
            assert a.shape == b.shape
            assert core.allclose(a.double(), b.double())
    wide = func.vmap(func.jacfwd(lambda x: core.outer(x, x)))(core.ones(4, 2))
    assert wide.shape == (4, 2, 2, 2)
    twice = func.jacfwd(func.jacfwd(lambda x: core.stack([x**3, x])))(core.tensor(2.0))
    assert twice.tolist() == [12.0, 0.0]
