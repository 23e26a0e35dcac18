"""A kernel's text with all that it reads of its module, so that another process can make it anew in its own mode.

What stands above the function (`@triton.autotune`, `@triton.heuristics`, a library's own decorators) is left out but
for `@triton.jit`: whoever launches says what they would have said. Of annotations stays what Triton reads.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import math
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from .problem import Unknown

_LANGUAGE = ("triton.language", "triton.language.math", "triton.language.standard", "triton.language.core")
_PLAIN = (bool, int, float, str, bytes, type(None))


def function_of(kernel: Any) -> Any:
    """Return the Python function of a kernel, below autotuners, heuristics and other decorators. *Raises*: Unknown."""
    return jitted(kernel).fn


def jitted(kernel: Any) -> Any:
    """Return what `@triton.jit` made, below autotuners, heuristics and other decorators. *Raises*: Unknown."""
    return chain_of(kernel)[-1]


def chain_of(kernel: Any) -> list[Any]:
    """Return a kernel's layers, the outermost first, what `@triton.jit` made last. *Raises*: Unknown."""
    chain = [kernel]
    while not isinstance(getattr(chain[-1], "fn", None), types.FunctionType):
        inner = getattr(chain[-1], "fn", None)
        if inner is None or any(inner is each for each in chain):
            what = getattr(kernel, "__name__", type(kernel).__name__)
            raise Unknown(f"{what} is no kernel: a {type(kernel).__name__} with no function of @triton.jit below it. "
                          "Remedy: @triton.jit above the function, or kernel = triton.jit(function)")  # fmt: skip
        chain.append(inner)
    return chain


def text_of(kernel: Any) -> str:
    """Return a module's text with a jitted kernel and all that it reads of its own globals.

    *Raises*: Unknown for a global that cannot be written down.
    """
    return _Writer().module(function_of(kernel))


class _Writer:
    """One module's text as it grows."""

    def __init__(self) -> None:
        self.heads: dict[str, str] = {"triton": "import triton", "tl": "import triton.language as tl"}
        self.bodies: dict[str, str] = {}
        self.tails: list[str] = []  # modules that helpers are asked of, as in `math.softplus(x)`
        self._meant: dict[str, Any] = {}

    def module(self, fn: Any) -> str:
        """Return the text of the module that has a function."""
        self.add(fn, fn.__name__, "@triton.jit")
        heads, bodies = "\n".join(self.heads.values()), "\n".join(self.bodies[n] for n in reversed(list(self.bodies)))
        return heads + "\n\n" + bodies + "\n".join(self.tails)

    def add(self, fn: Any, name: str, decorator: str) -> None:
        """Add a function under a name, with what it reads."""
        if not self._new(name, fn):
            return
        self.bodies[name] = ""
        try:
            source = textwrap.dedent(inspect.getsource(fn))
        except OSError as error:
            raise Unknown(
                f"the text of {name} cannot be read: {error}. Remedy: define it in a file or a cell"
            ) from None
        tree = _bare(source, name, decorator)
        for each in tree.args.args:
            if fn.__annotations__.get(each.arg) == "constexpr":  # it has been given one (`launches`)
                each.annotation = ast.parse("tl.constexpr", mode="eval").body
        closed = inspect.getclosurevars(fn).nonlocals
        local = set(fn.__code__.co_varnames)
        for used in _names(tree):
            if used != name and used not in local:
                if used in closed:
                    self.value(used, closed[used], name, tree)
                elif used in fn.__globals__:
                    said = str(fn.__globals__.get("__annotations__", {}).get(used, ""))  # `HALF: tl.constexpr = 0.5`
                    self.value(used, fn.__globals__[used], name, tree, "constexpr" in said)
        tree.name = name  # its module may know it by another
        self.bodies[name] = ast.unparse(tree) + "\n"

    def value(
        self, used: str, value: Any, reader: str, tree: ast.AST, constant: bool = False, asked_as: str = ""
    ) -> None:
        """Add what a function reads. asked_as : the words in its text, for what a module has. *Raises*: Unknown."""
        kind = type(value).__name__
        fn: Any = getattr(value, "fn", None)
        home = getattr(value if fn is None else fn, "__module__", None) or ""
        if isinstance(value, types.ModuleType):
            if _importable(value):
                self._head(used, value, f"import {value.__name__} as {used}")
            else:
                self._stand_in(used, value, reader, tree, asked_as or used)
        elif isinstance(getattr(value, "fn", None), types.FunctionType) and not _triton_s(value.fn):
            self.add(value.fn, used, "@triton.constexpr_function" if kind == "ConstexprFunction" else "@triton.jit")
        elif kind == "ConstexprFunction" and fn is not None and vars(sys.modules[home]).get(fn.__name__) is fn:
            self._head(used, value, f"from {home} import {value.fn.__name__} as {used}\n"
                                    f"{used} = triton.constexpr_function({used})")  # fmt: skip
        elif kind == "constexpr" and isinstance(value.value, types.FunctionType) and not _triton_s(value.value):
            self.add(value.value, used, "@tl.constexpr")
        elif kind == "constexpr" and isinstance(value.value, _PLAIN):
            self._head(used, value.value, f"{used} = tl.constexpr({_written(value.value)})")
        elif kind == "constexpr" and type(value.value).__name__ == "dtype":
            self._head(used, value.value, f"{used} = tl.constexpr(tl.dtype({value.value.name!r}))")
        elif kind == "dtype" and home.startswith("triton"):
            self._head(used, value, f"{used} = tl.dtype({value.name!r})")
        elif _is_plain(value):
            written = _written(value)
            self._head(used, value, f"{used} = tl.constexpr({written})" if constant else f"{used} = {written}")
        elif home.startswith("triton") and getattr(sys.modules.get(home), getattr(value, "__name__", ""), None):
            self._head(used, value, f"from {home} import {value.__name__} as {used}")
        elif where := _in_triton(value):
            self._head(used, value, f"from {where[0]} import {where[1]} as {used}")
        elif isinstance(value, types.BuiltinFunctionType | type) and home == "builtins":
            return
        else:
            raise Unknown(f"{reader} reads the global {used}, a {kind}, which no other process can be told. Remedy: a "
                          "number, a text, tl.constexpr, a module or a @triton.jit function in its place")  # fmt: skip

    def _stand_in(self, used: str, module: types.ModuleType, reader: str, tree: ast.AST, words: str) -> None:
        """Write down what is asked of a module that a worker need not have."""
        if self._new(used, module):
            self.heads[used] = f"import types\n{used} = types.ModuleType({used!r})"
        for asked in _asked_of(words, tree):
            value = getattr(module, asked, None)
            self.value(f"{used}__{asked}", value, reader, tree, asked_as=f"{words}.{asked}")
            if (line := f"{used}.{asked} = {used}__{asked}\n") not in self.tails:
                self.tails.append(line)

    def _head(self, name: str, value: Any, line: str) -> None:
        if self._new(name, value):
            self.heads[name] = line

    def _new(self, name: str, value: Any) -> bool:
        """Return whether a name stands for nothing yet. *Raises*: Unknown where it stands for something else."""
        if name not in self._meant:
            self._meant[name] = value
            return True
        before = self._meant[name]
        if before is not value and not (_is_plain(value) and _is_plain(before) and before == value):
            raise Unknown(f"the name {name} means one thing in one function that the kernel calls and another in "
                          "another. Remedy: two names")  # fmt: skip
        return False


def _bare(source: str, name: str, decorator: str) -> ast.FunctionDef:
    """Return a function's tree with one decorator, and the annotations that Triton reads."""
    tree = ast.parse(source).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise Unknown(f"the text of {name} is no function of its own. Remedy: def {name}(...) in a file or a cell")
    kept = next((_literal(each) for each in tree.decorator_list if _is_jit(each)), [])
    made = ast.parse(f"{decorator}\ndef f(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    tree.decorator_list = made.decorator_list
    if kept and decorator == "@triton.jit":
        tree.decorator_list = [ast.Call(made.decorator_list[0], [], kept)]
    tree.returns = None
    given = tree.args
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        said = ast.unparse(each.annotation) if each.annotation else ""
        if "constexpr" in said:
            each.annotation = ast.parse("tl.constexpr", mode="eval").body
        elif not (said.startswith("tl.") or (said[:1] in "'\"" and "tl." in said)):
            each.annotation = None
    return ast.fix_missing_locations(tree)


def _is_jit(node: ast.expr) -> bool:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).split(".")[-1] == "jit"


def _literal(node: ast.expr) -> list[ast.keyword]:
    """Return those of a decorator's arguments that are written out."""
    found = []
    for each in node.keywords if isinstance(node, ast.Call) else ():
        try:
            ast.literal_eval(each.value)
        except ValueError:
            continue
        found.append(each)
    return found


def _importable(module: types.ModuleType) -> bool:
    """Return whether a worker surely has a module."""
    top = module.__name__.partition(".")[0]
    return top in ("triton", "numpy") or top in sys.stdlib_module_names


def _asked_of(words: str, tree: ast.AST) -> Iterator[str]:
    """Yield what a text asks of what it calls by these words, as `version` of `torch`, `hip` of `torch.version`."""
    asked = (n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == words)
    yield from dict.fromkeys(asked)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(k) and _is_plain(v) for k, v in value.items())
    return isinstance(value, _PLAIN)


def _written(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _triton_s(fn: Any) -> bool:
    return (fn.__module__ or "").startswith("triton.")


def _in_triton(value: Any) -> tuple[str, str] | None:
    """Return the module of Triton's language and the name there of what the interpreter has put in a function's place,
    which has another name: `exp` of ``fast_exp = tl.math.exp``."""
    for home in _LANGUAGE:
        for name, each in vars(sys.modules.get(home, types)).items():
            if each is value and not name.startswith("_"):
                return home, name
    return None


def _names(tree: ast.AST) -> list[str]:
    return list(dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)))


def made(text: str, name: str) -> Any:
    """Return the kernel of a module's text, made in this process."""
    file = f"<tuned kernel {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType("tuned_kernel")
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)[name]
