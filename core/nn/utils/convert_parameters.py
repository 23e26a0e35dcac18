"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...declare.op import functions
from ...tensors.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters in one vector, on the graph.

    >>> import core
    >>> core.nn.utils.parameters_to_vector(core.nn.Linear(2, 3).parameters()).shape
    core.Size([9])
    """
    return functions["cat"]([p.reshape(-1) for p in parameters])  # type: ignore[attr-defined, no-any-return]


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give every parameter its slice of a vector; they are views of it afterwards.

    *Raises*: TypeError for what is no tensor, RuntimeError for a vector that is too short.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in parameters:
        stop = start + p.numel()
        if stop > vec.numel():
            raise RuntimeError(f"shape '{list(p.shape)}' is invalid for input of size {vec.numel() - start}\n"
                               f"  op: vector_to_parameters; came: a vector of {vec.numel()} elements")  # fmt: skip
        p.data = vec[start:stop].reshape(p.shape).data  # type: ignore[index]
        start = stop
