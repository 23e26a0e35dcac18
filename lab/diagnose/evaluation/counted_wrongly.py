"""Figures of an evaluation that say something else: padding among what is right, an F1 that is a mean over batches, a
model that has seen the fold that it is judged by."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, last_line, where
from ..order import rule, text_rule
from ..reading.calls import bare, equalities, functions, operands, rows_at
from ..reading.loaders import fetched_at, over_batches
from ..reading.scope import Scope
from ..reading.sources import Place, Source, assigned, called, names_in, own_nodes, sources

CASTS = {"cast", "float", "double", "to", "type", "half"}
MOSTLY = 0.3  # share of one target from which the loss is mostly of padding
PADDED = 0.05  # share of padding from which it is said
WHOLE = re.compile(
    r"(^|_)(f1|f_?beta|f_?score|precision|recall|auc|auroc|roc_auc|r2|matthews|mcc|kappa|pearson|spearman)(_|$|score)",
    re.I,
)
"""Figures of a whole set, which are no mean of those of its parts."""
MEAN = re.compile(
    r"(float\()?(\w*loss\w*(\.detach\(\))?|.*[\w)\]]\.mean\((dtype=[\w.]+)?\))(\.cpu\(\))?(\.item\(\))?\)?$"
)
"""A batch's loss as it is, or a mean over a batch: by no number of samples."""
EACH = re.compile(r"_at_|at_?k|top_?(k|\d)|per_|macro", re.I)
"""Figures that are one for each sample, and may be averaged."""


@rule(740)
def padding_counted(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An accuracy over all positions, of which the loss leaves some out."""
    readers = trace.consumers()
    for row, (share, ignored) in trace.values.padded.items():
        if share < PADDED or row not in trace.rows or not any(r.reached for r in trace.rows if r.op == "cross_entropy"):
            continue
        if not _averaged(row, readers):
            if (beside := _over_all(trace, row)) is not None:
                line, col, place = beside[0].place(beside[1])
                message = capital(
                    f"{place} counts padding (`{ast.unparse(beside[1])}`): {share:.0%} of the places are {ignored}, "
                    f"which the loss leaves out (ignore_index) and which `{code_of(trace, row)}` never finds right."
                )
                remedy = f"Count the others alone: (target != {ignored}).sum()."
                return [Found("evaluation", "warning", line, col, message, remedy, [row])]
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} counts padding: {share:.0%} of what `{code_of(trace, row)}` compares is {ignored}, which the "
            "loss "
            "leaves out (ignore_index), and the mean takes it in as right or wrong."
        )
        remedy = f"Count the others alone: keep = target != {ignored}; (pred == target)[keep].float().mean()."
        return [Found("evaluation", "warning", line, col, message, remedy, [row])]
    return []


@rule(739)
def padding_in_loss(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A loss over all places of sequences, of which many are padding."""
    for row, (value, share, ignored) in trace.values.commonest.items():
        if share < MOSTLY or ignored == value or row not in trace.rows or not row.reached:
            continue
        found = sources(trace)
        ends = {number for number, _ in trace.values.filled.values()}  # what the inputs are filled up with, as it ran
        if value not in ends and not any(value in _paddings(source) for source in found):
            continue
        line, col, place = where(trace, row.chain)
        for source in found:
            for node in source.nodes:
                if called(node) == "CrossEntropyLoss" and "ignore_index" not in ast.unparse(node):
                    line, col, place = source.place(node)
        does = f"{place} counts padding as right or wrong"
        remedy = f"Leave it out: CrossEntropyLoss(ignore_index={value}), and an accuracy over target != {value}."
        copied = next(_copied_labels(found), None)
        if copied is not None:
            there, node, labels = copied
            does = f"{there.words} copies the padding into the labels (`{ast.unparse(node)}`), and {does}"
            line, col = there.line, there.col
            number = -100 if ignored is None else ignored
            remedy = f"Leave it out, on the line after: {labels}[{labels} == {value}] = {number}."
        message = capital(
            f"{does}: {share:.0%} of the targets are {value}, with which sequences are filled up and which is easily "
            "learnt, so loss and accuracy look better than they are."
        )
        return [Found("evaluation", "warning", line, col, message, remedy, [row])]
    return []


def _copied_labels(found: list[Source]) -> Iterator[tuple[Place, ast.Assign, str]]:
    """Yield where labels are made as a copy of what the model reads: ``batch["labels"] = batch["input_ids"].clone()``;
    with what they are called."""
    for source in found:
        for call in source.calls.get("clone", ()):
            above = source.parents.get(call)
            if isinstance(above, ast.Assign) and "ids" in ast.unparse(call):
                target = ast.unparse(above.targets[0])
                if re.search(r"\blabels\b", target):
                    yield source.place(above), above, target


def _paddings(source: Source) -> set[int]:
    """The numbers by which a source fills up sequences."""
    constants = {p.name: p.value.value for p in assigned(source.nodes) if isinstance(p.value, ast.Constant)}
    found = set()
    for node in source.nodes:
        for k in node.keywords if isinstance(node, ast.Call) else ():
            if k.arg in ("padding_idx", "padding_value"):
                value: Any = getattr(k.value, "value", None)
                value = constants.get(ast.unparse(k.value)) if value is None else value
                if isinstance(value, int | float) and value == int(value):
                    found.add(int(value))
    return found


def _over_all(trace: Trace, row: Row) -> tuple[Source, ast.AST] | None:
    """Where beside a sum of what is right all places are counted: ``places += target.numel()``."""
    for source in sources(trace):
        for node, *sides in equalities(source.nodes):
            if row not in rows_at(trace, source, node):
                continue
            texts = {ast.unparse(bare(side)) for side in sides}
            summed = [n for n in source.around(node) if isinstance(n, ast.Call) and called(n) == "sum"]
            loop = next((n for n in source.around(node) if isinstance(n, ast.For)), None)
            masks = any(isinstance(n, ast.BinOp | ast.Subscript) for n in list(source.around(node))[:2])
            counts = [n for n in ast.walk(loop) if isinstance(n, ast.AugAssign)] if loop is not None else []
            for count in counts if summed and not masks else ():
                if called(count.value) == "numel" and ast.unparse(bare(operands(count.value)[0])) in texts:
                    return source, count
    return None


def _averaged(row: Ref, readers: dict[Ref, list[Row]]) -> bool:
    """Whether a comparison's mean over all places is taken, with nothing left out."""
    while True:
        after = [r for r in readers.get(row, ()) if not r.cut or r.cut == "cast"]
        if len(after) != 1:
            return False
        before, row = row, after[0]
        if row.op == "mean" and not row.shape:
            return True
        if math.prod(row.shape) != math.prod(before.shape) or row.op == "index":
            return False  # some are picked
        if row.op not in CASTS and row.cut != "cast" and not row.view:
            return False


@text_rule(742)
def mean_over_batches(scope: Scope) -> Iterator[Found]:
    """``scores.append(f1(pred, y))`` for each batch, and the mean of that in the end."""
    source, nodes, function = scope.source, scope.nodes, scope.flow.scope
    for pair in assigned(nodes):
        each = pair.value
        if not isinstance(each, ast.ListComp) or not over_batches(scope.trace, source, each.generators[0]):
            continue
        figure = called(_item(each.elt))
        if WHOLE.search(figure) and not EACH.search(figure) and _mean_of(nodes, pair.name, each):
            yield scope.tell(pair.node, "evaluation", *_no_mean(figure))
    for node in nodes:
        name = _collected(node)
        loop = _batches(scope.trace, source, node, function) if name else None
        if name is None or loop is None or not _mean_of(nodes, name, loop):
            continue
        figure = called(_item(node.args[0] if isinstance(node, ast.Call) else node.value))  # type: ignore[attr-defined]
        if not _judges(source, node, function):
            continue
        yield scope.tell(node, "evaluation", *_no_mean(figure))


def _no_mean(figure: str) -> tuple[str, str]:
    """What is said of a figure that is taken of each batch, and the remedy."""
    message = (
        f"takes {figure} of each batch, and their mean is reported: it is a figure of the whole set, "
        "and a mean over batches is another one, which changes with the size of a batch."
    )
    return message, f"Collect the predictions and targets of all batches (or their counts) and call {figure} once."


def _collected(node: ast.AST) -> str | None:
    """The variable to which a statement adds a figure of a set: a list, or a sum."""
    if isinstance(node, ast.Call) and called(node) == "append" and len(node.args) == 1:
        assert isinstance(node.func, ast.Attribute)
        into, value = node.func.value, node.args[0]
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        into, value = node.target, node.value
    else:
        return None
    figure = called(_item(value))
    return ast.unparse(into) if WHOLE.search(figure) and not EACH.search(figure) else None


def _item(node: ast.expr) -> ast.expr:
    """What .item() is asked of."""
    if isinstance(node, ast.Call) and called(node) in ("item", "float") and isinstance(node.func, ast.Attribute):
        return node.func.value
    if isinstance(node, ast.Call) and called(node) == "float" and node.args:
        return node.args[0]
    return node


def _batches(trace: Trace, source: Source, node: ast.AST, scope: ast.AST) -> ast.For | None:
    """The loop over the batches of a loader around a node."""
    for above in source.around(node):
        if above is scope:
            return None
        if isinstance(above, ast.For):
            return above if over_batches(trace, source, above) else None
    return None


def _mean_of(nodes: list[ast.AST], name: str, loop: ast.For | ast.ListComp) -> bool:
    """Whether the mean of what was collected is taken after the loop."""
    for node in nodes:
        if getattr(node, "lineno", 0) <= last_line(loop):
            continue
        text = ast.unparse(node) if isinstance(node, ast.BinOp | ast.Call) else ""
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Div)
            and re.match(rf"(sum\()?{re.escape(name)}\b", text)
        ):
            return True
        if isinstance(node, ast.Call) and called(node) in ("mean", "fmean", "average") and name in text:
            return True
    return False


def _judges(source: Source, node: ast.AST, scope: ast.AST) -> bool:
    """Whether it happens where a model is evaluated: in no loop that takes steps."""
    loops = [above for above in source.around(node) if isinstance(above, ast.For)]
    return not any(called(n) in ("backward", "step") for n in ast.walk(loops[0])) if loops else False


@rule(744)
def seen_folds(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Cross-validation in which one model is trained on through all folds."""
    roots = {leaf.name.partition(".")[0] for leaf in trace.optimized}
    for source in sources(trace):
        for scope in source.scopes():
            for loop in own_nodes(scope):
                if not isinstance(loop, ast.For) or not _over_folds(loop):
                    continue
                model = _trained_through(scope, loop, roots, trace)
                if model is None:
                    continue
                line, col, place = source.place(model[1])
                message = capital(
                    f"{place} trains {model[0]} on from fold to fold ({source.place(loop).words} begins the loop): "
                    "from "
                    "the second fold on it has been trained on the samples that it is judged by."
                )
                remedy = f"Make {model[0]} and its optimizer anew in the loop, for each fold."
                return [Found("evaluation", "warning", line, col, message, remedy)]
    return []


def _over_folds(loop: ast.For) -> bool:
    """Whether a loop goes through the folds of a cross-validation."""
    head = f"{ast.unparse(loop.target)} {ast.unparse(loop.iter)}"
    if re.search(r"fold|kf\.split|cv\.split|skf", head, re.I) or _leaves_one_out(loop):
        return True
    first = " ".join(ast.unparse(n) for n in loop.body[:3])
    return bool(re.search(r"\bfolds?\[", first)) and "!=" in first


def _leaves_one_out(loop: ast.For) -> bool:
    """Whether a loop puts all parts but its own together: ``[p for j, p in enumerate(parts) if j != k]``."""
    names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    return any(
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq) and names & names_in(test)
        for n in ast.walk(loop) if isinstance(n, ast.ListComp | ast.GeneratorExp)
        for part in n.generators for test in part.ifs
    )  # fmt: skip


def _trained_through(scope: ast.AST, loop: ast.For, roots: set[str], trace: Trace) -> tuple[str, ast.AST] | None:
    """The model that a loop trains and judges and never makes anew, and the call that trains it."""
    inside = [n for statement in loop.body for n in ast.walk(statement)]
    bound = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    before = {
        n.id
        for n in own_nodes(scope)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < loop.lineno
    }
    calls = [n for n in inside if isinstance(n, ast.Call)]
    fresh = {"load_state_dict", "reset_parameters", "apply", "deepcopy", "reset", "init_weights", "reset_weights"}
    if any(called(n) in fresh or "reset" in called(n) or "init" in called(n) for n in calls):
        return None
    for name in sorted((roots | before) & before - bound):
        trains = [n for n in calls if name in {ast.unparse(a) for a in n.args} and re.search(r"fit|train", called(n))]
        steps = [n for n in calls if called(n) == "backward"]
        runs = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == name]
        judged = runs or [n for n in calls if name in {ast.unparse(a) for a in n.args}
                          and re.search(r"eval|test|acc|score|valid", called(n))]  # fmt: skip
        if trains and judged and (name in roots or re.search(r"(model|net|clf|classifier|regressor)$", name)):
            return name, trains[0]
        if steps and len(runs) > 1 and name in roots:
            return name, runs[0]
        if name in roots and (within := _by_functions(trace, calls, name)) is not None:
            return name, within
    return None


def _by_functions(trace: Trace, calls: list[ast.Call], name: str) -> ast.Call | None:
    """The call of a function that trains a model which it finds outside, where another one judges it."""
    trained: list[ast.Call] = []
    judged: list[ast.Call] = []
    for call in calls:
        function = functions(trace).get(called(call), (None, None))[1] if isinstance(call.func, ast.Name) else None
        inside = [n for n in ast.walk(function) if isinstance(n, ast.Call)] if function is not None else []
        if function is None or not any(ast.unparse(n.func) == name for n in inside):
            continue
        if _sets(function, name):
            continue
        (trained if any(called(n) == "backward" for n in inside) else judged).append(call)
    return trained[0] if trained and judged else None


def _sets(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function sets a variable of that name itself, or has it as an argument."""
    return any(
        (isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name)
        or (isinstance(n, ast.arg) and n.arg == name)
        for n in ast.walk(function)
    )


@text_rule(746)
def divided_by_batches(scope: Scope) -> Iterator[Found]:
    """A count of samples that is divided by the number of batches."""
    source, nodes = scope.source, scope.nodes
    loaders = {ast.unparse(n.iter): n for n in nodes if isinstance(n, ast.For)}
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        over = scope.flow.inner(node.right)
        if called(over) != "len" or not isinstance(over, ast.Call) or len(over.args) != 1:
            continue
        loop = loaders.get(ast.unparse(over.args[0]))
        left = node.left.right if isinstance(node.left, ast.BinOp) else node.left
        counted = {ast.unparse(left), ast.unparse(node.left)}
        adds = [
            n
            for n in (ast.walk(loop) if loop is not None else ())
            if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)
            if ast.unparse(n.target) in counted and _counts(n.value)
        ]
        if not adds or loop is None or not over_batches(scope.trace, source, loop):
            continue
        name = ast.unparse(adds[0].target)
        message = (
            f"divides a number of samples by one of batches: {name} counts what is right "
            f"({source.place(adds[0]).words}), and `{ast.unparse(over)}` is how many batches there are."
        )
        remedy = f"Divide by the samples: {name} / len({ast.unparse(over.args[0])}.dataset)."
        yield scope.tell(node, "evaluation", message, remedy)


@rule(747)
def mean_of_means(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``total += loss.item()`` for each batch, and ``total / len(loader.dataset)``: means, divided by samples."""
    summed = any(_is_sum(trace, root) for roots in trace.roots.values() for root in roots)
    for source in sources(trace) if not summed else ():
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            for node in nodes:
                total, loader = _over_data_set(node)
                if not loader:
                    continue
                loops = [n for n in nodes if isinstance(n, ast.For) and loader in names_in(n.iter)]
                adds = [
                    n
                    for loop in loops
                    for n in ast.walk(loop)
                    if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) and ast.unparse(n.target) == total
                    if MEAN.match(ast.unparse(n.value))
                ]
                if not adds:
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} divides a sum of means by the number of samples: {total} adds up the mean of each "
                    f"batch ({source.place(adds[0]).words}), so `len({loader}.dataset)` makes it smaller by the size "
                    "of a batch."
                )
                remedy = f"Divide by the batches, len({loader}), or add loss.item() * len(y)."
                return [Found("evaluation", "note", line, col, message, remedy)]
    return []


@rule(748, proof="the samples that the loader drew were counted")
def whole_set_for_a_part(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sum over what a sampler draws, and ``total / len(loader.dataset)``: all that the data set has."""
    parts = {fetched_at(trace, chain): fetched.drawn for chain, fetched in trace.fetched.items() if fetched.drawn[0]}
    for source in sources(trace) if parts else ():
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            for loop in (n for n in nodes if isinstance(n, ast.For)):
                drawn = parts.get((source.name, loop.lineno))
                if drawn is None:
                    continue
                sums = {ast.unparse(n.target) for n in ast.walk(loop) if isinstance(n, ast.AugAssign)}
                for node in nodes:
                    total, loader = _over_data_set(node)
                    if total not in sums or loader not in names_in(loop.iter):
                        continue
                    line, col, place = source.place(node)
                    message = capital(
                        f"{place} divides by {drawn[1]:,} samples a sum over {drawn[0]:,}: `len({loader}.dataset)` is "
                        f"the whole data set, of which the sampler of {loader} draws a part "
                        f"({source.place(loop).words})."
                    )
                    remedy = f"Divide by what is drawn: len({loader}.sampler)."
                    return [Found("evaluation", "warning", line, col, message, remedy)]
    return []


def _over_data_set(node: ast.AST) -> tuple[str, str]:
    """Return what ``100 * total / len(loader.dataset)`` or ``total /= ...`` divides, and the loader; "" where it is
    none."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        total, over = node.target, node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        factor = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mult)
        total, over = (node.left.right if factor else node.left), node.right  # type: ignore[attr-defined, assignment]
    else:
        return "", ""
    of = re.match(r"len\((\w+)\.dataset\)$", ast.unparse(over))
    return (ast.unparse(total), of[1]) if of else ("", "")


def _is_sum(trace: Trace, root: Row) -> bool:
    """Whether a loss is a sum over a batch, or has one among its terms."""
    terms: list[Ref] = [root]
    for term in terms:
        if not isinstance(term, Row) or term.shape or len(terms) > 64:
            continue
        if term.op == "sum" or re.search(r"reduction=.sum|size_average=False", code_of(trace, term)):
            return True
        terms += [ref for ref in term.refs if ref not in terms]
    return False


def _counts(node: ast.expr) -> bool:
    """Whether an expression is how many of a comparison are true, undivided."""
    inner = _item(node)
    if not isinstance(inner, ast.Call) or called(inner) != "sum":
        return False
    return any(isinstance(n, ast.Compare) or called(n) == "eq" for n in ast.walk(inner))
