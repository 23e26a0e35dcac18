"""Every public name of core resolves and says what it is."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import core

MODULES = [core, core.autograd, core.nn, core.nn.functional, core.optim, core.utils.data]


def public(module) -> list[str]:
    return getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_names_resolve_and_have_docstrings(module):
    without = []
    for n in public(module):
        thing = getattr(module, n)
        if (inspect.isfunction(thing) or inspect.isclass(thing)) and not inspect.getdoc(thing):
            without.append(n)
    assert not without, f"{module.__name__}: no docstring for {without}"
    assert inspect.getdoc(module)


def test_core_shows_what_the_written_list_names():
    written = (Path(__file__).parent / "core" / "public_names.txt").read_text().split()
    assert core.__all__ == written
    assert [n for n in dir(core) if not n.startswith("__")] == written  # what the Tab key lists


def test_tensor_methods_have_docstrings():
    without = [
        n for n, f in vars(core.Tensor).items() if not n.startswith("_") and callable(f) and not inspect.getdoc(f)
    ]
    assert not without


def test_functions_are_shown_by_their_public_name():
    for n in ("add", "exp", "softmax", "sum", "matmul", "where"):
        assert getattr(core, n).__name__ == n
