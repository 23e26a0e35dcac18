"""A recording of cells with sparse tensors and sparse gradients."""

from __future__ import annotations

import numpy as np
import pytest

import core
from tests.lab.conftest import run_cell

TRAINING = """
import core
from core import nn
core.manual_seed(0)
table, head = nn.Embedding(300, 16, sparse=True), nn.Linear(16, 4)
rows, rest = core.optim.SparseAdam(table.parameters(), lr=0.1), core.optim.SGD(head.parameters(), lr=0.1)
for step in range(6):
    i = core.randint(0, 300, (8,))
    loss = nn.functional.cross_entropy(head(table(i)), i % 4)
    rows.zero_grad(), rest.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([*table.parameters(), *head.parameters()], 1.0)
    rows.step(), rest.step()
"""


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD", "Adagrad"])
def test_training_with_a_sparse_table_is_recorded_and_goes_as_ever(optimizer: str) -> None:
    source = TRAINING.replace("SparseAdam", optimizer)
    space: dict = {}
    record = run_cell(source, space)
    assert record.error is None
    assert not [f for f in record.findings if f.kind == "recorder"]
    alone: dict = {}
    exec(source, alone)
    np.testing.assert_array_equal(space["table"].weight.detach().numpy(), alone["table"].weight.detach().numpy())


def test_the_norm_of_a_sparse_gradient_is_that_of_its_values() -> None:
    space: dict = {}
    record = run_cell(
        """
        import core
        table = core.nn.Embedding(300, 16, sparse=True)
        (table(core.tensor([3, 7])) * 2).sum().backward()
        """,
        space,
    )
    (row,) = record.gradients
    assert row.norm == pytest.approx(float(space["table"].weight.grad.to_dense().norm()))


def test_an_error_about_a_sparse_tensor_is_told_on_its_line() -> None:
    record = run_cell(
        """
        import core
        a = core.eye(3).to_sparse()
        b = a.exp()
        """
    )
    assert record.error is not None
    assert record.error.line == 3
    assert "to_dense" in record.error.detail
    assert not [f for f in record.findings if f.kind == "recorder"]


def test_products_and_sums_are_recorded() -> None:
    record = run_cell(
        """
        import core
        a = core.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)
        y = core.sparse.mm(a * 2 + a, core.ones(3, 2))
        y.sum().backward()
        shown = repr(a.grad)
        """
    )
    assert record.error is None
    assert record.ops
    assert not [f for f in record.findings if f.kind == "recorder"]
    assert core.Tensor.is_sparse is False
