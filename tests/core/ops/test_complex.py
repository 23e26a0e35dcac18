"""Complex numbers: gradients in PyTorch's convention, views that write through, which ops decline."""

from __future__ import annotations

import numpy as np
import pytest

import core

RNG = np.random.default_rng(0)
Z = RNG.uniform(0.3, 1, (2, 3)) + 1j * RNG.uniform(-1, 1, (2, 3))


def z() -> core.Tensor:
    return core.tensor(Z, requires_grad=True)


FUNCTIONS = [
    lambda t: t * t * (2 - 1j), lambda t: 1 / t, lambda t: t.exp(), lambda t: t.log(), lambda t: t.sqrt(),
    lambda t: t.sin(),
    lambda t: t.tanh(), lambda t: t.abs(), lambda t: t.angle(), lambda t: t.sgn(), lambda t: t.conj() * t,
    lambda t: t.real,
    lambda t: t.imag, lambda t: core.view_as_real(t), lambda t: t @ t.mH, lambda t: t.sum(0), lambda t: t.prod(1),
    lambda t: t**3, lambda t: t**2.5, lambda t: 2.0**t, lambda t: core.polar(t.abs(), t.angle()),
    lambda t: t.sigmoid(),
    lambda t: core.complex(t.imag, t.real), lambda t: t.acosh(), lambda t: t.cumsum(0), lambda t: t[:, 1:].T,
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(FUNCTIONS)))
def test_gradients_to_second_order(case: int) -> None:
    assert core.autograd.gradcheck(FUNCTIONS[case], z())
    assert core.autograd.gradgradcheck(FUNCTIONS[case], z())


def test_the_convention() -> None:
    """Descent against the gradient lowers a real loss."""
    t = z()
    loss = ((t - (1 + 2j)).abs() ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(t.grad.numpy(), 2 * (Z - (1 + 2j)))


def test_real_operands_get_real_gradients() -> None:
    x = core.tensor(Z.real.copy(), requires_grad=True)
    (x * (1 + 1j)).abs().sum().backward()
    assert x.grad.dtype is core.float64


def test_writing_through_parts() -> None:
    t = z()
    y = t * 1
    y.real.mul_(2)
    y.imag = core.zeros(2, 3, dtype=core.float64)
    np.testing.assert_allclose(y.detach().numpy(), 2 * Z.real + 0j)
    y.abs().sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), 2 * np.ones((2, 3)) + 0j, atol=1e-12)


def test_parts_are_views() -> None:
    t = core.tensor(Z)
    assert core.view_as_real(t)._base is t
    assert core.view_as_complex(core.view_as_real(t)).data_ptr() == t.data_ptr()
    transposed = t.T
    np.testing.assert_array_equal(core.view_as_real(transposed).numpy()[..., 1], Z.T.imag)


def test_casts() -> None:
    t = core.tensor(Z)
    np.testing.assert_array_equal(t.to(core.float64).numpy(), Z.real)
    assert t.cfloat().dtype is core.complex64
    assert (t != 0).to(core.complex64).dtype is core.complex64


def test_what_declines() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexDouble'"):
        z().floor()
    for order in (lambda t: t.amax(), lambda t: t.sort(), lambda t: t.max(0), lambda t: t.softmax(0)):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexDouble'"):
            order(z())
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        core.imag(core.ones(1))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar outputs but got"):
        z().sum().backward()
    with pytest.raises(RuntimeError, match="Tensor must have a last dimension of size 2"):
        core.view_as_complex(core.ones(3))


def test_printing() -> None:
    assert repr(core.tensor([1 + 2j, 1 - 2j]).conj()) == "tensor([1.-2.j, 1.+2.j])"
    assert repr(core.tensor([1 + 0j]).conj()) == "tensor([1.-0.j])"
