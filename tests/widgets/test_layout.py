"""The layout: boxes apart, ranks downwards, every edge routed from box to box without crossing one."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.layout import GAP_X, layered


@st.composite
def graphs(draw, most=24):
    count = draw(st.integers(1, most))
    sizes = draw(st.lists(st.tuples(st.integers(20, 260), st.integers(16, 62)), min_size=count, max_size=count))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda e: e[0] != e[1])
    edges = draw(st.lists(pair, max_size=3 * count)) if count > 1 else []
    return sizes, edges


def overlap(a, b, gap=0.0):
    """Whether two boxes come nearer than `gap` in both directions."""
    near_x = abs(a[0] - b[0]) < (a[2] + b[2]) / 2 + gap - 1e-6
    return near_x and abs(a[1] - b[1]) < (a[3] + b[3]) / 2 - 1e-6


def points(route):
    return list(zip(route[::2], route[1::2], strict=True))


@given(graphs())
@settings(deadline=None, max_examples=150)
def test_boxes_do_not_overlap_and_lie_inside(graph):
    sizes, edges = graph
    layout = layered(sizes, edges)
    for i, (x, y, w, h) in enumerate(layout.boxes):
        assert (w, h) == sizes[i]
        assert x - w / 2 >= -1e-6
        assert x + w / 2 <= layout.width + 1e-6
        assert y - h / 2 >= -1e-6
        assert y + h / 2 <= layout.height + 1e-6
        assert not any(overlap((x, y, w, h), other, GAP_X) for other in layout.boxes[:i])


@given(graphs())
@settings(deadline=None, max_examples=150)
def test_ranks_increase_along_every_edge(graph):
    sizes, edges = graph
    layout = layered(sizes, edges)
    assert min(layout.ranks) == 0
    for u, v in edges:
        first, last = min(u, v), max(u, v)  # an edge back in running order is drawn upwards
        assert layout.ranks[first] < layout.ranks[last]
        assert layout.boxes[first][1] < layout.boxes[last][1]


@given(graphs())
@settings(deadline=None, max_examples=150)
def test_every_edge_is_routed_from_its_first_box_to_its_last(graph):
    sizes, edges = graph
    layout = layered(sizes, edges)
    assert len(layout.routes) == len(edges)
    for (u, v), route in zip(edges, layout.routes, strict=True):
        way = points(route) if u < v else points(route)[::-1]
        top, bottom = layout.boxes[min(u, v)], layout.boxes[max(u, v)]
        assert way[0] == pytest.approx((top[0], top[1] + top[3] / 2), abs=0.51)
        assert way[-1][1] == pytest.approx(bottom[1] - bottom[3] / 2, abs=0.51)
        assert abs(way[-1][0] - bottom[0]) <= bottom[2] / 2
        assert all(b[1] >= a[1] - 1e-6 for a, b in itertools.pairwise(way))


@given(graphs())
@settings(deadline=None, max_examples=150)
def test_no_edge_crosses_a_box(graph):
    sizes, edges = graph
    layout = layered(sizes, edges)
    for (u, v), route in zip(edges, layout.routes, strict=True):
        way = points(route)
        for (x0, y0), (x1, y1) in itertools.pairwise(way):
            segment = ((x0 + x1) / 2, (y0 + y1) / 2, abs(x1 - x0), abs(y1 - y0))
            for k, box in enumerate(layout.boxes):
                if k not in (u, v):
                    assert not overlap(segment, box), (u, v, k)


def test_a_chain_is_straight():
    layout = layered([(80, 20)] * 5, [(k, k + 1) for k in range(4)])
    assert len({box[0] for box in layout.boxes}) == 1
    assert all(len(route) == 4 for route in layout.routes)


def test_crossings_are_removed():
    pairs = [(0, 5), (1, 4), (2, 3)]  # as given they cross three times
    layout = layered([(40, 20)] * 7, [*pairs, (3, 6), (4, 6), (5, 6)])
    ends = sorted((route[0], route[-2]) for route in layout.routes[:3])
    assert [end for _, end in ends] == sorted(end for _, end in ends)


def test_a_source_stands_next_to_its_reader():
    layout = layered([(40, 20)] * 5, [(1, 2), (2, 3), (3, 4), (0, 4)])
    assert layout.ranks[0] == layout.ranks[4] - 1


def test_separate_parts_are_packed_in_rows():
    layout = layered([(200, 40)] * 40, [])
    assert layout.width < 1000
    assert layout.height > 400


def test_a_layer_of_two_hundred_boxes_takes_no_second():
    layout = layered([(100, 40)] * 201, [(k, 200) for k in range(200)])
    assert max(layout.ranks) == 1


@pytest.mark.parametrize("edge", [(0, 0), (0, 2), (-1, 0)])
def test_an_edge_to_nowhere_is_refused(edge):
    with pytest.raises(ValueError, match=r"layered: got edge .* needs two different nodes of 2"):
        layered([(1, 1)] * 2, [edge])


def test_nothing_takes_no_room():
    assert layered([], []).width == 0
