"""split, chunk and unbind in C (native/binding/calls/split_unbind.c): they give and note what the Python functions
do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import Tensor, native

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("split", (2,), {}), ("split", (3, 1), {}), ("split", (4,), {"dim": -1}), ("split", ([1, 3, 0], 0), {}),
    ("split", ((2, 4), 1), {}), ("chunk", (2,), {}), ("chunk", (3, -1), {}), ("chunk", (99,), {"dim": 1}),
    ("chunk", (1, 2), {}), ("unbind", (), {}), ("unbind", (1,), {}), ("unbind", (), {"dim": -1}),
]  # fmt: skip


def _both(x: Tensor, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    face = getattr(core, name)
    assert isinstance(face, native.module.PublicFunction)
    return face(x, *args, **kwargs), face.__wrapped__(x, *args, **kwargs)


@pytest.mark.parametrize("layout", ["plain", "turned", "view"])
@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_the_pieces_are_those_of_python(name: str, args: Any, kwargs: Any, layout: str) -> None:
    x = core.arange(48.0).reshape(4, 6, 2)
    x = {"plain": x, "turned": core.arange(48.0).reshape(2, 6, 4).permute(2, 1, 0), "view": x[:, :]}[layout]
    for mode in (core.no_grad(), core.enable_grad()):
        with mode:
            quick, plain = _both(x, name, args, kwargs)
            assert type(quick) is type(plain) is tuple
            assert len(quick) == len(plain)
            for a, b in zip(quick, plain, strict=True):
                assert (a._a.shape, a._a.strides) == (b._a.shape, b._a.strides)
                assert a._a.__array_interface__["data"] == b._a.__array_interface__["data"]
                assert (a._base, a._storage, a._rule, a._view_version) == (
                    b._base,
                    b._storage,
                    b._rule,
                    b._view_version,
                )
                assert len(a._way) == len(b._way)
                assert a._way[-1](x).tolist() == a.tolist() if x._base is None else True


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_the_nodes_and_gradients_are_those_of_python(name: str, args: Any, kwargs: Any) -> None:
    x = core.arange(48.0).reshape(4, 6, 2).requires_grad_()
    found = []
    for pieces in (_both(x * 1, name, args, kwargs)[k] for k in range(2)):
        node = pieces[0].grad_fn
        assert {p.grad_fn for p in pieces} == {node}
        assert [p.output_nr for p in pieces] == list(range(len(pieces)))
        assert all(p.requires_grad for p in pieces)
        # of the pieces every second is used
        total = sum(((p * (k + 1)) ** 2).sum() for k, p in enumerate(pieces) if k % 2 == 0)
        total.backward()
        found.append((node.op, node.out_meta, node.params, node.nrs, node.saved, x.grad))
        x.grad = None
    assert found[0][:5] == found[1][:5]
    np.testing.assert_array_equal(found[0][5].numpy(), found[1][5].numpy())


def test_a_piece_must_not_be_written_and_follows_its_base() -> None:
    x = core.ones(4, 2, requires_grad=True)
    first, _ = (x * 1).chunk(2)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        first.add_(1)
    base = core.ones(4, 2)
    with core.no_grad():
        piece = base.split(2)[1]
    base[2] = 5.0
    assert piece.tolist() == [[5.0, 5.0], [1.0, 1.0]]
    assert piece._version == base._version == 1


@pytest.mark.parametrize(("name", "args"), [
    ("split", (0,)), ("split", (-1,)), ("split", ([1, 1],)), ("split", (2, 5)), ("split", ([5, -1],)), ("chunk", (0,)),
    ("chunk", (2, 3)), ("unbind", (2,)),
])  # fmt: skip
def test_what_is_wrong_python_says(name: str, args: Any) -> None:
    with pytest.raises((RuntimeError, IndexError), match=r"split|chunk|[dD]imension"):
        getattr(core, name)(core.ones(4, 2), *args)


def test_pieces_of_nothing_and_of_many_items() -> None:
    assert [p.shape for p in core.ones(0, 2).split(2)] == [(0, 2)]
    assert len(core.ones(200).unbind()) == 200
    x = core.ones(200, requires_grad=True)
    core.stack(x.split(1)).sum().backward()
    assert x.grad.tolist() == [1.0] * 200  # type: ignore[union-attr]
