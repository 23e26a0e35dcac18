"""A gradient that is not finite comes as it is: NumPy's warnings, which `-W error` makes exceptions, stay out."""

from __future__ import annotations

import warnings

import numpy as np

import core


def test_no_warning_and_the_users_settings_are_back() -> None:
    w = core.zeros(3, 2, requires_grad=True)
    x = core.tensor(np.array([[1.0, -1.0, 2.0], [-1.0, 1.0, 0.5]], np.float32))
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = (x @ w).log().sum()
        loss.backward()
        (g,) = core.autograd.grad((w.sqrt() - w.sqrt()).sum(), w)
    assert not np.isfinite(w.grad.numpy()).any()
    assert np.isnan(g.numpy()).all()
    assert np.geterr() == before
