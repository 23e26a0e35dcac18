"""`Program`: the ops that a function ran, which run again at other sizes and on other data.

There is one representation and several readers of it: `Program.__call__` runs it by core's ops, `str` prints it, and
`numpy`, `to_c` and `to_onnx` write it for others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..backends import pick, reference_kernel, rows
from ..base import dtypes
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..declare.op import Elementwise
from ..dispatch.elementwise import call_map
from ..dispatch.structured import call_operation
from ..ops.creation import arange, full
from ..tensors.tensor import Tensor, from_array
from .c_writer import to_c
from .described import write_archive
from .ir import Block, ExportError, Guard, Node, Sized, Tree, Value, expanded, needed
from .limits import complaint
from .onnx_writer import to_onnx
from .printing import program_text
from .sizes import COMPARISONS, evaluate
from .to_numpy import write_numpy


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
        sizes = self.sizes_of([tuple(t._a.shape) for t in given])
        found: dict[Value, Any] = dict(zip(self.inputs, given, strict=True))
        for value, array in self.state.values():
            found[value] = from_array(array)
        if self._trusted is None or (at := tuple(sizes.items())) in self._trusted:
            _run(self.nodes, found, sizes)
        else:
            _run(self.nodes, found, sizes, _Checked(self.name))
            if not self._varies:
                self._trusted.add(at)
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


class _Checked:
    """Holds the ops of a program from a file to what the file says of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def given(self, node: Node, name: str, inputs: Sequence[Any], params: dict[str, Any]) -> None:
        """Raise ExportError for numbers that an op's kernels must not get."""
        wrong = complaint(name, [tuple(t._a.shape) if isinstance(t, Tensor) else None for t in inputs], params)
        if wrong is not None:
            raise self.failed(node, ValueError(f"{name} has {wrong}"))

    def failed(self, node: Node, error: Exception) -> ExportError:
        """Return the error for an op that could not run."""
        where = f"; {node.line}" if node.line else ""
        return ExportError(text(f"the op {node.op} of the program {self.name} cannot run", op=node.op,
                                came=f"{type(error).__name__}: {str(error)[:500]}",
                                needed=f"a program as Program.save wrote it{where}"))  # fmt: skip

    def results(self, node: Node, results: Sequence[Any], number: Callable[[Any], Any]) -> None:
        """Raise ExportError for a result that is not of the dtype and shape that the file says."""
        if len(results) < len(node.outputs):
            raise ExportError(text(f"the op {node.op} of the program {self.name} gives {len(results)} results",
                                   op=node.op, needed=str(len(node.outputs))))  # fmt: skip
        for value, t in zip(node.outputs, results, strict=False):
            if value is None:
                continue
            own = [isinstance(d, tuple) and d[0] == "size" and d[1] is value for d in value.shape]
            shape = tuple(t._a.shape)
            fits = t.dtype.name == value.dtype and len(shape) == len(own)
            fits = fits and all(x or number(d) == n for x, d, n in zip(own, value.shape, shape, strict=True))
            if not fits:
                raise ExportError(text(f"the op {node.op} of the program {self.name} gives something else than the "
                                       "file says", op=node.op, came=f"{t.dtype} of shape {shape}",
                                       needed=repr(value)))  # fmt: skip


def _run(nodes: Sequence[Node], found: dict[Value, Any], sizes: Mapping[str, int],
         checked: _Checked | None = None) -> None:  # fmt: skip
    """Run ops in order; `found` has the tensors of the values so far, and gets those of the ops."""

    def size_of(value: Value, axis: int) -> int:
        return int(found[value]._a.shape[axis])

    def given(x: Any) -> Any:
        if isinstance(x, Value):
            return found[x]
        if isinstance(x, Sized):
            return evaluate(x.formula, sizes, size_of)
        if isinstance(x, tuple):
            return tuple(given(v) for v in x)
        if isinstance(x, slice):
            return slice(given(x.start), given(x.stop), given(x.step))
        return x

    for node in nodes:
        if checked is None:
            results = _ran(node, given, found, sizes, None)
        else:
            try:
                results = _ran(node, given, found, sizes, checked)
                checked.results(node, results, lambda formula: evaluate(formula, sizes, size_of))
            except ExportError:
                raise
            except Exception as error:
                raise checked.failed(node, error) from error
        found.update((v, t) for v, t in zip(node.outputs, results, strict=False) if v is not None)


def _ran(node: Node, given: Callable[[Any], Any], found: dict[Value, Any], sizes: Mapping[str, int],
         checked: _Checked | None) -> tuple[Any, ...]:  # fmt: skip
    """Return the results of one op."""
    inputs = tuple([given(x) for x in node.inputs])
    params = {k: given(v) for k, v in node.params.items()}
    if checked is not None and node.op != "put":
        checked.given(node, node.op, inputs, params)
    if node.op in _FORMS:
        results = _FORMS[node.op](node, inputs, params, found, sizes, checked)
    else:
        op = declarations.table[node.op]
        if isinstance(op, Elementwise):
            results = call_map(op, inputs, tuple(params.values()))
        elif 0 < op.returns < len(node.outputs) and any(v is not None for v in node.outputs[op.returns :]):
            results = _with_hidden(op, inputs, params)
            if mode.enabled and any(t is not None and t._requires_grad for t in inputs):
                shown = call_operation(op, inputs, params)  # type: ignore[arg-type]
                results = (*(shown if isinstance(shown, tuple) else (shown,)), *results[op.returns :])
        else:
            results = call_operation(op, inputs, params)  # type: ignore[arg-type]
    return results if isinstance(results, tuple) else (results,)


def _with_hidden(op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """Return all outputs of an op, also those that it keeps for its gradient; without a history."""
    arrays = tuple([None if t is None else t._a for t in inputs])
    where = next(t for t in inputs if t is not None).device
    kernel = pick(op.name, where.type, arrays, params) or reference_kernel(op, where.type)
    return tuple([from_array(np.asarray(a), where) for a in kernel.run(*arrays, **params)])


def _block(block: Block, inputs: Sequence[Any], found: dict[Value, Any], sizes: Mapping[str, int],
           checked: _Checked | None) -> tuple[Any, ...]:  # fmt: skip
    inside = {**found, **dict(zip(block.inputs, inputs, strict=True))}
    _run(block.nodes, inside, sizes, checked)
    return tuple([inside[v] for v in block.outputs])


def _if(node: Node, inputs: Any, params: Any, found: Any, sizes: Any, checked: Any) -> Any:
    return _block(node.blocks[0 if bool(inputs[0]) else 1], (), found, sizes, checked)


def _while(node: Node, inputs: Any, params: Any, found: Any, sizes: Any, checked: Any) -> Any:
    test, body = node.blocks
    while bool(_block(test, inputs, found, sizes, checked)[0]):
        inputs = _block(body, inputs, found, sizes, checked)
    return inputs


def _put(node: Node, inputs: Any, params: dict[str, Any], found: Any, sizes: Any, checked: Any) -> Any:
    base, values = inputs
    base = base.clone()
    place = base
    for name, step, which in params["path"]:
        if checked is not None:
            checked.given(node, name, (place,), dict(step))
        place = call_operation(declarations.table[name], (place,), dict(step))  # type: ignore[arg-type]
        place = place if which is None else place[which]
    place.copy_(values)
    return base


def _full(node: Node, inputs: Any, params: dict[str, Any], found: Any, sizes: Any, checked: Any) -> Any:
    return full(params["shape"], params["value"], dtype=getattr(dtypes, _python_name(params["dtype"])))


def _arange(node: Node, inputs: Any, params: dict[str, Any], found: Any, sizes: Any, checked: Any) -> Any:
    return arange(params["start"], params["end"], params["step"], dtype=getattr(dtypes, _python_name(params["dtype"])))


def _python_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _gradient(node: Node, inputs: Any, params: dict[str, Any], found: Any, sizes: Any, checked: Any) -> Any:
    """Run an op's gradient by a kernel of it, where one takes it and no gradient of the result is wanted."""
    tensors = [t for t in inputs if t is not None]
    if not (mode.enabled and any(t._requires_grad for t in tensors)):
        results = gradient_by_row(params, inputs, tensors[0].device)
        if results is not None:
            return results
    return _block(node.blocks[0], (), found, sizes, checked)


def gradient_by_row(params: dict[str, Any], inputs: Sequence[Any], device: Any) -> tuple[Any, ...] | None:
    """Return the gradients that a backend's row gives; None where none takes these tensors."""
    arrays = iter([None if t is None else t._a for t in inputs])
    args = dict(params["plain"])
    args |= {name: next(arrays) if n is None else tuple(islice(arrays, n)) for name, n in params["given"]}
    for row in rows(f"{params['of']}.backward", device.type):
        if row.declines(**args) is None:
            found = row.run(**args)
            found = found if isinstance(found, tuple) else (found,)
            made = [found[i] for i in params["wanted"]]
            return None if any(a is None for a in made) else tuple([from_array(np.asarray(a), device) for a in made])
    return None


_FORMS = {"full": _full, "arange": _arange, "put": _put, "if": _if, "while": _while, "gradient": _gradient}
