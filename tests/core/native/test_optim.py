"""The C loops of the optimizers' steps: threads, layouts, refusals, and counting steps."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from core.optim import updates

ADAM = {"step": 1.0, "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "maximize": False,
        "decoupled": True}  # fmt: skip
ADAMW = updates.adam.variants[frozenset[str]()]
SGD = updates.sgd.variants[frozenset[str]()]
SGD_NUMBERS = SGD.scalars(lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_threads_change_nothing(dtype: str, kernels: ModuleType) -> None:
    results = []
    for threads in (1, 3):
        kernels.set_num_threads(threads)
        p = [np.ones(n, dtype) for n in (50_000, 3, 0, 170_001)]
        g = [np.linspace(-1, 1, a.size).astype(a.dtype) for a in p]
        state = [[np.zeros_like(a) for a in p] for _ in range(2)]
        kernels.updates["adam_step", dtype](ADAMW.scalars(**ADAM), p, g, *state)
        results.append(b"".join(a.tobytes() for many in (p, *state) for a in many))
    assert results[0] == results[1]


def test_a_kernel_tells_its_text(kernels: ModuleType) -> None:
    kernel = kernels.updates["adam_step", "f"]
    assert (kernel.name, kernel.digest) == ("adam_step_f32", ADAMW.digest)
    assert repr(kernel) == "<C kernel adam_step_f32 of 4 arrays>"


def test_refusals(kernels: ModuleType) -> None:
    p, step = np.ones((2, 3), "f"), kernels.updates["adam_step", "f"]
    numbers = ADAMW.scalars(**ADAM)
    with pytest.raises(ValueError, match="lists differ in length"):
        step(numbers, [p], [], [p], [p])
    with pytest.raises(ValueError, match="parameter 0 and its gradient or state differ in shape"):
        step(numbers, [p], [p[:1]], [p], [p])
    with pytest.raises(TypeError, match="takes arrays of float32, got dtype"):
        step(numbers, [p], [p.astype("d")], [p], [p])
    with pytest.raises(TypeError, match="takes arrays of float32"):
        step(numbers, [3], [p], [p], [p])
    with pytest.raises(TypeError, match="a tuple of 9 numbers and 4 lists of arrays, got 3 arguments"):
        step(numbers, [p], [p])
    with pytest.raises(TypeError, match="takes a tuple of 9 numbers"):
        step((1.0,), [p], [p], [p], [p])
    reason = "takes parameters and state that are writeable, dense and laid out alike"
    assert step(numbers, [p], [p], [p.T.copy().T], [p]) == reason
    fixed = np.broadcast_to(np.float32(1), (2, 3))
    assert kernels.updates["sgd_step", "f"](SGD_NUMBERS, [fixed], [p]) == reason
    assert step(numbers, [], [], [], []) is None


def test_steps_are_counted(kernels: ModuleType) -> None:
    counters = [np.array(3.0, "f"), np.array([0.0]), np.array(7, "d")]
    assert kernels.count_up(counters) == [4.0, 1.0, 8.0]
    assert [a.item() for a in counters] == [4.0, 1.0, 8.0]
    for wrong in ([np.ones(2)], [np.array(1)], [3], (np.array(0.0),)):
        with pytest.raises(TypeError, match="count_up takes"):
            kernels.count_up(wrong)
