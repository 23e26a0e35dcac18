"""Keys and values that the processes of a group share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..base.errors import text

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]


class Store:
    """Keys and values that the processes of a group share: a dict of this one."""

    def __init__(self, *ignored: Any, **more: Any) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """Return a value.

        *Raises*: KeyError where nobody set it: there is no other process that could.
        """
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return it."""
        total = int(self._values.get(key, b"0")) + amount
        self.set(key, str(total))
        return total

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all of the keys are set."""
        return all(k in self._values for k in keys)

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was set."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return how many keys are set."""
        return len(self._values)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Return at once where all keys are set.

        *Raises*: RuntimeError where one is not: no other process will set it.
        """
        missing = [k for k in keys if k not in self._values]
        if missing:
            raise RuntimeError(text(f"wait timeout, keys: {missing}", op="distributed.Store.wait",
                                    needed="keys that this process set: there is no other"))  # fmt: skip


HashStore = TCPStore = FileStore = PrefixStore = Store
