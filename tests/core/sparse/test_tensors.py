"""Making sparse tensors, what they are made of, ops of them, and what they refuse."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import core
from core.dispatch.sparse import SparseTensor


@pytest.fixture
def a() -> core.Tensor:
    """A matrix of (3, 4) whose places are in no order and one of them there twice."""
    return core.sparse_coo_tensor([[2, 0, 2, 1], [1, 3, 1, 0]], [1.0, 2.0, 3.0, 4.0], (3, 4))


DENSE = np.array([[0, 0, 0, 2], [4, 0, 0, 0], [0, 4, 0, 0]], np.float32)


def test_places_and_values(a: core.Tensor) -> None:
    assert (a.layout, a.is_sparse, a.shape, a._nnz()) == (core.sparse_coo, True, (3, 4), 4)
    assert not a.is_coalesced()
    c = a.coalesce()
    assert c.is_coalesced()
    assert c.indices().tolist() == [[0, 1, 2], [3, 0, 1]]
    assert c.values().tolist() == [2.0, 4.0, 4.0]
    np.testing.assert_array_equal(a.to_dense().numpy(), DENSE)
    assert a.to_dense().layout is core.strided


@pytest.mark.parametrize("layout", [core.sparse_coo, core.sparse_csr, core.sparse_csc], ids=repr)
@pytest.mark.parametrize("dtype", [core.float32, core.float64, core.bfloat16, core.int64, core.bool, core.complex64],
                         ids=repr)  # fmt: skip
def test_every_layout_and_dtype_comes_back(layout: core.layout, dtype: core.dtype) -> None:
    x = core.tensor(DENSE).to(dtype)
    y = x.to_sparse(layout=layout)
    assert y.layout is layout
    assert y.dtype is dtype
    assert y.to_dense().dtype is dtype
    assert bool((y.to_dense() == x).all())
    assert bool((y.to_sparse_csr().to_sparse_csc().to_sparse().to_dense() == x).all())


def test_a_dense_tensor_is_not_sparse() -> None:
    x = core.ones(2, 2)
    assert (x.is_sparse, x.is_sparse_csr, x.sparse_dim(), x.dense_dim()) == (False, False, 0, 2)
    assert x.to_dense() is x
    with pytest.raises(
        RuntimeError, match=r"indices expected sparse coordinate tensor layout but got Strided[\s\S]*to_sparse"
    ):
        x.indices()


def test_copies_pickles_and_files(a: core.Tensor) -> None:
    a.requires_grad_()
    file = io.BytesIO()
    core.save({"a": a.detach(), "csr": a.detach().to_sparse_csr()}, file)
    file.seek(0)
    read = core.load(file)
    for other in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a)), read["a"], read["csr"], a.clone()):
        assert isinstance(other, SparseTensor)
        np.testing.assert_array_equal(other.to_dense().detach().numpy(), DENSE)
    assert copy.deepcopy(a).requires_grad
    b = copy.deepcopy(a.detach())
    b.mul_(2)
    np.testing.assert_array_equal(a.to_dense().detach().numpy(), DENSE)


def test_a_module_takes_one_as_a_buffer(a: core.Tensor) -> None:
    m = core.nn.Module()
    m.register_buffer("adjacency", a)
    m.double()
    assert m.adjacency.dtype is core.float64
    assert m.adjacency.is_sparse
    other = core.nn.Module()
    other.register_buffer("adjacency", core.zeros_like(a).double())
    other.load_state_dict(m.state_dict())
    np.testing.assert_array_equal(other.adjacency.to_dense().numpy(), DENSE)


def test_in_place_ops_keep_what_shares_the_values() -> None:
    c = core.eye(3).to_sparse()
    values = c.values()
    c.mul_(3).div_(2)
    assert values.tolist() == [1.5, 1.5, 1.5]
    c += c
    assert c.to_dense().sum().item() == 9.0
    assert c.zero_()._nnz() == 0
    assert c.copy_(core.eye(3).to_sparse()).to_dense().sum().item() == 3.0
    with pytest.raises(RuntimeError, match="leaf Variable"):
        core.eye(2).to_sparse().requires_grad_().mul_(2)


@pytest.mark.parametrize(("call", "op"), [
    (lambda a: a.exp(), "exp"), (lambda a: core.cos(a), "cos"), (lambda a: a.reshape(-1), "reshape"),
    (lambda a: a == a, "eq"), (lambda a: a.max(), "amax"), (lambda a: core.linalg.inv(a @ a.t()), "linalg_inv_ex"),
    (lambda a: core.where(core.ones(3, 4) > 0, a, a), "where"),
    (lambda a: core.cumsum(a, 0), "cumsum"), (lambda a: a.fill_(1), "fill_"),
    (lambda a: core.ones_like(a), "ones_like"), (lambda a: a.tolist(), "tolist"),
    (lambda a: core.nn.functional.gelu(a.abs() + a).cos(), "cos"), (lambda a: core.nn.Parameter(a), "Parameter"),
])  # fmt: skip
def test_other_ops_name_themselves_and_the_remedy(a: core.Tensor, call, op: str) -> None:
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)) as e:
        call(a)
    assert "to_dense()" in str(e.value)
    assert f"op: {op}" in str(e.value)
    assert "sparse_coo" in str(e.value)


def test_rows_one_after_another(a: core.Tensor) -> None:
    assert [row.to_dense().tolist() for row in a] == DENSE.tolist()
    with pytest.raises(NotImplementedError, match="to_dense"):
        core.equal(a, a)


def test_older_names_make_the_same(a: core.Tensor) -> None:
    b = core.sparse.DoubleTensor(a._indices(), a._values(), a.shape)
    assert b.dtype is core.float64
    np.testing.assert_array_equal(b.to_dense().numpy(), DENSE)
    assert core.sparse.FloatTensor(None, None, (2, 2))._nnz() == 0


def test_wrong_parts_are_refused() -> None:
    with pytest.raises(RuntimeError, match="indices and values must have same nnz"):
        core.sparse_coo_tensor([[0, 1]], [1.0], (3,))
    with pytest.raises(RuntimeError, match="found index 5"):
        core.sparse_coo_tensor([[5]], [1.0], (3,))
    with pytest.raises(RuntimeError, match="must start with 0"):
        core.sparse_csr_tensor([1, 2], [0, 0], [1.0, 1.0])
    with pytest.raises(RuntimeError, match="size is inconsistent"):
        core.sparse_csr_tensor([0, 1], [3], [1.0], (1, 2))
    with pytest.raises(RuntimeError, match="batches of matrices"):
        core.sparse_csr_tensor([[0, 1]], [[0]], [[1.0]])
    with pytest.raises(RuntimeError, match="sparse_compressed"):
        core.sparse_compressed_tensor([0], [0], [1.0], layout=core.strided)


def test_a_broken_file_is_refused() -> None:
    file = io.BytesIO()
    core.save(core.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,)), file)
    data = file.getvalue().replace(b"K\x03\x85", b"K\x01\x85")  # the size
    if data != file.getvalue():
        with pytest.raises(RuntimeError):
            core.load(io.BytesIO(data))


def test_sums_are_the_same_bits_every_time() -> None:
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 7, (1, 4000)), rng.normal(size=4000).astype(np.float32)
    first = core.sparse_coo_tensor(index, values, (7,)).coalesce().values().numpy()
    for _ in range(3):
        again = core.sparse_coo_tensor(index, values, (7,)).coalesce().values().numpy()
        np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, np.bincount(index[0], values.astype(np.float64), 7), rtol=1e-4, atol=1e-4)


def test_nothing_at_all() -> None:
    none = core.sparse_coo_tensor(size=(2, 3))
    assert none._nnz() == 0
    assert none.to_dense().tolist() == [[0.0] * 3] * 2
    assert (none @ core.ones(3, 2)).tolist() == [[0.0] * 2] * 2
    assert none.to_sparse_csr().crow_indices().tolist() == [0, 0, 0]
    assert (none + none).coalesce()._nnz() == 0
    assert core.sparse.softmax(none, 1)._nnz() == 0
    assert core.zeros(0, 3).to_sparse().to_dense().shape == (0, 3)
