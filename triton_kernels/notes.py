"""What kernels find wrong with indices and classes, told without making the host wait for the GPU.

A kernel cannot raise. One that takes indices reads nothing outside its arrays, gives NaN (0 for integers) instead, and
notes the index in its slot of a small array, the worst one by an integer maximum, so that the note is the same every
time. The array lies in page-locked host memory that the GPU writes to: while nothing is wrong it costs nothing, and the
host may look at it whenever it has waited for the GPU anyway (`check`).

Under the interpreter the array is NumPy's, and every launcher looks at once. So it does on a GPU where the environment
says ``CUDA_LAUNCH_BLOCKING=1``: the error then comes from the call that is at fault, at the price of a wait a call.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime

SLOTS = 1024
BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
_NEGATIVE = 1 << 62  # a negative index i is noted as this less i, another as i + 1

Explain = Callable[[int], Exception]


def _nameless(index: int) -> Exception:
    return IndexError(f"index {index} is out of range\n  came: to a kernel of the device cuda")


_explain: list[Explain] = [_nameless]
_slots: dict[Hashable, int] = {}
_notes: dict[int, tuple[np.ndarray, Any]] = {}  # by device: the host's view, and what a launch is given


@triton.jit
def note(bad, index, fault_ptr, slot):
    """Note the worst of the elements of `index` that are `bad`, in this launch's slot."""
    i = tl.minimum(tl.maximum(index.to(tl.int64), -2305843009213693952), 2305843009213693952)
    code = tl.where(i < 0, 4611686018427387904 - i, i + 1)
    tl.atomic_max(fault_ptr + slot + tl.zeros_like(i), code, mask=bad, sem="relaxed")


def slot(key: Hashable, explain: Explain) -> int:
    """Return the slot of all launches with this key; `explain` makes the exception from an index that was noted there.

    The slots are few: once all are taken, further keys share one whose error says the index alone.
    """
    found = _slots.get(key)
    if found is None:
        if len(_explain) == SLOTS:
            return 0
        found = _slots[key] = len(_explain)
        _explain.append(explain)
    return found


def array() -> Any:
    """Return what a launch on the current device gets as its `fault_ptr`."""
    device = -1 if runtime.INTERPRET else runtime.host().current_device()
    found = _notes.get(device)
    if found is None:
        if runtime.INTERPRET:
            zeros = np.zeros(SLOTS, np.int64)
            found = zeros, zeros
        else:
            found = runtime.host().shared(SLOTS, np.dtype(np.int64))
        _notes[device] = found
    return found[1]


def launched() -> None:
    """After a launch that may note a fault: look at once where that costs no wait, or where a wait is asked for."""
    if runtime.INTERPRET:
        check()
    elif BLOCKING:
        owner = runtime.host()
        owner.synchronize(owner.current_device())
        check()


def check() -> None:
    """Raise what was noted since the last look. It is complete where the host has waited for the GPU before."""
    for seen, _ in _notes.values():
        if seen.any():
            where = int(seen.argmax())
            code = int(seen[where])
            seen[:] = 0
            error = _explain[where](code - 1 if code < _NEGATIVE else _NEGATIVE - code)
            if not runtime.INTERPRET and not BLOCKING:
                error.add_note("The GPU found this in an earlier call, which did not wait for it; "
                               "CUDA_LAUNCH_BLOCKING=1 in the environment tells it where it happens.")  # fmt: skip
            raise error
