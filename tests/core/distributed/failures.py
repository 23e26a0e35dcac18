"""``python -m tests.core.distributed.failures 100``: jobs that fail on purpose, and what the launcher says of them.

Each is a job of 2 to 4 ranks (`faulty`), one of which fails in one of many ways at some step. Looked at are: how long
after the fault the launcher ended (for what hangs: after the timeout that it was given); whether it named rank, step
and line; whether a process is left that the job started; whether a job that starts again, with as many ranks or with
fewer, ends with the loss of a job without faults. ``--only kill,stop`` runs some kinds, ``--seed`` other ranks and
steps.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = Path(__file__).with_name("faulty.py")
ROOT = Path(__file__).parents[3]
TIMEOUT_S, LIMIT_S = 8.0, 10.0
HANGS = {"stop", "loop", "sleep", "held", "pair"}  # these are noticed after the launcher's timeout
KINDS = ("kill", "stop", "loop", "sleep", "held", "raise", "exit", "exit0", "segv", "abort", "memory", "left", "shapes",
         "another", "disk", "pair", "partial", "megabytes", "child", "thread", "ctrl-c", "checked-shapes",
         "checked-another", "keeper", "launcher")  # fmt: skip
OURSELVES = {"ctrl-c": "sleep", "keeper": "sleep", "launcher": "sleep"}  # the rank sleeps, and this process does it
SEEN = {"kill", "keeper", "ctrl-c", "stop"}  # the line is where the rank was last seen, at most half a second before


@dataclass
class Case:
    """A job: which fault, on which rank, of how many, at which step; whether it starts again, and with fewer ranks."""

    fault: str
    size: int
    rank: int
    step: int
    again: str = ""  # "", "restarts", "shrink"
    said: str = ""
    late_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The fault in the program."""
        return OURSELVES.get(self.fault, self.fault.removeprefix("checked-"))


def line_of(fault: str) -> int:
    """Return the number of the line that is to be named."""
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    return next(k for k, line in enumerate(lines, 1) if re.search(rf"# {fault} here", line))


def cases(number: int, seed: int, kinds: tuple[str, ...] = KINDS) -> list[Case]:
    """Return so many jobs, each kind as often as the others."""
    draw = random.Random(seed)
    found = []
    for k in range(number):
        fault, size = kinds[k % len(kinds)], draw.choice((2, 2, 3, 4))
        again = draw.choice(("", "restarts", "shrink"))
        rank = draw.randrange(size)
        if fault == "checked-another" or fault == "another":
            rank = draw.randrange(1, size)
        found.append(Case(fault, size, rank, draw.randrange(1, 19), "" if fault in OURSELVES else again))
    return found


def left_behind(mark: str) -> list[str]:
    """Return the processes whose environment has a mark."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(f"{folder.name} {(folder / 'cmdline').read_bytes()[:60]!r}")
        except OSError:
            continue
    return found


def run(size: int, folder: str, arguments: list[str], options: list[str], mark: str = "") -> subprocess.Popen[str]:
    """Start the launcher."""
    return subprocess.Popen(
        [sys.executable, "-m", "core.distributed.run", "-n", str(size), *options, str(PROGRAM), *arguments, folder],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "FAILURES_MARK": mark, "OMP_NUM_THREADS": "1"})  # fmt: skip


def by_us(case: Case, launcher: subprocess.Popen[str], folder: str, mark: str) -> None:
    """Do to a job what is done from without, once the rank sleeps."""
    failed = Path(folder, "failed")
    deadline = time.monotonic() + 60
    while not failed.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.6)
    failed.write_text(str(time.time()), encoding="utf-8")
    if case.fault == "ctrl-c":
        os.killpg(launcher.pid, signal.SIGINT)
    elif case.fault == "launcher":
        os.kill(launcher.pid, signal.SIGKILL)
    else:  # the keeper of a rank: the parent of a process with that rank
        for folder_ in Path("/proc").iterdir():
            try:
                environment = (folder_ / "environ").read_bytes() if folder_.name.isdigit() else b""
                status = (folder_ / "status").read_text()
            except OSError:
                continue
            if mark.encode() in environment and b"PMI_RANK=%d\0" % case.rank in environment:
                parent = int(re.search(r"PPid:\s+(\d+)", status)[1])  # type: ignore[index]
                own_session = os.getsid(int(folder_.name)) == int(folder_.name)
                if own_session and b"worker.py" in Path(f"/proc/{parent}/cmdline").read_bytes():
                    os.kill(int(folder_.name), signal.SIGKILL)


def expected(case: Case, said: str) -> list[str]:
    """Return what a paragraph does not say and should."""
    wrong, who = [], f"ank {case.rank} of {case.size}"
    place = re.search(r"at step (\d+), \S*faulty\.py:(\d+)", said)
    if case.fault == "launcher":
        return []
    if case.name in ("pair", "shapes", "another"):
        who = f"ank {case.rank}"
    if case.fault == "ctrl-c":
        who = f"rank {case.rank} at step"
    if who not in said:
        wrong.append(f"rank {case.rank} is not named")
    if case.fault in ("left", "thread", "exit0"):
        if f"step {case.step}" not in said:
            wrong.append(f"step {case.step} is not named")
        return wrong
    steps = [case.step + 1] if case.fault == "disk" else [case.step]
    if case.fault in SEEN:
        if place is None:
            wrong.append("no line is named")
    elif not re.search(
        rf"faulty\.py(:| line )({line_of(case.name)}|{line_of(case.name) + (case.name == 'loop')})\b", said
    ):
        wrong.append(f"line {line_of(case.name)} is not named")
    if not any(f"at step {k}" in said for k in steps):
        wrong.append(f"step {steps[0]} is not named")
    return wrong


def follow(launcher: subprocess.Popen[str], limit_s: float = 120.0) -> tuple[str, float]:
    """Return what a launcher prints, and when it first said something itself, or ended."""
    lines: list[str] = []
    first = 0.0
    stop = threading.Timer(limit_s, os.killpg, (launcher.pid, signal.SIGKILL))
    stop.start()
    for line in launcher.stdout or ():
        lines.append(line)
        if line.startswith("core.distributed.run: "):
            first = first or time.time()
    launcher.wait()
    stop.cancel()
    return "".join(lines), first or time.time()


def play(case: Case, loss: float) -> Case:
    """Run a job, and look at what came of it; an undisturbed job's loss is what one that starts again ends with."""
    mark = f"failures-{os.getpid()}-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--timeout", str(TIMEOUT_S)]
        options += ["--check"] if case.fault.startswith("checked-") else []
        options += ["--restarts", "1"] if case.again else []
        options += ["--shrink"] if case.again == "shrink" else []
        launcher = run(case.size, folder, [case.name, str(case.rank), str(case.step)], options, mark)
        if case.fault in OURSELVES:
            by_us(case, launcher, folder, mark)
        said, ended = follow(launcher)
        at = Path(folder, "failed")
        if not at.exists():
            case.wrong.append("it did not come to its fault")
        else:
            case.late_s = ended - float(at.read_text(encoding="utf-8"))
        time.sleep(3.0 if case.fault == "launcher" else 0.0)
        case.wrong += [f"left behind: {k}" for k in left_behind(mark)]
        subprocess.run(["umount", os.path.join(folder, "small")], stderr=subprocess.DEVNULL, check=False)
    told = " ".join(said.split())
    first, _, after = told.partition("The job starts again")
    case.said = first.rpartition("core.distributed.run: ")[2]
    case.wrong += expected(case, case.said)
    if case.fault == "megabytes" and said.count("x" * 99_999) < 40:
        case.wrong.append("output is lost")
    if case.fault == "partial" and "no end of line" not in said:
        case.wrong.append("output is lost")
    if case.again:
        found = re.search(r"last loss ([\d.]+)", after)
        if found is None or launcher.returncode:
            case.wrong.append("it did not go on to the end")
        elif abs(float(found[1]) - loss) > 1e-6:
            case.wrong.append(f"loss {found[1]} instead of {loss:.8f}")
    if case.name in HANGS and case.fault not in OURSELVES:
        case.late_s -= TIMEOUT_S
    if case.late_s > LIMIT_S:
        case.wrong.append(f"ended {case.late_s:.1f} s after the fault")
    return case


def undisturbed() -> float:
    """Return the loss of a job without a fault, of one rank."""
    with tempfile.TemporaryDirectory() as folder:
        said, _ = follow(run(1, folder, ["none", "0", "0"], []))
    return float(re.search(r"last loss ([\d.]+)", said)[1])  # type: ignore[index]


def main() -> None:
    """Run the command line."""
    p = argparse.ArgumentParser(
        "python -m tests.core.distributed.failures", description=(__doc__ or "").split("\n\n")[0]
    )
    p.add_argument("number", nargs="?", type=int, default=len(KINDS))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default=",".join(KINDS), help="kinds, with commas")
    p.add_argument("--show", action="store_true", help="what the launcher said, of each job")
    o = p.parse_args()
    loss, played, begin = undisturbed(), [], time.monotonic()
    print(f"undisturbed loss {loss:.8f}", flush=True)
    for k, case in enumerate(cases(o.number, o.seed, tuple(o.only.split(",")))):
        played.append(play(case, loss))
        print(f"{k:3d} {case.fault:15s} rank {case.rank} of {case.size}, step {case.step:2d} {case.again:8s} "
              f"{case.late_s:5.1f} s  {'ok' if not case.wrong else '; '.join(case.wrong)}", flush=True)  # fmt: skip
        if o.show or case.wrong:
            print(f"      {case.said}", flush=True)
    print("\n| fault | jobs | right | seconds after the fault, median and most |\n|---|---|---|---|")
    for kind in dict.fromkeys(c.fault for c in played):
        of = [c for c in played if c.fault == kind]
        late = sorted(c.late_s for c in of)
        print(f"| {kind} | {len(of)} | {sum(not c.wrong for c in of)} | {late[len(late) // 2]:.1f}, {late[-1]:.1f} |")
    right, again = sum(not c.wrong for c in played), sum(bool(c.again) for c in played)
    print(f"\n{right} of {len(played)} right, {again} of them started again, in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
