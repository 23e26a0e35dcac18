"""``python -m tests.core.distributed.two_hosts``: two "hosts" of this machine, two ranks on each, over a slow network.

A host is a network namespace (``ip netns``, which needs root). Between the two a process of this file carries the
packets, with a delay, and loses some: the kernel's netem does that as well, and is not built everywhere. mpiexec
reaches a host by a program in ssh's place that enters its namespace. Jobs run as in `failures`; one without a fault has
to give the loss that it gives on one host, and a host whose cable is pulled has to be named.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import re
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from core.distributed.worker import ALONE_S
from tests.core.distributed.failures import PROGRAM, ROOT, TIMEOUT_S, Case, expected, follow, left_behind

ADDRESSES = {"hosta": "10.77.21.1", "hostb": "10.77.21.2"}
MTU = 8000


def _tun(namespace: str) -> int:
    """Return a device that hands a namespace's packets to this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, 0):
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(
            device, 0x400454CA, struct.pack("16sH22x", b"net0", 0x0001 | 0x1000)
        )  # TUNSETIFF: IFF_TUN, IFF_NO_PI
    finally:
        libc.setns(own, 0)
        os.close(own)
        os.close(there)
    return device


def relay(delay_s: float, loss: float) -> None:
    """Carry packets between the namespaces until this process is ended; all are lost after SIGUSR1."""
    devices = [_tun(name) for name in ADDRESSES]
    for name, address in ADDRESSES.items():
        for words in (f"addr add {address}/24 dev net0", f"link set net0 mtu {MTU} up", "link set lo up"):
            subprocess.run(["ip", "netns", "exec", name, "ip", *words.split()], check=True)
    lost = [loss]
    signal.signal(signal.SIGUSR1, lambda *_: lost.__setitem__(0, 1.0))
    signal.signal(signal.SIGUSR2, lambda *_: lost.__setitem__(0, loss))
    signal.signal(
        signal.SIGTERM, lambda *_: (print(f"{count} packets carried, {dropped} lost", flush=True), os._exit(0))
    )
    print("ready", flush=True)
    draw, due, count, dropped = random.Random(1), [], 0, 0  # type: ignore[var-annotated]
    ready = selectors.DefaultSelector()
    for k, device in enumerate(devices):
        ready.register(device, selectors.EVENT_READ, devices[1 - k])
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        for key, _ in ready.select(wait):
            for _ in range(64):
                try:
                    packet = os.read(key.fd, 65536)
                except BlockingIOError:
                    break
                count += 1
                if draw.random() < lost[0]:
                    dropped += 1
                else:
                    heapq.heappush(due, (time.monotonic() + delay_s, count, key.data, packet))
        while due and due[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(due)
            try:
                os.write(device, packet)
            except OSError:
                continue


class TwoHosts:
    """A block in which the hosts are there."""

    def __init__(self, delay_ms: float, loss: float) -> None:
        self.delay_ms, self.loss = delay_ms, loss

    def __enter__(self) -> TwoHosts:
        self.folder = Path(tempfile.mkdtemp(prefix="two-hosts-"))
        for name in ADDRESSES:
            subprocess.run(["ip", "netns", "add", name], check=True)
            etc = Path("/etc/netns", name)
            etc.mkdir(parents=True, exist_ok=True)
            (etc / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in ADDRESSES.items()))
        command = [
            sys.executable,
            "-m",
            "tests.core.distributed.two_hosts",
            "--relay",
            str(self.delay_ms),
            str(self.loss),
        ]
        self.relay = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.relay.stdout is not None
        if self.relay.stdout.readline() != "ready\n":
            raise OSError("the relay did not begin")
        self.ssh = self.folder / "ssh"
        self.ssh.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
                            'exec ip netns exec "$host" setsid --fork --wait sh -c "$*"\n')  # fmt: skip
        self.ssh.chmod(0o755)
        (self.folder / "hosts").write_text("hosta:2\nhostb:2\n")
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.terminate()
        print(self.relay.communicate()[0].strip())
        for name in ADDRESSES:
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(Path("/etc/netns", name), ignore_errors=True)
        shutil.rmtree(self.folder)

    def cable(self, there: bool) -> None:
        """Pull the cable, or put it back."""
        self.relay.send_signal(signal.SIGUSR2 if there else signal.SIGUSR1)

    def start(self, arguments: list[str], options: list[str], mark: str) -> subprocess.Popen[str]:
        """Start the launcher on the first host."""
        command = ["ip", "netns", "exec", "hosta", sys.executable, "-m", "core.distributed.run", "--hosts",
                   str(self.folder / "hosts"), "--ssh", str(self.ssh), "--mpiexec-args", "-localhost hosta", *options,
                   str(PROGRAM), *arguments]  # fmt: skip
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "FAILURES_MARK": mark, "OMP_NUM_THREADS": "1", "UCX_TLS": "tcp,self",
                 "UCX_NET_DEVICES": "net0"})  # fmt: skip


def play(hosts: TwoHosts, case: Case) -> tuple[Case, str]:
    """Run a job on the two hosts."""
    mark = f"two-hosts-{os.getpid()}-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        again = ["--restarts", "1"] if case.again else []
        begin = time.monotonic()
        launcher = hosts.start([case.fault, str(case.rank), str(case.step), folder],
                               ["--timeout", str(TIMEOUT_S), *again], mark)  # fmt: skip
        at = Path(folder, "failed")
        while case.fault == "cut" and not at.exists():
            time.sleep(0.01)
        if case.fault == "cut":
            hosts.cable(False)
        said, ended = follow(launcher)
        case.late_s = ended - float(at.read_text()) if at.exists() else time.monotonic() - begin
        if case.fault == "cut":  # the ranks on the other host end by themselves
            time.sleep(2 * TIMEOUT_S + ALONE_S)
            hosts.cable(True)
        case.wrong += [f"left behind: {k}" for k in left_behind(mark)]
    told = " ".join(said.split())
    case.said = told.partition("core.distributed.run: ")[2]
    if case.fault == "cut" and not re.search(r"heard from hostb .* with ranks 2 and 3", case.said):
        case.wrong.append("the host is not named")
    elif case.fault not in ("none", "cut"):
        case.wrong += expected(case, case.said)
        if f"on host{'ab'[case.rank // 2]}" not in case.said:
            case.wrong.append("the host is not named")
    loss = re.search(r"last loss ([\d.]+)", told)
    return case, loss[1] if loss else ""


def main() -> None:
    """Run the command line."""
    p = argparse.ArgumentParser("python -m tests.core.distributed.two_hosts")
    p.add_argument("--relay", nargs=2, type=float, metavar=("MS", "LOSS"), help=argparse.SUPPRESS)
    p.add_argument("--delay-ms", type=float, default=2.0, help="one way")
    p.add_argument("--loss", type=float, default=0.01, help="the share of packets that are lost")
    o = p.parse_args()
    if o.relay:
        relay(o.relay[0] / 1000, o.relay[1])
    with TwoHosts(o.delay_ms, o.loss) as hosts:
        for fault, rank, again in (("none", 0, ""), ("raise", 3, "restarts"), ("kill", 2, ""), ("segv", 1, ""),
                                   ("sleep", 2, "restarts"), ("left", 3, ""), ("cut", 0, "")):  # fmt: skip
            case, loss = play(hosts, Case(fault, 4, rank, 7, again))
            print(f"{fault:6s} rank {rank}: {case.late_s:5.1f} s, last loss {loss or '-'}, {case.wrong or 'ok'}")
            print(f"       {case.said}", flush=True)


if __name__ == "__main__":
    main()
