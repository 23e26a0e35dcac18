"""The remedies by families; importing this fills their table."""

from . import (
    data,
    formulas,
    graphs,
    losses,
    memory,
    modes,
    numerics,
    speed,
    stated,
    steps,
)
