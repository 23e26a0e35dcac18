"""What programs are made of: values, ops, blocks of them, and how tensors stand in arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..base.errors import text
from ..declare import op as declarations
from .sizes import Formula, leaves, written


class ExportError(RuntimeError):
    """What cannot be exported, with its line and the reason."""


class SizeLookedUp(ExportError, TypeError):
    """A size that may vary is no key of a table: a TypeError too, upon which some caches go another way."""


class Line(NamedTuple):
    """A line of the user's source."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file} line {self.number}" + (f" ({self.text})" if self.text else "")


class Names:
    """Names that are given once each; `taken` are those that mean something already.

    >>> names = Names({"x"})
    >>> names.fresh("x"), names.fresh("y"), names.fresh("x")
    ('x_1', 'y', 'x_2')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """Return the name that is wanted, numbered where something has it."""
        name, k = wanted, 0
        while name in self.taken:
            k += 1
            name = f"{wanted}_{k}"
        self.taken.add(name)
        return name


class Sized(NamedTuple):
    """A number among an op's inputs or parameters that depends on the sizes of the run."""

    formula: Formula


class Value:
    """What an op gives, an input, or a piece of state: its name, dtype and shape, whose sizes may be formulas."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: Sequence[Formula]) -> None:
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(written(d, _value_name) for d in self.shape)}]"


def _value_name(value: Any) -> str:
    return value.name if isinstance(value, Value) else str(value)


class Node(NamedTuple):
    """One op. `op` is the name of its declaration, or one of `FORMS`.

    `inputs` are values, numbers, `Sized` numbers and None; `params` are by name, an elementwise op's too.
    """

    op: str
    inputs: tuple[Any, ...]
    params: dict[str, Any]
    outputs: tuple[Value | None, ...]
    line: Line | None
    blocks: tuple[Block, ...] = ()


FORMS = ("full", "arange", "put", "if", "while", "gradient")
"""What is no declared op:

full (shape, value, dtype), arange (start, end, step, dtype): made from numbers.
put (base, values; path): `base` with `values` at the place where `path`, a tuple of (view op, params, which of its
    outputs), leads.
if (condition): the outputs of the first block where the condition is true, else those of the second.
while (values...): the second block is run on the values as long as the first gives true; their last ones.
gradient (tensors...; of, given, plain, wanted): of the op `of`, by one kernel: `given` are (name, how many of the
    inputs are its tuple, or None for one tensor), `plain` (name, value) of what is no tensor, `wanted` which of the
    op's inputs the outputs are the gradients of. The block is the same in ops, and its outputs are this op's. Files
    and what is written for others hold the block's ops in its place (`expanded`).
"""


class Block(NamedTuple):
    """Ops with inputs and outputs of their own: a branch, or the test or the body of a loop."""

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]


def expanded(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return ops with those of its block in place of each gradient."""
    found: list[Node] = []
    for node in nodes:
        if node.op == "gradient":
            found += node.blocks[0].nodes
        else:
            blocks = tuple([b._replace(nodes=expanded(b.nodes)) for b in node.blocks])
            found.append(node._replace(blocks=blocks) if blocks else node)
    return tuple(found)


def values_in(x: Any) -> Iterator[Value]:
    """Yield the values that an op takes, those in formulas too."""
    if isinstance(x, Value):
        yield x
    elif isinstance(x, Sized):
        for leaf in leaves(x.formula):
            if isinstance(leaf, tuple):
                yield leaf[1]
    elif isinstance(x, Node):
        yield from values_in(x.inputs)
        yield from values_in(tuple(x.params.values()))
        for block in x.blocks:
            yield from values_in(block.outputs)
            for node in block.nodes:
                yield from values_in(node)
    elif isinstance(x, slice):
        yield from values_in((x.start, x.stop, x.step))
    elif isinstance(x, tuple):
        for part in x:
            yield from values_in(part)


def needed(nodes: Sequence[Node], wanted: Sequence[Value]) -> list[Node]:
    """Return the ops whose results somebody needs."""
    needed = set(wanted)
    kept = []
    for node in reversed(nodes):
        if any(v in needed for v in node.outputs):
            declared = declarations.table.get(node.op)
            shown = declared.returns if declared is not None and declared.returns else len(node.outputs)
            hidden = [v if v in needed else None for v in node.outputs[shown:]]
            while hidden and hidden[-1] is None:
                hidden.pop()
            node = node._replace(outputs=(*node.outputs[:shown], *hidden))
            kept.append(node)
            needed.update(values_in(node))
    return kept[::-1]


class Guard(NamedTuple):
    """A comparison of sizes that decided what was captured: it has to come out the same."""

    comparison: str
    left: Formula
    right: Formula
    truth: bool
    line: Line | None

    def __str__(self) -> str:
        said = f"{written(self.left, _value_name)} {self.comparison} {written(self.right, _value_name)}"
        return said if self.truth else f"not {said}"


class Tree(NamedTuple):
    """How tensors stand in arguments or results: `kind` is tensor (with its number), value (with itself), or list,
    tuple or dict with `parts`."""

    kind: str
    value: Any = None
    parts: tuple[Tree, ...] = ()

    def flat(self, x: Any, where: str, is_tensor: Callable[[Any], bool]) -> list[Any]:
        """Return the tensors in `x`, which has to be built like this. Raise ValueError naming the place where not."""
        if self.kind == "tensor":
            if not is_tensor(x):
                raise ValueError(f"{where} has to be a tensor, got {type(x).__name__}")
            return [x]
        if self.kind == "value":
            if not (x is self.value or (type(x) is type(self.value) and x == self.value)):
                raise ValueError(f"{where} was {self.value!r} when the program was exported, got {x!r}")
            return []
        keys = list(self.value) if self.kind == "dict" else range(len(self.parts))
        if not isinstance(x, dict if self.kind == "dict" else list | tuple) or len(x) != len(self.parts):
            raise ValueError(f"{where} has to be a {self.kind} of {len(self.parts)}, got {type(x).__name__}")
        found = []
        for key, part in zip(keys, self.parts, strict=True):
            if self.kind == "dict" and key not in x:
                raise ValueError(f"{where} has no {key!r}")
            found += part.flat(x[key], f"{where}[{key!r}]", is_tensor)
        return found

    def built(self, tensors: Iterator[Any]) -> Any:
        """Return what stands for this tree with `tensors` in their places."""
        if self.kind == "tensor":
            return next(tensors)
        if self.kind == "value":
            return self.value
        parts = [part.built(tensors) for part in self.parts]
        if self.kind == "dict":
            return dict(zip(self.value, parts, strict=True))
        return parts if self.kind == "list" else tuple(parts)


def tree_of(x: Any, is_tensor: Callable[[Any], bool], tensors: list[Any], where: str = "the result") -> Tree:
    """Return how `x` is built; its tensors are added to `tensors`. Raise ExportError for what is neither a tensor, a
    plain value nor a list, tuple or dict of them."""
    if is_tensor(x):
        tensors.append(x)
        return Tree("tensor")
    if x is None or isinstance(x, bool | int | float | str):
        return Tree("value", x)
    if isinstance(x, dict):
        parts = tuple(tree_of(v, is_tensor, tensors, f"{where}[{k!r}]") for k, v in x.items())
        return Tree("dict", tuple(x), parts)
    if isinstance(x, list | tuple):
        parts = tuple(tree_of(v, is_tensor, tensors, f"{where}[{k}]") for k, v in enumerate(x))
        return Tree("list" if isinstance(x, list) else "tuple", None, parts)
    raise ExportError(text(f"{where} is of class {type(x).__name__}", op="export",
                           needed="tensors, numbers, texts, and lists, tuples and dicts of them",
                           remedy="return x.tensor, or a dict of the fields"))  # fmt: skip
