"""Programs for many processes, run by one: PyTorch's ``torch.distributed`` with a world of size 1.

The group begins and ends, and what its processes do together is done; more processes are refused where they are asked
for. Nothing is sent. Modules that divide a model among processes (`fsdp`, `tensor`) have PyTorch's names, and no
instances.

>>> import core
>>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
>>> x = core.ones(2)
>>> core.distributed.all_reduce(x)
>>> x
tensor([1., 1.])
>>> core.distributed.destroy_process_group()
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..base.lazy_import import lazy_attributes
from .collectives import (
    P2POp,
    ReduceOp,
    Work,
    _coalescing_manager,
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    monitored_barrier,
    recv,
    recv_object_list,
    reduce,
    reduce_op,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
)
from .device_mesh import DeviceMesh, init_device_mesh
from .groups import (
    Backend,
    FileStore,
    GroupMember,
    HashStore,
    PrefixStore,
    ProcessGroup,
    Store,
    TCPStore,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    set_debug_level_from_env,
)

if TYPE_CHECKING:
    from . import algorithms, checkpoint, fsdp, nn, tensor

distributed_c10d = sys.modules[__name__]  # PyTorch's file, whose names stand here
_LATE = dict.fromkeys(["algorithms", "checkpoint", "fsdp", "nn", "optim", "rpc", "tensor"], "")
__getattr__, __dir__ = lazy_attributes(__name__, _LATE)
_MODULES = {"collectives", "device_mesh", "groups"}
__all__ = sorted(n for n in globals() if not n.startswith("_") and n not in {
    *_MODULES, "annotations", "sys", "TYPE_CHECKING", "lazy_attributes", "distributed_c10d"})  # fmt: skip
