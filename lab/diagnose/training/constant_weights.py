"""The line that gives weights one value everywhere, and what an array of data was divided by: read from the cell."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace

MAKES = {"zeros", "ones", "full", "zeros_like", "ones_like", "full_like"}


def line_of(trace: Trace, leaves: list[Leaf]) -> tuple[int, int, str] | None:
    """The statement that gave these weights one value everywhere, where it is plain to see."""
    names = {leaf.name.rpartition(".")[2].partition("[")[0] for leaf in leaves}
    found: list[tuple[bool, int, int, str]] = []
    for node in trace.nodes():
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            target = _changed(node, name)
            if target is None or _skipped(target):
                continue
            last = re.split(r"\W+", target.removesuffix(".data"))[-1]
            found.append((last in names, node.lineno, node.col_offset, ast.unparse(node)))
        elif isinstance(node, ast.Assign) and (made := _made(node.value)) is not None:
            for one in node.targets:
                target = ast.unparse(one)
                last = re.split(r"\W+", target.removesuffix(".data"))[-1]
                if last in names and not _skipped(target):
                    found.append((True, made.lineno, made.col_offset, ast.unparse(node)))
        elif (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Mult)
            and ast.unparse(node.value) in ("0", "0.0")
        ):
            target = ast.unparse(node.target)
            if not _skipped(target):
                found.append((True, node.lineno, node.col_offset, ast.unparse(node)))
    sure = [f for f in found if f[0]] or found
    if not sure or len({text for _, _, _, text in sure}) > len(names):
        return None
    return min(sure)[1:] if len(sure) == 1 else sorted(f[1:] for f in sure)[0]


def _skipped(target: str) -> bool:
    return "bias" in target or target.endswith("grad")


def _changed(node: ast.Call, name: str) -> str | None:
    """What a call sets to one value; None for any other call."""
    if name in ("zeros_", "ones_", "constant_") and node.args:
        return ast.unparse(node.args[0])
    if name in ("zero_", "fill_") and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value)
    plain = [a.value for a in node.args[1:] if isinstance(a, ast.Constant)]
    named = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
    if name == "normal_" and node.args and (named.get("std", plain[1] if len(plain) > 1 else 1) == 0):
        return ast.unparse(node.args[0])
    if (
        name in ("copy_", "set_")
        and node.args
        and _made(node.args[0]) is not None
        and isinstance(node.func, ast.Attribute)
    ):
        return ast.unparse(node.func.value)
    return None


def _made(value: ast.expr) -> ast.Call | None:
    """The call that makes a tensor of one value, inside of what makes a parameter of it."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in MAKES:
            return node
    return None
