"""Anyone's Triton kernel as a problem, from its launches: its space, what each config changes, and a reference.

The default config is the reference, unless one is given: what it writes, every other config must write, at the launch
that is tuned and at the others that were captured. Arguments that are read before they are written are restored before
each call, and what is only written is poisoned, byte by byte as the interpreter saw it (`watch`).

Tunables are those of the autotuner's configs. A kernel without any has the constants that are powers of two proposed,
each half and twice as large, and keeps those that give the same; besides, warps and stages.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import calls
from .arguments import Call, Described, Regions, Unreadable, View, is_pointer
from .attempt import BUILD_LIMIT_S
from .devices import DEVICES
from .grids import Rules
from .launches import Captured, Launch, again, capture, hooked
from .measure import Failed
from .measure_adopted import AdoptedMeasure, Variant, key_of
from .problem import Problem, Unknown
from .sources import source_of
from .space import Config, Space, Tunable, without_hooks
from .table import Table
from .texts import chain_of, jitted, text_of
from .worker import Worker

_LEAST = 8  # a constant below that is no size of a block
_WARPS, _STAGES = (1, 2, 4, 8), (1, 2, 3, 4)
_TRY_S = 60.0
_MOST = 1024  # configs of what is proposed, warps and stages apart
_OPTIONS = {"num_warps": 4, "num_stages": 3}


def adopt(
    kernel: Any,
    arguments: Mapping[str, Any],
    *,
    grid: Callable[[Config], tuple[int, ...]] | tuple[int, ...],
    configs: Any = None,
    target: str | None = None,
    tolerance: float | None = None,
) -> Problem:
    """Return the problem of a kernel, whatever stands above its function, from one launch of it, which is made.

    arguments : by name, all that a launch would get: PyTorch's tensors, core's, NumPy's or CuPy's arrays, tuples,
    descriptors, numbers. grid : as for a launch. configs : in the place of the autotuner's: `triton.Config` objects,
    dicts, or a dict of lists. tolerance : the error allowed, relative to the result's size.

    *Raises*: Unknown, with what is missing or cannot be tuned, and what to do.
    """
    from .. import runtime

    names = jitted(kernel).arg_names
    if unknown := [n for n in arguments if n not in names and n not in _OPTIONS]:
        raise Unknown(f"{jitted(kernel).fn.__name__} has no argument {', '.join(unknown)}; it has {', '.join(names)}")
    given, regions = dict(arguments), Regions()
    try:
        for name, value in given.items():
            regions.plain(name, value)
    except Unreadable as error:
        raise Unknown(f"{jitted(kernel).fn.__name__}: {error}") from None
    if configs is not None and not any(hasattr(layer, "configs") for layer in chain_of(kernel)):
        given |= {k: v for k, v in _listed(configs)[0].items() if k not in given}
    if runtime.mode() == "cuda":  # Triton takes no arrays of CuPy as they are
        given = {n: runtime.Pointer(v) if is_pointer(v) and not hasattr(v, "data_ptr") else v for n, v in given.items()}
    with capture() as seen:
        try:
            kernel.run(grid=grid, warmup=False, **given)
        except TypeError as error:
            if "missing" not in str(error):
                raise
            raise Unknown(f"{error}. Remedy: it in the arguments, or in configs") from None
    return seen.problem(configs=configs, target=target, tolerance=tolerance)


def problem_of(
    seen: Captured,
    launches: Sequence[Launch],
    *,
    configs: Any = None,
    target: str | None = None,
    tolerance: float | None = None,
) -> Problem:
    """Return the problem of a kernel's captured launches: of the largest, the others being checked at.

    *Raises*: Unknown, with what is missing or cannot be tuned, and what to do.
    """
    from .. import runtime
    from .triton_problems import host

    if target not in (None, "cuda", *DEVICES):
        raise Unknown(f"no target is called {target}; there are cuda and, to compile for, {', '.join(DEVICES)}")
    kept = [each for each in launches if each.call is not None and not each.refused]
    if not kept:
        raise Unknown(f"{launches[0].name}: {launches[0].refused or 'no launch was recorded'}")
    tuned = max(kept, key=lambda each: sum(len(r) for r in each.call.regions) if each.call else 0)
    call = tuned.call
    assert call is not None
    if not call.regions:
        raise Unknown(f"{tuned.name}: no argument points to memory, so that nothing says whether a config is right")
    builder = _Builder(seen, tuned, [each for each in kept if each is not tuned], text_of(tuned.kernel), tolerance)
    space = builder.space(configs)
    where = DEVICES[target if target not in (None, "cuda") else "sm_90"]
    on_gpu = runtime.mode() == "cuda" and target in (None, "cuda")
    if target == "cuda" and not on_gpu:
        raise Unknown("no GPU is connected in this process: leave the target out, or name one to compile for (sm_90)")
    count = len(builder.others) + 1
    said = f"at {count} captured launches" if count > 1 else "at 1 captured launch"
    notes = [f"the default config is the reference, {said}", *builder.notes]
    first = next(view for _, view in call.views())
    common = (tuned.name, first.shape, first.numpy.name, space)  # as `stored.Auto` asks for it
    if on_gpu:
        measure = builder.measure(space, "cuda", "", host)
        args, named = tuned.given
        given = {*tuned.kernel.arg_names[: len(args)], *named} - set(space.names)
        fixed = {n: v for n, v in call.arguments.items() if n in given}
        return Problem(*common, measure, source_of(tuned.kernel), runtime.device_name(),
                       calls.mode("cuda, cold L2", fixed), tuple(notes))  # fmt: skip
    if builder.listed and configs is None:
        space = builder.fitting(space, where.target)
        notes += builder.notes[len(notes) - 1 :]
        common = (*common[:3], space)
    notes.insert(0, f"compiled for {where.target} ({where.product}) and estimated, not timed")
    return Problem(*common, builder.measure(space, "static", where.target), source_of(tuned.kernel),
                   f"{where.target} ({where.product})", f"static {where.target}", tuple(notes),
                   builder.measure(space, "interpret", where.target))  # fmt: skip


class _Builder:
    """What becomes of launches: a space, and for each config what it changes of each launch."""

    def __init__(
        self, seen: Captured, tuned: Launch, others: Sequence[Launch], text: str, tolerance: float | None
    ) -> None:
        self.seen, self.tuned, self.text, self.tolerance = seen, tuned, text, tolerance
        self.every = [tuned, *others]
        self.notes: list[str] = []
        self.layers = chain_of(tuned.outer)
        self.default: Config = {}
        self.others: list[Launch] = []
        self._rules: Rules | None = None  # of a grid that is a tuple
        self.listed: list[Config] = []  # what an autotuner offered
        self._computed = {n for layer in self.layers for n in getattr(layer, "values", ())}

    def space(self, configs: Any) -> Space:
        """Return the space: of the configs given, the autotuner's, or what is proposed and proves right."""
        tuner = next((layer for layer in self.layers if hasattr(layer, "configs")), None)
        if configs is not None:
            return self._with(configs)
        if tuner is not None and len(self.tuned.offered) > 1:
            self.listed = without_hooks(self.tuned.offered)
            return self._with(self.listed)
        return self._proposed()

    def _with(self, configs: Any) -> Space:
        names = self.tuned.kernel.arg_names
        if isinstance(configs, Mapping):
            space = Space([Tunable(n, tuple(v), next(iter(v))) for n, v in configs.items()])
        else:
            space = Space.of(_listed(configs))
        if odd := [n for n in space.names if n not in names and n not in (*_OPTIONS, "num_ctas", "maxnreg")]:
            raise Unknown(f"{self.tuned.name} has no argument {', '.join(odd)}, which configs name; it has "
                          f"{', '.join(names)}")  # fmt: skip
        self.default = space.default
        self._choose_others(space)
        return space

    def fitting(self, space: Space, target: str) -> Space:
        """Return an autotuner's space with the first config as default that fits a target, as no other can be launched
        there."""
        with Worker(self.measure(space, "static", target)) as worker:
            for k, config in enumerate(space.only or ()):
                try:
                    worker.call("build", config, limit_s=BUILD_LIMIT_S)
                except Failed as failure:
                    if failure.status != "constraints":
                        return space
                    if not k:
                        self.notes.append(f"the first config does not fit {target}: it {failure.reason}")
                    continue
                self.default = dict(config)
                return Space.of([config, *(c for c in self.listed if c != config)])
        return space

    def _proposed(self) -> Space:
        """Return the space of what is proposed: constants that give the same when they are halved or doubled."""
        assert self.tuned.call is not None
        arguments, constant = self.tuned.call.arguments, _constants(self.tuned.kernel)
        named = [n for n in arguments if n in constant and n not in self._computed and "stride" not in n.lower()]
        proposed = {n: arguments[n] for n in named if _is_block(arguments[n])}
        options = {n: int(self.tuned.config.get(n) or unset) for n, unset in _OPTIONS.items()}
        kept, stays = {}, []
        if proposed:
            tunables = [Tunable(n, (v // 2, v, 2 * v), v) for n, v in proposed.items()]
            each = [{**proposed, t.name: v} for t in tunables for v in t.values]
            space = Space(tunables, only=[dict(proposed), *(c for c in each if c != proposed)])
            self.default = space.default
            self._choose_others(space)
            with self._judge(space) as says:
                if why := says(space.default):
                    raise Unknown(f"{self.tuned.name}: the default config does not give the same twice: {why}. Remedy: "
                                  "arguments whose content does not depend on time or chance")  # fmt: skip
                for tunable in tunables:
                    changed = {v: {**space.default, tunable.name: v} for v in tunable.values}
                    reasons = {v: says(config) if v != tunable.default else "" for v, config in changed.items()}
                    right = tuple(v for v in tunable.values if not reasons[v])
                    if len(right) > 1:
                        kept[tunable.name] = right
                    else:
                        why = reasons[tunable.values[0]] or reasons[tunable.values[-1]]
                        stays.append(f"{tunable.name} stays {tunable.default}: {why}")
        while math.prod(map(len, kept.values())) > _MOST:
            name, _ = kept.popitem()
            stays.append(f"{name} stays {proposed[name]}: there are enough without it")
        if stays:
            self.notes.append("; ".join(stays))
        if not kept:
            self.notes.append("warps and stages only: no constant of the kernel can be another without another result")
        found = [Tunable(n, values, proposed[n]) for n, values in kept.items()]
        for name, values in (("num_warps", _WARPS), ("num_stages", _STAGES)):
            found.append(Tunable(name, tuple(sorted({*values, options[name]})), options[name]))
        space = Space(found)
        self.default = space.default
        self._choose_others(space)
        return space

    def _choose_others(self, space: Space) -> None:
        """Choose the launches that a config is checked at besides: those that had the same default."""
        assert self.tuned.call is not None

        def chosen(launch: Launch) -> dict[str, Any]:
            assert launch.call is not None
            return {n: launch.call.arguments[n] for n in space.names if n in launch.call.arguments}

        mine = chosen(self.tuned)
        offered = any(hasattr(layer, "configs") for layer in self.layers)
        self.others = [each for each in self.every[1:] if offered or chosen(each) == mine]

    @contextlib.contextmanager
    def _judge(self, space: Space) -> Iterator[Callable[[Config], str]]:
        """Yield what says why a config is wrong, "" for one that is right, by a worker that interprets."""
        measure = self.measure(space, "interpret", "sm_90")
        limit_s = _TRY_S
        with Worker(measure) as worker:

            def says(config: Config) -> str:
                nonlocal limit_s
                began = time.monotonic()
                try:
                    grid = worker.call("fit", config, limit_s=limit_s)
                    if config == space.default:  # one that hangs is not waited for as long
                        limit_s = min(_TRY_S, 3.0 + 10.0 * (time.monotonic() - began))
                except Failed as failure:
                    return failure.reason
                if self._rules is not None:
                    variant = measure.variants[0][key_of(config)]
                    assert isinstance(variant, Variant)
                    self._rules.keep(config, variant.grids[grid])
                return ""

            yield says

    def measure(self, space: Space, kind: str, target: str, host: str = "") -> AdoptedMeasure:
        """Return who measures, with what every config changes of every launch."""
        launches = [self.tuned, *self.others]
        every = [each.call for each in launches if each.call is not None]
        with hooked(self.seen):
            variants = [self._variants(each, space) for each in launches]
        grids = {key: variant.grid for key, variant in variants[0].items() if isinstance(variant, Variant)}
        dtype = _floating(every[0])
        return AdoptedMeasure(self.text, self.tuned.name, {}, {}, grids, dtype, kind=kind, target=target, host=host,
                              calls=every, variants=variants, default=dict(space.default),
                              allowed=self.tolerance)  # fmt: skip

    def _variants(self, launch: Launch, space: Space) -> dict[Any, Variant | str]:
        """Return what each config changes of a launch, or why it cannot be launched with it."""
        found: dict[Any, Variant | str] = {}
        table = Table(space)
        for row in range(len(table)):
            config = table.config(row)
            try:
                found[key_of(config)] = self._variant(launch, config)
            except Failed as failure:
                found[key_of(config)] = failure.reason
        return found

    def _variant(self, launch: Launch, config: Config) -> Variant:
        call = launch.call
        assert call is not None
        try:
            bound, grid = again(self.seen, launch, config)
            regions = Regions()
            plain = {n: regions.plain(n, v) for n, v in bound.items()}
        except Exception as error:
            raise Failed("constraints", f"no launch with this config: {type(error).__name__}: {error}") from error
        changed = {n: v for n, v in plain.items() if _differs(v, call.arguments[n])}
        if not callable(launch.grid):
            if self._rules is None:
                self._rules = Rules([each.call for each in self.every if each.call is not None], config)
            k = next(k for k, each in enumerate(self.every) if each is launch)
            return Variant(changed, tuple(every[k] for every in self._rules.grids(config)))
        return Variant(changed, (grid,))


def _differs(value: Any, before: Any) -> bool:
    """Return whether a config changes an argument; where arrays lie now is not what it changes."""
    if isinstance(value, View):
        return False
    if isinstance(value, Described):
        return bool(value.block_shape != before.block_shape)
    try:
        return bool(value != before)
    except Exception:
        return value is not before


def _listed(configs: Any) -> list[Config]:
    """Return configs as dicts, hooks apart, which the autotuner's own objects keep."""
    if isinstance(configs, Mapping):
        return [{n: next(iter(v)) for n, v in configs.items()}]
    return without_hooks(configs)


def _floating(call: Call) -> str:
    """Return the dtype that a launch computes in, for the estimate: of its largest array of floating numbers."""
    known = DEVICES["sm_90"].flops
    views = [view for _, view in call.views() if view.numpy.name in known]
    return max(views, key=lambda v: math.prod(v.shape)).numpy.name if views else "float32"


def _constants(kernel: Any) -> set[str]:
    """Return the names of the parameters that are constants of the kernel's text."""
    parameters = getattr(kernel, "params", None)
    if parameters is not None:
        return {p.name for p in parameters if p.is_constexpr}
    from ..interpreter import constexprs_of

    return constexprs_of(kernel.fn)


def _is_block(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST and value & (value - 1) == 0
