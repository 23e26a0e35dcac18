"""Running a row under both libraries and saying the first thing in which they differ."""

from __future__ import annotations

import types
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import core

from .inputs import VARIANTS, Inputs, Variant, flexible
from .table import Row

TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "complex128": 1e-9, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}
# PyTorch has no kernel for the dtype: a library that computes the value instead is no worse.
NO_KERNEL = ("not implemented for", "not supported", "does not support", "only supports", "is not implemented",
             "unsupported dtype", "not yet supported", "Expected a floating point", "only floating point")  # fmt: skip


@dataclass
class Outcome:
    """What came of one run: plain values, or the error."""

    values: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    stage: str = "the call"


def names_of(code: types.CodeType) -> tuple[str, ...]:
    """The names that an expression reads, in its lambdas and comprehensions too."""
    inner = [n for c in code.co_consts if isinstance(c, types.CodeType) for n in names_of(c)]
    return tuple({*code.co_names, *inner})


def is_tensor(x: Any) -> bool:
    return isinstance(x, (core.Tensor, torch.Tensor))


def array(t: Any) -> Any:
    t = t.detach()
    t = t.float() if str(t.dtype).endswith("bfloat16") else t
    return (
        t.numpy(force=True) if isinstance(t, torch.Tensor) else t.numpy()
    )  # force: a lazy zero, conjugate or negative


def flatten(x: Any) -> list[Any]:
    """The tensors and plain values in a result."""
    if is_tensor(x) or isinstance(x, str):
        return [x]
    if isinstance(x, dict):
        return [leaf for k in x for leaf in [k, *flatten(x[k])]]
    if isinstance(x, tuple | list):
        return [leaf for part in x for leaf in flatten(part)]
    return [x]


def plain(x: Any) -> Any:
    """A value that can be compared between the libraries."""
    if is_tensor(x):
        return ("tensor", tuple(x.shape), str(x.dtype).split(".")[-1], bool(x.requires_grad), array(x))
    if isinstance(x, bool | int | float | complex | type(None) | np.ndarray | np.generic):
        return x
    return str(x).replace("torch.", "").replace("core.", "").replace("'", "")


def gradients(inputs: Inputs, outputs: list[Any]) -> list[Any]:
    """The leaves' gradients of a weighted sum of the outputs."""
    rng = np.random.default_rng(inputs.seed)
    total = None
    for o in outputs:
        if not is_tensor(o) or not o.requires_grad:
            continue
        parts = [o.real, o.imag] if o.is_complex() else [o]
        for part in parts:
            weights = np.asarray(rng.uniform(0.5, 1.5, tuple(part.shape)))
            term = (part * inputs.t.tensor(weights, dtype=part.dtype)).sum()
            total = term if total is None else total + term
    if total is None:
        return []
    total.backward()
    return [None if leaf.grad is None else plain(leaf.grad) for leaf in inputs.leaves]


def run(lib: Any, row: Row, function: Any, text: str, variant: Variant) -> Outcome:
    """One row in one variant under one library."""
    code = compile(text, "<row>", "eval")
    inputs = Inputs(lib, variant, text)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        space = inputs.symbols(names_of(code))
        space["F"] = function
        if "~" in row.flags:
            core.manual_seed(7, kind="torch") if lib is core else torch.manual_seed(7)
        outcome = Outcome()
        try:
            outputs = flatten(eval(code, space))
            outcome.values = [plain(o) for o in outputs]
            outcome.stage = "backward"
            if "g" not in row.flags:
                outcome.values += gradients(inputs, outputs)
        except Exception as e:
            outcome.error = e
        return outcome


def short(x: Any) -> str:
    return " ".join(str(x).split())[:90]


def differs(a: Any, b: Any, row: Row) -> str | None:
    """How one value differs from PyTorch's; None if it does not."""
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        if isinstance(a, tuple) or isinstance(b, tuple):
            kinds = ["a tensor" if isinstance(v, tuple) else repr(v) for v in (a, b)]
            return f"{kinds[0]} in place of {kinds[1]}"
        if isinstance(a, float | complex | np.ndarray | np.generic) and not isinstance(b, str | type(None)):
            return (
                None
                if np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
                else f"{short(a)} in place of {short(b)}"
            )
        return None if a == b and type(a) is type(b) else f"{short(repr(a))} in place of {short(repr(b))}"
    for what, mine, theirs in zip(("shape", "dtype", "requires_grad"), a[1:4], b[1:4], strict=True):
        if mine != theirs:
            return f"{what} {mine} in place of {theirs}"
    if "v" in row.flags:
        return None
    x, y = a[4], b[4]
    if x.dtype.kind not in "fc":
        return None if np.array_equal(x, y) else f"{short(x)} in place of {short(y)}"
    tolerance = TOLERANCE[a[2]] * (1000 if "l" in row.flags else 1)
    if np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    bad = ~np.isclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
    return f"{short(x[bad].ravel()[0])} in place of {short(y[bad].ravel()[0])} ({int(bad.sum())} of {bad.size})"


def compare(mine: Outcome, theirs: Outcome, row: Row, text: str) -> str | None:
    """The first difference of two outcomes."""
    if theirs.error is not None:
        said = str(theirs.error)
        if any(s in said for s in NO_KERNEL) or ("view size is not" in said and "view" not in text):
            return None  # the latter: a view inside a function that is documented to take any layout
        wanted = type(theirs.error).__name__
        if mine.error is None:
            return f"no error in {theirs.stage} in place of {wanted}: {short(said)}"
        classes = {c.__name__ for c in type(mine.error).__mro__} | {type(mine.error).__name__.lstrip("_")}
        if wanted.lstrip("_") not in classes:
            return f"{type(mine.error).__name__} ({short(mine.error)}) in place of {wanted}: {short(said)}"
        return None
    if mine.error is not None:
        return f"{type(mine.error).__name__} in {mine.stage}: {short(mine.error)}"
    if len(mine.values) != len(theirs.values):
        return f"{len(mine.values)} results and gradients in place of {len(theirs.values)}"
    for n, (a, b) in enumerate(zip(mine.values, theirs.values, strict=True)):
        what = differs(a, b, row)
        if what:
            return f"result {n}: {what}"
    return None


def variants_of(row: Row, text: str) -> list[Variant]:
    """The variants that say something about this call."""
    names = names_of(compile(text, "<row>", "eval"))
    free = flexible(names)
    takes_tensors = free or any(f"{m}(" in text for m in ("R", "P", "U", "Z", "C", "B", "SPD", "M"))
    chosen = []
    for v in VARIANTS:
        if not takes_tensors and v.name != "float64":
            continue
        if v.shape != "regular" and (not free or "s" in row.flags):
            continue
        if v.values == "special" and (not free or "n" in row.flags):
            continue
        if v.dtype in ("float16", "bfloat16") and ("h" in row.flags or "C(" in text):
            continue
        if v.dtype in ("int64", "bool") and ("i" in row.flags or "C(" in text):
            continue
        if v.layout != "regular" and "~" in row.flags:  # PyTorch draws in the order of memory
            continue
        chosen.append(v)
    return chosen


def into_out(lib: Any, function: Any) -> Any:
    """The function, its result written into an ``out=`` tensor, as PyTorch's reference lists it for most functions."""

    def run_into(*args: Any, **kwargs: Any) -> Any:
        with lib.no_grad():
            result = function(*args, **kwargs)
            assert isinstance(result, lib.Tensor), "one result"
            out = lib.empty(0, dtype=result.dtype)
            assert function(*args, out=out, **kwargs) is out
            return out

    return run_into


def out_difference(row: Row) -> str | None:
    """The difference with ``out=``, where PyTorch takes it."""
    text, variant = row.calls[0], VARIANTS[0]
    if row.namespace in ("torch.Tensor", "torch.nn.functional") or not text.startswith("F("):
        return None
    theirs = run(torch, row, into_out(torch, row.function(torch)), text, variant)
    if theirs.error is not None:
        return None
    said = compare(run(core, row, into_out(core, row.function(core)), text, variant), theirs, row, text)
    return said and f"out=: {text}: {said}"


def first_difference(row: Row) -> str | None:
    """The first difference between `core` and PyTorch over a row's calls and variants."""
    for text in row.calls:
        for variant in variants_of(row, text):
            mine = run(core, row, row.function(core), text, variant)
            theirs = run(torch, row, row.function(torch), text, variant)
            said = compare(mine, theirs, row, text)
            if said:
                return f"{variant.name}: {text.replace('F(', row.short + '(', 1)}: {said}"
    return out_difference(row)


@dataclass
class Report:
    """What the catalogue came to: names by outcome."""

    right: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return len(self.right) + len(self.wrong) + len(self.missing)

    @property
    def percent(self) -> float:
        return 100 * len(self.right) / max(self.total, 1)


def examine(rows: list[Row]) -> Report:
    """Compare every row that `core` has."""
    report = Report()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for row in rows:
            if not row.there(core):
                report.missing.append(row.name)
            elif said := first_difference(row):
                report.wrong[row.name] = said
            else:
                report.right.append(row.name)
    finally:
        torch.set_num_threads(threads)
    return report
