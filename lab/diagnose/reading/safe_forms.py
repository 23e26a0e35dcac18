"""The code at an op whose result or slope is not finite, written so that it is, with the names that it has."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Ref, Row, Trace
from ..finding import code_of
from .calls import operands
from .sources import called

ROOTS = {"sqrt", "rsqrt"}
PASSING = {"gather", "getitem", "select", "index", "clone", "cast", "squeeze", "unsqueeze", "view", "reshape", "slice"}
INSIDE = {"acos": (-1, 1), "asin": (-1, 1), "arccos": (-1, 1), "arcsin": (-1, 1), "atanh": (-1, 1)}
MEAN = re.compile(r"mean|avg|average|\bmu\b|sum|expect|moment|\bm1\b")
VARIANCE = (
    "Take the mean of (x - mean) ** 2 (x.var()), or Welford's update for a running one; or add up in float64. "
    "Clamping it at 0 would only hide that, as a spread of 0 by which something is divided."
)
LONG = 90  # characters of code beyond which a sentence does not print it


def parsed(code: str) -> ast.expr | None:
    """The tree of an expression that was quoted; None where it was cut or is none."""
    try:
        return ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        return None


def shown(node: ast.expr | None) -> str:
    """The code of an expression, where it is short enough for a sentence."""
    text = "" if node is None else re.sub(r"e-0(\d)", r"e-\1", ast.unparse(ast.fix_missing_locations(node)))
    return text if len(text) <= LONG else ""


def plus(node: ast.expr, eps: float) -> ast.BinOp:
    """A value with a small number added."""
    return ast.BinOp(node, ast.Add(), ast.Constant(eps))


def given_to(call: ast.Call, new: ast.expr) -> ast.Call:
    """A call whose first operand is another: ``x.sqrt()`` and ``torch.sqrt(x)`` alike."""
    if call.args and operands(call)[:1] == call.args[:1]:
        return ast.Call(call.func, [new, *call.args[1:]], call.keywords)
    assert isinstance(call.func, ast.Attribute)
    return ast.Call(ast.Attribute(new, call.func.attr, ast.Load()), call.args, call.keywords)


def renamed(code: str, old: str, new: str) -> str:
    """Return a call of another function of the same arguments; "" where the code calls something else.

    >>> renamed("torch.softmax(x / T, 1)", "softmax", "log_softmax"), renamed("net(x)", "softmax", "log_softmax")
    ('torch.log_softmax(x / T, 1)', '')
    """
    node = parsed(code)
    if not isinstance(node, ast.Call) or called(node) != old or not isinstance(node.func, ast.Attribute):
        return ""
    return shown(ast.Call(ast.Attribute(node.func.value, new, ast.Load()), node.args, node.keywords))


def without(code: str, name: str) -> str:
    """Return what a function is given, in place of what it gives; "" where the code calls something else.

    >>> without("F.softmax(self.fc(h), dim=1)", "softmax"), without("self.net(x)", "softmax")
    ('self.fc(h)', '')
    """
    node = parsed(code)
    of = operands(node)[:1] if isinstance(node, ast.Call) and called(node) == name else []
    return shown(of[0]) if of else ""


def of_sums(code: str) -> str:
    """Return a loss that is a mean over all values as the mean over samples of their sums.

    >>> of_sums("F.binary_cross_entropy(out, x)"), of_sums("((out - x) ** 2).mean()"), of_sums("criterion(out, x)")
    ("F.binary_cross_entropy(out, x, reduction='sum') / len(x)", '((out - x) ** 2).sum() / len(out)', '')
    """
    node = parsed(code)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    if called(node) == "mean" and not node.args and not node.keywords:
        first = next((n for n in ast.walk(node.func.value) if isinstance(n, ast.Name)), None)
        total = ast.Call(ast.Attribute(node.func.value, "sum", ast.Load()), [], [])
        return f"{shown(total)} / len({first.id})" if first is not None and shown(total) else ""
    losses = "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"
    if called(node) not in losses or len(node.args) < 2 or not isinstance(node.args[1], ast.Name):
        return ""
    kept = [k for k in node.keywords if k.arg != "reduction"]
    whole = ast.Call(node.func, node.args, [*kept, ast.keyword("reduction", ast.Constant("sum"))])
    return f"{shown(whole)} / len({node.args[1].id})" if shown(whole) else ""


def as_floats(code: str) -> str:
    """Return a sum or a difference of two tensors that are made float before; "" of anything else.

    >>> as_floats("frames[1:] - frames[:-1]"), as_floats("x - 3"), as_floats("a.sub(b)")
    ('frames[1:].float() - frames[:-1].float()', '', '')
    """
    node = parsed(code)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return ""
    if any(isinstance(side, ast.Constant) for side in (node.left, node.right)):
        return ""
    left, right = (ast.Call(ast.Attribute(s, "float", ast.Load()), [], []) for s in (node.left, node.right))
    return shown(ast.BinOp(left, node.op, right))


def product_in_floats(code: str) -> str:
    """Return a product of matrices of float32 copies; "" of anything else.

    >>> product_in_floats("torch.bmm(f, f.transpose(1, 2))"), product_in_floats("a @ b"), product_in_floats("a.t()")
    ('torch.bmm(f.float(), f.transpose(1, 2).float())', 'a.float() @ b.float()', '')
    """
    node = parsed(code)

    def wider(side: ast.expr) -> ast.expr:
        return ast.Call(ast.Attribute(side, "float", ast.Load()), [], [])

    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return shown(ast.BinOp(wider(node.left), node.op, wider(node.right)))
    if isinstance(node, ast.Call) and called(node) in ("bmm", "mm", "matmul", "mv") and len(node.args) == 2:
        return shown(ast.Call(node.func, [wider(a) for a in node.args], node.keywords))
    return ""


def in_floats(code: str) -> str:
    """Return a call of whose first operand a float32 copy is taken; "" of anything else.

    >>> in_floats("maps.sum(dim=(2, 3))"), in_floats("torch.mean(x)"), in_floats("x")
    ('maps.float().sum(dim=(2, 3))', 'torch.mean(x.float())', '')
    """
    node = parsed(code)
    of = operands(node) if isinstance(node, ast.Call) else []
    if not of or not isinstance(node, ast.Call):
        return ""
    return shown(given_to(node, ast.Call(ast.Attribute(of[0], "float", ast.Load()), [], [])))


def root(code: str) -> str:
    """Return a root or a norm with a small number inside; "" of anything else.

    >>> root("(a - b).pow(2).sum(1).sqrt()"), root("torch.sqrt(x)"), root("d ** 0.5")
    ('((a - b).pow(2).sum(1) + 1e-12).sqrt()', 'torch.sqrt(x + 1e-12)', '(d + 1e-12) ** 0.5')
    >>> root("torch.norm(a - b, dim=1)"), root("g.norm()"), root("x / y")
    ('((a - b).square().sum(dim=1) + 1e-12).sqrt()', '(g.square().sum() + 1e-12).sqrt()', '')
    """
    node = parsed(code)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return shown(ast.BinOp(plus(node.left, 1e-12), ast.Pow(), node.right))
    of = operands(node) if isinstance(node, ast.Call) else []
    if not isinstance(node, ast.Call) or not of:
        return ""
    if called(node) in ROOTS or (called(node) == "pow" and len(of) == 2):
        return shown(given_to(node, plus(of[0], 1e-12)))
    if called(node) not in ("norm", "vector_norm"):
        return ""
    more = {k.arg: k.value for k in node.keywords}
    power = of[1] if len(of) > 1 else more.get("p", more.get("ord"))
    if power is not None and ast.unparse(power) not in ("2", "2.0"):
        return ""
    kept = [k for k in node.keywords if k.arg in ("dim", "keepdim", "axis")]
    squares = ast.Call(ast.Attribute(of[0], "square", ast.Load()), [], [])
    total = ast.Call(ast.Attribute(squares, "sum", ast.Load()), of[2:], kept)
    return shown(ast.Call(ast.Attribute(plus(total, 1e-12), "sqrt", ast.Load()), [], []))


def divided(code: str, counts: bool = False) -> str:
    """Return a division whose divisor stays away from 0: by a small number, or of counts by at least 1.

    >>> divided("(v - lo) / (hi - lo)"), divided("hits / n", counts=True)
    ('(v - lo) / (hi - lo + 1e-8)', 'hits / n.clamp(min=1)')
    """
    node = parsed(code)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div | ast.FloorDiv):
        return ""
    one = ast.keyword("min", ast.Constant(1))
    right = ast.Call(ast.Attribute(node.right, "clamp", ast.Load()), [], [one]) if counts else plus(node.right, 1e-8)
    return shown(ast.BinOp(node.left, node.op, right))


def inside(code: str, low: str, high: str) -> str:
    """Return a function of what stays within two ends.

    >>> inside("torch.acos(c.clamp(-1, 1))", "-1 + 1e-6", "1 - 1e-6")
    'torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6))'
    """
    node = parsed(code)
    of = operands(node)[:1] if isinstance(node, ast.Call) else []
    if not isinstance(node, ast.Call) or not of:
        return ""
    arg = of[0]
    if isinstance(arg, ast.Call) and called(arg) in ("clamp", "clip") and (inner := operands(arg)):
        arg = inner[0]
    ends = [ast.parse(end, mode="eval").body for end in (low, high) if end]
    return shown(given_to(node, ast.Call(ast.Attribute(arg, "clamp", ast.Load()), ends, [])))


def logarithm(trace: Trace, row: Row) -> str:
    """Return the remedy for a logarithm of 0, by what its argument is computed of; "" where the code says nothing."""
    code = code_of(trace, row)
    node = parsed(code)
    of = operands(node)[:1] if isinstance(node, ast.Call) else []
    source, turned = _behind(row)
    if source is not None and source.op in ("sum", "mean") and _of_products(source):
        return (
            "Stay with logarithms: the sum of products is torch.logsumexp of the sums of their logarithms, "
            f"torch.logsumexp(log_weight + log_prob, dim) in place of `{code}`."
        )
    if source is not None and source.op == "sigmoid":
        logits = _operand(trace, source)
        return (
            f"Take the logarithm of the sigmoid in one: F.logsigmoid({logits}) for log(p) and F.logsigmoid(-{logits}) "
            "for log(1 - p), or give the logits to F.binary_cross_entropy_with_logits."
        )
    if source is not None and source.op == "softmax" and not turned:
        made = parsed(code_of(trace, source))
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and called(made) == "softmax":
            whole = ast.Call(ast.Attribute(made.func.value, "log_softmax", ast.Load()), made.args, made.keywords)
            new, picks = _picked(of[0], whole) if of else (whole, 0)
            if picks == _picks(row) and (text := shown(new)):
                return f"Take the logarithm of the softmax in one: {text} in place of `{code}`."
        same = ", of which the same is picked as here," if _picks(row) else ""
        return f"Take the logarithm of the softmax in one: F.log_softmax of the logits{same} in place of `{code}`."
    if source is not None and source.op == "softmax":
        logits = _operand(trace, source)
        return (
            "Compute log(1 - p) by logits: torch.logsumexp of all others less torch.logsumexp of all, or keep p below "
            f"1: p.clamp(max=1 - 1e-6), of {logits}."
        )
    if source is not None and turned and (text := _unscaled(trace, row, source)):
        return text
    if not isinstance(node, ast.Call) or not of:
        return ""
    least = ast.keyword("min", ast.Constant(1e-8))
    arg = of[0]
    text = shown(given_to(node, ast.Call(ast.Attribute(arg, "clamp", ast.Load()), [], [least])))
    return f"Keep the argument above 0, {text}, or stay with logits: log_softmax, logsumexp." if text else ""


def _picked(node: ast.expr, new: ast.expr) -> tuple[ast.expr, int]:
    """Return what is picked of a value with another one in its place, and by how many picks: ``new[i, j]`` of
    ``p[i, j] + 1e-8``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        return _picked(node.left, new)
    if isinstance(node, ast.Subscript):
        inner, picks = _picked(node.value, new)
        return ast.Subscript(inner, node.slice, ast.Load()), picks + 1
    if isinstance(node, ast.Call) and called(node) in PASSING and operands(node):
        inner, picks = _picked(operands(node)[0], new)
        return given_to(node, inner), picks + 1
    return new, 0


def _picks(row: Row) -> int:
    """Return how many views and picks stand between an op and the values that it reads."""
    picks, ref = 0, row.refs[0] if row.refs else None
    while isinstance(ref, Row) and ref.refs and (ref.view or ref.op in PASSING or ref.op == "add"):
        picks, ref = picks + (ref.op != "add"), ref.refs[0]
    return picks


def _unscaled(trace: Trace, row: Row, square: Row) -> str:
    """The remedy for ``log(1 - (tanh(x) * scale) ** 2)``, the logarithm of a tanh's slope; "" of anything else."""
    scaled = square.refs[0] if square.op in ("pow", "square", "mul") and square.refs else None
    if not isinstance(scaled, Row) or scaled.op != "mul" or len(set(square.refs)) != 1:
        return ""
    tanh = next((ref for ref in scaled.refs if isinstance(ref, Row) and ref.op == "tanh"), None)
    if tanh is None:
        return ""
    why = f"1 - tanh(x) ** 2 is the slope of the tanh alone, before `{code_of(trace, scaled)}` scales it"
    of, made, whole = parsed(code_of(trace, square)), parsed(code_of(trace, tanh)), parsed(code_of(trace, row))
    base = operands(of)[0] if isinstance(of, ast.Call) and operands(of) else getattr(of, "left", None)
    new = ""
    one_function = bool(tanh.chain and row.chain) and tanh.chain[0][0] is row.chain[0][0]
    if base is not None and made is not None and whole is not None and one_function:
        new = shown(_Replaced(ast.unparse(base), made).visit(whole))
    if not new:
        return f"Take the square of the tanh itself: {why}."
    return f"Take the square of the tanh itself, {new}: {why}."


class _Replaced(ast.NodeTransformer):
    """Another expression in place of a variable."""

    def __init__(self, old: str, new: ast.expr) -> None:
        self.old, self.new = old, new

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.unparse(node) == self.old:
            return self.new
        return super().generic_visit(node)


def variance(code: str) -> bool:
    """Return whether a root is taken of the mean of squares less the square of the mean, which is 0 or above but for
    what rounding loses.

    >>> variance("torch.sqrt(self.squares - self.mean ** 2)"), variance("torch.sqrt(r ** 2 - x ** 2)")
    (True, False)
    >>> variance("(x.pow(2).mean(0) - x.mean(0).pow(2)).sqrt()"), variance("(1 - mean ** 2) ** 0.5")
    (True, False)
    """
    node = parsed(code)
    of = operands(node)[:1] if isinstance(node, ast.Call) else [node.left] if isinstance(node, ast.BinOp) else []
    inner = of[0] if of else None
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub) or isinstance(inner.left, ast.Constant):
        return False
    right = inner.right
    if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Pow):
        base: ast.expr | None = right.left
    elif isinstance(right, ast.Call) and called(right) in ("pow", "square"):
        base = operands(right)[0] if operands(right) else None
    else:
        twice = isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult)
        base = right.left if twice and ast.unparse(right.left) == ast.unparse(right.right) else None  # type: ignore[attr-defined]
    return base is not None and MEAN.search(ast.unparse(base)) is not None


def _behind(row: Row) -> tuple[Row | None, bool]:
    """The op whose values an op reads, looked at through views and picks, and whether 1 less they are read."""
    turned, ref = False, row.refs[0] if row.refs else None
    while isinstance(ref, Row) and ref.refs:
        if ref.view or ref.op in PASSING:
            ref = ref.refs[0]
        elif ref.op in ("sub", "rsub", "add") and len(ref.refs) == 1:
            turned, ref = turned or ref.op != "add", ref.refs[0]
        else:
            return ref, turned
    return None, turned


def _of_products(row: Row) -> bool:
    """Whether a sum is one of products or powers in which exponentials or products of many factors stand."""
    stack, seen = list(row.refs), 0
    while stack and seen < 24:
        ref = stack.pop()
        seen += 1
        if isinstance(ref, Row):
            if ref.op in ("exp", "prod", "cumprod"):
                return True
            if ref.view or ref.op in ("mul", "div", *PASSING):
                stack += ref.refs
    return False


def _operand(trace: Trace, row: Row) -> str:
    """What an op was given, as its code names it, or "logits"."""
    node = parsed(code_of(trace, row))
    of = operands(node)[:1] if isinstance(node, ast.Call) else []
    text = shown(of[0]) if of and isinstance(of[0], ast.Name | ast.Attribute | ast.Subscript) else ""
    return text if text and called(node or ast.Pass()) in ("sigmoid", "softmax") else "logits"


def exponential(trace: Trace, row: Row, readers: dict[Ref, list[Row]]) -> str:
    """Return the remedy for an exponential that overflows, by what is computed of it; "" where nothing is known.

    ``log(1 + exp(x))`` is softplus, ``log(exp(x).sum(1))`` logsumexp, ``exp(x) / exp(x).sum(1)`` softmax,
    ``1 / (1 + exp(-x))`` sigmoid.
    """
    node = parsed(code_of(trace, row))
    of = operands(node)[:1] if isinstance(node, ast.Call) else []
    if not of or called(node or ast.Pass()) != "exp":
        return ""
    x = shown(of[0])
    minus = isinstance(of[0], ast.UnaryOp) and isinstance(of[0].op, ast.USub)
    one, summed, at = False, False, row
    for _ in range(6):
        after = [r for r in readers.get(at, ()) if not r.cut and r.phase == "forward"]
        ops = {r.op for r in after}
        if ops & {"log1p"} or (one and ops & {"log"}):
            if summed:
                whole = f"torch.logsumexp(F.pad({x}, (1, 0)), dim=-1)"
                return f"{whole} in place of log(1 + exp(x).sum(-1)), in which the 1 is a 0 beside x."
            return f"F.softplus({x}) in place of log(1 + exp({x})), which overflows."
        if ops & {"log"} and summed:
            return f"Subtract the maximum first, as torch.logsumexp({x}, dim) does in place of log(exp(x).sum(dim))."
        if one and minus and ops & {"reciprocal", "div"} and not summed:
            inner = shown(of[0].operand)  # type: ignore[attr-defined]
            return f"torch.sigmoid({inner}) in place of 1 / (1 + exp(-x)), which overflows."
        if summed and "div" in ops and "div" in {r.op for r in readers.get(row, ())}:
            return f"Subtract the maximum first, as torch.softmax({x}, dim) does in place of exp(x) / exp(x).sum(dim)."
        if not after:
            return ""
        step = next((r for r in after if r.op in ("add", "sum") or r.view or r.op in PASSING), None)
        if step is None:
            return ""
        one |= step.op == "add" and len(step.refs) == 1
        summed |= step.op == "sum"
        at = step
    return ""
