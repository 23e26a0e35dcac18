"""Prints the stubs that editors and type checkers read, from the headers of the public functions.

What `core.dispatch.publish` binds when `core` is imported (functions of a namespace, Tensor's methods and operators) no
reader of the source can see. `write_all` writes it as `.pyi` files to `core/native/generated/`, when the
extension is built; the package imports them where a type checker reads it (``if TYPE_CHECKING:``), and never runs them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_overloads

from . import __all__ as shown_by_core
from . import linalg, random, special
from .declare import kinds
from .declare.signature import MISSING, Parameter, parameter, read
from .dispatch import publish
from .native import emit
from .nn import functional
from .ops import creation
from .tensors.tensor import Tensor

HEAD = '''"""Printed by core.stubs from the headers of the public functions; do not edit."""
# ruff: noqa
import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from core import return_types
from core.base.device import device as _device
from core.base.dtypes import dtype as _dtype
from core.base.shape import Size as Shape
from core.declare.kinds import {kinds}
from core.graph.node import RemovableHandle
from core.rng.generator import Generator
from core.tensors.tensor import Tensor

'''
_HIDDEN = {"Tensor", "Generator"}  # kinds that HEAD imports as the classes they are
_BUILTINS = {"int", "float", "bool", "complex", "type"}  # in annotations
# Words of PyTorch's that have but one meaning here: a header takes them as **ignored.
_IGNORED = [parameter("layout", "Layout | None", default=None, keyword_only=True),
            parameter("pin_memory", "bool", default=False, keyword_only=True),
            parameter("memory_format", "MemoryFormat | None", default=None, keyword_only=True)]  # fmt: skip

_DRAWN = ["normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]
_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
_COMPARED = ["eq", "ne", "lt", "le", "gt", "ge"]
_UNARY = ["neg", "pos", "invert", "abs"]


def _default(value: Any) -> str:
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else "..."
    plain = isinstance(value, tuple) and all(isinstance(v, int) for v in value)
    return repr(value) if plain else "..."


def _written(p: Parameter) -> str:
    if p.many:
        return f"*{p.name}: {p.annotation}"
    return f"{p.name}: {p.annotation}" + ("" if p.default is MISSING else f" = {_default(p.default)}")


def header(name: str, parameters: Iterable[Parameter], returns: str, *, method: bool = False) -> str:
    """Return the line of a stub: ``def name(...) -> Tensor: ...``."""
    parts: list[str] = ["self"] if method else []
    star = False
    slash = False
    for p in parameters:
        if slash and not p.positional_only:
            parts.append("/")
        slash = p.positional_only
        if p.keyword_only and not star:
            parts.append("*")
        star = star or p.keyword_only or p.many
        parts.append(_written(p))
    if slash:
        parts.append("/")
    return f"def {name}({', '.join(parts)}) -> {returns}: ..."


def _without_target(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return the parameters of a method: all but the tensor itself, which is `input` or the first."""
    at = next((k for k, p in enumerate(parameters) if p.name == "input"), 0)
    return parameters[:at] + parameters[at + 1 :]


def _spelled(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...] | None:
    """Return the parameters by NumPy's names, given by name; None where it has no other ones."""
    other = {"dim": "axis", "keepdim": "keepdims"}
    if not any(p.name in other for p in parameters):
        return None
    named = [p._replace(name=other[p.name], keyword_only=True) for p in parameters if p.name in other]
    first = [p for p in parameters if not p.keyword_only and p.name not in other]
    rest = [p for p in parameters if p.keyword_only and p.name not in other]
    return tuple(first + named + rest)


def _overloads(inner: Any) -> list[Any]:
    code = getattr(inner, "__code__", None)
    if code is None:
        return []
    written = SimpleNamespace(__module__=inner.__globals__["__name__"], __qualname__=code.co_qualname)
    return list(get_overloads(written))  # type: ignore[arg-type] # a function may have been given another name


def headers(name: str, function: Callable[..., Any], *, method: bool = False) -> list[str]:
    """All ways of calling a function, one line each."""
    in_place = getattr(function, "of", None)  # the function by which a method like ``add_`` writes
    inner: Any = inspect.unwrap(function if in_place is None else in_place)
    ways: list[tuple[tuple[Parameter, ...], str]] = []
    for f in _overloads(inner) or [function if in_place is None else inner]:
        parameters, returns = read(f)
        words = [p.name for p in inspect.signature(inspect.unwrap(f)).parameters.values() if p.kind is p.VAR_KEYWORD]
        if in_place is not None:
            if not method:
                parameters = (parameters[0]._replace(name="input"), *parameters[1:])
            parameters, returns = tuple(p for p in parameters if p.name not in ("out", "inplace")), "Tensor"
        parameters = tuple(p for p in parameters if not (p.keyword_only and p.name.startswith("_")))
        mine = {p.name for p in parameters}
        if words == ["ignored"]:
            parameters += tuple(p for p in _IGNORED if p.name not in mine)
        if method:
            parameters = _without_target(parameters)
        ways.append((parameters, returns))
        if "names" in words and (spelled := _spelled(parameters)) is not None:
            ways.append((spelled, returns))
    lines = [header(name, parameters, returns, method=method) for parameters, returns in dict.fromkeys(ways)]
    doc = (inspect.getdoc(inner) or "").partition("\n")[0].replace("\\", "\\\\").replace('"""', "'''")
    if doc and not doc.endswith('"'):
        lines = [line.removesuffix(" ...") + f' """{doc}"""' for line in lines]
    return [f"@overload\n{line}" for line in lines] if len(lines) > 1 else lines


def _qualified(lines: Iterable[str], hidden: set[str]) -> list[str]:
    """Return the lines with Python's own types told apart from functions of their names."""
    taken = _BUILTINS & hidden
    if not taken:
        return list(lines)
    names = re.compile(
        rf"(?<=[:>|\[,] )(?<!\.)\b({'|'.join(sorted(taken))})\b(?=[\[\]|,)=: ])|(?<=\[)({'|'.join(sorted(taken))})\b"
    )

    def one(line: str) -> str:
        head, doc, rest = line.partition(' """')
        return names.sub(lambda m: f"builtins.{m[1] or m[2]}", head) + doc + rest

    return [one(line) for line in lines]


def functions(found: dict[str, Any]) -> list[str]:
    """Return the stub of functions by name."""
    lines = [line for name, f in sorted(found.items()) for line in headers(name, f)]
    return _qualified(lines, set(found))


def _in_class_body() -> set[str]:
    """Return the names that the source of Tensor defines itself."""
    tree = ast.parse(Path(inspect.getfile(Tensor)).read_text(encoding="utf-8"))
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    return {n.name for n in body if isinstance(n, ast.FunctionDef)} | {
        t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    } | {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}  # fmt: skip


def methods() -> list[str]:
    """Return the stub of what Tensor is given when `core` is imported, its operators among it."""
    own, lines, names = _in_class_body() | {"grad"}, [], set()
    for name, value in sorted(vars(Tensor).items()):
        if name in own or name.startswith("_"):
            continue
        names.add(name)
        if isinstance(value, property):
            returns = read(value.fget)[1] if value.fget is not None else "Any"
            lines += ["@property", f"def {name}(self) -> {returns}: ..."]
            if value.fset is not None:
                lines += [f"@{name}.setter", f"def {name}(self, value: Any) -> None: ..."]
        elif callable(value):
            lines += headers(name, value, method=True)
        else:
            lines.append(f"{name}: {'Layout' if name == 'layout' else f'builtins.{type(value).__name__}'}")
    operand = "other: Operand, /"
    for n in _BINARY:
        lines += [f"def __{n}__(self, {operand}) -> Tensor: ...", f"def __r{n}__(self, {operand}) -> Tensor: ..."]
        lines.append(f"def __i{n}__(self, {operand}) -> Tensor: ...")
    lines += [f"def __{n}__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]" for n in _COMPARED]
    lines += [f"def __{n}__(self) -> Tensor: ..." for n in _UNARY]
    lines += ["def __getitem__(self, index: Index, /) -> Tensor: ...",
              "def __setitem__(self, index: Index, value: Data, /) -> None: ...",
              "def __complex__(self) -> complex: ..."]  # fmt: skip
    return _qualified(lines, names)


def return_types(package: Path) -> list[str]:
    """Return the named tuples that the package makes by `return_type(name, fields)`."""
    found: dict[str, str] = {}
    for path in sorted((package / "ops").rglob("*.py")):
        for name, fields in re.findall(r'return_type\("(\w+)", "([\w ]+)"\)', path.read_text(encoding="utf-8")):
            found[name] = fields
    lines = []
    for name, fields in sorted(found.items()):
        lines += [f"class {name}(NamedTuple):", *(f"    {f}: Tensor" for f in fields.split()), ""]
    return lines


def _elsewhere(function: Any, module: ModuleType) -> bool:
    """Return whether the source of a module does not show the function's header."""
    inner: Any = inspect.unwrap(function)
    return inner.__globals__["__name__"] != module.__name__ or hasattr(function, "of")


def stubs() -> dict[str, str]:
    """Return the text of every stub, by the name of its file."""
    names = ", ".join(sorted(set(kinds.KINDS) - _HIDDEN - {"Any"}))
    top = HEAD.format(kinds=names)
    made = {n: getattr(creation, n) for n in creation.__all__ if n in shown_by_core}
    made |= {n: getattr(random, n) for n in _DRAWN}
    shown = {
        "functions": {**publish.namespaces[""], **made},
        "functional": {n: f for n in functional.__all__ if _elsewhere(f := getattr(functional, n), functional)},
        "linalg": {**publish.namespaces["linalg"], "matmul": linalg.matmul},
        "fft": publish.namespaces["fft"],
        "special": {n: getattr(special, n) for n in special.__all__},
    }
    texts = {f"{file}.pyi": top + "\n".join(functions(found)) + "\n" for file, found in shown.items()}
    body = "\n".join("    " + line.replace("\n", "\n    ") for line in methods())
    texts["methods.pyi"] = top + "class Methods:\n" + body + "\n"
    head = '"""Printed by core.stubs; do not edit."""\n# ruff: noqa\nfrom typing import NamedTuple\n\n'
    package = Path(__file__).parent
    texts["return_types.pyi"] = head + "from core.tensors.tensor import Tensor\n\n" + "\n".join(return_types(package))
    return texts


def write_all() -> list[Path]:
    """Write the stubs beside the printed kernels; what would not change is left alone."""
    return emit.write(stubs())
