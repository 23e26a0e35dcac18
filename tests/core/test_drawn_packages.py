"""What thirty packages, drawn and not chosen, asked for and did not find."""

from __future__ import annotations

import pytest

import core
from core import __config__, _tensor_str
from core.nn.utils import _named_member_accessor as accessor
from core.utils import _foreach_utils
from core.utils.data import pinning


def test_ops_are_defined_by_schema_and_computed_by_device() -> None:
    core.library.define("drawn::twice", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"drawn::twice.*\n.*remedy"):
        core.ops.drawn.twice(core.ones(1))

    @core.library.impl("drawn::twice", "default")
    def twice(x: core.Tensor) -> core.Tensor:
        return 2 * x  # type: ignore[no-any-return]

    core.library.impl("drawn::twice", ["CPU"], lambda x: 3 * x)
    x = core.ones(2, requires_grad=True)
    core.ops.drawn.twice(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
    assert core.ops.drawn.twice(core.ones(1, device="meta")).is_meta
    with pytest.raises(ValueError, match="namespace"):
        core.library.define("twice", "(Tensor x) -> Tensor")


def test_members_of_modules_are_exchanged_by_name() -> None:
    model = core.nn.Sequential(core.nn.Linear(2, 1))
    old, new = model[0].weight, core.ones(1, 2)
    members = accessor.NamedMemberAccessor(model)
    assert members.swap_tensor("0.weight", new) is old
    assert model[0].weight is new
    assert members.get_tensor("0.weight") is new
    assert accessor.swap_tensor(model[0], "extra", new, allow_missing=True) is None
    assert model[0].extra is new
    with pytest.raises(AttributeError, match="no attribute"):
        accessor.swap_tensor(model[0], "nothing", new)
    with pytest.raises(KeyError, match="one word without dots"):
        accessor.swap_tensor(model, "0.weight", new)
    members.set_tensor("0.weight", old)
    assert members.swap_tensors_dict({"0.weight": new}) == ({"0.weight": old}, [])


def test_lists_are_grouped_by_dtype() -> None:
    x = [core.ones(1), core.ones(1).double(), core.ones(2)]
    groups = _foreach_utils._group_tensors_by_device_and_dtype([x, [], [1, 2, 3]], with_indices=True)
    assert [(places, lists[2]) for lists, places in groups.values()] == [([0, 2], [1, 3]), ([1], [2])]
    assert _foreach_utils._has_foreach_support(x, core.device("cpu"))


class Members:
    """A class that PyTorch would compile."""


def test_small_names() -> None:
    assert "kernels" in __config__.show()
    assert "threads" in __config__.parallel_info()
    assert _tensor_str._tensor_str(core.tensor([1, 2]), 0) == "[1, 2]"
    assert _tensor_str.PRINT_OPTS.threshold == 1000
    assert _tensor_str._add_suffixes("tensor(1", ["a=2"], 7, False) == "tensor(1, a=2)"
    assert _tensor_str._str_intern(core.tensor(1), tensor_contents="...") == "tensor(...)"
    assert pinning.pin_memory([core.ones(1)])[0].tolist() == [1.0]
    assert core.ops.aten._to_copy.default(core.ones(1), dtype=core.float64).dtype is core.float64
    assert core.ops.aten.slice.Tensor(core.arange(5), 0, 1, 3).tolist() == [1, 2]
    assert not isinstance(core.ones(1), core.cuda.FloatTensor)
    assert core.cuda.LongTensor.dtype is core.int64
    assert core.jit.script(Members) is Members
    assert core.cuda.amp.amp_definitely_not_available() != core.cuda.is_available()
    with pytest.raises(NotImplementedError, match="forward mode"):
        core.autograd.Function.jvp(None)
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        core.distributed.rpc.api._require_initialized(len)([])
