"""Matrix products on the CPU: infinities are values and no warnings; threads that call it at once."""

from __future__ import annotations

import threading

import numpy as np

import core
from core.backends import products
from core.nn import functional


def test_infinities_are_values() -> None:
    x = core.full((4, 8), 3e38)
    assert core.isnan(core.zeros(4, 8) @ core.full((8, 2), np.inf)).all()
    w = core.full((2, 8), 3e38, requires_grad=True)
    y = functional.linear(x, w, core.full((2,), -np.inf))
    y.sum().backward()
    assert not core.isfinite(y).any()


def test_small_and_large_products_at_once() -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((n, n)), rng.standard_normal((n, n))) for n in (64, 200)]
    wanted = [a @ b for a, b in pairs]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(30):
            if not np.allclose(products.product(*pairs[k]), wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k % 2,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
