"""Processes in a grid: a group of them along each of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import text
from ..ops.creation import tensor
from .alone import several
from .groups import get_process_group_ranks, get_rank, get_world_size, init_process_group, is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of processes with a name for each of its dimensions. All processes make it together.

    Raises
    ------
    RuntimeError
        For more processes than there are, or for one that stands in it twice.

    >>> import core
    >>> mesh = core.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh.shape, mesh.get_local_rank("data"), mesh["model"].ndim
    ((1, 1), 0, 1)
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None,
                 _groups: list[Any] | None = None, _root: DeviceMesh | None = None,
                 **ignored: Any) -> None:  # fmt: skip
        if not is_initialized():
            init_process_group()
        self._ranks = np.array(mesh.tolist() if hasattr(mesh, "tolist") else mesh, dtype=np.int64)
        known = get_world_size()
        if self._ranks.size > known or len(np.unique(self._ranks)) != self._ranks.size or self._ranks.max() >= known:
            if known == 1:
                several("DeviceMesh", f"a mesh of {self._ranks.shape}")
            raise RuntimeError(text("Mesh should not be bigger than default world size, nor name a rank twice",
                                    op="distributed.DeviceMesh", came=f"{self._ranks.tolist()}",
                                    needed=f"ranks from 0 to {known - 1}"))  # fmt: skip
        self.device_type, self.mesh_dim_names = device_type, tuple(mesh_dim_names) if mesh_dim_names else None
        self.mesh, self._root = tensor(self._ranks.tolist()), _root or self
        self._groups = _groups or [self._along(dim) for dim in range(self._ranks.ndim)]

    def _along(self, dim: int) -> Any:
        """Return this process's group along a dimension; all processes make all of them."""
        lines = np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim])
        made = [(line, new_group(line.tolist())) for line in lines]
        return next((group for line, group in made if get_rank() in line), None)

    @classmethod
    def from_group(cls, group: Any, device_type: str, mesh: Any = None, *,
                   mesh_dim_names: Sequence[str] | None = None) -> DeviceMesh:  # fmt: skip
        """Return the mesh of a group of processes, or of several, one a dimension, with their `mesh`."""
        many = list(group) if isinstance(group, list | tuple) else [group]
        if mesh is None and len(many) > 1:
            if get_world_size() > 1:
                raise ValueError(text("Must pass mesh if passing multiple ProcessGroups", op="DeviceMesh.from_group"))
            mesh = np.zeros((1,) * len(many))
        ranks = get_process_group_ranks(many[0]) if mesh is None else mesh
        return cls(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=many)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes each dimension has."""
        return tuple(self._ranks.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._ranks.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        """Return how many processes it has, or a dimension of it."""
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim])

    def _place(self, mesh_dim: Any) -> int:
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"Invalid mesh_dim_name {mesh_dim!r}; needed: one of {self.mesh_dim_names}")
            return (self.mesh_dim_names or ()).index(mesh_dim)
        if mesh_dim is None and self.ndim > 1 and self.size() > 1:
            raise RuntimeError(text(f"Found the DeviceMesh have {self.ndim} dimensions", op="DeviceMesh",
                                    needed="mesh_dim, which of them"))  # fmt: skip
        return mesh_dim or 0

    def get_group(self, mesh_dim: Any = None) -> Any:
        """Return this process's group along a dimension."""
        return self._groups[self._place(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """Return this process's groups along all dimensions."""
        return list(self._groups)

    def get_rank(self) -> int:
        """Return this process's number among all."""
        return get_rank()

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """Return this process's number along a dimension."""
        at = self.get_coordinate()
        return -1 if at is None else at[self._place(mesh_dim)]

    def get_coordinate(self) -> list[int] | None:
        """Return where this process stands, None where it does not."""
        found = np.argwhere(self._ranks == get_rank())
        return found[0].tolist() if len(found) else None

    def __getitem__(self, names: str | Sequence[str]) -> DeviceMesh:
        """Return the part of the mesh along some of its dimensions in which this process stands."""
        many = (names,) if isinstance(names, str) else tuple(names)
        places = [self._place(name) for name in many]
        at = self.get_coordinate() or [0] * self.ndim
        kept = self._ranks[tuple(slice(None) if d in places else at[d] for d in range(self.ndim))]
        kept = kept.transpose([sorted(places).index(d) for d in places])
        return DeviceMesh(self.device_type, kept, mesh_dim_names=many, _groups=[self._groups[d] for d in places],
                          _root=self._root)  # fmt: skip

    def beside(self, other: DeviceMesh) -> DeviceMesh:
        """Return the mesh of this one's dimensions and then another's. *Raises*: ValueError unless both are parts of
        one mesh."""
        if self._root is not other._root or set(self.mesh_dim_names or ()) & set(other.mesh_dim_names or ()):
            raise ValueError(text("FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh",
                                  op="DeviceMesh", came=f"{self} and {other}",
                                  remedy="mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('dp', 'tp')), then "
                                         "mesh['tp'] and mesh['dp']"))  # fmt: skip
        return self._root[(*(self.mesh_dim_names or ()), *(other.mesh_dim_names or ()))]

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Return it as a mesh of one dimension, which all processes of it make."""
        group = new_group(self._ranks.reshape(-1).tolist(), use_local_synchronization=True)
        return DeviceMesh(self.device_type, self._ranks.reshape(-1), _groups=[group],
                          mesh_dim_names=(mesh_dim_name,) if mesh_dim_name else None)  # fmt: skip

    def __repr__(self) -> str:
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}, mesh_dim_names={self.mesh_dim_names})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and (self.device_type, self.mesh_dim_names, self._ranks.tolist()) == (
            other.device_type, other.mesh_dim_names, other._ranks.tolist())  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.device_type, self.mesh_dim_names, self._ranks.tobytes(), self._ranks.shape))


def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: Sequence[str] | None = None,
                     **ignored: Any) -> DeviceMesh:  # fmt: skip
    """Return a grid of all processes; the group begins where it has not.

    *Raises*: RuntimeError for a grid of another number of processes.
    """
    if mesh_dim_names is not None and (
        len(set(mesh_dim_names)) != len(mesh_dim_names) or len(mesh_dim_names) != len(mesh_shape)
    ):
        raise RuntimeError(text("Each mesh_dim_name must be unique, one for each dimension", op="init_device_mesh",
                                came=f"{mesh_dim_names} for {mesh_shape}"))  # fmt: skip
    return DeviceMesh(device_type, np.arange(math.prod(mesh_shape)).reshape(mesh_shape), mesh_dim_names=mesh_dim_names)
