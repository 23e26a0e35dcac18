"""How axes go through views, and through what moves elements without computing."""

from __future__ import annotations

import itertools

import numpy as np

from .atoms import Axis
from .python_numbers import trusted
from .rules import nothing, tensors
from .tracing import Call, Trace, rule


@rule("view")
def _view(t: Trace, call: Call) -> list[list[Axis]]:
    axes, shape = tensors(call)[0], call.shapes[0]
    found = t.atoms.reshaped(axes, [len(a) for a in axes], shape)
    elements = int(np.prod(shape))
    for x, a in zip(call.params["shape"], found, strict=True):
        t.number(x, a, call, elements)
    return [found]


@rule("permute")
def _permute(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    return [[axes[d] for d in call.params["dims"]]]


@rule("transpose")
def _transpose(t: Trace, call: Call) -> list[list[Axis]]:
    axes = list(tensors(call)[0])
    if axes:
        i, j = call.params["dim0"], call.params["dim1"]
        axes[i], axes[j] = axes[j], axes[i]
    return [axes]


@rule("t")
def _t(t: Trace, call: Call) -> list[list[Axis]]:
    return [tensors(call)[0][::-1]]


@rule("squeeze")
def _squeeze(t: Trace, call: Call) -> list[list[Axis]]:
    axes, dims = tensors(call)[0], call.params["dims"]
    gone = {d % len(axes) for d in (dims if isinstance(dims, tuple | list) else (dims,))} if axes else set()
    return [[a for d, a in enumerate(axes) if d not in gone]]


@rule("unsqueeze")
def _unsqueeze(t: Trace, call: Call) -> list[list[Axis]]:
    axes = list(tensors(call)[0])
    axes.insert(call.params["dim"] % (len(axes) + 1), nothing(1))
    return [axes]


@rule("expand")
def _expand(t: Trace, call: Call) -> list[list[Axis]]:
    axes, shape, sizes = tensors(call)[0], call.shapes[0], call.params["shape"]
    found = []
    for d in range(-len(shape), 0):
        if len(axes) >= -d and len(axes[d]) == shape[d]:
            t.number(sizes[d], axes[d], call)
            found.append(axes[d])
        else:
            found.append(t.made_axis(sizes[d], call))
    return [found]


@rule("slice", "select")
def _slice(t: Trace, call: Call) -> list[list[Axis]]:
    axes, found, at = tensors(call)[0], [], 0
    for part in call.params["key"]:
        if part is None:
            found.append(nothing(1))
        elif part is not Ellipsis:
            a, at = axes[at], at + 1
            if isinstance(part, slice):
                found.append(_part(t, a, part, call))
            else:
                _stays(t, a[: part + 1] if part >= 0 else a[part:], None, call)
    return [[*found, *axes[at:]]]


def _part(t: Trace, a: Axis, part: slice, call: Call) -> Axis:
    if part.step not in (None, 1):
        t.atoms.pin(a, f"{call.where} takes every {part.step}th of it")
        return a[part]
    for end in (part.start, part.stop):
        if end is not None and -len(a) < end < len(a):
            _stays(t, a[:end] if end >= 0 else a[end:], end if end >= 0 else None, call)
    return a[part]


def _stays(t: Trace, a: Axis, number: int | None, call: Call) -> None:
    """Let as many of an axis be left as a number says; all, where it stands in the source."""
    if number is not None and trusted(number, -1):
        t.number(number, a, call)
    else:
        t.atoms.pin(a, f"{call.where} counts its indices")


@rule("split")
def _split(t: Trace, call: Call) -> list[list[Axis]]:
    axes, d, sizes = tensors(call)[0], call.params["dim"], call.params["sizes"]
    ends = np.cumsum([0, *sizes])
    parts = [axes[d][lo:hi] for lo, hi in itertools.pairwise(ends)]
    for size, part in zip(sizes, parts, strict=True):
        t.number(size, part, call)
    if not any(trusted(size, -1) for size in sizes):
        if len(set(sizes)) == 1:  # chunk, or a number in the source: the trial will tell
            for part in parts[1:]:
                t.as_many(parts[0], part, call)
        else:
            t.atoms.pin(axes[d], f"{call.where} counts its indices")
    return [[*axes[:d], part, *axes[d + 1 :]] for part in parts]


@rule("unbind")
def _unbind(t: Trace, call: Call) -> list[list[Axis]]:
    axes, d = tensors(call)[0], call.params["dim"]
    t.atoms.pin(axes[d], f"{call.where} counts its indices")
    return [[*axes[:d], *axes[d + 1 :]] for _ in call.shapes]


@rule("flip")
def _flip(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    dims = {d % len(axes) for d in call.params["dims"]} if axes else set()
    return [[a[::-1] if d in dims else a for d, a in enumerate(axes)]]


@rule("roll")
def _roll(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    for d in call.params["dims"] or range(len(axes)):
        t.atoms.pin(axes[d], f"{call.where} counts its indices")
    return [list(axes)]


@rule("repeat")
def _repeat(t: Trace, call: Call) -> list[list[Axis]]:
    axes, times = tensors(call)[0], call.params["sizes"]
    axes = [*(nothing(1) for _ in range(len(times) - len(axes))), *axes]
    return [[np.tile(a, (n, 1)) for a, n in zip(axes, times, strict=True)]]


@rule("repeat_interleave")
def _repeat_interleave(t: Trace, call: Call) -> list[list[Axis]]:
    axes, n = list(tensors(call)[0]), call.params["repeats"]
    d = call.params["dim"] % len(axes)
    if not isinstance(n, int):
        t.atoms.pin(axes[d], f"{call.where} counts its indices")
        axes[d] = t.atoms.fixed(call.shapes[0][d], call.where)
    else:
        axes[d] = np.repeat(axes[d], n, 0)
    return [axes]


@rule("constant_pad")
def _pad(t: Trace, call: Call) -> list[list[Axis]]:
    found = []
    for a, (before, after) in zip(tensors(call)[0], call.params["border"], strict=True):
        if before < 0 or after < 0:
            t.atoms.pin(a, f"{call.where} counts its indices")
            found.append(t.atoms.fixed(len(a) + before + after, call.where))
            continue
        if (before or after) and call.params["value"] == 0:
            parts = [t.made_axis(n, call) if trusted(n, -1) else nothing(n) for n in (before, after)]
            parts.insert(1, a)
        else:
            parts = [nothing(before), a, nothing(after)]
        wide = max(p.shape[1] for p in parts)
        found.append(np.concatenate([np.pad(p, ((0, 0), (0, wide - p.shape[1])), constant_values=-1) for p in parts]))
    return [found]


@rule("unfold")
def _unfold(t: Trace, call: Call) -> list[list[Axis]]:
    axes, d = list(tensors(call)[0]), call.params["dim"]
    t.atoms.pin(axes[d], f"{call.where} takes windows of it")
    axes[d] = t.atoms.fixed(call.shapes[0][d], call.where)
    return [[*axes, t.atoms.fixed(call.shapes[0][-1], call.where)]]


@rule("view_as_complex", "view_as_real", "real", "imag")
def _complex(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    if call.op == "view_as_complex":
        t.atoms.pin(axes[-1], f"{call.where} takes pairs")
    return [
        axes[:-1] if call.op == "view_as_complex" else [*axes, *([nothing(2)] if call.op == "view_as_real" else [])]
    ]
