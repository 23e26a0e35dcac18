"""PyTorch's own wrong arguments: the same class of error; and how much of its tables there is and is right."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from torch.testing._internal.common_methods_invocations import op_db

from tests.parity.opinfo import checks, errors

FLOOR = 632  # OpInfos whose samples must all agree; raised as functions come, never lowered
ERRORS = 650  # wrong calls that there must be at least


@pytest.mark.parametrize("info", errors.WITH_ERRORS, ids=lambda info: info.full_name)
def test_wrong_arguments(info: Any) -> None:
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        found = {key: errors.difference(info, sample, e) for key, sample, e in errors.examples(info)}
    assert {key: what for key, what in found.items() if what and key not in checks.error_exceptions()} == {}
    stale = [k for k in checks.error_exceptions() if k.rpartition(" ")[0] == info.full_name and not found.get(k)]
    assert stale == [], "the table excuses what is right"


def test_at_least_95_of_100_wrong_calls_raise_the_same_class() -> None:
    count = sum(len(errors.examples(info)) for info in errors.WITH_ERRORS)
    assert count >= ERRORS
    assert len(checks.error_exceptions()) <= 0.05 * count


def test_what_counts_and_how_much_passes() -> None:
    names = [info.full_name for info in op_db]
    assert all(any(checks.fnmatch.fnmatchcase(n, p) for n in names) for p in checks.not_counted())
    assert (len(names), len({info.name for info in op_db}), len(checks.COUNTED)) == (702, 636, 638)
    counted = {info.full_name for info in checks.COUNTED}
    known = {f"{name} {check}" for name in counted for check in (*checks.CHECKS, *checks.ALLOWANCES)}
    assert set(checks.exceptions()) <= known
    assert all(checks.exceptions().values())
    assert all(checks.error_exceptions().values())
    assert all(checks.not_counted().values())
    differing = {key for key in checks.exceptions() if key.endswith(" samples")}
    assert len(counted) - len(differing) >= FLOOR
