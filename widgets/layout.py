"""The layered layout of one graph: ranks, order, coordinates and routes, in pure Python.

The steps are Sugiyama's: longest-path ranks, long edges split by dummies, barycenter sweeps with a transpose pass to
lessen crossings, then x by isotonic regression towards the neighbours' median. Each connected part is laid out by
itself and the parts are packed in rows, since a cell often holds several small graphs and one layer of all of them
would be a mile wide.

An edge runs straight down beside the boxes of a layer and bends only in the gap between two layers, so it never crosses
a box. Source: Gansner et al., "A technique for drawing directed graphs", IEEE TSE 1993, sections 2 to 4.
"""

import itertools
from bisect import bisect_right
from dataclasses import dataclass

GAP_X = 18
GAP_Y = 24
PART_GAP = 36
DUMMY_WIDTH = 8
SWEEPS = 8
PASSES = 4
LARGE = 2000
"""A part of more boxes and dummies than this gets half the sweeps and no swaps: nobody traces its edges one by one."""


@dataclass
class Layout:
    """Where all is drawn: `boxes` as (centre x, centre y, width, height), `routes` as flat lists of x, y, x, y ..."""

    boxes: list[tuple[float, float, float, float]]
    routes: list[list[float]]
    ranks: list[int]
    width: float
    height: float


def layered(
    sizes: list[tuple[float, float]], edges: list[tuple[int, int]], row_width: float = 900, quick: bool = False
) -> Layout:
    """Lay a directed graph out in layers from top to bottom.

    Nodes are numbered in an order that is topological for most edges (the order in which they ran); an edge that goes
    back in that order is drawn upwards.

    Parameters
    ----------
    sizes
        Width and height of every node.
    edges
        Pairs (from, to); a pair may come twice and is routed twice.
    row_width
        Connected parts are packed into rows of about this width.
    quick
        A quarter of the time for some more crossings: for graphs of which most are never looked at.

    Raises
    ------
    ValueError
        When an edge joins a node to itself or names a node that is not there.

    Examples
    --------
    >>> picture = layered([(40, 20)] * 3, [(0, 1), (1, 2), (0, 2)])
    >>> picture.ranks, len(picture.routes)
    ([0, 1, 2], 3)
    """
    count = len(sizes)
    for u, v in edges:
        if u == v or not (0 <= u < count and 0 <= v < count):
            raise ValueError(f"layered: got edge ({u}, {v}), needs two different nodes of {count}")
    boxes: list[tuple[float, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)] * count
    ranks = [0] * count
    routes: list[list[float]] = [[] for _ in edges]
    left = top = row_height = width = 0.0
    for nodes, numbers in _parts(count, edges):
        index = {node: i for i, node in enumerate(nodes)}
        inside = [(index[edges[e][0]], index[edges[e][1]]) for e in numbers]
        part = _lay_part([sizes[i] for i in nodes], inside, quick)
        if left and left + part.width > row_width:
            left, top, row_height = 0.0, top + row_height + PART_GAP, 0.0
        for i, node in enumerate(nodes):
            x, y, w, h = part.boxes[i]
            boxes[node], ranks[node] = (x + left, y + top, w, h), part.ranks[i]
        for e, route in zip(numbers, part.routes, strict=True):
            routes[e] = [c + (top if k % 2 else left) for k, c in enumerate(route)]
        width, row_height = max(width, left + part.width), max(row_height, part.height)
        left += part.width + PART_GAP
    return Layout(boxes, routes, ranks, width, top + row_height)


def _parts(count: int, edges: list[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    """Connected parts as (nodes, edge numbers), in the order of their first node."""
    root = list(range(count))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    for u, v in edges:
        a, b = find(u), find(v)
        root[max(a, b)] = min(a, b)
    parts: dict[int, tuple[list[int], list[int]]] = {}
    for i in range(count):
        parts.setdefault(find(i), ([], []))[0].append(i)
    for e, (u, _) in enumerate(edges):
        parts[find(u)][1].append(e)
    return list(parts.values())


def _lay_part(sizes: list[tuple[float, float]], edges: list[tuple[int, int]], quick: bool) -> Layout:
    """Lay out one connected graph with its top left corner at (0, 0)."""
    count = len(sizes)
    down = [(min(e), max(e)) for e in edges]  # against a cycle: an edge back in running order is turned for the layout
    ranks = _ranks(count, down)
    widths, heights = [w for w, _ in sizes], [h for _, h in sizes]
    layers: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
    for i, rank in enumerate(ranks):
        layers[rank].append(i)
    above: list[list[int]] = [[] for _ in sizes]
    below: list[list[int]] = [[] for _ in sizes]
    chains = []
    for u, v in down:
        chain = [u]
        for rank in range(ranks[u] + 1, ranks[v]):
            dummy = len(widths)
            widths.append(DUMMY_WIDTH)
            heights.append(0)
            above.append([])
            below.append([])
            layers[rank].append(dummy)
            chain.append(dummy)
        chain.append(v)
        chains.append(chain)
        for a, b in itertools.pairwise(chain):
            below[a].append(b)
            above[b].append(a)
    thrift = 4 if quick else 2 if len(widths) > LARGE else 1
    layers = _order(layers, above, below, len(widths), thrift)
    x = _columns(layers, above, below, widths, count, thrift)
    tops, y = [], 0.0
    for layer in layers:
        tops.append(y)
        y += max(heights[i] for i in layer) + GAP_Y
    bottoms = [t + max(heights[i] for i in layer) for t, layer in zip(tops, layers, strict=True)]
    middle = [(a + b) / 2 for a, b in zip(tops, bottoms, strict=True)]
    boxes = [(x[i], middle[ranks[i]], *sizes[i]) for i in range(count)]
    routes = _routes(chains, x, boxes, ranks, tops, bottoms)
    low = min(min(b[0] - b[2] / 2 for b in boxes), min((min(r[::2]) for r in routes), default=0.0))
    high = max(max(b[0] + b[2] / 2 for b in boxes), max((max(r[::2]) for r in routes), default=0.0))
    boxes = [(bx - low, by, w, h) for bx, by, w, h in boxes]
    for k, route in enumerate(routes):
        route[::2] = [c - low for c in route[::2]]
        if edges[k] != down[k]:
            points = list(zip(route[::2], route[1::2], strict=True))[::-1]
            route[:] = [c for point in points for c in point]
    return Layout(boxes, routes, ranks, high - low, bottoms[-1])


def _ranks(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Longest path from the sources; then whatever has more outputs than inputs moves down to its first reader."""
    ins: list[list[int]] = [[] for _ in range(count)]
    outs: list[list[int]] = [[] for _ in range(count)]
    for u, v in edges:
        ins[v].append(u)
        outs[u].append(v)
    ranks = [0] * count
    for v in range(count):
        if ins[v]:
            ranks[v] = 1 + max(ranks[u] for u in ins[v])
    for u in range(count - 1, -1, -1):
        if len(outs[u]) > len(ins[u]):
            ranks[u] = min(ranks[v] for v in outs[u]) - 1
    low = min(ranks, default=0)
    return [rank - low for rank in ranks]


def _order(
    layers: list[list[int]], above: list[list[int]], below: list[list[int]], total: int, thrift: int
) -> list[list[int]]:
    """Barycenter sweeps down and up, each followed by swaps of neighbours; the order with fewest crossings is kept."""
    position = [0] * total

    def settle(layer: list[int]) -> None:
        for k, i in enumerate(layer):
            position[i] = k

    for layer in layers:
        settle(layer)
    best, fewest, stale = [layer[:] for layer in layers], _crossings(layers, below, position), 0
    for sweep in range(SWEEPS // thrift):
        if not fewest:
            break
        near = above if sweep % 2 == 0 else below
        for layer in layers[1:] if sweep % 2 == 0 else layers[-2::-1]:
            if len(layer) < 2:
                continue
            key = {i: sum([position[j] for j in near[i]]) / len(near[i]) if near[i] else position[i] for i in layer}
            layer.sort(key=key.__getitem__)
            settle(layer)
        if thrift == 1:
            _transpose(layers, above, below, position)
        crossings = _crossings(layers, below, position)
        if crossings < fewest:
            best, fewest, stale = [layer[:] for layer in layers], crossings, 0
        elif (stale := stale + 1) == 3:
            break
    return best


def _crossings(layers: list[list[int]], below: list[list[int]], position: list[int]) -> int:
    """Pairs of edges between neighbouring layers that cross: inversions, counted by insertion."""
    total = 0
    for layer in layers[:-1]:
        order: list[int] = []
        for i in layer:
            near = below[i]
            if len(near) == 1:
                order.append(position[near[0]])
            elif near:
                order += sorted([position[j] for j in near])
        if order == sorted(order):
            continue
        seen: list[int] = []
        for end in order:
            at = bisect_right(seen, end)
            total += len(seen) - at
            seen.insert(at, end)
    return total


def _transpose(layers: list[list[int]], above: list[list[int]], below: list[list[int]], position: list[int]) -> None:
    """Swap neighbours in a layer as long as that removes crossings."""

    def crossed(a: list[int], b: list[int]) -> int:
        return sum(position[i] > position[j] for i in a for j in b)

    for _ in range(4):
        improved = False
        for layer in layers:
            for k in range(len(layer) - 1):
                a, b = layer[k], layer[k + 1]
                now = crossed(above[a], above[b]) + crossed(below[a], below[b])
                if now and now > crossed(above[b], above[a]) + crossed(below[b], below[a]):
                    layer[k], layer[k + 1] = b, a
                    position[a], position[b] = k + 1, k
                    improved = True
        if not improved:
            return


def _columns(
    layers: list[list[int]],
    above: list[list[int]],
    below: list[list[int]],
    widths: list[float],
    count: int,
    thrift: int,
) -> list[float]:
    """Return the x of every box and dummy: passes towards the median neighbour that keep order and separation."""
    x = [0.0] * len(widths)
    for layer in layers:
        left = 0.0
        for i in layer:
            x[i] = left + widths[i] / 2
            left += widths[i] + GAP_X
        for i in layer:
            x[i] -= (left - GAP_X) / 2
    for _ in range(PASSES // thrift):
        for layer in layers[1:]:
            _place(layer, above, x, widths, count)
        for layer in layers[-2::-1]:
            _place(layer, below, x, widths, count)
    for layer in layers[1:]:
        _place(layer, above, x, widths, count)
    return x


def _place(layer: list[int], near: list[list[int]], x: list[float], widths: list[float], count: int) -> None:
    """Least squares towards the wanted x under the layer's separations: pool adjacent violators on x minus offset."""
    offset, previous = 0.0, None
    offsets: list[float] = []
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight, members
    for i in layer:
        if previous is not None:
            offset += (widths[previous] + widths[i]) / 2 + GAP_X
        offsets.append(offset)
        previous = i
        some = near[i]
        if len(some) == 1:
            want = x[some[0]]
        elif len(some) == 2:
            want = (x[some[0]] + x[some[1]]) / 2
        elif some:
            around = sorted([x[j] for j in some])
            half = len(around) // 2
            want = around[half] if len(around) % 2 else (around[half - 1] + around[half]) / 2
        else:
            want = x[i]
        weight = 4.0 if i >= count else 1.0  # a long edge wants to be straight more than a box wants its median
        pools.append(((want - offset) * weight, weight, 1))
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
            (total, weight, members), (other, more, rest) = pools.pop(), pools.pop()
            pools.append((total + other, weight + more, members + rest))
    k = 0
    for total, weight, members in pools:
        for _ in range(members):
            x[layer[k]] = total / weight + offsets[k]
            k += 1


def _routes(
    chains: list[list[int]],
    x: list[float],
    boxes: list[tuple[float, float, float, float]],
    ranks: list[int],
    tops: list[float],
    bottoms: list[float],
) -> list[list[float]]:
    """Points of every edge, from the bottom of a box to the top of another; arrivals are spread along the top."""
    arrivals: dict[int, list[int]] = {}
    for k, chain in enumerate(chains):
        arrivals.setdefault(chain[-1], []).append(k)
    shift = [0.0] * len(chains)
    for node, numbers in arrivals.items():
        step = min(16.0, (boxes[node][2] - 28) / max(1, len(numbers) - 1)) if len(numbers) > 1 else 0.0
        for place, k in enumerate(sorted(numbers, key=lambda k: x[chains[k][-2]])):
            shift[k] = max(0.0, step) * (place - (len(numbers) - 1) / 2)
    routes = []
    for k, chain in enumerate(chains):
        first, last = chain[0], chain[-1]
        rank = ranks[first]
        points = [(x[first], boxes[first][1] + boxes[first][3] / 2), (x[first], bottoms[rank])]
        for dummy in chain[1:-1]:
            rank += 1
            points += [(x[dummy], tops[rank]), (x[dummy], bottoms[rank])]
        end = x[last] + shift[k]
        points += [(end, tops[rank + 1]), (end, boxes[last][1] - boxes[last][3] / 2)]
        routes.append([c for p in _straightened(points) for c in p])
    return routes


def _straightened(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without the points in the middle of a vertical run and without repeated ones."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if kept and abs(point[0] - kept[-1][0]) < 0.5 and abs(point[1] - kept[-1][1]) < 0.5:
            continue
        if len(kept) > 1 and abs(point[0] - kept[-1][0]) < 0.5 and abs(kept[-1][0] - kept[-2][0]) < 0.5:
            kept[-1] = (kept[-1][0], point[1])
            continue
        kept.append(point)
    return kept
