"""Work of which hardly anything is read: all rows converted for a batch, products for a diagonal, an svd's vectors."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from ...recorder.cell_trace import Chain, Ref, Row, Trace
from ...recorder.repeats import PRODUCTS
from ..reading.sources import called
from .op_costs import of_ops
from .time_shares import Saving, Shares, around, at_one_place, each, quoted, spent, through, tree_of

PART = 0.2  # share of a result that is read, below which the rest was for nothing
MANY = 4096  # values of a result
TAKING = {"slice", "select", "getitem", "index", "narrow", "index_select", "diagonal", "split", "unbind"}
TURNING = {"transpose", "t", "permute", "view", "reshape", "unsqueeze", "squeeze", "mT", "T", "numpy_T"}
SORTS = {"sort", "argsort", "msort"}
RUNNING = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"}
BY_ELEMENT = {"add", "sub", "mul", "div", "pow", "square", "sqrt", "exp", "log", "log1p", "abs", "neg", "cast", "to",
              "float", "double", "half", "clamp", "sigmoid", "tanh", "relu", "sin", "cos", "where", "gelu", "silu",
              "one_hot", "one_hot_rows"}  # fmt: skip
ROWS = {"linear", "matmul", "mm", "bmm", "cdist", "einsum"}
DIAGONALS = {"diag", "diag_embed", "diagflat", "diagonal_backward", "diagonal_scatter"}
VECTORS = ("svd", "eigh", "eig")


def partly(shares: Shares) -> Iterator[Saving]:
    """``(images.float() / 255)[i : i + 64]``, ``(u @ v.T).diagonal()``, ``x.sort()[:5]``: a small part is read."""
    trace = shares.trace
    readers = trace.consumers()
    told: set[Row] = set()
    for (chain, op), rows in sorted(at_one_place(shares.rows).items(), key=lambda pair: -spent(pair[1])):
        row = rows[0]
        size = math.prod(row.shape)
        if op not in BY_ELEMENT | ROWS | SORTS | RUNNING | {"stack"} or size < MANY or told & set(rows) or not chain:
            continue
        takes = [_takes(trace, each_row, readers) for each_row in rows]
        if not all(takes):
            continue
        read = max(sum(math.prod(take.shape) for take in part) for part in takes) / size
        if read > PART:
            continue
        before = [r for r in _only_for(rows, readers) if r.op in BY_ELEMENT or op == "stack"]
        before = before if op in BY_ELEMENT | {"stack"} else []
        told |= {*rows, *before}
        take = takes[0][0]
        ns = of_ops(shares, [*rows, *before])
        yield from shares.saving(
            (1 - read) * (0.8 if op in SORTS else 1.0) * ns,
            chain,
            f"computes {size:,} values of which {_share(read)} is read: {quoted(trace, chain)} makes "
            f"{'×'.join(map(str, row.shape))} ({each(spent(rows), sum(r.runs for r in rows))}), and "
            f"{quoted(trace, take.chain)} takes {'×'.join(map(str, take.shape)) or 'one number'} of it.",
            _remedy(op, take.op),
            [row, take],
        )


def _share(part: float) -> str:
    return f"{100 * part:.2g} %"


def _takes(trace: Trace, row: Row, readers: dict[Ref, list[Row]]) -> list[Row]:
    """The ops that take parts of a result, where that is all that is done with it."""
    found: list[Row] = []
    waiting = [row]
    while waiting:
        after = [r for r in readers.get(waiting.pop(), ()) if r is not row]
        if not after or row.cut:
            return []
        for reader in after:
            if reader.op in TURNING and math.prod(reader.shape) == math.prod(row.shape):
                waiting.append(reader)
            elif reader.op in TAKING and not reader.cut and reader.count <= row.count:
                found.append(reader)
            else:
                return []
    return found


def _only_for(rows: list[Row], readers: dict[Ref, list[Row]]) -> list[Row]:
    """What was computed for some results alone."""
    found: dict[Row, None] = {}
    waiting: list[Row] = list(rows)
    while waiting and len(found) < 256:
        for ref in waiting.pop().refs:
            if isinstance(ref, Row) and ref not in found and len(readers.get(ref, ())) == 1:
                found[ref] = None
                waiting.append(ref)
    return list(found)


def _remedy(op: str, take: str) -> str:
    """What gives the part alone."""
    if op in SORTS:
        return "Take torch.topk(x, k, largest=...), or kthvalue for one place, which sort no more than is read."
    if op in RUNNING:
        return "Take the sum or the product itself, once, or keep a running value from turn to turn."
    if take == "diagonal":
        return "Multiply the rows that belong together: (a * b).sum(-1) in place of the diagonal of a @ b.T."
    if op == "stack":
        return "Compute for each row only what is picked for it: expert(x[pick == k]), written back by index."
    if op in ROWS:
        return "Take the part first and multiply only that: head(h[:, -1]) in place of head(h)[:, -1]."
    return "Take the part first and compute with it: x[i : i + n].float() in place of x.float()[i : i + n]."


def scaled(shares: Shares) -> Iterator[Saving]:
    """``torch.diag(d) @ A``: a product by a matrix that is zero beside its diagonal."""
    trace = shares.trace
    for rows in at_one_place(row for row in shares.rows if row.op in PRODUCTS).values():
        row = rows[0]
        made = [r for ref in row.refs[:2] for r in through(ref, TURNING) if isinstance(r, Row) and r.op in DIAGONALS]
        if not made or len(row.shape) < 2 or not all(_by_diag(trace, r) for r in made):
            continue
        kin = [r for r in shares.rows if (r.chain, r.op) in {(m.chain, m.op) for m in made}]
        n = made[0].shape[-1]
        yield from shares.saving(
            0.95 * of_ops(shares, rows) + 0.5 * spent(kin),
            row.chain,
            f"multiplies by a diagonal matrix of {n:,} × {n:,} as if it were full: {quoted(trace, row.chain)}, "
            f"{each(spent(rows), sum(r.runs for r in rows))} each.",
            "Scale rows and columns instead: d[:, None] * A for diag(d) @ A, and A * d for A @ diag(d).",
            [row],
        )


def _by_diag(trace: Trace, row: Row) -> bool:
    """Whether the user's code asks for a diagonal matrix."""
    nodes = around(trace, row.chain[0]) if row.chain else []
    return any(called(n) in ("diag", "diag_embed", "diagflat") for n in nodes)


def vectors(shares: Shares) -> Iterator[Saving]:
    """``U, S, V = torch.linalg.svd(W)`` of which S alone is read."""
    trace = shares.trace
    for (chain, op), rows in at_one_place(row for row in shares.rows if row.op.endswith(VECTORS)).items():
        names = _unread(trace, chain)
        if not names:
            continue
        square = op.removeprefix("linalg_")
        instead = {"svd": "torch.linalg.svdvals(A); the largest alone is torch.linalg.matrix_norm(A, ord=2), or a few "
                          "steps of the power iteration", "eigh": "torch.linalg.eigvalsh(A)"}  # fmt: skip
        yield from shares.saving(
            0.5 * spent(rows),
            chain,
            f"computes vectors that nobody reads ({' and '.join(names)}): of {quoted(trace, chain)} the values alone "
            "are used.",
            f"Use {instead.get(square, 'torch.linalg.eigvals(A)')}.",
            rows[:1],
        )


def _unread(trace: Trace, chain: Chain) -> list[str]:
    """The names that a decomposition's vectors are given to, where nothing reads any of them."""
    nodes = around(trace, chain[0]) if chain else []
    statement = next((n for n in nodes if isinstance(n, ast.Assign)), None)
    target = statement.targets[0] if statement is not None else None
    call = statement.value if statement is not None else None
    tree = tree_of(trace, chain[0][0].co_filename) if chain else None
    if isinstance(call, ast.Subscript) and isinstance(call.value, ast.Call) and isinstance(call.slice, ast.Constant):
        wanted = 1 if called(call.value) == "svd" else 0
        return ["its other parts"] if call.slice.value == wanted else []
    if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call) or tree is None:
        return []
    names = [n.id if isinstance(n, ast.Name) else "" for n in target.elts]
    values = 1 if len(names) == 3 else 0
    others = [name for k, name in enumerate(names) if k != values]
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return [name for name in others if name] if all(others) and not read & set(others) else []


IDIOMS = (partly, scaled, vectors)
