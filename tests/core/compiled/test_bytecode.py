"""What is read from the code of functions."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import pytest

from core.compiled.bytecode import read


def alias(x):
    look = getattr
    return look(x, "k")


@pytest.mark.parametrize(
    ("f", "computed"),
    [
        (lambda x: getattr(x, "k"), False),  # noqa: B009
        (lambda x: getattr(x.y.z, "k", None), False),
        (lambda x: x.k if hasattr(x, "k") else x, False),
        (lambda x, n: getattr(x, n), True),
        (lambda x: getattr(x, "k" + str(1)), True),
        (lambda x: [getattr(x, n) for n in ("a", "b")], True),
        (lambda x: list(map(getattr, [x], ["k"])), True),
        (alias, True),
    ],
)
def test_names_that_are_computed(f, computed):
    assert read(f.__code__).by_name == computed


def test_effects_have_their_lines():
    def f(x):
        x.k = 1
        return print(x)

    said = [f"{e.line} {e.what}" for e in read(f.__code__).effects]
    line = f.__code__.co_firstlineno
    assert said == [f"test_bytecode.py line {line + 1} (x.k = 1) sets the attribute 'k'",
                    f"test_bytecode.py line {line + 2} (return print(x)) calls print()"]  # fmt: skip


def test_variables_around_a_function():
    n = 0

    def counts(x):
        nonlocal n
        n += 1
        return x

    def own(x):
        k = 0

        def inner():
            nonlocal k
            k += 1

        inner()
        return x * k

    assert [e.what for e in read(counts.__code__).effects] == ["sets the variable 'n' of the function around it"]
    assert not read(own.__code__).effects
