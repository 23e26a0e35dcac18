"""A number, a whole one or a truth that is plainly of another type: what both libraries say of it.

``python -m tests.parity.test_wrong_kinds`` prints which calls succeed here that PyTorch refuses, and the other way
round.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch

import core
from core.declare.signature import signatures
from core.dispatch.type_errors import refused

from .test_spellings import Case, least, outcome, shown

WRONG = {"Int": ("2", 1.5), "Dim": ("0", 0.0), "Flag": (1, "no", 0.0), "Number": ("1",), "Scalar": ("1",)}
PYTHON = "nn.functional."
LEFT = 44


def differences() -> tuple[int, list[str], list[str]]:
    """How many calls PyTorch refuses as of a wrong type; which of them are taken here; which are refused here alone."""
    count, taken, alone = 0, [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for s in signatures():
            given = least(s)
            for method in (False, True):
                if given is None or not shown(s, method):
                    continue
                plain = Case(s, method, given, "", "")
                if any(isinstance(outcome(library, plain, False), str) for library in (core, torch)):
                    continue
                for p in s.parameters:
                    for value in WRONG.get(p.kind, ()) if len(p.kinds) == 1 else ():
                        case = Case(s, method, {**given, p.name: value}, p.name, p.name)
                        ours, theirs = outcome(core, case, False), outcome(torch, case, False)
                        told = f"{case.told[:-1]}{value!r}): {ours} here, {theirs} in PyTorch"
                        count += theirs == "TypeError"
                        if theirs == "TypeError" and not isinstance(ours, str):
                            taken.append(told)
                        if ours == "TypeError" and not isinstance(theirs, str):
                            alone.append(told)
    return count, taken, alone


@pytest.mark.parametrize("native", ["1", "0"])
def test_what_pytorch_refuses_is_refused(native: str) -> None:
    ran = subprocess.run([sys.executable, "-m", __spec__.name], env={**os.environ, "GRADLAB_NATIVE": native},
                         capture_output=True, text=True, check=True)  # fmt: skip
    first, *told = ran.stdout.splitlines()
    assert int(first.partition(" ")[0]) > 800
    # what PyTorch writes in Python hands some of its arguments on to what refuses them
    assert [line for line in told if not line.startswith(PYTHON)] == []
    assert len(told) <= LEFT


X = core.tensor([[0.25, 0.5, 0.75], [0.125, 0.625, 0.875]])


@pytest.mark.parametrize(("call", "said"), [
    (lambda: core.clamp(X, "0"), r"clamp\(\): argument 'min' \(position 2\) must be (Tensor|Number), not str"),
    (lambda: core.topk(X, 2.7), r"topk\(\): argument 'k' \(position 2\) must be int, not float"),
    (lambda: core.topk(X, "2"), r"topk\(\): argument 'k' \(position 2\) must be int, not str"),
    (lambda: core.sort(X, stable="no"), r"sort\(\): argument 'stable' \(position 4\) must be bool, not str"),
    (lambda: core.sort(X, descending=1), r"sort\(\): argument 'descending' \(position 3\) must be bool, not int"),
    (lambda: core.norm(X, keepdim=3), r"norm\(\): argument 'keepdim' \(position 4\) must be bool, not int"),
    (lambda: X.sum(0, 1), r"sum\(\): argument 'keepdim' \(position 2\) must be bool, not int[^$]*as a tuple"),
    (lambda: core.fft.fft(X, 2.0), r"fft\(\): argument 'n' \(position 2\) must be int, not float"),
    (lambda: X.clone().tril_(1.5), r"tril\(\): argument 'diagonal' \(position 1\) must be int, not float"),
    (lambda: core.topk(X, k="2"), r"topk\(\): argument 'k' \(position 2\) must be int, not str"),
])  # fmt: skip
def test_the_error_names_the_argument_and_its_type(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_a_table_holds_what_numbers_and_truths_are_not() -> None:
    """1: an int, 2: a float, 4: a str."""
    table = refused(core.topk.__wrapped__)
    assert table.places == bytes([0, 6, 6, 7, 7])
    assert dict(zip(table.names, table.named, strict=True)) == {"k": 6, "dim": 6, "largest": 7, "sorted": 7}
    assert refused(core.nn.functional.relu).places == b""  # PyTorch's is Python, and takes inplace=1


if __name__ == "__main__":
    number, first, second = differences()
    print(f"{number} calls, {len(first)} taken here, {len(second)} refused here alone", *first, *second, sep="\n")
