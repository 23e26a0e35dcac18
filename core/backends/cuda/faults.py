"""Errors that kernels find: which exception the note of a kernel stands for, and when the host looks at the notes."""

from __future__ import annotations

from typing import Any

from ...errors import text


def target_slot(op: str, classes: int) -> int:
    """The slot of a target that is no class of `classes`."""
    from triton_kernels import faults

    return faults.slot(
        ("target", op, classes),
        lambda i: IndexError(text(f"Target {i} is out of bounds.", op=op, came=f"target {i}",
                                  needed=f"a class from 0 to {classes - 1}")),
    )  # fmt: skip


def index_slot(op: str, n: int, dim: int | None = None, error: type[Exception] = IndexError, low: int = 0) -> int:
    """The slot of an index that is not in `low` to `n` - 1; without `dim`, in PyTorch's words for a table's rows."""
    from triton_kernels import faults

    def explain(i: int) -> Exception:
        phrase = "index out of range in self" if dim is None else \
            f"index {i} is out of bounds for dimension {dim} with size {n}"  # fmt: skip
        return error(text(phrase, op=op, came=f"an index {i}", needed=f"{low} to {n - 1}"))

    return faults.slot(("index", op, n, dim, error, low), explain)


def waited() -> None:
    """The host has waited for the GPU: raise what the kernels before have noted."""
    from triton_kernels import faults

    faults.check()


def settled(value: Any) -> Any:
    """A value that came from the GPU, unless a kernel before it found a fault."""
    waited()
    return value
