"""Errors of PyTorch's that people meet most, in plain words: what the op was given, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

from widgets.record import ErrorRow

from ...recorder.cell_trace import Leaf, Row, Trace
from ..finding import Found, capital, code_of, spot

NAMES = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
         "Int": "int32", "Bool": "bool", "Byte": "uint8", "double": "float64", "float": "float32",
         "c10::Half": "float16", "c10::BFloat16": "bfloat16", "long": "int64", "int": "int32"}  # fmt: skip
MIXED = re.compile(
    r"must have the same dtype, but got (?P<a>[\w:]+) and (?P<b>[\w:]+)"
    r"|expected scalar type (?P<c>\w+) but found (?P<d>\w+)"
    r"|same dtype, but got: (?P<e>[\w:]+) != (?P<f>[\w:]+)"
)


def said(trace: Trace, error: ErrorRow) -> list[Found]:
    """A finding for an error of another library that ended the cell in an op, or in backward()."""
    row = next((r for r in reversed(trace.rows) if r.error and error.message and error.message in r.error), None)
    text = " ".join(error.detail.split())
    for pattern, explain in PATTERNS:
        match = pattern.search(text)
        if match is not None:
            why, remedy = explain(match, row)
            at = f" in `{code_of(trace, row)}`" if row is not None else ""
            message = f"{capital(failed_at(trace, error, row))} fails{at}: {why}{given(row)}."
            return [Found("error", "error", error.line, None, message, remedy, [row] if row is not None else [])]
    if row is None:
        return []
    first = error.message.rstrip(".")
    message = f"{capital(failed_at(trace, error, row))} fails in `{code_of(trace, row)}`: {first}{given(row)}."
    return [
        Found("error", "error", error.line, None, message, "Look at what it is given, here and one op before.", [row])
    ]


def failed_at(trace: Trace, error: ErrorRow, row: Row | None) -> str:
    """The line that failed, in words: with the innermost of the user's where that is in a file or an earlier cell."""
    if row is None or not row.chain:
        return f"line {error.line}"
    words = spot(trace, row.chain[0])
    return f"line {error.line}" if words.startswith("line ") else f"line {error.line} ({words})"


def given(row: Row | None) -> str:
    """What an op got, in words."""
    if row is None or not row.refs:
        return ""
    parts = []
    seen = [(shape, kind) for shape, kind, _ in row.given] if len(row.given) >= len(row.refs) else []
    for k, ref in enumerate(row.refs[:4]):
        name = f"{ref.name} " if isinstance(ref, Leaf) and ref.name and not ref.name.startswith("unnamed") else ""
        shape, kind = seen[k] if seen else (tuple(ref.shape), ref.dtype)  # where it ran before, other shapes came
        parts.append(f"{name}{shape} {kind}".strip())
    return f" (given {', '.join(parts)})"


def _mixed(m: re.Match[str], row: Row | None) -> tuple[str, str]:
    kinds = [NAMES.get(k, k) for k in m.groups() if k]
    why = f"it takes tensors of one dtype and got {kinds[0]} and {kinds[1]}"
    if "expected" in m[0]:
        why = f"it wants {kinds[0]} and got {kinds[1]}"
        if kinds[0] == "int64":
            return why, "Class numbers and indices are int64: give it .long()."
    if "float64" in kinds:
        return f"{why}; NumPy makes float64", "Convert the data once, where it is made: .float()."
    return why, "Bring both to one dtype with .to(dtype), or run it under autocast."


def _product(m: re.Match[str], row: Row | None) -> tuple[str, str]:
    n, k, wanted, out = (int(g) for g in m.groups())
    why = f"the input has {k} features ({n}×{k}) and the weight takes {wanted} ({wanted}×{out})"
    return why, f"Make the layer for {k} features, or bring the input to {wanted}: flatten(1), transpose or permute."


def _sizes(m: re.Match[str], row: Row | None) -> tuple[str, str]:
    why = f"dimension {m[3]} has {m[1]} elements on one side and {m[2]} on the other, and only 1 can be stretched"
    return why, "Bring both to one shape: unsqueeze, squeeze or permute one of them."


def _plain(why: str, remedy: str) -> Callable[[re.Match[str], Row | None], tuple[str, str]]:
    return lambda match, row: (why, remedy)


PATTERNS: list[tuple[re.Pattern[str], Callable[[re.Match[str], Row | None], tuple[str, str]]]] = [
    (MIXED, _mixed),
    (re.compile(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)"), _product),
    (re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)"), _sizes),  # noqa: E501
    (
        re.compile(r"leaf Variable that requires grad is being used in an in-place operation"),
        _plain(
            "a parameter is changed in place while its gradient graph is on",
            "Change it under no_grad: with torch.no_grad(): w -= lr * w.grad, then w.grad = None.",
        ),
    ),
    (
        re.compile(r"Expected all tensors to be on the same device"),
        _plain("its tensors are on two devices", "Move the data where the model is: x = x.to(device)."),
    ),
    (
        re.compile(r"Target (-?\d+) is out of bounds"),
        lambda m, row: (
            f"class number {m[1]} is not among the outputs of the model",
            "Give the last layer as many outputs as there are classes, and number the classes from 0.",
        ),
    ),
    (
        re.compile(r"index out of range in self"),
        _plain(
            "an index is not below the number of rows of the embedding",
            "Make the embedding as large as the largest index + 1, or look at the indices.",
        ),
    ),
    (
        re.compile(r"grad can be implicitly created only for scalar outputs"),
        _plain("backward() begins with one number and got several", "Reduce it first: loss.mean().backward()."),
    ),
    (
        re.compile(r"Can't call numpy\(\) on Tensor that requires grad"),
        _plain(
            "NumPy cannot carry the graph of a tensor that requires a gradient",
            "Use .detach().numpy() to look at values, and torch's own functions for what is trained.",
        ),
    ),
    (
        re.compile(r"can't convert cuda:\d+ device type tensor to numpy"),
        _plain("the tensor is on the GPU and NumPy is not", "Use .detach().cpu().numpy()."),
    ),
]  # fmt: skip
