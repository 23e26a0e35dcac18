"""Running a program by core's ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..backends import pick, reference_kernel, rows
from ..base import dtypes
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..declare.op import Elementwise
from ..dispatch.elementwise import call_map, fast_path
from ..dispatch.structured import call_operation
from ..ops.creation import arange, full
from ..tensors.tensor import Tensor, from_array
from .ir import Block, ExportError, Node, Sized, Value
from .limits import complaint
from .sizes import evaluate

Call = Callable[[Mapping[Value, Any]], Any]


class Checked:
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


class Run:
    """One run of a program's ops.

    found : value -> its tensor, so far.
    sizes : name of a size -> the size.
    checked : what holds the ops to what a file says of them; None where the program was captured here.
    calls : number of an op in memory -> how it is called, which the runs of one program share.
    """

    def __init__(self, found: dict[Value, Any], sizes: Mapping[str, int], checked: Checked | None,
                 calls: dict[int, Call | None]) -> None:  # fmt: skip
        self.found, self.sizes, self.checked, self.calls = found, sizes, checked, calls

    def nodes(self, nodes: Sequence[Node]) -> None:
        """Run ops in order."""
        found, calls = self.found, self.calls
        for node in nodes:
            if self.checked is None:
                try:
                    call = calls[id(node)]
                except KeyError:
                    call = calls[id(node)] = prepared(node)
                results = self.results(node) if call is None else call(found)
            else:
                results = self._held(node, self.checked)
            if not isinstance(results, tuple):
                results = (results,)
            for value, t in zip(node.outputs, results, strict=False):
                if value is not None:
                    found[value] = t

    def block(self, block: Block, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a block and return its outputs."""
        inside = {**self.found, **dict(zip(block.inputs, inputs, strict=True))}
        Run(inside, self.sizes, self.checked, self.calls).nodes(block.nodes)
        return tuple([inside[v] for v in block.outputs])

    def _held(self, node: Node, checked: Checked) -> Any:
        """Return the results of an op of a file, after checks of what goes in and what comes out."""
        try:
            results = self.results(node)
            results = results if isinstance(results, tuple) else (results,)
            checked.results(node, results, lambda formula: evaluate(formula, self.sizes, self._size_of))
        except ExportError:
            raise
        except Exception as error:
            raise checked.failed(node, error) from error
        return results

    def _size_of(self, value: Value, axis: int) -> int:
        return int(self.found[value]._a.shape[axis])

    def _given(self, x: Any) -> Any:
        """Return what an input or a parameter is in this run."""
        if isinstance(x, Value):
            return self.found[x]
        if isinstance(x, Sized):
            return evaluate(x.formula, self.sizes, self._size_of)
        if isinstance(x, tuple):
            return tuple(self._given(v) for v in x)
        if isinstance(x, slice):
            return slice(self._given(x.start), self._given(x.stop), self._given(x.step))
        return x

    def results(self, node: Node) -> Any:
        """Return the results of one op."""
        inputs = tuple([self._given(x) for x in node.inputs])
        params = {k: self._given(v) for k, v in node.params.items()}
        if self.checked is not None and node.op != "put":
            self.checked.given(node, node.op, inputs, params)
        if node.op in _FORMS:
            return _FORMS[node.op](self, node, inputs, params)
        op = declarations.table[node.op]
        if isinstance(op, Elementwise):
            return call_map(op, inputs, tuple(params.values()))
        results = call_operation(op, inputs, params)  # type: ignore[arg-type]
        if not _hidden(node):
            return results
        kept = _all_outputs(op, inputs, params)[op.returns :]
        return (*(results if isinstance(results, tuple) else (results,)), *kept)


def prepared(node: Node) -> Call | None:
    """Return how to call an op whose parameters are the same in every run: by its fast path. None for another."""
    if node.op in _FORMS or _hidden(node) or _varies((node.inputs, tuple(node.params.values()))):
        return None
    op, inputs = declarations.table[node.op], node.inputs
    if isinstance(op, Elementwise):
        fast, numbers = fast_path(op, numbers=True), tuple(node.params.values())

        def elementwise(found: Mapping[Value, Any]) -> Any:
            args = [found[x] if type(x) is Value else x for x in inputs]
            result = fast(*args, *numbers)
            return call_map(op, tuple(args), numbers) if result is None else result

        return elementwise
    function, params = declarations.structured[node.op], node.params

    def structured(found: Mapping[Value, Any]) -> Any:
        return function(*[found[x] if type(x) is Value else x for x in inputs], **params)

    return structured


def _varies(x: Any) -> bool:
    """Return whether a number among these depends on the sizes of the run."""
    if isinstance(x, Sized):
        return True
    if isinstance(x, slice):
        return _varies((x.start, x.stop, x.step))
    return isinstance(x, tuple) and any(map(_varies, x))


def _hidden(node: Node) -> bool:
    """Return whether somebody needs an output that the op keeps for its gradient."""
    returns = declarations.table[node.op].returns
    return 0 < returns < len(node.outputs) and any(v is not None for v in node.outputs[returns:])


def _all_outputs(op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """Return all outputs of an op, also those that it keeps for its gradient; without a history."""
    arrays = tuple([None if t is None else t._a for t in inputs])
    where = next(t for t in inputs if t is not None).device
    kernel = pick(op.name, where.type, arrays, params) or reference_kernel(op, where.type)
    return tuple([from_array(np.asarray(a), where) for a in kernel.run(*arrays, **params)])


# -- forms -------------------------------------------------------------------------------------------------------------


def _if(run: Run, node: Node, inputs: Any, params: Any) -> Any:
    return run.block(node.blocks[0 if bool(inputs[0]) else 1], ())


def _while(run: Run, node: Node, inputs: Any, params: Any) -> Any:
    test, body = node.blocks
    while bool(run.block(test, inputs)[0]):
        inputs = run.block(body, inputs)
    return inputs


def _put(run: Run, node: Node, inputs: Any, params: dict[str, Any]) -> Any:
    base, values = inputs
    base = base.clone()
    place = base
    for name, step, which in params["path"]:
        if run.checked is not None:
            run.checked.given(node, name, (place,), dict(step))
        place = call_operation(declarations.table[name], (place,), dict(step))  # type: ignore[arg-type]
        place = place if which is None else place[which]
    place.copy_(values)
    return base


def _full(run: Run, node: Node, inputs: Any, params: dict[str, Any]) -> Any:
    return full(params["shape"], params["value"], dtype=getattr(dtypes, _python_name(params["dtype"])))


def _arange(run: Run, node: Node, inputs: Any, params: dict[str, Any]) -> Any:
    return arange(params["start"], params["end"], params["step"], dtype=getattr(dtypes, _python_name(params["dtype"])))


def _python_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _gradient(run: Run, node: Node, inputs: Any, params: dict[str, Any]) -> Any:
    """Run an op's gradient by a kernel of it, where one takes it and no gradient of the result is wanted."""
    tensors = [t for t in inputs if t is not None]
    if not (mode.enabled and any(t._requires_grad for t in tensors)):
        results = gradient_by_row(params, inputs, tensors[0].device)
        if results is not None:
            return results
    return run.block(node.blocks[0], ())


def prepared_gradient(node: Node) -> Call:
    """Return how to call an op's gradient where no gradient of its result is wanted."""
    inputs, params = node.inputs, node.params

    def gradient(found: Mapping[Value, Any]) -> Any:
        tensors = [found[x] if type(x) is Value else x for x in inputs]
        results = gradient_by_row(params, tensors, next(t for t in tensors if t is not None).device)
        return Run(dict(found), {}, None, {}).block(node.blocks[0], ()) if results is None else results

    return gradient


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
