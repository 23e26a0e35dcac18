"""How a data set makes its samples: stored arrays that are changed in passing, masks that stay when their images are
turned, windows that hold what is to be predicted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product

import numpy as np

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.scope import flow_around, spread
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

MAKERS = {"__getitem__", "__getitems__", "__iter__", "collate", "collate_fn", "sample", "get_item", "augment"}
COPIES = {"copy", "clone", "astype", "float", "double", "tensor", "array", "deepcopy", "long", "int", "item", "Tensor"}
NUMBERS = re.compile(r"^(i|j|k|n|y|idx|index|label|lab|lbl|target|tgt|cls|klass|length|len\w*|num\w*)\d*$")
PACKAGES = ("torch", "core", "np", "numpy", "copy")
TURNS = {"flip", "fliplr", "flipud", "rot90", "roll", "hflip", "vflip", "rotate", "crop", "transpose", "affine",
         "resized_crop", "perspective"}  # fmt: skip
MAPS = re.compile(r"mask|seg|depth|heat|density|flow|label_?map|contour|saliency", re.I)
IMAGES = re.compile(r"im(g|age)?s?\d?$|frame|photo|pic|scan|slice|tile|patch|^x$", re.I)


@rule(504, proof="an item of an array is a view, and an in-place change writes into it")
def stored_changed(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x = self.images[i]; x -= mean``: the stored image is changed, once more each time it is asked for."""
    for source in sources(trace):
        methods = {n.name: n for n in source.nodes if isinstance(n, Function)}
        for maker in methods.values():
            if maker.name not in MAKERS:
                continue
            nodes = list(own_nodes(maker))
            for name, taken in _stored(nodes):
                if _of_values(trace, taken.value):
                    continue
                change = _changed(nodes, name, methods, taken)
                if change is None:
                    continue
                at, inside = change
                line, col, place = source.place(at)
                what = ast.unparse(taken.value)
                by = "" if inside is at else f" (in {inside.name}, which {source.place(taken).words} leads to)"  # type: ignore[attr-defined]
                message = capital(
                    f"{place} changes stored data in place (`{ast.unparse(at)}`{by}): {name} is a view of `{what}`, so "
                    "the sample is changed once more each time it is asked for, in every epoch."
                )
                copy = "copy" if re.search(r"import numpy|\bnp\.", source.text) else "clone"
                remedy = f"Work on a copy: {name} = {what}.{copy}(); or write the result to a new variable."
                return [Found("alias", "warning", line, col, message, remedy)]
    return []


def _stored(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.Assign]]:
    """Yield local names of what a method takes out of its object without a copy."""
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        for one, value in pairs:
            if called(value) in ("from_numpy", "as_tensor", "asarray") and isinstance(value, ast.Call) and value.args:
                value = value.args[0]
            held = isinstance(value, ast.Subscript) and ast.unparse(value.value).startswith("self.")
            listed = held and any(isinstance(n, ast.List) for n in ast.walk(value.slice))  # type: ignore[attr-defined]
            if held and not listed and isinstance(one, ast.Name) and not NUMBERS.match(one.id):
                fresh = ast.copy_location(ast.Assign([one], value), node)
                yield one.id, fresh


def _of_values(trace: Trace, taken: ast.expr) -> bool:
    """Whether what an object stores holds numbers or texts, which no operation changes in place: ``self.texts[i]``."""
    attribute = getattr(getattr(taken, "value", None), "attr", "")
    held = [v for value in trace.space.values() for v in (value, getattr(value, "dataset", None)) if v is not None]
    for stored in (vars(v).get(attribute) for v in held if hasattr(v, "__dict__")):
        if isinstance(stored, list | tuple) and stored:
            return isinstance(stored[0], str | bytes | int | float | tuple | np.generic)
        if isinstance(stored, np.ndarray):
            return stored.ndim == 1
    return False


def _changed(
    nodes: list[ast.AST], name: str, methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef], taken: ast.Assign
) -> tuple[ast.AST, ast.AST] | None:
    """Where a value is changed in place, itself or in a method that gets it, and that method."""
    for node in nodes:
        if getattr(node, "lineno", 0) < taken.lineno:
            continue
        again = isinstance(node, ast.Assign) and node.lineno > taken.lineno and _binds(node, name)
        for call in ast.walk(node) if isinstance(node, ast.Assign | ast.Expr | ast.Return) else ():
            given = [ast.unparse(a) for a in call.args] if isinstance(call, ast.Call) else []
            inner = methods.get(called(call))
            if name not in given or inner is None:
                continue
            own = [a.arg for a in inner.args.args if a.arg != "self"]
            k = given.index(name)
            if k < len(own):
                at = next((n for n in own_nodes(inner) if _in_place(n, own[k])), None)
                rebound = at is not None and any(
                    _binds(n, own[k])
                    for n in own_nodes(inner)
                    if getattr(n, "lineno", 0) < at.lineno  # type: ignore[attr-defined]
                )
                if at is not None and not rebound:
                    return at, inner
        if _in_place(node, name):
            return node, node
        if again:
            return None  # another value from here on
    return None


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        for t in node.targets
        for n in ast.walk(t)
    )


def _in_place(node: ast.AST, name: str) -> bool:
    """Whether a statement changes what a name holds: ``x -= m``, ``x[c] /= s``, ``x.sub_(m)``."""
    target: ast.expr
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
        if name not in names_in(node.value):
            return False  # an erased patch, say, is no more erased the next time
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        while (
            isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call) and function.attr.endswith("_")
        ):
            function = function.value.func  # ``x.sub_(m).div_(s)``
        ends = isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.endswith("__")
        return ends and isinstance(function.value, ast.Name) and function.value.id == name  # type: ignore[attr-defined]
    else:
        return False
    while isinstance(target, ast.Subscript):
        target = target.value
    return isinstance(target, ast.Name) and target.id == name


@rule(506)
def turned_alone(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``if random() < 0.5: image = image.flip(-1)``, and the mask stays as it was."""
    for source in sources(trace):
        for maker in source.nodes:
            if not isinstance(maker, Function) or maker.name not in MAKERS | {"__call__", "transform"}:
                continue
            nodes = list(own_nodes(maker))
            bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            bound |= {a.arg for a in maker.args.args}
            maps = [name for name in bound if MAPS.search(name)]
            turns = [n for n in nodes if isinstance(n, ast.Assign) and _turns(n.value) and _if(source, n, maker)]
            turned = {n.id for t in turns for target in t.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
            images = [t for t in turns if isinstance(t.targets[0], ast.Name) and IMAGES.search(t.targets[0].id)]
            left = [name for name in maps if name not in turned]
            used = {
                name for n in nodes if isinstance(n, ast.Return) and n.value is not None for name in names_in(n.value)
            }
            left = [name for name in left if name in used]
            if apart := _drawn_apart(source, turns, images, maker):
                return [apart]
            if not images or not left or len(left) < len(maps):
                continue
            line, col, place = source.place(images[0])
            image = ast.unparse(images[0].targets[0])
            message = capital(
                f"{place} turns {image} at random (`{ast.unparse(images[0].value)}`) and leaves {left[0]} as it is: "
                f"after that the two do not belong together any more."
            )
            remedy = f"Do the same to both under the one condition: {image}, {left[0]} = ..."
            return [Found("data", "warning", line, col, message, remedy)]
    return []


def _turns(node: ast.AST) -> bool:
    """Whether an expression moves the places of an image."""
    return any(called(n) in TURNS for n in ast.walk(node))


def _if(source: Source, node: ast.AST, scope: ast.AST) -> ast.If | None:
    """Return the condition that is drawn under which a statement stands."""
    for above in source.around(node):
        if above is scope:
            return None
        if isinstance(above, ast.If) and re.search(r"rand|bernoulli|uniform|choice|coin", ast.unparse(above.test)):
            return above
    return None


def _drawn_apart(source: Source, turns: list[ast.Assign], images: list[ast.Assign], maker: ast.AST) -> Found | None:
    """``if random() < 0.5: image = flip(image)`` and another such draw for the mask."""
    maps = [t for t in turns if isinstance(t.targets[0], ast.Name) and MAPS.search(t.targets[0].id)]
    own = {id(_if(source, t, maker)) for t in images}, {id(_if(source, t, maker)) for t in maps}
    for one, other in product(images, maps):
        first, second = _if(source, one, maker), _if(source, other, maker)
        draws = [n is not None and any(isinstance(m, ast.Call) for m in ast.walk(n.test)) for n in (first, second)]
        if not all(draws) or own[0] & own[1] or called(one.value) != called(other.value):
            continue
        line, col, place = source.place(one)
        image, map_ = ast.unparse(one.targets[0]), ast.unparse(other.targets[0])
        message = capital(
            f"{place} turns {image} by one draw, and {source.place(other).words} turns {map_} by another: half of the "
            "samples have only one of the two turned, and after that they do not belong together any more."
        )
        remedy = f"Draw once, and turn both under that one condition: {image}, {map_} = ..."
        return Found("data", "warning", line, col, message, remedy)
    return None


@rule(508, proof="the target's index lies within the window's")
def target_in_window(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``return s[i : i + w], s[i + w - 1]``: the target is the last value of the window."""
    for source in sources(trace):
        for node in source.nodes:
            if isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.Tuple):
                parts = [node.value.elts]
            elif isinstance(node, ast.For | ast.FunctionDef):
                parts = [_appended(node)]
            else:
                continue
            for elements in parts:
                for window in elements:
                    seen = _seen_whole(source, node, window, elements)
                    if seen is not None:
                        line, col, place = source.place(seen)
                        message = capital(
                            f"{place} takes as target what the window holds: `{ast.unparse(seen)}` is the last value "
                            f"of `{ast.unparse(window)}`, so the model has only to copy it."
                        )
                        remedy = (
                            "Make the windows one longer: all but the last value are read, and that one is the target."
                        )
                        return [Found("data", "warning", line, col, message, remedy)]
                    held = _window(window)
                    target = next((t for t in elements if held and _last_of(t, *held)), None)
                    if held is None or target is None:
                        continue
                    line, col, place = source.place(target)
                    message = capital(
                        f"{place} takes as target what the window holds: `{ast.unparse(target)}` is the last value of "
                        f"`{ast.unparse(window)}`, so the model has only to copy it."
                    )
                    remedy = f"Take the first value after the window: {held[0]}[{ast.unparse(held[1])}]."
                    return [Found("data", "warning", line, col, message, remedy)]
    return []


def _seen_whole(source: Source, node: ast.AST, window: ast.expr, elements: list[ast.expr]) -> ast.expr | None:
    """Return the target that is the last column of the windows that are given beside it, all of them together."""
    if not isinstance(node, ast.Return) or not re.search(r"sliding_window_view|\.unfold\(|as_strided", source.text):
        return None
    flow = flow_around(source, node)
    whole = _unwrapped(flow.inner(_unwrapped(window)))
    cut = any(called(n) in ("sliding_window_view", "unfold", "as_strided") for n in spread(flow, whole, 60))
    for target in elements if cut and isinstance(window, ast.Name | ast.Call) else ():
        last = _unwrapped(flow.inner(_unwrapped(target)))
        if not isinstance(last, ast.Subscript):
            continue
        column = re.fullmatch(r"\(?(:|\.\.\.), -1:?\)?", ast.unparse(last.slice))
        if column and ast.unparse(_unwrapped(last.value)) in (ast.unparse(_unwrapped(window)), ast.unparse(whole)):
            return last
    return None


def _appended(node: ast.For | ast.FunctionDef) -> list[ast.expr]:
    """What the statements of a loop's or a function's body append or give to variables, one level deep."""
    found: list[ast.expr] = []
    for statement in node.body:
        if isinstance(statement, ast.Expr) and called(statement.value) == "append":
            found += statement.value.args  # type: ignore[attr-defined]
        elif isinstance(statement, ast.Assign):
            found.append(statement.value)
    return found


def _unwrapped(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and called(node) in COPIES | {"as_tensor", "from_numpy", "unsqueeze"}:
        method = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in PACKAGES
        inner = node.func.value if method else node.args[0] if node.args else None  # type: ignore[attr-defined]
        if inner is None:
            break
        node = inner
    return node


def _window(node: ast.expr) -> tuple[str, ast.expr] | None:
    """Of ``x[i : i + w]``: the variable and where the window ends."""
    node = _unwrapped(node)
    if not isinstance(node, ast.Subscript):
        return None
    rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    if not isinstance(rows, ast.Slice) or rows.lower is None or rows.upper is None or rows.step is not None:
        return None
    return ast.unparse(node.value), rows.upper


def _last_of(node: ast.expr, name: str, end: ast.expr) -> bool:
    """Whether it is ``x[end - 1]``."""
    node = _unwrapped(node)
    if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != name:
        return False
    rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    last, (names, number) = _summed(rows), _summed(end)
    return last == (names, number - 1)


def _summed(node: ast.expr, sign: int = 1) -> tuple[tuple[str, ...], int]:
    """Of an index its terms other than numbers, in order, and the sum of those: ``i + L + 1`` is (i, L) and 1."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, one = _summed(node.left, sign)
        right, other = _summed(node.right, sign if isinstance(node.op, ast.Add) else -sign)
        return tuple(sorted(left + right)), one + other
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return (), sign * node.value
    return (f"{'' if sign > 0 else '-'}{ast.unparse(node)}",), 0
