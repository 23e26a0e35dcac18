"""What a cell leaves behind, in few words: each name's kind, shape and some of its values, and the graphs it keeps."""

from __future__ import annotations

import ast
import numbers
import re
from typing import Any

SAMPLES = 64  # values of a tensor that are told
ITEMS = 2000  # of a container that are looked into
NODES = 50_000  # of all graphs that are counted


_CLOCKS = re.compile(r"\b(?:time|perf_counter|monotonic|process_time|perf_counter_ns|time_ns|now)\(\)")


def of_clocks(tree: ast.Module) -> set[str]:
    """Return the names that a cell gives a time of the day, which no two runs have in common.

    >>> sorted(of_clocks(ast.parse("begin = time.time()\\nfor x in data: n = f(x)\\ntook = perf_counter() - begin")))
    ['begin', 'took']
    """
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and _CLOCKS.search(ast.unparse(n.value))]
    return {n.id for assign in made for t in assign.targets for n in ast.walk(t) if isinstance(n, ast.Name)}


def digest(name: str, value: Any) -> list[Any] | None:
    """Return [kind, shape, dtype, requires_grad, values] of what a name means; None for what cannot be compared."""
    if name.startswith("_") or isinstance(value, type) or type(value).__name__ in ("module", "function", "method"):
        return None
    if isinstance(value, bool | str | None.__class__):
        return ["constant", [], "", False, [repr(value)[:200]]]
    if isinstance(value, numbers.Real):
        return ["number", [], "", False, [float(value)]]
    if hasattr(value, "named_parameters"):
        own = [p for _, p in value.named_parameters()]
        sums = [float(p.detach().double().sum()) for p in own[:SAMPLES]]
        return ["module", [len(own)], str(value.training), False, sums]
    if hasattr(value, "detach") and hasattr(value, "requires_grad"):
        try:
            flat = value.detach().reshape(-1)
            step = max(1, flat.numel() // SAMPLES)
            seen = [float(v) for v in flat[::step][:SAMPLES].tolist()] if not flat.is_complex() else []
            seen += [float(flat.double().sum())] if flat.numel() and not flat.is_complex() else []
        except Exception:
            seen = []
        return ["tensor", list(value.shape), str(value.dtype).rpartition(".")[2], bool(value.requires_grad), seen]
    if isinstance(value, list | tuple | dict | set):
        plain = [float(v) for v in list(value)[:SAMPLES] if isinstance(v, numbers.Real)]
        return [type(value).__name__, [len(value)], "", False, plain]
    return ["other", [], type(value).__name__, False, []]


def histories(space: dict[str, Any]) -> int:
    """Return how many nodes of graphs the names keep alive."""
    seen: set[Any] = set()
    stack = [t.grad_fn for t in _tensors(space) if t.grad_fn is not None]
    while stack and len(seen) < NODES:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        try:
            stack += [following for following, _ in node.next_functions if following is not None]
        except Exception:  # a graph that is freed: its node remains
            continue
    return len(seen)


def _tensors(space: dict[str, Any]) -> list[Any]:
    found, stack, left, met = [], list(space.values()), ITEMS, set()
    while stack and left:
        value = stack.pop()
        left -= 1
        if id(value) in met or isinstance(value, type):
            continue
        met.add(id(value))
        if hasattr(value, "grad_fn"):
            found.append(value)
        elif isinstance(value, list | tuple | set):
            stack += list(value)[-200:]
        elif isinstance(value, dict):
            stack += list(value.values())[-200:]
        elif hasattr(value, "__dict__") and type(value).__module__ == "__main__":
            stack += vars(value).values()
    return found
