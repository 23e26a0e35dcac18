"""How an op is written in NumPy: elementwise ops by their expressions, the commonest others by a short text of their
own, and all that remain by their reference, copied."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import special
from ..backends.reference import _wrapped, compiled
from ..base import dtypes
from ..base.device import cpu, kind
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..declare import op as declarations
from ..declare.expr import PRIMITIVES, divisors, numpy_statements, python_operand
from ..declare.op import Elementwise, Operation
from .copied import Copies
from .ir import ExportError, Node, Sized, Value

_NONZERO = '''
def {name}(x):
    """`x`, by which integers are divided."""
    if not np.all(x):
        raise ZeroDivisionError("an integer is divided by 0")
    return x
'''


_ACTIVATED = {"int8_linear", "int8_conv2d"}
"""Ops with an activation, which the file has as an op of its own."""


class Calls:
    """Writes the ops of one file."""

    def __init__(self, copies: Copies, said: Callable[[Any], str]) -> None:
        self.copies, self.said = copies, said

    def lines(self, node: Node) -> list[str]:
        """Return the assignments of an op."""
        for value in (*node.inputs, *node.outputs):
            if isinstance(value, Value) and value.dtype == "bfloat16":
                raise ExportError(text(f"NumPy alone has no bfloat16, which {node.op} has here", op=node.op,
                                       remedy="model.float(), or program.save"))  # fmt: skip
        if node.op in _FORMS:
            return _FORMS[node.op](self, node)
        op = declarations.table.get(node.op)
        if isinstance(op, Elementwise):
            return [f"{self._to(node)} = {self.elementwise(op, node)}"]
        if not isinstance(op, Operation):
            raise ExportError(text(f"there is no op {node.op}", op="export"))
        line = f"{self._to(node, op)} = {self._structured(op, node)}"
        name = node.params.get("activation")
        if not name or op.name not in _ACTIVATED:
            return [line]
        after: Any = declarations.table[{"gelu": "gelu_erf"}.get(name, name)]
        activated = Node(after.name, node.outputs, {}, node.outputs, node.line)
        return [line, f"{self._to(activated)} = {self.elementwise(after, activated)}"]

    def _to(self, node: Node, op: Operation | None = None) -> str:
        names = ["_" if v is None else self.said(v) for v in node.outputs]
        if op is None or (op.returns == 1 and len(names) == 1):
            return names[0]
        if op.returns and (len(op.outputs) > len(names) or names[-1] == "_"):
            while names[-1] == "_":
                names.pop()
            names.append("*_")
        return f"{', '.join(names)}{',' if len(names) == 1 else ''}"

    # -- elementwise ops -----------------------------------------------------------------------------------------------

    def elementwise(self, op: Elementwise, node: Node) -> str:
        """Return the expression of an elementwise op, or the call of a function that has its statements."""
        program = op.program
        dtype = _computed_in(op, node.inputs)
        inside = dtypes.float32 if dtype is dtypes.float16 else dtype
        given = [self._operand(op, k, x, dtype, inside) for k, x in enumerate(node.inputs)]
        for k in divisors(program) if dtype.category == 1 else ():
            checked = self.copies.own(_NONZERO, "nonzero_divisor", lambda name: _NONZERO.format(name=name))
            given[k] = f"{checked}({given[k]})"
        params = {name: self.said(node.params.get(name, default)) for name, default in op.params.items()}
        wanted = dtypes.bool_ if program.is_bool else dtype
        said = self._expression(op, given, params)
        if (
            not all(isinstance(x, Value) and x.dtype == inside.name for x in node.inputs)
            or dtype.category != 2
            or (len(program.statements) != 1)
        ):
            said = _shaped(op, node, said, given, inside, wanted)
        return f"{_bracketed(said)}.astype(np.float16)" if inside is not dtype and not program.is_bool else _bare(said)

    def _operand(self, op: Elementwise, k: int, x: Any, dtype: Dtype, inside: Dtype) -> str:
        said = self.said(x)
        if op.inputs[k] in op.bools:
            if not isinstance(x, Value):
                return repr(bool(x))
            return said if x.dtype == "bool" else f"({said} != 0)"
        if isinstance(x, Value):
            return said if x.dtype == inside.name else f"{said}.astype({_numpy(inside)})"
        if isinstance(x, Sized):
            return said if said.replace("_", "").isalnum() else f"({said})"
        if type(x) is bool:
            x = int(x)
        if isinstance(x, int) and not op.program.is_bool:
            x = _wrapped(x, kind(dtype, cpu))
        said = self.copies.literal(x)
        return f"({said})" if said[0] == "-" else said

    def _expression(self, op: Elementwise, given: list[str], params: dict[str, str]) -> str:
        program = op.program
        for st in program.statements:
            if st.op in ("erf", "erfc"):
                getattr(self.copies, st.op)()
        known = {**dict(zip(program.inputs, given, strict=True)), **params}
        if not program.statements:
            return known.get(program.result, python_operand(program.result, "np."))
        if len(program.statements) == 1:
            st = program.statements[0]
            operands = [known.get(o, o) if isinstance(o, str) else python_operand(o, "np.") for o in st.operands]
            return self._named(PRIMITIVES[st.op][1].format(*operands))
        lines = [self._named(line).partition(" = ") for line in numpy_statements(program.statements)]
        last = lines.pop()

        def body(name: str) -> str:
            doc = op.doc.splitlines()[0] if op.doc else ""
            written = [f"def {name}({', '.join((*program.inputs, *program.params))}):"]
            written += [f'    """{doc}"""'] if doc and not set(doc) & set('"\\') else []
            written += [f"    {to} = {_bare(right)}" for to, _, right in lines]
            return "\n".join([*written, f"    return {_bare(last[2])}"])

        name = self.copies.own(op, op.name if op.name not in _BUILTINS else f"{op.name}_of", body)
        return f"{name}({', '.join([*given, *(f'{k}={v}' for k, v in params.items())])})"

    def _named(self, said: str) -> str:
        said = re.sub(r"xp\.true_divide\(([^\s(),]+), ([^\s(),]+)\)", r"(\1 / \2)", said).replace("xp.", "np.")
        for name in ("erfc", "erf"):
            if f"special.{name}(" in said:
                said = said.replace(f"special.{name}(", f"{getattr(self.copies, name)()}(")
        return said

    # -- structured ops ------------------------------------------------------------------------------------------------

    def _structured(self, op: Operation, node: Node) -> str:
        params = {**op.params, **node.params}
        inputs = [self.said(x) for x in node.inputs]
        if op.name in _SHORT and (said := _SHORT[op.name](self, node, inputs, params)) is not None:
            return said
        if op.name in ("dropout", "attention") and params.get("p"):
            raise ExportError(text(f"{op.name} draws random numbers", op=op.name, came=f"p={params['p']}",
                                   remedy="export it in model.eval()"))  # fmt: skip
        if not op.variadic:
            names = [*op.inputs]
            given = dict(zip(names, inputs, strict=False)) | dict.fromkeys(names[len(inputs) :], "None")
            given |= {k: self.said(v) for k, v in params.items()}
            said = self.copies.inlined(op, _bracketed_all(given))
            if said is not None:
                return self._first(op, node, said)
        name, left_out = self.copies.operation(op)
        given_params = [f"{k}={self.said(v)}" for k, v in params.items() if k not in left_out]
        return self._first(op, node, f"{name}({', '.join([*inputs, *given_params])})")

    def _first(self, op: Operation, node: Node, said: str) -> str:
        """Return the call with the one result that is wanted of it, where its text keeps others for the gradient."""
        alone = op.returns == 1 and len(op.outputs) > 1 and len(node.outputs) < 2
        return f"{said}[0]" if alone else said


_BUILTINS = {"abs", "all", "any", "max", "min", "pow", "round", "sum", "slice", "complex", "sorted", "range"}


def _bracketed_all(given: dict[str, str]) -> dict[str, str]:
    return {k: f"({v})" if any(c in v for c in "+-*/% ") and v[0] not in "([\"'" else v for k, v in given.items()}


def _bracketed(said: str) -> str:
    return said if said.startswith("np.") and said.endswith(")") else f"({_bare(said)})"


def _bare(said: str) -> str:
    """Return an expression without brackets around the whole of it."""
    if not said.startswith("(") or not said.endswith(")"):
        return said
    depth = 0
    for k, c in enumerate(said):
        depth += (c == "(") - (c == ")")
        if not depth and k < len(said) - 1:
            return said
    return said[1:-1]


def _numpy(d: Any) -> str:
    name = d.name if isinstance(d, Dtype) else str(d)
    return "bool" if name == "bool" else f"np.{name}"


def _computed_in(op: Elementwise, inputs: tuple[Any, ...]) -> Dtype:
    """Return the dtype in which an op computes these operands, by PyTorch's rules."""
    given = [x for name, x in zip(op.inputs, inputs, strict=True) if name not in op.bools]
    dimmed = [dtypes.named(x.dtype) for x in given if isinstance(x, Value) and x.shape]
    zero = [dtypes.named(x.dtype) for x in given if isinstance(x, Value) and not x.shape]
    numbers = [dtypes.of_number(x) for x in given if not isinstance(x, Value | Sized)]
    numbers += [_of_sized(x) for x in given if isinstance(x, Sized)]
    found = dtypes.result_type(dimmed, zero, numbers) if given else dtypes.bool_
    if op.out == "float" and found.category < 2:
        return dtypes.get_default_dtype()
    return dtypes.int64 if op.out == "number" and found.category == 0 else found


def _of_sized(x: Sized) -> Dtype:
    def real(formula: Any) -> bool:
        if not isinstance(formula, tuple):
            return isinstance(formula, float)
        if formula[0] == "size":
            return False
        return formula[0] == "/" or any(real(part) for part in formula[1:]) or (
            formula[0] == "**" and isinstance(formula[2], int) and formula[2] < 0
        )  # fmt: skip

    return dtypes.get_default_dtype() if real(x.formula) else dtypes.int64


def _shaped(op: Elementwise, node: Node, said: str, given: list[str], inside: Dtype, wanted: Dtype) -> str:
    """Return an expression with what it needs to have the shape and the dtype of the op's result: both are tried."""
    program = op.program
    values = [k for k, x in enumerate(node.inputs) if isinstance(x, Value)]
    arrays: list[Any] = []
    for k, x in enumerate(node.inputs):
        if k in values:
            shape = tuple(2 if k == v else 1 for v in values)
            arrays.append(np.ones(shape, bool if op.inputs[k] in op.bools else inside.numpy))
        else:
            arrays.append(bool(x) if op.inputs[k] in op.bools else 1.5 if _of_number(x).category == 2 else 1)
    params = [1.0 if isinstance(v, float) else 1 for v in op.params.values()]
    with np.errstate(all="ignore"):
        found = np.asarray(compiled(program)(np, special, *arrays, *params))
    target = dtypes.bool_ if wanted is dtypes.bool_ else inside
    if found.shape != (2,) * len(values):
        shapes = ", ".join(f"np.shape({given[k]})" for k in values)
        said = f"np.broadcast_to({_bare(said)}, np.broadcast_shapes({shapes}))"
    if found.dtype != target.numpy:
        said = f"np.asarray({_bare(said)}, {_numpy(target)})"
    return said


def _of_number(x: Any) -> Dtype:
    return _of_sized(x) if isinstance(x, Sized) else dtypes.of_number(x)


# -- what is no op, and short texts ------------------------------------------------------------------------------------


def _full(calls: Calls, node: Node) -> list[str]:
    p = node.params
    dtype = dtypes.named(p["dtype"])
    value = p["value"]
    if isinstance(value, int) and not isinstance(value, bool):
        value = _wrapped(value, kind(dtype, cpu))
    return [f"{calls.said(node.outputs[0])} = np.full({calls.said(p['shape'])}, {calls.said(value)}, {_numpy(dtype)})"]


def _arange(calls: Calls, node: Node) -> list[str]:
    start, end, step = (node.params[k] for k in ("start", "end", "step"))
    to, dtype = calls.said(node.outputs[0]), _numpy(dtypes.named(node.params["dtype"]))
    if all(_of_number(x).category == 1 for x in (start, end, step)):
        given = [end] if start == 0 and step == 1 else [start, end] if step == 1 else [start, end, step]
        return [f"{to} = np.arange({', '.join(map(calls.said, given))}, dtype={dtype})"]
    said = [calls.said(x) for x in (start, end, step)]
    count = f"max(0, int(np.ceil(({said[1]} - {said[0]}) / {said[2]})))"
    return [f"{to} = ({said[0]} + np.arange({count}) * {said[2]}).astype({dtype})"]


def _put(calls: Calls, node: Node) -> list[str]:
    """A copy, and an assignment to the view of it to which the path leads."""
    base, values = (calls.said(x) for x in node.inputs)
    to = calls.said(node.outputs[0])
    lines, place = [f"{to} = {base}.copy()"], to
    for name, params, which in node.params["path"]:
        op = declarations.table[name]
        found = Value("place", node.outputs[0].dtype if node.outputs[0] else "float32", ())
        step = Node(name, (found,), dict(params), (), None)
        said = Calls(calls.copies, lambda x, place=place, found=found: place if x is found else calls.said(x))  # type: ignore[misc]
        place = said._structured(op, step)  # type: ignore[arg-type]
        place = place if which is None else f"{place}[{which}]"
    if not place.endswith("]"):
        return [*lines, f"{place}[...] = {values}"]
    return [*lines, f"{place} = {values}" if "(" not in place else f"{place}[...] = {values}"]


_FORMS = {"full": _full, "arange": _arange, "put": _put}


def _key(calls: Calls, x: Any) -> str:
    """Return what stands between square brackets."""
    if isinstance(x, tuple):
        return ", ".join(_key(calls, part) for part in x) + ("," if len(x) == 1 and isinstance(x[0], tuple) else "")
    if isinstance(x, slice):
        parts = ["" if v is None else calls.said(v) for v in (x.start, x.stop)]
        return ":".join(parts) + ("" if x.step is None else f":{calls.said(x.step)}")
    return calls.said(x)


def _index(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str | None:
    return f"{given[0]}[{_key(calls, params['key'])}]" if params["key"] != () else f"{given[0]}[...]"


def _is_float(node: Node) -> bool:
    return all(x.dtype in ("float32", "float64") for x in node.inputs if isinstance(x, Value))


def _product(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str | None:
    return f"{given[0]} @ {given[1]}" if _is_float(node) else None


def _linear(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str | None:
    if not _is_float(node):
        return None
    return f"{given[0]} @ {given[1]}.T" + (f" + {given[2]}" if len(given) > 2 and given[2] != "None" else "")


def _reduction(method: str) -> Callable[..., str | None]:
    def said(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str | None:
        if not _is_float(node):
            return None
        keep = ", keepdims=True" if params["keepdim"] is True else ""
        dim = params["dim"]
        axis = calls.said(dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim)
        return f"{given[0]}.{method}(axis={axis}{keep})"

    return said


def _joined(method: str) -> Callable[..., str | None]:
    def said(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str:
        return f"np.{method}([{', '.join(given)}], axis={calls.said(params['dim'])})"

    return said


def _cast(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str | None:
    dtype = params["dtype"]
    x = node.inputs[0]
    from_complex = x.dtype.startswith("complex") and 0 < dtype.category < 3
    if dtype.name == "bfloat16":
        raise ExportError(text("NumPy alone has no bfloat16", op="cast", remedy="program.save"))
    return f"{given[0]}{'.real' if from_complex else ''}.astype({_numpy(dtype)})"


def _copy(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str | None:
    return None if params.get("p") else f"{given[0]}.copy()"


def _same(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str:
    return given[0]


def _view(calls: Calls, node: Node, given: list[str], params: dict[str, Any]) -> str:
    return f"{given[0]}.reshape({calls.said(params['shape'])})"


_SHORT: dict[str, Callable[..., str | None]] = {
    "slice": _index, "select": _index, "matmul": _product, "linear": _linear, "sum": _reduction("sum"),
    "mean": _reduction("mean"), "cat": _joined("concatenate"), "stack": _joined("stack"), "cast": _cast,
    "clone": _copy, "contiguous": _copy, "dropout": _copy, "move": _same, "view": _view,
}  # fmt: skip
