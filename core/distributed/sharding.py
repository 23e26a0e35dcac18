"""Parameters that are divided among processes, gathered while a module computes, their gradients summed up in parts.

A unit is the parameters of one module that are gathered together. Each process keeps its rows of each of them, one
behind the other in a flat buffer. Source: Rajbhandari et al., ZeRO, arXiv 1910.02054; Zhao et al., PyTorch FSDP, VLDB
2023, section 3.

- Before the module's forward pass the buffers of all processes become whole parameters: leaves that stay the same
  objects from pass to pass, with memory only while it is needed.
- Where parameters are let go of after the forward pass, ops save a note of a parameter rather than its memory, and the
  first op of the backward pass that needs it gathers the unit again.
- When the gradients of a unit are whole they are summed up, each process getting that of its rows: the units in the
  reverse order of the forward pass, the same on all processes, while the backward pass goes on.
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
from ..tensors.tensor import Tensor, from_array
from .collectives import all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from .dtensor import DTensor, DTensorParameter, local_of, placed
from .groups import get_process_group_ranks, get_rank, get_world_size, new_group
from .placements import Replicate, Shard, part_of
from .work import progress

__all__ = ["Place", "Unit", "gathered", "shard", "units_of"]

Place = tuple[Any, str]  # a module and the name of a parameter in it


class _Part:
    """One parameter of a unit: this process's rows, the whole while it is there, and where both lie in buffers."""

    def __init__(self, p: Any, places: list[Place], begin: int, rows: int, shard: Any) -> None:
        self.places, self.shape, self.begin, self.shard = places, tuple(p.shape), begin, shard
        self.size = rows * int(np.prod(self.shape[1:], dtype=np.int64))
        self.full = Parameter(empty(0, dtype=p.dtype, device=p.device), p.requires_grad)

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

    def __init__(self, params: Sequence[tuple[Any, list[Place]]], mesh: Any, reshard: bool | None) -> None:
        self.mesh, self.reshard_after_forward = mesh, reshard
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim > 1 else None
        self.n, self.rank = get_world_size(self.group), get_rank(self.group)
        self.family: _Family | None = None
        self.sync = True  # whether the gradients of a backward pass are summed up over the processes
        self.there = False  # whether the whole parameters are
        self.open = 0  # forward passes that are running
        self.come: set[int] = set()  # the parameters whose gradients have come in this backward pass
        self.divisor: float = self.n * (get_world_size(self.replicas) if self.replicas is not None else 1)
        rows = [-(-p.shape[0] // self.n) for p, _ in params]
        sizes = [r * int(np.prod(p.shape[1:], dtype=np.int64)) for r, (p, _) in zip(rows, params, strict=True)]
        first = params[0][0]
        self.flat: Any = zeros(sum(sizes), dtype=first.dtype, device=first.device)
        placements = (*((Replicate(),) * (mesh.ndim - 1)), Shard(0))
        self.parts: list[_Part] = []
        at = 0
        for (p, places), r, size in zip(params, rows, sizes, strict=True):
            begin, own = part_of(p.shape[0], self.n, self.rank)
            part = self.flat[at : at + size].view(r, *p.shape[1:])[:own]
            with no_grad():
                part.copy_(p.detach()[begin : begin + own])
            shard = DTensorParameter(placed(part, mesh, placements, tuple(p.shape)), p.requires_grad)
            shard.__dict__["_unit"] = self
            made = _Part(p, places, at, r, shard)
            made.put(False)
            if p.requires_grad:
                made.full.register_post_accumulate_grad_hook(self._arrived)
            self.parts.append(made)
            at += size
        self.trained = [part for part in self.parts if part.full.requires_grad]

    # -- gathering ---------------------------------------------------------------------------------------------------

    def unshard(self) -> None:
        """Gather the whole parameters. All processes of the mesh call this."""
        if self.there:
            return
        gathered: Any = empty(self.n, self.flat.numel(), dtype=self.flat.dtype, device=self.flat.device)
        with no_grad():
            all_gather_into_tensor(gathered.view(-1), self.flat, self.group)
            for part in self.parts:
                part.full.data = part.whole(gathered, self.n)
                note(self, part)
        self.there = True

    def reshard(self) -> None:
        """Let go of the whole parameters."""
        if self.there:
            for part in self.parts:
                forget(part)
                part.full.data = empty(0, dtype=self.flat.dtype, device=self.flat.device)
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
                local_of(part.shard).detach().copy_(part.full.detach()[begin : begin + own])

    @contextlib.contextmanager
    def gathered(self, root: Any) -> Iterator[None]:
        """A block in which the modules have their whole parameters: a forward pass of `root`."""
        if self.family is None:
            _Family.begin(root)
        family = self.family
        assert family is not None
        self.unshard()
        self.put(True)
        self.open += 1
        kept = self.reshard_after_forward is False or (self.reshard_after_forward is None and family.root is root)
        before = saved_tensor_hooks.stack.hooks
        if mode.enabled:
            family.entered(self)
            if not kept:
                _push()
        try:
            yield
        finally:
            saved_tensor_hooks.back_to(before)
            self.open -= 1
            if not self.open:
                self.put(False)
                if not (kept and mode.enabled):
                    self.reshard()

    # -- gradients -----------------------------------------------------------------------------------------------------

    def _arrived(self, p: Any) -> None:
        """Take the whole gradient of a parameter."""
        self.come.add(id(p))
        if self.family is not None:
            self.family.arrived(self)

    def complete(self) -> bool:
        """Return whether all gradients of this pass have come."""
        return len(self.come) == len(self.trained)

    def reduce(self) -> Any:
        """Start to sum up the gradients: return the work, and the buffer for those of this process's rows.

        Behind the gradients stand, for each parameter, how many processes had one.
        """
        size = self.flat.numel()
        sent: Any = zeros(self.n, size + len(self.trained), dtype=self.flat.dtype, device=self.flat.device)
        with no_grad():
            for k, part in enumerate(self.trained):
                g: Any = part.full._grad
                if g is None:
                    continue
                part.full._grad = None
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
                g = out[part.begin : part.begin + local.numel()].view(local.shape)
                before = part.shard._grad
                if before is None:
                    part.shard._grad = placed(g, self.mesh, part.shard._places, part.shape)
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
            self.order.clear()
            self.sent.clear()
            self.done = self.queued = False
        if unit not in self.order:
            self.order.append(unit)

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
            unit.reshard()

    def finish(self) -> None:
        """End a backward pass: each process gets the gradients of its rows."""
        self._launch(True)
        for unit, (work, out, _) in self.sent:
            work.wait()
            unit.take(out)
        for unit in self.order:
            unit.come.clear()
            if not unit.open:
                unit.reshard()
        self.sent.clear()
        self.queued, self.done = False, True


def units_of(module: Any) -> list[Unit]:
    """Return the units within a module, each once."""
    found: dict[int, Unit] = {}
    for m in module.modules():
        for unit in getattr(m, "_units", ()):
            found[id(unit)] = unit
    return list(found.values())


def shard(module: Any, roots: Sequence[Any], mesh: Any, reshard: bool | None, ignored: Sequence[Any] = ()) -> None:
    """Divide those parameters within `roots` that are not divided yet; `module` has the units that they make up.

    *Raises*: ValueError for a parameter without a dimension.
    """
    left_out = {id(p) for p in ignored}
    places: dict[int, tuple[Any, list[Place]]] = {}
    for root in roots:
        for name, m in root.named_modules():
            for key, p in m._parameters.items():
                if p is None or id(p) in left_out or is_sharded(p):
                    continue
                if isinstance(p, DTensor) and p._mesh.size() > 1:
                    raise NotImplementedError(text("a parameter that is divided already is not divided again",
                                                   op="fully_shard", came=f"{name}.{key}: {p._places}".lstrip("."),
                                                   remedy="ignored_params={...}, with those that parallelize_module "
                                                          "has divided"))  # fmt: skip
                if not p.ndim:
                    raise ValueError(text("fully_shard doesn't support scalar parameters. Change it to a 1D tensor "
                                          "with numel equal to 1.", op="fully_shard",
                                          came=f"{name}.{key}".lstrip(".")))  # fmt: skip
                places.setdefault(id(p), (p, []))[1].append((m, key))
    kinds: dict[Any, list[tuple[Any, list[Place]]]] = {}
    for p, found in places.values():
        kinds.setdefault((p.dtype, p.device), []).append((p, found))
    module.__dict__["_units"] = [Unit(params, mesh, reshard) for params in kinds.values()] if mesh.size() > 1 else []


@contextlib.contextmanager
def gathered(module: Any) -> Iterator[None]:
    """A block in which a module that `shard` was given has its whole parameters."""
    with contextlib.ExitStack() as stack:
        for unit in module.__dict__.get("_units", ()):
            stack.enter_context(unit.gathered(module))
        yield


# -- what ops save of whole parameters ---------------------------------------------------------------------------------

_known: dict[int, tuple[Unit, _Part]] = {}  # by the memory of whole parameters


def _root(a: Any) -> Any:
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def note(unit: Unit, part: _Part) -> None:
    """Know a whole parameter by its memory."""
    a = part.full._a
    if isinstance(a, np.ndarray):
        _known[id(_root(a))] = unit, part


def forget(part: _Part) -> None:
    """Forget the memory of a whole parameter that is let go of."""
    a = part.full._a
    if isinstance(a, np.ndarray):
        _known.pop(id(_root(a)), None)


class _Noted:
    """A view of a whole parameter, without its memory."""

    def __init__(self, unit: Unit, part: _Part, a: Any) -> None:
        self.unit, self.part = unit, part
        self.offset = a.__array_interface__["data"][0] - _root(a).__array_interface__["data"][0]
        self.shape, self.strides, self.dtype = a.shape, a.strides, a.dtype

    def get(self) -> Tensor:
        self.unit.unshard()
        memory = _root(self.part.full._a)
        return from_array(np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides))


def _push() -> None:
    """Let ops save notes of whole parameters, and anything else as the hooks that stand would."""
    outer = saved_tensor_hooks.stack.hooks[-1] if saved_tensor_hooks.stack.hooks else None

    def pack(t: Tensor) -> Any:
        found = _known.get(id(_root(t._a))) if isinstance(t._a, np.ndarray) else None
        if found is not None:
            return _Noted(*found, t._a)
        return t if outer is None else outer[0](t)

    def unpack(payload: Any) -> Tensor:
        if isinstance(payload, _Noted):
            return payload.get()
        return payload if outer is None else outer[1](payload)

    saved_tensor_hooks.push(pack, unpack)


def is_sharded(p: Any) -> bool:
    """Return whether a parameter is this process's rows of one."""
    return isinstance(p, DTensor) and "_unit" in p.__dict__
