"""Gradients that the user wrote: backward() is held against the slope of forward(), both computed anew from their text
on a few numbers of our own; and gradients that are written over."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import core

from ...recorder.cell_trace import Leaf, Row, Trace
from ..finding import Found
from ..order import rule
from ..reading.calls import name_of
from ..reading.scope import told
from ..reading.sources import Function, Source, called, sources
from ..training.left_unused import backward_ignores

ON_PURPOSE = re.compile(r"ste($|[A-Z_])|straight|surrog|revers|grl|quant|binar|spike|round|sign|clip|clamp|scale_?grad|"
                        r"gradscale|heavi|discret|fake|noop|identity|stop|hard", re.I)  # fmt: skip
FUNCTIONS = {"exp", "log", "sin", "cos", "tan", "tanh", "sigmoid", "sqrt", "rsqrt", "abs", "relu", "softplus",
             "pow", "square", "matmul", "mm", "mul", "add", "sub", "div", "neg", "sum", "mean", "where",
             "zeros_like", "ones_like", "exp2", "expm1", "log1p", "erf", "sinh", "cosh", "atan", "maximum",
             "minimum", "reciprocal", "softmax", "log_softmax", "logsumexp", "transpose", "clone", "unsqueeze",
             "squeeze", "view", "reshape", "t", "expand_as", "float", "size", "norm", "max", "min", "addmm",
             "outer", "dot", "type_as", "to", "logsigmoid", "silu", "expand", "view_as", "contiguous", "atan2",
             "amax", "amin", "clamp_min", "sign", "gt", "lt", "ge", "le", "detach"}  # fmt: skip
"""Functions and methods that compute and do nothing else."""
NODES = (
    ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Name, ast.Attribute, ast.Call, ast.BinOp, ast.UnaryOp,
    ast.Compare,
    ast.Constant, ast.Tuple, ast.Subscript, ast.Load, ast.Store, ast.operator, ast.unaryop, ast.cmpop, ast.keyword,
    ast.Slice, ast.IfExp, ast.If,
)  # fmt: skip
STEP, TOLERANCE, FEW = 1e-5, 1e-3, 3


class _Context:
    """What forward() keeps for backward()."""

    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad = (True,) * 8

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Nothing is differentiated here."""


@rule(308)
def not_the_slope(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A backward() whose gradient is another one than the slope of forward(), where both only compute."""
    if backward_ignores(trace, set()):
        return []  # which has a finding of its own
    ran = {row.op: row for row in trace.rows if row.reached}
    for source in sources(trace):
        if "backward(" not in source.text or "Function" not in source.text:
            continue
        for kind in source.nodes:
            if not isinstance(kind, ast.ClassDef) or not any("Function" in ast.unparse(b) for b in kind.bases):
                continue
            parts = {n.name: n for n in kind.body if isinstance(n, Function)}
            forward, backward = parts.get("forward"), parts.get("backward")
            row = ran.get(kind.name)
            if forward is None or backward is None or row is None or ON_PURPOSE.search(kind.name):
                continue
            if "setup_context" in parts or not forward.args.args or forward.args.vararg or forward.args.kwarg:
                continue
            wrong = _wrong(forward, backward, row, _given(source, kind.name, forward))
            if wrong is None:
                continue
            k, ours, its = wrong
            name = forward.args.args[1 + k].arg
            end = next((n for n in ast.walk(backward) if isinstance(n, ast.Return)), backward)
            part = end.value if isinstance(end, ast.Return) else None
            if isinstance(part, ast.Tuple) and k < len(part.elts):
                part = part.elts[k]
            made = part
            if isinstance(part, ast.Name):
                gave = [n for n in ast.walk(backward) if isinstance(n, ast.Assign) and name_of(n.targets[0]) == part.id]
                made = gave[-1].value if len(gave) == 1 else part
            node = made if made is not None else end
            message = (
                f"gives a gradient for {name} that is not the slope of forward() (`{ast.unparse(node)}`): on a "
                "few numbers "
                f"that we tried {kind.name}.backward() says {ours:.3g} where the slope is {its:.3g}."
            )
            remedy = "Derive it anew, and compare: torch.autograd.gradcheck on float64 inputs, or %%autograd --check."
            return told(source, node, "gradient", message, remedy, rows=[row])
    return []


def _given(source: Source, name: str, forward: Function) -> list[float | None] | None:
    """The plain numbers that a function is applied to by its place, None for tensors; None where nobody can tell."""
    calls = [n for n in source.nodes if called(n) == "apply" and ast.unparse(n.func) == f"{name}.apply"]  # type: ignore[attr-defined]
    many = len(forward.args.args) - 1
    if not calls or not isinstance(calls[0], ast.Call):
        return [None] * many
    given = [
        a.value if isinstance(a, ast.Constant) and isinstance(a.value, int | float) else None for a in calls[0].args
    ]
    return [*given, *[None] * (many - len(given))][:many]  # type: ignore[return-value]


def _wrong(
    forward: Function, backward: Function, row: Row, numbers: list[float | None] | None
) -> tuple[int, float, float] | None:
    """Of which argument the gradient is wrong: its place, the slope by backward() and the true one."""
    tensors = [k for k, n in enumerate(numbers or []) if n is None]
    if numbers is None or len(tensors) != len(row.refs) or not tensors:
        return None
    shapes = [tuple(min(n, FEW) for n in ref.shape) for ref in row.refs]
    pair = _compiled(forward, backward)
    if pair is None:
        return None
    rng = np.random.default_rng(0)
    for positive in (False, True):
        found = []
        for _ in range(2):
            arrays = [rng.uniform(0.4, 1.4, s) * (1 if positive else rng.choice([-1, 1], s)) for s in shapes]
            try:
                one = _compare(pair, arrays, tensors, numbers, rng)
            except Exception:  # whatever its text does on other numbers
                return None
            if one is None:
                break
            found.append(one)
        if len(found) == 2:
            if any(not rates for rates in found):
                return None
            places = [{k for k, a, b in rates if abs(a - b) > TOLERANCE * max(abs(a), abs(b), 1e-3)} for rates in found]
            both = sorted(places[0] & places[1])
            return next(((k, a, b) for k, a, b in found[0] if k in both), None)
    return None


def _compare(
    pair: tuple[Callable[..., Any], Callable[..., Any]], arrays: list[Any], tensors: list[int],
    numbers: list[float | None], rng: np.random.Generator,
) -> list[tuple[int, float, float]] | None:  # fmt: skip
    """For each argument: its place, the slope along a direction by backward(), and by two runs of forward(). An empty
    list where forward() is flat or gives on what it gets; None where the numbers do not suit it."""

    def run(values: list[Any], context: _Context) -> Any:
        given = [core.tensor(values[tensors.index(k)], dtype=core.float64) if k in tensors else numbers[k]
                 for k in range(len(numbers))]  # fmt: skip
        return pair[0](context, *given)

    with core.no_grad():
        context = _Context()
        out = run(arrays, context)
        if not isinstance(out, core.Tensor) or not np.isfinite(np.asarray(out._a)).all():
            return None
        value = np.array(out._a, dtype=float)
        if any(value.shape == a.shape and np.array_equal(value, a) for a in arrays):
            return []
        g = rng.standard_normal(value.shape)
        back = pair[1](context, core.tensor(g, dtype=core.float64))
        back = back if isinstance(back, tuple) else (back,)
        found = []
        for k, a in enumerate(arrays):
            along = rng.standard_normal(a.shape)
            up = run([*arrays[:k], a + STEP * along, *arrays[k + 1 :]], _Context())
            down = run([*arrays[:k], a - STEP * along, *arrays[k + 1 :]], _Context())
            true = float(((np.asarray(up._a) - np.asarray(down._a)) * g).sum() / (2 * STEP))
            if not math.isfinite(true):
                return None
            if true == 0.0:
                return []
            grad = back[tensors[k]] if tensors[k] < len(back) else None
            if grad is None:
                continue
            values = np.asarray(grad._a, dtype=float)
            if values.shape != a.shape:
                return []
            ours = float((values * along).sum())
            if not math.isfinite(ours):
                return None
            found.append((tensors[k], ours, true))
    return found


def _compiled(forward: Function, backward: Function) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The two functions, made of their text alone; None where they do anything but compute."""
    made = []
    for function in (forward, backward):
        context = function.args.args[0].arg
        if not _computes(function, context):
            return None
        plain = ast.FunctionDef("f", function.args, function.body, [], None, None)
        for arg in [*plain.args.args, *plain.args.kwonlyargs]:
            if arg.annotation is not None:
                return None
        module = ast.fix_missing_locations(ast.Module([plain], []))
        space: dict[str, Any] = {"torch": core, "core": core, "F": core.nn.functional, "math": math, "__builtins__": {}}
        exec(compile(module, "<a gradient of the user's>", "exec"), space)
        made.append(space["f"])
    return made[0], made[1]


def _computes(function: Function, context: str) -> bool:
    """Whether a function only computes with what it is given: no names, calls or statements of another kind."""
    if function.args.defaults or function.args.vararg or function.args.kwarg:
        return False
    known = {a.arg for a in function.args.args} | {"torch", "core", "F", "math"}
    known |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for statement in function.body:
        for node in ast.walk(statement):
            if not isinstance(node, NODES):
                return False
            if isinstance(node, ast.Name) and node.id not in known:
                return False
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                return False
            if isinstance(node, ast.Call) and called(node) not in FUNCTIONS | {
                "save_for_backward",
                "mark_non_differentiable",
            }:
                return False
            if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                                                   and name_of(node.value) != context):  # fmt: skip
                return False
    return True


@rule(309)
def written_over(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``grad_output[x < 0] = 0`` in a backward() or a hook: others may be given the same gradient."""
    for source in sources(trace):
        if "Function" not in source.text and "register_hook" not in source.text:
            continue
        for function, given in _receivers(source):
            copied = {name_of(t) for n in ast.walk(function) if isinstance(n, ast.Assign) for t in n.targets}
            for node in ast.walk(function):
                name = ""
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                    name = name_of(node.targets[0].value)
                elif isinstance(node, ast.AugAssign):
                    name = name_of(node.target.value if isinstance(node.target, ast.Subscript) else node.target)
                elif isinstance(node, ast.Call) and re.fullmatch(r"\w+[a-z]_", called(node)):
                    name = name_of(getattr(node.func, "value", node.func))
                if name not in given or name in copied:
                    continue
                message = (
                    f"changes the gradient that it is given in place (`{ast.unparse(node)}`): what else is given "
                    "the same "
                    "tensor, as the other side of a sum is, gets the change too."
                )
                return told(
                    source, node, "gradient", message, f"Change a copy: g = {name}.clone(), and return that.", "note"
                )
    return []


def _receivers(source: Source) -> list[tuple[ast.AST, set[str]]]:
    """Functions that are given gradients, and by which names."""
    found: list[tuple[ast.AST, set[str]]] = []
    hooks = {
        ast.unparse(n.args[0])
        for n in source.nodes
        if called(n) == "register_hook" and isinstance(n, ast.Call) and n.args
    }
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and any("Function" in ast.unparse(b) for b in node.bases):
            found += [
                (n, {a.arg for a in n.args.args[1:]})
                for n in node.body
                if isinstance(n, Function) and n.name == "backward"
            ]
        elif isinstance(node, Function) and node.name in hooks:
            found.append((node, {a.arg for a in node.args.args[:1]}))
        elif (
            called(node) == "register_hook"
            and isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Lambda)
        ):
            found.append((node.args[0].body, {a.arg for a in node.args[0].args.args}))
    return found
