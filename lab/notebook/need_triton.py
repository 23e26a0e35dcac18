"""Whether Triton is there for a cell that asks for it; loaded when one does."""

from __future__ import annotations

from IPython.core.error import UsageError

from triton_kernels import availability


def need_triton(magic: str) -> None:
    """Raise UsageError with the reason where Triton cannot be imported."""
    there = availability()
    if not there.importable:
        raise UsageError(f"{magic}: {there.reason}")
