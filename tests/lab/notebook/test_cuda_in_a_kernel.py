"""Faults of the device `cuda` in a real Jupyter kernel: it lives on, and the cell's error says what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from tests.fake_gpu import ROOT, environment


@contextmanager
def kernel(env: dict[str, str]) -> Iterator[Any]:
    """A function that runs a cell and gives (its text and error without colours, whether it failed)."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=env, cwd=str(ROOT))
    client = manager.client()
    client.start_channels()

    def run(code: str) -> tuple[str, bool]:
        said: list[str] = []

        def heard(message: Any) -> None:
            content = message["content"]
            said.extend(content.get("traceback", ()))
            said.append(content.get("text", "") or content.get("data", {}).get("text/plain", ""))

        reply = client.execute_interactive(code, output_hook=heard, timeout=120)
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(said)).strip(), reply["content"]["status"] == "error"

    try:
        client.wait_for_ready(timeout=120)
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


KERNELS = """
import core, triton, triton.language as tl
from triton_kernels.runtime import Pointer

@triton.jit
def mine_kernel(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)

@triton.jit
def broken_kernel(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), undefined_thing(B))

x = core.ones(8, 8, device="cuda")
"""


@pytest.mark.by_turns
def test_a_gpu_that_is_lost_out_of_memory_and_a_compile_error_in_a_notebook() -> None:
    with kernel(environment()) as run:
        assert run(KERNELS) == ("", False)
        text, failed = run("broken_kernel[(1,)](x, 64, B=64)")
        assert failed
        assert "undefined_thing is not defined" in text
        text, failed = run("big = core.zeros(10**8, device='cuda')")
        assert failed
        assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 381.47 MiB" in text
        assert "remedy: a smaller batch" in text
        assert run("(x + 1).sum().device") == ("device(type='cuda', index=0)", False)
        assert not run("import cupy; cupy.cuda.lib.fake_inject(b'cuLaunchKernelEx', 700, 0)")[1]
        assert not run("mine_kernel[(1,)](x, 64, B=64)")[1]  # CUDA tells of it late
        text, failed = run("x.sum().item()")
        assert failed
        assert "AcceleratorError: CUDA error: an illegal memory access was encountered" in text
        assert "restart the process (in a notebook: Kernel > Restart)" in text
        assert "kernel mine_kernel[grid=(1, 1, 1)]" in text
        assert run("(core.ones(2) + 1).tolist()") == ("[2.0, 2.0]", False)  # the process lives, and the CPU works


@pytest.mark.by_turns
def test_the_interpreter_in_a_notebook_finds_what_would_have_lost_the_gpu() -> None:
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    with kernel(env) as run:
        assert run(KERNELS) == ("", False)
        text, failed = run("mine_kernel[(1,)](Pointer(x._a), 100, B=128)")
        assert failed
        assert "out-of-bounds load of 4 bytes: 36 of 100 unmasked lanes in program (0, 0, 0)" in text
        text, failed = run("broken_kernel[(1,)](Pointer(x._a), 64, B=64)")
        assert failed
        assert "undefined_thing" in text
        assert run("mine_kernel[(1,)](Pointer(x._a), 64, B=64); (x + 1).sum().item()") == ("192.0", False)


def test_the_peak_of_a_cell_is_told_by_line(cell: Any) -> None:
    record = cell("""
        import core
        x = core.ones(64, 64, device="cuda")
        y = x * 2
        z = y.exp()
        z = None
        w = y + 1
    """)
    rows = {row.line: row for row in record.memory.rows}
    assert record.device == "cuda"
    assert rows[3].peak_bytes == 64 * 64 * 4
    assert record.memory.peak_bytes == 2 * 64 * 64 * 4
    assert sorted(rows) == [3, 4, 6]
