"""The remedies by families; importing this fills their table."""

from . import (
    arguments,
    data,
    formulas,
    graphs,
    losses,
    losses_by_example,
    memory,
    modes,
    numerics,
    speed,
    stated,
    steps,
    values_by_example,
)
