"""The recorder: an observer that reduces what a cell does to rows and figures while it runs.

It listens in the middle of what it times, so it counts its own time and takes it off.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from threading import get_ident
from time import perf_counter_ns
from types import CodeType
from typing import Any

from core import backends
from core.base import modes
from core.events import observe

from . import tensor_stats, value_facts
from .cell_trace import Bad, Copied, Gradient, Leaf, Row, Trace
from .kernel_choices import backwards, chosen
from .live_bytes import follower
from .loss_course import Course
from .op_facts import NOTED, given, note, sums_of
from .op_to_row import NOWHERE, Folder, latest
from .optimizer_steps import Steps
from .repeats import Repeats, anomaly_on
from .tensor_types import TENSORS
from .user_files import users_frame

LIMIT = 10_000  # rows; beyond it they fold by their place alone
BY_DATA = {"sub", "add", "sub_", "add_"}  # how a parameter's values are moved without an optimizer
COPIES = {"move", "to", "cuda", "cpu"}  # ops that may copy from one device to another
EVENTS = 20_000  # single runs that the timeline keeps
COPIED = 256  # tensors whose copies are told apart
FULL, EVERY = 4, 16  # figures of values: the first runs of a row, then every so many


class Recorder(observe.Observer):
    """Hears every event of the thread that made it and gathers a `Trace`; an error of its own ends the recording and
    never the user's code. What other threads do is not in the trace: `elsewhere` counts it."""

    wants = frozenset({"lineage"})

    def __init__(
        self, files: Mapping[str, int] | None = None, boundary: CodeType | None = None, limit: int = LIMIT
    ) -> None:
        self.trace = Trace(files=dict(files or {}), values=value_facts.ValueFacts())
        self.fold = Folder(self.trace, boundary, limit)
        self.steps = Steps(self.fold, self.trace)
        self.repeats = Repeats(self.trace)
        self.memory = follower(self.trace.blocks, self)
        self.error: Exception | None = None
        self.elsewhere = 0  # events of other threads
        self.thread = get_ident()  # whose events these are
        self.own_ns = self.around_ns = 0  # the second is what listening to another library costs beside that
        # own time since backward() began and since its last node; laps of nodes so far; time of ops in create_graph
        self._window = self._nested = self._laps = self._graph = 0
        self._backends: dict[tuple[str, str], str] = {}
        self._foreign: list[tuple[Any, int]] = []
        self._update: list[Any] = []
        self._moved: dict[tuple[int, int], tuple[Any, int, int]] = {}  # (row, tensor) -> it, its version, copies
        self._left: dict[int, tuple[Any, Row]] = {}  # a tensor whose values NumPy got -> it, and the row of that
        self.root: Row | None = None  # what backward() runs on, once its first node has run
        self._steps = self._noted = 0
        self._optimizers: dict[int, Any] = {}  # a weak reference to each: an id is used again
        self.started_ns = self.trace.started_ns = perf_counter_ns()

    # -- what observers hear: every ear is guarded ---------------------------------------------------------------------

    def op(self, event: observe.OpEvent) -> None:
        if get_ident() != self.thread:
            self.elsewhere += 1
            return
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

    def compiled(self, function: Any) -> None:
        self._guard(self.trace.compiled.setdefault, id(function), function)

    def op_failed(self, op: str, inputs: tuple[Any, ...], place: observe.Place, error: BaseException) -> None:
        self._guard(self._op_failed, op, inputs, place, error)

    def backward(self, event: observe.BackwardEvent) -> None:
        if get_ident() != self.thread:
            return
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
        if not parameters or parameters[0]._kind.device.type != "meta":
            self._guard(self._before_update if before else self._after_update, optimizer, parameters)

    def enter_module(self, module: Any) -> None:
        self._guard(self._enter, module)

    def exit_module(self, module: Any) -> None:
        try:
            self._guard(self.fold.leave, module)
        except BaseException:  # Ctrl-C: what runs next is outside of the module for all that
            self._guard(self.fold.leave, module)
            raise

    def failed(self, error: Exception) -> None:
        self._break(error)

    def _guard(self, ear: Callable[..., None], *args: Any) -> None:
        if self.error is not None or get_ident() != self.thread:
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

    def goes_on(self) -> None:
        """Listen again, at the end of a step: what was not heard to end has ended."""
        self.fold.path, self._update, self.root, self._foreign = 0, [], None, []
        self._window = self._nested = self._laps = self._graph = 0

    def _break(self, error: Exception) -> None:
        """Stop recording; the card says why."""
        self.error = error
        observe.remove(self)

    # -- forward -------------------------------------------------------------------------------------------------------

    def _op(self, e: observe.OpEvent) -> None:
        if e.outputs and e.outputs[0]._kind.device.type == "meta":
            return  # no values, and no time to speak of
        took, view = e.stop_ns - e.start_ns, getattr(e.declared, "view", False)
        kernel = self.trace.kernels.get((e.kernel, e.backend, e.op))
        if kernel is None:
            kernel = self.trace.kernels[e.kernel, e.backend, e.op] = [0, 0, 0]
            self.trace.choices[e.kernel, e.backend, e.op] = chosen(e)
        kernel[0] += 1
        kernel[1] += took
        made = 0
        if not view:
            for t in e.outputs:
                made += t._a.nbytes
            kernel[2] += made
            for t in e.inputs:
                if isinstance(t, TENSORS):
                    kernel[2] += t._a.nbytes
        if e.phase == "backward":
            if e.node is None:
                return  # inside a gradient, whose whole lap counts for the op it is the gradient of
            self._graph, self._window = self._graph + took, self._window + took
        inputs = e.inputs
        if not e.outputs:  # an optimizer's step: its parameters, and not their gradients
            inputs = tuple(t for t in inputs if isinstance(t, TENSORS) and t._requires_grad)
        row = self.fold.row(e.op, inputs, e.place, e.inner)
        if row.count == 0:
            self._first(row, e)
        row.count += 1
        row.forward_ns += took
        if took > row.max_ns:
            row.max_ns = took
        events = self.trace.events
        if len(events) < EVENTS:
            events.append((row, e.start_ns - self.own_ns, took, e.phase))  # without what the recorder took so far
        if e.node is not None:
            e.node.tag = row
            row.requires_grad = True
        for t in e.outputs:
            t._note = row
        row.view = view
        if e.op in COPIES:
            self._copied(row, e)
        elif e.op in NOTED:
            note(self.fold, self.trace, row, e)
        if e.op in BY_DATA and not row.requires_grad:
            self._by_data(row)
        if e.op in value_facts.NOTED:
            value_facts.note(self.trace, row, e)
        if view or not e.outputs:
            return
        self.repeats.note(row, e, took, made)
        if e.backend != "PyTorch":  # whose saved tensors outlive their Python objects
            for t in e.outputs:
                self.memory.made(row, t._a, e.stop_ns - self.own_ns, False)
        if not row.shape and row.requires_grad and row.device == "cpu":
            value = float(e.outputs[0]._a)
            if row.course is None:
                row.course = Course()
            row.course.note(value)
        output = e.outputs[0]
        due = row.count <= FULL or row.count % EVERY == 0
        seen = tensor_stats.glance(output._a) if due else None  # where not None, all of it is finite
        for t in e.outputs:
            if (seen is None or t is not output) and t._kind.dtype.category >= 2 and not tensor_stats.finite(t._a):
                if row.bad is None or due:
                    seen, nan, inf = tensor_stats.look(t._a)
                    if row.bad is None:
                        row.bad = self._bad(row, e.inputs, Bad(nan, inf, int(t._a.size)))
                    seen, due = seen if t is output else None, True
                break
        if due:
            row.stats = tensor_stats.stats(output._a) if seen is None else seen

    def _copied(self, row: Row, e: observe.OpEvent) -> None:
        """Count a copy between devices, and whether it is of the same values as the last."""
        given, made = e.inputs[0], e.outputs[0]
        to = e.params["to"] if e.op == "move" else made._kind.device  # core's gets its new kind after the event
        if to is None or to.type == given._kind.device.type:
            return
        found = self.trace.copies.get(row)
        if found is None:
            found = self.trace.copies[row] = Copied(to.type)
        found.count += 1
        found.size += int(given._a.nbytes)
        found.ns += e.stop_ns - e.start_ns
        key, version = (row.number, id(given)), given._version
        held, before, times = self._moved.get(key, (None, -1, 0))
        times = times + 1 if held is not None and held() is given and before == version else 1
        if times > 1 or len(self._moved) < COPIED:
            self._moved[key] = (weakref.ref(given), version, times)
        found.same = max(found.same, times)

    def _by_data(self, row: Row) -> None:
        """The values of a parameter are changed by its .data, which leaves its version as it is."""
        data = row.refs[0] if row.refs else None
        if data.__class__ is Row and data.cut == "data" and data.refs and data.refs[0].__class__ is Leaf:  # type: ignore[union-attr]
            t = data.refs[0].tensor()  # type: ignore[union-attr]
            if t is not None and t._requires_grad and t._grad is not None:
                self.steps.moved(t)

    def _first(self, row: Row, e: observe.OpEvent) -> None:
        """What is noted when a row first runs."""
        row.kernel, row.backend, row.phase = e.kernel, e.backend, e.phase
        row.size = sum(int(t._a.nbytes) for t in e.outputs or e.inputs if isinstance(t, TENSORS))
        if not e.outputs:  # an optimizer's step, which changes its inputs
            return
        out = e.outputs[0]
        row.shape, row.dtype, row.device = tuple(out._a.shape), out._kind.dtype.name, out._kind.device.type
        row.judged = self.steps.judging(row.path)
        row.sums = sums_of(row, e)
        if e.node is None and any(isinstance(t, TENSORS) and t._requires_grad for t in e.inputs):
            row.stops, row.quiet = True, not modes.state.enabled

    def _bad(self, row: Row, inputs: tuple[Any, ...], bad: Bad) -> Bad:
        """Look closely at what led to the first values that were not finite."""
        self._noted += 1
        bad.run, bad.when = row.count, self._noted
        for k, t in enumerate(inputs):
            if not isinstance(t, TENSORS):
                continue
            seen = tensor_stats.glance(t._a)
            bad.inputs.append((str(k), tensor_stats.stats(t._a) if seen is None else seen))
            if seen is None and t._kind.dtype.category >= 2 and not tensor_stats.finite(t._a):
                bad.inputs_finite = False
        return bad

    def _op_failed(self, op: str, inputs: tuple[Any, ...], place: observe.Place, error: BaseException) -> None:
        if not isinstance(error, Exception):
            return  # the user stopped it
        if op == "backward":
            site = self.fold.site(place)
            self.trace.failed.append((self.fold.ref(inputs[0], op, site, NOWHERE, 0), self.fold.chain(site)))
            return
        row = self.fold.row(op, inputs, place)
        row.count += 1
        row.error = f"{type(error).__name__}: {error}".splitlines()[0]
        row.given = given(inputs)

    # -- backward ------------------------------------------------------------------------------------------------------

    def _backward(self, e: observe.BackwardEvent) -> None:
        node = e.node
        if node.kind.device.type == "meta":
            return
        net = max(e.stop_ns - e.start_ns - self._nested - self._graph, 0)
        self._laps += net
        if e.kernel and e.kernel != "passes" and not e.kernel.endswith(" vjp"):
            key = (e.kernel, self._backend_of(node, e.kernel), f"{node.op.name} backward")
            kernel = self.trace.kernels.get(key)
            if kernel is None:
                kernel = self.trace.kernels[key] = [0, 0, 0]
                self.trace.choices[key] = backwards(*key)
            kernel[0] += 1
            kernel[1] += net
        row = node.tag
        if row.__class__ is not Row or row.token is not self.fold.token:
            self._foreign.append((node, net))  # made by another cell: its time counts for this call of backward()
            return
        row = latest(row)
        if self.root is None:
            self.root = row
        if len(self.trace.events) < EVENTS:
            self.trace.events.append((row, e.start_ns - self.own_ns, net, "backward"))
        row.backward_ns, row.reached = row.backward_ns + net, row.reached + 1
        # what a view or an addition passes on is what the op behind it sent, which was looked at there
        looks = row.bad_backward is None and e.kernel != "passes" and not getattr(node.op, "view", False)
        memory = self.memory
        for g in e.results:
            if g is None:
                continue
            a = g._a if isinstance(g, TENSORS) else g
            if e.kernel:
                memory.made(row, a, e.stop_ns - self.own_ns, True)
            if looks and a.dtype.kind not in "iub":
                if tensor_stats.finite(a):
                    memory.found_finite(a)
                    continue
                nan, inf = tensor_stats.census(a)
                self._noted += 1
                row.bad_backward = Bad(nan, inf, int(a.size), self._saved(node), run=row.reached, when=self._noted)
                looks = False

    def _backend_of(self, node: Any, kernel: str) -> str:
        """Whose a gradient's kernel is: its own row says so, and a map's is its forward kernel's neighbour."""
        found = self._backends.get((kernel, node.op.name))
        if found is None:
            rows = backends.rows(f"{node.op.name}.backward", node.kind.device.type)
            forward = node.tag.backend if node.tag.__class__ is Row else ""
            found = next((row.backend for row in rows if row.name == kernel), forward)
            self._backends[kernel, node.op.name] = found
        return found

    def _saved(self, node: Any) -> list[tuple[str, Any]]:
        """Return the ranges of what a node saved, by name."""
        found = []
        for slot, value in zip(getattr(node.op, "slots", ()), node.saved or (), strict=False):
            if slot is not None and hasattr(value, "dtype") and hasattr(value, "shape"):
                found.append((slot.where, tensor_stats.stats(getattr(value, "_a", value))))
        return found

    def _gradient(self, e: observe.GradientEvent) -> None:
        if e.leaf._kind.device.type == "meta":
            return
        self.steps.gradient(e.leaf, e.accumulated)
        leaf = self.fold.parameter(e.leaf)
        g = self.trace.gradients.get(leaf) or self.trace.gradients.setdefault(leaf, Gradient())
        g.count += 1
        g.accumulated |= e.accumulated
        if g.count == 1:  # the parameter may be gone when the recording ends
            self.trace.weights[leaf] = tensor_stats.rms(tensor_stats.spread(e.leaf._a))
        g.fresh = g.count & (g.count - 1) == 0 or g.count % EVERY == 0 or self.steps.doubts
        if g.fresh or not (self.memory.was_finite(e.gradient) or tensor_stats.finite(e.gradient)):
            tensor_stats.gradient(g, e.gradient)
            g.fresh = True
        if g.count <= 2 and e.leaf._a.ndim > 1:
            kept = tensor_stats.rows_alike(e.leaf._a) and tensor_stats.rows_alike(e.gradient)
            kept = kept and (g.count == 1 or leaf in self.trace.alike)
            (self.trace.alike.add if kept else self.trace.alike.discard)(leaf)
        if g.count == 1:
            if tensor_stats.constant(e.leaf._a):
                self.trace.constant.add(leaf)
            self.trace.first[leaf] = self.trace.weights[leaf], g.rms

    def _span(self, e: observe.SpanEvent) -> None:
        whole = max(e.stop_ns - e.start_ns - self._window, self._laps)
        self.trace.backward_ns += whole
        chain = self.trace.steps.last_backward = self.fold.chain(self.fold.site(e.place))
        span = self.trace.spans.setdefault(chain, [0, 0])
        span[0] += 1
        span[1] += whole
        if span[0] == 1:
            self.trace.anomaly |= anomaly_on()
        ran = self.trace.backwards if e.name == "backward" else self.trace.chosen
        if chain not in ran:
            ran.append(chain)
        self.steps.passed(chain)
        if self.root is not None:
            self.trace.roots.setdefault(chain, {})[self.root] = None
            self.root = None
        # what the engine does between the nodes: adding gradients up, freeing what was saved
        rest = whole - self._laps + sum(ns for _, ns in self._foreign)
        line = self.trace.line(chain)
        if line is not None:
            spent = self.trace.lines.setdefault(line, [0, 0, 0])
            spent[1] += rest
            spent[2] += 1
        self._foreign.clear()
        self._laps = self._window = self._nested = self._graph = 0

    # -- leaving the graph ---------------------------------------------------------------------------------------------

    def _cut(self, e: observe.CutEvent) -> None:
        before = e.result._note if isinstance(e.result, TENSORS) and e.result is not e.tensor else None
        if before.__class__ is Row and before.token is self.fold.token and before.cut == e.kind:
            # the next of several tensors whose values were copied into one
            ref = self.fold.ref(e.tensor, before.op, self.fold.site(e.place), NOWHERE, 0)
            if ref not in before.refs:
                before.refs = (*before.refs, ref)
            before.stops |= e.tensor._requires_grad
            return
        row = self.fold.row("~" + e.kind, (e.tensor,), e.place)
        row.cut = e.kind
        row.count += 1
        if e.tensor._requires_grad:
            row.stops = True
        if isinstance(e.result, TENSORS):
            e.result._note = row
        elif e.kind == "numpy":
            self._leave(e.tensor, row)
        row.shape, row.dtype = tuple(e.tensor._a.shape), e.tensor._kind.dtype.name
        row.device = e.tensor._kind.device.type
        row.waited_ns += e.stop_ns - e.start_ns

    def _leave(self, t: Any, row: Row) -> None:
        """Note where the values of a tensor left, until it is gone: its array may come back."""
        key, left = id(t), self._left
        left[key] = weakref.ref(t, lambda _: left.pop(key, None)), row

    def _returned(self, e: observe.ReturnEvent) -> None:
        left = [known[1] for t in e.sources if (known := self._left.get(id(t))) is not None and known[0]() is t]
        row = self.fold.row("~return", (), e.place, None, tuple(dict.fromkeys(latest(r) for r in left)))
        row.cut, row.steps, row.count = "return", e.steps, row.count + 1
        row.shape, row.dtype = tuple(e.tensor._a.shape), e.tensor._kind.dtype.name
        e.tensor._note = row

    # -- modules and optimizers ----------------------------------------------------------------------------------------

    def _enter(self, module: Any) -> None:
        self.fold.enter(module)
        self.steps.enter(module)

    def _before_update(self, optimizer: Any, parameters: list[Any]) -> None:
        n = self._steps = self._steps + 1
        sampled = n & (n - 1) == 0 or n % 64 == 0  # steps 1, 2, 4, 8, ...: copies cost memory traffic
        copies = [(p, self._some(p).copy()) for p in parameters] if sampled else []
        frame = users_frame(sys._getframe(1))
        site = () if frame is None else self.fold.site((frame.f_code, frame.f_lasti))
        self.steps.before(optimizer, parameters, site)
        known = self._optimizers.get(id(optimizer))
        if sampled or known is None or known() is not optimizer:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
            place, facts = self.fold.chain(site), self.trace.steps
            for p in parameters:
                leaf = self.fold.parameter(p)
                self.trace.optimized.setdefault(leaf)
                facts.stepped[leaf], facts.fed[leaf] = place, facts.last_backward
        self._update = [copies, site, self.own_ns, perf_counter_ns()]

    def _some(self, p: Any) -> Any:
        """Return what is compared of a parameter before and after a step: evenly spaced values, or all where few
        move."""
        leaf = self.fold.parameter(p)
        g = self.trace.gradients.get(leaf)
        return tensor_stats.spread(p._a) if g is not None and g.zeros < 0.5 else p._a

    def _after_update(self, optimizer: Any, parameters: list[Any]) -> None:
        stop = perf_counter_ns()
        if not self._update:
            return
        self.steps.after(parameters)
        (copies, site, own, start), self._update = self._update, []
        took = max(stop - start - (self.own_ns - own), 0)
        self.trace.update_ns += took
        line = self.trace.line(self.fold.chain(site))
        if line is not None:
            spent = self.trace.lines.setdefault(line, [0, 0, 0])
            spent[0] += took
            spent[2] += 1
        for p, before in copies:
            after = p._a if before.shape == p._a.shape else tensor_stats.spread(p._a)
            moved, size = tensor_stats.change(after, before)
            if not size:
                self.trace.steps.from_zero.add(self.fold.parameter(p))
            else:
                leaf = self.fold.parameter(p)
                ratio = self.trace.updates[leaf] = moved / size
                # beside a weight that begins at (almost) nothing every step is large
                if ratio == ratio and size > 1e-3 * before.size**0.5:
                    self.trace.largest[leaf] = max(ratio, self.trace.largest.get(leaf, 0.0))
