"""Bits of integers, and their common divisors and multiples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..declare import op as declarations
from ..declare.kinds import Operand
from ..declare.signature import Fast, register
from ..dispatch.autocast import behind
from ..dispatch.declare import operation
from ..dispatch.operands import need_tensors
from ..dispatch.out import into
from ..dispatch.publish import bind, bind_operator
from ..tensors.tensor import Tensor, from_array
from .elementwise import logical_and, logical_not, logical_or, logical_xor


def _both(op: str, input: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of their promoted integer dtype."""
    first = input if isinstance(input, Tensor) else other
    if not isinstance(first, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    dimmed: list[dtypes.dtype] = []
    zero: list[dtypes.dtype] = []
    numbers: list[dtypes.dtype] = []
    for t in (input, other):
        if isinstance(t, Tensor):
            (dimmed if t.ndim else zero).append(t.dtype)
        else:
            numbers.append(dtypes.of_number(t))
    d = dtypes.result_type(dimmed, zero, numbers)
    if d.category > 1 or (d.category == 0 and op not in ("bitwise_and", "bitwise_or", "bitwise_xor")):
        raise NotImplementedError(text(f"\"{op}_cpu\" not implemented for '{d.scalar_type}'", op=op,
                                       came=f"a result type of {d}", needed="integers"))  # fmt: skip
    xp = backends.array_module(first.device.type)
    tensors = [t if isinstance(t, Tensor) else from_array(xp.asarray(t), first.device) for t in (input, other)]
    broadcast_shapes(*(t._a.shape for t in tensors), op=op)
    return tensors[0].to(d), tensors[1].to(d)


def _is_bool(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype is dtypes.bool_


def _shifted(name: str) -> Callable[..., Any]:
    def shift(xp: Any, a: Any, b: Any) -> Any:
        """Shifts by more bits than there are give 0 (or the sign), as PyTorch has it."""
        bits = 8 * a.dtype.itemsize
        inside = (b >= 0) & (b < bits)
        amount = xp.where(inside, b, 0)
        if name == "left_shift":
            return xp.where(inside, xp.left_shift(a, amount), xp.zeros_like(a))
        # the sign alone is left; of numbers without one nothing
        rest = xp.zeros_like(a) if a.dtype.kind == "u" else xp.right_shift(a, xp.asarray(bits - 1, a.dtype))
        return xp.where(inside, xp.right_shift(a, amount), rest)

    return shift


def _sample_integers(rng: Any) -> Any:
    return rng.integers(0, 9, (3, 4)), rng.integers(1, 5, (3, 4))


def _fast(name: str, first: str) -> list[Fast]:
    """Return the plain calls of a function of two operands: of bools, where these have an op, and of whole numbers."""
    bools = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}
    which = {"bitwise_and": "BITS_AND", "bitwise_or": "BITS_OR", "bitwise_xor": "BITS_XOR", "gcd": "DIVISOR"}.get(name)
    whole = Fast(body=f"numbers_combined({first}, other, {which})", types={first: "piece"}, raw=("other",),
                 check=(f"PyArray_TYPE({{{first}}}) == NPY_INT64",))  # fmt: skip
    if which is None or name not in bools:
        return [whole] if which else []
    return [Fast(elementwise=f"{bools[name]}({first}, other)", types={first: "bool", "other": "bool"}), whole]


def _declare(name: str, function: Callable[..., Any], doc: str, example: str, *aliases: str) -> Callable[..., Any]:
    op = operation(name, lambda xp, a, b: function(xp, a, b).astype(a.dtype), inputs="a b",
                   samples=lambda rng: [(_sample_integers(rng), {})])  # fmt: skip

    on_bools = {"bitwise_and": logical_and, "bitwise_or": logical_or, "bitwise_xor": logical_xor}.get(name)

    def public(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        if name in ("gcd", "lcm"):
            need_tensors(name, ("input", "other"), (input, other))
        if on_bools is not None and _is_bool(input) and _is_bool(other):
            return on_bools(input, other, out=out)  # type: ignore[no-any-return] # it has kernels of its own
        return into(out, op(*_both(name, input, other)), name)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = (
        f"{doc} Shapes broadcast, dtypes promote.\n\n    *Raises*: NotImplementedError for floating dtypes.\n\n"
        f"    >>> import core\n    >>> core.{name}(core.tensor([12, 5]), core.tensor([10, 3]))\n    {example}\n    "
    )
    return bind(public, name, aliases, inplace=True, fast=_fast(name, "input"), state="quiet", home="counting")


bitwise_and = _declare("bitwise_and", lambda xp, a, b: xp.bitwise_and(a, b), "The bits set in both.", "tensor([8, 1])")
bitwise_or = _declare("bitwise_or", lambda xp, a, b: xp.bitwise_or(a, b), "The bits set in either.", "tensor([14,  7])")
bitwise_xor = _declare("bitwise_xor", lambda xp, a, b: xp.bitwise_xor(a, b), "The bits set in one.", "tensor([6, 6])")
bitwise_left_shift = _declare("bitwise_left_shift", _shifted("left_shift"), "`input` times 2 to the power of `other`.",
                              "tensor([12288,    40])")  # fmt: skip
bitwise_right_shift = _declare("bitwise_right_shift", _shifted("right_shift"),
                               "`input` by 2 to the power of `other`, rounded down.", "tensor([0, 0])")  # fmt: skip
gcd = _declare("gcd", lambda xp, a, b: xp.gcd(a, b), "The greatest common divisor.", "tensor([2, 1])")
lcm = _declare("lcm", lambda xp, a, b: xp.lcm(a, b), "The least common multiple.", "tensor([60, 15])")
_not = operation("bitwise_not", lambda xp, x: xp.invert(x), samples=lambda rng: [((rng.integers(0, 9, (3, 4)),), {})])


def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Every bit the other way; of bools `logical_not`. *Raises*: NotImplementedError for floating dtypes.

    >>> import core
    >>> core.bitwise_not(core.tensor([0, 5]))
    tensor([-1, -6])
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"bitwise_not(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if input.dtype.category > 1:
        raise NotImplementedError(text(f"\"bitwise_not_cpu\" not implemented for '{input.dtype.scalar_type}'",
                                       op="bitwise_not", needed="integers or bools"))  # fmt: skip
    return into(out, logical_not(input) if input.dtype is dtypes.bool_ else _not(input), "bitwise_not")


bitwise_not.elementwise_call = logical_not.elementwise_call  # type: ignore[attr-defined] # it takes bools alone
bind(bitwise_not, "bitwise_not", inplace=True)


operators: dict[str, Callable[..., Any]] = {}


def _operators() -> None:
    def binary(f: Callable[..., Any], swap: bool) -> Any:
        def operator(self: Tensor, other: Operand) -> Any:
            if isinstance(other, Tensor | int | float | np.integer | np.bool_):
                return f(other, self) if swap else f(self, other)
            return NotImplemented

        operator.__name__ = f.__name__
        return operator

    for name, f in {"and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor, "lshift": bitwise_left_shift,
                    "rshift": bitwise_right_shift}.items():  # fmt: skip
        operator = binary(f, False)
        fast = _fast(f.__name__, "self")
        key = register(operator, f"operator_{name}", method=False, namespace=None, fast=fast, state="quiet",
                       home="counting").key if fast else None  # fmt: skip
        operators[name] = behind(operator, key)
        bind_operator(name, operators[name], binary(f, True))
        setattr(Tensor, f"__i{name}__", getattr(Tensor, f.__name__ + "_"))
    bind_operator("invert", declarations.functions["bitwise_not"])


_operators()
