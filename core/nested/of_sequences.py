"""`NestedTensor`: sequences of several lengths in one tensor of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from ..backends.sparse_array import ArrayOfValues, NotDense, asked
from ..base.errors import text
from ..base.layouts import jagged
from ..base.shape import Size, normalize_dim
from ..dispatch import of_values
from ..dispatch.of_values import OfValues, apart
from ..tensors.tensor import Tensor
from .structure import RaggedSize, Structure

PHRASE = "not supported for NestedTensor"
Run = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
REMEDY = "x.to_padded_tensor(padding), or x.values() where rows count alone"
_run: Run
_padded: Callable[..., Tensor]


def connect(run: Run, padded: Callable[..., Tensor]) -> None:
    """Take what computes functions of nested tensors: those of core.nested.rules and core.nested.padding."""
    global _run, _padded
    _run, _padded = run, padded


class NestedArray(ArrayOfValues):
    """Where a dense tensor has its array: it knows a shape and a dtype, and raises where it is asked for numbers."""

    __slots__ = ("shape", "values")

    def __init__(self, shape: tuple[Any, ...], values: Any) -> None:
        self.shape, self.values = shape, values

    @property
    def size(self) -> int:
        return int(self.values.size)

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def __array__(self, *given: Any, **options: Any) -> NoReturn:
        raise NotDense(_refusal("numpy", self.shape))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotDense(_refusal(asked() or name, self.shape))


def _refusal(op: str, shape: tuple[Any, ...]) -> str:
    return text(f"{op}(): {PHRASE}", op=op, came=f"a nested tensor of shape {shape}", remedy=REMEDY)


class NestedTensor(OfValues):
    """A batch of sequences of several lengths, of shape ``(B, *, j1, *)``: rows of values, and where each begins.

    Its values have the dimensions after the batch, with the rows of all sequences, one after the other, where the size
    ``j1`` stands. Every function that is given one asks it, and core.nested.rules has what it then comes to.
    """

    _structure: Structure
    _ragged: int  # which dimension has the size that differs
    is_nested = True

    @classmethod
    def __torch_function__(cls, func: Any, types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(func, args, kwargs or {})

    # -- its parts -----------------------------------------------------------------------------------------------------

    def values(self) -> Tensor:
        """Return the rows of all sequences, one after the other; on the graph where this tensor is."""
        return self._held

    def offsets(self) -> Tensor:
        """Return the row at which each sequence begins, and the end: ``(B + 1,)``."""
        return self._structure.offsets

    def lengths(self) -> Tensor | None:
        """Return the lengths of the sequences where they leave rows out; else None."""
        return self._structure.lengths

    def with_values(self, values: Tensor) -> NestedTensor:
        """Return a tensor of the same sequences with other values."""
        return made(values, self._structure, self._ragged)

    def compacted(self) -> NestedTensor:
        """Return it without rows that are in no sequence."""
        rows = self._structure.rows
        if rows is None:
            return self
        values = self._held.index_select(self._ragged - 1, rows)  # type: ignore[attr-defined]
        return made(values, self._structure.compact(), self._ragged)

    def pieces(self) -> list[Tensor]:
        """Return the sequences: views of the values."""
        s, dim = self._structure, self._ragged - 1
        if s.rows is None:
            return list(self._held.split(s.counts.tolist(), dim))  # type: ignore[attr-defined]
        return [self._held.narrow(dim, int(a), int(n)) for a, n in zip(s.starts, s.counts, strict=True)]  # type: ignore[attr-defined]

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def layout(self) -> Any:  # type: ignore[override]
        return jagged

    @property
    def shape(self) -> Size:
        sizes: list[Any] = [self._structure.batch, *self._held.shape]
        sizes[self._ragged] = self._structure.size
        return Size(sizes)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension: ``j1`` where it differs."""
        return self.shape if dim is None else self.shape[normalize_dim(dim, self.ndim, "size")]

    @property
    def ndim(self) -> int:
        return self._held.ndim + 1

    def dim(self) -> int:
        """Return the number of dimensions, the batch's among them."""
        return self._held.ndim + 1

    def numel(self) -> int:
        """Return the number of elements of all sequences."""
        total = self._structure.total
        return self._held.numel() // total * self._structure.live if total else 0

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """Return the steps between neighbours; from sequence to sequence they differ."""
        inner = self._held.stride()
        step = inner[self._ragged - 1]
        whole = step if self._ragged == 1 else max(inner)
        steps: tuple[int | RaggedSize, ...] = (whole * self._structure.size, *inner)
        return steps if dim is None else steps[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether the sequences follow each other without gaps, each in row-major order."""
        return self._structure.rows is None and self._ragged == 1 and self._held.is_contiguous()

    def data_ptr(self) -> int:
        return self._held.data_ptr()

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Return a dense tensor, `padding` behind the end of each sequence: `core.nested.to_padded_tensor`."""
        return _padded(self, padding, output_size)

    def __len__(self) -> int:
        return self._structure.batch

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.pieces())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        how = ""
        if self._held.grad_fn is not None:
            how = f", grad_fn=<{self._held.grad_fn.name()}>"
        elif self.requires_grad:
            how = ", requires_grad=True"
        sizes = ", ".join(map(str, self.shape))
        return f"NestedTensor(size=({sizes}), offsets={self.offsets()!r}{how}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    # -- it does not leave as it is ------------------------------------------------------------------------------------

    def refused(self, name: str) -> NoReturn:
        raise NotImplementedError(_refusal(name, tuple(self.shape)))

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(text(".numpy() is not supported for tensor subclasses.", op="numpy", came="a nested tensor",
                                remedy="[t.numpy() for t in x.unbind()], or x.values().numpy()"))  # fmt: skip

    def tolist(self) -> Any:
        raise RuntimeError(text(".tolist() is not supported for tensor subclasses, got NestedTensor", op="tolist",
                                remedy="[t.tolist() for t in x.unbind()]"))  # fmt: skip

    def item(self) -> Any:
        if self.numel() == 1:
            return self.compacted()._held.item()
        raise RuntimeError(text(f"a Tensor with {self.numel()} elements cannot be converted to Scalar", op="item",
                                came=f"a nested tensor of shape {tuple(self.shape)}",
                                needed="one element"))  # fmt: skip

    def __bool__(self) -> bool:
        if self.numel() == 1:
            return bool(self.item())
        raise RuntimeError(text("Boolean value of Tensor with more than one value is ambiguous", op="bool",
                                came=f"a nested tensor of shape {tuple(self.shape)}",
                                remedy="x.any() or x.all()"))  # fmt: skip

    def __array__(self, *given: Any, **options: Any) -> Any:
        self.numpy()

    def __dlpack__(self, **kwargs: Any) -> NoReturn:
        self.refused("__dlpack__")

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                               "protocol at the moment.\n  op: deepcopy; came: a nested tensor with a history; "
                               "remedy: x.detach()")  # fmt: skip
        values = self._held.detach().clone().requires_grad_(self.requires_grad)  # type: ignore[attr-defined]
        out = memo[id(self)] = self.with_values(values)
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        s = self._structure
        return rebuilt, (self._held.detach(), s.offsets, s.lengths, self._ragged, self.requires_grad)


def made(values: Tensor, structure: Structure, ragged: int) -> NestedTensor:
    """Return a nested tensor of values whose rows are dimension ``ragged - 1``."""
    of_values.seen = True
    out = Tensor.__new__(NestedTensor)
    if values.device != structure.offsets.device:
        structure = structure.on(values.device)
    out._held, out._structure, out._ragged = values, structure, ragged
    out._a, out._kind = NestedArray(tuple(out.shape), values._a), apart(values._kind)
    return out


def rebuilt(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged: int, requires_grad: bool) -> NestedTensor:
    """Return a nested tensor that was pickled."""
    structure = Structure(offsets, lengths, values.shape[ragged - 1])
    return made(values.requires_grad_(requires_grad), structure, ragged)
