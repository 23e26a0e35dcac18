"""What the processes of a group do together, for a group of one: a sum over it is the value, what is gathered is one.

Each does what PyTorch's does in a world of one process, results in place included; with ``async_op=True`` it gives a
`Work` that is done.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from ..base.errors import text
from ..base.modes import no_grad
from ..futures import Future
from ..tensors.tensor import Tensor
from .groups import member, several

__all__ = ["P2POp", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
           "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
           "broadcast_object_list", "gather", "gather_object", "irecv", "isend", "monitored_barrier", "recv", "reduce",
           "reduce_op", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list",
           "send"]  # fmt: skip


class _Op(Enum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class ReduceOp:
    """How values of several processes become one; of one process they stay what they are."""

    RedOpType = _Op
    SUM, AVG, PRODUCT, MIN, MAX = _Op.SUM, _Op.AVG, _Op.PRODUCT, _Op.MIN, _Op.MAX
    BAND, BOR, BXOR, PREMUL_SUM = _Op.BAND, _Op.BOR, _Op.BXOR, _Op.PREMUL_SUM


reduce_op = ReduceOp


class Work:
    """What `async_op=True` gives: it is done already."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    is_success = is_completed

    def exception(self) -> None:
        """Return None: nothing failed."""

    def result(self) -> Any:
        """Return the tensors."""
        return self._result if isinstance(self._result, list) else [self._result]

    def get_future(self) -> Future[Any]:
        """Return the tensors as a future that is done."""
        done: Future[Any] = Future()
        done.set_result(self.result())
        return done


def _done(group: Any, async_op: bool, result: Any = None) -> Work | None:
    return Work(result) if member(group) and async_op else None


def _tensor(x: Any, op: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(text(f"Invalid function argument. Expected parameter `tensor` of type core.Tensor, but got "
                             f"{type(x)} instead.", op=f"distributed.{op}"))  # fmt: skip
    return x


def _one(many: Any, op: str) -> Any:
    if len(many) != 1:
        raise ValueError(text("the list needs one entry for each process", op=f"distributed.{op}",
                              came=f"{len(many)} entries", needed="1"))  # fmt: skip
    return many[0]


def _into(target: Tensor, source: Tensor, op: str) -> None:
    if target.numel() != source.numel():
        raise ValueError(text("the output needs as many elements as the input", op=f"distributed.{op}",
                              came=f"{tuple(target.shape)} and {tuple(source.shape)}"))  # fmt: skip
    with no_grad():
        target.copy_(source.detach().reshape(target.shape))


def _root(rank: int | None, op: str) -> None:
    if rank not in (None, 0):
        several(op, f"rank {rank}")


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Leave a tensor as it is: the sum (mean, maximum) over one process.

    *Raises*: ValueError before `init_process_group`; TypeError for what is no tensor.
    """
    return _done(group, async_op, _tensor(tensor, "all_reduce"))


def all_reduce_coalesced(tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                         async_op: bool = False) -> Work | None:  # fmt: skip
    """Leave tensors as they are."""
    return _done(group, async_op, [_tensor(t, "all_reduce_coalesced") for t in tensors])


def reduce(tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:  # fmt: skip
    """Leave a tensor as it is."""
    _root(dst, "reduce")
    return _done(group, async_op, _tensor(tensor, "reduce"))


def broadcast(tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
              group_src: int | None = None) -> Work | None:  # fmt: skip
    """Leave a tensor as it is: this process's own."""
    _root(src, "broadcast")
    return _done(group, async_op, _tensor(tensor, "broadcast"))


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy a tensor into the only entry of a list."""
    member(group)
    _into(_one(tensor_list, "all_gather"), _tensor(tensor, "all_gather"), "all_gather")
    return _done(group, async_op, tensor_list)


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None,
                           async_op: bool = False) -> Work | None:  # fmt: skip
    """Copy a tensor into another one."""
    member(group)
    _into(output_tensor, _tensor(input_tensor, "all_gather_into_tensor"), "all_gather_into_tensor")
    return _done(group, async_op, output_tensor)


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
           async_op: bool = False, group_dst: int | None = None) -> Work | None:  # fmt: skip
    """Copy a tensor into the only entry of a list."""
    _root(dst, "gather")
    return all_gather(gather_list or [], tensor, group, async_op)


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
            async_op: bool = False, group_src: int | None = None) -> Work | None:  # fmt: skip
    """Copy the only entry of a list into a tensor."""
    _root(src, "scatter")
    member(group)
    _into(tensor, _one(scatter_list or [], "scatter"), "scatter")
    return _done(group, async_op, tensor)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                   async_op: bool = False) -> Work | None:  # fmt: skip
    """Copy the only entry of a list into a tensor."""
    return scatter(output, input_list, 0, group, async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None,
                          async_op: bool = False) -> Work | None:  # fmt: skip
    """Copy a tensor into another one."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
               async_op: bool = False) -> Work | None:  # fmt: skip
    """Copy the only entry of a list into that of another."""
    return all_gather(output_tensor_list, _one(input_tensor_list, "all_to_all"), group, async_op)


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
                      group: Any = None, async_op: bool = False) -> Work | None:  # fmt: skip
    """Copy a tensor into another one."""
    return all_gather_into_tensor(output, input, group, async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return at once: all processes are here."""
    return _done(group, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Return at once: all processes are here."""
    member(group)


# -- objects -----------------------------------------------------------------------------------------------------------


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put a copy of an object into the only entry of a list."""
    member(group)
    _one(object_list, "all_gather_object")
    object_list[0] = copy.deepcopy(obj)


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
                  group_dst: int | None = None) -> None:  # fmt: skip
    """Put a copy of an object into the only entry of a list."""
    _root(dst, "gather_object")
    all_gather_object([None] if object_gather_list is None else object_gather_list, obj, group)


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
                          group_src: int | None = None, **ignored: Any) -> None:  # fmt: skip
    """Leave a list as it is: this process's own."""
    _root(src, "broadcast_object_list")
    member(group)


def scatter_object_list(scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
                        src: int | None = None, group: Any = None, group_src: int | None = None) -> None:  # fmt: skip
    """Put the only entry of a list into the first of another."""
    _root(src, "scatter_object_list")
    member(group)
    scatter_object_output_list[0] = _one(scatter_object_input_list or [], "scatter_object_list")


# -- from one process to another ---------------------------------------------------------------------------------------


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Raise RuntimeError: there is nobody to send to."""
    member(group)
    several("send", f"a tensor for rank {dst}")


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Raise RuntimeError: nobody sends."""
    member(group)
    several("recv", f"a tensor from rank {src}")


isend, irecv, send_object_list, recv_object_list = send, recv, send, recv


class P2POp:
    """A message that `batch_isend_irecv` would send."""

    def __init__(self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
                 group_peer: int | None = None) -> None:  # fmt: skip
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Send and receive messages.

    *Raises*: RuntimeError where there is one: there is nobody to send to.
    """
    if p2p_op_list:
        several("batch_isend_irecv", f"{len(p2p_op_list)} messages")
    return []


@contextlib.contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[Work]:
    """A block whose collectives are one: they are done as they come."""
    yield Work()
