"""What is reduced with its dimensions kept has the same values, and sizes of 1 where they were: every function that
takes keepdim."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import core

MORE: dict[str, tuple[Any, ...]] = {"kthvalue": (2,), "quantile": (0.3,), "nanquantile": (0.3,)}
SPACES = {"core": core, "linalg": core.linalg, "special": core.special}


def takes_keepdim(value: Any) -> bool:
    try:
        return {"dim", "keepdim"} <= set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return False


NAMES = [f"{space}.{name}" for space, where in SPACES.items() for name, value in sorted(vars(where).items())
         if not name.startswith("_") and takes_keepdim(value)]  # fmt: skip


def parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def test_there_are_many() -> None:
    assert len(NAMES) > 25
    assert {"core.sum", "core.quantile", "core.max", "linalg.vector_norm"} <= set(NAMES)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (3, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_kept_dimensions_have_one_place(name: str, shape: tuple[int, ...]) -> None:
    space, _, short = name.partition(".")
    function, x = getattr(SPACES[space], short), core.tensor(np.random.default_rng(0).normal(size=shape))
    tried = 0
    for dim in (None, 0, -1, len(shape) - 1, (0, -1)):
        named = {} if dim is None else {"dim": dim}
        try:
            without = parts(function(x, *MORE.get(short, ()), **named))
        except (TypeError, RuntimeError, ValueError, IndexError):
            continue  # it takes no such dim, or the same one twice
        try:
            kept = parts(function(x, *MORE.get(short, ()), **named, keepdim=True))
        except TypeError:  # one that keeps dimensions only where one is named
            assert dim is None
            continue
        for a, b in zip(without, kept, strict=True):
            np.testing.assert_array_equal(b.numpy().reshape(-1), a.numpy().reshape(-1))
            if dim is None:  # everything, the last dimensions, or as one number where none is named
                assert all(n in (1, size) for n, size in zip(b.shape, shape, strict=True))
                continue
            reduced = [d % len(shape) for d in (dim if isinstance(dim, tuple) else (dim,))]
            assert tuple(b.shape) == tuple(1 if d in reduced else n for d, n in enumerate(shape)), dim
        tried += 1
    assert tried or "matrix" in name
    if short in ("quantile", "nanquantile"):
        for dim in (None, *range(-len(shape), len(shape))):
            got = function(x, core.tensor([0.25, 0.5], dtype=core.float64), dim, True)
            want = np.quantile(x.numpy(), [0.25, 0.5], dim, keepdims=True)
            np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_a_whole_extreme_keeps_no_dimensions(name: str) -> None:
    x = core.ones(2, 3)
    for call in (getattr(core, name), getattr(core.Tensor, name)):
        with pytest.raises(TypeError, match=rf"{name}\(\) takes keepdim with dim alone\n  op: {name}; came"):
            call(x, keepdim=True)
        assert call(x, keepdim=False).shape == ()
