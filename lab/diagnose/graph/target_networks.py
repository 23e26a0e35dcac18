"""Modules whose weights come from another one, which is trained."""

from __future__ import annotations

import ast
from collections.abc import Collection

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..reading.calls import name_of
from ..reading.sources import called, sources


def copies_of_trained(trace: Trace) -> dict[str, str]:
    """Return the modules that load what others give them, by their last names, where the others are trained: target
    networks, which learn nothing themselves."""
    found = {}
    for source in sources(trace):
        for call in source.calls.get("load_state_dict", ()):
            given = call.args[0] if call.args else None
            if not isinstance(given, ast.Call) or called(given) != "state_dict":
                continue
            copy, trained = (name_of(getattr(c.func, "value", c)) for c in (call, given))
            leaves = (leaf for leaf in trace.optimized if leaf in trace.gradients)
            if copy and copy != trained and any(trained in leaf.name.split(".") for leaf in leaves):
                found[copy] = trained
    return found


def twins_of_trained(trace: Trace, leaves: Collection[Leaf]) -> bool:
    """Return whether some parameters are those of a module that loads another's state, told by name and shape alone:
    each has a twin that is trained."""
    loads = any(
        isinstance(c.func, ast.Attribute) and c.args and called(c.args[0]) == "state_dict"
        and ast.unparse(c.func.value) != ast.unparse(c.args[0].func).removesuffix(".state_dict")  # type: ignore[attr-defined]
        for source in sources(trace) for c in source.calls.get("load_state_dict", ())
    )  # fmt: skip
    trained = {(leaf.name, leaf.shape) for leaf in trace.optimized if leaf in trace.gradients}
    return loads and all((leaf.name, leaf.shape) in trained for leaf in leaves)


def is_of(leaf: Leaf, modules: Collection[str]) -> bool:
    """Return whether a parameter belongs to one of the modules with these names."""
    return not set(modules).isdisjoint(leaf.name.split(".")[:-1])


def followers(trace: Trace) -> set[Leaf]:
    """Return the parameters that no optimizer holds and whose values are mixed with those of one that it holds, outside
    what is trained: ``target.data.copy_((1 - tau) * target.data + tau * p.data)``."""
    found = set()
    for row in trace.rows:
        if row.reached or len(row.refs) < 2:
            continue
        leaves = {leaf for ref in row.refs for leaf in _values_of(ref)}
        trained = {leaf.shape for leaf in leaves if leaf in trace.optimized}
        found |= {leaf for leaf in leaves if leaf not in trace.optimized and leaf.shape in trained}
    return found


def _values_of(ref: Ref, depth: int = 3) -> set[Leaf]:
    """The parameters whose values an operand is made of in few ops."""
    if isinstance(ref, Leaf):
        return {ref}
    return {leaf for of in ref.refs for leaf in _values_of(of, depth - 1)} if isinstance(ref, Row) and depth else set()
