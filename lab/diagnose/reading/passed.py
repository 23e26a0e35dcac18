"""What goes from one function of the user's to another: arguments, results, attributes, and layers that are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .sources import Function, Source, called, key, own_nodes

FUNCTIONALS = {
    "CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss", "L1Loss": "l1_loss", "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss", "BCELoss": "binary_cross_entropy", "NLLLoss": "nll_loss", "KLDivLoss": "kl_div",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "CosineSimilarity": "cosine_similarity",
    "LogSigmoid": "logsigmoid", "PairwiseDistance": "pairwise_distance", "GaussianNLLLoss": "gaussian_nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss", "CosineEmbeddingLoss": "cosine_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss", "TripletMarginLoss": "triplet_margin_loss",
}  # fmt: skip
"""Layers without parameters, by the function that does the same."""


def functional(source: Source, node: ast.AST) -> str:
    """Return the last name of what a call calls: of ``criterion = nn.MSELoss()`` that of the function, "mse_loss"."""
    if not isinstance(node, ast.Call):
        return ""
    kinds = source.made.get(key(node.func), ())
    kind = FUNCTIONALS.get(kinds[0], "") if len(kinds) == 1 else ""
    if isinstance(node.func, ast.Call):
        kind = FUNCTIONALS.get(called(node.func), "")  # nn.MSELoss()(a, b)
    return kind or called(node)


def argument(source: Source, function: ast.AST, name: str) -> ast.expr | None:
    """Return what an argument of a user's function is given where it is called from one place; else None."""
    given = arguments(source, function, name)
    return given[0] if len(given) == 1 else None


def arguments(source: Source, function: ast.AST, name: str) -> list[ast.expr]:
    """Return what each call of a user's function gives an argument, or leaves it by default: nothing where one of them
    does not say."""
    if not isinstance(function, Function) or function.args.vararg or function.args.kwarg:
        return []
    calls = _calls(source, function)
    if any(isinstance(a, ast.Starred) for c in calls for a in c.args) or any(
        k.arg is None for c in calls for k in c.keywords
    ):
        return []
    places = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    defaults = dict(zip(reversed(places), reversed(function.args.defaults), strict=False))
    defaults |= {
        a.arg: value for a, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value
    }
    if isinstance(source.parents.get(function), ast.ClassDef) and not _static(function):
        places = places[1:]
    given = [
        (defaults | dict(zip(places, call.args, strict=False)) | {str(k.arg): k.value for k in call.keywords}).get(name)
        for call in calls
    ]
    return [value for value in given if value is not None] if None not in given else []


def result(source: Source, call: ast.AST, networks: bool = False) -> ast.expr | None:
    """Return the expression that a call of a user's function returns, if that has one return; with `networks` that of
    an object that has layers, too."""
    function = _function(source, call) if isinstance(call, ast.Call) else None
    if function is None or isinstance(function, ast.AsyncFunctionDef):
        return None
    kind = source.parents.get(function)
    if not networks and function.name in ("forward", "__call__") and kind is not None and _has_layers(kind):
        return None
    own = list(own_nodes(function))
    ends = [n.value for n in own if isinstance(n, ast.Return)]
    inside = any(n is call for n in ast.walk(function))
    if len(ends) != 1 or inside or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own):
        return None
    return ends[0]


def attribute(source: Source, node: ast.Attribute) -> ast.expr | None:
    """Return what ``self.x`` or ``config.x`` was given, if that was done once."""
    owner, name = node.value, node.attr
    kind = _class_around(source, node) if isinstance(owner, ast.Name) and owner.id == "self" else _class(source, owner)
    if kind is None:
        made = [value for value in source.given.get(key(owner), ()) if isinstance(value, ast.Call)]
        made = [c for c in made if called(c) in ("SimpleNamespace", "Namespace")]
        given = [k.value for c in made for k in c.keywords if k.arg == name]
        return given[0] if len(given) == 1 else None
    values = [n.value for n in ast.walk(kind) if isinstance(n, ast.Assign | ast.AnnAssign) and n.value is not None
              for t in (n.targets if isinstance(n, ast.Assign) else [n.target]) if _sets(t, name)]  # fmt: skip
    values += _paired(kind, name)
    if len(values) != 1:
        return None
    if not any(isinstance(n, Function) and n.name == "__init__" for n in kind.body):  # fields of a dataclass
        given = [k.value for c in source.calls.get(kind.name, ()) for k in c.keywords if k.arg == name]
        return given[0] if len(given) == 1 else values[0] if not given else None
    return values[0]


def _sets(target: ast.expr, name: str) -> bool:
    """Whether a statement sets ``self.name``, or a field of that name."""
    if isinstance(target, ast.Attribute):
        return target.attr == name and isinstance(target.value, ast.Name) and target.value.id == "self"
    return isinstance(target, ast.Name) and target.id == name


def _paired(kind: ast.ClassDef, name: str) -> list[ast.expr]:
    """What ``self.a, self.b = a, b`` gives an attribute."""
    found = []
    for node in ast.walk(kind):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Tuple) and isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            found += [v for t, v in zip(target.elts, node.value.elts, strict=False) if _sets(t, name)]
    return found


def _has_layers(kind: ast.AST) -> bool:
    """Whether an object of a class learns, by what it is made of."""
    known: bool | None = vars(kind).get("has_layers")
    if known is None:
        text = re.sub(r"nn\.(\w*Loss|functional|Module|init)\b", "", ast.unparse(kind))
        known = vars(kind)["has_layers"] = re.search(r"\bnn\.[A-Z]|Parameter\(", text) is not None
    return known


def _static(function: ast.AST) -> bool:
    marks = getattr(function, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in marks)


def _class_around(source: Source, node: ast.AST) -> ast.ClassDef | None:
    return next((above for above in source.around(node) if isinstance(above, ast.ClassDef)), None)


def _class(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """The user's class that a variable or an attribute is an object of, if it is given one of one class alone."""
    kinds = source.made.get(key(node), ())
    return source.classes.get(kinds[0]) if len(kinds) == 1 else None


def _function(source: Source, call: ast.Call) -> Function | None:
    """The user's function that a call runs: one by its name, a method of an object of a user's class, its forward()."""
    kind: ast.ClassDef | None
    name = called(call)
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
        of_self = isinstance(owner, ast.Name) and owner.id == "self"
        kind = _class_around(source, call) if of_self else _class(source, owner)
        method = _method(kind, name) if kind is not None else None
        if method is not None:
            return method
    elif name in source.functions:
        return source.functions[name]
    kind = _class(source, call.func)
    return None if kind is None else _method(kind, "forward") or _method(kind, "__call__")


def _method(kind: ast.ClassDef, name: str) -> Function | None:
    return next((n for n in kind.body if isinstance(n, Function) and n.name == name), None)


def _calls(source: Source, function: Function) -> list[ast.Call]:
    """The calls of a user's function; several where there may be others than those that are seen."""
    known: list[ast.Call] | None = vars(function).get("called_by")
    if known is None:
        known = vars(function)["called_by"] = list(_all_calls(source, function))
        below = _below(source, function) if known else set()
        if any(above in below for call in known for above in source.around(call)):
            known.append(ast.Call(ast.Name(function.name, ast.Load()), [], []))  # in each round it is given another one
    return known


def _below(source: Source, function: Function) -> set[Function]:
    """A function, and the user's functions that run while it does: what calls it there calls it again."""
    found, stack = {function}, [function]
    while stack:
        for node in ast.walk(stack.pop()):
            inner = _function(source, node) if isinstance(node, ast.Call) else None
            if inner is not None and inner not in found:
                found.add(inner)
                stack.append(inner)
    return found


def _all_calls(source: Source, function: Function) -> Iterator[ast.Call]:
    kind = source.parents.get(function)
    if not isinstance(kind, ast.ClassDef):
        if source.functions.get(function.name) is not function:
            return
        # torch.log(x) in a function log() is no call of that one
        yield from (c for c in source.calls.get(function.name, ()) if isinstance(c.func, ast.Name))
        unseen = [n for n in source.reads.get(function.name, ()) if not _calls_it(source, n)]
        yield from (ast.Call(n, [], []) for n in unseen)  # it is handed on
        return
    made = source.calls.get(kind.name, [])
    if function.name == "__init__":
        yield from made
    elif len(made) == 1:  # of several objects nobody knows which is called
        names = {function.name} if function.name not in ("forward", "__call__") else source.named.get(kind.name, set())
        for call in (c for name in names for c in source.calls.get(name, ())):
            runs = _function(source, call)
            if runs is function or (runs is None and len(call.args) == len(function.args.args) - 1):
                yield call


def _calls_it(source: Source, node: ast.AST) -> bool:
    above = source.parents.get(node)
    return isinstance(above, ast.Call) and above.func is node
