"""What to do about a cut: the op with a gradient in place of the one that has none, the call to leave out."""

from __future__ import annotations

import ast

from core.base import syntax
from core.declare import op as declarations

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ...recorder.variable_names import operand
from ..finding import code_of, last_line, library, listed, where
from ..reading.calls import function_of, operands
from ..reading.sources import Function, Place, assigned, called, sources
from ..speed.time_shares import around, tree_of
from . import value_flow
from .input_derivatives import _by_inputs, _graph
from .no_grad_calls import called_quietly

NUMPY = {"power": "pow", "multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div",
         "absolute": "abs", "concatenate": "cat", "clip": "clamp"}  # fmt: skip
COMPARISONS = {"gt", "ge", "lt", "le", "eq", "ne"}
LOGITS = {"binary_cross_entropy_with_logits", "cross_entropy"}  # losses that apply a sigmoid or a softmax themselves
LEAVING = {"detach", "numpy", "cpu", "item", "tolist", "data", "detach_"}


def subject(code: str) -> str:
    """What `code` takes values from: "`h`" of ``h.detach().numpy()``.

    >>> subject("h.detach().numpy()"), subject("core.tensor(h)"), subject("f(")
    ('`h`', '`h`', 'a tensor')
    """
    try:
        tree = syntax.expression(code)
    except (SyntaxError, ValueError):
        return "a tensor"
    while True:
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and tree.func.attr in LEAVING:
            tree = tree.func.value
        elif isinstance(tree, ast.Attribute) and tree.attr in LEAVING:
            tree = tree.value
        elif isinstance(tree, ast.Call) and ast.unparse(tree.func).endswith("nn.Parameter") and tree.args:
            tree = tree.args[0]
        elif isinstance(tree, ast.Call) and operand(code, 0) and tree.args:
            return f"`{operand(code, 0)}`"
        else:
            text = ast.unparse(tree)
            return f"`{text}`" if len(text) <= 40 else "a tensor"


def mended(trace: Trace, row: Row, last: Row, back: Row | None) -> str:
    if row.quiet and grad_switch(trace, where(trace, row.chain)[0]) is not None:
        return "Look at its condition: it must be True where these parameters shall train."
    if row.quiet:
        own = [place for place in row.chain if place[0].co_filename in trace.files]
        within = called_quietly(trace, row)
        if within is None and len(own) > 1 and own[0][0].co_name not in ("forward", "<lambda>", "<listcomp>"):
            function, at = own[0][0].co_name, where(trace, tuple(own[1:2]))[0]
            return (
                f"Call the model itself on line {at}: {function}() runs it under no_grad, which is right to look only."
            )
        block = f" on line {within[1]}" if within else ""
        return f"Run it outside no_grad{block} if these parameters shall train."
    if "multinomial(" in code_of(trace, last):
        return (
            "Train by the log-probability of what was drawn (REINFORCE), or go on with gumbel_softmax: a draw has none."
        )
    if not last.cut:
        return _smooth(trace, row, last)
    done = []
    for place, what in back.steps if back is not None else ():
        name = what.removeprefix("np.")
        name = NUMPY.get(name, name)
        if what.startswith("np.") and name in declarations.functions and place is not None:
            done.append(f"{library(trace)}.{name} in place of {what} ({where(trace, (place,))[2]})")
    done = done or _numpy_calls(trace, last)
    if done:
        return f"Stay on the graph: {listed(list(dict.fromkeys(done)))}."
    if last.cut == "parameter":
        return "Leave out nn.Parameter() and go on with the tensor; parameters are made once, in __init__."
    if last.cut == "cast":
        return "Integers have no gradient: go on with the floating-point values."
    if last.cut == "tensor":
        name = library(trace)
        given = subject(code_of(trace, last)).strip("`")
        if len(last.refs) > 1 and all(not ref.shape for ref in last.refs) and given.isidentifier():
            return f"Add the tensors themselves, sum({given}): {name}.tensor copies values alone."
        return f"Use the tensor itself, or {name}.stack for a list of tensors: {name}.tensor copies values alone."
    gone = {
        "detach": "detach()",
        "data": ".data",
        "numpy": "detach().numpy()",
        "item": ".item()",
        "tolist": ".tolist()",
    }
    how = gone.get(last.cut, last.cut)
    if last.cut == "item" and ".item(" not in code_of(trace, last):
        how = code_of(trace, last).partition("(")[0] + "()"
    return f"Leave out {how} and go on with the tensor."


def _numpy_calls(trace: Trace, cut: Row) -> list[str]:
    """What NumPy computes of values that left the graph, as the source tells, with an op in its place."""
    place = value_flow._raw(trace, cut)
    tree = trace.tree()
    if place is None or tree is None:
        return []
    span = value_flow._span(place)
    tainted = value_flow._tainted(value_flow._flows(tree), span)
    found = []
    for node in trace.nodes():
        at = value_flow._of(node) if isinstance(node, ast.Call) else None
        if at is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        what = ast.unparse(node.func)
        name = NUMPY.get(node.func.attr, node.func.attr)
        if not what.startswith(("np.", "numpy.")) or name not in declarations.functions:
            continue
        read = {n for part in node.args for n in value_flow._read(part)}
        if at[0] >= span[0] and (value_flow._inside(span, at) or read & tainted):
            line = at[0] + (place.line - span[0])
            found.append(f"{library(trace)}.{name} in place of {what} (line {line})")
    return list(dict.fromkeys(found))[:3]


def _smooth(trace: Trace, row: Row, last: Row) -> str:
    """What has a gradient in place of an op that has none."""
    if row.op in COMPARISONS:
        try:
            tree = syntax.expression(code_of(trace, last).strip())
        except (SyntaxError, ValueError):
            tree = None
        if isinstance(tree, ast.Compare):
            left = ast.unparse(tree.left)
            known = _probability(row) or "sigmoid" in left or "softmax" in left
            soft = left if known or any(r.op in LOGITS for r in trace.rows) else f"torch.sigmoid({left})"
            return f"Go on with the value that is compared: {soft}; compare only where it is judged."
        return "Go on with the value that is compared, or a sigmoid of it; compare only where it is judged."
    if row.op == "argmax" and (mean := _mean_of_table(trace, row)):
        return mean
    if row.op in ("argmax", "one_hot"):
        return "Go on with softmax(logits), or where one must be chosen with F.gumbel_softmax(logits, hard=True)."
    return f"Use a form of `{row.op}` that has a gradient: softmax for argmax, a sigmoid for a comparison."


def _mean_of_table(trace: Trace, row: Row) -> str:
    """The remedy for an argmax by which an entry of a table is taken, ``grid[torch.argmax(scores, dim=1)]``; "" where
    it is used in another way."""
    nodes = around(trace, row.chain[0]) if row.chain else []
    call = next((n for n in nodes if isinstance(n, ast.Call) and called(n) == "argmax"), None)
    of = operands(call) if call is not None else []
    if call is None or not of or not row.refs or len(ast.unparse(of[0])) > 40:
        return ""
    dims = [*of[1:2], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
    dim = ast.unparse(dims[0]) if dims else ""
    if dim not in ("-1", str(len(row.refs[0].shape) - 1)):
        return ""
    name = next((n.targets[0].id for n in nodes if isinstance(n, ast.Assign) and n.value is call
                 and isinstance(n.targets[0], ast.Name)), "")  # fmt: skip
    body = next((n for n in nodes if isinstance(n, Function)), None) or tree_of(trace, row.chain[0][0].co_filename)
    for node in ast.walk(body) if body is not None else ():
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name | ast.Attribute):
            by = node.slice
            if (isinstance(by, ast.Name) and by.id == name) or ast.unparse(by) == ast.unparse(call):
                table, scores = ast.unparse(node.value), ast.unparse(of[0])
                return (
                    f"Take the mean of the table by the probabilities, which has a gradient: torch.softmax({scores}, "
                    f"dim={dim}) @ {table} in place of {ast.unparse(node)}; or compare {scores} with the right place "
                    "itself: F.cross_entropy."
                )
    return ""


def _probability(row: Row) -> bool:
    """Whether what an op reads is a probability already: the output of a sigmoid or a softmax, through views."""
    ref = row.refs[0] if row.refs else None
    while isinstance(ref, Row) and ref.view and ref.refs:
        ref = ref.refs[0]
    return isinstance(ref, Row) and ref.op in ("sigmoid", "softmax")


def straight_through(last: Row, readers: dict[Ref, list[Row]]) -> str:
    """The remedy where the cut is that of a straight-through estimator, ``x + (q - x).detach()``, and q is to train."""
    source_of = last.refs[0] if last.refs else None
    if last.cut != "detach" or not isinstance(source_of, Row) or source_of.op != "sub":
        return ""
    ends = [r for r in readers.get(last, ()) if r.op == "add" and r.requires_grad]
    if not any(ref in source_of.refs for end in ends for ref in end.refs):
        return ""
    return (
        "The detach is right where it passes the gradient by a step that has none. Give what is inside it a loss of "
        "its own: F.mse_loss(q, x.detach()) for x + (q - x).detach()."
    )


def derivative_without_graph(trace: Trace, leaves: list[Leaf]) -> tuple[str, Place, ast.Call, ast.Call] | None:
    """A value that autograd.grad gave without create_graph, where nothing else led to what is derived again: its name,
    where it was taken, by which call, and the call that create_graph is to be given to."""
    named = [leaf for leaf in leaves if not leaf.module and not leaf.requires_grad]
    if not trace.chosen or not named or len(named) < len(leaves):
        return None
    names = {leaf.name for leaf in named}
    for source in sources(trace):
        for pair in (p for p in assigned(source.nodes) if p.name in names):
            for call in (n for n in ast.walk(pair.value) if isinstance(n, ast.Call)):
                function = None if _by_inputs(call) else function_of(source, call)
                inner = [call] if function is None else [n for n in ast.walk(function) if isinstance(n, ast.Call)]
                inner = [n for n in inner if _by_inputs(n)]
                if inner and not any(_graph(n) for n in (call, *inner)):
                    return pair.name, source.place(call), call, call if _takes_graph(function) else inner[0]
    return None


def _takes_graph(function: ast.AST | None) -> bool:
    """Whether create_graph can be given where a derivative is taken: to autograd.grad itself, or a function's **kw."""
    args = getattr(function, "args", None)
    return args is None or args.kwarg is not None or "create_graph" in {a.arg for a in (*args.args, *args.kwonlyargs)}


def with_graph(call: ast.Call) -> str:
    """Return a call that keeps a graph of the derivative that it takes.

    >>> with_graph(ast.parse("grad(u, x, retain_graph=True)", mode="eval").body)
    'grad(u, x, create_graph=True)'
    """
    kept = [k for k in call.keywords if k.arg not in ("create_graph", "retain_graph")]
    graph = ast.keyword("create_graph", ast.Constant(True))
    return ast.unparse(ast.Call(call.func, call.args, [*kept, graph]))


def grad_switch(trace: Trace, line: int | None) -> tuple[int, str] | None:
    """The `with set_grad_enabled(condition)` around a line."""
    blocks = [n for n in trace.nodes() if isinstance(n, ast.With)]
    for block in blocks:
        code = ast.unparse(block.items[0].context_expr)
        inside = line is not None and block.lineno <= line <= last_line(block)
        if inside and "set_grad_enabled(" in code and not code.endswith("(False)"):
            return block.lineno, code
    return None
