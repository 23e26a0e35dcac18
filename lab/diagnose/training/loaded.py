"""Weights that were not loaded, and a sampler that draws from few of the samples."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ...recorder.loaded_states import Loaded
from ..finding import Found, capital, last_line, listed, where
from ..order import rule
from ..reading.sources import called, sources


@rule(565, proof="the keys were compared when they were loaded")
def not_loaded(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """strict=False, and (almost) no key is one of the module's."""
    for call in trace.loaded:
        matched = call.known - len(call.missing)
        if call.strict or not call.given or not call.missing or not call.unexpected:
            continue
        prefix = _prefix(call)
        if matched and not prefix:
            continue  # a new head, say
        line, col, place = where(trace, call.place)
        how_many = "none" if not matched else f"{matched:,}"
        message = capital(
            f"{place} loads {how_many} of the {call.known:,} entries of {call.kind}: strict=False passes over what "
            "does "
            f"not match, and the keys are called otherwise ({listed(call.unexpected[:1])} and not "
            f"{listed(call.missing[:1])}), so the weights stay as they were."
        )
        remedy = "Bring the keys in line and load with strict=True; print what load_state_dict returns."
        if prefix and prefix[0]:
            remedy = f"Take the prefix away: {{k.removeprefix({prefix[0]!r}): v for k, v in state.items()}}; then "
            remedy += "strict=True tells of what is left."
        elif prefix:
            remedy = f"Put the prefix in front: {{{prefix[1]!r} + k: v for k, v in state.items()}}; then strict=True "
            remedy += "tells of what is left."
        return [Found("loading", "warning", line, col, message, remedy)]
    return []


@rule(567)
def loaded_unseen(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``net.load_state_dict(state, strict=False)`` in an earlier cell, whose answer nobody takes."""
    for source in sources(trace):
        for node in source.nodes if source.name else ():
            call = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(call, ast.Call) or called(call) != "load_state_dict":
                continue
            if not any(k.arg == "strict" and getattr(k.value, "value", True) is False for k in call.keywords):
                continue
            line, col, place = source.place(call)
            message = capital(
                f"{place} loads with strict=False and takes no look at what that left out (`{ast.unparse(call)}`): "
                "where the keys are called otherwise, by a prefix say, nothing is loaded and nobody is told."
            )
            remedy = "Print what it returns (missing_keys, unexpected_keys), or load with strict=True."
            return [Found("loading", "note", line, col, message, remedy)]
    return _left_at_random(trace)


def _left_at_random(trace: Trace) -> list[Found]:
    """A layer that a state has under another name: nothing is loaded for it, nothing trains it, and the model runs."""
    for call in trace.loaded:
        found = [
            leaf for leaf in trace.leaves if leaf.module and leaf.name.endswith(tuple(f".{m}" for m in call.missing))
        ]
        line, col, place = where(trace, call.place)
        if call.strict or not call.unexpected or not found or trace.optimized.keys() & set(found) or line is None:
            continue
        if not any(isinstance(n, ast.Expr) and called(n.value) == "load_state_dict" and n.lineno <= line <= last_line(n)
                   for n in trace.nodes()):  # fmt: skip
            continue  # somebody looks at what it says
        message = capital(
            f"{place} loads nothing for {listed(found)}: strict=False passes over what is called otherwise (the state "
            f"has {listed(call.unexpected)}), nobody looks at what it returns, and the model runs with the values that "
            "it began with."
        )
        remedy = "Bring the keys in line and load with strict=True; print what load_state_dict returns."
        return [Found("loading", "warning", line, col, message, remedy, [], found)]
    return []


def _prefix(call: Loaded) -> tuple[str, str] | None:
    """What all keys that were given have in front of the module's own, or the other way round; None for neither."""
    for more, less, given in ((call.unexpected, call.missing, True), (call.missing, call.unexpected, False)):
        for key in less:
            longer = next((k for k in more if k.endswith("." + key)), None)
            if longer is None:
                continue
            begin = longer[: -len(key)]
            if sum(begin + k in more for k in less) > 0.5 * len(less):
                return (begin, "") if given else ("", begin)
    return None


@rule(566, proof="the sampler's weights and the set's samples were counted")
def few_weights(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sampler with a weight for each class in place of one for each sample."""
    for fetched in trace.fetched.values():
        weights, samples = fetched.weights
        if not weights or weights * 2 > samples:
            continue
        for source in sources(trace):
            made = [n for n in source.nodes if called(n) == "WeightedRandomSampler"]
            if len(made) != 1 or not isinstance(made[0], ast.Call):
                continue
            line, col, place = source.place(made[0])
            message = capital(
                f"{place} draws the samples 0 to {weights - 1:,} alone, of {samples:,}: WeightedRandomSampler takes a "
                f"weight for each sample, and `{ast.unparse(made[0].args[0]) if made[0].args else 'weights'}` has "
                f"{weights:,}."
            )
            given = ast.unparse(made[0].args[0]) if made[0].args else "weights"
            remedy = f"Give each sample the weight of its class: {given}[labels]."
            return [Found("data", "warning", line, col, message, remedy)]
    return []
