"""What is removed: families of atoms, how many of each, and which, so that Python's numbers can follow."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....base.source import describe
from .atoms import NONE, Axis
from .python_numbers import Attribute, Number, asked, needed
from .scores import Way
from .tracing import Call, Trace

_ROUNDS = 400


class Family:
    """Atoms that stand in the same axes: the channels of a layer, its heads, the features of a residual stream."""

    def __init__(self, atoms: Axis, places: Sequence[tuple[str, int]], weight: int) -> None:
        self.atoms, self.places, self.weight = atoms, tuple(places), weight  # places: parameter, axis
        self.inside = False  # whether it is what stands in each head or group of another family
        self.around = False  # whether it is heads or groups
        self.scores: Any = np.zeros(len(atoms))
        self.order: Any = np.arange(len(atoms))  # the least important first
        self.keep = self.wanted = len(atoms)
        self.why = ""  # why nothing is removed
        self.fitted = ""  # why another number than wanted is

    def __len__(self) -> int:
        return len(self.atoms)


def families(trace: Trace) -> list[Family]:
    """Return the families of a model, in the order of its parameters."""
    places: dict[int, list[tuple[str, int, int, int]]] = defaultdict(list)
    weights: dict[int, int] = defaultdict(int)
    rows: list[Axis] = []
    trained = {name for name, t, _ in trace.own.values() if t.requires_grad}
    for name, t, axes in trace.own.values():
        for d, a in enumerate(axes):
            plain = trace.atoms.plain(a)
            for column in range(plain.shape[1]):  # heads and features stand in different ones
                found, counts = np.unique(plain[:, column], return_counts=True)
                for atom, count in zip(found.tolist(), counts.tolist(), strict=True):
                    places[atom].append((name, d, count, column))
                    weights[atom] += t._a.size // max(1, len(a)) * count
            if plain.shape[1] > 1:
                rows.append(plain)
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    places.pop(NONE, None)
    for atom, where in places.items():
        if any(place[0] in trained for place in where):
            alike[tuple(where)].append(atom)
    made = [
        Family(np.array(sorted(a)), list(dict.fromkeys(p[:2] for p in where)), weights[a[0]])
        for where, a in alike.items()
        if len(a) > 1
    ]
    of = {atom: f for f in made for atom in f.atoms.tolist()}
    for row in {tuple(r) for plain in rows for r in plain.tolist()}:
        together = sorted({id(of[a]): of[a] for a in row if a in of}.values(), key=lambda f: -f.weight)
        for k, f in enumerate(together):
            f.around |= len(together) > 1 and k == 0
            f.inside |= k > 0
    return made


def partners(trace: Trace, made: Sequence[Family]) -> dict[int, set[int]]:
    """Return which families divide an axis between them, by their ids: only one of them is made smaller."""
    of = {atom: id(f) for f in made for atom in f.atoms.tolist()}
    found: dict[int, set[int]] = defaultdict(set)
    for _, _, axes in trace.own.values():
        for a in axes:
            plain = trace.atoms.plain(a)
            for row in {tuple(r) for r in plain.tolist()} if plain.shape[1] > 1 else ():
                together = {of[x] for x in row if x in of}
                for f in together:
                    found[f] |= together - {f}
    return found


def score(trace: Trace, made: Sequence[Family], way: Way) -> None:
    """Give every atom its score, and every family the order of its atoms."""
    of = {name: (t, axes) for name, t, axes in trace.own.values()}
    for f in made:
        total, count = np.zeros(len(f)), 0
        for name, d in f.places:
            t, axes = of[name]
            if not t.dtype.is_floating_point or not t.requires_grad:
                continue
            plain = trace.atoms.plain(axes[d])
            number = np.searchsorted(f.atoms, plain)
            mine = f.atoms[np.minimum(number, len(f) - 1)] == plain
            index = np.where(mine, number, NONE).max(1)
            v = way.along(name, t, d, index)
            if v is None:
                continue
            v = np.pad(v, (0, len(f) - len(v)))
            mean = float(v.mean())
            total += v / mean if way.relative and mean > 0 else v
            count += 1
        f.scores = total / count if count and way.relative else total
        f.order = np.argsort(f.scores, kind="stable")


def amounts(made: Sequence[Family], amount: float | Mapping[str, float], round_to: int, heads: bool,
            partner: Mapping[int, set[int]], globally: bool, once: Mapping[Any, int]) -> None:  # fmt: skip
    """Say of each family how many of it should be kept. `once` has by their places how many there were once, of which
    the amount then is."""
    chosen: set[int] = set()
    for f in sorted(made, key=lambda f: -f.weight if heads else f.weight):
        share = _share(f, amount)
        f.keep = f.wanted = len(f)
        f.fitted = ""
        if f.why or not share or partner.get(id(f), set()) & chosen:
            continue
        size = once.get(f.places, len(f))
        keep = _rounded(size - math.floor(share * size + 1e-9), f, round_to)
        if keep < len(f):
            chosen.add(id(f))
            f.keep = f.wanted = keep
    if globally and not isinstance(amount, Mapping):
        mine = [f for f in made if id(f) in chosen]
        scores = np.concatenate([f.scores for f in mine]) if mine else np.zeros(0)
        least = np.sort(scores)[: math.floor(amount * len(scores))]
        for f in mine:
            below = int((f.scores <= least[-1]).sum()) if len(least) else 0
            keep = max(len(f) - below, math.ceil(len(f) / 10))  # a tenth of each stays
            f.keep = f.wanted = _rounded(keep, f, round_to)


def _share(f: Family, amount: float | Mapping[str, float]) -> float:
    if not isinstance(amount, Mapping):
        return amount
    found = [share for name, share in amount.items() for place, d in f.places
             if (place == name or place.startswith(name + ".")) and (d == 0 or place == name)]  # fmt: skip
    return min(found, default=0.0)


def _rounded(keep: int, f: Family, round_to: int) -> int:
    keep = max(1, keep)
    return keep if f.around else min(len(f), -(-keep // round_to) * round_to)


# -- Python's numbers --------------------------------------------------------------------------------------------------


class Fitting:
    """Changes how many are kept until every number of Python's can be what it has to be."""

    def __init__(self, trace: Trace, made: Sequence[Family]) -> None:
        self.trace, self.made = trace, made
        self._plain: dict[int, Axis] = {}
        self._of = {int(a): f for f in made for a in f.atoms}
        top = max([*self._of, 0])
        self.alive = np.ones(top + 2, bool)  # the last stands for "none"
        self.values: dict[Attribute, int] = {}
        self._seen: dict[int, list[Family]] = {}

    def plain(self, a: Axis) -> Axis:
        """Return an axis in the atoms of families."""
        found = self._plain.get(id(a))
        if found is None:
            found = self.trace.atoms.plain(a)
            found = self._plain[id(a)] = np.where(found >= len(self.alive) - 1, NONE, found)
        return found

    def left(self, a: Axis) -> int:
        """Return how many indices are left of an axis."""
        return int(self.mask(a).sum())

    def mask(self, a: Axis) -> Any:
        """Return which indices are left of an axis."""
        plain = self.plain(a)
        return self.alive[plain].all(1) if plain.shape[1] else np.ones(len(a), bool)

    def size(self, what: Any, axis: Any) -> int:
        """Return an attribute, or what is left of a value's axis."""
        return self.values[what] if axis == "attribute" else self.left(self.trace.axes[what][axis])

    def _set(self, f: Family, keep: int) -> None:
        f.keep = keep
        self.alive[f.atoms] = True
        self.alive[f.atoms[f.order[: len(f) - keep]]] = False

    def families_of(self, axes: Iterable[Axis]) -> list[Family]:
        """Return the families of which something stands in axes."""
        found: dict[int, Family] = {}
        for a in axes:
            known = self._seen.get(id(a))
            if known is None:
                ids = np.unique(self.plain(a)).tolist()
                known = self._seen[id(a)] = list({id(f): f for i in ids if (f := self._of.get(i)) is not None}.values())
            found.update((id(f), f) for f in known)
        return list(found.values())

    def _axes_of(self, n: Number) -> list[Axis]:
        found = [a for a in (n.left_of, n.other) if isinstance(a, np.ndarray)]
        return found + [self.trace.axes[k][d] for _, k, d in asked(n) if d != "attribute"]

    def fits(self, n: Number) -> bool:
        """Return whether a number will be what it has to be."""
        return needed(n, self.left, self.size)

    def run(self) -> None:
        """Fit all numbers. What cannot be fitted stays whole."""
        for f in self.made:
            self._set(f, f.keep)
        base = dict(self.trace.held.values)
        self.values = dict(base)
        numbers = [n for n in self.trace.numbers if n.attribute or self.families_of(self._axes_of(n))]
        touched: dict[Any, int] = defaultdict(int)
        for n in numbers:
            if n.attribute and n.attribute not in touched:
                self.values[n.attribute] = self.left(n.left_of)  # type: ignore[arg-type]
                touched[n.attribute] = 1
        for _ in range(_ROUNDS):
            broken = next((n for n in numbers if not self.fits(n)), None)
            if broken is None:
                return
            if not self._mended(broken, touched):
                self._whole(broken)
                self.values = dict(base)
                for n in numbers:
                    if n.attribute:
                        self.values[n.attribute] = self.left(n.left_of)  # type: ignore[arg-type]
        for f in self.made:  # no end: nothing is removed
            f.why = f.why or "the numbers of the program do not come to an end with it"
            self._set(f, len(f))
        self.values = base

    def _mended(self, n: Number, touched: dict[Any, int]) -> bool:
        """Change one thing on which a number depends so that it fits."""
        ways: list[tuple[float, Callable[[], None], Any]] = []
        for key in {k for _, k, d in asked(n) if d == "attribute"}:
            was = self.values[key]
            for v in range(1, 2 * self.trace.held.values[key] + 1):
                self.values[key] = v
                if v != was and self.fits(n):
                    ways.append((3 * touched[key] + abs(v - was) / 1e6, _put(self.values, key, v), key))
            self.values[key] = was
        for f in self.families_of(self._axes_of(n)):
            if f.why or f.wanted == len(f):
                continue
            now = f.keep
            for keep in range(1, len(f) + 1):
                self._set(f, keep)
                if keep != now and self.fits(n):
                    far = abs(keep - f.wanted) / len(f)
                    ways.append((3 * touched[id(f)] + 0.1 + far, self._setter(f, keep, n), id(f)))
            self._set(f, now)
        ways = [w for w in ways if touched[w[2]] < 4]
        if not ways:
            return False
        _, change, key = min(ways, key=lambda w: w[0])
        change()
        touched[key] += 1
        return True

    def _setter(self, f: Family, keep: int, n: Number) -> Callable[[], None]:
        def change() -> None:
            f.fitted = f"a number in {_at(n)}"
            self._set(f, keep)

        return change

    def _whole(self, n: Number) -> None:
        said = f"a number in {_at(n)} cannot follow"
        involved = [f for f in self.families_of(self._axes_of(n)) if f.keep < len(f)]
        for f in involved or [f for f in self.made if f.keep < len(f)]:
            f.why = said
            self._set(f, len(f))

    def shapes(self, call: Call) -> list[tuple[int, ...]]:
        """Return the shapes that an op will give."""
        return [tuple(self.left(a) for a in self.trace.axes[k]) for k in call.outputs]


def _at(n: Number) -> str:
    return f"{n.op} at {describe(n.place)}" if n.place else n.op


def _put(values: dict[Attribute, int], key: Attribute, v: int) -> Callable[[], None]:
    return lambda: values.__setitem__(key, v)
