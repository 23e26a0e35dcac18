"""What can be removed alone, and which indices of which axes go with it.

An atom is a decision: something stays or is removed. An axis is an array ``(n, k)`` of atoms: index `i` is removed with
any of the `k` atoms of its row (-1 stands for none), so that an axis of heads times features has a column for the head
and one for the feature. Atoms that turn out to be one decision are joined, one that is several is written as these, and
one that nothing may remove is pinned, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

Axis: TypeAlias = "np.ndarray"
NONE = -1


class Atoms:
    """The atoms of one model, and what is known of them.

    >>> atoms = Atoms()
    >>> a, b = atoms.axis(6), atoms.axis(6)
    >>> atoms.join(a, b)
    >>> heads, each = atoms.reshaped([a], (6,), (2, 3))
    >>> len(heads), len(each), atoms.plain(b).shape
    (2, 3, (6, 2))
    """

    def __init__(self) -> None:
        self._parent = np.arange(1024)
        self._count = 0
        self._parts: dict[int, tuple[int, ...]] = {}  # of a root: what it is, where it is several
        self._pinned: dict[int, str] = {}  # of a root: why it stays

    # -- making --------------------------------------------------------------------------------------------------------

    def axis(self, n: int) -> Axis:
        """Return an axis of `n` new atoms."""
        first, self._count = self._count, self._count + n
        while self._count > len(self._parent):
            self._parent = np.concatenate([self._parent, np.arange(len(self._parent), 2 * len(self._parent))])
        return np.arange(first, first + n)[:, None]

    def fixed(self, n: int, reason: str) -> Axis:
        """Return an axis of which nothing is removed."""
        one = self.axis(1)
        self._pinned[int(one[0, 0])] = reason
        return np.repeat(one, n, 0)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _roots(self, a: Axis) -> Axis:
        while True:
            up = np.where(a == NONE, NONE, self._parent[a])
            if np.array_equal(up, a):
                return a
            a = up

    def _root(self, atom: int) -> int:
        while (up := int(self._parent[atom])) != atom:
            self._parent[atom] = self._parent[up]
            atom = up
        return atom

    def _expanded(self, atom: int) -> tuple[int, ...]:
        """Return the atoms that one stands for now."""
        atom = self._root(atom)
        if atom not in self._parts:
            return (atom,)
        found = self._parts[atom] = tuple(dict.fromkeys(p for q in self._parts[atom] for p in self._expanded(q)))
        return found

    def plain(self, a: Axis) -> Axis:
        """Return an axis in atoms that are still free: joined ones as one, pinned ones as none, no column twice."""
        a = self._roots(a)
        present, where = np.unique(a, return_inverse=True)
        if any(r in self._parts for r in present.tolist()):
            parts = [self._expanded(r) if r != NONE else () for r in present.tolist()]
            table = np.full((len(parts), max(map(len, parts))), NONE)
            for row, found in zip(table, parts, strict=True):
                row[: len(found)] = found
            a = table[where].reshape(len(a), -1)
            present = np.unique(a)
        pinned = [r for r in present.tolist() if r in self._pinned]
        if pinned:
            a = np.where(np.isin(a, pinned), NONE, a)
        if a.shape[1] > 1:
            a = a.copy()
            for k in range(1, a.shape[1]):  # an atom stands once in a row
                a[(a[:, :k] == a[:, k : k + 1]).any(1), k] = NONE
        return a[:, (a != NONE).any(0)]

    def reason(self, a: Axis) -> str:
        """Return why the first pinned atom of an axis is pinned; empty where none is."""
        for atom in np.unique(self._roots(a)).tolist():
            for part in self._expanded(atom) if atom != NONE else ():
                if part in self._pinned:
                    return self._pinned[part]
        return ""

    # -- learning ------------------------------------------------------------------------------------------------------

    def pin(self, a: Axis, reason: str) -> None:
        """Let nothing of an axis be removed."""
        for atom in np.unique(self.plain(a)).tolist():
            if atom != NONE:
                self._pinned.setdefault(atom, reason)

    def _one(self, a: int, b: int) -> None:
        a, b = self._root(a), self._root(b)
        if a != b:
            self._parent[max(a, b)] = min(a, b)
            why = self._pinned.pop(max(a, b), "")
            if why:
                self._pinned.setdefault(min(a, b), why)

    def join(self, a: Axis, b: Axis, reason: str = "") -> None:
        """Let two axes of one size lose the same indices."""
        x, y = self.plain(a), self.plain(b)
        if x.shape == y.shape and np.array_equal(x, y):
            return
        same = [(i, j) for i in range(x.shape[1]) for j in range(y.shape[1]) if np.array_equal(x[:, i], y[:, j])]
        x = np.delete(x, [i for i, _ in same], 1)
        y = np.delete(y, [j for _, j in same], 1)
        if x.shape[1] > y.shape[1]:
            a, b, x, y = b, a, y, x
        if x.shape[1] == 0:
            self.pin(y, self._because(reason, a))
        elif x.shape[1] == y.shape[1]:
            for i, j in zip(_slowest_first(x), _slowest_first(y), strict=True):
                self._join_columns(x[:, i], y[:, j], self._because(reason, a) if (x == NONE).any() else
                                   self._because(reason, b))  # fmt: skip
        elif x.shape[1] == 1:
            self._define(x[:, 0], y, self._because(reason, a))
        else:
            both = f"{reason or 'here'}: two ways of taking an axis apart that do not fit each other"
            self.pin(x, both)
            self.pin(y, both)

    def _because(self, reason: str, a: Axis) -> str:
        why = self.reason(a)
        return f"{why} ({reason})" if why and reason and reason not in why else why or reason

    def _join_columns(self, x: Axis, y: Axis, reason: str) -> None:
        pairs = {(int(p), int(q)) for p, q in zip(x, y, strict=True) if p != q}
        for p, q in pairs:
            if NONE in (p, q):
                self.pin(np.array([[max(p, q)]]), reason)
            else:
                for s, t in zip(self._expanded(p), self._expanded(q), strict=False):
                    self._one(s, t)

    def _define(self, x: Axis, y: Axis, reason: str) -> None:
        """Let each atom of a column be those of a row."""
        for atom, row in zip(x.tolist(), y.tolist(), strict=True):
            parts = tuple(p for p in row if p != NONE)
            if atom == NONE or not parts or any(atom in self._expanded(p) for p in parts):
                self.pin(np.array([[p for p in (*parts, atom) if p != NONE] or [NONE]]), reason)
                continue
            now = self._expanded(atom)
            if len(now) == 1 and now[0] not in self._pinned and now[0] not in parts:
                self._parts[now[0]] = parts
            else:
                self.join(np.array([[atom]]), np.array([parts]), reason)

    # -- axes of views -------------------------------------------------------------------------------------------------

    def reshaped(self, axes: Sequence[Axis], shape: Sequence[int], new: Sequence[int]) -> list[Axis]:
        """Return the axes of a tensor in another shape."""
        found: list[Axis] = []
        for lo, hi, lo2, hi2 in _alike(shape, new):
            part = axes[lo] if hi == lo + 1 else self.merged(axes[lo:hi])
            found += [part] if hi2 == lo2 + 1 else self._split(part, new[lo2:hi2])
        return found

    def merged(self, axes: Sequence[Axis]) -> Axis:
        """Return axes as one, the last the fastest."""
        shape = tuple(len(a) for a in axes)
        columns = []
        for d, a in enumerate(axes):
            a = self.plain(a)
            if a.shape[1] == 0 and self.reason(axes[d]):
                a = axes[d][:, :1]
            wide = a.reshape(*(1,) * d, shape[d], *(1,) * (len(shape) - d - 1), a.shape[1])
            columns.append(np.broadcast_to(wide, (*shape, a.shape[1])).reshape(math.prod(shape), -1))
        return np.concatenate(columns, 1) if columns else np.zeros((1, 0), int)

    def _split(self, a: Axis, new: Sequence[int]) -> list[Axis]:
        """Return an axis as several; what varies along more than one becomes a decision for each of them."""
        why = self.reason(a)
        plain = self.plain(a)
        columns: list[list[Axis]] = [[] for _ in new]
        for column in plain.T.reshape(plain.shape[1], *new):
            along = [d for d in range(len(new)) if new[d] > 1
                     and not (column == np.take(column, [0], d)).all()]  # fmt: skip
            if len(along) == 1:
                index = tuple(slice(None) if d == along[0] else 0 for d in range(len(new)))
                columns[along[0]].append(column[index][:, None])
            elif not along:
                self.pin(column.reshape(-1, 1), "all of an axis")
            else:
                made = [self.axis(n) if d in along else np.zeros((n, 0), int) for d, n in enumerate(new)]
                self._define(column.reshape(-1), self.merged(made), why)
                for d in along:
                    columns[d].append(made[d])
        fixed = [self.fixed(1, why) for _ in range(1 if why else 0)]
        return [np.concatenate(c, 1) if c else np.repeat(fixed[0], n, 0) if fixed else np.zeros((n, 0), int)
                for c, n in zip(columns, new, strict=True)]  # fmt: skip


def _slowest_first(a: Axis) -> list[int]:
    """Return the numbers of the columns, that of the longest runs first."""
    return sorted(range(a.shape[1]), key=lambda k: int((a[1:, k] != a[:-1, k]).sum()))


def _alike(shape: Sequence[int], new: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return which axes of a shape are which of another: the smallest stretches of the same number of elements.

    >>> _alike((2, 12, 5), (2, 3, 4, 5)), _alike((2, 3, 4), (6, 4))
    ([(0, 1, 0, 1), (1, 2, 1, 3), (2, 3, 3, 4)], [(0, 2, 0, 1), (2, 3, 1, 2)])
    """
    found = []
    i = j = 0
    while i < len(shape) or j < len(new):
        lo, lo2 = i, j
        if i < len(shape) and j < len(new) and shape[i] == new[j]:
            i, j = i + 1, j + 1
            found.append((lo, i, lo2, j))
            continue
        a = b = 1
        if i < len(shape) and j < len(new) and 1 not in (shape[i], new[j]):
            a, b, i, j = shape[i], new[j], i + 1, j + 1
            while a != b:
                if a < b:
                    a, i = a * shape[i], i + 1
                else:
                    b, j = b * new[j], j + 1
        elif i < len(shape) and shape[i] == 1:
            i += 1
        else:
            j += 1
        found.append((lo, i, lo2, j))
    return found
