"""Expressions of the user's text with the variables in them put in, and the terms that they are a sum of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from ..finding import end_of
from .passed import argument, arguments, attribute, result
from .sources import Function, Source, assigned, called, names_in, own_nodes

REDUCED = {"mean", "sum", "squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "to", "stack", "cat",
           "as_tensor", "tensor", "nanmean", "contiguous", "double"}  # fmt: skip
"""Methods and functions that leave each value's sign, and what it is a value of."""
LIBRARIES = {"torch", "core", "F", "np", "numpy"}
DEEP = 12
MOST = 64  # terms of a sum
OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "subtract": ast.Sub, "mul": ast.Mult, "multiply": ast.Mult, "div": ast.Div,
    "divide": ast.Div, "true_divide": ast.Div,
}  # fmt: skip
LARGE = 1e300  # beyond it a whole number of somebody's is no float


class Term(NamedTuple):
    """One of the terms of a sum: its sign, and what is added or subtracted."""

    sign: int
    node: ast.expr


class Flow:
    """What the variables of one function hold where they are read, as far as the order of the text tells."""

    def __init__(self, source: Source, scope: ast.AST) -> None:
        self.source, self.scope = source, scope
        self.nodes = list(own_nodes(scope))
        self._bound: dict[str, list[tuple[tuple[int, int], ast.expr | None, ast.AST]]] = {}
        self._appended: dict[str, list[ast.Call]] = {}
        known: set[ast.AST] = set()
        for pair in assigned(self.nodes):
            alone = any(isinstance(t, ast.Name) and t.id == pair.name for t in pair.node.targets)
            parts = [t for t in pair.node.targets if isinstance(t, ast.Tuple)]
            several = pair.value is pair.node.value and not alone  # one of the results of a call
            several = several and not all(len(t.elts) == 1 for t in parts)
            self._bind(pair.name, pair.node, None if several else pair.value)
            known.update(n for t in pair.node.targets for n in ast.walk(t))
        for node in self.nodes:
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
                source.parents[before] = node
                self._bind(node.target.id, node, ast.copy_location(ast.BinOp(before, node.op, node.value), node))
                known.add(node.target)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in known:
                self._bind(node.id, node, None)
            elif called(node) == "append" and isinstance(node, ast.Call) and len(node.args) == 1:
                self._appended.setdefault(ast.unparse(getattr(node.func, "value", node.func)), []).append(node)
        for places in self._bound.values():
            places.sort(key=lambda bound: bound[0])

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.nodes:
            found.setdefault(type(node), []).append(node)
        return found

    def of(self, *types: type[ast.AST]) -> list[ast.AST]:
        """Return the nodes of some types."""
        return [node for one in types for node in self._by_type.get(one, ())]

    def _bind(self, name: str, node: ast.AST, value: ast.expr | None) -> None:
        end = isinstance(node, ast.stmt)  # what is right of the sign is read before
        at = end_of(node) if end else (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        self._bound.setdefault(name, []).append((at, value, node))

    def value(self, node: ast.AST) -> ast.expr | None:
        """Return what a variable was last given before it is read there, or a dict's item; None where nobody can tell.

        An argument of a function that is called from one place is what it is given there.
        """
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.value, ast.Name)
        ):
            return self._item(node.value, node.slice.value)
        if not isinstance(node, ast.Name):
            return None
        home = self._home(node)
        return home._value(node)

    def _home(self, node: ast.AST) -> Flow:
        """The flow of the function that a node stands in."""
        if node not in self.source.parents:
            return self
        inner = next((above for above in self.source.around(node) if isinstance(above, Function)), None)
        if inner is self.scope or (inner is None and not isinstance(self.scope, Function)):
            return self
        whole = self.source.program if self.source.earlier else self.source.tree
        return flow_of(self.source, inner or whole)

    def _value(self, node: ast.Name) -> ast.expr | None:
        at = node.lineno, node.col_offset
        before = [bound for bound in self._bound.get(node.id, ()) if bound[0] < at]
        if not before:
            return None if node.id in self._bound else self._outside(node.id)
        _, value, where = before[-1]
        around = set(self.source.around(node))
        if any(isinstance(above, ast.If | ast.Try) and above not in around for above in self.source.around(where)):
            return None  # one of several branches
        if value is None:
            return self._result(node.id, where)
        if isinstance(value, ast.List) and not value.elts:
            given = self._appended.get(node.id, [])
            # only what stands before: so a value is always further up, and the way to it ends
            return given[0].args[0] if len(given) == 1 and end_of(given[0]) < at else None
        return value

    def binds(self, name: str) -> bool:
        """Return whether the function sets a variable itself, or has an argument of that name."""
        arguments = self.scope.args if isinstance(self.scope, Function) else None
        return name in self._bound or (
            arguments is not None and any(n.arg == name for n in ast.walk(arguments) if isinstance(n, ast.arg))
        )

    def _result(self, name: str, where: ast.AST) -> ast.expr | None:
        """What one of several variables is given by a function of the user's that returns as many values."""
        target = where.targets[0] if isinstance(where, ast.Assign) else None
        given = result(self.source, where.value, networks=True) if isinstance(where, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or not isinstance(given, ast.Tuple) or len(target.elts) != len(given.elts):
            return None
        return next((v for t, v in zip(target.elts, given.elts, strict=True) if getattr(t, "id", "") == name), None)

    def _item(self, name: ast.Name, key: object) -> ast.expr | None:
        """What a dict has at a key, where it was made with it and nothing was written into it."""
        made = self.inner(name)
        if isinstance(made, ast.Dict):
            keys = [getattr(k, "value", None) for k in made.keys]
            return made.values[keys.index(key)] if keys.count(key) == 1 else None
        if called(made) == "dict" and isinstance(made, ast.Call) and not made.args:
            return next((k.value for k in made.keywords if k.arg == key), None)
        return None

    def _outside(self, name: str) -> ast.expr | None:
        """Return what comes from outside a function: an argument, or a plain number that a name is given once."""
        if not isinstance(self.scope, Function):
            return None
        for function in (n for n in (self.scope, *self.source.around(self.scope)) if isinstance(n, Function)):
            if name in {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}:
                return argument(self.source, function, name)
        return self.source.constants.get(name)

    def inner(self, node: ast.expr, depth: int = DEEP) -> ast.expr:
        """Return an expression itself, for a variable what it was given."""
        while depth and (value := self.value(node)) is not None:
            node, depth = value, depth - 1
        return node

    def number(self, node: ast.AST, depth: int = DEEP) -> float | None:
        """Return the number that an expression is, if it is a plain one: 0.5, -1, a variable that was given it."""
        if isinstance(node, ast.Attribute) and depth:
            given = attribute(self.source, node)
            return None if given is None else self.number(given, depth - 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.number(node.operand, depth)
            return None if value is None else -value
        if isinstance(node, ast.Constant):
            small = isinstance(node.value, int | float) and abs(node.value) < LARGE
            return float(node.value) if small else None  # type: ignore[arg-type]
        if isinstance(node, ast.BinOp):
            left, right = self.number(node.left, depth), self.number(node.right, depth)
            if left is None or right is None or (isinstance(node.op, ast.Div) and not right):
                return None
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Add):
                return left + right
            return (
                left * right
                if isinstance(node.op, ast.Mult)
                else left / right
                if isinstance(node.op, ast.Div)
                else None
            )
        inner = self.value(node) if depth else None
        return None if inner is None else self.number(inner, depth - 1)

    def setting(self, node: ast.AST) -> float | None:
        """Return the number that an expression is; of an argument of the function what all its calls give alike."""
        number = self.number(node)
        if number is None and isinstance(node, ast.Name) and node.id not in self._bound:
            numbers = {self.number(given) for given in arguments(self.source, self.scope, node.id)}
            number = numbers.pop() if len(numbers) == 1 else None
        return number

    def operator(self, node: ast.expr) -> ast.expr:
        """Return an expression with the operator of a call that does the same: ``a + c * b`` of ``torch.add(a, b,
        alpha=c)``, ``-x`` of ``x.neg()``; any other as it is."""
        if not isinstance(node, ast.Call):
            return node
        known = vars(node).get("operator")
        if known is None:
            known = vars(node)["operator"] = _operator(node)
            for made in ast.walk(known) if known is not node else ():
                for inner in ast.iter_child_nodes(made):
                    self.source.parents.setdefault(inner, made)
            self.source.parents.setdefault(known, self.source.parents.get(node, node))
        return known  # type: ignore[no-any-return]

    def terms(self, node: ast.expr, whole: re.Pattern[str] | None = None) -> Iterator[Term]:
        """Yield the terms of a sum, variables and what functions of the user's return put in, but for those of `whole`
        names; numbers that are multiplied with count by their signs alone."""
        return islice(self._terms(node, 1, DEEP, whole), MOST)

    def _terms(self, node: ast.expr, sign: int, depth: int, whole: re.Pattern[str] | None) -> Iterator[Term]:
        node = self.operator(node)
        if not depth or (whole is not None and isinstance(node, ast.Name) and whole.search(node.id)):
            yield Term(sign, node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield from self._terms(node.operand, -sign, depth - 1, whole)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield from self._terms(node.left, sign, depth - 1, whole)
            yield from self._terms(node.right, sign if isinstance(node.op, ast.Add) else -sign, depth - 1, whole)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            yield from self._product(node, sign, depth, whole)
        elif (of := reduced(node)) is not None:
            yield from self._terms(of, sign, depth - 1, whole)
        elif (value := self.value(node)) is not None or (value := self._made(node, whole)) is not None:
            yield from self._terms(value, sign, depth - 1, whole)
        else:
            yield Term(sign, node)

    def _made(self, node: ast.expr, whole: re.Pattern[str] | None) -> ast.expr | None:
        """What a function of the user's gives, but for those of `whole` names."""
        if not isinstance(node, ast.Call) or (whole is not None and whole.search(called(node))):
            return None
        return result(self.source, node)

    def _product(self, node: ast.BinOp, sign: int, depth: int, whole: re.Pattern[str] | None) -> Iterator[Term]:
        for factor, rest in ((node.left, node.right), (node.right, node.left)):
            number = self.number(factor)
            weighs = number is not None or (scalar(factor) and not scalar(rest)) or _counts(factor)
            if weighs and (isinstance(node.op, ast.Mult) or rest is node.left):
                yield from self._terms(rest, -sign if (number or 0) < 0 else sign, depth - 1, whole)
                return
        factors = list(self.factors(node))
        negative = sum(factor.sign < 0 for factor in factors)
        yield Term(-sign if negative % 2 else sign, node)

    def entrance(self, node: ast.expr, part: ast.expr) -> ast.expr:
        """Return the last sum or difference by which a term becomes one of a sum; the term itself where there is
        none."""
        found, of = part, node
        for _ in range(DEEP):
            of = self.operator(of)
            inner: ast.expr | None = None
            if isinstance(of, ast.BinOp) and isinstance(of.op, ast.Add | ast.Sub):
                inner = next((s for s in (of.left, of.right) if any(t.node is part for t in self.terms(s))), None)
                found = of if inner is not None else found
            elif isinstance(of, ast.UnaryOp):
                inner = of.operand
            else:
                inner = reduced(of) or self.value(of) or result(self.source, of)
            if inner is None:
                break
            of = inner
        return found

    def factors(self, node: ast.expr, depth: int = DEEP) -> Iterator[Term]:
        """Yield the factors of a product, each with its sign, variables not put in."""
        node = self.operator(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and depth:
            yield from self.factors(node.left, depth - 1)
            yield from self.factors(node.right, depth - 1)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and depth:
            yield from self.factors(node.left, depth - 1)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield Term(-1, node.operand)
        elif (number := self.number(node)) is not None:
            yield Term(-1 if number < 0 else 1, node)
        else:
            yield Term(1, node)


def flow_of(source: Source, scope: ast.AST) -> Flow:
    """Return the flow of a function, made once for all the rules that look at it."""
    found: Flow | None = source.flows.get(scope)
    if found is None:
        found = source.flows[scope] = Flow(source, scope)
    return found


def _operator(node: ast.Call) -> ast.expr:
    name, args = called(node), list(node.args)
    if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in LIBRARIES:
        args = [node.func.value, *args]
    given = {k.arg: k.value for k in node.keywords}
    made: ast.expr = node
    if name in ("neg", "negative") and len(args) == 1 and not given:
        made = ast.UnaryOp(ast.USub(), args[0])
    elif name in OPERATORS and len(args) == 2 and given.keys() <= {"alpha"}:
        scaled = ast.copy_location(ast.BinOp(given["alpha"], ast.Mult(), args[1]), node) if given else args[1]
        made = ast.BinOp(args[0], OPERATORS[name](), scaled)
    elif name in ("addcmul", "addcdiv") and len(args) == 3 and not given:
        operator = ast.Mult() if name == "addcmul" else ast.Div()
        made = ast.BinOp(args[0], ast.Add(), ast.copy_location(ast.BinOp(args[1], operator, args[2]), node))
    return made if made is node else ast.copy_location(made, node)


def defaults(scope: ast.AST) -> dict[str, ast.expr]:
    """Return what arguments of a function are by default; nothing for a module."""
    if not isinstance(scope, Function):
        return {}
    places = scope.args.posonlyargs + scope.args.args
    given = dict(zip(reversed([a.arg for a in places]), reversed(scope.args.defaults), strict=False))
    named = zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True)
    return given | {a.arg: value for a, value in named if value is not None}


def reduced(node: ast.AST) -> ast.expr | None:
    """Return what a call only sums up, averages or puts in another shape: ``x`` of ``x.mean(1)``, ``torch.sum(x)``."""
    if not isinstance(node, ast.Call) or called(node) not in REDUCED:
        return None
    if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in LIBRARIES:
        return node.func.value
    return node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None


def speaks_of(node: ast.expr, one: re.Pattern[str], other: re.Pattern[str]) -> bool:
    """Return whether an expression has a name or attribute of one kind, and none of the other.

    >>> one, other = re.compile("pred"), re.compile("target")
    >>> [speaks_of(ast.parse(t, mode="eval").body, one, other) for t in ("preds[0]", "self.pred", "pred_target", "x")]
    [True, True, False, False]
    """
    names = names_in(node) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return any(one.search(n) for n in names) and not any(other.search(n) for n in names)


def _counts(node: ast.AST) -> bool:
    """Whether an expression is a number of things: ``len(x)``, ``x.shape[0]``, ``x.size(0)``."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return called(node) in ("len", "numel", "size")


def scalar(node: ast.AST) -> bool:
    """Return whether an expression is a setting, by its looks: ``beta``, ``args.coef``, ``self.LAMBDA``.

    >>> [scalar(ast.parse(text, mode="eval").body) for text in ("beta", "cfg.entropy_coef", "LAMBDA", "x", "reward")]
    [True, True, True, False, False]
    """
    text = ast.unparse(node)
    last = text.rpartition(".")[2].lower()
    words = (
        "coef",
        "coeff",
        "beta",
        "lambda",
        "lam",
        "weight",
        "scale",
        "alpha",
        "gamma",
        "kld_weight",
        "w_kl",
        "c1",
        "c2",
    )
    return isinstance(node, ast.Name | ast.Attribute) and (
        last in words
        or last.endswith(("_coef", "_coeff", "_weight", "_lambda", "_scale", "_beta"))
        or last.startswith(("lambda_", "beta_", "coef_"))
    )


def losses(flow: Flow) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Yield what ``backward()`` is called on, and the call."""
    for node in flow.nodes:
        if called(node) == "backward" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if isinstance(of, ast.Call) and called(of) == "scale" and len(of.args) == 1:
                of = of.args[0]  # of a scaler
            if not (isinstance(of, ast.Name) and of.id in ("self", "ctx")):
                yield (_turned(flow, of) if node.args and _below(flow, node.args[0]) else of), node


def _below(flow: Flow, node: ast.expr) -> bool:
    """Whether what ``backward()`` is given is a number below 0: ``torch.tensor(-1.0)``, ``one * -1``."""
    inner = flow.inner(node)
    while called(inner) in ("tensor", "FloatTensor", "Tensor") and isinstance(inner, ast.Call) and len(inner.args) == 1:
        inner = inner.args[0]
        inner = inner.elts[0] if isinstance(inner, ast.List) and len(inner.elts) == 1 else inner
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
        return any((flow.number(side) or 0) < 0 for side in (inner.left, inner.right))
    return (flow.number(inner) or 0) < 0


def _turned(flow: Flow, of: ast.expr) -> ast.expr:
    """A loss with the other sign."""
    known: ast.expr | None = vars(of).get("turned")
    if known is None:
        known = vars(of)["turned"] = ast.copy_location(ast.UnaryOp(ast.USub(), of), of)
        flow.source.parents.setdefault(known, flow.source.parents.get(of, of))
    return known
