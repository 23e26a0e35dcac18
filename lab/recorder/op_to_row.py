"""Find the row that an op belongs to, from where the user's code called it, in which module, on which inputs.

A loop over batches folds to one iteration with counts, while a loop that feeds its own output (a deep network, an RNN)
unrolls. Parameters are leaves by identity; other tensors made outside are one leaf for each place that reads them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from inspect import CO_NEWLOCALS
from types import CodeType, FrameType
from typing import Any

from core import native
from core.backends.sparse_array import values_of
from core.base.source import is_ours
from core.events import observe

from . import tensor_stats
from .cell_trace import Chain, Leaf, Ref, Row, Trace
from .tensor_types import TENSORS, original
from .user_files import OURS, instruction
from .variable_names import Names, spaces

DEPTH = 64  # frames of the user's code that tell two calls of one function apart
Site = tuple[int, ...]  # a chain as numbers, which hash fast: code objects hash by their whole content
NOWHERE = (0, 0)
NAMELESS = 8  # tensors without a name that an op may read at one place before its others are not looked up
_calls = getattr(native.module, "calls", None)  # the walk over frames in C


class Folder:
    """Gives ops their rows and tensors their leaves, and keeps both in a `Trace`."""

    def __init__(self, trace: Trace, boundary: CodeType | None, limit: int) -> None:
        self.trace, self.boundary, self.limit = trace, boundary, limit
        self.token = object()
        self.names = Names()
        self.path = 0
        self.paths: list[tuple[int, Any, str]] = [(0, None, "")]  # (parent, weak reference to the module, class name)
        self.folded = False
        self.where: list[Mapping[str, Any]] = []  # the user's variables, where their frames do not run any more
        self._numbers = 0
        self._keys: dict[Any, Row] = {}
        self._leaves: dict[Any, Leaf] = {}
        self._trained: dict[int, Leaf] = {}
        self._codes: dict[int, CodeType] = {}
        self._sites: dict[Site, Site] = {}  # as frames tell it -> with every instruction at its beginning
        self._whose: dict[str, bool | None] = {}  # file -> a library's (True), the user's (False), the lab's (None)
        self._nameless: dict[Any, int] = {}  # an op's place -> how many tensors without a name it has read
        self._begins: dict[tuple[int, int], int] = {}  # (code, lasti) -> where that instruction begins
        self._path_numbers: dict[tuple[int, int], int] = {}
        self._chains: dict[Site, Chain] = {}

    # -- rows ----------------------------------------------------------------------------------------------------------

    def row(self, op: str, inputs: tuple[Any, ...], place: observe.Place, inner: observe.Place = None,
            more: tuple[Row, ...] = ()) -> Row:  # fmt: skip
        """Return the row of an op, made when it is new; it also reads `more`."""
        site = self.site(place)
        inside = NOWHERE if inner is None else (id(inner[0]), self._begin(*inner))
        refs: list[Ref] = [*more]
        for k, t in enumerate(inputs):
            if isinstance(t, TENSORS):
                refs.append(self.ref(t, op, site, inside, k))
        if len(refs) > 4:  # a stack of samples: the same input many times is one
            refs = list(dict.fromkeys(refs))
        here = (op, site, inside, self.path)
        row = self._keys.get(here if self.folded else (*here, *map(id, refs)))
        return self._new(here, inner, refs) if row is None else row

    def _new(self, here: Any, inner: observe.Place, refs: list[Ref]) -> Row:
        op, site, _, path = here
        row = self._loop(op, site, refs)
        if row is None:
            if inner is not None:
                self._codes.setdefault(id(inner[0]), inner[0])
            self._numbers += 1
            row = Row(self.token, self._numbers, op, self.chain(site), inner, path, tuple(refs))
            self.trace.rows.append(row)
        self._keys[here if self.folded else (*here, *map(id, refs))] = row
        if len(self.trace.rows) > self.limit and not self.folded:
            self._fold()
        return latest(row)  # type: ignore[no-any-return]

    def _loop(self, op: str, site: Site, refs: list[Ref]) -> Row | None:
        """Return a row without gradient that reads its own earlier output, as in ``total = total + x``: it does not
        unroll."""
        for ref in refs:
            again = isinstance(ref, Row) and ref.op == op and not ref.requires_grad and not ref.cut
            if again and ref.path == self.path and _site(ref.chain) == site:  # type: ignore[union-attr]
                ref.flags.add("again")  # type: ignore[union-attr]
                return ref  # type: ignore[return-value]
        return None

    def _fold(self) -> None:
        """Too many rows: from now on a row is a place. Those that are there become one for each place."""
        self.folded = self.trace.folded = True
        kept: dict[Any, Row] = {}
        for row in self.trace.rows:
            inside = NOWHERE if row.inner is None else (id(row.inner[0]), self._begin(*row.inner))
            first = kept.setdefault((row.op, _site(row.chain), inside, row.path), row)
            if first is not row:
                _absorb(first, row)
        self._keys = kept
        self.trace.rows = list(kept.values())
        for row in self.trace.rows:
            refs = dict.fromkeys(latest(r) for r in row.refs)
            row.refs = tuple(r for r in refs if isinstance(r, Leaf) or r.number < row.number)

    # -- places --------------------------------------------------------------------------------------------------------

    def site(self, place: observe.Place) -> Site:
        """Return the user's frames from the op outwards to the cell's own statement."""
        if place is None:
            return ()
        code, lasti = place
        if not code.co_flags & CO_NEWLOCALS or code is self.boundary:
            raw: Site | None = (id(code), lasti)
        else:
            raw = _calls(code, self._whose, self.boundary, DEPTH) if _calls is not None else None
        if raw is None:
            return self._walk(code, lasti)
        site = self._sites.get(raw)
        if site is None:
            site = self._sites[raw] = self._walk(code, lasti)
        return site

    def _walk(self, code: CodeType, lasti: int) -> Site:
        """Return the same frame by frame, remembering code and files."""
        number = id(code)
        if number not in self._codes:
            self._codes[number] = code
        if not code.co_flags & CO_NEWLOCALS or code is self.boundary:
            return (number, self._begin(code, lasti))
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        site = [number, self._begin(code, lasti)]
        frame = frame.f_back if frame is not None else None
        while frame is not None and len(site) < 2 * DEPTH:
            code = frame.f_code
            file = code.co_filename
            whose = self._whose[file] = True if is_ours(file) else None if file.startswith(OURS) else False
            if whose is None:
                break
            if whose is False:
                number = id(code)
                if number not in self._codes:
                    self._codes[number] = code
                site += (number, self._begin(code, frame.f_lasti))
                if not code.co_flags & CO_NEWLOCALS or code is self.boundary:
                    break
            frame = frame.f_back
        return tuple(site)

    def _begin(self, code: CodeType, lasti: int) -> int:
        """Return where an instruction begins, as `instruction` does, which is asked once for each."""
        found = self._begins.get((id(code), lasti))
        if found is None:
            found = self._begins[id(code), lasti] = instruction(code, lasti)
        return found

    def chain(self, site: Site) -> Chain:
        """Return a site as code objects again."""
        found = self._chains.get(site)
        if found is None:
            found = self._chains[site] = tuple([(self._codes[site[k]], site[k + 1]) for k in range(0, len(site), 2)])
        return found

    def enter(self, module: Any) -> None:
        """Ops now run in `module`."""
        key = (self.path, id(module))
        number = self._path_numbers.get(key)
        if number is not None and self.paths[number][1]() is not module:  # one that is gone had this identity
            kind = type(module).__name__
            if self.paths[number][2] == kind:  # a layer that each pass makes anew
                self.paths[number] = self.path, weakref.ref(module), kind
            else:
                number = None
        if number is None:
            number = self._path_numbers[key] = len(self.paths)
            self.paths.append((self.path, weakref.ref(module), type(module).__name__))
            if id(module) not in self.names.modules:
                self.names.module(module, spaces(sys._getframe(1), OURS))
        self.path = number

    def known_path(self, path: int, module: Any) -> int:
        """Return the number of a module that ran inside the one numbered `path`; `path` where it never did."""
        return self._path_numbers.get((path, id(module)), path)

    def stopped(self, op: str, inputs: tuple[Any, ...], frames: list[tuple[CodeType, int]], path: int) -> Row:
        """Return the row of an op that was not begun, where the user's `frames` (innermost first) called it."""
        site: list[int] = []
        for code, lasti in frames[:DEPTH]:
            self._codes.setdefault(id(code), code)
            site += (id(code), lasti)
        refs = dict.fromkeys(self.ref(t, op, tuple(site), NOWHERE, k) for k, t in enumerate(inputs))
        before, self.path = self.path, path
        try:
            return self._new((op, tuple(site), NOWHERE, path), None, list(refs))
        finally:
            self.path = before

    def leave(self, module: Any) -> None:
        """Ops now run outside of `module`, also where it or one in it was not entered or left as it should."""
        path = self.path
        while path:
            outside, reference, _ = self.paths[path]
            if reference() is module:
                self.path = outside
                return
            path = outside

    # -- tensors -------------------------------------------------------------------------------------------------------

    def ref(self, t: Any, op: str, site: Site, inside: tuple[int, int], position: int) -> Ref:
        """Return the row that made a tensor, or the leaf it is."""
        node, token = t._node, self.token
        if node is not None:
            tag = node.tag
            if tag.__class__ is Row and tag.token is token:
                return tag if tag.into is None else latest(tag)  # type: ignore[no-any-return]
        seen = t._note
        if seen is not None and seen.token is token:
            if seen.__class__ is Leaf:
                return seen  # type: ignore[no-any-return]
            if node is not None:
                node.tag = seen  # a view of a base that was written in place has a node made anew
            if node is not None or not t._requires_grad:
                return latest(seen)  # type: ignore[no-any-return]
            # detach().requires_grad_(): what was made by an op begins a graph of its own
        return self._leaf(t, op, site, inside, position)

    def _leaf(self, t: Any, op: str, site: Site, inside: tuple[int, int], position: int) -> Leaf:
        # kind and shape tell a batch's images from its labels, which a loader takes at one place of its own
        shape = t._a.shape
        key: Any = (op, site, inside, self.path, position, t._kind, len(shape), shape[-1:] == (1,))
        trained = t._requires_grad and t._node is None
        name = None
        if trained:
            same: Any = self._trained.get(id(t))
            if same is not None and same.tensor() is t:  # its mark is another recording's
                t._note = same
                return same
        if trained and not self.folded:
            # a variable bound to a new tensor each time round is one parameter, if the same op reads it
            name = self.name(t)
            key = (name, tuple(shape), *key) if name else id(t)
        before = t._note
        leaf = self._leaves.get(key)
        if leaf is None:
            if name is None:
                place = (op, site, inside, self.path)
                nameless = self._nameless.get(place, 0)
                name = self.name(t) if nameless < NAMELESS else ""  # all gradients that are clipped, say
                if not name:
                    self._nameless[place] = nameless + 1
            kind = "parameter" if trained else "input" if name else "constant"
            leaf = self._leaves[key] = Leaf(self.token, t, kind, name, op, position)
            self.trace.leaves.append(leaf)
            if not trained and "float" in leaf.dtype and shape and t._kind.device.type == "cpu":
                leaf.span = tensor_stats.span(values_of(t._a))
        elif leaf.tensor() is not t:
            leaf.tensor = weakref.ref(t)
            leaf.renewed += 1
        if trained:
            self._trained[id(t)] = leaf
            if before.__class__ is Row and before.token is self.token:
                leaf.made = latest(before)
        t._note = leaf
        return leaf

    def parameter(self, p: Any, name: str = "") -> Leaf:
        """Return the leaf of a parameter, made with `name` if no op read it."""
        leaf: Any = p._note
        if leaf.__class__ is not Leaf or leaf.token is not self.token:
            if not name:
                return self._leaf(p, "", (), NOWHERE, 0)
            leaf = self._trained.get(id(p))
            if leaf is None or leaf.tensor() is not p:
                leaf = self._trained[id(p)] = Leaf(self.token, p, "parameter", name, "", 0)
                self.trace.leaves.append(leaf)
            p._note = leaf
        if p._requires_grad and not leaf.requires_grad:  # it was read before requires_grad_()
            leaf.kind, leaf.requires_grad = "parameter", True
        leaf.name = leaf.name or name
        return leaf  # type: ignore[no-any-return]

    def name(self, t: Any) -> str:
        """Return what the user's variables call a tensor right now."""
        t = original(t)
        return self.names.known(t) or self.names.of(t, self.where or spaces(sys._getframe(1), OURS))


def _site(chain: Chain) -> Site:
    return tuple(x for code, lasti in chain for x in (id(code), lasti))


def latest(ref: Any) -> Any:
    """Return the row that a row was folded into, or itself."""
    while ref.__class__ is Row and ref.into is not None:
        ref = ref.into
    return ref


def _absorb(first: Row, row: Row) -> None:
    """Add `row` to the earlier row of its place."""
    row.into = first
    first.count += row.count
    first.forward_ns += row.forward_ns
    first.backward_ns += row.backward_ns
    first.grown += row.largest > first.largest
    first.largest = max(first.largest, row.largest)
    first.sizes += row.sizes
    first.reached += row.reached
    first.waited_ns += row.waited_ns
    first.max_ns = max(first.max_ns, row.max_ns)
    first.requires_grad |= row.requires_grad
    first.bad = first.bad or row.bad
    first.bad_backward = first.bad_backward or row.bad_backward
    first.stats = row.stats or first.stats
    first.refs = (*first.refs, *row.refs)
