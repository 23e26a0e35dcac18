"""What the processes of a group do together with tensors: sums, copies to all, parts for each.

Each does what PyTorch's does, results in place included; with ``async_op=True`` it gives a `Work`, which is on its way.
What is narrower than float32 is sent as it is, reduced in float32 and rounded once. A result has the same bits on every
rank, and each time. Arguments are checked here; what moves the bytes is the group's communicator (`alone.Alone` or
`mpi.Mpi`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..base.errors import text
from ..tensors.tensor import Tensor
from . import checking
from .buffers import Buffers
from .groups import ProcessGroup, mine
from .reduce_ops import ReduceOp, after, before, name_for
from .work import Work

__all__ = ["all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce",
           "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "gather",
           "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
           "scatter"]  # fmt: skip


def a_tensor(x: Any, op: str, name: str = "tensor") -> Tensor:
    """Return a tensor. *Raises*: TypeError for what is none."""
    if not isinstance(x, Tensor):
        raise TypeError(text(f"Invalid function argument. Expected parameter `{name}` of type core.Tensor, but got "
                             f"{type(x)} instead.", op=f"distributed.{op}"))  # fmt: skip
    return x


def each(many: Any, group: ProcessGroup, op: str, name: str = "tensor_list") -> list[Tensor]:
    """Return a tensor for each process. *Raises*: ValueError for another number, TypeError for what is no tensor."""
    found = [a_tensor(t, op, name) for t in (many or [])]
    if len(found) != group.size():
        raise ValueError(text("the list needs one entry for each process", op=f"distributed.{op}",
                              came=f"{len(found)} entries", needed=f"{group.size()}"))  # fmt: skip
    return found


def rank_in(group: ProcessGroup, rank: int | None, group_rank: int | None, op: str) -> int:
    """Return a number in the group, given as that or as one among all processes; 0 among all where neither is."""
    if rank is not None and group_rank is not None:
        raise ValueError(text("give a rank among all processes or one in the group, not both", op=f"distributed.{op}",
                              came=f"{rank} and {group_rank}"))  # fmt: skip
    if group_rank is None:
        return group.number(0 if rank is None else rank, op)
    if not 0 <= group_rank < group.size():
        raise ValueError(text(f"Group rank {group_rank} is not part of group {group.group_name!r}",
                              op=f"distributed.{op}", needed=f"0 to {group.size() - 1}"))  # fmt: skip
    return group_rank


def check_sizes(outputs: Sequence[Tensor], inputs: Sequence[Tensor], op: str) -> None:
    """*Raises*: ValueError where outputs and inputs have other numbers of elements or other dtypes."""
    into, of = sum(t.numel() for t in outputs), sum(t.numel() for t in inputs)
    if into != of:
        raise ValueError(text("the output needs as many elements as the input", op=f"distributed.{op}",
                              came=f"{[tuple(t.shape) for t in outputs]} and {[tuple(t.shape) for t in inputs]}",
                              needed=f"{of} elements, not {into}"))  # fmt: skip
    kinds = sorted({str(t.dtype) for t in (*outputs, *inputs)})
    if len(kinds) > 1:
        raise ValueError(text("Invalid usage of tensors with different dtypes", op=f"distributed.{op}",
                              came=" and ".join(kinds), remedy="x.to(dtype) first"))  # fmt: skip


def begin(group: ProcessGroup, buffers: Buffers, async_op: bool, start: Callable[[], list[Any]], result: Any = None,
          agreed: Any = "", last: Callable[[], Any] | None = None) -> Work | None:  # fmt: skip
    """Start an operation and return its work; where that is not asked for, wait and return None.

    `agreed` is what has to be the same on every rank, and is compared where that has been asked for. `last` is called
    when the operation is done, before what was copied is written back. The work holds `start`, and by it the arrays.
    """
    beside = None
    if checking.wanted(group):
        checking.compare(group, buffers.op, agreed)
    elif group.size() > 1:
        beside = checking.Beside(group, buffers.op, agreed)

    def finish() -> None:
        if last is not None:
            last()
        buffers.end()

    requests = start() if beside is None else beside.requests + start()
    work = Work(buffers.op, group, requests, finish, result, buffers.size_bytes, start, beside)
    if _blocks:
        _blocks[-1].works.append(work)
    elif not async_op:
        work.wait()
    return work if async_op else None


class Works:
    """The work of all collectives of a block."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def wait(self) -> bool:
        """Wait until all are done. *Raises*: as `Work.wait`."""
        return all(work.wait() for work in self.works)


_blocks: list[Works] = []


@contextlib.contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[Works]:
    """A block whose collectives are all on their way before one is waited for, at its end or by what it gives."""
    made = Works()
    _blocks.append(made)
    try:
        yield made
    finally:
        _blocks.remove(made)
    if not async_ops:
        made.wait()


def _shapes(many: Sequence[Tensor]) -> str:
    return f"{many[0].dtype} {', '.join(str(tuple(t.shape)) for t in many)}" if many else "no tensor"


# -- sums --------------------------------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Sum (average, multiply, ...) a tensor over all processes, in place.

    *Raises*: ValueError before `init_process_group`; TypeError for what is no tensor.
    """
    return _all_reduced("all_reduce", [a_tensor(tensor, "all_reduce")], tensor, op, group, async_op)


def all_reduce_coalesced(tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                         async_op: bool = False) -> Work | None:  # fmt: skip
    """Sum tensors over all processes, each in place."""
    many = [a_tensor(t, "all_reduce_coalesced", "tensors") for t in tensors]
    return _all_reduced("all_reduce_coalesced", many, many, op, group, async_op)


def _all_reduced(name: str, many: list[Tensor], result: Any, how: Any, group: Any, async_op: bool) -> Work | None:
    g = mine(group, name)
    if g is None:
        return None
    size, called, buffers = g.size(), [name_for(how, t, name) for t in many], Buffers(g, name)
    arrays = [before(how, buffers.written(t, reduced=True, filled=True), True) for t in many]
    return begin(g, buffers, async_op,
                 lambda: [r for a, c in zip(arrays, called, strict=True) for r in g.comm.all_reduce(a, c)], result,
                 f"{_shapes(many)} {how}", lambda: after(how, arrays, size))  # fmt: skip


def reduce(tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:  # fmt: skip
    """Sum a tensor over all processes, in place on rank `dst`; those of the others stay as they are."""
    g = mine(group, "reduce")
    if g is None:
        return None
    t, to, buffers = a_tensor(tensor, "reduce"), rank_in(g, dst, group_dst, "reduce"), Buffers(g, "reduce")
    name, size, here = name_for(op, t, "reduce"), g.size(), g.rank() == to
    a = buffers.written(t, reduced=True, filled=True) if here else buffers.read(t, reduced=True)
    a = before(op, a, here)
    return begin(g, buffers, async_op, lambda: g.comm.reduce(a, name, to), t, f"{_shapes([t])} {op} dst={to}",
                 lambda: after(op, [a] if here else [], size))  # fmt: skip


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                   async_op: bool = False) -> Work | None:  # fmt: skip
    """Sum the lists of all processes entry by entry, and leave each process the entry of its number."""
    g = mine(group, "reduce_scatter")
    if g is None:
        return None
    many, out = each(input_list, g, "reduce_scatter", "input_list"), a_tensor(output, "reduce_scatter", "output")
    check_sizes([out], [many[g.rank()]], "reduce_scatter")
    return _reduce_scattered("reduce_scatter", out, many, [t.numel() for t in many], op, g, async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None,
                          async_op: bool = False) -> Work | None:  # fmt: skip
    """Sum a tensor over all processes, and leave each process its part: equal parts in the order of their numbers."""
    g = mine(group, "reduce_scatter_tensor")
    if g is None:
        return None
    out, t = a_tensor(output, "reduce_scatter_tensor", "output"), a_tensor(input, "reduce_scatter_tensor", "input")
    check_sizes([out] * g.size(), [t], "reduce_scatter_tensor")
    return _reduce_scattered("reduce_scatter_tensor", out, [t], [out.numel()] * g.size(), op, g, async_op)


def _reduce_scattered(name: str, out: Tensor, many: list[Tensor], counts: list[int], how: Any, g: ProcessGroup,
                      async_op: bool) -> Work | None:  # fmt: skip
    size, called, buffers = g.size(), name_for(how, out, name), Buffers(g, name)
    a = before(how, buffers.joined(many, reduced=True), len(many) > 1)
    into = buffers.written(out, reduced=True)
    return begin(g, buffers, async_op, lambda: g.comm.reduce_scatter(into, a, counts, called), out,
                 f"{_shapes(many)} {how}", lambda: after(how, [into], size))  # fmt: skip


# -- copies ------------------------------------------------------------------------------------------------------------


def broadcast(tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
              group_src: int | None = None) -> Work | None:  # fmt: skip
    """Copy the tensor of rank `src` into those of all others."""
    g = mine(group, "broadcast")
    if g is None:
        return None
    t, of, buffers = a_tensor(tensor, "broadcast"), rank_in(g, src, group_src, "broadcast"), Buffers(g, "broadcast")
    a = buffers.read(t) if g.rank() == of else buffers.written(t)
    return begin(g, buffers, async_op, lambda: g.comm.broadcast(a, of), t, f"{_shapes([t])} src={of}")


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the tensors of all processes into a list; they may be of different sizes, as the list's entries say."""
    g = mine(group, "all_gather")
    if g is None:
        return None
    many, t = each(tensor_list, g, "all_gather"), a_tensor(tensor, "all_gather")
    check_sizes([many[g.rank()]], [t], "all_gather")
    return _gathered("all_gather", many, t, [x.nbytes for x in many], tensor_list, g, async_op)


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None,
                           async_op: bool = False) -> Work | None:  # fmt: skip
    """Copy the tensors of all processes into one, one after the other."""
    g, name = mine(group, "all_gather_into_tensor"), "all_gather_into_tensor"
    if g is None:
        return None
    out, t = a_tensor(output_tensor, name, "output_tensor"), a_tensor(input_tensor, name, "input_tensor")
    check_sizes([out], [t] * g.size(), name)
    return _gathered(name, [out], t, [t.nbytes] * g.size(), out, g, async_op)


def _gathered(name: str, outputs: list[Tensor], t: Tensor, counts: list[int], result: Any, g: ProcessGroup,
              async_op: bool) -> Work | None:  # fmt: skip
    buffers = Buffers(g, name)
    a, out = buffers.read(t), buffers.apart(outputs)
    return begin(g, buffers, async_op, lambda: g.comm.all_gather(out, counts, a), result, f"{t.dtype} {counts} bytes")


def all_gather_coalesced(output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None,
                         async_op: bool = False) -> Works | None:  # fmt: skip
    """Copy the tensors of all processes into lists, one list for each of several tensors."""
    with _coalescing_manager(group, async_ops=async_op) as block:
        for many, t in zip(output_tensor_lists, input_tensor_list, strict=True):
            all_gather(many, t, group)
    return block if async_op else None


all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
           async_op: bool = False, group_dst: int | None = None) -> Work | None:  # fmt: skip
    """Copy the tensors of all processes into a list of rank `dst`; the others give none."""
    g = mine(group, "gather")
    if g is None:
        return None
    t, to, buffers = a_tensor(tensor, "gather"), rank_in(g, dst, group_dst, "gather"), Buffers(g, "gather")
    if g.rank() != to:
        _none_here(gather_list, "gather", "gather_list", "dst")
    many = each(gather_list, g, "gather", "gather_list") if g.rank() == to else []
    if many:
        check_sizes([many[to]], [t], "gather")
    a, out = buffers.read(t), buffers.apart(many)
    return begin(g, buffers, async_op, lambda: g.comm.gather(out, [x.nbytes for x in many], a, to), gather_list,
                 f"{t.dtype} dst={to}")  # fmt: skip


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
            async_op: bool = False, group_src: int | None = None) -> Work | None:  # fmt: skip
    """Copy the entries of a list of rank `src` into the tensors of the processes, by their numbers."""
    g = mine(group, "scatter")
    if g is None:
        return None
    t, of, buffers = a_tensor(tensor, "scatter"), rank_in(g, src, group_src, "scatter"), Buffers(g, "scatter")
    if g.rank() != of:
        _none_here(scatter_list, "scatter", "scatter_list", "src")
    many = each(scatter_list, g, "scatter", "scatter_list") if g.rank() == of else []
    if many:
        check_sizes([t], [many[of]], "scatter")
    a, out = buffers.joined(many), buffers.written(t)
    return begin(g, buffers, async_op, lambda: g.comm.scatter(out, a, [x.nbytes for x in many], of), t,
                 f"{t.dtype} src={of}")  # fmt: skip


def _none_here(given: Any, op: str, name: str, root: str) -> None:
    if given:
        raise ValueError(text(f"Argument ``{name}`` must NOT be specified on non-{root} ranks.",
                              op=f"distributed.{op}", came=f"{len(given)} tensors"))  # fmt: skip


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
               async_op: bool = False) -> Work | None:  # fmt: skip
    """Send each process the entry of its number; receive what each sends into the entry of its number."""
    g = mine(group, "all_to_all")
    if g is None:
        return None
    out = each(output_tensor_list, g, "all_to_all", "output_tensor_list")
    many = each(input_tensor_list, g, "all_to_all", "input_tensor_list")
    check_sizes([out[g.rank()]], [many[g.rank()]], "all_to_all")
    return _exchanged("all_to_all", out, [t.nbytes for t in out], many, [t.nbytes for t in many], output_tensor_list, g,
                      async_op)  # fmt: skip


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: Any = None,
                      async_op: bool = False) -> Work | None:  # fmt: skip
    """Send each process its part of a tensor, and put what comes one after the other; sizes are in rows."""
    g = mine(group, "all_to_all_single")
    if g is None:
        return None
    out, t = a_tensor(output, "all_to_all_single", "output"), a_tensor(input, "all_to_all_single", "input")
    into, of = _parts(out, output_split_sizes, g, "output"), _parts(t, input_split_sizes, g, "input")
    return _exchanged("all_to_all_single", [out], into, [t], of, out, g, async_op)


def _parts(t: Tensor, sizes: Sequence[int] | None, g: ProcessGroup, name: str) -> list[int]:
    """Return how many bytes of a tensor each process gives or takes."""
    rows = t.shape[0] if t.ndim else 1
    if not sizes:
        if rows % g.size():
            raise ValueError(text("Tensor's dim 0 does not divide equally across group size",
                                  op="distributed.all_to_all_single", came=f"{name} of {rows} rows",
                                  needed=f"a multiple of {g.size()}", remedy=f"{name}_split_sizes=[...]"))  # fmt: skip
        sizes = [rows // g.size()] * g.size()
    if len(sizes) != g.size() or sum(sizes) != rows:
        raise ValueError(text("Split sizes doesn't match total dim 0 size", op="distributed.all_to_all_single",
                              came=f"{name}_split_sizes={list(sizes)} for {rows} rows",
                              needed=f"{g.size()} numbers with the sum {rows}"))  # fmt: skip
    return [n * (t.nbytes // rows) if rows else 0 for n in sizes]


def _exchanged(name: str, outputs: list[Tensor], out_counts: list[int], inputs: list[Tensor], counts: list[int],
               result: Any, g: ProcessGroup, async_op: bool) -> Work | None:  # fmt: skip
    buffers = Buffers(g, name)
    a, out = buffers.joined(inputs), buffers.apart(outputs)
    return begin(g, buffers, async_op, lambda: g.comm.all_to_all(out, out_counts, a, counts), result,
                 f"{outputs[0].dtype}")  # fmt: skip


# -- waiting for all ---------------------------------------------------------------------------------------------------


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Wait until all processes have called it. *Raises*: DistBackendError after `timeout`, or else the group's."""
    g = mine(group, "barrier")
    work = None if g is None else begin(g, Buffers(g, "barrier"), True, g.comm.barrier)
    if async_op or work is None:
        return work
    work.wait(timeout)
    return None


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all processes have called it. *Raises*: DistBackendError that names those which have not, after the
    timeout."""
    g = mine(group, "monitored_barrier")
    if g is not None:
        checking.compare(g, "monitored_barrier", "", timeout)
