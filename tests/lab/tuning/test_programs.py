"""`python -m lab tune file.py:kernel` on a program in which no line is changed, in a process that compiles."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": b}, num_warps=4) for b in (64, 128, 32)], key=["n"])
@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, v + v, mask=i < n)

@triton.jit
def negated(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, -tl.load(x + i, mask=i < n), mask=i < n)

if __name__ == "__main__":
    x, out = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    doubled[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, 300)
    negated[(3,)](x, out, 300, BLOCK=128)
    print("it says", x[299], out[299])
"""


def tuned(tmp_path, kernel, text=PROGRAM, *more):
    """What the command says of a program."""
    (tmp_path / "train.py").write_text(text)
    places = {"XDG_DATA_HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | places
    words = [f"{tmp_path}/train.py{kernel}", "--evaluations", "3", "--budget", "60s", *more]
    command = [sys.executable, "-m", "lab", "tune", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.by_turns
def test_an_autotuned_kernel_that_writes_in_place_is_tuned(tmp_path):
    done = tuned(tmp_path, ":doubled")
    assert done.returncode == 0, done.stderr
    assert "it says 598.0 -598.0" in done.stdout
    assert "doubled 300 float32, estimated for sm_90" in done.stdout
    assert "3 of 3 configs tried" in done.stdout
    assert "the default config is the reference, at 1 captured launch" in done.stdout


SUMMED = """
import numpy as np, triton, triton.language as tl

@triton.jit
def parts_of(x, parts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))

def main():
    BLOCK, x = 128, np.arange(300, dtype=np.float32)
    parts = np.empty(triton.cdiv(300, BLOCK), np.float32)
    parts_of[(triton.cdiv(300, BLOCK),)](x, parts, 300, BLOCK=BLOCK)
    return parts.sum()

if __name__ == "__main__":
    main()
"""


@pytest.mark.by_turns
def test_configs_are_judged_by_what_a_function_of_the_program_returns(tmp_path):
    done = tuned(tmp_path, ":parts_of", SUMMED, "--judge-by", "main")
    assert done.returncode == 0, done.stderr
    assert "judged by what the whole program returns: BLOCK=64; BLOCK=256" in done.stdout
    done = tuned(tmp_path, ":parts_of", SUMMED, "--judge-by", "total")
    assert "train.py has no function total when it has run" in done.stderr


@pytest.mark.by_turns
def test_what_is_missing_is_said(tmp_path):
    done = tuned(tmp_path, "")
    assert "2 kernels were launched (doubled, negated). Remedy: the name of one" in done.stderr
    done = tuned(tmp_path, ":other")
    assert "no kernel other was launched while it was captured; launched were: doubled, negated" in done.stderr
    done = tuned(tmp_path, ":doubled", PROGRAM.partition("if __name__")[0])
    assert "launches no Triton kernel when it is run as a script" in done.stderr
