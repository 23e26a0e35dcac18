"""`--check` in a cell of PyTorch: custom gradients are compared, PyTorch's own counted, nothing of the cell changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import lab


class Wrong(torch.autograd.Function):
    """x**2 * k with a gradient that is off by a twentieth of a percent."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2.001 * x * ctx.k * g, None


class Right(Wrong):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * ctx.k * g, None


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mask = torch.rand_like(x)
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.mask


def test_a_wrong_custom_gradient_is_named() -> None:
    x = torch.randn(8, 4, requires_grad=True)
    with lab.recording(check=True) as rec:
        y = Right.apply(x, 3.0).tanh()
        z = Wrong.apply(y, 3.0).sum()
        z.backward()
    (found,) = [f for f in rec.record.findings if f.kind == "gradient"]
    assert "the gradient of `Wrong` is wrong: for its input 0" in found.message
    assert found.line is not None
    assert [rec.record.ops[k].op for k in found.ops] == ["Wrong"]
    assert rec.record.checked.startswith("✕ Checked: gradients of 2 ops against finite differences, 1 is wrong.")
    assert "Not checked: 2 ops of PyTorch's own" in rec.record.checked
    u = 3 * x.detach() ** 2
    expected = 2.001 * 3 * u.tanh() * (1 - u.tanh() ** 2) * 6 * x.detach()
    assert torch.allclose(x.grad, expected, rtol=1e-4)  # the user's own gradient, wrong as it is


def test_zero_checks_are_never_right() -> None:
    x = torch.randn(3, requires_grad=True)
    with lab.recording(check=True) as rec:
        x.exp().sum().backward()
    assert "✓" not in rec.record.checked
    assert rec.record.checked.startswith("– Nothing was checked")
    assert "2 ops of PyTorch's own" in rec.record.checked


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_right_ones_are_counted(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, dtype=dtype).requires_grad_()
    with lab.recording(check=True) as rec:
        InPlace.apply(x.clone())
        Noisy.apply(x) if not dtype.is_complex else InPlace.apply(x.clone())
    assert [f for f in rec.record.findings if f.kind == "gradient"] == []
    assert rec.record.checked.startswith("✓ Checked: gradients of 2 ops")


def test_ops_of_a_library() -> None:
    @torch.library.custom_op("gradlab_test::tripled", mutates_args=())
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    tripled.register_autograd(lambda ctx, g: g * 2)
    x = torch.randn(3, requires_grad=True)
    with lab.recording(check=True) as rec:
        tripled(x)
        torch.ops.gradlab_test.tripled(x)
    assert rec.record.checked.startswith("✕ Checked: gradients of 2 ops against finite differences, 2 are wrong.")


def test_the_cell_runs_as_without() -> None:
    def run(check: bool) -> tuple[Any, ...]:
        torch.manual_seed(1)
        x = torch.randn(4, 3)
        leaf = x.clone().requires_grad_()
        with lab.recording(check=check):
            y = InPlace.apply(Noisy.apply(leaf) + 1)
            y.sum().backward()
        return y.tolist(), leaf.grad.tolist(), torch.rand(2).tolist(), leaf._version

    assert run(True) == run(False)
