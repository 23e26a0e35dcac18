"""What is wrong with a cell, each thing in one sentence that names the line: a list of small functions over a trace."""

from __future__ import annotations

from collections.abc import Callable

from ..recorder.cell_trace import Leaf, Trace
from .batches import apart, first_only, one_for_all
from .cell_error import failing
from .constant_terms import number_added
from .cost import double, overhead
from .cpu_fallback import elsewhere
from .cut import cuts, drawn, nothing_to_do
from .dimension_order import classes_last, samples_as_time, scrambled
from .evaluation import graphs
from .finding import Found
from .gradient_scale import scale
from .growing_values import growing
from .loop_waits import asked, copied, waits
from .losses import broadcast, doubled
from .lost_writes import lost
from .missing_gradients import frozen, missing, misspelt
from .module_modes import wrong_mode
from .nonfinite import NOT_FINITE, first_nonfinite
from .parameters_in_forward import made_in_forward
from .rebound_parameters import rebound
from .sampled_values import sampled
from .schedule import scheduled
from .start_values import dropped_out, out_of_reach, targets_outside, too_large
from .step_sizes import step_size
from .training_steps import (
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
from .unheld_parameters import not_held

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
