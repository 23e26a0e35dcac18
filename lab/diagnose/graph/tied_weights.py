"""Weights that are to be tied and are copied."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import called, sources

TIED = re.compile(r"\b(un)?(tie|tied|tying|share|shared|sharing)\b|Tied|Shared", re.I)
COPIES = {"clone", "copy", "deepcopy", "tensor"}


def _tied_at_birth(node: ast.AST) -> bool:
    """Whether it is a class whose name says that it ties weights, or a function that is named so."""
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and TIED.search(node.name.replace("_", " ")) is not None


@rule(551)
def copied(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``self.decoder.weight = nn.Parameter(self.encoder.weight.t().clone())``: a parameter of its own."""
    for source in sources(trace):
        lines = source.text.splitlines()
        for node in source.nodes:
            value = node.value if isinstance(node, ast.Assign | ast.Expr) else None
            if (
                not isinstance(node, ast.stmt)
                or not isinstance(value, ast.Call)
                or called(value) not in ("Parameter", "copy_")
            ):
                continue
            if isinstance(node, ast.Assign) == (called(value) == "copy_"):
                continue
            to = node.targets[0] if isinstance(node, ast.Assign) else getattr(value.func, "value", value)
            target, given = ast.unparse(to).removesuffix(".data"), value.args[:1]
            of = next((ast.unparse(n) for a in given for n in ast.walk(a)
                       if isinstance(n, ast.Attribute) and n.attr == "weight"), "")  # fmt: skip
            if not target.endswith(".weight") or not of or of == target:
                continue
            around = next((n.name for n in source.around(node) if isinstance(n, ast.ClassDef)), "")
            said = " ".join(lines[max(node.lineno - 3, 0) : node.lineno])
            if called(value) == "copy_" and not any(_tied_at_birth(a) for a in source.around(node)):
                continue  # of another model, whose weights are taken over
            if not TIED.search(said) and not TIED.search(around) and not re.search(r"Tied|Shared", around):
                continue
            line, col, place = source.place(node)
            message = capital(
                f"{place} makes {target} a parameter of its own (`{ast.unparse(value)}`): it begins as {of} and "
                "is trained apart from it, so the two are not tied."
            )
            remedy = "Give both one parameter where no transpose is needed; else use it in forward: F.linear(x, w.t())."
            return [Found("alias", "warning", line, col, message, remedy)]
    return []
