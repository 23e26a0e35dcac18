"""A run that is killed over and over: by its parent at random, and by itself in the middle of a save.

As a command it prints a table: ``python tests/core/serialization/killed.py --kills 20``.
"""

from __future__ import annotations

import argparse
import builtins
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Where a run kills itself, at its nth save. The first two are while the bytes are written.
POINTS = ("first bytes", "half the bytes", "before fsync", "before the rename", "after the rename", "before the folder")
STEPS = 6 * 13


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, at: int) -> None:
    """Let this process die at the nth save."""
    from core.serialization import atomic

    real_fsync, real_replace, saves = os.fsync, os.replace, 0

    class Dying:
        """A file that kills whoever has written so many bytes to it, with those on their way to the disk."""

        def __init__(self, f, room: int) -> None:
            self.f, self.room = f, room

        def __enter__(self):
            return self

        def __exit__(self, *exception) -> None:
            self.f.close()

        def write(self, data) -> None:
            data = memoryview(data).cast("B")
            self.f.write(data[: self.room])
            self.room -= len(data)
            if self.room < 0:
                self.f.flush()
                die()

    def opened(*args, **kwargs):
        nonlocal saves
        saves += 1
        f = builtins.open(*args, **kwargs)  # noqa: SIM115 - the caller closes it
        return Dying(f, 7 if point == "first bytes" else 20_000) if saves == at and "bytes" in point else f

    def fsync(fd: int) -> None:
        folder = os.path.isdir(f"/proc/self/fd/{fd}")
        if saves == at and point == ("before the folder" if folder else "before fsync"):
            die()
        real_fsync(fd)

    def replace(a: str, b: str) -> None:
        if saves == at and point == "before the rename":
            die()
        real_replace(a, b)
        if saves == at and point == "after the rename":
            die()

    atomic.open, os.fsync, os.replace = opened, fsync, replace  # type: ignore[attr-defined]


def train(path: str) -> None:
    """Six epochs of a small network with everything that draws or counts; every batch is saved."""
    import core

    core.manual_seed(0)
    nn = core.nn
    model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Dropout(0.2), nn.GELU(), nn.Linear(64, 4))
    optimizer = core.optim.AdamW(model.parameters(), lr=0.02)
    schedule = core.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    x = core.randn(50, 8)
    data = core.utils.data.TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())
    loader = core.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    run = core.utils.Resumable(path, every=1, model=model, optimizer=optimizer, schedule=schedule)
    losses = run.values.setdefault("losses", [])
    print("ready", flush=True)
    for _ in run.epochs(6):
        for inputs, labels in run.batches(loader):
            loss = nn.functional.cross_entropy(model(inputs + 0.1 * core.randn(8)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())


def started(path: Path, *more: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__, "--train", str(path), *more], stdout=subprocess.PIPE)


def finished(path: Path) -> dict:
    """What is in the file after a run that nobody kills."""
    import core

    with started(path) as process:
        assert process.wait(120) == 0
    return core.load(path)


def storm(folder: Path, kills: int, dice: random.Random) -> tuple[dict, list[str]]:
    """Kill a run so often; look at the file each time; give what is in it at the end, and a line for every kill."""
    import core

    path, lines = folder / "run.safetensors", []
    for k in range(kills):
        left_to_do = STEPS - (len(core.load(path)["values"]["losses"]) if path.exists() else 0)
        point = POINTS[k // 2 % len(POINTS)] if k % 2 else "at random"
        if point == "at random":
            process = started(path)
            process.stdout.readline()
            time.sleep(dice.uniform(0.0, 0.05))
            process.kill()
        else:
            at = min(dice.randrange(1, 4), max(1, left_to_do - 1))
            process = started(path, "--die", point, "--at", str(at))
        process.wait(60)
        process.stdout.close()
        assert process.returncode in (0, -signal.SIGKILL), f"the run ended with {process.returncode} by itself"
        remains = [n for n in os.listdir(folder) if n.endswith(".saving")]
        sizes = [os.path.getsize(folder / n) for n in remains]
        held = "no file yet"
        if path.exists():
            state = core.load(path)  # a half file would raise
            done = len(state["values"]["losses"])
            assert done == state["epoch"] * 13 + state["batch"] + (13 if state["loop"] else 0)
            held = f"epoch {state['epoch']}, batch {state['batch']}"
        ended = "killed" if process.returncode == -signal.SIGKILL else "had ended"
        lines.append(f"{k + 1:3}  {point:18} {ended:10} {held:20} remains: {sizes or 'none'}")
    return finished(path), lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train")
    parser.add_argument("--die")
    parser.add_argument("--at", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    if options.train:
        if options.die:
            arm(options.die, options.at)
        train(options.train)
        return
    with tempfile.TemporaryDirectory() as name:
        whole = finished(Path(name) / "whole.safetensors")
        folder = Path(name) / "storm"
        folder.mkdir()
        seed = random.randrange(10**6)
        state, lines = storm(folder, options.kills, random.Random(seed))
        print(*lines, sep="\n")
        equal = state["values"]["losses"] == whole["values"]["losses"]
        print(f"seed {seed}; {len(whole['values']['losses'])} losses; equal bit for bit: {equal}; "
              f"left in the folder: {sorted(os.listdir(folder))}")  # fmt: skip
        sys.exit(not equal)


if __name__ == "__main__":
    main()
