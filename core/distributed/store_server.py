"""The process that keeps what ranks share: a store's keys and values, and what MPI asks of whoever started its ranks.

`TCPStore` starts it beside the process that is the store's master, by this file's path, so that nothing of core is
imported here: an own process, since MPI begins without letting the master's threads run. A line is a request, its
fields ``name=value`` by blanks, and is answered by a line. The store's are `set`, `get`, `add`, `swap`, `append`,
`delete` and `count`, keys and values in hexadecimal digits; `join`, which is answered when all ranks of a job have said
it, and `lost`, which of them have ended too early; and those of PMI 1, the protocol by which MPICH's ranks find each
other. Values are never run or unpickled.

The process ends when its parent has ended (its standard input does) and no rank is connected.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import sys
from itertools import groupby

_PMI = {  # what is answered always
    "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "maxes kvsname_max=256 keylen_max=64 vallen_max=4096 rc=0",
    "get_appnum": "appnum appnum=0 rc=0",
    "finalize": "finalize_ack rc=0",
}


def placed(hosts: list[str]) -> str:
    """Return which ranks are on one machine as PMI says it: runs of (machine, 1, how many ranks).

    >>> placed(["a", "a", "b"])
    '(vector,(0,1,2),(1,1,1))'
    """
    numbers = {host: k for k, host in enumerate(dict.fromkeys(hosts))}
    runs = [(numbers[host], len(list(run))) for host, run in groupby(hosts)]
    return f"(vector,{','.join(f'({node},1,{n})' for node, n in runs)})"


class _Job:
    """The ranks of one world of MPI, while they find each other and until they end."""

    def __init__(self, size: int) -> None:
        self.size, self.name = size, f"core_{secrets.token_hex(8)}"  # MPICH names shared memory by it
        self.hosts: dict[int, str] = {}
        self.values: dict[str, str] = {}
        self.waiting: list[socket.socket] = []
        self.joined: list[socket.socket] = []


class _Server:
    def __init__(self, listener: socket.socket) -> None:
        self.values: dict[str, str] = {}
        self.jobs: dict[str, _Job] = {}
        self.lost: dict[str, list[str]] = {}
        self.rank_of: dict[socket.socket, tuple[_Job, str]] = {}
        self.unread: dict[socket.socket, bytes] = {}
        self.listener, self.parent = listener, True
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.selector.register(sys.stdin, selectors.EVENT_READ)

    def run(self) -> None:
        while self.parent or self.unread:
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    made, _ = self.listener.accept()
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.unread[made] = b""
                    self.selector.register(made, selectors.EVENT_READ)
                elif key.fileobj is sys.stdin:
                    self.parent = False
                    self.selector.unregister(sys.stdin)
                else:
                    self.read(key.fileobj)  # type: ignore[arg-type]

    def read(self, one: socket.socket) -> None:
        try:
            came = one.recv(1 << 16)
        except OSError:
            came = b""
        if not came:
            self.gone(one)
            return
        *lines, self.unread[one] = (self.unread[one] + came).split(b"\n")
        for line in lines:
            fields = dict(f.split("=", 1) for f in line.decode().split(" ") if "=" in f)
            said = self.answer(one, fields)
            if said is not None:
                self.say(one, said)

    def gone(self, one: socket.socket) -> None:
        self.selector.unregister(one)
        del self.unread[one]
        one.close()
        job, rank = self.rank_of.pop(one, (None, ""))
        if job is not None:  # without `finalize`: the others are told when they ask
            self.lost.setdefault(job.name, []).append(rank)

    def say(self, one: socket.socket, said: str) -> None:
        with contextlib.suppress(OSError):  # its end is read as such
            one.sendall(f"{said}\n".encode())

    def answer(self, one: socket.socket, fields: dict[str, str]) -> str | None:
        asked, key, value = fields.get("cmd", ""), fields.get("key", ""), fields.get("value", "")
        if asked == "join":
            return self.join(one, fields)
        if one in self.rank_of:
            return self.pmi(one, asked, key, value)
        if asked == "set":
            self.values[key] = value
        elif asked == "add":
            self.values[key] = str(int(bytes.fromhex(self.values.get(key, "30"))) + int(value)).encode().hex()
        elif asked == "append":
            self.values[key] = self.values.get(key, "") + value
        elif asked == "swap":
            if self.values.get(key, "") == fields.get("expected", ""):
                self.values[key] = value
        elif asked == "delete":
            return f"value={self.values.pop(key, None) is not None:d}"
        elif asked == "count":
            return f"value={len(self.values)}"
        elif asked == "lost":
            return f"value={','.join(self.lost.get(fields['job'], []))}"
        return f"value={self.values[key]}" if key in self.values else "missing=1"

    def join(self, one: socket.socket, fields: dict[str, str]) -> str | None:
        job = self.jobs.setdefault(fields["job"], _Job(int(fields["size"])))
        job.hosts[int(fields["rank"])] = fields["host"]
        job.joined.append(one)
        self.rank_of[one] = job, fields["rank"]
        if len(job.hosts) == job.size:
            job.values["PMI_process_mapping"] = placed([job.hosts[k] for k in range(job.size)])
            for other in job.joined:
                self.say(other, f"job={job.name}")
        return None

    def pmi(self, one: socket.socket, asked: str, key: str, value: str) -> str | None:
        job, _ = self.rank_of[one]
        if asked == "put":
            job.values[key] = value
            return "cmd=put_result rc=0 msg=success"
        if asked == "get":
            if key in job.values:
                return f"cmd=get_result rc=0 msg=success value={job.values[key]}"
            return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        if asked == "barrier_in":
            job.waiting.append(one)
            if len(job.waiting) == job.size:
                for other in job.waiting:
                    self.say(other, "cmd=barrier_out rc=0")
                job.waiting.clear()
            return None
        if asked == "get_my_kvsname":
            return f"cmd=my_kvsname kvsname={job.name} rc=0"
        if asked == "get_universe_size":
            return f"cmd=universe_size size={job.size} rc=0"
        if asked == "finalize":
            del self.rank_of[one]
        return f"cmd={_PMI[asked]}" if asked in _PMI else None


if __name__ == "__main__":
    _Server(socket.socket(fileno=int(sys.argv[1]))).run()
