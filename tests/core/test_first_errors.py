"""What a beginner's slip is answered with: the thing at fault and the remedy are in the message."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import core
from core import nn
from core.utils.data import DataLoader


def net() -> nn.Linear:
    return nn.Linear(2, 2)


def used_up() -> object:
    params = net().parameters()
    list(params)
    return core.optim.Adam(params)


@pytest.mark.parametrize(
    ("slip", "error", "needle"),
    [
        (lambda: core.optim.SGD(net(), lr=0.1), TypeError, r"Linear' object is not iterable\n.*model\.parameters\(\)"),
        (used_up, ValueError, r"empty parameter list\n.*a generator"),
        (
            lambda: core.optim.Adam(net().parameters()).load_state_dict(net().state_dict()),
            KeyError,
            "optimizer's state",
        ),
        (lambda: nn.Sequential([net()]), TypeError, r"list is not a Module subclass.*\*layers"),
        (lambda: net().load_state_dict(net()), TypeError, r"dict-like, .*state_dict\(\)"),
        (lambda: nn.GRU(2, 3)(core.ones(4, 1, 2), (core.ones(1, 1, 3),) * 2), TypeError, r"h_0\n  op: GRU.*a tuple"),
        (
            lambda: list(DataLoader([core.ones(2), core.ones(3)], 2)),
            RuntimeError,
            r"\[2\] at .* \[3\] .*\n.*collate_fn",
        ),
        (lambda: list(DataLoader([[1, 2], [1]], 2)), RuntimeError, r"equal size\n.*lengths 2, 1.*collate_fn"),
        (lambda: list(DataLoader([{"a": 1}, {"b": 1}], 2)), KeyError, "sample 1 .* lacks the key 'a'"),
    ],
)
def test_message_names_what_came_and_the_remedy(slip, error, needle):
    with pytest.raises(error, match=f"(?s){needle}"):
        slip()


def test_attribute_misspelled_is_suggested():
    with pytest.raises(AttributeError) as caught:
        net().wieght  # noqa: B018
    assert (caught.value.name, caught.value.obj.weight.shape) == ("wieght", (2, 2))  # what Python suggests by


def test_names_of_older_programs():
    x = core.ones(2, requires_grad=True) * 2
    old = core.autograd.Variable(x)
    assert isinstance(old, core.autograd.Variable)
    assert (old.is_leaf, old.requires_grad) == (True, False)
    assert old.data_ptr() == x.data_ptr()
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert core.autograd.Variable(x, volatile=True).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="has to be a tensor"):
        core.autograd.Variable([1.0])
    assert core.optim.lr_scheduler._LRScheduler is core.optim.lr_scheduler.LRScheduler


def test_what_programs_say_before_they_begin():
    """The lines of every `seed_everything`."""
    core.cuda.manual_seed(1)
    core.cuda.manual_seed_all(1)
    core.cuda.empty_cache()
    core.backends.cudnn.deterministic, core.backends.cudnn.benchmark = True, False
    assert not core.backends.mps.is_available()
    with pytest.raises(AttributeError, match="no attribute 'xla'"):
        core.backends.xla  # noqa: B018
    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as f:
        assert tomllib.load(f)["project"]["version"] == core.__version__


@pytest.mark.skipif(not core.cuda.is_available(), reason="needs the device cuda: a GPU or TRITON_INTERPRET=1")
def test_seed_of_the_device():
    core.cuda.manual_seed(7)
    first = core.rand(3, device="cuda").tolist()
    core.cuda.manual_seed_all(7)
    assert core.rand(3, device="cuda").tolist() == first


def test_tensor_called_as_older_programs_do():
    assert core.Tensor([[1, 2]]).tolist() == [[1.0, 2.0]]
    assert core.Tensor(np.arange(2)).dtype == core.float32
    assert core.Tensor(2, 3).shape == core.Tensor(core.Size([2, 3])).shape == (2, 3)
    assert core.Tensor().shape == (0,)
    x = core.ones(2)
    assert core.Tensor(x).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match=r"(?s)expected core.float32 .*x\.float\(\)"):
        core.Tensor(core.arange(2))
    with pytest.raises(TypeError, match=r"(?s)came: float; remedy: core\.tensor"):
        core.Tensor(3.5)
    assert core.nn.Parameter(core.ones(2)).tolist() == [1.0, 1.0]
