"""A program as a model that requests are asked of: what it takes, whether rows may share a run, and the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import core
from core.export.sizes import evaluate, leaves
from core.tensors.tensor import Tensor, from_array

from .limits import Limits
from .refusal import Refused
from .tensors import DATATYPES

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_TRIED = (4, 8, 3, 16, 2, 1, 32, 64, 128)
"""Sizes to try a program at, besides the one that rows are stacked along."""
_KNOWN = 1024
"""Sizes whose checks are remembered."""


class Asked(NamedTuple):
    """The tensors of one request, checked: `rows` of the stacked size, and what has to agree to share a run."""

    arrays: list[np.ndarray]
    rows: int
    others: tuple[Any, ...]


class Served:
    """A program under a name.

    It is read-only: a program that moves its own state on is refused, since what one client asks would change what the
    next one gets.

    `stacked` is the name of the size that requests are stacked along, or None; `why` says what decided.
    """

    def __init__(self, name: str, program: Any, limits: Limits | None = None) -> None:
        self.name, self.program, self.limits = name, program, limits or Limits()
        if not _NAME.fullmatch(name):
            raise ValueError(f"a model's name stands in addresses: letters, digits, _ . - only; came: {name!r:.80}")
        moved = [old.name for old, _ in program.updates if old not in program.inputs]
        if moved:
            raise ValueError(
                f"the program {name} moves its own state on ({', '.join(moved[:3])}), and a served one is read-only: "
                "one request would change the answers to the next. Remedy: model.eval() before core.export"
            )
        for value in (*program.inputs, *program.outputs):
            if value.dtype not in DATATYPES:
                raise ValueError(f"the program {name} has the tensor {value!r}, and the protocol knows no "
                                 f"{value.dtype}. Remedy: return its real and imaginary parts")  # fmt: skip
        self.inputs = {value.name: k for k, value in enumerate(program.inputs)}
        self.output_names = _distinct([value.name for value in program.outputs])
        self._largest: dict[tuple[int, ...], int] = {}
        self.stacked, self.why = self._how_to_stack()

    # -- what it is ----------------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the model's metadata, as the protocol wants it."""

        def tensors(values: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
            return [{"name": name, "datatype": DATATYPES[v.dtype][0],
                     "shape": [d if isinstance(d, int) else -1 for d in v.shape]}
                    for name, v in zip(names, values, strict=True)]  # fmt: skip

        return {
            "name": self.name, "versions": [], "platform": "gradlab",
            "inputs": tensors(self.program.inputs, list(self.inputs)),
            "outputs": tensors(self.program.outputs, self.output_names),
            "parameters": {"batching": self.why},
        }  # fmt: skip

    # -- requests ------------------------------------------------------------------------------------------------------

    def asked(self, arrays: list[np.ndarray]) -> Asked:
        """Return a request whose tensors have the sizes that the program takes. *Raises*: Refused."""
        sizes = self._sizes([a.shape for a in arrays])
        if self._largest_value(sizes) > self.limits.made:
            raise Refused(413, "too large", f"at these sizes ({_said(sizes)}) the model makes a tensor of "
                                            f"{self._largest_value(sizes):,} elements; needed: at most "
                                            f"{self.limits.made:,}")  # fmt: skip
        rows = 1 if self.stacked is None else sizes.pop(self.stacked)
        return Asked(arrays, rows, tuple(sizes.values()))

    def _sizes(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        try:
            return dict(self.program.sizes_of(shapes))
        except ValueError as error:
            raise Refused(400, "shape", str(error)) from None

    def _largest_value(self, sizes: dict[str, int]) -> int:
        """Return the elements of the largest value at these sizes, of those whose sizes are formulas of them."""
        key = tuple(sizes.values())
        if key not in self._largest:
            if len(self._largest) >= _KNOWN:
                self._largest.clear()
            self._largest[key] = _largest(self.program.nodes, sizes)
        return self._largest[key]

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the program's outputs. *Raises*: Refused with what the program raised."""
        arguments = self.program.arguments.built(iter([from_array(a) for a in arrays]))
        try:
            with core.no_grad():
                result = self.program(*arguments)
        except (ValueError, IndexError, RuntimeError, ZeroDivisionError) as error:
            # the program is the same for everyone and ran before: what it cannot do is in the data
            raise Refused(400, "data", f"{type(error).__name__}: {error}") from None
        found = self.program.result.flat(result, "the result", lambda x: isinstance(x, Tensor))
        return [np.asarray(t._a) for t in found]

    def run_together(self, requests: Sequence[Asked]) -> list[list[np.ndarray]] | None:
        """Return the outputs of requests that share a run, or None where the program takes them only apart."""
        arrays = [np.concatenate(parts) for parts in zip(*(r.arrays for r in requests), strict=True)]
        try:
            sizes = self._sizes([a.shape for a in arrays])
            if self._largest_value(sizes) > self.limits.made:
                return None
            found = self.run(arrays)
        except Refused:  # a guard of the sum of the rows, or one request's data: each for itself
            return None
        ends = np.cumsum([r.rows for r in requests])
        return [[y[end - r.rows : end] for y in found] for r, end in zip(requests, ends, strict=True)]

    # -- stacking ------------------------------------------------------------------------------------------------------

    def _how_to_stack(self) -> tuple[str | None, str]:
        """Return the size to stack requests along, and the reason in words.

        That rows do not see one another is tried, not believed: on random rows, together and apart.
        """
        program = self.program
        if not program.sizes:
            return None, "off: no size of the program is named (dynamic=...)"
        name = next(iter(program.sizes))
        for value in (*program.inputs, *program.outputs):
            if not value.shape or value.shape[0] != name or any(name in leaves(d) for d in value.shape[1:]):
                return None, f"off: {value!r} does not have {name} as its first size alone"
        if any(node.blocks for node in program.nodes):
            return None, "off: a condition or a loop may look at all rows"
        other = [n for n in program.sizes if n != name]
        problem = "no sizes were found at which it runs"
        for size in _TRIED:
            rng = np.random.default_rng(0)
            try:
                parts = [self._random(rng, {name: rows, **dict.fromkeys(other, size)}) for rows in (2, 3)]
                apart = [self.run([a.copy() for a in part]) for part in parts]
                both = self.run([np.concatenate(pair) for pair in zip(*parts, strict=True)])
            except Refused as error:
                problem = error.message
                continue
            for k, y in enumerate(both):
                wanted = np.concatenate([part[k] for part in apart])
                if y.shape != wanted.shape or not _alike(y, wanted):
                    return None, f"off: rows of {self.output_names[k]} depend on one another (tried on random rows)"
            return name, f"along {name}"
        return None, f"off: it could not be tried on random rows ({problem.splitlines()[0]})"

    def _random(self, rng: np.random.Generator, sizes: dict[str, int]) -> list[np.ndarray]:
        """Return random inputs at these sizes. *Raises*: Refused where the program does not take them."""
        out = []
        for value in self.program.inputs:
            shape = tuple(evaluate(d, sizes) for d in value.shape)
            numpy_type = DATATYPES[value.dtype][1]
            if value.dtype == "bool" or "int" in value.dtype:
                out.append(rng.integers(0, 2, shape).astype(numpy_type))  # indices of whatever table
            else:
                out.append(rng.uniform(0.1, 0.9, shape).astype(numpy_type))  # where logarithms and roots are finite
        self._sizes([a.shape for a in out])
        return out


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, a second one of the same numbered.

    >>> _distinct(["y", "y", "z"])
    ['y', 'y_1', 'z']
    """
    out: list[str] = []
    for name in names:
        fresh, k = name, 0
        while fresh in out:
            k += 1
            fresh = f"{name}_{k}"
        out.append(fresh)
    return out


def _largest(nodes: Sequence[Any], sizes: dict[str, int]) -> int:
    found = 0
    for node in nodes:
        for value in node.outputs:
            if value is None:
                continue
            try:
                elements = 1
                for d in value.shape:
                    elements *= int(evaluate(d, sizes))
            except (KeyError, ZeroDivisionError):  # a size that an op decides
                continue
            found = max(found, elements)
        for block in node.blocks:
            found = max(found, _largest(block.nodes, sizes))
    return found


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    tolerance = max(1e-4, 8.0 * {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(a.dtype.name, 0.0))
    a, b = a.astype(np.float64), b.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    scale = float(np.abs(b).max(initial=0.0))
    return bool(np.abs(a - b).max(initial=0.0) <= tolerance * scale + 1e-30)


def _said(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())
