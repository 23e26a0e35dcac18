"""A graph as Python: the text of its function, and the objects that the text names."""

from __future__ import annotations

import builtins
import importlib
import itertools
import linecache
import math
import operator
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..base.device import device as Device
from ..base.dtypes import dtype as DType
from ..base.shape import Size
from .node import Node

OURS = __name__.partition(".")[0]
# where a function of core's is looked for by its name: packages see these as torch.NAME
PLACES = ("", "nn.functional", "linalg", "special", "fft", "_C._nn", "Tensor")
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
    "le": "<=", "ge": ">=",
}  # fmt: skip
UNARY = {"neg": "-", "pos": "+", "invert": "~"}
INFIX = {getattr(operator, name): sign for name, sign in BINARY.items()}
PREFIX = {getattr(operator, name): sign for name, sign in UNARY.items()}
_keys = itertools.count()


class PythonCode(NamedTuple):
    """The text of a function, and its globals."""

    src: str
    globals: dict[str, Any]


def resolve(root: Any, path: str) -> Any:
    """Return an attribute of an attribute, by names with dots between; AttributeError where there is none."""
    for name in path.split(".") if path else ():
        root = getattr(root, name)
    return root


def located(path: str) -> Any:
    """Return what stands at a path: ``torch.nn.functional.relu``, ``math.sqrt``."""
    module, _, name = path.partition(":")
    return resolve(sys.modules[OURS] if module == "torch" else importlib.import_module(module), name)


def qualified(target: Any) -> str | None:
    """Return the path by which a function or class is found again, a module and a name; None where there is none.

    >>> import core
    >>> from core.fx.printed import located, qualified
    >>> qualified(core.relu), located("torch:relu") is core.relu
    ('torch:relu', True)
    """
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        return None
    for module in (operator, math, builtins):
        if getattr(module, name, None) is target:
            return f"{module.__name__}:{name}"
    core = sys.modules[OURS]
    for place in PLACES:
        try:
            found = resolve(core, f"{place}.{name}".strip("."))
        except AttributeError:
            continue
        if found is target:
            return f"torch:{place}.{name}".replace(":.", ":")
    module_name, path = getattr(target, "__module__", None), getattr(target, "__qualname__", name)
    try:
        found = resolve(sys.modules[module_name or ""], path)
    except (AttributeError, KeyError):
        return None
    return f"{module_name}:{path}" if found is target else None


class _Writer:
    """Writes nodes as lines, and gathers what they name."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.globals: dict[str, Any] = {"torch": sys.modules[OURS], "inf": math.inf, "nan": math.nan,
                                        "device": Device, "NoneType": type(None)}  # fmt: skip

    def named(self, wished: str, value: Any) -> str:
        """Return the global name of a value."""
        wished = re.sub(r"[^0-9a-zA-Z_]", "_", wished)
        for k in itertools.count():
            name = f"{wished}_{k}" if k else wished
            if self.globals.setdefault(name, value) is value:
                return name
        raise AssertionError

    def function(self, target: Any) -> str:
        """Return the text that names a function or class."""
        path = qualified(target)
        if path is None:
            return self.named(getattr(target, "__name__", type(target).__name__), target)
        module, _, name = path.partition(":")
        if module == "builtins":
            return name
        if module == "torch":
            return f"torch.{name}"
        if module in ("operator", "math"):
            return f"{self.named(module, located(f'{module}:'))}.{name}"
        return self.named(f"{module}_{name}", target)

    def value(self, a: Any) -> str:
        """Return the text of an argument."""
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return f"{self.function(type(a))}({', '.join(map(self.value, a))})"
        if isinstance(a, Size):
            return f"torch.Size([{', '.join(map(self.value, a))}])"
        if isinstance(a, tuple):
            return f"({', '.join(map(self.value, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.value, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(x)}" for k, x in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.value(a.start)}, {self.value(a.stop)}, {self.value(a.step)})"
        if a is Ellipsis:
            return "Ellipsis"
        if isinstance(a, DType):
            return f"torch.{str(a).rpartition('.')[2]}"
        if a is None or type(a) in (bool, int, float, complex, str, bytes, range) or isinstance(a, Device):
            return repr(a)
        if isinstance(a, type | types.FunctionType | types.BuiltinFunctionType):
            return self.function(a)
        return self.named(f"_{type(a).__name__}", a)

    def call(self, function: str, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """Return the text of a call."""
        named = (f"{k} = {self.value(x)}" for k, x in kwargs.items())
        return f"{function}({', '.join([*map(self.value, args), *named])})"

    def attribute(self, path: str, base: str = "") -> str:
        """Return the text of an attribute within the module, through getattr where a name is no identifier."""
        text = base or self.root
        for name in path.split("."):
            text = f"{text}.{name}" if name.isidentifier() else f"getattr({text}, {name!r})"
        return text

    def expression(self, node: Node) -> str:
        """Return the text of what a node computes."""
        args, kwargs = node.args, node.kwargs
        if node.op == "get_attr":
            return self.attribute(node.target)
        if node.op == "call_module":
            return self.call(self.attribute(node.target), args, kwargs)
        if node.op == "call_method":
            return self.call(f"{self.value(args[0])}.{node.target}", args[1:], kwargs)
        if not kwargs and node.target in INFIX and len(args) == 2:
            return f"{self.operand(args[0])} {INFIX[node.target]} {self.operand(args[1])}"
        if not kwargs and node.target in PREFIX and len(args) == 1:
            return f"{PREFIX[node.target]}{self.operand(args[0])}"
        if not kwargs and node.target is operator.getitem and len(args) == 2:
            return f"{self.operand(args[0])}[{self.value(args[1])}]"
        if (not kwargs and node.target is getattr and len(args) == 2 and isinstance(args[1], str)
                and args[1].isidentifier()):  # fmt: skip
            return f"{self.operand(args[0])}.{args[1]}"
        return self.call(self.function(node.target), args, kwargs)

    def operand(self, a: Any) -> str:
        """Return the text of an argument within an expression: a number below 0 stands in parentheses."""
        text = self.value(a)
        return f"({text})" if isinstance(a, int | float | complex) and not text.isalnum() else text

    def argument(self, node: Node) -> str:
        """Return an argument of the function, with its default."""
        default = f" = {self.value(node.args[0])}" if node.args else ""
        kind = f" : {self.function(node.type)}" if isinstance(node.type, type) else ""
        return f"{node.target}{kind}{default}"


def python_code(nodes: Iterable[Node], root: str) -> PythonCode:
    """Return the function that nodes are: a line each, a variable being let go of at its last use."""
    write, nodes = _Writer(root), list(nodes)
    last: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                last.setdefault(node, []).append(used)
    arguments: list[str] = []
    lines: list[str] = []
    for node in nodes:
        if node.op == "placeholder":
            arguments.append(write.argument(node))
            if node.target.lstrip("*") == node.name:
                continue
            line = f"{node.name} = {node.target.lstrip('*')}"
        elif node.op == "output":
            lines.append(f"return {write.value(node.args[0])}")
            continue
        else:
            line = f"{node.name} = {write.expression(node)}"
        gone = [n.name for n in last.get(node, ())]
        if not node.users and node.op != "placeholder":
            gone.append(node.name)
        lines.append(f"{line};  {' = '.join([*gone, 'None'])}" if gone else line)
    body = "\n    ".join(lines or ["pass"])
    return PythonCode(f"\n\n\ndef forward({', '.join([root, *arguments])}):\n    {body}\n", write.globals)


def compiled(code: PythonCode) -> Callable[..., Any]:
    """Return the function of a text, whose lines tracebacks show."""
    filename = f"<eval_with_key>.{next(_keys)}"
    linecache.cache[filename] = (len(code.src), None, code.src.splitlines(True), filename)
    names = dict(code.globals)
    exec(compile(code.src, filename, "exec"), names)
    made: Callable[..., Any] = names["forward"]
    return made
