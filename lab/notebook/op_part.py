"""A kernel of a cell with the header that says what its arrays are: the op itself, or its gradient."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from core.base.errors import text as told
from core.library import CustomOp

from .op_header import Header, Wrong


class Part:
    """What `%%ckernel` and `%%triton` make alike of a kernel. A subclass says how its text is called.

    said : the kernel and its parameters, for messages. there : the names of its parameters. numbers : those of them
    that are integers the header need not name, of which one may be the number of elements.
    """

    devices: tuple[str, ...] = ("cpu",)
    backend = ""

    def __init__(self, header: Header, said: str, there: Collection[str], numbers: Collection[str]) -> None:
        self.header, self.said = header, said
        if missing := [n for n in (*header.inputs, *header.outputs, *header.numbers) if n not in there]:
            raise Wrong(f"{said} has no parameter {', '.join(missing)}, which the header names: {header}")
        counts = [n for n in numbers if n not in {*header.letters, *header.numbers, "batch"}]
        whole = not header.rule
        if len(counts) > whole:
            wanted = f"{counts[-1]}=0.0 in it" if whole else f"{counts[0]} among its sizes, or {counts[0]}=0.0"
            raise Wrong(f"{said}: the header says nothing of {', '.join(counts)}; needed: {wanted}: {header}")
        self.count = counts[0] if counts else ""
        self.at_once = whole or "batch" in there

    @property
    def name(self) -> str:
        """What the card calls it."""
        return self.said.partition("(")[0]

    def call(self, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
        """Run the kernel on arrays and numbers by name."""
        raise NotImplementedError

    def declines(self, *arrays: Any, **params: Any) -> str | None:
        """Why it does not take these arrays, or None."""
        raise NotImplementedError

    def in_one_piece(self, array: Any) -> Any:
        """Return the array, or a copy, without gaps."""
        raise NotImplementedError

    def numbers_of(self, sizes: Sequence[int], params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers that a kernel may ask for; `sizes` as `CustomOp.register_out` gives them."""
        letters = dict(zip(self.header.letters, sizes[1:], strict=True))
        return {**params, **letters, self.count: sizes[0], "batch": sizes[0]}

    def fill(self, inputs: list[Any], outputs: list[Any], sizes: list[int], params: dict[str, Any]) -> None:
        """Run it on arrays; a kernel that knows nothing of stacked problems is called for each."""
        arrays = {n: self.in_one_piece(a) for n, a in zip(self.header.inputs, inputs, strict=True)}
        arrays |= zip(self.header.outputs, outputs, strict=True)
        numbers = self.numbers_of(sizes, params)
        if self.at_once:
            self.call(arrays, numbers)
            return
        flat = {n: a.reshape(sizes[0], a.size // max(sizes[0], 1)) for n, a in arrays.items()}
        for k in range(sizes[0]):
            self.call({n: a[k] for n, a in flat.items()}, numbers)

    def op(self, python: Callable[..., Any], vjp: Callable[..., Any] | None) -> CustomOp:
        """Return the op of this kernel; `python` is called where it declines."""
        header = self.header
        op = CustomOp(f"notebook::{header.name}", python, list(header.inputs), dict(header.numbers),
                      len(header.outputs), header.rule, vjp, None, header.signature)  # fmt: skip
        op.__name__ = op.__qualname__ = header.name  # type: ignore[attr-defined]
        for device in self.devices:
            op.register_out(device, self.backend, self.name, self.fill, self.declines)
        return op


# -- gradients ---------------------------------------------------------------------------------------------------------


def can_have_a_gradient(header: Header) -> None:
    """*Raises*: Wrong where a cell's gradient could not be told apart from its inputs or among its outputs."""
    if len(header.outputs) > 1:
        raise Wrong(f"{header}: a gradient is possible for one output. Remedy: core.library.custom_op")
    if "g" in (*header.inputs, *header.numbers):
        raise Wrong(f"{header}: g is the gradient of the output here, and cannot name an input")


def header_of_gradient(header: Header, name: str, there: Collection[str], said: str) -> Header:
    """Return what the arrays of a kernel with these parameters are, which reads g and fills grad_x. *Raises*: Wrong."""
    shapes = {**header.inputs, **header.outputs, "g": next(iter(header.outputs.values()))}
    inputs = {n: shapes[n] for n in there if n in shapes}
    outputs = {f"grad_{n}": dims for n, dims in header.inputs.items() if f"grad_{n}" in there}
    if "g" not in inputs or not outputs:
        raise Wrong(f"{said}: a gradient reads g and fills {' or '.join(f'grad_{n}' for n in header.inputs)}")
    return Header(name, inputs, {n: v for n, v in header.numbers.items() if n in there}, outputs)


def vjp_of_op(header: Header, op: CustomOp, its: Header) -> Callable[..., Any]:
    """Return the gradient that an op of g and others computes."""

    def run(given: dict[str, Any]) -> Any:
        found = op(**{n: given[n] for n in (*its.inputs, *its.numbers)})
        made = dict(zip(its.outputs, found if isinstance(found, tuple) else (found,), strict=True))
        return tuple(made.get(f"grad_{n}") for n in header.inputs)

    return vjp_of(header, [n for n in (*its.inputs, *its.numbers) if n != "g"], run)


def vjp_of(header: Header, wanted: Sequence[str], run: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a function whose arguments are what `run` needs, by which an op knows what to save. Of inputs that were
    broadcast the gradients are summed. *Raises*: Wrong."""
    output = next(iter(header.outputs))
    if output in wanted and output != "y" and "y" in header.inputs:  # an op's output is y to its vjp
        raise Wrong(f"{header}: the gradient reads {output}, which core calls y. Remedy: another name for y")
    shapes = {n: f"{n}_shape" for n in header.inputs}

    def vjp(**given: Any) -> Any:
        grads = run({**given, output: given.get("y")} if output in wanted else given)
        many = grads if isinstance(grads, tuple | list) else (grads,)
        if len(many) != len(shapes):
            raise ValueError(
                told(f"the backward of {header.name} gives {len(many)} gradients", op=header.name,
                     needed=f"one for each of {', '.join(shapes)}")
            )  # fmt: skip
        sizes = (given[name] for name in shapes.values())
        fit = tuple(g if g is None else g.sum_to_size(size) for g, size in zip(many, sizes, strict=True))
        return fit if len(fit) > 1 else fit[0]

    names = ["g", *("y" if n == output else n for n in wanted), *shapes.values()]
    text = f"lambda {', '.join(names)}: vjp({', '.join(f'{n}={n}' for n in names)})"
    found: Callable[..., Any] = eval(text, {"vjp": vjp})
    return found
