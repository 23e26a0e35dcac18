"""Functions that few programs call: older names, copies of views, rounding as quantised numbers would be."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from . import accelerator, cpu, cuda, mps, random, xpu
from .base.device import device as Device
from .base.errors import text
from .dispatch.out import into
from .nn import functional
from .ops.creation import arange
from .ops.quantised.fake import fake_quantise, numbers
from .tensors.tensor import Tensor, from_array

__all__ = ["binomial", "cond", "dropout", "dsmm", "eig", "expand_copy", "fake_quantize_per_channel_affine",
           "fake_quantize_per_tensor_affine", "from_file", "get_device_module", "matrix_rank", "range",
           "set_vital", "solve", "symeig", "while_loop"]  # fmt: skip


def range(start: float = 0, end: float | None = None, step: float = 1, *, out: Tensor | None = None,
          dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
          pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Return `start`, ``start + step``, ... with `end` among them; `arange`, which leaves it out, is what to use.

    >>> import core
    >>> core.range(1, 3)
    tensor([1., 2., 3.])
    """
    start, end = (0, start) if end is None else (start, end)
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(text("upper bound and larger bound inconsistent with step sign", op="range",
                                came=f"{start} to {end} by {step}"))  # fmt: skip
    n = math.floor((end - start) / step) + 1
    kind = dtype or (from_array(np.zeros(1)).float().dtype if out is None else out.dtype)
    found: Tensor = arange(n, dtype=kind, device=device) * step + start  # type: ignore[assignment]
    found = found.to(kind)
    if out is not None:
        out.resize_(found.shape).copy_(found)  # type: ignore[attr-defined]
        return out
    return found.requires_grad_() if requires_grad else found


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `input` with a share `p` of its elements at 0, and the others divided by ``1 - p``, while `train`.

    >>> import core
    >>> core.dropout(core.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    return functional.dropout(input, p, train)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Return how many of `count` draws come out, each with probability `prob`, element by element.

    >>> import core
    >>> core.binomial(core.tensor([5.0, 3.0]), core.tensor([1.0, 0.0]))
    tensor([5., 0.])
    """
    most = int(count.max()) if count.numel() else 0
    u: Any = random.rand(most, *count.shape, generator=generator, device=count.device, dtype=prob.dtype)
    place: Any = arange(most, device=count.device).reshape(most, *[1] * count.ndim)
    return ((u < prob) & (place < count)).sum(0).to(count.dtype)  # type: ignore[no-any-return]


def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices of which one may be sparse: `mm`, by an older name.

    >>> import core
    >>> core.dsmm(core.eye(2), core.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return input.mm(mat2)  # type: ignore[no-any-return, attr-defined]


def expand_copy(input: Tensor, size: Any, *, implicit: bool = False, out: Tensor | None = None) -> Tensor:
    """Return `input` stretched to `size` in memory of its own.

    >>> import core
    >>> core.expand_copy(core.ones(1), (2,)).is_contiguous()
    True
    """
    return into(out, input.expand(size).contiguous().clone(), "expand_copy")  # type: ignore[attr-defined]


def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: int,
                                    quant_max: int) -> Tensor:  # fmt: skip
    """Return what is left of `input` after rounding to ``scale * (whole - zero_point)``, `whole` within the bounds.

    The gradient is 1 where `whole` is within them, and else 0.

    >>> import core
    >>> core.fake_quantize_per_tensor_affine(core.tensor([0.26, 9.0]), 0.5, 0, -2, 2)
    tensor([0.5000, 1.0000])
    """
    scale, zero_point = (t.reshape(()) for t in numbers(input, scale, zero_point))  # type: ignore[attr-defined]
    return fake_quantise(input, scale, zero_point, low=quant_min, high=quant_max, axis=0)  # type: ignore[no-any-return]


def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int,
                                     quant_max: int) -> Tensor:  # fmt: skip
    """Return as `fake_quantize_per_tensor_affine`, with a scale and a zero point for each place along `axis`.

    >>> import core
    >>> core.fake_quantize_per_channel_affine(core.ones(2, 1), core.tensor([0.4, 1.0]), core.zeros(2), 0, -8, 7)
    tensor([[0.8000],
            [1.0000]])
    """
    return fake_quantise(input, scale, zero_point, low=quant_min, high=quant_max,
                         axis=axis % input.ndim)  # type: ignore[no-any-return]  # fmt: skip


def from_file(filename: str, shared: bool | None = None, size: int = 0, *, dtype: Any = None,
              device: Any = None, requires_grad: bool = False, layout: Any = None,
          pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Return a tensor over the first `size` elements of a file's memory map; writing it writes the file if `shared`.

    *Raises*: RuntimeError for a device other than the CPU; what opening the file raises.
    """
    kind = dtype or from_array(np.zeros(1)).float().dtype
    if device is not None and Device(device).type != "cpu":
        raise RuntimeError(text("a file is mapped into the CPU's memory", op="from_file", came=f"device={device}",
                                remedy="from_file(...).to(device)"))  # fmt: skip
    if shared:
        with open(filename, "ab") as file:  # a file that is too short grows
            file.truncate(max(file.tell(), size * kind.itemsize))
    mapped = np.memmap(filename, dtype=kind.numpy, mode="r+" if shared else "c", shape=(size,))
    found = from_array(mapped.view(np.ndarray))
    return found.requires_grad_() if requires_grad else found


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a kind of device: ``core.cpu``, ``core.cuda``, ...; of the accelerator's if None.

    >>> import core
    >>> core.get_device_module("cpu") is core.cpu
    True
    """
    if device is None:
        found = accelerator.current_accelerator()
        device = "cpu" if found is None else found.type
    kind = str(getattr(device, "type", device)).partition(":")[0]
    modules: dict[str, ModuleType] = {"cpu": cpu, "cuda": cuda, "mps": mps, "xpu": xpu}
    if kind not in modules:
        raise RuntimeError(text(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.",
                                op="get_device_module", needed=", ".join(modules)))  # fmt: skip
    return modules[kind]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Return what one of two functions makes of the operands: the first where `pred` is true.

    >>> import core
    >>> core.cond(core.tensor(True), core.neg, core.exp, (core.ones(1),))
    tensor([-1.])
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def set_vital(tag: str, attr: str, value: str) -> bool:
    """Return False: PyTorch keeps such words for its own builds, and nothing is kept here."""
    return False


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> tuple[Any, ...]:
    """Return what `body_fn` makes of its own results as long as `cond_fn` says True of them.

    >>> import core
    >>> core.while_loop(lambda i: i < 3, lambda i: (i + 1,), (core.tensor(0),))
    (tensor(3),)
    """
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        found = body_fn(*carried)
        carried = tuple(found) if isinstance(found, tuple | list) else (found,)
    return carried


def _removed(name: str, now: str) -> RuntimeError:
    return RuntimeError(text("This function was deprecated since version 1.9 and is now removed.", op=name,
                             remedy=f"core.linalg.{now}"))  # fmt: skip


def eig(self: Tensor, eigenvectors: bool = False, *, e: Any = None, v: Any = None) -> Any:
    """Raise RuntimeError, as PyTorch's does: `linalg.eig` took its place."""
    raise _removed("eig", "eig(A), or core.linalg.eigvals(A)")


def symeig(input: Tensor, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> Any:
    """Raise RuntimeError, as PyTorch's does: `linalg.eigh` took its place."""
    raise _removed("symeig", "eigh(A), or core.linalg.eigvalsh(A)")


def solve(input: Tensor, A: Tensor, *, out: Any = None) -> Any:
    """Raise RuntimeError, as PyTorch's does: `linalg.solve`, which takes the matrix first, took its place."""
    raise _removed("solve", "solve(A, B)")


def matrix_rank(input: Tensor, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> Any:
    """Raise RuntimeError, as PyTorch's does: `linalg.matrix_rank` took its place."""
    raise _removed("matrix_rank", "matrix_rank(A)")
