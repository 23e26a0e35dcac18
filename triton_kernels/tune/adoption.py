"""Anyone's Triton kernel as a problem, from its launches: its space, what each config changes, and a reference.

``with tune.capture() as seen: program()`` records every Triton launch of a program, in which no line is changed, and
``seen.problem("kernel")`` is what `tune.run` takes. Nothing of Triton or PyTorch is left changed.

The default config is the reference, unless one is given: what it writes, every other config must write, at the launch
that is tuned and at the others that were captured. Arguments that are read before they are written are restored before
each call, and what is only written is poisoned, byte by byte as the interpreter saw it (`watch`). What one launch alone
does not tell, as of partial sums that a wrapper allots by a block, the whole program does, if it is given:
``seen.problem("kernel", program=f)`` (`rerun`).

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
from .compiled import constants_of
from .devices import DEVICES
from .grids import Rules
from .hooks import hooked
from .launches import Launch, Recorder, again
from .measure import Failed
from .measure_adopted import AdoptedMeasure, Variant, key_of, own_key
from .problem import Problem, Unknown
from .rerun import Rerun
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
_UNSEEN = {*_OPTIONS, "num_ctas", "maxnreg"}  # what changes no kernel's text
_MOST_RUNS = 64  # of a program, warps and stages apart


class Captured(Recorder):
    """The launches that a capture has seen; ``print(seen)`` lists them, each with its arguments."""

    def problem(self, name: str | None = None, **options: Any) -> Problem:
        """Return the problem of a kernel's launches, for `tune.run`; without a name of the only kernel. options :
        `problem_of`'s: target, configs, tolerance, program. *Raises*: Unknown."""
        names = list(dict.fromkeys(each.name for each in self.launches))
        if name is None and len(names) != 1:
            raise Unknown(f"{len(names)} kernels were launched ({', '.join(names) or 'none'}). Remedy: the name of one")
        return problem_of(self, self.of(name or names[0]), **options)


@contextlib.contextmanager
def capture() -> Iterator[Captured]:
    """Record every Triton launch within, of all threads; see this module.

    *Raises*: RuntimeError where another capture is open.
    """
    seen = Captured()
    with hooked(seen):
        try:
            yield seen
        finally:
            seen.close()


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
    seen: Recorder,
    launches: Sequence[Launch],
    *,
    configs: Any = None,
    target: str | None = None,
    tolerance: float | None = None,
    program: Callable[[], Any] | None = None,
) -> Problem:
    """Return the problem of a kernel's captured launches: of the largest, the others being checked at.

    program : launches the kernel, and returns what its configs can be judged by; it is run again with each config that
    one launch alone does not find right.

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
        raise Unknown(f"{tuned.name}: no argument points to memory, so that nothing says whether a config is right. "
                      "Needed: a kernel that writes into an array")  # fmt: skip
    builder = _Builder(seen, tuned, [each for each in kept if each is not tuned], text_of(tuned.kernel), tolerance)
    builder.rerun = Rerun(program, tuned, tolerance) if program is not None else None
    space = builder.space(configs)
    where = DEVICES[target if target not in (None, "cuda") else "sm_90"]
    on_gpu = runtime.mode() == "cuda" and target in (None, "cuda")
    if target == "cuda" and not on_gpu:
        raise Unknown("no GPU is connected in this process: leave the target out, or name one to compile for (sm_90)")
    count = len(builder.others) + 1
    said = f"at {count} captured launches" if count > 1 else "at 1 captured launch"
    notes = [f"the default config is the reference, {said}", *builder.notes]
    if call.beyond:
        notes.append(f"it reads memory that is none of its arguments' ({call.beyond}), which changes no result")
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
        self, seen: Recorder, tuned: Launch, others: Sequence[Launch], text: str, tolerance: float | None
    ) -> None:
        self.seen, self.tuned, self.text, self.tolerance = seen, tuned, text, tolerance
        self.every = [tuned, *others]
        self.notes: list[str] = []
        self.layers = chain_of(tuned.outer)
        self.default: Config = {}
        self.others: list[Launch] = []
        self.rerun: Rerun | None = None
        self.own: dict[Any, Launch] = {}  # of configs that the whole program was found right with
        self.alone: dict[Any, str] = {}  # what their launches alone were found wrong for
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
        if odd := [n for n in space.names if n not in names and n not in _UNSEEN]:
            raise Unknown(f"{self.tuned.name} has no argument {', '.join(odd)}, which configs name; it has "
                          f"{', '.join(names)}")  # fmt: skip
        if not set(space.names) - _UNSEEN:
            self.notes.append("warps and stages only: the configs differ in nothing else")
        self.default = space.default
        self._choose_others(space)
        if self.rerun is not None:
            self._run_program(space, lambda config: True)
            self._tell_of_the_program()
        elif self.tuned.seen is not None and self.tuned.seen.mixed:
            self.notes.append("its programs read what others of them have written, so that one launch's result may "
                              "follow their order; problem(..., program=f) judges configs by what f "
                              "returns")  # fmt: skip
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
        arguments, constant = self.tuned.call.arguments, constants_of(self.tuned.kernel)
        named = [n for n in arguments if n in constant and n not in self._computed and "stride" not in n.lower()]
        proposed = {n: arguments[n] for n in named if _is_block(arguments[n])}
        options = {n: int(self.tuned.config.get(n) or unset) for n, unset in _OPTIONS.items()}
        kept, stays = {}, []
        alone = False  # whether one launch alone has judged a result wrong
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
                        alone = alone or self.rerun is None
                        stays.append(f"{tunable.name} stays {tunable.default}: {why}")
        while math.prod(map(len, kept.values())) > _MOST:
            name, _ = kept.popitem()
            stays.append(f"{name} stays {proposed[name]}: there are enough without it")
        if stays:
            self.notes.append("; ".join(stays))
        if not kept:
            self.notes.append("warps and stages only: no constant of the kernel can be another without another result")
        if alone:
            self.notes.append("each launch was judged alone; where the program allots or reads by such a constant, "
                              "problem(..., program=f) runs f again with it and judges what f returns")  # fmt: skip
        found = [Tunable(n, values, proposed[n]) for n, values in kept.items()]
        for name, values in (("num_warps", _WARPS), ("num_stages", _STAGES)):
            found.append(Tunable(name, tuple(sorted({*values, options[name]})), options[name]))
        space = Space(found)
        self.default = space.default
        self._choose_others(space)
        if self.own:  # of what was changed by itself; together with others it is judged anew
            theirs = {(n, v) for key in self.own for n, v in key if v != proposed[n]}
            self.own = {}
            self._run_program(space, lambda config: bool(theirs & set(config.items())))
        if self.rerun is not None:
            self._tell_of_the_program()
        return space

    def _run_program(self, space: Space, asked: Callable[[Config], bool]) -> None:
        """Judge those configs of a space that are asked for, by the whole program where a launch alone is wrong."""
        table = Table(space)
        every = {own_key(c): c for c in map(table.config, range(len(table)))}.values()
        found = [config for config in every if asked(config)]
        with self._judge(space) as says:
            for config in found[:_MOST_RUNS]:
                says(config)
        if len(found) > _MOST_RUNS:
            self.notes.append(f"{len(found) - _MOST_RUNS} configs after the first {_MOST_RUNS} were judged launch by "
                              "launch. Remedy: fewer configs")  # fmt: skip

    def _tell_of_the_program(self) -> None:
        """Say which configs the whole program has judged."""
        assert self.rerun is not None
        if self.own:
            told = "; ".join(" ".join(f"{n}={v}" for n, v in key) for key in list(self.own)[:8])
            more = f" and {len(self.own) - 8} others" if len(self.own) > 8 else ""
            why = self.alone[next(iter(self.own))]
            self.notes.append(f"judged by what the whole program returns: {told}{more}; the rest launch by launch. "
                              f"Alone, the launch of the first of these differs: {why}")  # fmt: skip
        else:
            self.notes.append("every config was judged launch by launch: none that a launch alone finds wrong is right "
                              "by what the whole program returns")  # fmt: skip
        if self.rerun.over:
            self.notes.append("the program takes too long to be run with every config: those left were judged launch "
                              "by launch. Remedy: a program of less work")  # fmt: skip

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
                    key = own_key(config)
                    if self.rerun is None or self.rerun.over or config == space.default:
                        return failure.reason
                    variant = measure.variants[0][key_of(config)]
                    grids = () if isinstance(variant, str) or callable(self.tuned.grid) else variant.grids
                    try:
                        _, self.own[key] = self.rerun.judge(dict(key), grids)
                        self.alone[key] = failure.reason
                    except Failed as whole:
                        return f"{failure.reason}; and by the whole program: {whole.reason}"
                    return ""
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
        with hooked(self.seen, alone=True):
            variants = [self._variants(each, space) for each in launches]
        own = {key: (each.call, each.seen) for key, each in self.own.items() if each.roles and each.call and each.seen}
        grids = {key: variant.grid for key, variant in variants[0].items() if isinstance(variant, Variant)}
        for config in map(Table(space).config, range(len(Table(space)))):
            if (key := own_key(config)) in own:
                grids[key_of(config)] = own[key][0].grid
        dtype = _floating(every[0])
        return AdoptedMeasure(self.text, self.tuned.name, {}, {}, grids, dtype, kind=kind, target=target, host=host,
                              calls=every, variants=variants, default=dict(space.default),
                              allowed=self.tolerance, own=own)  # fmt: skip

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
        if not callable(launch.grid) and len(launch.offered) < 2:  # an autotuner's configs all have the tuple given
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


def _is_block(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST and value & (value - 1) == 0
