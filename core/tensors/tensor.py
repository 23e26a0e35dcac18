"""`Tensor`: an array, its dtype and device, and its place in the graph. Its methods are bound from the op table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .. import native
from ..base import dtypes
from ..base.device import Kind, cpu, device, kind
from ..base.dtypes import dtype
from ..base.errors import text, truth
from ..base.modes import state as mode
from ..base.shape import Size
from ..base.source import describe, here, warn
from ..events import lineage, observe
from ..graph.node import Node, RemovableHandle
from ..graph.versions import refresh, storage_of, watch
from ..native.bases import TensorBase
from .device_read import to_host
from .printing import tensor_text

Array = Any  # numpy.ndarray, or cupy.ndarray on a GPU
FOREIGN = frozenset((dtypes.bfloat16, *dtypes.NO_ARITHMETIC))  # what NumPy has from ml_dtypes
_backward: Any = None  # core.autograd's, which sets it


class Tensor(TensorBase):
    """An n-dimensional array that can remember how it was made.

    Made by `core.tensor`, `core.zeros`, ... and by every operation on tensors.

    >>> import core
    >>> x = core.tensor([2.0], requires_grad=True)
    >>> (x**3 + 3 * x**2 + 5).backward()
    >>> x.grad
    tensor([24.])
    """

    # What most tensors share costs them nothing: an instance stores only what differs.
    _view_version = 0
    _undone = 0  # how many of those its base had when this view was made
    _grad: Tensor | None
    _hooks: dict[int, Any] | None = None
    _post_hooks: dict[int, Any] | None = None
    _retains_grad = False
    _shown = "tensor"  # what its repr begins with
    __array_priority__ = 1000

    if TYPE_CHECKING:
        # core.ops.legacy_types and core.tensors.copying bind these.
        def _fill(self, *given: Any) -> None: ...

    def __init__(self, *given: Any, **keywords: Any) -> None:
        if type(self).__new__ is Tensor.__new__ and self._a is None:  # a class with a `__new__` made it whole
            self._fill(*given, **keywords)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self._a.shape)

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        return self.shape if dim is None else self._a.shape[dim]

    @property
    def dtype(self) -> dtype:
        return self._kind.dtype

    @property
    def device(self) -> device:
        return self._kind.device

    @property
    def ndim(self) -> int:
        return int(self._a.ndim)

    def dim(self) -> int:
        """Return the number of dimensions."""
        return int(self._a.ndim)

    def numel(self) -> int:
        """Return the number of elements."""
        return int(self._a.size)

    nelement = numel

    def element_size(self) -> int:
        """Return bytes of one element."""
        return self._kind.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take; a view's own alone."""
        return self.numel() * self.element_size()

    @overload
    def stride(self) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Any:
        """Steps between neighbours in elements, for every dimension or one."""
        steps = tuple(st // self._a.itemsize for st in self._a.strides)
        return steps if dim is None else steps[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether the elements lie in memory in row-major order; as ``channels_last``, with the channels, the
        second dimension, as the last."""
        last = {"channels_last": 4, "channels_last_3d": 5}.get(getattr(memory_format, "name", ""))
        if last is None:
            return bool(self._a.flags.c_contiguous)
        return bool(self._a.ndim == last and self._a.transpose(0, *range(2, last), 1).flags.c_contiguous)

    def data_ptr(self) -> int:
        """Return the address of the first element; 0 on the device `meta`."""
        if self._kind.device.type == "meta":
            return 0
        return int(self._a.ctypes.data if isinstance(self._a, np.ndarray) else self._a.data.ptr)

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU."""
        return self._kind.device.type == "cuda"

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a floating-point one."""
        return self._kind.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether the dtype is a complex one."""
        return self._kind.dtype.is_complex

    # -- its place in the graph ----------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether ops on it are remembered for backward."""
        if self._base is not None:
            refresh(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool | np.bool_):
            raise RuntimeError(text("requires_grad must be a bool", came=f"{value!r:.60}"))
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether gradients are wanted for this leaf."""
        if requires_grad is not True and requires_grad is not False:
            truth("requires_grad_", "requires_grad", requires_grad)
        if self.grad_fn is not None:
            if not requires_grad:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            return self
        if requires_grad and not (self._kind.dtype.is_floating_point or self._kind.dtype.is_complex):
            raise RuntimeError(
                text(
                    "only Tensors of floating point and complex dtype can require gradients",
                    op="requires_grad_",
                    came=f"a tensor of {self._kind.dtype}",
                    needed="a floating-point dtype",
                    remedy="x = x.float(), then requires_grad_()",
                )
            )
        self._requires_grad = bool(requires_grad)
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for a leaf."""
        if self._base is not None:
            refresh(self)
        return self._node

    @property
    def is_leaf(self) -> bool:
        """Whether no op made it: backward leaves gradients in leaves."""
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        """Which of its node's outputs it is, from 0."""
        return self._nr

    if TYPE_CHECKING:
        grad: Tensor | None

    @property
    def _told_grad(self) -> Tensor | None:
        """`grad` in words: what native/binding/types/tensor_node_types.c leaves to Python."""
        found = self._grad
        if found is None and self._node is not None and not self._retains_grad:
            warn(
                text(
                    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                    "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated "
                    "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                    op="grad",
                    came=f"a tensor of shape {tuple(self._a.shape)} made at {describe(self._node.place)}",
                    remedy="y.retain_grad() before backward, or the .grad of the leaf it was made from",
                ),
            )
        return found

    @_told_grad.setter
    def _told_grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._a.shape != self._a.shape:
                raise RuntimeError(
                    text(f"attempting to assign a gradient of size '{list(value._a.shape)}' to a tensor of size "
                         f"'{list(self._a.shape)}'. Please ensure that the gradient and the tensor are the same size")
                )  # fmt: skip
            if value._kind is not self._kind and (value.dtype, value.device) != (self.dtype, self.device):
                raise RuntimeError(
                    text("assigned grad has data of a different type", came=str(value._kind), needed=str(self._kind),
                         remedy="grad.to(x)")
                )  # fmt: skip
        self._grad = value

    @_told_grad.deleter
    def _told_grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was asked of it."""
        return self._retains_grad

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `.grad` when backward passes through it."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.grad_fn is not None:
            self._retains_grad = True
            watch(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` when this tensor's gradient is computed; a tensor it returns replaces the gradient."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._hooks is None:
            self._hooks = {}
        if self.grad_fn is not None:
            watch(self)
        return RemovableHandle(self._hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` after a gradient was added to this leaf's `.grad`: in a backward pass as soon as the
        last op that uses the leaf has run, while others are yet to come."""
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self._post_hooks is None:
            self._post_hooks = {}
        observe.hooked = True
        return RemovableHandle(self._post_hooks, hook)

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:  # fmt: skip
        """Add the gradients of this tensor to the `.grad` of the leaves it was made from.

        Raises
        ------
        RuntimeError
            For a tensor of several elements without `gradient`; when nothing it was made from requires a gradient;
            when the graph's values are freed already; when one was changed in place.
        """
        _backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """Return the same values, cut from the graph; the memory is shared."""
        out = wrap(self._a, self._kind)
        out._storage = storage_of(self)
        if observe.observers:
            left_graph("detach", self, out)
        return out

    def detach_(self) -> Tensor:
        """Cut this tensor itself from the graph."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if observe.observers:
            left_graph("detach", self, self)
        self._node, self._requires_grad, self._nr = None, False, 0
        return self

    @property
    def data(self) -> Tensor:
        """The same values outside the graph; changes through it go unnoticed by autograd."""
        out = wrap(self._a, self._kind)
        if observe.observers:
            left_graph("data", self, out)
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        self._a, self._kind = value._a, value._kind

    @property
    def _version(self) -> int:
        return 0 if self._storage is None else self._storage.version

    def _is_view(self) -> bool:
        return self._base is not None

    # -- leaving for Python and NumPy ----------------------------------------------------------------------------------

    def item(self) -> Any:
        """Return the one element as a Python number."""
        if self._a.size != 1:
            raise RuntimeError(
                text(
                    f"a Tensor with {self._a.size} elements cannot be converted to Scalar",
                    op="item",
                    came=f"shape {tuple(self._a.shape)}",
                    needed="one element",
                    remedy="reduce it first: x.mean().item()",
                )
            )
        start = perf_counter_ns() if observe.observers else 0
        a = self._a.astype(np.float32) if self._kind.dtype in FOREIGN else self._a
        value = a.item() if self._kind.device is cpu else to_host(a.item, self._kind.device.type)
        if observe.observers:
            left_graph("item", self, None, start)
            was_read("item", self)
        if observe.followers:
            observe.tell("left", value)
        return value

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        start = perf_counter_ns() if observe.observers else 0
        a = self._a.astype(np.float32) if self._kind.dtype in FOREIGN else self._a
        values = a.tolist() if self._kind.device is cpu else to_host(a.tolist, self._kind.device.type)
        if observe.observers:
            left_graph("tolist", self, None, start)
            was_read("tolist", self)
        return values

    def numpy(self, *, force: bool = False) -> Any:
        """Return the values as a NumPy array that shares this tensor's memory.

        Raises
        ------
        RuntimeError
            For a tensor that requires a gradient: NumPy would leave the graph unseen. Say `detach()` first.
        TypeError
            For a tensor on a GPU: say `cpu()` first. ``force=True`` does both.
        """
        if force:
            return self.detach().cpu().numpy()  # type: ignore[attr-defined]
        if mode.enabled and self.requires_grad:
            raise RuntimeError(
                text(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
                    op="numpy",
                    came=f"a {self._kind} tensor of shape {tuple(self._a.shape)} with its history",
                    remedy="detach() to leave the graph on purpose, or stay on it with the op of the same name",
                )
            )
        if self._kind.device.type != "cpu":
            raise TypeError(
                text(
                    f"can't convert {self._kind.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
                    "tensor to host memory first.",
                    op="numpy",
                )
            )
        if self._kind.dtype in dtypes.NO_ARITHMETIC:
            raise TypeError(text(f"Got unsupported ScalarType {self._kind.dtype.scalar_type}", op="numpy",
                                 remedy="x.float().numpy(), or x.view(core.uint8).numpy() for the bits"))  # fmt: skip
        if observe.observers:
            was_read("numpy", self)
            return left_graph("numpy", self, self._a)
        return self._a

    def __bool__(self) -> bool:
        if self._a.size != 1:
            raise RuntimeError(
                text(
                    f"Boolean value of Tensor with {'no values' if self._a.size == 0 else 'more than one value'} is "
                    "ambiguous",
                    came=f"shape {tuple(self._a.shape)}",
                    remedy="x.any(), x.all() or a single element",
                )
            )
        was_read("bool", self)
        if self._kind.device is cpu:
            return bool(self._a.item())
        start = perf_counter_ns()
        value = bool(to_host(self._a.item, self._kind.device.type))
        if observe.observers:
            left_graph("bool", self, None, start)
        return value

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self._kind.dtype.category > 1 or self._a.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        was_read("index", self)
        return int(self._a.item() if self._kind.device is cpu else to_host(self._a.item, self._kind.device.type))

    def __len__(self) -> int:
        if self._a.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        was_read("len", self)
        return int(self._a.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if self._a.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self._a.shape[0]))  # type: ignore[index]

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        start = perf_counter_ns() if observe.observers else 0
        if start:
            was_read("print", self)
        shown = tensor_text(self)
        if start and self._kind.device is not cpu:
            left_graph("print", self, None, start)
        return shown

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._a.ndim == 0 else object.__format__(self, spec)


if native.module is None:
    Tensor.grad = Tensor._told_grad  # type: ignore[assignment]
else:
    native.module.connect_shapes(Tensor, Size)


def wrap(a: Array, k: Kind) -> Tensor:
    """Return a tensor over an array, outside any graph."""
    out = Tensor.__new__(Tensor)
    out._a, out._kind = a, k
    return out


def from_array(a: Array, where: device = cpu) -> Tensor:
    """Return a tensor over an array, its dtype the array's."""
    return wrap(a, kind(dtypes.from_numpy(a.dtype), where))


def was_read(what: str, t: Tensor | None) -> None:
    """Tell observers that the values of `t` (of one that is not known: None) became something of Python's."""
    if observe.observers:
        observe.notify(observe.listening(), "read", observe.ReadEvent(what, t, here(2)))


def left_graph(what: str, t: Tensor, result: Any, start: int = 0) -> Any:
    """Tell observers that the value of `t` leaves the graph; gives the result back, carrying its origin if wanted.

    `start` is when it was asked for, where it comes from a GPU that may be busy."""
    stop = perf_counter_ns() if start and t._kind.device.type != "cpu" else 0
    place = here(2)
    observe.notify(observe.listening(), "cut", observe.CutEvent(what, t, result, place, start if stop else 0, stop))
    if what == "numpy" and observe.wanted("lineage"):
        return lineage.traced(result, t, place)
    return result
