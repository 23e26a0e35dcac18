"""Gradients for values and dense operands, sparse gradients of tables, and what uses them."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck
from core.dispatch.sparse import SparseTensor

INDEX = [[0, 2, 1, 3, 0, 0], [1, 0, 3, 2, 2, 1]]  # one place twice


def sparse(values: core.Tensor) -> core.Tensor:
    return core.sparse_coo_tensor(INDEX, values, (4, 4))


FUNCTIONS: dict[str, Callable[..., core.Tensor]] = {
    "mm": lambda v, d: core.sparse.mm(sparse(v), d),
    "mm of rows": lambda v, d: core.sparse.mm(sparse(v).to_sparse_csr(), d),
    "mm of columns": lambda v, d: sparse(v).to_sparse_csc() @ d,
    "dense first": lambda v, d: d.t() @ sparse(v),
    "vector": lambda v, d: sparse(v) @ d[:, 0],
    "sparse times sparse": lambda v, d: (sparse(v) @ sparse(v * 2)).to_dense(),
    "addmm": lambda v, d: core.sparse.addmm(d, sparse(v), d, beta=2, alpha=3),
    "sampled": lambda v, d: core.sparse.sampled_addmm(sparse(v).to_sparse_csr(), d, d.t(), alpha=2).to_dense(),
    "softmax": lambda v, d: core.sparse.softmax(sparse(v), 1).to_dense(),
    "log_softmax": lambda v, d: core.sparse.log_softmax(sparse(v), 0).to_dense(),
    "sum": lambda v, d: core.sparse.sum(sparse(v), 0).to_dense(),
    "sum of all": lambda v, d: sparse(v).sum(),
    "product": lambda v, d: (sparse(v) * (d @ d.t())).to_dense(),
    "common places": lambda v, d: (sparse(v) * sparse(v.flip(0))).to_dense(),
    "sums": lambda v, d: d @ d.t() + (sparse(v) + sparse(v) * 2) - sparse(v) / 3,
    "moved": lambda v, d: sparse(v).t().unsqueeze(0)[0][1].to_dense(),
    "joined": lambda v, d: core.cat([sparse(v), sparse(v).t()]).to_dense(),
    "picked": lambda v, d: sparse(v).index_select(1, core.tensor([2, 1, 1])).to_dense(),
    "nonlinear": lambda v, d: sparse(v).coalesce().sin().to_dense(),
    "mask": lambda v, d: (d @ d.t()).sparse_mask(sparse(v.detach()).coalesce()).to_dense(),
    "from dense": lambda v, d: (d @ d.t()).to_sparse().values(),
    "norm": lambda v, d: sparse(v).norm(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_by_finite_differences_to_second_order(name: str) -> None:
    rng = np.random.default_rng(1)
    v = core.tensor(rng.normal(size=6), requires_grad=True)
    d = core.tensor(rng.normal(size=(4, 3)), requires_grad=True)
    assert gradcheck(FUNCTIONS[name], (v, d))
    assert gradgradcheck(FUNCTIONS[name], (v, d))


def test_the_gradient_of_a_sparse_leaf_has_its_places() -> None:
    a = sparse(core.ones(6)).requires_grad_()
    core.sparse.mm(a, core.ones(4, 2)).sum().backward()
    g = a.grad
    assert isinstance(g, SparseTensor)
    assert g._indices().tolist() == INDEX
    assert g._values().tolist() == [2.0] * 6
    (again,) = core.autograd.grad(a.to_dense().sum(), a)
    assert again.is_sparse
    seen = []
    a.register_hook(lambda g: seen.append(g.is_sparse))
    (a * 2).sum().backward()
    assert seen == [True]
    a.grad = None
    assert a.grad is None


# -- tables ------------------------------------------------------------------------------------------------------------


def table(rows: int = 6, **more: object) -> core.nn.Embedding:
    start = core.arange(rows * 3.0).reshape(rows, 3) / 10
    return core.nn.Embedding(rows, 3, sparse=True, _weight=start, **more)


def test_a_table_gets_the_rows_that_were_read() -> None:
    t = table(padding_idx=0)
    t(core.tensor([[4, 0], [2, 4]])).sum().backward()
    g = t.weight.grad
    assert g.layout is core.sparse_coo
    assert g._indices().tolist() == [[4, 2, 4]]
    assert g.shape == (6, 3)
    assert not g.requires_grad
    assert g.coalesce().values()[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("watched", [False, True])
def test_gradients_of_both_kinds_add_up(create_graph: bool, hooked: bool, watched: bool) -> None:
    t, other = table(), table()
    if hooked:
        for w in (t.weight, other.weight):
            w.register_hook(lambda g: g * 2)
            w.register_post_accumulate_grad_hook(lambda w: None)
    i, j = core.tensor([1, 5, 1]), core.tensor([[0, 1], [5, 5]])

    def losses(e: core.nn.Embedding, sparse: bool) -> list[core.Tensor]:
        look = core.nn.functional.embedding
        rows = [look(k, e.weight, sparse=sparse).square().sum() for k in (i, j, i)]
        return [rows[0], rows[1] + rows[2], (e.weight**2).sum() + rows[0], rows[1]]

    from core.events import observe

    class Ear(observe.Observer):
        pass

    ear = Ear()
    if watched:
        observe.add(ear)
    try:
        for mine, dense in zip(losses(t, True), losses(other, False), strict=True):
            mine.backward(retain_graph=True, create_graph=create_graph)
            dense.backward(retain_graph=True, create_graph=create_graph)
            np.testing.assert_allclose(t.weight.grad.to_dense().detach().numpy(), other.weight.grad.detach().numpy(),
                                       rtol=1e-6)  # fmt: skip
    finally:
        if watched:
            observe.remove(ear)
    assert not t.weight.grad.is_sparse


def test_a_dense_gradient_keeps_its_memory_when_a_sparse_one_comes() -> None:
    t = table()
    t.weight.sum().backward()
    before = t.weight.grad
    t(core.tensor([1])).sum().backward()
    assert t.weight.grad is before
    assert before[1].tolist() == [2.0] * 3


def test_gradients_of_gradients_of_a_table() -> None:
    found = []
    for sparse_ in (False, True):
        w = core.arange(6.0).reshape(3, 2).requires_grad_()
        y = core.nn.functional.embedding(core.tensor([0, 2, 0]), w, sparse=sparse_)
        (g,) = core.autograd.grad((y**3).sum(), w, create_graph=True)
        (g.to_dense() ** 2).sum().backward()
        found.append(w.grad.to_dense().detach().numpy())
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str) -> None:
    found = []
    for sparse_ in (False, True):
        bag = core.nn.EmbeddingBag(6, 3, mode=mode, sparse=sparse_, _weight=core.arange(18.0).reshape(6, 3))
        bag(core.tensor([1, 2, 4, 4, 5]), core.tensor([0, 2])).square().sum().backward()
        assert bag.weight.grad.is_sparse is sparse_
        found.append(bag.weight.grad.to_dense().numpy())
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("make", [
    lambda p: core.optim.SGD(p, lr=0.1), lambda p: core.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: core.optim.Adagrad(p, lr=0.1), lambda p: core.optim.SparseAdam(p, lr=0.1),
    lambda p: core.optim.LBFGS(p, lr=0.1),
])  # fmt: skip
def test_optimizers_change_the_rows_as_with_dense_gradients(make) -> None:
    found = [trained(make, sparse_) for sparse_ in (True, False)]
    np.testing.assert_allclose(*found, rtol=1e-5)


def trained(make: Callable[..., core.optim.Optimizer], sparse_: bool) -> np.ndarray:
    t = table()
    t.sparse = sparse_
    opt = make(list(t.parameters()))

    def closure() -> core.Tensor:
        opt.zero_grad()
        loss = (t(core.tensor([1, 4, 1, 5])) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        opt.step(closure)
    return t.weight.detach().numpy()


def test_the_state_of_momentum_is_saved_and_loaded() -> None:
    t = table()
    opt = core.optim.SGD(t.parameters(), lr=0.1, momentum=0.9)
    t(core.tensor([1, 4])).sum().backward()
    opt.step()
    other = core.optim.SGD(t.parameters(), lr=0.1, momentum=0.9)
    other.load_state_dict(opt.state_dict())
    (held,) = [s["momentum_buffer"] for s in other.state.values()]
    assert held.is_sparse
    t.zero_grad()
    t(core.tensor([1, 4])).sum().backward()
    other.step()
    assert t.weight[1, 0].item() == pytest.approx(0.3 - 0.1 - 0.19, rel=1e-4)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Rprop", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD",
                                  "Adafactor", "Muon"])  # fmt: skip
def test_other_optimizers_refuse(name: str) -> None:
    t = table()
    opt = getattr(core.optim, name)(list(t.parameters()))
    t(core.tensor([1])).sum().backward()
    before = t.weight.detach().clone()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        opt.step()
    assert bool((t.weight == before).all())


def test_norms_are_clipped_and_gradients_let_go() -> None:
    t, lin = table(), core.nn.Linear(3, 1)
    lin(t(core.tensor([1, 4, 1]))).sum().backward()
    params = [*t.parameters(), *lin.parameters()]
    whole = [p.grad.to_dense().clone() for p in params]
    total = core.nn.utils.clip_grad_norm_(params, 0.5)
    assert total.item() == pytest.approx(core.nn.utils.get_total_norm(whole).item())
    for p, g in zip(params, whole, strict=True):
        np.testing.assert_allclose(p.grad.to_dense().numpy(), (g * 0.5 / total).numpy(), rtol=1e-4)
    core.nn.utils.clip_grad_value_(params, 0.01)
    assert t.weight.grad.to_dense().abs().max().item() <= 0.01 + 1e-8
    t.zero_grad(set_to_none=False)
    assert t.weight.grad._nnz() == 0


def test_a_scaler_unscales_them() -> None:
    t = table()
    opt = core.optim.SGD(t.parameters(), lr=0.1)
    scaler = core.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(t(core.tensor([1, 1])).sum()).backward()
    scaler.unscale_(opt)
    assert t.weight.grad.to_dense()[1].tolist() == [2.0] * 3
    scaler.step(opt)
    assert t.weight[1, 0].item() == pytest.approx(0.1)


def test_anomaly_mode_looks_at_the_values() -> None:
    t = table()
    with core.autograd.detect_anomaly():
        t(core.tensor([1])).sum().backward()
        with pytest.raises(RuntimeError, match="returned nan values"):
            (t(core.tensor([1])) * float("nan")).sum().backward()


def test_a_state_with_a_sparse_buffer_goes_through_a_file() -> None:
    t = table()
    opt = core.optim.SGD(t.parameters(), lr=0.1, momentum=0.9)
    t(core.tensor([1, 4])).sum().backward()
    opt.step()
    file = io.BytesIO()
    core.save(opt.state_dict(), file)
    file.seek(0)
    assert core.load(file)["state"][0]["momentum_buffer"].is_sparse


def test_func_and_vmap_take_sparse_tables() -> None:
    look = core.nn.functional.embedding
    i, w = core.tensor([[0, 1], [2, 2]]), core.ones(3, 2)
    assert core.func.grad(lambda w: look(i, w, sparse=True).sum())(w).is_sparse
    each = core.vmap(core.func.grad(lambda w, i: look(i, w, sparse=True).sum()), in_dims=(None, 0))(w, i)
    assert each[:, :, 0].tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]


def test_scaling_by_frequency_is_refused_as_pytorch_does() -> None:
    t = table(scale_grad_by_freq=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        t(core.tensor([1])).sum().backward()
