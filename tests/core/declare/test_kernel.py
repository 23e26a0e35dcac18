"""Declarations of C kernels: the grammar, the printed entries, and the rows that follow from them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from core import native
from core.backends import rows
from core.declare import emit_adapters
from core.declare.kernel import Axis, Kernel, kernel, kernels, split


@pytest.fixture
def declared():
    """Declare for one test."""
    before = dict(kernels)
    yield kernel
    kernels.clear()
    kernels.update(before)


def printed(found: Kernel) -> str:
    return emit_adapters.Entry(found).source()


def test_commas_in_brackets_do_not_split() -> None:
    assert split("x: real[n, *m], g: (real[n], any_object),") == ["x: real[n, *m]", "g: (real[n], any_object)"]


def test_what_is_read_of_a_declaration(declared) -> None:
    found = declared(
        "k", "x: real[*rows, n], w: real[n]? whole, at: int64[*rows] < n, k: int", gives="y: real[n],", call="k.T(x)"
    )
    x, w, at, k = found.arguments
    assert x.axes == (Axis("rows", True), Axis("n"))
    assert (w.optional, w.layout, at.below, k.kind) == (True, "whole", "n", "int")
    assert not found.single
    assert found.row == "k_forward"


@pytest.mark.parametrize(
    ("takes", "gives", "said"),
    [("x: quaternion[n]", "y: real[n]", "no argument is written"), ("x: real[n]", "y real[n]", "no result is written")],
)
def test_what_is_no_declaration(takes: str, gives: str, said: str, declared) -> None:
    found = declared("k", takes, gives=gives, call="k.T(x)")  # its texts are read when they are asked for
    with pytest.raises(ValueError, match=said):
        assert found.arguments + found.results


def test_a_name_is_declared_once(declared) -> None:
    with pytest.raises(ValueError, match="declared already"):
        declared("softmax", "x: real[n]", gives="y: real[n]", call="k.T(x, y, n)")


def test_axes_that_cannot_be_told_apart(declared) -> None:
    found = declared("k", "x: real[*a, *b]", gives="y: real[*a]", call="k.T(x, y, a, b)")
    with pytest.raises(ValueError, match="the axes of x cannot be told apart"):
        printed(found)


def test_a_condition_that_is_none(declared) -> None:
    found = declared("k", "x: real[n]", gives="y: real[n]", call="k.T(x, y, n)", takes=("[n for n in x]",))
    with pytest.raises(ValueError, match="is no expression of a kernel's declaration"):
        printed(found)


def test_both_types_are_called_and_sizes_compared(declared) -> None:
    text = printed(
        declared("k", "x: real[*rows, n], w: real[n]", gives="y: real[*rows, n]", call="k.T(x, w, y, rows, n)")
    )
    assert "k_f32(x, w, y, rows, n)" in text
    assert "k_f64(x, w, y, rows, n)" in text
    assert re.search(r'return misfit\("k", "the w"', text)


@pytest.mark.skipif(native.module is None, reason="entries are in the extension")
def test_every_declaration_has_its_entry() -> None:
    declared_names = {name for name, k in kernels.items() if k.run is not False}
    assert declared_names <= native.module.entries.keys()
    assert {name for name, k in kernels.items() if k.run is False} == native.module.kernels.keys()
    written = native.module.entries.keys() - declared_names
    assert written == {"cast", "cast.backward"}


@pytest.mark.skipif(native.module is None, reason="entries are in the extension")
def test_a_row_follows_from_its_declaration() -> None:
    row = rows("softmax", "cpu")[0]
    x = np.ones((2, 3), np.float32)
    assert row.declines(x, dim=-1) is None
    assert row.declines(x.astype(np.int32), dim=-1) == "takes float32 and float64, got int32"
    assert row.declines(x[0, 0].reshape(()), dim=-1) == "needs a dimension to run over, got a 0-d tensor"
    np.testing.assert_allclose(row.run(x, dim=0), 0.5)
    text = Path(__file__).parents[3].joinpath("core", "backends", "cpu.py").read_text()
    assert '"softmax"' not in text
    with pytest.raises(TypeError):
        row.declines(x, dim=-1, other=1)


@pytest.mark.skipif(native.module is None, reason="entries are in the extension")
@pytest.mark.parametrize("name", sorted(kernels))
def test_nonsense_is_declined(name: str) -> None:
    """Whatever comes, an entry declines it or says what is wrong: it reads nothing that is not there."""
    k = kernels[name]
    call = (native.module.kernels if k.run is False else native.module.entries)[name]
    none = np.empty((0,), np.float32)
    for value in (None, 3, 2.5, "text", (), (1, 2), True, none, np.ones((2, 2), np.float32), np.ones(2, np.int64)):
        try:
            call(*(value for _ in k.arguments))
        except (TypeError, ValueError, IndexError):
            continue
    try:
        assert call() is NotImplemented
    except TypeError:
        assert k.run is False
