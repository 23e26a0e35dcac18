"""Measuring anyone's kernel: launches as they were captured, on memory laid anew, with the default as reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import calls as words
from .arguments import FLOATING, Address, Call, View, address_of, laid, with_pointers
from .counting import Counts
from .measure import SMALLEST, Failed, judge, tolerance
from .own import OPTIONS, OwnMeasure
from .space import Config
from .watch import READ, WRITTEN, Seen, watched
from .worker import Worker

_COARSE = {"fp8e4nv": (2.0**-4, 2.0**-9), "fp8e4b8": (2.0**-4, 2.0**-10), "fp8e5": (2.0**-3, 2.0**-16),
           "fp8e5b16": (2.0**-3, 2.0**-17)}  # fmt: skip  # unit roundoff, and the distance of neighbours near 0


@dataclass(frozen=True)
class Variant:
    """What a config changes of a launch: arguments, and how many programs; several where that is to be found out."""

    changed: dict[str, Any]
    grids: tuple[tuple[int, ...], ...]

    @property
    def grid(self) -> tuple[int, ...]:
        """The grid, or the first that may be it."""
        return self.grids[0]


def key_of(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a config as a key, as `own` has it."""
    return tuple(sorted(config.items()))


@dataclass
class AdoptedMeasure(OwnMeasure):
    """See `measure.Measure` and `own.OwnMeasure`. calls : the launch that is tuned, and others to check at. variants :
    for each what a config changes, or why it cannot be launched with it. allowed : None for what the kernel's
    arithmetic allows. own : launches of configs that a whole program was found right with, by `own_key`, and what they
    did there: memory that the program allots by a config is another's with another (`rerun`)."""

    calls: Sequence[Call] = ()
    variants: Sequence[Mapping[Any, Variant | str]] = ()
    own: Mapping[Any, tuple[Call, Seen]] = field(default_factory=dict)

    def open(self) -> dict[str, str]:
        facts = super().open()
        self._told: dict[tuple[int, int], Seen] = {}
        self._ready: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._timed: dict[Any, list[Any]] = {}  # the memory that is timed on
        return facts

    # -- what is launched ----------------------------------------------------------------------------------------------

    def _changed(self, k: int, config: Config, grid: int = 0) -> Call:
        """Return a launch with a config, and with one of the grids that it may need. *Raises*: Failed."""
        if not k and (own := self.own.get(own_key(config))) is not None:
            return own[0]
        variant = self.variants[k][key_of(config)]
        if isinstance(variant, str):
            raise Failed("constraints", variant)
        return self.calls[k].changed({**variant.changed, **self._constants(k, config)}, variant.grids[grid])

    def _constants(self, k: int, config: Config) -> dict[str, Any]:
        return {n: v for n, v in config.items() if n in self.calls[k].arguments}

    def _options(self, config: Config) -> dict[str, Any]:
        kept = {n: v for n, v in self.calls[0].options.items() if n in OPTIONS}
        return {**kept, **{n: v for n, v in config.items() if n in OPTIONS}}

    def _specs(self, config: Config) -> dict[str, Any]:
        call = self._changed(0, config)
        given = {
            n: with_pointers(v, lambda view: Address(view.offset % 16, view.dtype)) for n, v in call.arguments.items()
        }
        return {**given, **self._options(config)}

    def count(self, config: Config) -> Counts:
        """Count what the launch does that is tuned. *Raises*: Failed."""
        call = self._changed(0, config)
        memory = self._memory(call, config)
        return self._count(self._pointed(call, memory), {}, call.grid, memory)

    def _moved(self) -> float:
        return float(sum(len(r) for r in self.calls[0].regions))

    def _call(self, config: Config) -> None:
        key = key_of(config)
        if key not in self._ready:
            call = self._changed(0, config)
            self._ready[key] = self._pointed(call, self._memory(call, config))
        self._kernel[self.grids[key]](**self._ready[key], **self._options(config))

    def _memory(self, call: Call, config: Config) -> list[Any]:
        """Return the memory that a config is timed on: all share one, but those whose program lays its own."""
        theirs = own_key(config) if own_key(config) in self.own else None
        if theirs not in self._timed:
            self._timed[theirs] = self._laid(call, call.regions)
        return self._timed[theirs]

    def _laid(self, call: Call, content: Sequence[np.ndarray]) -> list[Any]:
        """Return the regions in memory, addresses that lie in them set anew."""
        memory = laid(self._xp, [len(r) for r in content])
        for place, given in zip(memory, content, strict=True):
            place[...] = self._xp.asarray(given)
        for region, at, to, offset in call.tables:
            address = np.array([address_of(memory[to]) + offset], np.int64).view(np.uint8)
            memory[region][at : at + 8] = self._xp.asarray(address)
        return memory

    def _pointed(self, call: Call, memory: Sequence[Any]) -> dict[str, Any]:
        starts = [address_of(m) for m in memory]
        return {n: with_pointers(v, lambda view: Address(starts[view.region] + view.offset, view.dtype))
                for n, v in call.arguments.items()}  # fmt: skip

    # -- whether it is right -------------------------------------------------------------------------------------------

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Return the largest error beside the default's results, at the launch that is tuned and at the others."""
        if self.kind == "static":
            return self._interpreted(config)
        return self._checked(config, seed, odd, 0)

    def fit(self, config: Config) -> int:
        """Return which of the grids that a config may need gives the right result. *Raises*: Failed."""
        variant, failed = self.variants[0][key_of(config)], Failed("constraints", "there is no grid for it")
        for grid in range(1 if isinstance(variant, str) else len(variant.grids)):
            try:
                self._checked(config, 0, True, grid)
            except Failed as failure:
                failed = failure
            else:
                return grid
        raise failed

    def _checked(self, config: Config, seed: int, odd: bool, grid: int) -> float:
        if own_key(config) in self.own:
            return self._as_in_the_program(config)
        every = range(len(self.calls)) if odd or self.kind == "interpret" else range(1)
        worst = 0.0
        for k in every:
            if k and isinstance(self.variants[k][key_of(config)], str):
                continue
            try:
                worst = max(worst, self._beside_default(k, config, seed, grid))
            except Failed as failure:
                if not k:
                    raise
                raise Failed(failure.status, f"at {words.of(_named(self.calls[k]))}: {failure.reason}") from None
        return worst

    def _as_in_the_program(self, config: Config) -> float:
        """Return the error beside what the launch did when the program was run with the config."""
        call, told = self.own[own_key(config)]
        return self._compared(call, told, self._run(0, config, 0, told), call.regions)

    def _beside_default(self, k: int, config: Config, seed: int, grid: int) -> float:
        if (k, seed) not in self._told:
            self._told[k, seed] = self._run(k, self.default, seed, None)
        told = self._told[k, seed]
        call = self.calls[k]
        return self._compared(call, told, self._run(k, config, seed, told, grid), self._content(call, seed))

    def _content(self, call: Call, seed: int) -> list[np.ndarray]:
        """Return the regions before a launch; with a seed three quarters of each floating number that is read."""
        content = [r.copy() for r in call.regions]
        if seed:
            distinct = dict.fromkeys(view for _, view in call.views() if view.dtype in FLOATING)
            for view in distinct:
                numbers = view.array(content[view.region])
                with np.errstate(all="ignore"):
                    numbers[...] = (numbers.astype(np.float64) * 0.75).astype(view.numpy)
        return content

    def _run(self, k: int, config: Config, seed: int, told: Seen | None, grid: int = 0) -> Seen:
        """Run a launch with a config; what is known to be only written is poisoned. *Raises*: Failed."""
        call = self._changed(k, config, grid)
        content = self._content(call, seed)
        if told is not None:
            for place, flags in zip(content, told.flags, strict=True):
                place[(flags & (READ | WRITTEN)) == WRITTEN] = 0xFF
        memory = self._laid(call, content)
        if self._xp is np:
            return self._dry(call, memory)
        self._kernel[call.grid](**self._pointed(call, memory), **self._options(config))
        self._wait()
        if told is None:
            known = self._flags(k)
            return Seen(known, [m.get() for m in memory], self._terms, self._rounded)
        return Seen([], [m.get() for m in memory])

    def _dry(self, call: Call, memory: Sequence[np.ndarray]) -> Seen:
        try:
            return watched(self._kernel, call, memory, [address_of(m) for m in memory])
        except Exception as error:
            short = getattr(error, "short", "") or f"{type(error).__name__}: {error}".strip().splitlines()[0]
            raise Failed("runtime", short[:400], str(error)) from error

    def dry(self, k: int) -> Seen:
        """Return what the default does at a launch, in the interpreter. *Raises*: Failed."""
        return self._run(k, self.default, 0, None)

    def _flags(self, k: int) -> list[np.ndarray]:
        """Return the flags of the default's bytes, by an interpreter beside the GPU."""
        with Worker(replace(self, kind="interpret")) as worker:
            seen = worker.call("dry", k, limit_s=120.0)
        self._terms, self._rounded = seen.terms, seen.rounded
        return seen.flags  # type: ignore[no-any-return]

    def _compared(self, call: Call, told: Seen, found: Seen, before: Sequence[np.ndarray]) -> float:
        """Return the largest error as a share of what is allowed. *Raises*: Failed."""
        for name, flags, now, was in zip(call.names, told.flags, found.after, before, strict=True):
            left = (flags & WRITTEN) == 0
            if not call.tables and (now[left] != was[left]).any():
                raise Failed("correctness", f"it writes into {name} where the default config writes nothing")
        worst = 0.0
        for name, view in {view: (name, view) for name, view in call.views()}.values():
            written = (view.of(told.flags[view.region]) & WRITTEN).any(axis=-1)
            if written.any():
                right, now = view.array(told.after[view.region])[written], view.array(found.after[view.region])[written]
                try:
                    worst = max(worst, error_of(view.dtype, now, right, told.terms, told.rounded, self.allowed))
                except Failed as failure:
                    raise Failed(failure.status, f"{name}: {failure.reason}") from None
        return worst


def own_key(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a config as a key without what the interpreter does not see, as warps and stages."""
    return key_of({n: v for n, v in config.items() if n not in OPTIONS})


def error_of(
    kind: str, found: np.ndarray, right: np.ndarray, terms: int, rounded: str, allowed: float | None = None
) -> float:
    """Return the largest error as a share of what is allowed. kind : Triton's name of the results' dtype. terms,
    rounded : of the arithmetic, as `Seen` has them. *Raises*: Failed."""
    if kind not in FLOATING:
        return judge(found, right, np.zeros(()), 0.0)
    expected = right.astype(np.float64)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = np.abs(expected) + (float(finite.mean()) if finite.size else 0.0)
    coarse, smallest = _COARSE.get(kind, (0.0, SMALLEST.get(right.dtype.name, 0.0)))
    if allowed is None:
        units = [tolerance(_NUMPY[each], terms) for each in {kind, rounded} if each in _NUMPY]
        allowed = max([4.0 * coarse, *units])
    return judge(found, expected, scale, allowed, smallest)


_NUMPY = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def _named(call: Call) -> dict[str, Any]:
    """Return what tells a launch from others of its kernel: arrays and integers."""
    return {n: v for n, v in call.arguments.items() if isinstance(v, View | int) and not isinstance(v, bool)}
