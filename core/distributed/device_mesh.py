"""Processes in a grid, for one process: a mesh with 1 in each of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.creation import zeros
from .groups import get_backend, init_process_group, is_initialized, new_group, several

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of processes with a name for each of its dimensions: this process alone.

    >>> import core
    >>> mesh = core.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh.shape, mesh.get_local_rank("data"), mesh["model"].ndim
    ((1, 1), 0, 1)
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None,
                 **ignored: Any) -> None:  # fmt: skip
        shape = tuple(getattr(mesh, "shape", None) or (len(mesh),))
        if math.prod(shape) != 1:
            several("DeviceMesh", f"a mesh of {shape}")
        if not is_initialized():
            init_process_group()
        self.device_type, self.mesh_dim_names = device_type, tuple(mesh_dim_names) if mesh_dim_names else None
        self.mesh = zeros(shape, dtype=int)
        self._groups = [new_group([0], backend=get_backend()) for _ in shape]

    @classmethod
    def from_group(cls, group: Any, device_type: str, mesh: Any = None, *,
                   mesh_dim_names: Sequence[str] | None = None) -> DeviceMesh:  # fmt: skip
        """Return the mesh of a group of processes, or of several, one a dimension."""
        many = len(group) if isinstance(group, list | tuple) else 1
        return cls(device_type, zeros((1,) * many, dtype=int), mesh_dim_names=mesh_dim_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes each dimension has: 1."""
        return tuple(self.mesh.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self.mesh.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        """Return how many processes it has, or a dimension of it: 1."""
        return 1

    def _place(self, mesh_dim: Any) -> int:
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"Invalid mesh_dim_name {mesh_dim!r}; needed: one of {self.mesh_dim_names}")
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return mesh_dim or 0

    def get_group(self, mesh_dim: Any = None) -> Any:
        """Return the group of a dimension."""
        return self._groups[self._place(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """Return the groups of all dimensions."""
        return list(self._groups)

    def get_rank(self) -> int:
        """Return this process's number: 0."""
        return 0

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """Return this process's number in a dimension: 0."""
        self._place(mesh_dim)
        return 0

    def get_coordinate(self) -> list[int]:
        """Return where this process stands: at 0 in every dimension."""
        return [0] * self.ndim

    def __getitem__(self, names: str | Sequence[str]) -> DeviceMesh:
        many = (names,) if isinstance(names, str) else tuple(names)
        for name in many:
            self._place(name)
        return DeviceMesh(self.device_type, zeros((1,) * len(many), dtype=int), mesh_dim_names=many)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Return it as a mesh of one dimension."""
        return DeviceMesh(self.device_type, [0], mesh_dim_names=(mesh_dim_name,) if mesh_dim_name else None)

    def __repr__(self) -> str:
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}, mesh_dim_names={self.mesh_dim_names})"


def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: Sequence[str] | None = None,
                     **ignored: Any) -> DeviceMesh:  # fmt: skip
    """Return a grid of processes; the group begins where it has not.

    *Raises*: RuntimeError for a grid of more than one process.
    """
    if math.prod(mesh_shape) != 1:
        several("init_device_mesh", f"mesh_shape={mesh_shape}")
    return DeviceMesh(device_type, zeros(mesh_shape, dtype=int), mesh_dim_names=mesh_dim_names)
