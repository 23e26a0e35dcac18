"""The group of processes, which has one: how it begins, what it is asked, how it ends.

Programs for many processes that are started as one (world size 1) run as they are. More are refused where they are
asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, NoReturn
from urllib.parse import parse_qs, urlparse

from ..base.errors import text

__all__ = ["Backend", "GroupMember", "HashStore", "ProcessGroup", "Store", "TCPStore", "destroy_process_group",
           "get_backend", "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size",
           "group", "init_process_group", "is_available", "is_backend_available", "is_gloo_available",
           "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available",
           "is_xccl_available", "new_group", "new_subgroups", "new_subgroups_by_enumeration"]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)


class Backend(str):
    """The name of a way in which processes talk. Kept, and of no effect: there is nobody to talk to.

    >>> import core
    >>> core.distributed.Backend("GLOO"), core.distributed.Backend.NCCL
    ('gloo', 'nccl')
    """

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    default_device_backend_map: ClassVar = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_list: ClassVar = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name: str) -> Backend:
        """*Raises*: ValueError for what is no string."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish\n  came: {type(name).__name__}")
        return super().__new__(cls, name.lower())


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


class ProcessGroup:
    """A group of processes: this one."""

    def __init__(self, backend: str = "gloo", name: str = "default") -> None:
        self._backend, self.group_name, self.bound_device_id = Backend(backend), name, None

    def rank(self) -> int:
        """Return this process's number in the group: 0."""
        return 0

    def size(self) -> int:
        """Return how many processes it has: 1."""
        return 1

    def name(self) -> str:
        """Return the name of its backend."""
        return str(self._backend)

    group_desc = "one process"


class _World:
    group: ProcessGroup | None = None


class _WorldOf(type):
    """Finds `WORLD` when it is asked for: it is made by `init_process_group`."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _World.group


class group(metaclass=_WorldOf):
    """`group.WORLD` is the group of all processes, None before `init_process_group`."""


class GroupMember(metaclass=_WorldOf):
    """`WORLD`, and what stands for a group without this process."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Return True: a group of one process can be made."""
    return True


def is_initialized() -> bool:
    """Return whether `init_process_group` was called."""
    return _World.group is not None


def is_gloo_available() -> bool:
    """Return False: no library that joins processes is used."""
    return False


is_nccl_available = is_mpi_available = is_ucc_available = is_xccl_available = is_gloo_available


def is_backend_available(backend: str) -> bool:
    """Return False: no library that joins processes is used."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether PyTorch's launcher started this process."""
    return os.getenv("TORCHELASTIC_RUN_ID") is not None


def several(op: str, came: str) -> NoReturn:
    """Raise RuntimeError for what needs more than one process."""
    raise RuntimeError(text("core.distributed has one process", op=f"distributed.{op}", came=came,
                            needed="world_size=1, rank=0",
                            remedy="start the program once, or run it on PyTorch"))  # fmt: skip


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
                       world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
                       pg_options: Any = None, device_id: Any = None) -> None:  # fmt: skip
    """Begin the group of this process. What is not given is read from `WORLD_SIZE` and `RANK`, as in PyTorch.

    backend, timeout, pg_options, device_id : kept or passed over: nothing is sent.

    Raises
    ------
    RuntimeError
        For a world of more than one process.
    ValueError
        Where it has begun already.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> core.distributed.get_world_size(), core.distributed.get_backend()
    (1, 'gloo')
    >>> core.distributed.destroy_process_group()
    """
    if _World.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    asked = {k: v[-1] for k, v in parse_qs(urlparse(init_method or "").query).items()}
    size = world_size if world_size > 0 else int(asked.get("world_size", os.getenv("WORLD_SIZE", "1")))
    number = rank if rank >= 0 else int(asked.get("rank", os.getenv("RANK", "0")))
    if size != 1 or number != 0:
        several("init_process_group", f"world_size={size}, rank={number}")
    _World.group = ProcessGroup((backend or "gloo").split(":")[-1].split(",")[0], group_name or "default")
    _World.group._backend = Backend(backend or "gloo")


def destroy_process_group(group: Any = None) -> None:
    """End the group. *Raises*: ValueError where it has not begun."""
    _known(group)
    if group is None or group is _World.group:
        _World.group = None


def _known(which: Any) -> ProcessGroup:
    """Return a group. *Raises*: ValueError where none has begun."""
    if _World.group is None:
        raise ValueError(text("Default process group has not been initialized, please make sure to call "
                              "init_process_group.", op="distributed", remedy="core.distributed."
                              "init_process_group('gloo', world_size=1, rank=0)"))  # fmt: skip
    return which if isinstance(which, ProcessGroup) else _World.group


def member(which: Any) -> bool:
    """Return whether this process is in a group. *Raises*: ValueError where none has begun."""
    _known(which)
    return which is not GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """Return this process's number: 0, or -1 for a group without it. *Raises*: ValueError where none has begun."""
    return 0 if member(group) else -1


def get_world_size(group: Any = None) -> int:
    """Return how many processes there are: 1, or -1 for a group without this one."""
    return 1 if member(group) else -1


def get_backend(group: Any = None) -> Backend:
    """Return the name that `init_process_group` was given."""
    return _known(group)._backend


def get_backend_config(group: Any = None) -> str:
    """Return the name that `init_process_group` was given."""
    return str(get_backend(group))


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the number among all processes of a number in a group."""
    _only(group_rank)
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the number in a group of a number among all processes."""
    _only(global_rank)
    return 0


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the numbers of a group's processes."""
    _known(group)
    return [0]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's number on its machine."""
    return int(os.getenv("LOCAL_RANK", "0" if fallback_rank is None else str(fallback_rank)))


def get_pg_count() -> int:
    """Return how many groups there are."""
    return int(is_initialized())


def _only(rank: int) -> None:
    if rank != 0:
        raise ValueError(f"rank {rank} is no process of the group\n  needed: 0, the only one")


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
              *ignored: Any, **more: Any) -> Any:  # fmt: skip
    """Return a group of some of the processes: of this one, or what stands for a group without it."""
    world = _known(None)
    if ranks is not None and any(r != 0 for r in ranks):
        several("new_group", f"ranks={list(ranks)}")
    if ranks is not None and not len(ranks):
        return GroupMember.NON_GROUP_MEMBER
    return ProcessGroup(backend or world._backend, f"group {time.monotonic_ns()}")


def set_debug_level_from_env() -> None:
    """Read how much PyTorch's C++ would say of what it sends: nothing is sent."""


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Any, *ignored: Any, **more: Any) -> tuple[Any, list[Any]]:
    """Return the group of this process, and all groups of such members.

    *Raises*: RuntimeError for members other than this process.
    """
    if [list(ranks) for ranks in ranks_per_subgroup_list] != [[0]]:
        several("new_subgroups_by_enumeration", f"{ranks_per_subgroup_list}")
    return new_subgroups(1)


def new_subgroups(group_size: int | None = None, *ignored: Any, **more: Any) -> tuple[Any, list[Any]]:
    """Return the group of this process, and all groups of such a size."""
    if group_size not in (None, 1):
        several("new_subgroups", f"group_size={group_size}")
    made = new_group([0])
    return made, [made]
