"""Parameters that are divided among processes, gathered while a module computes, their gradients summed up in parts.

A unit is the parameters of one module that are gathered together. Each process keeps its rows of each of them, one
behind the other in a flat buffer. Source: Rajbhandari et al., ZeRO, arXiv 1910.02054; Zhao et al., PyTorch FSDP, VLDB
2023, section 3.

- Before the module's forward pass the buffers of all processes become whole parameters: leaves that stay the same
  objects from pass to pass, with memory only while it is needed. With a `MixedPrecisionPolicy` they are sent and
  computed with in its dtype, while what is kept and stepped has the parameters' own.
- In the backward pass the unit that is needed next is gathered while one is computed; in the forward pass where that is
  asked for.
- Where parameters are let go of after the forward pass, ops save a note of a parameter rather than its memory, and the
  first op of the backward pass that needs it gathers the unit again.
- When the gradients of a unit are whole they are summed up, each process getting that of its rows: the units in the
  reverse order of the forward pass, the same on all processes, while the backward pass goes on.
- Of a parameter that is divided among other processes already (tensor parallel) each process divides the part that it
  has. Such a parameter lies on a mesh of both kinds of dimensions, those that divided it first before the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..autograd.put_off import queue_callback
from ..base.errors import text
from ..base.modes import no_grad
from ..base.modes import state as mode
from ..dispatch import saved_tensor_hooks
from ..nn.parameter import Parameter
from ..ops.creation import empty, zeros
from ..tensors.tensor import Tensor
from .collectives import all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from .dtensor import DTensor, DTensorParameter, local_of, mapped, placed
from .fsdp_settings import MixedPrecisionPolicy
from .groups import get_process_group_ranks, get_rank, get_world_size, new_group
from .placements import Placement, Replicate, Shard, part_of
from .saved_notes import forget, note, save_notes
from .work import progress

__all__ = ["Place", "Unit", "computed", "gathered", "shard", "units_of"]

Place = tuple[Any, str]  # a module and the name of a parameter in it
_AS_THEY_ARE = MixedPrecisionPolicy()


class _Part:
    """One parameter of a unit: this process's rows, the whole while it is there, and where both lie in buffers.

    The whole of a tensor-parallel parameter is the part that this process has in the other dimensions of the mesh.
    """

    def __init__(self, p: Any, places: list[Place], begin: int, rows: int, shard: Any) -> None:
        self.places, self.shape, self.begin, self.shard = places, tuple(p._a.shape), begin, shard
        self.memory = shard._a  # which is a part of the unit's buffer
        self.size = rows * int(np.prod(self.shape[1:], dtype=np.int64))
        self.nothing: Any = empty((0,) * len(self.shape), dtype=p.dtype, device=p.device)
        self.held: Any = None  # gradients that were not sent, in the dtype of sums where that is wider
        self.full: Any = Parameter(self.nothing, p.requires_grad)
        if is_divided(p):
            self.full = DTensorParameter(placed(self.nothing, p._mesh, p._places, tuple(p.shape)), p.requires_grad)

    def whole(self, gathered: Any, n: int) -> Any:
        """Return the parameter out of what was gathered, a row of which is a process's buffer."""
        rows = gathered[:, self.begin : self.begin + self.size].reshape(-1, *self.shape[1:])
        return rows[: self.shape[0]]

    def put(self, full: bool) -> None:
        """Let the modules have the whole parameter, or this process's rows."""
        for module, name in self.places:
            module._parameters[name] = self.full if full else self.shard


class Unit:
    """The parameters of a module that are gathered together; all of one dtype."""

    def __init__(self, params: Sequence[tuple[Any, list[Place]]], mesh: Any, reshard: bool | None,
                 policy: MixedPrecisionPolicy) -> None:  # fmt: skip
        self.mesh, self.reshard_after_forward = mesh, reshard
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim > 1 else None
        self.n, self.rank = get_world_size(self.group), get_rank(self.group)
        self.family: _Family | None = None
        self.sync = True  # whether the gradients of a backward pass are summed up over the processes
        self.there = False  # whether the whole parameters are
        self.coming: Any = None  # the work that gathers them, and their memory, before they are needed
        self.open = 0  # forward passes that are running
        self.backward = False  # whether its backward pass is, in which a part of its module may run again
        self.come: set[int] = set()  # the parameters whose gradients have come in this backward pass
        self.next: list[Unit] = []  # what is gathered while this one computes its forward pass
        self.before: list[Unit] | None = None  # ... its backward pass; without it the one before in the forward pass
        self.in_order = False  # whether the forward pass gathers what came next in the pass before
        self.divisor: float = self.n * (get_world_size(self.replicas) if self.replicas is not None else 1)
        rows = [-(-p._a.shape[0] // self.n) for p, _ in params]
        sizes = [r * int(np.prod(p._a.shape[1:], dtype=np.int64)) for r, (p, _) in zip(rows, params, strict=True)]
        first = params[0][0]
        self.flat: Any = zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self.policy = policy
        self.parts: list[_Part] = []
        at = 0
        for (p, places), r, size in zip(params, rows, sizes, strict=True):
            begin, own = part_of(p._a.shape[0], self.n, self.rank)
            part = self.flat[at : at + size].view(r, *p._a.shape[1:])[:own]
            with no_grad():
                part.copy_(local_of(p).detach()[begin : begin + own])
            shard = DTensorParameter(placed(part, *_spread_over(mesh, p), tuple(p.shape)), p.requires_grad)
            shard.__dict__["_unit"] = self
            made = _Part(p, places, at, r, shard)
            made.put(False)
            if p.requires_grad:
                made.full.register_post_accumulate_grad_hook(self._arrived)
            self.parts.append(made)
            at += size
        self.trained = [part for part in self.parts if part.full.requires_grad]

    @property
    def computes_in(self) -> Any:
        """The dtype of whole parameters."""
        return self.policy.param_dtype or self.flat.dtype

    @property
    def sums_in(self) -> Any:
        """The dtype in which gradients are summed up."""
        return self.policy.reduce_dtype or self.computes_in

    # -- gathering ---------------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take rows that were put in the place of the unit's: by ``module.to``, `to_empty`, or an assigned state.

        *Raises*: RuntimeError for a parameter that is divided otherwise.
        """
        moved = False
        for part in self.parts:
            module, name = part.places[0]
            now = module._parameters[name]
            if now is not part.shard and now is not part.full:
                if not isinstance(now, DTensorParameter) or now._a.shape != part.shard._a.shape:
                    raise RuntimeError(text("a divided parameter was replaced by another one", op="fully_shard",
                                            came=f"{name} of {type(now).__name__} {tuple(now.shape)}",
                                            needed=f"a DTensor {part.shard._places} of {tuple(part.shard.shape)}",
                                            remedy="distribute_tensor(x, p.device_mesh, p.placements)"))  # fmt: skip
                now.__dict__["_unit"], part.shard = self, now
            moved = moved or part.shard._a is not part.memory
        if not moved:
            return
        first = self.parts[0].shard
        self.flat = zeros(self.flat.numel(), dtype=first.dtype, device=first.device)
        for part in self.parts:
            rows = self.flat[part.begin : part.begin + part.size].view(-1, *part.shape[1:])
            with no_grad():
                rows = rows[: part.shard._a.shape[0]]
                rows.copy_(local_of(part.shard).detach())
            part.shard.data = rows
            part.memory = rows._a
            part.nothing = empty((0,) * len(part.shape), dtype=rows.dtype, device=rows.device)
            part.put(False)

    def begin(self, dtype: Any = None) -> None:
        """Begin to gather the whole parameters. All processes of the mesh call this."""
        if self.there or self.coming is not None:
            return
        self.adopt()
        with no_grad():
            own = self.flat.to(dtype or self.computes_in)
            found: Any = empty(self.n, own.numel(), dtype=own.dtype, device=own.device)
            self.coming = all_gather_into_tensor(found.view(-1), own, self.group, async_op=True), found

    def unshard(self, dtype: Any = None) -> None:
        """Gather the whole parameters: in `dtype`, without it as the module computes. All processes call this."""
        if self.there:
            return
        self.begin(dtype)
        work, found = self.coming
        work.wait()
        self.coming, self.there = None, True
        with no_grad():
            for part in self.parts:
                part.full.data = part.whole(found, self.n)
                note(self, part)

    def reshard(self) -> None:
        """Let go of the whole parameters."""
        if self.there:
            for part in self.parts:
                forget(part)
                part.full.data = part.nothing
        self.there = False

    def put(self, full: bool) -> None:
        """Let the modules have whole parameters, or this process's rows."""
        for part in self.parts:
            part.put(full)

    def keep(self) -> None:
        """Take this process's rows of the whole parameters, which may have been changed."""
        with no_grad():
            for part in self.parts:
                begin, own = part_of(part.shape[0], self.n, self.rank)
                local_of(part.shard).detach().copy_(local_of(part.full).detach()[begin : begin + own])

    @contextlib.contextmanager
    def gathered(self, root: Any) -> Iterator[None]:
        """A block in which the modules have their whole parameters: a forward pass of `root`."""
        if self.family is None:
            _Family.begin(root)
        family = self.family
        assert family is not None
        self.unshard()
        for ahead in self.next or family.after(self):
            ahead.begin()
        self.put(True)
        self.open += 1
        kept = self.reshard_after_forward is False or (self.reshard_after_forward is None and family.root is root)
        before = saved_tensor_hooks.stack.hooks
        if mode.enabled:
            family.entered(self)
            if not kept:
                save_notes()
        try:
            yield
        finally:
            saved_tensor_hooks.back_to(before)
            self.open -= 1
            if not self.open and not self.backward:
                self.put(False)
                if not (kept and mode.enabled):
                    self.reshard()
                if family.root is root:
                    family.forget_coming()

    # -- gradients -----------------------------------------------------------------------------------------------------

    def resume(self, *ignored: Any) -> None:
        """Begin the backward pass: the modules have their whole parameters again, for checkpoints within them."""
        if not self.backward and self.family is not None:
            self.family.needed(self)
            self.backward = True
            self.put(True)

    def let_go(self) -> None:
        """End a backward pass."""
        self.backward = False
        if not self.open:
            self.put(False)
            self.reshard()

    def _arrived(self, p: Any) -> None:
        """Take the whole gradient of a parameter."""
        self.come.add(id(p))
        if self.family is not None:
            self.family.arrived(self)

    def complete(self) -> bool:
        """Return whether all gradients of this pass have come."""
        return len(self.come) == len(self.trained)

    def hold(self) -> None:
        """Keep gradients that are not sent yet in the dtype of sums, where that is wider than their own."""
        for part in self.trained if self.sums_in.itemsize > self.computes_in.itemsize else ():
            if part.full._grad is not None:
                with no_grad():
                    g = local_of(part.full._grad).to(self.sums_in)
                    part.held = g if part.held is None else part.held + g
                part.full._grad = None

    def reduce(self) -> Any:
        """Start to sum up the gradients: return the work, and the buffer for those of this process's rows.

        Behind the gradients stand, for each parameter, how many processes had one.
        """
        size = self.flat.numel()
        self.hold()
        sent: Any = zeros(self.n, size + len(self.trained), dtype=self.sums_in, device=self.flat.device)
        with no_grad():
            for k, part in enumerate(self.trained):
                g: Any = local_of(part.full._grad) if part.held is None else part.held
                if g is None:
                    continue
                part.full._grad = part.held = None
                sent[:, size + k] = 1.0
                rows = zeros(self.n * part.size, dtype=g.dtype, device=g.device)
                rows[: g.numel()].copy_(g.reshape(-1))  # type: ignore[index]
                sent[:, part.begin : part.begin + part.size].copy_(rows.view(self.n, part.size))  # type: ignore[attr-defined]
            if self.divisor != 1:
                sent[:, :size].mul_(1.0 / self.divisor)
            out: Any = empty(sent.shape[1], dtype=sent.dtype, device=sent.device)
            work = reduce_scatter_tensor(out, sent.view(-1), group=self.family.group, async_op=True)  # type: ignore[union-attr]
        return work, out, sent

    def take(self, out: Any) -> None:
        """Add what was summed up to the gradients of this process's rows."""
        if self.replicas is not None:
            all_reduce(out, group=self.replicas)
        used = out[self.flat.numel() :].tolist()
        with no_grad():
            for part, count in zip(self.trained, used, strict=True):
                if not count:
                    continue
                local = local_of(part.shard)
                g = out[part.begin : part.begin + local.numel()].view(local.shape).to(self.flat.dtype)
                before = part.shard._grad
                if before is None:
                    part.shard._grad = placed(g, part.shard._mesh, part.shard._places, part.shard._whole)
                else:
                    local_of(before).add_(g)


class _Family:
    """The units within one root module: the order of a pass, and what is on its way."""

    def __init__(self, root: Any, units: list[Unit]) -> None:
        self.root, self.units = root, units
        mesh = units[0].mesh
        ranks = get_process_group_ranks(mesh.get_group(mesh.ndim - 1))
        # apart from the group that gathers: the two may meet in another order
        self.group = new_group(ranks, use_local_synchronization=True, group_desc="sharded gradients")
        self.order: list[Unit] = []
        self.order_before: list[Unit] = []  # that of the pass before
        self.sent: list[tuple[Unit, Any]] = []
        self.queued = self.done = False
        for unit in units:
            unit.family = self

    @staticmethod
    def begin(root: Any) -> None:
        """Make one family of all units within a module."""
        _Family(root, units_of(root))

    def entered(self, unit: Unit) -> None:
        """Note that a unit's forward pass begins."""
        if mode.task is None and (self.done or self.queued):  # a new iteration; perhaps the one before has failed
            for each in self.order:
                each.come.clear()
                if each.backward:  # the pass before has failed
                    each.let_go()
            self.order_before, self.order = self.order, []
            self.sent.clear()
            self.done = self.queued = False
        if unit not in self.order:
            self.order.append(unit)

    def after(self, unit: Unit) -> list[Unit]:
        """Return what is gathered while a unit computes its forward pass: what came next in the pass before."""
        order = self.order_before
        return order[order.index(unit) + 1 :][:1] if unit.in_order and unit in order else []

    def needed(self, unit: Unit) -> None:
        """Gather a unit for its backward pass, and begin to gather what is needed next."""
        unit.unshard()
        at = self.order.index(unit) if unit in self.order else 0
        gone = {id(u) for u, _ in self.sent}
        for ahead in self.order[max(0, at - 1) : at] if unit.before is None else unit.before:
            if id(ahead) not in gone:
                ahead.begin()

    def forget_coming(self) -> None:
        """Forget what was gathered for a pass that did not need it: parameters change before the next."""
        for unit in self.units:
            unit.coming = None

    def arrived(self, unit: Unit) -> None:
        """Send what is whole, as far as its turn has come; at the end of the pass the rest."""
        if not self.queued:
            self.queued = True
            queue_callback(self.finish)
        self._launch(False)
        progress()  # MPI moves data only when it is called

    def _launch(self, rest: bool) -> None:
        gone = {id(unit) for unit, _ in self.sent}
        for unit in reversed(self.order):
            if id(unit) in gone or not unit.sync:
                continue
            if not (rest or unit.complete()):
                return
            self.sent.append((unit, unit.reduce()))
            unit.let_go()

    def finish(self) -> None:
        """End a backward pass: each process gets the gradients of its rows."""
        self._launch(True)
        for unit, (work, out, _) in self.sent:
            work.wait()
            unit.take(out)
        for unit in self.order:
            unit.come.clear()
            if not unit.sync:
                unit.hold()
            unit.let_go()
        self.forget_coming()
        self.sent.clear()
        self.queued, self.done = False, True


def units_of(module: Any) -> list[Unit]:
    """Return the units within a module, each once."""
    found: dict[int, Unit] = {}
    for m in module.modules():
        for unit in getattr(m, "_units", ()):
            found[id(unit)] = unit
    return list(found.values())


def shard(module: Any, roots: Sequence[Any], mesh: Any, reshard: bool | None, ignored: Sequence[Any] = (),
          policy: MixedPrecisionPolicy = _AS_THEY_ARE, wide: tuple[type, ...] = ()) -> None:  # fmt: skip
    """Divide those parameters within `roots` that are not divided yet; `module` has the units that they make up.

    wide : classes of modules whose parameters are computed with in their own dtype.

    *Raises*: ValueError for a parameter without a dimension.
    """
    left_out = {id(p) for p in ignored}
    places: dict[int, tuple[Any, list[Place], bool]] = {}
    for root in roots:
        for name, m in root.named_modules():
            for key, p in m._parameters.items():
                if p is None or id(p) in left_out or is_sharded(p):
                    continue
                if not p.ndim:
                    raise ValueError(text("fully_shard doesn't support scalar parameters. Change it to a 1D tensor "
                                          "with numel equal to 1.", op="fully_shard",
                                          came=f"{name}.{key}".lstrip(".")))  # fmt: skip
                narrow = policy.param_dtype is not None and p.dtype.is_floating_point and not isinstance(m, wide)
                places.setdefault(id(p), (p, [], narrow))[1].append((m, key))
    kinds: dict[Any, list[tuple[Any, list[Place]]]] = {}
    for p, found, narrow in places.values():
        kinds.setdefault((p.dtype, p.device, narrow), []).append((p, found))
    module.__dict__["_policy"] = policy
    module.__dict__["_units"] = [
        Unit(params, mesh, reshard, policy if key[-1] or policy.param_dtype is None else _AS_THEY_ARE)
        for key, params in kinds.items() if mesh.size() > 1 or key[-1]
    ]  # fmt: skip


def _spread_over(mesh: Any, p: Any) -> tuple[Any, tuple[Placement, ...]]:
    """Return on which mesh a parameter lies once a mesh has divided it, and how: its own dimensions come first."""
    places = (*((Replicate(),) * (mesh.ndim - 1)), Shard(0))
    return (p._mesh.beside(mesh), (*p._places, *places)) if is_divided(p) else (mesh, places)


def computed(module: Any, forward: Any, args: Any, kwargs: Any) -> Any:
    """Call a module's forward method with its whole parameters, its inputs and outputs in the dtypes of its policy."""
    policy: MixedPrecisionPolicy = module.__dict__.get("_policy", _AS_THEY_ARE)
    if policy.cast_forward_inputs:
        args, kwargs = _cast(args, policy.param_dtype), _cast(kwargs, policy.param_dtype)
    with gathered(module):
        found = _cast(forward(*args, **kwargs), policy.output_dtype)
    for unit in module.__dict__.get("_units", ()) if mode.enabled else ():
        mapped(found, lambda x, unit=unit: isinstance(x, Tensor) and x.requires_grad and x.register_hook(unit.resume))  # type: ignore[misc, attr-defined]
    return found


def _cast(values: Any, dtype: Any) -> Any:
    """Return values with all tensors of floating-point numbers in a dtype; None: as they are."""
    if dtype is None:
        return values
    return mapped(values, lambda x: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x)


@contextlib.contextmanager
def gathered(module: Any) -> Iterator[None]:
    """A block in which a module that `shard` was given has its whole parameters."""
    with contextlib.ExitStack() as stack:
        for unit in module.__dict__.get("_units", ()):
            stack.enter_context(unit.gathered(module))
        yield


def is_sharded(p: Any) -> bool:
    """Return whether a parameter is this process's rows of one."""
    return isinstance(p, DTensor) and "_unit" in p.__dict__


def is_divided(p: Any) -> bool:
    """Return whether a parameter is divided among processes: by this file, or as `parallelize_module` does."""
    return isinstance(p, DTensor) and p._mesh.size() > 1
