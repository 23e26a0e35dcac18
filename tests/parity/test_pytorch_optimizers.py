"""PyTorch's own database of optimizers, `torch.testing._internal.common_optimizers.optim_db`: steps and errors.

Every setting runs in both libraries from the same parameters (a matrix, a vector, a 0-d one, one without a gradient) by
the same gradients.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import core  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_optimizers as theirs

INFOS = {info.name: info for info in theirs.optim_db}
STEPS = 6

# What is not asked, and why: (optimizer, description of the sample). Nothing else is left out.
EXCEPTIONS = {
    ("SparseAdam", "dense params required"): "a sparse parameter, and there are no sparse tensors in core",
    ("SparseAdam", "dense params required in param_groups"): "a sparse parameter, and there are none in core",
}


def as_ours(value: Any) -> Any:
    """PyTorch's settings and parameters in `core`; a tensor that comes twice is one tensor, too."""
    seen: dict[int, Any] = {}

    def convert(v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            if id(v) not in seen:
                made = core.tensor(v.detach().clone().numpy(), requires_grad=v.requires_grad)
                seen[id(v)] = core.nn.Parameter(made.detach()) if isinstance(v, torch.nn.Parameter) else made
                if v.grad is not None:
                    seen[id(v)].grad = core.tensor(v.grad.numpy())
            return seen[id(v)]
        if isinstance(v, dict):
            return {k: convert(x) for k, x in v.items()}
        return type(v)(convert(x) for x in v) if isinstance(v, list | tuple) else v

    return convert(value)


def start(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [(4, 3), (2, 5)] if name == "Muon" else [(4, 3), (5,), (), (2, 3, 2), (2, 2)]
    return [rng.normal(size=shape) for shape in shapes]


def trajectory(house: Any, name: str, kwargs: dict[str, Any], dtype: str) -> list[list[np.ndarray]]:
    """The parameters after each step. The last parameter never gets a gradient."""
    params = [house.tensor(a.astype(dtype), requires_grad=True) for a in start(name)]
    opt = getattr(house.optim, name)(params, **kwargs)
    weights = [house.tensor(np.cos(np.arange(a.size)).reshape(a.shape).astype(dtype)) for a in start(name)]
    found = []

    def closure() -> Any:
        opt.zero_grad()
        loss = sum(((p * p) * 0.5 + p * w).sum() for p, w in zip(params[:-1], weights, strict=False))
        loss.backward()
        if name == "SparseAdam" and house is torch:
            for p in params[:-1]:
                p.grad = p.grad.to_sparse(1) if p.ndim else p.grad.to_sparse()
        return loss

    for _ in range(STEPS):
        opt.step(closure)
        found.append([p.detach().numpy().copy() for p in params])
    return found


def samples() -> list[tuple[str, int]]:
    return [(n, i) for n, info in INFOS.items() for i in range(len(info.optim_inputs_func(device="cpu")))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "number"), samples())
def test_every_setting_goes_the_same_way(name: str, number: int, dtype: str) -> None:
    sample = INFOS[name].optim_inputs_func(device="cpu")[number]
    kwargs = sample.kwargs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = trajectory(torch, name, kwargs, dtype)
        found = trajectory(core, name, as_ours(kwargs), dtype)
    # Muon computes in bfloat16; a rate that is a tensor is a float32, and so is what PyTorch computes of it alone
    rtol = 2e-2 if name == "Muon" else 1e-4 if dtype == "float32" else 1e-6 if "Tensor lr" in sample.desc else 1e-9
    for step, (mine, other) in enumerate(zip(found, expected, strict=True)):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol / 10, err_msg=f"step {step}: {sample.desc}")
    moved = [not np.array_equal(a.astype(dtype), b) for a, b in zip(start(name), found[-1], strict=True)]
    assert moved == [True] * (len(moved) - 1) + [False]


def failures() -> list[tuple[str, int]]:
    return [
        (n, i)
        for n, info in INFOS.items()
        for i, case in enumerate(info.optim_error_inputs_func(device="cpu", dtype=torch.float32))
        if (n, case.optimizer_error_input.desc) not in EXCEPTIONS
    ]


def raised(house: Any, name: str, case: Any) -> type[BaseException] | None:
    """The class of the error, or of the warning where it warns alone."""
    given = case.optimizer_error_input
    params = given.params
    if params is None:
        params = [torch.nn.Parameter(torch.randn(2, 3))]
    if house is core:
        params = as_ours(params)
    kwargs = as_ours(given.kwargs) if house is core else given.kwargs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            opt = getattr(house.optim, name)(params, **kwargs)
            if case.error_on is theirs.OptimizerErrorEnum.STEP_ERROR:
                opt.step()
        except Exception as e:
            return type(e)
    return None


@pytest.mark.parametrize(("name", "number"), failures())
def test_every_error_has_its_class(name: str, number: int) -> None:
    case = INFOS[name].optim_error_inputs_func(device="cpu", dtype=torch.float32)[number]
    assert raised(torch, name, case) is case.error_type, case.optimizer_error_input.desc
    assert raised(core, name, case) is case.error_type, case.optimizer_error_input.desc


def test_the_database_is_asked_whole() -> None:
    assert len(INFOS) == len(theirs.optim_db) == 15
    described = {
        (n, case.optimizer_error_input.desc)
        for n, info in INFOS.items()
        for case in info.optim_error_inputs_func(device="cpu", dtype=torch.float32)
    }
    assert set(EXCEPTIONS) <= described
