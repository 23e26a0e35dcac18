"""Checkpoints in a folder, as ``distributed.checkpoint`` has them: a list of what is there, and a part of each process.

Each process writes its parts of divided tensors (`DTensor`); what all of them hold is written by one. A part is a
file of `core.save`; the list, in JSON, says which rows and columns each part has, so that a checkpoint loads in any
number of processes. It is written last: a folder has the checkpoint before until the new one is whole. PyTorch's list
is a pickle of its own classes: such a folder is refused, and PyTorch's ``dcp_to_torch_save`` makes a file of it that
`core.load` reads.

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

import concurrent.futures
import copy
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import serialization
from ..base.errors import text
from ..base.modes import no_grad
from ..ops.creation import empty
from ..optim.optimizer import Optimizer
from ..tensors.tensor import Tensor
from .checkpoint_parts import (
    ChunkStorageMetadata,
    Metadata,
    Processes,
    Region,
    TensorStorageMetadata,
    region_of,
    summed_up,
)
from .divided_states import begun, local_state, named_state
from .dtensor import DTensor, local_of

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "async_save",
           "dcp_to_torch_save", "load", "load_sharded_optimizer_state_dict", "load_state_dict", "save",
           "save_state_dict", "torch_save_to_dcp"]  # fmt: skip

LIST, PART = ".metadata", "__0_0.distcp"
LATE_S = 1800.0  # after which a part does not come
_thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
_writing: list[concurrent.futures.Future[Any]] = []  # what `async_save` has begun last


class _Plan(NamedTuple):
    """What a process writes: the names of all parts, the entries of its own, and the list of all entries."""

    rank: int
    names: list[str]
    number: int
    mine: dict[str, Any]
    listed: dict[str, Any]


class _NotWritten(RuntimeError):
    """A process could not write."""


class FileSystemWriter:
    """Where a checkpoint is written: a folder, which is made."""

    def __init__(self, path: Any, single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
                 per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False,
                 overwrite: bool = True, **ignored: Any) -> None:  # fmt: skip
        self.path, self.overwrite, self.sync_files = Path(path), overwrite, sync_files

    def reset(self, checkpoint_id: Any = None) -> None:
        """Write into another folder from now on."""
        self.path = self.path if checkpoint_id is None else Path(checkpoint_id)

    def write(self, entries: dict[str, Any], processes: Processes | None = None) -> None:
        """Write entries by their names; all processes call this.

        *Raises*: RuntimeError where there is a checkpoint that must not be lost, or a process could not write.
        """
        processes, error = processes or Processes(None, True), None
        plan = self.planned(entries, processes)
        try:
            self._write_part(plan)
        except Exception as wrong:
            error = wrong
        processes.agreed("write", error)
        if processes.rank == 0:
            self._publish(plan)
        processes.agreed("end", None)

    def planned(self, entries: dict[str, Any], processes: Processes) -> _Plan:
        """Return what each process writes, which all of them say together; nothing is written.

        *Raises*: RuntimeError where there is a checkpoint that must not be lost.
        """
        if not self.overwrite and (self.path / LIST).exists():
            raise RuntimeError(text("Checkpoint already exists and self.overwrite=False.", op="distributed.checkpoint",
                                    came=str(self.path)))  # fmt: skip
        entries = {name: summed_up(x) for name, x in entries.items()}
        mine, told = self._divided(entries, processes)
        number, listed = self._number(processes), {}  # type: int, dict[str, Any]
        names = [f"__{rank}_{number}.distcp" for rank in range(processes.size)]
        self._failed(names[processes.rank]).unlink(missing_ok=True)
        for name_of_part, chunks in zip(names, processes.told(told), strict=True):
            for name, (kind, shape, block) in chunks.items():
                entry = listed.setdefault(name, {"dtype": kind, "shape": shape, "chunks": []})
                entry["chunks"].append([name_of_part, *(block or ())])
        return _Plan(processes.rank, names, number, mine, listed)

    def _failed(self, part: str) -> Path:
        return self.path / f"{part}.failed"

    def _write_part(self, plan: _Plan) -> None:
        """Write this process's part; it has its name once it is whole."""
        part = self.path / plan.names[plan.rank]
        beside = part.with_suffix(".new")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with open(beside, "wb") as file:
                serialization.save(plan.mine, file)
                if self.sync_files:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(beside, part)
        except Exception:
            beside.unlink(missing_ok=True)
            raise

    def _publish(self, plan: _Plan) -> None:
        """Write the list, with which the folder has the new checkpoint; remove the parts of the one before."""
        beside = self.path / f"{LIST}.new"
        beside.write_text(json.dumps({"written by": "core", "number": plan.number, "entries": plan.listed}))
        os.replace(beside, self.path / LIST)
        named = {chunk[0] for entry in plan.listed.values() for chunk in entry["chunks"]}
        for old in self.path.glob("__*.distcp"):
            if old.name not in named:
                old.unlink(missing_ok=True)

    def write_apart(self, plan: _Plan) -> Metadata:
        """Write what was planned, from a thread: processes see by the folder's files when all parts are there.

        *Raises*: RuntimeError where a process could not write, or has not within half an hour.
        """
        own, until = self._failed(plan.names[plan.rank]), time.monotonic() + LATE_S
        try:
            self._write_part(plan)
            while not self._is_whole(plan, until):
                time.sleep(0.02)
            if plan.rank == 0:
                self._publish(plan)
        except Exception as error:
            (self.path / plan.names[plan.rank]).unlink(missing_ok=True)
            if isinstance(error, _NotWritten):
                raise
            own.write_text(f"{type(error).__name__}: {error}")
            raise self._not_written(plan, plan.rank) from error
        return FileSystemReader(self.path).read_metadata()

    def _not_written(self, plan: _Plan, rank: int) -> _NotWritten:
        why = self._failed(plan.names[rank]).read_text()
        return _NotWritten(text(f"rank {rank} could not write its part of the checkpoint: {why}",
                                op="distributed.checkpoint.async_save", came=f"rank {plan.rank} of {len(plan.names)}",
                                remedy="the checkpoint before is as it was"))  # fmt: skip

    def _is_whole(self, plan: _Plan, until: float) -> bool:
        """Return whether all parts are there: for rank 0 the parts, for the others the list."""
        for rank, name in enumerate(plan.names):
            if self._failed(name).exists():
                raise self._not_written(plan, rank)
        if time.monotonic() > until:
            raise RuntimeError(text("not all parts of the checkpoint have been written", came=str(self.path),
                                    op="distributed.checkpoint.async_save", needed="all within half an hour",
                                    remedy="a folder that all processes see"))  # fmt: skip
        if plan.rank == 0:
            return all((self.path / name).exists() for name in plan.names)
        listed = self.path / LIST
        return listed.exists() and json.loads(listed.read_bytes()).get("number") == plan.number

    def _number(self, processes: Processes) -> int:
        """Return a number for the names of parts that no part of the checkpoint before has."""
        taken = [p.stem.split("_")[-1] for p in self.path.glob("__*.distcp")]
        number = max([int(n) + 1 for n in taken if n.isdigit()] or [0])
        return int(max(processes.told(number)))

    @staticmethod
    def _divided(entries: dict[str, Any], processes: Processes) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what this process writes, and what the list says of it: dtype, shape and block of each entry."""
        mine: dict[str, Any] = {}
        told: dict[str, Any] = {}
        every = processes.told([(name, x.nbytes if isinstance(x, Tensor) else 0) for name, x in entries.items()
                                if not isinstance(x, DTensor)])  # fmt: skip
        load, writer = [0] * processes.size, {}  # type: list[int], dict[str, int]
        for name, size in sorted({entry for some in every for entry in some}, key=lambda e: (-e[1], e[0])):
            having = [rank for rank in range(processes.size) if (name, size) in every[rank]]
            writer.setdefault(name, min(having, key=lambda rank: (load[rank], rank)))
            load[writer[name]] += size
        for name, x in entries.items():
            if not isinstance(x, Tensor):
                if writer[name] == processes.rank:
                    mine[name], told[name] = x, (None, None, None)
                continue
            block, first = region_of(x)
            if (first and all(block.shape)) if isinstance(x, DTensor) else writer[name] == processes.rank:
                local = local_of(x).detach()
                mine[name] = local.clone() if isinstance(x, DTensor) else local
                told[name] = str(x.dtype).removeprefix("core."), list(x.shape), block
        return mine, told


class FileSystemReader:
    """Where a checkpoint is read: a folder that `FileSystemWriter` wrote."""

    def __init__(self, path: Any, *ignored: Any, **more: Any) -> None:
        self.path = Path(path)
        self._parts: dict[str, Any] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Read another folder from now on."""
        self.path = self.path if checkpoint_id is None else Path(checkpoint_id)
        self._parts.clear()

    def _listed(self) -> dict[str, Any]:
        found = (self.path / LIST).read_bytes()
        if not found.startswith(b"{"):
            raise RuntimeError(
                text("a folder that PyTorch wrote is not read here", op="distributed.checkpoint", came=str(self.path),
                     remedy="with PyTorch: torch.distributed.checkpoint.format_utils.dcp_to_torch_save(folder, file), "
                            "then core.load(file)")
            )  # fmt: skip
        return {name: self._entry(entry) for name, entry in json.loads(found)["entries"].items()}

    @staticmethod
    def _entry(entry: Any) -> dict[str, Any]:
        """Return an entry of the list; one of a time when a folder had one part says only dtype and shape."""
        if isinstance(entry, dict):
            return entry
        if entry is None:
            return {"dtype": None, "shape": None, "chunks": [[PART]]}
        kind, shape = entry
        return {"dtype": kind, "shape": shape, "chunks": [[PART, [0] * len(shape), shape]]}

    def read_metadata(self) -> Metadata:
        """Return what the folder holds."""
        return Metadata({
            name: None if e["dtype"] is None else TensorStorageMetadata(
                e["dtype"], tuple(e["shape"]), [ChunkStorageMetadata(tuple(c[1]), tuple(c[2])) for c in e["chunks"]])
            for name, e in self._listed().items()})  # fmt: skip

    def _part(self, file: str) -> Any:
        if file not in self._parts:
            self._parts[file] = serialization.load(self.path / file, weights_only=False, mmap=True)
        return self._parts[file]

    def value(self, name: str, entry: dict[str, Any]) -> Any:
        """Return an entry, a tensor whole."""
        one = self._part(entry["chunks"][0][0])[name]
        if entry["dtype"] is None:
            return copy.deepcopy(one)  # tensors in it are the file
        whole = empty(entry["shape"], dtype=one.dtype)
        self.fill(name, entry, whole, Region((0,) * len(entry["shape"]), tuple(entry["shape"])))
        return whole

    def fill(self, name: str, entry: dict[str, Any], target: Any, block: Region) -> None:
        """Write a block of an entry into a tensor, from the parts that have some of it."""
        with no_grad():
            for file, begin, shape in entry["chunks"]:
                common = block.within(Region(tuple(begin), tuple(shape)))
                if common is not None:
                    into = target[common[0]] if target.ndim else target
                    saved = self._part(file)[name]
                    into.copy_(saved[common[1]] if saved.ndim else saved)

    def read(self) -> dict[str, Any]:
        """Return the entries by their names, tensors whole. *Raises*: RuntimeError for a folder that PyTorch wrote."""
        return {name: self.value(name, entry) for name, entry in self._listed().items()}


@dataclass
class DefaultSavePlanner:
    """How a checkpoint is divided among processes: as tensors are. A state is always flattened."""

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
    """Return a state in which what has a `state_dict` stands for it; an optimizer's is divided as the parameters."""
    return {k: named_state(x) if isinstance(x, Optimizer) else x.state_dict() if hasattr(x, "state_dict") else x
            for k, x in state.items()}  # fmt: skip


def save(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None, planner: Any = None,
         process_group: Any = None, no_dist: bool = False, use_collectives: bool = True) -> Metadata:  # fmt: skip
    """Write a state into a folder that all processes see, and return what it holds. All processes call this.

    no_dist : whether this process writes alone.

    *Raises*: RuntimeError in all processes where one could not write its part; the checkpoint before is left as it was.
    """
    writer, entries, processes = _begun(state_dict, checkpoint_id, storage_writer, process_group, no_dist)
    writer.write(entries, processes)
    return FileSystemReader(writer.path).read_metadata()


def _begun(state_dict: dict[str, Any], checkpoint_id: Any, storage_writer: Any, process_group: Any,
           no_dist: bool) -> tuple[Any, dict[str, Any], Processes]:  # fmt: skip
    """Return who writes, the entries, and with which processes, once what `async_save` has begun is written."""
    concurrent.futures.wait(_writing)
    writer = storage_writer or FileSystemWriter(checkpoint_id)
    if storage_writer is not None and checkpoint_id is not None:
        writer.reset(checkpoint_id)
    entries = {name: x.detach() if isinstance(x, Tensor) else x for name, _, _, x in _flat(_stateful(state_dict))}
    return writer, entries, Processes(process_group, no_dist)


def load(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_reader: Any = None, planner: Any = None,
         process_group: Any = None, no_dist: bool = False) -> None:  # fmt: skip
    """Read a folder into a state: its tensors are written, other values replaced, and states of objects loaded.

    Each process reads what it has of divided tensors, however many wrote them. An optimizer without a state gets one
    first, from a step that changes nothing.

    *Raises*: RuntimeError for an entry that the folder lacks, or a tensor of another shape.
    """
    reader = storage_reader or FileSystemReader(checkpoint_id)
    if storage_reader is not None and checkpoint_id is not None:
        reader.reset(checkpoint_id)
    for value in state_dict.values():
        if isinstance(value, Optimizer):
            begun(value)
    entries, states = reader._listed(), _stateful(state_dict)
    for name, holder, key, value in _flat(states):
        if name not in entries:
            if getattr(planner, "allow_partial_load", False):
                continue
            raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
        entry = entries[name]
        if isinstance(value, Tensor) and entry["dtype"] is not None:
            if list(value.shape) != entry["shape"]:
                raise ValueError(f"Size mismatch between saved {tuple(entry['shape'])} and current: "
                                 f"{tuple(value.shape)} for {name}")  # fmt: skip
            reader.fill(name, entry, local_of(value.detach()), region_of(value)[0])  # type: ignore[attr-defined]
        else:
            holder[key] = reader.value(name, entry)
    for key, value in state_dict.items():
        if hasattr(value, "load_state_dict"):
            state = states[key]
            value.load_state_dict(local_state(value, state) if isinstance(value, Optimizer) else state)
        elif states[key] is not value:
            state_dict[key] = states[key]


def save_state_dict(state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None) -> Metadata:  # fmt: skip
    """Write a state: `save`, by an older name."""
    return save(state_dict, storage_writer=storage_writer, planner=planner, process_group=process_group,
                no_dist=no_dist)  # fmt: skip


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None) -> None:  # fmt: skip
    """Read a state: `load`, by an older name."""
    load(state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group, no_dist=no_dist)


def async_save(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
               planner: Any = None, process_group: Any = None, no_dist: bool = False,
               **ignored: Any) -> concurrent.futures.Future[Metadata]:  # fmt: skip
    """Write a state while the program goes on; return what its end is asked of: ``result()`` waits for it.

    All processes call this. The state is copied first; a checkpoint that is still being written is waited for. The
    thread that writes sends nothing between the processes.

    >>> import core, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     work = core.distributed.checkpoint.async_save({"w": core.ones(2)}, checkpoint_id=folder)
    ...     list(work.result().state_dict_metadata)
    ['w']
    """
    writer, entries, processes = _begun(state_dict, checkpoint_id, storage_writer, process_group, no_dist)
    plan = writer.planned(entries, processes)
    copied = {name: x.clone() if isinstance(x, Tensor) else copy.deepcopy(x) for name, x in plan.mine.items()}
    _writing[:] = [_thread.submit(writer.write_apart, plan._replace(mine=copied))]
    return _writing[0]


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
