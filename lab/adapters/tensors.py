"""PyTorch's tensors and graph nodes as the recorder reads them; no question changes a tensor or reaches a mode."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from core.base import dtypes
from core.base.device import kind

from ..recorder import tensor_types
from .arrays import as_array

DENSE = 1 << 24  # elements of a sparse tensor up to which its zeros are written out
KEY = "gradlab"  # of the op's row that is noted in a graph node's metadata


class Device(NamedTuple):
    """A device by its name alone."""

    type: str


class Elsewhere(NamedTuple):
    """The dtype and device of a tensor that is not on the CPU; the recorder tells kinds apart by hash."""

    dtype: Any
    device: Device


class Shadow(tensor_types.Foreign):
    """A PyTorch tensor as the recorder reads it; none of its questions changes the tensor or can fail."""

    known = -1  # the tensor's version when its graph node was last up to date
    _was: Any = None  # its kind when it was last asked for, which a tensor that is gone had

    def __init__(self, t: Any, watch: Tensors) -> None:
        self._of: Any = weakref.ref(t)
        self._watch = watch

    def leave(self) -> None:
        """Hold not even a weak reference to the tensor."""
        self._of = _nothing

    @property
    def original(self) -> Any:  # type: ignore[override]
        return self._of()

    @property
    def _a(self) -> Any:
        return self._watch.array(self._of())

    @property
    def _kind(self) -> Any:
        t = self._of()
        if t is not None or self._was is None:
            self._was = self._watch.kind(t)
        return self._was

    @property
    def _node(self) -> Any:
        made_by = self._watch.made_by(self._of())
        return None if made_by is None else Node(made_by)

    @property
    def _requires_grad(self) -> bool:  # type: ignore[override]
        t = self._of()
        with self._watch.still():
            # a view that was made under no_grad says that it wants a gradient where its base does; it gets none
            return t is not None and bool(t.requires_grad) and (not t._is_view() or self._node is not None)

    @property
    def _grad(self) -> Any:
        g = self._watch.gradient(self._of())
        return None if g is None else self._watch.shadow(g)

    @property
    def _version(self) -> int:  # type: ignore[override]
        return self._watch.version(self._of())

    @property
    def is_parameter(self) -> bool:
        """Whether it was made to be trained."""
        return isinstance(self._of(), self._watch.torch.nn.Parameter)


class Node:
    """A node of PyTorch's graph, which keeps the recorder's note in its own metadata."""

    def __init__(self, made_by: Any) -> None:
        self.made_by = made_by
        self.op = SimpleNamespace(name=made_by.name(), slots=())

    @property
    def tag(self) -> Any:
        return self.made_by.metadata.get(KEY)

    @tag.setter
    def tag(self, row: Any) -> None:
        self.made_by.metadata[KEY] = row

    @property
    def kind(self) -> Any:
        """Of what it made, as far as the recorder asks: the device."""
        return kind(dtypes.float32)

    @property
    def saved(self) -> tuple[Any, ...]:
        """The tensors that it holds for backward; none once they are freed, or where a hook of the user's would have
        to give them back."""
        found: list[Any] = []
        for name in dir(self.made_by):
            if not name.startswith("_raw_saved_"):
                continue
            try:
                raw = getattr(self.made_by, name)
                if any(one.unpack_hook is not None for one in (raw if isinstance(raw, tuple | list) else (raw,))):
                    return ()
                value = getattr(self.made_by, name.removeprefix("_raw"))
            except (RuntimeError, AttributeError):  # freed, or changed in place
                return ()
            found += value if isinstance(value, tuple | list) else (value,)
        return tuple(found)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None if n is None else Node(n), k) for n, k in self.made_by.next_functions)

    @property
    def place(self) -> Any:
        row = self.tag
        return row.chain[0] if row is not None and row.chain else None


class Tensors:
    """What a `Watch` asks of tensors, each of which has one `Shadow`."""

    recorder: Any
    torch: Any
    still: Any  # no question asked in it reaches the user's modes and subclasses
    _dispatching: Any
    _busy: bool
    _shadows: dict[int, tuple[Any, Shadow]]
    _hooked: dict[int, Shadow]
    _arrays: dict[Any, Any]
    _dtypes: dict[Any, Any]

    def adapt(self, value: Any) -> Shadow | None:
        """Return a PyTorch tensor as the recorder reads it; None for anything else."""
        return self.shadow(value) if isinstance(value, self.torch.Tensor) else None

    def shadow(self, t: Any) -> Shadow:
        """Return the one shadow of a tensor."""
        found = self._shadows.get(id(t))
        if found is not None and found[0]() is t:
            return found[1]
        key, shadows = id(t), self._shadows
        made = Shadow(t, self)
        shadows[key] = (
            weakref.ref(t, lambda gone: shadows.pop(key, None) if shadows.get(key, (0,))[0] is gone else None),
            made,
        )
        return made

    def _forget(self, *tensors: Any) -> None:
        """Hold nothing of these tensors."""
        for t in tensors:
            found = self._shadows.pop(id(t), None)
            if found is not None:
                found[1].leave()
            self._hooked.pop(id(t), None)
            self.recorder.fold.names.forget(t)

    def made_by(self, t: Any) -> Any:
        """Return the graph node that made a tensor, asked where that changes nothing: a view whose base was written
        since gets its node anew when it is asked for, or refuses."""
        if t is None:
            return None
        with self.still():
            if not t.requires_grad:
                return None
            if not t._is_view():
                return t.grad_fn
            shadow, version = self.shadow(t), t._version
            if shadow.known != version and not self.torch.is_grad_enabled():
                return None
            try:
                node = t.grad_fn
            except RuntimeError:
                return None
            shadow.known = version
            return node

    def gradient(self, t: Any) -> Any:
        """Return the gradient that a tensor keeps, asked where that warns nobody."""
        if t is None:
            return None
        with self.still():
            if t._is_view():
                return t.grad if self.made_by(t) is not None and t.retains_grad else None
            return t.grad if t.is_leaf or t.retains_grad else None

    def version(self, t: Any) -> int:
        """How often a tensor's memory was written; -1 where nobody counts."""
        if t is None:
            return -1
        with self.still():
            return -1 if t.is_inference() else int(t._version)

    def array(self, t: Any) -> Any:
        """Return a tensor's values as NumPy sees them; those of another device are copied."""
        plain = self.torch._C._disabled_torch_dispatch_impl
        if t is None or type(t).__torch_dispatch__ is not plain:  # what stands for values and has none
            return np.empty(0, np.float32)
        busy, self._busy = self._busy, True
        try:
            with self.still():
                if self.torch._C._len_torch_dispatch_stack():
                    with self._dispatching():
                        return self._values(t)
                return self._values(t)
        except Exception:  # quantised, of a vmap: no values to look at
            return np.empty(0, np.float32)
        finally:
            self._busy = busy

    def _values(self, t: Any) -> Any:
        a = t.detach()
        if a.layout is not self.torch.strided:  # zeros are values too, where there is room for them
            a = a.to_dense() if a.numel() <= DENSE else a.coalesce().values()
        if a.dtype in self._arrays:
            a = a.to(self._arrays[a.dtype])
        return as_array(a.cpu().resolve_conj().resolve_neg())

    def kind(self, t: Any) -> Any:
        """dtype and device."""
        with self.still():
            found = kind(self._dtypes.get(getattr(t, "dtype", None), dtypes.float32))
            where = t.device.type if t is not None else "cpu"
        return found if where == "cpu" else Elsewhere(found.dtype, Device(where))

    def _tensors(self, value: Any) -> list[Any]:
        """Return the tensors in arguments or results, in order."""
        if isinstance(value, self.torch.Tensor):
            return [value]
        if isinstance(value, tuple | list):
            return [t for part in value for t in self._tensors(part)]
        if isinstance(value, dict):
            return [t for part in value.values() for t in self._tensors(part)]
        return []


def _nothing() -> None:
    return None
