"""Remedies for what leaves the graph, and for parameters that get no gradient."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy

LEAVES = ("item", "tolist", "detach", "detach_", "numpy", "int", "long", "argmax", "data", "cpu")


@remedy("cut")
def without_call(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Leave out `.item()`, `.detach()`, `float()` and what makes a tensor of their values again."""
    found = re.search(r"[Ll]eave (?:out|the) (?:nn\.)?\.?(\w+)\(\)", finding.remedy)
    name = found[1] if found else "int" if "Integers" in finding.remedy else ""
    if not name:
        return
    lines = [finding.line, *_lines_of(finding)]
    for line in dict.fromkeys(lines):
        for call in cell.calls(name, "detach_" if name == "detach" else name, line=line):
            inner = _inside(call)
            if inner is None:
                continue
            statement = cell.of(call)
            if isinstance(statement, ast.Expr) and statement.value is call:  # h.detach_() as a statement
                yield Patch(f"Leave out {name}()", cell.splice([cell.without(statement)]))
                continue
            made = cell.parents[call]
            while isinstance(made, ast.Call) and last_name(made.func) in LEAVES:
                made = cell.parents[made]
            if isinstance(made, ast.Call) and last_name(made.func) in ("tensor", "as_tensor", "FloatTensor"):
                if isinstance(statement, ast.Assign) and cell.code(inner) == ast.unparse(statement.targets[0]):
                    yield Patch("Leave the loss as it is", cell.splice([cell.without(statement)]))
                else:
                    yield Patch(f"Leave out {name}()", cell.put((made, cell.code(inner))))
            text = _clamped(cell.put((call, cell.code(inner))), call.lineno)
            yield from _stacked(text, name)
            yield Patch(f"Leave out {name}()", text)


def _lines_of(finding: Finding) -> list[int]:
    return [int(n) for n in re.findall(r"\bline (\d+)", finding.message)]


def _inside(call: ast.Call) -> ast.expr | None:
    """What a call is made of: `x` of x.item(), of float(x)."""
    if isinstance(call.func, ast.Attribute) and not call.args:
        return call.func.value
    return call.args[0] if call.args else None


def _clamped(text: str, line: int) -> str:
    """Return a text in which Python's `max(0, x)` of what is a tensor now is a clamp, which keeps the graph.

    >>> _clamped("parts.append(max(0.0, a - b))", 1)
    'parts.append((a - b).clamp(min=0.0))'
    """
    try:
        cell = Cell(text)
    except SyntaxError:
        return text
    for call in cell.calls("max", line=line):
        if isinstance(call.func, ast.Name) and len(call.args) == 2 and isinstance(call.args[0], ast.Constant):
            text = cell.put((call, f"({cell.code(call.args[1])}).clamp(min={cell.code(call.args[0])})"))
    return text


def _stacked(text: str, name: str) -> Iterator[Patch]:
    """Numbers that were gathered and made a tensor are tensors now: stack them."""
    try:
        cell = Cell(text)
    except SyntaxError:
        return
    for call in cell.calls("tensor"):
        if (
            len(call.args) == 1
            and isinstance(call.args[0], ast.Name | ast.ListComp)
            and isinstance(call.func, ast.Attribute)
        ):
            module = cell.code(call.func.value)
            yield Patch(f"Leave out {name}() and stack", cell.put((call, f"{module}.stack({cell.code(call.args[0])})")))


@remedy("cut")
def stacked(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`torch.stack` for `torch.tensor` of a list of tensors."""
    if "torch.stack" not in finding.remedy:
        return
    for call in cell.calls("tensor", "as_tensor", line=finding.line):
        if isinstance(call.func, ast.Attribute) and call.args:
            module, inner = cell.code(call.func.value), cell.code(call.args[0])
            yield Patch("Stack them", cell.put((call, f"{module}.stack({inner})")))
            yield Patch("Use the tensor itself", cell.put((call, inner)))


@remedy("cut")
def chosen(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Soft choices for argmax and for draws; `rsample` for `sample`; noise beside the graph for `normal`."""
    for call in cell.calls("argmax", line=finding.line):
        whole = cell.parents[call]
        if isinstance(call.func, ast.Attribute):
            x = cell.code(call.func.value)
            lib = _library(cell)
            soft = f"({lib}.softmax({x}, dim=1) * {lib}.arange({x}.shape[1])).sum(1)"
            yield Patch("Take the mean of the class numbers", cell.put((call, soft)))
            name = whole.targets[0] if isinstance(whole, ast.Assign) else None
            if isinstance(name, ast.Name):
                yield from _expected(cell, call, name.id, f"{lib}.softmax({x}, dim=1)")
    for call in cell.calls("sample", line=finding.line):
        if isinstance(call.func, ast.Attribute):
            yield Patch("Draw by rsample()", cell.put((call, cell.code(call.func.value) + ".rsample()")))
    for call in cell.calls("normal", line=finding.line):
        if len(call.args) == 2:
            mean, std = map(cell.code, call.args)
            lib = _library(cell)
            yield Patch("Draw beside the graph", cell.put((call, f"({mean}) + ({std}) * {lib}.randn_like({mean})")))
    for call in cell.calls("bernoulli", line=finding.line):
        if len(call.args) == 1:
            p = cell.code(call.args[0])
            hard = f"({p}) + (({cell.code(call)}) - ({p})).detach()"
            yield Patch("Pass the gradient by the draw", cell.put((call, hard)))


def _expected(cell: Cell, call: ast.Call, name: str, soft: str) -> Iterator[Patch]:
    """An accuracy as the loss becomes the expected one: the probability of the right class."""
    for compare in cell.all(ast.Compare):
        if isinstance(compare, ast.Compare) and ast.unparse(compare.left) == name and len(compare.comparators) == 1:
            right = cell.code(compare.comparators[0])
            text = cell.put((call, soft), (compare, f"{name}.gather(1, {right}[:, None])"))
            yield Patch(
                "Use the probability of the right class", re.sub(r"^.*\.requires_grad = True\n", "", text, flags=re.M)
            )


def _library(cell: Cell) -> str:
    names = {n.id for n in cell.all(ast.Name) if isinstance(n, ast.Name)}
    return next((n for n in ("torch", "core") if n in names), "torch")


@remedy("cut", "no-gradient", "error")
def outside_no_grad(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Take the `with no_grad()` away that a model which trains runs under, or gradients that were switched off."""
    if not re.search(r"no_grad|set_grad_enabled|inference_mode|gradients were off", finding.message):
        return
    line = finding.line
    withs = [w for w in cell.all(ast.With) if isinstance(w, ast.With)]
    around = [w for w in withs if w.lineno <= (line or 0) <= (w.end_lineno or 0)] or withs
    for block in around:
        names = [last_name(i.context_expr.func) if isinstance(i.context_expr, ast.Call) else "" for i in block.items]
        if len(names) == 1 and names[0] in ("no_grad", "inference_mode"):
            begin, _ = cell.span(block)
            body = cell.span(block.body[0])[0]
            head = cell.text[begin:body].rstrip()
            yield Patch("Leave out no_grad()", cell.splice([(begin, begin + len(head), "if True:")]))
        elif names == ["set_grad_enabled"] and isinstance(block.items[0].context_expr, ast.Call):
            argument = block.items[0].context_expr.args[0]
            yield Patch("Let gradients be on", cell.put((argument, "True")))
    for call in cell.calls("set_grad_enabled"):
        if call.args and ast.unparse(call.args[0]) == "False" and isinstance(cell.parents[call], ast.Expr):
            inner = call.args[0]
            yield Patch("Switch gradients on again", cell.put((inner, "True")))
    for function in cell.all(ast.FunctionDef):
        for d in getattr(function, "decorator_list", []):
            if "no_grad" in ast.unparse(d) or "inference_mode" in ast.unparse(d):
                row = cell.row(cell.span(function)[0])
                yield Patch("Leave out no_grad()", "\n".join(cell.lines[:row] + cell.lines[row + 1 :]))


@remedy("no-gradient")
def thawed(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Let what was frozen train: requires_grad True on the line that freezes."""
    if not re.search(r"fr[eo]ez|froze|requires_grad=False", finding.message) or "freezes nothing" in finding.message:
        return
    lines = [finding.line, *_lines_of(finding)]
    for line in dict.fromkeys(lines):
        for statement in cell.statements(line):
            text = cell.code(statement)
            if "False" in text and "grad" in text:
                yield Patch("Let them train", cell.put((statement, text.replace("False", "True"))))
            elif re.search(r"\bfreeze\w*\(.*True\)", text):
                yield Patch("Let them train", cell.put((statement, text.replace("True", "False"))))


@remedy("no-gradient", "optimizer", "unused", "mode")
def registered(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Lists of modules and of parameters become nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.Parameter."""
    assigns = [a for a in cell.all(ast.Assign) if isinstance(a, ast.Assign)]
    for assign in assigns:
        target, value = ast.unparse(assign.targets[0]), cell.code(assign.value)
        if not target.startswith("self."):
            continue
        kind = ""
        if isinstance(assign.value, ast.List | ast.ListComp | ast.Dict | ast.DictComp):
            has = re.search(r"\bnn\.(?!Parameter)[A-Z]|[A-Z]\w+\(", value)
            many = "Dict" if isinstance(assign.value, ast.Dict | ast.DictComp) else "List"
            if "Parameter" in value or "requires_grad" in value:
                kind = f"nn.Parameter{many}"
                value = re.sub(r",\s*requires_grad=True", "", value)
            elif has:
                kind = f"nn.Module{many}"
            elif value in ("[]", "{}") and (
                "List" in finding.remedy or "listed" in finding.message or "ModuleList" in finding.remedy
            ):
                kind = f"nn.Module{many}" if "ModuleList" in finding.remedy else f"nn.Parameter{many}"
        elif "requires_grad=True" in value and "Parameter" in finding.remedy:
            kind, value = "nn.Parameter", re.sub(r",\s*requires_grad=True", "", value)
        if kind:
            yield Patch(f"Use {kind}", cell.put((assign.value, f"{kind}({value})")))


@remedy("no-gradient")
def every_gradient(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A loss that is only logged is added; the loss is taken of the model's output."""
    found = re.search(r"what line (\d+) computes.*does not lead to (?:the loss|`?(\w+))", finding.message)
    if found:
        made = cell.statement(int(found[1]))
        name = ast.unparse(made.targets[0]) if isinstance(made, ast.Assign) else ""
        for call in cell.calls("backward"):
            if name and isinstance(call.func, ast.Attribute):
                loss = cell.code(call.func.value)
                yield Patch(f"Add {name}", cell.put((call.func.value, f"({loss} + {name})")))


@remedy("gradient")
def by_the_chain_rule(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """backward() multiplies with what forward() multiplied with, and kept in ctx."""
    named = re.search(r"the gradient is (\w+) \* (\w+)", finding.remedy)
    for made in cell.all(ast.Assign) if named else []:
        kept = made.targets[0] if isinstance(made, ast.Assign) else None
        if (
            named
            and isinstance(kept, ast.Attribute)
            and isinstance(made, ast.Assign)
            and cell.code(made.value) == named[2]
        ):
            for back in cell.statements(finding.line):
                given = back.value if isinstance(back, ast.Return) else None
                first = given.elts[0] if isinstance(given, ast.Tuple) and given.elts else given
                if isinstance(first, ast.Name) and first.id == named[1]:
                    yield Patch("Multiply with it", cell.put((first, f"{first.id} * {cell.code(kept)}")))


@remedy("unused")
def taken(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Call what is only named."""
    for statement in cell.statements(finding.line):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Attribute):
            yield Patch("Call it", cell.put((statement, cell.code(statement) + "()")))
