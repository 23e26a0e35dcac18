"""Remedies for numbers: infinities, gradients that vanish or explode, start values, dtypes, writes that are lost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name, number
from ..remedies import remedy


@remedy("nan")
def kept_from_zero(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A logarithm, a root and a divisor that stay away from 0; values that are finite."""
    for call in cell.calls("log", line=finding.line):
        inner = _argument(call)
        if inner is None:
            continue
        if "Add up logarithms" in finding.remedy:
            yield from _logarithms(cell, call)
        if isinstance(inner, ast.Call) and last_name(inner.func) == "softmax":
            yield Patch("Use log_softmax", cell.put((call, cell.code(inner).replace("softmax", "log_softmax", 1))))
        yield Patch("Keep it above 0", cell.put((inner, f"{_lead(cell, inner)}.clamp(min=1e-8)")))
    for call in cell.calls("sqrt", "norm", line=finding.line):
        inner = _argument(call)
        if inner is not None and call.args and last_name(call.func) == "sqrt":
            yield Patch("Add a small eps in the root", cell.put((inner, f"{cell.code(inner)} + 1e-12")))
    for node in cell.all(ast.BinOp):
        small = (
            re.search(r"\+ *(\d*\.?\d*e-\d+|[\w.]*eps)", cell.code(node.right)) if isinstance(node, ast.BinOp) else None
        )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and node.lineno == finding.line and not small:
            yield Patch("Keep the divisor from 0", cell.put((node.right, f"({cell.code(node.right)} + 1e-8)")))
    for call in cell.calls("std", "var", line=finding.line):
        if "correction=0" in finding.remedy and not re.search(r"unbiased|correction", cell.code(call)):
            comma = ", " if call.args or call.keywords else ""
            yield Patch("Divide by n", cell.put((call, f"{cell.code(call)[:-1]}{comma}correction=0)")))
    for call in cell.calls("acos", "asin", "arccos", "arcsin", line=finding.line):
        inner = _argument(call)
        if inner is not None:
            kept = re.sub(r"\.(?:clamp|clip)\(-1(?:\.0*)?, 1(?:\.0*)?\)$", "", _lead(cell, inner))
            yield Patch("Keep it within the slope", cell.put((inner, f"{kept}.clamp(-1 + 1e-6, 1 - 1e-6)")))
    statement = cell.statement(finding.line)
    if "nan_to_num" in finding.remedy and isinstance(statement, ast.Assign):
        name = re.match(r"\w+", ast.unparse(statement.targets[0]))
        if name:
            yield Patch("Fill it", cell.splice([cell.after(statement, f"{name[0]} = torch.nan_to_num({name[0]})")]))


def _logarithms(cell: Cell, call: ast.Call) -> Iterator[Patch]:
    for prod in cell.calls("prod"):
        inner = _argument(prod)
        if inner is not None and isinstance(cell.of(prod), ast.Assign):
            text = cell.put((prod, f"{_lead(cell, inner)}.log().sum()"), (call, cell.code(_argument(call) or call)))
            yield Patch("Add up logarithms", text)


def _argument(call: ast.Call) -> ast.expr | None:
    """What a function is given: `x` of torch.log(x) and of x.log()."""
    if call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _lead(cell: Cell, node: ast.expr) -> str:
    code = cell.code(node)
    return code if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript) else f"({code})"


@remedy("vanishing", "initialisation")
def start_values(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Start values that are drawn, and of a size that passes signals on."""
    lines = [finding.line, *(int(n) for n in re.findall(r"[Ll]ine (\d+)", finding.message))]
    for line in dict.fromkeys(line for line in lines if 0 < (line or 1) <= len(cell.lines)):
        statements = cell.statements(line)
        for statement in statements:
            for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
                name, code = last_name(call.func), cell.code(call)
                if name in ("zeros_", "ones_", "constant_") and call.args and "bias" not in code:
                    inner = cell.code(call.args[0])
                    yield Patch("Draw them", cell.put((call, f"nn.init.normal_({inner}, std=0.1)")))
                elif name in ("zero_", "fill_") and isinstance(call.func, ast.Attribute):
                    inner = cell.code(call.func.value)
                    yield Patch("Draw them", cell.put((call, f"{inner}.normal_(0, 0.1)")))
        source = cell.lines[(line or 1) - 1]
        if re.search(r"\bnp\.zeros\(\(", source) and "start values" in finding.message:
            text = re.sub(
                r"\bnp\.zeros\(\((\d+), (\d+)\)\)",
                r"0.3 * np.random.default_rng(0).standard_normal((\1, \2))",
                cell.text,
            )
            yield Patch("Draw them", text)
        elif re.search(r"\btorch\.(zeros|ones)\(", source) and "start values" in finding.message:
            yield Patch(
                "Draw them", re.sub(r"\btorch\.(?:zeros|ones)\((\w+, \w+)\)", r"0.1 * torch.randn(\1)", cell.text)
            )
    if "larger weights" in finding.remedy or "smaller weights" in finding.remedy:
        yield from spread(cell, finding)


@remedy("exploding", "vanishing")
def spread(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Weights of the spread that is due: Xavier's, Kaiming's."""
    if "weights" not in finding.remedy:
        return
    for call in cell.calls("normal_", "uniform_", "constant_"):
        code = cell.code(call)
        if call.args and "init" in code:
            yield Patch("Xavier's start values", cell.put((call, f"nn.init.xavier_normal_({cell.code(call.args[0])})")))
            yield Patch(
                "Kaiming's start values", cell.put((call, f"nn.init.kaiming_normal_({cell.code(call.args[0])})"))
            )
    draws = [c for c in cell.calls("randn") if len(c.args) == 2 and _trains(cell, c)]
    changes = []
    for call in draws:
        fan = cell.code(call.args[0])
        whole = cell.parents[call]
        scaled = isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mult)
        text = re.sub(r",\s*requires_grad=True", "", cell.code(call))
        grad = ").requires_grad_()" if "requires_grad" in cell.code(call) else ")"
        changes.append((whole if scaled else call, f"({text} * (2 / {fan}) ** 0.5{grad}"))
    if changes:
        yield Patch("Kaiming's start values", cell.put(*changes))


def _trains(cell: Cell, call: ast.Call) -> bool:
    code = cell.code(cell.of(call))
    return "requires_grad" in code or "Parameter" in code or "* " in code


@remedy("vanishing")
def activations(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """ReLU for sigmoid between layers; leaky ReLU for one that is dead; a straight-through estimator for sign."""
    if "`sigmoid`" in finding.message:
        model = finding.parameters[0].split(".")[0].split("[")[0] if finding.parameters else ""
        for small, large in ((("sigmoid", "relu"), ("Sigmoid", "ReLU")), (("sigmoid", "silu"), ("Sigmoid", "SiLU"))):
            text = re.sub(r"\btorch\.sigmoid\(", "torch.relu(" if small[1] == "relu" else "F.silu(", cell.text)
            text = re.sub(r"\bF\.sigmoid\(", f"F.{small[1]}(", text)
            text = re.sub(rf"\bnn\.{large[0]}\b", f"nn.{large[1]}", text)
            yield Patch(f"{large[1]} between the layers", text)
            yield from _kaiming(text, model, large[1])
    if "`relu`" in finding.message or "`clamp`" in finding.message:
        text = re.sub(r"\bnn\.ReLU\(\)", "nn.LeakyReLU()", cell.text)
        text = re.sub(r"\b(?:torch|F)\.relu\(", "F.leaky_relu(", text)
        text = re.sub(r"([\w.]+\([\w.]*\))\.clamp\(min=0\)", r"F.leaky_relu(\1)", text)
        yield Patch("Leaky ReLU", text)
        for node in cell.all(ast.Call):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) in ("constant_", "fill_")
                and "bias" in cell.code(node)
            ):
                last = node.args[-1]
                yield Patch("Biases of 0", cell.put((last, "0.0")))
    if "`sign`" in finding.message:
        for call in cell.calls("sign", line=finding.line):
            inner = _argument(call)
            if inner is not None:
                code = cell.code(inner)
                yield Patch(
                    "Pass the gradient by it", cell.put((call, f"({code} + ({cell.code(call)} - {code}).detach())"))
                )


def _kaiming(text: str, model: str, activation: str) -> Iterator[Patch]:
    """Kaiming's start values besides: a deep stack of nn.Linear's own still loses most of a signal."""
    try:
        cell = Cell(text)
    except SyntaxError:
        return
    for assign in cell.tree.body:
        if isinstance(assign, ast.Assign) and cell.code(assign.targets[0]) == model:
            lines = (f"for p in {model}.parameters():", "    if p.dim() > 1:", "        nn.init.kaiming_normal_(p)")
            yield Patch(f"{activation} and Kaiming's start values", cell.splice([cell.after(assign, *lines)]))


@remedy("exploding")
def clipped(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Smaller weights of a recurrence, by their own factor."""
    for node in cell.all(ast.BinOp):
        code = cell.code(node)
        factor = number(node.right)
        if isinstance(node.op, ast.Mult) and factor is not None and "randn" in code:
            yield Patch("Start with smaller weights", cell.put((node.right, f"{factor / 5:g}")))


@remedy("dtype", "error")
def converted(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Data of NumPy's as float32, where it is made; bytes as floats before a difference."""
    says = finding.remedy
    if "Convert the data" in says or "Make float32 tensors" in says:
        changes: list[tuple[ast.AST, str]] = []
        for call in cell.calls("tensor", "from_numpy", "as_tensor"):
            code = cell.code(call)
            numpy = "np." in code or (call.args and not isinstance(call.args[0], ast.List | ast.Constant))
            if numpy and "float32" not in code and "int" not in code:
                if "requires_grad=True" in code:
                    changes.append((call, f"{code[:-1]}, dtype=torch.float32)"))
                else:
                    changes.append((call, f"{code}.float()"))
        if changes:
            text = re.sub(r"\.double\(\)", "", cell.put(*changes))
            yield Patch("Convert the data where it is made", text)
        statement = cell.statement(finding.line)
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement else []:
            for argument in call.args[:1]:
                if isinstance(argument, ast.Name):
                    yield Patch("Convert the data", cell.put((argument, f"{argument.id}.float()")))
    if "float (or int16) first" in says:
        for node in cell.all(ast.BinOp):
            if isinstance(node, ast.BinOp) and node.lineno == finding.line and isinstance(node.op, ast.Sub | ast.Add):
                left, right = _lead(cell, node.left), _lead(cell, node.right)
                yield Patch(
                    "Compute in floats", cell.put((node.left, f"{left}.float()"), (node.right, f"{right}.float()"))
                )
    if "Add up in float32" in says:
        yield Patch(
            "Add up in float32", re.sub(r"(= torch\.zeros\(\(\), dtype=torch\.)b?float16", r"\1float32", cell.text)
        )
    if "x.var()" in says:
        found = re.search(r"`\((\w+) \*\* 2\)\.mean\((\w*)\) - (\w+) \*\* 2`", finding.message)
        if found:
            name, dim, mean = found.groups()
            statement = cell.statement(finding.line)
            if isinstance(statement, ast.Assign):
                yield Patch(
                    "Mean of squared differences", cell.put((statement.value, f"(({name} - {mean}) ** 2).mean({dim})"))
                )
    if "in float64 or int64" in says:
        yield Patch("Stay in float64", re.sub(r"\.to\(torch\.float32\)|\.float\(\)(?=\n)", "", cell.text))
        yield from _wide(cell, finding)
    if "eps=1e-4" in says:
        for call in cell.calls("Adam", "AdamW"):
            yield Patch("eps=1e-4", cell.put((call, f"{cell.code(call)[:-1]}, eps=1e-4)")))


def _wide(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What is subtracted is made as float64, and the difference becomes float32."""
    for node in cell.all(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and node.lineno == finding.line:
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            made = [a for a in cell.all(ast.Assign) if isinstance(a, ast.Assign) and cell.code(a.targets[0]) in names]
            words = [
                w.value for a in made for w in ast.walk(a.value) if isinstance(w, ast.keyword) and w.arg == "dtype"
            ]
            narrow = [w for w in words if cell.code(w).endswith("float32")]
            if narrow:
                wide = [(w, cell.code(w).replace("float32", "float64")) for w in narrow]
                yield Patch("Subtract in float64", cell.put(*wide, (node, f"({cell.code(node)}).float()")))


@remedy("indexing")
def accumulated(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Every value is added where indices repeat: index_add_, index_put_ with accumulate."""
    found = re.match(r"([\w.]+\.(?:index_add_|index_put_)\(.*\)) adds? them all", finding.remedy)
    for statement in cell.statements(finding.line):
        if found:
            yield Patch("Add all of them", cell.put((statement, found[1])))


@remedy("error")
def out_of_place(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Changes out of place of what backward needs, under no_grad of what trains."""
    for statement in cell.statements(finding.line):
        if (
            isinstance(statement, ast.AugAssign)
            and "out of place" in finding.remedy
            and "no_grad" not in finding.remedy
        ):
            sign = cell.code(statement).split("=")[0].strip()[len(cell.code(statement.target)) :].strip()
            target, value = cell.code(statement.target), cell.code(statement.value)
            yield Patch("Change it out of place", cell.put((statement, f"{target} = {target} {sign} {value}")))
        if isinstance(statement, ast.AugAssign) and "no_grad" in finding.remedy:
            lines = [f"with {_library(cell)}.no_grad():", f"    {cell.code(statement)}"]
            place, end = cell.before(statement, *lines), cell.without(statement)
            yield Patch("Do it under no_grad()", cell.splice([(place[0], end[1], place[2])]))
        if isinstance(statement, ast.Assign) and "Change it in place" in finding.remedy:
            new, target = statement.value, cell.code(statement.targets[0])
            if isinstance(new, ast.BinOp) and cell.code(new.left) == target:
                change = f"{target} -= {cell.code(new.right)}"
                text = cell.put((statement, change)).replace("enable_grad()", "no_grad()")
                yield Patch("Change it in place", text)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            written = cell.code(statement.targets[0].value)
            if "clone()" in finding.remedy:
                yield Patch(
                    "Write into a clone", cell.splice([cell.before(statement, f"{written} = {written}.clone()")])
                )
        inner = [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if isinstance(statement, ast.Expr) else []
        for call in inner:
            if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
                arguments = ", ".join(map(cell.code, call.args))
                code = f"{cell.code(call.func.value)}.{call.func.attr[:-1]}({arguments})"
                yield Patch("Change it out of place", cell.put((call, code)))


def _library(cell: Cell) -> str:
    names = {n.id for n in cell.all(ast.Name) if isinstance(n, ast.Name)}
    return next((n for n in ("torch", "core") if n in names), "torch")


@remedy("error")
def order_of_steps(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Backward passes before the step that changes what they need; losses added; fakes detached; a leaf that is one."""
    if "Run backward() of every loss before the step" in finding.remedy:
        later = re.search(r"so line (\d+) fails", finding.message)
        for step in cell.calls("step", line=finding.line):
            for backward in cell.calls("backward", line=int(later[1]) if later else None):
                yield Patch("Step after both backward()", cell.moved(cell.of(step), cell.of(backward), below=True))
    if "Add the losses" in finding.remedy:
        backwards = [c for c in cell.calls("backward") if isinstance(c.func, ast.Attribute)]
        if len(backwards) == 2:
            names = [cell.code(c.func.value) for c in backwards if isinstance(c.func, ast.Attribute)]
            second = backwards[1].func
            assert isinstance(second, ast.Attribute)
            pieces = [cell.without(cell.of(backwards[0])), (*cell.span(second.value), f"({' + '.join(names)})")]
            yield Patch("Add the losses", cell.splice(pieces))
    if "own loss, and add up its value" in finding.remedy:
        for call in cell.calls("backward", line=finding.line):
            for node in cell.all(ast.AugAssign, ast.Assign):
                target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]  # type: ignore[attr-defined]
                if isinstance(call.func, ast.Attribute) and cell.code(target) == cell.code(call.func.value):
                    value = node.value if isinstance(node, ast.AugAssign) else getattr(node.value, "right", None)  # type: ignore[attr-defined]
                    if value is not None and cell.loop(node) is not None:
                        name = cell.code(value) if isinstance(value, ast.Name) else "loss"
                        pieces = [(*cell.span(value), f"{name}.item()"), (*cell.span(call.func.value), name)]
                        if name != cell.code(value):
                            pieces.append(cell.before(node, f"{name} = {cell.code(value)}"))
                        yield Patch("Run backward() of this iteration's loss", cell.splice(pieces))
    if "detach()ed copy" in finding.remedy:
        for call in cell.all(ast.Call):
            given = call.args[0] if len(call.args) == 1 else None
            if isinstance(given, ast.Name) and "fake" in given.id and call.lineno < (finding.line or 0):
                yield Patch("Detach it for the first", cell.put((given, f"{given.id}.detach()")))
    if "Compute it anew in every iteration" in finding.remedy:
        where = re.search(r"\(line (\d+)\) ran once", finding.message)
        made = cell.statement(int(where[1])) if where else None
        loops = [n for n in cell.tree.body if isinstance(n, ast.For | ast.While)]
        if made is not None and loops:
            yield Patch("Compute it in the loop", cell.moved(made, loops[-1].body[0]))
    if "detach().requires_grad_()" in finding.remedy:
        named = re.search(r"`(\w+)` is the result of an op .*line (\d+)\)", finding.message)
        made = cell.statement(int(named[2])) if named else None
        if isinstance(made, ast.Assign):
            code = re.sub(r",\s*requires_grad=True", "", cell.code(made.value))
            yield Patch("Make it a leaf", cell.put((made.value, f"({code}).detach().requires_grad_()")))
    if "Keep the tensor for backward()" in finding.remedy:
        where = re.search(r"line (\d+) made", finding.message)
        for call in cell.calls("item", line=int(where[1]) if where else finding.line):
            if isinstance(call.func, ast.Attribute):
                yield Patch("Keep the tensor", cell.put((call, cell.code(call.func.value))))
    if "Run loss.backward() first" in finding.remedy:
        for statement in cell.statements(finding.line):
            for call in cell.calls("backward"):
                if cell.of(call).lineno > statement.lineno:
                    yield Patch("Run backward() first", cell.moved(statement, cell.of(call), below=True))
