"""Values that are read from another device, for which the host waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

readers: dict[str, Callable[[Callable[[], Any]], Any]] = {}  # by the type of device; `core.backends.add` fills it


def to_host(fetch: Callable[[], Any], device_type: str) -> Any:
    """Return what `fetch` brings from a device; what went wrong there since the last wait is raised first."""
    return readers[device_type](fetch)
