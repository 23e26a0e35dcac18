"""Check mode: a wrong gradient is named with its line; right ones, of many kinds, are not."""

from __future__ import annotations

from typing import Any

import core
import lab

F = core.nn.functional


class Wrong(core.autograd.Function):
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


def test_a_wrong_gradient_is_named() -> None:
    x = core.randn(8, 4, requires_grad=True)
    with lab.recording(check=True) as rec:
        y = Right.apply(x, 3.0).tanh()
        z = Wrong.apply(y, 3.0).sum()
    findings = [f for f in rec.record.findings if f.kind == "gradient"]
    assert len(findings) == 1
    assert "the gradient of `Wrong` is wrong: for its input 0" in findings[0].message
    assert findings[0].severity == "error"
    assert findings[0].ops
    assert rec.record.environment["gradients"] == "3 of 4 ops right by finite differences"
    said = "Checked: gradients of 4 ops against finite differences, 1 is wrong."
    assert said in str(rec)
    assert said in rec.html()
    z.backward()  # checking left the graph as it was: the wrong gradient is the user's own
    assert x.grad.shape == x.shape
    assert bool(core.isfinite(x.grad).all())


def test_right_gradients_of_many_kinds() -> None:
    core.manual_seed(0)
    model = core.nn.Sequential(
        core.nn.Conv2d(1, 4, 3), core.nn.BatchNorm2d(4), core.nn.ReLU(), core.nn.MaxPool2d(2), core.nn.Flatten(),
        core.nn.Linear(16, 8), core.nn.LayerNorm(8), core.nn.GELU(), core.nn.Dropout(0.2), core.nn.Linear(8, 3),
    )  # fmt: skip
    images, labels = core.randn(4, 1, 6, 6), core.tensor([0, 1, 2, 1])
    state = core.get_rng_state()
    with lab.recording(check=True) as rec:
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
    assert [f.message for f in rec.record.findings] == []
    assert "✓ Checked: gradients of" in str(rec)  # success is said too
    assert "none is wrong." in rec.html()
    assert rec.record.environment["gradients"].startswith(
        ("10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "2")
    )
    core.set_rng_state(state)
    model.zero_grad()
    assert F.cross_entropy(model(images), labels).item() != 0.0


def test_it_changes_nothing(cell: Any, space: dict[str, Any]) -> None:
    core.manual_seed(5)
    x = core.randn(6, 3, requires_grad=True)
    plain = F.dropout(x.exp(), 0.5).sum()
    core.manual_seed(5)
    x = core.randn(6, 3, requires_grad=True)
    with lab.recording(check=True) as rec:
        checked = F.dropout(x.exp(), 0.5).sum()
    assert plain.item() == checked.item()
    assert [op.op for op in rec.record.ops] == ["exp", "dropout", "sum"]


def test_what_was_not_checked_is_said() -> None:
    with lab.recording(check=True) as rec:
        core.ones(2).exp()
    assert "no op of this cell has a gradient" in str(rec)
    with lab.recording() as plain:
        core.ones(2, requires_grad=True).exp()
    assert plain.record.checked == ""
    assert "Checked" not in str(plain)


def test_a_cell_of_which_nothing_was_checked_is_not_called_right() -> None:
    class Single(core.autograd.Function):
        """Computes in float32 whatever it is given."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return core.tensor(x.numpy().astype("float32") ** 2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with lab.recording(check=True) as rec:
        Single.apply(core.ones(2, requires_grad=True))
    assert "✓" not in str(rec)
    assert "Nothing was checked" in rec.record.checked
    assert "Single (it computes in float32 whatever it is given" in rec.record.checked
    with lab.recording(check=True) as rec:
        core.ones(2).exp()
    assert "✓" not in rec.record.checked
    assert "✓ No problems found" not in str(rec)
    assert "Nothing was checked" in rec.html().split("<script")[0]  # the still card says it too


def test_healthy_values_that_finite_differences_do_not_like_are_no_alarm() -> None:
    """Masks of -inf and -1e9, tiny inputs, complex values: each was called a wrong gradient, or warned."""
    core.manual_seed(0)
    x = core.randn(4, 4, requires_grad=True)
    upper = core.ones(4, 4).triu(1) > 0
    mask = core.zeros(4, 4).masked_fill(upper, float("-inf"))
    with lab.recording(check=True) as rec:
        (x + mask).softmax(1)
        x.masked_fill(upper, -1e9).softmax(1)
        (x.exp() * 1e-5).sqrt()
        (x.exp() * 1e-9).log()
        core.fft.fft(x).abs()
        x.relu().sort()
    assert rec.record.findings == []
    assert rec.record.checked.startswith("✓ Checked: gradients of 14 ops")


def test_a_wrong_gradient_of_a_complex_value_is_found() -> None:
    class Conjugated(core.autograd.Function):
        """z**2, whose gradient lacks a conjugate."""

        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (z,) = ctx.saved_tensors
            return 2 * z * g

    z = core.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    with lab.recording(check=True) as rec:
        Conjugated.apply(z)
        z * z
    assert [f.kind for f in rec.record.findings] == ["gradient"]
    assert "1 is wrong" in rec.record.checked


def test_a_function_that_draws_numbers_draws_the_same_and_prints_once(capsys: Any) -> None:
    import random

    import numpy as np

    class Noisy(core.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            print("forward")
            ctx.mask = core.rand(x.shape) * random.random() * float(np.random.rand())  # noqa: NPY002
            return x * ctx.mask

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.mask

    def run(check: bool) -> list[float]:
        core.manual_seed(3)
        random.seed(3)
        np.random.seed(3)  # noqa: NPY002
        x = core.ones(5, requires_grad=True)
        with lab.recording(check=check) as rec:
            y = Noisy.apply(x).sum()
        assert rec.record.findings == []
        return [y.item(), core.rand(1).item(), random.random(), float(np.random.rand())]  # noqa: NPY002

    assert run(True) == run(False)
    assert capsys.readouterr().out == "forward\n" * 2
