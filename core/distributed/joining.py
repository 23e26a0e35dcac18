"""How processes that nobody has started together become a world of MPI.

``mpiexec`` gives each of its processes a connection over which MPI learns of the others (PMI 1, MPICH's protocol). Here
a store's process does so: rank 0 says in the store where it is, all ranks join there, and MPI begins on that
connection.
"""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta

from ..base.errors import text
from .dist_errors import DistStoreError
from .stores import Store, TCPStore, connection

__all__ = ["join", "joined", "lost"]

_kept: list[TCPStore] = []  # where this process has joined
_job = [""]
_FIELDS = ("PMI_FD", "PMI_RANK", "PMI_SIZE")


def join(store: Store, rank: int, size: int, timeout: timedelta) -> None:
    """Join the ranks that meet at a store; MPI begins here, once in the life of a process.

    *Raises*: DistStoreError where not all ranks come in time.
    """
    if f"{__package__}.mpi" in sys.modules:  # the same processes have joined before
        return
    if rank == 0:
        here = os.getenv("MASTER_ADDR", "127.0.0.1")
        kept = store if isinstance(store, TCPStore) else TCPStore(here, 0, is_master=True, timeout=timeout)
        store.set("core/mpi", f"{kept.host} {kept.port}")
    host, port = store.get("core/mpi").decode().split(" ")
    made = connection(host, int(port), timeout)
    made.sendall(f"cmd=join job=mpi rank={rank} size={size} host={socket.gethostname()}\n".encode())
    made.settimeout(timeout.total_seconds())
    try:
        said = made.recv(1 << 10).decode().strip()
        if not said.startswith("job="):
            raise ConnectionError("the store's process has ended")
    except OSError as error:
        raise DistStoreError(text(f"not all processes have joined the group: {error}",
                                  op="distributed.init_process_group", came=f"rank {rank} of {size}",
                                  needed=f"{size} processes within {timeout}",
                                  remedy="look whether all have started, each with its own rank"),
                             ) from error  # fmt: skip
    made.settimeout(None)
    _kept[:], _job[:] = [TCPStore(host, int(port), timeout=timeout)], [said.removeprefix("job=")]
    os.environ.update(zip(_FIELDS, (str(made.detach()), str(rank), str(size)), strict=True))
    try:
        from . import mpi  # noqa: F401 - it begins here
    finally:
        for name in _FIELDS:  # no child of this process is a rank
            del os.environ[name]


def joined() -> bool:
    """Return whether this process has joined others, which no ``mpiexec`` watches."""
    return bool(_kept)


def lost() -> list[int]:
    """Return the ranks that have joined and ended without leaving MPI; of ``mpiexec``'s it ends the job itself."""
    said = _kept[0].ask(cmd="lost", job=_job[0])["value"] if _kept else ""
    return [int(r) for r in said.split(",") if r]
