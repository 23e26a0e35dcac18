"""`Tensor`, and what every tensor can do without an op: be printed, copied, read."""

from . import copying, overriding
