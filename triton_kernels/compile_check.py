"""Compile every kernel with every config of its space for GPUs that are not there.

``python -m triton_kernels.compile_check [--quick] [--targets sm_80,sm_90,sm_100,gfx942] [--jobs 2]
[--of 3]``

The interpreter accepts what the compiler rejects, and no launch without a GPU shows that a config spills or asks for
more shared memory than there is; this does. float32, float16 and bfloat16 run over the whole space, float64 at the
default config. ``--quick`` is for every change: for sm_90 the default configs of every type, and in bfloat16 so many
more that every value of every tunable occurs; elsewhere the defaults in bfloat16; the printed kernels for one GPU of
each maker. ``--of N`` does one part of the work in N, another each day, so that in N days all of it is done.
Prints a row a kernel, dtype and target, and each failure when it happens; exits with 1 where a compilation fails, or
where a default config spills or does not fit. Compiled kernels are kept in Triton's cache: the second run takes a tenth
of the first's time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
DTYPES = ("fp32", "fp16", "bf16", "fp64")
_SAY_EVERY_S = 30
QUICK_TARGET = "sm_90"
QUICK_PRINTED = ("sm_90", "gfx942")


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
    quick: bool = False,
    parts: int = 1,
    part: int = 0,
) -> list[Row]:
    """Compile everything; `extra` are elementwise kernels (`elementwise.build`), compiled at the default config.

    `only` restricts the check to kernels with that text in their name; of `parts` equal parts of the compilations
    the one of the number `part` is done.
    """
    from . import interpreting

    if interpreting():
        raise SystemExit(
            "compile_check: TRITON_INTERPRET is set, and then nothing is compiled: triton fixes the mode when it is "
            "imported. Remedy: run it in a process of its own, without TRITON_INTERPRET."
        )
    from . import families

    printed = [("fp32", kernel.compile_cases("fp32")[0]) for kernel in extra]
    rows: list[Row] = []
    tasks: list[Task] = []
    for target in targets:
        work = [(dtype, case, _configs(case, dtype, target, quick)) for dtype, case in families.cases(dtypes)]
        if not quick or target in QUICK_PRINTED:
            work += [(dtype, case, [case.default_on(target)]) for dtype, case in printed]
        for dtype, case, configs in work:
            if only not in case.name or not configs:
                continue
            row = Row(case.name, dtype, target, configs=len(configs))
            rows.append(row)
            for config in configs:
                if reason := case.space.rejected(config):
                    row.pruned[reason] += 1
                else:
                    tasks.append((row, case, config))
    tasks = tasks[part::parts]
    started = said = time.perf_counter()
    for i, ((row, case, config), result) in enumerate(zip(tasks, _compiled(tasks, jobs), strict=True), 1):
        known = len(row.failures)
        _enter(row, case, config, result, row.target)
        for failure in row.failures[known:]:
            print(f"failed: {row.kernel} {row.dtype} {row.target}: {failure}", file=sys.stderr, flush=True)
        if time.perf_counter() - said > _SAY_EVERY_S:
            said = time.perf_counter()
            print(f"{i} of {len(tasks)} compiled in {said - started:.0f} s: {row.kernel} for {row.target}",
                  file=sys.stderr, flush=True)  # fmt: skip
    return rows


Task = tuple[Row, Any, dict[str, Any]]


def _configs(case: Any, dtype: str, target: str, quick: bool) -> list[dict[str, Any]]:
    """Return the configs of a kernel that are compiled for a dtype and a target."""
    if quick and target != QUICK_TARGET and dtype != "bf16":
        return []
    default = case.default_on(target)
    if dtype == "fp64" or (quick and (target != QUICK_TARGET or dtype != "bf16")):
        return [default]
    if quick:
        return _covering(case.space, default)
    configs = list(case.space.product())
    return configs if default in configs else [*configs, default]


def _covering(space: Any, default: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the default, and configs until every value that a legal one has stands in one of them."""
    chosen, seen = [default], set(default.items())
    for config in space.configs():
        if not seen.issuperset(config.items()):
            chosen.append(config)
            seen.update(config.items())
    return chosen


_tasks: list[Task] = []  # what the processes below were forked with: kernels made from text cannot be sent


def _compiled(tasks: list[Task], jobs: int) -> Iterator[Any]:
    """Yield the resources of each task, or why it failed, in their order.

    Compiling holds the GIL for half of its time, so it runs in processes, each with a driver of its own.
    """
    global _tasks
    _tasks = tasks
    if jobs <= 1 or len(tasks) < 2:
        yield from map(_compile_task, range(len(tasks)))
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(_compile_task, range(len(tasks)), chunksize=4)


def _compile_task(index: int) -> Any:
    row, case, config = _tasks[index]
    _aim(row.target)
    return _compile(case, config)


def _aim(target: str) -> None:
    """Compile for this target from now on: the driver is global."""
    global _aimed
    if _aimed == target:
        return
    import triton
    from triton.backends.compiler import GPUTarget

    from .driver import CompileOnlyDriver

    if target.startswith("sm_"):
        where = GPUTarget("cuda", int(target[3:]), 32)
    else:
        where = GPUTarget("hip", target, 64)
    triton.runtime.driver.set_active(CompileOnlyDriver(where))
    _aimed = target


_aimed = ""


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
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' | '.join(lines[-2:])}"


def _enter(row: Row, case: Any, config: dict[str, Any], result: Any, target: str) -> None:
    from .resources import SHARED_LIMIT

    default = config == case.default_on(target)
    shown = ", ".join(f"{k}={v}" for k, v in config.items())
    if isinstance(result, str):
        row.failures.append(f"{shown}: {result}")
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
    """Return the rows as text, failures and the reasons for pruning below them."""
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
    """Run the command; core passes the kernels of its op table as `extra`."""
    parser = argparse.ArgumentParser(prog="python -m triton_kernels.compile_check", description=__doc__.split("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated: " + ", ".join(TARGETS))
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="comma-separated: " + ", ".join(DTYPES))
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="compilations side by side")
    parser.add_argument(
        "--quick", action="store_true", help="the defaults, and every value once: what every change runs"
    )
    parser.add_argument("--only", default="", help="kernels with this text in their name")
    parser.add_argument("--of", type=int, default=1, help="do one part in so many, another each day")
    options = parser.parse_args(arguments)
    part = date.today().toordinal() % options.of
    started = time.perf_counter()
    rows = check(options.targets.split(","), options.jobs, extra, options.dtypes.split(","), options.only,
                 options.quick, options.of, part)  # fmt: skip
    print(table(rows))
    failed = sum(len(r.failures) for r in rows)
    total = sum(r.ok for r in rows)
    spilling = sum(r.spilling for r in rows)
    which = f" (part {part + 1} of {options.of}, today's)" if options.of > 1 else ""
    spent = time.perf_counter() - started
    print(f"\n{total} compilations{which} for {options.targets} in {spent:.0f} s, {failed} failures; "
          f"{spilling} configs that are no defaults spill")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
