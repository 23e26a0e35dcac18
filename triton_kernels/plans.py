"""Plans: launches of compiled kernels with everything in place but the arrays' addresses and the floats.

Two kinds: `by_triton` calls Triton's own launcher directly, `in_c` is a call of the driver with the parameters as the
launcher would lay them out (its signature without constexprs, then two scratch pointers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_WHOLE = ("i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64")


def by_triton(compiled: Any, grid: tuple[int, int, int], rest: tuple[Any, ...]) -> Callable[..., None]:
    """Return a function of stream, pointers and floats that launches `compiled` with everything else fixed."""
    run = _loaded(compiled)
    function, packed = compiled.function, compiled.packed_metadata
    x, y, z = grid
    direct = hasattr(run, "launch") and not (run.global_scratch_size or run.profile_scratch_size)
    if not direct:  # scratch is allocated a launch: leave that to Triton's own launcher
        return lambda stream, pointers, floats: run(
            x, y, z, stream, function, packed, None, None, None, *pointers, *floats, *rest
        )
    start, cooperative, dependent = run.launch, run.launch_cooperative_grid, run.launch_pdl
    if hasattr(run, "arg_annotations"):  # 3.9: one launcher for all signatures, arguments in a tuple
        kinds, signature = run.arg_annotations, run.kernel_signature

        def plan(stream: int, pointers: tuple[int, ...], floats: tuple[float, ...], keep: Any = compiled) -> None:
            start(x, y, z, stream, function, cooperative, dependent, packed, None, None, None, None, None, kinds,
                  signature, pointers + floats + rest)  # fmt: skip
    else:  # 3.6: a launcher compiled for this signature

        def plan(stream: int, pointers: tuple[int, ...], floats: tuple[float, ...], keep: Any = compiled) -> None:
            start(x, y, z, stream, function, cooperative, dependent, None, None, packed, None, None, None,
                  *pointers, *floats, *rest)  # fmt: skip

    return plan


def _loaded(compiled: Any) -> Any:
    """Return a compiled kernel's launcher, its binary loaded on the current device; again where that failed before."""
    run = compiled.run
    if compiled.function is None:
        compiled._init_handles()
        run = compiled.run
    return run


def in_c(planner: Any, host: Any, compiled: Any, grid: tuple[int, int, int], pointers: Sequence[int], floats: int,
         rest: tuple[Any, ...], device: int) -> Any:  # fmt: skip
    """Return the same in C; None for a launch that needs more than a plain call: scratch, clusters, a cooperative
    grid."""
    if planner is None or not hasattr(host, "array_type"):
        return None
    run, metadata = _loaded(compiled), compiled.metadata
    plain = (
        not (run.global_scratch_size or run.profile_scratch_size or run.launch_cooperative_grid or run.launch_pdl)
        and metadata.num_ctas == 1
        and not getattr(run, "gsan_enabled", False)
    )
    laid = layout(list(compiled.src.signature.values()), len(pointers), floats, rest) if plain else None
    if laid is None or len(pointers) > 64:
        return None
    kinds, values = laid
    aligned = sum(1 << k for k, p in enumerate(pointers) if p & 15 == 0)
    threads = metadata.num_warps * metadata.target.warp_size
    return planner(compiled.function, grid, threads, metadata.shared, kinds, values, aligned,
                   device if host.count > 1 else -1, host.array_type, host.stream_object, host.current_device,
                   compiled)  # fmt: skip


def layout(types: list[str], arrays: int, floats: int, rest: tuple[Any, ...]) -> tuple[bytes, tuple[Any, ...]] | None:
    """Return what each parameter is (a an array, d and f floats, i fixed) and the fixed ones' values; None for other
    types.

    >>> layout(["*fp32", "fp64", "i32", "constexpr"], 1, 1, (7, 128))
    (b'adiii', (None, None, 7, 0, 0))
    """
    kinds: list[str] = []
    values: list[int | None] = []
    for k, kind in enumerate(types):
        if kind == "constexpr":
            continue
        number = rest[k - arrays - floats] if k >= arrays + floats else None
        if k < arrays and kind[0] == "*":
            kinds.append("a")
        elif arrays <= k < arrays + floats and kind in ("fp64", "fp32"):
            kinds.append("d" if kind == "fp64" else "f")
        elif kind in _WHOLE and isinstance(number, int):
            kinds.append("i")
        else:
            return None
        values.append(number)
    return "".join([*kinds, "ii"]).encode(), (*values, 0, 0)
