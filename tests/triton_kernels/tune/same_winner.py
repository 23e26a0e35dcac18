"""``python -m tests.triton_kernels.tune.same_winner [softmax_f32 128x512 8 20s]``: a kernel tuned again and again.

Each tuning begins with nothing, and with another seed. Then all winners and the default are timed anew, in turn, by
processes that took no part: how often the winner was the same config or is proven a tie with the best of all (the 95 %
interval of their ratio holds 1, or lies within 0.5 % of it), and how often one was slower than the default. Also how
many samples were taken for each config that was timed, against 32 each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from triton_kernels.tune.problem import find
from triton_kernels.tune.race import interval_over
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store
from triton_kernels.tune.worker import Worker

ROUNDS, WITHIN = 120, 0.005


def main(kernel: str, shape: str, count: int, budget: str) -> int:
    """Tune, measure anew, print; 1 where a result is slower than the default."""
    problem = find(kernel, shape, "float64" if kernel.endswith("64") else "float32")
    winners, launches, timed = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for seed in range(count):
            with Store(Path(folder) / f"tuning-{seed}") as store:
                session = Session(problem, budget=budget, store=store, seed=seed)
                began = time.monotonic()
                for _ in session:
                    pass
            result = session.result
            assert result is not None
            assert result.best is not None
            winners.append(result.best.config)
            launches += session.trials.launches
            timed += result.evaluations - sum(result.rejected.values()) - result.merged
            print(f"{seed}: {result.verdict}, {result.best.ratio:.3f} ({result.best.low:.3f} to {result.best.high:.3f})"
                  f", {len(result.ties)} ties, {result.evaluations} of {result.space_size} configs, "
                  f"{time.monotonic() - began:.0f} s: {result.best.config}", flush=True)  # fmt: skip
        different = [problem.space.default]
        different += [c for k, c in enumerate(winners) if c not in winners[:k] and c != problem.space.default]
        with Worker(problem.measure) as worker:
            times = [[] for _ in different]
            for part in range(ROUNDS // 6):
                new = worker.call("rounds", different, 6, 1000 + part, limit_s=600.0)
                for row, more in zip(times, new, strict=True):
                    row += more
                if part % 2:
                    worker.renew()  # in the next process the arrays lie elsewhere
    columns = np.array(times)
    best = int(np.argmin([np.median(row / columns[0]) for row in columns]))
    same, ties, slower, regrets = 0, 0, 0, []
    for winner in winners:
        at = different.index(winner)
        to_best = interval_over(columns[at] / columns[best], [12] * (ROUNDS // 12))
        to_default = interval_over(columns[at] / columns[0], [12] * (ROUNDS // 12))
        same += at == best
        ties += at != best and to_best[1] <= 1.0 + WITHIN
        slower += at != 0 and to_default[1] > 1.0
        regrets.append(to_best[0] - 1.0)
    names, neither = len(set(map(str, winners))), count - same - ties
    print(f"{count} tunings, {names} different winners: {same} the best of them, {ties} a tie with it, {neither} "
          f"neither; regret {np.mean(regrets):.2%} on average, {max(regrets):.2%} at worst")  # fmt: skip
    print(f"slower than the default: {slower}")
    print(f"{launches / max(timed, 1):.1f} samples a timed config, {launches / max(timed, 1) / 32:.0%} of 32")
    return 1 if slower else 0


if __name__ == "__main__":
    given = [*sys.argv[1:], *["softmax_f32", "128x512", "8", "20s"][len(sys.argv) - 1 :]]
    sys.exit(main(given[0], given[1], int(given[2]), given[3]))
