"""The grouping: every op drawn once, modules nested, structures laid out once, hubs and parameters as chips."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.graph import DRAW_LIMIT, FOLD_LIMIT, HUB_FAN_OUT, OPEN_LIMIT, build
from widgets.record import GradientRow, OpRow, Record, Stats, TensorRow

from . import samples


def labels(view):
    return [item.label for item in view.items]


def check(record, graph):
    """What holds for the graph of any record."""
    drawn = [item.index for view in graph.views for item in view.items if item.kind == "op"]
    assert sorted(drawn) == list(range(len(record.ops)))
    for index, (view, item) in enumerate(graph.home):
        assert graph.views[view].items[item].index == index
    for number, view in enumerate(graph.views):
        assert len(view.items) <= DRAW_LIMIT
        layout = graph.layouts[view.layout]
        assert len(layout.boxes) == len(view.items)
        assert len(layout.routes) == len(view.edges)
        for u, v in view.edges:
            assert layout.ranks[u] < layout.ranks[v]
        for k, item in enumerate(view.items):
            if item.kind == "group":
                assert graph.views[item.index].parent == (number, k)
                assert sorted(item.ops) == sorted(i for i in range(len(record.ops)) if held(graph, i, item.index))


def held(graph, op, view):
    at = graph.home[op][0]
    while at != view and graph.views[at].parent:
        at = graph.views[at].parent[0]
    return at == view


@pytest.mark.parametrize("name", list(samples.ALL))
def test_every_op_is_drawn_once(name):
    record = samples.ALL[name]()
    check(record, build(record))


@st.composite
def records(draw):
    ops = []
    for i in range(draw(st.integers(0, 70))):
        module = draw(st.sampled_from(["", "a", "a.b", "a.b.c", "d", "d.0", "d.1"]))
        inputs = draw(
            st.lists(st.sampled_from([f"o{j}" for j in range(max(0, i - 9), i)] + ["t0", "t1", "t2"]), max_size=3)
        )
        ops.append(OpRow(i, "op", module=module, inputs=inputs, line=draw(st.integers(1, 4))))
    return Record(ops=ops, tensors=[TensorRow(0, "x", "input"), TensorRow(1, "w", "parameter"), TensorRow(2, "c")])


@given(records())
@settings(deadline=None, max_examples=60)
def test_any_record_is_drawn_without_a_cycle(record):
    check(record, build(record))


def first(graph):
    return graph.views[graph.start]


def crumbs(graph, number):
    """The labels from the cell down to a view."""
    found = []
    while graph.views[number].parent:
        found.insert(0, graph.views[number].label)
        number = graph.views[number].parent[0]
    return found


def test_a_small_model_is_seen_at_once_inside_its_loops():
    graph = build(samples.mlp())
    assert crumbs(graph, graph.start) == ["for epoch in range(10) ×10", "for images, labels in loader ×3"]
    assert labels(graph.views[0]) == ["images", "labels", "for epoch in range(10) ×10", "item"]
    assert graph.views[0].items[2].place == "line 1"
    assert len(first(graph).items) == 17  # fifteen ops, two inputs
    assert first(graph).items[2].chips[0].label == "weight"
    assert "linear ×30" in labels(first(graph))


def test_a_large_model_opens_down_to_its_blocks_and_lays_each_kind_out_once():
    record = samples.gpt()
    graph = build(record)
    assert len(first(graph).items) <= OPEN_LIMIT
    assert [label for label in labels(first(graph)) if label.startswith("model.blocks")] == [
        f"model.blocks.{k}" for k in range(12)
    ]
    block = next(view for view in graph.views if view.label == "model.blocks.3")
    assert "attention" in labels(block)
    assert len(graph.views) == 2 + 2 * 12 + 12  # the cell, its loop; a block, its attention, its folded heads
    assert len(graph.layouts) <= 7


def test_counts_and_times_of_a_group_are_those_of_its_ops():
    record = samples.gpt()
    group = next(item for item in first(build(record)).items if item.kind == "group")
    assert group.detail == f"{len(group.ops)} ops"
    assert group.forward_ms == pytest.approx(sum(record.ops[i].forward_ms for i in group.ops))


def test_a_module_called_twice_is_two_boxes():
    ops = [
        OpRow(i, "op", module=m, inputs=[f"o{i - 1}"] if i else [])
        for i, m in enumerate(["m.0", "m.1", "", "m.0", "m.1"])
    ]
    record = Record(ops=ops + [OpRow(5 + i, "tail", inputs=[f"o{4 + i}"]) for i in range(OPEN_LIMIT - 2)])
    graph = build(record)
    assert labels(graph.views[0])[:3] == ["m", "op", "m"]


def test_many_boxes_are_folded_and_the_card_says_so():
    graph = build(samples.flat(1000))
    assert crumbs(graph, graph.start) == ["for step in range(n)"]
    assert len(first(graph).items) <= DRAW_LIMIT
    assert first(graph).note.startswith("1,000 boxes folded into runs of 32")
    ops = [OpRow(i, "op", line=1 + i // 100, inputs=[f"o{i - 1}"] if i else []) for i in range(500)]
    graph = build(Record(ops=ops))
    assert labels(graph.views[0]) == [f"line {k}" for k in range(1, 6)]
    assert graph.views[0].note == "500 boxes folded into runs of the same source line"


@pytest.mark.parametrize("count", [FOLD_LIMIT + 1, 10_000, 30_000])
def test_a_flat_cell_never_draws_more_than_can_be_seen(count):
    ops = [OpRow(i, "op", line=i + 1, inputs=[f"o{j}" for j in (i - 1, i - 200) if j >= 0]) for i in range(count)]
    graph = build(Record(ops=ops))
    assert max(len(view.items) for view in graph.views) <= DRAW_LIMIT
    assert {graph.views[view].items[item].index for view, item in graph.home} == set(range(count))


def test_a_hub_is_a_chip_on_its_readers():
    readers = HUB_FAN_OUT + 1
    ops = [OpRow(0, "mask")] + [OpRow(1 + i, "where", inputs=["o0", "t0"]) for i in range(readers)]
    record = Record(ops=ops, tensors=[TensorRow(0, "x", "input", [4])])
    graph = build(record)
    assert not graph.views[0].edges
    assert [chip.label for chip in graph.views[0].items[1].chips] == ["from mask", "x"]
    record.ops.pop()
    graph = build(record)
    assert len(graph.views[0].edges) == 2 * (readers - 1)
    assert graph.views[0].items[0].kind == "leaf"


def test_a_parameter_without_gradient_says_so_on_its_reader():
    record = Record(
        ops=[OpRow(0, "linear", inputs=["t0", "t1"])],
        tensors=[TensorRow(0, "m.weight", "parameter"), TensorRow(1, "m.bias", "parameter")],
        gradients=[GradientRow("m.weight", flags=["none"]), GradientRow("m.bias", norm=1.0)],
    )
    chips = build(record).views[0].items[0].chips
    assert [(chip.label, chip.no_gradient) for chip in chips] == [("weight: no gradient", True), ("bias", False)]


def test_what_a_group_reads_from_outside_is_a_port():
    graph = build(samples.gpt())
    second = next(view for view in graph.views if view.label == "model.blocks.1")
    assert (second.items[0].kind, second.items[0].label) == ("port", "from model.blocks.0.add")


def test_a_cycle_and_a_deep_module_path_do_no_harm():
    ops = [OpRow(0, "a", inputs=["o1", "o0"]), OpRow(1, "b", inputs=["o0"], module=".".join("x" * 5000))]
    graph = build(Record(ops=ops))
    assert set(graph.views[0].edges) == {(0, 1), (1, 0)}


@pytest.mark.parametrize("distinct", [True, False], ids=["lines", "loops"])
def test_a_card_of_ten_thousand_ops_is_made_quickly_and_is_small(distinct):
    import time

    import widgets

    source = "\n".join(f"x{k} = x{k - 1}.tanh()" for k in range(1, 10_001)) if distinct else (
        "for i in range(20):\n    for j in range(500):\n        x = x.tanh()"
    )  # fmt: skip
    ops = [
        OpRow(
            k, "tanh", 1, k + 1 if distinct else 3, 5, k + 1 if distinct else 3, 14, code="x.tanh()", kernel="tanh_f32",
            backend="C", shape=[8, 8], dtype="float32", inputs=[f"o{k - 1}"] if k else [], forward_ms=1e-3 + 1e-7 * k,
            size_bytes=256, stats=Stats(-1.0, 1.0, 0.1 * k, 0.5), site=0 if distinct else 1,
        )
        for k in range(10_000)
    ]  # fmt: skip
    record = Record(source=source, ops=ops, forward_ms=10.0)
    widgets.html(samples.cut())  # what is imported once is not the card's time
    spent = []
    for _ in range(3):
        start = time.process_time()
        card = widgets.html(record)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.6  # measured 0.2 s; the promise is 0.3 s, and a busy machine may take twice as long
    assert len(card.encode()) < 1_000_000
    assert max(len(view.items) for view in build(record).views) <= DRAW_LIMIT
