"""Modules that hold modules and parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import core
from core import nn


def test_a_sequence_is_changed_like_a_list() -> None:
    m = nn.Sequential(OrderedDict(a=nn.Linear(2, 2), b=nn.ReLU()))
    assert m.a is m[0] is m[-2]
    assert list(m[1:].state_dict()) == []
    assert [n for n, _ in m[:1].named_parameters()] == ["a.weight", "a.bias"]
    m[1] = nn.Tanh()
    assert type(m.b) is nn.Tanh
    m.append(nn.Identity()).insert(0, nn.Flatten())
    assert [type(x).__name__ for x in m] == ["Flatten", "Linear", "Tanh", "Identity"]
    del m[0]
    assert list(m._modules) == ["0", "1", "2"]
    assert type(m.pop(-1)) is nn.Identity
    m += nn.Sequential(nn.ReLU())
    m *= 2
    assert len(m) == len(m + nn.Sequential()) == 6
    assert len(2 * m) == 12
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential"):
        m + [nn.ReLU()]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        m[9]


def test_a_list_of_modules_registers_them() -> None:
    m = nn.ModuleList([nn.Linear(1, 1)])
    m += [nn.ReLU(), nn.Linear(1, 1)]
    m.insert(1, nn.Tanh())
    assert [n for n, _ in m.named_parameters()] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    del m[1]
    assert type(m[1]) is nn.ReLU
    assert len(m + [nn.Identity()]) == 4
    assert len(m[:2]) == 2
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        m(core.ones(1))


def test_a_dict_of_modules_registers_them() -> None:
    m = nn.ModuleDict([("a", nn.Linear(1, 1)), ("b", nn.ReLU())])
    assert list(m.keys()) == ["a", "b"]
    assert "a" in m
    assert type(m.pop("b")) is nn.ReLU
    m.update({"c": nn.Tanh()})
    assert [k for k, _ in m.items()] == ["a", "c"]
    with pytest.raises(ValueError, match="has length 1; 2 is required"):
        m.update([("x",)])
    m.clear()
    assert len(m) == 0


def test_parameters_are_held_in_a_row() -> None:
    m = nn.ParameterList([core.ones(2), nn.Parameter(core.zeros(1)), "note"])
    assert [type(v).__name__ for v in m] == ["Parameter", "Parameter", "str"]
    assert list(m.state_dict()) == ["0", "1"]
    m[0] = core.zeros(3)
    m.append(core.ones(()))
    assert len(m[1:]) == 3
    assert m[-1].shape == ()
    assert repr(m).splitlines()[3] == "    (2): Object of type: str"
    with pytest.raises(RuntimeError, match="should not be called"):
        m(1)


def test_parameters_are_held_by_name() -> None:
    m = nn.ParameterDict({"b": core.ones(2), "a": core.ones(1)})
    assert list(m) == ["a", "b"]
    assert [n for n, _ in m.named_parameters()] == ["a", "b"]
    assert m.get("x", 3) == 3
    assert m.setdefault("c", core.ones(3)) is m["c"]
    assert m.popitem()[0] == "c"
    both = m | nn.ParameterDict({"d": core.ones(1)})
    assert list(both) == ["a", "b", "d"]
    del m["a"]
    assert list(m.state_dict()) == ["b"]
    assert repr(m) == "ParameterDict(  (b): Parameter containing: [core.FloatTensor of size 2])"
