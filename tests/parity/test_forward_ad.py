"""Forward-mode derivatives beside PyTorch's: dual tensors, `linearize`, `jvp`, `jacfwd`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad as torch_forward_ad

import core
from core.autograd import forward_ad

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # its first level scripts rules

FORWARD = {"core": forward_ad, "torch": torch_forward_ad}
X, T = np.array([[0.3, -1.2], [2.0, 0.7]]), np.array([[1.0, 0.5], [-2.0, 3.0]])

PROGRAMS = [
    lambda lib, x: x.exp() * x,
    lambda lib, x: (x @ x.T).tanh(),
    lambda lib, x: lib.softmax(x, 1),
    lambda lib, x: lib.nn.functional.layer_norm(x, (2,)),
    lambda lib, x: x.sort(1)[0].cumsum(0),
    lambda lib, x: lib.linalg.inv(x),
    lambda lib, x: lib.logsumexp(x, 0),
    lambda lib, x: lib.where(x > 0, x**2, -x),
    lambda lib, x: lib.cat([x, x[0:1] * 3]).mean(),
    lambda lib, x: x.std(0),
    lambda lib, x: lib.linalg.svdvals(x),
    lambda lib, x: lib.nn.functional.gelu(x).max(1)[0],
    lambda lib, x: lib.outer(x.reshape(-1), x.reshape(-1)).sin(),
]


def of(lib, a):
    return lib.tensor(a)


@pytest.mark.parametrize("program", PROGRAMS)
def test_tangents(program):
    found = {}
    for lib in (core, torch):
        mode = FORWARD[lib.__name__]
        with mode.dual_level():
            primal, tangent = mode.unpack_dual(program(lib, mode.make_dual(of(lib, X), of(lib, T))))
        y, pushed = lib.func.jvp(lambda x, lib=lib: program(lib, x), (of(lib, X),), (of(lib, T),))
        j = lib.func.jacfwd(lambda x, lib=lib: program(lib, x))(of(lib, X))
        found[lib.__name__] = [np.asarray(v) for v in (primal, tangent, y, pushed, j)]
    for mine, theirs in zip(found["core"], found["torch"], strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


def test_complex_tangents():
    z, t = X + 1j * T, T - 2j * X
    found = []
    for lib in (core, torch):
        y, pushed = lib.func.jvp(lambda z, lib=lib: (z.exp() * z.conj(), z.abs()), (of(lib, z),), (of(lib, t),))
        found.append([np.asarray(v.resolve_conj()) for v in (*y, *pushed)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


@pytest.mark.parametrize(
    "program",
    [
        lambda mode, x: mode.make_dual(x, x),
        lambda mode, x: mode.exit_dual_level(),
    ],
)
def test_errors_outside_a_level(program):
    raised = []
    for lib in (core, torch):
        with pytest.raises(RuntimeError) as caught:
            program(FORWARD[lib.__name__], lib.ones(2))
        raised.append(type(caught.value))
    assert raised[0] is raised[1]
