"""Every public function and method given what is no tensor, beside PyTorch: the error's class, the argument's name.

``python -m tests.parity.test_wrong_types`` prints what differs, by kind; `LEFT` gives each kind's reason.
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
LEFT = {
    # PyTorch's own Python reads an attribute and says AttributeError; ours says which argument is wrong
    "TypeError here": 253,
    # None is the default of ours where PyTorch has another overload: max(x, None), x.long(None)
    "None is taken": 58,
    # dictionaries where sizes are listed; the device of pin_memory, which nothing depends on
    "taken": 21,
    # most of it a wrong value of the tensor before it, which ours finds first
    "another class": 53,
}
"""How many calls may raise another class than PyTorch's, by kind: 1,646 of 10,127 before. None may grow."""
NAMED = re.compile(r"argument '(\w+)'")

Call = tuple[str, str, Any, Any, bool]  # where, name, ours, theirs, whether a tensor comes first


def calls() -> list[Call]:
    """What is called: each function with the wrong thing first, and after a tensor."""
    found: list[Call] = []
    for where, a, b in (("core", core, torch), ("functional", core.nn.functional, torch.nn.functional),
                        ("Tensor", core.Tensor, torch.Tensor)):  # fmt: skip
        for name in sorted(dir(a)):
            f, g = getattr(a, name), getattr(b, name, None)
            if name.startswith("_") or ASIDE.match(name) or not callable(f) or not callable(g) or isinstance(g, type):
                continue
            if where != "Tensor":
                found.append((where, name, f, g, False))
            found.append((where, name, f, g, True))
    return found


def raised(f: Any, *args: Any) -> Exception | None:
    try:
        f(*args)
    except Exception as error:
        return error
    return None


def kind(error: Exception | None, wrong: Any) -> str:
    """Which of `LEFT` a call is that raises another class than PyTorch's."""
    if error is None:
        return "None is taken" if wrong is None else "taken"
    return "TypeError here" if isinstance(error, TypeError) else "another class"


def differences() -> tuple[int, Counter[str], list[str], list[str]]:
    """How many calls raise in PyTorch; the kinds where the classes differ; those calls; private names."""
    count, kinds, told, private = 0, Counter[str](), [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for where, name, f, g, after in calls():
            for wrong in WRONG:
                ours = (core.ones(2, 3),) if after else ()  # new ones: some of the calls write
                theirs_error = raised(g, *((torch.ones(2, 3),) if after else ()), wrong)
                if theirs_error is None:
                    continue
                count += 1
                error = raised(f, *ours, wrong)
                if type(error).__name__ != type(theirs_error).__name__:
                    kinds[kind(error, wrong)] += 1
                    told.append(f"{where}.{name}({'tensor, ' * len(ours)}{type(wrong).__name__}): {error!r:.90}")
                named = NAMED.search(str(error))
                if named and named[1] in ("a", "b", "x"):
                    private.append(f"{where}.{name}: {error}")
    return count, kinds, told, private


@pytest.fixture(scope="module")
def found() -> Any:
    return differences()


@pytest.mark.parametrize("kind", LEFT)
def test_wrong_types_raise_what_pytorch_raises(found: Any, kind: str) -> None:
    count, kinds, _, _ = found
    assert count > 9000
    assert set(kinds) <= set(LEFT)
    assert kinds[kind] <= LEFT[kind], kinds.most_common()


def test_at_most_500_calls_raise_another_class() -> None:
    assert sum(LEFT.values()) <= 500


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
    for name, number in by_kind.most_common():
        print(f"  {number:5} {name}")
    print("\n".join(lines[:: max(1, len(lines) // 100)]))
