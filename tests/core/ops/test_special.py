"""Special functions at values known to more digits than float64 has, and at their identities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core

S = core.special
D = core.float64
# name, arguments, value: from the tables of Abramowitz & Stegun and of the DLMF, to 16 digits
KNOWN = [
    ("gammaln", (0.5,), 0.5 * math.log(math.pi)),
    ("gammaln", (100.0,), 359.1342053695754),
    ("gammaln", (-0.5,), 1.2655121234846454),
    ("digamma", (1.0,), -0.5772156649015329),
    ("digamma", (0.5,), -1.9635100260214235),
    ("digamma", (-1.5,), 0.7031566406452432),
    ("zeta", (2.0, 1.0), math.pi**2 / 6),
    ("zeta", (4.0, 1.0), math.pi**4 / 90),
    ("erfinv", (0.5,), 0.4769362762044699),
    ("ndtri", (0.975,), 1.959963984540054),
    ("ndtri", (1e-300,), -37.0471),
    ("erfcx", (10.0,), 0.05614099274382259),
    ("log_ndtr", (-10.0,), -53.23128515051247),
    ("i0", (1.0,), 1.2660658777520084),
    ("i1", (1.0,), 0.5651591039924851),
    ("i0e", (100.0,), 0.03994437929909669),
    ("bessel_j0", (1.0,), 0.7651976865579666),
    ("bessel_j1", (10.0,), 0.04347274616886144),
    ("bessel_j0", (50.0,), 0.05581232766925181),
    ("bessel_y0", (1.0,), 0.08825696421567697),
    ("bessel_y1", (10.0,), 0.2490154242069539),
    ("modified_bessel_k0", (1.0,), 0.42102443824070834),
    ("modified_bessel_k1", (2.0,), 0.13986588181652243),
    ("spherical_bessel_j0", (0.1,), math.sin(0.1) / 0.1),
    ("airy_ai", (0.0,), 0.3550280538878172),
    ("airy_ai", (1.0,), 0.1352924163128814),
    ("airy_ai", (-5.0,), 0.3507610090241142),
    ("airy_ai", (10.0,), 1.1047532552898687e-10),
    ("gammainc", (1.0, 2.0), 1 - math.exp(-2)),
    ("gammaincc", (0.5, 4.0), math.erfc(2.0)),
    ("gammainc", (36.227391580696114, 26.12013411529586), 0.03512600366487709),
    ("legendre_polynomial_p", (0.5, 3.0), -0.4375),
    ("chebyshev_polynomial_t", (0.5, 3.0), -1.0),
    ("hermite_polynomial_h", (0.5, 3.0), -5.0),
    ("laguerre_polynomial_l", (0.5, 2.0), 0.125),
]


@pytest.mark.parametrize(("name", "args", "value"), KNOWN, ids=[f"{n}{a}" for n, a, _ in KNOWN])
def test_known_values(name: str, args: tuple[float, ...], value: float) -> None:
    got = getattr(S, name)(*(core.tensor(a, dtype=D) for a in args)).item()
    assert got == pytest.approx(value, rel=1e-5 if value == -37.0471 else 1e-14)


def test_inverses() -> None:
    p = core.linspace(0.001, 0.999, 101, dtype=D)
    np.testing.assert_allclose(S.ndtr(S.ndtri(p)).numpy(), p.numpy(), rtol=1e-14)
    np.testing.assert_allclose(S.erf(S.erfinv(p)).numpy(), p.numpy(), rtol=1e-14)
    np.testing.assert_allclose(S.expit(S.logit(p)).numpy(), p.numpy(), rtol=1e-14)


def test_the_wronskian_of_the_bessel_functions() -> None:
    """J1 Y0 - J0 Y1 = 2 / (πx) (A&S 9.1.16) across all the ranges."""
    x = core.tensor(np.concatenate([np.linspace(0.1, 60, 200), [4.0, 25.0, 500.0]]))
    got = S.bessel_j1(x) * S.bessel_y0(x) - S.bessel_j0(x) * S.bessel_y1(x)
    np.testing.assert_allclose(got.numpy(), 2 / (math.pi * x.numpy()), rtol=3e-13)


def test_the_wronskian_of_the_modified_ones() -> None:
    """I0 K1 + I1 K0 = 1 / x (A&S 9.6.15)."""
    x = core.tensor(np.concatenate([np.geomspace(1e-6, 60, 200), [2.0, 25.0]]))
    k0, k1 = S.scaled_modified_bessel_k0(x), S.scaled_modified_bessel_k1(x)
    np.testing.assert_allclose((S.i0e(x) * k1 + S.i1e(x) * k0).numpy(), 1 / x.numpy(), rtol=1e-14)


def test_gamma_recurrence_and_reflection() -> None:
    x = core.tensor(np.random.default_rng(0).uniform(0.01, 20, 200))
    np.testing.assert_allclose((S.gammaln(x + 1) - S.gammaln(x)).numpy(), np.log(x.numpy()), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose((S.digamma(x + 1) - S.digamma(x)).numpy(), 1 / x.numpy(), rtol=1e-12)
    both = S.gammainc(x, core.flip(x, (0,))) + S.gammaincc(x, core.flip(x, (0,)))
    np.testing.assert_allclose(both.numpy(), 1, rtol=1e-14)


def test_poles_and_infinities() -> None:
    ends = core.tensor([0.0, -1.0, math.inf, -math.inf, math.nan], dtype=D)
    assert S.gammaln(ends)[:4].tolist() == [math.inf] * 4
    assert np.isnan(S.digamma(ends).numpy()).tolist() == [False, True, False, True, True]
    assert S.erfinv(core.tensor([-1.0, 1.0])).tolist() == [-math.inf, math.inf]
    assert np.isnan(S.erfinv(core.tensor([1.5, math.nan])).numpy()).all()
    assert S.entr(core.tensor([0.0, -1.0])).tolist() == [0.0, -math.inf]
    assert S.xlog1py(core.tensor([0.0]), core.tensor([-1.0])).tolist() == [0.0]


def test_integers_become_floating_and_half_types_stay() -> None:
    assert S.gammaln(core.tensor([3])).dtype is core.float32
    assert S.i0(core.ones(2, dtype=core.bfloat16)).dtype is core.bfloat16


def test_a_gradient_that_has_no_formula_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="derivative for"):
        S.gammainc(core.ones(2, requires_grad=True), core.ones(2))


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_the_multivariate_gamma_function(p: int) -> None:
    x = np.array([2.5, 3.0, 7.25])
    want = [p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(v - j / 2) for j in range(p)) for v in x]
    np.testing.assert_allclose(S.multigammaln(core.tensor(x), p).numpy(), want)
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1"):
        S.multigammaln(core.tensor(x), 0)
    with pytest.raises(RuntimeError, match="may not be a boolean tensor"):
        S.multigammaln(core.tensor([True]), p)


AWAY = core.linspace(0.15, 0.85, 5, dtype=D), core.linspace(-3.2, 3.3, 7, dtype=D), core.linspace(0.3, 30.1, 9, dtype=D)
SLOPES = {
    "entr": (0, 2), "logit": (0,), "erfinv": (0,), "ndtri": (0,), "erfcx": (0, 1), "log_ndtr": (0, 1), "ndtr": (0, 1),
    "gammaln": (0, 2), "digamma": (0, 2), "i0": (0, 1), "i1": (0, 1), "i0e": (0, 1, 2), "i1e": (0, 1, 2),
    "sinc": (0, 1),
    "expit": (0, 1), "log1p": (0,), "exp2": (1,), "expm1": (1,), "psi": (0,), "erf": (1,), "erfc": (1,),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name: str) -> None:
    for k in SLOPES[name]:
        x = AWAY[k].detach().clone().requires_grad_()
        core.autograd.gradcheck(getattr(S, name), x)
