"""A model in evaluation mode that is not used as such: functional dropout that goes on, graphs that nobody needs."""

from __future__ import annotations

import ast
import re

from widgets.figures import size_text

from ...recorder.cell_trace import Leaf, Row, Trace, ancestors
from ...recorder.op_facts import ATTENDING, MASKING
from ..finding import Found, capital, code_of, end_of, where
from ..graph.kept_histories import ADDING, held
from ..graph.kept_histories import _made as made_by
from ..order import rule

AT_ONCE = 3  # graphs alive together from which they are worth a word
HEAVY = 1 << 20  # bytes from which it is more than a note
PARTS = {"chunk", "split", "unbind", "tensor_split"}
_DROPS = re.compile(r"dropout_p\s*=\s*(?!0(\.0*)?\s*[,)])(?!.*training)", re.S)


def dropping(trace: Trace) -> list[Found]:
    """F.dropout that does not know of the mode."""
    found: list[Found] = []
    for row, times in trace.dropped.items():
        if row not in trace.rows:
            continue
        line, col, place = where(trace, row.chain)
        code = code_of(trace, row)
        if row.op in ATTENDING and not _DROPS.search(code):
            continue
        if row.op in MASKING:
            found += _by_hand(trace, row, code)
            continue
        if row in trace.strays:
            return [_stray(trace, row, code)]
        owner = trace.paths[row.path] or "the model"
        message = capital(
            f"{place} drops values in evaluation mode too: `{code}` does not know of eval(), and {owner} was in "
            f"evaluation mode in {'this run' if times == 1 else f'{times:,} runs'}; what the model gives is another "
            "thing each time."
        )
        meant = re.search(r"training\s*=\s*True", code) is not None  # draws of a Bayesian's, perhaps
        given = re.sub(r",?\s*training\s*=\s*[^,)]*", "", code)
        call = f"{given[:-1]}, training=self.training)" if given.endswith(")") else "training=self.training"
        remedy = f"Write {call}, or use nn.Dropout, which knows the mode."
        if p := re.search(r"dropout_p\s*=\s*([^,)]+)", code):
            remedy = f"Write dropout_p={p[1]} if self.training else 0.0."
        return [Found("mode", "note" if meant else "warning", line, col, message, remedy, [row])]
    return found[:1]


def _stray(trace: Trace, row: Row, code: str) -> Found:
    """A module that eval() does not reach."""
    line, col, place = where(trace, row.chain)
    around = trace.entered[row.path]
    name = around[0][1] if around and around[0][1] else "the model"
    made = re.match(r"(nn\.\w+\(.*?\))\(", code)
    kept = "is made anew in each pass" if made else f"is nothing that {name} lists as a module of its own"
    message = capital(
        f"{place} drops values in evaluation mode too: the dropout of `{code}` {kept}, so eval() does not reach it and "
        "it stays in training mode."
    )
    remedy = "Keep it as an attribute of the module, made in __init__, and several in nn.ModuleList."
    if made:
        remedy = f"Make it in __init__: self.drop = {made[1]}."
    return Found("mode", "warning", line, col, message, remedy, [row])


def _by_hand(trace: Trace, row: Row, code: str) -> list[Found]:
    """A mask that is drawn in evaluation mode too."""
    if not any(r.op in ("mul", "mul_") for r in trace.consumers().get(row, ())):
        return []
    line, col, place = where(trace, row.chain)
    message = capital(
        f"{place} drops values in evaluation mode too: `{code}` draws a mask in every mode, so what the model gives is "
        "another thing each time."
    )
    remedy = "Draw it only if self.training, or use nn.Dropout, which knows the mode."
    return [Found("mode", "note", line, col, message, remedy, [row])]


@rule(720)
def graphs(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Graphs that stay alive: of a validation, and those that variables hold."""
    found = collected(trace)
    return found + [f for f in held(trace, explained) if f.line not in {first.line for first in found}]


def collected(trace: Trace) -> list[Found]:
    """Outputs of a validation that are put together with their graphs, which no backward() needs."""
    if trace.failed or trace.error is not None:
        return []
    for row, count in trace.joined.items():
        if row.reached or row.path or count < AT_ONCE or row not in trace.rows:
            continue
        refs = [ref for ref in row.refs if isinstance(ref, Row) and ref.requires_grad]
        makers = [ref for ref in refs if _in_module(ref) and ref.count >= AT_ONCE and not ref.reached]
        makers = [ref for ref in makers if ref.op not in PARTS]  # parts of one tensor have one graph
        if not makers or any(r is not makers[0] and r in ancestors([makers[0]]) for r in refs):
            continue
        first = makers[0]
        kept = [r for r in ancestors([first]) if isinstance(r, Row) and r.requires_grad and not r.view]
        size = sum(r.size for r in kept if r.phase == "forward") * count
        put = _put(trace, first)
        line, col, place = where(trace, row.chain)
        code = code_of(trace, row)
        if put is not None:
            line, col, code = put
            place = f"line {line}"
        judged = any(isinstance(r, Row) and r.judged for r in ancestors([first]))
        mode = " in evaluation mode, where eval() alone does not stop graphs from being made" if judged else ""
        message = capital(
            f"{place} keeps {count:,} graphs alive that no backward() goes through: `{code}` gathers what the model "
            f"gives{mode}; {size_text(size)} of activations stay until they are put together."
        )
        remedy = (
            "Run it under torch.no_grad(): with torch.no_grad(): around the loop, or @torch.no_grad() on its function."
        )
        severity = "warning" if judged and size >= HEAVY else "note"
        return [Found("memory", severity, line, col, message, remedy, [first, row])]
    return []


def _in_module(row: Row) -> bool:
    """Whether what a row reads was computed in a module."""
    return any(isinstance(r, Row) and r.path for r in ancestors([row]))


def _put(trace: Trace, row: Row) -> tuple[int, int, str] | None:
    """The call or comprehension that takes what a row made into a list."""
    ends = {end for end, made in made_by(trace).items() if made is row}
    named: set[str] = set()
    found: list[tuple[int, int, str]] = []
    for node in trace.nodes():
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and _end(value) in ends:
            named |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    for node in trace.nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDING:
            for arg in node.args[-1:]:
                inner = [n for n in ast.walk(arg) if isinstance(n, ast.expr)]
                if any(_end(n) in ends or (isinstance(n, ast.Name) and n.id in named) for n in inner):
                    found.append((node.lineno, node.col_offset, ast.unparse(node)))
        elif isinstance(node, ast.ListComp | ast.GeneratorExp) and _end(node.elt) in ends:
            found.append((node.lineno, node.col_offset, ast.unparse(node)))
    return found[0] if found else None


def _end(node: ast.expr | None) -> tuple[int, int]:
    return (0, 0) if node is None else end_of(node)
