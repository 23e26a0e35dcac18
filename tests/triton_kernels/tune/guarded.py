"""``python -m tests.triton_kernels.tune.guarded [200] [more.py ...]``: tuned kernels called at shapes of all kinds.

A kernel is tuned at a shape: a config that passes a final's checks there becomes the stored choice, the default's own
value never. Then it is called at that shape and at others, its arrays between pages that nobody may touch, in a process
of its own; every byte of the zones and every result is looked at. Core's C kernels, whose choices serve shapes nearby,
must besides give the very bits of their default's result. `more.py` holds further kernels in a list ``WRITTEN``.

What is counted: kernels tuned, calls of them, how many took the choice, bytes written outside, wrong results.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import itertools
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"

from triton_kernels import tune
from triton_kernels.tune import c_kernels, calls, lookup
from triton_kernels.tune import problem as problems
from triton_kernels.tune.final import look_anew
from triton_kernels.tune.measure import Failed, judge
from triton_kernels.tune.memory import PLACES, Fenced
from triton_kernels.tune.own_c import CFunction, c_problem
from triton_kernels.tune.store import Store

from .c_as_written import WRITTEN, Shape, Written

Told = Counter[str]
SEED = 15


def choose(store: Store, key: dict[str, Any], config: dict[str, Any], **more: Any) -> None:
    """Make a config the choice, as a session's end does."""
    winner = {"config": config, "ratio": 0.5, "low": 0.5, "high": 0.5, "ties": [], **more}
    store.win(key, store.begin(key, {}, "guarded"), winner)


def fenced(arguments: dict[str, Any], place: str) -> tuple[dict[str, Any], list[Fenced]]:
    """The arguments with their arrays in guarded memory."""
    given, all_ = dict(arguments), []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            memory = Fenced(value.shape, value.dtype)
            memory.lay(place)
            memory.array[...] = value
            given[name] = memory.array
            all_.append(memory)
    return given, all_


def compare(told: Told, expected: dict[str, np.ndarray], given: dict[str, Any], what: str) -> None:
    """Count a result that is wrong."""
    for name, right in expected.items():
        try:
            scale = np.abs(right) + float(np.mean(np.abs(right))) if right.size else right
            judge(given[name], right, scale, 1e-4 if given[name].dtype.kind == "f" else 1e-12)
        except Failed as failure:
            told["wrong"] += 1
            told[f"! {what}: {failure.reason}"] += 1


def watched(told: Told, all_: list[Fenced], what: str) -> None:
    """Count arrays beside which something was written."""
    for memory in all_:
        if memory.spoiled():
            told["outside"] += 1
            told[f"! {what}: writes outside"] += 1


def apart(work: Callable[[], Told]) -> Told:
    """Do something in a process of its own; its end by a signal counts as an access outside."""
    context = get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        faulthandler.disable()  # what a fault here means is counted
        try:
            theirs.send(work())
        except BaseException:
            theirs.send(Counter({"wrong": 1, f"! {traceback.format_exc()[-600:]}": 1}))

    process = context.Process(target=run)
    process.start()
    theirs.close()
    try:
        told: Told = ours.recv()
    except EOFError:
        process.join()
        told = Counter({"outside": 1, f"! the process ended with {process.exitcode}": 1})
    process.join()
    ours.close()
    return told


# -- what is tuned, and called -----------------------------------------------------------------------------------------


def own_c(written: Written, store: Store) -> Iterator[Callable[[], Told]]:
    """A C function of a user's: each of its configs that is right where it is tuned becomes the choice."""
    for tuned in written.tuned:
        rng = np.random.default_rng(SEED)
        asked = c_problem(written.text, written.make(tuned, rng), reference=written.reference)
        for config in list(asked.space.configs()):
            if config == asked.space.default:
                continue
            try:
                look_anew(asked, config)
            except Failed:
                yield lambda: Counter({"rejected": 1})
                continue
            choose(store, asked.key, config)
            yield lambda asked=asked, config=config, tuned=tuned: apart(lambda: _call_c(written, asked, config, tuned))


def _call_c(written: Written, asked: Any, config: dict[str, Any], tuned: Shape) -> Told:
    told, function = Counter({"tuned": 1}), CFunction(written.text)
    for shape in (tuned, *written.off):
        arguments = written.make(shape, np.random.default_rng(SEED + 1))
        expected = c_problem(written.text, arguments, reference=written.reference).measure.expected  # type: ignore[attr-defined]
        for place in PLACES:
            given, all_ = fenced(arguments, place)
            what = f"{written.name} tuned at {tuned} with {config}, called at {shape}"
            took = function.config_for(**given)
            if shape == tuned and took != config:
                told["wrong"] += 1
                told[f"! {what}: the choice is not taken where it was checked"] += 1
            function(**given)
            told["calls"] += 1
            told["calls with the choice"] += took == config
            watched(told, all_, what)
            compare(told, expected, given, what)
    return told


def tuners_c(store: Store, rng: np.random.Generator) -> Iterator[Callable[[], Told]]:
    """The tuner's own C kernels, which take a choice at shapes nearby too."""
    shapes = {"matmul": ((64, 48, 96), ((63, 47, 95), (65, 49, 97), (61, 64, 33), (64, 48, 95))),
              "softmax": ((32, 256), ((31, 255), (33, 257), (17, 301), (32, 131)))}  # fmt: skip
    for family, dtype in itertools.cycle(itertools.product(shapes, ("float32", "float64"))):
        tuned, off = shapes[family]
        asked = problems.find(family, tuned, dtype)
        configs = list(asked.space.configs())
        config = configs[int(rng.integers(len(configs)))]
        choose(store, asked.key, config)
        yield lambda family=family, dtype=dtype, tuned=tuned, off=off, config=config: apart(
            lambda: _call_tuners(family, dtype, config, (tuned, *off))
        )


def _call_tuners(family: str, dtype: str, config: dict[str, Any], shapes: tuple[Shape, ...]) -> Told:
    told, spec = Counter({"tuned": 1}), c_kernels.FAMILIES[family]
    for shape in shapes:
        inputs = spec.inputs(shape, dtype, np.random.default_rng(SEED))
        right, scale, _ = spec.reference(inputs)
        for place in PLACES:
            given, all_ = fenced(
                {**{str(k): x for k, x in enumerate(inputs)}, "out": np.zeros(right.shape, dtype)}, place
            )
            what = f"{family} {dtype} with {config}, called at {shape}"
            c_kernels.run(family, *(given[str(k)] for k in range(len(inputs))), out=given["out"])
            told["calls"] += 1
            told["calls with the choice"] += c_kernels.stored_for(family, shape, dtype) == config
            watched(told, all_, what)
            try:
                judge(given["out"], right, scale, 1e-4)
            except Failed as failure:
                told["wrong"] += 1
                told[f"! {what}: {failure.reason}"] += 1
    return told


CORE = {
    "core_elementwise": (4096,), "core_reduce": (4, 128, 512), "core_attention": (3, 64, 64, 32),
    "core_attention_backward": (3, 128, 64, 32), "core_recurrent": (4, 32, 16, 32),
    "core_recurrent_backward": (4, 32, 16, 32), "core_matmul": (128, 128, 128), "core_convolution": (2, 90, 64, 144),
    "core_int8_linear": (128, 128, 128), "core_int8_weights": (4, 256, 128), "core_int4_weights": (4, 256, 128),
}  # fmt: skip


def core_c(store: Store, rng: np.random.Generator) -> Iterator[Callable[[], Told]]:
    """Core's own C kernels, whose choice may change no bit at any shape."""
    from core.native import choices, module

    if module is None:
        return
    for kernel, dtype in itertools.cycle((name, dtype) for name, k in choices.KERNELS.items() for dtype in k.dtypes):
        tuned = CORE.get(kernel, (64, 512))
        asked = problems.find(kernel, tuned, dtype)
        configs = list(asked.space.configs())
        config = {**configs[int(rng.integers(len(configs)))], "SHARE": 8192}  # shared out, small as it is
        choose(store, asked.key, config)
        yield lambda kernel=kernel, dtype=dtype, tuned=tuned, config=config: apart(
            lambda: _call_core(kernel, dtype, tuned, config)
        )


def _call_core(kernel: str, dtype: str, tuned: Shape, config: dict[str, Any]) -> Told:
    from core.native import choices, module, tunables

    native: Any = module
    told = Counter({"tuned": 1})
    steps = (0, -1, 1, -3)
    off = [tuple(max(n + step * (k % 2 == 0 or step == -1), 1) for k, n in enumerate(tuned)) for step in steps]
    if kernel == "core_convolution":  # terms of windows, places of squares
        off = [tuned, (1, 81, 63, 121), (3, 99, 65, 169), (2, 90, 64, 100)]
    wanted = choices.numbers(kernel, config)
    for shape in off:
        measure = tunables.NativeMeasure(kernel, shape, dtype)
        measure.open()
        choices.take()
        what = f"{kernel} {dtype} tuned at {tuned} with {config}, called at {shape}"
        took = tuple(native.chosen(kernel, shape, choices.ITEM_SIZES[dtype])) == wanted
        made = measure._called.inputs(np.random.default_rng(SEED), shape)
        for place in ("end", "start"):
            given, all_ = fenced({str(k): tunables.typed(a, dtype) for k, a in enumerate(made)}, place)

            def run(given: dict[str, Any] = given, measure: Any = measure) -> list[bytes]:
                found = measure._called.run(*given.values())
                many = found if isinstance(found, tuple | list) else [found]
                return [a.tobytes() for a in many if a is not None]

            choices.take()
            mine = run()
            native.choose(kernel, [])
            told["calls"] += 1
            told["calls with the choice"] += took
            if run() != mine:
                told["wrong"] += 1
                told[f"! {what}: other bits than the default's"] += 1
            watched(told, all_, what)
    if not told["calls with the choice"]:
        told["wrong"] += 1
        told[f"! {kernel}: no call took the choice"] += 1
    return told


def triton(store: Store) -> Iterator[Callable[[], Told]]:
    """Triton kernels of a user's, in the interpreter, which looks at every address itself."""
    from dataclasses import replace

    from triton_kernels.tune.own import own_problem

    from .triton_as_written import WRITTEN as KERNELS

    for kernel, configs, make, reference, grid, tuned_at, off in KERNELS:
        for tuned in tuned_at:
            arguments = make(tuned, np.random.default_rng(SEED))
            asked = own_problem(kernel, arguments, grid=grid(tuned), reference=reference, configs=configs)
            there = replace(asked, measure=asked.check, mode=calls.mode("cuda, cold L2", arguments),
                            device="Triton's interpreter")  # fmt: skip
            for config in list(asked.space.configs())[1:]:
                try:
                    look_anew(there, config)
                except Failed:
                    yield lambda: Counter({"rejected": 1})
                    continue
                grids = asked.measure.grids  # type: ignore[attr-defined]
                choose(store, there.key, config, grid=list(grids[tuple(sorted(config.items()))]))
                launched = kernel, configs, make, reference, grid, tuned, off, config
                yield lambda launched=launched: _call_triton(*launched)


def _call_triton(
    kernel: Any, configs: Any, make: Any, reference: Any, grid: Any, tuned: Shape, off: Any, config: Any
) -> Told:
    told, launcher = Counter({"tuned": 1}), tune.auto(configs)(kernel)
    for shape in (tuned, *off):
        arguments = make(shape, np.random.default_rng(SEED + 1))
        given, all_ = fenced(arguments, "end")
        what = f"{kernel.fn.__name__} tuned at {tuned} with {config}, launched at {shape}"
        took = launcher.config_for(**given) == config
        if shape == tuned and not took:
            told["wrong"] += 1
            told[f"! {what}: the choice is not taken where it was checked"] += 1
        try:
            launcher[grid(shape)](**given)
        except Exception as error:
            told["outside"] += 1
            told[f"! {what}: {str(error)[:200]}"] += 1
            continue
        told["calls"] += 1
        told["calls with the choice"] += took
        watched(told, all_, what)
        compare(told, {"out": reference(**{n: a.astype(float) if isinstance(a, np.ndarray) else a
                                           for n, a in arguments.items()})}, given, what)  # fmt: skip
    return told


def main(count: int, *more: str) -> int:
    """Tune and call; print the counts; 1 where anything was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"], os.environ["XDG_CACHE_HOME"] = folder, f"{folder}/cache"
        lookup.forget()
        told = run(count, [w for path in more for w in _of_file(path)])
    lookup.forget()
    for line in [text for text in told if text.startswith("! ")][:20]:
        print(line[2:])
    for name in ("tuned", "rejected", "calls", "calls with the choice"):
        print(f"{name}: {told[name]:,}")
    print(f"written or read outside: {told['outside']}\nwrong results: {told['wrong']}")
    return 1 if told["outside"] or told["wrong"] or told["tuned"] < count else 0


def run(count: int, more: list[Written] | None = None) -> Told:
    """So many kernels tuned and called: of each kind in turn, until there are enough."""
    rng, told = np.random.default_rng(SEED), Counter[str]()
    with Store() as store:
        each = [own_c(written, store) for written in [*(more or []), *WRITTEN]]
        turns = [itertools.chain.from_iterable(_in_turn(each)), core_c(store, rng), triton(store), tuners_c(store, rng)]
        for work in itertools.chain.from_iterable(_in_turn(turns)):
            told += work()
            if told["tuned"] >= count:
                break
    return told


def _in_turn(many: list[Iterator[Any]]) -> Iterator[list[Any]]:
    while many:
        found = []
        for one in list(many):
            try:
                found.append(next(one))
            except StopIteration:
                many.remove(one)
        yield found


def _of_file(path: str) -> list[Written]:
    spec = importlib.util.spec_from_file_location("more", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.WRITTEN)


if __name__ == "__main__":
    sys.exit(main(int((sys.argv[1:] or ["200"])[0]), *sys.argv[2:]))
