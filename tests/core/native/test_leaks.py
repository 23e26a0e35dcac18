"""No path through the extension keeps what it should let go, or lets go what it has not taken.

A forgotten Py_DECREF leaves an object for each call, or a reference to one that all share; one too many takes it.
Each plain call of the printed parsers is made many times, without and with a gradient, and with wrong arguments, on
which the paths end early.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core
from core import native
from core.tensors.tensor import Tensor

from .test_parsers import FUNCTIONS, KEYWORDS, PLAIN, SECOND, WRONG, fresh, public

pytestmark = [
    pytest.mark.skipif(native.module is None, reason="the parsers are in the extension"),
    pytest.mark.by_turns,
]

TIMES, TRIES = 100, 40  # calls that are counted, and how often: a cache that fills leaves something at first
SHARED = [None, True, False, (), 0, 1, Tensor, core.float32, core.float64, core.int64, core.bool, np.dtype("f"),
          np.dtype("d"), np.dtype("l"), np.dtype("?"), np.ndarray, core.device("cpu")]  # fmt: skip


def kept(call: Callable[[], Any], times: int = TIMES) -> tuple[int, list[Any]]:
    """How many more blocks a call leaves in use, and which shared objects' counts have moved, a call at a time: the
    first time that it is nothing, else the last."""
    for _ in range(TRIES):
        gc.collect()
        blocks, before = sys.getallocatedblocks(), [sys.getrefcount(o) for o in SHARED]
        for _ in range(times):
            call()
        gc.collect()
        more = int((sys.getallocatedblocks() - blocks) / times + 0.2)
        moved = [o for o, n in zip(SHARED, before, strict=True) if abs(sys.getrefcount(o) - n) > times * 3 // 4]
        if not more and not moved:
            break
    return more, moved


def quietly(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(Exception):
            call()

    return run


def counts(args: tuple[Any, ...]) -> list[int]:
    return [sys.getrefcount(a) for a in args if isinstance(a, Tensor)]


CASES = [(symbol, args, KEYWORDS.get(symbol, {})) for symbol, args in PLAIN.items() if symbol in FUNCTIONS]
CASES += [(symbol, args, {}) for symbol, args in SECOND.items() if symbol in FUNCTIONS]
IDS = [f"{symbol}{' again' * (k >= len(CASES) - len(SECOND))}" for k, (symbol, _, _) in enumerate(CASES)]


def wanting(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, those of floating point with a gradient."""
    return tuple(
        a.detach().clone().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args
    )


@pytest.mark.parametrize(("symbol", "args", "kwargs"), CASES, ids=IDS)
def test_plain_calls(symbol: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    f = FUNCTIONS[symbol]
    function, before = public(f), counts(args)

    def call() -> None:
        given, named = fresh(f, args, kwargs)
        function(*given, **named)

    assert kept(call) == (0, [])
    assert counts(args) == before


@pytest.mark.parametrize(("symbol", "args", "kwargs"), CASES, ids=IDS)
def test_with_a_gradient(symbol: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    f = FUNCTIONS[symbol]
    function, leaves = public(f), wanting(args)
    before = counts(leaves)

    def call() -> None:
        given, named = fresh(f, leaves, kwargs)
        y = function(*given, **named)
        for t in y if isinstance(y, tuple | list) else (y,):
            if isinstance(t, Tensor) and t.requires_grad and t.grad_fn is not None:
                t.sum().backward()
        for t in leaves:
            if isinstance(t, Tensor):
                t.grad = None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert kept(quietly(call)) == (0, [])
    assert counts(leaves) == before


@pytest.mark.parametrize(("symbol", "args", "kwargs"), CASES, ids=IDS)
def test_wrong_calls(symbol: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """One argument at a time replaced by what it is not; a call with too few and with too many."""
    f = FUNCTIONS[symbol]
    function = public(f)
    calls = [(args[:k] + (wrong,) + args[k + 1 :], kwargs) for k in range(len(args)) for wrong in WRONG]
    calls += [(args, {**kwargs, name: wrong}) for name in kwargs for wrong in WRONG]
    calls += [(args[:-1], kwargs), ((*args, None, None, None), kwargs), (args, {"nothing": 1})]

    def call() -> None:
        for given, named in calls:
            with contextlib.suppress(Exception):
                own, more = fresh(f, given, named)
                function(*own, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert kept(call, 16) == (0, [])
