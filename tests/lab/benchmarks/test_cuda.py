"""The cases of `lab bench --device cuda`: each is right on the interpreted device at its small size; no GPU is said."""

from __future__ import annotations

import sys

import pytest

import core
from lab.benchmarks import command, cuda

CASES = {case.make: case for case in cuda.CASES}.values()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_small_form_is_right(case):
    assert cuda.wrong(case, core, "cuda", case.dtypes[0]) == ""


def test_a_wrong_result_is_seen(monkeypatch):
    case = cuda.CASES[0]
    spoilt = cuda.Case(case.name, lambda lib, device, *rest: cuda.Run(
        (lambda x, y: x + y) if device == "cpu" else (lambda x, y: x - y), *case.make(lib, device, *rest).inputs
    ), case.full, case.small)  # fmt: skip
    assert "result 0 is off by" in cuda.wrong(spoilt, core, "cuda", "float32")


def test_bytes_and_operations():
    softmax = next(c for c in cuda.CASES if c.name.startswith("softmax"))
    assert softmax.moved({"rows": 2, "columns": 3}, 4) == 10 * 4 * 6
    product = next(c for c in cuda.CASES if c.name == "matmul 8192 x 4096 x 1024")
    assert product.flops(product.full) == 2 * 8192 * 4096 * 1024


def test_without_a_gpu_nothing_is_timed(capsys):
    before = "torch" in sys.modules  # where it is installed, another test may have imported it
    assert command.main(["--device", "cuda"]) == 2
    assert "nothing can be timed here" in capsys.readouterr().err
    assert ("torch" in sys.modules) == before
