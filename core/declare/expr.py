"""A scalar expression, traced once from a lambda; it prints itself as NumPy, C and Triton.

`s.tanh(x) * 2` on an `Expr` records the expression; on a `Tensor` it calls the ops. One text is therefore both the
kernel (forward, or a gradient fused into one pass) and, where gradients of gradients are wanted, ordinary ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# name -> (arity, NumPy, C); {0} {1} {2} are the operands, F the C suffix (_f32 or _f64).
# C spellings that are not operators are functions of core/native/kernels/simd_math.h.
PRIMITIVES: dict[str, tuple[int, str, str]] = {
    "add": (2, "({0} + {1})", "({0} + {1})"),
    "sub": (2, "({0} - {1})", "({0} - {1})"),
    "mul": (2, "({0} * {1})", "({0} * {1})"),
    "div": (2, "xp.true_divide({0}, {1})", "({0} / {1})"),
    "neg": (1, "(-{0})", "(-{0})"),
    "where": (3, "xp.where({0}, {1}, {2})", "({0} ? {1} : {2})"),
    "rsqrt": (1, "(1 / xp.sqrt({0}))", "sm_rsqrt{F}({0})"),
    "round": (1, "xp.rint({0})", "sm_round{F}({0})"),
    "sigmoid": (1, "xp.exp(-xp.logaddexp(0, -{0}))", "sm_sigmoid{F}({0})"),
    "erf": (1, "special.erf({0})", "sm_erf{F}({0})"),
    "erfc": (1, "special.erfc({0})", "sm_erfc{F}({0})"),
    "pow": (2, "xp.power({0}, {1})", "sm_pow{F}({0}, {1})"),
    "atan2": (2, "xp.arctan2({0}, {1})", "sm_atan2{F}({0}, {1})"),
}
PRIMITIVES |= {n: (2, f"xp.{np}({{0}}, {{1}})", f"({{0}} {c} {{1}})") for n, np, c in [
    ("eq", "equal", "=="), ("ne", "not_equal", "!="), ("lt", "less", "<"), ("le", "less_equal", "<="),
    ("gt", "greater", ">"), ("ge", "greater_equal", ">="),
    ("and", "logical_and", "&&"), ("or", "logical_or", "||"), ("xor", "logical_xor", "!="),
]}  # fmt: skip
# those that NumPy calls by the same name
_UNARY = """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc sign isnan isinf
isfinite abs"""
_BINARY = "fmod remainder floor_divide maximum minimum hypot copysign"
PRIMITIVES["not"] = (1, "xp.logical_not({0})", "(!{0})")
PRIMITIVES |= {
    n: (1, f"xp.{np}({{0}})", f"sm_{n}{{F}}({{0}})")
    for n, np in [(n, n) for n in _UNARY.split()]
    + [("a" + n, "arc" + n) for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")]
}  # fmt: skip
PRIMITIVES |= {n: (2, f"xp.{n}({{0}}, {{1}})", f"sm_{n}{{F}}({{0}}, {{1}})") for n in _BINARY.split()}
# what `contracted` puts in place of several
_C_ALONE = {name: f"sm_{name}{{F}}({{0}})" for name in ("twice_ndtr", "gelu_slope", "exp_falling")}
BOOLEAN = {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "isnan", "isinf", "isfinite"}


class Expr:
    """A node of a scalar expression: a primitive and its operands, or a leaf (`input`, `param` or `const`)."""

    __slots__ = ("args", "is_bool", "op", "size", "value")

    def __init__(self, op: str, args: tuple[Expr, ...] = (), value: Any = None) -> None:
        self.op, self.args, self.value = op, args, value
        self.size: int = 1 + sum(a.size for a in args)  # of the formula, which writes what is shared every time
        if op == "where":
            self.is_bool: bool = args[1].is_bool and args[2].is_bool
        else:
            self.is_bool = op in BOOLEAN or (op == "input" and value[1] == "bool")

    def __bool__(self) -> bool:
        raise TypeError("an elementwise expression has no truth value: write where(condition, a, b) instead of `if`")

    def __repr__(self) -> str:
        """Return the formula, as a person would write it."""
        return formula(self)

    def __hash__(self) -> int:
        return id(self)


def lift(x: Any) -> Expr:
    """Return an `Expr` as it is; a Python number as a constant."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, bool | int):
        return Expr("const", value=x)
    if isinstance(x, float):
        return Expr("const", value=float(x))  # a NumPy float is one too, and prints otherwise
    raise TypeError(f"an elementwise expression takes numbers and expressions, not {type(x).__name__}")


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
          "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^"}  # fmt: skip


def formula(e: Expr) -> str:
    """Write `e` as mathematics in one line: ``where(x > 0, x, 0)``; what is too long to read as ``…``."""
    if e.size > 1000:
        return "…"
    if e.op in ("input", "param"):
        return e.value[0] if e.op == "input" else e.value
    if e.op == "const":
        return f"{e.value:g}" if isinstance(e.value, float) else str(e.value)
    parts = [f"({formula(a)})" if a.op in _INFIX and e.op in _INFIX else formula(a) for a in e.args]
    if e.op in _INFIX:
        return f"{parts[0]} {_INFIX[e.op]} {parts[1]}"
    if e.op == "neg":
        return f"-({parts[0]})" if e.args[0].op in _INFIX else f"-{parts[0]}"
    return f"{e.op}({', '.join(parts)})"


def _bind_operators() -> None:
    def binary(op: str, swap: bool) -> Callable[[Any, Any], Any]:
        def method(self: Expr, other: Any) -> Any:
            if not isinstance(other, Expr | bool | int | float):
                return NotImplemented
            a, b = (lift(other), self) if swap else (self, lift(other))
            return Expr(op, (a, b))

        return method

    for dunder, op in [("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow"),
                       ("floordiv", "floor_divide"), ("mod", "remainder"),
                       ("and", "and"), ("or", "or"), ("xor", "xor")]:  # fmt: skip
        setattr(Expr, f"__{dunder}__", binary(op, False))
        setattr(Expr, f"__r{dunder}__", binary(op, True))
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Expr, f"__{op}__", binary(op, False))
    for dunder, op in [("neg", "neg"), ("abs", "abs"), ("invert", "not")]:
        setattr(Expr, f"__{dunder}__", lambda self, op=op: Expr(op, (self,)))


_bind_operators()


class _Scalar:
    """The functions of expressions, as attributes: `s.exp(x)`. On tensors they are the ops of the same name."""

    def __init__(self) -> None:
        self.op_named: Callable[[str], Callable[..., Any]] | None = None  # set by core.declare.op, which lies above

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in PRIMITIVES:
            raise AttributeError(f"no scalar primitive named {name!r}; the primitives are {', '.join(PRIMITIVES)}")
        arity = PRIMITIVES[name][0]

        def function(*args: Any) -> Any:
            if len(args) != arity:
                raise TypeError(f"{name} takes {arity} operands, got {len(args)}")
            if any(isinstance(a, Expr) for a in args):
                return Expr(name, tuple(lift(a) for a in args))
            if name == "where" and isinstance(args[0], bool):  # a condition on a parameter, which is a number here
                return args[1] if args[0] else args[2]
            assert self.op_named is not None
            return self.op_named(name)(*args)

        function.__name__ = name
        setattr(self, name, function)
        return function


s = _Scalar()


class Statement(NamedTuple):
    """`target = op(*operands)`; an operand is the name of an input, a parameter or a target, or a number."""

    target: str
    op: str
    operands: tuple[Any, ...]
    is_bool: bool


class Program(NamedTuple):
    """A traced expression in single-assignment form."""

    name: str
    inputs: tuple[str, ...]
    kinds: tuple[str, ...]  # "number" or "bool", one an input
    params: tuple[str, ...]
    statements: tuple[Statement, ...]
    result: Any
    is_bool: bool
    text: str  # the formula

    @property
    def digest(self) -> str:
        """Tells one text from another: whether a kernel printed earlier still says the same."""
        import hashlib  # 8 ms, and only kernels ask

        return hashlib.sha256(repr(self[1:-1]).encode()).hexdigest()[:16]


def trace(name: str, function: Callable[..., Any], inputs: Sequence[str], params: Sequence[str] = (),
          bools: Sequence[str] = ()) -> Program:  # fmt: skip
    """Run `function` once on symbols and keep what it did.

    `inputs`, `params` and `bools` name the function's arguments in its own order; `bools` are the inputs that hold
    conditions. Equal subexpressions become one statement.

    >>> p = trace("square_plus", lambda x, c: x * x + c, ["x"], ["c"])
    >>> p.text, [st.op for st in p.statements]
    ('(x * x) + c', ['mul', 'add'])
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    leaves = {n: Expr("param", value=n) if n in params else Expr("input", value=(n, "bool" if n in bools else "number"))
              for n in names}  # fmt: skip
    root = lift(function(*(leaves[n] for n in names)))
    statements, (result,) = statements_of([root])
    kinds = tuple("bool" if n in bools else "number" for n in inputs)
    return Program(name, tuple(inputs), kinds, tuple(params), statements, result, root.is_bool, formula(root))


def divisors(p: Program) -> tuple[int, ...]:
    """Return the places of the inputs that others are divided by in whole numbers: of integers they may hold no zero.

    >>> divisors(trace("mod", lambda a, b: a % b, ["a", "b"]))
    (1,)
    """
    by = [st.operands[1] for st in p.statements if st.op in ("floor_divide", "remainder", "fmod")]
    return tuple(k for k, n in enumerate(p.inputs) if n in by)


class Joint(NamedTuple):
    """Several expressions of the same inputs in single-assignment form: what they share is computed once."""

    name: str
    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    params: tuple[str, ...]
    statements: tuple[Statement, ...]
    results: tuple[Any, ...]


def trace_joint(name: str, functions: Sequence[Callable[..., Any]], params: Sequence[str] = (),
                bools: Sequence[str] = ()) -> Joint:  # fmt: skip
    """Run each function once on symbols; arguments of one name are one input.

    >>> p = trace_joint("mul_backward", [lambda g, b: g * b, lambda g, a: g * a])
    >>> p.inputs, p.results
    (('g', 'b', 'a'), ('t0', 't1'))
    """
    signatures = [f.__code__.co_varnames[: f.__code__.co_argcount] for f in functions]
    every = dict.fromkeys(n for names in signatures for n in names)
    inputs = tuple(n for n in every if n not in params)
    kinds = tuple("bool" if n in bools else "number" for n in inputs)
    leaves = {n: Expr("input", value=(n, k)) for n, k in zip(inputs, kinds, strict=True)}
    leaves |= {n: Expr("param", value=n) for n in every if n in params}
    roots = [lift(f(*(leaves[n] for n in names))) for f, names in zip(functions, signatures, strict=True)]
    statements, results = statements_of(roots)
    return Joint(name, inputs, kinds, tuple(n for n in every if n in params), statements, results)


def statements_of(roots: Sequence[Expr]) -> tuple[tuple[Statement, ...], tuple[Any, ...]]:
    """Expressions in single-assignment form: the statements, and the operand that stands for each root."""
    statements: list[Statement] = []
    seen: dict[Any, str] = {}
    done: dict[int, Any] = {}
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if id(e) in done:
            stack.pop()
        elif e.op in ("input", "param", "const"):
            done[id(e)] = e.value[0] if e.op == "input" else e.value
        elif missing := [a for a in e.args if id(a) not in done]:
            stack.extend(reversed(missing))
        else:
            operands = tuple(done[id(a)] for a in e.args)
            key = (e.op, tuple((type(o), repr(o)) for o in operands))  # as text: 0.0 and -0.0 are equal, and differ
            if key not in seen:
                seen[key] = f"t{len(statements)}"
                statements.append(Statement(seen[key], e.op, operands, e.is_bool))
            done[id(e)] = seen[key]
    return tuple(statements), tuple(done[id(e)] for e in roots)


def numpy_source(p: Program) -> str:
    """Python source of `def name(xp, special, *inputs, *params)` for any array library `xp`.

    >>> print(numpy_source(trace("relu", lambda x: s.maximum(x, 0), ["x"])))
    def relu(xp, special, x):
        t0 = xp.maximum(x, 0)
        return t0
    """
    lines = [f"def {p.name}({', '.join(['xp', 'special', *p.inputs, *p.params])}):"]
    lines += ["    " + line for line in numpy_statements(p.statements)]
    return "\n".join([*lines, f"    return {python_operand(p.result, 'xp.')}"])


def numpy_statements(statements: Sequence[Statement]) -> list[str]:
    """Python assignments for any array library `xp`."""
    return [f"{st.target} = {PRIMITIVES[st.op][1].format(*(python_operand(o, 'xp.') for o in st.operands))}"
            for st in statements]  # fmt: skip


def c_lines(p: Program, suffix: str) -> tuple[list[str], str]:
    """C statements and the result's expression; `suffix` is ``f32`` or ``f64``. Inputs and parameters keep their names.

    >>> c_lines(trace("relu", lambda x: s.maximum(x, 0), ["x"]), "f32")
    (['const float t0 = sm_maximum_f32(x, 0.0f);'], 't0')
    """
    return c_statements(contracted(p.statements, p.result, suffix), suffix), c_operand(p.result, suffix)


def contracted(statements: Sequence[Statement], result: Any, suffix: str) -> list[Statement]:
    """Return what float32 has in one function for several: `1 + erf(x / sqrt(2))`, GELU's slope, `exp` of what is <= 0.

    The first two are faster and keep the digits that sums cancel; the last has no large result to look out for.

    >>> p = trace("phi", lambda x: 1.0 + s.erf(x * (1 / math.sqrt(2))), ["x"])
    >>> c_lines(p, "f32")
    (['const float t2 = sm_twice_ndtr_f32(x);'], 't2')
    """
    if suffix != "f32":
        return list(statements)
    made = {st.target: st for st in statements}
    found = []
    for st in statements:
        inner = made.get(st.operands[1]) if st.op == "add" and st.operands[0] == 1.0 else None
        scaled = made.get(inner.operands[0]) if inner is not None and inner.op == "erf" else None
        if scaled is not None and scaled.op == "mul" and scaled.operands[1] == 1 / math.sqrt(2):
            st = Statement(st.target, "twice_ndtr", (scaled.operands[0],), False)
        elif st.op == "exp" and _is_minus_square(st.operands[0], made):
            st = Statement(st.target, "exp_falling", st.operands, False)
        elif st.op == "add" and (x := _gelu_slope_of(st, made)):
            st = Statement(st.target, "gelu_slope", (x,), False)
        found.append(st)
    kept: list[Statement] = []
    used = {result}
    for st in reversed(found):  # what only they needed goes
        if st.target in used:
            kept.append(st)
            used.update(st.operands)
    return kept[::-1]


def _is_minus_square(o: Any, made: dict[str, Statement]) -> bool:
    """Return whether `o` is a negative number times (y * y)."""
    product = made.get(o)
    if product is None or product.op != "mul" or not isinstance(product.operands[0], float) or product.operands[0] > 0:
        return False
    square = made.get(product.operands[1])
    return square is not None and square.op == "mul" and square.operands[0] == square.operands[1]


def _gelu_slope_of(st: Statement, made: dict[str, Statement]) -> Any:
    """Return the x of `0.5 * (1 + erf(x / sqrt(2))) + x * (exp(-0.5 * (x * x)) / sqrt(2 pi))`, else None."""

    def factor(o: Any, constant: float, op: str) -> Any:
        product = made.get(o)
        if product is None or product.op != "mul" or product.operands[0] != constant:
            return None
        inner = made.get(product.operands[1])
        return inner.operands if inner is not None and inner.op == op else None

    density = made.get(st.operands[1])
    sum_ = factor(st.operands[0], 0.5, "add")
    if sum_ is None or sum_[0] != 1.0 or density is None or density.op != "mul":
        return None
    x, inner = density.operands
    power = factor(inner, 1 / math.sqrt(2 * math.pi), "exp")
    erf = made.get(sum_[1])
    square = factor(power[0], -0.5, "mul") if power else None
    scaled = made.get(erf.operands[0]) if erf is not None and erf.op == "erf" else None
    same = scaled is not None and scaled.op == "mul" and scaled.operands == (x, 1 / math.sqrt(2))
    return x if same and square == (x, x) else None


def c_statements(statements: Sequence[Statement], suffix: str) -> list[str]:
    """C declarations of constants."""
    real = "float" if suffix == "f32" else "double"
    lines = []
    for st in statements:
        operands = [c_operand(o, suffix) for o in st.operands]
        kind = "int" if st.is_bool else real
        text = (_C_ALONE.get(st.op) or PRIMITIVES[st.op][2]).format(*operands, F="_" + suffix)
        lines.append(f"const {kind} {st.target} = {text};")
    return lines


def triton_lines(p: Program, spelling: dict[str, str]) -> tuple[list[str], str]:
    """Triton statements and the result's expression; `spelling` maps each primitive to its Triton text."""
    return triton_statements(p.statements, spelling), python_operand(p.result, "")


def triton_statements(statements: Sequence[Statement], spelling: dict[str, str]) -> list[str]:
    """Triton assignments, spelt by `spelling`."""
    return [f"{st.target} = {spelling[st.op].format(*(python_operand(o, '') for o in st.operands))}"
            for st in statements]  # fmt: skip


def python_operand(o: Any, prefix: str) -> str:
    """Return a name or a number in Python; `prefix` is the module that has nan and inf."""
    if isinstance(o, str):
        return o
    if isinstance(o, float) and not math.isfinite(o):
        name = "nan" if math.isnan(o) else "inf"
        sign = "-" if o < 0 else ""
        return f"({sign}{prefix}{name})" if prefix else f'float("{sign}{name}")'
    return f"({o!r})" if not isinstance(o, bool) and math.copysign(1.0, o) < 0 else repr(o)


def c_operand(o: Any, suffix: str) -> str:
    """Return a name or a number in C."""
    if isinstance(o, str):
        return o
    f = "f" if suffix == "f32" else ""
    o = float(o)
    if math.isnan(o):
        return "NAN"
    if math.isinf(o):
        return "INFINITY" if o > 0 else "(-INFINITY)"
    return f"{o!r}{f}" if math.copysign(1.0, o) > 0 else f"({o!r}{f})"
