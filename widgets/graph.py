"""Which boxes a person sees at once: the ops of a record, grouped by loop and module, and each group's layout.

A view opens its modules level by level as long as at most `OPEN_LIMIT` boxes result; loops and what stays closed are
drilled into. A view of more than `FOLD_LIMIT` boxes is folded, first into runs of the same source line, then into equal
runs. Parameters, constants and whatever is read in many places are chips on their readers instead of boxes with edges.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from math import ceil

from .figures import count_text, shape_text, shorten, time_text
from .grouping import OUTLIER, OUTLIER_SHARE, Group, sole, tree
from .layout import Layout, layered
from .record import OpRow, Record, TensorRow
from .structure import Block, Structure, taken

OPEN_LIMIT = 40
DRAW_LIMIT = 200
FOLD_LIMIT = 150
"""Boxes of its own that a view draws, with room for what they read from outside."""
HOME_SHARE = 0.85
"""A view of which one group holds this share of all ops, or of their runs, is passed over at the start."""
HUB_FAN_OUT = 6
"""An op or input read by more boxes than this in one view becomes a chip on each of them."""
PORT_FAN_OUT = 3
"""The same for what is made outside the view."""
CHIPS_SHOWN = 3
QUICK_FROM = 2000
"""Ops of a record from which on its layouts are made quickly."""
LOOP_LABEL = 40
TIME_WIDTH = 58
"""Room for a time of any length, so that boxes of like groups have like sizes."""


@dataclass(slots=True)
class Chip:
    """A small label on a box for something it reads that has no edge of its own."""

    label: str
    tensor: int | None = None
    op: int | None = None
    """Index of the op whose output it is."""
    no_gradient: bool = False
    outlier: bool = False
    """Whether it tells of a repeat whose slowest run is out of the ordinary."""
    branch: bool = False
    """Whether it tells of the branch that was taken."""


@dataclass(slots=True)
class Item:
    """One box of a view: an op, a group, a leaf tensor, or a port (an op of another view that is read here)."""

    kind: str
    """"op", "group", "leaf" or "port"."""
    index: int
    """Of the op in `record.ops`, of the view, or of the tensor in `record.tensors`."""
    label: str
    detail: str = ""
    place: str = ""
    chips: list[Chip] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    flags: list[str] = field(default_factory=list)

    @property
    def time(self) -> str:
        """How long it took, in words; nothing where that is not known."""
        spent = self.forward_ms + self.backward_ms
        return time_text(spent) if spent else ""

    def size(self) -> tuple[float, float]:
        """Width and height that hold the texts, the width in steps so that like groups share a layout."""
        if self.kind == "port":
            return 32 * ceil((6.2 * len(self.label) + 22) / 32), 22
        first = 8.2 * len(self.label) + (0 if self.kind == "leaf" else TIME_WIDTH)
        second = 6.6 * (len(self.detail) + len(self.place)) + (16 if self.place else 0)
        third = sum([5.8 * len(chip.label) + 20 for chip in self.chips]) if self.chips else 0
        width = 16 * ceil((max(first, second, third, 64) + 20) / 16)
        return width, 62 if self.chips else 42


@dataclass
class View:
    """What is drawn at once: boxes, the edges between them by number, and which layout places them."""

    label: str
    parent: tuple[int, int] | None
    """View and item that this one is drilled into from."""
    items: list[Item]
    edges: list[tuple[int, int]]
    layout: int
    note: str = ""
    path: str = ""


@dataclass
class Graph:
    """All views of a record; the first is the cell's."""

    views: list[View]
    layouts: list[Layout]
    home: list[tuple[int, int]]
    """For every op the view and item that draw it as itself."""
    start: int = 0
    """The view to see first: the outermost in which there is more than one box."""
    told: dict[int, str] = field(default_factory=dict)
    """What is to be said of a branch of the source, by line."""
    reads: list[list[int]] = field(default_factory=list)
    """What each op reads, as `reads` gives it."""


def build(record: Record) -> Graph:
    """Group the ops of `record` and lay every group out, once per distinct structure.

    Examples
    --------
    >>> from widgets.record import OpRow, TensorRow
    >>> ops = [OpRow(0, "matmul", module="model.0", inputs=["t0"]), OpRow(1, "tanh", module="model.1", inputs=["o0"])]
    >>> graph = build(Record(ops=ops, tensors=[TensorRow(0, "x", "input")]))
    >>> [item.label for item in graph.views[0].items], graph.views[0].edges
    (['x', 'matmul', 'tanh'], [(0, 1), (1, 2)])
    """
    return _Builder(record).build()


def badge(item: Item) -> str:
    """Return the word on a box that something is wrong with; the worst if there are several.

    Examples
    --------
    >>> badge(Item("op", 0, "log", flags=["nan"])), badge(Item("group", 0, "encoder", flags=["cut"]))
    ('✕ NaN', '✂ cut inside')
    """
    if not item.flags:
        return ""
    words = {"error": "✕ failed here", "nan": "✕ NaN", "cut": "✂ cut"}
    word = next((words[flag] for flag in words if flag in item.flags), "")
    return word.removesuffix(" here") + " inside" if word and item.kind == "group" else word


def no_gradient(record: Record) -> set[str]:
    """Names of the parameters that got no gradient."""
    return {row.name for row in record.gradients if "none" in row.flags or (row.norm is None and not row.flags)}


def reads(record: Record) -> list[list[int]]:
    """Return what each op reads: the index of an op, or -1 minus that of a tensor; names that lead nowhere go.

    Examples
    --------
    >>> from widgets.record import OpRow, TensorRow
    >>> reads(Record(tensors=[TensorRow(7, "x")], ops=[OpRow(3, "exp"), OpRow(4, "add", inputs=["o3", "t7", "o9"])]))
    [[], [0, -1]]
    """
    known = {f"o{op.id}": i for i, op in enumerate(record.ops)}
    known |= {f"t{tensor.id}": -1 - i for i, tensor in enumerate(record.tensors)}
    return [[known[name] for name in op.inputs if name in known] for op in record.ops]


class _Builder:
    def __init__(self, record: Record) -> None:
        self.record = record
        self.dead = no_gradient(record)
        self.least = OUTLIER_SHARE * (record.forward_ms + record.backward_ms + record.update_ms)
        self.views: list[View] = []
        self.layouts: list[Layout] = []
        self.known: dict[object, int] = {}
        self.home: list[tuple[int, int]] = [(0, 0)] * len(record.ops)
        self.inputs = reads(record)
        self.structure = Structure(record)
        self.branching = any(self.structure.branches)
        self.chips: dict[int, Chip] = {}
        self.sizes: dict[tuple[str, ...], tuple[float, float]] = {}

    def build(self) -> Graph:
        pending: list[tuple[Group, tuple[int, int] | None]] = [(tree(self.record, self.structure), None)]
        while pending:  # a stack of its own: a hostile module path must not end in a RecursionError
            group, parent = pending.pop(0)
            pending += self.add_view(group, parent)
        return Graph(self.views, self.layouts, self.home, self.start(), taken(self.structure), self.inputs)

    def start(self) -> int:
        """Down from the cell as long as one group is nearly all there is."""
        number = 0
        while True:
            boxes = [item for item in self.views[number].items if item.kind in ("op", "group")]
            most = max(boxes, key=lambda item: len(item.ops), default=None)
            if most is None or most.kind == "op":
                return number
            rows = self.record.ops
            share = len(most.ops) / sum(len(item.ops) for item in boxes)
            runs = sum(rows[i].count for i in most.ops) / (sum(rows[i].count for b in boxes for i in b.ops) or 1)
            if share < HOME_SHARE and (share < 0.5 or runs < HOME_SHARE):  # no times: it begins at one place every time
                return number
            number = most.index

    def add_view(self, group: Group, parent: tuple[int, int] | None) -> list[tuple[Group, tuple[int, int]]]:
        """Add the view of `group` and return the groups that stay closed in it, to be added next."""
        number = len(self.views)
        children, note = self.opened(group)
        items: list[Item] = []
        owner: dict[int, int] = {}
        for k, child in enumerate(children):
            if isinstance(child, int):
                items.append(self.op_item(child, group))
                owner[child] = k
            else:
                items.append(self.group_item(child, group))
                owner.update(dict.fromkeys(items[k].ops, k))
        sources: list[Item] = []
        edges: list[tuple[int, int]] = []
        for source, targets in self.reads(items, owner).items():
            if len(targets) <= HUB_FAN_OUT and source in owner:
                edges += [(owner[source], k) for k in targets]
            elif (
                len(targets) <= (PORT_FAN_OUT if source >= 0 else HUB_FAN_OUT)
                and len(items) + len(sources) < DRAW_LIMIT
                and (box := self.source_box(source))
            ):
                sources.append(box)
                edges += [(-len(sources), k) for k in targets]
            else:
                self.add_chips(source, items, targets)
        shift = len(sources)
        edges = sorted({(shift + u if u >= 0 else -u - 1, shift + v) for u, v in edges})
        self.mark_branches(items)
        for item in items:
            rest = item.chips[CHIPS_SHOWN:]
            if rest:
                more = Chip(f"+{len(rest)} more", no_gradient=any(chip.no_gradient for chip in rest))
                item.chips = [*item.chips[:CHIPS_SHOWN], more]
        items = sources + items
        label = group.within + group.fold or _within(group.path, self.path_above(parent))
        note = " · ".join(filter(None, [group.mark, note]))
        self.views.append(View(label, parent, items, edges, self.place(items, edges), note, group.path))
        closed: list[tuple[Group, tuple[int, int]]] = []
        for k, child in enumerate(children, shift):
            if isinstance(child, int):
                self.home[child] = (number, k)
            else:
                closed.append((child, (number, k)))
        if parent is not None:
            self.views[parent[0]].items[parent[1]].index = number
        return closed

    def path_above(self, parent: tuple[int, int] | None) -> str:
        return self.views[parent[0]].path if parent else ""

    def opened(self, group: Group) -> tuple[list[Group | int], str]:
        """Return the children of `group`, opened level by level while few, folded when many; and what to say about
        it."""
        children: list[Group | int] = group.children
        while any(isinstance(child, Group) and not child.keep for child in children):
            deeper = [
                inner
                for child in children
                for inner in (child.children if isinstance(child, Group) and not child.keep else [child])
            ]
            if len(deeper) > max(OPEN_LIMIT, len(children)):
                break
            children = deeper
        children = [sole(child) for child in children]
        if len(children) <= FOLD_LIMIT:
            return children, ""
        total = len(children)
        runs = self.line_runs(children, group.path)
        if len(runs) <= DRAW_LIMIT // 2 and len(runs) > 1:
            return runs, f"{total:,} boxes folded into runs of the same source line"
        step = max(min(ceil(total**0.5), FOLD_LIMIT), ceil(total / FOLD_LIMIT))
        starts = range(0, total, step)
        rounds = group.rounds is not None and total * group.rounds == group.total
        word = "iterations " if rounds else ""
        chunks = [Group(group.path, children[k : k + step], f"{word}{k + 1}–{min(k + step, total)}") for k in starts]
        return list(chunks), f"{total:,} {word.strip() or 'boxes'} folded into runs of {step}"

    def line_runs(self, children: list[Group | int], path: str) -> list[Group | int]:
        """Neighbours that come from the same line, as groups."""
        runs: list[tuple[tuple[str, int | None], list[Group | int]]] = []
        for child in children:
            op = self.record.ops[child if isinstance(child, int) else child.ops()[0]]
            place = (op.file, op.line)
            if not runs or runs[-1][0] != place:
                runs.append((place, []))
            runs[-1][1].append(child)
        label = {place: f"line {place[1]}" + (f" of {place[0]}" if place[0] else "") for place, _ in runs}
        return [run[0] if len(run) == 1 else Group(path, run, label[place]) for place, run in runs]

    def reads(self, items: list[Item], owner: dict[int, int]) -> dict[int, list[int]]:
        """Everything that is read in this view, with the boxes that read it and do not make it themselves."""
        found: dict[int, list[int]] = {}
        inputs, made_by = self.inputs, owner.get
        for k, item in enumerate(items):
            for i in item.ops:
                for source in inputs[i]:
                    if made_by(source) != k:
                        targets = found.get(source)
                        if targets is None:
                            found[source] = [k]
                        elif targets[-1] != k:
                            targets.append(k)
        return found

    def source_box(self, index: int) -> Item | None:
        """Return a box for an input, or a port for an op outside the view; parameters and constants have none."""
        if index < 0:
            tensor = self.record.tensors[-1 - index]
            if tensor.kind != "input":
                return None
            label = shorten(tensor.name or "input", 24)
            return Item("leaf", -1 - index, label, detail=shape_text(tensor.shape), place="input")
        op = self.record.ops[index]
        return Item("port", index, "from " + shorten(f"{op.module}.{op.op}" if op.module else op.op, 22, keep_end=True))

    def add_chips(self, index: int, items: list[Item], targets: Iterable[int]) -> None:
        for k in targets:
            if index >= 0:
                items[k].chips.append(Chip("from " + shorten(self.record.ops[index].op, 16), op=index))
                continue
            tensor = self.record.tensors[-1 - index]
            if tensor.name and (items[k].kind == "op" or tensor.kind == "input"):
                items[k].chips.append(self.chip(-1 - index, tensor))

    def chip(self, index: int, tensor: TensorRow) -> Chip:
        """Return the chip of a parameter or a constant, the same on every box that reads it."""
        if index not in self.chips:
            dead = tensor.name in self.dead
            label = shorten(tensor.name.rsplit(".", 1)[-1].removeprefix("unnamed "), 16)
            self.chips[index] = Chip(label + (": no gradient" if dead else ""), index, no_gradient=dead)
        return self.chips[index]

    def op_item(self, index: int, view: Group) -> Item:
        op = self.record.ops[index]
        label = op.op if len(op.op) <= 24 else shorten(op.op, 24)
        return Item(
            "op",
            index,
            label if op.count <= 1 else f"{label} ×{op.count:,}",
            self.shape(op, index),
            shorten(_within(op.module, view.path), 18, keep_end=True) if op.module else "",
            self.slowest(op) if op.count > 2 else [],
            [index],
            op.forward_ms,
            op.backward_ms,
            op.flags,
        )

    def shape(self, op: OpRow, index: int) -> str:
        """Return the shape of an op's output; of one that failed, those of what it read."""
        if "error" not in op.flags or op.dtype:
            if not op.dtype:  # an optimizer's step has no output
                return ""
            return shape_text(op.shape)
        shapes = [(self.record.ops[i] if i >= 0 else self.record.tensors[-1 - i]).shape for i in self.inputs[index]]
        return shorten("of " + ", ".join(map(shape_text, shapes)), 40)

    def mark_branches(self, items: list[Item]) -> None:
        """Say at the first box of each branch that was taken which one it is."""
        if not self.branching:
            return
        ways = []
        for item in items:
            found = [self.structure.branches[i] for i in item.ops]
            ways.append([b for b in found[0] if all(b in other for other in found)] if found else [])
        whole = [b for b in ways[0] if all(b in way for way in ways)] if ways else []
        before: list[Block] = whole
        for item, way in zip(items, ways, strict=True):
            new = [b for b in way if b not in before]
            if new:
                item.chips.insert(0, Chip(f"{shorten(new[-1].label, 26)}, line {new[-1].line}", branch=True))
            before = [*whole, *way]

    def slowest(self, op: OpRow) -> list[Chip]:
        """Return the mark of a repeat one run of which took far longer than the others."""
        longest = op.forward_max_ms
        if longest * op.count <= OUTLIER * op.forward_ms or longest < self.least:
            return []
        return [Chip("slowest " + time_text(longest), outlier=True)]

    def group_item(self, group: Group, view: Group) -> Item:
        inside = group.ops()
        rows = [self.record.ops[i] for i in inside]
        forward, backward = sum([row.forward_ms for row in rows]), sum([row.backward_ms for row in rows])
        flags = sorted({flag for row in rows for flag in row.flags})
        read = set(chain.from_iterable([self.inputs[i] for i in inside]))
        tensors = [self.record.tensors[-1 - t] for t in read if t < 0]
        parameters = [tensor for tensor in tensors if tensor.kind == "parameter"]
        dead = sum(tensor.name in self.dead for tensor in parameters)
        head, sign, times = (group.within + group.fold).rpartition(" ×") if group.loop else ("", "", "")
        label = shorten(group.within + group.fold or _within(group.path, view.path), 24, keep_end=True)
        item = Item("group", 0, shorten(head, LOOP_LABEL) + sign + times if head else label)
        item.detail = count_text(len(rows), "op")
        item.ops, item.forward_ms, item.backward_ms, item.flags = inside, forward, backward, flags
        if group.place:
            item.place = group.place
        elif parameters:
            item.place = count_text(len(parameters), "parameter")
        if group.mark:
            item.chips.append(Chip(group.mark, outlier=True))
        if dead:
            item.chips.append(
                Chip(f"{dead} of {count_text(len(parameters), 'parameter')}: no gradient", no_gradient=True)
            )
            item.place = ""
        return item

    def place(self, items: list[Item], edges: list[tuple[int, int]]) -> int:
        """Return the layout of this structure, laid out when it is first met."""
        sizes = tuple([self.sized(item) for item in items])
        key = (sizes, tuple(edges))
        if key not in self.known:
            self.known[key] = len(self.layouts)
            self.layouts.append(layered(list(sizes), edges, quick=len(self.record.ops) > QUICK_FROM))
        return self.known[key]

    def sized(self, item: Item) -> tuple[float, float]:
        """Return the size of a box, reckoned once for all with the same words."""
        if item.chips:
            return item.size()
        key = item.kind, item.label, item.detail, item.place
        size = self.sizes.get(key)
        if size is None:
            size = self.sizes[key] = item.size()
        return size


def _within(path: str, above: str) -> str:
    """Return a module path as it is called inside the module `above`; nothing for that module itself."""
    if path == above:
        return ""
    return path[len(above) + 1 :] if above and path.startswith(above + ".") else path
