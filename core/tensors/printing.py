"""How a tensor prints: PyTorch's layout, so that a notebook reads the same.

All elements have one width. Floats show four decimals; whole ones a point alone; where the greatest is more than 1000
times the least, or they are very great or small, the scientific form. Beyond 1000 elements only the corners show.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtypes
from .device_read import to_host

_DEFAULT: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    "short": {**_DEFAULT, "precision": 2, "edgeitems": 2},
    "full": {**_DEFAULT, "threshold": math.inf},
}
_options = dict(_DEFAULT)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print from now on.

    precision : decimals. threshold : from how many elements on only the corners show. edgeitems : how many at each end.
    linewidth : characters a line. profile : "default", "short" or "full". sci_mode : always or never scientific.

    >>> import core
    >>> core.set_printoptions(precision=2)
    >>> core.tensor(1 / 3)
    tensor(0.33)
    >>> core.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: unknown profile {profile!r}; needed: {', '.join(_PROFILES)}")
        _options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({k: v for k, v in given.items() if v is not None})
    _options["sci_mode"] = sci_mode


def tensor_text(t: Any) -> str:
    """``tensor([...], dtype=..., grad_fn=...)``."""
    without = t._kind.device.type == "meta"
    a = (t._a if isinstance(t._a, np.ndarray) else to_host(t._a.get, t._kind.device.type)).view(np.ndarray)
    prefix, default = t._shown + "(", dtypes.get_default_dtype()
    tail = []
    if t.device.type != "cpu":
        tail.append(f"device='{t.device}'")
    if without or (a.size == 0 and a.ndim != 1):
        tail.append(f"size={tuple(a.shape)}")
    complex_default = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    plain = (default, complex_default, dtypes.int64, dtypes.bool_) if a.size else (default,)
    if t.dtype not in plain:
        tail.append(f"dtype={t.dtype!r}")
    if t.grad_fn is not None:
        tail.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        tail.append("requires_grad=True")
    if without:
        return _with_tail(f"{prefix}...", tail, len(prefix)) + ")"
    return _with_tail(prefix + (_body(a, len(prefix)) if a.size else "[]"), tail, len(prefix)) + ")"


def elements_text(t: Any, indent: int) -> str:
    """Return the elements in brackets, each line after the first moved right by `indent`."""
    if t._kind.device.type == "meta":
        return "..."
    a = (t._a if isinstance(t._a, np.ndarray) else to_host(t._a.get, t._kind.device.type)).view(np.ndarray)
    return _body(a, indent) if a.size else "[]"


def fields_text(t: Any, parts: Any, size: tuple[int, ...], nnz: int, layout: str) -> str:
    """Return the text of a sparse tensor: its parts, each a tensor, by their names, then what is true of the whole."""
    lines, indent = [], 7
    for name, part in parts:
        shown = _part_text(part, indent + len(name) + 1)
        lines.append(f"{name}={shown}")
    tail = [f"size={size}", f"nnz={nnz}"]
    if t.device.type != "cpu":
        tail.append(f"device='{t.device}'")
    if t.dtype not in (dtypes.get_default_dtype(), dtypes.complex64, dtypes.int64, dtypes.bool_):
        tail.append(f"dtype={t.dtype!r}")
    tail.append(f"layout={layout}")
    if t.grad_fn is not None:
        tail.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        tail.append("requires_grad=True")
    body = "tensor(" + (",\n" + " " * indent).join(lines)
    return _sparse_tail(body, tail, indent, layout) + ")"


def _part_text(part: Any, indent: int) -> str:
    a = (part._a if isinstance(part._a, np.ndarray) else to_host(part._a.get, part._kind.device.type)).view(np.ndarray)
    size = f", size={tuple(a.shape)}" if a.size == 0 else ""
    return "tensor(" + (_body(a, indent + 7) if a.size else "[]") + size + ")"


def _sparse_tail(body: str, tail: list[str], indent: int, layout: str) -> str:
    """Of COO the size begins a line; of rows it follows where it has room."""
    if layout.endswith("coo"):
        body, tail = body + ",\n" + " " * indent + tail[0], tail[1:]
    return _with_tail(body, tail, indent)


def _with_tail(body: str, tail: list[str], indent: int) -> str:
    """Return the notes after the values, each on a new line where the last has no room."""
    parts, used = [body], len(body) - body.rfind("\n") + 1
    for note in tail:
        # "torch." is one longer than "core.": break where PyTorch does
        size = len(note) + note.startswith(("dtype=", "layout="))
        if used + size + 2 > _options["linewidth"]:
            parts.append(",\n" + " " * indent + note)
            used = indent + size
        else:
            parts.append(", " + note)
            used += size + 2
    return "".join(parts)


class _Format:
    """The one form that all elements of an array get."""

    def __init__(self, a: Any) -> None:
        self.float, self.whole, self.scientific = a.dtype.kind == "f", True, False
        self.width = 1
        values = a.reshape(-1)
        if not self.float:
            self.width = max((len(str(v)) for v in values.tolist()), default=1)
            return
        finite = values[np.isfinite(values) & (values != 0)].astype(np.float64)
        if not finite.size:
            self._forced()
            return
        least, greatest = float(np.abs(finite).min()), float(np.abs(finite).max())
        self.whole = bool((finite == np.ceil(finite)).all())
        self.scientific = greatest / least > 1000.0 or greatest > 1e8 or (not self.whole and least < 1e-4)
        self._forced()
        # Infinities and NaN do not count: where they are wider than the numbers, PyTorch lets them stick out.
        width = max(len(self._one(v)) for v in finite.tolist())
        self.width = max(width, 1)

    def _forced(self) -> None:
        if _options["sci_mode"] is not None:
            self.scientific = bool(_options["sci_mode"])

    def _one(self, v: Any) -> str:
        if not self.float:
            return str(v)
        if self.scientific:
            return f"{v:.{_options['precision']}e}"
        if self.whole:
            return f"{v:.0f}" + ("." if math.isfinite(v) else "")
        return f"{v:.{_options['precision']}f}"

    def __call__(self, v: Any) -> str:
        return self._one(v).rjust(self.width)


class _ComplexFormat:
    """A form for the real and one for the imaginary parts."""

    def __init__(self, a: Any) -> None:
        self.real, self.imag = _Format(a.real), _Format(a.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v: Any) -> str:
        imag = self.imag(v.imag).lstrip() + "j"
        return self.real(v.real) + ("" if imag.startswith("-") else "+") + imag


_FLOAT8 = {d.numpy for d in dtypes.NO_ARITHMETIC}


def _body(a: Any, indent: int) -> str:
    if a.dtype == dtypes.bfloat16.numpy or a.dtype == np.float16 or a.dtype in _FLOAT8:
        a = a.astype(np.float32)
    cut = a.size > _options["threshold"]
    shown = _corners(a) if cut else a
    form = _ComplexFormat(shown) if a.dtype.kind == "c" else _Format(shown)
    return form(a.item()) if a.ndim == 0 else _nested(a, indent, form, cut)


def _corners(a: Any) -> Any:
    edge = _options["edgeitems"]
    for axis, n in enumerate(a.shape):
        if n > 2 * edge:
            a = a.take([*range(edge), *range(n - edge, n)], axis)
    return a


def _nested(a: Any, indent: int, form: Any, cut: bool) -> str:
    n, edge = a.shape[0], _options["edgeitems"]
    short = cut and n > 2 * edge
    if a.ndim == 1:
        if cut and not edge:
            return "[...]"
        words = [form(v) for v in (a[:edge] if short else a).tolist()]
        if short:
            words += [" ...", *(form(v) for v in a[n - edge :].tolist())]
        per_line = max(1, (_options["linewidth"] - indent) // (form.width + 2))
        lines = [", ".join(words[k : k + per_line]) for k in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_nested(x, indent + 1, form, cut) for x in (a[:edge] if short else a)]
    if short:
        parts += ["...", *(_nested(x, indent + 1, form, cut) for x in a[n - edge :])]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
