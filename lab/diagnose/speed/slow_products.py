"""Products that cost more than they need to: one-hot rows, factors in the wrong order, huge filters and broadcasts."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from widgets.figures import size_text

from ...recorder.cell_trace import Ref, Row
from ...recorder.repeats import PRODUCTS
from ..reading.sources import called
from .op_costs import in_place, of_ops
from .time_shares import Saving, Shares, around, at_one_place, each, on_innermost, quoted, spent, through

RESHAPING = {"cast", "to", "float", "view", "reshape", "type", "double", "half", "unsqueeze", "squeeze", "flatten"}
TURNING = RESHAPING | {"transpose", "t", "permute", "contiguous", "mT", "T", "numpy_T", "getitem"}
SPREADING = {"expand", "expand_as", "repeat", "tile"}
LONG_FILTER, LONG_SIDE = 256, 27  # taps in one dimension, and in each of two, from which a Fourier transform is faster
TIMES = 4.0  # by which the other order has to be cheaper
PACE = 100.0  # multiplications in a nanosecond, which no processor reaches by itself
MOVED = 16  # bytes that a sparse product reads and writes for each multiplication
HUGE = 1 << 22  # bytes of a broadcast result


def one_hot(shares: Shares) -> Iterator[Saving]:
    """A matrix times rows that hold a single 1 each: a look-up, done as a product."""
    trace = shares.trace
    for rows in at_one_place(row for row in shares.rows if row.op in PRODUCTS).values():
        seen = [trace.one_hot[row] for row in rows if row in trace.one_hot]
        if not seen or len(seen) < 0.9 * len(rows):
            continue
        position, columns = seen[0]
        made = {ref for row in rows for ref in through(row.refs[min(position, len(row.refs) - 1)], RESHAPING)}
        extra = [
            ref
            for ref in made
            if isinstance(ref, Row) and ref.op in RESHAPING | {"one_hot", "one_hot_rows", "scatter_", "eq"}
        ]
        yield from shares.saving(
            of_ops(shares, [*rows, *extra]) - _looked_up(shares, rows, position),
            rows[0].chain,
            f"looks up rows by a product: {quoted(trace, rows[0].chain)} multiplies a matrix by one-hot rows of "
            f"{columns:,} columns, of which all but one are 0.",
            "Index the matrix by the class numbers: nn.Embedding, F.embedding, or weight[index].",
            rows[:1],
        )


def _looked_up(shares: Shares, rows: list[Row], position: int) -> float:
    """What it would cost to look the rows up; the gradient of a matrix is as large as that, whoever makes it."""
    runs, row = sum(row.runs for row in rows), rows[0]
    table = math.prod(row.refs[1 - position].shape) if row.reached and len(row.refs) > 1 else 0
    return runs * in_place(shares, 1, moved=8 * math.prod(row.shape) + 4 * table, trained=bool(row.reached))


def sparse(shares: Shares) -> Iterator[Saving]:
    """A matrix of almost only zeros that stands in a product as if it were full."""
    trace = shares.trace
    by_matrix: dict[Ref, list[Row]] = {}
    for row in shares.rows:
        if row in trace.sparse and len(row.refs) > trace.sparse[row][0]:
            by_matrix.setdefault(row.refs[trace.sparse[row][0]], []).append(row)
    for matrix, rows in by_matrix.items():
        share, first = trace.sparse[rows[0]][1], max(rows, key=lambda row: spent([row]))
        products = sum(row.runs * math.prod(row.shape) for row in rows) / matrix.shape[0]
        moved = MOVED * share * math.prod(matrix.shape) * products
        instead = in_place(shares, sum(row.runs for row in rows), moved=moved, trained=any(row.reached for row in rows))
        others = len({row.chain[0] for row in rows if row.chain}) - 1
        more = f" (and {others} more like it)" if others > 0 else ""
        yield from shares.saving(
            of_ops(shares, rows) - instead,
            first.chain,
            f"multiplies by zeros: {quoted(trace, first.chain)}{more} is given a full matrix of "
            f"{' × '.join(f'{n:,}' for n in matrix.shape)}, of which {100 * (1 - share):.1f} % is 0.",
            "Keep it sparse, made once: torch.sparse.mm(matrix.to_sparse(), h); or gather the neighbours by their "
            "numbers and add them with index_add.",
            rows,
        )


def order(shares: Shares) -> Iterator[Saving]:
    """`(B @ A) @ x` and einsums of three operands whose first product is large though the result is small."""
    yield from _chains(shares)
    trace = shares.trace
    for rows in at_one_place(row for row in shares.rows if row.op == "einsum").values():
        call = next((n for n in around(trace, rows[0].chain[0]) if called(n) == "einsum"), None)
        if not isinstance(call, ast.Call) or not call.args or len(rows[0].refs) < 3:
            continue
        equation = getattr(call.args[0], "value", None)
        shapes = [tuple(ref.shape) for ref in rows[0].refs]
        costs = _costs(equation, shapes) if isinstance(equation, str) else None
        if costs is None or costs[0] < TIMES * costs[1]:
            continue
        left, best, first = costs
        runs = sum(row.runs for row in rows)
        chooses = rows[0].backend != "PyTorch" or spent(rows) < left * runs / PACE  # core takes the best by itself
        if chooses:
            continue
        yield from shares.saving(
            (1 - best / left) * spent(rows),
            rows[0].chain,
            f"multiplies {len(shapes)} operands in one call, from left to right: "
            f"{quoted(trace, rows[0].chain)} builds what is between the first two in full, {left / best:,.0f} times "
            "the work of the best order.",
            f"Begin with {first}: two products (or einsums) of two operands each, one after the other.",
            rows[:1],
        )


def _chains(shares: Shares) -> Iterator[Saving]:
    trace = shares.trace
    kinds = {"matmul", "mm", "__matmul__", "linear", "bmm"}
    for rows in at_one_place(row for row in shares.rows if row.op in kinds).values():
        outer = rows[0]
        for side, ref in enumerate(outer.refs[:2]):
            inner = next((r for r in through(ref, TURNING | {"mul"}) if isinstance(r, Row) and r.op in kinds), None)
            other = outer.refs[1 - side] if len(outer.refs) > 1 else None
            if inner is None or other is None or (inner.requires_grad and inner.op == "linear") or len(inner.refs) < 2:
                continue
            a, b, c = (tuple(r.shape) for r in (*inner.refs[:2], other))
            if not (len(a) == len(b) == 2 and len(c) >= 1 and len(inner.shape) == 2):
                continue
            inside = max(set(a) & set(b) or {0}, key=lambda n: a.count(n) + b.count(n))
            m, n = inner.shape
            k = a[-1] if inner.op != "linear" else b[-1]
            batch = (
                math.prod(c) // c[-1] if outer.op == "linear" or side == 1 else math.prod(c[1:]) if len(c) > 1 else 1
            )
            now, then = m * n * k + m * n * batch, (m + n) * k * batch
            if not inside or now < TIMES * then or k >= min(m, n):
                continue
            inners = [row for row in shares.rows if row.chain == inner.chain and row.op == inner.op]
            yield from shares.saving(
                (1 - then / now) * (spent(rows) + spent(inners)),
                inner.chain,
                f"builds a product of {m:,} × {n:,} that is only multiplied again: "
                f"{quoted(trace, inner.chain)} has rank {k}, and {now / then:,.0f} times the work that the other order "
                "would take follows.",
                "Multiply by one factor and then by the other: (x @ A) @ B in place of x @ (A @ B).",
                [inner, outer],
            )
            break


def _costs(equation: str, shapes: list[tuple[int, ...]]) -> tuple[float, float, str] | None:
    """The work of an einsum of three operands from left to right and in the best order, and which two come first.

    >>> _costs("or,ri,bi->bo", [(512, 8), (8, 512), (16, 512)])
    (6291456, 131072, 'the second and the third')
    """
    parts = equation.replace(" ", "").split("->")
    terms = parts[0].split(",")
    if len(parts) != 2 or len(terms) != 3 or "..." in equation or len(shapes) != 3:
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            return None
        for letter, n in zip(term, shape, strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    costs = {}
    for i, j in ((0, 1), (0, 2), (1, 2)):
        (left,) = {0, 1, 2} - {i, j}
        both = set(terms[i]) | set(terms[j])
        between = both & (set(terms[left]) | set(parts[1]))
        costs[i, j] = math.prod(sizes[x] for x in both) + math.prod(sizes[x] for x in between | set(terms[left]))
    best = min(costs, key=lambda pair: costs[pair])
    words = ("first", "second", "third")
    return costs[0, 1], costs[best], f"the {words[best[0]]} and the {words[best[1]]}"


def filters(shares: Shares) -> Iterator[Saving]:
    """A direct convolution with a filter of hundreds of taps."""
    trace = shares.trace
    for (_, op), rows in on_innermost(row for row in shares.rows if row.op.startswith("conv")).items():
        weights = [ref for row in rows for ref in row.refs[1:2]]
        taps = [tuple(w.shape)[2:] for w in weights if len(w.shape) > 2]
        if not taps or "transpose" in op:
            continue
        side = max(taps[0])
        if side < (LONG_FILTER if math.prod(taps[0]) == side else LONG_SIDE):
            continue
        length = max(rows[0].shape[2:], default=1)
        keep = min(8 * math.log2(length + side) / math.prod(taps[0]) ** (1 if len(taps[0]) == 1 else 0.8), 0.9)
        yield from shares.saving(
            (1 - keep) * of_ops(shares, rows),
            rows[0].chain,
            f"convolves directly with a filter of {' × '.join(f'{n:,}' for n in taps[0])} taps: "
            f"{quoted(trace, rows[0].chain)} multiplies each value by all of them.",
            "Convolve by Fourier transform: rfft of both, padded to the sum of their lengths, a product, and irfft.",
            rows[:1],
        )


def decompositions(shares: Shares) -> Iterator[Saving]:
    """svd and qr in full where the reduced form is meant; an inverse where a solve is."""
    trace = shares.trace
    for rows in on_innermost(row for row in shares.rows if row.op.split("_")[-1] in ("svd", "qr")).values():
        row = rows[0]
        given = tuple(row.refs[0].shape) if row.refs else ()
        if len(given) < 2 or min(given[-2:]) * 2 > max(given[-2:]):
            continue
        m, n = given[-2:]
        if row.size < 0.9 * row_bytes(row) * max(m, n) ** 2:
            continue
        qr = row.op.endswith("qr")
        yield from shares.saving(
            (1 - 2 * min(m, n) / max(m, n)) * of_ops(shares, rows),
            row.chain,
            f"computes {max(m, n):,} singular vectors or columns of which {min(m, n):,} belong to a value: "
            f"{quoted(trace, row.chain)} of a matrix of {m:,} × {n:,} makes a square one of {max(m, n):,}.",
            'Leave out mode="complete".' if qr else "Pass full_matrices=False.",
            rows[:1],
        )
    inverses = [row for row in shares.rows if row.op in ("inverse", "inv", "linalg_inv", "linalg_inv_ex")]
    readers = trace.consumers() if inverses else {}
    for rows in on_innermost(inverses).values():
        users = [r for row in rows for r in readers.get(row, ())]
        if users and all(r.op in PRODUCTS for r in users) and len(users) == len(rows):
            yield from shares.saving(
                0.5 * spent(rows),
                rows[0].chain,
                f"inverts a matrix only to multiply by it: {quoted(trace, rows[0].chain)}.",
                "Solve instead: torch.linalg.solve(A, b), or factor A once (cholesky, lu_factor) where it stays.",
                rows[:1],
            )


def row_bytes(row: Row) -> int:
    """Return the bytes of one element of an op's result."""
    return {"float64": 8, "float16": 2, "bfloat16": 2}.get(row.dtype, 4)


def broadcasts(shares: Shares) -> Iterator[Saving]:
    """`(a[:, None] * b[None]).sum(-1)` and `((a[:, None] - b[None]) ** 2).sum(-1)`: a product does it."""
    trace = shares.trace
    readers = trace.consumers()
    for rows in at_one_place(row for row in shares.rows if row.op in ("mul", "sub") and len(row.refs) == 2).values():
        row = rows[0]
        given = [list(through(ref, SPREADING))[-1] for ref in row.refs]
        parts = [math.prod(ref.shape) for ref in given]
        size = math.prod(row.shape)
        if row.largest < HUGE or size < 8 * max(parts) or min(parts) < 64:
            continue
        between, last = _summed(row, readers)
        if last is None or math.prod(last.shape) * 2 > size or not _outer(row, last):
            continue
        kin = [r for r in shares.rows if (r.chain, r.op) in {(x.chain, x.op) for x in (row, *between, last)}]
        plain = row.op == "mul" and not between
        if row.op == "mul" and between:
            continue
        remedy = (
            "Write it as a product: torch.einsum or @, which adds up while it multiplies."
            if plain
            else "Use torch.cdist(a, b), or the squares: a² - 2 a @ b.T + b², which need no such tensor."
        )
        yield from shares.saving(
            of_ops(shares, kin) - _as_product(shares, row, last),
            row.chain,
            f"makes a tensor of {size_text(row.largest)} that is only summed: {quoted(trace, row.chain)} spreads "
            f"{' and '.join('×'.join(map(str, ref.shape)) for ref in given)} to "
            f"{'×'.join(map(str, row.shape))}, {each(spent(kin), row.runs)} for each run.",
            remedy,
            [row, last],
        )


def _as_product(shares: Shares, row: Row, last: Row) -> float:
    """What a product costs that adds up while it multiplies, and what follows it on the result."""
    moved = 6 * row_bytes(last) * math.prod(last.shape)
    trained = bool(row.reached)
    return last.runs * in_place(shares, 4, flops=math.prod(row.shape), moved=moved, trained=trained)


def _summed(row: Row, readers: dict[Ref, list[Row]]) -> tuple[list[Row], Row | None]:
    """What follows a row until it is summed, where that is all that is done with it."""
    between: list[Row] = []
    while True:
        after = [r for r in readers.get(row, ()) if not r.cut]
        if len(set(after)) != 1:
            return between, None
        row = after[0]
        if row.op in ("sum", "mean", "norm", "vector_norm", "linalg_norm", "linalg_vector_norm"):
            return between, row
        if row.op not in ("pow", "square", "abs", "mul", "cast", "to") or len(between) > 2:
            return between, None
        between.append(row)


def _outer(row: Row, last: Row) -> bool:
    """Whether each operand lacks a dimension that is left in the sum: else the result is no product of the two."""
    width = len(row.shape)
    given = [list(through(ref, SPREADING))[-1] for ref in row.refs]
    padded = [(1,) * (width - len(ref.shape)) + tuple(ref.shape) for ref in given]
    missing = [{k for k in range(width) if row.shape[k] > 1 and shape[k] == 1} for shape in padded]
    kept = {n for n in last.shape if n > 1}
    return all(any(row.shape[k] in kept for k in gone) for gone in missing)


IDIOMS = (one_hot, sparse, order, filters, decompositions, broadcasts)
