"""What every family says of its kernels, as a page to read: what the compile check compiles, what the tuner is told.

No test could miss a variant that is compiled no more, or see that a figure of a roofline is another: `kernels.md` has
them. ``python -m tests.triton_kernels.test_kernels_page`` writes it anew after a family has changed on purpose; the
difference is then to be read like any other change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # as all tests have it

import numpy as np
import pytest

from triton_kernels import families
from triton_kernels.compile_check import DTYPES, TARGETS
from triton_kernels.tune.c_kernels import FAMILIES, Family
from triton_kernels.tune.declared import TritonKernel, dtype_of, kernels
from triton_kernels.tune.space import Space

PAGE = Path(__file__).parent / "kernels.md"


def grouped(found: Sequence[tuple[str, str]], named: bool = False) -> list[str]:
    """Texts, each once, with the names of those that have it; with none where all have, unless it is to be `named`."""
    names: dict[str, list[str]] = {}
    for name, text in found:
        names.setdefault(text, []).append(name)
    return [text if len(names) == 1 and not named else f"{' '.join(who)}: {text}" for text, who in names.items()]


def settings(config: dict[str, Any]) -> str:
    """A config, or the constants of a kernel."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def spanned(space: Space) -> str:
    """The values of a space, what rules some out, and how many are left."""
    values = "; ".join(f"{t.name} {' '.join(map(str, t.values))}" for t in space.tunables)
    ruled = "".join(f"; {c.text}" for c in space.constraints)
    return f"{sum(1 for _ in space.configs())} of {values}{ruled}"


def compiled(family: Any) -> str:
    """The cases of a family: of the dtypes after the first, what is another there; and the spaces, by their numbers."""
    cases: dict[str, list[tuple[str, list[str]]]] = {}
    spaces: dict[str, int] = {}
    for dtype in DTYPES:
        for case in family.compile_cases(dtype):
            arguments = ["*T" if a == f"*{dtype}" else str(a) for a in case.arguments]
            constants = {n: str(v).replace("triton.language.", "") for n, v in case.constexprs.items()}
            number = spaces.setdefault(spanned(case.space), len(spaces) + 1)
            defaults = [(target, settings(case.default_on(target))) for target in TARGETS]
            lines = [case.kernel.fn.__name__, f"({' '.join(arguments)})", f"with {settings(constants)}",
                     f"in space {number} by default {'; '.join(grouped(defaults))}"]  # fmt: skip
            cases.setdefault(case.name, []).append((dtype, lines))
    told = []
    for name, found in cases.items():
        first = found[0][1]
        told.append(f"{name}, {found[0][0]}: " + "\n    ".join(first))
        others = [(d, "; ".join(x for x in lines if x not in first) or "alike") for d, lines in found[1:]]
        told += [f"    {text}" for text in grouped(others, named=True)]
    return "\n".join([*told, *(f"Space {number}: {space}" for space, number in spaces.items())])


def tuned(kernel: TritonKernel) -> str:
    """What the tuner is told of a kernel, with figures at the interpreter's shape and at one eight times as large; and
    where, along each axis, another config becomes the default."""
    larger = tuple(n if axis in kernel.kept else min(8 * n, kernel.limits.get(axis, (1, 8 * n))[1])
                   for axis, n in zip(kernel.axes, kernel.small, strict=True))  # fmt: skip
    lines = [f"{' '.join(kernel.axes)} of {' '.join(kernel.dtypes)}; kept {' '.join(kernel.kept) or 'none'}"]
    lines += [f"from {least} to {most} {axis}" for axis, (least, most) in kernel.limits.items()]
    lines += grouped([(d, spanned(kernel.space_at(kernel.small, d))) for d in kernel.dtypes])
    for shape in (kernel.small, larger):
        lines.append(f"At {'x'.join(map(str, shape))}:")
        lines += grouped([(d, arrays(kernel, shape, d)) for d in kernel.dtypes])
        lines += grouped([(f"{d} {target}", settings(kernel.space_at(shape, d, target).default))
                          for d in kernel.dtypes for target in TARGETS])  # fmt: skip
        lines += grouped([(d, work(kernel, shape, d)) for d in kernel.dtypes])
    if kernel.default is not None:
        large = tuple(n if axis in kernel.kept else kernel.limits.get(axis, (1, 2048))[1] % 2049 or 2048
                      for axis, n in zip(kernel.axes, larger, strict=True))  # fmt: skip
        for base in (larger, large):
            for k, axis in enumerate(kernel.axes):
                if axis not in kernel.kept:
                    lines += grouped([(d, text) for d in kernel.dtypes if (text := turning(kernel, base, k, d))], True)
    inputs, outputs = kernel.arrays(kernel.small, kernel.dtypes[0], np.random.default_rng(0))
    for out, right in zip(outputs, kernel.reference(inputs), strict=True):
        value, allowed = right, "exactly"
        if not isinstance(right, np.ndarray):
            value, scale, terms = right
            allowed = f"with errors to the scale of {scale.min():.3g} to {scale.max():.3g} and {terms} terms"
        assert value.shape == out.shape
        lines.append(f"Gives {list(value.shape)} {allowed}")
    return "\n".join(lines)


def turning(kernel: TritonKernel, base: Any, k: int, dtype: str) -> str:
    """The sizes of one axis, the others being as they are, from which on the default is another: what changes."""
    kind, (least, most) = dtype_of(dtype), kernel.limits.get(kernel.axes[k], (1, 1 << 20))

    def at(size: int) -> dict[str, Any]:
        return kernel.default((*base[:k], size, *base[k + 1 :]), kind, "sm_90")  # type: ignore[misc]

    told, low = [settings(at(least))], least
    while low < min(most, 1 << 20):
        high = min(2 * low, most)
        before, after = at(low), at(high)
        if before != after:
            first, last = low, high  # the first has the old one, the last another
            while last - first > 1:
                middle = (first + last) // 2
                first, last = (middle, last) if at(middle) == before else (first, middle)
            changed = at(last)
            new = settings({n: v for n, v in changed.items() if before.get(n) != v})
            told.append(f"from {last} {new or 'what the space has'}")
            high = last
        low = high
    shape = "x".join("*" if i == k else str(n) for i, n in enumerate(base))
    return f"Default of {shape}: {'; '.join(told)}" if told[1:] else ""


def arrays(kernel: TritonKernel, shape: Any, dtype: str) -> str:
    """The inputs and outputs."""
    inputs, outputs = ([f"{'T' if a.dtype.name == dtype else a.dtype.name}{list(a.shape)}" for a in part]
                       for part in kernel.arrays(shape, dtype, None))  # fmt: skip
    return f"{', '.join(inputs)} to {', '.join(outputs)}"


def in_c(family: Family) -> str:
    """What the tuner is told of a kernel in C; its space depends on the processor."""
    shape = (12, 80, 700)[: len(family.axes)]
    inputs = family.inputs(shape, "float32", np.random.default_rng(0))
    value, scale, terms = family.reference(inputs)
    flops, moved = family.work(shape)
    assert value.shape == scale.shape == family.out(shape)
    return "\n".join([
        f"{' '.join(family.axes)}, at {'x'.join(map(str, shape))}; odd is {'x'.join(map(str, family.odd(shape)))}",
        ", ".join(f"{x.dtype.name}{list(x.shape)} from {x.min():.3g} to {x.max():.3g}" for x in inputs),
        f"{flops:.4g} operations on {moved:.4g} items",
        f"Gives {list(value.shape)} with errors to the scale of {scale.min():.3g} to {scale.max():.3g}, {terms} terms",
    ])  # fmt: skip


def work(kernel: TritonKernel, shape: Any, dtype: str) -> str:
    """The operations and bytes of the default config and of the last one."""
    space = kernel.space_at(shape, dtype)
    told = [kernel.work(shape, dtype_of(dtype).itemsize, c) for c in (space.default, list(space.configs())[-1])]
    return ", ".join(f"{flops:.4g} operations on {moved:.4g} bytes" for flops, moved in told)


def sections() -> dict[str, Callable[[], str]]:
    """The sections of the page by their titles, as functions that write them."""
    found: dict[str, Callable[[], str]] = {}
    for family in families.modules():
        found[f"{family.__name__.partition('.')[2]}, compiled"] = lambda f=family: compiled(f)
    for kernel in kernels().values():
        found[f"{kernel.name}, tuned"] = lambda k=kernel: tuned(k)
    for family in FAMILIES.values():
        found[f"{family.name} in C, tuned"] = lambda f=family: in_c(f)
    return found


def page() -> dict[str, str]:
    """What the page says, by title."""
    parts = re.split(r"^## (.+)\n\n", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return dict(zip(parts[::2], (text.rstrip() + "\n" for text in parts[1::2]), strict=True))


@pytest.mark.parametrize("title", sections())
def test_a_family_says_what_the_page_says(title: str) -> None:
    assert sections()[title]().rstrip() + "\n" == page().get(title)


def test_the_page_has_no_other_sections() -> None:
    assert set(page()) == set(sections())


def write() -> None:
    """Write the page anew."""
    intro = "What the families of kernels say of themselves (see test_kernels_page.py).\n"
    told = [f"## {title}\n\n{made().rstrip()}\n" for title, made in sections().items()]
    PAGE.write_text("# Kernels\n\n" + intro + "\n" + "\n".join(told), encoding="utf-8")


if __name__ == "__main__":
    write()
