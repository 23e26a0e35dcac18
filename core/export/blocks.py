"""Branches and loops of scripted functions, as blocks of a tape's ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.modes import no_grad
from ..base.source import here
from ..events import observe
from ..tensors.tensor import Tensor, from_array, wrap
from .tape import Entry, Ref, Taken, Tape, refused

OWN = "_script_"
"""What the names begin with that scripts add to those of the user."""


def _block(tape: Tape, run: Callable[[], Sequence[Any]], own: Sequence[Any] = ()) -> tuple[list[Entry], Sequence[Any]]:
    """Run a piece of the function with a list of ops of its own; it may write the tensors of `own`."""
    mine = {id(t) for t in own}
    versions = [(m, m.version) for m in tape.memories if id(m.whole) not in mine]
    outer, tape.entries = tape.entries, []
    try:
        found = run()
    finally:
        inner, tape.entries = tape.entries, outer
    if any(m.version != v for m, v in versions):
        raise refused("writes in a branch or a loop, in place, what was made outside of it", here(),
                       "the op out of place: x = x + 1")  # fmt: skip
    return inner, found


def _held(tape: Tape, block: list[Entry], t: Any) -> int:
    """Return the number of a block's result, a number of Python's made a tensor there."""
    outer, tape.entries = tape.entries, block
    try:
        return tape.value(t if isinstance(t, Tensor) else _number(tape, t), here())
    finally:
        tape.entries = outer


def _number(tape: Tape, number: Any) -> Tensor:
    t = from_array(np.asarray(number, np.float32 if isinstance(number, float) else None))
    index = tape.new_value(t)
    params = {"shape": (), "value": number, "dtype": t._kind.dtype.name}
    tape.entries.append(Entry("full", (), params, (index,), here()))
    tape.register(t, index)
    return t


def branches(tape: Tape, test: Tensor, then: Callable[[], Sequence[Any]], other: Callable[[], Sequence[Any]],
             names: Sequence[str], before: Sequence[Any]) -> tuple[Any, ...]:  # fmt: skip
    """Run both branches, each as a block, and return what the one that is taken gives."""
    place = here()
    condition = Ref(tape.value(test, place))
    first, x = _block(tape, then)
    second, y = _block(tape, other)
    taken = bool(test._a.item())
    results: list[Any] = []
    places: list[int] = []
    for k, (name, a, b) in enumerate(zip(names, x, y, strict=True)):
        if a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and _same(a, b)):
            results.append(a)
        elif not (_is_number(a) and _is_number(b)):
            results.append(
                before[k] if not isinstance(before[k], Tensor) and not _is_number(before[k]) else _Never(name)
            )
        else:
            places.append(k)
            results.append(None)
    outputs = []
    ends: tuple[list[int], list[int]] = ([], [])
    for k in places:
        for block, found, numbers in ((first, x, ends[0]), (second, y, ends[1])):
            numbers.append(_held(tape, block, found[k]))
        a, b = ends[0][-1], ends[1][-1]
        if (tape.shapes[a], tape.dtypes[a]) != (tape.shapes[b], tape.dtypes[b]):
            raise refused(f"gives {names[k].removeprefix(OWN)} as {_told(tape, a)} in one branch and as "
                           f"{_told(tape, b)} in the other", place, "one shape and dtype in both")  # fmt: skip
        real = (x if taken else y)[k]
        array = real._a if isinstance(real, Tensor) else np.asarray(real, tape.dtypes[a])
        results[k] = from_array(np.array(array))
        outputs.append(tape.new_value(results[k]))
        tape.register(results[k], outputs[-1])
    blocks = (Taken((), first, tuple(ends[0])), Taken((), second, tuple(ends[1])))
    tape.entries.append(Entry("if", (condition,), {}, tuple(outputs), place, blocks))
    return tuple(results)


def loop(tape: Tape, test: Callable[..., Any], body: Callable[..., Sequence[Any]], names: Sequence[str],
         values: Sequence[Any]) -> tuple[Any, ...]:  # fmt: skip
    """Run test and body once, each as a block, and then the loop itself unheard."""
    place = here()
    values = list(values)
    counted: set[int] = set()  # numbers of Python's that the body changes: tensors from then on
    for _ in range(len(values) + 1):
        carried = [k for k, v in enumerate(values) if isinstance(v, Tensor)]
        start = [tape.value(values[k], place) for k in carried]
        count = len(tape.entries)
        into, given = _fresh(tape, values, carried)
        own = [given[k] for k in counted]
        again, results = _block(tape, lambda given=given: body(*given), own)  # type: ignore[misc]
        changed = [k for k, v in enumerate(values) if _is_number(v) and not isinstance(v, Tensor)
                   and not _same(results[k], v)]  # fmt: skip
        if not changed:
            break
        del tape.entries[count:]
        counted.update(changed)
        for k in changed:
            values[k] = _number(tape, _widest(values[k], results[k]))
    ends = [_held(tape, again, results[k]) for k in carried]
    for k, a, b in zip(carried, start, ends, strict=True):
        if (tape.shapes[a], tape.dtypes[a]) != (tape.shapes[b], tape.dtypes[b]):
            raise refused(f"changes {names[k].removeprefix(OWN)} in a loop from {_told(tape, a)} to {_told(tape, b)}",
                           place, "one shape and dtype in every turn")  # fmt: skip
    asked, given = _fresh(tape, values, carried)
    tests, (condition,) = _block(tape, lambda: (test(*given),))
    blocks = (Taken(tuple(asked), tests, (_held(tape, tests, condition),)), Taken(tuple(into), again, tuple(ends)))
    with observe.muted(), no_grad():
        turn: Sequence[Any] = [wrap(v._a.copy(), v._kind) if isinstance(v, Tensor) else v for v in values]
        while bool(test(*turn)):
            turn = body(*turn)
    found = list(values)
    outputs = []
    for k in carried:
        last = turn[k]
        array = last._a if isinstance(last, Tensor) else np.asarray(last, values[k]._a.dtype)
        found[k] = wrap(np.array(array), values[k]._kind)
        outputs.append(tape.new_value(found[k]))
        tape.register(found[k], outputs[-1])
    tape.entries.append(Entry("while", tuple(Ref(i) for i in start), {}, tuple(outputs), place, blocks))
    return tuple(found)


def _fresh(tape: Tape, values: Sequence[Any], carried: Sequence[int]) -> tuple[list[int], list[Any]]:
    """Return values that are a block's own inputs, and their numbers."""
    given, numbers = list(values), []
    for k in carried:
        given[k] = wrap(values[k]._a.copy(), values[k]._kind)
        numbers.append(tape.new_value(given[k]))
        tape.register(given[k], numbers[-1])
    return numbers, given


def _told(tape: Tape, index: int) -> str:
    return f"{tape.dtypes[index]} of shape {tape.shapes[index]}"


class _Never:
    """Stands for a name that only one branch sets to something that can be told of."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}, which the two branches set to things of different kinds"


def _is_number(x: Any) -> bool:
    return isinstance(x, Tensor | bool | int | float)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b))


def _widest(a: Any, b: Any) -> Any:
    """Return a number as the type that it has after the first turn."""
    return float(a) if isinstance(b, float) or (isinstance(b, Tensor) and b.dtype.is_floating_point) else a
