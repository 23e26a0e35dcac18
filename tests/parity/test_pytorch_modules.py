"""PyTorch's own database of modules, `torch.testing._internal.common_modules.module_db`: outputs, gradients, errors.

Every sample is constructed in `core` with the same arguments, takes the same state and runs on the same inputs, in
float32 and float64 and, where PyTorch says that the two differ, in training and in evaluation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import core  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_modules as theirs

DTYPES = (torch.float32, torch.float64)
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}

# What is not asked of a module, and why. Nothing else is left out.
EXCEPTIONS: dict[str, str] = {}

INFOS = {info.name: info for info in theirs.module_db}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """PyTorch's threads spin while ours work: on a busy machine that takes minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def counterpart(value: Any) -> Any:
    """`core`'s function or class of the name that PyTorch's has; None of anything else."""
    name = getattr(value, "__name__", "")
    for house, ours in ((torch.nn.functional, core.nn.functional), (torch.nn, core.nn), (torch, core)):
        if name and getattr(house, name, None) is value:
            return getattr(ours, name)
    return None


def as_ours(value: Any) -> Any:
    """An argument of PyTorch's in `core`: tensors with their values, types, functions, modules; containers of them."""
    if isinstance(value, torch.Tensor):
        return core.tensor(value.detach().clone().numpy(), requires_grad=value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(core, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return core.device(str(value))
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        return layer_as_ours(value)
    if isinstance(value, torch.nn.LinearCrossEntropyOptions):
        return core.nn.LinearCrossEntropyOptions(**{f.name: as_ours(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, dict):
        return {k: as_ours(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_ours(v) for v in value)
    return counterpart(value) or value


def as_leaves(value: Any) -> Any:
    """PyTorch's arguments with leaves for tensors: some samples come with a history."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {k: as_leaves(v) for k, v in value.items()}
    return type(value)(as_leaves(v) for v in value) if isinstance(value, list | tuple) else value


def layer_as_ours(layer: Any) -> Any:
    """An encoder layer, which comes as the argument of a TransformerEncoder."""
    attention = layer.self_attn
    made = core.nn.TransformerEncoderLayer(
        attention.embed_dim, attention.num_heads, layer.linear1.out_features, layer.dropout.p,
        counterpart(layer.activation) or layer.activation, layer.norm1.eps, attention.batch_first, layer.norm_first,
        layer.linear1.bias is not None, dtype=as_ours(layer.linear1.weight.dtype),
    )  # fmt: skip
    return take_state(made, layer)


def take_state(mine: Any, other: Any) -> Any:
    """`mine` with the parameters and buffers of `other`."""
    mine.load_state_dict(as_ours(other.state_dict()))
    return mine


def tensors(value: Any) -> list[Any]:
    """The tensors in arguments or in a result, in their order."""
    if isinstance(value, torch.Tensor | core.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, list | tuple) else []


def numpy(value: Any) -> np.ndarray:
    return np.asarray(value.detach().resolve_conj().numpy())


def close(mine: Any, other: Any, dtype: Any, what: str) -> None:
    """Tensors of one dtype, one shape and (nearly) one value; or None both."""
    assert (mine is None) == (other is None), f"{what}: {mine} and {other}"
    if other is None:
        return
    assert str(mine.dtype).split(".")[1] == str(other.dtype).split(".")[1], what
    a, b = numpy(mine), numpy(other)
    finite = np.abs(b[np.isfinite(b)])
    tolerance = TOLERANCE[dtype]  # of the greatest element: what cancels has lost its digits in both libraries
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, finite.max(initial=0)), err_msg=what)


def weighted(results: list[Any], t: Any) -> Any:
    """A number in which every element of the results has a weight of its own; None where there is nothing to add."""
    total = None
    for y in results:
        if y.requires_grad:
            weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
            part = (y * t.tensor(weights).to(y.dtype)).sum()
            part = part.real if y.dtype.is_complex else part
            total = part if total is None else total + part
    return total


def backward(loss: Any) -> None:
    if loss is not None:
        loss.backward()


def compare(info: Any, sample: Any, dtype: Any, training: bool) -> None:
    """One sample in both libraries: the results, the gradients of inputs and parameters, the buffers afterwards."""
    made, given = sample.constructor_input, sample.forward_input
    other = info.module_cls(*made.args, **made.kwargs)
    mine = getattr(core.nn, info.module_cls.__name__)(*as_ours(made.args), **as_ours(made.kwargs))
    assert repr(mine) == repr(other)
    for m in (mine, other):
        m.train(training)
        m.to(dtype if m is other else as_ours(dtype))
    args, named = as_leaves(given.args), as_leaves(given.kwargs)
    if info.is_lazy:  # the first call gives it its sizes
        with torch.no_grad():
            other(*args, **named)
    take_state(mine, other)
    ours, ours_named = as_ours(args), as_ours(named)
    torch.manual_seed(7)
    core.manual_seed(7, kind="torch")
    expected, found = other(*args, **named), mine(*ours, **ours_named)
    results, mine_results = tensors(expected), tensors(found)
    assert len(results) == len(mine_results)
    for k, (y, z) in enumerate(zip(mine_results, results, strict=True)):
        close(y, z, dtype, f"result {k}")
        assert y.requires_grad == z.requires_grad
    backward(weighted(mine_results, core))
    backward(weighted(results, torch))
    for k, (x, z) in enumerate(zip(tensors((ours, ours_named)), tensors((args, named)), strict=True)):
        close(x.grad, z.grad, dtype, f"the gradient of input {k}")
    beside = dict(other.named_parameters())
    assert [n for n, _ in mine.named_parameters()] == list(beside)
    for name, p in mine.named_parameters():
        close(p.grad, beside[name].grad, dtype, f"the gradient of {name}")
    for (name, b), z in zip(mine.named_buffers(), other.buffers(), strict=True):
        close(b, z, dtype, name)


def cases() -> list[tuple[str, Any, bool]]:
    return [
        (name, dtype, training)
        for name, info in INFOS.items()
        for dtype in DTYPES
        for training in ((True, False) if info.train_and_eval_differ else (True,))
    ]


@pytest.mark.parametrize(("name", "dtype", "training"), cases())
def test_every_sample_of_a_module(name: str, dtype: Any, training: bool) -> None:
    info = INFOS[name]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        assert samples
        for number, sample in enumerate(samples):
            try:
                compare(info, sample, dtype, training)
            except Exception as e:
                e.add_note(f"sample {number} of {name}: {sample.desc}")
                raise


def raised(house: Any, info: Any, case: Any, dtype: Any, training: bool) -> type[BaseException] | None:
    """The class of the error that a failing sample meets in a library; None where it meets none."""
    convert = as_ours if house is core else as_leaves
    made, given = case.module_error_input.constructor_input, case.module_error_input.forward_input
    make = getattr(house.nn, info.module_cls.__name__)
    house.set_default_dtype(convert(dtype))  # what has no dtype of its own goes with the input
    try:
        module = make(*convert(made.args), **convert(made.kwargs)).train(training)
        if given is not None:
            module(*convert(given.args), **convert(given.kwargs))
    except Exception as e:
        return type(e)
    finally:
        house.set_default_dtype(house.float32)
    return None


@pytest.mark.parametrize("name", [n for n, info in INFOS.items() if info.module_error_inputs_func is not None])
def test_every_error_of_a_module(name: str) -> None:
    info = INFOS[name]
    seen = 0
    for training in (True, False) if info.train_and_eval_differ else (True,):
        for dtype in DTYPES:
            failing = info.module_error_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=False, training=training
            )
            for case in failing:
                expected = raised(torch, info, case, dtype, training)  # some fail in training alone
                seen += expected is case.error_type
                assert raised(core, info, case, dtype, training) is expected, case.error_regex
    assert seen


def test_the_database_is_asked_whole() -> None:
    assert len(INFOS) == len(theirs.module_db) == 114
    assert set(EXCEPTIONS) <= set(INFOS)
