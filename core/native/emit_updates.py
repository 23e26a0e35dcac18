"""Prints the C kernels of the optimizers' steps from their declarations (`core.optim.update`), as `emit` does for ops.

Every variant becomes one loop for float32 and one for float64, and a row of the table that `update.h` declares.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..declare.expr import c_operand, c_statements
from ..optim.update import Variant, table
from .emit import RESERVED, cost_of, files_of

MAX_ARRAYS, MAX_PARAMS = 8, 16  # UPDATE_MAX_ARRAYS and UPDATE_MAX_PARAMS in update.h


class Kernel:
    """One loop: a variant of an update in one floating type, `f` or `d`."""

    def __init__(self, variant: Variant, type_char: str) -> None:
        if bad := sorted({*variant.arrays, *variant.params} & set(RESERVED.split())):
            raise ValueError(f"{variant.name}: an argument named {bad[0]!r} means something else in C; rename it")
        if len(variant.arrays) > MAX_ARRAYS or len(variant.params) > MAX_PARAMS:
            raise ValueError(f"{variant.name}: an update takes {MAX_ARRAYS} arrays and {MAX_PARAMS} numbers")
        self.variant, self.type = variant, type_char
        self.suffix = {"f": "f32", "d": "f64"}[type_char]
        self.name = f"{variant.name}_{self.suffix}"

    def declaration(self) -> str:
        """Return the C prototype."""
        return f"void update_{self.name}(char *const *ptr_, ptrdiff_t count_, const double *params_)"

    def source(self) -> str:
        """Return the C function. An array that is only written is not read: it may not be set yet."""
        v = self.variant
        real = "float" if self.type == "f" else "double"
        used = {o for st in v.statements for o in st.operands} | set(v.results)
        touched = {*used, *v.written}
        head = [
            f"{'const ' if n == 'g' else ''}{real} *{n}_ = ({real} *)ptr_[{k}];"
            for k, n in enumerate(v.arrays)
            if n in touched
        ]
        head += [f"const {real} {p} = ({real})params_[{k}];" for k, p in enumerate(v.params)]
        body = [f"const {real} {n} = {n}_[item_];" for n in v.arrays if n in used]
        body += c_statements(v.statements, self.suffix)
        body += [f"{n}_[item_] = {c_operand(r, self.suffix)};" for n, r in zip(v.written, v.results, strict=True)]
        return "\n".join(
            [
                f"VECTOR {self.declaration()} {{",
                *(f"    {line}" for line in head),
                "    INDEPENDENT",
                "    for (ptrdiff_t item_ = 0; item_ < count_; item_++) {",
                *(f"        {line}" for line in body),
                "    }",
                "}",
                "",
            ]
        )

    def row(self) -> str:
        """Return the row of the table; the arithmetic and the memory both cost."""
        v = self.variant
        cost = cost_of(v.statements, self.type) + 2 * len(v.arrays)
        names = f'"{self.name}", "{v.name}", "{v.digest}"'
        return f"    {{{names}, '{self.type}', {len(v.arrays)}, {len(v.params)}, {cost}, update_{self.name}}},"


def sources(variants: Iterable[Variant]) -> dict[str, str]:
    """File name to C text."""
    return files_of([Kernel(v, t) for v in variants for t in "fd"], "update")


def declared() -> list[Variant]:
    """Every form of every update that core declares."""
    return [v for u in table.values() for v in u.variants.values()]
