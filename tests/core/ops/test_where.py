"""`where` as a function and as a method, whose arguments stand in another order."""

from __future__ import annotations

import core


def test_the_method_chooses_from_its_own_tensor() -> None:
    x = core.tensor([-1.0, 2.0], requires_grad=True)
    y = x.where(x > 0, core.zeros(2))
    assert y.tolist() == core.where(x > 0, x, 0.0).tolist() == [0.0, 2.0]
    assert x.where(x > 0, -5.0).tolist() == [-5.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]
