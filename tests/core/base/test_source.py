"""Places in the source: whose frame it is, exact columns, and what is shown of them."""

from __future__ import annotations

import sys
import textwrap

import pytest

import core
import lab
from core.base import source


def place_of(t: core.Tensor) -> source.Location:
    return source.locate(*t.grad_fn.place)


def first_line() -> int:
    return sys._getframe(1).f_code.co_firstlineno


X = core.ones(2, requires_grad=True)


def test_exact_columns():
    y = X * 2 + (X.exp()) * 3
    add, mul = place_of(y), source.locate(*y.grad_fn.next_functions[1][0].place)
    assert add.code == "X * 2 + (X.exp()) * 3"
    assert mul.code == "(X.exp()) * 3"
    assert (add.line, add.end_line, add.col) == (first_line() + 1, first_line() + 1, 8)
    assert (mul.col, mul.end_col) == (16, 29)


def test_columns_count_characters_and_not_bytes():
    größe = X
    y = ("é" and größe * 2, (größe * 3).tanh())
    assert place_of(y[0]).code == "größe * 2"
    assert place_of(y[1]).code == "(größe * 3).tanh()"


def test_calls_over_several_lines():
    y = core.where(
        X > 0,
        X * 2,
        X,
    )
    at = place_of(y)
    assert (at.line, at.end_line) == (first_line() + 1, first_line() + 5)
    assert at.code == "core.where( …"
    inner = source.locate(*y.grad_fn.next_functions[1][0].place)
    assert (inner.line, inner.code) == (first_line() + 3, "X * 2")


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: core.nn.functional.gelu(x),
        lambda x: core.nn.Sequential(core.nn.Linear(2, 3), core.nn.Tanh())(x),
        lambda x: core.nn.functional.mse_loss(x, x),
        lambda x: core.std(x),
        lambda x: x.clone().add_(1),
        lambda x: x.unbind()[0],
        lambda x: 1 - x,
    ],
)
def test_our_own_layers_are_passed_over(compute):
    at = place_of(compute(X))
    assert at.file == __file__
    assert at.line == compute.__code__.co_firstlineno


def test_a_generator_of_ours_is_passed_over_too():
    rows = list(X * 1)
    assert place_of(rows[0]).file == __file__


def test_user_s_functions_are_not_passed_over():
    def layer(x):
        return x * 2

    assert place_of(layer(X)).line == first_line() + 2


def run(text: str, filename: str) -> core.Tensor:
    names = {"core": core, "X": X}
    exec(compile(textwrap.dedent(text), filename, "exec"), names)
    return names["y"]


@pytest.mark.parametrize("filename", ["<stdin>", "<string>", "<ipython-input-3-abc>", "/nowhere/ipykernel_1/2.py"])
def test_what_has_no_file(filename, monkeypatch):
    monkeypatch.chdir(source._HERE)  # where "<string>" would look like a file of ours
    at = place_of(run("\n\ny = X * 2", filename))
    assert (at.file, at.line, at.code) == (filename, 3, "")


def test_equal_text_in_two_files_is_two_places():
    a, b = run("y = X * 2", "<first>"), run("y = X * 2", "<second>")
    assert a.grad_fn.code == b.grad_fn.code  # to Python these are equal
    assert (place_of(a).file, place_of(b).file) == ("<first>", "<second>")


def test_names_of_files_may_be_given(monkeypatch):
    monkeypatch.setattr(source, "name_of_file", lambda f: "In [7]" if f == "<cell>" else None)
    assert source.describe(run("y = X * 2", "<cell>").grad_fn.place) == "In [7] line 1"
    assert source.describe((X * 2).grad_fn.place) == f"test_source.py line {first_line() + 3} (X * 2)"
    assert source.describe(None) == "an unknown place"


def test_here():
    code, lasti = source.here()
    assert code is sys._getframe().f_code
    assert source.locate(code, lasti).code == "source.here()"


def test_whose_file_it_is():
    assert source.is_ours(core.__file__)
    assert source.is_ours(core.nn.functional.__file__)
    assert not source.is_ours(__file__)
    assert not source.is_ours("<string>")
    assert not source.is_ours(source._HERE.rstrip("/") + "_of_somebody_else/model.py")


def test_no_frame_is_kept():
    import gc
    import weakref

    class Local:
        pass

    def make():
        local = Local()
        return X * 2, weakref.ref(local)

    gc.disable()
    try:
        y, local = make()
        assert y.requires_grad
        assert local() is None
    finally:
        gc.enable()


def test_code_of_a_name_that_no_file_can_have():
    space = {"X": X}
    exec(compile("y = X.exp()", "/no/\ud800.py", "exec"), space)
    assert (place_of(space["y"]).line, place_of(space["y"]).code) == (1, "")


def test_warnings_name_the_users_line():
    class Net(core.nn.Module):
        def __init__(self):
            super().__init__()
            self.softmax = core.nn.Softmax()

        def forward(self, x):
            return self.softmax(x)

    line = Net.forward.__code__.co_firstlineno + 1
    with pytest.warns(UserWarning, match="Implicit dimension choice") as plain:
        Net()(core.ones(2, 3))
    with pytest.warns(UserWarning, match="Implicit dimension choice") as recorded, lab.record():
        Net()(core.ones(2, 3))
    assert [(w.filename, w.lineno) for w in (*plain, *recorded)] == [(__file__, line)] * 2
