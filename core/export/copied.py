"""Reference texts of ops as plain NumPy: functions of core are copied with what they use, and need no core then.

A function's own source is read, and what it names is followed: functions are copied too, constants are written out,
modules of the standard library are imported. Annotations go, and the array library `xp` becomes `np`.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import special
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..declare.op import Operation
from ..ops import precision
from ..ops.quantised import integers
from .ir import ExportError, Names

_MARK = "@"  # before a name that means something of the file, while a tree is worked on
_LIBRARY = {"decimal", "math", "itertools", "functools", "operator", "string"}

_ERF = '''
def {name}(x):
    """The error function, by rational approximations (W. J. Cody, Math. Comp. 23, 1969), exact to float64."""
    wide = np.asarray(x, np.float64)
    a = np.abs(wide)
    square = np.minimum(a, 0.5) ** 2
    near = wide * np.polyval(_ERF_NEAR[0], square) / np.polyval(_ERF_NEAR[1], square)
    return np.where(a <= 0.5, near, np.copysign(1.0 - {tail}(a), wide)).astype(x.dtype)
'''
_ERFC = '''
def {name}(x):
    """The complementary error function, without cancellation where it is small."""
    wide = np.asarray(x, np.float64)
    tail = {tail}(np.abs(wide))
    return np.where(wide <= 0.5, np.where(wide < -0.5, 2.0 - tail, 1.0 - {erf}(wide)), tail).astype(x.dtype)
'''
_ERFC_TAIL = '''
# numerators and denominators, highest powers first
_ERF_NEAR = (
    [1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3],
    [1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3],
)
_ERFC_MIDDLE = (
    [2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
     8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3],
    [1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3],
)
_ERFC_FAR = (
    [1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4],
    [1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3],
)


def {name}(a):
    """erfc of a >= 0.5."""
    middle = np.clip(a, 0.5, 4.0)
    found = np.polyval(_ERFC_MIDDLE[0], middle) / np.polyval(_ERFC_MIDDLE[1], middle)
    far = np.maximum(a, 4.0)
    square = 1.0 / (far * far)
    rest = square * np.polyval(_ERFC_FAR[0], square) / np.polyval(_ERFC_FAR[1], square)
    found = np.where(a <= 4.0, found, (0.5641895835477562869 - rest) / far)
    return np.where(np.isnan(a), a, np.exp(-a * a) * found)
'''
_WIDE = '''
def {name}(x):
    """float16 as float32, in which it is computed; anything else as it is."""
    return x.astype(np.float32) if x is not None and x.dtype == np.float16 else x
'''
_ROUNDED = """
def {name}(y, dtype):
    return y.astype(dtype, copy=False)
"""
_FINISHED = '''
def {name}(total, scale, bias, activation, dtype):
    """Exact sums as numbers: times the scale, plus the bias."""
    y = total.astype(scale.dtype) * scale
    return (y if bias is None else y + bias).astype(dtype, copy=False)
'''


class Copies:
    """The functions of a file that is written, by name, in the order in which they are needed."""

    def __init__(self, names: Names, halves: bool = True) -> None:
        self.names = names  # of the file
        self.halves = halves  # whether there is float16, which is computed in float32
        self.texts: list[str] = []
        self.modules: set[str] = set()
        self._names: dict[Any, str] = {}

    def own(self, key: Any, wanted: str, body: Callable[[str], str]) -> str:
        """Return the name of a function that this package writes itself; its text is `body` of that name."""
        if key not in self._names:
            self._names[key] = self.names.fresh(wanted)
            self.texts.append(body(self._names[key]).strip("\n"))
        return self._names[key]

    def erf(self) -> str:
        """Return the name of the error function."""
        tail = self.own("erfc tail", "erfc_tail", lambda name: _ERFC_TAIL.format(name=name))
        return self.own(special.erf, "erf", lambda name: _ERF.format(name=name, tail=tail))

    def erfc(self) -> str:
        """Return the name of the complementary error function."""
        erf = self.erf()
        tail = self._names["erfc tail"]
        return self.own(special.erfc, "erfc", lambda name: _ERFC.format(name=name, tail=tail, erf=erf))

    def operation(self, op: Operation) -> tuple[str, list[str]]:
        """Return the name of the function that an op's reference text became, and the params that it left out."""
        left_out = _WITHOUT.get(op.name, ())
        wanted = op.name if op.name not in dir(builtins) else f"{op.name}_of"
        try:
            return self.copied(unwrapped(op.forward), wanted, left_out), list(left_out)
        except _NotNumPy as error:
            raise ExportError(text(f"the op {op.name} has no text in NumPy alone", op="export", came=str(error),
                                   remedy="program.save, and core.export.load where it runs")) from None  # fmt: skip

    def copied(self, function: Any, wanted: str = "", left_out: tuple[str, ...] = ()) -> str:
        """Return the name under which a function stands in the file; it is copied when it is first asked for."""
        if function is special.erf:
            return self.erf()
        if function is special.erfc:
            return self.erfc()
        if function is precision.wide:
            return self.own(function, "wide", lambda name: _WIDE.format(name=name))
        if function is precision.rounded:
            return self.own(function, "rounded", lambda name: _ROUNDED.format(name=name))
        if function is integers.finished:  # the activation is an op of its own in the file
            return self.own(function, "finished", lambda name: _FINISHED.format(name=name))
        if function in self._names:
            return self._names[function]
        node = definition(function)
        name = self._names[function] = self.names.fresh(wanted or _title(function))
        node = self._rewritten(function, _Cut(left_out).visit(node))
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.Return(node.body)]
        else:
            body = node.body
        written = ast.parse(f"def {name}(): ...").body[0]
        assert isinstance(written, ast.FunctionDef)
        written.args, written.body = node.args, body
        self.texts.append(ast.unparse(ast.fix_missing_locations(written)))
        return name

    def inlined(self, op: Operation, given: dict[str, str]) -> str | None:
        """Return the body of an op whose text is one expression, with `given` in the place of its arguments; None
        where it is longer than that."""
        function = unwrapped(op.forward)
        if function.__name__ != "<lambda>":
            return None
        node = definition(function)
        inner = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.Lambda, ast.NamedExpr)
        if any(isinstance(part, inner) for part in ast.walk(node.body)) or node.args.vararg is not None:
            return None
        uses = [part.id for part in ast.walk(node.body) if isinstance(part, ast.Name)]
        if any(uses.count(name) > 1 and not _is_atom(said) for name, said in given.items()):
            return None
        try:
            node = self._rewritten(function, node)
        except _NotNumPy:
            return None
        return ast.unparse(ast.fix_missing_locations(_Given(given).visit(node.body)))

    def _rewritten(self, function: Any, node: Any) -> Any:
        """Return a function's tree with the names of the file in it; its own variables make room for them."""
        bound = _bound_in(node)
        node = _Rewritten(self, function, bound).visit(node)
        meant = {part.id[1:] for part in ast.walk(node) if isinstance(part, ast.Name) and part.id[0] == _MARK}
        parameters = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
        if meant & parameters:
            raise _NotNumPy(f"{function.__name__} has a parameter of the name of a function")
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                part.id = part.id[1:] if part.id[0] == _MARK else f"{part.id}_" if part.id in meant & bound else part.id
        return node

    def constant(self, name: str, value: Any) -> str:
        """Return the name of a constant of the file."""
        return self.own((name, repr(value)), name, lambda said: f"{said} = {self.literal(value)}")

    def literal(self, value: Any) -> str:
        """Return a constant as Python writes it."""
        if value is None or isinstance(value, bool | int | str | complex):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, Dtype):
            value = value.numpy
        if isinstance(value, np.dtype):
            return f'np.dtype("{value.name}")'
        if type(value) in (list, tuple):
            inside = ", ".join(self.literal(v) for v in value)
            return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
        if type(value) is dict:
            return "{" + ", ".join(f"{self.literal(k)}: {self.literal(v)}" for k, v in value.items()) + "}"
        raise _NotNumPy(f"it uses {value!r:.60}")

    def meaning(self, name: str, value: Any) -> str:
        """Return how what a function calls `name` is written in the file."""
        value = _unwrapped_cache(value)
        if value is np:
            return "np"
        if isinstance(value, types.ModuleType):
            if value.__name__ in _LIBRARY:
                self.modules.add(value.__name__)
                return value.__name__
            raise _NotNumPy(f"it uses the module {value.__name__}")
        home = str(getattr(value, "__module__", ""))
        if isinstance(value, np.ufunc) or home.partition(".")[0] == "numpy":
            return f"np.{home.partition('.')[2]}.{value.__name__}".replace("..", ".")
        if home in _LIBRARY or value is getattr(builtins, name, None):
            if home == "builtins":
                return str(value.__name__)
            self.modules.add(home)
            return f"{home}.{value.__name__}"
        if isinstance(value, types.FunctionType):
            return self.copied(value)
        if isinstance(value, type) and issubclass(value, Exception):
            kind = value.__name__
            return self.own(value, kind, lambda name: f"class {name}(RuntimeError):\n    pass")
        return self.constant(name, value)


class _NotNumPy(Exception):
    """What a text uses that NumPy alone has not."""


# what a captured program has switched off, so that its text is not needed: random numbers
_WITHOUT = {"attention": ("p", "seed", "offset"), "dropout": ("p", "seed", "offset")}


def unwrapped(function: Any) -> Any:
    """Return an op's own text, without the refusal of complex numbers around it."""
    while function.__name__ == "refuse" and function.__closure__:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
        function = cells["forward"].cell_contents
    return function


def _title(function: Any) -> str:
    return "computed" if function.__name__ == "<lambda>" else str(function.__name__)


def _unwrapped_cache(value: Any) -> Any:
    return value.__wrapped__ if isinstance(value, functools._lru_cache_wrapper) else value


@functools.cache
def _tree(module: str) -> ast.Module:
    """Return the parsed source of a module."""
    try:
        return ast.parse(inspect.getsource(importlib.import_module(module)))
    except OSError:
        raise _NotNumPy(f"the source of {module} is not there") from None


def definition(function: Any) -> Any:
    """Return a fresh syntax tree of a function or a lambda."""
    code = function.__code__
    found: list[Any] = []
    for node in ast.walk(_tree(function.__module__)):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            names = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
            if node.lineno == code.co_firstlineno and _arguments(code) == names:
                found.append(node)
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                found.append(node)
    if len(found) > 1:  # several lambdas in one line: one has its body where the code has it
        places = {(p[0], p[2], p[1], p[3]) for p in code.co_positions()}
        found = [n for n in found if isinstance(n, ast.Lambda) and _place(n.body) in places]
    if len(found) != 1:
        raise _NotNumPy(f"the text of {function.__qualname__} is not clear")
    return ast.parse(ast.unparse(found[0])).body[0] if isinstance(found[0], ast.FunctionDef) else (
        ast.parse(ast.unparse(found[0]), mode="eval").body
    )  # fmt: skip


def _place(node: ast.expr) -> tuple[Any, ...]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _arguments(code: types.CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _bound_in(node: ast.AST) -> set[str]:
    """Return the names that a function binds itself, at any depth."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            found.add(part.arg)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        elif isinstance(part, ast.FunctionDef) and part is not node:
            found.add(part.name)
        elif isinstance(part, ast.alias):
            found.add(part.asname or part.name)
    return found


def _is_atom(said: str) -> bool:
    return all(c.isalnum() or c in "_.[]\"'-" for c in said)


class _Given(ast.NodeTransformer):
    """Puts texts in the place of names."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse(self.given[node.id], mode="eval").body if node.id in self.given else node


class _Cut(ast.NodeTransformer):
    """Leaves out parameters that are 0, and what runs only if they are not."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [a for a in node.args if a.arg not in self.names]
        return node

    def visit_If(self, node: ast.If) -> Any:
        if isinstance(node.test, ast.Name) and node.test.id in self.names:
            return [self.visit(part) for part in node.orelse]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(0) if node.id in self.names else node


class _Rewritten(ast.NodeTransformer):
    """Gives what a function names the names of the file, and makes `xp` NumPy."""

    def __init__(self, copies: Copies, function: Any, bound: set[str]) -> None:
        self.copies, self.bound = copies, bound
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.enclosed = {name: cell.cell_contents for name, cell in cells}
        self.known = {**function.__globals__, **self.enclosed}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        node.decorator_list = []
        self.generic_visit(node)
        for k, part in enumerate(node.body):
            if isinstance(part, ast.Return):  # what comes after it was for other libraries
                node.body = node.body[: k + 1]
                break
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        for arg in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
            if arg is not None:
                arg.annotation = None
        node.args = [arg for arg in node.args if arg.arg != "xp"]
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return None
        return ast.Assign(targets=[node.target], value=self.visit(node.value))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "xp":
            return ast.Name("np", ast.Load())
        if node.id in self.bound or node.id[0] == _MARK or not isinstance(node.ctx, ast.Load):
            return node
        if isinstance(self.enclosed.get(node.id), bool | int | float | str):
            return ast.Constant(self.enclosed[node.id])
        if node.id in self.known:
            return self._meant(node.id, self.known[node.id])
        if hasattr(builtins, node.id):
            return node
        raise _NotNumPy(f"it uses {node.id}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        value = self._module(node.value)
        if value is not None:
            return self._meant(node.attr, getattr(value, node.attr))
        self.generic_visit(node)
        return node.value if node.attr == "numpy" else node  # a dtype of core is NumPy's here

    def _meant(self, name: str, value: Any) -> ast.expr:
        found = ast.parse(self.copies.meaning(name, value), mode="eval").body
        return ast.Name(_MARK + found.id, ast.Load()) if isinstance(found, ast.Name) else found

    def _module(self, node: ast.AST) -> Any:
        """Return the module of core that a name stands for."""
        if not isinstance(node, ast.Name) or node.id in self.bound:
            return None
        value = self.known.get(node.id)
        own = isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == __name__.partition(".")[0]
        return value if own else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        takes_library = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "xp"
        if isinstance(node.func, ast.Name) and not self.copies.halves:
            if self.known.get(node.func.id) is precision.wide:
                return self.visit(node.args[0])
            if self.known.get(node.func.id) is precision.rounded:
                y, dtype = (self.visit(arg) for arg in node.args)
                exact = ast.keyword("copy", ast.Constant(False))
                return ast.Call(ast.Attribute(y, "astype", ast.Load()), [dtype], [exact])
        takes_library = takes_library and ast.unparse(node.func) not in ("getattr", "hasattr")
        self.generic_visit(node)
        if takes_library:
            node.args = node.args[1:]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        said = ast.unparse(node).replace(_MARK, "")
        return ast.Constant(said == "np is np") if said in ("np is np", "np is not np") else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        neutral = isinstance(node.op, ast.And)
        rest = [v for v in node.values if not (isinstance(v, ast.Constant) and v.value is neutral)]
        if any(isinstance(v, ast.Constant) and v.value is (not neutral) for v in rest):
            return ast.Constant(not neutral)
        if len(rest) < 2:
            return rest[0] if rest else ast.Constant(neutral)
        node.values = rest
        return node

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant) and isinstance(node.test.value, bool):
            chosen = node.body if node.test.value else node.orelse
            found: list[Any] = []
            for part in chosen:
                done = self.visit(part)
                found += done if isinstance(done, list) else [] if done is None else [done]
            return found
        return self.generic_visit(node)
