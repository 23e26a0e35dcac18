"""The declarations of ops and their register.

    tanh = elementwise("tanh", lambda x: s.tanh(x), vjp=lambda g, y: g * (1 - y * y))  # core.dispatch.declare

A vjp (vector-Jacobian product: the gradient of the output in, that of one input out) asks for what it needs by the
names of its arguments, and only that is saved: ``g`` the incoming gradient, an input's name, an output's name, a
parameter's name, ``<input>_shape`` and ``<input>_dtype``. It is written in ops, so its own gradient comes by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..base.device import Kind
from ..base.shape import Rule, parse_rule
from . import expr
from .expr import Joint, Program

table: dict[str, Op] = {}  # every declared op by name
functions: dict[str, Callable[..., Any]] = {}  # the public function of every op that has one
numbered: dict[str, Callable[..., Any]] = {}  # of what refuses numbers the form that takes them, for use in other ops
structured: dict[str, Callable[..., Any]] = {}  # of every structured op what runs it


class Slot(NamedTuple):
    """One saved thing: `where` is input, output, shape or dtype."""

    name: str
    where: str
    index: int  # type: ignore[assignment] # it hides tuple.index, which nobody needs here


class Vjp(NamedTuple):
    """A gradient function and the names of its arguments."""

    function: Callable[..., Any]
    names: tuple[str, ...]


def _names(f: Callable[..., Any]) -> tuple[str, ...]:
    return f.__code__.co_varnames[: f.__code__.co_argcount + f.__code__.co_kwonlyargcount]


class Op:
    """What is common to all ops: names, gradients, what a node must save.

    `name` is unique; `label` is what people read, in `Node.name()`, events and `explain`: the ops behind one public
    function share it.
    """

    returns = 1
    # A complex gradient is g times the conjugate of the derivative. A vjp that says g times the derivative is run
    # between two conjugations; False for one that is in PyTorch's form already.
    holomorphic = True

    # Linear in pieces: the gradient depends on the inputs by steps alone, so that its own gradient is zeros (and not
    # the error that a gradient without a history is), as in PyTorch.
    piecewise = False

    # Rounds on the way, and has the gradient as if it did not: finite differences cannot tell.
    straight_through = False

    steps: Any = None  # how native/binding/graph/state.c computes the gradients of each kind, where it can

    def __init__(self, name: str, inputs: Sequence[str], params: dict[str, Any], outputs: Sequence[str],
                 vjp: Any, doc: str, label: str) -> None:  # fmt: skip
        if name in table:
            raise ValueError(f"an op named {name!r} is declared already; choose another name")
        self.name, self.params, self.doc, self.label = name, params, doc, label or name
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.variadic = bool(self.inputs) and self.inputs[0].endswith("*")
        self.inputs = tuple(n.rstrip("*?") for n in self.inputs)
        self.joint = callable(vjp)
        many = () if vjp is None else (vjp,) if self.joint else tuple(vjp)
        self.vjps: tuple[Vjp | None, ...] = tuple(None if f is None else Vjp(f, _names(f)) for f in many)
        self.differentiable = any(v is not None for v in self.vjps)
        self.slots = self._slots()
        self._plans: dict[int, tuple[Slot | None, ...]] = {}
        self.recorded = self.differentiable  # whether its outputs have a place in the graph
        table[name] = self

    def _slots(self) -> tuple[Slot, ...]:
        found: dict[str, Slot] = {}
        for v in self.vjps:
            for n in v.names if v else ():
                if n == "g" or n in self.params or n in found or n == "needs":
                    continue
                stem, _, tail = n.rpartition("_")
                if n in self.inputs:
                    found[n] = Slot(n, "input", self.inputs.index(n))
                elif n in self.outputs:
                    found[n] = Slot(n, "output", self.outputs.index(n))
                elif tail in ("shape", "dtype") and stem in self.inputs:
                    found[n] = Slot(n, tail, self.inputs.index(stem))
                else:
                    known = ", ".join(["g", *self.inputs, *self.outputs, *self.params])
                    raise ValueError(f"the vjp of {self.name} asks for {n!r}; it may ask for {known}")
        return tuple(found.values())

    def plan(self, mask: int) -> tuple[Slot | None, ...]:
        """Return what to save when the inputs of the bits of `mask` need a gradient; None in the places not needed."""
        plan = self._plans.get(mask)
        if plan is None:
            if self.joint:
                plan = self.slots
            else:
                wanted = {n for i, v in enumerate(self.vjps) if v and mask >> i & 1 for n in v.names}
                plan = tuple(slot if slot.name in wanted else None for slot in self.slots)
            self._plans[mask] = plan
        return plan

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}({', '.join([*self.inputs, *self.params])})>"


class Elementwise(Op):
    """An op that maps one scalar function over its inputs, which broadcast."""

    def __init__(self, name: str, function: Callable[..., Any], *, vjp: Any, params: dict[str, float],
                 bools: Sequence[str], out: str, domain: Any, doc: str, label: str,
                 tensors: Sequence[str]) -> None:  # fmt: skip
        inputs = tuple(n for n in _names(function) if n not in params)
        vjp = (vjp,) if callable(vjp) else vjp
        super().__init__(name, inputs, params, ("y",), vjp, doc, label)
        self.function, self.bools, self.out, self.tensors = function, tuple(bools), out, tuple(tensors)
        # A value that depends on the inputs and has no gradient: asking for it is an error, not silence.
        self.recorded = self.differentiable or out != "bool"
        lo_hi = domain if isinstance(domain[0], tuple) else (domain,) * len(inputs)
        self.domain: tuple[tuple[float, float], ...] = lo_hi
        self.c_kernels: dict[Kind, Callable[..., Any]] = {}  # the kernels of the C path, by kind, once looked up
        self.kernels: dict[Kind, Any] = {}  # the same with its name and backend
        self.recipes: dict[Kind, Any] = {}  # how core.autograd.vjp computes the gradients of each kind
        self.joint_recipes: dict[Kind, Any] = {}  # the same of several inputs in one launch; None where nothing does
        self.steps: dict[Kind, Any] = {}
        self.complex_form: Any = None  # what serves complex numbers: this op itself, or another

    def layout(self, mask: int) -> bytes | None:
        """`plan` for the C path: what each slot saves, an input by its number, 254 the output, 255 nothing; None where
        a slot saves something else."""
        codes = []
        for slot in self.plan(mask):
            if slot is not None and slot.where not in ("input", "output"):
                return None
            codes.append(255 if slot is None else 254 if slot.where == "output" else slot.index)
        return bytes(codes)

    @cached_property
    def program(self) -> Program:
        """The forward expression."""
        return expr.trace(self.name, self.function, self.inputs, tuple(self.params), self.bools)

    @cached_property
    def gradient_programs(self) -> tuple[Program | None, ...]:
        """The gradient of each input as one expression, so that it runs as one kernel; None for inputs without one."""
        programs: list[Program | None] = []
        for i, v in enumerate(self.vjps):
            if v is None:
                programs.append(None)
                continue
            inputs = [n for n in v.names if n not in self.params]
            params = [n for n in v.names if n in self.params]
            name = f"{self.name}_backward" + (f"_{self.inputs[i]}" if len(self.inputs) > 1 else "")
            programs.append(expr.trace(name, v.function, inputs, params, self.bools))
        return tuple(programs)

    @cached_property
    def joint_gradients(self) -> tuple[tuple[int, ...], Joint] | None:
        """The gradients of several inputs as one program, where each computes something, and the inputs' places."""
        which = tuple(i for i, p in enumerate(self.gradient_programs) if p is not None and p.statements)
        if len(which) < 2:
            return None
        functions = [v.function for i in which if (v := self.vjps[i]) is not None]
        return which, expr.trace_joint(f"{self.name}_backward", functions, tuple(self.params), self.bools)

    @property
    def programs(self) -> tuple[Program, ...]:
        """Everything that a backend prints a kernel for: the forward and the gradients that compute something."""
        return (self.program, *(p for p in self.gradient_programs if p is not None and p.statements))


class Operation(Op):
    """An op with a structure: a shape rule, a reference on any array library, perhaps several outputs."""

    def __init__(self, name: str, forward: Callable[..., Any], *, inputs: str, params: dict[str, Any],
                 outputs: str, returns: int, shape: str, over: str, vjp: Any, view: bool, samples: Any,
                 doc: str, label: str, contiguous: bool = False) -> None:  # fmt: skip
        super().__init__(name, inputs.split(), params, outputs.split(), vjp, doc, label)
        self.forward, self.view, self.returns, self.samples, self.over = forward, view, returns, samples, over
        self.contiguous = contiguous
        self.rule: Rule | None = parse_rule(shape) if shape else None

    @cached_property
    def back(self) -> tuple[Any, ...] | None:
        """The gradients for the C path (native/binding/graph/vjp_step.c): the name of the op's row and the names and
        sources of its arguments, the same of each vjp, and whether one serves all inputs. A source is the number of a
        slot, 253 a parameter, 254 `needs`, 255 the gradient. None where they are not for it."""
        if self.returns < 1 or not self.differentiable or len(self.slots) > 250:
            return None
        slots = {s.name: k for k, s in enumerate(self.slots)}

        def sources(names: tuple[str, ...]) -> bytes:
            return bytes(255 if n == "g" else 254 if n == "needs" else slots.get(n, 253) for n in names)

        vjps = tuple([v and (v.function, v.names, sources(v.names)) for v in self.vjps])
        return f"{self.name}.backward", self.row_names, sources(self.row_names), vjps, self.joint

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """What a "<op>.backward" row is called with: what the joint vjp asks for, or all that the vjps of the inputs
        ask for (None for what was not saved, since nothing needs it) and `needs`."""
        names = {n: None for v in self.vjps if v is not None for n in v.names}
        return tuple(names) if self.joint else (*names, "needs")

    def codes(self, mask: int) -> bytes:
        """`plan` for the C path: of each slot what it saves (0 an input, 1 an output, 2 a shape, 3 a dtype, 4 nothing)
        and which."""
        where = ("input", "output", "shape", "dtype")
        slots = [(4, 0) if slot is None else (where.index(slot.where), slot.index) for slot in self.plan(mask)]
        return bytes(n for slot in slots for n in slot)

    def rule_codes(self) -> tuple[bytes, ...] | bool | None:
        """Return the rule for the C path: of each input its core dimensions, letters by number. False where it is
        not for it, None without a rule."""
        if self.rule is None or self.over:
            return None
        letters = list(dict.fromkeys(d for dims in self.rule.inputs for d in dims))
        if len(letters) > 16 or any(d.isdigit() for d in letters):
            return False
        return tuple(bytes(letters.index(d) for d in dims) for dims in self.rule.inputs)


def _inner(name: str) -> Callable[..., Any]:
    """Return what runs an op inside another's gradient, where any operand may be a number."""
    return numbered.get(name) or functions[name]


expr.s.op_named = _inner
