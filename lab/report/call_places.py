"""How the cell came to run an op: the places that called it, and which rows are one place that ran on other inputs."""

from __future__ import annotations

from collections import Counter

from ..recorder.cell_trace import Row, Trace


def calls(trace: Trace, row: Row) -> list[list[int]]:
    """Return the places of the cell that led to a row, as `widgets.record.OpRow.calls` has them."""
    module, entered = trace.paths[row.path], trace.entered[row.path]
    parts = [_parts(name, module) for _, name in entered]
    at = 0  # modules entered so far
    found = []
    own = 0
    for code, lasti in reversed(row.chain):
        if code.co_name == "forward":  # the modules of packages in between have no frame here
            kind = code.co_qualname.rpartition(".")[0].rpartition(".")[2]
            at = next((k + 1 for k in range(at, len(entered)) if entered[k][0] == kind), at)
        offset = trace.files.get(code.co_filename)
        if offset is None:
            continue
        own += 1
        place = trace.place(code, lasti)
        before, called = parts[at - 1] if at else 0, parts[at] if at < len(parts) else 0
        found.append([place.line + offset, place.col, place.end_line + offset, place.end_col, before, called])
    plain = own == 1 and row.chain[0][0].co_filename in trace.files and found[0][4] == 0 and found[0][5] < 2
    return [] if plain else found


def _parts(name: str, module: str) -> int:
    """Count the parts of a dotted module path that are those of a module on the way to it."""
    return name.count(".") + 1 if module == name or module.startswith(name + ".") else 0


def sites(rows: list[Row]) -> list[int]:
    """Return a number for every row: that of its op and place where other rows share them, else 0."""
    keys = []
    for row in rows:
        inner = row.inner or (None, 0)
        keys.append((row.op, row.path, id(inner[0]), inner[1], *((id(code), lasti) for code, lasti in row.chain)))
    met = Counter(keys)
    numbers: dict[object, int] = {}
    found = []
    for key, row in zip(keys, rows, strict=True):
        if row.op == "fill" and not row.path:  # a layer that is made fills several parameters from one place
            found.append(-numbers.setdefault(key, len(numbers) + 1))
        else:
            found.append(numbers.setdefault(key, len(numbers) + 1) if met[key] > 1 else 0)
    return found
