"""The remedies by families; importing this fills their table."""

from . import stated  # noqa: F401 - what a finding's own sentence says comes first
from . import data, graphs, losses, memory, modes, numbers, speed, steps  # noqa: F401
