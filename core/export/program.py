"""`Program`: the ops that a function ran, which run again at other sizes and on other data.

There is one representation and several readers of it: `Program.__call__` runs it by core's ops, `str` prints it, and
`numpy`, `to_c` and `to_onnx` write it for others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import text
from ..base.modes import state as mode
from ..tensors.tensor import Tensor, from_array
from .c_writer import to_c
from .described import write_archive
from .ir import Guard, Node, Tree, Value, expanded, needed
from .onnx_writer import to_onnx
from .printing import program_text
from .running import Checked, Run
from .sizes import COMPARISONS, evaluate
from .to_numpy import write_numpy

_KEPT = 256  # shapes that are not checked anew


class Program:
    """What `core.export` gives: inputs, state (weights, buffers, constants), ops, outputs.

    Attributes
    ----------
    inputs : the values of the tensors among the arguments, in order.
    state : name -> (value, array): a snapshot, which calls of a program that writes it move on.
    nodes, outputs : the ops in order, and the values of the tensors in the result.
    updates : (value of the state or of an input, its value afterwards).
    sizes : name of a size -> (number of an input, axis).
    guards : what the sizes have to be for this to be what the function does.
    """

    def __init__(self, name: str, inputs: Sequence[Value], state: dict[str, tuple[Value, Any]], nodes: Sequence[Node],
                 outputs: Sequence[Value], updates: Sequence[tuple[Value, Value]],
                 sizes: dict[str, tuple[int, int]], guards: Sequence[Guard], arguments: Tree, result: Tree,
                 parameters: Sequence[str]) -> None:  # fmt: skip
        self.name, self.inputs, self.state, self.nodes = name, tuple(inputs), state, tuple(nodes)
        self.outputs, self.updates, self.sizes, self.guards = tuple(outputs), tuple(updates), sizes, tuple(guards)
        self.arguments, self.result, self.parameters = arguments, result, tuple(parameters)
        self._calls: dict[int, Any] = {}  # how each op is called
        self._fitting: dict[Any, dict[str, int]] = {}  # shapes that fit -> the sizes that they are
        self._trusted: set[tuple[Any, ...]] | None = None  # sizes at which the ops did what the file said

    def trust_nothing(self) -> None:
        """Hold the ops to the dtypes and shapes that they are said to give, when they first run at some sizes, and say
        of every error which op it was: for programs from files."""
        self._trusted = set()
        self._varies = any(node.blocks or _own_size(node) for node in self.nodes)  # what runs, and how large, by data

    # -- running -------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> Any:
        """Run the program by core's ops: gradients flow through it, and what it writes of its state or its inputs is
        written. *Raises* ValueError for arguments that are built otherwise, or whose sizes do not fit."""
        given = self.flat(args, lambda x: isinstance(x, Tensor))
        for value, t in zip(self.inputs, given, strict=True):
            if t.dtype.name != value.dtype:
                raise ValueError(text(f"the input {value.name} of the program {self.name} has another dtype",
                                      op="export", came=f"{t.dtype}", needed=value.dtype))  # fmt: skip
        shapes = tuple([t._a.shape for t in given])
        sizes = self._fitting.get(shapes)
        if sizes is None:
            sizes = self.sizes_of(shapes)
            if len(self._fitting) < _KEPT:
                self._fitting[shapes] = sizes
        found: dict[Value, Any] = dict(zip(self.inputs, given, strict=True))
        for value, array in self.state.values():
            found[value] = from_array(array)
        known = self._trusted is None or (at := tuple(sizes.items())) in self._trusted
        Run(found, sizes, None if known else Checked(self.name), self._calls).nodes(self.nodes)
        if not known and not self._varies:
            self._trusted.add(at)  # type: ignore[union-attr]
        results = [found[v] for v in self.outputs]
        self._write([(old, found[new]) for old, new in self.updates], found)
        return self.result.built(iter(results))

    def _write(self, updates: Sequence[tuple[Value, Tensor]], found: dict[Value, Any]) -> None:
        """Write what changed back: into the inputs that were given, and into this program's own state."""
        was, mode.enabled = mode.enabled, False
        try:
            for old, new in updates:
                if old in self.inputs:
                    found[old].copy_(new)
                else:
                    self.state[old.name] = (old, np.array(new._a, order="C"))
        finally:
            mode.enabled = was

    def sizes_of(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """Return the sizes of a run on inputs of these shapes.

        Raises
        ------
        ValueError
            For a shape that does not fit, or a size for which the function does something else than was captured.
        """
        found: dict[str, int] = {}
        for name, (k, axis) in self.sizes.items():
            if axis >= len(shapes[k]):
                raise ValueError(self._misfit(k, shapes[k]))
            found[name] = shapes[k][axis]
        for k, (value, shape) in enumerate(zip(self.inputs, shapes, strict=True)):
            if len(shape) != len(value.shape) or any(
                self._number(d, found) != n for d, n in zip(value.shape, shape, strict=True)
            ):
                raise ValueError(self._misfit(k, shape))
        for guard in self.guards:
            try:
                left, right = self._number(guard.left, found), self._number(guard.right, found)
            except KeyError:  # of a size that an op decides
                continue
            truth = COMPARISONS[guard.comparison](left, right)
            if truth != guard.truth:
                given = ", ".join(f"{n} = {v}" for n, v in found.items())
                raise ValueError(text(f"the program {self.name} was exported where {guard}", op="export",
                                      came=given, needed=f"{guard}, on which {guard.line} depends",
                                      remedy="export once more with arguments of such a size"))  # fmt: skip
        return found

    def _number(self, formula: Any, sizes: Mapping[str, int]) -> Any:
        """Return a formula's number. *Raises*: ValueError where it has none at these sizes."""
        try:
            found = evaluate(formula, sizes)
        except ArithmeticError as error:
            raise ValueError(f"the program {self.name} has no number for {formula} at {dict(sizes)}: {error}") from None
        if isinstance(found, complex):
            raise ValueError(f"the program {self.name} has no real number for {formula} at {dict(sizes)}")
        return found

    def _misfit(self, k: int, shape: Sequence[int]) -> str:
        return text(f"the input {self.inputs[k].name} of the program {self.name} has another shape", op="export",
                    came=str(tuple(shape)), needed=repr(self.inputs[k]))  # fmt: skip

    def flat(self, args: Sequence[Any], is_tensor: Callable[[Any], bool]) -> list[Any]:
        """Return the tensors among the arguments. Raise ValueError where these are built otherwise than before."""
        if len(args) != len(self.arguments.parts):
            raise ValueError(text(f"the program {self.name} takes {len(self.arguments.parts)} arguments", op="export",
                                  came=f"{len(args)}", needed=", ".join(self.parameters)))  # fmt: skip
        found = []
        for name, part, x in zip(self.parameters, self.arguments.parts, args, strict=True):
            found += part.flat(x, f"the argument {name!r} of the program {self.name}", is_tensor)
        return found

    # -- writing -------------------------------------------------------------------------------------------------------

    def numpy(self, folder: Any) -> str:
        """Write the program to a folder as `<name>.py`, which needs NumPy alone, and its state as `<name>.npz`; gives
        the path of the Python file, whose `run` takes and returns what the program does, as NumPy arrays.

        *Raises*: ExportError for what NumPy alone has not (bfloat16), with the op and its line.

        >>> import core, os, tempfile
        >>> program = core.export(core.nn.ReLU(), (core.ones(2),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.path.basename(program.numpy(folder)), sorted(os.listdir(folder))
        ('ReLU.py', ['ReLU.npz', 'ReLU.py'])
        """
        return write_numpy(self, folder)

    def save(self, path: Any) -> None:
        """Write the program with its state to one file (`.gl`), which `core.export.load` reads; a file of that name is
        replaced in one step. It is a zip archive: `program.json` the structure, `program.txt` the same for people,
        `state.safetensors` weights, buffers and constants.

        *Raises*: ExportError for a parameter of an op that no file holds; OSError where the disk is full.
        """
        write_archive(self, path)

    def to_onnx(self, path: Any) -> None:
        """Write the program as an ONNX model; `core.export.onnx_writer.to_onnx` says how."""
        to_onnx(self, path)

    def in_ops(self) -> Program:
        """Return the same program with every gradient of an op written out in ops, as files hold it."""
        if not any(node.op == "gradient" for node in _all(self.nodes)):
            return self
        found = copy.copy(self)
        found._calls = {}
        found.nodes = tuple(needed(expanded(self.nodes), [*self.outputs, *(v for _, v in self.updates)]))
        return found

    # -- looking -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return program_text(self)

    def __repr__(self) -> str:
        return f"<program {self.name}: {len(self.nodes)} ops, {len(self.state)} pieces of state>"

    def to_c(self, folder: Any, *, name: str = "model", embed: bool = False) -> None:
        """Write the program as plain C into a folder: `<name>.c`, `<name>.h`, its kernels and `weights.bin` (with
        `embed`, `<name>_weights.c`). It runs without Python at any of the sizes; `<name>.h` says how."""
        to_c(self, folder, name=name, embed=embed)

    def weight_bytes(self) -> int:
        """Return the bytes of the state."""
        return sum(np.asarray(a).nbytes for _, a in self.state.values())


def _all(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield ops and those in their blocks."""
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from _all(block.nodes)


def _own_size(node: Node) -> bool:
    return any(isinstance(d, tuple) and d[0] == "size" for v in node.outputs if v is not None for d in v.shape)
