"""Inputs on another scale than was meant: statistics of images from 0 to 1 on bytes, one mean for all columns of a
table, noise that is drawn once for all epochs, samples that are scaled for the training alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import name_of, operands
from ..reading.expressions import Flow, defaults
from ..reading.scope import Scope, tell
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

BYTES = 30.0  # a value above it is no share
SHARES = re.compile(r"0\.485|0\.4914|0\.1307|0\.5071|0\.229|0\.2470|0\.3081")
WHOLE = {"stack", "column_stack", "c_", "hstack", "concatenate", "cat", "vstack", "concat"}
DRAWS = re.compile(r"^(rand|randn|randn_like|rand_like|normal|uniform|standard_normal|randint|normal_|uniform_)$")
FOR_TRAINING = re.compile(r"(self\.)?(is_)?train|(self\.)?(split|mode|part|phase|subset) == 'train(ing)?'")
SCALES = re.compile(r"^(normali[sz]e|standardi[sz]e|rescale)$")
ELSE = re.compile(r"\bFalse\b|val|test|dev\b|eval", re.I)


@rule(769)
def shares_for_bytes(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(images - 0.485) / 0.229`` of images from 0 to 255."""
    if not any(SHARES.search(source.text) for source in sources(trace)):
        return []
    for row in trace.rows:
        if row.op not in ("sub", "normalize") or not row.refs or len(row.shape) < 2 or row.requires_grad:
            continue
        high = _largest(row.refs[0])
        low = _largest(row.refs[1]) if len(row.refs) > 1 else None
        code = code_of(trace, row)
        if high is None or high < BYTES or (low is not None and not 0 < low < 1):
            continue
        if low is None and not SHARES.search(code) and not re.search(r"mean|MEAN", code):
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} normalises images of 0 to {high:.0f} (`{code}`) with the mean and spread of images of 0 to "
            "1: what "
            "comes out is hundreds of spreads away from 0."
        )
        return [Found("data", "warning", line, col, message, "Bring them to 0 to 1 first: images / 255.", [row])]
    return []


def _largest(ref: Ref) -> float | None:
    """The largest value of a tensor, as far as it is known."""
    if isinstance(ref, Row):
        if ref.stats is None and ref.refs and (ref.view or ref.cut):
            return _largest(ref.refs[0])
        return ref.stats.max if ref.stats is not None else None
    t = ref.alive()
    if t is None or t._kind.device.type != "cpu" or not t._a.size:
        return ref.span[1] if ref.span is not None else None
    return float(t._a.max())


@text_rule(770, earlier=True)
def one_scale_for_all(scope: Scope) -> Iterator[Found]:
    """``X = (X - X.mean()) / X.std()`` of a table of different columns: the small ones vanish beside the large."""
    flow = scope.flow
    for node in flow.of(ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        less = node.left
        if not isinstance(less, ast.BinOp) or not isinstance(less.op, ast.Sub) or not isinstance(less.left, ast.Name):
            continue
        name = less.left.id
        if not _one_figure(flow, less.right, name, "mean") or not _one_figure(flow, node.right, name, "std"):
            continue
        made = flow.value(less.left)
        columns = _columns(made) if made is not None else []
        if len({name_of(c) for c in columns} - {""}) < 2:
            continue
        says = (
            f"takes one mean and one spread for all columns (`{ast.unparse(node)}`): {name_of(columns[0])}, "
            f"{name_of(columns[1])} and the others are of different sizes, and the small ones end as a constant."
        )
        yield scope.tell(node, "data", says, f"Take them of each column: {name}.mean(0), {name}.std(0).", "note")


def _one_figure(flow: Flow, node: ast.expr, name: str, kind: str) -> bool:
    """Whether an expression is one mean or spread of a whole table, or of some of its rows; plus a small number."""
    inner = flow.inner(node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else node)
    of = operands(inner)
    if called(inner) != kind or len(of) != 1 or inner.keywords:  # type: ignore[attr-defined]
        return False
    base = of[0].value if isinstance(of[0], ast.Subscript) and not isinstance(of[0].slice, ast.Tuple) else of[0]
    return ast.unparse(base) == name


def _columns(node: ast.expr) -> list[ast.expr]:
    """The columns that a table is put together of."""
    if isinstance(node, ast.Subscript) and name_of(node.value) == "c_" and isinstance(node.slice, ast.Tuple):
        return node.slice.elts
    if (
        isinstance(node, ast.Call)
        and called(node) in WHOLE
        and node.args
        and isinstance(node.args[0], ast.List | ast.Tuple)
    ):
        along = ast.unparse(node)
        columns = called(node) == "column_stack" or re.search(r"(dim|axis)=(1|-1)|, (1|-1)\)$", along)
        return node.args[0].elts if columns else []
    return _columns(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else []


@rule(771)
def drawn_once(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Noise that ``__init__`` of a data set adds for the training: every epoch sees the same."""
    for source in sources(trace):
        for kind in source.nodes:
            if not isinstance(kind, ast.ClassDef) or not any(
                isinstance(n, ast.FunctionDef) and n.name == "__getitem__" for n in kind.body
            ):
                continue
            begin = next((n for n in kind.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
            for node in ast.walk(begin) if begin is not None else ():
                if not isinstance(node, ast.Assign) or not ast.unparse(node.targets[0]).startswith("self."):
                    continue
                above = [a for a in source.around(node) if isinstance(a, ast.If)]
                adds = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add)
                draws = [n for n in ast.walk(node.value) if DRAWS.match(called(n))]
                train = any(re.search(r"train|aug", ast.unparse(a.test), re.I) for a in above)
                train = train or (adds and _for_one_part(sources(trace), kind, begin, node.value))
                if not adds or not draws or not train:
                    continue
                says = (
                    f"draws the noise of the augmentation once, when the set is made (`{ast.unparse(node)}`): every "
                    "epoch shows the same distorted samples, which the model learns by heart."
                )
                return tell(source, node, "data", "note", says, "Draw it in __getitem__, for each sample anew.")
    return []


def _for_one_part(found: list[Source], kind: ast.ClassDef, begin: ast.FunctionDef | None, value: ast.AST) -> bool:
    """Whether noise is weighed by an argument that is 0 by default, and that one set is given and another is not."""
    settings = defaults(begin) if begin is not None else {}
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} & settings.keys()
    weights = [name for name in names if getattr(settings[name], "value", None) == 0]
    calls = [n for source in found for n in source.calls.get(kind.name, ())]
    given = [any(k.arg == name for k in call.keywords) for name in weights for call in calls]
    return any(given) and not all(given)


@rule(797)
def scaled_for_training_alone(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``if self.train: x = (x - MEAN) / STD`` in ``__getitem__``: other samples reach the model as they are."""
    found = sources(trace)
    for source in found:
        for function in (n for n in source.nodes if isinstance(n, Function)):
            nodes = list(own_nodes(function))
            ends = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
            for branch in (n for n in nodes if isinstance(n, ast.If) and not n.orelse):
                if not FOR_TRAINING.fullmatch(ast.unparse(branch.test)):
                    continue
                for node in branch.body:
                    name = _scaled(node)
                    again = any(_scaled(n) == name for n in nodes if n not in branch.body)
                    if not name or again or not any(name in names_in(end) for end in ends):
                        continue
                    if _scaled_elsewhere(found, node) or not _for_both(found, source, function):
                        continue
                    says = (
                        f"scales {name} for the training alone (`{ast.unparse(node)}` under "
                        f"`if {ast.unparse(branch.test)}`): the other samples reach the model as they are, in another "
                        "range than it was trained in."
                    )
                    remedy = f"Scale all samples alike: move `{ast.unparse(node)}` out of the branch."
                    told = tell(source, node, "data", "warning", says, remedy)
                    loops = {bool(fetched.steps) for fetched in trace.fetched.values()}
                    told[0].proof = "loaders gave samples with steps and without" if len(loops) > 1 else ""
                    return told
    return []


def _scaled(node: ast.AST) -> str:
    """The variable that a statement brings to another scale, by figures that are not drawn: ``x = (x - M) / S``,
    ``x = normalize(x, M, S)``; "" of any other."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name) or target.id not in names_in(node.value):
        return ""
    value, draws = node.value, any(DRAWS.match(called(n)) for n in ast.walk(node.value))
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        less = value.left
        by = isinstance(less, ast.BinOp) and isinstance(less.op, ast.Sub) and ast.unparse(less.left) == target.id
    elif called(value) in ("div", "div_"):
        of = operands(value)[0]
        by = called(of) in ("sub", "sub_") and ast.unparse(operands(of)[0]) == target.id
    else:
        by = isinstance(value, ast.Call) and SCALES.match(called(value)) is not None
    return target.id if by and not draws else ""


def _scaled_elsewhere(found: list[Source], node: ast.AST) -> bool:
    """Whether the mean and spread of a statement are read anywhere else: the other samples may be scaled there."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node
    inside = set(ast.walk(node))
    figures = {name_of(n) for n in inside} - {name_of(target), "self", "torch", "np", "F", ""}
    read = [n for source in found for n in source.nodes if isinstance(n, ast.Name | ast.Attribute)]
    return any(isinstance(n.ctx, ast.Load) and name_of(n) in figures and n not in inside for n in read)


def _for_both(found: list[Source], source: Source, function: Function) -> bool:
    """Whether a function, or a class by its method, is called for the training and for other samples."""
    above = source.parents.get(function)
    if isinstance(above, ast.ClassDef) and function.name not in ("__getitem__", "__call__"):
        return False
    name = above.name if isinstance(above, ast.ClassDef) else function.name
    texts = {" ".join(ast.unparse(a) for a in (*n.args, *n.keywords)) for one in found for n in one.calls.get(name, ())}
    others = [text for text in texts if ELSE.search(text)]
    return 0 < len(others) < len(texts)
