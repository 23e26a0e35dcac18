"""What launches and warm-ups return in the place of a compiled kernel, while they are recorded and none is compiled.

Programs read the registers and the shared memory of a compiled kernel, to choose their grid by its occupancy, and
launch it: ``kernel = softmax.warmup(...); kernel[(programs, 1, 1)](y, x, ...)``; libraries keep it and launch it again
past `@triton.jit`. Either is a launch of the kernel with the constants that it was compiled for.
"""

from __future__ import annotations

import inspect
import types
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any


class Compiled:
    """A kernel with its constants. What it says of registers and memory is a small kernel's, and never 0: programs
    divide by it."""

    n_regs, n_spills, n_max_threads = 32, 0, 1024
    asm: Mapping[str, str] = defaultdict(str)
    function = module = packed_metadata = 0

    def __init__(self, kernel: Any, bound: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._kernel, self._options = kernel, dict(options)
        self._constants = {n: bound[n] for n in kernel.arg_names if n in constants_of(kernel)}
        self.name = kernel.fn.__name__
        self.metadata = types.SimpleNamespace(
            **{"num_warps": 4, "num_stages": 3, "num_ctas": 1, **options, "shared": 1024, "name": self.name,
               "warp_size": 32, "tmem_size": None})  # fmt: skip

    def __getattr__(self, name: str) -> int:
        """What else programs print of a compiled kernel."""
        if name.startswith("__"):
            raise AttributeError(name)
        return int(getattr(vars(self).get("metadata"), name, 0) or 0)

    def _init_handles(self) -> None: ...

    def launch_metadata(self, *_: Any) -> None: ...

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **_: self._launch(grid, args)

    def run(self, x: int, y: int, z: int, *args: Any) -> None:
        """Launch it as a launcher does, after a stream, a function, its metadata, the launch's, and two hooks."""
        self._launch((x, y, z), args[6:])

    def _launch(self, grid: Any, args: tuple[Any, ...]) -> None:
        names = self._kernel.arg_names
        if len(args) < len(names):  # without the constants, as Triton 3.2 took them
            names = [n for n in names if n not in self._constants]
        if len(args) != len(names):
            raise TypeError(f"{self.name}, compiled, takes {', '.join(names)}; got {len(args)} arguments")
        given = {**dict(zip(names, args, strict=True)), **self._constants}
        self._kernel.run(grid=grid, warmup=False, **given, **self._options)


def constants_of(kernel: Any) -> set[str]:
    """Return the names of the parameters that are constants of the kernel's text."""
    from triton.runtime.jit import _normalize_ty

    return {n for n, ty in inspect.get_annotations(kernel.fn).items() if "constexpr" in _normalize_ty(ty)}
