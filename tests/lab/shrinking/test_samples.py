"""The data that variants are measured on: what is taken, and that nothing is used up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from lab.shrinking.samples import samples_of


@pytest.mark.parametrize(
    ("data", "count", "inputs", "labelled"),
    [
        ((core.rand(300, 4), core.zeros(300)), 300, 1, True),
        ((np.zeros((7, 4), np.float32), list(range(7))), 7, 1, True),
        (((core.rand(5, 4), core.rand(5, 2)), core.zeros(5)), 5, 2, True),
        (core.rand(9, 4), 9, 1, False),
        ([(core.rand(4, 3), core.zeros(4)), (core.rand(2, 3), core.zeros(2))], 6, 1, True),
        ([core.rand(4, 3)], 4, 1, False),
    ],
)
def test_what_is_taken(data: Any, count: int, inputs: int, labelled: bool) -> None:
    if isinstance(data, list):
        data = core.utils.data.DataLoader(data, batch_size=None)
    found = samples_of(data, core, 1000)
    assert (found.count, len(found.batches[0][0]), found.labelled) == (count, inputs, labelled)
    assert [len(x) for x in found.rows(32)] == [32] * inputs
    assert not found.cut


def test_of_much_data_the_first_are_taken() -> None:
    x = core.arange(1000.0).reshape(1000, 1)
    found = samples_of((x, x), core, 300)
    assert found.count == 300
    assert found.cut
    loader = core.utils.data.DataLoader(core.utils.data.TensorDataset(x, x), batch_size=64)
    assert samples_of(loader, core, 100).count == 128
    assert len(list(loader)) == 16


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (3, "the data are int; needed: a DataLoader"),
        ("x", "the data are str"),
        (iter([1]), "is an iterator, which measuring would use up"),
        ([{"x": 1}], "which is no array"),
        ((core.rand(4, 2), core.rand(3)), "inputs and targets of 4, 3 items"),
        (core.rand(0, 2), "the data have no item"),
    ],
)
def test_what_is_refused(data: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^shrink: ") as caught:
        samples_of(data, core, 100)
    assert said in str(caught.value)
