"""Each trap by a compiled function and by the function itself, on other data each time, and after steps of an
optimizer."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import numpy as np
import pytest

import core
from core.compiled import variant
from core.compiled.function import Compiled

from . import traps_of_objects  # noqa: F401 - it enters its traps
from .traps import TRAPS

CALLS = 12


def arrays(x):
    if isinstance(x, core.Tensor):
        return [x.detach().numpy().copy()]
    if isinstance(x, dict):
        x = list(x.values())
    return [a for v in x for a in arrays(v)] if isinstance(x, list | tuple) else [np.asarray(x)]


def run(name, compiled, backward):
    """What 12 calls of a trap give: results or errors, gradients, and what is changed besides."""
    core.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    trap = TRAPS[name]()
    f = Compiled(trap.function, check=3) if compiled else trap.function
    said = []
    try:
        for n in range(CALLS):
            trap.before(n)
            args = trap.arguments(n)
            if backward:
                args = tuple(a.requires_grad_() if isinstance(a, core.Tensor) and a.is_floating_point() and a.is_leaf
                             and name not in ("in_place_on_argument",) else a for a in args)  # fmt: skip
            core.manual_seed(n)
            try:
                found = f(*args)
                said += arrays(found)
                first = found[0] if isinstance(found, tuple) else found
                if backward and first.requires_grad:
                    (first * first.detach()).sum().backward()
                    for a in args:
                        if isinstance(a, core.Tensor) and a.grad is not None:
                            said += arrays(a.grad)
                            a.grad = None
                if n % 4 == 3 and not first.requires_grad:
                    first.mul_(0)  # what was given is the caller's
            except (ValueError, RuntimeError, NameError) as error:
                said.append(np.asarray(f"{type(error).__name__}: {error}"))
            said += arrays(trap.state())
    finally:
        core.set_default_dtype(core.float32)
        core.set_grad_enabled(True)
    return said, f


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", TRAPS)
@pytest.mark.filterwarnings("ignore")
def test_a_replay_gives_what_the_function_gives(name, backward, monkeypatch):
    monkeypatch.setattr(variant, "_GAIN", float("inf"))  # whatever it costs
    wanted, _ = run(name, False, backward)
    found, f = run(name, True, backward)
    assert len(found) == len(wanted), f.explain()
    assert "gave something else" not in str(f.explain())
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (k, f.explain())
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=str(f.explain()))
        else:
            assert np.array_equal(a, b), (k, a, b, f.explain())
