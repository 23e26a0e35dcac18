"""Derivatives by inputs: cut off from the loss, of lines without a curve, of both columns at once, by steps that are
too small or counted once, and quantities of physics with the other sign."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import factor_asked, function_of, name_of, operands, option, rows_at
from ..reading.expressions import Flow, flow_of, losses
from ..reading.scope import Index, Scope, index_of, indices, spread, told
from ..reading.sources import Function, Source, called, names_in

MATHS = {"norm", "pow", "mean", "sum", "sqrt", "square", "abs", "mse_loss", "l1_loss", "smooth_l1_loss",
         "view", "reshape", "cat", "stack", "squeeze", "unsqueeze", "vector_norm", "add", "sub", "mul", "div",
         "flatten", "backward", "relu", "clamp", "exp", "log", "criterion", "mse", "loss_fn", "zeros_like",
         "transpose", "t", "contiguous", "trace", "diagonal", "diag", "einsum", "matmul"}  # fmt: skip
PLAIN = {"relu", "leaky_relu", "relu6", "prelu", "hardtanh", "threshold", "relu_"}
CURVED = {"tanh", "sigmoid", "gelu", "silu", "softplus", "sin", "cos", "elu", "exp", "mish", "softmax", "erf", "selu",
          "celu", "logsigmoid", "pow", "softsign", "mul", "square"}  # fmt: skip
STEP = re.compile(r"^(self\.)?(h|dx|dt|dy|dz|eps|epsilon|delta|step|delta_t|delta_x|hx|step_size|spacing)$", re.I)
ENERGY = re.compile(r"energ|(^|_)pot(ential)?(_|$)|^(E|U|V)(_|\d|$)")


def _by_inputs(node: ast.Call) -> bool:
    """Whether a call is autograd.grad."""
    text = ast.unparse(node.func)
    return text.endswith("autograd.grad") or (text == "grad" and len(node.args) + len(node.keywords) >= 2)


def _graph(call: ast.Call) -> bool:
    """Whether a call of autograd.grad keeps a graph of what it gives."""
    given = next((k.value for k in call.keywords if k.arg == "create_graph"), None)
    return given is not None and not (isinstance(given, ast.Constant) and not given.value)


@text_rule(486, "backward", "autograd", trains=True)
def derivative_off_the_graph(scope: Scope) -> Iterator[Found]:
    """``u_t = torch.autograd.grad(u, t, ones)[0]`` without create_graph, of which a loss is made: it moves nothing."""
    source, index = scope.source, scope.index
    for of, _ in losses(index.flow):
        for call in _derivatives(source, index.flow, of):
            if _graph(call) or _of_weights(call) or _of_no_parameter(scope, call):
                continue
            message = (
                f"takes a derivative without its graph (`{ast.unparse(call)}`), and the loss is made of it: there "
                "it is a constant, so that term moves no parameter, whatever its value."
            )
            remedy = "Keep its graph: torch.autograd.grad(..., create_graph=True)."
            yield scope.tell(call, "cut", message, remedy)


def _of_weights(call: ast.Call) -> bool:
    """Whether it is by parameters, as the inner steps of meta-learning are."""
    by = option(call, "inputs", 1)
    return by is None or bool(re.search(r"param|weight|fast|theta|\bw\b|phi|eps", ast.unparse(by)))


def _of_no_parameter(scope: Scope, call: ast.Call) -> bool:
    """Whether what is derived was seen to be made of no module's parameter, such as a solution that is known."""
    row = scope.row(call.args[0]) if call.args else None
    stack: list[Ref] = [] if row is None else [row]
    for one in stack:  # which grows meanwhile
        if isinstance(one, Leaf) and one.module:
            return False
        stack += [ref for ref in getattr(one, "refs", ()) if ref not in stack]
    return row is not None


def _derivatives(source: Source, flow: Flow, node: ast.expr, depth: int = 4) -> Iterator[ast.Call]:
    """Yield the calls of autograd.grad whose values an expression is computed of, other than by a network or a sign."""
    stack: list[tuple[Flow, ast.AST]] = [(flow, node)]
    seen: set[ast.AST] = set()
    while stack and len(seen) < 300:
        flow, one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        value = flow.value(one) if isinstance(one, ast.Name) else None
        if value is None:
            value = _unpacked(flow, one) if isinstance(one, ast.Name) else factor_asked(source, one)
        if value is not None:
            stack.append((flow, value))
        elif isinstance(one, ast.Call):
            if (_by_inputs(one) and "autograd" in ast.unparse(one.func)) or (
                _by_inputs(one) and function_of(source, one) is None
            ):
                yield one
                continue
            own = function_of(source, one)
            if own is not None and own.name != "forward":
                inner = flow_of(source, own)
                stack.extend((inner, r.value) for r in index_of(inner).kinds.get(ast.Return, ()) if r.value is not None)
                continue
            if called(one) in MATHS:
                stack.extend((flow, a) for a in operands(one))
        elif isinstance(one, ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Tuple | ast.List | ast.Attribute):
            stack.extend((flow, child) for child in ast.iter_child_nodes(one))


def _unpacked(flow: Flow, name: ast.Name) -> ast.expr | None:
    """What a variable was taken out of: ``g, = autograd.grad(...)``."""
    for node in index_of(flow).kinds.get(ast.Assign, ()):
        for target in node.targets:
            if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Call) or node.lineno > name.lineno:
                continue
            if any(isinstance(e, ast.Name) and e.id == name.id for e in target.elts):
                return node.value
    return None


def _second(source: Source, index: Index) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield each derivative of a derivative, and that."""
    helpers = {at.flow.scope.name for at in index_of(flow_of(source, source.tree)).scopes
               if isinstance(at.flow.scope, Function) and at.called("grad")}  # fmt: skip
    calls = [c for name in ({"grad"} | helpers) for c in index.called(name) if _by_inputs(c) or called(c) in helpers]
    for call in calls:
        of = option(call, "outputs", 0) if call.args or call.keywords else None
        for node in spread(index.flow, of, 60) if of is not None else ():
            known = (
                _unpacked(index.flow, node) if isinstance(node, ast.Name) and index.flow.value(node) is None else None
            )
            inner = known if known is not None else node
            if isinstance(inner, ast.Call) and inner is not call and inner in calls:
                yield call, inner


@rule(487)
def lines_without_a_curve(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A second derivative of a network whose activations are all piecewise linear: it is 0 everywhere."""
    ran = {row.op for row in trace.rows if row.path and row.requires_grad}
    if not ran & PLAIN or ran & CURVED:
        return []
    for source, index in indices(trace, "autograd"):
        for call, inner in _second(source, index):
            if _of_parameters(index, call, inner):
                continue
            message = (
                f"takes a second derivative (`{ast.unparse(call)}`) of a network of "
                f"{', '.join(sorted(ran & PLAIN))}: it "
                "is linear between its kinks, so that is 0 everywhere, and the equation has no curvature to learn."
            )
            remedy = "Take a smooth activation in the network: nn.Tanh(), nn.SiLU()."
            plain = [row for row in trace.rows if row.path and row.requires_grad and row.op in PLAIN]
            return told(source, call, "gradient", message, remedy, rows=plain[:1])
    return []


def _of_parameters(index: Index, call: ast.Call, inner: ast.Call) -> bool:
    """Whether a derivative is by the parameters of a model, or by weights that a step with the first one has made."""
    behind = [
        n for c in (call, inner) if (by := option(c, "inputs", 1)) is not None for n in spread(index.flow, by, 60)
    ]
    return inner in behind or any("param" in called(n) + name_of(n) for n in behind)


@text_rule(488, "grad(")
def both_columns_at_once(scope: Scope) -> Iterator[Found]:
    """``grad(grads, X, ones_like(grads))`` of a gradient of two columns: the sum of the second derivatives of both."""
    source, index = scope.source, scope.index
    for call, inner in _second(source, index):
        of, by = option(call, "outputs", 0), option(call, "inputs", 1)
        if of is None or by is None or ast.unparse(by) != ast.unparse(option(inner, "inputs", 1) or inner):
            continue
        outer = option(call, "grad_outputs", 2)
        summed = called(of) == "sum" or (outer is not None and called(index.flow.inner(outer)) in ("ones_like", "ones"))
        name = ast.unparse(operands(of)[0] if called(of) == "sum" and operands(of) else of)
        if not summed or not re.fullmatch(r"\w+", name):
            continue
        if not any(_cut_into_columns(source, one) for one in (name, *_named(scope, call))) and not _added_up(
            scope, call
        ):
            continue
        row = scope.row(of)
        columns = row.refs[0] if row is not None and row.op == "sum" and row.refs else row
        if columns is not None and len(columns.shape) == 2 and columns.shape[1] == 1:
            continue
        message = (
            f"differentiates all columns of {name} at once (`{ast.unparse(call)}`): what comes out is the sum over "
            "the columns, so the mixed derivatives stand beside the second one that is meant."
        )
        remedy = f"Differentiate each by itself: grad({name}[:, 0].sum(), {ast.unparse(by)}, create_graph=True)."
        yield scope.tell(call, "gradient", message, remedy, rows=[row] if row is not None else [])


def _cut_into_columns(source: Source, name: str) -> bool:
    """Whether single columns of a variable are read: ``du[:, 0]``, ``d2u[:, 1:]``."""
    return re.search(rf"\b{re.escape(name)}\[(:|\.\.\.), ?(\d|:\d)", source.text) is not None


def _named(scope: Scope, call: ast.Call) -> set[str]:
    """The variables that a call's results are given to."""
    above = scope.source.parents.get(call)
    above = scope.source.parents.get(above) if isinstance(above, ast.Subscript) else above
    return {ast.unparse(n) for t in getattr(above, "targets", ()) for n in ast.walk(t) if isinstance(n, ast.expr)}


def _added_up(scope: Scope, call: ast.Call) -> bool:
    """Whether the columns of a second derivative are added up: the Laplacian, if each were of one column alone."""
    names = _named(scope, call)
    for node in scope.calls("sum"):
        if ast.unparse(operands(node)[0]) in names and option(node, "dim", 1) is not None:
            rows = [r for r in rows_at(scope.trace, scope.source, node) if r.op == "sum" and r.refs]
            return any(len(r.refs[0].shape) == 2 and r.refs[0].shape[1] > 1 for r in rows)
    return False


def _quotients(index: Index) -> Iterator[tuple[ast.BinOp, ast.expr, ast.expr, str]]:
    """Yield differences that are divided by a step: the quotient, the two values, and the step."""
    for node in index.binary.get(ast.Div, ()):
        top = index.flow.inner(node.left)
        if isinstance(top, ast.BinOp) and isinstance(top.op, ast.Sub):
            yield node, top.left, top.right, ast.unparse(node.right)


def _moved(index: Index, node: ast.expr, step: str) -> int | None:
    """By how many steps the argument of a call is moved: 1 for ``f(x + h)``, 0 for ``f(x)``; None for another one."""
    inner = index.flow.inner(node)
    if not isinstance(inner, ast.Call) or not inner.args:
        return None
    for argument in inner.args:
        for moved in index.kinds.get(ast.AugAssign, ()):  # ``moved[:, j] += step``
            of_it = isinstance(moved.target, ast.Subscript) and ast.unparse(moved.target.value) == ast.unparse(argument)
            if of_it and ast.unparse(moved.value) == step and isinstance(moved.op, ast.Add | ast.Sub):
                return 1 if isinstance(moved.op, ast.Add) else -1
        of = index.flow.inner(argument)
        if not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Add | ast.Sub):
            continue
        sides = {ast.unparse(of.left), ast.unparse(of.right)}
        sides |= {step for n in index.kinds.get(ast.Assign, ()) if isinstance(n.targets[0], ast.Subscript)
                  and ast.unparse(n.targets[0].value) in sides and ast.unparse(n.value) == step}  # fmt: skip
        if step in sides:
            return 1 if isinstance(of.op, ast.Add) else -1
    return 0


@text_rule(489)
def step_below_the_digits(scope: Scope) -> Iterator[Found]:
    """``(f(x + 1e-8) - f(x)) / 1e-8`` in float32: the two arguments are the same number."""
    trace, source, index = scope.trace, scope.source, scope.index
    for node, left, right, step in _quotients(index):
        known = index.flow.number(node.right)
        if known is None and isinstance(index.flow.scope, Function):
            known = _default(index.flow.scope, step)
        if isinstance(node.right, ast.BinOp) and known is None:
            continue
        moved = _moved(index, left, step), _moved(index, right, step)
        if known is None or not 0 < known <= 2e-6 or None in moved or moved[0] == moved[1]:
            continue
        rows = [r for r in rows_at(trace, source, node) if r.op in ("sub", "div")]
        if not rows or any(r.dtype != "float32" for r in rows):
            continue
        message = (
            f"divides a difference of float32 numbers by {known:g} (`{ast.unparse(node)}`): near 1 they are 1.2e-7 "
            "apart, so the two values are equal or differ by rounding alone, and the slope is noise."
        )
        remedy = "Take float64, or a step near 1e-3; autograd.grad gives the slope itself."
        yield scope.tell(node, "dtype", message, remedy, rows=rows[:1])


def _default(scope: Function, name: str) -> float | None:
    """The number that an argument is by default."""
    args = scope.args.posonlyargs + scope.args.args
    pairs = zip(reversed(args), reversed(scope.args.defaults), strict=False)
    value = next((d for a, d in pairs if a.arg == name), None)
    known = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    return float(value.value) if known else None  # type: ignore[union-attr, arg-type]


@text_rule(490)
def half_the_distance(scope: Scope) -> Iterator[Found]:
    """``(f(x + h) - f(x - h)) / h``, ``(u[2:] - u[:-2]) / dx``: the two are 2 h apart."""
    index = scope.index
    for node, left, right, step in _quotients(index):
        if not STEP.match(step):
            continue
        moved = _moved(index, left, step), _moved(index, right, step)
        apart = moved == (1, -1) or _two_apart(left, right) or _rolled(index.flow, left, right)
        if not apart:
            continue
        value = index.flow.value(node.right)
        if value is not None and re.match(r"2(\.0)? \*", ast.unparse(value)):
            continue
        message = (
            f"divides by one step what is two steps apart (`{ast.unparse(node)}`): the derivative comes out "
            "twice as "
            "large as it is."
        )
        yield scope.tell(node, "loss", message, f"Divide by both: / (2 * {step}).")


def _rolled(flow: Flow, left: ast.expr, right: ast.expr) -> bool:
    """Whether an array is rolled by one place either way: ``torch.roll(u, -1) - torch.roll(u, 1)``."""
    calls = [flow.inner(left), flow.inner(right)]
    if any(called(c) != "roll" or not operands(c) for c in calls):
        return False
    if ast.unparse(operands(calls[0])[0]) != ast.unparse(operands(calls[1])[0]):
        return False
    places = [option(c, "shifts", 1) or option(c, "shift", 1) for c in calls if isinstance(c, ast.Call)]
    return [p is not None and flow.number(p) for p in places] == [-1, 1]


def _two_apart(left: ast.expr, right: ast.expr) -> bool:
    """Whether two parts of one array are two places apart: ``u[2:]`` and ``u[:-2]``, ``u[i + 1]`` and ``u[i - 1]``."""
    if not isinstance(left, ast.Subscript) or not isinstance(right, ast.Subscript):
        return False
    if ast.unparse(left.value) != ast.unparse(right.value):
        return False
    a = left.slice.elts if isinstance(left.slice, ast.Tuple) else [left.slice]
    b = right.slice.elts if isinstance(right.slice, ast.Tuple) else [right.slice]
    for one, other in zip(a, b, strict=False):
        pair = ast.unparse(one), ast.unparse(other)
        if pair == ("2:", ":-2"):
            return True
        i = pair[0].partition(" + 1")[0]
        if pair == (f"{i} + 1", f"{i} - 1"):
            return True
    return False


@text_rule(491)
def curvature_by_one_step(scope: Scope) -> Iterator[Found]:
    """``(u[2:] - 2 * u[1:-1] + u[:-2]) / dx``: a second difference is divided by the square of the step."""
    index = scope.index
    for node in index.binary.get(ast.Div, ()):
        step = ast.unparse(node.right)
        top = index.flow.inner(node.left)
        if not STEP.match(step):
            continue
        if index.flow.value(node.right) is not None and re.search(
            r"\*\* ?2|\*", ast.unparse(index.flow.inner(node.right))
        ):
            continue
        if any(called(n) in ("conv1d", "convolve") and _second_difference(index.flow, n) for n in ast.walk(top)):
            yield _curved(scope, node, step)
        terms = [(t.sign, ast.unparse(t.node)) for t in index.flow.terms(top)]
        twice = re.search(r"(?<![\w.])2(\.0)? \* ", ast.unparse(top))
        if len(terms) != 3 or sorted(s for s, _ in terms) != [-1, 1, 1] or twice is None:
            continue
        parts = {re.sub(r"\[.*|\(.*", "", t) for _, t in terms}
        if len(parts) != 1 or not all(re.search(r"[\[(]", t) for _, t in terms):
            continue
        yield _curved(scope, node, step)


def _curved(scope: Scope, node: ast.BinOp, step: str) -> Found:
    """Told of a second difference that is divided by one step."""
    message = (
        f"divides a second difference by one step (`{ast.unparse(node)}`): it goes with the square of "
        "the step, "
        f"and comes out by {step} too small."
    )
    return scope.tell(node, "loss", message, f"Divide by the square: / {step} ** 2.")


def _second_difference(flow: Flow, call: ast.AST) -> bool:
    """Whether a convolution has the weights 1, -2, 1."""
    weights = flow.inner(call.args[1]) if isinstance(call, ast.Call) and len(call.args) > 1 else None
    if called(weights) in ("tensor", "array", "as_tensor") if weights is not None else False:
        weights = weights.args[0]  # type: ignore[union-attr]
    lists = [n for n in ast.walk(weights) if isinstance(n, ast.List | ast.Tuple)] if weights is not None else []
    return any([flow.number(e) for e in one.elts] == [1, -2, 1] for one in lists)


@text_rule(492, "autograd")
def uphill_forces(scope: Scope) -> Iterator[Found]:
    """``forces = autograd.grad(energy, positions)[0]``: a force is minus the gradient of the energy."""
    source, index = scope.source, scope.index
    for name, value, node in index.given:
        function = index.flow.scope
        within = isinstance(function, Function) and re.search(r"force", function.name, re.I) is not None
        if not re.search(r"force|^F(_pred)?$" + ("|^f$" if within else ""), name):
            continue
        inner = value.value if isinstance(value, ast.Subscript) else value
        if not isinstance(inner, ast.Call) or not _by_inputs(inner):
            continue
        of = option(inner, "outputs", 0)
        if of is None or not any(ENERGY.search(n) or (within and n == "e") for n in names_in(of) | {name_of(of)}):
            continue
        if re.search(rf"-\s*{name}\b|{name}\.neg|neg\({name}", source.text):
            continue
        message = (
            f"takes the gradient of the energy for the force (`{ast.unparse(node)}`): the force is minus that, so "
            "what is compared with forces pulls the energy the wrong way."
        )
        yield scope.tell(node, "loss", message, f"Put a minus before it: {name} = -autograd.grad(...)[0].")


@text_rule(493, "autograd")
def momentum_turned(scope: Scope) -> Iterator[Found]:
    """``dq, dp = dH[:, 1], dH[:, 0]``: the momentum changes by minus the derivative by the place."""
    source, index = scope.source, scope.index
    for call in index.called("stack", "cat"):
        if (halves := _exchanged(index, call)) is not None:
            message = (
                f"exchanges the two halves of a gradient (`{ast.unparse(call)}`) without a sign: of Hamilton's "
                "equations one has a minus, and without it the energy does not stay what it is."
            )
            yield scope.tell(call, "loss", message, f"Put a minus before the second one: -{halves[1]}.")
    given = {p.name: p for p in index.given if re.match(r"^(d?q_?(dot|dt)?|dqdt|dq_dt|dp|p_?dot|dpdt|dp_dt)$", p.name)}
    q = next((p for n, p in given.items() if "q" in n), None)
    p = next((p for n, p in given.items() if re.match("d?p", n)), None)
    if q is None or p is None or not isinstance(q.value, ast.Subscript) or not isinstance(p.value, ast.Subscript):
        return
    roots = ast.unparse(q.value.value), ast.unparse(p.value.value)
    if roots[0] != roots[1] or not any(called(n) == "grad" for n in spread(index.flow, q.value.value, 20)):
        return
    if re.search(rf"-\s*{p.name}\b", source.text) or re.search(rf"-\s*{q.name}\b", source.text):
        return
    message = (
        f"gives both changes the same sign (`{p.name} = {ast.unparse(p.value)}`, `{q.name} = "
        f"{ast.unparse(q.value)}`): "
        "of Hamilton's equations one has a minus, and without it the energy does not stay what it is."
    )
    yield scope.tell(p.node, "loss", message, f"Write {p.name} = -{ast.unparse(p.value)}.")


def _exchanged(index: Index, call: ast.Call) -> tuple[str, str] | None:
    """The two halves of what autograd.grad gave, where a call puts them together the other way round."""
    parts = getattr(call.args[0], "elts", []) if call.args else []
    names = tuple(name_of(p) for p in parts)
    for node in index.kinds.get(ast.Assign, ()) if len(names) == 2 and all(names) else ():
        target, value = node.targets[0], node.value
        taken = [name_of(t) for t in target.elts] if isinstance(target, ast.Tuple) else []
        if taken != list(names[::-1]) or called(value) not in ("unbind", "chunk", "split", "tensor_split"):
            continue
        of = name_of(operands(value)[0]) if operands(value) else ""
        for other in index.kinds.get(ast.Assign, ()):
            given = other.value.value if isinstance(other.value, ast.Subscript) else other.value
            taken_of = {name_of(n) for t in other.targets for n in ast.walk(t)}
            if of in taken_of and isinstance(given, ast.Call) and _by_inputs(given):
                return names  # type: ignore[return-value]
    return None


@text_rule(494)
def stages_out_of_weight(scope: Scope) -> Iterator[Found]:
    """``s + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 4``: the weights of the stages do not sum to 1."""
    source, index = scope.source, scope.index
    known = _stages(index)
    for node in index.binary.get(ast.Add, []) + index.binary.get(ast.Mult, []) + index.binary.get(ast.Div, []):
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        stages = {n for n in names if re.fullmatch(r"k_?\d", n) or n in known}
        above = source.parents.get(node)
        if len(stages) < 4 or isinstance(above, ast.BinOp):
            continue
        if stages & known and not any(STEP.match(n) for n in names):
            continue  # layers one after another, whose results are added up
        weight = _weight(node, known)
        if weight is None or abs(weight) < 1e-6 or abs(weight - 1) < 1e-6:
            continue
        message = (
            f"weighs the stages by {weight:.3g} in all (`{ast.unparse(node)}`): each step is {weight:.3g} times as "
            "long as it is said to be."
        )
        yield scope.tell(node, "loss", message, "Their weights sum to 1: dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6.")


def _stages(index: Index) -> set[str]:
    """The variables that hold the slopes of a Runge-Kutta step: one function's results, each at a place that the one
    before has moved."""
    found: list[str] = []
    by = ""
    for name, value, _ in index.given:
        if not isinstance(value, ast.Call) or not value.args or (found and ast.unparse(value.func) != by):
            continue
        moves = found and any(found[-1] in names_in(a) and isinstance(a, ast.BinOp) for a in value.args)
        if moves:
            found.append(name)
        elif len(found) < 4:
            found, by = [name], ast.unparse(value.func)
    return set(found) if len(found) >= 4 else set()


def _weight(node: ast.AST, stages: set[str]) -> float | None:
    """What an expression is where each stage and the step are 1, and all else is 0; None where nobody can tell."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        name = name_of(node)
        return 1.0 if re.fullmatch(r"k_?\d", name) or name in stages or STEP.match(name) else 0.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        of = _weight(node.operand, stages)
        return None if of is None else -of
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _weight(node.left, stages), _weight(node.right, stages)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    return left / right if isinstance(node.op, ast.Div) and right else None
