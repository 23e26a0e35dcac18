"""Remedies for training and evaluation mode, dropout, masks, and how an evaluation counts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name, number
from ..examples import enclosing
from ..remedies import remedy


@remedy("mode")
def switched(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Call train() before training and eval() before judging."""
    if "in evaluation mode (" in finding.message and "trains" in finding.message:
        for call in cell.calls("eval"):
            if isinstance(call.func, ast.Attribute) and isinstance(cell.parents[call], ast.Assign):
                yield Patch("Leave it in training mode", cell.put((call, cell.code(call.func.value))))
            if (
                isinstance(call.func, ast.Attribute)
                and cell.loop(call) is None
                and isinstance(cell.parents[call], ast.Expr)
            ):
                yield Patch("Train in training mode", cell.put((call, f"{cell.code(call.func.value)}.train()")))
            function = enclosing(cell, call)
            if isinstance(call.func, ast.Attribute) and function is not None:
                line, last = f"{cell.code(call.func.value)}.train()", function.body[-1]
                put = cell.before(last, line) if isinstance(last, ast.Return) else cell.after(last, line)
                yield Patch("Go back to training mode", cell.splice([put]))
        names = [cell.code(c.func.value) for c in cell.calls("eval", "train") if isinstance(c.func, ast.Attribute)]
        statement = cell.statement(finding.line)
        for name in dict.fromkeys(names):
            if statement is not None:
                yield Patch("Call train() before", cell.splice([cell.before(statement, f"{name}.train()")]))
    elif "in training mode" in finding.message:
        found = re.search(r"Call ([\w.]+)\.eval\(\) before", finding.remedy)
        name, statement = found[1] if found else "model", cell.statement(finding.line)
        if statement is None:
            return
        outer = cell.around(statement, (ast.With,)) or cell.loop(statement) or statement
        for around in dict.fromkeys([outer, statement]):  # where the loop trains as well, it is the statement
            pair = [cell.before(around, f"{name}.eval()"), cell.after(around, f"{name}.train()")]
            yield Patch("Judge in evaluation mode", cell.splice(pair))
            yield Patch("Judge in evaluation mode", cell.splice(pair[:1]))


@remedy("error")
def single_samples(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Batch norm of a single sample: judge it in evaluation mode."""
    statement = cell.statement(finding.line)
    if "eval() for single samples" not in finding.remedy or statement is None:
        return
    for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
        yield Patch(
            "Judge it in evaluation mode", cell.splice([cell.before(statement, f"{cell.code(call.func)}.eval()")])
        )


@remedy("mode")
def dropout(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Dropout that knows the mode, with a probability of dropping."""
    for call in cell.calls("dropout", "dropout1d", "dropout2d", "dropout3d", line=finding.line):
        code = cell.code(call)
        if "training" not in code:
            yield Patch("Drop in training alone", cell.put((call, f"{code[:-1]}, training=self.training)")))
    for word in cell.all(ast.keyword):
        if isinstance(word, ast.keyword) and word.arg == "dropout_p":
            value = cell.code(word.value)
            yield Patch("Drop in training alone", cell.put((word.value, f"{value} if self.training else 0.0")))
    for call in cell.calls("Dropout", line=finding.line):
        inits = [f for f in cell.all(ast.FunctionDef) if getattr(f, "name", "") == "__init__"]
        if inits and isinstance(cell.parents[call], ast.Call):
            last = inits[0].body[-1]  # type: ignore[attr-defined]
            pieces = [cell.after(last, f"self.drop = {cell.code(call)}"), (*cell.span(call), "self.drop")]
            yield Patch("Make it in __init__", cell.splice(pieces))
    if "not of keeping it" in finding.message:
        for call in cell.calls("Dropout", "Dropout1d", "Dropout2d"):
            share = number(call.args[0]) if call.args else None
            if share is not None and share > 0.5:
                yield Patch("Drop the rest", cell.put((call.args[0], f"{min(1 - share, 0.5):g}")))


@remedy("mask")
def masks(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Masks the right way round: what is True is hidden, and scores are filled before the softmax."""
    if "Turn it round" in finding.remedy:
        names = ("key_padding_mask", "src_key_padding_mask")
        given = [w.value for w in cell.all(ast.keyword) if isinstance(w, ast.keyword) and w.arg in names]
        for value in given:
            yield Patch("Turn the mask round", cell.put((value, _other_way(cell.code(value)))))
        if len(given) > 1:
            yield Patch("Turn each mask round", cell.pieces(given, _other_way))
        for call in cell.calls("scaled_dot_product_attention", line=finding.line):
            words = [w.value for w in call.keywords if w.arg == "attn_mask"]
            for value in (*words, *call.args[3:4]):
                turned = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Invert) else None
                code = _other_way(cell.code(value)) if turned is None else cell.code(turned)
                yield Patch("Turn the mask round", cell.put((value, code)))
    if "masked_fill" in finding.remedy and "scores" in finding.message:
        for statement in cell.statements(finding.line):
            for node in ast.walk(statement):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
                    left, right = cell.code(node.left), cell.code(node.right)
                    if isinstance(node.left, ast.Name | ast.Subscript | ast.BinOp):
                        lead = left if isinstance(node.left, ast.Name) else f"({left})"
                        filled = f"{lead}.masked_fill({right} == 0, float('-inf'))"
                        yield Patch("Fill the scores", cell.put((node, filled)))
    if "upper triangle" in finding.remedy:
        for call in cell.calls("tril"):
            new = re.sub(r"\btorch\.tril\((.*)\)$", r"torch.triu(\1, 1)", cell.code(call))
            yield Patch("Hide the future", cell.put((call, new)))
    if "causal mask" in finding.message:
        for call in cell.calls("blocks", "encoder", "transformer", "layers", "enc", line=finding.line):
            if call.args:
                length = f"{cell.code(call.args[0])}.shape[1]"
                mask = f"nn.Transformer.generate_square_subsequent_mask({length})"
                yield Patch("Give it a causal mask", cell.put((call, f"{cell.code(call)[:-1]}, mask={mask})")))


def _other_way(mask: str) -> str:
    return f"~{mask}" if mask.isidentifier() else f"~({mask})"


@remedy("evaluation", "loop")
def counted(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Counts over samples; a loop that comes to its end."""
    found = re.search(r"Divide by the samples: (.+? / .+?)\.$", finding.remedy)
    if found:
        for node in cell.all(ast.BinOp):
            if isinstance(node, ast.BinOp) and node.lineno == finding.line and isinstance(node.op, ast.Div):
                divisor = found[1].partition(" / ")[2]
                yield Patch("Divide by the samples", cell.put((node.right, divisor)))
    if "returns inside the loop" in finding.message:
        statement = cell.statement(finding.line)
        loop = cell.loop(statement) if statement is not None else None
        if statement is not None and loop is not None:
            yield Patch("Return after the loop", cell.moved(statement, loop, below=True))
    if "Draw one and use it for both" in finding.remedy:
        first = re.search(r"than line (\d+)", finding.message)
        calls = [c for c in cell.calls("randperm") if c.lineno in (finding.line, int(first[1]) if first else 0)]
        if len(calls) == 2:
            draw = f"order = {cell.code(calls[0])}"
            places = [(*cell.span(c), "order") for c in calls]
            yield Patch("Draw one order", cell.splice([cell.before(calls[0], draw), *places]))
    if "Loop over it: for batch in" in finding.remedy:
        for call in cell.calls("next", line=finding.line):
            loop = cell.loop(call)
            if loop is not None and call.args:
                made = f"batches = {cell.code(call.args[0])}"
                both = [cell.before(loop, made), (*cell.span(call.args[0]), "batches")]
                yield Patch("Make the iterator once", cell.splice(both))
                again = cell.code(call.args[0])[len("iter(") : -1]
                cycled = f"batches = __import__('itertools').cycle({again})"
                yield Patch("Go round the loader", cell.splice([cell.before(loop, cycled), both[1]]))
    if "from fold to fold" in finding.message:
        for each in [n for n in cell.tree.body if isinstance(n, ast.For)]:
            anew = [a for a in cell.tree.body if isinstance(a, ast.Assign) and a.lineno < each.lineno and _makes(a)]
            lines = [line for a in anew for line in cell.dedented(a)]
            if anew:
                yield Patch("Make it anew for each fold", cell.splice([cell.before(each.body[0], *lines)]))


def _makes(assign: ast.Assign) -> bool:
    """Whether a statement makes a model or its optimizer."""
    called = last_name(assign.value.func) if isinstance(assign.value, ast.Call) else ""
    return called in ("Linear", "Sequential", "SGD", "Adam", "AdamW")
