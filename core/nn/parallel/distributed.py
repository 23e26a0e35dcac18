"""`DistributedDataParallel`: a copy of a module in each process, and their gradients averaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ...base.errors import text
from ...base.modes import no_grad
from ...base.modes import state as mode
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...distributed.collectives import all_reduce
from ...distributed.flat import broadcast_coalesced
from ...distributed.groups import get_rank, get_world_size, member
from ...distributed.objects import all_gather_object
from ...distributed.reduce_ops import ReduceOp
from ...distributed.reducer import Reducer
from ...ops.creation import tensor
from ..modules.module import Module
from ..parameter import UninitializedParameter

__all__ = ["DistributedDataParallel"]

_MIB = 1 << 20
_CAP_MB = 25.0
_UNSENT = "_ddp_params_and_buffers_to_ignore"  # names that a module does not want to be sent


class DistributedDataParallel(Module, Joinable):
    """A module of which each process has a copy, whose gradients are averaged over all processes in the backward pass.

    Parameters and buffers begin as those of rank 0. Gradients are sent in buckets while the backward pass goes on, as
    soon as those of a bucket are whole. The keys of the state dict begin with ``module.``, as PyTorch's do.

    broadcast_buffers : whether every forward pass begins with rank 0's buffers.
    init_sync : False where parameters are known to be equal: nothing is compared or sent at the start.
    process_group : the processes; all without it.
    bucket_cap_mb : how many MiB close a bucket, the first one too; without it 25, and 1 for the first.
    find_unused_parameters : whether a pass may leave out parameters. They count as 0 in the mean; one that no process
        used keeps the gradient that it had.
    gradient_as_bucket_view : whether gradients are parts of the buckets: no copy, and less memory.
    static_graph : whether every pass is like the first one, which is sent only at its end: parameters may be unused,
        or used several times by a checkpoint.
    device_ids, output_device, dim : of no effect: tensors stay on the devices where they are.

    Raises
    ------
    ValueError
        Before `core.distributed.init_process_group`.
    RuntimeError
        For a module without a parameter that needs a gradient; where processes have modules of different shapes; for a
        forward pass before all gradients of the one before have come.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> model = core.nn.parallel.DistributedDataParallel(core.nn.Linear(2, 1))
    >>> model(core.ones(3, 2)).shape, list(model.state_dict())
    (core.Size([3, 1]), ['module.weight', 'module.bias'])
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
                 broadcast_buffers: bool | None = None, init_sync: bool = True, process_group: Any = None,
                 bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
                 check_reduction: bool = False, gradient_as_bucket_view: bool = False, static_graph: bool = False,
                 mixed_precision: Any = None, device_mesh: Any = None, forward_sync_buffers: bool | None = None,
                 **ignored: Any) -> None:  # fmt: skip
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if mixed_precision is not None:
            raise NotImplementedError(text("parameters are not kept in a second dtype", op="DistributedDataParallel",
                                           came=f"mixed_precision={mixed_precision}", needed="None",
                                           remedy="core.autocast around the forward pass, and bf16_compress_hook for "
                                                  "what is sent"))  # fmt: skip
        self.process_group = device_mesh.get_group() if device_mesh is not None else process_group
        member(self.process_group)
        self.module = module
        self._check(module)
        self.device = next(module.parameters()).device
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.broadcast_buffers = broadcast_buffers is not False and forward_sync_buffers is not False
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.bucket_cap_mb = gradient_as_bucket_view, bucket_cap_mb
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._initial_size = True  # whether means are over the processes of the start, in a `join`
        self._counted: Any = None  # the work that counts the processes with inputs, in a `join`
        self.reducer: Reducer | None = None
        if init_sync and get_world_size(self.process_group) > 1:
            self._verify()
            self._send_state(0)
        if get_world_size(self.process_group) > 1:
            self._make_reducer()

    def _check(self, module: Module) -> None:
        if not any(p.requires_grad for _, p in self._sent_parameters()):
            raise RuntimeError(text("DistributedDataParallel is not needed when a module doesn't have any parameter "
                                    "that requires a gradient.", op="DistributedDataParallel",
                                    remedy="use the module as it is"))  # fmt: skip
        if any(isinstance(p, UninitializedParameter) for p in module.parameters()):
            raise RuntimeError(text("Modules with uninitialized parameters can't be used with "
                                    "`DistributedDataParallel`. Run a dummy forward pass to correctly initialize the "
                                    "modules", op="DistributedDataParallel"))  # fmt: skip

    def _sent_parameters(self) -> list[tuple[str, Any]]:
        unsent = set(getattr(self.module, _UNSENT, ()))
        return [(name, p) for name, p in self.module.named_parameters() if name not in unsent]

    def _sent_buffers(self) -> list[Any]:
        unsent = set(getattr(self.module, _UNSENT, ()))
        return [b for name, b in self.module.named_buffers() if name not in unsent]

    def _verify(self) -> None:
        """*Raises*: RuntimeError in all processes where the parameters of one differ from those of rank 0."""
        mine = [(n, tuple(p.shape), str(p.dtype), p.requires_grad) for n, p in self._sent_parameters()]
        every: list[Any] = [None] * get_world_size(self.process_group)
        all_gather_object(every, mine, self.process_group)
        for rank, other in enumerate(every):
            if other == every[0]:
                continue
            k = next((k for k, (a, b) in enumerate(zip(every[0], other, strict=False)) if a != b),
                     min(len(other), len(every[0])))  # fmt: skip
            told = [str(side[k]) if k < len(side) else f"{len(side)} parameters" for side in (every[0], other)]
            raise RuntimeError(text("DDP expects same model across all ranks, but they differ", came=f"parameter {k}: "
                                    f"{told[0]} on rank 0, {told[1]} on rank {rank}", op="DistributedDataParallel",
                                    remedy="build the same module in every process"))  # fmt: skip

    def _send_state(self, src: int) -> None:
        many = [p for _, p in self._sent_parameters()] + self._sent_buffers()
        broadcast_coalesced(many, src, self.process_group)

    def _make_reducer(self) -> None:
        cap = int((self.bucket_cap_mb or _CAP_MB) * _MIB)
        params = [(name, p) for name, p in self._sent_parameters() if p.requires_grad]
        self.reducer = Reducer(params, self.process_group, _MIB if self.bucket_cap_mb is None else cap, cap,
                               self.find_unused_parameters, self.gradient_as_bucket_view,
                               self.static_graph)  # fmt: skip

    # -- passes ------------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module; the backward pass of what it gives averages the gradients."""
        if self.reducer is None:
            return self.module(*inputs, **kwargs)
        syncing = mode.enabled and self.require_backward_grad_sync
        if syncing:
            self.reducer.check_finished()
        self._counted = Join.notify_join_context(self)
        if mode.enabled:
            self.reducer.rebuild()
        self._send_buffers()
        if self._join_config.enable:
            self._someone_syncs(syncing)
        output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = syncing
        if syncing:
            self._divide()
            self.reducer.prepare(output)
        return output

    def _send_buffers(self) -> None:
        """Give all processes the buffers of rank 0, or in a `join` of the last that has inputs."""
        if not (self.broadcast_buffers and self.require_forward_param_sync):
            return
        buffers = self._sent_buffers()
        if buffers:
            source = self._last_rank(True) if self._join_config.enable else 0
            broadcast_coalesced(buffers, source, self.process_group)

    def _last_rank(self, among: bool) -> int:
        """Return the highest rank of those that call it with True."""
        found = tensor([get_rank(self.process_group) if among else -1])
        all_reduce(found, ReduceOp.MAX, self.process_group)
        return int(found.item())

    def _someone_syncs(self, mine: bool) -> bool:
        found = tensor([int(mine)])
        all_reduce(found, group=self.process_group)
        return bool(found.item())

    def _divide(self) -> None:
        """Say over how many processes the mean is: in a `join` perhaps over those that have inputs."""
        assert self.reducer is not None
        self.reducer.divisor = get_world_size(self.process_group)
        if self._counted is not None and not self._initial_size:
            self._counted.wait()
            self.reducer.divisor = int(self._counted.result()[0].item())

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients are only added up; those of the first pass after it send the sums.

        The forward passes have to be inside, too.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Let ``hook(state, bucket)`` send the gradients, and average them: it gives a future of the bucket's tensor.

        *Raises*: TypeError for what cannot be called; RuntimeError for a second one.
        """
        if not callable(hook):
            raise TypeError(text("Communication hook must be callable.", op="register_comm_hook", came=f"{hook!r}"))
        if self.reducer is None:
            self._make_reducer()
        assert self.reducer is not None
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = hook, state

    def _set_static_graph(self) -> None:
        self.static_graph = True
        if self.reducer is not None:
            self.reducer.static, self.reducer.rebuilt = True, False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "process_group": None, "reducer": None, "_counted": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if get_world_size() > 1:
            self._make_reducer()

    # -- uneven inputs -------------------------------------------------------------------------------------------------

    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False) -> Join:  # fmt: skip
        """Return a block in which processes may have unequal numbers of batches.

        divide_by_initial_world_size : whether means are over all processes, or over those that have inputs.
        """
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)  # fmt: skip

    def join_hook(self, divide_by_initial_world_size: bool = True, **ignored: Any) -> JoinHook:
        """Return what `Join` calls once this process has no inputs."""
        self._initial_size = divide_by_initial_world_size
        return _Shadow(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group of its processes."""
        return self.process_group


class _Shadow(JoinHook):
    """Takes part in the collectives of an iteration without inputs."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        """Do what a forward and a backward pass do with the other processes."""
        model, reducer = self.model, self.model.reducer
        if reducer is None:
            return
        reducer.rebuild()
        if model.broadcast_buffers and model.require_forward_param_sync and model._sent_buffers():
            broadcast_coalesced(model._sent_buffers(), model._last_rank(False), model.process_group)
        model.require_forward_param_sync = model._someone_syncs(False)
        if model.require_forward_param_sync:
            with no_grad():
                reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Give all processes the parameters and buffers of the last one."""
        if self.model.reducer is not None:
            self.model._send_state(self.model._last_rank(is_last_joiner))
