"""Kernels by name: what ``matmul_f32`` or ``softmax_kernel`` at a shape means to the tuner.

C kernels are measured on this processor. Triton kernels are measured on a GPU where one is connected; without one they
are compiled for a named target and judged by what they occupy (`measure_static`).
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import c_kernels
from .measure import Measure
from .places import cpu_name, free_bytes
from .space import Space

Shape = tuple[int, ...]
_SUFFIX = {"float32": "f32", "float64": "f64"}
_MOST = 1 << 31


class Unknown(ValueError):
    """A kernel, shape, dtype or target that the tuner does not know; the message lists what it knows."""


@dataclass(frozen=True)
class Problem:
    """A kernel at a shape and dtype: what may vary, and who measures.

    source : hash of the kernel's normalised text; results of another text do not count. mode : how it is measured.
    device : what results are filed under.
    """

    kernel: str
    shape: Shape
    dtype: str
    space: Space
    measure: Measure
    source: str
    device: str
    mode: str
    notes: tuple[str, ...] = ()
    check: Measure | None = None  # another measure that can tell right from wrong where this one cannot

    @property
    def key(self) -> dict[str, Any]:
        """What the store files its trials under."""
        return {"kernel": self.kernel, "source": self.source, "device": self.device, "shape": list(self.shape),
                "dtype": self.dtype, "mode": self.mode}  # fmt: skip


_FINDERS: dict[str, tuple[Callable[[Shape, str, str | None], Problem], str]] = {}
MORE = ("core.native.tunables",)
"""Modules that register kernels when they are imported, by name: nothing here imports upwards."""


def register(name: str, find: Callable[[Shape, str, str | None], Problem], what: str = "in Triton") -> None:
    """Let `find` know a kernel: `find(shape, dtype, target)` makes its problem; `what` it takes and is, in words."""
    _FINDERS[name] = find, what


def _registered() -> dict[str, tuple[Callable[[Shape, str, str | None], Problem], str]]:
    """All that is registered, each of `MORE` being imported where it can be."""
    for module in MORE:  # each time: a thread that comes while another imports waits for it
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    return _FINDERS


def known() -> dict[str, str]:
    """Return the kernels that can be tuned by name, and what their shape means.

    >>> known()["matmul_f32"]
    "MxNxK, in C (the tuner's own)"
    """
    names = {
        f"{family.name}_{suffix}": in_words(family.axes) + ", in C (the tuner's own)"
        for family in c_kernels.FAMILIES.values()
        for suffix in _SUFFIX.values()
    }
    from . import triton_problems

    names |= {name: in_words(kernel.axes) + ", in Triton" for name, kernel in triton_problems.known().items()}
    return names | {name: what for name, (_, what) in _registered().items()}


def find(kernel: str, shape: str | Shape, dtype: str, target: str | None = None) -> Problem:
    """Return the problem of a kernel's name, a shape such as ``"512x512x512"`` and a dtype such as ``"float32"``.

    target : for Triton kernels: ``"cuda"``, or an architecture to compile for (``"sm_90"``); None takes the GPU where
    one is connected, else sm_90.

    *Raises*: Unknown, with what is known.

    >>> find("matmul_f32", "64x64x64", "float32").space.default["KC"]
    256
    """
    sizes = parse_shape(shape)
    families = c_kernels.FAMILIES
    from . import triton_problems

    on_gpu = dtype not in _SUFFIX or target not in (None, "cpu") or kernel not in families
    if (
        on_gpu and kernel not in _FINDERS and f"{kernel}_kernel" in triton_problems.known()
    ):  # as in "matmul ... float16"
        kernel = f"{kernel}_kernel"
    name = kernel if kernel not in families or dtype not in _SUFFIX else f"{kernel}_{_SUFFIX[dtype]}"
    stem, _, suffix = name.rpartition("_")
    if stem in families and suffix in _SUFFIX.values():
        return _c_problem(name, families[stem], suffix, sizes, dtype, target)
    if name in triton_problems.known():
        return triton_problems.problem(name, sizes, dtype, target)
    if name in _registered():
        return _FINDERS[name][0](sizes, dtype, target)
    names = known()
    close = difflib.get_close_matches(kernel, names, 3) or difflib.get_close_matches(f"{kernel}_kernel", names, 3, 0.8)
    if close:
        raise Unknown(f"no kernel that can be tuned is named {kernel!r}. Did you mean {' or '.join(close)}?")
    raise Unknown(f"no kernel that can be tuned is named {kernel!r}. There are\n{listed(names)}")


def listed(names: dict[str, str]) -> str:
    """Kernels and their shapes, those of one shape and kind together, so that a person can read them.

    >>> print(listed({"a_kernel": "ITEMS, in Triton", "b_kernel": "ITEMS, in Triton"}))
      ITEMS, in Triton
        a_kernel  b_kernel
    """
    groups: dict[str, list[str]] = {}
    for name, what in names.items():
        groups.setdefault(what, []).append(name)
    lines = []
    for what, members in groups.items():
        lines.append(f"  {what}")
        lines += textwrap.wrap("  ".join(members), 100, initial_indent="    ", subsequent_indent="    ",
                               break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)


def _c_problem(
    name: str, family: c_kernels.Family, suffix: str, shape: Shape, dtype: str, target: str | None
) -> Problem:
    from .measure_cpu import CpuMeasure

    if _SUFFIX.get(dtype) != suffix:
        wanted = next(d for d, s in _SUFFIX.items() if s == suffix)
        other = f"; for {dtype} there is {family.name}_{_SUFFIX[dtype]}" if dtype in _SUFFIX else ""
        raise Unknown(f"{name} takes {wanted}, not {dtype}{other}")
    if target not in (None, "cpu"):
        raise Unknown(f"{name} is a C kernel, measured on this processor: --target {target} is for Triton kernels")
    shape = fit_axes(name, family.axes, shape)
    # the arrays, a copy to tell that inputs stay as they are, and beside them the result and its scale in float64
    needs, free = int(family.work(shape)[1]) * (2 * (4 if suffix == "f32" else 8) + 16), free_bytes()
    if free is not None and needs > free:
        came = "x".join(map(str, shape))
        raise Unknown(
            f"{name} at {came} wants about {needs:,} bytes for its arrays and for checking the result, and "
            f"{free:,} are free on this machine. Remedy: a smaller shape"
        )
    measure = CpuMeasure(family.name, shape, dtype, family.text)
    space = family.space(dtype)
    source = hash_of(c_text(family.text))
    return Problem(name, shape, dtype, space, measure, source, cpu_name(), "cpu, hot caches")


def fit_axes(name: str, axes: tuple[str, ...], shape: Shape) -> Shape:
    """Return a shape of as many sizes as a kernel has axes: leading ones merge into rows. *Raises*: Unknown.

    >>> fit_axes("softmax_f32", ("rows", "columns"), (8, 64, 1024)), fit_axes("tanh_kernel", ("items",), (8, 64))
    ((512, 1024), (512,))
    """
    if axes == ("items",):
        shape = (math.prod(shape),)
    elif axes == ("rows", "columns"):
        shape = (math.prod(shape[:-1]), shape[-1])
    if len(shape) != len(axes):
        came = "x".join(map(str, shape))
        raise Unknown(f"{name} takes a shape {in_words(axes)}, {len(axes)} sizes; came: {came}")
    return shape


def in_words(axes: tuple[str, ...]) -> str:
    """Return the axes of a shape as they are to be given.

    >>> in_words(("rows", "columns"))
    'ROWSxCOLUMNS'
    """
    return "x".join(axis.upper() for axis in axes)


def parse_shape(shape: str | Shape) -> Shape:
    """Return a shape from ``"4096x1024"`` or a tuple. *Raises*: Unknown.

    >>> parse_shape("4096x1024")
    (4096, 1024)
    """
    if isinstance(shape, str):
        if not re.fullmatch(r"\d+(x\d+)*", shape):
            raise Unknown(f"a shape is sizes with x between them, as in 4096x1024; came: {shape!r}")
        shape = tuple(int(n) for n in shape.split("x"))
    if any(n < 1 for n in shape) or math.prod(shape) >= _MOST**2 or max(shape) >= _MOST:
        raise Unknown(f"every size of a shape is from 1 to {_MOST - 1}; came: {'x'.join(map(str, shape))}")
    return tuple(shape)


def c_text(text: str) -> str:
    """C without comments and spare blanks, so that neither changes a kernel's identity.

    >>> c_text("int  f(void); /* says so */ // and so")
    'int f(void);'
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def hash_of(text: str) -> str:
    """Return a short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
