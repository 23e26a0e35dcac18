# ruff: noqa: E501 - the cases are read better in long rows
"""Fourier transforms, short ones and windows beside PyTorch: values, dtypes, gradients to second order, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

from .test_complex import same

torch = pytest.importorskip("torch")

N = np.random.default_rng(0)


def _complex(*shape: int) -> Any:
    return N.uniform(-1, 1, shape) + 1j * N.uniform(-1, 1, shape)


ARRAYS: dict[str, Any] = {
    "x": N.uniform(-1, 1, (3, 4, 5)), "z": _complex(3, 4, 5), "v": N.uniform(-1, 1, 6), "u": N.uniform(-1, 1, 7), "c": _complex(4), "s": N.uniform(-1, 1, 40), "b": N.uniform(-1, 1, (2, 40)),
    "w": N.uniform(0.5, 1.5, 8), "m": N.uniform(0.5, 1.5, 6),
}  # fmt: skip
ONE = [f"F.{f}({x}{a})" for f, x in [("fft", "x"), ("fft", "z"), ("ifft", "z"), ("ifft", "x"), ("rfft", "x"), ("irfft", "z"), ("hfft", "z"), ("ihfft", "x")]
       for a in ("", ", 7", ", 3, 1", ", dim=0", ", norm='ortho'", ", norm='forward'", ", n=6, dim=-2, norm='backward'")]  # fmt: skip
MANY = [f"F.{f}{d}({x}{a})" for f, x in [("fft", "x"), ("fft", "z"), ("ifft", "z"), ("rfft", "x"), ("irfft", "z"), ("hfft", "z"), ("ihfft", "x")]
        for d in ("2", "n") for a in ("", ", (3, 6)", ", dim=(0, 1)", ", s=(2, 7), dim=(2, 0), norm='ortho'", ", norm='forward'")]  # fmt: skip
CASES = """
F.fft(v) | F.fft(u) | F.rfft(u) | F.irfft(c) | F.irfft(c, 7) | F.fft(v.float()) | F.rfft(v.float()) | F.fft(torch.arange(4)) | F.fftn(v) | F.fftshift(v) | F.fftshift(x) | F.fftshift(x, 1) | F.ifftshift(u) | F.ifftshift(x, (0, 2))
F.fftfreq(5) | F.fftfreq(6, 0.5) | F.rfftfreq(5) | F.rfftfreq(6, d=2.0) | F.fftfreq(4, dtype=torch.float64)
torch.hann_window(8) | torch.hann_window(7, periodic=False) | torch.hann_window(1) | torch.hann_window(0) | torch.hamming_window(8) | torch.hamming_window(5, False) | torch.hamming_window(5, True, 0.5, 0.4) | torch.blackman_window(8, dtype=torch.float64) | torch.bartlett_window(7) | torch.bartlett_window(6, periodic=False) | torch.kaiser_window(8, dtype=torch.float64) | torch.kaiser_window(5, False, 6.0, dtype=torch.float64)
torch.stft(s, 8, return_complex=True) | torch.stft(b, 8, 3, return_complex=True) | torch.stft(s, 8, 4, 6, m, return_complex=True) | torch.stft(s, 8, window=w, center=False, return_complex=True) | torch.stft(s, 8, window=w, normalized=True, onesided=False, return_complex=True) | torch.stft(s, 8, 2, pad_mode="constant", return_complex=False) | s.stft(8, return_complex=True) | torch.stft(s + 0j, 8, return_complex=True)
torch.istft(torch.stft(s, 8, window=w, return_complex=True), 8, window=w) | torch.istft(torch.stft(b, 8, 3, window=w, return_complex=True), 8, 3, window=w, length=40) | torch.istft(torch.stft(s, 8, window=w, normalized=True, return_complex=True), 8, window=w, normalized=True) | torch.istft(torch.stft(s, 8, window=w, center=False, return_complex=True), 8, window=w, center=False) | torch.istft(torch.stft(s, 8, onesided=False, return_complex=True), 8, onesided=False) | torch.istft(torch.stft(s, 8, 4, 6, m, return_complex=True), 8, 4, 6, m) | torch.istft(torch.stft(s, 8, window=w, return_complex=True), 8, window=w, length=45)
"""
ROWS = ONE + MANY + [c.strip() for line in CASES.strip().splitlines() for c in line.split(" | ")]


def _evaluate(module: Any, case: str) -> tuple[Any, dict[str, Any]]:
    given = {k: module.tensor(a).requires_grad_() for k, a in ARRAYS.items()}
    y = eval(case, {"torch": module, "F": module.fft, **given})
    if not y.requires_grad:
        return y, {}
    r = np.random.default_rng(1).uniform(0.5, 1.5, (2, *y.shape))
    y.backward(module.tensor(r[0] + 1j * r[1] if y.is_complex() else r[0]).to(y.dtype))
    return y, {k: t.grad.detach().resolve_conj().numpy() for k, t in given.items() if t.grad is not None}


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_value_and_gradient(case: str) -> None:
    want, want_grads = _evaluate(torch, case)
    got, grads = _evaluate(core, case)
    same(got, want, case)
    assert set(grads) == set(want_grads)
    for k, g in want_grads.items():
        tolerance = 1e-5 if ".float()" in case else 1e-9
        np.testing.assert_allclose(grads[k], g, rtol=tolerance, atol=tolerance, err_msg=f"{case}: gradient of {k}")


@pytest.mark.parametrize("case", ["F.fft(z)", "F.rfft(x)", "F.irfft(z)", "F.fft2(x)", "F.hfft(z)", "F.irfftn(z)"])
def test_second_order(case: str) -> None:
    found = []
    for module in (torch, core):
        given = {k: module.tensor(a).requires_grad_() for k, a in ARRAYS.items()}
        y = eval(case, {"F": module.fft, **given})
        leaf = given[case[-2]]
        (g,) = module.autograd.grad((y.abs() ** 3).sum(), leaf, create_graph=True)
        (g.abs() ** 2).sum().backward()
        found.append(leaf.grad.resolve_conj().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8)


ERRORS = ["F.fft(x, 0)", "F.rfft(z)", "F.ihfft(z)", "F.fft(x, norm='x')", "F.fft2(x, dim=(0, 0))", "F.fftn(x, s=(2, 3), dim=(0,))", "F.fft(x, dim=5)", "F.fft(x.half())", "F.fft2(v)",
          "torch.stft(s, 8)", "torch.stft(s, 100, return_complex=True)", "torch.stft(s, 8, window=v, return_complex=True)", "torch.istft(b, 8)", "torch.istft(z, 9)",
          "torch.istft(torch.stft(s, 8, 8, window=torch.hann_window(8).double(), center=False, return_complex=True), 8, 8, window=torch.hann_window(8).double(), center=False)",
          "torch.hann_window(3, dtype=torch.int64)", "torch.hann_window(-1)", "torch.stft(s, 8, win_length=9, return_complex=True)"]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    found = []
    for module in (torch, core):
        given = {k: module.tensor(a) for k, a in ARRAYS.items()}
        with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as e:
            eval(case, {"torch": module, "F": module.fft, **given})
        found.append(e.value)
    assert type(found[1]) is type(found[0])
    if "tft(" not in case:  # those name the whole call
        assert str(found[1]).replace("core.", "torch.").splitlines()[0][:40] == str(found[0]).splitlines()[0][:40]
