"""What a request is refused with."""

from __future__ import annotations

REASONS = ("malformed", "unknown model", "too large", "too slow", "names", "dtype", "shape", "queue full", "data",
           "internal", "not found")  # fmt: skip
"""What refusals are counted by; a client's own words never become a label of a metric."""


class Refused(Exception):
    """A request that is answered with an error: its HTTP status, one of `REASONS`, and the text for the client."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        assert reason in REASONS, reason
        self.status, self.reason, self.message = status, reason, message
