"""Inputs on another scale than was meant: statistics of images from 0 to 1 on bytes, one mean for all columns of a
table, noise that is drawn once for all epochs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import name_of
from ..reading.scope import Scope, tell
from ..reading.sources import called, sources

BYTES = 30.0  # a value above it is no share
SHARES = re.compile(r"0\.485|0\.4914|0\.1307|0\.5071|0\.229|0\.2470|0\.3081")
WHOLE = {"stack", "column_stack", "c_", "hstack", "concatenate", "cat", "vstack", "concat"}
DRAWS = re.compile(r"^(rand|randn|randn_like|rand_like|normal|uniform|standard_normal|randint|normal_|uniform_)$")


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
    t = ref.tensor()
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
        if ast.unparse(less.right) != f"{name}.mean()" or not ast.unparse(node.right).startswith(f"{name}.std()"):
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
                if not adds or not draws or not train:
                    continue
                says = (
                    f"draws the noise of the augmentation once, when the set is made (`{ast.unparse(node)}`): every "
                    "epoch shows the same distorted samples, which the model learns by heart."
                )
                return tell(source, node, "data", "note", says, "Draw it in __getitem__, for each sample anew.")
    return []
