"""`tune.capture()`: every Triton launch of a program is recorded, with the arguments, the grid and the config it had.

``with tune.capture() as seen: program()`` changes no line of the program. A launch runs in Triton's interpreter: here
where TRITON_INTERPRET=1 was set, else in a worker process, which may crash; where a GPU is connected it runs there as
always. `Captured.problem` makes of a kernel's launches what `tune.run` takes (see `adoption`).

Autotuners take the first config that their own pruning leaves and time nothing; their hooks run, and what heuristics
give is part of the launch. Nothing of Triton or PyTorch is left changed.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .arguments import Call, Regions, Unreadable, View, is_pointer
from .measure import Failed
from .pretend import pretended
from .problem import Problem, Unknown
from .texts import chain_of, text_of
from .watch import Interpreted, Seen, watched
from .worker import Worker

KEPT = 4  # launches of a kernel, of different shapes or integers, whose memory is kept
_LIMIT_S = 600.0
_TABLE = 4096  # an array of at most so many 64-bit integers may be a table of addresses
_ADDRESS = 1 << 32
_OURS = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Launch:
    """One launch. outer : what was called by a grid. given : the caller's arguments, in their order and by name.
    config : what an autotuner chose of the configs `offered`, and options such as num_warps. call : as plain data."""

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
        return self.seen.roles(self.call)

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name}: not recorded: {self.refused}"
        roles = ", ".join(f"{name} {role}" for name, role in self.roles.items())
        grid = "x".join(map(str, self.call.grid)) if self.call else ""
        chosen = " ".join(f"{k}={v}" for k, v in self.config.items())
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{self.name} [{grid}]{times} {chosen} ({roles}) at {self.where}".replace("  ", " ")


class Captured:
    """The launches that a capture has seen; ``print(seen)`` lists them."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.forced: Mapping[str, Any] | None = None  # a config in the place of an autotuner's choice
        self.dry: Callable[[dict[str, Any], tuple[int, ...]], None] | None = (
            None  # takes a launch in place of running it
        )
        self._stack: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self._config: dict[str, Any] = {}
        self._offered: tuple[Any, ...] = ()
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

    def problem(self, name: str | None = None, **options: Any) -> Problem:
        """Return the problem of a kernel's launches, for `tune.run`; without a name of the only kernel. options :
        `adoption.problem_of`'s: target, configs, tolerance. *Raises*: Unknown."""
        from .adoption import problem_of

        names = list(dict.fromkeys(each.name for each in self.launches))
        if name is None and len(names) != 1:
            raise Unknown(f"{len(names)} kernels were launched ({', '.join(names) or 'none'}). Remedy: the name of one")
        return problem_of(self, self.of(name or names[0]), **options)

    # -- what the hooks call -------------------------------------------------------------------------------------------

    def outermost(self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> contextlib.ExitStack:
        """Note what is being launched, for the layers below; left again with what is returned."""
        leave = contextlib.ExitStack()
        if not self._stack:
            self._stack.append((kernel, args, dict(named)))
            leave.callback(self._left)
        return leave

    def _left(self) -> None:
        self._stack.clear()
        self._config, self._offered = {}, ()

    def tuned(self, tuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Stand for an autotuner's `run`: one config, and its hooks."""
        with self.outermost(tuner, args, named):
            tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
            if self.forced is None:
                self._offered = tuple(tuner.prune_configs(named))
                config = self._offered[0]
            else:
                config = _config_like(tuner.configs, self.forced)
            chosen = {k: v for k, v in config.all_kwargs().items() if k != "ir_override"}
            self._config = chosen
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

    def launched(self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any], original: Callable[..., Any]) -> Any:
        """Stand for a kernel's `run`."""
        if named.get("warmup"):
            return None
        given = {k: v for k, v in named.items() if k not in ("grid", "warmup")}
        bound = _bound(kernel, args, given)
        options = {k: v for k, v in given.items() if k not in kernel.arg_names}
        grid = _sizes(named["grid"], bound)
        if self.dry is not None:
            self.dry(bound, grid)
            return _Nothing()
        outer, first, called = self._stack[0] if self._stack else (kernel, args, dict(named))
        called = {k: v for k, v in called.items() if k not in ("grid", "warmup")}
        config = {k: v for k, v in {**options, **self._config}.items() if (k, v) != ("num_ctas", 1)}
        launch = Launch(kernel, outer, (tuple(first), called), named["grid"], config, self._offered, None, _place(),
                        _bound=bound)  # fmt: skip
        try:
            regions = Regions()
            plain = {n: regions.plain(n, bound[n]) for n in kernel.arg_names}
            others = _behind_tables(bound)
            tables = _tables(regions, plain, others)
        except Unreadable as error:
            launch.refused = str(error)
            self.launches.append(launch)
            return original(kernel, *args, **{**given, "grid": named["grid"], "warmup": False})
        call = Call(plain, [], ["/".join(r.names) for r in regions], grid, options, tables)
        if self._keep(launch, call):
            call.regions = [r.content() for r in regions]
        try:
            if any(r.here() is None for r in regions):
                return self._on_gpu(launch, lambda: original(kernel, *args, **named))
            for hook in getattr(kernel, "pre_run_hooks", ()):
                hook(*args, **given)
            launch.seen = self._run(kernel, call, regions)
            if launch.seen.strays:
                launch.refused = (f"it asks for memory that is none of its arguments' ({launch.seen.strays}). Remedy: "
                                  "a larger array, or .contiguous() for one that was expanded")  # fmt: skip
        except Exception as error:
            launch.refused = f"it failed: {type(error).__name__}: {error}"[:400]
            if not any(each is launch for each in self.launches):
                self.launches.append(launch)
            raise
        return _Nothing()

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
        launch.refused = f"its memory was not kept, since {KEPT} launches of the kernel had been before it"
        return False

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()


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


class _Nothing:
    """What a launch returns in the place of a compiled kernel; launching that again does nothing."""

    asm: Mapping[str, str] = defaultdict(str)

    def __getattr__(self, name: str) -> int:
        """What programs print of a compiled kernel: n_regs, n_spills, shared ..."""
        if name.startswith("__"):
            raise AttributeError(name)
        return 0

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *_, **__: None


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
    return {n: v.value if type(v).__name__ == "constexpr" else v for n, v in found.items()}


def _sizes(grid: Any, bound: Mapping[str, Any]) -> tuple[int, ...]:
    sizes = grid(dict(bound)) if callable(grid) else grid
    return tuple(int(n) for n in (sizes if isinstance(sizes, tuple | list) else (sizes,)))


def _place() -> str:
    """Return the file and line of the program that is launching."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS) and "/triton/" not in file and "/torch/" not in file:
            return f"{file.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _behind_tables(bound: Mapping[str, Any]) -> list[Any]:
    """Return the tensors that a small array of 64-bit integers holds the addresses of, as grouped products have."""
    tables = [v for v in bound.values() if is_pointer(v) and str(v.dtype).endswith(("int64", "uint64"))]
    addresses: set[int] = set()
    for table in tables:
        regions = Regions()
        view = regions.plain("", table)
        if 0 < len(regions[0].content()) <= 8 * _TABLE:
            addresses |= {int(n) for n in view.array(regions[0].content()).reshape(-1) if n > _ADDRESS}
    if not addresses:
        return []
    found = []
    for each in gc.get_objects():
        if type(each).__name__ in ("Tensor", "Parameter") and hasattr(each, "untyped_storage"):
            with contextlib.suppress(Exception):
                start, size = each.untyped_storage().data_ptr(), each.untyped_storage().nbytes()
                if any(start <= a < start + size for a in addresses):
                    found.append(each)
    return found


def _tables(regions: Regions, plain: Mapping[str, Any], others: list[Any]) -> list[tuple[int, int, int, int]]:
    """Add tensors that are pointed to from memory to the regions; say where their addresses lie."""
    if not others:
        return []
    views = [v for v in plain.values() if isinstance(v, View) and v.dtype in ("i64", "u64")]
    for k, each in enumerate(others):
        regions.plain(f"array {k} of a table", each)
    found = []
    for view in views:
        memory = regions[view.region].content()
        for at in range(0, len(memory) - 7, 8):
            address = int(memory[at : at + 8].view(np.int64)[0])
            for k, region in enumerate(regions):
                if address > _ADDRESS and region.start <= address < region.start + region.size:
                    found.append((view.region, at, k, address - region.start))
                    break
    return found


# -- the hooks ---------------------------------------------------------------------------------------------------------

_open: list[Captured] = []


@contextlib.contextmanager
def capture() -> Iterator[Captured]:
    """Record every Triton launch within; see this module.

    *Raises*: RuntimeError where another capture is open.
    """
    if _open:
        raise RuntimeError("tune.capture: another capture is open in this process. Remedy: one at a time")
    seen = Captured()
    with hooked(seen):
        try:
            yield seen
        finally:
            seen.close()


@contextlib.contextmanager
def hooked(seen: Captured) -> Iterator[None]:
    """Have launches go to a capture, and a GPU be pretended where none is."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    from .. import interpreting

    if interpreting():
        from triton.runtime.interpreter import InterpretedFunction as kind

        from .. import runtime  # noqa: F401  it mends the interpreter
    else:
        from triton.runtime.jit import JITFunction as kind

    original, layered = kind.run, Heuristics.run
    _open.append(seen)

    def run(self: Any, *args: Any, **named: Any) -> Any:
        return seen.launched(self, args, named, original)

    def tuned(self: Any, *args: Any, **named: Any) -> Any:
        return seen.tuned(self, args, named)

    def computed(self: Any, *args: Any, **named: Any) -> Any:
        with seen.outermost(self, args, named):
            return layered(self, *args, **named)

    def defined(cls: type, **_: Any) -> None:  # a library's own tuner that is imported meanwhile
        if "run" in vars(cls):
            undo.callback(setattr, cls, "run", vars(cls)["run"])
            cls.run = tuned  # type: ignore[attr-defined]

    with contextlib.ExitStack() as undo, pretended():
        undo.callback(_open.remove, seen)
        hooks: list[tuple[Any, Any]] = [(kind, run), (Heuristics, computed), *((c, tuned) for c in _below(Autotuner))]
        for cls, hook in hooks:
            if "run" in vars(cls):
                undo.callback(setattr, cls, "run", cls.run)
                cls.run = hook
        Autotuner.__init_subclass__ = classmethod(defined)  # type: ignore[arg-type]
        undo.callback(delattr, Autotuner, "__init_subclass__")
        yield


def _below(kind: Any) -> Iterator[Any]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


def again(seen: Captured, launch: Launch, config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the arguments and the grid that a launch would have with another config, by its own heuristics, hooks and
    grid; nothing runs, and what hooks write is put back."""
    taken: list[tuple[dict[str, Any], tuple[int, ...]]] = []
    args, named = launch.given
    regions = Regions()
    tuner = next((layer for layer in chain_of(launch.outer) if hasattr(layer, "configs")), None)
    if tuner is not None:
        if tuner.reset_to_zero or tuner.user_defined_pre_hook or any(c.pre_hook for c in tuner.configs):
            for name, value in launch._bound.items():
                regions.plain(name, value)
        named = {k: v for k, v in named.items() if k not in config}
        seen.forced = config
    else:
        args, named = _replaced(launch.kernel.arg_names, args, named, config)
    contents = [region.content() for region in regions]
    seen.dry = lambda bound, grid: taken.append((bound, grid))
    try:
        launch.outer.run(*args, **named, grid=launch.grid, warmup=False)
    finally:
        seen.dry = seen.forced = None
        for region, content in zip(regions, contents, strict=True):
            region.put(content)
    if not taken:
        raise Failed("constraints", "the kernel's wrapper launches nothing with this config")
    return taken[0]
