"""The compile check itself: what it refuses, what it prints, and that it fails where it should."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from triton_kernels import families
from triton_kernels.compile_check import DTYPES, Row, _configs, _enter, check, table
from triton_kernels.resources import Resources
from triton_kernels.tune.space import Constraint, Space, powers_of_two

SCRIPT = """
import sys
from triton_kernels import elementwise
from triton_kernels.compile_check import main
good = elementwise.build("extra_gelu", ["x"], [], ["t0 = tl.erf(x)", "t1 = (x * t0)"], "t1")
bad = elementwise.build("extra_bad", ["x"], [], ["t0 = tl.no_such_function(x)"], "t0")
sys.exit(main(["--only", sys.argv[1], "--targets", "sm_90,gfx942", "--dtypes", "fp32"], extra=[good, bad]))
"""


def run(only, cache):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, "-c", SCRIPT, only], env=environment, capture_output=True, text=True)


def test_refuses_to_interpret():
    with pytest.raises(SystemExit, match="TRITON_INTERPRET is set"):
        check()


def test_compiles_for_gpus_that_are_not_there(tmp_path):
    done = run("extra_gelu", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    line = next(row for row in done.stdout.splitlines() if "sm_90" in row).split()
    assert line[:6] == ["extra_gelu", "fp32", "sm_90", "1", "1", "0"]
    assert 8 <= int(line[6]) <= 128  # registers, read from the binary
    assert "2 compilations for sm_90,gfx942" in done.stdout


def test_fails_where_a_kernel_does_not_compile(tmp_path):
    done = run("extra_bad", tmp_path)
    assert done.returncode == 1
    assert "no_such_function" in done.stdout


def test_quick_keeps_every_default_and_every_value():
    space = Space([powers_of_two("BLOCK", 8, 64, default=16), powers_of_two("num_warps", 1, 8, default=4)],
                  [Constraint("8 warps for 64 alone", lambda c: c["num_warps"] < 8 or c["BLOCK"] == 64)])  # fmt: skip
    default = {"BLOCK": 32, "num_warps": 2}
    case = SimpleNamespace(space=space, default_on=lambda target: default)
    some = _configs(case, "bf16", "sm_90", True)
    assert some[0] == default
    assert {c["BLOCK"] for c in some} == {8, 16, 32, 64}
    assert {c["num_warps"] for c in some} == {1, 2, 4, 8}
    assert len(some) < len(_configs(case, "bf16", "sm_90", False)) == 16
    assert all(space.rejected(c) is None for c in some)
    for dtype in DTYPES:
        assert _configs(case, dtype, "sm_90", True)[0] == default
        for target in ("sm_80", "sm_100", "gfx942"):
            assert _configs(case, dtype, target, True) == [default] * (dtype == "bf16")


def test_a_default_outside_the_space_is_compiled_too():
    space = Space([powers_of_two("BLOCK", 8, 64, default=16)])
    case = SimpleNamespace(space=space, default_on=lambda target: {"BLOCK": 128})
    assert _configs(case, "fp32", "sm_80", False)[-1] == {"BLOCK": 128}


def test_every_family_is_found():
    """A file with kernels and a space compiles them: none can be left out of the check."""
    folder = Path(families.__file__).parent
    found = {f.stem for f in folder.glob("*.py") if "@triton.jit" in f.read_text("utf-8")}
    spaces = {n for n in found if hasattr(importlib.import_module(f"triton_kernels.{n}"), "SPACE")}
    assert spaces <= set(families.names())


CASE = SimpleNamespace(default_on=lambda target: {"BLOCK": 8})


def entered(config, result):
    row = Row("k", "fp32", "sm_80", configs=1)
    _enter(row, CASE, config, result, "sm_80")
    return row


def test_a_default_that_spills_or_does_not_fit_fails():
    assert entered({"BLOCK": 8}, Resources(64, 0, 0)).failures == []
    assert "spills 16 bytes" in entered({"BLOCK": 8}, Resources(255, 0, 16)).failures[0]
    assert "200000 bytes of shared memory" in entered({"BLOCK": 8}, Resources(64, 200_000, 0)).failures[0]
    other = entered({"BLOCK": 4}, Resources(255, 200_000, 16))
    assert other.failures == []
    assert sum(other.pruned.values()) == 1
    spilling = entered({"BLOCK": 4}, Resources(255, 0, 16))
    assert (spilling.spilling, spilling.failures) == (1, [])


def test_the_table_gives_the_reasons():
    row = entered({"BLOCK": 4}, Resources(255, 200_000, 16))
    row.pruned["at least 2 elements a thread"] += 3
    text = table([row])
    assert "at least 2 elements a thread" in text
    assert "shared memory 200000 > 166912 bytes" in text
