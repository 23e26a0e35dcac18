"""Which call of the cell runs a function under no_grad: what is called is meant, and its insides are blameless."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Chain, Row, Trace
from ..finding import last_line


def called_quietly(trace: Trace, row: Row) -> tuple[Chain, int] | None:
    """Of an op in a function that was called under no_grad: the call within the block, and the block's line."""
    for k in range(1, len(row.chain)):
        at = trace.own_place(row.chain[k : k + 1])
        before = trace.own_place(row.chain[k - 1 : k])
        if at is not None and (before is None or _quiet_block(trace, before.line) is None):
            block = _quiet_block(trace, at.line)
            if block is not None:
                return row.chain[k:], block
        elif at is not None:
            return None  # the op's own line is in the block
    return None


def _quiet_block(trace: Trace, line: int) -> int | None:
    """The line of the innermost ``with no_grad():``, or of the decorator, that a line of the cell stands under."""
    found = None
    for node in trace.nodes():
        if isinstance(node, ast.With):
            calls, body = [item.context_expr for item in node.items], node.body
        elif isinstance(node, ast.FunctionDef):
            calls, body = node.decorator_list, node.body
        else:
            continue
        if body[0].lineno <= line <= last_line(body[-1]):
            for call in calls:
                named = call.func if isinstance(call, ast.Call) else call
                name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
                if name in ("no_grad", "inference_mode") and (found is None or call.lineno > found):
                    found = call.lineno
    return found
