"""``python -m tests.mutation 60 --seed 1``: so many random faults, and whether a test notices each.

A fault is told as killed when pytest fails, crashes or hangs on the tests nearest to the file or, where those pass, on
the wider ones of its part (`asked.nearest`); the slowest of the suite (browsers, notebooks) are not asked, so the share
of killed faults is a lower bound. Survivors are printed with their line: whether such a fault changes what anybody can
see is for a person to judge. Faults that do not compile are drawn again.

Only a test that runs the line of a fault can notice it. So the faults are drawn first, a probe is put at each one's
line (`probes`), in Python and in C alike, and the tests run twice without a fault, in order and in reversed order: that
tells who passes which probe, in processes that tests start too. Of a stage, those are asked first. All others are asked
as well where they could depend on a line that they do not run (`asked.Recording.complete`): one without a probe, one
that runs at an import, one that the reversed order lets other tests run, since its result is kept. In C a fault may
write where it should not and break what comes later; tests of C faults therefore run with Python's and the C library's
checks of memory.

Copies of the sources, one a job, take one fault each at a time. A hang is told by processor time (`children`). With
`--json` a run that was stopped goes on: results and the recording (beside it, `.passes`) are kept.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import queue
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import children, probes
from .asked import PARTS, Recording, Stage, every, nearest
from .copies import ROOT, Copy, tracked
from .faults import Fault, faults

# Seconds of processor time in which no test ends: so many, and so many times what the slowest asked one takes.
HANGS, TIMES_SLOWEST = 90.0, 10.0
CHECKED = {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165"}


def drawn(part: str, rng: random.Random) -> Iterator[Fault]:
    """Yield random faults of a part without end, each as likely as any other."""
    found = []
    for pattern in PARTS[part]:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            found += faults(path.relative_to(ROOT).as_posix(), text, sentences=part == "lab/diagnose")
    while True:
        yield rng.choice(found)


def source(file: str) -> str:
    """Return a file's text as it is in the tree."""
    return (ROOT / file).read_text(encoding="utf-8")


def compiles(copy: Copy, file: str, text: str) -> bool:
    """Write a text in place of a file's in the copy, and return whether it compiles."""
    if file.endswith(".py"):
        try:
            compile(text, file, "exec")
        except SyntaxError:
            return False
    return copy.place(file, text)


def chosen(options: argparse.Namespace, copy: Copy | None, tried: set[str]) -> list[Fault]:
    """Draw the faults of a run, the same for the same seed; what was tried before has compiled."""
    found: list[Fault] = []
    parts = options.part or list(PARTS)
    for number, part in enumerate(parts):
        share = options.count // len(parts) + (number < options.count % len(parts))
        draws = drawn(part, random.Random(f"{options.seed} {part}"))
        while share:
            fault = next(draws)
            if fault in found:
                continue
            before = source(fault.file)
            if copy is not None and fault.told(before) not in tried:
                fits = compiles(copy, fault.file, fault.apply(before))
                copy.place(fault.file, before)
                if not fits:
                    continue
            found.append(fault)
            share -= 1
    return found


# -- the recording ----------------------------------------------------------------------------------------------------


def put_probes(copy: Copy, chosen: list[Fault]) -> set[int]:
    """Put a probe at each fault, those left out with which a file does not compile; return which there are."""
    python, c = copy.folder / f"{probes.MODULE}.py", copy.folder / f"{probes.MODULE}.c"
    python.write_text(probes.module(copy.memory), encoding="utf-8")
    if any(not fault.file.endswith(".py") for fault in chosen):
        c.write_text(probes.c_module(copy.memory), encoding="utf-8")
        if not copy.compile([c]):
            raise SystemExit("mutation: the memory of the probes does not compile")
    placed = set()
    for file in sorted({fault.file for fault in chosen}):
        before = source(file)
        kept: list[probes.Insertion] = []
        for number, fault in enumerate(chosen):
            if fault.file != file:
                continue
            new = probes.probe(fault, before, number)
            if new is None:
                continue
            if compiles(copy, file, probes.inserted(before, kept + new)):
                kept += new
                placed.add(number)
        copy.place(file, probes.inserted(before, kept))
    return placed


def take_probes(copy: Copy, chosen: list[Fault]) -> None:
    """Make the copy what it was before `put_probes`."""
    (copy.objects / f"{probes.MODULE}.o").unlink(missing_ok=True)
    for file in sorted({fault.file for fault in chosen}):
        copy.place(file, source(file))


def recorded(copies: list[Copy], chosen: list[Fault], kept: Path | None) -> Recording:
    """Run all tests that may be asked, in two orders and without a fault; return who passes which probe.

    The result is kept in a file, for the same faults in the same tree.
    """
    digest = hashlib.sha256(repr(chosen).encode())
    for file in tracked():
        if kept is None or (ROOT / file).with_suffix("") != kept.resolve().with_suffix(""):
            digest.update(file.encode() + (ROOT / file).read_bytes())
    if kept is not None and kept.exists():
        told = json.loads(kept.read_text(encoding="utf-8"))
        if told["digest"] == digest.hexdigest():
            return Recording(set(told["probed"]), told["runs"])
    paths = every(fault.file for fault in chosen)

    def run(copy: Copy, reverse: bool) -> tuple[set[int], dict[str, Any]]:
        probed = put_probes(copy, chosen)
        watched = {str(copy.folder / fault.file): fault.file for fault in chosen}
        done, seen = copy.pytest(paths[::-1] if reverse else paths, stop=False, reverse=reverse, watched=list(watched))
        take_probes(copy, chosen)
        if not seen:
            raise SystemExit(f"mutation: the tests did not end without a fault\n{done.said[-4000:]}")
        seen["readers"] = {watched[file]: tests for file, tests in seen["readers"].items()}
        return probed, seen

    if len(copies) == 1:
        ran = [run(copies[0], False), run(copies[0], True)]
    else:
        ran = at_once([lambda: run(copies[0], False), lambda: run(copies[1], True)])
    recording = Recording(ran[0][0], [seen for _, seen in ran])
    if kept is not None:
        told = {"digest": digest.hexdigest(), "probed": sorted(recording.probed), "runs": recording.runs}
        kept.write_text(json.dumps(told), encoding="utf-8")
    return recording


# -- a fault ----------------------------------------------------------------------------------------------------------


def outcome(copy: Copy, fault: Fault, number: int, recording: Recording) -> tuple[str, str]:
    """Make the fault and ask the tests until one notices; return whether one did, and which test.

    A test that fails without the fault as well has noticed nothing: it is left out from then on.
    """
    before = source(fault.file)
    if not copy.place(fault.file, fault.apply(before)):
        raise SystemExit(f"mutation: it does not compile in a second copy: {fault.told(before)}")
    if not fault.file.endswith(".py"):
        copy.environment |= CHECKED
    try:
        return asked(copy, fault, recording.passing(number, fault.file), recording.complete(number), recording)
    finally:
        copy.place(fault.file, before)
        for name in CHECKED:
            copy.environment.pop(name, None)


def asked(copy: Copy, fault: Fault, passing: set[str], complete: bool, recording: Recording) -> tuple[str, str]:
    """Ask of each stage the tests that pass the line, then, unless they are all that can notice, the others."""
    stages = nearest(fault.file)
    every_test = {test for run in recording.runs for test in run["seconds"]}
    done: set[str] = set()
    for stage in stages:
        tests = {test for test in passing if stage.has(test)} - done
        told, missing = ask(copy, fault, stage, tests, recording)
        if told:
            return "killed", told
        complete &= not missing
        done |= tests
    if complete:
        return "passed", f"{len(done)} tests that run the line"
    for stage in stages:
        tests = {test for test in every_test if stage.has(test)} - done
        told, _ = ask(copy, fault, stage, tests, recording)
        if told:
            return "killed", told
        done |= tests
    return "passed", f"all {len(done)} tests: the line runs at an import, or once for many"


def ask(copy: Copy, fault: Fault, stage: Stage, tests: set[str], recording: Recording) -> tuple[str, int]:
    """Run some tests of a stage; return how the fault was noticed, or nothing, and how many tests were not found."""
    seconds = recording.seconds(tests)
    limit = HANGS + TIMES_SLOWEST * max(seconds.values(), default=0.0)
    by_file: dict[str, float] = {}
    for test, cost in seconds.items():
        file = test.partition("::")[0]
        by_file[file] = by_file.get(file, 0.0) + cost
    files = sorted(by_file, key=by_file.__getitem__)  # the quickest first
    while tests - copy.failing:
        ended, seen = copy.pytest(files, most_cpu=limit, chosen=sorted(tests))
        if children.STOPPED.is_set():
            raise SystemExit("mutation: stopped")
        if ended.hung:
            return f"{ended.hung} in {' '.join(stage.arguments())}", 0
        if ended.status in (0, 5):
            return "", seen.get("missing", 0)
        failed = next(iter(seen.get("failed", ())), "")
        if not failed:
            return f"exit {ended.status} in {' '.join(stage.arguments())}", 0
        if is_no_chance(copy, fault, failed, limit, recording):
            return failed, 0
        tests = {test for test in tests if failed not in (test, test.partition("::")[0])}
    return "", 0


def is_no_chance(copy: Copy, fault: Fault, failed: str, limit: float, recording: Recording) -> bool:
    """Return whether a test that has failed with the fault passes without it; else the fault is put back.

    One that failed while the tests were recorded may depend on the machine: twice more in turn, it has to pass without
    the fault and to fail with it.
    """
    before = source(fault.file)
    after = fault.apply(before)
    alone: dict[str, Any] = {} if "::" in failed else {"chosen": []}  # a file that could not be collected

    def passes(text: str) -> bool:
        copy.place(fault.file, text)
        return copy.pytest([failed], most_cpu=limit, **alone)[0].status in (0, 5)

    if not passes(before):
        copy.failing.add(failed)
        copy.place(fault.file, after)
        return False
    if not any(failed in run["failed"] for run in recording.runs):
        return True
    told = not passes(after) and passes(before) and not passes(after)
    copy.place(fault.file, after)
    return told


# -- the command ------------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 where fewer than nine tenths are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="so many faults at the same time, each in a copy")
    parser.add_argument("--list", action="store_true", help="show the faults without testing them")
    parser.add_argument("--json", type=Path, help="a file that takes one result a line, as it comes; "
                        "what stands in it already is not tried again")  # fmt: skip
    options = parser.parse_args(argv)
    if not 0 < options.count <= probes.SIZE - 8:
        parser.error(f"between 1 and {probes.SIZE - 8} faults, not {options.count}")
    if options.list:
        for fault in chosen(options, None, set()):
            print(fault.told(source(fault.file)))
        return 0
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        rows += [json.loads(line) for line in options.json.read_text(encoding="utf-8").splitlines()]
    tried = {row["fault"] for row in rows}
    with tempfile.TemporaryDirectory("gradlab-mutation") as name:
        copies = [Copy(Path(name, str(k))) for k in range(options.jobs)]
        if "core/native" in (options.part or PARTS):
            copies[0].build()
            for copy in copies[1:]:
                copy.take_build(copies[0])
        else:
            for copy in copies:
                shutil.copy(next((ROOT / "core/native").glob("_native*.so")), copy.library)
        found = chosen(options, copies[0], tried)
        begun = time.monotonic()
        recording = recorded(copies, found, options.json and options.json.with_suffix(".passes"))
        cost = sum(copy.cpu for copy in copies)
        exact = sum(map(recording.complete, range(len(found))))
        took = f"{time.monotonic() - begun:.0f} s, with the compiler {cost:.0f} s of processor time"
        print(f"{len(recording.probed)} of {len(found)} probes, {exact} tell all who run the line; {took}", flush=True)
        rows += test_all(copies, found, recording, tried, options.json)
    killed = sum(row["outcome"] == "killed" for row in rows)
    print(f"{killed} of {len(rows)} faults were noticed; of the others see above whether they change what can be seen")
    return int(killed < 0.9 * len(rows))


def test_all(
    copies: list[Copy], found: list[Fault], recording: Recording, tried: set[str], out: Path | None
) -> list[dict[str, Any]]:
    """Try the faults that were not tried before, one a copy at a time; print and keep each result as it comes."""
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in sorted(range(len(found)), key=lambda k: recording.complete(k)):  # the longest first
        if found[number].told(source(found[number].file)) not in tried:
            left.put(number)
    rows: list[dict[str, Any]] = []
    lock = threading.Lock()

    def work(copy: Copy) -> None:
        while True:
            try:
                number = left.get_nowait()
            except queue.Empty:
                return
            fault = found[number]
            begun, cpu = time.monotonic(), copy.cpu
            said, by = outcome(copy, fault, number, recording)
            row = {"outcome": said, "fault": fault.told(source(fault.file)), "by": by,
                   "seconds": time.monotonic() - begun, "cpu": copy.cpu - cpu}  # fmt: skip
            with lock:
                rows.append(row)
                print(
                    f"{said:7} {row['seconds']:5.0f} s, processor {row['cpu']:5.0f} s {row['fault']}\n    {by}",
                    flush=True,
                )
                if out:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")

    at_once([functools.partial(work, copy) for copy in copies])
    return rows


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Return what the calls return, each made in a thread; what they run ends where one fails, or at Ctrl-C."""
    with ThreadPoolExecutor(len(calls)) as pool:
        waiting = [pool.submit(call) for call in calls]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            children.STOPPED.set()
            raise


if __name__ == "__main__":
    sys.exit(main())
