"""ONNX's own node tests through `core.onnx.load`: one model and its expected results for each.

`python -m tests.core.export.onnx_nodes` prints how many pass, and each failure with its reason; `--ops Conv,Pad` runs
the tests of some ops. Tests of sequences, optionals and texts are counted apart: core has no such values.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Outcome(NamedTuple):
    """A test, and why it fails: "" where it passes."""

    name: str
    reason: str


_TEXT = 8  # TensorProto.STRING
EXCUSED = {
    "takes a dtype that core has not": "arithmetic of uint16, uint32 and uint64",
    "FlexAttention": "an op that ONNX calls a preview",
    "ImageDecoder": "it reads pictures, which core.vision does",
    "TfIdfVectorizer": "it counts n-grams, of texts mostly",
    "TreeEnsemble": "an op of classical machine learning",
    "Binarizer": "an op of classical machine learning",
    "test_bernoulli": "random numbers, which ONNX expects of its own generator",
    "test_training_dropout": "random numbers, which ONNX expects of its own generator",
}
"""Part of a test's name or of the reason why it fails -> why it may."""


def excused(outcome: Outcome) -> str:
    """Return why a failing test may fail, "" where it may not."""
    return next((why for part, why in EXCUSED.items() if part in outcome.name or part in outcome.reason), "")


def cases(ops: set[str] | None = None) -> list[Any]:
    """Return ONNX's node tests, of some ops or of all."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return [c for c in found if ops is None or any(n.op_type in ops for n in c.model.graph.node)]


def of_tensors(case: Any) -> bool:
    """Return whether a test's inputs and results are tensors of numbers."""
    graph = case.model.graph
    kinds = [v.type for v in (*graph.input, *graph.output)]
    return all(k.WhichOneof("value") == "tensor_type" and k.tensor_type.elem_type != _TEXT for k in kinds)


def failure(case: Any) -> str:
    """Return why a test fails, "" where it passes."""
    import onnx

    import core
    from core.onnx.table import of_array

    def array(x: Any) -> Any:
        return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)

    try:
        module = core.onnx.load(case.model.SerializeToString())
        for inputs, outputs in case.data_sets:
            with core.no_grad():
                found = module(*(None if x is None else of_array(array(x)) for x in inputs))
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(outputs):
                return f"{len(found)} results for {len(outputs)}"
            for x, y in zip(found, outputs, strict=True):
                if reason := _difference(x, array(y), case):
                    return reason
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return ""


def _difference(x: Any, wanted: Any, case: Any) -> str:
    a = x.numpy() if hasattr(x, "numpy") else np.asarray(x)
    if a.dtype != wanted.dtype or a.shape != wanted.shape:
        return f"{a.dtype}{a.shape} for {wanted.dtype}{wanted.shape}"
    if a.dtype.kind in "biu":
        return "" if np.array_equal(a, wanted) else "other whole numbers"
    left, right = a.astype(np.float64), wanted.astype(np.float64)
    rtol = max(case.rtol or 0, {2: 2e-2 if a.dtype.name == "bfloat16" else 2e-3}.get(a.dtype.itemsize, 1e-4))
    atol = max(case.atol or 0, 1e-3 if a.dtype.itemsize <= 2 else 1e-5)
    if np.allclose(left, right, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    return f"differs by {np.nanmax(np.abs(left - right)):.2g}"


def outcomes(found: list[Any]) -> Iterator[Outcome]:
    """Yield what becomes of each test."""
    for case in found:
        yield Outcome(case.name, failure(case))


def main(arguments: list[str]) -> int:
    """Print how many tests pass, and the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="names of ops, with commas")
    parser.add_argument("--names", help="tests whose names have this in them", default="")
    chosen = parser.parse_args(arguments)
    every = cases(set(chosen.ops.split(",")) if chosen.ops else None)
    every = [c for c in every if chosen.names in c.name]
    numeric = [c for c in every if of_tensors(c)]
    results = list(outcomes(numeric))
    failed = [r for r in results if r.reason]
    for r in failed:
        print(f"{r.name}: {r.reason}" + (f" [{why}]" if (why := excused(r)) else " [not excused]"))
    passed = len(results) - len(failed)
    print(f"\n{passed} of {len(results)} pass ({passed / max(len(results), 1):.1%}); {len(every) - len(numeric)} of "
          "sequences, optionals and texts are left out")  # fmt: skip
    print("by reason:", ", ".join(f"{n} {kind}" for kind, n in Counter(_kind(r.reason) for r in failed).most_common()))
    return 0


def _kind(reason: str) -> str:
    return next((kind for kind in ("OnnxError", "differs", "Error", "for") if kind in reason), "other numbers")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
