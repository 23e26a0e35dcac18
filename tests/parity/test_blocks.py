"""Every layer, loss, optimizer and schedule of PyTorch has a row, and every row agrees in every check."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.parity.blocks import compare, rows

ROWS = [row for kind in rows.KINDS for row in rows.rows(kind)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text.replace("::", ":"))
def test_agrees_with_pytorch(row: rows.Row) -> None:
    assert {check: said for check, said in compare.differences(row).items() if said} == {}


def test_every_public_class_has_a_row_or_a_reason() -> None:
    covered = {row.name for row in ROWS} | set(rows.left_out())
    assert [n for kind in rows.KINDS for n in rows.public(kind) if n not in covered] == []
    assert all(rows.left_out().values())


def test_a_wrong_layer_is_found() -> None:
    """The checks can fail: a layer compared with one of other settings differs, in float64 and over 200 steps."""
    row = rows.Row("layers", "GELU('none' if t.__name__ == 'core' else 'tanh')", "R(3, 4)")
    assert compare.differences(row)["values, gradients"]
    row = rows.Row("optimizers", "SGD(p, lr=0.05 if t.__name__ == 'core' else 0.0501)")
    assert compare.differences(row)["200 steps"]
