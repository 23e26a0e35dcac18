"""What `--check` of `%%ckernel` and `%%triton` asks of an op: results and gradients, layouts, shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import core
from core.autograd import gradcheck
from core.library import CustomOp, opcheck

from .op_header import Header, Wrong

ALLOWED = {"float32": 1e-3, "float64": 1e-8}  # of a gradient beside the reference's, relative to the largest
_SIZES = (5, 3, 4, 2, 7, 6)
_Shapes = dict[str, tuple[int, ...]]


def shapes_of(header: Header) -> _Shapes:
    """Return shapes of the inputs to try: no two sizes are equal, and none is a power of two that hides a tail.

    >>> from lab.notebook.op_header import header_of
    >>> shapes_of(header_of("f(x[n], w[n,m]) -> out[m]"))
    {'x': (5,), 'w': (5, 3)}
    """
    sizes = {d: _SIZES[k % len(_SIZES)] for k, d in enumerate(header.letters)}
    return {n: (3, 5) if dims is None else tuple(sizes[d] if d in sizes else int(d) for d in dims)
            for n, dims in header.inputs.items()}  # fmt: skip


def sizes_of(header: Header, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return what the letters of a header stand for with these inputs.

    >>> from lab.notebook.op_header import header_of
    >>> sizes_of(header_of("f(x[n]) -> out[n]"), {"x": np.ones(4)})
    {'n': 4}
    """
    return {d: size for n, dims in header.inputs.items() for d, size in zip(dims or (), arrays[n].shape, strict=False)
            if not d.isdigit()}  # fmt: skip


def outputs_for(header: Header, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return unwritten outputs for inputs of these shapes, all of which are equal where the header has no sizes.

    >>> from lab.notebook.op_header import header_of
    >>> outputs_for(header_of("f(x[n,m]) -> out[m]"), {"x": np.ones((2, 3))})["out"].shape
    (3,)
    """
    first, sizes = next(iter(arrays.values())), sizes_of(header, arrays)
    shapes = {n: first.shape if dims is None else tuple(sizes[d] if d in sizes else int(d) for d in dims)
              for n, dims in header.outputs.items()}  # fmt: skip
    return {n: np.empty(shape, first.dtype) for n, shape in shapes.items()}


class Sample:
    """Inputs, what the reference makes of them, and its gradient for a gradient `g` of the output; empty without it.

    The inputs have both signs; where the reference is not finite on them they are positive.
    """

    def __init__(self, header: Header, reference: Callable[..., Any] | None, shapes: _Shapes, dtype: str) -> None:
        rng = np.random.default_rng(0)
        self.g = np.ones(())
        self.results: dict[str, np.ndarray] = {}
        self.gradients: dict[str, np.ndarray] = {}
        for draw in (rng.standard_normal, rng.random):
            self.arrays = {n: draw(shape).astype(dtype) + (draw is rng.random) * 0.1 for n, shape in shapes.items()}
            self.arrays = {n: a.astype(dtype) for n, a in self.arrays.items()}
            self.expected = self._asked(header, reference)
            if all(np.isfinite(a).all() for a in (*self.expected.values(), *self.gradients.values())):
                break
        self.results = {n: a.astype(dtype) for n, a in self.expected.items()}
        self.g = self.g.astype(dtype)

    def _asked(self, header: Header, reference: Callable[..., Any] | None) -> dict[str, np.ndarray]:
        first = next(iter(self.arrays.values()))
        self.g = np.ones(first.shape)
        if reference is None:
            return {}
        given = {n: core.tensor(a.astype(np.float64)).requires_grad_() for n, a in self.arrays.items()}
        try:
            found = reference(**given, **header.numbers)
        except Exception as error:
            raise Wrong(f"the reference of {header.name}: {type(error).__name__}: {error}") from None
        many = found if isinstance(found, tuple | list) else (found,)
        if len(many) != len(header.outputs) or not all(isinstance(t, core.Tensor) for t in many):
            raise Wrong(f"the reference of {header.name} gives {type(found).__name__}; needed: tensors for "
                        f"{', '.join(header.outputs)}, made of its arguments by core's ops")  # fmt: skip
        y = many[0]
        self.g = np.cos(np.arange(y.numel(), dtype=np.float64)).reshape(tuple(y.shape)) + 0.5
        if y.requires_grad and len(many) == 1:
            grads = core.autograd.grad(y, list(given.values()), core.tensor(self.g), allow_unused=True)
            self.gradients = {n: t.numpy() for n, t in zip(given, grads, strict=True) if t is not None}
        return {n: t.detach().numpy() for n, t in zip(header.outputs, many, strict=True)}


def in_place(op: CustomOp, header: Header, reference: Callable[..., Any] | None, shapes: _Shapes, dtypes: list[str],
             device: str = "cpu") -> str:  # fmt: skip
    """Check an op whose kernels are known to keep within their arrays; return what was found right, in words.

    *Raises*: Wrong.
    """
    done = []
    gradient = op.op.differentiable
    for dtype in dtypes:
        sample = Sample(header, reference, shapes, dtype)
        tensors = {n: core.tensor(a, device=device).requires_grad_(gradient) for n, a in sample.arrays.items()}
        y = op(**tensors)
        many = y if isinstance(y, tuple) else (y,)
        for (name, right), came in zip(sample.expected.items(), many, strict=False):
            _near(f"{header.name}: {name} on {dtype}", came.detach().cpu().numpy(), right, dtype)
        if gradient and sample.gradients:
            y.backward(core.tensor(sample.g, device=device))
            for n, right in sample.gradients.items():
                grad = tensors[n].grad
                if grad is None:
                    raise Wrong(
                        f"{header.name}: the reference has a gradient for {n}, and the cell gives none: grad_{n}"
                    )
                _near(f"{header.name}: the gradient of {n} on {dtype}", grad.cpu().numpy(), right, dtype)
        done.append(dtype)
    sample = Sample(header, reference, shapes, dtypes[-1])
    args = tuple(core.tensor(a, device=device) for a in sample.arrays.values())
    checks = ["test_schema", "test_faketensor", "test_layouts"] + ["test_precision"] * (len(dtypes) > 1)
    try:
        if core.backends.array_module(device) is np:  # `opcheck` looks at NumPy's arrays
            opcheck(op, args, test_utils=checks)
        if gradient and not sample.gradients and "float64" in dtypes:
            gradcheck(lambda *ts: op(*ts), tuple(t.requires_grad_() for t in args), eps=1e-6, atol=1e-7, rtol=1e-4)
    except Exception as error:
        raise Wrong(f"{header.name}: {str(error).strip().splitlines()[0]}") from None
    against = "its reference" if reference is not None else "nothing: a reference would say what is right"
    told = f"; checked on {' and '.join(done)} against {against}"
    if gradient:
        how = "the reference's" if sample.gradients else "differences" if "float64" in dtypes else ""
        told += (
            f", the gradient against {how}" if how else ", the gradient against nothing: needed is real, or a reference"
        )
    return told


def _near(what: str, came: np.ndarray, right: np.ndarray, dtype: str) -> None:
    if came.shape != right.shape:
        raise Wrong(f"{what} has shape {came.shape}; the reference says {right.shape}")
    gap = np.abs(came.astype(np.float64) - right)
    allowed = ALLOWED[dtype] * max(float(np.abs(right).max(initial=0.0)), 1e-6)
    if not (gap <= allowed).all():
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.nan_to_num(gap, nan=np.inf))), gap.shape))
        raise Wrong(f"{what} is {came[at]:.6g} at {at}, and {right[at]:.6g} by the reference")
