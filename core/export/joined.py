"""The tapes of one function at several sizes, laid side by side: the program that they are, or why they are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..base.errors import text
from ..declare import op as declarations
from .ir import Block, ExportError, Guard, Names, Node, Sized, Tree, Value, needed, values_in
from .program import Program
from .sizes import Dim, Formula, Real, alike, evaluate, fitted, leaves, replaced
from .tape import Entry, Outside, Ref, Taken, Tape, line_of


def tensors_in(tree: Tree) -> int:
    """Return how many tensors stand in a tree."""
    return int(tree.kind == "tensor") + sum(tensors_in(p) for p in tree.parts)


class Undecided(Exception):
    """A number of which the runs do not tell by which of two formulas it came about: a run where they differ will.

    pair : the two, as the tapes have them. formulas : the same, in the sizes of the run as far as these say them.
    """

    def __init__(self, pair: tuple[Formula, Formula], formulas: tuple[Formula, Formula]) -> None:
        super().__init__(pair)
        self.pair, self.formulas = pair, formulas

    @property
    def blind(self) -> bool:
        """Whether a formula asks for the size of a value, so that nobody can say at which sizes the two differ."""
        return any(not isinstance(x, str) for formula in self.formulas for x in leaves(formula))


class Joined:
    """The tapes of one function at several sizes, and the program that they are.

    settled : pairs of formulas of which either may be taken, as the function runs at no size where they differ.
    asks : of which kinds of pairs (`Undecided.blind`) one more run is asked for; of the others either may be taken.

    *Raises*: ExportError; Undecided where one more run is needed.
    """

    def __init__(self, tapes: list[Tape], sizes: list[dict[str, int]], axes: dict[str, list[tuple[int, int]]],
                 settled: Collection[tuple[Formula, Formula]] = (),
                 asks: Collection[bool] = (True, False)) -> None:  # fmt: skip
        self.tapes, self.sizes, self.axes, self.settled, self.asks = tapes, sizes, axes, settled, asks
        self._same_ops()
        self.known = self._sizes_of_values()  # ("size", value's number, axis) -> formula
        self.values: list[Value] = []
        self._fits: dict[Any, dict[int, dict[Formula, None]]] = {}  # numbers -> last value asked for -> formulas
        self._alike: set[tuple[Formula, Formula]] = set()
        self._taken: dict[tuple[Formula, Formula], Entry] = {}  # settled pairs that numbers of the program hang on

    def _same_ops(self) -> None:
        first = self.tapes[0]
        for k, tape in enumerate(self.tapes[1:], 1):
            self._compare(k, first.entries, tape.entries)
            if first.outputs != tape.outputs:
                raise self._differs(k, "the result is another value at another size", None)

    def _compare(self, k: int, first: list[Entry], other: list[Entry]) -> None:
        """Raise ExportError unless two lists of ops are the same."""
        for a, b in zip(first, other, strict=False):
            if (a.op, a.outputs, len(a.inputs), len(a.blocks)) != (b.op, b.outputs, len(b.inputs), len(b.blocks)):
                raise self._differs(k, f"{_said(a)} runs here at one size, and {_said(b)} at another", a)
            for x, y in zip(a.inputs, b.inputs, strict=True):
                if isinstance(x, Ref) != isinstance(y, Ref) or (isinstance(x, Ref) and x != y):
                    raise self._differs(k, f"{_said(a)} is given another value at another size", a)
            for x, y in zip(a.blocks, b.blocks, strict=True):
                self._compare(k, x.entries, y.entries)
                if (x.inputs, x.outputs) != (y.inputs, y.outputs):
                    raise self._differs(k, "a branch or a loop gives another value at another size", a)
        if len(first) != len(other):
            longer = max(first, other, key=len)
            raise self._differs(k, "how many ops run depends on the sizes", longer[min(len(first), len(other))])

    def _differs(self, k: int, what: str, entry: Entry | None,
                 remedy: str = "write it without a loop or a branch over it") -> ExportError:  # fmt: skip
        line = line_of(entry.place) if entry is not None else None
        sizes = " and ".join(
            ", ".join(f"{n} = {v}" for n, v in self.sizes[i].items()) or "the same size" for i in (0, k)
        )
        where = f", {line}" if line else ""
        return ExportError(f"cannot export this: {what}{where}\n  came: runs at {sizes}\n  remedy: leave that axis out "
                           f"of `dynamic`, or {remedy}")  # fmt: skip

    def _sizes_of_values(self) -> dict[Any, Formula]:
        known: dict[Any, Formula] = {}
        for index, shape in enumerate(self.tapes[0].shapes):
            shapes = [tape.shapes[index] for tape in self.tapes]
            if any(len(s) != len(shape) for s in shapes):
                raise ExportError("cannot export this: a value has another number of dimensions at another size")
            for axis in range(len(shape)):
                formula = fitted([s[axis] for s in shapes], self.sizes)
                if formula is not None:
                    known["size", index, axis] = formula
        return known

    def program(
        self, name: str, parameters: list[str], arguments: Tree, result: Tree, name_of: Callable[[Any], str]
    ) -> Program:
        """Return the program."""
        first = self.tapes[0]
        for index, place in first.lengths:
            if not isinstance(self.known.get(("size", index, 0)), int):
                raise ExportError(
                    f"cannot export this: {line_of(place)} asks for a length that may vary, and something is "
                    "decided by it\n  remedy: x.shape[0] in place of len(x), of which the program knows"
                )
        names = Names()
        count = tensors_in(arguments)
        self.values = [None] * len(first.shapes)  # type: ignore[list-item]
        for k, said in enumerate(_input_names(parameters, arguments)):
            self.values[k] = self._value(k, names.fresh(_word(said)))
        state: dict[str, tuple[Value, Any]] = {}
        for k, outside in enumerate(first.outside):
            array = self._constant(k, outside)
            value = self._value(outside.index, names.fresh(_word(name_of(outside.tensor))))
            state[value.name] = (value, array)
            self.values[outside.index] = value
        self._name(first.entries, names)
        nodes = self._nodes([tape.entries for tape in self.tapes])
        outputs = [self.values[k] for k in first.outputs]
        updates = [(self.values[a], self.values[b]) for a, b in first.updates]
        nodes = _trimmed(nodes, [*outputs, *(v for _, v in updates)])
        used = {v for node in nodes for v in values_in(node)} | set(outputs) | {v for v, _ in updates}
        used |= {v for _, v in updates}
        state = {n: s for n, s in state.items() if s[0] in used}
        size_axes = {n: places[0] for n, places in self.axes.items()}
        return Program(name, self.values[:count], state, nodes, outputs, updates, size_axes, self._guards(), arguments,
                       result, parameters)  # fmt: skip

    def _name(self, entries: list[Entry], names: Names) -> None:
        """Make the values of ops, those in blocks too."""
        for entry in entries:
            for block in entry.blocks:
                for index in block.inputs:
                    self.values[index] = self._value(index, names.fresh("held"))
                self._name(block.entries, names)
            if entry.op == "gradient":  # its outputs are the block's
                continue
            name = {"if": "chosen", "while": "last"}.get(entry.op, entry.op)
            for output in entry.outputs:
                if output is not None:
                    self.values[output] = self._value(output, names.fresh(_word(name)))

    def _nodes(self, runs: list[list[Entry]]) -> list[Node]:
        return [self._node([run[k] for run in runs]) for k in range(len(runs[0]))]

    def _value(self, index: int, name: str) -> Value:
        tape = self.tapes[0]
        shape = [self.known.get(("size", index, axis), ("size", None, axis)) for axis in range(len(tape.shapes[index]))]
        value = Value(name, tape.dtypes[index], ())
        value.shape = tuple(("size", value, d[2]) if isinstance(d, tuple) and d[0] == "size" else self._formula(d)
                            for d in shape)  # fmt: skip
        return value

    def _formula(self, formula: Formula) -> Formula:
        """Return a formula with sizes of values in the sizes of the run where these say them."""
        found = replaced(formula, self.known)
        for leaf in leaves(found):
            if isinstance(leaf, tuple):
                found = replaced(found, {leaf: ("size", self.values[leaf[1]], leaf[2])})
        return found

    def _constant(self, k: int, outside: Outside) -> Any:
        """Return the values of what no op made. Raise ExportError where they are others in each run."""
        for tape in self.tapes[1:]:
            if k >= len(tape.outside):
                break
            other = tape.outside[k]
            if other.tensor is outside.tensor:
                continue
            same = other.array.shape == outside.array.shape and np.array_equal(
                other.array, outside.array, equal_nan=outside.array.dtype.kind in "fc"
            )
            if not same:
                line = line_of(outside.place)
                raise ExportError(f"cannot export this: {line or 'the function'} uses values that no op made, and that "
                                  "are others in each run: they depend on sizes or on data\n  remedy: compute them by "
                                  "ops of core; a size as a tensor is core.full((), n)")  # fmt: skip
        return outside.array

    def _node(self, runs: list[Entry]) -> Node:
        """Return the op that the runs have in one place."""
        entry = runs[0]
        inputs = tuple(self.values[x.index] if isinstance(x, Ref) else self._number([r.inputs[i] for r in runs], entry)
                       for i, x in enumerate(entry.inputs))  # fmt: skip
        params = {key: self._number([r.params[key] for r in runs], entry) for key in entry.params}
        outputs = tuple(None if i is None else self.values[i] for i in entry.outputs)
        whole = entry.op == "gradient"
        blocks = tuple([self._block([r.blocks[k] for r in runs], whole) for k in range(len(entry.blocks))])
        return Node(entry.op, inputs, params, outputs, line_of(entry.place), blocks)

    def _block(self, runs: list[Taken], whole: bool) -> Block:
        """Return the block that the runs have in one place: of a gradient all ops, else those that are needed."""
        outputs = tuple([self.values[i] for i in runs[0].outputs])
        nodes = self._nodes([r.entries for r in runs])
        nodes = nodes if whole else _trimmed(nodes, outputs)
        return Block(tuple([self.values[i] for i in runs[0].inputs]), tuple(nodes), outputs)

    def _number(self, found: list[Any], entry: Entry) -> Any:
        """Return what a number, or numbers in tuples and the like, are in all runs."""
        first = found[0]
        if isinstance(first, bool) or first is None or isinstance(first, str):
            if any(x is not first and x != first for x in found):
                raise self._differs(1, f"{_said(entry)} has {first!r} at one size and {found[-1]!r} at another", entry)
            return first
        if isinstance(first, list | tuple):
            if any(len(x) != len(first) for x in found):
                raise self._differs(1, f"{_said(entry)} has another number of numbers at another size", entry)
            return tuple(self._number([x[i] for x in found], entry) for i in range(len(first)))
        if isinstance(first, slice):
            return slice(
                *(self._number([getattr(x, part) for x in found], entry) for part in ("start", "stop", "step"))
            )
        if isinstance(first, int | float):
            return self._sized(found, entry)
        if any(x is not first and not _equal(x, first) for x in found):
            raise self._differs(1, f"{_said(entry)} has {first!r} at one size and {found[-1]!r} at another", entry)
        return first

    def _sized(self, found: list[Any], entry: Entry) -> Any:
        first = found[0]
        plain = int(first) if isinstance(first, int) else float(first)
        own = (
            self._formula(first.formula) if isinstance(first, Dim | Real) and self._says(first.formula, found) else None
        )
        if own is None and all(x == first or (x != x and first != first) for x in found):
            self._decided([plain, *self._fitting(found, entry)], entry)
            return plain
        formula: Formula = fitted([int(x) for x in found], self.sizes) if isinstance(first, int) else None
        if own is not None:  # it says how the number came about: a simpler one has to be the same everywhere
            formula = formula if formula is not None and alike(formula, own) else own
            return Sized(formula) if leaves(formula) else plain
        if formula is None:
            formula = self._computed(found, entry)
        if formula is None and isinstance(first, int):
            formula = self._size_of_a_value([int(x) for x in found], entry)
        if formula is None and isinstance(first, float):
            formula = _power(found, self.sizes)
        if formula is not None:
            return Sized(formula)
        k = next(k for k, x in enumerate(found) if x != first)
        what = f"{_said(entry)} has {plain!r} at one size and {found[k]!r} at another"
        raise self._differs(k, f"{what}, and no formula of the sizes gives both", entry,
                            "compute the number from x.shape with +, -, * and // of whole numbers")  # fmt: skip

    def _says(self, formula: Formula, found: list[Any]) -> bool:
        """Return whether one formula gives the number of each run."""
        return all(
            (n := evaluate(formula, sizes, tape.size_of)) == x and isinstance(n, float) == isinstance(x, float)
            for tape, sizes, x in zip(self.tapes, self.sizes, found, strict=True)
        )

    def _computed(self, found: list[Any], entry: Entry) -> Formula | None:
        """Return the formula of a number that was computed from sizes before it became a plain one."""
        fits = self._fitting(found, entry)
        self._decided(fits, entry)
        return self._formula(fits[0]) if fits else None

    def _fitting(self, found: list[Any], entry: Entry) -> list[Formula]:
        """Return the formulas by which numbers were computed before an op that are its number in every run, as the
        tapes have them."""
        before = min((i for i in entry.outputs if i is not None), default=0)
        key = (type(found[0]) is float, *map(float, found))
        if key not in self._fits:
            first = int(found[0]) if isinstance(found[0], int) else float(found[0])
            fits: dict[int, dict[Formula, None]] = {}
            self._fits[key] = fits
            for formula in self.tapes[0].computed.get(first, ()):
                if self._says(formula, found):
                    values = [x[1] for x in leaves(replaced(formula, self.known)) if isinstance(x, tuple)]
                    fits.setdefault(max(values, default=-1), {})[formula] = None
        known = (formula for last, some in self._fits[key].items() if last < before for formula in some)
        return list(known)

    def _decided(self, fits: list[Formula], entry: Entry) -> None:
        """Raise Undecided where formulas that give the same in all runs do not at other sizes; where no further run
        can tell, the program is to run only at sizes at which they do."""
        for other in fits[1:]:
            pair = fits[0], other
            if pair in self.settled:
                self._taken.setdefault(pair, entry)
                continue
            if pair in self._alike:
                continue
            formulas = replaced(fits[0], self.known), replaced(other, self.known)
            if not alike(*formulas):
                undecided = Undecided(pair, formulas)
                if undecided.blind in self.asks:
                    raise undecided
                self._taken.setdefault(pair, entry)
            self._alike.add(pair)

    def _size_of_a_value(self, found: list[int], entry: Entry) -> Formula | None:
        """Return the size of an earlier value that is this number in every run, or the product of several in a row,
        as where axes are joined; of the op's own inputs before others."""
        before = min((i for i in entry.outputs if i is not None), default=0)
        own = [x.index for x in entry.inputs if isinstance(x, Ref)]
        indices = [i for i in dict.fromkeys((*own, *range(before))) if self.values[i] is not None]
        ranks = {i: len(self.tapes[0].shapes[i]) for i in indices}
        for count in range(1, max(ranks.values(), default=0) + 1):
            for index in indices:
                for axis in range(ranks[index] - count + 1):
                    if all(math.prod(tape.shapes[index][axis : axis + count]) == n
                           for tape, n in zip(self.tapes, found, strict=True)):  # fmt: skip
                        return self._product(index, range(axis, axis + count))
        return None

    def _product(self, index: int, axes: range) -> Formula:
        sizes = [self.known.get(("size", index, axis), ("size", self.values[index], axis)) for axis in axes]
        found = sizes[0]
        for size in sizes[1:]:
            found = ("*", found, size)
        return found

    def _guards(self) -> list[Guard]:
        """Return the comparisons of sizes that came out alike in all runs, but may not at other sizes."""
        kept: dict[Any, Guard] = {}
        for c in self.tapes[0].comparisons:
            left, right = self._formula(c.left), self._formula(c.right)
            if not (leaves(left) | leaves(right)):
                continue
            if left == right and c.symbol in ("==", "<=", ">="):
                continue
            kept[c.symbol, left, right] = Guard(c.symbol, left, right, c.truth, line_of(c.place))
        for k, tape in enumerate(self.tapes):
            for c in tape.comparisons:
                key = c.symbol, self._formula(c.left), self._formula(c.right)
                if key in kept and kept[key].truth != c.truth:
                    phrase = "cannot export this: a comparison of sizes comes out otherwise at another size"
                    came = f"{kept[key]} at {self.sizes[0]}, not at {self.sizes[k]}: {kept[key].line}"
                    raise ExportError(text(phrase, op="export", came=came, remedy="leave that axis out of `dynamic`"))
        for pair, entry in self._taken.items():
            left, right = (replaced(self._formula(x), self.known) for x in pair)
            if all(isinstance(x, str) for x in leaves(left) | leaves(right)) and left != right:
                kept.setdefault(("==", left, right), Guard("==", left, right, True, line_of(entry.place)))
        return list(kept.values())


def _trimmed(nodes: list[Node], wanted: Sequence[Value]) -> list[Node]:
    """Return the ops whose results somebody needs; a gradient of which others need what is within it is opened."""
    users: dict[Value, set[int]] = {v: {-1} for v in wanted}
    for k, node in enumerate(nodes):
        for v in values_in(node):
            users.setdefault(v, set()).add(k)
    found: list[Node] = []
    for k, node in enumerate(nodes):
        block = node.blocks[0] if node.op == "gradient" else None
        hidden = {v for n in block.nodes for v in n.outputs}.difference(node.outputs) if block is not None else ()
        if block is None:
            found.append(node)
        elif any(v is not None and users.get(v, {k}) != {k} for v in hidden):
            found += block.nodes
        else:
            inner = tuple(needed(block.nodes, block.outputs))
            found.append(node._replace(blocks=(block._replace(nodes=inner),)))
    return needed(found, wanted)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)


def _power(found: list[float], sizes: list[dict[str, int]]) -> Formula | None:
    """Return a formula that gives floats from one size: a number times the size to the power of 1, -1, 1/2 or -1/2."""
    for name in sizes[0]:
        for power in (1, -1, 0.5, -0.5):
            ratios = [x / at[name] ** power for x, at in zip(found, sizes, strict=True)]
            if all(abs(r - ratios[0]) <= 1e-14 * abs(ratios[0]) for r in ratios):
                base: Formula = ("**", name, power)
                near = round(ratios[0])
                factor = near if abs(ratios[0] - near) <= 1e-14 * abs(ratios[0]) else ratios[0]
                return base if factor == 1 else ("*", base, factor)
    return None


def _word(name: str) -> str:
    return name.replace(" ", "_") or "value"


def _input_names(parameters: list[str], arguments: Tree) -> list[str]:
    names = []
    for name, part in zip(parameters, arguments.parts, strict=True):
        count = tensors_in(part)
        names += [name] if part.kind == "tensor" else [f"{name}_{k}" for k in range(count)]
    return names


def _said(entry: Entry) -> str:
    found = declarations.table.get(entry.op)
    return found.label if found is not None else entry.op
