"""Groups of processes: how they begin, what they are asked, how they end.

A program that is started once is a world of one process, which needs nothing. ``mpiexec -n 4 python program.py`` starts
a world of four: `init_process_group` finds it, and MPI moves the bytes (``pip install mpi4py mpich``).
"""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlparse

from ..base.errors import text
from ..base.source import warn
from . import checking, joining
from .alone import Alone, several
from .stores import FileStore, Store, TCPStore
from .work import Work, finish

if TYPE_CHECKING:
    from .mpi import Mpi

__all__ = ["Backend", "GroupMember", "ProcessGroup", "destroy_process_group",
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


class ProcessGroup:
    """A group of processes: `ranks` are their numbers among all, in the order of their numbers in the group."""

    def __init__(self, backend: str = "gloo", name: str = "default", ranks: Sequence[int] = (0,),
                 comm: Alone | Mpi | None = None, timeout: timedelta | None = None) -> None:  # fmt: skip
        self._backend, self.group_name, self.bound_device_id = Backend(backend), name, None
        self.comm, self.ranks = comm or Alone(), list(ranks)
        self.store: Store | None = None
        self.timeout_s = (timeout or default_pg_timeout).total_seconds()
        self.group_desc = "one process" if len(self.ranks) == 1 else f"{len(self.ranks)} processes"

    def rank(self) -> int:
        """Return this process's number in the group."""
        return self.comm.rank

    def size(self) -> int:
        """Return how many processes it has."""
        return self.comm.size

    def name(self) -> str:
        """Return the name of its backend."""
        return str(self._backend)

    def number(self, rank: int, op: str = "get_group_rank") -> int:
        """Return the number in the group of a number among all. *Raises*: ValueError for one that is not in it."""
        if rank not in self.ranks:
            if isinstance(self.comm, Alone):
                several(op, f"rank {rank}")
            raise ValueError(text(f"Global rank {rank} is not part of group {self.group_name!r}",
                                  op=f"distributed.{op}", needed=f"one of {self.ranks}"))  # fmt: skip
        return self.ranks.index(rank)

    def refuses(self, t: Any, op: str) -> None:
        """*Raises*: RuntimeError for a tensor that the backend of several processes does not take."""
        if self._backend == "nccl" and self.size() > 1 and t.device.type == "cpu":
            raise RuntimeError(text("No backend type associated with device type cpu", op=f"distributed.{op}",
                                    came="a tensor on the CPU, in a group of the backend nccl",
                                    remedy='init_process_group("gloo")'))  # fmt: skip

    def lost(self) -> list[int]:
        """Return the ranks of the group that have ended too early, as far as is known."""
        return [r for r in joining.lost() if r in self.ranks]

    def failed(self) -> None:
        """Note that a collective has failed: the end of this process then waits for no other."""
        self.comm.failed()


class _World:
    group: ProcessGroup | None = None
    made = 0  # how many groups, which is the same on every rank
    groups: ClassVar[list[ProcessGroup]] = []


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


def is_mpi_available() -> bool:
    """Return whether MPI is installed, which "gloo" and "mpi" both are here: a world of one process needs none."""
    return importlib.util.find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Return False: GPUs of several processes are not joined."""
    return False


is_gloo_available = is_mpi_available
is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Return whether a backend by that name can join several processes."""
    return backend.lower() in (Backend.GLOO, Backend.MPI) and is_mpi_available()


def is_torchelastic_launched() -> bool:
    """Return whether PyTorch's launcher started this process."""
    return os.getenv("TORCHELASTIC_RUN_ID") is not None


def _get_default_group() -> ProcessGroup:
    """Return the group of all processes. *Raises*: ValueError where it has not begun."""
    return _known(None)


def _get_default_store() -> Store | None:
    """Return the store by which the processes found each other, None where ``mpiexec`` has started them."""
    return _known(None).store


def started_by_mpi() -> tuple[int, int] | None:
    """Return the rank and the number of processes that ``mpiexec`` has started, None without it."""
    for rank, size in (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return None


def _mpi() -> Any:
    """Return the module that talks by MPI, which begins with it. *Raises*: RuntimeError where it is not installed."""
    try:
        from . import mpi
    except ImportError as error:
        raise RuntimeError(text("a world of more than one process needs MPI", op="distributed.init_process_group",
                                came=f"{error}", remedy="pip install mpi4py mpich")) from error  # fmt: skip
    return mpi


def _store(init_method: str | None, rank: int, size: int, timeout: timedelta) -> Store:
    """Return the store by which processes that nobody has started together find each other."""
    at = urlparse(init_method or "env://")
    if at.scheme == "file":
        return FileStore(at.path, size)
    host, port = (at.hostname, at.port) if at.scheme == "tcp" else (os.getenv("MASTER_ADDR"), os.getenv("MASTER_PORT"))
    if host is None or port is None:
        raise ValueError(text("the processes of the group have not been started together, and environment variable "
                              "MASTER_ADDR or MASTER_PORT expected, but not set", op="distributed.init_process_group",
                              came=f"init_method={init_method}, world_size={size}, rank={rank}",
                              remedy=f"python -m core.distributed.run -n {size} program.py"))  # fmt: skip
    return TCPStore(host, int(port), size, rank == 0, timeout, wait_for_workers=False)


def _connected(rank: int, size: int, timeout: timedelta, store: Callable[[], Store]) -> tuple[Mpi, Store | None]:
    """Return the communicator of all processes, and the store by which they found each other.

    *Raises*: RuntimeError where MPI is missing, or has started another number of processes.
    """
    launched = started_by_mpi()
    if launched is not None and launched[1] != size:
        raise RuntimeError(text(f"mpiexec has started {launched[1]} processes", op="distributed.init_process_group",
                                came=f"world_size={size}, rank={rank}", needed=f"world_size={launched[1]}",
                                remedy=f"python -m core.distributed.run -n {size} program.py"))  # fmt: skip
    met = None if launched is not None else store()
    if met is not None:
        joining.join(met, rank, size, timeout)
    return _mpi().world(rank, size), met


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
                       world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
                       pg_options: Any = None, device_id: Any = None) -> None:  # fmt: skip
    """Begin the group of all processes.

    What is not given is read from `WORLD_SIZE` and `RANK`, as in PyTorch, or is what ``mpiexec`` has started. "gloo"
    and "mpi" are both this engine: MPI, where there is more than one process. Processes that ``mpiexec`` has not
    started (`core.multiprocessing.spawn` has, or a shell) meet at `init_method` (``tcp://host:port``,
    ``file:///path``), at `store`, or at MASTER_ADDR and MASTER_PORT, where rank 0 listens.

    timeout : how long a collective may take until it raises DistBackendError; 30 minutes.
    pg_options, device_id : passed over.

    Raises
    ------
    RuntimeError
        Where MPI is missing, or not all processes come within the timeout.
    ValueError
        Where it has begun already, or no meeting place is known.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> core.distributed.get_world_size(), core.distributed.get_backend()
    (1, 'gloo')
    >>> core.distributed.destroy_process_group()
    """
    if _World.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    asked = {k: v[-1] for k, v in parse_qs(urlparse(init_method or "").query).items()}
    launched = started_by_mpi() or (0, 1)
    size = world_size if world_size > 0 else int(asked.get("world_size", os.getenv("WORLD_SIZE", str(launched[1]))))
    number = rank if rank >= 0 else int(asked.get("rank", os.getenv("RANK", str(launched[0]) if size > 1 else "0")))
    if not 0 <= number < size:
        raise RuntimeError(text(f"rank {number} is no process of a world of {size}",
                                op="distributed.init_process_group", came=f"world_size={size}, rank={number}",
                                needed=f"a rank from 0 to {size - 1}",
                                remedy="start it with python -m core.distributed.run -n N program.py"))  # fmt: skip
    limit = timeout or default_pg_timeout
    comm, met = (_connected(number, size, limit, lambda: store or _store(init_method, number, size, limit))
                 if size > 1 else (None, store))  # fmt: skip
    made = ProcessGroup((backend or "gloo").split(":")[-1].split(",")[0], group_name or "default", range(size), comm,
                        limit)  # fmt: skip
    made._backend, made.store = Backend(backend or "gloo"), met
    Work("init_process_group", made, made.comm.barrier()).wait()
    _World.group, _World.groups = made, [made]


def abandon(code: int = 1) -> None:
    """Note that this process ends by an error: it then ends the others too, and waits for none."""
    begun = sys.modules.get(f"{__package__}.mpi")
    if begun is not None:
        begun.abandon(code)


def destroy_process_group(group: Any = None) -> None:
    """End a group; without one, all of them. *Raises*: ValueError where none has begun."""
    which = _known(group)
    ended = list(_World.groups) if which is _World.group else [which]
    for g in ended:
        finish(g)
        g.comm.free()
        if g in _World.groups:
            _World.groups.remove(g)
    if which is _World.group:
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


def mine(which: Any, op: str) -> ProcessGroup | None:
    """Return a group, None with a warning for one without this process. *Raises*: ValueError where none has begun."""
    found = _known(which)
    if which is GroupMember.NON_GROUP_MEMBER:
        warn(f"Running {op} on global rank {get_rank()} which does not belong to the given group.")
        return None
    return found


def get_rank(group: Any = None) -> int:
    """Return this process's number, -1 for a group without it. *Raises*: ValueError where none has begun."""
    return _known(group).rank() if member(group) else -1


def get_world_size(group: Any = None) -> int:
    """Return how many processes there are, -1 for a group without this one."""
    return _known(group).size() if member(group) else -1


def get_backend(group: Any = None) -> Backend:
    """Return the name that `init_process_group` was given."""
    return _known(group)._backend


def get_backend_config(group: Any = None) -> str:
    """Return the name that `init_process_group` was given."""
    return str(get_backend(group))


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the number among all processes of a number in a group. *Raises*: ValueError for one that it lacks."""
    ranks = _known(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of the group\n  needed: 0 to {len(ranks) - 1}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the number in a group of a number among all processes. *Raises*: ValueError for one that is not in it."""
    return _known(group).number(global_rank)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the numbers of a group's processes."""
    return list(_known(group).ranks)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's number on its machine."""
    return int(os.getenv("LOCAL_RANK", os.getenv("MPI_LOCALRANKID", str(fallback_rank or 0))))


def get_pg_count() -> int:
    """Return how many groups there are."""
    return len(_World.groups)


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
              pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
              device_id: Any = None, sort_ranks: bool = True) -> Any:  # fmt: skip
    """Return a group of some of the processes; `GroupMember.NON_GROUP_MEMBER` to those that are not in it.

    All processes call it, in the same order. With `use_local_synchronization` those of the group do.

    *Raises*: RuntimeError for ranks that the world lacks, or one that is named twice; DistBackendError where ranks make
    different groups.
    """
    world = _known(None)
    chosen = list(world.ranks) if ranks is None else [int(r) for r in ranks]
    if any(not 0 <= r < world.size() for r in chosen):
        if world.size() == 1:
            several("new_group", f"ranks={chosen}")
        raise RuntimeError(text("The new group's rank should be within the world_size set by init_process_group",
                                op="distributed.new_group", came=f"ranks={chosen}",
                                needed=f"ranks from 0 to {world.size() - 1}"))  # fmt: skip
    if len(set(chosen)) != len(chosen):
        raise RuntimeError(text("the new group names a rank twice", op="distributed.new_group", came=f"ranks={chosen}"))
    if sort_ranks:
        chosen.sort()
    if use_local_synchronization:
        number = zlib.crc32(repr(chosen).encode())
    else:
        _World.made += 1
        number = _World.made
        beside = checking.Beside(world, "new_group", f"{chosen}") if world.size() > 1 else None
        requests = [*(beside.requests if beside else []), *world.comm.barrier()]
        Work("new_group", world, requests, beside=beside).wait()
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(backend or world._backend, f"group {number}", chosen, world.comm.part(chosen, number),
                        timeout or timedelta(seconds=world.timeout_s))  # fmt: skip
    made.group_desc = group_desc or made.group_desc
    _World.groups.append(made)
    return made


def split_group(parent_pg: Any = None, split_ranks: Sequence[Sequence[int]] | None = None,
                timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None,
                backend: str | None = None) -> Any:  # fmt: skip
    """Return this process's group of those that a group is divided into, None where it is in none.

    split_ranks : the numbers in the parent group of each part's processes.
    """
    parent = _known(parent_pg)
    parts = [[parent.ranks[r] for r in part] for part in split_ranks or []]
    own = [part for part in parts if get_rank() in part]
    return new_group(own[0], timeout, backend, use_local_synchronization=True, group_desc=group_desc) if own else None


def get_default_backend_for_device(device: Any) -> str:
    """Return the name of the backend that groups have for a kind of device."""
    return str(Backend.default_device_backend_map.get(str(device).split(":")[0], Backend.GLOO))


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Any, timeout: timedelta | None = None,
                                 *ignored: Any, **more: Any) -> tuple[Any, list[Any]]:  # fmt: skip
    """Return the group of this process (None where it is in none), and all groups.

    *Raises*: ValueError for a rank that is in several.
    """
    parts = [list(ranks) for ranks in ranks_per_subgroup_list]
    flat = [r for part in parts for r in part]
    if len(set(flat)) != len(flat):
        raise ValueError(text("a rank has appeared in several subgroups", op="distributed.new_subgroups_by_enumeration",
                              came=f"{parts}"))  # fmt: skip
    made = [new_group(part, timeout) for part in parts]
    own = [g for g in made if g is not GroupMember.NON_GROUP_MEMBER]
    return (own[0] if own else None), made


def new_subgroups(group_size: int | None = None, group: Any = None, timeout: timedelta | None = None,
                  *ignored: Any, **more: Any) -> tuple[Any, list[Any]]:  # fmt: skip
    """Return the group of this process, and all groups of such a size; without one, a group a machine.

    *Raises*: ValueError for a size that does not divide the number of processes.
    """
    ranks = get_process_group_ranks(group)
    size = group_size or int(os.getenv("LOCAL_WORLD_SIZE", os.getenv("MPI_LOCALNRANKS", str(len(ranks)))))
    if len(ranks) == 1 and size != 1:
        several("new_subgroups", f"group_size={size}")
    if size > len(ranks) or len(ranks) % size:
        raise ValueError(text("The world size must be divisible by the group size", op="distributed.new_subgroups",
                              came=f"group_size={size}, {len(ranks)} processes"))  # fmt: skip
    return new_subgroups_by_enumeration([ranks[k : k + size] for k in range(0, len(ranks), size)], timeout)
