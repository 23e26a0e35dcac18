"""``python -m tests.triton_kernels.tune.clock_jumps [20]``: so many sessions while the clock jumps by up to years.

A few times a second the process's clock is set to another time, ahead or back; two sessions of one problem share the
work in threads. Prints what was lost or wrong, which has to be nothing; 1 where it is not.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from triton_kernels.tune import lookup
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store

from . import faults

_REAL = time.time
_YEAR = 365 * 86_400.0


def jumping(seed: int, stopped: threading.Event) -> None:
    """Put the clock to another time, again and again."""
    chance = random.Random(seed)
    while not stopped.wait(chance.uniform(0.05, 0.4)):
        by = chance.choice((-1.0, 1.0)) * 10.0 ** chance.uniform(0.0, 8.0)
        time.time = lambda by=by: _REAL() + by  # type: ignore[misc]


def once(seed: int) -> list[str]:
    """Run two sessions beside one another, then one more; what is wrong with what they leave."""
    problem, found = faults.problem((2, 4), work=(6, 5, 4, 3, 2, 1)), []
    with tempfile.TemporaryDirectory() as folder:
        stopped = threading.Event()
        clock = threading.Thread(target=jumping, args=(seed, stopped))
        clock.start()
        try:
            results = []

            def run(_: int) -> None:
                with Store(Path(folder)) as store:
                    session = Session(problem, store=store, strategy="exhaustive", jobs=1, budget=None)
                    list(session)
                    results.append(session.result)

            both = [threading.Thread(target=run, args=(k,)) for k in range(2)]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
            run(2)
        finally:
            stopped.set()
            clock.join()
            time.time = _REAL
        with Store(Path(folder)) as store:
            tried = {str(t["config"]) for t in store.trials(problem.key)}
            sessions, winners = store.sessions(problem.kernel), [p["winner"] for p in store.problems()]
        entries = lookup.entries(Path(folder) / lookup.FILE)
    if len(tried) != 18:
        found.append(f"{18 - len(tried)} of 18 configs have no trial")
    if len(sessions) != 3 or any(s["outcome"] is None for s in sessions):
        found.append(f"{len(sessions)} sessions of 3, {sum(s['outcome'] is None for s in sessions)} without an end")
    if len(results) != 3 or any(r is None or r.config is None or r.config["FAULT"] for r in results):
        found.append(f"results {[r and r.config for r in results]}")
    choices = [w["config"] for w in winners if w] + [e["config"] for e in entries]
    if any(c["FAULT"] for c in choices):
        found.append(f"wrong ones were chosen: {choices}")
    decided = [r for r in results if r is not None and r.verdict in ("faster", "default")]
    if decided and (len(choices) != 2 or choices[0] != choices[1]):
        found.append(f"the database has {choices[0]}, best.json {choices[1:]}")
    return found


def main(count: int) -> int:
    """Run, and count."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for seed in range(count):
            found = once(seed)
            wrong += bool(found)
            print(*(f"run {seed}: {line}" for line in found), sep="\n", end="\n" * bool(found), flush=True)
    print(f"{count} runs of three sessions while the clock jumped, {wrong} with something lost or wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
