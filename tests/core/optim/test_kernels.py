"""Which kernel makes a step, what it declines, and declaring an update of one's own."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import native
from core.optim import kernels, update, updates

ADAM = {"step": 3.0, "lr": 0.02, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "maximize": False,
        "decoupled": True}  # fmt: skip
PLAIN = frozenset[str]()


def test_a_kernel_says_why_it_declines(rng: np.random.Generator) -> None:
    adam = updates.adam.variants[PLAIN]

    def reason(dtype: str = "float32", device: str = "cpu", order: str = "C") -> str | None:
        held = [[np.asarray(rng.normal(size=(3, 4)).astype(dtype), order=order)] for _ in range(4)]  # type: ignore[call-overload]
        return kernels.candidates(adam, device, held)[0][1]

    assert reason(device="cuda") is None
    assert reason(device="cuda", order="F") == "takes contiguous arrays"
    assert reason(device="cuda", dtype="int32") == "takes floating types, got int32"
    if native.available:
        assert reason() is None
        assert reason(order="F") is None
        assert reason("float16") == "takes float32 and float64, got float16"


@pytest.mark.skipif(not native.available, reason="the extension is not built")
def test_a_layout_that_the_loops_do_not_take_goes_to_the_reference(rng: np.random.Generator) -> None:
    adam = updates.adam.variants[PLAIN]
    held = [[np.abs(rng.normal(size=(3, 8)))[:, ::2]] for _ in range(4)]
    numbers = adam.scalars(**ADAM)
    kernel, reason = kernels.candidates(adam, "cpu", held)[0]
    before = [m[0].copy() for m in held]
    assert reason is None
    assert kernel.run(numbers, held) == "takes parameters and state that are writeable, dense and laid out alike"
    assert all(np.array_equal(a, m[0]) for a, m in zip(before, held, strict=True))
    p = core.from_numpy(held[0][0]).requires_grad_()
    p.grad = core.from_numpy(held[1][0])
    dense = [np.ascontiguousarray(m[0]) for m in held]
    kernels.step("adam_step", updates.adam, PLAIN, [p], held, ADAM)
    kernels.step("adam_step", updates.adam, PLAIN, [p], [[a] for a in dense], ADAM)
    for m, a in zip(held, dense, strict=True):
        np.testing.assert_allclose(m[0], a, rtol=1e-13)


def test_without_the_extension_the_reference_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "module", None)
    monkeypatch.setattr(native, "reason", "it was not built")
    rows = kernels.candidates(updates.sgd.variants[PLAIN], "cpu", [[np.ones(2)], [np.ones(2)]])
    assert rows[0][1] == "it was not built"
    assert rows[1][0][1:] == ("sgd_step_reference", "NumPy")
    p = core.nn.Parameter(core.ones(2))
    opt = core.optim.AdamW([p], lr=0.1, weight_decay=0.0)
    for _ in range(2):
        p.grad = core.ones(2)
        opt.step()
    assert p.tolist() == pytest.approx([0.8, 0.8], abs=1e-6)


def test_what_was_not_built_says_so() -> None:
    name = "a_step_declared_late"
    late = update.update(name, lambda p, g, *, lr: p - lr * g)
    try:
        (v,) = late.variants.values()
        reason = kernels.candidates(v, "cpu", [[np.ones(2)], [np.ones(2)]])[0][1]
        assert reason == ("changed after the extension was built; pip install -e . prints its kernel"
                          if native.available else native.reason)  # fmt: skip
        assert kernels.triton_kernel(v)([[np.ones(2)], [np.ones(2)]], (0.5,)) is None
        with pytest.raises(ValueError, match="declared already"):
            update.update(name, lambda p, g: p)
    finally:
        del update.table[name]


def test_settings_are_computed_once_and_in_double_precision() -> None:
    v = updates.adam.variants[PLAIN]
    assert len(v.params) == 9
    assert not any(st.op == "pow" for st in v.statements)
    numbers = dict(zip(v.params, v.scalars(**ADAM), strict=True))
    assert 0.02 / (1 - 0.9**3) in numbers.values()
    assert 1 - 0.02 * 0.1 in numbers.values()


def test_an_array_that_is_only_written_is_not_read() -> None:
    v = updates.sgd.variants[frozenset(["momentum_buffer", "first"])]
    p, g, buffer = np.ones(40, "f"), np.ones(40, "f"), np.full(40, np.nan, "f")
    numbers = v.scalars(lr=0.5, momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False)
    for device in ("cpu", "cuda"):
        kernel = kernels.candidates(v, device, [[p], [g], [buffer]])[0][0]
        if native.available or device == "cuda":
            kernel.run(numbers, [[p], [g], [buffer]])
            assert np.array_equal(buffer, g)
            buffer[:] = np.nan


def test_a_formula_with_too_few_results_is_refused() -> None:
    broken = update.update("broken_step", lambda p, g, m, *, lr: p - lr * g)
    try:
        with pytest.raises(ValueError, match="gives 1 results for the arrays p, m"):
            _ = broken.variants
    finally:
        del update.table["broken_step"]
