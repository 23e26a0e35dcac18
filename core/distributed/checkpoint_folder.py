"""Checkpoints in a folder, as ``distributed.checkpoint`` has them: a list of what is there, and a part of each process.

The one process's part is a file of `core.save`; the list is JSON. PyTorch's list is a pickle of its own classes: such a
folder is refused, and PyTorch's ``dcp_to_torch_save`` makes a file of it that `core.load` reads.

>>> import core, tempfile
>>> checkpoint = core.distributed.checkpoint
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = checkpoint.save({"model": {"w": core.ones(2)}}, checkpoint_id=folder)
...     state = {"model": {"w": core.zeros(2)}}
...     checkpoint.load(state, checkpoint_id=folder)
>>> state["model"]["w"]
tensor([1., 1.])
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import serialization
from ..base.errors import text
from ..base.modes import no_grad
from ..futures import Future
from ..tensors.tensor import Tensor

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "Metadata",
           "TensorStorageMetadata", "async_save", "dcp_to_torch_save", "load", "load_sharded_optimizer_state_dict",
           "load_state_dict", "save", "save_state_dict", "torch_save_to_dcp"]  # fmt: skip

LIST, PART = ".metadata", "__0_0.distcp"


@dataclass
class TensorStorageMetadata:
    """What a folder says of a tensor: its dtype and its shape."""

    properties: Any
    size: Any
    chunks: list[Any] = field(default_factory=list)


@dataclass
class Metadata:
    """What a folder holds, by the names of its entries."""

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None


class FileSystemWriter:
    """Where a checkpoint is written: a folder, which is made."""

    def __init__(self, path: Any, single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
                 per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False,
                 overwrite: bool = True, **ignored: Any) -> None:  # fmt: skip
        self.path, self.overwrite = Path(path), overwrite

    def reset(self, checkpoint_id: Any = None) -> None:
        """Write into another folder from now on."""
        self.path = self.path if checkpoint_id is None else Path(checkpoint_id)

    def write(self, entries: dict[str, Any]) -> None:
        """Write entries by their names. *Raises*: RuntimeError where there is a checkpoint that must not be lost."""
        if not self.overwrite and (self.path / LIST).exists():
            raise RuntimeError(text("Checkpoint already exists and self.overwrite=False.", op="distributed.checkpoint",
                                    came=str(self.path)))  # fmt: skip
        self.path.mkdir(parents=True, exist_ok=True)
        serialization.save(entries, self.path / PART)
        told = {k: [str(x.dtype).removeprefix("core."), list(x.shape)] if isinstance(x, Tensor) else None
                for k, x in entries.items()}  # fmt: skip
        beside = self.path / f"{LIST}.new"
        beside.write_text(json.dumps({"written by": "core", "entries": told}))
        os.replace(beside, self.path / LIST)  # the list last: a folder without one is no checkpoint


class FileSystemReader:
    """Where a checkpoint is read: a folder that `FileSystemWriter` wrote."""

    def __init__(self, path: Any, *ignored: Any, **more: Any) -> None:
        self.path = Path(path)

    def reset(self, checkpoint_id: Any = None) -> None:
        """Read another folder from now on."""
        self.path = self.path if checkpoint_id is None else Path(checkpoint_id)

    def _listed(self) -> dict[str, Any]:
        found = (self.path / LIST).read_bytes()
        if not found.startswith(b"{"):
            raise RuntimeError(
                text("a folder that PyTorch wrote is not read here", op="distributed.checkpoint", came=str(self.path),
                     remedy="with PyTorch: torch.distributed.checkpoint.format_utils.dcp_to_torch_save(folder, file), "
                            "then core.load(file)")
            )  # fmt: skip
        return json.loads(found)["entries"]  # type: ignore[no-any-return]

    def read_metadata(self) -> Metadata:
        """Return what the folder holds."""
        return Metadata({k: None if x is None else TensorStorageMetadata(x[0], tuple(x[1]))
                         for k, x in self._listed().items()})  # fmt: skip

    def read(self) -> dict[str, Any]:
        """Return the entries by their names. *Raises*: RuntimeError for a folder that PyTorch wrote."""
        self._listed()
        return serialization.load(self.path / PART, weights_only=False)  # type: ignore[no-any-return]


@dataclass
class DefaultSavePlanner:
    """How a checkpoint is divided among processes: one writes it all. A state is always flattened."""

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    dedup_replicated_tensors: Any = None
    dedup_save_to_lowest_rank: bool = False
    enable_plan_caching: bool = False


@dataclass
class DefaultLoadPlanner:
    """How a checkpoint is read: whether entries that it lacks are left as they are."""

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    allow_partial_load: bool = False


def _flat(state: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield the entries of nested dicts and lists: name, container, key and value."""
    many = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in many:
        name = f"{prefix}{key}"
        if isinstance(value, dict | list) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield name, state, key, value


def _stateful(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state in which what has a `state_dict` stands for it."""
    return {k: x.state_dict() if hasattr(x, "state_dict") else x for k, x in state.items()}


def save(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None, planner: Any = None,
         process_group: Any = None, no_dist: bool = False, use_collectives: bool = True) -> Metadata:  # fmt: skip
    """Write a state into a folder, and return what it holds."""
    writer = storage_writer or FileSystemWriter(checkpoint_id)
    if storage_writer is not None and checkpoint_id is not None:
        writer.reset(checkpoint_id)
    writer.write({name: x.detach() if isinstance(x, Tensor) else x for name, _, _, x in _flat(_stateful(state_dict))})
    return FileSystemReader(writer.path).read_metadata()


def load(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_reader: Any = None, planner: Any = None,
         process_group: Any = None, no_dist: bool = False) -> None:  # fmt: skip
    """Read a folder into a state: its tensors are written, other values replaced, and states of objects loaded.

    *Raises*: RuntimeError for an entry that the folder lacks, or a tensor of another shape.
    """
    reader = storage_reader or FileSystemReader(checkpoint_id)
    if storage_reader is not None and checkpoint_id is not None:
        reader.reset(checkpoint_id)
    entries, states = reader.read(), _stateful(state_dict)
    for name, holder, key, value in _flat(states):
        if name not in entries:
            if getattr(planner, "allow_partial_load", False):
                continue
            raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
        if isinstance(value, Tensor) and isinstance(entries[name], Tensor):
            if value.shape != entries[name].shape:
                raise ValueError(f"Size mismatch between saved {tuple(entries[name].shape)} and current: "
                                 f"{tuple(value.shape)} for {name}")  # fmt: skip
            with no_grad():
                value.copy_(entries[name])  # type: ignore[attr-defined]
        else:
            holder[key] = entries[name]
    for key, value in state_dict.items():
        if hasattr(value, "load_state_dict"):
            value.load_state_dict(states[key])
        elif states[key] is not value:
            state_dict[key] = states[key]


def save_state_dict(state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None) -> Metadata:  # fmt: skip
    """Write a state: `save`, by an older name."""
    return save(state_dict, storage_writer=storage_writer, planner=planner)


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None) -> None:  # fmt: skip
    """Read a state: `load`, by an older name."""
    load(state_dict, storage_reader=storage_reader, planner=planner)


def async_save(state_dict: dict[str, Any], **kwargs: Any) -> Future:
    """Write a state, and return what is done already."""
    kwargs = {k: x for k, x in kwargs.items() if k in ("checkpoint_id", "storage_writer", "planner", "process_group")}
    found: Future = Future()
    found.set_result(save(state_dict, **kwargs))
    return found


def load_sharded_optimizer_state_dict(model_state_dict: dict[str, Any], optimizer_key: str, storage_reader: Any,
                                      planner: Any = None) -> dict[str, Any]:  # fmt: skip
    """Return the entries of a folder that stand under `optimizer_key`, nested again by their names."""
    found: dict[str, Any] = {}
    for name, value in storage_reader.read().items():
        if name.startswith(f"{optimizer_key}."):
            first, *rest = name.removeprefix(f"{optimizer_key}.").split(".", 1)
            found.setdefault(first, {})[rest[0] if rest else ""] = value
    return {optimizer_key: found}


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Write the entries of a folder into one file."""
    serialization.save(FileSystemReader(dcp_checkpoint_dir).read(), torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Write a file's state into a folder."""
    save(serialization.load(torch_save_path, weights_only=False), checkpoint_id=dcp_checkpoint_dir)
