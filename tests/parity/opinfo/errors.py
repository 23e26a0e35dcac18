"""PyTorch's own examples of wrong arguments: the class of error that each library answers with."""

from __future__ import annotations

from typing import Any

from .checks import COUNTED, same_class
from .compare import said, seed, shown
from .translate import Absent, function, value

WITH_ERRORS = [info for info in COUNTED if info.error_inputs_func is not None]


def examples(info: Any) -> list[tuple[str, Any, Exception]]:
    """Of each wrong call its key (`op number`), its sample and PyTorch's error; without those PyTorch carries out."""
    found = []
    seed()
    for k, example in enumerate(info.error_inputs("cpu")):
        sample = example.sample_input
        try:
            info.op(sample.input, *sample.args, **sample.kwargs)
        except Exception as e:
            found.append((f"{info.full_name} {k}", sample, e))
    return found


def difference(info: Any, sample: Any, theirs: Exception) -> str | None:
    """How the answer differs from PyTorch's; None where the class is the same."""
    try:
        ours = function(info.op)
        args, kwargs = value(((sample.input, *sample.args), dict(sample.kwargs)))
        ours(*args, **kwargs)
    except Absent as e:
        return f"absent: {e}"
    except Exception as e:
        return None if same_class(e, theirs) else f"{shown(sample)}: {said(e)} in place of {said(theirs)}"
    return f"{shown(sample)}: no error in place of {said(theirs)}"
