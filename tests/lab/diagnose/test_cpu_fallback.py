"""Ops that leave the GPU, as a recording with CuPy has them: what is copied for them, and from what size it matters."""

from __future__ import annotations

from typing import Any

import pytest

from core.backends.cuda import fallback
from lab.diagnose.speed.cpu_fallback import elsewhere
from lab.recorder.cell_trace import Row, Trace

TEXT = "a = torch.ones(16, 16)\nfor k in range(3):\n    b = torch.exp(a)\nc = torch.exp2(a)"


def left(trace: Trace, line: int, count: int, size: int, device: str = "cuda", backend: str = fallback.BACKEND) -> Row:
    """Let an op of 1 kB have run on the CPU so often, with results of such a size."""
    row = next(row for row in trace.rows if row.line == line)
    row.backend, row.device, row.count, row.size = backend, device, count, size
    return row


@pytest.mark.parametrize(("count", "size", "severity", "said"), [
    (1, (1 << 20) - 1024, "warning", "ran on the CPU, and 1 MB were"),
    (1, (1 << 20) - 1025, "note", "ran on the CPU, and 1 MB were"),
    (1024, 0, "warning", "ran on the CPU 1,024 times, and 1 MB were"),
    (1023, 0, "note", "ran on the CPU 1,023 times, and 1 MB were"),
    (2, 1024, "note", "ran on the CPU 2 times, and 4.1 kB were"),
])  # fmt: skip
def test_what_is_said(traced: Any, space: dict[str, Any], count: int, size: int, severity: str, said: str) -> None:
    trace = traced(TEXT, space)
    row = left(trace, 3, count, size)
    (found,) = elsewhere(trace, set())
    why = fallback.why("exp")
    assert found.message == (
        f"Line 3 leaves the GPU: `torch.exp(a)` {said} copied there and back, as CuPy cannot do "
        f"exp{f' ({why})' if why else ''}."
    )
    assert found.remedy == (
        "Without exp the values stay on the GPU; or do this part on the CPU, once, before the loop."
    )
    assert (found.kind, found.severity, found.line, found.rows) == ("copy", severity, 3, [row])


def test_that_with_most_comes_first(traced: Any, space: dict[str, Any]) -> None:
    trace = traced(TEXT, space)
    rows = left(trace, 3, 2, 1024), left(trace, 4, 1, 4096)
    assert [f.rows for f in elsewhere(trace, set())] == [[rows[1]], [rows[0]]]
    left(trace, 4, 1, 4096, device="cpu")
    left(trace, 3, 1, 4096, backend="numpy")
    assert elsewhere(trace, set()) == []
