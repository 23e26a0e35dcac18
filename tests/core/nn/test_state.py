"""Saving and loading the state of modules."""

from __future__ import annotations

from typing import Any

import pytest

import core
from core import nn
from core.events import observe


def test_a_state_shares_memory_and_has_no_history() -> None:
    m = nn.Linear(2, 1)
    state = m.state_dict()
    assert not state["weight"].requires_grad
    state["weight"].fill_(7.0)
    assert m.weight.tolist() == [[7.0, 7.0]]
    assert m.state_dict(keep_vars=True)["weight"] is m.weight
    assert state._metadata == {"": {"version": 1}}
    assert list(m.state_dict(prefix="a.")) == ["a.weight", "a.bias"]


def test_saving_is_not_told_as_leaving_the_graph() -> None:
    class Cuts(observe.Observer):
        heard = 0

        def cut(self, event: observe.CutEvent) -> None:
            self.heard += 1

    m, cuts = nn.Linear(2, 1), Cuts()
    m(core.ones(1, 2)).sum().backward()
    with observe.observing(cuts):
        m.state_dict()
        m.zero_grad(set_to_none=False)
    assert cuts.heard == 0
    assert m.weight.grad.tolist() == [[0.0, 0.0]]


def test_loading_copies_across_dtypes_and_moves_the_version() -> None:
    m = nn.Linear(2, 1)
    m.load_state_dict({"weight": core.full((1, 2), 0.5, dtype=core.float64), "bias": core.ones(1)})
    assert m.weight.dtype is core.float32
    assert m.weight.tolist() == [[0.5, 0.5]]
    assert m.weight._version > 0


def test_assigning_takes_the_tensors_themselves() -> None:
    m = nn.BCEWithLogitsLoss(weight=core.ones(2))
    weight = core.zeros(2, dtype=core.float64)
    m.load_state_dict({"weight": weight}, assign=True)
    assert m.weight is weight
    layer = nn.Linear(2, 1, bias=False).requires_grad_(False)
    layer.load_state_dict({"weight": core.ones(1, 2, dtype=core.float64)}, assign=True)
    assert type(layer.weight) is nn.Parameter
    assert (layer.weight.dtype, layer.weight.requires_grad) == (core.float64, False)


def test_every_mismatch_is_named_at_once() -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    state = {"0.weight": core.ones(3, 2), "0.bias": core.ones(2), "1.weight": core.ones(1, 2), "2.weight": core.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict(state)
    assert str(caught.value) == (
        'Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: "1.bias". \n\t'
        'Unexpected key(s) in state_dict: "2.weight". \n\tsize mismatch for 0.weight: copying a param with shape '
        "torch.Size([3, 2]) from checkpoint, the shape in current model is torch.Size([2, 2])."
    )


class Counting(nn.Module):
    """A module with a state that is no tensor, and an older name for its weight."""

    _version = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.count = nn.Parameter(core.zeros(1)), 0

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any) -> None:
        if local_metadata.get("version", 1) < 2:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


def test_extra_state_and_older_versions_are_loaded() -> None:
    m = nn.Sequential(Counting())
    m[0].count = 5
    state = m.state_dict()
    assert state["0._extra_state"] == {"count": 5}
    n = nn.Sequential(Counting())
    n.load_state_dict(state)
    assert n[0].count == 5
    n.load_state_dict({"0.w": core.ones(1), "0._extra_state": {"count": 6}})
    assert (n[0].weight.item(), n[0].count) == (1.0, 6)
    with pytest.raises(RuntimeError, match="_extra_state"):
        nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)


def test_hooks_may_change_what_is_saved_and_loaded() -> None:
    m = nn.Linear(1, 1)
    log: list[str] = []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: log.append("saving"))
    m.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.pop("bias") and None)
    m.register_load_state_dict_pre_hook(
        lambda mod, state, prefix, *rest: state.setdefault("bias", core.ones(1)) and None
    )
    m.register_load_state_dict_post_hook(lambda mod, keys: log.append(f"missing {keys.missing_keys}"))
    state = m.state_dict()
    assert list(state) == ["weight"]
    m.load_state_dict(state)
    assert m.bias.item() == 1.0
    assert log == ["saving", "missing []"]
