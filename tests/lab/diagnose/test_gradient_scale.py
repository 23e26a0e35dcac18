"""Vanishing and exploding gradients name the layers, the line and what can be seen of the cause."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]

DEEP = """
Ws = [P(16, 16, scale={scale}) for _ in range({depth})]
bs = [P(16, scale={bias}) for _ in range({depth})]
h = x
for W, b in zip(Ws, bs):
    h = core.{activation}(h @ W + b)
h.square().mean().backward()
"""


def deep(activation: str = "tanh", scale: float = 1.0, depth: int = 20, bias: float = 0.0) -> str:
    return DEEP.format(activation=activation, scale=scale, depth=depth, bias=bias)


def test_a_deep_tanh_network_with_small_weights(cell: Any, space: Space) -> None:
    (finding,) = cell(deep(scale=0.5, bias=2.0), space).findings
    assert (finding.kind, finding.severity) == ("vanishing", "warning")
    assert finding.message.startswith("Line 5 lets gradients vanish: ")
    assert finding.parameters[0] == "Ws[0]"
    assert "Ws[19]" not in finding.parameters
    assert finding.parameters == [f"Ws[{k}]" for k in range(len(finding.parameters))]
    assert f"so Ws[0] to Ws[{len(finding.parameters) - 1}]" in finding.message


def test_saturated_tanh_is_named(cell: Any, space: Space) -> None:
    (finding,) = cell(deep(scale=1.0, bias=12.0, depth=12), space).findings
    assert finding.kind == "vanishing"
    assert "Line 5 lets gradients vanish: `tanh` is saturated (its mean slope is 0." in finding.message
    assert "LayerNorm" in finding.remedy


def test_sigmoids_are_named(cell: Any, space: Space) -> None:
    (finding,) = cell(deep("sigmoid", depth=10), space).findings
    assert finding.kind == "vanishing"
    assert "each `sigmoid` on the way passes on 0.2" in finding.message


def test_a_signal_that_fades_with_its_gradients(cell: Any, space: Space) -> None:
    (finding,) = cell(deep(scale=0.2, depth=12), space).findings
    assert finding.kind == "vanishing"
    assert "lets the signal and its gradients vanish" in finding.message
    assert "Ws[0] to Ws[11] (12 layers)" in finding.message


def test_layers_of_modules_are_named(cell: Any, space: Space) -> None:
    record = cell("layers = [m for _ in range(24) for m in (nn.Linear(16, 16), nn.Tanh())]\n"
                  "model = nn.Sequential(*layers)\n"
                  "loss = model(x).square().mean()\nloss.backward()", space)  # fmt: skip
    (finding,) = record.findings
    assert (finding.kind, finding.line) == ("vanishing", 3)
    assert "model.0.weight to model." in finding.message
    flags = {g.name: g.flags for g in record.gradients}
    assert flags["model.0.weight"] == ["vanishing"]
    assert flags["model.46.weight"] == []


def test_exploding_gradients(cell: Any, space: Space) -> None:
    (finding,) = cell(deep("relu", scale=4.0, depth=12), space).findings
    assert (finding.kind, finding.line) == ("exploding", 5)
    assert "lets gradients explode" in finding.message
    assert "Ws[0] to Ws[11] (12 layers)" in finding.message


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("depth", [3, 12])
def test_start_values_that_keep_size_are_healthy(cell: Any, space: Space, activation: str, depth: int) -> None:
    assert cell(deep(activation, scale=1.6 if activation == "tanh" else 1.41, depth=depth), space).findings == []


def test_a_last_layer_that_starts_at_zero_is_healthy(cell: Any, space: Space) -> None:
    source = deep(depth=4, scale=1.5).replace("h.square().mean()", "F.cross_entropy(h @ last, labels)")
    assert cell("last = core.zeros(16, 4, requires_grad=True)\n" + source, space).findings == []


def test_rows_of_an_embedding_that_no_batch_touched_do_not_count(cell: Any, space: Space) -> None:
    record = cell("table, A, B = nn.Embedding(20000, 16), P(16, 16), P(16, 4)\nh = core.tanh(table(labels) @ A)\n"
                  "F.cross_entropy(h @ B, labels).backward()", space)  # fmt: skip
    assert record.findings == []


def test_a_dead_relu_in_a_small_network(cell: Any, space: Space) -> None:
    (finding,) = cell("A, B, b = P(16, 8), P(8, 2), core.zeros(2, requires_grad=True)\nh = core.relu(x @ A - 100)\n"
                      "loss = (h @ B + b - 1).square().mean()\nloss.backward()", space).findings  # fmt: skip
    assert (finding.kind, finding.line, finding.parameters) == ("vanishing", 2, ["A", "B"])
    assert (
        "`relu` gives nothing but zeros and passes nothing on, so A and B get gradients of exactly 0."
        in finding.message
    )


def test_a_huge_gradient_that_is_clipped_is_no_finding(cell: Any, space: Space) -> None:
    text = ("model = nn.Linear(16, 1)\nopt = core.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(3):\n"
            "    loss = (model(x) * 100).square().mean()\n    opt.zero_grad()\n    loss.backward()\n"
            "    nn.utils.clip_grad_norm_(model.parameters(), {limit})\n    opt.step()")  # fmt: skip
    assert not cell(text.format(limit=0.5), space).findings
    (finding,) = cell(text.format(limit=1e9), dict(space)).findings
    assert finding.kind == "learning-rate"
    assert "affected" not in finding.message


def test_a_step_function_passes_nothing(cell: Any, space: Space) -> None:
    (finding,) = cell("A = P(16, 8)\nloss = (x @ A).round().square().mean()\nloss.backward()", space).findings
    assert (finding.kind, finding.line) == ("vanishing", 2)
    assert "`round` has a slope of 0 everywhere, so A gets a gradient of exactly 0." in finding.message
    assert "straight-through" in finding.remedy


def test_one_layer_that_starts_with_one_value(cell: Any, space: Space) -> None:
    text = """
net = nn.Linear(16, 8, bias=False)
nn.init.constant_(net.weight, {value})
(net(x){more}).square().mean().backward()
"""
    (finding,) = cell(text.format(value=0.1, more=""), space).findings
    assert "net.weight (line 3) has the same values in every row" in finding.message
    (finding,) = cell(text.format(value=0.0, more=" - 1"), space).findings
    assert "net.weight (line 3) is all 0" in finding.message
