"""``python -m tests.core.interrupts 1000``: Ctrl-C at random times into programs that train, load, record, tune.

Each program is a process of its own that does one thing again and again. It says "go", its parent sends SIGINT a random
while later, to its whole process group where it has worker processes, as a terminal does; the program says what came
of it. Lost is a signal of which no KeyboardInterrupt comes within `PATIENCE` seconds. After each one its state is
looked at: grad mode, phase, observers, autocast, NumPy's warnings, no child process left; and two steps of training
from a state that was kept before the first signal must give the very numbers that a fresh process gives.

``--only backward`` runs one program, ``--seed`` other times.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import selectors
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

PATIENCE = 20.0  # seconds; a machine with other work on it is slow
SHARES = {"forward": 0.18, "backward": 0.2, "callbacks": 0.12, "step": 0.18, "loader": 0.12, "workers": 0.04,
          "closing": 0.03, "recording": 0.12, "tune": 0.01}  # fmt: skip
APART = {"workers", "closing", "tune"}  # these have processes of their own
LONGEST_S = {"workers": 1.0, "closing": 1.0, "tune": 2.0}  # until the signal; 20 ms of the others


# -- the program -------------------------------------------------------------------------------------------------------


class Program:
    """A model, what is done with it, and what is true of it while nothing is done."""

    def __init__(self) -> None:
        import core
        from core import nn

        self.core = core
        core.manual_seed(1)
        self.x, self.y = core.randn(16, 12), core.randint(0, 4, (16,))
        self.model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
        self.optimizer = core.optim.AdamW(self.model.parameters(), lr=0.01)
        self.step()
        self.kept = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.numbers = self.trained()
        self.usual = self.state()

    def loss(self) -> Any:
        return self.core.nn.functional.cross_entropy(self.model(self.x), self.y)

    def forward(self) -> None:
        self.model(self.x)
        with self.core.no_grad():
            self.model(self.x)

    def backward(self) -> None:
        """Most of its time passes in C after a hook in Python, where a signal waits until the pass ends."""
        h = self.core.linspace(-1, 1, 100_000).requires_grad_()
        for _ in range(20):
            h = (h * 1.01).tanh()
        h.register_hook(lambda g: g * 2)
        h.sum().backward()

    def callbacks(self) -> None:
        """Python called from C's walk: a hook, a custom function, packed saved tensors, a checkpoint, create_graph."""
        core = self.core
        if not hasattr(self, "Cube"):

            class Cube(core.autograd.Function):
                @staticmethod
                def forward(ctx: Any, x: Any) -> Any:
                    ctx.save_for_backward(x)
                    return x * x * x

                @staticmethod
                def backward(ctx: Any, g: Any) -> Any:
                    (x,) = ctx.saved_tensors
                    return 3 * x * x * g

            self.Cube = Cube
        with core.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), core.from_numpy):
            out = self.Cube.apply(self.model(self.x))
        out.register_hook(lambda g: g * 2)
        out.sum().backward()
        again = core.utils.checkpoint.checkpoint(self.model, self.x, use_reentrant=False)
        with core.autocast("cpu"):
            self.model(self.x)
        core.autograd.grad(again.square().sum(), list(self.model.parameters()), create_graph=True)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()
        self.core.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def _loader(self, workers: int) -> Any:
        data = self.core.utils.data
        return data.DataLoader(data.TensorDataset(self.x, self.y), batch_size=4, shuffle=True, num_workers=workers)

    def loader(self) -> None:
        for batch, _ in self._loader(0):
            self.model(batch)

    def workers(self) -> None:
        for batch, _ in self._loader(2):
            self.model(batch)

    def closing(self) -> None:
        """A pass that is left in the middle: its workers end as it is let go of."""
        for batch, _ in self._loader(2):
            self.model(batch)
            break

    def recording(self) -> None:
        from core.events import observe
        from lab.recorder.observer import Recorder

        recorder = Recorder()
        with observe.observing(recorder):
            self.step()
        if recorder.error is not None:
            raise recorder.error

    def tune(self) -> None:
        from tests.triton_kernels.tune import faults
        from triton_kernels.tune import Session

        for _ in Session(faults.problem((11, 12), work=(4, 0)), strategy="exhaustive", jobs=1):
            pass

    def trained(self) -> str:
        """What two steps from the kept state come to."""
        core = self.core
        core.manual_seed(2)
        self.model.load_state_dict(self.kept)
        self.optimizer = core.optim.AdamW(self.model.parameters(), lr=0.01)
        losses = []
        for _ in range(2):
            self.step()
            losses.append(self.loss().item())
        bits = b"".join(p.numpy(force=True).tobytes() for p in self.model.parameters())
        bits += b"".join(p.grad.numpy().tobytes() for p in self.model.parameters())
        return f"{losses} {hashlib.sha256(bits).hexdigest()[:16]}"

    def state(self) -> dict[str, Any]:
        import numpy as np

        from core.base.modes import state
        from core.dispatch import autocast, saved_tensor_hooks
        from core.events import observe

        return {
            "grad mode": state.enabled, "inference": state.inference, "phase": state.phase, "batch": state.batch,
            "task": state.task, "observers": observe.observers, "warnings of NumPy": np.geterr(),
            "saved-tensor hooks": (saved_tensor_hooks.active, saved_tensor_hooks.stack.hooks),
            "autocast": (autocast._count, sorted(autocast.state.on), autocast.state.inside, autocast.state.nesting,
                         len(autocast.state.cache)),
        }  # fmt: skip

    def wrong(self) -> str:
        """What is not as it was; nothing where all is."""
        now = self.state()
        said = [f"{k}: {now[k]!r}, was {self.usual[k]!r}" for k in now if now[k] != self.usual[k]]
        until = time.monotonic() + 5.0  # a process that was killed is there until it is waited for
        while children() and time.monotonic() < until:
            time.sleep(0.01)
        said += [f"child process: {child}" for child in children()]
        numbers = self.trained()
        if numbers != self.numbers:
            said.append(f"training gives {numbers}, gave {self.numbers}")
        return "; ".join(said)


def children() -> list[str]:
    """The processes that this one has started and not yet waited for."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                name, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == os.getpid():  # its parent
            found.append(name)
    return found


def child(kind: str) -> None:
    """Do it again and again; say what came of each signal."""
    warnings.simplefilter("ignore")
    unraisable: list[str] = []
    sys.unraisablehook = lambda u: unraisable.append(f"{type(u.exc_value).__name__} in {u.object!r}"[:200])
    program = Program()
    operation: Callable[[], None] = getattr(program, kind)
    operation()
    print("numbers", program.numbers, flush=True)
    while True:
        del unraisable[:]
        try:
            print("go", flush=True)
            while True:
                operation()
        except KeyboardInterrupt as error:
            inside = error.__traceback__
            while inside is not None and inside.tb_next is not None:
                inside = inside.tb_next
            where = inside.tb_frame.f_code.co_name if inside is not None else ""
            del error, inside
        except BaseException as error:
            where, said = "", f"another exception: {type(error).__name__}: {error}"
            print("came", "wrong", said.replace("\n", " | ")[:500], flush=True)
            continue
        said = "; ".join([*filter(None, [program.wrong()]), *unraisable])
        print("came", f"wrong {said}"[:500].replace("\n", " | ") if said else f"whole {where}", flush=True)


# -- its parent --------------------------------------------------------------------------------------------------------


class Watched:
    """A program's process."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.core.interrupts", "--child", kind], stdout=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        self.numbers, self._lines, self._rest = "", [], b""  # type: str, list[bytes], bytes
        assert self.process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.process.stdout, selectors.EVENT_READ)

    def heard(self, patience: float) -> str | None:
        """A line; None where none comes in time."""
        assert self.process.stdout is not None
        until = time.monotonic() + patience
        while not self._lines:
            if not self._selector.select(max(until - time.monotonic(), 0.0)):
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return f"came wrong the program ended with {self.process.wait()}"
            *self._lines, self._rest = (self._rest + data).split(b"\n")
        return self._lines.pop(0).decode()

    def ready(self) -> bool:
        """Whether it has begun; after it a signal may come at any time."""
        while (line := self.heard(120.0)) is not None and line != "go":
            if line.startswith("numbers "):
                self.numbers = line.removeprefix("numbers ")
            if line.startswith("came "):
                return False
        return line is not None

    def interrupt(self, wait_s: float) -> str:
        """ "whole", "wrong" and what, or "lost"."""
        time.sleep(wait_s)
        if self.kind in APART:
            os.killpg(self.process.pid, signal.SIGINT)  # as a terminal does
        else:
            self.process.send_signal(signal.SIGINT)
        line = self.heard(PATIENCE)
        return "lost" if line is None else line.removeprefix("came ")

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._selector.close()
        assert self.process.stdout is not None
        self.process.stdout.close()


def run(kind: str, count: int, seed: int = 0) -> tuple[Counter[str], list[str], str]:
    """Signals into one program: how many were whole, wrong and lost; what was wrong; what its training gives."""
    chance, found, told, numbers = random.Random(f"{kind} {seed}"), Counter[str](), [], ""
    watched: Watched | None = None
    try:
        for _ in range(count):
            if watched is None:
                watched = Watched(kind)
            if not watched.ready():
                found["wrong"] += 1
                told.append(f"{kind}: the program did not begin")
                watched.close()
                watched = None
                continue
            numbers = numbers or watched.numbers
            came = watched.interrupt(chance.uniform(0.0, LONGEST_S.get(kind, 0.02)))
            found[came.split(" ")[0]] += 1
            if not came.startswith("whole"):
                told.append(f"{kind}: {came}")
                watched.close()  # the next one begins with nothing wrong
                watched = None
    finally:
        if watched is not None:
            watched.close()
    return found, told, numbers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--only", choices=SHARES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=SHARES)
    options = parser.parse_args()
    if options.child:
        child(options.child)
    counts = {k: max(1, round(options.count * share)) for k, share in SHARES.items()}
    if options.only:
        counts = {options.only: options.count}
    total, all_told, all_numbers = Counter[str](), [], set()
    for kind, count in counts.items():
        found, told, numbers = run(kind, count, options.seed)
        total += found
        all_told += told
        all_numbers.add(numbers)
        print(f"{kind:10} {count:4} sent  {found['whole']:4} whole  {found['wrong']:3} wrong  {found['lost']:3} lost",
              flush=True)  # fmt: skip
    for line in all_told[:40]:
        print("  " + line)
    if len(all_numbers) > 1:
        print(f"fresh processes differ: {all_numbers}")
    print(f"{sum(counts.values())} Ctrl-C: {total['whole']} raised with all whole, {total['wrong']} wrong, "
          f"{total['lost']} lost")  # fmt: skip
    return int(total["whole"] != sum(counts.values()) or len(all_numbers) > 1)


if __name__ == "__main__":
    sys.exit(main())
