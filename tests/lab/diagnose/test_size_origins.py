"""Errors that name where the size of a layer comes from: an argument of its class, a variable, an earlier cell."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]
NET = """
class Net(nn.Module):
    def __init__(self, words, size=3):
        super().__init__()
        self.emb = nn.Embedding(words, 8)
        self.out = nn.Linear(8, size)
    def forward(self, ids):
        return self.out(self.emb(ids))
vocabulary = {"a": 1, "b": 2}
"""
ASK = "net(torch.tensor([1, 2]))"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("net = Net(len(vocabulary))", "; their number is `len(vocabulary)` (line 9)."),
        ("n = len(vocabulary)\nnet = Net(n)", "; their number is `len(vocabulary)` (line 9)."),
        ("n = 7\nn = len(vocabulary)\nm = n\nnet = Net(words=m)", "; their number is `len(vocabulary)` (line 10)."),
        ("def build(n):\n    return Net(n)\nnet = build(1 + 1)", "; their number is `1 + 1` (line 11)."),
    ],
)
def test_where_the_rows_of_a_table_come_from(cell: Any, space: Space, made: str, said: str) -> None:
    found = cell(NET + made + "\n" + ASK, space).findings[0]
    assert found.message.endswith("it is asked for row 2 of a table of 2 rows, which go from 0 to 1" + said)
    more = "Where numbers begin with 1, the table needs a row more: len(vocabulary) + 1."
    assert (found.remedy == more) == ("len(vocabulary)" in said)


@pytest.mark.parametrize("made", ["net = Net(2)", "emb = net = nn.Embedding(2, 8)", "net = nn.Embedding(2, 8)"])
def test_a_number_that_stands_there_is_not_said_again(cell: Any, space: Space, made: str) -> None:
    found = cell(NET + made + "\n" + ASK, space).findings[0]
    assert found.message.endswith("which go from 0 to 1.")
    assert found.remedy.startswith("Make the table larger, nn.Embedding(3, 8)")


def test_a_number_that_is_further_away_is_no_row_that_is_missing(cell: Any, space: Space) -> None:
    found = cell(NET + "net = Net(len(vocabulary))\nnet(torch.tensor([1, 5]))", space).findings[0]
    assert "; their number is `len(vocabulary)` (line 9)" in found.message
    assert found.remedy.startswith("Make the table larger, nn.Embedding(6, 8)")


def test_where_the_outputs_of_a_model_come_from(cell: Any, space: Space) -> None:
    text = NET + "names = ['cat', 'dog']\nnet = Net(5, len(names))\nF.cross_entropy(net(torch.tensor([1, 4])), "
    found = cell(text + "torch.tensor([1, 2]))", space).findings[0]
    assert "class numbers go from 1 to 2, and the model has 2 outputs, for 0 to 1" in found.message
    assert found.message.endswith("; their number is `len(names)` (line 10).")


def test_an_argument_by_its_default_is_where_the_layer_is_made(cell: Any, space: Space) -> None:
    text = NET + "net = Net(5)\nF.cross_entropy(net(torch.tensor([1, 4])), torch.tensor([0, 3]))"
    assert "; their number is `size` (line 5)." in cell(text, space).findings[0].message
