"""Gradients averaged over processes while the backward pass goes on.

Parameters are gathered in buckets, flat buffers that live as long as the reducer. A parameter's gradient is copied into
its bucket by the hook that the engine calls as soon as the gradient is whole, and a bucket whose last gradient has come
is sent at once, after those before it: so all processes send the same buckets in the same order, whatever the order in
which their gradients arrive. After the first pass the buckets follow the order of arrival on rank 0. Source: Li et al.,
PyTorch Distributed, VLDB 2020, section 3.2.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.put_off import queue_callback
from ..base.dtypes import int32
from ..base.errors import text
from ..base.modes import no_grad
from ..graph.node import Node
from ..graph.versions import edge
from ..ops.creation import tensor
from ..ops.elementwise import mul
from ..tensors.tensor import Tensor
from .collectives import all_reduce, broadcast
from .flat import divided, flat_buffer, own_part
from .groups import get_rank, get_world_size
from .work import progress

__all__ = ["GradBucket", "Reducer"]

CommHook = Callable[[Any, "GradBucket"], Any]


class Bucket:
    """Parameters of one dtype, their gradients in one flat buffer, and how many of these are still to come."""

    def __init__(self, params: list[Tensor]) -> None:
        self.params, self.left = params, len(params)
        self.flat, self.views = flat_buffer(params)
        self.work: Any = None  # what was launched: a Work, or the future that a hook gave


class GradBucket:
    """A bucket as a communication hook sees it."""

    def __init__(self, bucket: Bucket, index: int, last: bool) -> None:
        self._bucket, self._index, self._last, self._buffer = bucket, index, last, bucket.flat

    def index(self) -> int:
        """Return its number: buckets are sent in this order."""
        return self._index

    def buffer(self) -> Tensor:
        """Return the flat buffer of its gradients."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Let `buffer` give another tensor, of as many elements."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients: parts of the buffer in the shapes of the parameters."""
        return list(self._bucket.views)

    def parameters(self) -> list[Tensor]:
        """Return the parameters in the order of their gradients."""
        return list(self._bucket.params)

    def is_last(self) -> bool:
        """Return whether it is the last one of a pass."""
        return self._last


class Reducer:
    """Averages the gradients of parameters over the processes of a group, in every pass that `prepare` announced.

    params : parameters with their names, in an order that is the same in all processes.
    first_bytes, cap_bytes : how many bytes close the first bucket, and the others.
    find_unused : whether a pass may leave out parameters; `prepare` is told of the outputs then.
    as_view : whether `.grad` becomes a part of the bucket, rather than a copy.
    static : whether every pass is like the first: which parameters it leaves out, and how often each is reached.
    """

    def __init__(self, params: Sequence[tuple[str, Tensor]], group: Any, first_bytes: int, cap_bytes: int,
                 find_unused: bool = False, as_view: bool = False, static: bool = False) -> None:  # fmt: skip
        self.names = [name for name, _ in params]
        self.params = [p for _, p in params]
        self.number = {id(p): k for k, p in enumerate(self.params)}
        self.group, self.caps = group, (first_bytes, cap_bytes)
        self.find_unused, self.as_view, self.static = find_unused, as_view, static
        self.hook: tuple[CommHook, Any] | None = None
        self.divisor = get_world_size(group)
        self.rebuilt = find_unused and not static  # where passes differ, the first one tells nothing
        self.order: list[int] = []  # as gradients arrived in the first pass
        self.fired: dict[int, int] = {}  # how often each parameter was reached in the first pass, where all are alike
        self.used, self.passes = [1] * len(params), 0
        self.sparse: set[int] = set()  # parameters whose gradients are sparse: they are sent as dense ones
        self.expecting = self.begun = False
        self._build(list(range(len(params)))[::-1])
        arrived = weakref.WeakMethod(self._arrived)
        handles = [p.register_post_accumulate_grad_hook(_weakly(arrived)) for p in self.params]
        weakref.finalize(self, _remove, handles)

    def _build(self, order: list[int]) -> None:
        self.buckets = [Bucket([self.params[order[k]] for k in numbers])
                        for numbers in divided([self.params[k] for k in order], *self.caps)]  # fmt: skip
        self.place = {id(p): (b, view) for b in self.buckets for p, view in zip(b.params, b.views, strict=True)}
        self._reset()

    def _reset(self) -> None:
        self.next, self.begun, self.waiting = 0, False, {id(p) for p in self.params}
        self.unused: list[Tensor] = []
        self.reached = dict(self.fired)
        self.sent_used: Any = None
        for b in self.buckets:
            b.left, b.work = len(b.params), None

    # -- before a pass -----------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Once, after the first pass: put the parameters into buckets in the order in which rank 0 saw them arrive."""
        if self.rebuilt or not self.passes:
            return
        self.rebuilt = True
        order = self.order if len(self.order) == len(self.params) else list(range(len(self.params)))[::-1]
        told = tensor(order, dtype=int32)
        broadcast(told, group=self.group, group_src=0)
        self._build(told.tolist())  # type: ignore[attr-defined]

    def check_finished(self) -> None:
        """*Raises*: RuntimeError where the pass before has left parameters without a gradient."""
        if not self.begun:
            return
        missing = [name for name, p in zip(self.names, self.params, strict=True) if id(p) in self.waiting]
        raise RuntimeError(text(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error "
            "indicates that your module has parameters that were not used in producing loss. You can enable unused "
            "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
            "participate in calculating loss.", op="DistributedDataParallel",
            came=f"no gradient on rank {get_rank()} of {', '.join(missing[:8])}"
                 + (f" and {len(missing) - 8} more" if len(missing) > 8 else ""),
            needed="a gradient of every parameter",
            remedy="find_unused_parameters=True, or requires_grad_(False) before the module is wrapped"))  # fmt: skip

    def prepare(self, outputs: Any = None) -> None:
        """Expect a backward pass: through `outputs`, where parameters may be left out."""
        self.check_finished()
        self.expecting = True
        if self.find_unused and not self.static:
            reached = _leaves(outputs)
            self.unused = [p for p in self.params if id(p) not in reached]
            self.used = [int(id(p) in reached) for p in self.params]
        elif self.static and self.passes:
            self.unused = [p for p in self.params if id(p) not in self.fired]
        elif self.static:
            found = next((t for t in _tensors(outputs) if t.requires_grad and not t.is_leaf), None)
            if found is not None:
                found.register_hook(self._first_pass)

    def _first_pass(self, g: Tensor) -> None:
        """Count in the first of passes that are all alike; send everything when it ends."""
        if self.passes == 0 and self.expecting and not self.begun:
            self.begun = True
            queue_callback(self._counted)

    def _counted(self) -> None:
        self.unused = [p for p in self.params if id(p) not in self.fired]
        self.used = [int(id(p) in self.fired) for p in self.params]
        self._mark_all(self.params)

    # -- in a pass ---------------------------------------------------------------------------------------------------

    def _arrived(self, p: Tensor) -> None:
        """Take a parameter's gradient, which is whole; look after what is on its way."""
        if not self.expecting:
            return
        if not self.rebuilt and not self.passes and id(p) not in self.fired:
            self.order.append(self.number[id(p)])
        if not self.passes and self.static:
            self.fired[id(p)] = self.fired.get(id(p), 0) + 1
            return
        if not self.begun:
            self.begun = True
            self._mark_all(self.unused)
        if self.static:
            self.reached[id(p)] = self.reached.get(id(p), 0) - 1
            if self.reached[id(p)] > 0:
                return
        self._mark(p)
        self._launch()
        progress()  # MPI moves data only when it is called

    def _mark_all(self, params: Sequence[Tensor]) -> None:
        for p in params:
            self._mark(p)
        self._launch()

    def _mark(self, p: Tensor) -> None:
        if id(p) not in self.waiting:
            raise RuntimeError(text("Expected to mark a variable ready only once.", op="DistributedDataParallel",
                                    came=f"a second gradient of {self.names[self.number[id(p)]]} in one pass",
                                    remedy="static_graph=True where a part of the module is run again in the "
                                           "backward pass"))  # fmt: skip
        self.waiting.discard(id(p))
        bucket, view = self.place[id(p)]
        g: Any = own_part(p.grad)
        if g is not None and g.is_sparse:
            self.sparse.add(id(p))
            g = g.to_dense()
        with no_grad():
            if g is None:
                view.zero_()  # type: ignore[attr-defined]
            elif self.hook is None:
                mul(g, 1.0 / self.divisor, out=view)
            elif g is not view:
                view.copy_(g)  # type: ignore[attr-defined]
            if self.as_view and g is not None and id(p) not in self.sparse:
                p.grad = view
        bucket.left -= 1

    def _launch(self) -> None:
        while self.next < len(self.buckets) and not self.buckets[self.next].left:
            self._send(self.buckets[self.next])
            self.next += 1
            if self.next == len(self.buckets):
                self._send_used()
                queue_callback(self._finish)

    def _send(self, bucket: Bucket) -> None:
        with no_grad():
            if self.hook is None:
                bucket.work = all_reduce(bucket.flat, group=self.group, async_op=True)
            else:
                run, state = self.hook
                bucket.work = run(state, GradBucket(bucket, self.next, bucket is self.buckets[-1]))

    def _send_used(self) -> None:
        """Sum up in how many processes each parameter was used, where that may differ from pass to pass."""
        if self.find_unused if not self.static else not self.passes:
            counts = tensor(self.used, dtype=int32)
            self.sent_used = counts, all_reduce(counts, group=self.group, async_op=True)

    def _finish(self) -> None:
        """Wait for all that was sent, and give the parameters their gradients."""
        for b in self.buckets:
            found = b.work.wait()
            if self.hook is not None:
                found = found[0] if isinstance(found, list | tuple) else found
                if found is not b.flat:
                    with no_grad():
                        b.flat.copy_(found.reshape(b.flat.shape))  # type: ignore[attr-defined]
        if self.sent_used is not None:
            counts, work = self.sent_used
            work.wait()
            self.used = counts.tolist()
        self.passes += 1
        with no_grad():
            for k, p in enumerate(self.params):
                view = self.place[id(p)][1]
                if not self.used[k]:  # in no process: it keeps what it had
                    continue
                if id(p) in self.sparse:
                    p.grad = view.to_sparse(1)  # type: ignore[attr-defined]
                elif self.as_view:
                    p.grad = view
                elif p.grad is None:
                    p.grad = view.clone()  # type: ignore[attr-defined]
                else:
                    own_part(p.grad).copy_(view)
        self.expecting = False
        self._reset()

    def shadow(self) -> None:
        """Take part in a pass of the others with gradients that are 0; the parameters get the means."""
        self.used = [0] * len(self.params)
        for b in self.buckets:
            b.flat.zero_()  # type: ignore[attr-defined]
            self._send(b)
            self.next += 1
        self._send_used()
        self._finish()


def _weakly(method: weakref.WeakMethod[Any]) -> Callable[[Tensor], None]:
    """Return a hook that does nothing once the reducer is gone."""

    def hook(p: Tensor) -> None:
        run = method()
        if run is not None:
            run(p)

    return hook


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


def _tensors(found: Any) -> list[Tensor]:
    """Return the tensors in nested containers and objects."""
    if isinstance(found, Tensor):
        return [found]
    if isinstance(found, dict):
        return [t for x in found.values() for t in _tensors(x)]
    if isinstance(found, list | tuple | set):
        return [t for x in found for t in _tensors(x)]
    if hasattr(found, "__dataclass_fields__"):
        return [t for x in vars(found).values() for t in _tensors(x)]
    return []


def _leaves(outputs: Any) -> set[int]:
    """Return the ids of the leaves that outputs were made from."""
    seen: set[Any] = set()
    found: set[int] = set()
    stack: list[Any] = []
    for t in _tensors(outputs):
        e = edge(t)
        if isinstance(e, Node):
            stack.append(e)
        elif e is not None:
            found.add(id(e))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for e in node.edges:
            if isinstance(e, Node):
                stack.append(e)
            elif e is not None:
                found.add(id(e))
    return found
