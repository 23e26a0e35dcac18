"""What a nested tensor is: its sequences, the size that differs, its history; and what is not one."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import core
from core import nested
from core.backends.sparse_array import NotDense
from core.nested.structure import RaggedSize, Structure

J = {"layout": core.jagged}


def sequences(*lengths: int, width: int = 4, seed: int = 0) -> list[core.Tensor]:
    rng = np.random.default_rng(seed)
    return [core.tensor(rng.normal(size=(n, width)).astype(np.float32)) for n in lengths]


def same(x: core.Tensor, y: core.Tensor) -> None:
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_the_size_that_differs_is_equal_to_itself_alone():
    a = RaggedSize()
    b = RaggedSize()
    assert a != b
    assert a != 3
    assert a == RaggedSize(a.number)
    assert {a: 1}[RaggedSize(a.number)] == 1
    assert repr(a * 4) == repr(4 * a) == f"4*j{a.number}"
    assert a >= 2
    assert not a < 2
    assert a <= a
    assert isinstance(a, core.SymInt)
    for ask in (lambda: a > 3, lambda: a < 5, lambda: a >= b):
        with pytest.raises(ValueError, match=r"relation is indeterminate[\s\S]*remedy: x.offsets\(\)"):
            ask()
    with pytest.raises(TypeError, match="is no int"):
        int(a)


def test_tensors_of_the_same_offsets_have_the_same_size():
    x = nested.nested_tensor(sequences(2, 3), **J)
    y = nested.nested_tensor_from_jagged(x.values() * 2, offsets=x.offsets())
    z = nested.nested_tensor(sequences(2, 3), **J)
    assert x.shape == y.shape == (2, x.size(1), 4)
    assert x.shape != z.shape
    same((x + y).values(), x.values() * 3)
    with pytest.raises(RuntimeError, match=r"cannot call binary[\s\S]*offsets=x.offsets\(\)"):
        x + z


def test_a_structure_lies_within_the_values():
    ends = core.tensor([0, 2, 5])
    assert Structure(ends, None, 5).longest == 3
    for wrong in ([0, 2, 6], [-1, 2, 5], [0, 3, 2]):
        with pytest.raises(RuntimeError, match=r"offsets do not lie within the values[\s\S]*remedy"):
            nested.nested_tensor_from_jagged(core.ones(5, 2), core.tensor(wrong))


def test_rows_in_no_sequence_take_no_part():
    values = core.arange(14.0).view(7, 2)
    x = nested.nested_tensor_from_jagged(values, core.tensor([0, 3, 7]), core.tensor([2, 3]))
    assert x.numel() == 10
    assert not x.is_contiguous()
    assert x.sum().item() == values[[0, 1, 3, 4, 5]].sum().item()
    same(x.sum(1), core.stack([values[:2].sum(0), values[3:6].sum(0)]))
    assert x.contiguous().values().shape == (5, 2)
    same((x + x.contiguous()).values(), 2 * values[[0, 1, 3, 4, 5]])
    same((x * core.tensor([[[1.0]], [[2.0]]]))[1], 2 * values[3:6])
    same(x.to_padded_tensor(0.0)[1], values[3:6])
    plain = nested.nested_tensor_from_jagged(values, core.tensor([0, 3, 6]))  # the last row belongs to none
    assert plain.sum().item() == values[:6].sum().item()


def test_a_narrowed_batch_is_a_view_of_it():
    batch = core.arange(12.0).view(3, 4).requires_grad_()
    x = nested.narrow(batch, 1, core.tensor([1, 0, 2]), core.tensor([2, 4, 1]), **J)
    assert [t.tolist() for t in x] == [[1, 2], [4, 5, 6, 7], [10]]
    (x * 2).sum().backward()
    assert batch.grad.tolist() == [[0, 2, 2, 0], [2, 2, 2, 2], [0, 0, 2, 0]]
    with pytest.raises(RuntimeError, match="do not lie within"):
        nested.narrow(batch, 1, 3, 2, **J)


def test_the_history_is_that_of_the_values():
    x = nested.nested_tensor(sequences(2, 3), requires_grad=True, **J)
    seen = []
    x.register_hook(lambda g: seen.append(g.shape) or g * 10)
    (x * 3).sum().backward()
    assert seen == [x.shape]
    assert x.grad.is_nested
    assert set(x.grad.values().flatten().tolist()) == {30.0}
    y = x * 2
    y.retain_grad()
    y.backward(core.ones_like(y))
    assert set(y.grad.values().flatten().tolist()) == {1.0}
    (g,) = core.autograd.grad(x * 2, x, core.ones_like(x), create_graph=True)
    assert g.is_nested
    assert not y.detach().requires_grad
    assert x.is_leaf
    assert not y.is_leaf
    with core.no_grad():
        assert not (x * 2).requires_grad


def test_copies_and_pickles():
    x = nested.nested_tensor(sequences(2, 3), requires_grad=True, **J)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.is_nested
        assert y.requires_grad
        same(y.values(), x.values())
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    with pytest.raises(TypeError, match=r"cannot save an object[\s\S]*remedy"):
        core.save(x, "never written")


def test_it_keeps_no_memory_of_the_list():
    t = core.ones(2, 3)
    x = nested.nested_tensor([t], **J)
    t.zero_()
    assert x.values().tolist() == [[1.0] * 3] * 2


def test_without_a_layout_the_remedy_is_named():
    with pytest.raises(
        NotImplementedError, match=r"strided layout[\s\S]*remedy: nested_tensor\(..., layout=core.jagged\)"
    ):
        nested.nested_tensor(sequences(2, 3))
    with pytest.raises(NotImplementedError, match="strided"):
        nested.as_nested_tensor(sequences(2, 3), layout=core.strided)
    assert core.zeros(2).layout is core.strided
    assert not core.zeros(2).is_nested


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: core.sort(x),
        lambda x: core.nn.functional.mse_loss(x, x),
        lambda x: core.nn.LSTM(4, 2, batch_first=True)(x),
        lambda x: core.nn.Conv1d(4, 2, 1)(x),
        lambda x: core.nn.Parameter(x),
        lambda x: core.func.vmap(core.sin)(x),
        lambda x: core.tensor(x),
        lambda x: np.asarray(x),
    ],
)
def test_what_has_no_rule_says_what_to_do(ask):
    with pytest.raises((NotImplementedError, RuntimeError), match=r"remedy: .*(to_padded_tensor|values)"):
        ask(nested.nested_tensor(sequences(2, 3), **J))


def test_what_asks_for_the_array_itself_raises():
    x = nested.nested_tensor(sequences(2, 3), **J)
    with pytest.raises(NotDense, match="to_padded_tensor"):
        x._a.reshape(-1)
    assert x._a.nbytes == x.nbytes


def test_attention_modules_say_what_to_do():
    x = nested.nested_tensor(sequences(2, 3), **J)
    with pytest.raises(AssertionError, match=r"does not support NestedTensor[\s\S]*key_padding_mask"):
        core.nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)


def test_it_is_loaded_when_it_is_asked_for():
    code = "import sys, core; assert 'core.nested' not in sys.modules; core.nested; assert 'core.nested' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_make_tensors_of_their_own_sizes():
    found: list[RaggedSize] = []
    threads = [threading.Thread(target=lambda: found.append(nested.nested_tensor(sequences(1, 2), **J).size(1)))
               for _ in range(8)]  # fmt: skip
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 8


def test_under_the_alias():
    code = ("import core; core.as_torch(); import torch; from torch.nested import nested_tensor\n"
            "from torch.nested._internal.nested_tensor import NestedTensor\n"
            "x = nested_tensor([[1.0], [2.0, 3.0]], layout=torch.jagged)\n"
            "assert isinstance(x, NestedTensor) and x.layout is torch.jagged\n"
            "assert x.sum(1).tolist() == [1.0, 5.0]")  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
