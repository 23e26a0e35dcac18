"""`ZeroRedundancyOptimizer`: each process steps a part of the parameters, and keeps the state of that part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import text
from ..base.modes import no_grad
from ..optim.optimizer import Optimizer
from .algorithms.join import Joinable, JoinHook
from .collectives import broadcast
from .flat import divided, flat_buffer
from .groups import get_rank, get_world_size, member
from .objects import gather_object

__all__ = ["ZeroRedundancyOptimizer"]

_SMALL_BYTES = 1 << 20  # smaller parameters are sent together


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is divided over processes: each steps its part of the parameters, and sends it to all.

    Parameters are dealt out whole, the largest first, each to the process that has least. Source: arXiv 1910.02054.

    params : tensors or groups of them, the same in every process, with the same gradients.
    optimizer_class : what makes each process's optimizer.
    parameters_as_bucket_view : whether parameters become parts of flat buffers, which are sent without a copy.
    defaults : the settings of `optimizer_class`.

    Raises
    ------
    ValueError
        Before `core.distributed.init_process_group`.
    NotImplementedError
        With `overlap_with_ddp`.

    >>> import core
    >>> from core.distributed.optim import ZeroRedundancyOptimizer
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> w = core.ones(1, requires_grad=True)
    >>> opt = ZeroRedundancyOptimizer([w], core.optim.SGD, lr=0.5)
    >>> w.sum().backward()
    >>> opt.step()
    >>> w.item()
    0.5
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, params: Any, optimizer_class: Callable[..., Optimizer], process_group: Any = None,
                 parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False,
                 **defaults: Any) -> None:  # fmt: skip
        member(process_group)
        if overlap_with_ddp:
            raise NotImplementedError(text("steps are not made while gradients are still sent",
                                           op="ZeroRedundancyOptimizer", came="overlap_with_ddp=True",
                                           remedy="overlap_with_ddp=False, and step() after backward()"))  # fmt: skip
        self.process_group = process_group
        self.rank, self.world_size = get_rank(process_group), get_world_size(process_group)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._sizes = [0] * self.world_size  # elements of each process
        self._owner: dict[int, int] = {}
        self._gathered: list[dict[str, Any]] | None = None
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._part(g) for g in self.param_groups], **defaults)
        self.optim._stepping = True  # its steps are parts of this one's: counted, told to observers and hooks once
        self.defaults = self.optim.defaults
        self._settings_from_part()
        self._bundle()

    # -- who has what ------------------------------------------------------------------------------------------------

    def _part(self, group: dict[str, Any]) -> dict[str, Any]:
        """Deal out a group's parameters; return the group with those of this process."""
        for p in sorted(group["params"], key=lambda p: -p.numel()):
            owner = self._sizes.index(min(self._sizes))
            self._sizes[owner] += p.numel()
            self._owner[id(p)] = owner
        named = "param_names" in group
        part = {k: v for k, v in group.items() if k not in ("params", "param_names")}
        names = group["param_names"] if named else group["params"]
        mine = [(n, p) for n, p in zip(names, group["params"], strict=True) if self._owner[id(p)] == self.rank]
        return part | {"params": mine if named else [p for _, p in mine]}

    def _bundle(self) -> None:
        """Make up what is sent after each step: of each process single large parameters, and small ones together."""
        self._sent: list[tuple[int, Any, list[Any], list[Any]]] = []  # owner, what is sent, parameters, its parts
        for owner in range(self.world_size if self.world_size > 1 else 0):
            params = [p for g in self.param_groups for p in g["params"] if self._owner[id(p)] == owner and p.numel()]
            for numbers in divided(params, _SMALL_BYTES, _SMALL_BYTES):
                many = [params[k] for k in numbers]
                if len(many) == 1:
                    self._sent.append((owner, many[0], [], []))
                    continue
                whole, parts = flat_buffer(many, copied=True)
                if self.parameters_as_bucket_view:
                    for p, part in zip(many, parts, strict=True):
                        p.data = part
                    many = parts = []
                self._sent.append((owner, whole, many, parts))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group in all processes; its parameters are dealt out."""
        super().add_param_group(param_group)
        if self.optim is not None:
            self.optim.add_param_group(self._part(self.param_groups[-1]))
            self._settings_from_part()
            self._bundle()

    def _settings_to_part(self) -> None:
        assert self.optim is not None
        for mine, part in zip(self.param_groups, self.optim.param_groups, strict=True):
            part.update({k: v for k, v in mine.items() if k not in ("params", "param_names")})

    def _settings_from_part(self) -> None:
        assert self.optim is not None
        for mine, part in zip(self.param_groups, self.optim.param_groups, strict=True):
            mine.update({k: v for k, v in part.items() if k not in ("params", "param_names")})

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of this process's parameters."""
        return {} if self.optim is None else self.optim.state

    @state.setter
    def state(self, ignored: Any) -> None:
        """Leave the state where it is: in this process's optimizer."""

    # -- the step ----------------------------------------------------------------------------------------------------

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Step this process's parameters, and give all processes all parameters."""
        assert self.optim is not None
        self._settings_to_part()
        loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        works = []
        with no_grad():
            for owner, sent, params, parts in self._sent:
                for p, part in zip(params, parts, strict=True) if owner == self.rank else ():
                    part.copy_(p)
                works.append(broadcast(sent.detach(), group=self.process_group, group_src=owner, async_op=True))
            for work, (owner, _, params, parts) in zip(works, self._sent, strict=True):
                work.wait()  # type: ignore[union-attr]
                for p, part in zip(params, parts, strict=True) if owner != self.rank else ():
                    p.copy_(part)
        self._settings_from_part()
        return loss

    # -- states ------------------------------------------------------------------------------------------------------

    def _numbers(self) -> dict[int, int]:
        many = [p for g in self.param_groups for p in g["params"]]
        return {id(p): k for k, p in enumerate(many)}

    def _own_state(self) -> dict[Any, Any]:
        number = self._numbers()
        return {number[id(p)]: x for p, x in self.state.items()}

    def own_state_dict(self) -> dict[str, Any]:
        """Return the state of this process's part, as `load_state_dict` takes it: for checkpoints by all processes."""
        return self._with_groups(self._own_state())

    def _with_groups(self, state: dict[Any, Any]) -> dict[str, Any]:
        number = self._numbers()
        groups = [{**g, "params": [number[id(p)] for p in g["params"]]} for g in self.param_groups]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state in the process numbered `to`, which may then call `state_dict`. All processes call this."""
        every: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(self._own_state(), every, group=self.process_group, group_dst=to)
        self._gathered = every

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, as the optimizer would have it in one process.

        *Raises*: RuntimeError in a process where `consolidate_state_dict` did not gather it.
        """
        if self._gathered is None and self.world_size > 1:
            raise RuntimeError(text(
                f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state.",
                op="ZeroRedundancyOptimizer.state_dict"))  # fmt: skip
        every = self._gathered if self._gathered is not None else [self._own_state()]
        return self._with_groups({k: x for part in every for k, x in part.items()})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a whole state: this process keeps what belongs to its parameters."""
        assert self.optim is not None
        saved = state_dict["param_groups"]
        if [len(g["params"]) for g in saved] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("loaded state dict has a different number of parameter groups, or of parameters in one")
        key = {id(p): k for g, theirs in zip(self.param_groups, saved, strict=True)
               for p, k in zip(g["params"], theirs["params"], strict=True)}  # fmt: skip
        groups, state, at = [], {}, 0
        for part, theirs in zip(self.optim.param_groups, saved, strict=True):
            numbers = range(at, at + len(part["params"]))
            at += len(numbers)
            groups.append({**theirs, "params": list(numbers)})
            for k, p in zip(numbers, part["params"], strict=True):
                if key[id(p)] in state_dict["state"]:
                    state[k] = state_dict["state"][key[id(p)]]
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self._settings_from_part()

    # -- uneven inputs -------------------------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what `Join` calls once this process has no inputs: it steps its part as before."""
        return _Steps(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The group of its processes."""
        return self.process_group


class _Steps(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """Step this process's part by the gradients that it was given."""
        self.optimizer.step()
