"""Which functions and methods there are, and what their arguments are where nobody gives them: PyTorch's defaults, of
which programs depend on every one.

They stand in defaults.txt, a line for each function; ``python -m tests.core.ops.test_defaults`` writes it, and a line
that changes is to be held against PyTorch's documentation.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import core

TOLD = Path(__file__).with_name("defaults.txt")
SPACES = {"core": core, "core.nn.functional": core.nn.functional, "core.linalg": core.linalg, "core.fft": core.fft,
          "core.special": core.special, "core.Tensor": core.Tensor}  # fmt: skip


def defaults() -> list[str]:
    """Return the public functions, each with its own."""
    lines = []
    for space, where in SPACES.items():
        for name in dir(where):  # what comes lazily too
            try:
                parameters = inspect.signature(getattr(where, name)).parameters.values()
            except (TypeError, ValueError):  # no function, or one of C's
                continue
            given = [f"{p.name}={p.default!r}" for p in parameters if p.default is not p.empty]
            ours = str(getattr(getattr(where, name), "__module__", None)).startswith(
                "core"
            )  # not what a test has added
            if ours and not name.startswith("_") and "0x" not in str(given):
                lines.append(f"{space}.{name}({', '.join(given)})")
    return lines


LINES = {line.partition("(")[0]: line for line in TOLD.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize("space", SPACES)
def test_defaults_are_pytorchs(space: str) -> None:
    mine = {line.partition("(")[0]: line for line in defaults()}
    for name in {*mine, *LINES}:
        if name.rpartition(".")[0] == space:
            assert mine.get(name) == LINES.get(name)


if __name__ == "__main__":
    TOLD.write_text("".join(f"{line}\n" for line in defaults()), encoding="utf-8")
