"""Judging a config by a whole program: it is run again with the config, and what it returns is compared.

One launch alone does not tell where a wrapper allots by a kernel's block what a second kernel or a sum then reads: with
another block the partial sums are others, and the program's result is the same. The program is changed in no line: the
config stands in the place of the launch's own, and where the program has the block as a constant (a name that is set to
a number, a parameter's default, a number of its module or class) that constant is the config's while it runs, so that
buffers and grids follow. Random numbers begin alike in every run, and memory without content holds NaN.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import DTYPES, FLOATING, Regions, Unreadable, as_numpy, is_pointer
from .constants import Constant, constants_of, replaced
from .hooks import hooked
from .launches import Launch, Recorder, Substitution, place_of
from .measure import Failed
from .measure_adopted import error_of
from .problem import Unknown
from .space import Config

LIMIT_S = 120.0  # for all runs of a program: what is judged later is judged by its launch alone


class Rerun:
    """A program, and the kernel of it that gets other configs. launch : of the kernel, as it was captured.

    *Raises*: Unknown where what the program returns says nothing: nothing comes, or not the same twice.
    """

    def __init__(self, program: Callable[[], Any], launch: Launch, tolerance: float | None = None) -> None:
        self.program, self.launch, self.allowed = program, launch, tolerance
        self.place = place_of(launch.kernel)
        self._spent_s = 0.0
        self._constants: dict[str, list[Constant]] | None = None
        self.told: dict[str, Any] = {}
        seen = Recorder()
        try:
            self.told = self._result(seen)
        except Failed as failure:
            raise Unknown(f"{launch.name}: the program cannot be run again: {failure.reason}") from failure
        if not self.told:
            raise Unknown(f"{launch.name}: the program returns nothing that configs can be judged by. Remedy: a "
                          "function that returns its result")  # fmt: skip
        if not any(place_of(each.kernel) == self.place for each in seen):
            raise Unknown(f"{launch.name}: the program does not launch it. Remedy: the function that was captured")
        self.terms = max((each.seen.terms for each in seen if each.seen is not None), default=1)
        self.rounded = _coarsest(each.seen.rounded for each in seen if each.seen is not None)
        try:
            self._compare(self._result(Recorder()))
        except Failed as failure:
            raise Unknown(f"{launch.name}: the program does not return the same twice, though random numbers begin "
                          f"alike: {failure.reason}. Remedy: a function that makes its own data") from None  # fmt: skip

    @property
    def over(self) -> bool:
        """Whether the time for it is over."""
        return self._spent_s > LIMIT_S

    def judge(self, config: Config, grids: Sequence[tuple[int, ...]] = ()) -> tuple[float, Launch]:
        """Return the error of what the program returns with a config, and the launch that it then made.

        grids : that the launch may need where the program has a tuple, if its constants do not give one. *Raises*:
        Failed, the reason being that of the last way that was tried.
        """
        if self._constants is None:
            self._constants = constants_of(self.launch, config)
        ways: list[tuple[Mapping[str, list[Constant]], tuple[int, ...] | None]] = []
        if known := {name: places for name, places in self._constants.items() if name in config}:
            ways.append((known, None))
        ways += [({}, grid) for grid in grids or (None,)]
        failed = Failed("correctness", "the program was not run with it")
        for constants, grid in ways:
            if self.over:
                break
            seen = Recorder(Substitution(self.place, {**self.launch.config, **config}, grid))
            try:
                with replaced(constants, config):
                    found = self._result(seen)
                mine = [each for each in seen if place_of(each.kernel) == self.place]
                return self._compare(found), self._checked(mine, config)
            except Failed as failure:
                failed = failure
        raise failed

    def _result(self, seen: Recorder) -> dict[str, Any]:
        """Run the program; what it returns, flat. *Raises*: Failed."""
        began = time.monotonic()
        try:
            with hooked(seen), _random_numbers_alike(), _fresh_memory_poisoned():
                return dict(_flat("", self.program()))
        except Failed:
            raise
        except Unreadable as error:
            raise Unknown(f"{self.launch.name}: of what the program returns {error}") from None
        except Exception as error:
            raise Failed("runtime", f"it fails with {type(error).__name__}: {error}"[:400]) from error
        finally:
            self._spent_s += time.monotonic() - began
            seen.close()

    def _checked(self, launches: Sequence[Launch], config: Config) -> Launch:
        """Return the largest launch, where all of them had the config and stayed within their arrays. *Raises*:
        Failed."""
        kept = [each for each in launches if each.call is not None]
        for each in launches:
            if each.refused and each.call is not None:
                raise Failed("runtime", each.refused)
        for each in kept:
            had = {**each.config, **(each.call.arguments if each.call else {})}
            if any(had.get(name, value) != value for name, value in config.items()):
                raise Failed("constraints", "the program launches the kernel with another config than was asked for")
        if not kept:
            raise Failed("constraints", "the program launches the kernel no more with this config")
        return max(kept, key=lambda each: sum(len(r) for r in each.call.regions) if each.call else 0)

    def _compare(self, found: Mapping[str, Any]) -> float:
        """Return the largest error beside the default's result. *Raises*: Failed."""
        if found.keys() != self.told.keys():
            raise Failed("correctness", "the program returns something of another form")
        worst = 0.0
        for name, right in self.told.items():
            now = found[name]
            try:
                worst = max(worst, self._error(now, right))
            except Failed as failure:
                raise Failed(failure.status, f"of the program's result{name}: {failure.reason}") from None
        return worst

    def _error(self, now: Any, right: Any) -> float:
        if not isinstance(right, np.ndarray):
            if now != right:
                raise Failed("correctness", f"{now!r:.60} instead of {right!r:.60}")
            return 0.0
        if now.shape != right.shape or now.dtype != right.dtype:
            raise Failed("correctness", f"{now.dtype}{list(now.shape)} instead of {right.dtype}{list(right.shape)}")
        kind = next((n for n, d in DTYPES.items() if np.dtype(d) == right.dtype), "")
        return error_of(kind, now, right, self.terms, self.rounded, self.allowed)


def _coarsest(kinds: Iterator[str]) -> str:
    return max(kinds, key=FLOATING.index, default="fp64")


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a result holds, with where it is in it: arrays, and what can be compared as it is."""
    if hasattr(value, "detach") and hasattr(value, "is_sparse"):  # PyTorch's
        value = value.detach()
    if is_pointer(value):
        yield name, np.array(as_numpy(name or "the result", value))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(f"{name}[{key!r}]", each)
    elif isinstance(value, tuple | list):
        for i, each in enumerate(value):
            yield from _flat(f"{name}[{i}]", each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from _flat(f"{name}.{each.name}", getattr(value, each.name))
    elif isinstance(value, float | np.floating):  # most likely of a float32 array
        yield name, np.array([value], np.float32)
    elif isinstance(value, int | str | bool | np.generic):
        yield name, value


@contextlib.contextmanager
def _fresh_memory_poisoned() -> Iterator[None]:
    """Have memory that a program asks for without content hold NaN, not what an earlier run has left there: a config
    that writes less than it should would seem right."""

    def poisoned(make: Any) -> Any:
        def made(*args: Any, **named: Any) -> Any:
            found, regions = make(*args, **named), Regions()
            with contextlib.suppress(Exception):  # of another kind, as meta and sparse tensors are
                regions.plain("", found)
                regions[0].put(np.full(regions[0].size, 0xFF, np.uint8))
            return found

        return made

    torch: Any = sys.modules.get("torch")
    owners = [(np, ("empty", "empty_like")), (torch, ("empty", "empty_like", "empty_strided"))]
    owners += [(getattr(torch, "Tensor", None), ("new_empty",)), (sys.modules.get("core"), ("empty", "empty_like"))]
    with contextlib.ExitStack() as undo:
        for owner, names in owners:
            for name in names:
                if name in getattr(owner, "__dict__", ()):
                    undo.callback(setattr, owner, name, getattr(owner, name))
                    setattr(owner, name, poisoned(getattr(owner, name)))
        yield


@contextlib.contextmanager
def _random_numbers_alike() -> Iterator[None]:
    """Have random numbers begin at the same place, and go on afterwards as if nothing had been drawn."""
    torch: Any = sys.modules.get("torch")
    theirs = torch is not None and hasattr(torch, "random") and hasattr(torch.random, "fork_rng")
    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002  programs draw from it
    with contextlib.ExitStack() as undo:
        if theirs:
            undo.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(0)
        undo.callback(np.random.set_state, numpys)
        undo.callback(random.setstate, before)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        yield
