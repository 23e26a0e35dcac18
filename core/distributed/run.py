"""``python -m core.distributed.run -n 4 train.py``: a program on several ranks, as ``torchrun`` starts it, by mpiexec.

    -n 4                      ranks on this host
    --hosts file              ranks on other hosts: a line is "name" or "name:4"; mpiexec reaches them by ssh
    --timeout 600             a rank that makes no optimizer step and no collective for so many seconds hangs
    --restarts 2              start again after a failure, at most twice; the program goes on from its newest checkpoint
    --shrink                  ... with so many ranks fewer as have failed
    --check                   compare each collective's name, shape and dtype between ranks first (DETAIL of PyTorch)
    --logs folder             keep what each rank prints in a file of its own

Who failed, or hangs, is said in a paragraph: rank, host, step, line. All ranks are ended then, and what they started.
The program finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT and the number of
this start, TORCHELASTIC_RESTART_COUNT. torchrun's options are understood: ``--nproc-per-node``, ``--nnodes 1``,
``--standalone``, ``--max-restarts``, ``-m module``, ``--log-dir`` and those of a rendezvous, which none is needed for.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import worker
from .job import Job, Output
from .verdict import Failure, Rank, Stopped

__all__ = ["get_args_parser", "main", "parse_args", "run"]

_PASSED = ("node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-conf", "local-addr", "monitor-interval", "start-method",
           "role", "redirects", "tee", "local-ranks-filter", "logs-specs", "event-log-handler")  # fmt: skip


class Refused(Exception):
    """What cannot be started, and why."""


@dataclass(frozen=True)
class Host:
    """A host and how many ranks it takes."""

    name: str
    slots: int


def get_args_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    p = argparse.ArgumentParser("python -m core.distributed.run", description=(__doc__ or "").partition("\n\n")[0],
                                allow_abbrev=False)  # fmt: skip
    p.add_argument("-n", "--nproc-per-node", "--nproc_per_node", default=None, metavar="N",
                   help="ranks on this host, or in all with --hosts; auto or cpu: one for each core")  # fmt: skip
    p.add_argument("--hosts", help="a file of hosts: lines of name or name:ranks")
    p.add_argument("--restarts", "--max-restarts", "--max_restarts", type=int, default=0, metavar="K",
                   help="how often to start again after a failure")  # fmt: skip
    p.add_argument("--shrink", action="store_true", help="start again without as many ranks as have failed")
    p.add_argument("--timeout", type=float, metavar="SECONDS",
                   help="a rank without a step or a collective for so long hangs; 0: never; without this option: 1800, "
                        "if another rank waits for it")  # fmt: skip
    p.add_argument("--check", action="store_true", help="compare each collective between the ranks before it runs")
    p.add_argument("--logs", "--log-dir", "--log_dir", metavar="FOLDER", help="keep what each rank prints in a file")
    p.add_argument("--report", metavar="FILE", help="write the last failure to a file too, as JSON")
    p.add_argument("--quiet", action="store_true", help="do not show what ranks print")
    p.add_argument("--mpiexec", help="the mpiexec of MPICH (that beside this Python, else of the PATH)")
    p.add_argument("--mpiexec-args", default="", help="more options of mpiexec, as one word")
    p.add_argument("--ssh", help="the program that reaches other hosts, in place of ssh")
    p.add_argument("--nnodes", default="1", help="1: more hosts are a matter of --hosts")
    p.add_argument("--standalone", action="store_true", help="passed over: it is always so")
    p.add_argument("--master-addr", "--master_addr", help="what the variable MASTER_ADDR is")
    p.add_argument("--master-port", "--master_port", type=int, help="what the variable MASTER_PORT is")
    p.add_argument("--rdzv-id", "--rdzv_id", default="none", help="the variable TORCHELASTIC_RUN_ID")
    for name in _PASSED:
        short = {"redirects": ["-r"], "tee": ["-t"]}.get(name, [])
        p.add_argument(*short, *dict.fromkeys([f"--{name}", f"--{name.replace('-', '_')}"]), help="passed over")
    p.add_argument("-m", "--module", action="store_true", help="the program is a module, as of python -m")
    p.add_argument("--no-python", "--no_python", action="store_true", help="the program is no Python")
    p.add_argument("training_script", metavar="program")
    p.add_argument("training_script_args", nargs=argparse.REMAINDER, metavar="args")
    return p


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    return get_args_parser().parse_args(args)


# -- what is started ---------------------------------------------------------------------------------------------------


def _number(asked: str | None) -> int | None:
    if asked in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if asked is None or (asked.isdigit() and int(asked) > 0):
        return asked and int(asked)  # type: ignore[return-value]
    raise Refused(f"-n {asked}: needed is a number of ranks, auto or cpu")


def read_hosts(path: str) -> list[Host]:
    """Return the hosts of a file.

    *Raises*: Refused for a line that is neither "name", "name:ranks" nor "name slots=ranks".
    """
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.partition("#")[0].replace("slots=", ":").replace(" :", ":").split()
            if not words:
                continue
            name, _, slots = words[0].partition(":")
            if len(words) > 1 or not name or (slots and not (slots.isdigit() and int(slots))):
                raise Refused(f"{path}:{number}: {line.strip()!r} is no host; needed is name or name:ranks")
            found.append(Host(name, int(slots or 1)))
    if not found:
        raise Refused(f"{path} names no host")
    return found


def _hosts(options: argparse.Namespace) -> list[Host]:
    """Return the hosts with their ranks."""
    asked = _number(options.nproc_per_node)
    if options.nnodes not in ("1", "1:1"):
        raise Refused(
            f"--nnodes {options.nnodes}: one launcher starts all ranks; needed is --hosts, a file of the hosts"
        )
    if not options.hosts:
        return [Host("", asked or 1)]
    hosts = read_hosts(options.hosts)
    left = sum(h.slots for h in hosts) if asked is None else asked
    if left > sum(h.slots for h in hosts):
        raise Refused(f"-n {left}: the hosts of {options.hosts} take {sum(h.slots for h in hosts)} ranks")
    chosen = []
    for host in hosts:
        if left:
            chosen.append(Host(host.name, min(left, host.slots)))
            left -= chosen[-1].slots
    return chosen


def find_mpiexec(given: str | None = None) -> str:
    """Return the path of MPICH's mpiexec: that given, that beside this Python, or that of the PATH.

    *Raises*: Refused where there is none, or it is another MPI's, whose options and output are others.
    """
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "mpiexec")
    path = given or (beside if os.access(beside, os.X_OK) else shutil.which("mpiexec"))
    if path is None or importlib.util.find_spec("mpi4py") is None:
        what = "mpiexec" if path is None else "mpi4py"
        raise Refused(f'there is no {what}; remedy: pip install "gradlab[mpi]" (mpi4py and MPICH)')
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except OSError as error:
        raise Refused(f"{path} does not start: {error}") from error
    if "HYDRA" not in said:
        raise Refused(f"{path} is not MPICH's mpiexec (it says {said.strip().splitlines()[:1]}); remedy: "
                      "pip install mpich, without another MPI beside it, or --mpiexec PATH")  # fmt: skip
    return path


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("", 0))
        return int(s.getsockname()[1])


class Launch:
    """Starts of one program, one after the other, until one ends well or there are enough."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.hosts = options, _hosts(options)
        self.mpiexec, self.folder, self.stop = find_mpiexec(options.mpiexec), "", []  # type: str, str, list[int]
        if not (options.module or options.no_python or os.path.isfile(options.training_script)):
            raise Refused(f"there is no file {options.training_script}")

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return sum(h.slots for h in self.hosts)

    def command(self, mark: str) -> list[str]:
        """Return the command that starts the ranks."""
        o = self.options
        found = [self.mpiexec, "-prepend-pattern", f"<{mark}:%r>", "-n", str(self.size)]
        if self.hosts[0].name:
            path = os.path.join(self.folder, "hosts")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{h.name}:{h.slots}\n" for h in self.hosts)
            found += ["-f", path, *(["-launcher-exec", o.ssh] if o.ssh else [])]
        kind = ["-m"] if o.module else ["--no-python"] if o.no_python else []
        return [*found, *o.mpiexec_args.split(), sys.executable, os.path.abspath(worker.__file__), *kind,
                o.training_script, *o.training_script_args]  # fmt: skip

    def environment(self, mark: str, attempt: int) -> dict[str, str]:
        """Return the variables that all ranks have in common; a rank's own are its worker's."""
        o = self.options
        told: dict[str, Any] = {
            worker.MARK: mark, "CORE_RUN_HOSTS": ",".join(str(h.slots) for h in self.hosts),
            "CORE_RUN_TIMEOUT": o.timeout or 0, "MASTER_ADDR": o.master_addr or self.hosts[0].name or "127.0.0.1",
            "MASTER_PORT": o.master_port or _free_port(), "TORCHELASTIC_RESTART_COUNT": attempt,
            "TORCHELASTIC_MAX_RESTARTS": o.restarts, "TORCHELASTIC_RUN_ID": o.rdzv_id,
            "TORCHELASTIC_USE_AGENT_STORE": "False"}  # fmt: skip
        if self.size > 1:
            told = {"OMP_NUM_THREADS": 1, **{k: v for k, v in os.environ.items() if k == "OMP_NUM_THREADS"}, **told}
        if o.check:
            told["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "HYDI_", "MPI_LOCAL"))
        }  # another job's
        return {**kept, **{k: str(v) for k, v in told.items()}}

    def start(self, attempt: int) -> Failure | None:
        """Start the ranks once; return None where all ended well."""
        o, mark = self.options, secrets.token_hex(12)
        logs = os.path.join(o.logs, f"attempt_{attempt}") if o.logs else None
        ranks = [Rank(k, attempt=attempt) for k in range(self.size)]
        return Job(self.command(mark), self.environment(mark, attempt), mark, ranks, o.timeout,
                   Output(self.size > 1, logs, o.quiet), self.stop).run()  # fmt: skip

    def shrink(self, failure: Failure) -> None:
        """Take the ranks away that have failed, from their hosts; none where all have, which tells of no host."""
        failed = {rank.number for rank in failure.guilty}
        if len(failed) == self.size:
            return
        nodes = [k for k, h in enumerate(self.hosts) for _ in range(h.slots)]
        left = [Host(h.name, h.slots - sum(nodes[r] == k for r in failed)) for k, h in enumerate(self.hosts)]
        self.hosts = [h for h in left if h.slots]

    def run(self) -> int:
        """Start the program until it ends well; return the exit code."""
        for attempt in range(self.options.restarts + 1):
            size = self.size
            failure = self.start(attempt)
            if failure is None:
                return 0
            told = f"{failure} All ranks were ended, {failure.ran_s:.1f} s after the start."
            again = attempt < self.options.restarts and not isinstance(failure, Stopped)
            if again:
                if self.options.shrink and size > 1:
                    self.shrink(failure)
                told += f" The job starts again ({attempt + 1} of {self.options.restarts}) on {self.size} ranks."
            say(told)
            if self.options.report:
                failed = [{"rank": r.number, "host": r.host, "pid": r.pid, "code": r.code, "step": r.step,
                           "error": r.error, **{k: r.place.get(k) for k in ("file", "line", "text")}}
                          for r in failure.guilty]  # fmt: skip
                with open(self.options.report, "w", encoding="utf-8") as file:
                    json.dump({"kind": failure.kind, "said": str(failure), "failed": failed}, file)
            if not again:
                return failure.code
        return 1


def say(told: str) -> None:
    """Say a paragraph on stderr."""
    lines = textwrap.wrap(f"core.distributed.run: {told}", 100, break_long_words=False, break_on_hyphens=False)
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def run(options: argparse.Namespace) -> int:
    """Run a program as the options say; return the exit code."""
    try:
        launch = Launch(options)
    except (Refused, OSError) as error:
        say(f"{error}.")
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT:
            signal.signal(number, lambda number, _: launch.stop.append(number))
    try:
        with tempfile.TemporaryDirectory(prefix="core.distributed.run.") as launch.folder:
            return launch.run()
    except BrokenPipeError:  # nobody reads any more, as after `| head`: all ranks have been ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line.

    *Raises*: SystemExit with the exit code, unless it is 0.
    """
    if code := run(parse_args(args)):
        sys.exit(code)


if __name__ == "__main__":
    main()
