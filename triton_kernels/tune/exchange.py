"""Results given away and taken in: Python with `triton.Config`, our JSON, Kernel Tuner's cache files, T4 results, and
what ships as a device's defaults (`bundled`).

Sources: Kernel Tuner's cache (as its `cache` files are) and the T4 results schema 1.0.0 of the Auto-Tuning Association.
What is read is data: nothing of a file is executed, and what it says of a config counts as somebody else's measurement,
so no choice of it is taken over without being asked for.
"""

from __future__ import annotations

import datetime
import gzip
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bundled import to_bundle
from .database import KEY
from .measure import STATUSES
from .store import Store

Record = dict[str, Any]
FORMAT = "gradlab tuning results"
VERSION = 1
_TO_KERNEL_TUNER = {"compile": "CompilationFailedConfig", "constraints": "InvalidConfig"}
_FROM_KERNEL_TUNER = {"CompilationFailedConfig": "compile", "RuntimeFailedConfig": "runtime",
                      "InvalidConfig": "constraints"}  # fmt: skip
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MOST_BYTES = 1 << 30  # of an unpacked file


class BadFile(ValueError):
    """A file that is none of the known formats; the message says what is wrong with it."""


# -- out ---------------------------------------------------------------------------------------------------------------


def to_python(problems: list[Record]) -> str:
    """Return the choices as Python: for each kernel, shape and dtype its config, and `triton.Config` where it has
    warps."""
    lines = ["# Configs that gradlab's tuner chose: kernel, shape, dtype, device; the time of the default's.", ""]
    if any("num_warps" in p["winner"]["config"] for p in problems if p["winner"]):
        lines += ["import triton", ""]
    lines.append("CONFIGS = {")
    for p in problems:
        winner = p["winner"]
        if winner:
            comment = " ".join(f"{p['device']}, {winner['ratio']:.3f}".split())
            key = f"({p['kernel']!r}, {tuple(p['shape'])!r}, {p['dtype']!r})"
            lines.append(f"    {key}: {_python(winner['config'])},  # {comment}")
    return "\n".join([*lines, "}"]) + "\n"


def _python(config: Record) -> str:
    options = {n: v for n, v in config.items() if n in _OPTIONS}
    if "num_warps" not in options:
        return repr(config)
    rest = {n: v for n, v in config.items() if n not in options}
    return f"triton.Config({rest!r}, {', '.join(f'{n}={v!r}' for n, v in options.items())})"


def to_json(problems: list[Record]) -> str:
    """Everything that the store knows of these problems; `read` takes it back."""
    return json.dumps({"format": FORMAT, "version": VERSION, "problems": problems}, indent=1) + "\n"


def to_kernel_tuner(problems: list[Record]) -> str:
    """One problem as a cache file of Kernel Tuner. *Raises*: ValueError for more than one."""
    p = _only(problems, "Kernel Tuner's cache")
    trials = _latest(p)
    names = list(trials[0]["config"]) if trials else []
    cache = {}
    for t in trials:
        failed = _TO_KERNEL_TUNER.get(t["status"], "RuntimeFailedConfig")
        right = t["status"] == "correct" and t["median_ms"] is not None
        entry = {**t["config"], "time": t["median_ms"] if right else failed, "times": t.get("samples") or [],
                 "compile_time": t.get("compile_ms") or 0, "verification_time": 0, "benchmark_time": 0,
                 "strategy_time": 0, "framework_time": 0, "timestamp": _time(t["at"])}  # fmt: skip
        cache[",".join(str(t["config"].get(n)) for n in names)] = entry
    values = {n: sorted({t["config"][n] for t in trials}, key=lambda v: (str(type(v)), v)) for n in names}
    content = {"schema_version": "1.1.0", "device_name": p["device"], "kernel_name": p["kernel"],
               "problem_size": p["shape"], "tune_params_keys": names, "tune_params": values, "objective": "time",
               "cache": cache}  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def to_t4(problems: list[Record]) -> str:
    """One problem as T4 results. *Raises*: ValueError for more than one."""
    p = _only(problems, "T4")
    results = []
    for t in _latest(p):
        runtimes = t.get("samples") or []
        measured = [{"name": "time", "value": t["median_ms"], "unit": "ms"}] if t["median_ms"] is not None else []
        results.append({
            "timestamp": _time(t["at"]), "configuration": t["config"],
            # the schema's name for it, and the one that Kernel Tuner writes
            "times": {"compilation_time": t.get("compile_ms") or 0, "compilation": t.get("compile_ms") or 0,
                      "benchmark": sum(runtimes), "framework": 0, "search_algorithm": 0, "validation": 0,
                      "runtimes": runtimes},
            "invalidity": t["status"], "correctness": int(t["status"] == "correct"), "measurements": measured,
            "objectives": ["time"],
        })  # fmt: skip
    content = {"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": results}
    return json.dumps(content, indent=1) + "\n"


FORMATS: dict[str, Callable[[list[Record]], str]] = {
    "python": to_python, "json": to_json, "kernel_tuner": to_kernel_tuner, "t4": to_t4, "bundle": to_bundle,
}  # fmt: skip


def export(
    store: Store, form: str, kernel: str = "", shape: tuple[int, ...] = (), dtype: str = "", device: str = ""
) -> str:
    """Return what a store knows of a kernel, in a format; of all kernels, shapes, dtypes and devices where none is
    named.

    *Raises*: ValueError for an unknown format, for nothing found, and where a format holds one problem alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
    ...     export(store, "yaml")
    Traceback (most recent call last):
    ValueError: no format is called 'yaml'; there are python, json, kernel_tuner, t4, bundle
    """
    if form not in FORMATS:
        raise ValueError(f"no format is called {form!r}; there are {', '.join(FORMATS)}")
    found = [
        p for p in store.problems()
        if (not kernel or p["kernel"] == kernel) and (not shape or tuple(p["shape"]) == tuple(shape))
        and (not dtype or p["dtype"] == dtype) and (not device or p["device"] == device)
    ]  # fmt: skip
    if not found:
        on = f" on {device}" if device else ""
        file = f". Remedy: a file to write into is -o {kernel}" if "." in kernel or "/" in kernel else ""
        raise ValueError(f"{store.where} has no results of {kernel or 'any kernel'}{on}{file}")
    return FORMATS[form](found)


def _only(problems: list[Record], what: str) -> Record:
    if len(problems) == 1:
        return problems[0]
    names = "; ".join(f"{p['kernel']} {'x'.join(map(str, p['shape']))} {p['dtype']} on {p['device']}" for p in problems)
    raise ValueError(f"{what} holds one kernel at one shape, and there are {len(problems)}: {names}. Remedy: name one")


def _latest(problem: Record) -> list[Record]:
    """Return the last word on each config."""
    found: dict[str, Record] = {}
    for trial in sorted(problem["trials"], key=lambda t: t["at"]):
        found[json.dumps(trial["config"], sort_keys=True)] = trial
    return list(found.values())


def _time(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="milliseconds")


# -- in ----------------------------------------------------------------------------------------------------------------


def read(path: Path, kernel: str = "", dtype: str = "", device: str = "", shape: tuple[int, ...] = ()) -> list[Record]:
    """Return the problems of a file in any of the JSON formats, also gzipped; each with its `trials` and `winner`.

    T4 says of no result which kernel, shape, dtype or device it is of: they are to be given. *Raises*: BadFile.
    """
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            with gzip.open(path) as file:
                raw = file.read(_MOST_BYTES)
        content = json.loads(raw)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(content, dict):
        raise BadFile(f"{path} holds a {type(content).__name__}, and not an object with results")
    try:
        if content.get("format") == FORMAT:
            if content["version"] > VERSION:
                raise BadFile(f"{path} has version {content['version']}, this gradlab knows {VERSION}")
            return [_checked(p) for p in content["problems"]]
        if "cache" in content:
            return [_from_kernel_tuner(content, kernel, dtype, device, shape)]
        if "results" in content:
            return [_from_t4(content, kernel, dtype, device, shape)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{path}: {type(error).__name__}: {error}") from None
    raise BadFile(f"{path} is neither gradlab's, nor a cache file of Kernel Tuner, nor T4 results")


def take_in(store: Store, problems: list[Record], choices: bool = False) -> int:
    """Write problems into a store; with `choices` their winners become the choices here too, where the file says that
    they gave the right answer. How many trials."""
    count = 0
    for p in problems:
        key = {name: p[name] for name in KEY}
        session = store.begin(key, {"source": "imported"}, "imported")
        for trial in p["trials"]:
            store.add(key, session, trial)
            count += 1
        right = [t["config"] for t in p["trials"] if t["status"] == "correct"]
        if choices and p["winner"] and p["winner"]["config"] in right:
            store.win(key, session, p["winner"])
    return count


def _checked(p: Record) -> Record:
    for name in ("kernel", "source", "device", "dtype", "mode"):
        if not isinstance(p[name], str):
            raise BadFile(f"the {name} of a problem is {p[name]!r}, and no text")
    if not all(isinstance(n, int) and n > 0 for n in p["shape"]):
        raise BadFile(f"the shape {p['shape']!r} is no list of sizes")
    kept = {name: p[name] for name in KEY}
    return {**kept, "trials": [_trial(t) for t in p["trials"]], "winner": p.get("winner") and _winner(p["winner"])}


def _trial(t: Record) -> Record:
    if t["status"] not in STATUSES:
        raise BadFile(f"a trial's status is {t['status']!r}; known: {', '.join(STATUSES)}")
    names = ("median_ms", "ratio", "n", "compile_ms", "samples")
    return {"config": dict(t["config"]), "status": t["status"], "reason": str(t.get("reason", "")),
            **{n: t[n] for n in names if t.get(n) is not None}, "at": float(t["at"])}  # fmt: skip


def _winner(w: Record) -> Record:
    return {"config": dict(w["config"]), "ties": list(w.get("ties") or []),
            **{n: float(w[n]) for n in ("ratio", "low", "high")}}  # fmt: skip


def _from_kernel_tuner(content: Record, kernel: str, dtype: str, device: str, given: tuple[int, ...]) -> Record:
    names, trials = content["tune_params_keys"], []
    for entry in content["cache"].values():
        value, samples = entry["time"], [float(x) for x in entry.get("times") or []]
        right = isinstance(value, int | float) and math.isfinite(value)
        trial = {"config": {n: entry[n] for n in names}, "at": _seconds(entry.get("timestamp")), "reason": ""}
        if right:
            trial |= {"status": "correct", "median_ms": float(statistics.median(samples) if samples else value),
                      "n": len(samples) or 1, "samples": samples}  # fmt: skip
        else:
            trial |= {"status": _FROM_KERNEL_TUNER.get(str(value), "runtime"), "reason": str(value)}
        if entry.get("compile_time"):
            trial["compile_ms"] = float(entry["compile_time"])
        trials.append(trial)
    size = content.get("problem_size", 1)
    shape = [n for n in (size if isinstance(size, list) else [size]) if isinstance(n, int) and n > 0] or [1]
    return _problem(kernel or str(content.get("kernel_name", "?")), list(given) or shape, dtype,
                    device or str(content.get("device_name", "?")), trials)  # fmt: skip


def _from_t4(content: Record, kernel: str, dtype: str, device: str, given: tuple[int, ...]) -> Record:
    if not (kernel and device):
        raise BadFile("T4 results do not say which kernel and device they are of: name them")
    trials = []
    for r in content["results"]:
        found = {m["name"]: m["value"] for m in r["measurements"]}
        value = found.get((r.get("objectives") or ["time"])[0])
        runtimes = [float(x) for x in r["times"].get("runtimes") or []]
        status = r["invalidity"] if r["invalidity"] in STATUSES else "runtime"
        trial: Record = {"config": dict(r["configuration"]), "reason": "", "at": _seconds(r.get("timestamp"))}
        if status == "correct" and isinstance(value, int | float) and math.isfinite(value):
            trial |= {"median_ms": float(value), "n": len(runtimes) or 1, "samples": runtimes}
        elif status == "correct":
            status, trial["reason"] = "runtime", "no time is recorded"
        compiling = r["times"].get("compilation_time", r["times"].get("compilation"))
        trials.append({**trial, "status": status, **({"compile_ms": float(compiling)} if compiling else {})})
    return _problem(kernel, list(given) or [1], dtype, device, trials)


def _problem(kernel: str, shape: list[int], dtype: str, device: str, trials: list[Record]) -> Record:
    """Of a problem from elsewhere no ratio to a default is known, and no text: it is a record, and no choice."""
    return {"kernel": kernel, "source": "", "device": device, "shape": shape, "dtype": dtype or "float32",
            "mode": "imported", "trials": trials, "winner": None}  # fmt: skip


def _seconds(stamp: Any) -> float:
    try:
        return datetime.datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return 0.0
