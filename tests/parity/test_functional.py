"""autograd.functional, func, checkpoints, hooks on saved tensors and anomaly mode beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import core

# PyTorch's own forward-mode functions import what PyTorch calls deprecated
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

LIBS = (core, torch)
X = np.array([0.3, -1.2, 2.0])
Y = np.array([[0.5, 1.5, -0.5], [2.0, 0.1, 0.7]])


def values(tree: Any) -> Any:
    if isinstance(tree, tuple | list):
        return [values(t) for t in tree]
    return np.array(tree.detach().tolist())


def same(run: Any) -> None:
    ours, theirs = (values(run(lib)) for lib in LIBS)

    def compare(a: Any, b: Any) -> None:
        if isinstance(a, list):
            assert len(a) == len(b)
            for p, q in zip(a, b, strict=True):
                compare(p, q)
        else:
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)

    compare(ours, theirs)


def given(lib: Any) -> tuple[Any, Any]:
    return lib.from_numpy(X.copy()), lib.from_numpy(Y.copy())


def two(x: Any, y: Any) -> Any:
    return (y @ x).tanh(), (x * x).sum()


def number(x: Any, y: Any) -> Any:
    return ((y * x).sin() * y).sum()


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"])
def test_functional(name: str) -> None:
    def run(lib: Any) -> Any:
        x, y = given(lib)
        f = getattr(lib.autograd.functional, name)
        if name in ("hvp", "vhp", "jvp"):
            return f(number, (x, y), (x.cos(), y.cos()))
        if name == "vjp":
            return f(two, (x, y), (lib.ones(2, dtype=lib.float64), lib.tensor(2.0, dtype=lib.float64)))
        return f(number if name == "hessian" else two, (x, y))

    same(run)


@pytest.mark.parametrize("bad", [
    lambda lib, x, y: lib.autograd.functional.vjp(two, (x, y)),
    lambda lib, x, y: lib.autograd.functional.jvp(two, (x, y), (x,)),
    lambda lib, x, y: lib.autograd.functional.hessian(two, (x, y)),
    lambda lib, x, y: lib.autograd.functional.jacobian(lambda x: x.detach(), x, strict=True),
    lambda lib, x, y: lib.func.grad(lambda x: x * 2)(x),
    lambda lib, x, y: lib.func.vmap(lambda a, b: a + b)(x, y),
    lambda lib, x, y: lib.func.vmap(lambda a: a if a > 0 else -a)(x),
    lambda lib, x, y: lib.func.vmap(lambda a: a.item())(x),
])  # fmt: skip
def test_the_same_class_of_error(bad: Any) -> None:
    classes = []
    for lib in LIBS:
        with pytest.raises(Exception) as e:  # noqa: PT011 - the class is what is compared
            bad(lib, *given(lib))
        classes.append(e.type)
    assert issubclass(classes[0], classes[1]) or issubclass(classes[1], classes[0])


@pytest.mark.parametrize("run", [
    lambda lib, x, y: lib.func.grad(number, argnums=(0, 1))(x, y),
    lambda lib, x, y: lib.func.grad_and_value(number)(x, y),
    lambda lib, x, y: lib.func.jacrev(two)(x, y),
    lambda lib, x, y: lib.func.jacfwd(two, argnums=1)(x, y),
    lambda lib, x, y: lib.func.hessian(number)(x, y),
    lambda lib, x, y: lib.func.hessian(number, argnums=(0, 1))(x, y),
    lambda lib, x, y: lib.func.jvp(number, (x, y), (x, y)),
    lambda lib, x, y: lib.func.vmap(two, in_dims=(None, 0))(x, y.unsqueeze(1)),
    lambda lib, x, y: lib.func.vmap(lib.func.grad(number), in_dims=(None, 0))(x, y),
    lambda lib, x, y: lib.func.vmap(lib.func.hessian(number), in_dims=(None, 0))(x, y),
    lambda lib, x, y: lib.func.vmap(lib.func.vmap(lambda a, b: a * b), in_dims=(None, 0))(x, y),
    lambda lib, x, y: lib.func.vmap(lambda r: r.softmax(0), in_dims=1, out_dims=1)(y),
    lambda lib, x, y: lib.func.vjp(two, x, y)[1]((lib.ones(2, dtype=lib.float64), lib.tensor(3.0, dtype=lib.float64))),
])  # fmt: skip
def test_func(run: Any) -> None:
    same(lambda lib: run(lib, *given(lib)))


def test_checkpoint_and_saved_tensors_hooks() -> None:
    def run(lib: Any) -> Any:
        import importlib

        checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint").checkpoint
        x, y = (t.requires_grad_() for t in given(lib))
        packed = []
        with lib.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t * 2, lambda t: t / 2):
            loss = checkpoint(number, x, y, use_reentrant=False) + (x.exp() * y).sum()
        loss.backward()
        return x.grad, y.grad

    same(run)


def test_batched_gradients() -> None:
    def run(lib: Any) -> Any:
        x, _ = given(lib)
        x.requires_grad_()
        return lib.autograd.grad(x**2, x, lib.eye(3, dtype=lib.float64), is_grads_batched=True)

    same(run)


def test_anomaly() -> None:
    for lib in LIBS:
        x = lib.tensor([0.0], requires_grad=True)
        with pytest.raises(RuntimeError, match=r"Function 'LogBackward0' returned nan values in its 0th output"):  # noqa: SIM117
            with lib.autograd.detect_anomaly() if lib is core else torch.autograd.set_detect_anomaly(True):
                (x.log() * 0).sum().backward()
