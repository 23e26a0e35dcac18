"""Compile every kernel with every config of its space for GPUs that are not there.

``python -m triton_kernels.compile_check [--targets sm_80,sm_90,sm_100,gfx942] [--jobs 2]``

The interpreter accepts what the compiler rejects, and no launch without a GPU shows that a config spills or asks for
more shared memory than there is; this does. float32, float16 and bfloat16 run over the whole space, float64 at the
default config. Prints a row a kernel, dtype and target; exits with 1 where a compilation fails, or where a default
config spills or does not fit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
DTYPES = ("fp32", "fp16", "bf16", "fp64")


@dataclass
class Row:
    """One line of the table."""

    kernel: str
    dtype: str
    target: str
    configs: int = 0
    ok: int = 0
    pruned: Counter[str] = field(default_factory=Counter)
    registers: int = 0
    shared_bytes: int = 0
    spilling: int = 0
    spill_bytes: int = 0
    failures: list[str] = field(default_factory=list)


def check(
    targets: Sequence[str] = TARGETS,
    jobs: int = 2,
    extra: Sequence[Any] = (),
    dtypes: Sequence[str] = DTYPES,
    only: str = "",
) -> list[Row]:
    """Compile everything; `extra` are elementwise kernels (`elementwise.build`), compiled at the default config.

    `only` restricts the check to kernels with that text in their name.
    """
    from . import interpreting

    if interpreting():
        raise SystemExit(
            "compile_check: TRITON_INTERPRET is set, and then nothing is compiled: triton fixes the mode when it is "
            "imported. Remedy: run it in a process of its own, without TRITON_INTERPRET."
        )
    from . import families

    work = []
    for dtype, case in families.cases(dtypes):
        configs = [case.default_config] if dtype == "fp64" else list(case.space.product())
        if case.default_config not in configs:
            configs.append(case.default_config)
        work.append((case, dtype, configs))
    for kernel in extra:
        case = kernel.compile_cases("fp32")[0]
        work.append((case, "fp32", [case.default_config]))
    rows = []
    for target in targets:
        rows += _check_target(target, [w for w in work if only in w[0].name], jobs)
    return rows


def _check_target(target: str, work: Sequence[Any], jobs: int) -> list[Row]:
    import triton
    from triton.backends.compiler import GPUTarget

    from .driver import CompileOnlyDriver

    if target.startswith("sm_"):
        where = GPUTarget("cuda", int(target[3:]), 32)
    else:
        where = GPUTarget("hip", target, 64)
    # The driver is global: targets follow one another, and only the configs of one are compiled side by side.
    triton.runtime.driver.set_active(CompileOnlyDriver(where))
    rows = [Row(case.name, dtype, target) for case, dtype, _ in work]
    tasks = []
    for row, (case, _, configs) in zip(rows, work, strict=True):
        row.configs = len(configs)
        for config in configs:
            if reason := case.space.rejected(config):
                row.pruned[reason] += 1
            else:
                tasks.append((row, case, config))
    with ThreadPoolExecutor(jobs) as pool:  # threads are enough: compiling releases the GIL
        for (row, case, config), result in zip(tasks, pool.map(lambda t: _compile(t[1], t[2]), tasks), strict=True):
            _enter(row, case, config, result, target)
    return rows


class _Argument:
    """A pointer as compiling sees it: a dtype, 16-byte aligned, within 2 GiB."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def data_ptr(self) -> int:
        return 0

    def ptr_range(self) -> int:
        return 0


def _compile(case: Any, config: dict[str, Any]) -> Any:
    from .resources import resources_of

    arguments = [_Argument(a[1:]) if isinstance(a, str) else a for a in case.arguments]
    try:
        options = {"num_stages": 2, **config}
        compiled = case.kernel.run(*arguments, **case.constexprs, **options, grid=(1,), warmup=True)
        return resources_of(compiled)
    except Exception as error:
        return error


def _enter(row: Row, case: Any, config: dict[str, Any], result: Any, target: str) -> None:
    from .resources import SHARED_LIMIT

    default = config == case.default_config
    shown = ", ".join(f"{k}={v}" for k, v in config.items())
    if isinstance(result, Exception):
        lines = [line.strip() for line in str(result).splitlines() if line.strip()]
        row.failures.append(f"{shown}: {type(result).__name__}: {' | '.join(lines[-2:])}")
        return
    limit = SHARED_LIMIT[target]
    if result.shared_bytes > limit:
        row.pruned[f"shared memory {result.shared_bytes} > {limit} bytes"] += 1
        if default:
            row.failures.append(f"the default {shown} asks for {result.shared_bytes} bytes of shared memory > {limit}")
        return
    row.ok += 1
    row.registers = max(row.registers, result.registers)
    row.shared_bytes = max(row.shared_bytes, result.shared_bytes)
    if result.spill_bytes:
        row.spilling += 1
        row.spill_bytes = max(row.spill_bytes, result.spill_bytes)
        if default:
            row.failures.append(f"the default {shown} spills {result.spill_bytes} bytes")


def table(rows: Sequence[Row]) -> str:
    """The rows as text, failures and the reasons for pruning below them."""
    heading = ("kernel", "dtype", "target", "configs", "ok", "pruned", "registers", "shared", "spilling", "spill bytes")
    body = [
        (r.kernel, r.dtype, r.target, r.configs, r.ok, sum(r.pruned.values()), r.registers, r.shared_bytes, r.spilling,
         r.spill_bytes)
        for r in rows
    ]  # fmt: skip
    cells = [[str(c) for c in line] for line in [heading, *body]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heading))]
    text = ["  ".join(c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
            for line in cells]  # fmt: skip
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.pruned)
    if reasons:
        text += ["", "pruned by:", *(f"  {n:5d}  {reason}" for reason, n in reasons.most_common())]
    failures = [f"  {r.kernel} {r.dtype} {r.target}: {failure}" for r in rows for failure in r.failures]
    if failures:
        text += ["", "failed:", *failures]
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None, extra: Sequence[Any] = ()) -> int:
    """The command; core passes the kernels of its op table as `extra`."""
    parser = argparse.ArgumentParser(prog="python -m triton_kernels.compile_check", description=__doc__.split("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated: " + ", ".join(TARGETS))
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="comma-separated: " + ", ".join(DTYPES))
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="compilations side by side")
    parser.add_argument("--only", default="", help="kernels with this text in their name")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    rows = check(options.targets.split(","), options.jobs, extra, options.dtypes.split(","), options.only)
    print(table(rows))
    failed = sum(len(r.failures) for r in rows)
    total = sum(r.ok for r in rows)
    print(f"\n{total} compilations for {options.targets} in {time.perf_counter() - started:.0f} s, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
