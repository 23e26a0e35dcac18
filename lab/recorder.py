"""The recorder: an observer that folds the ops of a cell into rows while it runs.

A row is an op at one place in the user's code, in one module, on the same inputs. A loop over batches therefore folds to
one iteration with counts, while a loop that feeds its own output (a deep network, an RNN) unrolls. Parameters are leaves
by identity; other tensors made outside are one leaf for each place that reads them.

It listens in the middle of what it times, so it counts its own time and takes it off.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping
from inspect import CO_NEWLOCALS
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from core import modes, observe
from core.op import Operation
from core.source import is_ours
from core.tensor import Tensor

from . import measure
from .naming import Names, spaces
from .trace import Bad, Chain, Gradient, Leaf, Ref, Row, Trace

LIMIT = 10_000  # rows; beyond it they fold by their place alone
FULL, EVERY = 8, 16  # figures of values: the first runs of a row, then every so many
DEPTH = 64  # frames of the user's code that tell two calls of one function apart
OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Recorder(observe.Observer):
    """Hears every event and gathers a `Trace`; an error of its own ends the recording and never the user's code."""

    wants = frozenset({"lineage"})

    def __init__(
        self, files: Mapping[str, int] | None = None, boundary: CodeType | None = None, limit: int = LIMIT
    ) -> None:
        self.trace = Trace(files=dict(files or {}))
        self.boundary, self.limit = boundary, limit
        self.token = object()
        self.error: Exception | None = None
        self.names = Names()
        self.own_ns = 0
        self._keys: dict[Any, Row] = {}
        self._leaves: dict[Any, Leaf] = {}
        self._codes: dict[int, CodeType] = {}
        self._paths: dict[tuple[int, int], int] = {}
        self.paths: list[tuple[int, Any, str]] = [(0, None, "")]  # (parent, weak reference to the module, class name)
        self._path = 0
        # own time since backward() began and since its last node; laps of nodes so far; time of ops in create_graph
        self._window = self._nested = self._laps = self._graph = 0
        self._foreign: list[tuple[Any, int]] = []
        self._update: list[Any] = []
        self._steps = self._numbers = self._noted = 0
        self._folded = False
        self.started_ns = perf_counter_ns()

    # -- what observers hear: every ear is guarded -----------------------------------------------------------------------

    def op(self, event: observe.OpEvent) -> None:
        if self.error is None:
            try:
                self._op(event)
            except Exception as error:
                self._break(error)
        spent = perf_counter_ns() - event.stop_ns
        self.own_ns += spent
        if event.phase == "backward":
            self._nested += spent
            self._window += spent

    def op_failed(self, op: str, inputs: tuple[Any, ...], place: observe.Place, error: BaseException) -> None:
        self._guard(self._op_failed, op, inputs, place, error)

    def backward(self, event: observe.BackwardEvent) -> None:
        if self.error is None:
            try:
                self._backward(event)
            except Exception as error:
                self._break(error)
        self._nested = self._graph = 0
        spent = perf_counter_ns() - event.stop_ns
        self.own_ns += spent
        self._window += spent

    def gradient(self, event: observe.GradientEvent) -> None:
        self._guard(self._gradient, event)

    def cut(self, event: observe.CutEvent) -> None:
        self._guard(self._cut, event)

    def returned(self, event: observe.ReturnEvent) -> None:
        self._guard(self._returned, event)

    def span(self, event: observe.SpanEvent) -> None:
        self._guard(self._span, event)

    def update(self, optimizer: Any, parameters: list[Any], before: bool) -> None:
        self._guard(self._before_update if before else self._after_update, parameters)

    def enter_module(self, module: Any) -> None:
        self._guard(self._enter, module)

    def exit_module(self, module: Any) -> None:
        self._path = self.paths[self._path][0]

    def _guard(self, ear: Callable[..., None], *args: Any) -> None:
        if self.error is not None:
            return
        start = perf_counter_ns()
        try:
            ear(*args)
        except Exception as error:
            self._break(error)
        spent = perf_counter_ns() - start
        self.own_ns += spent
        if observe.phase == "backward":
            self._nested += spent
            self._window += spent

    def _break(self, error: Exception) -> None:
        """Stop recording; the card says why."""
        self.error = error
        observe.remove(self)

    # -- forward ---------------------------------------------------------------------------------------------------------

    def _op(self, e: observe.OpEvent) -> None:
        took = e.stop_ns - e.start_ns
        size = 0
        for t in e.outputs:
            size += t._a.nbytes
        for t in e.inputs:
            if isinstance(t, Tensor):
                size += t._a.nbytes
        view = isinstance(e.declared, Operation) and e.declared.view
        kernel = self.trace.kernels.get((e.kernel, e.backend, e.op))
        if kernel is None:
            kernel = self.trace.kernels[e.kernel, e.backend, e.op] = [0, 0, 0]
        kernel[0] += 1
        kernel[1] += took
        kernel[2] += 0 if view else size
        if e.phase == "backward":
            if e.node is None:
                return  # inside a gradient, whose whole lap counts for the op it is the gradient of
            self._graph += took
            self._window += took
        row = self._row(e.op, e.inputs, e.place, e.inner)
        out = e.outputs[0]
        if row.count == 0:
            self._first(row, e, out)
        row.count += 1
        row.forward_ns += took
        if took > row.max_ns:
            row.max_ns = took
        if e.node is not None:
            e.node.tag = row
            row.requires_grad = True
        for t in e.outputs:
            t._seen = row
        if view:
            return
        for t in e.outputs:
            if t._kind.dtype.category >= 2 and not measure.finite(t._a):
                if row.bad is None:
                    row.bad = self._bad(row, e.inputs, t._a)
                row.stats = measure.stats(out._a)
                return
        if row.count <= FULL or row.count % EVERY == 0:
            row.stats = measure.stats(out._a)

    def _first(self, row: Row, e: observe.OpEvent, out: Any) -> None:
        """What is noted when a row first runs."""
        row.kernel, row.backend, row.phase = e.kernel, e.backend, e.phase
        row.shape, row.dtype, row.device = tuple(out._a.shape), out._kind.dtype.name, out._kind.device.type
        row.size = sum(int(t._a.nbytes) for t in e.outputs)
        if e.node is None and any(isinstance(t, Tensor) and t._requires_grad for t in e.inputs):
            row.stops, row.quiet = True, not modes.state.enabled

    def _bad(self, row: Row, inputs: tuple[Any, ...], a: Any) -> Bad:
        """Look closely at what first was not finite."""
        nan, inf = measure.census(a)
        self._noted += 1
        bad = Bad(nan, inf, int(a.size), run=row.count, when=self._noted)
        for k, t in enumerate(inputs):
            if not isinstance(t, Tensor):
                continue
            bad.inputs.append((str(k), measure.stats(t._a)))
            if t._kind.dtype.category >= 2 and not measure.finite(t._a):
                bad.inputs_finite = False
        return bad

    def _row(
        self, op: str, inputs: tuple[Any, ...], place: observe.Place, inner: observe.Place, more: tuple[Row, ...] = ()
    ) -> Row:
        """The row of an op, made when it is new; it also reads `more`."""
        site = self._site(place)
        inside = (0, 0) if inner is None else (id(inner[0]), inner[1])
        refs: list[Ref] = [*more]
        for k, t in enumerate(inputs):
            if isinstance(t, Tensor):
                refs.append(self._ref(t, op, site, inside, k))
        if len(refs) > 4:  # a stack of samples: the same input many times is one
            refs = list(dict.fromkeys(refs))
        here = (op, site, inside, self._path)
        key = here if self._folded else (*here, *map(id, refs))
        row = self._keys.get(key)
        if row is None:
            row = self._loop(op, site, refs)
            if row is None:
                row = self._new(op, site, inner, tuple(refs))
            self._keys[key] = row
            if len(self.trace.rows) > self.limit and not self._folded:
                return self._fold(row)
        return row

    def _new(self, op: str, site: tuple[int, ...], inner: observe.Place, refs: tuple[Ref, ...]) -> Row:
        if inner is not None:
            self._codes.setdefault(id(inner[0]), inner[0])
        self._numbers += 1
        row = Row(self.token, self._numbers, op, self._chain(site), inner, self._path, refs)
        self.trace.rows.append(row)
        return row

    def _chain(self, site: tuple[int, ...]) -> Chain:
        """A site as code objects again."""
        return tuple((self._codes[site[k]], site[k + 1]) for k in range(0, len(site), 2))

    def _loop(self, op: str, site: tuple[int, ...], refs: list[Ref]) -> Row | None:
        """A row without gradient that reads its own earlier output, as in ``total = total + x``: it does not unroll."""
        for ref in refs:
            if isinstance(ref, Row) and ref.op == op and not ref.requires_grad and not ref.cut:
                chain = tuple(x for code, lasti in ref.chain for x in (id(code), lasti))
                if chain == site and ref.path == self._path:
                    return ref
        return None

    def _fold(self, last: Row) -> Row:
        """Too many rows: from now on a row is a place. Those that are there become one for each place."""
        self._folded = self.trace.folded = True
        kept: dict[Any, Row] = {}
        for row in self.trace.rows:
            chain = tuple(x for code, lasti in row.chain for x in (id(code), lasti))
            inside = (0, 0) if row.inner is None else (id(row.inner[0]), row.inner[1])
            first = kept.setdefault((row.op, chain, inside, row.path), row)
            if first is not row:
                _absorb(first, row)
        self._keys = dict(kept)
        self.trace.rows = list(kept.values())
        for row in self.trace.rows:
            refs = dict.fromkeys(_latest(r) for r in row.refs)
            row.refs = tuple(r for r in refs if isinstance(r, Leaf) or r.number < row.number)
        return _latest(last)  # type: ignore[return-value]

    def _site(self, place: observe.Place) -> tuple[int, ...]:
        """The user's frames from the op outwards to the cell's own statement, as numbers that hash fast."""
        if place is None:
            return ()
        code, lasti = place
        number = id(code)
        if number not in self._codes:
            self._codes[number] = code
        if not code.co_flags & CO_NEWLOCALS or code is self.boundary:
            return (number, lasti)
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        site: list[int] = [] if frame is not None else [number, lasti]
        while frame is not None and len(site) < 2 * DEPTH:
            code = frame.f_code
            name = code.co_filename
            if not is_ours(name):
                if name.startswith(OURS):
                    break
                number = id(code)
                if number not in self._codes:
                    self._codes[number] = code
                site += (number, frame.f_lasti)
                if not code.co_flags & CO_NEWLOCALS or code is self.boundary:
                    break
            frame = frame.f_back
        return tuple(site)

    def _ref(self, t: Any, op: str, site: tuple[int, ...], inside: tuple[int, int], position: int) -> Ref:
        """The row that made a tensor, or the leaf it is."""
        node, token = t._node, self.token
        if node is not None:
            tag = node.tag
            if tag.__class__ is Row and tag.token is token:
                return tag if tag.into is None else _latest(tag)
        seen = t.__dict__.get("_seen")
        if seen is not None and seen.token is token:
            if node is not None and seen.__class__ is Row:
                node.tag = seen  # made by a custom function or a view of a changed base
            return _latest(seen)
        return self._leaf(t, op, site, inside, position)

    def _leaf(self, t: Any, op: str, site: tuple[int, ...], inside: tuple[int, int], position: int) -> Leaf:
        key: Any = (op, site, inside, self._path, position)
        trained = t._requires_grad and t._node is None
        name = None
        if trained and not self._folded:
            # a variable bound to a new tensor each time round is one parameter, if the same op reads it
            name = self.name(t)
            key = (name, tuple(t._a.shape), *key) if name else id(t)
        leaf = self._leaves.get(key)
        if leaf is None:
            kind = "parameter" if trained else "constant"
            name = self.name(t) if name is None else name
            leaf = Leaf(self.token, t, kind if trained or not name else "input", name, op, position)
            self._leaves[key] = leaf
            self.trace.leaves.append(leaf)
        elif leaf.tensor() is not t:
            leaf.tensor = weakref.ref(t)
        t._seen = leaf
        return leaf

    def name(self, t: Any) -> str:
        """What the user's variables call a tensor right now."""
        return self.names.of(t, spaces(sys._getframe(1), OURS))

    def _op_failed(self, op: str, inputs: tuple[Any, ...], place: observe.Place, error: BaseException) -> None:
        if op == "backward":
            site = self._site(place)
            self.trace.failed.append((self._ref(inputs[0], op, site, (0, 0), 0), self._chain(site)))
            return
        row = self._row(op, inputs, place, None)
        row.count += 1
        row.error = f"{type(error).__name__}: {error}".splitlines()[0]

    # -- backward --------------------------------------------------------------------------------------------------------

    def _backward(self, e: observe.BackwardEvent) -> None:
        node = e.node
        net = max(e.stop_ns - e.start_ns - self._nested - self._graph, 0)
        self._laps += net
        if e.kernel and e.kernel != "passes" and not e.kernel.endswith(" vjp"):
            backend = node.tag.backend if node.tag.__class__ is Row else ""
            key = (e.kernel, backend, f"{node.op.name} backward")
            kernel = self.trace.kernels.setdefault(key, [0, 0, 0])
            kernel[0] += 1
            kernel[1] += net
        row = node.tag
        if row.__class__ is not Row or row.token is not self.token:
            self._foreign.append((node, net))  # made by another cell: its time counts for this call of backward()
            return
        row = _latest(row)
        row.backward_ns += net
        row.reached += 1
        if row.bad_backward is None:
            for g in e.results:
                a = g._a if isinstance(g, Tensor) else g
                if a is not None and a.dtype.kind not in "iub" and not measure.finite(a):
                    nan, inf = measure.census(a)
                    self._noted += 1
                    row.bad_backward = Bad(nan, inf, int(a.size), self._saved(node), run=row.reached, when=self._noted)
                    break

    def _saved(self, node: Any) -> list[tuple[str, Any]]:
        """The ranges of what a node saved, by name."""
        found = []
        for slot, value in zip(getattr(node.op, "slots", ()), node.saved or (), strict=False):
            if slot is not None and hasattr(value, "dtype") and hasattr(value, "shape"):
                found.append((slot.where, measure.stats(value)))
        return found

    def _gradient(self, e: observe.GradientEvent) -> None:
        leaf = self.parameter(e.leaf)
        g = self.trace.gradients.get(leaf)
        if g is None:
            g = self.trace.gradients[leaf] = Gradient()
        g.count += 1
        if g.count == 1:  # the parameter may be gone when the recording ends
            self.trace.weights[leaf] = measure.rms(e.leaf._a)
        g.fresh = e.gradient.size <= measure.SAMPLE // 8 or g.count <= 4 or g.count % EVERY == 0
        if g.fresh or not measure.finite(e.gradient):
            measure.gradient(g, e.gradient)
            g.fresh = True

    def _span(self, e: observe.SpanEvent) -> None:
        whole = max(e.stop_ns - e.start_ns - self._window, self._laps)
        self.trace.backward_ns += whole
        chain = self._chain(self._site(e.place))
        if chain not in self.trace.backwards:
            self.trace.backwards.append(chain)
        # what the engine does between the nodes: adding gradients up, freeing what was saved
        rest = whole - self._laps + sum(ns for _, ns in self._foreign)
        line = self.trace.line(chain)
        if line is not None:
            self.trace.lines.setdefault(line, [0, 0, 0])[1] += rest
        self._foreign.clear()
        self._laps = self._window = self._nested = self._graph = 0

    # -- leaving the graph -------------------------------------------------------------------------------------------------

    def _cut(self, e: observe.CutEvent) -> None:
        row = self._row("~" + e.kind, (e.tensor,), e.place, None)
        row.cut = e.kind
        row.count += 1
        if e.tensor._requires_grad:
            row.stops = True
        if isinstance(e.result, Tensor):
            e.result._seen = row
        else:
            e.tensor._left = row
        row.shape, row.dtype = tuple(e.tensor._a.shape), e.tensor._kind.dtype.name

    def _returned(self, e: observe.ReturnEvent) -> None:
        left = [row for t in e.sources if (row := t.__dict__.get("_left")) is not None and row.token is self.token]
        row = self._row("~return", (), e.place, None, tuple(dict.fromkeys(_latest(r) for r in left)))
        row.cut, row.steps, row.count = "return", e.steps, row.count + 1
        row.shape, row.dtype = tuple(e.tensor._a.shape), e.tensor._kind.dtype.name
        e.tensor._seen = row

    # -- modules and optimizers --------------------------------------------------------------------------------------------

    def _enter(self, module: Any) -> None:
        key = (self._path, id(module))
        number = self._paths.get(key)
        if number is None:
            number = self._paths[key] = len(self.paths)
            self.paths.append((self._path, weakref.ref(module), type(module).__name__))
            if id(module) not in self.names.modules:
                self.names.module(module, spaces(sys._getframe(1), OURS))
        self._path = number

    def _before_update(self, parameters: list[Any]) -> None:
        self._steps += 1
        n = self._steps
        sampled = n & (n - 1) == 0 or n % 64 == 0  # steps 1, 2, 4, 8, ...: copies cost memory traffic
        copies = [(p, p._a.copy()) for p in parameters] if sampled else []
        frame = sys._getframe(1)
        while frame is not None and (is_ours(frame.f_code.co_filename) or frame.f_code.co_filename.startswith(OURS)):
            frame = frame.f_back  # type: ignore[assignment]
        site = () if frame is None else self._site((frame.f_code, frame.f_lasti))
        if n == 1 or sampled:
            for p in parameters:
                self.trace.optimized.setdefault(self.parameter(p))
        self._update = [copies, site, self.own_ns, perf_counter_ns()]

    def _after_update(self, parameters: list[Any]) -> None:
        stop = perf_counter_ns()
        if not self._update:
            return
        copies, site, own, start = self._update
        took = max(stop - start - (self.own_ns - own), 0)
        self.trace.update_ns += took
        self._update = []
        line = self.trace.line(self._chain(site))
        if line is not None:
            spent = self.trace.lines.setdefault(line, [0, 0, 0])
            spent[0] += took
            spent[2] += 1
        for p, before in copies:
            size = measure.norm(before)
            if size:
                change = measure.on_host(p._a).astype("float64") - measure.on_host(before)
                self.trace.updates[self.parameter(p)] = measure.norm(change) / size

    def parameter(self, p: Any, name: str = "") -> Leaf:
        """The leaf of a parameter, made with `name` if no op read it."""
        leaf = p.__dict__.get("_seen")
        if leaf.__class__ is not Leaf or leaf.token is not self.token:
            if not name:
                return self._leaf(p, "", (), (0, 0), 0)
            leaf = p._seen = Leaf(self.token, p, "parameter", name, "", 0)
            self.trace.leaves.append(leaf)
        leaf.name = leaf.name or name
        return leaf  # type: ignore[no-any-return]


def _latest(ref: Any) -> Any:
    """The row that a row was folded into, or itself."""
    while ref.__class__ is Row and ref.into is not None:
        ref = ref.into
    return ref


def _absorb(first: Row, row: Row) -> None:
    """Add `row` to the earlier row of its place."""
    row.into = first
    first.count += row.count
    first.forward_ns += row.forward_ns
    first.backward_ns += row.backward_ns
    first.reached += row.reached
    first.max_ns = max(first.max_ns, row.max_ns)
    first.requires_grad |= row.requires_grad
    first.bad = first.bad or row.bad
    first.bad_backward = first.bad_backward or row.bad_backward
    first.stats = row.stats or first.stats
    first.refs = (*first.refs, *row.refs)
