"""The errors of processes that talk to each other, by PyTorch's names.

RuntimeError
└── DistError
    ├── DistBackendError     a collective failed, took too long, or another rank called something else
    ├── DistNetworkError     no connection was made
    └── DistStoreError       a store did not answer in time
"""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError"]


class DistError(RuntimeError):
    """Something failed between the processes of a group."""


class DistBackendError(DistError):
    """A collective failed, took longer than the group's timeout, or met another one on another rank."""


class DistNetworkError(DistError):
    """A connection between processes was not made."""


class DistStoreError(DistError):
    """A store did not answer in time."""
