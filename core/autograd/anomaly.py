"""Anomaly mode: backward stops at the first node whose gradient is NaN, and says which line of the forward made it."""

from __future__ import annotations

from typing import Any

from ..backends.sparse_array import values_of
from ..base.errors import text
from ..base.source import describe
from ..graph.node import Node
from ..tensors.tensor import Tensor

enabled = False
check_nan = True


class set_detect_anomaly:
    """Switch anomaly mode on or off at once; as a context manager, switch it back at the end.

    >>> import core
    >>> with core.autograd.set_detect_anomaly(True):
    ...     core.autograd.anomaly.is_anomaly_enabled()
    True
    >>> core.autograd.anomaly.is_anomaly_enabled()
    False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        global enabled
        self.before = (enabled, globals()["check_nan"])
        enabled, globals()["check_nan"] = bool(mode), bool(check_nan)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None:
        global enabled
        enabled, globals()["check_nan"] = self.before


class detect_anomaly:
    """In the block, a backward in which a NaN arises raises, with the op and the forward line that it belongs to.

    check_nan : whether NaN raises. Any other error of a backward names its node either way.

    *Raises*: RuntimeError ``Function 'LogBackward0' returned nan values in its 0th output.``

    >>> import core
    >>> x = core.tensor([0.0], requires_grad=True)
    >>> with core.autograd.detect_anomaly():
    ...     try:
    ...         (x * core.sqrt(x)).backward()
    ...     except RuntimeError as e:
    ...         print(str(e).splitlines()[0])
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan

    def __enter__(self) -> None:
        self._set = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        self._set.__exit__()


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on."""
    return enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode raises at a NaN."""
    return check_nan


def examine(node: Node, incoming: Any, results: tuple[Any, ...]) -> None:
    """Raise if a gradient that `node` made holds a NaN."""
    if not check_nan:
        return
    for i, g in enumerate(results):
        if g is None or not _has_nan(g):
            continue
        came = incoming if isinstance(incoming, list | tuple) else (incoming,)
        origin = "it came in with the gradient already" if any(c is not None and _has_nan(c) for c in came) else (
            "the gradient that came in holds none: it began here")  # fmt: skip
        raise RuntimeError(
            text(f"Function '{node.name()}' returned nan values in its {i}th output.",
                 op=node.op.label, came=f"NaN in the gradient of the op at {describe(node.place)}; {origin}",
                 remedy="keep its input where the derivative is finite (clamp, or add an epsilon)")
        )  # fmt: skip


def _has_nan(g: Any) -> bool:
    a = values_of(g._a if isinstance(g, Tensor) else g)
    return a.dtype.kind in "fcV" and bool((a != a).any())
