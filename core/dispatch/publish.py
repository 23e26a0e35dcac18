"""Public names: which functions `core` and `core.nn.functional` show, and which are methods of Tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import native
from ..declare import op as declarations
from ..declare.expr import Expr, formula, lift
from ..declare.op import Elementwise
from ..declare.signature import Fast, register
from ..tensors.tensor import Tensor
from .autocast import behind, public_function
from .inplace import in_place

namespaces: dict[str, dict[str, Callable[..., Any]]] = {"": {}, "nn.functional": {}}


def bind(function: Callable[..., Any], name: str, aliases: Sequence[str] = (), *, method: bool = True,
         namespace: str | None = "", inplace: bool = False, python: bool = False, fast: Sequence[Fast] = (),
         state: str = "plain", home: str = "") -> Callable[..., Any]:  # fmt: skip
    """Make a function public: in `namespace` (None: nowhere), as a Tensor method, with its in-place form `name_`.

    `fast`, `state` and `home` tell of the plain calls that C takes (core.declare.signature), and `python` that the
    function of PyTorch is written in Python.

    What is public of it comes back: the function, or what casts for it under autocast.
    """
    entry = register(function, name, aliases, method=method, namespace=namespace, inplace=inplace, python=python,
                     fast=fast, state=state, home=home)  # fmt: skip
    known = public_function(function, name, entry.key if fast else None)
    declarations.functions[name] = known
    for n in (name, *aliases):
        if namespace is not None:
            namespaces[namespace][n] = known
        if method:
            setattr(Tensor, n, known)
        if inplace:
            setattr(Tensor, n + "_", in_place(n, function, known))
    return known


def offer(function: Callable[..., Any], *, method: bool = False, namespace: str | None = "", fast: Sequence[Fast] = (),
          state: str = "plain", home: str = "") -> Callable[..., Any]:  # fmt: skip
    """Return what is public of a function that is shown where it was written: behind its fast path in C. The rest is
    as for `bind`; autocast does not know it."""
    entry = register(function, function.__name__, method=method, namespace=namespace, fast=fast, state=state, home=home)
    return behind(function, entry.key)


def public(*aliases: str, method: bool = True, namespace: str | None = "", inplace: bool = False, python: bool = False,
           fast: Sequence[Fast] = (), state: str = "plain", home: str = "") -> Callable[..., Any]:  # fmt: skip
    """Decorator: make a written function public, as `bind` does."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return bind(function, function.__name__, aliases, method=method, namespace=namespace, inplace=inplace,
                    python=python, fast=fast, state=state, home=home)  # fmt: skip

    return decorate


def bind_operator(name: str, function: Callable[..., Any], swapped: Callable[..., Any] | None = None) -> None:
    """Make a function the operator `name` of tensors; `swapped`, of the right operand and the left one, serves where a
    tensor stands on the right alone and that is another function."""
    given = (function,) if swapped is None else (function, swapped)
    if native.module is not None and native.module.set_operator(name, *given):  # native/binding/calls/operators.c
        return
    setattr(Tensor, f"__{name}__", function)
    if name not in ("neg", "invert", "getitem", "eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__r{name}__", swapped or (lambda self, other: function(other, self)))


def bind_square(function: Any) -> None:
    """The elementwise op that `x ** 2` is."""
    if native.module is not None:
        native.module.set_operator(function.elementwise_call)


def elementwise_doc(op: Elementwise, example: tuple[str, str] | None, namespace: str) -> str:
    """Return the docstring of an elementwise op, written from its declaration."""
    args = [*op.inputs, *(f"{k}={v!r}" for k, v in op.params.items())]
    names = op.function.__code__.co_varnames[: op.function.__code__.co_argcount]
    text = formula(lift(op.function(*(Expr("param", value=n) for n in names))))
    out = {"same": "the inputs' promoted type", "float": "floating: integers become the default dtype",
           "bool": "bool", "number": "the promoted type, bools int64"}[op.out]  # fmt: skip
    lines = [
        op.doc or f"Elementwise {op.name}.",
        "",
        f"``{op.name}({', '.join(args)}) = {text}``",
        "",
        "*Shapes*: the inputs broadcast; the output has their common shape. " + f"*Dtype*: {out}. "
        "*Raises*: RuntimeError for shapes that do not broadcast or tensors on different devices.",
    ]
    if example is not None:
        prefix = "core." + (namespace + "." if namespace else "")
        lines += ["", "    >>> import core", f"    >>> {prefix}{op.name}({example[0]})", f"    {example[1]}"]
    return "\n".join(lines)
