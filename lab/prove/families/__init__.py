"""The remedies by families; importing this fills their table."""

from . import (  # isort: skip - their order is that in which patches are tried
    chosen,
    data,
    evaluations,
    formulas,
    graphs,
    loops,
    losses,
    losses_by_example,
    memory,
    modes,
    moments,
    numerics,
    orders,
    earlier,
    speed,
    speed_by_example,
    stated,
    steps,
    values_by_example,
    arguments,
)
