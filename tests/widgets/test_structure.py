"""Loops, iterations and branches: found in the source, told apart by the places of the ops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.graph import DRAW_LIMIT, build
from widgets.grouping import tree
from widgets.record import ErrorRow, OpRow, Record, Run
from widgets.structure import Structure, blocks, taken


class Cell:
    """A record whose ops name the piece of source that called them."""

    def __init__(self, source):
        self.record = Record(source=source, forward_ms=10.0)
        self.sites = {}

    def op(self, code, *, line=None, name="op", count=1, reads=None, module="", within=(), ms=0.1, called=0):
        """An op whose place is `code`; `within` are the pieces that led to it, outermost first."""
        rows = self.record.ops
        places = [self.place(piece) for piece in (*within, code)]
        own = places[-1]
        site = self.sites.setdefault((name, module, *map(tuple, places)), len(self.sites) + 1)
        calls = [[*place, 0, called] for place in places] if within or called else []
        inputs = [f"o{len(rows) - 1}"] if reads is None and rows else reads or []
        rows.append(
            OpRow(
                len(rows), name, count, *own, code=code, module=module, inputs=inputs, forward_ms=ms * count,
                calls=calls, site=site,
            )
        )  # fmt: skip
        return self

    def place(self, code):
        line = next(k for k, text in enumerate(self.record.source.splitlines(), 1) if code in text)
        start = self.record.source.splitlines()[line - 1].index(code)
        return [line, start, line, start + len(code)]

    def labels(self):
        return outline(tree(self.record, Structure(self.record)))


def outline(group):
    """A tree as nested lists: [label, what is inside]."""
    return [
        child if isinstance(child, int) else [child.within + child.fold or child.path, *outline(child)]
        for child in group.children
    ]


def test_a_folded_loop_is_a_group_and_says_how_often():
    cell = Cell("for x, y in loader:\n    h = x @ w\n    z = h.tanh()\nq = z.sum()")
    cell.op("x @ w", count=12).op("h.tanh()", count=12).op("z.sum()")
    assert cell.labels() == [["for x, y in loader ×12", 0, 1], 2]


def test_nested_loops_say_each_how_often_in_one_time_round_the_other():
    cell = Cell("for epoch in range(4):\n    for x in data:\n        h = x.exp()\n    s = h.log()")
    cell.op("x.exp()", count=12).op("h.log()", count=4)
    assert cell.labels() == [["for epoch in range(4) ×4", ["for x in data ×3", 0], 1]]
    cell.record.ops[0].count = 13
    assert cell.labels()[0][1][0] == "for x in data ×13 in all"


def test_a_range_counts_where_no_op_does():
    cell = Cell("for epoch in range(4):\n    for x in data:\n        h = x.exp()\n        h = h.log()")
    cell.op("x.exp()", count=12).op("h.log()", count=12)
    assert cell.labels() == [["for epoch in range(4) ×4", ["for x in data ×3", 0, 1]]]
    cell.record.error = ErrorRow("ValueError")  # it may have stopped before
    assert cell.labels() == [["for epoch in range(4)", ["for x in data ×12 in all", 0, 1]]]


def test_a_loop_that_feeds_its_own_output_has_its_iterations_as_groups():
    cell = Cell("for t in range(3):\n    a = h @ w\n    h = a.tanh()\nq = h.sum()")
    for _ in range(3):
        cell.op("h @ w").op("a.tanh()")
    cell.op("h.sum()")
    assert cell.labels() == [
        ["for t in range(3) ×3", ["iteration 1", 0, 1], ["iteration 2", 2, 3], ["iteration 3", 4, 5]],
        6,
    ]


def test_what_all_iterations_share_stands_before_them():
    cell = Cell("for t in range(3):\n    u = x @ v\n    a = h @ w\n    h = a + u")
    cell.op("x @ v", count=3).op("h @ w").op("a + u")
    for _ in range(2):
        cell.op("h @ w").op("a + u")
    assert cell.labels()[0][:3] == ["for t in range(3) ×3", 0, ["iteration 1", 1, 2]]


def test_one_op_again_and_again_is_told_apart_by_its_place():
    cell = Cell("for k in range(2):\n    for j in range(3):\n        x = x @ w")
    for _ in range(6):
        cell.op("x @ w")
    inner = "for j in range(3) ×3"
    assert cell.labels() == [
        ["for k in range(2) ×2", ["iteration 1: " + inner, 0, 1, 2], ["iteration 2: " + inner, 3, 4, 5]]
    ]


@pytest.mark.parametrize("head", ["loader", "enumerate(loader)"])
def test_what_a_loop_gets_its_items_by_is_in_it(head):
    cell = Cell(f"for epoch in range(3):\n    for x, y in {head}:\n        z = f(x)\n        z = g(z)")
    cell.op(head, name="index", count=12).op(head, name="index", count=24).op("f(x)", count=12).op("g(z)", count=12)
    cell.record.ops[1].site = 99  # another tensor of the batch, taken twice
    inside = [["for epoch in range(3) ×3", [f"for x, y in {head} ×4", 0, 1, 2, 3]]]
    assert cell.labels() == inside
    for op in cell.record.ops[:2]:  # as Python 3.11 tells the place: the whole statement
        op.line, op.col, op.end_line, op.end_col = 2, 4, 4, 16
    assert cell.labels() == inside


def test_an_op_in_a_loops_head_runs_before_it():
    cell = Cell("for row in x.unbind(0):\n    y = row.exp()\n    y = y.log()")
    cell.op("x.unbind(0)").op("row.exp()", count=4).op("y.log()", count=4)
    assert cell.labels() == [0, ["for row in x.unbind(0) ×4", 1, 2]]


def test_items_that_come_by_an_op_begin_an_iteration():
    cell = Cell("for row in x:\n    a = h + row\n    h = a.tanh()")
    for _ in range(3):
        cell.op("x", line=1, name="select").op("h + row").op("a.tanh()")
        cell.record.ops[-3].line, cell.record.ops[-3].end_line = 1, 3
        cell.record.ops[-3].col, cell.record.ops[-3].end_col = 0, 16
    assert [child[1:] for child in cell.labels()[0][1:]] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_loop_over_layers_is_its_layers():
    cell = Cell("for layer in layers:\n    x = layer(x)")
    for k in range(3):
        for name in ("linear", "relu"):
            cell.op("layer(x)", name=name, module=f"layers.{k}", called=2)
    assert cell.labels() == [["for layer in layers ×3"] + [[f"layers.{k}", 2 * k, 2 * k + 1] for k in range(3)]]


def test_one_layer_called_again_and_again_is_iterations():
    cell = Cell("for t in range(3):\n    x = layer(x)")
    for _ in range(3):
        for name in ("linear", "relu"):
            cell.op("layer(x)", name=name, module="layer", called=1)
    assert [child[0] for child in cell.labels()[0][1:]] == ["iteration 1", "iteration 2", "iteration 3"]


def test_a_function_is_not_in_the_loop_around_its_definition():
    source = "for k in range(2):\n    def f(x):\n        return x.exp()\ny = f(x)"
    cell = Cell(source)
    cell.op("x.exp()", within=["f(x)\n"[:-1]])
    cell.record.ops[0].calls[0][:4] = [4, 4, 4, 8]
    assert cell.labels() == [0]


def test_a_function_called_in_a_loop_is_in_it():
    cell = Cell("def f(x):\n    return x.exp().log()\nfor k in data:\n    y = f(k)")
    cell.op("x.exp()", within=["f(k)"], count=5).op("x.exp().log()", within=["f(k)"], count=5)
    assert cell.labels() == [["for k in data ×5", 0, 1]]


def test_a_loop_inside_a_module_stands_inside_it():
    source = "def forward(self, x):\n    for h in heads:\n        x = x.exp()\n        x = x.log()\nmodel(x)"
    cell = Cell(source)
    for code in ("x.exp()", "x.log()"):
        cell.op(code, within=["model(x)"], module="model", count=4)
        cell.record.ops[-1].calls = [[5, 0, 5, 8, 0, 1], [*cell.place(code), 1, 0]]
    assert cell.labels() == [["model", ["for h in heads ×4", 0, 1]]]


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("ys = [f(x) for x in xs]", "for x in xs ×4"),
        ("ys = {k: f(x) for k, x in xs.items()}", "for k, x in xs.items() ×4"),
        ("while err > 1:\n    err = f(x)", "while err > 1 ×4"),
        ("async for x in xs:\n    y = f(x)", "for x in xs ×4"),
    ],
)
def test_other_loops(source, label):
    cell = Cell(source)
    cell.op("f(x)", name="exp", count=4).op("f(x)", name="log", count=4)
    assert cell.labels() == [[label, 0, 1]]


def test_a_magic_is_no_python_and_does_no_harm():
    cell = Cell("%%autograd --stats\n%time y = 1\nfor x in xs:\n    !ls\n    y = f(x)")
    cell.op("f(x)", name="exp", count=4).op("f(x)", name="log", count=4)
    assert cell.labels() == [["for x in xs ×4", 0, 1]]
    assert blocks("for x in") == []


def test_a_slow_iteration_is_named():
    cell = Cell("for t in range(5):\n    a = h @ w\n    h = a.tanh()")
    for k in range(5):
        cell.op("h @ w", ms=4.0 if k == 3 else 0.1).op("a.tanh()")
    (loop,) = tree(cell.record, Structure(cell.record)).children
    assert loop.mark == "slowest: iteration 4, 4.10 ms, mean 980 µs"
    assert [child.mark for child in loop.children] == ["", "", "", "slowest: 4.10 ms, mean 980 µs", ""]
    assert build(cell.record).views[1].note == loop.mark
    item = build(cell.record).views[0].items[-1]
    assert [(chip.label, chip.outlier) for chip in item.chips if chip.outlier] == [(loop.mark, True)]


def test_a_slow_iteration_of_a_folded_loop_is_found_in_the_timeline():
    cell = Cell("for x in data:\n    h = x.exp()\n    y = h.log()")
    cell.op("x.exp()", count=6).op("h.log()", count=6)
    for k in range(6):
        ms = 9.0 if k == 1 else 0.5
        cell.record.runs += [Run(0, 20.0 * k, ms), Run(1, 20.0 * k + 10, 0.1), Run(1, 20.0 * k + 11, 0.1, "backward")]
    (loop,) = tree(cell.record, Structure(cell.record)).children
    assert loop.mark == "slowest: iteration 2, 9.20 ms, mean 2.12 ms"


BRANCHES = (
    "if a.sum() > 0:\n    y = x.exp()\nelif b:\n    y = x.log()\nelse:\n    y = x.sin()\nz = y.cos() if c else y.tan()"
)


def test_branches_taken_and_not_taken():
    cell = Cell(BRANCHES).op("x.log()", count=3).op("y.tan()")
    assert taken(Structure(cell.record)) == {
        1: "not taken: no op ran in this branch",
        3: "branch taken: 3 ops ran in it",
        5: "not taken: no op ran in this branch",
        7: "not taken: no op ran in this branch; else: branch taken: 1 op ran in it",
    }
    chips = [[chip.label for chip in item.chips] for item in build(cell.record).views[0].items]
    assert chips == [["elif b, line 3"], ["else, line 7"]]


def test_match():
    cell = Cell("match kind:\n    case 'a':\n        y = x.exp()\n    case _:\n        y = x.log()").op("x.log()")
    assert taken(Structure(cell.record)) == {
        2: "not taken: no op ran in this branch",
        4: "branch taken: 1 op ran in it",
    }


def test_a_branch_without_an_op_may_have_been_taken():
    text = "for k in range(4):\n    y = x.exp()\n    if k % 2:\n        print(k)\n    else:\n        z = y.log()"
    cell = Cell(text).op("x.exp()", count=4).op("y.log()", count=2)
    assert taken(Structure(cell.record)) == {3: "no op ran in this branch", 5: "branch taken: 2 ops ran in it"}
    cell = Cell(text).op("x.exp()", count=4).op("y.log()", count=4)
    assert taken(Structure(cell.record))[3] == "not taken: no op ran in this branch"
    cell = Cell("while go():\n    if a:\n        y = x.exp()\n    else:\n        print()").op("x.exp()", count=7)
    assert taken(Structure(cell.record))[4] == "no op ran in this branch"


def test_a_branch_is_said_once_for_a_run_of_boxes():
    cell = Cell("for x in data:\n    if x:\n        y = x.exp()\n        y = y.log()\n    y = y.sin()")
    cell.op("x.exp()", count=2).op("y.log()", count=2).op("y.sin()", count=5)
    graph = build(cell.record)
    assert [[chip.label for chip in item.chips] for item in graph.views[graph.start].items] == [
        ["if x, line 2"],
        [],
        [],
    ]


def test_characters_and_not_bytes_are_counted():
    cell = Cell("y = {'größe': x.exp()} if über else {'größe': x.log()}").op("x.log()")
    assert taken(Structure(cell.record)) == {
        1: "not taken: no op ran in this branch; else: branch taken: 1 op ran in it"
    }


def test_thousands_of_iterations_are_ranges():
    cell = Cell("for t in range(2000):\n    a = h @ w\n    h = a.tanh()")
    for _ in range(2000):
        cell.op("h @ w").op("a.tanh()")
    graph = build(cell.record)
    view = graph.views[graph.start]
    assert view.label == "for t in range(2000) ×2,000"
    assert view.items[0].label == "iterations 1–45"
    assert view.note == "2,000 iterations folded into runs of 45"
    assert max(len(v.items) for v in graph.views) <= DRAW_LIMIT


@given(st.text(alphabet="fori n:\n\t =x()[]'\"%!#ifelsewhile", max_size=80))
def test_any_text_is_read_or_left(source):
    blocks(source)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 3), st.integers(0, 3)), max_size=40))
def test_any_places_give_every_op_one_group(places):
    source = "for a in b:\n    for c in d:\n        x = f(g(x))\n        if x:\n            y = x\n"
    source += "    z = [f(q) for q in z]"
    ops = [OpRow(k, "op", n, line=a, col=b, end_line=a, end_col=b + 3, site=s) for k, (a, b, n, s) in enumerate(places)]
    root = tree(Record(source=source, ops=ops), Structure(Record(source=source, ops=ops)))
    assert sorted(root.ops()) == list(range(len(ops)))
