"""Every public name of core resolves and says what it is."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import core
from core.dispatch import publish

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


def test_core_shows_what_is_declared_public_and_what_the_written_list_names():
    """An op is public by its declaration; a module, a helper or a constant because it is written down."""
    written = (Path(__file__).parent / "core" / "public_names.txt").read_text().split()
    declared = [*publish.namespaces[""]]
    assert not {*written} & {*declared}, "what a declaration makes public is not written down as well"
    assert core.__all__ == sorted([*written, *declared])
    assert [n for n in dir(core) if not n.startswith("__")] == core.__all__  # what the Tab key lists


def test_tensor_methods_have_docstrings():
    without = [
        n for n, f in vars(core.Tensor).items() if not n.startswith("_") and callable(f) and not inspect.getdoc(f)
    ]
    assert not without


def test_functions_are_shown_by_their_public_name():
    for n in ("add", "exp", "softmax", "sum", "matmul", "where"):
        assert getattr(core, n).__name__ == n


def test_what_layers_are_made_of_is_no_method_of_tensors():
    """Activations are; whatever takes weights or a mode is not, as in PyTorch."""
    methods = {name for name in publish.namespaces["nn.functional"] if hasattr(core.Tensor, name)}
    assert methods == {
        "elu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "silu",
        "softplus", "softsign", "tanhshrink", "threshold", "unfold",
    }  # fmt: skip
