"""What is compared of an OpInfo: the function, its method, in-place and out= forms, strides, and other dtypes."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import core

from . import compare
from .compare import KINDS, differs, flatten, main_dtype, said, samples, seed, shown
from .translate import Absent, function, value

HERE = Path(__file__).parent
OTHER_DTYPES = (torch.float64, torch.complex64, torch.bfloat16, torch.int64, torch.bool)
ALLOWANCES = ("values", "digits")  # in the table: only shapes and dtypes compare; a hundred times the tolerance
SOME = 24  # samples where a check looks at the spelling or the dtype and not at the op's every setting


def _table(name: str) -> dict[str, str]:
    lines = [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]
    return {key.strip(): reason.strip() for key, _, reason in (line.partition(": ") for line in lines)}


@functools.cache
def not_counted() -> dict[str, str]:
    """Patterns of the OpInfos of functions that PyTorch does not document, with the reason."""
    return _table("not_counted.txt")


@functools.cache
def exceptions() -> dict[str, str]:
    """What differs, as `op check`, with the reason."""
    return _table("exceptions.txt")


def pattern_of(name: str) -> str | None:
    """The pattern that leaves an OpInfo out; None for one that counts."""
    return next((p for p in not_counted() if fnmatch.fnmatchcase(name, p)), None)


@functools.cache
def error_exceptions() -> dict[str, str]:
    """The wrong calls that raise another class, as `op number`, with the reason."""
    return _table("errors.txt")


COUNTED = [info for info in op_db if pattern_of(info.full_name) is None]


def _drawn(info: Any) -> bool:
    """Whether its values are at random or whatever lay in memory, so that only shapes and dtypes compare."""
    return f"{info.full_name} values" in exceptions()


def _loose(info: Any) -> float:
    return 100.0 if f"{info.full_name} digits" in exceptions() else 1.0


def _first(info: Any, ours: Any, theirs: Any, chosen: Iterator[Any], **how: Any) -> str | None:
    for sample in chosen:
        difference = compare.compare(theirs, ours, sample, loose=_loose(info), values=not _drawn(info), **how)
        if difference:
            return f"{shown(sample)}: {difference}"
    return None


def _main(info: Any) -> str | None:
    """Every sample in float32, or in the first dtype that the op takes: values, dtypes, shapes, gradients."""
    dtype = main_dtype(info)
    grads = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    return _first(info, function(info.op), info.op, samples(info, dtype, grads), grads=grads)


def _strides(info: Any) -> str | None:
    """Some samples with every tensor strided."""
    dtype = main_dtype(info)
    chosen = (s.noncontiguous() for s in itertools.islice(samples(info, dtype, False), SOME))
    return _first(info, function(info.op), info.op, chosen, grads=False)


def _method(info: Any) -> str | None:
    method = info.get_method()
    chosen = (s for s in itertools.islice(samples(info, main_dtype(info), False), SOME)
              if isinstance(s.input, torch.Tensor))  # fmt: skip
    return method and _first(info, function(method), method, chosen, grads=False)


def _inplace(info: Any) -> str | None:
    for form in (info.get_inplace(), info.inplace_operator_variant):
        if form is None:
            continue
        dtype = main_dtype(info)
        grads = info.supports_inplace_autograd and dtype in info.supported_backward_dtypes("cpu")
        chosen = (s for s in itertools.islice(samples(info, dtype, grads), SOME)
                  if isinstance(s.input, torch.Tensor) and not s.broadcasts_input)  # fmt: skip
        if difference := _first(info, function(form), form, chosen, grads=grads, copied=True):
            return difference
    return None


def _out(info: Any) -> str | None:
    """``out=`` of the right kind and of a wrong one: the same values in the same tensor, or the same class of error."""
    if not info.supports_out:
        return None
    ours = function(info.op)
    for sample in itertools.islice(samples(info, main_dtype(info), False), SOME):
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        try:
            seed()
            wanted = info.op(*args, **kwargs)
        except KINDS:
            continue
        if not all(isinstance(t, torch.Tensor) for t in flatten(wanted)):
            return None
        mine = value((args, dict(kwargs)))
        for change in (lambda t: t, torch.Tensor.long):
            many = isinstance(wanted, tuple | list)
            given = [torch.zeros_like(change(t)) for t in flatten(wanted)]
            ours_given = [core.zeros(tuple(t.shape), dtype=getattr(core, str(t.dtype)[6:])) for t in given]
            try:
                seed()
                info.op(*args, **kwargs, out=tuple(given) if many else given[0])
                error = None
            except KINDS as e:
                error = e
            try:
                seed()
                result = ours(*mine[0], **mine[1], out=tuple(ours_given) if many else ours_given[0])
            except Absent:
                raise
            except Exception as e:
                if error is None or not same_class(e, error):
                    return f"{shown(sample)}, out={given[0].dtype}: {said(e)} in place of {error and said(error)}"
                continue
            if error is not None:
                return f"{shown(sample)}, out={given[0].dtype}: no error in place of {said(error)}"
            if any(a is not b for a, b in zip(flatten(result), ours_given, strict=True)):
                return f"{shown(sample)}, out={given[0].dtype}: another tensor came back than was given"
            for a, b in zip(ours_given, given, strict=True):
                if difference := differs(a, b, _loose(info), not _drawn(info)):
                    return f"{shown(sample)}, out={b.dtype}: {difference}"
    return None


def _dtype(dtype: torch.dtype) -> Callable[[Any], str | None]:
    def check(info: Any) -> str | None:
        if dtype is main_dtype(info) or dtype not in info.supported_dtypes("cpu"):
            return None
        grads = dtype is torch.complex64 and info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
        chosen = itertools.islice(samples(info, dtype, grads), SOME)
        return _first(info, function(info.op), info.op, chosen, grads=grads)

    return check


CHECKS: dict[str, Callable[[Any], str | None]] = {
    "samples": _main,
    "strides": _strides,
    "method": _method,
    "inplace": _inplace,
    "out": _out,
    **{str(d).removeprefix("torch."): _dtype(d) for d in OTHER_DTYPES},
}


def same_class(ours: BaseException, theirs: BaseException) -> bool:
    """Whether whoever catches PyTorch's class of error catches ours."""
    names = {c.__name__.lstrip("_") for c in type(ours).__mro__}
    return isinstance(ours, type(theirs)) or type(theirs).__name__.lstrip("_") in names


def differences(info: Any) -> dict[str, str]:
    """What differs of an OpInfo, by check."""
    found = {}
    for name, check in CHECKS.items():
        try:
            difference = check(info)
        except Absent as e:
            difference = f"absent: {e}"
        if difference:
            found[name] = difference
    return found


def hold(info: Any) -> None:
    """Assert that an OpInfo differs where the table says so, and nowhere else."""
    warnings.simplefilter("ignore")  # the samples warn of what PyTorch deprecates; pytest puts the filters back
    with np.errstate(all="ignore"):
        found = differences(info)
    excused = {check for check in CHECKS if f"{info.full_name} {check}" in exceptions()}
    assert {check: what for check, what in found.items() if check not in excused} == {}
    assert sorted(excused - set(found)) == [], "the table excuses what is right"
