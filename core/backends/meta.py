"""The device `meta`: tensors with a shape and a dtype and no memory, on which ops give the shapes of their results.

>>> import core
>>> x = core.empty(10_000, 10_000, device="meta")
>>> (x @ x).softmax(-1).sum(0).shape
core.Size([10000])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..base.device import Kind
from ..base.device import device as Device
from ..base.device import kind as kind_of
from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..declare.expr import Joint, Program
from ..declare.op import Operation
from . import DeviceBackend, Kernel, Row, add
from .meta_array import NoData, as_meta, made, no_data
from .meta_library import library
from .reference import numpy_backend


class Shapes:
    """The one backend of `meta`: an elementwise op broadcasts, and any other op is its own text on arrays of shapes."""

    name, xp = "shapes", library

    def map(self, program: Program, kind: Kind) -> Kernel:
        dtype = np.dtype(bool) if program.is_bool else kind.dtype.numpy
        n = len(program.inputs)
        wrong = _refused(program, kind)

        def run(*args: Any) -> Any:
            if wrong is not None:
                raise wrong
            return made(broadcast_shapes(*[getattr(a, "shape", ()) for a in args[:n]], op=program.name), dtype)

        return Kernel(run, f"{program.name}_shape", self.name)

    def map_joint(self, joint: Joint, kind: Kind) -> None:
        """Return nothing: each gradient is asked for alone."""

    def operation(self, op: Operation) -> Kernel:
        def run(*arrays: Any, **params: Any) -> Any:
            try:
                found = op.forward(library, *map(as_meta, arrays), **params)
            except NoData as error:
                if op.rule is not None and op.returns == 1:
                    return made(_by_rule(op, arrays), next(a.dtype for a in arrays if a is not None))
                if op.name in str(error):
                    raise
                raise no_data(op.label) from error
            return as_meta(found)

        return Kernel(run, f"{op.name}_shape", self.name)

    def rows(self, name: str) -> tuple[Row, ...]:
        return ()

    def absent(self, name: str) -> str:
        return "nothing is computed"


def _refused(program: Program, kind: Kind) -> Exception | None:
    """Return the error of the op's own text for that dtype, where it has one."""
    more = [1.0] * len(program.params)
    try:
        numpy_backend.map(program, kind_of(kind.dtype)).run(
            *[np.ones(1, kind.dtype.numpy)] * len(program.inputs), *more
        )
    except (TypeError, ValueError) as error:
        return error
    return None


def _by_rule(op: Operation, arrays: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of an op's result by the rule of its declaration."""
    assert op.rule is not None
    shapes = [None if a is None else a.shape for a in arrays]
    sizes = op.rule.check(op.label, op.inputs, shapes)
    pairs = zip(shapes, op.rule.inputs, strict=False)
    lead = broadcast_shapes(*[s[: len(s) - len(dims)] for s, dims in pairs if s is not None], op=op.label)
    return (*lead, *[int(d) if d.isdigit() else sizes[d] for d in op.rule.outputs[0]])


class _Numbers:
    """Draws nothing: whatever an engine of random numbers is asked for is an array without values."""

    kind, seed = "philox", 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        dtype = np.float64 if name.endswith("64") else np.float32
        return lambda xp, n=1, *more: made(n.shape, bool) if hasattr(n, "shape") else made(n, dtype)


_numbers = _Numbers()


class _Meta(DeviceBackend):
    """What is nowhere."""

    def allocated(self, where: Device, make: Callable[[Any], Any]) -> Any:
        return as_meta(make(library))

    def drawing(self, engine: Any) -> Any:
        return _numbers

    def read(self, fetch: Callable[[], Any]) -> NoReturn:
        raise no_data()

    def copied(self, x: Any, to: Device, origin: Device, non_blocking: bool) -> Any:
        if origin.type == "meta" and to.type != "meta":
            raise NotImplementedError(
                text("Cannot copy out of meta tensor; no data!", op="to", came=f"a meta tensor of shape {x.shape}",
                     needed="values", remedy="module.to_empty(device=...) in place of module.to(...), then "
                     "load_state_dict; or load_state_dict(..., assign=True)")
            )  # fmt: skip
        return made(x.shape, x.dtype)


add(_Meta("meta", lambda: (Shapes(),)))
