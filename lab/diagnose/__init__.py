"""What is wrong with a cell, each thing in one sentence that names the line: a list of small functions over a trace."""

from __future__ import annotations

from collections.abc import Callable

from ..gathered import Leaf, Trace
from .anew import made_in_forward
from .batches import apart, first_only, one_for_all
from .constants import number_added
from .cost import double, overhead
from .cut import cuts, drawn, nothing_to_do
from .draws import sampled
from .elsewhere import elsewhere
from .evaluation import graphs
from .failing import failing
from .found import Found
from .growing import growing
from .layout import classes_last, samples_as_time, scrambled
from .losses import broadcast, doubled
from .missing import frozen, missing, misspelt
from .nonfinite import NOT_FINITE, first_nonfinite
from .rebound import rebound
from .running import wrong_mode
from .scale import scale
from .schedule import scheduled
from .sizes import step_size
from .starting import dropped_out, out_of_reach, targets_outside, too_large
from .training import (
    cleared,
    clipped_late,
    dropped,
    made_anew,
    never_stepped,
    nothing_held,
    other_stepped,
    piled_up,
    remade,
)
from .unheld import not_held
from .waiting import asked, copied, waits
from .writing import lost

ORDER: tuple[Callable[[Trace, set[Leaf]], list[Found]], ...] = (
    rebound,
    failing,
    sampled,
    cuts,
    drawn,
    number_added,
    nothing_to_do,
    cleared,
    dropped,
    made_anew,
    remade,
    nothing_held,
    never_stepped,
    other_stepped,
    clipped_late,
    too_large,
    step_size,
    growing,
    first_nonfinite,
    broadcast,
    doubled,
    classes_last,
    scrambled,
    samples_as_time,
    lost,
    out_of_reach,
    targets_outside,
    apart,
    first_only,
    one_for_all,
    scheduled,
    piled_up,
    made_in_forward,
    not_held,
    missing,
    frozen,
    misspelt,
    wrong_mode,
    dropped_out,
    graphs,
    scale,
    double,
    waits,
    copied,
    elsewhere,
    asked,
    overhead,
)
"""Each gets the trace and the parameters that an earlier one has explained, and adds to them."""

WEIGHT = {"error": 0, "warning": 1, "note": 2}


def diagnose(trace: Trace) -> list[Found]:
    """All findings, the gravest first."""
    explained: set[Leaf] = set()
    found = [f for look in ORDER for f in look(trace, explained)]
    # an error that only trips over a NaN comes after the op that made it
    trips = trace.error is not None and NOT_FINITE.search(trace.error.detail or trace.error.message) is not None
    trips = trips and any(f.kind == "nan" for f in found)
    return sorted(found, key=lambda f: (WEIGHT[f.severity], trips and f.kind == "error"))


__all__ = ["Found", "diagnose"]
