"""The forms that `%export` writes a program in, each written, run and measured apart: one's failure is only its own.

A writer that this core does not have yet is a refusal too, and works as soon as the program has the method.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import core
from core import export as core_export
from core.export.ir import ExportError
from core.export.sizes import evaluate
from core.tensors.tensor import Tensor, from_array
from widgets.exported import Target

Arrays = list[np.ndarray]
Run = Callable[[Arrays], Arrays]
"""From the arrays of the inputs to those of the outputs."""
ROUNDS = 5
ROUND_S = 0.03
"""Each contestant's share of a round."""
C_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
C_SAYS = (
    "int model_run(void *arena, const void *weights, const int64_t *sizes, const void *const *inputs, "
    "void *const *outputs);",
    "size_t model_arena(const int64_t *sizes);",
)


class NotRun(Exception):
    """There is no figure, and why."""


def refusal_of(error: BaseException) -> tuple[str, str]:
    """Return what an error says, and its remedy.

    >>> refusal_of(ValueError("no such op\\n  op: sort; remedy: numpy"))
    ('no such op\\n  op: sort', 'numpy')
    """
    said = str(error) or type(error).__name__
    said, _, remedy = said.partition("remedy: ")
    known = isinstance(error, ExportError)
    said = said.rstrip().removesuffix(";").rstrip()
    return said if known or type(error) in (NotRun, ValueError) else f"{type(error).__name__}: {said}", remedy


# -- writing -----------------------------------------------------------------------------------------------------------


def _method(program: Any, name: str, target: str) -> Callable[..., Any]:
    found = getattr(program, name, None)
    if found is None:
        raise NotRun(f"this version of core does not write {target} (Program.{name})")
    return found  # type: ignore[no-any-return]


def write_numpy(program: Any, folder: Path) -> None:
    """Write the program as a Python file of NumPy's."""
    _method(program, "numpy", "NumPy")(folder)


def write_c(program: Any, folder: Path) -> None:
    """Write the program as C."""
    _method(program, "to_c", "C")(folder)


def write_onnx(program: Any, folder: Path) -> None:
    """Write the program as an ONNX model."""
    _method(program, "to_onnx", "ONNX")(folder / f"{program.name}.onnx")


def write_gl(program: Any, folder: Path) -> None:
    """Write the program as a file of core's own."""
    _method(program, "save", ".gl")(folder / f"{program.name}.gl")


# -- running -----------------------------------------------------------------------------------------------------------


def run_numpy(program: Any, folder: Path) -> Run:
    """Return the Python file's function."""
    path = folder / f"{program.name}.py"
    spec = importlib.util.spec_from_file_location(f"exported_{program.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(arrays: Arrays) -> Arrays:
        result = module.run(*program.arguments.built(iter(arrays)))
        return list(program.result.flat(result, "the result", lambda x: isinstance(x, np.ndarray | np.generic)))

    return run


def run_onnx(program: Any, folder: Path) -> Run:
    """Return what ONNX Runtime does with the model. *Raises*: NotRun where there is none."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        raise NotRun("not run: onnxruntime is not installed (pip install onnxruntime)") from None
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(folder / f"{program.name}.onnx"), options, ["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    if len(names) != len(program.inputs):
        raise NotRun(f"not run: the model takes {len(names)} inputs, the program {len(program.inputs)}")

    def run(arrays: Arrays) -> Arrays:
        return list(session.run(None, dict(zip(names, arrays, strict=True)))[: len(program.outputs)])

    return run


def run_gl(program: Any, folder: Path) -> Run:
    """Return the program that core reads from the file."""
    load = vars(core_export).get("load")
    if load is None:
        raise NotRun("not run: this version of core does not read .gl (core.export.load)")
    return run_program(load(folder / f"{program.name}.gl"))


def run_c(program: Any, folder: Path) -> Run:
    """Compile the C and return its function. *Raises*: NotRun without a compiler, and for another interface."""
    compiler = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
    if compiler is None:
        raise NotRun("not run: no C compiler (gcc, cc, clang)")
    header = re.sub(r"\s+", " ", (folder / "model.h").read_text())
    if not all(said in header for said in C_SAYS):  # calling it otherwise would end this process
        raise NotRun("not run: model.h declares other functions than the ones that are known here")
    library = folder / "model.so"
    done = subprocess.run([compiler, *C_FLAGS, "-shared", "-fPIC", "-o", str(library.absolute()), "model.c", "-lm"],
                          cwd=folder, capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        raise ValueError(f"does not compile: {done.stderr.strip()[:500]}")
    loaded = ctypes.CDLL(str(library.absolute()))
    library.unlink()  # it stays mapped, and is no part of what was asked for
    loaded.model_arena.restype = ctypes.c_size_t
    weights = np.fromfile(folder / "weights.bin", np.uint8)
    source = ctypes.c_void_p(weights.ctypes.data)
    prepared: dict[Any, Any] = {"weights": weights}  # the memory that pointers lead to

    def prepare(shapes: tuple[Any, ...]) -> Any:
        """Return what a caller in C would have at hand: the sizes, the arena, room for the outputs."""
        found = program.sizes_of(shapes)
        sizes = (ctypes.c_int64 * max(len(found), 1))(*found.values())
        try:
            outputs = [np.empty([evaluate(d, found) for d in v.shape], arrays_dtype(v.dtype)) for v in program.outputs]
        except KeyError:
            raise NotRun("not run: the size of an output is known only when it runs") from None
        room = np.empty(loaded.model_arena(sizes) + 64, np.uint8)
        return sizes, room, ctypes.c_void_p(room.ctypes.data + -room.ctypes.data % 64), outputs, _pointers(outputs)

    def run(arrays: Arrays) -> Arrays:
        shapes = tuple([a.shape for a in arrays])
        if shapes not in prepared:
            prepared[shapes] = prepare(shapes)
        sizes, _, arena, outputs, places = prepared[shapes]
        error = loaded.model_run(arena, source, sizes, _pointers(arrays), places)
        if error:
            raise ValueError(f"model_run returned {error}")
        return outputs  # type: ignore[no-any-return]

    return run


def _pointers(arrays: Arrays) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))


def arrays_dtype(name: str) -> Any:
    """Return NumPy's dtype of one of core's names."""
    return np.asarray(core.zeros(1, dtype=getattr(core, name))._a).dtype


def run_program(program: Any) -> Run:
    """Return a program as a function of arrays."""

    def run(arrays: Arrays) -> Arrays:
        return _flat(program, program(*program.arguments.built(map(from_array, arrays))))

    return run


def run_eager(function: Any, program: Any) -> Run:
    """Return the function itself as one of arrays."""

    def run(arrays: Arrays) -> Arrays:
        with core.no_grad():
            return _flat(program, function(*program.arguments.built(map(from_array, arrays))))

    return run


def _flat(program: Any, result: Any) -> Arrays:
    return [np.asarray(t._a) for t in program.result.flat(result, "the result", lambda x: isinstance(x, Tensor))]


TARGETS: dict[str, tuple[Callable[[Any, Path], None], Callable[[Any, Path], Run]]] = {
    "numpy": (write_numpy, run_numpy), "c": (write_c, run_c), "onnx": (write_onnx, run_onnx), "gl": (write_gl, run_gl),
}  # fmt: skip


# -- data and figures --------------------------------------------------------------------------------------------------


def sizes_like(program: Any, given: Arrays, wanted: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the first of the wanted sizes that the program takes, else those of the example."""
    for changes in wanted:
        sizes = {**program.sizes_of([a.shape for a in given]), **changes}
        try:
            program.sizes_of([tuple(evaluate(d, sizes) for d in v.shape) for v in program.inputs])
        except ValueError:
            continue
        return sizes
    return dict(program.sizes_of([a.shape for a in given]))


def data_like(program: Any, given: Arrays, sizes: dict[str, int], seed: int) -> Arrays:
    """Return inputs at these sizes with values drawn from the example's, so that they are where it works: numbers a
    tenth larger or smaller, indices as they are."""
    rng = np.random.default_rng(seed)
    out = []
    for value, a in zip(program.inputs, given, strict=True):
        shape = tuple(evaluate(d, sizes) for d in value.shape)
        drawn = rng.choice(a.reshape(-1), shape) if a.size else np.zeros(shape, a.dtype)
        if value.dtype not in ("bool",) and "int" not in value.dtype:
            drawn = (drawn * rng.uniform(0.9, 1.1, shape)).astype(a.dtype)
        out.append(np.ascontiguousarray(drawn))
    return out


def difference(found: Arrays, wanted: Arrays) -> tuple[float, float]:
    """Return the largest difference, and the largest of what is wanted. Another shape or NaN differs infinitely."""
    worst = scale = 0.0
    for a, b in zip(found, wanted, strict=True):
        if np.shape(a) != np.shape(b):
            return float("inf"), scale
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        x, y = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(x - y))
        worst = max(worst, float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)))
        scale = max(scale, float(np.abs(y[np.isfinite(y)]).max(initial=0.0)))
    return worst, scale


def latencies(runs: dict[str, Run], data: Arrays) -> dict[str, float]:
    """Return seconds a call: of all in turn, the median of some rounds, so that what else the machine does hits all."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    calls: dict[str, int] = {}
    for name, run in runs.items():
        run([a.copy() for a in data])
        start = perf_counter()
        run([a.copy() for a in data])
        calls[name] = max(1, min(1000, int(ROUND_S / max(perf_counter() - start, 1e-7))))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = perf_counter()
            for _ in range(calls[name]):
                run(data)
            found[name].append((perf_counter() - start) / calls[name])
    return {name: statistics.median(times) for name, times in found.items()}


def size_and_files(folder: Path, before: dict[str, int]) -> tuple[int, list[str]]:
    """Return the bytes and the names of the files that were written since `before`."""
    new = {p: t for p, t in listed(folder).items() if before.get(p) != t}
    return sum(os.path.getsize(folder / p) for p in new), sorted(new)


def listed(folder: Path) -> dict[str, int]:
    """Return the files of a folder with when they were changed last."""
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in sorted(folder.rglob("*")) if p.is_file()}


def written(program: Any, name: str, folder: Path) -> tuple[Target, Run | None]:
    """Write one target and make it ready to run; what fails is said in the target, and there is nothing to run."""
    write, make = TARGETS[name]
    target, before = Target(name), listed(folder)
    try:
        write(program, folder)
    except Exception as error:
        target.refusal, target.remedy = refusal_of(error)
        return target, None
    target.size_bytes, target.files = size_and_files(folder, before)
    try:
        return target, make(program, folder)
    except Exception as error:
        failed(target, error)
        return target, None


def failed(target: Target, error: Exception) -> None:
    """Note in a target that was written why it is not run: nothing to run it with, or something is wrong with it."""
    said, remedy = refusal_of(error)
    if isinstance(error, NotRun):
        target.note = said
    else:
        target.refusal, target.remedy = f"it was written and does not run: {said}", remedy
