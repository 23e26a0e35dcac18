"""What an op does more than once: the same values again, results that grow from run to run, rows that hold one 1.

All of it is looked at by a few values of each operand, and of operands on the CPU alone; ops that are over at once are
not looked at.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

from core.autograd import anomaly
from core.base.pytorch import pytorch
from core.events import observe

from .cell_trace import Row, Trace
from .tensor_stats import on_host
from .tensor_types import TENSORS

LONG = 100_000  # ns of an op from which it is worth a look
ROWS_LONG = 300_000  # from which each sample of its input is
BUDGET = 0.03  # of the time that passes
SPOTS, SAMPLES = 144, 128  # values of an operand, and samples of a batch, that are looked at
MOST = 40_000  # operands that are remembered
SIDE, SAMPLED, FILLED = 256, 64, 0.01  # sides of a matrix, rows that are looked at, share of values that are not 0
WIDE, LOOKED = 64, 8  # columns from which rows may be one-hot, and rows that are looked at
PRODUCTS = {"linear", "matmul", "mm", "addmm", "bmm", "__matmul__", "einsum", "baddbmm", "__rmatmul__"}
RANDOM = {"dropout", "bernoulli", "multinomial", "rand_like", "randn_like", "randint_like", "normal", "rrelu",
          "poisson", "alpha_dropout", "feature_dropout", "uniform_", "normal_", "bernoulli_"}  # fmt: skip


class Repeats:
    """Hears every op of a recording and notes what repeats, in a small share of the time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._seen: dict[tuple[Any, ...], Row] = {}
        self._samples: dict[Row, set[int]] = {}
        self._spent, self._begin = 0, perf_counter_ns()

    def note(self, row: Row, e: observe.OpEvent, took: int, size: int) -> None:
        """Look at one run of an op that is no view and made `size` bytes."""
        if size > row.largest:
            row.largest, row.grown = size, row.grown + 1
        row.sizes += size
        if row.count == 1 and e.op in PRODUCTS:
            self._one_hot(row, e)
            self._sparse(row, e)
        if took < LONG or row.device != "cpu" or e.op in RANDOM or e.op.endswith("_") or len(self._seen) >= MOST:
            return
        start = perf_counter_ns()
        if self._spent <= BUDGET * (start - self._begin):
            self._look(row, e, took)
            self._spent += perf_counter_ns() - start

    def _look(self, row: Row, e: observe.OpEvent, took: int) -> None:
        given = [t._a for t in e.inputs if isinstance(t, TENSORS)]
        if not given or len(given) > 8:
            return
        digests = [_digest(a) for a in (*given, e.outputs[0]._a)]
        runs = self.trace.again.setdefault(row, [0, 0, 0])
        runs[0] += 1
        if digests[0] and digests[-1]:
            first = self._seen.get(key := (e.op, *digests))
            if first is None:
                self._seen[key] = row
            else:
                runs[1] += 1
                runs[2] += took
                self.trace.again_of.setdefault(row, first)
        if e.node is None and took >= ROWS_LONG and given[0].ndim > 1 and 1 < len(given[0]) <= SAMPLES:
            self._single(row, given[0])

    def _single(self, row: Row, a: Any) -> None:
        """Count the samples of a batch, and how many of them are different."""
        different = self._samples.setdefault(row, set())
        if len(different) < MOST:
            flat = on_host(a).reshape(len(a), -1)
            step = max(flat.shape[1] // 16, 1)
            few = np.ascontiguousarray(flat[:, ::step][:, :16])
            different.update(hash(line.tobytes()) for line in few)
            before = self.trace.single.get(row, (0, 0))
            self.trace.single[row] = before[0] + len(few), len(different)

    def _one_hot(self, row: Row, e: observe.OpEvent) -> None:
        """Note an operand of a product whose rows hold a single 1 each."""
        for k, t in enumerate(e.inputs[:2]):
            if not isinstance(t, TENSORS) or t._requires_grad or t._kind.device.type != "cpu" or not t._a.ndim:
                continue
            columns = t._a.shape[-1]
            if columns < WIDE or t._a.size < LOOKED * columns:
                continue
            some = np.asarray(on_host(t._a.reshape(-1, columns)[:LOOKED]))
            if (np.count_nonzero(some, axis=1) == 1).all() and (some.max(axis=1) == 1).all():
                self.trace.one_hot[row] = k, columns

    def _sparse(self, row: Row, e: observe.OpEvent) -> None:
        """Note an operand of a product that is a large matrix of almost only zeros, as a graph's adjacency is."""
        for k, t in enumerate(e.inputs[:2]):
            if not isinstance(t, TENSORS) or t._requires_grad or t._kind.device.type != "cpu" or t._a.ndim != 2:
                continue
            if min(t._a.shape) >= SIDE and row not in self.trace.one_hot:
                some = np.asarray(on_host(t._a[:: len(t._a) // SAMPLED]))
                share = np.count_nonzero(some) / some.size
                if 0 < share <= FILLED:
                    self.trace.sparse[row] = k, share


def _digest(a: Any) -> int:
    """A number for a few values of an array, spread over all of it; 0 where these are all alike, or all that is left
    beside NaN is, and tell nothing."""
    a = on_host(a)
    left, steps = SPOTS, []
    for n in reversed(a.shape):
        take = max(min(n, round(left ** (1 / 2)) if len(a.shape) > 1 else left), 1)
        steps.append(slice(n // (2 * take) if n > take else 0, None, max(n // take, 1)))
        left = max(left // take, 1)
    few = np.ascontiguousarray(a[tuple(reversed(steps))])
    known = few[few == few] if few.dtype.kind in "fc" else few
    if few.size > 1 and (not known.size or (known == known.flat[0]).all()):
        return 0
    return hash((a.shape, few.tobytes())) or 1


def hooks_of(modules: list[Any]) -> list[tuple[str, int, Any]]:
    """Return the modules on which one function was registered as a hook many times: class, how often, its code.

    >>> import core
    >>> layer = core.nn.Linear(2, 2)
    >>> for _ in range(9):
    ...     handle = layer.register_forward_hook(lambda module, given, made: None)
    >>> [(name, times) for name, times, _ in hooks_of([layer])]
    [('Linear', 9)]
    """
    found = []
    for module in modules:
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            hooks = getattr(module, kind, None)
            if not isinstance(hooks, dict) or len(hooks) < LOOKED:
                continue
            codes: dict[Any, int] = {}
            for hook in list(hooks.values()):
                code = getattr(hook, "__code__", None)
                if code is not None:
                    codes[code] = codes.get(code, 0) + 1
            if codes and max(codes.values()) >= LOOKED:
                code = max(codes, key=lambda c: codes[c])
                found.append((type(module).__name__, codes[code], code))
    return found


def anomaly_on() -> bool:
    """Return whether gradients are searched for NaN, in core or in PyTorch where that is loaded."""
    asks = getattr(pytorch(), "is_anomaly_enabled", None)
    return bool(anomaly.enabled or (callable(asks) and asks()))
