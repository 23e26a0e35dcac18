"""Every public function and method given what is no tensor, beside PyTorch: the error's class, the argument's name.

``python -m tests.parity.test_wrong_types`` prints what differs, by kind. Most of it: functions in Python that read an
attribute of their first argument say AttributeError; numbers and lists are read from texts where PyTorch refuses.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from typing import Any

import pytest
import torch

import core

WRONG = [object(), None, "x", {}, ["a"], os]
# they set what the process has, open files or wait; `new` and its kin are PyTorch's own
ASIDE = re.compile(r"set_|save|load|manual_|seed|compile|use_|get_|is_|init|backward|apply_|map_|map2_|record_stream|"
                   r"from_file|module_load|share_memory_|new$")  # fmt: skip
MOST = 1660  # of some 10,100 calls that raise in PyTorch; 2,114 before
NAMED = re.compile(r"argument '(\w+)'")

Call = tuple[str, str, Any, Any, tuple[Any, ...], tuple[Any, ...]]


def calls() -> list[Call]:
    """(where, name, ours, theirs, our first arguments, theirs)."""
    found: list[Call] = []
    ours, theirs = (core.ones(2, 3),), (torch.ones(2, 3),)
    for where, a, b in (("core", core, torch), ("functional", core.nn.functional, torch.nn.functional),
                        ("Tensor", core.Tensor, torch.Tensor)):  # fmt: skip
        for name in sorted(dir(a)):
            f, g = getattr(a, name), getattr(b, name, None)
            if name.startswith("_") or ASIDE.match(name) or not callable(f) or not callable(g) or isinstance(g, type):
                continue
            if where != "Tensor":
                found.append((where, name, f, g, (), ()))
            found.append((where, name, f, g, ours, theirs))
    return found


def raised(f: Any, *args: Any) -> Exception | None:
    try:
        f(*args)
    except Exception as error:
        return error
    return None


def differences() -> tuple[int, Counter[tuple[str, str]], list[str], list[str]]:
    """How many calls raise in PyTorch; (our class, theirs) where they differ; those calls; private names."""
    count, kinds, told, private = 0, Counter[tuple[str, str]](), [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for where, name, f, g, ours, theirs in calls():
            for wrong in WRONG:
                theirs_error = raised(g, *theirs, wrong)
                if theirs_error is None:
                    continue
                count += 1
                error = raised(f, *ours, wrong)
                if type(error).__name__ != type(theirs_error).__name__:
                    kinds[type(error).__name__, type(theirs_error).__name__] += 1
                    told.append(f"{where}.{name}({'tensor, ' * len(ours)}{type(wrong).__name__}): {error!r:.90}")
                named = NAMED.search(str(error))
                if named and named[1] in ("a", "b", "x"):
                    private.append(f"{where}.{name}: {error}")
    return count, kinds, told, private


@pytest.fixture(scope="module")
def found() -> Any:
    return differences()


def test_most_wrong_types_raise_what_pytorch_raises(found: Any) -> None:
    count, kinds, _, _ = found
    assert count > 9000
    assert sum(kinds.values()) <= MOST, kinds.most_common()


def test_no_error_names_a_private_argument(found: Any) -> None:
    assert found[3] == []


@pytest.mark.parametrize("name", ["add", "mul", "sub", "div", "atan2", "maximum", "fmod"])
def test_an_operand_is_called_as_users_call_it(name: str) -> None:
    error = raised(getattr(core, name), core.ones(3), object())
    assert isinstance(error, TypeError)
    named = NAMED.search(str(error))
    assert named is not None
    assert named[1] == "other"


@pytest.mark.parametrize("name", ["abs_", "exp_", "relu_", "sqrt_", "neg_"])
def test_an_op_in_place_says_what_is_no_tensor(name: str) -> None:
    for lib in (core, torch):
        with pytest.raises(
            TypeError, match=rf"^{name}\(\): argument 'input' \(position 1\) must be Tensor, not object"
        ):
            getattr(lib, name)(object())


if __name__ == "__main__":
    total, by_kind, lines, _ = differences()
    print(f"{total} calls that raise in PyTorch, {sum(by_kind.values())} of another class here")
    for (mine, other), number in by_kind.most_common():
        print(f"  {number:5} {mine} where PyTorch has {other}")
    print("\n".join(lines[:: max(1, len(lines) // 100)]))
