"""Declaring an op: the op itself, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..declare.op import Elementwise, Operation
from . import connect  # noqa: F401 # the C paths are connected before the first op is declared
from .elementwise import public_elementwise
from .structured import callable_operation


def elementwise(name: str, function: Callable[..., Any], *, vjp: Any = None, params: dict[str, float] | None = None,
                bools: Sequence[str] = (), out: str = "same", domain: Any = (-3.0, 3.0), doc: str = "",
                public: bool = True, aliases: Sequence[str] = (), example: tuple[str, str] | None = None,
                namespace: str = "", label: str = "", tensors: Sequence[str] = (),
                piecewise: bool = False) -> Callable[..., Any]:  # fmt: skip
    """Declare an elementwise op; its public function comes back.

    function : a lambda over scalars, traced once; arguments named in `params` are numbers with those defaults.
    vjp : one function an input (a tuple where there are several; None for an input without gradient).
    bools : the inputs that are conditions.
    out : "same" (the promoted type), "number" (as same, but bools become int64), "float" (integers become floating) or
        "bool".
    domain : where tests sample the inputs, one (low, high) or one an input.
    label : the public function's name, where several ops stand behind one: "pow" of pow_scalar.
    tensors : the public names of the first inputs that may not be numbers.
    piecewise : whether it is linear in pieces: the gradient's own gradient is then zeros.
    """
    op = Elementwise(name, function, vjp=vjp, params=dict(params or {}), bools=bools, out=out, domain=domain, doc=doc,
                     label=label, tensors=tensors)  # fmt: skip
    op.piecewise = piecewise
    return public_elementwise(op, public=public, aliases=aliases, example=example, namespace=namespace)


def operation(name: str, forward: Callable[..., Any], *, inputs: str = "x", params: dict[str, Any] | None = None,
              outputs: str = "y", returns: int = 1, shape: str = "", over: str = "", vjp: Any = None,
              view: bool = False, recorded: bool = False, samples: Any = None, doc: str = "",
              label: str = "", piecewise: bool = False, contiguous: bool = False) -> Callable[..., Any]:  # fmt: skip
    """Declare a structured op; a callable `op(*tensors, **params)` comes back, on which a public function is built.

    forward : ``forward(xp, *arrays, **params)``, the reference for any array library `xp`.
    inputs : names; ``?`` marks an optional one (None may be given), ``tensors*`` any number.
    outputs, returns : names of what forward gives; the first `returns` reach the caller, the rest are only saved.
    shape, over : a gufunc rule such as ``"(n)->(n)"`` and the parameter that says which axis n is.
    vjp : one function an input, or one for all that returns a tuple and may ask for `needs` (a bool an input).
    recorded : whether an op without a vjp has a place in the graph: asking for its gradient is an error, not silence.
    samples : a function of a NumPy generator that gives argument sets for the tests: ``[(arrays, params), ...]``.
    label : what people read instead of `name`: "to_copy" of cast, PyTorch's ToCopyBackward0.
    piecewise : whether it is linear in pieces: the gradient's own gradient is then zeros.
    contiguous : whether the results lie in row-major order however the inputs lie, as PyTorch's of the op do.
    """
    op = Operation(name, forward, inputs=inputs, params=dict(params or {}), outputs=outputs, returns=returns,
                   shape=shape, over=over, vjp=vjp, view=view, samples=samples, doc=doc, label=label,
                   contiguous=contiguous)  # fmt: skip
    op.recorded |= recorded
    op.piecewise = piecewise
    return callable_operation(op)
