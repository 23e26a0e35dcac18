"""Targets and test samples that a model gets to see: the target among the inputs, copies on both sides of a split, two
sets of one seed, means of the targets, a smoothing that looks ahead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import bare, function_of, given, name_of
from ..reading.expressions import Flow
from ..reading.scope import Scope, calls, flows, index_of, taken_out, tell
from ..reading.sources import Pair, Source, assigned, called, sources
from .held_out import TRAIN, splits_in

INPUTS = re.compile(r"^(x|xs|X\w*|feat\w*|features?|inputs?|data_x|x_\w+)$")
TARGETS = re.compile(r"^(y|ys|Y\w*|target\w*|labels?|y_\w+)$")
REPEATS = {"concatenate", "cat", "vstack", "concat", "hstack", "fit_resample", "resample", "repeat_interleave",
           "ConcatDataset"}  # fmt: skip


@text_rule(761, trains=True, earlier=True)
def target_among_inputs(scope: Scope) -> Iterator[Found]:
    """``X = table; y = table[:, -1]``: the column that is to be predicted is one of the inputs."""
    source, flow = scope.source, scope.flow
    pairs = list(assigned(flow.nodes))
    yield from _all_columns(scope, pairs)
    for pair in pairs:
        part = bare(pair.value)
        if not TARGETS.match(pair.name) or not _column(part):
            continue
        table = ast.unparse(bare(part.value))  # type: ignore[attr-defined]
        for other in pairs:
            whole = bare(other.value)
            same = ast.unparse(whole) == table or ast.unparse(bare(_all(whole))) == table
            if other is pair or not same or not INPUTS.match(other.name) or other.name == table:
                continue
            cut = [
                n
                for n in flow.nodes
                if isinstance(n, ast.Subscript)
                and ast.unparse(n.value) in (other.name, table)
                and ":-1" in ast.unparse(n.slice)
            ] + [n for n in flow.nodes if called(n) in ("delete", "drop", "pop")]
            if cut:
                continue
            says = (
                f"takes the whole table as inputs (`{ast.unparse(other.node)}`), with the column that is the "
                "target "
                f"({source.place(pair.node).words}: `{ast.unparse(pair.node)}`): the model only has to copy it."
            )
            remedy = f"Leave it out: {other.name} = {table}[:, :-1]."
            yield scope.tell(other.node, "evaluation", says, remedy)


def _all_columns(scope: Scope, pairs: list[Pair]) -> Iterator[Found]:
    """``X = np.stack([table[c] for c in table])``, where a loss compares with ``table["price"]``."""
    for pair in pairs:
        for made in (n for n in ast.walk(pair.value) if isinstance(n, ast.ListComp | ast.GeneratorExp)):
            loop, of = made.generators[0], made.elt
            table = re.sub(r"\.(columns|keys\(\))$", "", ast.unparse(loop.iter))
            if (
                loop.ifs
                or not isinstance(of, ast.Subscript)
                or ast.unparse(of.value) != table
                or len(made.generators) > 1
            ):
                continue
            if ast.unparse(of.slice) != ast.unparse(loop.target):
                continue
            taken = [n for n in scope.nodes if isinstance(n, ast.Delete) or called(n) in ("pop", "drop")]
            compared = {_base(bare(side)) for both in scope.index.pairs for side in both[:2]}
            for other in pairs if not taken else ():
                part = bare(other.value)
                if (
                    not isinstance(part, ast.Subscript)
                    or ast.unparse(part.value) != table
                    or other.name not in compared
                ):
                    continue
                says = (
                    f"takes all columns of {table} as inputs (`{ast.unparse(pair.node)}`), with the one that is the "
                    f"target ({scope.place(other.node).words}: `{ast.unparse(other.node)}`): the model only has to "
                    "copy it."
                )
                remedy = (
                    f"Leave it out: ... for {ast.unparse(loop.target)} in {table} if {ast.unparse(loop.target)} != "
                )
                yield scope.tell(pair.node, "evaluation", says, f"{remedy}{ast.unparse(part.slice)}.")


def _column(node: ast.expr) -> bool:
    """Whether it is one column of a table: ``t[:, -1]``."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple) or len(node.slice.elts) != 2:
        return False
    rows, column = node.slice.elts
    number = column.operand if isinstance(column, ast.UnaryOp) else column
    whole = isinstance(rows, ast.Slice) and rows.lower is None and rows.upper is None
    return whole and isinstance(number, ast.Constant) and isinstance(number.value, int)


def _all(node: ast.expr) -> ast.expr:
    """What ``t[:]`` or ``t[:, :]`` is all of."""
    if isinstance(node, ast.Subscript) and re.fullmatch(r":|\(?:, :\)?", ast.unparse(node.slice)):
        return node.value
    return node


@text_rule(762, trains=True, earlier=True)
def copies_on_both_sides(scope: Scope) -> Iterator[Found]:
    """Samples of a rare class that are repeated before the split: copies of one stand in both parts."""
    source, flow = scope.source, scope.flow
    pairs = list(assigned(flow.nodes))
    for pair in pairs if REPEATS & source.calls.keys() else ():
        if not _repeats(flow, pair.value, pair.name):
            continue
        later = [n for n in flow.nodes if getattr(n, "lineno", 0) > pair.node.lineno]
        split = splits_in(later, pairs).get(pair.name)
        if split is None:
            continue
        says = (
            f"repeats samples (`{ast.unparse(pair.node)}`) before {source.place(split.node).words} takes the "
            "parts: "
            "copies of one sample stand in both, so the model is judged by what it was trained on."
        )
        yield scope.tell(pair.node, "evaluation", says, "Split first, and repeat in the training part.")


def _listed(node: ast.expr) -> list[ast.expr]:
    """The members of ``[a, b]`` and of ``[a] + [b] * 5``."""
    if isinstance(node, ast.List | ast.Tuple):
        return node.elts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_listed(node.left), *_listed(node.right)]
    return _listed(node.left) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else []


def _repeats(flow: Flow, node: ast.expr, name: str) -> bool:
    """Whether an expression is a table with some of its own rows once more."""
    if called(node) == "ConcatDataset" and isinstance(node, ast.Call) and node.args:
        return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) and isinstance(n.left, ast.List)
                   for n in ast.walk(node.args[0]))  # fmt: skip
    if called(node) in ("fit_resample", "resample", "repeat_interleave", "SMOTE"):
        return called(node) != "repeat_interleave" or name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if (
        called(node) not in ("concatenate", "cat", "vstack", "concat", "hstack")
        or not isinstance(node, ast.Call)
        or not node.args
    ):
        return False
    parts = _listed(node.args[0])
    texts = [ast.unparse(p) for p in parts]
    some = [flow.inner(p) for p in parts]
    own = [
        p for p in some
        if any(isinstance(n, ast.Subscript) and ast.unparse(n.value) == name for n in ast.walk(p))
    ]  # fmt: skip
    return name in texts and len(own) >= 1 and len(parts) > 1


@text_rule(765, trains=True, earlier=True)
def means_of_targets(scope: Scope) -> Iterator[Found]:
    """``{c: y[city == c].mean() for c in cities}`` over all samples, and a split afterwards."""
    source, flow = scope.source, scope.flow
    pairs = list(assigned(flow.nodes))
    yield from _coded_by_targets(scope, pairs)
    for node in flow.of(ast.DictComp):
        if not isinstance(node, ast.DictComp) or called(bare(node.value)) not in ("mean", "sum", "median"):
            continue
        inner = bare(node.value)
        of = getattr(inner.func, "value", None) if not inner.args else inner.args[0]  # type: ignore[attr-defined]
        if not isinstance(of, ast.Subscript) or not isinstance(of.slice, ast.Compare):
            continue
        name = name_of(of.value)
        splits = splits_in([n for n in flow.nodes if getattr(n, "lineno", 0) > node.lineno], pairs)
        aliases = {name} | {p.name for p in pairs if name_of(bare(p.value)) == name}
        split = next((splits[a] for a in aliases if a in splits and splits[a].node.lineno > node.lineno), None)  # type: ignore[attr-defined]
        if split is None or TRAIN.search(name) or not TARGETS.match(name):
            continue
        says = (
            f"makes inputs of the targets' means over all samples (`{ast.unparse(node)}`), and "
            f"{source.place(split.node).words} takes the test part afterwards: its targets are in its inputs."
        )
        yield scope.tell(node, "evaluation", says, "Split first, and take the means of the training part.")


def _coded_by_targets(scope: Scope, pairs: list[Pair]) -> Iterator[Found]:
    """``inputs = stack([..., mean_of(shop, sales)])`` of a function that averages what it is given for each key."""
    compared = {_base(bare(side)) for both in scope.index.pairs for side in both[:2]}
    for pair in pairs:
        for call in (n for n in ast.walk(pair.value) if isinstance(n, ast.Call)):
            function = function_of(scope.source, call)
            names = [a.arg for a in function.args.args] if function is not None else []
            summed = [
                weights.id
                for n in (ast.walk(function) if function is not None else ())
                if called(n) == "bincount" and isinstance(weights := given(n, "weights", 1), ast.Name)  # type: ignore[arg-type]
            ]
            if not summed or summed[0] not in names or names.index(summed[0]) >= len(call.args):
                continue
            value = ast.unparse(call.args[names.index(summed[0])])
            targets = {value} | {p.name for p in pairs if ast.unparse(bare(p.value)) == value}
            splits = splits_in([n for n in scope.nodes if getattr(n, "lineno", 0) > call.lineno], pairs)
            if not targets & compared or pair.name not in splits or not targets & splits.keys():
                continue
            says = (
                f"makes inputs of the targets' means over all samples (`{ast.unparse(call)}`), and "
                f"{scope.place(splits[pair.name].node).words} takes the test part afterwards: its targets are in its "
                "inputs."
            )
            yield scope.tell(call, "evaluation", says, "Split first, and take the means of the training part.")


@rule(766)
def looks_ahead(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A mean over neighbours on both sides among the inputs of a forecast, or a causal convolution that is none."""
    for source, node in calls(trace, "Conv1d"):
        kind = next((a for a in source.around(node) if isinstance(a, ast.ClassDef)), None)
        pad = given(node, "padding", 4)
        if kind is None or pad is None:
            continue
        if not re.search(r"causal|tcn|temporalblock", kind.name, re.I) and not _next_steps(trace):
            continue
        both = re.search(r"//\s*2", ast.unparse(pad))
        cut = any(
            (isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and re.search(r": ?-", ast.unparse(n)))
            or called(n) in ("pad", "narrow") or re.search(r"chomp|crop", called(n), re.I)
            for n in ast.walk(kind)
        )  # fmt: skip
        if both and not cut:
            says = (
                f"pads a causal convolution on both sides (`{ast.unparse(node)}`): each step sees as many steps "
                "ahead as "
                "behind it, and what is to be forecast is among them."
            )
            remedy = "Pad the left alone: F.pad(x, ((k - 1) * dilation, 0)), and padding=0."
            found = tell(source, node, "evaluation", "warning", says, remedy)
            found[0].rows = [r for r in trace.rows if "conv" in r.op and r.refs[0].shape[-1:] == r.shape[-1:]][:1]
            return found
    for source, node in calls(trace, "avg_pool1d", "convolve"):
        if not trace.steps.count or not _ahead(trace):
            break
        text = ast.unparse(node)
        centred = "// 2" in text if called(node) == "avg_pool1d" else re.search(r"same", text)
        if not centred or (called(node) == "avg_pool1d" and not re.search(r"stride=1|, 1,", text)):
            continue
        if any(isinstance(a, ast.ClassDef) for a in source.around(node)):
            continue
        says = (
            f"smooths a series over both sides (`{text}`): a value holds steps that come after it, which a forecast "
            "cannot know."
        )
        return tell(source, node, "evaluation", "note", says, "Take the steps before it alone: pad the left side.")
    return []


def _next_steps(trace: Trace) -> bool:
    """Whether a loss compares what a model gives for each of ``s[:-1]`` with ``s[1:]``."""
    for source, flow in flows(trace):
        for pair in index_of(flow).pairs:
            for asked, truth in (pair[:2], pair[1::-1]):
                inner = flow.inner(asked)
                if not isinstance(inner, ast.Call) or len(inner.args) != 1:
                    continue
                first, later = (_slice_of(source, flow, n) for n in (inner.args[0], truth))
                if (
                    first is not None
                    and later is not None
                    and first[1:] == (":-1", "")
                    and later == (first[0], "", "1:")
                ):
                    return True
    return False


def _slice_of(source: Source, flow: Flow, node: ast.expr) -> tuple[str, str, str] | None:
    """Of ``s[:-1]`` and ``s[1:]``, also returned by a function, what is cut and where: as (s, ":-1", "")."""
    inner = bare(node)
    value = flow.value(inner) if isinstance(inner, ast.Name) else inner
    if value is None and isinstance(inner, ast.Name):
        taken = taken_out(flow, inner)
        function = function_of(source, taken.value) if taken is not None and isinstance(taken.value, ast.Call) else None
        ends = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)] if function is not None else []
        if len(ends) != 1 or not isinstance(ends[0], ast.Tuple) or taken is None:
            return None
        value = ends[0].elts[taken.slice.value]  # type: ignore[attr-defined]
    value = bare(value) if value is not None else None
    if not isinstance(value, ast.Subscript):
        return None
    part = value.slice.elts[-1] if isinstance(value.slice, ast.Tuple) and value.slice.elts else value.slice
    text = ast.unparse(part)
    return (ast.unparse(value.value), text if text == ":-1" else "", text if text == "1:" else "")


def _ahead(trace: Trace) -> bool:
    """Whether a text takes the values of a next step as targets."""
    return any(re.search(r"=\s*\w+\[1:\]|\[:-1\]|\+ 1\b|horizon", s.text) for s in sources(trace))


@text_rule(767, trains=True, earlier=True)
def other_units(scope: Scope) -> Iterator[Found]:
    """A model of scaled targets whose predictions are compared with targets that are not."""
    source, flow = scope.source, scope.flow
    scaled: dict[str, tuple[str, ast.expr, str]] = {}
    for pair in assigned(flow.nodes):
        how = _transform(pair.value)
        if how is not None and pair.name != how[0]:
            scaled[pair.name] = (how[0], pair.value, how[1])
    inline = {}
    for call in source.calls.get("TensorDataset", ()):
        for given_one in call.args[1:]:
            how = _transform(given_one)
            if how is not None and call in flow.of(ast.Call):
                inline[ast.unparse(given_one)] = (how[0], given_one, how[1])
    scaled |= inline  # type: ignore[arg-type]
    if not scaled:
        return
    trained = _read_by_losses(flow)
    for name, (raw, value, back) in scaled.items():
        if name not in inline and (name not in trained or raw in trained):
            continue
        roots = {leaf.name.partition(".")[0] for leaf in scope.trace.optimized}
        found = _compared(flow, raw, roots, back)
        if found is None:
            continue
        compare, predicted = found
        says = (
            f"compares predictions with {raw} as it is (`{ast.unparse(compare)}`): the model was trained on "
            f"{name} (`{ast.unparse(value)}`), so {predicted} is in other units."
        )
        remedy = f"Bring them back first: {back.format(predicted)}."
        yield scope.tell(compare, "evaluation", says, remedy)


def _transform(node: ast.expr) -> tuple[str, str] | None:
    """The variable that an expression scales, and how its values are brought back."""
    node = bare(node)
    if (
        isinstance(node, ast.Call)
        and called(node) in ("log1p", "log")
        and (node.args or isinstance(node.func, ast.Attribute))
    ):
        of = node.args[0] if node.args else node.func.value  # type: ignore[attr-defined]
        return (_base(of), "torch.expm1({})" if called(node) == "log1p" else "torch.exp({})") if _base(of) else None
    less = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None
    if isinstance(less, ast.BinOp) and isinstance(less.op, ast.Sub) and _base(less.left):
        width = re.sub(r"[{}]", "", ast.unparse(node.right))  # type: ignore[attr-defined]
        return _base(less.left), "{} * " + f"{width} + {ast.unparse(less.right)}"
    return None


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _read_by_losses(flow: Flow) -> set[str]:
    """The variables that a loss reads in a loop with backward(), data sets and their parts put in."""
    found: set[str] = set()
    for loop in flow.of(ast.For):
        if not isinstance(loop, ast.For) or not any(called(n) == "backward" for n in ast.walk(loop)):
            continue
        found |= {n.id for n in ast.walk(loop) if isinstance(n, ast.Name)}
    for pair in assigned(flow.nodes):
        if pair.name in found and called(pair.value) in ("DataLoader", "TensorDataset"):
            found |= {n.id for n in ast.walk(pair.value) if isinstance(n, ast.Name)}
    for _ in range(3):
        for pair in assigned(flow.nodes):
            if pair.name in found and _transform(pair.value) is None:
                base = _base(bare(pair.value))
                found |= {base} if base else set()
                if isinstance(pair.value, ast.Call):
                    found |= {_base(bare(a)) for a in pair.value.args}
    return found - {""}


def _compared(flow: Flow, raw: str, models: set[str], back: str) -> tuple[ast.AST, str] | None:
    """The comparison of a prediction with a variable, and the prediction's name."""
    for node in flow.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            sides: list[ast.expr] = [node.left, node.right]
        elif (
            isinstance(node, ast.Call)
            and re.search(r"mse|mae|l1_loss|rmse|r2|mape", called(node), re.I)
            and len(node.args) > 1
        ):
            sides = node.args[:2]
        else:
            continue
        for one, other in (sides, sides[::-1]):
            truth = _base(other)
            if truth != raw and _base(bare(flow.inner(other))) != raw:
                continue
            inner = bare(flow.inner(one))
            while isinstance(inner, ast.Subscript):
                inner = bare(inner.value)
            text = ast.unparse(inner)
            model = isinstance(inner, ast.Call) and called(inner) not in ("exp", "expm1") and isinstance(one, ast.Name)
            if not model or not re.search(r"pred|hat|out|forecast|^p$|^yh", name_of(one), re.I) or "inverse" in text:
                continue
            if not any(
                isinstance(n, ast.Name) and (n.id in models or re.search(r"net|model|mlp|lstm|reg|head", n.id, re.I))
                for n in ast.walk(inner)
            ):
                continue
            return node, name_of(one)
    return None
