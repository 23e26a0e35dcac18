"""`update()`: an optimizer's step declared once, as a scalar formula with several results.

    descent = update("descent", lambda p, g, *, lr, maximize: p - s.where(maximize, -lr, lr) * g)

The formula is traced like an elementwise op's. What depends on settings alone (``1 - beta1**step``) is split off and
computed once a step, in Python's double precision; the rest prints itself as the NumPy reference, as a C loop and as a
Triton kernel over all tensors of a group. On tensors the same formula is ordinary ops: the differentiable step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..declare.expr import Expr, Statement, lift, numpy_statements, python_operand, statements_of

table: dict[str, Update] = {}  # every declared update by name

# How settings are computed: on Python's numbers. A spelling that is missing here is a KeyError when it is declared.
_PYTHON = {"add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "neg": "(-{0})",
           "pow": "({0} ** {1})", "sqrt": "math.sqrt({0})", "maximum": "max({0}, {1})", "minimum": "min({0}, {1})",
           "where": "({1} if {0} else {2})"}  # fmt: skip


class Variant(NamedTuple):
    """One form of an update: which arrays it takes, and what is computed once and for every element."""

    name: str  # "adam_step_amsgrad": what kernels are called by
    arrays: tuple[str, ...]  # p, g and the state
    written: tuple[str, ...]  # the arrays that the results go to, in order
    settings: tuple[str, ...]  # what `scalars` takes
    params: tuple[str, ...]  # the numbers that the elements' statements use
    statements: tuple[Statement, ...]
    results: tuple[Any, ...]  # one a written array: a name or a number
    scalars: Callable[..., tuple[float, ...]]  # settings -> params
    digest: str  # tells one text from another


class Update:
    """A declared update; `variant` gives one of its forms."""

    def __init__(self, name: str, function: Callable[..., Any], variants: Sequence[str]) -> None:
        if name in table:
            raise ValueError(f"an update named {name!r} is declared already; choose another name")
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.name, self.function = name, function
        self.arrays, self.keywords = names[: code.co_argcount], names[code.co_argcount :]
        self.optional = {
            n: i for i, n in enumerate(self.arrays) if i >= code.co_argcount - len(function.__defaults__ or ())
        }
        self.declared = tuple(tuple(v.split()) for v in variants)
        flags = {f for v in self.declared for f in v}
        self.settings = tuple(n for n in self.keywords if n not in flags)
        self.flags = tuple(n for n in self.keywords if n in flags)
        table[name] = self

    def __repr__(self) -> str:
        return f"<update {self.name}({', '.join(self.arrays)}; {', '.join(self.keywords)})>"

    @cached_property
    def variants(self) -> dict[frozenset[str], Variant]:
        """The forms that are declared, by what is on: flags, and arrays that may be absent."""
        return {frozenset(on): self._trace(on) for on in self.declared}

    def __call__(self, *tensors: Any, **settings: Any) -> tuple[Any, ...]:
        """Return the formula on tensors (None for an absent one): new values of p and of the state."""
        found = self.function(*tensors, **settings)
        return found if isinstance(found, tuple) else (found,)

    def _trace(self, on: tuple[str, ...]) -> Variant:
        name = "_".join([self.name, *on])
        arrays = tuple(n for n in self.arrays if n not in self.optional or n in on)
        leaves: dict[str, Any] = {n: Expr("input", value=(n, "number")) if n in arrays else None for n in self.arrays}
        leaves |= {n: Expr("param", value=n) for n in self.settings} | {n: n in on for n in self.flags}
        operands = [leaves.pop(n) for n in self.arrays]
        roots = [lift(r) for r in self(*operands, **leaves)]
        written = tuple(n for n in arrays if n != "g")
        if len(roots) != len(written):
            raise ValueError(f"the update {name} gives {len(roots)} results for the arrays {', '.join(written)}")
        statements, results = statements_of(roots)
        once: set[Any] = set(self.settings)
        for st in statements:
            if all(o in once if isinstance(o, str) else True for o in st.operands):
                once.add(st.target)
        each = tuple(st for st in statements if st.target not in once)
        params: list[str] = []
        for o in [o for st in each for o in st.operands] + list(results):
            if isinstance(o, str) and o in once and o not in params:
                params.append(o)
        before = tuple(st for st in statements if st.target in once)
        import hashlib  # 8 ms, and only kernels ask

        said = repr((arrays, written, params, before, each, results))
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        return Variant(name, arrays, written, self.settings, tuple(params), each, results,
                       _compiled(self.settings, before, params), digest)  # fmt: skip


def _compiled(settings: Sequence[str], statements: Sequence[Statement], params: Sequence[str]) -> Any:
    lines = [f"def scalars({', '.join(settings)}):"]
    for st in statements:
        text = _PYTHON[st.op].format(*(python_operand(o, "math.") for o in st.operands))
        lines.append(f"    {st.target} = {text}")
    lines.append(f"    return ({''.join(f'float({p}), ' for p in params)})")
    namespace: dict[str, Any] = {"math": math}
    exec("\n".join(lines), namespace)
    return namespace["scalars"]


def numpy_source(v: Variant) -> str:
    """Python source of ``def step(xp, *arrays, *params)`` for any array library `xp`; gives the written arrays' values.

    >>> from core.optim.updates import sgd
    >>> print(numpy_source(sgd.variants[frozenset()]))
    def step(xp, p, g, t0, weight_decay, lr):
        t1 = (t0 * g)
        t2 = (weight_decay * p)
        t3 = (t1 + t2)
        t4 = (lr * t3)
        t5 = (p - t4)
        return (t5, )
    """
    lines = [f"def step({', '.join(['xp', *v.arrays, *v.params])}):"]
    lines += ["    " + line for line in numpy_statements(v.statements)]
    return "\n".join([*lines, f"    return ({''.join(python_operand(r, 'xp.') + ', ' for r in v.results)})"])


def update(name: str, function: Callable[..., Any], variants: Sequence[str] = ("",)) -> Update:
    """Declare an update.

    function : a function of scalars: p the parameter, g its gradient, then the state; keywords are the settings. It
        gives the new p and the new state in that order. A state with the default None may be absent.
    variants : the forms there are: each names the states that are there of those which may be absent, and the flags
        that are true. A flag is a setting known when the formula is traced, for `if`; all others are numbers.
    """
    return Update(name, function, variants)
