"""What went wrong on the device, in words: which kernel, with what, and whether this process can go on.

CUDA tells of a fault in a kernel late, from whatever is called next, and after some faults nothing works in the process
any more. So the launches are remembered, and the message says which were the last. Imports neither triton nor CuPy.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any


class KernelError(RuntimeError):
    """A kernel that could not be compiled, launched or interpreted; the message names it, its config and arguments."""


class AcceleratorError(KernelError):
    """CUDA reports an error that is no single call's fault. `error_code` is CUDA's number.

    >>> issubclass(AcceleratorError, RuntimeError)
    True
    """

    def __init__(self, message: str, error_code: int = 0) -> None:
        super().__init__(message)
        self.error_code = error_code


class OutOfMemoryError(RuntimeError):
    """The device has no room for an array. Everything works on once something is let go."""


AcceleratorError.__module__ = OutOfMemoryError.__module__ = "core"  # where people find them


# After these CUDA answers every call with the same error until the process ends.
STICKY = {
    700: "an illegal memory access was encountered",
    702: "the launch timed out and was terminated",
    709: "context is destroyed",
    710: "device-side assert triggered",
    714: "hardware stack error",
    715: "an illegal instruction was encountered",
    716: "misaligned address",
    717: "operation not supported on global/shared address space",
    718: "invalid program counter",
    719: "unspecified launch failure",
}
_CAUSES = {
    700: "a kernel read or wrote outside its arrays",
    702: "a kernel ran longer than the display's driver allows",
    710: "an assertion in a kernel failed",
    715: "a kernel was compiled for another GPU, or its code was overwritten",
    716: "a kernel read or wrote at an address that its element size does not divide",
    719: "a kernel failed while it ran",
}
CAPTURING = {
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    905: "capture was merged or forked without a join",
    906: "operation would make the legacy stream depend on a capturing blocking stream",
}
OUT_OF_MEMORY, UNKNOWN = 2, 999

blocking = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in (
    "",
    "0",
)  # wait after every launch, so that a fault is its

recent: deque[Any] = deque(maxlen=8)
"""The launches made last, each with a `describe()`."""
note: Callable[[Any], None] = recent.append
"""Remember a launch; a graph that captures launches puts itself here, to keep their kernels."""
text_of: Callable[[int], str] | None = None
"""The driver's own words for a code, once a driver is there."""
broken: str | None = None
"""What was said when this process's device was lost; None while it works."""


def code_of(error: BaseException) -> int | None:
    """CUDA's number of an error that CuPy, Triton or this package raised; None for one that is not CUDA's.

    >>> code_of(RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")), code_of(KeyError())
    (700, None)
    """
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status
    if isinstance(error, AcceleratorError):
        return error.error_code
    words = str(error)
    if "[CUDA]" in words or "CUDA_ERROR" in words or "cudaError" in words:
        known = {**STICKY, **CAPTURING, OUT_OF_MEMORY: "out of memory"}
        return next((code for code, text in known.items() if text in words), UNKNOWN)
    return None


def words(code: int) -> str:
    """Return a code in CUDA's words."""
    if code in STICKY:
        return STICKY[code]
    return text_of(code) if text_of is not None else f"error {code}"


def lost(code: int, during: str = "") -> AcceleratorError:
    """Return the error of a process whose device is lost: what it means, which kernels it may have been, what to do.

    The first account is kept: later calls only repeat that CUDA refuses them.
    """
    global broken
    said = words(code)
    remedy = "restart the process (in a notebook: Kernel > Restart); what is on the GPU is lost"
    if broken is not None:
        return AcceleratorError(
            f"CUDA error: {said}\n  meaning: this process lost its GPU earlier, and CUDA refuses every call since. "
            f"The first error was:\n    {broken}\n  remedy: {remedy}.",
            code,
        )
    launches = list(dict.fromkeys(_brief(launch.describe()) for launch in reversed(recent)))
    suspects = [one for one in launches if blocking or one != _brief(during)]  # what CUDA refused did nothing
    if blocking and suspects:
        blamed = f"the kernel that did it: {suspects[0]}"
    elif suspects:
        listed = "".join(f"\n    {one}" for one in suspects)
        blamed = (f"kernels run asynchronously, and the line that raised this need not be at fault. Launched last, the "
                  f"newest first:{listed}")  # fmt: skip
    else:
        blamed = "no kernel is known to have been launched"
    find = "" if blocking else " To find the kernel, run again with CUDA_LAUNCH_BLOCKING=1 in the environment, or " \
        "with TRITON_INTERPRET=1, which checks every address."  # fmt: skip
    cause = _CAUSES.get(code, "the GPU stopped this process's work")
    broken = f"{said}; {suspects[0] if suspects else 'no kernel is known'}"
    return AcceleratorError(
        f"CUDA error: {said}\n  meaning: {cause}. CUDA has given up this process's GPU: nothing on it works until the "
        f"process is restarted.\n  {blamed}\n  remedy: {remedy}.{find}",
        code,
    )


def _brief(text: str) -> str:
    return text if len(text) <= 240 else text[:237] + "..."


def explained(error: BaseException, during: str = "") -> Exception | None:
    """Return an error of CUDA's as this package tells it; None for one that is not CUDA's. `during` is the launch
    that ran."""
    if isinstance(error, AcceleratorError | OutOfMemoryError):
        return None
    code = code_of(error)
    if code is None:
        return None
    if code in STICKY:
        return lost(code, during)
    if code in CAPTURING:
        return AcceleratorError(
            f"CUDA error: {words(code)}\n  meaning: while a CUDA graph is captured nothing may wait for the GPU or "
            "read from it: no .item(), .tolist(), .cpu(), print(), no `if` on a tensor, no copy from memory that is "
            "not pinned\n  remedy: take it out of the captured part; the graph that was being captured is of no use",
            code,
        )
    before = f"{during} failed: " if during else ""
    said = f"CUDA error: {words(code)} (code {code})" if code != UNKNOWN else str(error)
    return AcceleratorError(before + said, code)


def failed(during: str, error: BaseException) -> Exception:
    """Return the exception for a launch that failed."""
    return explained(error, during) or KernelError(f"{during} failed: {type(error).__name__}: {error}")


class Named:
    """A launch that is known by its name alone: a kernel of the user's, started by Triton itself."""

    __slots__ = ("grid", "name")

    def __init__(self, name: str, grid: tuple[int, ...]) -> None:
        self.name, self.grid = name, grid

    def describe(self) -> str:
        return f"kernel {self.name}[grid={self.grid}]"
