"""The tree of groups that a record's ops stand in: loops with their iterations, and modules.

A call of a module is a run of consecutive ops, and so is a time round a loop; putting one into a box never makes a
cycle, and a module that is called twice is two boxes.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from .figures import time_text
from .record import OpRow, Record
from .structure import Block, Structure, Tag, module_parts, times

OUTLIER = 3
"""A repeat's slowest run is marked when it took more than this many times the mean, and OUTLIER_SHARE of the cell."""
OUTLIER_SHARE = 0.01


@dataclass(slots=True)
class Group:
    """A run of ops that belong together; `children` are groups and op indexes in running order."""

    path: str
    """Dotted path of the module, which a loop or a fold shares with what is around it."""
    children: list["Group | int"] = field(default_factory=list)
    fold: str = ""
    """What a loop, an iteration or a fold is called; empty for a module."""
    place: str = ""
    keep: bool = False
    """Whether it stays a box of its own where there is room to open it."""
    mark: str = ""
    """What is to be said of its slowest iteration."""
    loop: Block | None = None
    total: int | None = None
    """How often a loop went round in all, where that is known."""
    rounds: int | None = None
    """How often each of a loop's iterations ran, where they are groups."""
    within: str = ""
    """The iteration that a loop is all of."""

    def ops(self) -> list[int]:
        """Indexes of all ops inside."""
        found: list[int] = []
        for child in self.children:
            if child.__class__ is int:
                found.append(child)  # type: ignore[arg-type]
            else:
                found += child.ops()  # type: ignore[union-attr]
        return found


def tree(record: Record, structure: Structure) -> Group:
    """Nested groups from loops and module paths; what comes back after something else is a new call.

    Examples
    --------
    >>> ops = [OpRow(0, "exp", 5, line=2, col=8, end_line=2, end_col=15), OpRow(1, "log", 5, line=3, inputs=["o0"])]
    >>> record = Record(source="for x in data:\\n    y = x.exp()\\n    z = y.log()", ops=ops)
    >>> [(group.fold, group.place, group.children) for group in tree(record, Structure(record)).children]
    [('for x in data ×5', 'line 1', [0, 1])]
    """
    root = Group("")
    levels = [root]
    path: tuple[Tag, ...] | list[str] = []
    for index, op in enumerate(record.ops):
        tags: tuple[Tag, ...] | list[str] = structure.paths[index] if structure.paths else module_parts(op)
        if tags != path:
            same = 0
            most = min(len(path), len(tags))
            while same < most and (path[same] is tags[same] or path[same] == tags[same]):
                same += 1
            del levels[same + 1 :]
            for tag in tags[same:]:
                group = _group(levels[-1].path, tag)
                levels[-1].children.append(group)
                levels.append(group)
            path = tags
        levels[-1].children.append(index)
    if structure.blocks:
        _Loops(record, structure).settle(root)
    return root


def _group(path: str, tag: Tag | str) -> Group:
    name = tag if isinstance(tag, str) else tag.name
    if isinstance(tag, str) or tag.kind == "module":
        return Group(f"{path}.{name}" if path else name)
    if tag.loop is None:
        return Group(path, fold=f"iteration {name}", keep=True)
    return Group(path, fold=name, place=f"line {tag.loop.line}", loop=tag.loop)


class _Loops:
    """Says how often each loop went round, which of its iterations was slow, and folds iterations that are one."""

    def __init__(self, record: Record, structure: Structure) -> None:
        self.record, self.structure = record, structure
        self.least = OUTLIER_SHARE * (record.forward_ms + record.backward_ms + record.update_ms)
        self.runs: dict[int, list[tuple[float, float, str]]] = {}
        for run in record.runs:
            self.runs.setdefault(run.op, []).append((run.start_ms, run.ms, run.phase))

    def settle(self, root: Group) -> None:
        pending: list[tuple[Group, int | None, int]] = [(root, 1, 0)]
        while pending:
            group, above, depth = pending.pop()
            total = above
            if group.loop is not None:
                self.loop(group, above, depth)
                # of what an iteration holds: how often that iteration ran
                total, depth = group.total if group.rounds is None else group.rounds, depth + 1
            pending += [(child, total, depth) for child in group.children if isinstance(child, Group)]

    def loop(self, group: Group, above: int | None, depth: int) -> None:
        """Settle a loop whose body the loops around it ran `above` times in all."""
        rounds = [child for child in group.children if isinstance(child, Group)]
        inside = [child.ops() for child in rounds]
        shared = self.shared(inside)
        if shared:
            inside = [[i for i in ops if i not in shared] for ops in inside]
        sizes = [len(ops) for ops in inside]
        counts = {self.record.ops[i].count for ops in inside for i in ops}
        single = len(rounds) > 1 and len(counts) == 1 and 0 < max(sizes) <= 2 * min(sizes)
        # what the iterations of one loop have of their own ran once for each time that the loop was begun
        single = single and (above is None or counts == {above})
        if single:
            for child in rounds[: 1 if shared else 0]:
                _without(child, shared)
            group.rounds = counts.pop()
            group.total = len(rounds) * group.rounds
            group.mark = self.slowest_round(rounds, inside)
            modules = [body for child in rounds if (body := _module(child)) is not None]
            if not shared and len({module.path for module in modules}) == len(rounds):
                group.children = [*modules]  # a loop over layers: their names say more
                group.keep = False
            else:
                group.children = [*sorted(shared), *map(_only, rounds)]
                group.keep = True
        else:
            group.children = [inner for child in rounds for inner in child.children]
            all_ops = group.ops()
            direct = [self.record.ops[i] for i in all_ops if self.nested(i) == depth + 1]
            group.total = times(direct) or None
            said = group.loop.times if group.loop else None
            whole = self.record.error is None and not self.record.stopped
            if said is not None and above is not None and whole:
                group.total = max(said * above, group.total or 0)
            group.keep = group.total != 1
            group.mark = self.slowest_run(direct, all_ops, group.total)
        if group.total is not None and group.total > 1:
            each = group.total // above if above and group.total % above == 0 else None
            group.fold += f" ×{each:,}" if each is not None else f" ×{group.total:,} in all"
            group.keep = group.keep and each != 1

    def shared(self, rounds: list[list[int]]) -> set[int]:
        """Ops that read the same in every iteration, and so are one row, in the first."""
        if len(rounds) < 2:
            return set()
        rows = self.record.ops
        least = min([rows[i].count for ops in rounds[1:] for i in ops])
        return {i for i in rounds[0] if rows[i].count == len(rounds) * least}

    def nested(self, op: int) -> int:
        """Return how many loops an op is in."""
        return sum(tag.kind == "loop" for tag in self.structure.paths[op])

    def said(self, name: str, spent: list[float]) -> tuple[int, str]:
        """Return the number of an iteration that took far longer than the others, and the words for it; (-1, "") if
        none."""
        mean = sum(spent) / len(spent) if spent else 0.0
        most = max(spent, default=0.0)
        if len(spent) < 3 or most <= OUTLIER * mean or most < self.least:
            return -1, ""
        at = spent.index(most)
        return at, f"{name or f'slowest: iteration {at + 1},'} {time_text(most)}, mean {time_text(mean)}"

    def slowest_round(self, rounds: list[Group], inside: list[list[int]]) -> str:
        rows = self.record.ops
        spent = [sum(rows[i].forward_ms + rows[i].backward_ms for i in ops) for ops in inside]
        at, words = self.said("", spent)
        if at >= 0:
            rounds[at].mark = self.said("slowest:", spent)[1]
        return words

    def slowest_run(self, direct: list[OpRow], inside: list[int], total: int | None) -> str:
        """Of a loop whose iterations are folded into one: from the timeline, as far as that goes."""
        first = next((row for row in direct if row.count == total and row.id in self.runs), None)
        if first is None or total is None:
            return ""
        starts = sorted(start for start, _, phase in self.runs[first.id] if phase == "forward")
        if len(starts) < 3:
            return ""
        spent = [0.0] * len(starts)
        for i in inside:
            for start, ms, _ in self.runs.get(self.record.ops[i].id, ()):
                at = bisect_right(starts, start) - 1
                if at >= 0:
                    spent[at] += ms
        if len(starts) < total:
            spent.pop()  # the timeline may end within it
        return self.said("", spent)[1]


def _module(round_: Group) -> Group | None:
    """Return the module of which an iteration is one call."""
    found = round_
    while len(found.children) == 1 and isinstance(found.children[0], Group) and found.children[0].loop is None:
        found = found.children[0]
    return None if found is round_ else found


def _only(round_: Group) -> Group | int:
    """Return an iteration, or the loop or the op that it consists of."""
    only = round_.children[0]
    if len(round_.children) > 1 or (isinstance(only, Group) and only.loop is None):
        return round_
    if isinstance(only, Group):
        only.within, only.mark = f"{round_.fold}: ", round_.mark
    return only


def _without(group: Group, left_out: set[int]) -> None:
    """Take ops out of a group."""
    for child in group.children:
        if isinstance(child, Group):
            _without(child, left_out)
    group.children = [c for c in group.children if (c not in left_out if isinstance(c, int) else c.children)]


def sole(child: Group | int) -> Group | int:
    """A group of one op is that op; a loop around another loop stays."""
    while isinstance(child, Group) and len(child.children) == 1:
        if child.keep and isinstance(child.children[0], Group):
            break
        child = child.children[0]
    return child
