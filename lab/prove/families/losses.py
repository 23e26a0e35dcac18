"""Remedies for losses: shapes that broadcast, softmax twice, arguments in another order, errors of calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy

_SQUASH = {"softmax": ("softmax", "Softmax", "log_softmax", "LogSoftmax"), "sigmoid": ("sigmoid", "Sigmoid"),
           "relu": ("relu", "ReLU")}  # fmt: skip

_SUMMED = ("binary_cross_entropy_with_logits", "binary_cross_entropy", "l1_loss")


@remedy("broadcast", "error")
def one_shape(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Give prediction and target one shape: squeeze(-1) on the one of (N, 1)."""
    shapes = re.search(r"(?:shapes|of shapes) \(([\d, ]*)\) and \(([\d, ]*)\)", finding.message)
    if finding.kind != "broadcast" or not shapes:
        return
    sizes = [[int(n) for n in s.split(",") if n.strip()] for s in shapes.groups()]
    which = 0 if len(sizes[0]) > len(sizes[1]) else 1
    code = re.search(r"`([^`]+)`", finding.message)
    wanted = code[1] if code else ""
    nodes = [n for n in cell.all(ast.BinOp, ast.Call, ast.Compare) if getattr(n, "lineno", 0) == finding.line]
    for node in sorted(nodes, key=lambda n: _plain(cell.code(n)) != _plain(wanted)):
        pair = _operands(node)
        if len(pair) == 2:
            chosen = pair[which]
            text = cell.code(chosen)
            lead = text if isinstance(chosen, ast.Name | ast.Call | ast.Attribute | ast.Subscript) else f"({text})"
            if isinstance(chosen, ast.Name):  # also where the same name is read again
                same = [n for n in cell.all(ast.Name) if isinstance(n, ast.Name) and n.id == chosen.id
                        and n.lineno == finding.line]  # fmt: skip
                yield Patch("Give both one shape", cell.pieces(same, lambda c: f"{c}.squeeze(-1)"))
                first = cell.before(node, f"{chosen.id} = {chosen.id}.squeeze(-1)")  # where lines below read it too
                yield Patch("Give both one shape", cell.splice([first]))
            elif isinstance(chosen, ast.Call) and chosen.args and last_name(chosen.func) in ("log", "exp", "sqrt"):
                names = {n.id for n in ast.walk(chosen.args[0]) if isinstance(n, ast.Name)}
                same = [n for n in cell.all(ast.Name) if isinstance(n, ast.Name) and n.id in names
                        and n.lineno == finding.line]  # fmt: skip
                yield Patch("Give both one shape", cell.pieces(same, lambda c: f"{c}.squeeze(-1)"))
            yield Patch("Give both one shape", cell.put((chosen, f"{lead}.squeeze(-1)")))


def _plain(code: str) -> str:
    return re.sub(r"[\s()]", "", code)


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return node.args[:2] if isinstance(node, ast.Call) else []


@remedy("loss")
def without_squash(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Leave out the softmax, sigmoid or relu before a loss, as a function or as the last layer."""
    found = re.search(r"Leave out the (softmax|sigmoid|relu)", finding.remedy)
    if not found:
        return
    lines = [int(n) for n in re.findall(r"line (\d+)", finding.message)]
    for call in cell.calls(*_SQUASH[found[1]]):
        parent = cell.parents[call]
        named = last_name(call.func)
        if named[0].isupper() and isinstance(parent, ast.Call) and call in parent.args and call is parent.args[-1]:
            begin, end = cell.span(call)
            before = cell.text[:begin].rstrip()
            cut = len(before) - 1 if before.endswith(",") else begin
            yield Patch(f"Leave out {named}", cell.splice([(cut, end, "")]))
        elif not named[0].isupper():
            inner = (
                call.args[0]
                if call.args and isinstance(call.func, ast.Name | ast.Attribute) and _module(call)
                else None
            )
            inner = inner or (call.func.value if isinstance(call.func, ast.Attribute) and not _module(call) else None)
            if inner is not None and (call.lineno in lines or isinstance(parent, ast.Return)):
                yield Patch(f"Leave out {named}", cell.put((call, cell.code(inner))))
        elif isinstance(parent, ast.Assign):  # self.act = nn.Sigmoid(): where it is called
            name = ast.unparse(parent.targets[0])
            for use in cell.all(ast.Call):
                if isinstance(use, ast.Call) and ast.unparse(use.func) == name and use.args:
                    yield Patch(f"Leave out {named}", cell.put((use, cell.code(use.args[0]))))


def _module(call: ast.Call) -> bool:
    """Whether a function is called by its module, `torch.softmax(x)`, and not on a tensor, `x.softmax()`."""
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in (
        "torch",
        "F",
        "core",
        "nn.functional",
        "torch.nn.functional",
    )


@remedy("loss")
def log_probabilities(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Cross entropy of the logits for nll_loss; log_softmax for kl_div's first argument."""
    if "cross_entropy on the logits" in finding.remedy:
        for call in cell.calls("nll_loss", "NLLLoss"):
            code = cell.code(call).replace("nll_loss", "cross_entropy", 1).replace("NLLLoss", "CrossEntropyLoss", 1)
            for soft in cell.calls("softmax", "Softmax"):
                inner = soft.args[0] if soft.args and last_name(soft.func) == "softmax" and _module(soft) else None
                if inner is not None:
                    log = cell.code(soft).replace("softmax", "log_softmax", 1)
                    yield Patch("Take its logarithm", cell.put((soft, log)))
                elif last_name(soft.func) == "Softmax":
                    yield Patch(
                        "Take its logarithm", cell.put((soft, cell.code(soft).replace("Softmax", "LogSoftmax")))
                    )
            yield Patch("Use cross_entropy", cell.put((call, code)))
    if "log_softmax of the logits first" in finding.remedy:
        lines = {finding.line, *(int(n) for n in re.findall(r"line (\d+)", finding.message))}
        for soft in cell.calls("softmax"):
            log = re.sub(r"softmax", "log_softmax", cell.code(soft), count=1)
            inside = isinstance(cell.parents[soft], ast.Call) and soft.lineno in lines
            if inside or isinstance(cell.parents[soft], ast.Assign):
                yield Patch("Take its logarithm", cell.put((soft, log)))


@remedy("loss")
def other_dimension(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A softmax over the dimension that the remedy names."""
    found = re.search(r"dim=(-?\d+)", finding.remedy)
    if not found or "softmax" not in finding.message:
        return
    for call in cell.calls("softmax", "log_softmax", "Softmax", "LogSoftmax"):
        near = call.lineno == finding.line or str(call.lineno) in re.findall(r"line (\d+)", finding.message)
        words = [k for k in call.keywords if k.arg == "dim"]
        place = words[0].value if words else call.args[-1] if call.args else None
        if near and place is not None:
            yield Patch(f"dim={found[1]}", cell.put((place, found[1])))


@remedy("loss")
def turned(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Arguments in their order, a sign turned, classes where the loss wants them, targets of its range."""
    calls = cell.calls("cross_entropy", "mse_loss", *_SUMMED, "kl_div", "nll_loss", "loss_fn",
                       "criterion", "crit", line=finding.line)  # fmt: skip
    for call in calls:
        if len(call.args) < 2:
            continue
        a, b = call.args[:2]
        if "wrong way round" in finding.message:
            code = cell.code(b)
            bare = re.fullmatch(r"torch\.softmax\((.*), \d\)", code)
            yield Patch("Turn them round", cell.put((a, bare[1] if bare else code), (b, cell.code(a))))
        if "logits.transpose(1, 2)" in finding.remedy:
            yield Patch("Bring the classes to dimension 1", cell.put((a, f"{cell.code(a)}.transpose(1, 2)")))
        if "(target + 1) / 2" in finding.remedy:
            yield Patch("Bring the targets to 0 and 1", cell.put((b, f"({cell.code(b)} + 1) / 2")))
        if "target / 255" in finding.remedy:
            yield Patch("Bring the targets to 0 and 1", cell.put((b, f"{cell.code(b)} / 255")))
        if "reduction='sum') / len" in finding.remedy and last_name(call.func) in ("mse_loss", *_SUMMED):
            code = f"{cell.code(call)[:-1]}, reduction='sum') / len({cell.code(b)})"
            yield Patch("Sum over a sample", cell.put((call, code)))
        if "over samples and values too" in finding.remedy and last_name(call.func) in ("mse_loss", *_SUMMED):
            yield Patch("Sum over all", cell.put((call, f"{cell.code(call)[:-1]}, reduction='sum')")))
        if "tokens[:, 1:]" in finding.remedy or "Shift them by one" in finding.remedy:
            code = cell.code(b)
            if ":-1]" in code:
                yield Patch("Shift the targets", cell.put((b, code.replace(":-1]", "1:]"))))
    if "falls for ever" in finding.message and "its sign" in finding.remedy:
        for node in cell.all(ast.UnaryOp):
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and node.lineno == finding.line:
                yield Patch("Turn the sign", cell.put((node, cell.code(node.operand))))


@remedy("loss")
def weighed(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Two scores that are told apart by their signs; a reconstruction that is summed as the divergence is."""
    if "opposite signs" in finding.remedy:
        for node in cell.all(ast.BinOp):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and node.lineno == finding.line:
                right = cell.code(node.right)
                right = f"({right})" if isinstance(node.right, ast.BinOp) else right
                yield Patch("Give them opposite signs", cell.put((node, f"{cell.code(node.left)} - {right}")))
    averaged = re.search(r"`([\w.]+\(.*?\))`(?: \(line \d+\))? is averaged", finding.message)
    for call in cell.all(ast.Call) if averaged and "reduction='sum'" in finding.remedy else []:
        code = cell.code(call)
        if isinstance(call, ast.Call) and averaged and code == averaged[1] and call.args and "reduction" not in code:
            whole = f"{code[:-1]}, reduction='sum') / len({cell.code(call.args[0])})"
            yield Patch("Sum it over a sample", cell.put((call, whole)))


@remedy("error")
def calls(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What a function wants: another dtype, another shape, a call, a list."""
    says = f"{finding.message} {finding.remedy}"
    losses = cell.calls(
        "cross_entropy", "nll_loss", "binary_cross_entropy", "criterion", "loss_fn", "BCELoss", line=finding.line
    )
    losses += [
        c
        for c in cell.all(ast.Call)
        if isinstance(c, ast.Call) and isinstance(c.func, ast.Call) and c.lineno == finding.line
    ]
    for call in losses:
        if len(call.args) < 2:
            continue
        target = call.args[1]
        code = cell.code(target)
        if "target.long()" in says or "dtype to be Long" in says:
            bare = re.sub(r"\.float\(\)$", "", code)
            yield Patch("Give class numbers", cell.put((target, bare if bare != code else f"{code}.long()")))
        if "target.squeeze(1)" in says:
            bare = re.sub(r"\[:, None\]$", "", code)
            yield Patch("Give one dimension", cell.put((target, bare if bare != code else f"{code}.squeeze(1)")))
        if "target - 1" in says:
            yield Patch("Number from 0", cell.put((target, f"{code} - 1")))
        if "(core.float32)" in says or "(torch.float32)" in says or "expected Float" in says:
            yield Patch("Give floats", cell.put((target, f"{code}.float()")))
        if "logits.transpose(1, 2)" in says:
            first = call.args[0]
            yield Patch("Bring the classes to dimension 1", cell.put((first, f"{cell.code(first)}.transpose(1, 2)")))
    if "Sigmoid first" in says or "Use binary_cross_entropy_with_logits" in says:
        for made in cell.calls("BCELoss", "binary_cross_entropy"):
            code = (
                cell.code(made)
                .replace("BCELoss", "BCEWithLogitsLoss")
                .replace("cross_entropy(", "cross_entropy_with_logits(")
            )
            yield Patch("Use the loss with logits", cell.put((made, code)))
    made_first = re.search(r"Make it, then call it: ((?:nn\.|torch\.nn\.)?(\w+))\(\)\(", says)
    if made_first:
        for call in cell.calls(made_first[2], line=finding.line):
            yield Patch("Make it, then call it", cell.put((call.func, f"{cell.code(call.func)}()")))
    if "retain_graph=True" in says:
        for call in [c for c in cell.calls("backward") if c.lineno <= (finding.line or 0)]:
            arguments = (
                "retain_graph=True"
                if not (call.args or call.keywords)
                else "".join(cell.code(a) for a in call.args) + ", retain_graph=True"
            )
            receiver = cell.code(call.func)
            yield Patch("Keep the graph for the second", cell.put((call, f"{receiver}({arguments})")))
    if "dim=-1)" in finding.remedy and "cat" in finding.remedy:
        for call in cell.calls("cat", "concat", line=finding.line):
            yield Patch("Join the features", cell.put((call, f"{cell.code(call)[:-1]}, dim=-1)")))
    if "list(model.parameters())" in finding.remedy:
        for assign in cell.all(ast.Assign):
            if isinstance(assign, ast.Assign) and cell.code(assign.value).endswith(".parameters()"):
                yield Patch("Keep a list", cell.put((assign.value, f"list({cell.code(assign.value)})")))
    size = re.search(r"nn\.Embedding\((\d+), (\d+)\)", finding.remedy)
    if size:
        for call in cell.calls("Embedding"):
            if call.args:
                yield Patch("Make the table larger", cell.put((call.args[0], size[1])))
    permute = re.search(r"permute\([\d, ]+\)", finding.remedy)
    if permute:
        statement = cell.statement(finding.line)
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement else []:
            if len(call.args) == 1 and not call.keywords:
                yield Patch(
                    "Bring it to (N, C, H, W)", cell.put((call.args[0], f"{cell.code(call.args[0])}.{permute[0]}"))
                )
    if "squeeze(" in finding.remedy or "sched.step(val_loss)" in finding.remedy:
        for call in cell.calls("step", line=finding.line):
            if not call.args and "sched" in cell.code(call):
                yield Patch("Give it the loss", cell.put((call, f"{cell.code(call)[:-1]}loss.item())")))


@remedy("error")
def definitions(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What a class lacks: super().__init__(), a forward of its name, a returned gradient for each input."""
    if "super().__init__()" in finding.remedy:
        for function in cell.all(ast.FunctionDef):
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                others = [s for s in function.body if "super().__init__()" not in cell.code(s)]
                calls_ = [s for s in function.body if "super().__init__()" in cell.code(s)]
                text = cell.splice([cell.before(others[0], "super().__init__()"), *(cell.without(s) for s in calls_)])
                yield Patch("Call super().__init__() first", text)
    named = re.search(r"def forward, not def (\w+)", finding.remedy)
    if named:
        yield Patch("Call it forward", re.sub(rf"\bdef {named[1]}\b", "def forward", cell.text))
    whole = re.search(r"Return one for each argument.*?: (return .+?)\.$", finding.remedy)
    if whole:
        for statement in cell.all(ast.Return):
            code = cell.code(statement)
            if whole[1].startswith(code.split("(")[0]) and "forward" not in code and code in whole[1]:
                yield Patch("Return one for each", cell.put((statement, whole[1])))
    if "flatten(1)" in finding.remedy:
        for call in cell.calls("flatten"):
            if not call.args and not call.keywords:
                yield Patch("Keep the batch", cell.put((call, cell.code(call)[:-1] + "1)")))
    if "batch_first=True" in finding.remedy:
        yield from batch_first(cell, finding)


@remedy("layout")
def batch_first(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A recurrent layer, or an encoder's, that reads the batch first."""
    if "batch_first" not in finding.remedy:
        return
    for call in cell.calls("LSTM", "GRU", "RNN", "TransformerEncoderLayer", "MultiheadAttention"):
        if "batch_first" not in cell.code(call):
            yield Patch("batch_first=True", cell.put((call, f"{cell.code(call)[:-1]}, batch_first=True)")))


@remedy("layout", "error")
def swapped(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Dimensions that are moved before they are joined, as the remedy writes them."""
    found = re.search(
        r"((?:permute|transpose|view)\([-\d, ]+\)(?:\.(?:reshape|transpose)\([-\d, ]+\))?)", finding.remedy
    )
    if not found or "batch_first" in finding.remedy:
        return
    for call in cell.calls("view", "reshape", line=finding.line):
        if isinstance(call.func, ast.Attribute):
            inner, chain = cell.code(call.func.value), found[1]
            own = ", ".join(cell.code(a) for a in call.args)
            if chain.startswith("view(") and ".transpose" in chain:
                sizes = [cell.code(a) for a in call.args]
                if len(sizes) == 4:
                    split = f"{inner}.view({sizes[0]}, {sizes[2]}, {sizes[1]}, {sizes[3]}).transpose(1, 2)"
                    names = [s for s in cell.calls(last_name(call.func)) if [cell.code(a) for a in s.args] == sizes]
                    changes = [
                        (s, split.replace(inner, cell.code(s.func.value), 1))
                        for s in names
                        if isinstance(s.func, ast.Attribute)
                    ]
                    yield Patch("Split first, then swap", cell.put(*changes))
                continue
            first = chain.partition(".")[0]
            yield Patch(
                "Swap the dimensions",
                cell.put((call, f"{inner}.{first}" if "." not in chain else f"{inner}.{first}.reshape({own})")),
            )
            if "transpose(" in finding.remedy and "of an array" in finding.remedy:
                array = first.replace("permute", "transpose")
                yield Patch("Swap the dimensions", cell.put((call, f"{inner}.{array}")))
