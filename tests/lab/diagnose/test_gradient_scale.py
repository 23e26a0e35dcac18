"""Vanishing and exploding gradients name the layers, the line and what can be seen of the cause."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lab.diagnose.training.gradient_scale import scale
from lab.recorder.cell_trace import Row, Trace
from widgets.record import Stats

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


# -- the edges of what is told: facts of a recorded program are set just below, at and just above each bound -----------

LAYERS = "{names} = {weights}\nh = x\nfor W in ({names}):\n    h = core.{op}(h @ W)\nh.square().mean().backward()"
NAMES = "ABCDEF"


def layers(traced: Any, space: Space, count: int = 3, op: str = "abs") -> Trace:
    """The trace of as many layers, whose gradients and weights have a size of 1."""
    names, weights = ", ".join(NAMES[:count]), ", ".join(["P(16, 16)"] * count)
    trace: Trace = traced(LAYERS.format(names=names, weights=weights, op=op), space)
    give(trace, [1.0] * count)
    for leaf in trace.gradients:
        trace.weights[leaf] = 1.0
    trace.first.clear()
    return trace


def give(trace: Trace, sizes: list[float], zeros: float = 0.0) -> None:
    """Set the sizes of the gradients of A, B, ..."""
    by_name = {leaf.name: gradient for leaf, gradient in trace.gradients.items()}
    for name, size in zip(NAMES, sizes, strict=False):
        by_name[name].rms = by_name[name].max_abs = size
        by_name[name].zeros = zeros


def told(trace: Trace) -> list[tuple[str, list[str]]]:
    return [(f.kind, [leaf.name for leaf in f.leaves]) for f in scale(trace, set())]


@pytest.mark.parametrize(("sizes", "kind", "named"), [
    ([1e-4, 1.0, 1.0], "", ""),
    ([0.9e-4, 1.0, 1.0], "vanishing", "A"),
    ([0.9e-4, 0.9e-4, 1.0], "vanishing", "AB"),
    ([0.9e-4, 1.0, 0.5e-5], "vanishing", "A"),  # behind the largest nothing is lost on the way
    ([1.0, 1.0, 0.9e-4], "exploding", "AB"),
    ([0.9e-4, 1.0], "", ""),  # two layers show no trend
    ([1.0, 0.9e-3], "", ""),
    ([1.0, 1.0, 1e-3], "", ""),
    ([1.0, 1.0, 0.9e-3], "exploding", "AB"),
    ([1e-3, 0.9e-6, 0.9e-6], "exploding", "A"),
    ([0.9e-3, 0.8e-6, 0.8e-6], "", ""),  # large beside almost nothing is still small
    ([1.0, 1.0, 0.0], "", ""),
])  # fmt: skip
def test_sizes_beside_each_other(traced: Any, space: Space, sizes: list[float], kind: str, named: str) -> None:
    trace = layers(traced, space, len(sizes))
    give(trace, sizes)
    assert told(trace) == ([(kind, list(named))] if kind else [])


# (the size of all gradients, that of the weights, by how much a step moved them) and whether that is too large
@pytest.mark.parametrize(("size", "weight", "moved", "found"), [
    (100.0, 1e-3, None, False),
    (101.0, 1e-3, None, True),
    (9_999.0, 1.0, None, False),
    (10_001.0, 1.0, None, True),
    (101.0, 1.0, 1.0, True),
    (1e9, 1.0, 0.99, False),  # an optimizer has made something bearable of it
    (99.0, 1.0, 1.0, False),
])  # fmt: skip
def test_a_gradient_that_is_huge_by_itself(
    traced: Any, space: Space, size: float, weight: float, moved: float | None, found: bool
) -> None:
    trace = layers(traced, space, 2)
    give(trace, [size, size])
    for leaf in trace.gradients:
        trace.weights[leaf] = weight
        if moved is not None:
            trace.updates[leaf] = moved
    assert told(trace) == ([("exploding", ["A", "B"])] if found else [])
    leaf = next(iter(trace.gradients))
    assert [f.leaves for f in scale(trace, {leaf})] == (
        [[b for b in trace.gradients if b is not leaf]] if found else []
    )


def test_rows_without_a_gradient_do_not_lower_a_size(traced: Any, space: Space) -> None:
    trace = layers(traced, space)
    give(trace, [0.5e-4, 1.0, 1.0])
    assert told(trace)
    give(trace, [0.5e-4], zeros=0.96)  # a fifth of the root of the squares that are left
    assert not told(trace)
    give(trace, [0.5e-4], zeros=0.5)
    assert told(trace)


def values(trace: Trace, op: str, slopes: list[float]) -> list[Row]:
    """Give the activations in their order outputs of a mean slope."""
    rows = [row for row in trace.rows if row.op == op and row.phase == "forward"]
    for row, slope in zip(rows, slopes, strict=True):
        assert row.stats is not None
        if op == "relu":
            row.stats.zeros = 1 - slope
        else:
            row.stats.mean = math.sqrt(1 - slope) if op == "tanh" else 0.5 + math.sqrt(0.25 - slope)
            row.stats.std = 0.0
    return rows


@pytest.mark.parametrize(("op", "slopes", "found"), [
    ("tanh", [0.119, 0.119, 0.5], True),
    ("tanh", [0.121, 0.121, 0.5], False),
    ("tanh", [0.119, 0.5, 0.5], False),  # one of three
    ("tanh", [0.119, 0.5], False),  # one of two has to be flatter
    ("tanh", [0.061, 0.5], False),
    ("tanh", [0.059, 0.5], True),
    ("sigmoid", [0.029, 0.029, 0.2], True),
    ("sigmoid", [0.031, 0.031, 0.2], False),
])  # fmt: skip
def test_activations_that_are_flat(traced: Any, space: Space, op: str, slopes: list[float], found: bool) -> None:
    trace = layers(traced, space, len(slopes), op)
    values(trace, op, slopes)
    assert [f.message.partition(", nearly")[0] for f in scale(trace, set())] == (
        [f"Line 4 lets gradients vanish: `{op}` is saturated"] if found else []
    )


@pytest.mark.parametrize(("op", "slopes", "words"), [
    ("tanh", [0.19, 0.15, 0.5], "`tanh` is saturated (its mean slope is 0.17), so A hardly learns"),
    ("tanh", [0.21, 0.3, 0.5], "each layer passes on about 0.0071 of them, with weights of 1 rms, so A"),
    ("sigmoid", [0.24, 0.22, 0.2], "each `sigmoid` on the way passes on 0.23 of them on average, so A"),
    ("relu", [0.04, 0.5, 0.5], "`relu` gives 96 % zeros and passes nothing there, so A"),
    ("relu", [0.06, 0.5, 0.5], "each layer passes on about 0.0071 of them, with weights of 1 rms, so A"),
])  # fmt: skip
def test_why_gradients_vanish(traced: Any, space: Space, op: str, slopes: list[float], words: str) -> None:
    trace = layers(traced, space, 3, op)
    values(trace, op, slopes)
    give(trace, [0.5e-4, 0.9, 1.0])
    (finding,) = scale(trace, set())
    assert words in finding.message
    assert finding.message.endswith("(A gets 5e-05 rms, 1/20,000 of the 1 of C).")


@pytest.mark.parametrize(("last", "size", "kind"), [
    (0.9e-4, 0.9e-4, "lets the signal and its gradients vanish: the output of `relu` falls from 1 rms"),
    (1.1e-4, 0.9e-4, ""),
    (0.9e-4, 1.1e-4, ""),
])  # fmt: skip
def test_a_signal_that_fades(traced: Any, space: Space, last: float, size: float, kind: str) -> None:
    trace = layers(traced, space, 3, "relu")
    rows = [row for row in trace.rows if row.op == "relu" and row.phase == "forward"]
    for row, mean in zip(rows, [1.0, 0.5, last], strict=True):
        assert row.stats is not None
        row.stats.mean, row.stats.std, row.stats.zeros = mean, 0.0, 0.5
    give(trace, [size] * 3)
    found = scale(trace, set())
    assert [kind in f.message for f in found] == ([True] if kind else [])


def test_how_fast_the_signal_fades_on_the_way(traced: Any, space: Space) -> None:
    """Where a signal is a twentieth of what it was, gradients vanish by that."""
    trace = layers(traced, space, 3, "relu")
    rows = [row for row in trace.rows if row.op == "relu" and row.phase == "forward"]
    give(trace, [0.5e-4, 0.9, 1.0])
    for last, fades in ((0.049, True), (0.051, False)):
        for row, mean in zip(rows, [1.0, last, last], strict=True):
            row.stats = Stats(mean=mean, std=0.0, zeros=0.5)
        (finding,) = scale(trace, set())
        assert (f"the signal itself fades on the way, from 1 to {last}" in finding.message) == fades


def test_gradients_that_are_small_at_the_end_are_judged_by_the_first_step(traced: Any, space: Space) -> None:
    trace = layers(traced, space)
    leaves = sorted(trace.gradients, key=lambda leaf: leaf.name)
    give(trace, [1e-6, 1e-6, 1e-6])
    for first, found in (([0.9e-4, 1.0, 1.0], True), ([1.1e-4, 1.0, 1.0], False), ([0.0, 1.0, 1.0], False)):
        for leaf, size in zip(leaves, first, strict=True):
            trace.first[leaf] = (1.0, size)
        assert told(trace) == ([("vanishing", ["A"])] if found else [])


def test_zeros_after_one_step_may_be_meant(traced: Any, space: Space) -> None:
    """A last layer that starts at zero gives those before it gradients of exactly 0, at the first step alone."""
    trace = layers(traced, space)
    give(trace, [0.0, 1.0, 1.0])
    assert not told(trace)
    for gradient in trace.gradients.values():
        gradient.count = 2
    assert told(trace) == [("vanishing", ["A"])]


def test_gradients_of_another_optimizer_are_no_measure(traced: Any, space: Space) -> None:
    """A generator's are small beside its critic's: each has a loss of its own."""
    trace = layers(traced, space, 6)
    give(trace, [1e-6, 1e-6, 1e-6, 1.0, 1.0, 1.0])
    assert told(trace) == [("vanishing", ["A", "B", "C"])]
    for leaf in trace.gradients:
        trace.steps.stepped[leaf] = ((None, int(leaf.name in "DEF")),)
    assert not told(trace)
    give(trace, [1e-6, 1e-1, 1e-1, 1.0, 1.0, 1.0])
    assert told(trace) == [("vanishing", ["A"])]


def test_queries_and_keys_only_weigh(traced: Any, space: Space) -> None:
    trace = traced(
        "A, B, C, D = P(16, 16), P(16, 16), P(16, 16), P(16, 16)\n"
        "value = x @ A\n"
        "out = F.softmax((x @ B) @ (x @ C).T, -1) @ value @ D\n"
        "out.square().mean().backward()",
        space,
    )
    trace.first.clear()
    give(trace, [1.0, 1e-6, 1e-6, 1.0])
    assert not told(trace)
    give(trace, [1e-6, 1.0, 1.0, 1.0])
    assert told(trace) == [("vanishing", ["A"])]


HALF_READ = """
net, head = nn.GRU(16, 8, 2, bidirectional=True), nn.Linear(8, 4)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    hidden = net(x.reshape(4, 16, 16))[1]
    loss = F.cross_entropy(head(hidden[-1]), labels[:16])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
SCALED = """
a, b, c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
opt = torch.optim.{}([*a.parameters(), *b.parameters(), *c.parameters()], lr=1e-2)
for step in range(8):
    loss = F.cross_entropy(c(1e-6 * b(F.relu(a(x))) + 0.1 * x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_what_no_loss_asks_for_does_not_vanish(cell: Any, space: Space) -> None:
    """Of the last layer of a recurrent network the state of one direction alone is read."""
    assert "vanishing" not in {f.kind for f in cell(HALF_READ, space).findings}


@pytest.mark.parametrize(("optimizer", "told"), [("SGD", True), ("Adam", False)])
def test_a_step_by_no_gradients_size_learns_all_the_same(cell: Any, space: Space, optimizer: str, told: bool) -> None:
    record = cell(SCALED.format(optimizer), space)
    assert ("vanishing" in {f.kind for f in record.findings}) == told
