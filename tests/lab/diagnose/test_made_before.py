"""What was not finite, or had lost its digits, before the recording: the card names the line that made it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Space = dict[str, Any]
TRAIN = """
net = nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=1e-6)
for k in range(3):
    opt.zero_grad()
    F.cross_entropy(net(data[k * 16 : k * 16 + 16]), labels[:16] % 2).backward()
    opt.step()
"""
RAW = "import numpy as np\nraw = x[:, :8].numpy().copy()\nraw[5] = 0.0\n"

MADE = {
    "a column whose values are all the same": (
        ["raw[:, 3] = 2.0", "mean, sd = raw.mean(0), raw.std(0)\nraw = (raw - mean) / sd\n"
         "data = torch.from_numpy(raw)"],
        "In [3] line 2 makes data that are not finite: it divides by `sd`, which is 0 where all values are the same",
    ),
    "a logarithm in a function": (
        ["def loudness(w):\n    power = np.abs(w) ** 2\n    return 10 * np.log10(power)", "raw = loudness(raw)",
         "data = torch.from_numpy((raw - raw.mean(1, keepdims=True)) / raw.std(1, keepdims=True))"],
        "In [2] line 3 makes data that are not finite: `np.log10(power)` is the log10 of values down to 0",
    ),
    "in place": (
        ["data = torch.from_numpy(raw)\ndata /= data.amax(1, keepdim=True) - data.amin(1, keepdim=True)"],
        "In [2] line 2 makes data that are not finite: it divides by `data.amax(1, keepdim=True)",
    ),
    "a row after the other": (
        ["rows = []\nfor one in raw:\n    rows.append(one / np.linalg.norm(one))",
         "data = torch.tensor(np.array(rows))"],
        "In [2] line 3 makes data that are not finite: it divides by `np.linalg.norm(one)`, which is 0 there",
    ),
    "a root": (
        ["data = torch.from_numpy(raw)", "data = torch.sqrt(data)"],
        "In [3] line 1 makes data that are not finite: `torch.sqrt(data)` is the sqrt of values down to -",
    ),
    "a variance by squares": (
        ["class Scale:\n    def add(self, a):\n        self.mean, self.squares = a.mean(0), (a * a).mean(0)\n"
         "        self.spread = torch.sqrt(self.squares - self.mean ** 2)",
         "far = torch.from_numpy(raw) * 0.01 + 20000\nscale = Scale()\nscale.add(far)",
         "data = (far - scale.mean) / scale.spread"],
        "In [2] line 4 makes data that are not finite: `torch.sqrt(self.squares - self.mean ** 2)` is the root of what "
        "rounding has left of a variance",
    ),
    "an angle": (
        ["unit = torch.from_numpy(raw) * 1.2", "data = unit.acos()"],
        "In [3] line 1 makes data that are not finite: `unit.acos()` is the acos of values from -",
    ),
    "a softmax of a row that is hidden whole": (
        ["hidden = torch.from_numpy(raw == 0)\nhidden[5] = True",
         "scores = torch.from_numpy(raw).masked_fill(hidden, float('-inf'))\ndata = torch.softmax(scores, 1)"],
        "In [3] line 2 makes data that are not finite: `torch.softmax(scores, 1)` is a softmax over nothing but -inf",
    ),
    "a mean of nothing": (
        ["data = torch.from_numpy(raw)\nfill = data[data > 99].mean()", "data = torch.where(data == 0, fill, data)"],
        "In [2] line 2 makes data that are not finite: `data[data > 99].mean()` is the mean of no values",
    ),
    "what nobody can follow": (
        ["class Scaler:\n    def fit(self, a):\n        self.scale_ = a.std(0)\n        return self\n"
         "    def transform(self, a):\n        return (a - a.mean(0)) / self.scale_",
         "raw[:, 3] = 2.0\ndata = torch.from_numpy(Scaler().fit(raw).transform(raw))"],
        "In [2] line 6 makes data that are not finite: it divides by `",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_line_that_made_it_is_told(cell: Any, notebook: Any, name: str) -> None:
    cells, words = MADE[name]
    first = cell(TRAIN, notebook(RAW, *cells)).findings[0]
    assert (first.kind, first.severity, first.line) == ("nan", "error", None), first
    assert first.message.startswith(words), first.message


HOLES = ["raw[3, 2] = np.nan", "raw[raw > 2] = float('nan')", "raw = np.where(raw > 2, np.nan, raw)"]


@pytest.mark.parametrize("hole", HOLES)
def test_missing_values_are_not_blamed_on_a_division(cell: Any, notebook: Any, hole: str) -> None:
    space = notebook(RAW, hole, "data = torch.from_numpy((raw - np.nanmean(raw, 0)) / raw.std(0))")
    first = cell(TRAIN, space).findings[0]
    assert (first.kind, first.line) == ("nan", 5)
    assert first.message.startswith("Line 5 reads data that are not finite"), first.message


def test_what_a_data_set_makes_in_passing(cell: Any, notebook: Any) -> None:
    space = notebook(
        RAW,
        "class Pieces(torch.utils.data.Dataset):\n    def __init__(self, a):\n        self.a = a\n"
        "    def __len__(self):\n        return len(self.a)\n    def __getitem__(self, i):\n"
        "        return torch.from_numpy(np.log10(np.abs(self.a[i])))",
        "loader = torch.utils.data.DataLoader(Pieces(raw), batch_size=16)",
    )
    text = "net = nn.Linear(8, 2)\nfor piece in loader:\n    net(piece).sum().backward()"
    with np.errstate(all="ignore"):
        first = cell(text, space).findings[0]
    assert first.message.startswith("In [2] line 7 makes data that are not finite: `np.log10("), first.message


def test_nothing_of_the_users_is_changed(cell: Any, notebook: Any) -> None:
    space = notebook(RAW, "calls = []\ndef seen(a):\n    calls.append(1)\n    a /= a.std(0)\n    return a\n"
                     "data = torch.from_numpy(seen(raw.copy()))")  # fmt: skip
    before = space["raw"].copy()
    cell(TRAIN, space)
    assert space["calls"] == [1]
    assert (space["raw"] == before).all()


STAMPS = (
    "import numpy as np\nstamps = 1_700_000_000 + np.cumsum(np.random.default_rng(0).integers(20, 90, (64, 9)), 1)\n"
)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["t = torch.tensor(stamps, dtype=torch.float32)", "data = (t[:, 1:] - t[:, :-1]) / 60"],
         "In [2] line 1 makes float32 of numbers near 1.7e+09"),
        (["t = torch.from_numpy(stamps).float()\ndata = torch.diff(t, dim=1).log1p()"],
         "In [2] line 1 makes float32 of numbers near 1.7e+09"),
        (["def gaps(a):\n    a = a.astype('float32')\n    return a[:, 1:] - a[:, :-1]",
          "data = torch.tensor(gaps(stamps))"],
         "In [2] line 2 makes float32 of numbers near 1.7e+09"),
        (["def load():\n    rows = np.stack([stamps[:, 0], stamps[:, 1]], 1)\n"
          "    return torch.tensor(rows, dtype=torch.float32)", "table = load()", "at = table[:, 0].long()\n"
          "data = torch.eye(64)[at % 8, :8]"],
         "In [2] line 3 makes table float32, of whole numbers near 1.7e+09"),
        (["t = torch.zeros(64, 9)\nfor k in range(64):\n    t[k] = torch.Tensor(stamps[k].tolist())",
          "data = t[:, 1:] - t[:, :-1]"],
         "In [2] line "),
    ],
)  # fmt: skip
def test_digits_that_were_lost_before(cell: Any, notebook: Any, cells: list[str], words: str) -> None:
    (told,) = (f for f in cell(TRAIN, notebook(STAMPS, *cells)).findings if f.kind == "dtype")
    assert told.severity == "warning"
    assert told.message.startswith(words), told.message


@pytest.mark.parametrize(
    "cells",
    [
        ["t = torch.tensor(stamps - stamps[0], dtype=torch.float32)", "data = (t[:, 1:] - t[:, :-1]) / 60"],
        ["t = torch.tensor(stamps[:, 1:] - stamps[:, :-1])", "data = t.float() / 60"],
        [
            "t = torch.tensor(1_700_000_000 + 3600 * np.arange(512).reshape(64, 8), dtype=torch.float32)",
            "data = torch.sin(t % 86400 / 86400 * 6.283)",
        ],
    ],
)
def test_digits_that_were_not_lost(cell: Any, notebook: Any, cells: list[str]) -> None:
    found = cell(TRAIN, notebook(STAMPS, *cells)).findings
    assert [f.message for f in found if f.kind == "dtype"] == []
