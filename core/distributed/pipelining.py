"""A model as a pipeline: each process has a stage of it, or several, and a batch goes through in small batches.

In the schedule 1F1B a stage, once enough small batches are under way, runs one backward pass after each forward pass:
so it holds the activations of as many small batches as stages are left, whatever their number. Interleaved, each of n
processes has every n-th stage: processes wait less for the first and the last small batches, and send more. Source:
Narayanan et al., PipeDream, SOSP 2019; Megatron-LM, arXiv 2104.04473, section 2.2.

>>> import core
>>> from core.distributed.pipelining import PipelineStage, Schedule1F1B
>>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
>>> stage = PipelineStage(core.nn.Linear(2, 1, bias=False), 0, 1, "cpu")
>>> schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=core.nn.functional.mse_loss)
>>> losses = []
>>> out = schedule.step(core.ones(4, 2), target=core.zeros(4, 1), losses=losses)
>>> out.shape, len(losses), stage.submod.weight.grad.shape
(core.Size([4, 1]), 2, core.Size([1, 2]))
>>> core.distributed.destroy_process_group()
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import backward
from ..base import dtypes
from ..base.absent import absent_names
from ..base.errors import text
from ..base.modes import no_grad
from ..nn.modules.module import Module
from ..nn.parallel.distributed import DistributedDataParallel
from ..ops.creation import empty, tensor, zeros_like
from ..ops.joining import cat
from ..tensors.tensor import Tensor
from .groups import get_rank, get_world_size
from .messages import irecv, isend

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
           "get_schedule_class"]  # fmt: skip

schedules = stage = microbatch = sys.modules[__name__]  # PyTorch's files
# tags of messages to a stage, to which its number is added: how a tensor looks, its values, its gradient
_HEAD, _FORWARD, _BACKWARD = 1000, 2000, 3000
_KINDS = [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32, dtypes.uint8,
          dtypes.bool_, dtypes.int16, dtypes.int8]  # fmt: skip
_DIMS, _MOST = 8, 8  # of a tensor, and tensors, at most


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


class PipelineStage:
    """One stage of a pipeline: the module that this process has of a model.

    submodule : what computes the stage: of tensors, the outputs of the stage before, or for the first the arguments.
    stage_index, num_stages : which of how many; of n processes, the one numbered k has the stages k, k + n, k + 2n ...
    device : where the tensors that come are put.

    *Raises*: ValueError for a stage that is not this process's.
    """

    def __init__(self, submodule: Module, stage_index: int, num_stages: int, device: Any, input_args: Any = None,
                 output_args: Any = None, group: Any = None, dw_builder: Any = None) -> None:  # fmt: skip
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device, group
        n, rank = get_world_size(group), get_rank(group)
        if num_stages % n or not 0 <= stage_index < num_stages or stage_index % n != rank:
            raise ValueError(text("each process has the stage of its number, or every n-th stage from there",
                                  op="PipelineStage", came=f"stage {stage_index} of {num_stages}",
                                  needed=f"a stage of {', '.join(map(str, range(rank, max(num_stages, n), n)))}, as "
                                         f"many on each of {n} processes"))  # fmt: skip
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self._n = n
        self._sent: list[Any] = []
        self._kept: dict[int, deque[Any]] = {}  # messages of this process to itself, by their tags
        self._running: dict[int, tuple[list[Any], list[Any]]] = {}  # inputs and outputs of a small batch, by its number

    # -- messages ----------------------------------------------------------------------------------------------------

    def _send(self, x: Any, to: int, tag: int) -> None:
        """Send a tensor to the stage after this one (`to` 1) or before it (-1)."""
        tag += self.stage_index + to
        if self._n == 1:
            self._kept.setdefault(tag, deque()).append(x)
        else:
            to = (self.stage_index + to) % self._n
            self._sent.append(isend(x.contiguous(), group=self.group, group_dst=to, tag=tag))

    def _receive(self, x: Any, of: int, tag: int) -> Any:
        tag += self.stage_index
        if self._n == 1:
            return self._kept[tag].popleft()
        work: Any = irecv(x, group=self.group, group_src=(self.stage_index + of) % self._n, tag=tag)
        work.wait()
        return x

    def _send_outputs(self, outputs: list[Any]) -> None:
        """Send what the next stage gets, how it looks first: small batches may differ."""
        if len(outputs) > _MOST or any(t.ndim > _DIMS for t in outputs):
            raise RuntimeError(text("too many outputs for a message", op="PipelineStage",
                                    came=f"{len(outputs)} tensors",
                                    needed=f"at most {_MOST}, of {_DIMS} dimensions"))  # fmt: skip
        head = [len(outputs)]
        for t in outputs:
            head += [_KINDS.index(t.dtype), int(t.requires_grad), t.ndim, *t.shape, *[0] * (_DIMS - t.ndim)]
        head += [0] * (1 + _MOST * (3 + _DIMS) - len(head))
        self._send(tensor(head), 1, _HEAD)
        for t in outputs:
            self._send(t.detach(), 1, _FORWARD)

    def _receive_inputs(self) -> list[Any]:
        head = self._receive(empty(1 + _MOST * (3 + _DIMS), dtype=dtypes.int64), -1, _HEAD).tolist()
        found = []
        for k in range(head[0]):
            kind, grad, ndim, *shape = head[1 + k * (3 + _DIMS) : 1 + (k + 1) * (3 + _DIMS)]
            made: Any = self._receive(empty(shape[:ndim], dtype=_KINDS[kind], device=self.device), -1, _FORWARD)
            found.append(made.requires_grad_() if grad else made)
        return found

    # -- passes ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _unsent(self) -> Any:
        """A block whose gradients are not averaged over processes yet: they are after the last small batch."""
        held = self.submod.no_sync() if isinstance(self.submod, DistributedDataParallel) else contextlib.nullcontext()
        with held:
            yield

    def forward(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], keep: bool = True) -> Any:
        """Run the forward pass of a small batch, and send on what it gives; return it."""
        inputs = list(args) if self.is_first else self._receive_inputs()
        with self._unsent():
            result = self.submod(*inputs, **kwargs)
        outputs = list(_tuple(result))
        if not self.is_last:
            self._send_outputs(outputs)
        if keep:
            self._running[number] = [] if self.is_first else inputs, outputs
        return result

    def backward(self, number: int, loss: Any, last: bool) -> None:
        """Run the backward pass of a small batch, from `loss` in the last stage, and send back the gradients."""
        inputs, outputs = self._running.pop(number)
        roots, grads = [loss], [None]
        if not self.is_last:
            roots = [t for t in outputs if t.requires_grad]
            grads = [self._receive(empty(t.shape, dtype=t.dtype, device=t.device), 1, _BACKWARD) for t in roots]
        if last and isinstance(self.submod, DistributedDataParallel) and self.submod.reducer is not None:
            self.submod.reducer.prepare(outputs)
        if hasattr(self.submod, "set_requires_gradient_sync"):
            self.submod.set_requires_gradient_sync(last)
        if roots:
            backward(roots, grads)
        for t in inputs:
            if t.requires_grad:
                self._send(zeros_like(t) if t.grad is None else t.grad, -1, _BACKWARD)

    def finish(self) -> None:
        """Wait until all that was sent has arrived."""
        for work in self._sent:
            work.wait()
        self._sent.clear()


class _Schedule:
    """In which order a process runs the passes of small batches through its stages.

    stages : this process's, in their order.
    n_microbatches : into how many parts, along their first dimension, tensors are divided.
    loss_fn : gives the loss of the last stage's output and a part of the target.
    scale_grads : whether gradients are divided by the number of parts: for a loss that is a mean.
    """

    def __init__(self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None,
                 scale_grads: bool) -> None:  # fmt: skip
        if n_microbatches < 1:
            raise ValueError(text("a batch has at least one part", op=type(self).__name__, came=f"{n_microbatches}"))
        self._stages, self._n, self._loss_fn, self._scale = list(stages), n_microbatches, loss_fn, scale_grads
        self._first, self._last = self._stages[0].is_first, self._stages[-1].is_last
        for stage in self._stages:
            stage._kept = self._stages[0]._kept

    def _order(self) -> list[tuple[str, int, int]]:
        """Return the passes in their order: "forward" or "backward", which of the stages, which small batch."""
        raise NotImplementedError

    def _divided(self, values: Sequence[Any], op: str) -> list[list[Any]]:
        for x in values:
            if isinstance(x, Tensor) and (not x.ndim or x.shape[0] < self._n):
                raise RuntimeError(text("a batch has fewer rows than parts", op=op, came=f"{tuple(x.shape)}",
                                        needed=f"at least {self._n} rows"))  # fmt: skip
        parts = [x.tensor_split(self._n) if isinstance(x, Tensor) else [x] * self._n for x in values]  # type: ignore[attr-defined]
        return [[p[k] for p in parts] for k in range(self._n)]

    def _parts(self, args: Any, kwargs: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        many = self._divided(args if self._first else (), "step")
        named = self._divided(list(kwargs.values()), "step")
        return [(tuple(a), dict(zip(kwargs, b, strict=True))) for a, b in zip(many, named, strict=True)]

    def step(self, *args: Any, target: Any = None, losses: list[Any] | None = None, return_outputs: bool = True,
             **kwargs: Any) -> Any:  # fmt: skip
        """Run a batch through all stages and back: gradients are added to those of the parameters.

        args : the inputs, in the first stage alone. kwargs : further inputs of this process's stages, divided alike.
        target : what `loss_fn` compares with, in the last stage. losses : gets the loss of each small batch there.

        Returns the whole output in the last stage, elsewhere None.
        """
        outputs: list[Any] = [None] * self._n
        loss_of: dict[int, Any] = {}
        if self._last and self._loss_fn is None:
            raise RuntimeError(text("the last stage needs a loss function", op=f"{type(self).__name__}.step",
                                    remedy="loss_fn=..., or eval()"))  # fmt: skip
        parts = self._parts(args, kwargs)
        targets = self._divided([target], "step") if self._last else []
        if losses is not None:
            losses.clear()
        backward_left = [self._n] * len(self._stages)
        for kind, j, k in self._order():
            stage = self._stages[j]
            if kind == "forward":
                found = stage.forward(k, *parts[k])
                if stage.is_last:
                    outputs[k], loss = found, self._loss_fn(found, targets[k][0])  # type: ignore[misc]
                    loss_of[k] = loss / self._n if self._scale else loss
                    if losses is not None:
                        losses.append(loss.detach())
            else:
                backward_left[j] -= 1
                stage.backward(k, loss_of.pop(k, None) if stage.is_last else None, backward_left[j] == 0)
        for stage in self._stages:
            stage.finish()
        return self._merged(outputs) if self._last and return_outputs else None

    def eval(self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any) -> Any:
        """Run a batch through all stages, without gradients; return the whole output in the last one."""
        outputs = []
        targets = self._divided([target], "eval") if self._last and target is not None else []
        parts = self._parts(args, kwargs)
        with no_grad():
            for kind, j, k in self._order():
                stage = self._stages[j]
                found = stage.forward(k, *parts[k], keep=False) if kind == "forward" else None
                if kind == "forward" and stage.is_last:
                    outputs.append(found)
                    if targets and losses is not None and self._loss_fn is not None:
                        losses.append(self._loss_fn(found, targets[k][0]))
        for stage in self._stages:
            stage.finish()
        return self._merged(outputs) if self._last else None

    @staticmethod
    def _merged(outputs: list[Any]) -> Any:
        with no_grad():
            if isinstance(outputs[0], tuple | list):
                return tuple(cat([o[k].detach() for o in outputs]) for k in range(len(outputs[0])))
            return cat([o.detach() for o in outputs])


class _OfOne(_Schedule):
    """A schedule of one stage a process: `stage`."""

    def __init__(self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
                 args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None,
                 scale_grads: bool = True) -> None:  # fmt: skip
        super().__init__([stage], n_microbatches, loss_fn, scale_grads)
        if stage.num_stages != stage._n:
            raise ValueError(text("a schedule of one stage a process", op=type(self).__name__,
                                  came=f"{stage.num_stages} stages on {stage._n} processes",
                                  remedy="ScheduleInterleaved1F1B([stage, stage, ...], ...)"))  # fmt: skip


class _OfSeveral(_Schedule):
    """A schedule of several stages a process: `stages`."""

    def __init__(self, stages: Sequence[PipelineStage], n_microbatches: int,
                 loss_fn: Callable[..., Tensor] | None = None, args_chunk_spec: Any = None,
                 kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
                 **ignored: Any) -> None:  # fmt: skip
        super().__init__(stages, n_microbatches, loss_fn, scale_grads)
        one = self._stages[0]
        if [x.stage_index for x in stages] != list(range(one.stage_index % one._n, one.num_stages, one._n)):
            raise ValueError(text("a process gives all of its stages, in their order", op=type(self).__name__,
                                  came=f"{[x.stage_index for x in stages]} of {one.num_stages}",
                                  needed=f"every {one._n}th"))  # fmt: skip


class ScheduleGPipe(_OfOne):
    """All forward passes, then all backward passes: a stage holds the whole batch's activations. arXiv 1811.06965."""

    __doc__ += (_Schedule.__doc__ or "").partition("\n")[2]

    def _order(self) -> list[tuple[str, int, int]]:
        return [("forward", 0, k) for k in range(self._n)] + [("backward", 0, k) for k in range(self._n)]


class Schedule1F1B(_OfOne):
    """One forward and one backward pass in turn, once as many forward passes are done as stages are left."""

    __doc__ += (_Schedule.__doc__ or "").partition("\n")[2]

    def _order(self) -> list[tuple[str, int, int]]:
        stage = self._stages[0]
        ahead = min(self._n, stage.num_stages - stage.stage_index)
        forward, backward = ([(kind, 0, k) for k in range(self._n)] for kind in ("forward", "backward"))
        return _in_turn(forward, backward, ahead)


class ScheduleLoopedBFS(_OfSeveral):
    """All forward passes of a stage, then of the next one; the backward passes likewise. arXiv 2211.05953."""

    __doc__ += (_Schedule.__doc__ or "").partition("\n")[2]

    def _order(self) -> list[tuple[str, int, int]]:
        many = range(len(self._stages))
        return [("forward", j, k) for j in many for k in range(self._n)] + [
            ("backward", j, k) for j in reversed(many) for k in range(self._n)]  # fmt: skip


class ScheduleInterleaved1F1B(_OfSeveral):
    """One forward and one backward pass in turn, through several stages of each process.

    The small batches go in rounds of as many as there are processes through one stage, then through the next. Their
    number is a multiple of the number of rounds. Source: Megatron-LM, arXiv 2104.04473, section 2.2.
    """

    __doc__ += (_Schedule.__doc__ or "").partition("\n")[2]

    def __init__(self, stages: Sequence[PipelineStage], n_microbatches: int, *args: Any, **more: Any) -> None:
        super().__init__(stages, n_microbatches, *args, **more)
        rounds = max(1, n_microbatches // self._stages[0]._n)
        self._round = n_microbatches // rounds
        if n_microbatches % rounds:
            raise ValueError(text("the number of small batches is a multiple of the number of rounds",
                                  op="ScheduleInterleaved1F1B", came=f"{n_microbatches} parts in {rounds} rounds",
                                  needed=f"a multiple of {self._stages[0]._n}"))  # fmt: skip

    def _order(self) -> list[tuple[str, int, int]]:
        per, many = self._round, len(self._stages)
        steps = [(at // per % many, at // (per * many) * per + at % per) for at in range(self._n * many)]
        left = self._stages[0]._n - 1 - self._stages[0].stage_index
        ahead = min(len(steps), (many - 1) * per + 2 * left + 1)
        return _in_turn([("forward", j, k) for j, k in steps], [("backward", many - 1 - j, k) for j, k in steps], ahead)


def _in_turn(forward: list[Any], backward: list[Any], ahead: int) -> list[Any]:
    """Return passes in their order: `ahead` forward ones, then a backward and a forward one in turn."""
    order = forward[:ahead]
    for k, each in enumerate(backward):
        order += [each, *forward[ahead + k : ahead + k + 1]]
    return order


_BY_NAME = {c.__name__.removeprefix("Schedule").lower(): c
            for c in (Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS)}  # fmt: skip


def get_schedule_class(schedule_name: str) -> type[_Schedule]:
    """Return a schedule by its name: "1F1B", "GPipe", "Interleaved1F1B" or "LoopedBFS", in any case.

    *Raises*: ValueError for another name.
    """
    found = _BY_NAME.get(schedule_name.lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(text(f"unknown schedule {schedule_name!r}", op="get_schedule_class",
                              needed=f"one of {', '.join(c.__name__ for c in _BY_NAME.values())}"))  # fmt: skip
    return found


PipelineScheduleMulti = _OfSeveral
PipelineScheduleSingle = _OfOne
_PipelineSchedule = _Schedule
__getattr__ = absent_names(__name__, "PipelineStage and Schedule1F1B, a stage in each process")
