"""Which layer suffers: each layer's output in a variant beside that in float32, and the lines where it is made and
called."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

import core
from core.base import source, syntax
from widgets.shrunk import Layer

from .scoring import apart, array_of, first_tensor
from .variants import Made

ROWS = 64  # items that are looked at
_LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
Source = tuple[str, str]
"""What a piece of source is called, and its text."""


@dataclass
class Heard:
    """One layer in one run: what it was given and what it gave, and the line that called it."""

    inputs: tuple[Any, ...]
    output: Any
    line: str = ""
    text: str = ""


def layers_of(model: Any) -> dict[str, Any]:
    """Return the modules that hold parameters themselves, by their paths."""
    return {
        name: m for name, m in model.named_modules() if name and next(m.parameters(recurse=False), None) is not None
    }


def heard(model: Any, inputs: tuple[Any, ...], names: Sequence[str], library: Any) -> dict[str, Heard]:
    """Run a model once and return what its layers were given and gave in their first call."""
    found: dict[str, Heard] = {}
    here = sys._getframe()
    modules = dict(model.named_modules())

    def hook(name: str) -> Callable[..., None]:
        def note(module: Any, given: tuple[Any, ...], output: Any) -> None:
            if name not in found:
                line, text = _called(sys._getframe(1), here)
                # copies: what comes after may write in place
                given = tuple(x.detach().clone() if isinstance(x, library.Tensor) else x for x in given)
                result = first_tensor(output, library)
                found[name] = Heard(given, None if result is None else result.detach().clone(), line, text)

        return note

    handles = [modules[name].register_forward_hook(hook(name)) for name in names if name in modules]
    try:
        with library.no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _called(frame: FrameType | None, end: FrameType) -> tuple[str, str]:
    """Return the user's line that a call came from, between a layer and the run of the model."""
    while frame is not None and frame is not end:
        file = frame.f_code.co_filename
        if not source.is_ours(file) and not file.startswith(_LAB) and f"{os.sep}torch{os.sep}nn{os.sep}" not in file:
            return _place(file, frame.f_lineno), source.text_of(file, frame.f_lineno).strip()
        frame = frame.f_back
    return "", ""


def _place(file: str, line: int) -> str:
    return f"{source.name_of_file(file) or os.path.basename(file)} line {line}"


def errors(reference: dict[str, Heard], model: Any, variant: Made, inputs: tuple[Any, ...], library: Any,
           made: Callable[[str], tuple[str, str]]) -> list[Layer]:  # fmt: skip
    """Return the layers of a model with what the variant does to each; of channels that went nothing is compared.

    reference : the layers of the model in float32. made : the place where a layer is made, and its text.
    """
    layers, there = layers_of(model), dict(variant.model.named_modules())
    after = heard(variant.model, tuple(map(variant.cast, inputs)), list(reference), library)
    found = []
    for name, before in reference.items():
        where, text = made(name)
        layer = Layer(name, _kind(layers[name]), line=before.line, source=before.text or text, made=where)
        found.append(layer)
        own = there.get(name)
        if own is None or name not in after:
            layer.note = "joined with another"
            continue
        wanted, got = array_of(before.output), array_of(after[name].output)
        given = list(before.inputs)
        if name + ".weight" in variant.kept or wanted.shape != got.shape:
            layer.note = f"now {_kind(own)}" if _kind(own) != layer.kind else ""
            cut = _left(layers[name], variant.kept.get(f"{name}.weight", {}))
            if cut is None:
                continue
            wanted, given[0] = cut(wanted, 0), library.as_tensor(cut(array_of(given[0]), 1))
        layer.whole = apart([got], [wanted])
        with library.no_grad():
            alone = first_tensor(own(*map(variant.cast, given)), library)
        layer.own = apart([array_of(alone)], [wanted])
    return found


def _left(module: Any, kept: Mapping[int, Any]) -> Callable[[Any, int], Any] | None:
    """Return what takes from a layer's outputs (0) or inputs (1) those that are left; None where that is not known."""
    if isinstance(module, core.nn.Linear):
        along = -1
    elif isinstance(module, core.nn.Conv1d | core.nn.Conv2d | core.nn.Conv3d) and module.groups == 1:
        along = 1
    else:
        return None
    return lambda a, axis: np.take(a, kept[axis], along) if axis in kept else a


def _kind(module: Any) -> str:
    """Return a layer's class and its sizes.

    >>> import core
    >>> _kind(core.nn.Conv2d(1, 8, 3)), _kind(core.nn.LayerNorm(4))
    ('Conv2d 1→8', 'LayerNorm')
    """
    for a, b in (("in_features", "out_features"), ("in_channels", "out_channels"), ("num_embeddings", "embedding_dim"),
                 ("input_size", "hidden_size")):  # fmt: skip
        if isinstance(getattr(module, a, None), int) and isinstance(getattr(module, b, None), int):
            return f"{type(module).__name__} {getattr(module, a)}→{getattr(module, b)}"
    return type(module).__name__


# -- where a layer is made ---------------------------------------------------------------------------------------------


def made_by(model: Any, title: str, sources: Sequence[Source] = ()) -> Callable[[str], tuple[str, str]]:
    """Return what tells of a layer's path where it is made, and the text there; ("", "") where that is not found.

    title : the model's name. sources : where the model may have been made, the latest first: a notebook's cells.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(2, 2), core.nn.ReLU())
    >>> made_by(model, "net", [("In [1]", "net = nn.Sequential(\\n    nn.Linear(2, 2),\\n    nn.ReLU())")])("0")
    ('In [1] line 2', 'nn.Linear(2, 2)')
    """
    modules = dict(model.named_modules())

    def made(path: str) -> tuple[str, str]:
        parts = path.split(".")
        for k in range(len(parts) - 1, -1, -1):  # the nearest module around it whose class the user has written
            around = modules.get(".".join(parts[:k]))
            for name, tree, first in _initialisers(around):
                found = _assigned(tree, ast.Attribute, parts[k])
                if found is not None:
                    return _told(name, _inside(found, parts[k + 1 :]), first)
        for name, text in sources:
            found = _assigned(_parsed(text), ast.Name, title)
            if found is not None:
                return _told(name, _inside(found, parts), 0)
        return "", ""

    return made


def _told(name: str, node: ast.expr, first: int) -> tuple[str, str]:
    return f"{name} line {node.lineno + first}", " ".join(ast.unparse(node).split())


def _initialisers(module: Any) -> Iterator[tuple[str, ast.AST, int]]:
    """Yield the user's `__init__` of a module's classes: its file, its tree, and the lines before it."""
    for kind in type(module).__mro__:
        code = getattr(vars(kind).get("__init__"), "__code__", None)
        if code is None or source.is_ours(code.co_filename) or f"{os.sep}torch{os.sep}nn{os.sep}" in code.co_filename:
            continue
        first = code.co_firstlineno
        last = max((p[1] or 0 for p in code.co_positions()), default=first)
        lines = linecache.getlines(code.co_filename)[first - 1 : last + 40]
        tree = _parsed(_block(lines))
        yield source.name_of_file(code.co_filename) or os.path.basename(code.co_filename), tree, first - 1


def _block(lines: list[str]) -> str:
    """Return the text of a function that begins with the first line."""
    if not lines:
        return ""
    depth = len(lines[0]) - len(lines[0].lstrip())
    inside = [lines[0]]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth and not line.lstrip().startswith((")", "]", "#")):
            break
        inside.append(line)
    return textwrap.dedent("".join(inside))


def _parsed(text: str) -> ast.AST:
    try:
        return syntax.parse(text)
    except (SyntaxError, ValueError):  # a cell with magics
        kept = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in text.split("\n"))
        try:
            return syntax.parse(kept)
        except (SyntaxError, ValueError):
            return ast.Module([], [])


def _assigned(tree: ast.AST, kind: type, name: str) -> ast.expr | None:
    """Return what is last assigned to a name, or to an attribute of that name."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values = [node.value] * len(targets)
            if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                targets, values = targets[0].elts, node.value.elts
            for target, value in zip(targets, values, strict=False):
                said = getattr(target, "attr" if kind is ast.Attribute else "id", None)
                if isinstance(target, kind) and said == name:
                    found = value
    return found


def _inside(node: ast.expr, path: Sequence[str]) -> ast.expr:
    """Return the argument of a call that a path of numbers leads to, as far as it is written out."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return _inside(node.func.value, path)  # Sequential(...).eval()
    if not path or not path[0].isdigit() or not isinstance(node, ast.Call):
        return node
    args = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.List) else node.args
    k = int(path[0])
    if k >= len(args) or any(isinstance(a, ast.Starred) for a in args[: k + 1]):
        return node
    return _inside(args[k], path[1:])
