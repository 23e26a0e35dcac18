"""The tuner: which config of a kernel is the fastest at a shape, on this processor or GPU.

``result = tune.run("matmul_f32", "512x512x512", "float32", budget="60s")`` in a script, or ``for event in
tune.Session(tune.find(...), store=tune.Store())``, which can be stopped. What won is stored, and kernels take it from
then on. It knows neither Jupyter nor Triton's runtime; `lab.tuning` shows it.

What is where: `space` and `table` say what may vary; `strategy` (exhaustive, random, line, gaussian, portfolio) chooses
what to try; `measure` is the protocol of those that measure (`measure_cpu`, `measure_triton`, `measure_static`,
`replay`), each in a `worker` that may crash; `trials`, `race`, `final` and `session` run it; `store` and `lookup` keep
and find results; `problem` knows the kernels by name.

`hooks` lets any program's launches be recorded (`launches`) and `adoption` makes a problem of them, judged by each
launch or by the whole program (`rerun`, `constants`). `dispatch` tunes several shapes together
and leaves a tree of configs (`dispatching`, `dispatch_tree`). `guests` lets Kernel Tuner and Optuna search by our
strategies. `own` takes a kernel of the user's with a reference, `own_c` a C function, `stored` launches it with what
was found, `exchange` writes and reads results.

Importing this loads nothing; a name is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adoption import Captured, adopt, capture
    from .dispatching import Dispatch, dispatch
    from .events import Result
    from .guests import kernel_tuner_strategy, optuna_sampler
    from .lookup import best
    from .problem import Problem, find, known
    from .session import Session, run
    from .store import Store
    from .stored import auto

_HOME = {
    "Captured": "adoption", "Dispatch": "dispatching", "Problem": "problem", "Result": "events", "Session": "session",
    "Store": "store", "adopt": "adoption", "auto": "stored", "best": "lookup", "capture": "adoption",
    "dispatch": "dispatching", "find": "problem", "kernel_tuner_strategy": "guests", "known": "problem",
    "optuna_sampler": "guests", "run": "session",
}  # fmt: skip
__all__ = [
    "Captured", "Dispatch", "Problem", "Result", "Session", "Store", "adopt", "auto", "best", "capture", "dispatch",
    "find", "kernel_tuner_strategy", "known", "optuna_sampler", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
