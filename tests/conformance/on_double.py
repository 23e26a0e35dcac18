"""Every op's own text on the stand-in for CuPy, beside NumPy on the CPU, forward and backward: run by test_double.py.

The stand-in refuses what CuPy refuses: NumPy arrays among the operands, functions that CuPy lacks, conversions unasked.
Triton's kernels compute nothing on that machine and decline here.
"""

import contextlib
import json
import sys
import traceback
import warnings

import cupy
import numpy as np

import core
from core.backends import cuda
from core.backends.cuda import fallback
from core.base.device import device
from core.base.device import kind as kind_of
from core.base.errors import OpNotDifferentiable
from core.declare import op as declarations
from core.declare.op import Operation
from core.dispatch.elementwise import call_map
from core.dispatch.structured import call_operation
from core.tensors.tensor import wrap

CPU, CUDA = device("cpu"), device("cuda", 0)


def tensor(a, where):
    if a is None:
        return None
    a = np.asarray(a)
    t = wrap(cupy.asarray(a) if where is CUDA else a, kind_of(core.base.dtypes.from_numpy(a.dtype), where))
    return t.requires_grad_() if t.dtype.category >= 2 else t


def bare(t):
    assert isinstance(t._a, np.ndarray if t.device is CPU else cupy.ndarray), "an array of the other library"
    return t._a if t.device is CPU else t._a.get()


def both(o, arrays, params, where):
    """The outputs and gradients of one call."""
    inputs = [tensor(a, where) for a in arrays]
    if isinstance(o, Operation):
        y = call_operation(o, tuple(inputs), {**o.params, **params})
    else:
        y = call_map(o, tuple(inputs), tuple(o.params.values()))
    ys = list(y) if isinstance(y, tuple) else [y]
    if wanted := [v for v in ys if v.requires_grad]:
        with contextlib.suppress(OpNotDifferentiable):
            core.autograd.backward(wanted, [core.ones_like(v) for v in wanted])
    grads = [None if t is None or t.grad is None else bare(t.grad) for t in inputs]
    return [bare(v) for v in ys] + grads


def main():
    core.cuda.init()
    cuda.table().clear()
    cuda.map = cuda.map_joint = lambda program, kind: "computes nothing here"
    warnings.simplefilter("ignore")
    seen = {"cases": 0, "wrong": {}, "fell": {}}
    for name, o in list(declarations.table.items()):
        rng = np.random.default_rng(1)
        if not isinstance(o, Operation):
            cases = [([np.ones((3, 4), bool) if n in o.bools else rng.uniform(low, high, (3, 4))
                       for n, (low, high) in zip(o.inputs, o.domain, strict=True)], {})]  # fmt: skip
        elif o.samples is None or name == "move":
            continue
        else:
            cases = o.samples(rng)
        for arrays, params in cases:
            want = both(o, arrays, params, CPU)
            seen["cases"] += 1
            fallback._refused.clear()
            try:
                got = both(o, arrays, params, CUDA)
                for a, b in zip(got, want, strict=True):
                    assert (a is None) == (b is None), "a gradient is missing"
                    if a is not None:
                        np.testing.assert_allclose(a.astype(complex), b.astype(complex), rtol=1e-6, atol=1e-8)
            except Exception as e:
                place = traceback.extract_tb(sys.exc_info()[2])[-1]
                seen["wrong"][name] = f"{type(e).__name__}: {e} at {place.filename}:{place.lineno}"
            if fallback._refused:
                seen["fell"][name] = next(iter(fallback._refused.values()))
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
