"""Errors that kernels find: which exception the note of a kernel stands for, and when the host looks at the notes."""

from __future__ import annotations

from typing import Any

from ...base.errors import text


def target_slot(op: str, classes: int) -> int:
    """Return the slot of a target that is no class of `classes`."""
    from triton_kernels import notes

    return notes.slot(
        ("target", op, classes),
        lambda i: IndexError(text(f"Target {i} is out of bounds.", op=op, came=f"target {i}",
                                  needed=f"a class from 0 to {classes - 1}")),
    )  # fmt: skip


def class_slot(op: str, classes: int) -> int:
    """Return the slot of a class of `one_hot` that is none."""
    from triton_kernels import notes

    def explain(i: int) -> Exception:
        which = "non-negative" if i < 0 else "smaller than num_classes"
        return RuntimeError(text(f"Class values must be {which}.", op=op, came=f"{i} of {classes} classes"))

    return notes.slot(("class", op, classes), explain)


def index_slot(op: str, n: int, dim: int | None = None, error: type[Exception] = IndexError, low: int = 0) -> int:
    """Return the slot of an index that is not in `low` to `n` - 1; without `dim`, in PyTorch's words for a table's
    rows."""
    from triton_kernels import notes

    def explain(i: int) -> Exception:
        phrase = "index out of range in self" if dim is None else \
            f"index {i} is out of bounds for dimension {dim} with size {n}"  # fmt: skip
        return error(text(phrase, op=op, came=f"an index {i}", needed=f"{low} to {n - 1}"))

    return notes.slot(("index", op, n, dim, error, low), explain)


def waited() -> None:
    """The host has waited for the GPU: raise what the kernels before have noted."""
    from triton_kernels import notes

    notes.check()


def settled(value: Any) -> Any:
    """Return a value that came from the GPU, unless a kernel before it found a fault."""
    waited()
    return value
