"""Cuts in series: the one that costs the gradient is named, from the loss backwards, and harmless ones are not."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]

SHIFT = """
def softmax(z):
    z = z - z.max(1, keepdim=True).values.detach()
    e = z.exp()
    return e / e.sum(1, keepdim=True)
"""
ROUND = """
def rounded(z):
    return z + (z.round() - z).detach()
"""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        # the shift by the maximum passes gradients; what comes after it does not
        (SHIFT + "A, B = P(16, 4), P(1, 4)\np = softmax(x @ A)\nbest = p.argmax(1, keepdim=True).float()\n"
         "F.cross_entropy(best @ B, labels).backward()", 7, "`argmax` in `p.argmax(1, keepdim=True)` has no gradient"),
        (SHIFT + "A, B = P(16, 4), P(4, 4)\np = softmax(x @ A)\np = core.from_numpy(p.detach().numpy())\n"
         "F.cross_entropy(p @ B, labels).backward()", 7, "`p.detach().numpy()` hands the values of `p` to NumPy"),
        # so does a straight-through estimator
        (ROUND + "A, B = P(16, 4), P(4, 4)\nq = rounded(x @ A)\nF.cross_entropy(q.data @ B, labels).backward()", 5,
         "`q.data` takes the values of `q` off the graph"),
        (ROUND + "A, B = P(16, 4), P(4, 4)\noptimizer = core.optim.SGD([A, B])\nq = rounded(x @ A)\n"
         "with core.no_grad():\n    q = q * 2\n"
         "F.cross_entropy(q @ B, labels).backward()\noptimizer.step()", 7, "`q * 2` runs under no_grad"),
        # of two cuts side by side the one around which no gradient comes
        ("A, B = P(16, 4), P(4, 4)\nz = x @ A\nm = z.max().detach()\ns = (z - m).data\n"
         "(F.cross_entropy(s @ B, labels) + 0 * m).backward()", 4, "`(z - m).data`"),
    ],
)  # fmt: skip
def test_the_harmless_cut_is_not_blamed(cell: Any, space: Space, text: str, line: int, words: str) -> None:
    (finding,) = [f for f in cell(text, space).findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.severity, finding.line) == ("cut", "warning", line)
    assert words in finding.message
    assert finding.message.endswith("so A gets no gradient.")
    assert finding.parameters == ["A"]


def test_the_cut_at_the_loss_comes_first_and_the_other_is_behind_it(cell: Any, space: Space) -> None:
    record = cell("A, B, C = P(16, 8), P(8, 8), P(8, 4)\ng = (x @ A).tanh().detach()\nh = (g @ B).tanh()\n"
                  "F.cross_entropy(h.detach() @ C, labels).backward()", space)  # fmt: skip
    (finding,) = record.findings
    assert (finding.kind, finding.severity, finding.line) == ("cut", "warning", 4)
    assert finding.message == (
        "Line 4 cuts the graph: `h.detach()` takes `h` off the graph, so B gets no gradient, and behind it line 2 "
        "(`(x @ A).tanh().detach()`) cuts off A."
    )
    assert finding.remedy == "Leave out detach() and go on with the tensor. Then mend line 2 as well."
    assert finding.parameters == ["B", "A"]
    assert [op.line for op in record.ops if "cut" in op.flags] == [2, 4]


def test_three_in_a_row(cell: Any, space: Space) -> None:
    record = cell("A, B, C, D = P(16, 8), P(8, 8), P(8, 8), P(8, 4)\n"
                  "optimizer = core.optim.SGD([A, B, C, D], lr=0.1)\na = core.tensor((x @ A).tolist())\n"
                  "b = (a @ B).data\nc = (b @ C).tanh()\nwith core.no_grad():\n    c = c * 2\n"
                  "F.cross_entropy(c @ D, labels).backward()\noptimizer.step()", space)  # fmt: skip
    (finding,) = record.findings
    assert finding.line == 7
    assert finding.message == (
        "Line 7 cuts the graph: `c * 2` runs under no_grad, so C gets no gradient, and behind it line 4 "
        "(`(a @ B).data`) cuts off B and line 3 (`(x @ A).tolist()`) cuts off A."
    )


def test_two_cuts_with_nothing_of_its_own_between_them(cell: Any, space: Space) -> None:
    """What lies between the two has a gradient by another loss: both cost the first layer its own."""
    text = """
    A, B, C = P(16, 8), P(8, 8), P(8, 4)
    B2 = P(8, 1)
    optimizer = core.optim.SGD([A, C], lr=0.1)
    other = core.optim.SGD([B, B2], lr=0.1)
    h = (x @ A).tanh()
    (x[:, :8] @ B @ B2).mean().backward()
    other.step()
    F.cross_entropy((h.detach() @ B).detach() @ C, labels).backward()
    optimizer.step()
    """
    (finding,) = [f for f in cell(text, space).findings if f.severity != "note" or f.reads]
    assert finding.line == 8
    assert "so A gets no gradient, and behind it line 8 (`h.detach()`) cuts it off as well." in finding.message


def test_a_codebook_behind_a_straight_through_estimator(cell: Any, space: Space) -> None:
    text = """
    A, book, B = P(16, 4), P(8, 4), P(4, 16)
    z = x @ A
    q = book[core.cdist(z, book).argmin(1)]
    q = z + (q - z).detach()
    (F.mse_loss(q @ B, x) + F.mse_loss(z, q.detach())).backward()
    """
    (finding,) = cell(text, space).findings
    assert (finding.kind, finding.line, finding.parameters) == ("cut", 4, ["book"])
    assert finding.remedy.startswith("The detach is right where it passes the gradient by a step that has none.")
    assert "F.mse_loss(q, x.detach())" in finding.remedy


def test_backward_on_a_value_behind_two_cuts(cell: Any, space: Space) -> None:
    record = cell("A, B = P(16, 8), P(8, 4)\nh = (x @ A).detach()\nloss = F.cross_entropy(h @ B, labels)\n"
                  "core.tensor(loss.item()).backward()", space)  # fmt: skip
    finding = record.findings[0]
    assert (finding.kind, finding.severity, finding.line) == ("cut", "error", 4)
    assert finding.message.endswith(
        "so B gets no gradient, and behind it line 2 (`(x @ A).detach()`) cuts off A; backward() on line 4 has nothing "
        "to do."
    )


def test_gradients_that_were_chosen_are_all_that_is_wanted(cell: Any, space: Space) -> None:
    """torch.func and autograd.grad: nothing else was to get one, so a detach beside them costs nothing."""
    text = """
    from core.func import functional_call, grad
    model = nn.Linear(16, 4)
    params = {k: v.detach() for k, v in model.named_parameters()}
    g = grad(lambda p: F.cross_entropy(functional_call(model, p, (x,)), labels))(params)
    z = x.clone().requires_grad_()
    (d,) = core.autograd.grad((model(z) * model.weight.detach().mean()).sum(), z)
    """
    record = cell(text, space)
    assert record.error is None
    assert record.findings == []
