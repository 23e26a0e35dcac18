"""Values that come from a GPU, for which the host waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def fetched(fetch: Callable[[], Any]) -> Any:
    """What `fetch` brings from a GPU; what went wrong there since the last wait is told first."""
    from ..backends.cuda.faults import waited  # here, as they stand on what imports this
    from ..backends.cuda.shared import retell

    try:
        value = fetch()
    except RuntimeError as error:
        retell(error)
    waited()
    return value
