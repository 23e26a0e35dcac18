"""Workers under fire, for as long as one likes: ``python tests/core/utils/stress_workers.py [ROUNDS]``.

Every round runs the program of `worker_program.py` with four workers in each of its modes, interrupts or kills it or
one of its workers at a moment drawn at random (also while they start), and counts what is left: processes, and files in
/dev/shm. As root it also fills /dev/shm to the last byte, in a mount of its own. Nothing may hang (120 s) or stay.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = HERE / "worker_program.py"
SAMPLES = 400
SUM = sum(range(SAMPLES))
FULL = ("mount -t tmpfs -o size=1m tmpfs /dev/shm && { head -c 9999999 /dev/zero > /dev/shm/filler; true; } "
        "2>/dev/null; exec ")  # fmt: skip


def processes(mark: str) -> dict[int, str]:
    """What runs with this mark in its environment: the program, and all that it started."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().decode(errors="replace"):
                found[int(process.name)] = (process / "cmdline").read_bytes().decode()
        except OSError:
            continue
    return found


def children(pid: int) -> list[int]:
    """The workers that a program has started until now."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def shared() -> list[str]:
    """What lies in /dev/shm, but for PyTorch's."""
    return sorted(n for n in os.listdir("/dev/shm") if "torch" not in n and not n.startswith("sem."))


def strike(process: subprocess.Popen[str], how: str, delay: float) -> None:
    """Do it after a while."""
    time.sleep(delay)
    if how == "group":
        os.killpg(process.pid, signal.SIGINT)
    elif how == "parent":
        os.kill(process.pid, signal.SIGINT)
    elif how == "kill":
        os.kill(process.pid, signal.SIGKILL)
    elif how == "worker":
        while process.poll() is None and not (found := children(process.pid)):
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(random.choice(found), random.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM]))


def once(mode: str, how: str, delay: float) -> str:
    """One run: how it ended. *Raises*: AssertionError where it was not as it should be."""
    command = [sys.executable, str(PROGRAM), mode, str(SAMPLES)]
    if mode == "full disk":
        command = ["unshare", "-m", "sh", "-c", FULL + f"{sys.executable} {PROGRAM} plain {SAMPLES}"]
    mark = f"STRESS={random.getrandbits(64)}"
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "STRESS": mark[7:]}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                               start_new_session=True)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "main\n"
    begin = time.monotonic()
    strike(process, how, delay)
    out, err = process.communicate(timeout=120)
    end, code = time.monotonic() - begin - delay, process.returncode
    last = err.strip().splitlines()[-1] if err.strip() else ""
    told = f"{mode}, {how} after {delay:.2f} s: exit {code} after {end:.1f} s more: {last[:150]}"
    if how == "kill":
        assert code in (-signal.SIGKILL, 0, 1), told
    elif how in ("group", "parent"):
        assert code in (0, 1, -signal.SIGINT), told
        assert code != -signal.SIGINT or "KeyboardInterrupt" in err, told
    elif how == "worker" and code:
        assert code == 1, told
        assert "DataLoader worker (pid" in err or "Caught" in err, told + err
    elif mode in ("plain", "full disk", "full", "slow"):
        assert code == 0, told + err
        assert f"done {SUM}" in out, told
    until = time.monotonic() + 5
    while left := processes(mark):
        assert time.monotonic() < until, f"{told}\nworkers are left: {left}"
        time.sleep(0.02)
    return f"{mode:10} {how:8} exit {code}"


def main() -> None:
    """Rounds of all."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    random.seed(int(os.environ.get("SEED", "0")))
    before = shared()
    ends: Counter[str] = Counter()
    modes = ["plain", "slow", "persist", "raise", "kill", "memory", "full", "files"] + ["full disk"] * (
        os.getuid() == 0
    )
    for number in range(rounds):
        for mode in modes:
            ends[once(mode, "nothing", 0.0)] += 1
        for mode in ("slow", "stuck", "busy", "persist"):
            for how in ("group", "parent", "kill", "worker"):
                if (mode, how) == ("busy", "worker"):
                    continue  # a main process that loops for ever does not ask for the next batch
                ends[once(mode, how, random.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.0, 1.5, random.uniform(0, 3)]))] += 1
        assert shared() == before
        print(f"round {number + 1}: {sum(ends.values())} programs", flush=True)
    for line, count in sorted(ends.items()):
        print(f"{count:4}  {line}")


if __name__ == "__main__":
    main()
