"""Parts of the data that take each other's place: a validation with the augmentation of the training, a loop over the
loader of another part, the test samples that choose the model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital, listed
from ..order import rule, text_rule
from ..reading.calls import name_of
from ..reading.expressions import Flow
from ..reading.loaders import gone_over, loader_of, over_batches
from ..reading.scope import Scope
from ..reading.sources import Function, Source, assigned, called, names_in, sources
from .held_out import TEST, TRAIN

RANDOM = re.compile(
    r"^(Random(?!Split|Sampler|State)\w+|ColorJitter|AutoAugment|RandAugment|TrivialAugmentWide|AugMix|Cutout|CoarseDropout|"
    r"HorizontalFlip|VerticalFlip|ElasticTransform|ShiftScaleRotate)$"
)
AUGMENTS = re.compile(r"(^|_)(aug|augment|augmented|augmentation|augmentations|augs|jitter|random_crop)(_|$)", re.I)
DRAWN = re.compile(r"\b(rand|randn|randint|random|uniform|choice|bernoulli|randn_like|rand_like|normal)\(")
TESTED = re.compile(r"(^|_)test(s|ing|_?set|_?loader|_?data|_?dl)?(_|$)|^(x|y)_?te(st)?$|^test", re.I)
VALIDATED = re.compile(r"(^|_)(val|valid|validation|dev|eval)(_|\d|$)|valid", re.I)
FIGURE = re.compile(r"acc|loss|f1|score|auc|error|mae|rmse|mse|iou|dice|metric|correct|hits|right", re.I)
BEST = re.compile(r"best|(^|_)(min|max|lowest|highest)_", re.I)


@rule(733)
def augmented_validation(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``data = Set(augment=True); train, val = random_split(data, ...)``: the validation part is augmented as well."""
    found = sources(trace)
    for source in found:
        values = {p.name: p.value for p in assigned(source.nodes)}
        for pair in assigned(source.nodes):
            if called(pair.value) not in ("random_split", "Subset") or not isinstance(pair.value, ast.Call):
                continue
            data = pair.value.args[0] if pair.value.args else None
            made = values.get(data.id) if isinstance(data, ast.Name) else data
            why = _augments(found, values, made)
            if why is None or not _held_out(pair.name, pair.node) or _separated(found, pair.name):
                continue
            line, col, place = source.place(pair.node)
            message = capital(
                f"{place} takes the validation part of a data set that draws its samples anew each time ({why}): both "
                "parts are of the one set, so what a model is judged by is distorted at random too, and the figure "
                "changes from pass to pass."
            )
            remedy = "Make the set twice, with and without augmentation, and take each part by the same indices: "
            remedy += "Subset(augmented, train_indices), Subset(plain, val_indices)."
            return [Found("evaluation", "warning", line, col, message, remedy)]
        for pair in assigned(source.nodes):
            made = pair.value
            if not isinstance(made, ast.Call) or not TEST.search(pair.name) or TRAIN.search(pair.name):
                continue
            why = _augments(found, values, made) if re.search(r"(Dataset|Folder|Set)$|^[A-Z]", called(made)) else None
            if why is None or called(made) in ("DataLoader", "Compose") or RANDOM.match(called(made)):
                continue
            line, col, place = source.place(made)
            message = capital(
                f"{place} augments the samples that the model is judged by ({why}): they are distorted at random, and "
                "the figure is lower than it should be and another one each time."
            )
            remedy = "Give it the transforms without the random ones."
            return [Found("evaluation", "warning", line, col, message, remedy)]
    return []


@text_rule(734, earlier=True)
def changed_for_both(scope: Scope) -> Iterator[Found]:
    """``val_set.dataset.transform = None`` of parts that share one data set: the other part is changed as well."""
    nodes = scope.nodes
    sets = {  # a part -> the data set that it is of
        pair.name: ast.unparse(pair.value.args[0])
        for pair in assigned(nodes)
        if isinstance(pair.value, ast.Call) and called(pair.value) in ("random_split", "Subset")
        and pair.value.args
    }  # fmt: skip
    own = {ast.unparse(t) for n in nodes if isinstance(n, ast.Assign) for t in n.targets}
    for node in nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Attribute):
            continue
        part = ast.unparse(target.value.value)
        rest = [name for name, data in sets.items() if name != part and data == sets.get(part)]
        if target.value.attr != "dataset" or not rest or {f"{p}.dataset" for p in (part, *rest)} & own:
            continue
        message = (
            f"sets {target.attr} of the data set that {part} and {listed(rest)} share "
            f"(`{ast.unparse(node)}`): it is one object, {sets[part]}, so it changes for {listed(rest)} too."
        )
        remedy = f"Give {part} a set of its own first: {part}.dataset = copy.copy({part}.dataset)."
        yield scope.tell(node, "alias", message, remedy)


def _held_out(name: str, node: ast.Assign) -> bool:
    """Whether a part is held out, and the other one is not: by their names."""
    names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return (
        bool(TEST.search(name)) and not TRAIN.search(name) and (len(names) < 2 or any(TRAIN.search(n) for n in names))
    )


def _separated(found: list[Source], name: str) -> bool:
    """Whether a part is given a data set or transforms of its own afterwards."""
    return any(
        isinstance(n, ast.Assign)
        and re.match(rf"{re.escape(name)}\.(dataset|transforms?)\b", ast.unparse(n.targets[0]))
        for source in found
        for n in source.nodes
    )


def _augments(found: list[Source], values: dict[str, ast.expr], made: ast.expr | None) -> str | None:
    """In words by what a data set augments its samples; None if it does not, as far as one can see."""
    if not isinstance(made, ast.Call):
        return None
    for keyword in made.keywords:
        given = values.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else keyword.value
        if keyword.arg and AUGMENTS.search(keyword.arg) and getattr(given, "value", None) is True:
            return f"`{ast.unparse(keyword)}`"
        if keyword.arg in ("transform", "transforms", "train_transform") and given is not None:
            drawn = next((called(n) for n in ast.walk(given) if RANDOM.match(called(n))), None)
            if drawn is not None:
                return f"{drawn} in its transforms"
            if isinstance(keyword.value, ast.Name) and AUGMENTS.search(keyword.value.id):
                return f"`{ast.unparse(keyword)}`"
    if any(
        isinstance(a, ast.Name) and a.id in values and any(RANDOM.match(called(n)) for n in ast.walk(values[a.id]))
        for a in made.args
    ):
        return "random transforms"
    for source in found:
        for kind in source.nodes:
            if isinstance(kind, ast.ClassDef) and kind.name == called(made):
                return _augments_itself(kind)
    return None


def _augments_itself(kind: ast.ClassDef) -> str | None:
    """Whether a data set's own method augments each sample whatever part it is for."""
    for maker in kind.body:
        if not isinstance(maker, Function) or maker.name != "__getitem__":
            continue
        text = ast.unparse(maker)
        called_so = next((called(n) for n in ast.walk(maker) if AUGMENTS.search(called(n))), None)
        turned = re.search(r"\.(flip|rot90|roll|fliplr|flipud)\(", text) and DRAWN.search(text)
        if re.search(r"self\.(train|training|augment|is_train|split|mode|aug|transform)\b", text):
            return None
        if called_so is not None or turned:
            return f"__getitem__ of {kind.name} augments"
    return None


@rule(743)
def loop_over_another_part(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``for x, y in train_loader: test_correct += ...``, and steps in a loop over the test loader."""
    if not trace.steps.count or trace.error is not None:
        return []
    found = sources(trace)
    names = {n.id for s in found for n in s.nodes if isinstance(n, ast.Name)}
    names |= {n.arg for s in found for n in s.nodes if isinstance(n, ast.arg)}
    for source in found:
        for loop in (n for n in source.nodes if isinstance(n, ast.For)):
            part = _loader(loop.iter) or (_part(loop) if gone_over(trace, source, loop) else None)
            if part is None:
                continue
            inside = list(ast.walk(loop))
            steps = [n for n in inside if called(n) == "step" and not _scheduler(n)]
            back = [n for n in inside if called(n) == "backward"]
            if TEST.search(part) and not TRAIN.search(part) and steps and back:
                loaders = sorted(n for n in names if TRAIN.search(n) and re.search(r"load|_dl|dl_|iter", n, re.I))
                if not loaders:
                    continue
                other = max(loaders, key=lambda name: SequenceMatcher(None, name, part).ratio())
                if any(re.search(r"adapt|tta|ttt|tent|inner|fine", n, re.I) for n in names):
                    continue
                line, col, place = source.place(loop)
                message = capital(
                    f"{place} trains on the samples of {part}: `{ast.unparse(back[0])}` and "
                    f"`{ast.unparse(steps[0])}` stand in a loop over it, so the model is judged by what it has learnt."
                )
                return [Found("evaluation", "warning", line, col, message, f"Go over the training part: {other}.")]
            if not TRAIN.search(part) or TEST.search(part) or steps or back:
                continue
            sums = [ast.unparse(n.target) for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)]
            tested = [s for s in sums if TEST.search(s) and not TRAIN.search(s) and FIGURE.search(s)]
            if not tested or len(tested) < len([s for s in sums if FIGURE.search(s)]):
                continue
            there = next((n for n in sorted(names) if _loader(ast.Name(n, ast.Load())) and TEST.search(n)), None)
            there = there or _made_for_tests(source)
            if there is None:
                continue
            line, col, place = source.place(loop)
            message = capital(
                f"{place} sums up {tested[0]} over {part}: that is a figure of the samples that the model is trained "
                f"on, and {there} is there for it."
            )
            return [Found("evaluation", "warning", line, col, message, f"Go over the other part: {there}.")]
    return []


def _part(loop: ast.For) -> str:
    """What a loop goes over, by its name or the key under which it is kept."""
    node = loader_of(loop)
    key = node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else ""
    return key if isinstance(key, str) and key else ast.unparse(node)


def _made_for_tests(source: Source) -> str | None:
    """The key in a dictionary under which a loader of the test part is kept."""
    for node in source.nodes:
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            name = getattr(key, "value", None)
            if isinstance(name, str) and TEST.search(name) and called(value) == "DataLoader":
                return name
    return None


def _loader(node: ast.expr) -> str | None:
    """The name of the loader that a loop goes over."""
    while called(node) in ("enumerate", "tqdm", "iter", "list") and isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    text = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return text if re.search(r"load|_dl$|^dl_|_iter$|batches", text, re.I) else None


def _scheduler(node: ast.AST) -> bool:
    return "sched" in ast.unparse(node).lower()


@text_rule(749)
def divided_by_another_part(scope: Scope) -> Iterator[Found]:
    """``val_loss += ...`` in a loop over ``val_loader``, and ``val_loss / len(train_loader)``."""
    source, nodes = scope.source, scope.nodes
    sums: dict[str, set[str]] = {}
    loops = [n for n in nodes if isinstance(n, ast.For) and over_batches(scope.trace, source, n)]
    parts = {loop: name_of(loader_of(loop)) for loop in loops}
    fetched = {part: gone_over(scope.trace, source, loop) for loop, part in parts.items()}
    for loop, part in parts.items():
        for n in ast.walk(loop) if part else ():
            if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add):
                near = next((a for a in source.around(n) if isinstance(a, ast.For) and a in parts), None)
                if near is loop and part:
                    sums.setdefault(ast.unparse(n.target), set()).add(part)
    for node in nodes:
        of = _divided(scope.flow, node)
        if of is None or len(sums.get(of[0], ())) != 1:
            continue
        total, by = of
        part = next(iter(sums[total]))
        if by == part or not (_loader(ast.Name(by, ast.Load())) or by in fetched):
            continue
        named = bool(TRAIN.search(by)) != bool(TRAIN.search(part)) and bool(TEST.search(by)) != bool(TEST.search(part))
        ran = [{bool(f.steps) for f in fetched.get(name, ())} for name in (by, part)]
        if not named and ran not in ([{True}, {False}], [{False}, {True}]):
            continue
        message = (
            f"divides {total}, a sum over {part}, by the length of {by} (`{ast.unparse(node)}`): the "
            "two parts are of different lengths, and the figure is no mean of either."
        )
        remedy = f"Divide by the length of what was summed over: {part}."
        yield scope.tell(node, "evaluation", message, remedy)


def _divided(flow: Flow, node: ast.AST) -> tuple[str, str] | None:
    """What ``total / len(loader)`` or ``total / len(loader.dataset)`` divides, and whose length it is."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        total, over = ast.unparse(node.target), node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left = node.left.right if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mult) else node.left
        total, over = ast.unparse(left), node.right
    else:
        return None
    over = flow.inner(over)
    found = re.fullmatch(r"len\((?:self\.)?(\w+)(\.dataset|\.sampler)?\)", ast.unparse(over))
    return (total, found[1]) if found else None


@text_rule(735)
def chosen_on_the_test(scope: Scope) -> Iterator[Found]:
    """``if test_acc > best: best = test_acc; torch.save(...)``: the test samples choose what they judge."""
    trace, source, nodes = scope.trace, scope.source, scope.nodes
    if not trace.steps.count or trace.error is not None:
        return
    for node in nodes:
        pair = compared(node)
        if pair is None or not any(isinstance(a, ast.For | ast.While) for a in source.around(node)):
            continue
        figure, best = pair
        if kept(node) is None:  # type: ignore[arg-type]
            continue
        of = scope.flow.value(node.test.left) or scope.flow.value(node.test.comparators[0])  # type: ignore[attr-defined]
        said = f"{figure} {' '.join(sorted(names_in(of)))}" if of is not None and isinstance(of, ast.Call) else figure
        if any(map(TESTED.search, said.split())) and not any(map(VALIDATED.search, said.split())):
            line, col, place = source.place(node)
            message = capital(
                f"{place} keeps the weights of the epoch that does best on the test samples "
                f"(`{ast.unparse(node.test)}`): they have chosen what they then judge, and {best} is better "  # type: ignore[attr-defined]
                "than the model is on new samples."
            )
            remedy = "Choose by a validation part, taken from the training samples, and test once at the end."
            yield Found("evaluation", "note", line, col, message, remedy)
        validated = _validated(nodes, node)
        if validated is not None and TRAIN.search(figure) and not TEST.search(figure):
            line, col, place = source.place(node)
            message = capital(
                f"{place} keeps the weights of the epoch with the best figure on the training samples "
                f"(`{ast.unparse(node.test)}`), and {validated}, which says how the model does on others, "  # type: ignore[attr-defined]
                "has no say: that is nearly always the last epoch, however far it has overfitted."
            )
            remedy = f"Compare {validated} with the best one before."
            yield Found("evaluation", "warning", line, col, message, remedy)


def compared(node: ast.AST) -> tuple[str, str] | None:
    """Return the figure, and the best one before, that a condition compares."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
        return None
    if not isinstance(node.test.ops[0], ast.Lt | ast.Gt | ast.LtE | ast.GtE):
        return None
    left, right = ast.unparse(node.test.left), ast.unparse(node.test.comparators[0])
    for figure, best in ((left, right), (right, left)):
        if not re.fullmatch(r"[\w.]+", figure) or BEST.search(figure):
            continue
        if (BEST.search(best) and FIGURE.search(figure)) or (best, figure) in _renewed(node):
            return figure, best
    return None


def _renewed(node: ast.If) -> set[tuple[str, str]]:
    """What a condition sets to what: ``best, state = acc, ...``."""
    found = set()
    for statement in node.body:
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            pairs = [(target, statement.value)]  # type: ignore[attr-defined]
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):  # type: ignore[attr-defined]
                pairs = list(zip(target.elts, statement.value.elts, strict=False))  # type: ignore[attr-defined]
            found |= {(ast.unparse(one), ast.unparse(value)) for one, value in pairs}
    return found


def kept(node: ast.If) -> ast.AST | None:
    """Return what keeps the weights of a model under a condition."""
    for statement in node.body:
        for n in ast.walk(statement):
            if called(n) in ("state_dict", "save", "deepcopy", "save_checkpoint", "save_model"):
                return n
    return None


def _validated(nodes: list[ast.AST], node: ast.AST) -> str | None:
    """A figure of a validation that is known before a condition is asked."""
    names: Iterator[str] = (
        n.id
        for n in nodes
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < node.lineno  # type: ignore[attr-defined]
    )
    compared = {name for n in nodes if isinstance(n, ast.Compare) for name in names_in(n)}
    return next(
        (n for n in names if TEST.search(n) and FIGURE.search(n) and not TRAIN.search(n) and n not in compared), None
    )
