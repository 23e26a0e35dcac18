"""``python -m tests.triton_kernels.tune.many_faults [1000]``: so many faults in one session, each with its reason.

Takes minutes, most of them waiting for configs that hang; the tests run a few of each kind (`test_session`). Prints how
many faults of each kind there were and how many got the right status and reason; 1 where one did not, or was lost.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from triton_kernels.tune import events as ev
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store

from . import faults


def main(count: int) -> int:
    """Run the session and count."""
    kinds = tuple(faults.REASONS)
    each = -(-count // len(kinds))
    problem = faults.problem(kinds, work=tuple(range(each)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        began, right, wrong = time.monotonic(), Counter[int](), []
        with Store(Path(folder) / "tuning") as store:
            session = Session(problem, budget=None, strategy="random", store=store)
            for event in session:
                if isinstance(event, ev.Rejected):
                    status, reason = faults.REASONS[event.config["FAULT"]]
                    if event.status == status and reason in event.reason:
                        right[event.config["FAULT"]] += 1
                    else:
                        wrong.append(event)
            kept = store.trials(problem.key)
    result = session.result
    assert result is not None
    for fault, (status, reason) in faults.REASONS.items():
        print(f"{right[fault]:5d} of {each}  {status}: {reason}")
    for event in wrong[:10]:
        print(f"WRONG {event}")
    lost = (len(kinds) + 1) * each - len(kept)
    print(f"{sum(right.values())} faults named rightly, {len(wrong)} wrongly, {lost} trials lost, "
          f"{time.monotonic() - began:.0f} s; the result: {result.verdict}, {result.config}")  # fmt: skip
    return 1 if wrong or lost or result.config is None or result.config["FAULT"] != 0 else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
