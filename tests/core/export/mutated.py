"""Program files with faults at random: each gives an answer or a clear error, in bounded time and memory.

    python -m tests.core.export.mutated 10000              # cases; --seed and --from tell one again
    python -m tests.core.export.mutated 1 --from 4711

A fault is in the bytes of the archive, in the bytes of a record whose checksum is put right, or in the description as
JSON: another name, number, op or place, a piece twice or not at all, something very deep or very large. Then the file
is loaded, and where it loads, run.

What may come of it: results; LoadError from loading; from running ValueError (arguments that do not fit what the file
says of them) or ExportError that names the op. Nothing else, no crash, and in a child with limits of memory and time.
An op may ask for more memory than there is, or a loop may not end: the child's limits end it, and that is counted.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import re
import resource
import signal
import sys
import time
import warnings
import zipfile
import zlib
from collections import Counter
from typing import Any

import numpy as np

import core
from core.base.errors import LoadError
from core.declare import op as declarations
from core.declare.op import Operation
from core.export import ExportError
from core.export.described import PROGRAM, STATE, TEXT

SECONDS = 10  # of one case
MEMORY = 6 * 2**30

_NUMBERS = (0, 1, -1, 2, 3, 7, 63, 64, 255, 2**15, 2**31 - 1, 2**31, 2**40, 2**62, 2**63, 2**64, -(2**31), -(2**63),
            10**30, 0.5, -0.0, 1e30, 1e300, -1e300, True, False, None, "", "x", [], {})  # fmt: skip


def archives() -> list[tuple[bytes, list[Any]]]:
    """Whole files, each with arguments that its program takes."""
    from .more_models import MODELS

    found = []
    for name in ("mlp", "cnn", "unet", "gpt_with_cache", "lstm", "gru", "transformer_encoder", "beam_step", "in_place",
                 "made_from_numbers", "gathering", "resample", "windows", "vae", "training_step", "fourier",
                 "linear_algebra", "whole_numbers", "complex_numbers", "group_norm", "gan_generator",
                 "einsum"):  # fmt: skip
        core.manual_seed(1)
        function, args, dynamic = MODELS[name]()
        found.append((packed(core.export(function, args(3), dynamic=dynamic, name=name)), list(args(4))))
    for op in declarations.table.values():
        if isinstance(op, Operation) and op.samples:
            found += single(op)
    for function, given in ((halves, core.tensor(40.0)), (sign, core.tensor([3.0, -1.0]))):
        found.append((packed(core.export(function, (given,))), [given]))
    return found


def single(op: Operation) -> list[tuple[bytes, list[Any]]]:
    """Programs of one op each, on the samples that its tests take."""
    from .test_numpy import program_of

    found = []
    for args, params in op.samples(np.random.default_rng(0))[:3]:
        arrays = [a if a is None else np.asarray(a) for a in args]
        arrays = [a.astype(np.float32) if a is not None and a.dtype == np.float64 else a for a in arrays]
        params = {**op.params, **params}
        if params.get("p") and "seed" in params:
            params["p"] = 0.0
        program, _ = program_of(op, arrays, params)
        try:
            whole = packed(program)
        except ExportError:  # a parameter that is an object of core's own
            continue
        found.append((whole, [core.from_numpy(a) for a in arrays if a is not None]))
    return found


@core.export.script
def halves(x):
    n = core.zeros(())
    while x > 1:
        x = x * 0.5
        n = n + 1
    return n


@core.export.script
def sign(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = -x
    return y


def packed(program: Any) -> bytes:
    """A program as the bytes of its file."""
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.gl")
        program.save(path)
        with open(path, "rb") as file:
            return file.read()


def records(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(found: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in found.items():
            archive.writestr(name, data)
    return out.getvalue()


# -- faults ------------------------------------------------------------------------------------------------------------


def bytes_changed(data: bytes, rng: Any) -> bytes:
    """Some bytes are others, or missing, or there are more of them."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        kind = int(rng.integers(5))
        if kind < 2:
            changed[at] = int(rng.integers(256))
        elif kind == 2:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            del changed[at : at + int(rng.integers(1, 40))]
        else:
            changed[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 40)), dtype=np.uint8))
    if rng.random() < 0.1:
        changed = changed[: int(rng.integers(len(changed) + 1))]
    return bytes(changed)


def places(said: Any) -> list[tuple[Any, Any]]:
    """All places in a description: (container, key)."""
    found: list[tuple[Any, Any]] = []
    waiting = [said]
    while waiting:
        x = waiting.pop()
        for key in list(x) if isinstance(x, dict) else range(len(x)):
            found.append((x, key))
            if isinstance(x[key], dict | list):
                waiting.append(x[key])
    return found


def parameters(said: Any) -> list[tuple[Any, Any]]:
    """The places of the parameters of ops, and of what stands in them."""
    nodes = [c[k] for c, k in places(said) if k == "params" and isinstance(c[k], dict)]
    return [place for params in nodes for place in places(params)]


def description_changed(said: Any, rng: Any) -> Any:
    """A few pieces of a description are others."""
    for _ in range(int(rng.integers(1, 4))):
        all_places = (rng.random() < 0.5 and parameters(said)) or places(said)
        if not all_places:
            return said
        container, key = all_places[int(rng.integers(len(all_places)))]
        old = container[key]
        kind = int(rng.integers(9))
        if kind == 0:
            container[key] = _NUMBERS[int(rng.integers(len(_NUMBERS)))]
        elif kind == 1 or (kind == 2 and isinstance(old, int | float)):
            container[key] = near(old, rng)
        elif kind == 3:
            other, place = all_places[int(rng.integers(len(all_places)))]
            container[key] = again(other[place])
        elif kind == 4 and isinstance(container, list):
            del container[key]
        elif kind == 5 and isinstance(container, list):
            container.insert(key, again(old))
        elif kind == 6 and isinstance(container, dict):
            container[str(rng.choice(["op", "x", "value", "tuple", "sized", key + "_"]))] = container.pop(key)
        elif kind == 7:
            deep = old
            for _ in range(int(rng.choice([2, 50, 2000]))):
                deep = [deep] if rng.random() < 0.5 else {"tuple": [deep]}
            container[key] = deep
        elif isinstance(old, str):
            names = list(declarations.table) if key == "op" else [c[k] for c, k in all_places if isinstance(c[k], str)]
            container[key] = names[int(rng.integers(len(names)))]
    return said


def again(x: Any) -> Any:
    """A piece of a description once more; of what is too deep to copy, nothing."""
    try:
        return json.loads(json.dumps(x))
    except RecursionError:
        return None


def near(old: Any, rng: Any) -> Any:
    """Another number, most often a close one."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return int(rng.choice([old + 1, old - 1, -old, 2 * old, old + 7, old - 100, 0]))
    if isinstance(old, float):
        return float(rng.choice([-old, 0.0, old * 1e6, old + 1, 2.0]))
    return _NUMBERS[int(rng.integers(len(_NUMBERS)))]


def mutated(whole: bytes, rng: Any) -> bytes:
    """A file with a fault."""
    kind = rng.random()
    if kind < 0.15:
        return bytes_changed(whole, rng)
    found = records(whole)
    if kind < 0.25:
        name = str(rng.choice([PROGRAM, STATE, TEXT]))
        found[name] = bytes_changed(found[name], rng)
    elif kind < 0.3:
        odd = int(rng.integers(4))
        if odd == 0:
            found[str(rng.choice(["../evil", PROGRAM + "x", "data.pkl"]))] = b"x"
        elif odd == 1:
            del found[str(rng.choice([PROGRAM, STATE, TEXT]))]
        elif odd == 2:
            found[TEXT] = bytes(10_000_000)
            return zipped(found, zipfile.ZIP_DEFLATED)
        else:
            found[PROGRAM] = found[PROGRAM][:-1] + b"," + b"[" * 200_000
    else:
        said = description_changed(json.loads(found[PROGRAM]), rng)
        try:
            found[PROGRAM] = json.dumps(said).encode()
        except RecursionError:
            found[PROGRAM] = b"[" * 100_000
    if zlib.crc32(found.get(PROGRAM, b"")) == 0:
        return whole
    return zipped(found)


# -- cases -------------------------------------------------------------------------------------------------------------


class OutOfTime(BaseException):
    """A case took longer than it may."""


def _alarm(*_: Any) -> None:
    raise OutOfTime


def outcome(data: bytes, args: list[Any]) -> str:
    """What came of a file: the name of what is allowed. *Raises* AssertionError for anything else."""
    try:
        program = core.export.load(io.BytesIO(data))
    except LoadError as error:
        return _as_it_should_be(error, r".{20}", "refused")
    copies = [_copied(a) for a in args]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program(*copies)
    except ExportError as error:
        memory = "MemoryError" in str(error) or "Unable to allocate" in str(error)
        said = "ran out of memory, and said in which op" if memory else "an op could not run, and is named"
        return _as_it_should_be(error, r"the op \w+ of the program", said)
    except ValueError as error:
        return _as_it_should_be(error, re.escape(program.name), "the arguments do not fit the file")
    return "ran"


def _as_it_should_be(error: Exception, pattern: str, said: str) -> str:
    """`said`, where an error says what it has to."""
    if not re.search(pattern, str(error)):
        raise AssertionError(f"this error does not say {pattern!r}: {error}")
    return said


def _copied(a: Any) -> Any:
    if isinstance(a, core.Tensor):
        return a.detach().clone()
    if isinstance(a, dict):
        return {k: _copied(v) for k, v in a.items()}
    return type(a)(map(_copied, a)) if isinstance(a, list | tuple) else a


def one(files: list[tuple[bytes, list[Any]]], seed: int, number: int) -> str:
    """Run a case."""
    rng = np.random.default_rng([seed, number])
    whole, args = files[int(rng.integers(len(files)))]
    data = mutated(whole, rng)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return outcome(data, args)
    except OutOfTime:
        return "ran out of time"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _child(pipe: Any, seed: int, first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _alarm)
    files = archives()
    for number in range(first, first + count):
        try:
            pipe.send((number, one(files, seed, number)))
        except BaseException as error:
            import traceback

            pipe.send((number, f"WRONG {type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"))
    pipe.close()


def run(count: int, seed: int = 0, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Run cases in children; gives how often each thing came, and what went wrong."""
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    number = first
    while number < first + count:
        ours, theirs = multiprocessing.get_context("spawn").Pipe(False)
        child = multiprocessing.get_context("spawn").Process(target=_child, args=(theirs, seed, number,
                                                                                   first + count - number))  # fmt: skip
        child.start()
        theirs.close()
        while number < first + count:
            if not ours.poll(SECONDS * 3 + 60):  # stuck where no alarm is heard
                child.kill()
                wrong.append(f"case {number}: stuck")
                number += 1
                break
            try:
                number, said = ours.recv()
            except EOFError:
                child.join()
                wrong.append(f"case {number}: the process ended with {child.exitcode}")
                number += 1
                break
            if said.startswith("WRONG"):
                wrong.append(f"case {number}: {said}")
            outcomes[said.partition(" ")[0] if said.startswith("WRONG") else said] += 1
            number += 1
        child.join()
    return outcomes, wrong


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.core.export.mutated", description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first")
    options = parser.parse_args(argv)
    started = time.monotonic()
    outcomes, wrong = run(options.count, options.seed, options.first)
    for said, n in outcomes.most_common():
        print(f"{n:7,}  {said}")
    for said in wrong:
        print(said)
    print(f"{options.count:,} cases, {len(wrong)} wrong, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
