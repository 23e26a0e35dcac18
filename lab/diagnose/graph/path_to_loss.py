"""Which cuts lie between the loss and a parameter: a walk that begins at what backward() ran on.

A cut costs a parameter its gradient where no other way leads to it. Of cuts in series the one nearest to the loss comes
first, and the parameters behind the next one would still get nothing if the first were mended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import code_of

SHAPED = {"ones_like", "zeros_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like"}
"""Functions that take a shape of a tensor, and none of its values."""
Edges = dict[Ref, list[Ref]]


@dataclass
class Blamed:
    """The cut that a parameter lies behind, and the cuts nearer to the loss than that, the nearest first."""

    cut: Row
    before: tuple[Row, ...] = ()


@dataclass
class _Seen:
    """What lies behind one cut: leaves that no further cut keeps off, and the cuts that come next."""

    leaves: dict[Leaf, None]
    onward: dict[Row, None]


class Between:
    """The cuts between some roots and the leaves behind them, in levels: how many in series keep a leaf off."""

    def __init__(self, trace: Trace, roots: Iterable[Ref], extra: Edges, readers: dict[Ref, list[Row]]) -> None:
        self.trace, self.extra, self.readers = trace, extra, readers
        self._behind: dict[Row, _Seen] = {}
        self._ways: dict[Row, dict[Ref, None]] = {}
        first = self._walk(roots, inside=True)
        level, reached = first.onward, set(first.onward)
        self.levels: list[dict[Row, tuple[Row, ...]]] = []
        before: dict[Row, tuple[Row, ...]] = dict.fromkeys(level, ())
        while level:
            self.levels.append({cut: before[cut] for cut in level})
            following: dict[Row, None] = {}
            for cut in sorted(level, key=self._harmless):
                for further in self.behind(cut).onward:
                    if further not in reached:
                        reached.add(further)
                        following[further] = None
                        before[further] = (*before[cut], cut)
            level = following

    def behind(self, cut: Row) -> _Seen:
        """What lies behind a cut."""
        seen = self._behind.get(cut)
        if seen is None:
            seen = self._behind[cut] = self._walk([cut], inside=False)
        return seen

    def blame(self, leaf: Leaf) -> Blamed | None:
        """The cut that keeps a leaf off; of several side by side, one around which no gradient would come, and rather
        one of values than one of integers (a drawn action, an index), which seldom carry what was to be trained."""
        for level in self.levels:
            cuts = [cut for cut in level if leaf in self.behind(cut).leaves]
            if cuts:
                best = min(cuts, key=lambda cut: (*self._harmless(cut)[:1], self._passed_by(cut, leaf), cut.number))
                return Blamed(best, level[best])
        return None

    def _walk(self, start: Iterable[Ref], inside: bool) -> _Seen:
        """From some refs back to the leaves. Outside the graph, cuts are only the way that values took out of it; the
        next cut is the first that is met inside again."""
        seen = _Seen({}, {})
        visited: set[tuple[Ref, bool]] = set()
        stack = [(ref, inside) for ref in start]
        while stack:
            ref, within = stack.pop()
            if (ref, within) in visited:
                continue
            visited.add((ref, within))
            if isinstance(ref, Row) and ref.op in SHAPED:
                continue
            if isinstance(ref, Leaf):
                seen.leaves[ref] = None
            elif ref.stops and not ref.requires_grad:
                if within:
                    seen.onward[ref] = None
                    continue
            elif ref.requires_grad:
                within = True
            stack.extend((r, within) for r in (*(ref.refs if isinstance(ref, Row) else ()), *self.extra.get(ref, ())))
        return seen

    def _harmless(self, cut: Row) -> tuple[int, int]:
        """Cuts that seldom are the mistake come last: integers and truth values, draws that are only scored."""
        drawn = cut.quiet and ".sample(" in code_of(self.trace, cut)
        return int(drawn or discrete(cut)), cut.number

    def _passed_by(self, cut: Row, leaf: Leaf) -> bool:
        """Whether what goes on with a cut's values has a gradient of the leaf beside them, as where the maximum is
        taken off before a softmax, or in a straight-through estimator."""
        stack, seen = [cut], {cut}
        while stack:
            for after in self.readers.get(stack.pop(), ()):
                if after in seen:
                    continue
                seen.add(after)
                if not after.requires_grad:
                    stack.append(after)
                elif any(ref.requires_grad and leaf in self._with_gradient(ref) for ref in after.refs):
                    return True
        return False

    def _with_gradient(self, ref: Ref) -> dict[Ref, None]:
        """All that a gradient of `ref` comes to."""
        if isinstance(ref, Leaf):
            return {ref: None}
        if ref not in self._ways:
            stops: set[Ref] = {r for r in self.trace.rows if r.stops and not r.requires_grad}
            self._ways[ref] = ancestors([ref], None, stops)
        return self._ways[ref]


def discrete(row: Row) -> bool:
    """Whether what leaves the graph are integers or truth values."""
    return row.cut == "draw" or (not row.cut and row.dtype.startswith(("int", "uint", "bool")))
