"""Programs for many processes: PyTorch's ``torch.distributed``, on MPI.

A program that is started once is a world of one process: nothing is sent, and nothing more is needed. ``mpiexec -n 4
python program.py`` starts four, which `init_process_group` joins (``pip install mpi4py mpich``). Modules that divide a
model among processes (`fsdp`, `tensor`) have PyTorch's names, and no instances.

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
from .checking import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from .collectives import (
    _coalescing_manager,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from .device_mesh import DeviceMesh, init_device_mesh
from .dist_errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from .groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    _get_default_group,
    _get_default_store,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
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
    split_group,
)
from .messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from .reduce_ops import ReduceOp, reduce_op
from .reduce_ops import premul_sum as _make_nccl_premul_sum
from .stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from .work import Work

if TYPE_CHECKING:
    from . import algorithms, checkpoint, elastic, fsdp, launcher, nn, run, tensor

distributed_c10d = sys.modules[__name__]  # PyTorch's file, whose names stand here
_LATE = dict.fromkeys(["algorithms", "checkpoint", "elastic", "fsdp", "launcher", "nn", "optim", "pipelining", "rpc",
                       "run", "tensor"], "")  # fmt: skip
__getattr__, __dir__ = lazy_attributes(__name__, _LATE)
_MODULES = {"alone", "buffers", "checking", "collectives", "device_mesh", "dist_errors", "groups", "joining",
            "messages", "objects", "reduce_ops", "stores", "work"}  # fmt: skip
__all__ = sorted(n for n in globals() if not n.startswith("_") and n not in {
    *_MODULES, "annotations", "sys", "TYPE_CHECKING", "lazy_attributes", "distributed_c10d"})  # fmt: skip
