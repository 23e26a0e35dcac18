"""What all metrics share: a state that `update` adds to, `compute` reads, `reset` empties and `merge` joins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ..base.dtypes import float64
from ..base.modes import no_grad
from ..ops.joining import cat
from ..ops.where import where
from ..tensors.tensor import Tensor


class Metric:
    """Base of the metrics: counts and sums over all that was given, never the gradients' history.

    A subclass lists its state in `sums` (name -> dtype; tensors that are added up) and `kept` (names of lists of
    tensors, for what must be seen whole), adds to it in `_add(*args)` and reads it in `_value()`. The state lies where
    the data lie. Counts are int64 and sums float64: a million batches lose nothing.
    """

    sums: dict[str, Any] = {}  # noqa: RUF012 - a subclass has its own
    kept: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}
        self.reset()

    # -- what people call ----------------------------------------------------------------------------------------------

    def update(self, *args: Any, **kwargs: Any) -> Self:
        """Add a batch."""
        with no_grad():
            self._add(*[_plain(a) for a in args], **{k: _plain(v) for k, v in kwargs.items()})
            self.updates += 1
        return self

    def compute(self) -> Tensor:
        """Return the metric of everything since the last reset. *Raises*: RuntimeError before the first update."""
        if not self.updates:
            raise RuntimeError(f"{type(self).__name__}.compute() came before update(): there is nothing to compute "
                               "from.\n  remedy: metric.update(...) with every batch first")  # fmt: skip
        with no_grad():
            return self._value()

    def reset(self) -> Self:
        """Forget everything."""
        self.updates = 0
        self._state = dict.fromkeys(self.sums) | {name: [] for name in self.kept}
        return self

    def merge(self, others: Metric | Iterable[Metric]) -> Self:
        """Add what other metrics of the same kind have seen, of other workers say.

        *Raises*: TypeError for another kind of metric; ValueError for other settings.
        """
        for other in [others] if isinstance(others, Metric) else others:
            if type(other) is not type(self):
                raise TypeError(
                    f"{type(self).__name__}.merge() takes metrics of its own kind, got {type(other).__name__}"
                )
            if other.settings() != self.settings():
                raise ValueError(f"{type(self).__name__}.merge(): the settings differ: {self.settings()} here, "
                                 f"{other.settings()} there")  # fmt: skip
            if other.updates:
                with no_grad():
                    self._join(other)
            self.updates += other.updates
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Add a batch; the metric of that batch alone comes back."""
        one = type(self).__new__(type(self))
        one.__dict__.update(self.__dict__)
        one.reset().update(*args, **kwargs)
        self.merge(one)
        return one.compute()

    def to(self, device: Any) -> Self:
        """Move the state to a device."""

        def moved(x: Any) -> Any:
            return [moved(t) for t in x] if isinstance(x, list) else x if x is None else x.to(device)

        self._state = {name: moved(x) for name, x in self._state.items()}
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the state, for a checkpoint."""
        return {**{k: list(v) if isinstance(v, list) else v for k, v in self._state.items()}, "updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back a state. *Raises*: KeyError for one of another kind of metric."""
        missing = [k for k in (*self._state, "updates") if k not in state_dict]
        if missing:
            raise KeyError(f"{type(self).__name__}.load_state_dict(): the state lacks {', '.join(missing)}")
        self._state = {k: list(state_dict[k]) if k in self.kept else state_dict[k] for k in self._state}
        self.updates = state_dict["updates"]

    def settings(self) -> dict[str, Any]:
        """Return what the metric was made with."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_state", "updates")}

    def __repr__(self) -> str:
        said = ", ".join(f"{k}={v!r}" for k, v in self.settings().items() if v is not None)
        return f"{type(self).__name__}({said})"

    # -- what a subclass writes and uses -------------------------------------------------------------------------------

    def _join(self, other: Metric) -> None:
        for name in self.sums:
            self._sum(name, other._state[name])
        for name in self.kept:
            self._state[name] += other._state[name]

    def _add(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say how a batch is added: write _add(self, ...)")

    def _value(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: write _value(self)")

    def _sum(self, name: str, value: Tensor) -> None:
        """Add to one of `sums`."""
        value, held = value.to(self.sums[name]), self._state[name]  # type: ignore[attr-defined]
        self._state[name] = value if held is None else held.to(value.device) + value

    def _get(self, name: str) -> Tensor:
        return self._state[name]  # type: ignore[no-any-return]

    def _whole(self, name: str) -> Tensor:
        """One of `kept` as one tensor; what arrived is joined once."""
        parts = self._state[name]
        if len(parts) > 1:
            parts[:] = [cat([p.to(parts[0].device) for p in parts])]
        return parts[0]  # type: ignore[no-any-return]


def _plain(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x  # type: ignore[attr-defined]


def ratio(above: Tensor, below: Tensor, otherwise: float) -> Tensor:
    """Return the quotient in float64, and `otherwise` where it would be 0 / 0."""
    none = below == 0
    return where(none, otherwise, above.to(float64) / where(none, 1, below).to(float64))  # type: ignore[attr-defined, no-any-return]
