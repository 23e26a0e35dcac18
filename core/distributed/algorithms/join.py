"""`Join`: unequal numbers of batches. A process whose inputs have ended shadows what the others do together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ...base.device import device as Device
from ...base.errors import text
from ...base.source import warn
from ...ops.creation import ones, zeros
from ..collectives import all_reduce
from ..groups import get_rank

__all__ = ["Join", "JoinHook", "Joinable"]

_SKEW = 1000  # batches more than another process has: worth a warning


class JoinHook:
    """What a process does once its inputs have ended."""

    def main_hook(self) -> None:
        """Shadow the collectives of one iteration of those that go on."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Finish, when all inputs have ended; `is_last_joiner` for the processes that had most."""


@dataclass(frozen=True)
class _JoinConfig:
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable:
    """What takes part in `Join`. It calls `Join.notify_join_context` before the collectives of an iteration."""

    _join_config = _JoinConfig()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what it does once inputs have ended."""
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        """The device of its tensors."""
        return Device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The group of its processes."""
        raise NotImplementedError


class Join:
    """A block in which processes may run out of inputs: those that do shadow the others' collectives until all have.

    joinables : models and optimizers, in the order in which an iteration uses them.
    enable : False where inputs are known to be even: the block then does nothing.
    throw_on_early_termination : raise RuntimeError in all processes as soon as one has no inputs.

    >>> import core
    >>> from core.distributed.algorithms.join import Join
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> model = core.nn.parallel.DistributedDataParallel(core.nn.Linear(2, 1))
    >>> with Join([model]):
    ...     for x in (core.ones(3, 2), core.ones(1, 2)):
    ...         model(x).sum().backward()
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, joinables: Sequence[Joinable], enable: bool = True, throw_on_early_termination: bool = False,
                 **kwargs: Any) -> None:  # fmt: skip
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        if len({id(j.join_process_group) for j in joinables}) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._group, self._device = joinables[0].join_process_group, joinables[0].join_device
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        for k, j in enumerate(joinables):
            j._join_config = _JoinConfig(enable, throw_on_early_termination, k == 0)

    def __enter__(self) -> Join:
        return self

    def _sum(self, value: int) -> int:
        count = (ones if value else zeros)(1, device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> None:  # fmt: skip
        try:
            if self._enable and kind is None:
                self._shadow()
        finally:
            for j in self._joinables:
                j._join_config = _JoinConfig()

    def _shadow(self) -> None:
        rounds = 0
        while self._sum(0):  # one is added by each process that still has inputs
            if self._throw:
                self._sum(1)
                raise RuntimeError(text(f"Rank {get_rank(self._group)} exhausted all inputs.", op="Join",
                                        remedy="as many batches on every rank, or "
                                               "throw_on_early_termination=False"))  # fmt: skip
            for hook in self._hooks:
                hook.main_hook()
            rounds += 1
            if rounds == _SKEW + 1:
                warn(f"Detected uneven input skew of greater than {_SKEW}. This means that rank "
                     f"{get_rank(self._group)} has at least {_SKEW} fewer inputs than other currently-active ranks. "
                     "This level of skew could lead to performance degradation during training.")  # fmt: skip
        for hook in self._hooks:
            hook.post_hook(rounds == 0)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell processes without inputs that this one has some; return the work that counts them, or None.

        *Raises*: RuntimeError where another has none, with `throw_on_early_termination`.
        """
        config = joinable._join_config
        if not (config.enable and config.is_first_joinable):
            return None
        group, device = joinable.join_process_group, joinable.join_device
        count = ones(1, device=device)
        work = all_reduce(count, group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = zeros(1, device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work
