"""A user's own `@triton.jit` kernel as a problem: its arguments, its grid, a reference for what it should write.

The kernel's text with all that it calls is sent to workers, which make it anew in the mode they need: compiled for a
GPU that is not here, interpreted, or run on the GPU. Nothing of the user's process is pickled but arrays and numbers.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import calls
from .arguments import address_of, as_numpy
from .counting import Counts, Ledger, counted
from .measure import SMALLEST, Built, Failed, failure_of, judge, launch_failure, tolerance
from .measure_static import Argument, code_of, code_says, facts_of, start_compiling, threads
from .memory import Zoned
from .problem import Problem, Unknown
from .sources import source_of
from .space import Config, Constraint, Space, Tunable, without_hooks
from .table import Table
from .texts import chain_of, function_of, jitted, made, text_of
from .worker import Worker

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_INFERRED = {"num_warps": (1, 2, 4, 8), "num_stages": (1, 2, 3, 4)}
_TERMS = 64  # of the sums that an output may hold, for the tolerance
_SLOW_S = 2.0  # what takes longer in the interpreter is left to the finalists


@dataclass
class OwnMeasure:
    """A kernel of the user's. `kind` is "static", "interpret" or "cuda". See `measure.Measure`.

    text : a module with the kernel, called `name`. arguments : all but the tunables, in any order. outputs : names of
    the arrays that it writes. expected : what they should become. grids : for each config, in the table's order, how
    many programs. other : arrays with other content, and what the outputs should become then, for checks with a seed.
    allowed : the error, relative to the result's size; None for what the dtype allows.
    """

    text: str
    name: str
    arguments: dict[str, Any]
    expected: dict[str, np.ndarray]
    grids: dict[tuple[Any, ...], tuple[int, ...]]
    dtype: str
    other: tuple[dict[str, Any], dict[str, np.ndarray]] | None = None
    allowed: float | None = None
    kind: str = "static"
    target: str = "sm_90"
    host: str = ""
    estimate: bool = field(init=False)
    steady: bool = field(init=False)
    apart: bool = True
    derived: bool = True
    default: Config = field(default_factory=dict)
    environment: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.estimate = self.steady = self.kind == "static"
        self.environment = {"TRITON_INTERPRET": "1" if self.kind == "interpret" else "0"}

    def open(self) -> dict[str, str]:
        """Make the kernel in the mode that this process is for."""
        import triton

        self._xp: Any = np
        facts = {"triton": triton.__version__, "device": self.target}
        if self.kind == "static":
            start_compiling(self.target)
        elif self.kind == "cuda":
            import importlib

            from .. import runtime

            module, _, function = self.host.partition(":")
            self._xp = getattr(importlib.import_module(module), function)()
            if runtime.mode() != "cuda":
                runtime.connect(self._xp)
            facts["device"] = runtime.device_name()
        else:
            from .. import runtime

            facts["device"] = "Triton's interpreter"
        self._kernel = made(self.text, self.name)
        self._zoned = {n: Zoned(self._xp, a) for n, a in self.arguments.items() if isinstance(a, np.ndarray)}
        self._arrays = {n: zoned.array for n, zoned in self._zoned.items()}
        self._times: dict[tuple[Any, ...], float] = {}
        self._interpreter: Worker | None = None
        self._ledger: Ledger | None = None
        self._check_s = 0.0  # how long the first check took in the interpreter
        return facts

    def build(self, config: Config) -> Built:
        from ..resources import resources_of

        began = time.perf_counter()
        if self.kind != "static":
            if self.kind == "cuda":
                self._launch(config)
                self._wait()
            name = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()
            return Built(name, (time.perf_counter() - began) * 1e3)
        grid = self.grids[_key(config)]
        threads(config.get("num_warps", 4), self.target)
        try:
            compiled = self._kernel.run(**self._specs(config), grid=grid, warmup=True)
        except Exception as error:
            raise failure_of("compile", error) from error
        moved, counts = self._moved(), self._counted(config)
        flops, asked = (counts.flops, counts.loaded + counts.stored) if counts is not None else (0.0, 0.0)
        facts = facts_of(resources_of(compiled), self.target, self.dtype, flops, moved, math.prod(grid),
                         compiled.metadata.num_warps, asked, code_says(compiled))  # fmt: skip
        if counts is not None:
            facts |= {"asked": asked, "multiplied": counts.flops, "idle_lanes": counts.idle}
        self._times[_key(config)] = facts["estimate_ms"]
        binary = hashlib.sha256(code_of(compiled)).hexdigest()
        return Built(f"{binary} {grid}", (time.perf_counter() - began) * 1e3, facts)

    def _specs(self, config: Config) -> dict[str, Any]:
        """Return what the kernel is compiled with: by name, since a constexpr may stand before an argument."""
        from ..runtime import TYPE_NAMES

        given = {
            n: Argument(TYPE_NAMES[a.dtype]) if isinstance(a, np.ndarray) else a for n, a in self.arguments.items()
        }
        return {**given, **config}

    def count(self, config: Config) -> Counts:
        """Count what a launch does, where this process interprets. *Raises*: Failed."""
        from ..runtime import Pointer

        given = {n: Pointer(self._arrays[n]) if n in self._arrays else a for n, a in self.arguments.items()}
        for name, array in self._arrays.items():
            array[...] = self.arguments[name]
        return self._count(given, config, self.grids[_key(config)], list(self._arrays.values()))

    def _count(self, given: Mapping[str, Any], config: Config, grid: Sequence[int], arrays: Sequence[Any]) -> Counts:
        names = self._kernel.arg_names
        named = {**given, **{n: v for n, v in config.items() if n in names}}
        ranges = [(address_of(a), address_of(a) + a.nbytes) for a in arrays]
        try:
            return counted(self._kernel, named, grid, ranges)
        except Exception as error:
            raise failure_of("runtime", error) from error

    def _counted(self, config: Config) -> Counts | None:
        """Return what a launch does; None where counting takes too long or fails."""
        if self._interpreter is None:
            self._interpreter = Worker(replace(self, kind="interpret"))
        if self._ledger is None:
            self._ledger = Ledger(self._interpreter)
            if self.default:
                self._counted(self.default)  # first: it decides whether anything is counted
        tile = {n: v for n, v in sorted(config.items()) if n not in OPTIONS}
        return self._ledger.of(f"{tile} {self.grids[_key(config)]}", config)

    def _moved(self) -> float:
        """Return how many bytes move at least: each array once."""
        return float(sum(a.nbytes for a in self.arguments.values() if isinstance(a, np.ndarray)))

    def _call(self, config: Config) -> None:
        """Run the kernel, whatever comes of it."""
        from ..runtime import Pointer

        given = {n: Pointer(self._arrays[n]) if n in self._arrays else a for n, a in self.arguments.items()}
        self._kernel[self.grids[_key(config)]](**given, **config)

    def _launch(self, config: Config) -> None:
        try:
            self._call(config)
        except Exception as error:
            root: BaseException = error  # the interpreter tells what went wrong by an error around it
            while self.kind == "interpret" and root.__cause__ is not None:
                root = root.__cause__
            if short := getattr(root, "short", ""):
                raise Failed("runtime", short, str(root)) from error
            raise launch_failure(root, self._xp is not np) from error  # type: ignore[arg-type]

    def _wait(self) -> None:
        if self._xp is not np:
            try:
                self._xp.cuda.get_current_stream().synchronize()
            except Exception as error:  # the process's context is broken: others must not run in it
                raise failure_of("runtime", error, fatal=True) from error

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Return the largest error. What is only compiled here runs in the interpreter, in a process of its own."""
        if self.kind == "static":
            return self._interpreted(config)
        given, told = (self.arguments, self.expected) if not seed or self.other is None else self.other
        for name, array in self._arrays.items():
            if name in self.expected:
                array.view(np.uint8)[...] = 0xFF  # NaN in every floating dtype
            else:
                array[...] = self._xp.asarray(given[name])
        self._launch(config)
        self._wait()
        worst = 0.0
        for name, zoned in self._zoned.items():
            if zoned.spoiled():
                raise Failed("correctness", f"it writes outside of {name}")
        for name, expected in told.items():
            found = self._arrays[name] if self._xp is np else self._arrays[name].get()
            kind = found.dtype.name
            scale = np.abs(expected) + float(np.mean(np.abs(expected)))
            allowed = tolerance(kind, _TERMS) if kind in ("float16", "bfloat16", "float32", "float64") else 1e-12
            allowed = allowed if self.allowed is None or allowed == 1e-12 else self.allowed
            worst = max(worst, judge(found, expected, scale, allowed, SMALLEST.get(kind, 0.0)))
        for name, array in self._arrays.items():
            now = array if self._xp is np else array.get()
            if name not in self.expected and now.tobytes() != given[name].tobytes():
                raise Failed("correctness", f"the kernel writes into {name}, for which the reference gives nothing")
        return worst

    def _interpreted(self, config: Config) -> float:
        """Return what the interpreter says; where that takes long, the finalists alone are asked there, by the
        session."""
        if self._check_s > _SLOW_S:
            return 0.0
        if self._interpreter is None:
            self._interpreter = Worker(replace(self, kind="interpret"))
        first = not self._check_s
        worst: float = self._interpreter.call("check", config, limit_s=50.0 if first else 1.0 + 10.0 * self._check_s)
        if first:  # once more: the process had to be started too
            began = time.monotonic()
            self._interpreter.call("check", config, limit_s=50.0)
            self._check_s = time.monotonic() - began
        return worst

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        if self.kind == "static":
            if _key(config) not in self._times:
                self.build(config)
            return [self._times[_key(config)]] * count, []
        if self.kind == "interpret":
            raise Failed("runtime", "the interpreter has no times: it tells right from wrong alone")
        if anchor is None:
            return self.rounds([config], count, 0)[0], []
        mine, other = self.rounds([config, anchor], count, count)
        return mine, other

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        if self.kind == "static":
            return [self.pairs(c, None, count)[0] for c in configs]
        from .measure_triton import timed

        return timed(self._xp, self._launch, self._wait, configs, count, seed)

    def repeat(self, config: Config, count: int) -> None:
        for _ in range(count):
            self._launch(config)
        self._wait()


def _key(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(config.items()))


# -- a reference ------------------------------------------------------------------------------------------------------


def ask(reference: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return what a reference gives for those of the arguments that it names, in float64."""
    asked = inspect.signature(reference).parameters
    every = any(p.kind is p.VAR_KEYWORD for p in asked.values())
    return reference(**{n: _wide(a) for n, a in arguments.items() if every or n in asked})


def other_inputs(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the arguments with other content in the floating arrays of these names: three quarters of each number,
    which keeps signs, order and what is 0, so that a kernel takes it in all likelihood.

    >>> other_inputs({"x": np.array([4.0, -8.0]), "n": 2}, ["x"])
    {'x': array([ 3., -6.]), 'n': 2}
    """
    found = dict(arguments)
    for name in names:
        value = arguments[name]
        if isinstance(value, np.ndarray) and value.dtype.kind in "fV":  # V: ml_dtypes' bfloat16
            found[name] = (value.astype(np.float64) * 0.75).astype(value.dtype)
    return found


def _wide(value: Any) -> Any:
    """Return an argument as a reference gets it: floating arrays in float64, others as copies."""
    if not isinstance(value, np.ndarray):
        return value
    with np.errstate(invalid="ignore"):  # an output may hold anything
        return value.copy() if value.dtype.kind in "biu" else value.astype(np.float64)


# -- the problem -------------------------------------------------------------------------------------------------------


def space_of(kernel: Any, arguments: Mapping[str, Any], configs: Any = None) -> Space:
    """Return the space of a kernel: a list of configs, a dict of lists, or what its constexprs suggest.

    Inferred tunables are the constexprs that the arguments leave open: powers of two from 16 to 1024 for those written
    in capitals, and num_warps. *Raises*: Unknown.
    """
    if configs is None:  # of an autotuner above the kernel
        configs = without_hooks([c for layer in chain_of(kernel) for c in getattr(layer, "configs", ())]) or None
    if isinstance(configs, Mapping):
        tunables = [Tunable(n, tuple(v), next(iter(v))) for n, v in configs.items()]
        return Space(tunables)
    if configs is not None:
        return Space.of(list(configs))
    declared = inspect.signature(function_of(kernel)).parameters.values()
    left = [p.name for p in declared if "constexpr" in str(p.annotation) and p.name not in arguments]
    if odd := [n for n in left if not n.isupper()]:
        raise Unknown(
            f"no values are known for {', '.join(odd)} of {function_of(kernel).__name__}. Remedy: configs={{...}}"
        )
    sizes = tuple(1 << k for k in range(4, 11))
    tunables = [Tunable(n, sizes, 128) for n in left]
    tunables.append(Tunable("num_warps", _INFERRED["num_warps"], 4))
    limits = [Constraint("a tile of at most 65,536 elements", lambda c: math.prod(c[n] for n in left) <= 1 << 16)]
    return Space(tunables, limits if len(left) > 1 else [])


def own_problem(
    kernel: Any,
    arguments: Mapping[str, Any],
    *,
    grid: Callable[[Config], tuple[int, ...]] | tuple[int, ...],
    reference: Callable[..., Any] | None = None,
    configs: Any = None,
    target: str | None = None,
    tolerance: float | None = None,
) -> Problem:
    """Return the problem of a kernel with `@triton.jit`.

    arguments : by name, all but the tunables; NumPy arrays for pointers. grid : of a config, as for a launch.
    reference : takes the arguments and gives, by name, what the outputs should be; a single array where there is one
    output named ``out``. Without one the kernel is adopted: its default config is the reference, and arguments are of
    any library (`adoption.adopt`). configs : `triton.Config` objects, dicts, or a dict of lists; without them what the
    constexprs suggest.

    *Raises*: Unknown, for what is missing or cannot be tuned.
    """
    from . import triton_problems
    from .devices import DEVICES

    if reference is None:
        from .adoption import adopt

        return adopt(kernel, arguments, grid=grid, configs=configs, target=target, tolerance=tolerance)
    kernel = jitted(kernel)
    name = kernel.fn.__name__
    names = list(inspect.signature(kernel.fn).parameters)
    space = space_of(kernel, arguments, configs)
    arguments = {n: as_numpy(n, a) for n, a in arguments.items()}
    if unknown := [n for n in arguments if n not in names]:
        raise Unknown(f"{name} has no argument {', '.join(unknown)}; it has {', '.join(names)}")
    if left := [n for n in names if n not in arguments and n not in space.names]:
        raise Unknown(f"{name} wants {', '.join(left)}: needed in the arguments, or in the configs")
    arrays = {n: a for n, a in arguments.items() if isinstance(a, np.ndarray)}
    if not arrays:
        raise Unknown(f"{name}: pointers are NumPy arrays in the arguments, and there is none")
    expected = _told(name, arguments, reference)
    changed = other_inputs(arguments, [n for n in arrays if n not in expected])
    other: tuple[dict[str, Any], dict[str, np.ndarray]] | None = None
    with contextlib.suppress(Exception), np.errstate(all="ignore"):  # such content may be nothing that it takes
        other = changed, _told(name, changed, reference)
    table = Table(space)
    grids = {}
    for row in range(len(table)):
        config = table.config(row)
        sizes = grid(config) if callable(grid) else grid
        grids[_key(config)] = tuple(int(s) for s in (sizes if isinstance(sizes, Sequence) else (sizes,)))
    text = text_of(kernel)
    first = next(arrays[n] for n in names if n in arrays)
    shape = tuple(int(n) for n in first.shape)
    common = (text, name, dict(arguments), expected, grids, first.dtype.name, other, tolerance)
    source = source_of(kernel)
    from .. import runtime

    if target not in (None, "cuda", *DEVICES):
        raise Unknown(f"no target is called {target}; there are cuda and, to compile for, {', '.join(DEVICES)}")
    if runtime.mode() == "cuda" and target in (None, "cuda"):
        measure = OwnMeasure(*common, kind="cuda", host=triton_problems.host)
        mode = calls.mode("cuda, cold L2", {n: arguments[n] for n in names if n in arguments})
        return Problem(name, shape, first.dtype.name, space, measure, source, runtime.device_name(), mode)
    if target == "cuda":
        raise Unknown("no GPU is connected in this process: leave the target out, or name one to compile for (sm_90)")
    where = DEVICES[target or "sm_90"]
    measure = OwnMeasure(*common, kind="static", target=where.target, default=dict(space.default))
    check = OwnMeasure(*common, kind="interpret", target=where.target)
    notes = (f"compiled for {where.target} ({where.product}) and estimated, not timed",)
    return Problem(name, shape, first.dtype.name, space, measure, source, f"{where.target} ({where.product})",
                   f"static {where.target}", notes, check)  # fmt: skip


def _told(name: str, arguments: Mapping[str, Any], reference: Callable[..., Any]) -> dict[str, np.ndarray]:
    """Return what the reference says the outputs should be, in float64. *Raises*: Unknown."""
    arrays = {n: a for n, a in arguments.items() if isinstance(a, np.ndarray)}
    told = ask(reference, arguments)
    expected = dict(told) if isinstance(told, Mapping) else {"out": told}
    if not expected or any(n not in arrays for n in expected):
        raise Unknown(f"{name}: the reference gives {', '.join(expected) or 'nothing'}; needed: arrays among "
                      f"{', '.join(arrays)}, by name")  # fmt: skip
    for n, value in expected.items():
        expected[n] = np.asarray(value, np.float64)
        if expected[n].shape != arrays[n].shape:
            raise Unknown(f"{name}: the reference gives {n} of {expected[n].shape}, the argument is {arrays[n].shape}")
    return expected
