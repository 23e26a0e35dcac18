"""What a program launches while it is recorded (`hooks`): each launch with its arguments, its grid and its config.

A launch runs in Triton's interpreter: here where TRITON_INTERPRET=1 was set, else in a worker process, which may crash;
where a GPU is connected it runs there as always. Autotuners take the first config that their own pruning leaves and
time nothing; their hooks run, and what heuristics give is part of the launch.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import calls
from .addresses import behind_tables, tables_in
from .arguments import Call, Described, Regions, Unreadable, View
from .compiled import Compiled, constants_of
from .measure import Failed
from .problem import Unknown
from .texts import chain_of, text_of
from .watch import Interpreted, Seen, watched
from .worker import Worker

KEPT = 4  # launches of a kernel, of different shapes or integers, whose memory is kept
_LIMIT_S = 600.0
_OURS = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Launch:
    """One launch. outer : what was called by a grid. given : the caller's arguments, in their order and by name.
    config : what an autotuner chose of the configs `offered`, and options such as num_warps. call : as plain data.
    caller : the code that launched it, the line, and its globals."""

    kernel: Any
    outer: Any
    given: tuple[tuple[Any, ...], dict[str, Any]]
    grid: Any
    config: dict[str, Any]
    offered: tuple[Any, ...]
    call: Call | None
    where: str
    seen: Seen | None = None
    refused: str = ""
    count: int = 1
    caller: tuple[Any, int, dict[str, Any]] | None = field(default=None, repr=False)
    _bound: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.fn.__name__  # type: ignore[no-any-return]

    @property
    def roles(self) -> dict[str, str]:
        """What each argument that points to memory is to the kernel: "in", "out", "both", "atomic", "unused".

        Of a launch on a GPU the interpreter says so, in a worker, when it is first asked. *Raises*: Failed.
        """
        if self.call is None or (self.seen is None and self.refused):
            return {}
        if self.seen is None:
            with Worker(Interpreted()) as worker:
                self.seen = _dry(worker, self.kernel, self.call)
            self.call.beyond = self.seen.beyond
        return self.seen.roles(self.call)

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name}: not recorded: {self.refused}"
        roles, arguments = self.roles, self.call.arguments if self.call else {}
        given = ", ".join(part for name, value in arguments.items() for part in _in_words(name, value, roles))
        grid = "x".join(map(str, self.call.grid)) if self.call else ""
        chosen = " ".join(f"{k}={v}" for k, v in self.config.items() if k not in arguments)
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{self.name} [{grid}]{times} {chosen} ({given}) at {self.where}".replace("  ", " ")


@dataclass(frozen=True)
class Substitution:
    """A config in the place of what a program would launch a kernel with. place : of the kernel's text (`place_of`).
    grid : in the place of a tuple; None for the program's own, or what its function gives."""

    place: tuple[str, int]
    config: Mapping[str, Any]
    grid: tuple[int, ...] | None = None

    def of(self, layer: Any) -> bool:
        """Return whether a layer, or what it is around, is the kernel."""
        try:
            return place_of(layer) == self.place
        except Unknown:  # no kernel that we know
            return False


class _Here(threading.local):
    """What one thread is launching."""

    def __init__(self) -> None:
        self.stack: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.config: dict[str, Any] = {}
        self.offered: tuple[Any, ...] = ()
        self.forced: Mapping[str, Any] | None = None  # a config in the place of an autotuner's choice
        self.dry: Callable[[dict[str, Any], tuple[int, ...]], None] | None = None  # takes a launch, which is not run


class Recorder:
    """The launches that were seen while it was hooked in. substituted : a config that a kernel gets instead of its
    own."""

    def __init__(self, substituted: Substitution | None = None) -> None:
        self.launches: list[Launch] = []
        self.substituted = substituted
        self.here = _Here()
        self._lock = threading.RLock()  # PyTorch's backward pass launches from a thread of its own
        self._worker: Worker | None = None  # that interprets

    def __str__(self) -> str:
        return "\n".join(map(str, self.launches)) or "no Triton kernel was launched"

    def __iter__(self) -> Iterator[Launch]:
        return iter(self.launches)

    def __len__(self) -> int:
        return len(self.launches)

    def of(self, name: str) -> list[Launch]:
        """Return the launches of a kernel. *Raises*: Unknown."""
        found = [launch for launch in self.launches if launch.name == name]
        if not found:
            names = ", ".join(dict.fromkeys(each.name for each in self.launches)) or "none"
            raise Unknown(f"no kernel {name} was launched while it was captured; launched were: {names}")
        return found

    # -- what the hooks call -------------------------------------------------------------------------------------------

    def outermost(self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> contextlib.ExitStack:
        """Note what is being launched, for the layers below; left again with what is returned."""
        leave = contextlib.ExitStack()
        if not self.here.stack:
            self.here.stack.append((kernel, args, dict(named)))
            leave.callback(self._left)
        return leave

    def _left(self) -> None:
        self.here.stack.clear()
        self.here.config, self.here.offered = {}, ()

    def changed(
        self, layer: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what a layer is to be called with: where it is the outermost and no autotuner chooses, the substituted
        config's values stand in the place of the program's."""
        wanted = self.substituted
        if wanted is None or self.here.stack or not wanted.of(layer):
            return args, named
        chain = chain_of(layer)
        if any(hasattr(each, "configs") for each in chain):
            return args, named
        args, named = _replaced(chain[-1].arg_names, args, named, wanted.config)
        return args, named if wanted.grid is None or callable(named["grid"]) else {**named, "grid": wanted.grid}

    def tuned(self, tuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Stand for an autotuner's `run`: one config, and its hooks."""
        with self.outermost(tuner, args, named), self._lock:  # a tuner holds one call's arguments
            config, chosen = self._chosen(tuner, args, named)
            tuner.best_config = config
            full = {**tuner.nargs, **named, **chosen}
            if tuner.user_defined_pre_hook or tuner.reset_to_zero:
                _called(tuner.pre_hook, full)
            if config.pre_hook is not None:
                config.pre_hook(full)
            try:
                return tuner.fn.run(*args, **{k: v for k, v in named.items() if k not in chosen}, **chosen)
            finally:
                if tuner.user_defined_post_hook:
                    tuner.post_hook(full, exception=None)
                tuner.nargs = None

    def left_one(self, tuner: Any, args: tuple[Any, ...], named: dict[str, Any], original: Callable[..., Any]) -> Any:
        """Stand for the `run` of a tuner that is not below Triton's: of its configs it is left one, to launch."""
        with self.outermost(tuner, args, named), self._lock:
            config, _ = self._chosen(tuner, args, named)
            every, tuner.configs = tuner.configs, [config]
            try:
                return original(tuner, *args, **named)
            finally:
                tuner.configs = every

    def _chosen(self, tuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the config that a tuner takes, the first that its pruning leaves, and its values by name."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        forced = self.here.forced
        if forced is None and self.substituted is not None and self.substituted.of(tuner):
            forced = self.substituted.config
        if forced is None:
            self.here.offered = tuple(tuner.prune_configs(named) if hasattr(tuner, "prune_configs") else tuner.configs)
            config = self.here.offered[0]
        else:
            config = _config_like(tuner.configs, forced)
        self.here.config = {k: v for k, v in config.all_kwargs().items() if k != "ir_override"}
        return config, self.here.config

    def launched(self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any], original: Callable[..., Any]) -> Any:
        """Stand for a kernel's `run`."""
        given = {k: v for k, v in named.items() if k not in ("grid", "warmup")}
        bound = _bound(kernel, args, given)
        options = {k: v for k, v in given.items() if k not in kernel.arg_names}
        if named.get("warmup"):
            return Compiled(kernel, bound, options)
        grid = _sizes(named["grid"], bound)
        if self.here.dry is not None:
            self.here.dry(bound, grid)
            return Compiled(kernel, bound, options)
        outer, first, called = self.here.stack[0] if self.here.stack else (kernel, args, dict(named))
        called = {k: v for k, v in called.items() if k not in ("grid", "warmup")}
        config = {k: v for k, v in {**options, **self.here.config}.items() if (k, v) != ("num_ctas", 1)}
        caller = _caller()
        launch = Launch(kernel, outer, (tuple(first), called), named["grid"], config, self.here.offered, None,
                        _place(caller), caller=(caller.f_code, caller.f_lineno, caller.f_globals) if caller else None,
                        _bound=bound)  # fmt: skip
        with self._lock:
            return self._recorded(launch, args, given, original)

    def _recorded(
        self, launch: Launch, args: tuple[Any, ...], given: dict[str, Any], original: Callable[..., Any]
    ) -> Any:
        """Keep a launch, and run it."""
        kernel, bound = launch.kernel, launch._bound
        grid = _sizes(launch.grid, bound)
        options = {k: v for k, v in given.items() if k not in kernel.arg_names}
        named = {**given, "grid": launch.grid, "warmup": False}
        try:
            regions = Regions()
            plain = {n: regions.plain(n, bound[n]) for n in kernel.arg_names}
            others = behind_tables(bound)
            tables = tables_in(regions, plain, others)
        except Unreadable as error:
            launch.refused = str(error)
            self.launches.append(launch)
            return original(kernel, *args, **named)
        call = Call(plain, [], ["/".join(r.names) for r in regions], grid, options, tables)
        if self._keep(launch, call):
            call.regions = [r.content() for r in regions]
        try:
            if any(r.here() is None for r in regions):
                return self._on_gpu(launch, lambda: original(kernel, *args, **named))
            for hook in getattr(kernel, "pre_run_hooks", ()):
                hook(*args, **given)
            launch.seen = self._run(kernel, call, regions)
            call.beyond = launch.seen.beyond
            if launch.seen.strays:
                launch.refused = (f"it asks for memory that is none of its arguments' ({launch.seen.strays}). Remedy: "
                                  f"{_remedy_of_strays(call)}")  # fmt: skip
        except Exception as error:
            launch.refused = _why_it_failed(error)
            if not any(each is launch for each in self.launches):
                self.launches.append(launch)
            if "inline_asm" in str(error):
                raise Unknown(f"{launch.name}: {launch.refused}") from error
            raise
        return Compiled(kernel, bound, options)

    def _on_gpu(self, launch: Launch, original: Callable[[], Any]) -> Any:
        """Run a launch as it would without a capture. *Raises*: Unknown where that cannot be."""
        from .. import interpreting

        if interpreting():
            raise Unknown(f"{launch.name}: the interpreter takes arrays on the CPU, and one is on a GPU. Remedy: leave "
                          "TRITON_INTERPRET out, or move it")  # fmt: skip
        return original()

    def _run(self, kernel: Any, call: Call, regions: Regions) -> Seen:
        """Run a launch in the interpreter, here or in a worker. *Raises*: Failed, Unknown, or the kernel's error."""
        from .. import interpreting

        if interpreting():
            live = [_there(r) for r in regions]
            return watched(kernel, call, live, [r.start for r in regions], lenient=True)
        given = replace(call, regions=call.regions or [r.content() for r in regions])
        seen = self._elsewhere(kernel, given)
        for region, after in zip(regions, seen.after, strict=True):
            region.put(after)
        return seen

    def _elsewhere(self, kernel: Any, call: Call) -> Seen:
        """Run a launch in a worker that interprets. *Raises*: Failed."""
        if call.tables:
            raise Unknown(f"{kernel.fn.__name__} follows addresses that lie in an array. Remedy: set "
                          "TRITON_INTERPRET=1 before triton is imported, so that it runs in this process")  # fmt: skip
        if self._worker is None:
            self._worker = Worker(Interpreted())
        return _dry(self._worker, kernel, call)

    def _keep(self, launch: Launch, call: Call) -> bool:
        """Add a launch, or count it where one like it is known; whether its memory is kept, as of a kernel's first."""
        same = [each for each in self.launches if each.kernel is launch.kernel and each.call is not None]
        for each in same:
            if each.call is not None and alike(each.call, call):
                each.count += 1
                return False
        self.launches.append(launch)
        if len(same) < KEPT:
            launch.call = call
            return True
        launch.refused = (f"the memory of {KEPT} launches of a kernel is kept, and this is a later one. Remedy: a "
                          "capture around it alone")  # fmt: skip
        return False

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()


def _remedy_of_strays(call: Call) -> str:
    """Return what to do about a launch that asks for memory beside its arrays: on a GPU it gets what lies there."""
    expanded = [name for name, view in call.views()
                if any(n > 1 and not s for n, s in zip(view.shape, view.strides, strict=True))]  # fmt: skip
    if expanded:
        return (f".contiguous() for {', '.join(expanded)}, expanded to more elements than its memory has, as the "
                "gradient of a sum is")  # fmt: skip
    return "an array as large as the kernel takes it for, or a mask"


def _why_it_failed(error: Exception) -> str:
    """Return why a launch is not recorded that raised an error."""
    if "inline_asm" in str(error):
        return ("it has instructions of a GPU in its text (tl.inline_asm_elementwise), of which the interpreter does "
                f"not know all: {str(error).partition('inline_asm: ')[2]}. Remedy: where a GPU is connected, or the "
                "language's own functions instead")  # fmt: skip
    return f"it failed: {type(error).__name__}: {error}"[:400]


def _dry(worker: Worker, kernel: Any, call: Call) -> Seen:
    """Return what a launch does, from a worker that interprets. *Raises*: Failed."""
    said = worker.call("dry", text_of(kernel), kernel.fn.__name__, call, limit_s=_LIMIT_S)
    assert isinstance(said, Seen)
    return said


def alike(one: Call, other: Call) -> bool:
    """Return whether two launches differ in content and floats alone."""

    def told(call: Call) -> Any:
        return call.grid, [(n, v) for n, v in call.arguments.items() if not isinstance(v, float)]

    try:
        return bool(told(one) == told(other))
    except Exception:  # of an argument's own comparison
        return False


def _there(region: Any) -> np.ndarray:
    memory = region.here()
    assert memory is not None
    return memory  # type: ignore[no-any-return]


def _config_like(configs: Any, values: Mapping[str, Any]) -> Any:
    """Return the autotuner's config with these values, or its first one with them, hooks included."""
    from triton import Config

    def told(config: Any) -> dict[str, Any]:
        return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}

    for each in configs:
        if told(each) == {**told(each), **values} and values.keys() <= told(each).keys():
            return each
    first = configs[0]
    options = {k: values.get(k, getattr(first, k)) for k in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    kwargs = {**first.kwargs, **{k: v for k, v in values.items() if k not in options}}
    return Config(kwargs, **options, pre_hook=first.pre_hook)


def _called(hook: Callable[..., Any], full: dict[str, Any]) -> None:
    """Call an autotuner's pre-hook as before its best config's launch."""
    try:
        hook(full, reset_only=True)
    except TypeError:
        hook(full)


def _replaced(
    names: list[str], args: tuple[Any, ...], given: dict[str, Any], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a launch's arguments with other values for some."""
    placed = [values.get(n, a) for n, a in zip(names, args, strict=False)]
    rest = {k: v for k, v in values.items() if k not in names[: len(args)]}
    return (*placed, *args[len(names) :]), {**given, **rest}


def _bound(kernel: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every argument of a kernel by name. *Raises*: TypeError for one that is missing."""
    names = kernel.arg_names
    found = {**dict(zip(names, args, strict=False)), **{k: v for k, v in given.items() if k in names}}
    for name, parameter in inspect.signature(kernel.fn).parameters.items():
        if name not in found:
            if parameter.default is parameter.empty:
                raise TypeError(f"{kernel.fn.__name__}() missing 1 required positional argument: {name!r}")
            found[name] = parameter.default
    for name in (n for n, v in found.items() if type(v).__name__ == "constexpr"):  # as if its parameter said so
        if name not in constants_of(kernel):
            kernel.fn.__annotations__[name] = "constexpr"
    return {n: v.value if type(v).__name__ == "constexpr" else v for n, v in found.items()}


def _sizes(grid: Any, bound: Mapping[str, Any]) -> tuple[int, ...]:
    sizes = grid(dict(bound)) if callable(grid) else grid
    return tuple(int(n) for n in (sizes if isinstance(sizes, tuple | list) else (sizes,)))


def _caller() -> Any:
    """Return the frame of the program that is launching."""
    files = [str(getattr(sys.modules.get(name), "__file__", None)) for name in ("triton", "torch")]
    passed = (_OURS, *(file.removesuffix("__init__.py") for file in files))
    frame: Any = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not file.startswith(passed):  # which a library's own folder named triton is not
            return frame
        frame = frame.f_back
    return None


def _place(frame: Any) -> str:
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}" if frame else ""


def place_of(kernel: Any) -> tuple[str, int]:
    """Return the file and line of a kernel's function, which it has in every run of its program. *Raises*: Unknown."""
    code = chain_of(kernel)[-1].fn.__code__
    return code.co_filename, code.co_firstlineno


def _in_words(name: str, value: Any, roles: Mapping[str, str]) -> Iterator[str]:
    """Yield an argument, an array with its role."""
    if isinstance(value, Described):
        value = value.base
    if isinstance(value, View):
        yield f"{name} {calls.of({name: value}).partition('=')[2]} {roles.get(name, '')}".rstrip()
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from _in_words(f"{name}[{i}]", each, roles)
    else:
        yield f"{name}={value!r:.60}"


def again(seen: Recorder, launch: Launch, config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the arguments and the grid that a launch would have with another config, by its own heuristics, hooks and
    grid; nothing runs, and what hooks write is put back. To be called while `seen` is hooked in."""
    taken: list[tuple[dict[str, Any], tuple[int, ...]]] = []
    args, named = launch.given
    regions = Regions()
    tuner = next((layer for layer in chain_of(launch.outer) if hasattr(layer, "configs")), None)
    if tuner is not None:
        hooks = getattr(tuner, "user_defined_pre_hook", True)  # a tuner that is not Triton's may have some
        if hooks or tuner.reset_to_zero or any(c.pre_hook for c in tuner.configs):
            for name, value in launch._bound.items():
                regions.plain(name, value)
        named = {k: v for k, v in named.items() if k not in config}
        seen.here.forced = {**launch.config, **config}  # what stays is what had been chosen, not the first config's
    else:
        args, named = _replaced(launch.kernel.arg_names, args, named, config)
    contents = [region.content() for region in regions]
    seen.here.dry = lambda bound, grid: taken.append((bound, grid))
    try:
        launch.outer.run(*args, **named, grid=launch.grid, warmup=False)
    finally:
        seen.here.dry = seen.here.forced = None
        for region, content in zip(regions, contents, strict=True):
            region.put(content)
    if not taken:
        raise Failed("constraints", "the kernel's wrapper launches nothing with this config")
    return taken[0]
