# ruff: noqa: E501 - the cases are read better in long rows
"""Complex numbers beside PyTorch: values, dtypes and gradients. Every case is one expression, evaluated with each library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

torch = pytest.importorskip("torch")

N = np.random.default_rng(0)


def _complex(*shape: int) -> Any:
    return N.uniform(-1, 1, shape) + 1j * N.uniform(-1, 1, shape)


ARRAYS: dict[str, Any] = {
    "z": _complex(2, 3), "w": _complex(2, 3), "m": _complex(3, 2), "v": _complex(3), "x": N.uniform(0.5, 2, (2, 3)),
    "y": N.uniform(0.5, 2, (2, 3)), "p": N.uniform(-1, 1, (3, 2)), "zero": np.array([0j, 1 + 1j]),
}  # fmt: skip

CASES = """
z + w | z - w | z * w | z / w | z * 2.5 | z * (1 + 2j) | 1j / z | 2 - z | -z | z + x | z * x | x / z | x * 2j | z ** 2 | z ** 3 | z ** w | 2.0 ** z
z.exp() | z.log() | z.sqrt() | z.sin() | z.cos() | z.tan() | z.sinh() | z.cosh() | z.tanh() | z.asin() | z.acos() | z.atan() | z.asinh() | z.acosh() | z.atanh()
z.reciprocal() | z.square() | z.log2() | z.log10() | z.log1p() | z.expm1() | z.rsqrt() | z.sigmoid() | z.exp2()
z.abs() | zero.abs() | z.sgn() | zero.sgn() | z.angle() | x.angle() | (-x).angle() | z.conj() | z.conj().abs() | x.conj()
z.real | z.imag | torch.real(z) | torch.imag(z) | z.real * z.imag | torch.view_as_real(z) | torch.view_as_complex(p) | torch.complex(x, y) | torch.polar(x, y)
z.sum() | z.sum(1) | z.mean() | z.mean(0, keepdim=True) | z.prod() | z.prod(1) | z.cumsum(1) | z.reshape(3, 2) | z.T | z.mT | z.mH | z.H | z.adjoint()
z @ m | z @ v | z.mm(m) | v.dot(v) | torch.einsum("ij,jk->ik", z, m) | z @ z.mH | torch.outer(v, v.conj())
z[0] | z[:, 1:] | z[x > 1] | torch.cat([z, w]) | torch.stack([z, w]) | z.expand(4, 2, 3) | z.roll(1, 0) | z.flip(1) | torch.where(x > 1, z, w)
z == w | z != w | z.to(torch.complex64) | z.abs() ** 2 | (z * z.conj()).real | z.isfinite() | torch.zeros(2, dtype=torch.complex64) | torch.ones(2) * 1j | x.cdouble() | x.cfloat()
z.var() if False else z.abs().var() | torch.lerp(z, w, 0.3) | z.resolve_conj() | torch.is_complex(z) | z.is_complex()
z.var() | z.std(1) | z.norm() | z.norm(1, dim=1) | torch.nn.functional.linear(z, w) | z.sinc() | torch.addcmul(z, w, w, value=2) | torch.addcdiv(z, w, z, value=0.5) | z.float_power(2) | torch.nn.functional.normalize(z) | torch.nn.functional.l1_loss(z, w)
z ** -1 | z ** -2 | z ** 0.5 | z ** 1j | (1 + 1j) ** z | 2 ** z | z.pow(w) | z.cumprod(1) | z.kron(w) | z.trace() | torch.nn.functional.pad(z, (1, 1)) | torch.nn.functional.mse_loss(z.real, w.real)
torch.finfo(torch.complex64).eps if hasattr(torch, "finfo") and False else z.masked_fill(x > 1, 0) | z.diagonal() | z.tril() | z.unsqueeze(0) | z.clone() | z.contiguous()
"""
ROWS = [c.strip() for line in CASES.strip().splitlines() for c in line.split(" | ")]


def _evaluate(module: Any, case: str, grads: bool) -> tuple[Any, dict[str, Any]]:
    given = {k: (torch.tensor(a) if module is torch else core.tensor(a)) for k, a in ARRAYS.items()}
    for t in given.values():
        t.requires_grad_()
    y = eval(case, {"torch": module, **given})
    if not isinstance(y, module.Tensor) or not y.requires_grad or not grads:
        return y, {}
    w = np.random.default_rng(1).uniform(0.5, 1.5, (2, *y.shape))
    weight = w[0] + 1j * w[1] if y.is_complex() else w[0]
    y.backward(module.tensor(weight).to(y.dtype))
    return y, {k: t.grad.detach().resolve_conj().numpy() for k, t in given.items() if t.grad is not None}


def same(got: Any, want: Any, case: str, tolerance: float = 1e-9) -> None:
    assert got.shape == tuple(want.shape), case
    assert str(got.dtype).split(".")[-1] == str(want.dtype).split(".")[-1], case
    want = want.detach().resolve_conj().resolve_neg().numpy()
    tolerance = 2e-6 if want.dtype.itemsize < 8 or want.dtype == np.complex64 else tolerance
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance, err_msg=case)


@pytest.mark.parametrize("case", ROWS)
def test_value_and_gradient(case: str) -> None:
    want, want_grads = _evaluate(torch, case, True)
    got, grads = _evaluate(core, case, True)
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    same(got, want, case)
    assert set(grads) == set(want_grads)
    for k, g in want_grads.items():
        assert grads[k].dtype == g.dtype
        np.testing.assert_allclose(grads[k], g, rtol=1e-6, atol=1e-8, err_msg=f"{case}: gradient of {k}")


@pytest.mark.parametrize("case", ["torch.imag(x)", "torch.view_as_real(x)", "torch.view_as_complex(x)", "torch.complex(x, y.float())",
                                  "z.floor()", "z.amax()", "z.sort()", "z.softmax(0)", "z.sum().backward()", "torch.maximum(z, w)"])  # fmt: skip
def test_errors(case: str) -> None:
    found = []
    for module in (torch, core):
        with pytest.raises((RuntimeError, TypeError)) as e:
            _evaluate(module, case, False)
        found.append(e.value)
    assert isinstance(found[1], RuntimeError) == isinstance(found[0], RuntimeError)
    if case.startswith("torch.") and "maximum" not in case:
        assert str(found[1]).replace("core.", "torch.").startswith(str(found[0]).splitlines()[0][:60])


def test_writing_through_a_view() -> None:
    found = []
    for module in (torch, core):
        z = module.tensor(ARRAYS["z"]).requires_grad_()
        y = z * 1
        y.real.mul_(2)
        y.imag[0] = 5.0
        module.view_as_real(y)[1, 2, 0] = 3.0
        (y.abs() ** 2).sum().backward()
        found.append((y.detach().numpy(), z.grad.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a)


def test_second_order() -> None:
    found = []
    for module in (torch, core):
        z = module.tensor(ARRAYS["z"]).requires_grad_()
        loss = ((z.exp() * z.conj()).abs() ** 3).sum() + (z.sin() / (z + 2)).real.sum()
        (g,) = module.autograd.grad(loss, z, create_graph=True)
        (g.abs() ** 2 + g.real * g.imag).sum().backward()
        found.append(z.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
