"""The first NaN or infinity is named, forward and backward, apart from those that pass it on."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("core.relu(h).log()", "is the log of values down to 0"),
        ("h.sqrt()", "is the sqrt of values down to -"),
        ("(h * 1000).exp()", "is the exp of values up to "),
        ("1 / core.relu(h)", "is a division by 0"),
    ],
)
def test_the_first_in_forward(cell: Any, space: Space, op: str, words: str) -> None:
    record = cell(f"A = P(16, 8)\nh = x @ A\ny = {op}\nz = y * 2 - y\nloss = z.mean()\nloss.backward()", space)
    finding = next(f for f in record.findings if f.kind == "nan")
    assert (finding.severity, finding.line) == ("error", 3)
    assert finding.message.startswith("Line 3 makes the first ")
    assert words in finding.message
    assert next(op.line for op in record.ops if "nan" in op.flags) == 3
    assert [f.kind for f in record.findings] == ["nan"]


def test_counts_and_the_spoilt_gradients_are_told(cell: Any, space: Space) -> None:
    record = cell("A = core.zeros(16, 2, requires_grad=True)\nloss = (x @ A).log().sum()\nloss.backward()", space)
    (finding,) = record.findings
    assert "128 of 128 values are infinite" in finding.message
    assert finding.message.endswith("and it spoils the gradient of A.")
    assert finding.parameters == ["A"]
    assert record.gradients[0].flags == ["nan"]
    assert record.gradients[0].nonfinite == 32


def test_the_first_in_backward(cell: Any, space: Space) -> None:
    record = cell(
        "A = core.zeros(16, 2, requires_grad=True)\nnorm = (x @ A).square().sum(1).sqrt()\nnorm.mean().backward()",
        space,
    )
    (finding,) = record.findings
    assert (finding.kind, finding.line) == ("nan", 2)
    assert finding.message.startswith("Line 2 makes the first infinity in backward: the gradient of `sqrt` in ")
    assert "though all forward values are finite, and it spoils the gradient of A." in finding.message


def test_the_run_in_which_it_came(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 2)\nfor i in range(20):\n    y = (x @ A).exp() / (15 - i)\n    y.sum().backward()", space)
    (finding,) = record.findings
    assert (finding.kind, finding.line) == ("nan", 3)
    assert "in run 16" in finding.message
    assert "division by 0" in finding.message or "of values of" in finding.message


@pytest.mark.parametrize(
    ("picked", "instead"),
    [
        ("p", "torch.log_softmax(z, 1)"),
        ("p[rows, labels]", "torch.log_softmax(z, 1)[rows, labels]"),
        ("p.gather(1, labels[:, None]) + 0.0", "torch.log_softmax(z, 1).gather(1, labels[:, None])"),
        ("torch.gather(p, 1, labels[:, None])", "torch.gather(torch.log_softmax(z, 1), 1, labels[:, None])"),
        ("q", "F.log_softmax of the logits, of which the same is picked as here,"),
    ],
)
def test_what_is_picked_of_a_softmax_is_picked_of_its_logarithm(
    cell: Any, space: Space, picked: str, instead: str
) -> None:
    text = (
        "rows = torch.arange(64)\nz = (x @ P(16, 4)) * 1e6\np = torch.softmax(z, 1)\nq = p[rows, labels]\n"
        f"(-torch.log({picked})).mean().backward()"
    )
    finding = next(f for f in cell(text, space).findings if f.kind == "nan")
    assert f"{instead} in place of `torch.log({picked})`" in finding.remedy


def test_names_that_are_gone_do_not_stop_the_search_for_bad_data(cell: Any, space: Space) -> None:
    space["x"]._a[3, 4] = float("nan")
    text = "for _ in range(2):\n    pass\ndel _\nA = P(16, 4)\nF.cross_entropy(x @ A, labels).backward()"
    (finding,) = cell(text, space).findings
    assert (finding.kind, finding.line) == ("nan", 5)


def test_bad_data_are_told_as_such(cell: Any, space: Space) -> None:
    space["x"]._a[3, 4] = float("nan")
    record = cell("A = P(16, 4)\nF.cross_entropy(x @ A, labels).backward()", space)
    (finding,) = record.findings
    assert (finding.kind, finding.line) == ("nan", 2)
    assert "reads data that are not finite in `x @ A`: 1 of the 1,024 values of x is NaN, in row 3" in finding.message


@pytest.mark.parametrize(
    "mask",
    [
        "core.where(keep, scores, core.full((64, 64), float('-inf')))",
        "scores + core.tensor(np.where(np.tri(64), 0, -np.inf).astype(np.float32))",
        "scores.masked_fill(~keep, float('-inf'))",
    ],
)
def test_the_infinities_of_an_attention_mask_are_healthy(cell: Any, space: Space, mask: str) -> None:
    record = cell("Q, K, V = P(16, 8), P(16, 8), P(16, 4)\nkeep = core.tensor(np.tri(64, dtype=bool))\n"
                  f"scores = (x @ Q) @ (x @ K).T / 8**0.5\nweights = F.softmax({mask}, dim=-1)\n"
                  "F.cross_entropy(weights @ (x @ V), labels).backward()", space)  # fmt: skip
    assert record.error is None
    assert record.findings == []


def test_infinities_that_where_keeps_out_are_healthy(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 4)\nh = core.relu(x @ A)\nlow = core.tensor(float('inf'))\n"
                  "low = core.minimum(low, h.min())\n(h + low.detach()).sum().backward()", space)  # fmt: skip
    assert record.findings == []


def test_a_mask_that_hides_a_whole_row(cell: Any, space: Space) -> None:
    record = cell(
        """
        s = P(2, 3)
        t = s.masked_fill(core.tensor([[True] * 3, [False] * 3]), -np.inf) / 2
        p = F.softmax(t, dim=-1)
        p.sum().backward()
        """,
        space,
    )
    (finding,) = record.findings
    assert (finding.kind, finding.severity, finding.line) == ("nan", "error", 3)
    assert finding.message.startswith(
        "Line 3 makes the first NaN: `F.softmax(t, dim=-1)` is a softmax over nothing but the -inf that `s.masked_fill("
    )
    assert "on line 2 put there (3 of 6 values are NaN)" in finding.message
    assert "keep at least one value" in finding.remedy


def test_infinities_filled_in_and_used(cell: Any, space: Space) -> None:
    record = cell("s = P(2, 3)\nt = s.masked_fill(s > 0, np.inf)\nt.sum().backward()", space)
    (finding,) = record.findings
    assert finding.message.startswith("Line 2 makes the first infinity: `s.masked_fill(s > 0, np.inf)` is filled with ")


def test_a_power_that_overflows(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 2, scale=1e25)\nloss = (x @ A).pow(2).mean()\nloss.backward()", space)
    (finding,) = record.findings
    assert "is a power of values as large as " in finding.message
    assert "which overflows" in finding.message
    assert finding.remedy.startswith("Lower the learning rate")


def test_an_infinity_behind_a_view_is_still_the_ops_own(cell: Any, space: Space) -> None:
    record = cell(
        "z = core.tensor([[1000.0, 0.0]], requires_grad=True)\nloss = -F.softmax(z, 1).log()[0, 1]\nloss.backward()",
        space,
    )
    (finding,) = record.findings
    assert finding.message.startswith("Line 2 makes the first infinity: `F.softmax(z, 1).log()` is the log of values ")


def test_a_mask_seen_through_a_view(cell: Any, space: Space) -> None:
    text = "s = P(2, 3)\nt = s.masked_fill(core.ones(2, 3, dtype=core.bool), -np.inf).view(1, 2, 3)\n"
    (finding,) = cell(text + "F.softmax(t, -1).sum().backward()", space).findings
    assert "is a softmax over nothing but the -inf that `s.masked_fill(" in finding.message


def test_an_overflow_names_the_dtype(cell: Any, space: Space) -> None:
    (finding,) = cell("a = core.tensor([300.0], dtype=core.float16, requires_grad=True)\nb = a * a", space).findings
    assert "is the mul of values of 300 and 300, which overflows float16 (1 of 1 value is infinite)." in finding.message
    assert finding.remedy.startswith("Use bfloat16 or float32")


def test_a_gradient_that_grows_until_it_overflows(cell: Any, space: Space) -> None:
    record = cell(
        "A, W = P(16, 16), P(16, 16, scale=1e20)\nh = (x @ A) * 1e-38\nh = h @ W\nh = h @ W\nh.sum().backward()", space
    )
    finding = next(f for f in record.findings if f.kind == "nan")
    assert finding.line == 3
    assert "in backward: the gradient of `matmul` in `h @ W`" in finding.message
    assert ", where its inputs are " in finding.message
    assert "start with smaller weights" in finding.remedy


@pytest.mark.filterwarnings("ignore:std")
def test_the_spread_of_a_batch_of_one(cell: Any, space: dict[str, Any]) -> None:
    text = "w = P(16, 4)\nh = x[:1] @ w\nloss = (h / h.std(0)).sum()\nloss.backward()"
    first = cell(text, space).findings[0]
    assert (first.kind, first.line) == ("nan", 3)
    assert "a batch of one sample" in first.message
    assert "drop_last" in first.remedy


HARMLESS = {
    "a table of distances": "d = core.cdist(x, x)\nd.fill_diagonal_(float('inf'))\nnear, at = d.min(1)\nprint(near)",
    "shortest ways": """
far = core.where(core.rand(9, 9) > 0.5, core.rand(9, 9), core.tensor(float("inf")))
for k in range(9):
    far = core.minimum(far, far[:, k : k + 1] + far[k : k + 1])
""",
    "a decoder's table": """
emit = nn.Linear(16, 4)
scores = emit(x[:6])
best = core.full((4,), float("-inf"))
best[0] = 0.0
for t in range(6):
    best = (best[:, None] + core.zeros(4, 4)).max(0).values + scores[t]
print(int(best.argmax()))
""",
    "a decoder beside a loss": """
emit = nn.Linear(16, 4)
scores = emit(x)
table = core.full((4, 4), float("-inf"))
table[0, 0] = scores[0, 0]
way = table + scores[1]
F.cross_entropy(scores, labels).backward()
""",
    "missing targets that where takes out": """
w = P(16, 1)
target = x[:, 0].clone()
target[::5] = float("nan")
known = ~core.isnan(target)
error = (x @ w).squeeze(1) - core.where(known, target, core.zeros(64))
(error.square() * known).mean().backward()
""",
    "missing inputs that nan_to_num takes out": """
data = x.clone()
data[3, 2] = float("nan")
clean = core.nan_to_num(data - core.nanmean(data, 0))
F.cross_entropy(clean @ P(16, 4), labels).backward()
""",
    "the least so far": "least = core.tensor(np.inf)\nfor row in x[:3]:\n    least = core.minimum(least, row.sum())",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_comes_to_no_loss_and_no_gradient_is_no_finding(cell: Any, space: Space, name: str) -> None:
    record = cell(HARMLESS[name], space)
    assert record.error is None
    assert [f.message for f in record.findings if f.kind == "nan"] == []


def test_nan_that_an_op_leaves_in_a_figure_is_a_note(cell: Any, space: Space) -> None:
    text = "F.cross_entropy(x @ P(16, 4), labels).backward()\nhits, n = core.zeros(5), core.zeros(5)\nn[:4] = 9\n"
    (finding,) = cell(text + "share = hits / n", space).findings
    assert (finding.kind, finding.severity, finding.line) == ("nan", "note", 4)
    assert "`hits / n` is a division by 0 (1 of 5 values is NaN)" in finding.message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        # the same written values, where they do reach the loss
        ("t = x[:, 0].clone()\nt[::5] = float('nan')\nw = P(16, 1)\n"
         "((x @ w).squeeze(1) - t).square().mean().backward()",
         2, "writes NaN into `t[::5]`"),
        ("t = x[:, 0].clone()\nt[::5] = float('nan')\nw = P(16, 1)\n"
         "(((x @ w).squeeze(1) - t) * core.isfinite(t)).square().sum().backward()", 2, "writes NaN into `t[::5]`"),
        ("d = core.cdist(x, x)\nd.fill_diagonal_(float('inf'))\n(d @ P(64, 1)).mean().backward()", 3,
         "is the mean of infinities that `d.fill_diagonal_(float('inf'))` on line 2 put there"),
    ],
)  # fmt: skip
def test_written_values_that_reach_the_loss_are_an_error(
    cell: Any, space: Space, text: str, line: int, words: str
) -> None:
    finding = next(f for f in cell(text, space).findings if f.kind == "nan")
    assert (finding.severity, finding.line) == ("error", line)
    assert words in finding.message


def test_a_harmless_infinity_does_not_hide_the_one_that_harms(cell: Any, space: Space) -> None:
    text = "d = core.cdist(x, x)\nd = d + core.full((64, 64), float('inf')).triu(63)\nnear = d.min(1).values\n"
    record = cell(text + "w = core.zeros(16, 2, requires_grad=True)\n(x @ w).log().sum().backward()", space)
    finding = next(f for f in record.findings if f.kind == "nan")
    assert (finding.severity, finding.line) == ("error", 5)


def test_what_a_model_gives_without_any_backward(cell: Any, space: Space) -> None:
    space["model"] = space["nn"].Linear(16, 4)
    (finding,) = cell("with core.no_grad():\n    p = model(x).clamp(max=0).log()\nprint(p)", space).findings
    assert (finding.kind, finding.severity, finding.line) == ("nan", "error", 2)


@pytest.mark.parametrize("between", ["", ".reshape(8, 8, 8)", ".T.T"])
@pytest.mark.parametrize("ending", ["core.exp", "core.sigmoid", "core.softmax"])
def test_infinities_that_end_well_are_not_the_first_of_a_cell_that_goes_wrong(
    cell: Any, space: Space, between: str, ending: str
) -> None:
    end = f"{ending}(low{', -1' if ending.endswith('softmax') else ''})"
    record = cell(f"""
    h = (x @ P(16, 8)).abs() + 0.1
    low = (h - (h * core.tensor([1.0] * 7 + [0.0])).log().abs()){between}
    a = {end}
    b = (-h.detach()).sqrt() * P(64, 8)
    (a.mean() + b.mean()).backward()
    """, space)  # fmt: skip
    finding = next(f for f in record.findings if f.kind == "nan")
    assert (finding.line, "sqrt" in finding.message) == (4, True), finding.message


def test_infinities_that_do_not_end_well_are_told_first(cell: Any, space: Space) -> None:
    text = "h = (x @ P(16, 8)).abs()\nlow = (h * 0).log().reshape(8, 8, 8)\na = low - low.mean()\na.sum().backward()"
    finding = next(f for f in cell(text, space).findings if f.kind == "nan")
    assert (finding.line, "log" in finding.message) == (2, True), finding.message
