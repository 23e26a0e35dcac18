"""``python -m tests.triton_kernels.tune.many_faults [1000] [threads|processes|dask]``: so many faults in one session.

Takes minutes, most of them waiting for configs that hang; the tests run a few of each kind (`test_session`,
`test_elsewhere`). Prints how many faults of each kind there were and how many got the right status and reason; 1 where
one did not, or was lost. With an executor's name they are tried on two of its workers.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from triton_kernels.tune import events as ev
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store

from . import faults


def main(count: int, kind: str = "") -> int:
    """Run the session and count."""
    kinds = tuple(faults.REASONS)
    each = -(-count // len(kinds))
    problem = faults.problem(kinds, work=tuple(range(each)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        began, right, wrong = time.monotonic(), Counter[int](), []
        with Store(Path(folder) / "tuning") as store, executor(kind) as standing:
            session = Session(problem, budget=None, strategy="random", store=store, executor=standing,
                              jobs=2 if standing else None)  # fmt: skip
            for event in session:
                if isinstance(event, ev.Rejected):
                    status, reason = faults.REASONS[event.config["FAULT"]]
                    if event.status == status and reason in event.reason:
                        right[event.config["FAULT"]] += 1
                    else:
                        wrong.append(event)
            kept = store.trials(session.problem.key)
    result = session.result
    assert result is not None
    for fault, (status, reason) in faults.REASONS.items():
        print(f"{right[fault]:5d} of {each}  {status}: {reason}")
    for event in wrong[:10]:
        print(f"WRONG {event}")
    lost = (len(kinds) + 1) * each - len(kept)
    print(f"{sum(right.values())} faults named rightly, {len(wrong)} wrongly, {lost} trials lost, "
          f"{time.monotonic() - began:.0f} s; the result: {result.verdict}, {result.config}")  # fmt: skip
    print(*result.notes, sep="\n")
    missing = len(kinds) * each - sum(right.values())
    return 1 if wrong or lost or missing or result.config is None or result.config["FAULT"] != 0 else 0


@contextlib.contextmanager
def executor(kind: str) -> Iterator[Any]:
    """An executor of two workers, or None for the session's own."""
    if kind == "threads":
        with ThreadPoolExecutor(2) as made:
            yield made
    elif kind == "processes":
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as made:
            yield made
    elif kind == "dask":
        import distributed

        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client.get_executor()
    elif kind:
        raise ValueError(f"no executor is called {kind!r}; there are threads, processes, dask")
    else:
        yield None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2] if len(sys.argv) > 2 else ""))
