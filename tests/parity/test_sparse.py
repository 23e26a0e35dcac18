"""Sparse tensors beside PyTorch's: what prints, what ops give, what they refuse, gradients, optimizers, files."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:The .grad attribute")
BOTH = (core, torch)


def made(t: Any, seed: int = 0) -> dict[str, Any]:
    """Return the same sparse and dense tensors of a library: unordered, equal places, hybrid, compressed, empty."""
    rng = np.random.default_rng(seed)

    def dense(*shape: int) -> Any:
        return t.tensor(rng.normal(size=shape).astype(np.float32))

    def coo(shape: tuple[int, ...], nnz: int, *rest: int) -> Any:
        index = np.stack([rng.integers(0, n, nnz) for n in shape])
        return t.sparse_coo_tensor(t.tensor(index), dense(nnz, *rest), (*shape, *rest))

    a, b = coo((5, 4), 9), coo((5, 4), 6)
    return {
        "t": t, "F": t.nn.functional, "a": a, "b": b, "c": a.coalesce(), "h": coo((4,), 6, 3), "s": coo((4, 4), 5),
        "csr": coo((5, 4), 8).to_sparse_csr(), "csc": coo((5, 4), 8).to_sparse_csc(), "cube": coo((2, 3, 4), 7),
        "none": t.sparse_coo_tensor(size=(5, 4)), "D": dense(5, 4), "E": dense(4, 3), "v": dense(4), "L": dense(2, 5),
        "i": coo((5, 4), 5).mul(10).to(t.int64), "M": dense(5, 3), "S": dense(4, 4),
    }  # fmt: skip


def numbers(x: Any) -> Any:
    """Return a result as plain data: of a sparse tensor its layout, whether it is in order, its parts."""
    if isinstance(x, core.Tensor | torch.Tensor):
        layout = str(x.layout).rpartition(".")[2]
        if layout == "strided":
            return ["strided", str(x.dtype).rpartition(".")[2], x.detach().numpy()]
        if layout == "sparse_coo":
            parts = [x._indices(), x._values(), x.is_coalesced()]
        elif layout == "sparse_csr":
            parts = [x.crow_indices(), x.col_indices(), x.values()]
        else:
            parts = [x.ccol_indices(), x.row_indices(), x.values()]
        return [layout, tuple(x.shape), *map(numbers, parts)]
    if str(x).startswith(("core.", "torch.")):
        return str(x).partition(".")[2]
    return x if not isinstance(x, tuple | list) else [numbers(v) for v in x]


def same(mine: Any, theirs: Any) -> None:
    if isinstance(mine, list):
        assert len(mine) == len(theirs)
        for x, y in zip(mine, theirs, strict=True):
            same(x, y)
    elif isinstance(mine, np.ndarray):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)
    else:
        assert str(mine) == str(theirs)


GIVES = """
a.coalesce() | a.to_dense() | a.to_sparse_csr() | a.to_sparse_csc() | csr.to_sparse() | csc.to_dense()
csr.to_dense()
h.to_dense() | h.coalesce() | csc.to_sparse_csr() | csr.to_sparse_csc() | a.to_sparse() | D.to_sparse()
D.to_sparse(1)
D.relu().to_sparse_csr() | a._nnz() | h.sparse_dim() | h.dense_dim() | D.sparse_dim() | D.dense_dim() | a.is_sparse
csr.is_sparse_csr | D.is_sparse | a.layout | D.layout | a.shape | a.numel() | a.dim() | a.is_contiguous() | len(a)
a * 2 | 2 * a | a / 3 | -a | a.neg() | c * D | D * c | c * c | (a * b).to_dense() | a + a | (a + b).coalesce()
c + b.coalesce() | a - a | (a - b).coalesce()
D + a | D - a | t.add(D, a, alpha=2) | t.add(a, b, alpha=2).coalesce() | h + h | h * 3 | csr * 2 | csr + csr | -csr
c.sin() | c.abs() | c.sqrt() | c.relu() | c.square() | c.tanh() | c.sign() | c.log1p() | c.expm1() | c.floor()
c.pow(2)
csr.sin() | csr.abs() | h.coalesce().tanh() | c.round() | c.asinh() | c.isnan() | c.erf() | c.deg2rad() | c.trunc()
a.sum() | a.sum(0) | a.sum(1) | t.sparse.sum(a, 0) | t.sparse.sum(a, (0, 1)) | h.sum(0) | t.sparse.sum(h, 1)
a.norm()
t.sparse.sum(cube, 1) | t.sparse.sum(cube, (0, 2)) | csr.sum() | a.any()
a.t() | a.transpose(0, 1) | a.T | cube.permute(2, 0, 1) | a.unsqueeze(0) | a.unsqueeze(2) | h.unsqueeze(2)
a.t().to_dense()
csr.t() | csr.transpose(0, 1)
a[1] | a[1, 2] | a[-1] | cube[1] | cube[0, 1] | a.select(1, 2) | a.index_select(0, t.tensor([3, 0, 3])).coalesce()
a.index_select(1, t.tensor([2, 1])).coalesce()
t.cat([a, b]) | t.cat([a, b], 1) | t.stack([a, b]) | a.clone() | a.detach() | a.double() | a.to(t.float64) | c.float()
a.cpu()
a.long() | i + i | i * 2 | i.to_dense() | a.half().to_dense()
a @ E | a.mm(E) | t.sparse.mm(a, E) | t.mm(a, E) | t.matmul(a, E) | a @ v | L @ a | t.mm(L, a) | csr @ E | csr @ v
csc @ E
t.sparse.addmm(M, a, E) | t.sparse.addmm(M, a, E, beta=2, alpha=3) | t.addmm(M, a, E) | a @ s | t.sparse.mm(a, s)
t.sparse.mm(s, s) | (csr @ s.to_sparse_csr()).to_dense() | L @ csr
t.sparse.softmax(a, 1) | t.sparse.softmax(a, 0) | t.sparse.log_softmax(a, 1) | t.sparse.softmax(h, 1)
t.sparse.softmax(h, 0)
t.sparse.softmax(cube, 1)
D.sparse_mask(c) | t.zeros_like(a) | none.to_dense() | none + a | none @ E | none.coalesce() | none.sum() | none * 2
t.sparse.spdiags(S, t.tensor([0, 1, -1, 2]), (4, 4)).to_dense()
t.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0]) | t.sparse_coo_tensor([[1, 1]], [[1.0], [2.0]], (2, 1)).coalesce()
t.sparse_coo_tensor((2, 3)) | t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [1.0, 2, 3])
t.sparse_coo_tensor([[0]], [1], (2,))
t.sparse_csc_tensor([0, 1, 2], [1, 0], [1.0, 2.0]).to_dense()
t.sparse_coo_tensor([[0]], [1.0], (2,), dtype=t.float64)
t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,), is_coalesced=True).indices() | csr.crow_indices() | csr.col_indices()
c.indices() | c.values() | a._indices() | a._values() | a.clone().mul_(2) | a.clone().zero_() | a.clone().add_(a)
c.clone().div_(2)
D.clone().add_(a) | D.clone().sub_(a) | t.sparse_compressed_tensor([0, 1], [0], [5.0], layout=t.sparse_csr)
"""
SHOWN = """
a | c | h | csr | csc | none | a.double() | i | a.clone().requires_grad_() | t.sparse_coo_tensor([[0]], [True], (2,))
csr.double() | cube | t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [1.0, 2, 3])
"""
REFUSED = """
a + 1 | a + D | a.numpy() | a.indices() | a.values() | D.values() | D.indices() | D.coalesce() | D._nnz()
csr.indices()
a.crow_indices() | a.exp() | a.cos() | a == a | a.max() | a.mean() | a.view(4, 5) | a.reshape(-1) | a[:1] | bool(a)
a.item()
a.data_ptr() | t.ones_like(a) | a / b | D / a | csr.coalesce() | a.fill_(1) | a.softmax(1) | csr.ccol_indices()
a.sort()
t.sparse_coo_tensor([[0, 1, 2]], [1.0, 2.0], (4,)) | t.sparse_coo_tensor([[-1]], [1.0]) | a @ a
a.gather(0, t.zeros(1, 1).long())
t.sparse_coo_tensor([[0], [0]], [1.0], (3,)) | t.sparse_coo_tensor([0, 1], [1.0, 2.0])
t.sparse_coo_tensor([[0]], [[1.0]], (2, 3))
"""


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


@pytest.mark.parametrize("source", cases(GIVES))
def test_ops_give_the_same(source: str) -> None:
    mine, theirs = (numbers(eval(source, made(t))) for t in BOTH)
    same(mine, theirs)


@pytest.mark.parametrize("source", cases(SHOWN))
def test_they_print_the_same(source: str) -> None:
    mine, theirs = (repr(eval(source, made(t))) for t in BOTH)
    assert mine == theirs.replace("torch.", "core.")


@pytest.mark.parametrize("source", cases(REFUSED))
def test_what_pytorch_refuses_is_refused_here(source: str) -> None:
    with pytest.raises(ERRORS) as theirs:
        eval(source, made(torch))
    with pytest.raises(ERRORS) as mine:
        eval(source, made(core))
    said = str(theirs.value)
    if re.match(r"add\(|Cannot (get|access)|found neg|indices and|'len\(|Sparse division|\w+ expected sparse", said):
        assert str(mine.value).splitlines()[0] == said.splitlines()[0]


ERRORS = (RuntimeError, TypeError, IndexError)
GRADIENTS = {
    "mm": "(t.sparse.mm(s, E) * W).sum()",
    "mm of compressed rows": "(t.sparse.mm(s.to_sparse_csr(), E) * W).sum()" ,
    "matmul on the right": "((E.t() @ s) ** 2).sum()",
    "a vector": "((s @ E[:, 0]) ** 2).sum()",
    "addmm": "(t.sparse.addmm(W, s, E, alpha=2) * W).sum()",
    "sparse times sparse": "t.sparse.sum(t.sparse.mm(s, s))",
    "to_dense": "(s.to_dense() ** 2).sum()",
    "sum": "t.sparse.sum(s, 0).to_dense().square().sum()",
    "softmax": "(t.sparse.softmax(s, 1).to_dense() * E @ W[:3]).sum()",
    "log_softmax": "(t.sparse.log_softmax(s, 0).to_dense() * E @ W[:3]).sum()",
    "coalesced values": "(s.coalesce().values() ** 2).sum()",
    "elementwise": "((s * 3 + s).coalesce().values() ** 3).sum()",
    "dense and sparse": "((E @ W[:3].t() + s) ** 2).sum()",
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_for_values_and_dense_operands(name: str) -> None:
    found = []
    for t in BOTH:
        rng = np.random.default_rng(3)
        index = t.tensor([[0, 2, 1, 3, 0, 2], [1, 0, 3, 2, 2, 3]])
        values = t.tensor(rng.normal(size=6).astype(np.float32), requires_grad=True)
        E = t.tensor(rng.normal(size=(4, 3)).astype(np.float32), requires_grad=True)
        W = t.tensor(rng.normal(size=(4, 3)).astype(np.float32), requires_grad=True)
        s = t.sparse_coo_tensor(index, values, (4, 4))
        source = GRADIENTS[name].replace("* E @ W[:3]", "* (E @ W.t())").replace("W[:3].t()", "W.t()")
        eval(source, {"t": t, "s": s, "E": E, "W": W}).backward()
        found.append([None if x.grad is None else x.grad.numpy() for x in (values, E, W)])
    for mine, theirs in zip(*found, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_sparse_leaf_gets_a_sparse_gradient() -> None:
    found = []
    for t in BOTH:
        s = t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [1.0, 2.0, 3.0], (2, 3), requires_grad=True)
        E = t.arange(6.0).reshape(3, 2)
        t.sparse.mm(s, E).sum().backward()
        again = t.autograd.grad((s.to_dense() ** 2).sum(), s)[0]
        found.append(
            numbers([s.grad.coalesce(), again.to_dense(), s.is_leaf, s.requires_grad, s.detach().requires_grad])
        )
    same(*found)


BATCHES = [[[0, 3], [3, 1]], [[2, 2], [2, 2]], [[4, 0], [1, 3]], [[0, 3], [3, 1]]]


@pytest.mark.parametrize("name", ["Embedding", "sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
def test_tables_get_the_same_sparse_gradient(name: str, padding: int | None) -> None:
    found = []
    for t in BOTH:
        start = t.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3))
        if name == "Embedding":
            table = t.nn.Embedding(5, 3, padding_idx=padding, sparse=True, _weight=start)
        else:
            if name == "max":
                pytest.skip("PyTorch has no sparse gradient of it")
            table = t.nn.EmbeddingBag(5, 3, mode=name, padding_idx=padding, sparse=True, _weight=start)
        for batch in BATCHES[:2]:
            (table(t.tensor(batch)) ** 2).sum().backward()
        g = table.weight.grad
        found.append(numbers([g.coalesce(), g.is_sparse]))
    same(*found)


@pytest.mark.parametrize("order", ["sparse dense", "dense sparse", "sparse sparse", "one pass", "three in one pass"])
def test_gradients_of_both_kinds_add_up(order: str) -> None:
    found = []
    for t in BOTH:
        w = t.arange(15.0).reshape(5, 3).requires_grad_()
        rows = [t.nn.functional.embedding(t.tensor(b), w, sparse=True).square().sum() for b in BATCHES[:3]]
        whole = (w * w).sum()
        if order == "sparse dense":
            rows[0].backward(), whole.backward()
        elif order == "dense sparse":
            whole.backward(), rows[0].backward(), rows[1].backward()
        elif order == "sparse sparse":
            rows[0].backward(), rows[1].backward(), rows[2].backward()
        else:
            (rows[0] + whole + rows[1] if order == "one pass" else rows[0] + rows[1] + rows[2]).backward()
        g = w.grad
        found.append(numbers([g.is_sparse, g.coalesce() if g.is_sparse else g]))
    same(*found)


OPTIMIZERS = {
    "SGD": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "upwards": ("SGD", {"lr": 0.01, "momentum": 0.5, "maximize": True}),
    "Adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    "Adagrad upwards": ("Adagrad", {"lr": 0.1, "maximize": True}),
    "SparseAdam": ("SparseAdam", {"lr": 0.1}),
    "SparseAdam upwards": ("SparseAdam", {"lr": 0.1, "betas": (0.8, 0.9), "maximize": True}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_sparse_gradients(name: str) -> None:
    kind, settings = OPTIMIZERS[name]
    found = []
    for t in BOTH:
        start = t.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3))
        table = t.nn.Embedding(5, 3, sparse=True, _weight=start)
        opt = getattr(t.optim, kind)(list(table.parameters()), **settings)
        for k in range(8):
            opt.zero_grad(set_to_none=k % 2 == 0)
            ((table(t.tensor(BATCHES[k % 4])) - 0.5) ** 2).sum().backward()
            opt.step()
        found.append(table.weight.detach().numpy())
    np.testing.assert_allclose(*found, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD",
                                  "Adafactor", "Muon"])  # fmt: skip
def test_other_optimizers_raise_pytorch_s_error(name: str) -> None:
    said = []
    for t in BOTH:
        table = t.nn.Embedding(5, 3, sparse=True)
        opt = getattr(t.optim, name)(list(table.parameters()))
        table(t.tensor([1, 2])).sum().backward()
        with pytest.raises(RuntimeError) as e:
            opt.step()
        said.append(str(e.value).splitlines()[0])
    assert said[0] == said[1]


@pytest.mark.parametrize("source", ["a", "c", "h", "csr", "csc", "i", "none", "{'x': [a, csr], 'y': D}"])
def test_files_go_both_ways(source: str) -> None:
    for writer, reader in ((core, torch), (torch, core), (core, core)):
        file = io.BytesIO()
        writer.save(eval(source, made(writer)), file)
        file.seek(0)
        read, kept = reader.load(file), eval(source, made(writer))
        for x, y in zip(*(v["x"] if isinstance(v, dict) else [v] for v in (read, kept)), strict=True):
            same(numbers(x), numbers(y))


def test_double_gradients_through_a_product() -> None:
    found = []
    for t in BOTH:
        v = t.tensor([1.0, 2.0, 3.0], dtype=t.float64, requires_grad=True)
        E = t.arange(6.0).double().reshape(3, 2).requires_grad_()
        index = t.tensor([[0, 1, 1], [2, 0, 2]])
        if t is core:
            s = t.sparse_coo_tensor(index, v, (2, 3))
        else:  # whose sparse products have no second gradients
            s = t.zeros(2, 3, dtype=t.float64).index_put((index[0], index[1]), v)
        (g,) = t.autograd.grad((t.matmul(s, E) ** 3).sum(), v, create_graph=True)
        g.square().sum().backward()
        found.append([v.grad.numpy(), E.grad.numpy()])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs)


def test_warnings_are_pytorch_s_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(core)
