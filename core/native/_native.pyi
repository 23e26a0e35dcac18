"""The C extension: kernels on NumPy arrays of float32 and float64. Positional arguments alone, except in the steps."""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]
Axes: TypeAlias = int | tuple[int, ...] | None

@final
class Map:
    """An elementwise kernel: arrays (or Python numbers in their place) and then its parameters."""

    @property
    def name(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def in_types(self) -> str: ...
    @property
    def out_type(self) -> str: ...
    @property
    def n_params(self) -> int: ...
    def __call__(self, *arrays_and_params: Array | float) -> Array: ...
    def into(self, out: Array, /, *arrays_and_params: Array | float) -> Array: ...

maps: dict[tuple[str, str], Map]

def empty(shape: int | Sequence[int], dtype: DTypeLike, /) -> Array: ...
def memory_stats() -> dict[str, int]: ...
def release_memory() -> None: ...
def set_memory_limit(limit_bytes: int, /) -> None: ...
def get_num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def sum(a: Array, axes: Axes = None, keepdims: bool = False, /) -> Array: ...
def mean(a: Array, axes: Axes = None, keepdims: bool = False, /) -> Array: ...
def max(a: Array, axes: Axes = None, keepdims: bool = False, /) -> Array: ...
def min(a: Array, axes: Axes = None, keepdims: bool = False, /) -> Array: ...
def argmax(a: Array, axis: int | None = None, keepdims: bool = False, /) -> NDArray[np.int64]: ...
def argmin(a: Array, axis: int | None = None, keepdims: bool = False, /) -> NDArray[np.int64]: ...
def stats(a: Array, /) -> tuple[float, float, float, float, int, int, list[int]]: ...
def all_finite(a: Array, /) -> bool: ...
def softmax(x: Array, /) -> Array: ...
def log_softmax(x: Array, /) -> Array: ...
def softmax_backward(g: Array, y: Array, /) -> Array: ...
def log_softmax_backward(g: Array, y: Array, /) -> Array: ...
def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, eps: float, axes: int = 1, /
) -> tuple[Array, Array, Array]: ...
def layer_norm_backward(
    g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, /
) -> tuple[Array, Array, Array]: ...
def cross_entropy(
    x: Array,
    target: NDArray[np.int64],
    weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    /,
) -> tuple[Array, Array]: ...
def cross_entropy_backward(
    g: Array,
    x: Array,
    lse: Array,
    target: NDArray[np.int64],
    weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    /,
) -> Array: ...
def embedding(weight: Array, index: NDArray[np.int64], /) -> Array: ...
def embedding_backward(g: Array, index: NDArray[np.int64], count: int, padding_idx: int | None = None, /) -> Array: ...
def adamw_step(
    params: Sequence[Array],
    grads: Sequence[Array],
    exp_avgs: Sequence[Array],
    exp_avg_sqs: Sequence[Array],
    step: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool = False,
    decoupled: bool = True,
) -> None: ...
def sgd_step(
    params: Sequence[Array],
    grads: Sequence[Array],
    momenta: Sequence[Array] | None,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
) -> None: ...

class TensorBase:
    """The fields of every tensor; core.native.bases names them."""

class NodeBase:
    """The fields of every node; core.native.bases names them."""

@final
class Hot:
    """An elementwise op on its commonest path; None for anything else."""

    def __init__(self, op: Any, kernels: dict[Any, Any], layout: Any, recorded: bool, boolean: bool) -> None: ...
    def __call__(self, *operands: Any) -> Any: ...

def connect(
    *,
    tensor_type: type,
    node_type: type,
    observe: dict[str, Any],
    saving: dict[str, Any],
    mode: Any,
    ours: dict[str, bool],
    user_frame: Any,
    refresh: Any,
    storage_of: Any,
    storage_type: type,
    next_number: Any,
) -> None: ...
def step(node: Any, gradient: Array, place: Any, /) -> tuple[Array | None, ...] | None: ...
