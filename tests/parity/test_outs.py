"""``out=`` of every function that PyTorch's database of ops says takes it: the tensor given comes back, written."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import core  # noqa: E402

from .test_pytorch_modules import as_ours, tensors  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 2  # of each op
DRAWN = ("empty", "empty_permuted", "normal", "multinomial", "bernoulli", "randn")  # their values are not for comparing
NOT_UNIQUE = ("svd", "linalg.svd", "linalg.eig", "linalg.eigh")  # up to signs

# Functions whose out= is in no page of PyTorch's documentation, only in what its binding accepts.
UNDOCUMENTED = {f"nn.functional.{n}" for n in ("avg_pool2d", "avg_pool3d", "gelu", "linear", "softshrink")}


# Ops of which no sample serves: a bool or a list comes of them, or core takes other dtypes.
NOT_ASKED = ("equal", "histogramdd", "gather", "where")


def found(name: str) -> Any:
    function: Any = core
    for part in name.split("."):
        function = getattr(function, part, None)
    return function


OPS = {
    op.name: op
    for op in op_db
    if op.supports_out
    and found(op.name) is not None
    and op.name not in UNDOCUMENTED
    and not op.name.startswith("sparse.")
}


def numpy(t: Any) -> np.ndarray:
    return np.asarray(t.detach().resolve_conj().resolve_neg().numpy() if isinstance(t, torch.Tensor) else t.numpy())


def given(parts: list[Any], form: str) -> list[Any]:
    """What is written into: empty tensors, or ones of the right shape that are laid out the other way round."""
    if form == "empty":
        return [core.empty(0, dtype=as_ours(p.dtype)) for p in parts]
    return [core.zeros(tuple(p.shape)[::-1], dtype=as_ours(p.dtype)).permute(*range(p.ndim)[::-1]) if p.ndim
            else core.zeros((), dtype=as_ours(p.dtype)) for p in parts]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_what_is_given_is_written_and_comes_back(name: str) -> None:
    op, function = OPS[name], found(name)
    dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
    asked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for s in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES):
            args, kwargs = as_ours((s.input, *s.args)), as_ours(dict(s.kwargs))
            try:
                expected = op.op(s.input, *s.args, **s.kwargs)
                there = [torch.empty(0, dtype=p.dtype) for p in tensors(expected)]
                op.op(s.input, *s.args, **s.kwargs, out=tuple(there) if isinstance(expected, tuple) else there[0])
                plain = function(*args, **kwargs)
            except Exception:  # other tests ask whether it runs at all
                continue
            several = isinstance(expected, list | tuple)
            parts = list(expected) if several else [expected]
            if not all(isinstance(p, torch.Tensor) for p in parts):
                continue
            for form in ("empty", "strided"):
                asked += 1
                into = given(parts, form)
                result = function(*args, **kwargs, out=tuple(into) if several else into[0])
                values = list(plain) if several else [plain]
                for a, b, p, v in zip(into, result if several else [result], parts, values, strict=True):
                    assert b is a, form
                    assert tuple(a.shape) == tuple(p.shape), form
                    assert a.dtype is as_ours(p.dtype), form
                    if name not in DRAWN:
                        np.testing.assert_array_equal(numpy(a), numpy(v), err_msg=form)
                        if name not in NOT_UNIQUE:
                            np.testing.assert_allclose(numpy(a), numpy(p), rtol=1e-3, atol=1e-4, err_msg=form)
    assert asked or name in NOT_ASKED, "no sample runs in both libraries"


def test_most_are_asked() -> None:
    assert len(OPS) > 290
