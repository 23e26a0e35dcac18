"""The best model of a training, chosen by a comparison that is always true, never, or the wrong way round; a patience
that runs out whatever happens, and a sum that nobody sets back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..data.wrong_parts import compared, kept
from ..finding import Found, capital
from ..order import text_rule
from ..reading.scope import Scope
from ..reading.sources import Source, assigned, called, names_in

LOWER = re.compile(r"loss|error|cross_entropy|(^|_)(mae|mse|rmse|err|perplexity|ppl|nll|wer|cer|fid)(_|$)", re.I)
HIGHER = re.compile(r"acc|f1|auc|score|iou|dice|recall|precision|reward|return|bleu|psnr|ssim", re.I)
COUNTER = re.compile(r"patien|counter|wait|bad_epoch|no_improve|stall|epochs_without|stagn|trigger", re.I)


@text_rule(750)
def kept_by_chance(scope: Scope) -> Iterator[Found]:
    """``if val_loss < best_loss: torch.save(...)``, where nobody sets best_loss, or it begins at 0."""
    trace, source, flow = scope.trace, scope.source, scope.flow
    if not trace.steps.count or trace.error is not None:
        return
    for node in flow.nodes:
        pair = compared(node)
        loop = next((a for a in source.around(node) if isinstance(a, ast.For | ast.While)), None)
        loop = loop or _calling_loop(source, flow.scope)
        if pair is None or loop is None or not isinstance(node, ast.If):
            continue
        for look in (_wrong_way, _never_true, _never_set, _never_reset):
            found = look(source, node, loop, *pair)
            if found is not None:
                yield found


def _calls_of(source: Source, method: ast.AST) -> list[ast.Call]:
    """The calls of a method, in what is outside its class."""
    return source.calls.get(getattr(method, "name", ""), []) if isinstance(method, ast.FunctionDef) else []


def _calling_loop(source: Source, method: ast.AST) -> ast.For | ast.While | None:
    """The loop in which a method is called; None where it is called in several, or in none."""
    calls = _calls_of(source, method)
    loops = [a for call in calls for a in source.around(call) if isinstance(a, ast.For | ast.While)]
    return loops[0] if len(calls) == 1 and loops else None


def _spoken(source: Source, node: ast.AST, figure: str) -> str:
    """What a figure is called; of an argument of a method also what its call gives."""
    method = next((a for a in source.around(node) if isinstance(a, ast.FunctionDef)), None)
    names = [a.arg for a in method.args.args if a.arg != "self"] if method is not None else []
    calls = _calls_of(source, method) if method is not None and figure in names else []
    given = [ast.unparse(c.args[names.index(figure)]) for c in calls if len(c.args) > names.index(figure)]
    return " ".join([figure, *given])


def _found(source: Source, node: ast.AST, says: str, remedy: str) -> Found:
    line, col, place = source.place(node)
    return Found("evaluation", "warning", line, col, capital(f"{place} {says}"), remedy)


def _smaller(node: ast.If, figure: str) -> bool:
    """Whether a condition holds where the figure is smaller than the best one."""
    test = node.test
    assert isinstance(test, ast.Compare)
    left = ast.unparse(test.left) == figure
    return isinstance(test.ops[0], ast.Lt | ast.LtE) == left


def _lower(name: str) -> bool | None:
    """Whether less of a figure is better; None where its name does not say."""
    low, high = LOWER.search(name), HIGHER.search(name)
    return None if bool(low) == bool(high) else bool(low)


def _wrong_way(source: Source, node: ast.If, loop: ast.AST, figure: str, best: str) -> Found | None:
    """``if val_loss > best_loss: save``."""
    lower = _lower(figure)
    if lower is None or lower == _smaller(node, figure) or kept(node) is None or not _sets(node, best, figure):
        return None
    worst = "largest" if lower else "smallest"
    says = (
        f"keeps the weights where {figure} is {worst} (`{ast.unparse(node.test)}`): less of it is better, and what is "
        "kept is the worst model of all."
    )
    if not lower:
        says = says.replace("less of it is better", "more of it is better")
    turned = f"{figure} {'<' if lower else '>'} {best}"
    return _found(source, node, says, f"Compare the other way round: if {turned}.")


def _sets(node: ast.AST, best: str, figure: str) -> bool:
    """Whether the best figure is given a value."""
    return any(
        (isinstance(n, ast.Assign) and any(best == ast.unparse(t) for target in n.targets for t in ast.walk(target)))
        or (isinstance(n, ast.AugAssign | ast.AnnAssign) and ast.unparse(n.target) == best)
        for n in ast.walk(node)
    )


def _never_true(source: Source, node: ast.If, loop: ast.AST, figure: str, best: str) -> Found | None:
    """``best_loss = 0`` and ``if val_loss < best_loss``."""
    said = _spoken(source, node, figure)
    if _lower(said) is None or kept(node) is None:
        return None
    pairs = [(ast.unparse(t), n.value, n) for n in source.nodes if isinstance(n, ast.Assign) for t in n.targets]
    pairs += [(pair.name, pair.value, pair.node) for pair in assigned(source.nodes)]
    begun = [
        (value, n)
        for name, value, n in pairs
        if name == best and n.lineno < loop.lineno and node not in source.around(n)  # type: ignore[attr-defined]
    ]
    if not begun:
        return None
    text, smaller = ast.unparse(begun[-1][0]), _smaller(node, figure)
    zero = re.fullmatch(r"0(\.0*)?", text) and smaller and LOWER.search(said) and "log" not in said
    infinite = (
        re.fullmatch(r"(float\(['\"]inf['\"]\)|(np|math|torch)\.inf|1e\+?\d+|1000\d*(\.0)?)", text) and not smaller
    )
    if not zero and not infinite:
        return None
    says = (
        f"never holds (`{ast.unparse(node.test)}`): {best} begins at {text} ({source.place(begun[-1][1]).words}), and "
        f"{figure} is never {'smaller' if zero else 'larger'}, so no weights are kept."
    )
    other = 'float("inf")' if zero else "0.0"
    return _found(source, node, says, f"Begin at the other end: {best} = {other}.")


def _never_set(source: Source, node: ast.If, loop: ast.AST, figure: str, best: str) -> Found | None:
    """``if val_acc > best_acc: torch.save(...)``, and best_acc stays what it was."""
    what = kept(node)
    if what is None or _sets(loop, best, figure) or "." in best or "(" in best:
        return None
    if not any(isinstance(n, ast.Name) and n.id == best and isinstance(n.ctx, ast.Store) for n in source.nodes):
        return None
    says = (
        f"compares {figure} with a {best} that is never renewed (`{ast.unparse(node.test)}`): whatever is better than "
        "its first value is kept, and in the end that is the last such epoch and not the best."
    )
    return _found(source, node, says, f"Renew it where the weights are kept: {best} = {figure}.")


def _never_reset(source: Source, node: ast.If, loop: ast.AST, figure: str, best: str) -> Found | None:
    """``else: patience += 1`` with nothing that sets it back."""
    counts = [
        n for s in node.orelse for n in ast.walk(s)
        if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) and COUNTER.search(ast.unparse(n.target))
    ]  # fmt: skip
    if not counts or not _sets(node, best, figure):
        return None
    name = ast.unparse(counts[0].target)
    for n in ast.walk(loop):
        if isinstance(n, ast.Assign) and any(ast.unparse(t) == name for target in n.targets for t in ast.walk(target)):
            return None
        if isinstance(n, ast.AugAssign) and ast.unparse(n.target) == name and not isinstance(n.op, ast.Add):
            return None
    stops = [n for n in ast.walk(loop) if isinstance(n, ast.Compare) and name in {ast.unparse(p) for p in ast.walk(n)}]
    if not stops or not any(isinstance(n, ast.Break | ast.Return) for n in ast.walk(loop)):
        return None
    says = (
        f"counts the epochs that brought nothing in {name}, and an epoch that does better does not set it back: "
        "training stops after so many of them in all, however well it goes in between."
    )
    return _found(source, counts[0], says, f"Set it back where the best is renewed: {name} = 0.")


@text_rule(751)
def sum_that_goes_on(scope: Scope) -> Iterator[Found]:
    """``total = 0`` before the loop over epochs, and ``total / len(loader)`` in each of them."""
    trace, source, flow = scope.trace, scope.source, scope.flow
    if not trace.steps.count or trace.error is not None:
        return
    for epochs in (n for n in flow.nodes if isinstance(n, ast.For)):
        inner = [n for n in epochs.body if isinstance(n, ast.For)]
        for loop in inner:
            for add in (n for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)):
                name = ast.unparse(add.target)
                if not isinstance(add.target, ast.Name) or "loss" not in f"{name} {ast.unparse(add.value)}":
                    continue
                shown = next(
                    (n for s in epochs.body if s is not loop for n in ast.walk(s) if _mean_of(n, name, loop)),
                    None,
                )
                if shown is None or _begun_again(epochs, name, loop):
                    continue
                begun = next((n for n in flow.nodes if isinstance(n, ast.Assign) and n.lineno < epochs.lineno
                              and name in {ast.unparse(t) for t in n.targets}), None)  # fmt: skip
                if begun is None:
                    continue
                message = (
                    f"divides a sum over all epochs by the length of one (`{ast.unparse(shown)}`): "
                    f"{name} begins once ({source.place(begun).words}) and is never set back, so it grows from "
                    "epoch to epoch while the loss falls."
                )
                remedy = f"Begin it anew in each epoch: {name} = 0.0 at the top of the loop."
                yield scope.tell(shown, "evaluation", message, remedy)


def _mean_of(node: ast.AST, name: str, loop: ast.For) -> bool:
    """Whether an expression is a sum, divided by the length of what a loop goes over."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or ast.unparse(node.left) != name:
        return False
    over = node.right
    return called(over) == "len" and bool(names_in(over) & names_in(loop.iter) - {"len", "enumerate", "tqdm"})


def _begun_again(epochs: ast.For, name: str, loop: ast.For) -> bool:
    """Whether a sum is given another value within an epoch."""
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        for s in epochs.body
        for n in ast.walk(s)
        if not any(isinstance(a, ast.AugAssign) and a.target is n for a in ast.walk(s))
    )
