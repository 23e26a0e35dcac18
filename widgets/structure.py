"""Loops and branches of a cell's source, and which of them every op ran in.

A record holds ops in the order in which they first ran. Where a loop feeds its own output, each time round has rows of
its own, and an iteration begins where the place goes back in the source; where it does not, its ops are folded and
their counts tell how often it went round.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from core.base import syntax

from .figures import shorten
from .record import OpRow, Record
from .source import lines_of

Place = tuple[int, int, int, int]
"""Line, column, end line, end column."""

DEPTH_LIMIT = 12
CALL, CALLS = 6, 32
"""The figures of a call; how many calls of functions within each other are looked at."""

_BLOCKS = re.compile(r"\b(?:for|while|if|match)\b")
_MAGIC = re.compile(r"^(\s*)[%!?].*$")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(eq=False)
class Block:
    """A piece of source that runs repeatedly, or perhaps."""

    kind: str
    """"loop", "branch", or "scope": what a function's body holds is not in the loops around its definition."""
    label: str
    line: int
    span: Place
    statement: Place
    """The whole statement, by which a block outside sees it as one place."""
    times: int | None = None
    """How often the source says that it goes round."""
    heads: tuple[Place, ...] = ()
    """Where a loop's own line gets the next item, as Python's versions tell it."""
    others: list["Block"] = field(default_factory=list)
    """All branches of one choice."""
    inside: list["Block"] = field(default_factory=list)


@dataclass(frozen=True)
class Tag:
    """One level of grouping of an op: a module's part of a path, a loop, or a time round it."""

    kind: str
    """"module", "loop" or "round"."""
    name: str
    loop: Block | None = None
    callers: tuple[tuple[int, ...], ...] = ()
    """Where the function that holds the loop was called."""


def blocks(source: str) -> list[Block]:
    """Return the outermost blocks of a source; none where it is no Python.

    Examples
    --------
    >>> [(b.kind, b.label, b.line, b.times) for b in blocks("for k in range(3):\\n    if k:\\n        x = x + 1")]
    [('loop', 'for k in range(3)', 1, 3)]
    """
    if not _BLOCKS.search(source):
        return []
    lines = lines_of(source)
    plain = ["" if line.startswith("%%") else _MAGIC.sub(r"\1pass", line) for line in lines]
    try:
        with syntax.unheard():
            tree = compile("\n".join(plain), "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
        return _Reader(plain).read(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


class _Reader:
    """Finds the blocks of a syntax tree."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def read(self, node: ast.AST) -> list[Block]:
        found: list[Block] = []
        for child in ast.iter_child_nodes(node):
            own = self.of(child)
            found += own if own is not None else self.read(child)
        return found

    def of(self, node: Any) -> list[Block] | None:
        """Return the blocks of a node with what is in them; None where it is an ordinary one."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return [self.block("scope", node.name, node, node.body)]
        if isinstance(node, ast.Lambda):
            return [self.block("scope", "lambda", node, [node.body])]
        if isinstance(node, ast.For | ast.AsyncFor):
            loop = self.block("loop", _for(node), node, node.body)
            loop.times = _times(node)
            loop.heads = (loop.statement, *([self.place(node.iter, node.iter)] if _plain(node.iter) else ()))
            return [*self.read(node.iter), loop, *self.rest(node.orelse)]
        if isinstance(node, ast.While):
            loop = self.block("loop", "while " + ast.unparse(node.test), node, node.body)
            return [*self.read(node.test), loop, *self.rest(node.orelse)]
        if isinstance(node, _COMPREHENSIONS):
            head = node.generators[0]
            bodies = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            loop = self.block("loop", " ".join(map(_for, node.generators)), node, bodies)
            loop.times = _times(head) if len(node.generators) == 1 and not head.ifs else None
            return [*self.read(head.iter), loop]
        if isinstance(node, ast.If | ast.IfExp):
            return self.choice(node)
        if isinstance(node, ast.Match):
            cases = [self.block("branch", "case " + ast.unparse(c.pattern), node, c.body) for c in node.cases]
            for case, c in zip(cases, node.cases, strict=True):
                case.line, case.others = c.pattern.lineno, cases
            return [*self.read(node.subject), *cases]
        return None

    def choice(self, node: Any) -> list[Block]:
        """Return the branches of an `if` with its `elif`s and `else`, or of a ternary."""
        found: list[Block] = self.read(node.test)
        branches: list[Block] = []
        word, whole = "if ", node
        while True:
            body = node.body if isinstance(node.body, list) else [node.body]
            branch = self.block("branch", word + ast.unparse(node.test), node, body)
            branches.append(branch)
            rest = node.orelse if isinstance(node.orelse, list) else [node.orelse]
            if (
                len(rest) == 1
                and isinstance(rest[0], ast.If)
                and self.lines[rest[0].lineno - 1].lstrip().startswith("elif")
            ):
                node, word = rest[0], "elif "
                found += self.read(node.test)
                continue
            if rest:
                last = self.block("branch", "else", node, rest)
                if isinstance(node, ast.If):
                    last.line = next((k for k in range(rest[0].lineno, node.lineno, -1)
                                      if self.lines[k - 1].lstrip().startswith("else")), rest[0].lineno)  # fmt: skip
                branches.append(last)
            break
        for branch in branches:
            branch.others, branch.statement = branches, self.place(whole, whole)
        return found + branches

    def rest(self, statements: list[ast.stmt]) -> list[Block]:
        return [block for statement in statements for block in self.of(statement) or self.read(statement)]

    def block(self, kind: str, label: str, node: Any, body: list[Any]) -> Block:
        span = self.place(body[0], body[-1])
        inside = [block for child in body for block in self._within(child)]
        return Block(kind, label, node.lineno, span, self.place(node, node), inside=inside)

    def _within(self, child: Any) -> list[Block]:
        own = self.of(child)
        return self.read(child) if own is None else own

    def place(self, first: Any, last: Any) -> Place:
        return (first.lineno, self.column(first.lineno, first.col_offset), last.end_lineno,
                self.column(last.end_lineno, last.end_col_offset))  # fmt: skip

    def column(self, line: int, byte: int) -> int:
        """Characters, where the syntax tree counts bytes."""
        text = self.lines[line - 1]
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="replace"))


def _plain(node: ast.expr) -> bool:
    """Return whether what a loop goes over is no op itself: a name, or `enumerate`, `zip` and the like of one."""
    return isinstance(node, ast.Name | ast.Attribute) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )


def _for(node: Any) -> str:
    """Return the head of a loop or of a part of a comprehension."""
    target = ast.unparse(node.target)
    return f"for {target[1:-1] if isinstance(node.target, ast.Tuple) else target} in {ast.unparse(node.iter)}"


def _times(node: Any) -> int | None:
    """How often a loop over a literal range goes round, unless it may stop before."""
    call = node.iter
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"):
        return None
    numbers = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
    leaves = any(
        isinstance(n, ast.Break | ast.Return | ast.Raise) for s in getattr(node, "body", []) for n in ast.walk(s)
    )
    return None if leaves or call.keywords or not 0 < len(numbers) == len(call.args) < 4 else len(range(*numbers))


def _after(place: Any) -> tuple[int, ...]:
    """Return a key by which the places of one statement come in the order in which they are evaluated."""
    line, col, end_line, end_col = place[:4]
    return (end_line, end_col, -line, -col)


def _holds(outer: Place, place: Any) -> bool:
    return outer[:2] <= (place[0], place[1]) and (place[2], place[3]) <= outer[2:]


Level = tuple[Tag, tuple[int, ...], tuple[str, ...] | None]
"""A tag; where in its loop an op is; the module called there, None where a loop inside runs it."""


class Structure:
    """Which loops and branches of a record's source its ops ran in.

    Examples
    --------
    >>> ops = [OpRow(k, "tanh", line=2, col=8, end_line=2, end_col=16, site=1) for k in range(3)]
    >>> structure = Structure(Record(source="for k in range(3):\\n    x = x.tanh()", ops=ops))
    >>> [[tag.name for tag in path] for path in structure.paths]
    [['for k in range(3)', '1'], ['for k in range(3)', '2'], ['for k in range(3)', '3']]
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.blocks = blocks(record.source)
        self.branches: list[tuple[Block, ...]] = [()] * len(record.ops)
        """The branches that each op ran in."""
        self._found: dict[Any, tuple[Block, ...]] = {}
        self._known: dict[object, tuple[list[Level], tuple[Block, ...]]] = {}
        self._tags: dict[object, Tag] = {}
        self._keys: dict[Block, set[tuple[int, ...]]] = {}
        self.paths: list[tuple[Tag, ...]] = self._paths() if self.blocks else []
        """For every op what it is grouped by, outermost first; empty where the source has no blocks."""

    def around(self, place: Any) -> tuple[Block, ...]:
        """Return the loops and branches around a place, outermost first, inside its function."""
        key = tuple(place[:4])
        known = self._found.get(key)
        if known is None:
            found: list[Block] = []
            level = self.blocks
            while (block := next((b for b in level if _holds(b.span, place) or key in b.heads), None)) is not None:
                found = [] if block.kind == "scope" else [*found, block]
                level = block.inside
            known = self._found[key] = tuple(found)
        return known

    def _paths(self) -> list[tuple[Tag, ...]]:
        levels = [self._levels(k, op) for k, op in enumerate(self.record.ops)]
        for found in {id(found): found for found in levels}.values():
            for tag, key, _ in found:
                if tag.loop is not None:
                    self._keys.setdefault(tag.loop, set()).add(key)
        paths = []
        state: list[_Round] = []  # of the loops that are open
        before: tuple[Tag, ...] = ()
        for op, found in zip(self.record.ops, levels, strict=True):
            path: list[Tag] = []
            loops = [level for level in found if level[0].loop is not None]
            same, depth = True, 0  # loops that are open still
            for level in found:
                tag, key, called = level
                same = same and len(path) < len(before) and before[len(path)] is tag
                path.append(tag)
                if tag.loop is None:
                    continue
                if not same:
                    del state[depth:]
                if depth == len(state):
                    state.append(_Round(op, key, called))
                elif self._begins(state, loops, depth, op):
                    del state[depth + 1 :]
                    state[depth] = _Round(op, key, called, state[depth].number + 1)
                    same = False
                else:
                    state[depth].key, state[depth].called = key, called
                path.append(self._round(state[depth].number))
                same = same and len(path) <= len(before) and before[len(path) - 1] is path[-1]
                depth += 1
            del state[depth:]
            before = tuple(path)
            paths.append(before)
        return paths

    def _begins(self, state: list["_Round"], loops: list[Level], depth: int, op: OpRow) -> bool:
        """Return whether an op begins the next time round the loop at `depth`."""
        (tag, key, called), now = loops[depth], state[depth]
        if key != now.key:
            return key < now.key
        if called is None or now.called is None:  # in a loop inside, which goes round by itself, but no further than
            inner = loops[depth + 1][0].loop if called is None and depth + 1 < len(state) else None
            full = inner is not None and state[depth + 1].number == inner.times  # its source says
            return full and self._begins(state, loops, depth + 1, op)
        if called != now.called:
            return True
        alone = tag.loop is not None and len(self._keys[tag.loop]) == 1 and not op.file
        return alone and op.site == now.head.site > 0 and op.calls == now.head.calls

    def _round(self, number: int) -> Tag:
        tag = self._tags.get(number)
        if tag is None:
            tag = self._tags[number] = Tag("round", str(number))
        return tag

    def _tag(self, tag: Tag) -> Tag:
        """One object for all equal tags."""
        return self._tags.setdefault(tag, tag)

    def _levels(self, number: int, op: OpRow) -> list[Level]:
        """Return the tags of an op without the rounds; for a loop with where in it the op is, and what module was
        called."""
        parts = module_parts(op)
        calls = [call for call in op.calls if len(call) == CALL]
        if not calls and op.line is not None and not op.file:
            end_line, end_col = op.end_line or op.line, op.end_col if op.end_col is not None else op.col or 0
            calls = [[op.line, op.col or 0, end_line, end_col, 0, min(1, len(parts))]]
        key = (op.module, *map(tuple, calls))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._leveled(parts, calls)
        self.branches[number] = known[1]
        return known[0]

    def _leveled(self, parts: list[str], calls: list[list[int]]) -> tuple[list[Level], tuple[Block, ...]]:
        found: list[Level] = []
        branches: list[Block] = []
        at = 0
        outer: list[tuple[int, ...]] = []
        for call in calls[:CALLS]:
            before, called = call[4], tuple(parts[call[4] : call[5]])
            found += [(self._tag(Tag("module", part)), (), None) for part in parts[at:before]]
            at = max(at, before)
            around = self.around(call)
            branches += [b for b in around if b.kind == "branch"]
            loops = [b for b in around if b.kind == "loop"]
            for loop, inner in zip(loops, [*loops, None][1:], strict=True):
                key = _after(inner.statement if inner else call) if inner or tuple(call[:4]) not in loop.heads else ()
                tag = self._tag(Tag("loop", loop.label, loop, tuple(outer)))
                found.append((tag, key, None if inner else called))
            outer.append(tuple(call))
        found += [(self._tag(Tag("module", part)), (), None) for part in parts[at:]]
        return found, tuple(branches)


@dataclass
class _Round:
    """One time round a loop that is being read."""

    head: OpRow
    key: tuple[int, ...]
    called: tuple[str, ...] | None
    number: int = 1


def module_parts(op: OpRow) -> list[str]:
    """Return the parts of an op's module path; what is nested deeper than anyone would is one part."""
    return op.module.split(".", DEPTH_LIMIT - 1) if op.module else []


def times(rows: list[OpRow]) -> int:
    """How often a place in a loop was reached: what most places say, each by the runs that its rows have together.

    A place where a layer is made (a negative site) may be reached many times at once and tells nothing.

    Examples
    --------
    >>> times([OpRow(0, "mul", 2, site=1), OpRow(1, "mul", 3, site=1), OpRow(2, "tanh", 1)])
    5
    """
    met: Counter[object] = Counter()
    for row in rows:
        if row.site >= 0:
            met[row.site or -1 - row.id] += row.count
    said = Counter(count for count in met.values() if count > 1)  # what ran once prepared something
    return max(said, key=lambda count: (said[count], count)) if said else max(met.values(), default=0)


def taken(structure: Structure) -> dict[int, str]:
    """Return what is to be said of branches, by line: how often an op ran in one, and that none did.

    Without an op a branch may have been taken all the same, to print something: it was not where the others of its
    choice were, as often as the choice was made.

    Examples
    --------
    >>> source = "if x.sum() > 0:\\n    y = x.exp()\\nelse:\\n    y = x.log()"
    >>> taken(Structure(Record(source=source, ops=[OpRow(0, "exp", line=2, col=8, end_line=2, end_col=15)])))
    {1: 'branch taken: 1 op ran in it', 3: 'not taken: no op ran in this branch'}
    """
    inside: dict[Block, list[OpRow]] = {}
    for row, branches in zip(structure.record.ops, structure.branches, strict=True):
        for branch in branches:
            inside.setdefault(branch, []).append(row)
    made = _made(structure.blocks) if inside else {}
    told: dict[int, str] = {}
    for branch in inside:
        known = made.get(branch)
        full = known is not None and sum(times(inside[one]) for one in branch.others if one in inside) >= known
        for one in branch.others:
            count = sum(row.count for row in inside.get(one, ()))
            words = f"{count:,} op{'' if count == 1 else 's'} ran in it"
            says = f"branch taken: {words}" if count else "no op ran in this branch"
            says = f"not taken: {says}" if full and not count else says
            if one.line in told and told[one.line] != says:
                says = f"{told[one.line]}; {shorten(one.label, 40)}: {says}"
            told[one.line] = says
    return dict(sorted(told.items()))


def _made(level: list[Block], rounds: int = 1) -> dict[Block, int]:
    """How often the choice of each branch was made, where the source alone says: in no function, in loops of known
    lengths."""
    found: dict[Block, int] = {}
    for block in level:
        if block.kind == "branch":
            found[block] = rounds
            found |= _made(block.inside, rounds)
        elif block.kind == "loop" and block.times is not None:
            found |= _made(block.inside, rounds * block.times)
    return found
