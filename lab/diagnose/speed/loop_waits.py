"""What a training loop waits for: its data, values that come from a GPU, the same tensor copied there again."""

from __future__ import annotations

import ast
import os
import re
from types import CodeType

import numpy as np

from core.backends import cuda
from widgets.figures import size_text, time_text

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Sample, Trace, ancestors
from ...recorder.loader_waits import Fetched
from ...recorder.sampling import loop_of
from ...recorder.user_files import is_users
from ..finding import Found, capital, code_of, last_line, listed, spot, verb, where
from ..order import rule
from ..reading.sources import names_in
from .cost import _inside, saved
from .slow_code import savings
from .slow_python import DEQUE, known_at
from .time_shares import Frame, Shares, around, tree_of

HALF = 0.5  # share of a cell's time from which a loader is what it waits for
LEAST_NS = 20_000_000  # waits shorter than this in all are over before anybody notices
PART = 0.25  # share of the cell's time from which a wait is more than a note
BATCH_NS, MATTERS_NS = 8_000_000, 100_000_000  # a wait for one batch, and in all, that is more than a note
PLAIN_NS = 300_000_000  # the same where nothing of the user's loads: a busy machine makes such waits too
SMALL_NS, LONG_NS = 3_000_000, 500_000_000  # beneath both it is the bookkeeping of small tensors
TURNS = 3  # iterations in which it must have been met
FEW_LOOKS = 4.0  # a sample never stands for more than so many times its own length
FEW = 8  # calls that ask a GPU for a value, beside which one is not worth a word
SHARE = 0.02  # of the cell's time
BIG = 1 << 20  # bytes copied again and again that are worth more than a note
LOADED = 0.95  # of a wait for samples that are in memory, which is saved where a batch is taken at once
ASKING = ("item", "tolist", "numpy", "bool", "print")
READS = re.compile(r"\b(torch|core|pickle|joblib|np)\.loads?\(|read_\w+\(|imread\(|\bopen\(|\bFile\(|open_\w+\(")
DRAWS = re.compile(r"(?i)(\b|_)(rand|augment|noise|jitter|choice|uniform|shuffle)")


@rule(820, proof="the waits were timed")
def waits(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A data loader, or a slow line of Python, that takes most of a loop's time."""
    if trace.error is None and trace.steps.beats >= TURNS and (timed := _timed(trace)) is not None:
        of_loader, waited = timed
        if any(saving.share >= waited / Shares(trace).total for saving in savings(trace)):
            of_loader.severity = "note"  # what costs more of the time is told before it
        return [of_loader]
    total = sum(s.ns for s in trace.samples.values() if s.kind != "import")  # those at the loop are a part of it
    total += trace.blind_ns
    scale = min(_spent(trace) / total, FEW_LOOKS) if total else 0.0
    if total <= 0 or trace.steps.beats < TURNS or trace.error is not None:
        return []
    timed_places = {chain[:1] for chain in trace.fetched}
    loops: dict[Chain, list[Sample]] = {}
    lines: dict[int, list[Sample]] = {}
    for sample in trace.samples.values():
        at = loop_of(sample)
        if at >= 0 and sample.places[at : at + 1] in timed_places:
            continue  # it is timed, and no wait of weight
        if at >= 0 and (sample.beats > 1 or sample.kind == "loader"):
            loops.setdefault(sample.places[at:][:1], []).append(sample)
        elif sample.kind == "python":
            line = trace.line(sample.places)
            if line is not None:
                lines.setdefault(line, []).append(sample)
    found = _loader(trace, loops, total, scale)
    if found is None and trace.blind_ns and trace.steps.beats >= TURNS:
        # on a busy machine most samples are left out: then what was seen is set beside the time in ops, which is known
        known = total - trace.blind_ns + _inside(trace)
        found = _loader(trace, loops, known, min(_spent(trace) / known, FEW_LOOKS)) if known > 0 else None
    return [found] if found else _slow_line(trace, lines, total, scale)


def _spent(trace: Trace) -> int:
    """The cell's time, without the recorder's, that of the modules it imported and what other programs had."""
    imports = trace.samples.get("import")
    return max(trace.wall_ns - trace.own_ns - trace.starved_ns - (imports.ns if imports is not None else 0), 0)


def _share(spent: int, total: int) -> str:
    return f"{min(100 * spent / total, 99):.0f} %"


def _loader(trace: Trace, loops: dict[Chain, list[Sample]], total: int, scale: float) -> Found | None:
    if not loops:
        return None
    samples = max(loops.values(), key=lambda group: sum(s.ns for s in group))
    spent = sum(s.ns for s in samples)
    turns = sum(s.beats for s in samples)
    if spent * scale < LEAST_NS or spent < HALF * total or turns < TURNS:
        return None
    outer = max(samples, key=lambda s: s.ns)
    at = loop_of(outer)
    line, col, words = where(trace, outer.places[at:])
    if line is None:
        return None
    code = _header(trace.place(*outer.places[at]).code or _text(trace, line))
    share, net = f"about {_share(spent, total)} of this cell's time", round(spent * scale)
    each = net / max(_asked(trace, outer, turns), 1)
    loaded = any(s.kind == "loader" for s in samples)
    return _waited(trace, samples, (line, col, words), code, share, net, each, loaded)


def _timed(trace: Trace) -> tuple[Found, int] | None:
    """Of the loops over data loaders, which are timed, the one that waits longest, and for how many ns."""
    loops = [(chain, f) for chain, f in trace.fetched.items() if f.batches >= TURNS and f.waited_ns >= LEAST_NS]
    for chain, fetched in sorted(loops, key=lambda pair: -pair[1].ns):
        line, col, words = where(trace, chain)
        if line is None or fetched.ns < HALF * fetched.loop_ns:
            continue
        samples = [s for s in trace.samples.values() if s.kind == "loader" and s.places[s.waits :][:1] == chain[:1]]
        code = _header(trace.place(*chain[0]).code or _text(trace, line))
        share = f"about {_share(fetched.ns, fetched.loop_ns)} of this loop's time"
        spent = fetched.waited_ns
        each = spent / fetched.batches
        found = _waited(trace, samples, (line, col, words), code, share, spent, each, True, fetched)
        if found is not None:
            return found, spent
    return None


def _waited(
    trace: Trace,
    samples: list[Sample],
    at: tuple[int | None, int | None, str],
    code: str,
    share: str,
    spent: int,
    each: float,
    loaded: bool,
    fetched: Fetched | None = None,
) -> Found | None:
    """The finding, with the line of the user's own that takes most of it."""
    line, col, words = at
    if each < SMALL_NS and spent < LONG_NS:
        return None
    met = [(s.ns, s.places[: loop_of(s)]) for s in samples]
    deeper = slow = _slowest(trace, met)
    if fetched is not None and (asks := _in_makers(trace, met, fetched)) is not None:
        slow = asks
    where_slow, remedy_line, drawn = "", "", False
    if slow is not None and deeper is not None:
        there = spot(trace, slow)
        inside = "" if deeper[0] is slow[0] else f", in {_named(deeper)} ({spot(trace, deeper)})"
        where_slow = f"; {there}{_quoted(trace, slow)} in {_named(slow)} takes most of it{inside}"
        drawn = _draws(trace, met, slow)
        remedy_line = f"Make {there} faster" + ("" if drawn else " or do its work once, before the loop")
        if not drawn and (kept := _kept(trace, slow)):
            remedy_line = kept
    own = slow is not None and slow[0].co_filename in trace.files and not (fetched is not None and fetched.workers)
    if slow is not None and own:  # the line to change is this one
        line, col, _ = where(trace, (slow,))
        message = capital(
            f"{there}{_quoted(trace, slow)} in {_named(slow)} is what {words} waits for: {share} passes in `{code}` "
            f"before the batches come, {time_text(each / 1e6)} for each, most of it there{inside}."
        )
    else:
        message = capital(
            f"{words} waits for its data: {share} passes in `{code}` "
            f"before the batches come, {time_text(each / 1e6)} for each{where_slow}."
        )
    ways = [remedy_line] if remedy_line else []
    if fetched is not None and fetched.workers:
        where_slow, ways = _by_workers(trace, fetched)
        message = f"{message.removesuffix('.')}{where_slow}."
    elif loaded:
        ways.append("load in other processes: DataLoader(..., num_workers=2)")
    elif not ways:
        ways.append("Load and convert the data once, before the loop, or in another process")
    ways.append("keep what fits into memory as one tensor" if loaded else "use a DataLoader with num_workers")
    remedy = capital("; or ".join(ways) + ".")
    plain = fetched is not None and slow is None and not fetched.makers and not fetched.workers  # nothing of the user's
    matters = each >= BATCH_NS and spent >= max(PLAIN_NS if plain else MATTERS_NS, PART * trace.wall_ns)
    severity = "warning" if matters and not drawn else "note"  # what is drawn anew has to be computed anew
    message += _less(trace, met, spent, fetched, once=remedy_line != "" and not drawn)
    return Found("data-loader", severity, line, col, message, remedy)


def _less(trace: Trace, met: list[tuple[int, Chain]], spent: int, fetched: Fetched | None, once: bool) -> str:
    """What is saved, in a sentence: by doing once what a data set of the user's does for each sample in each pass, to
    all of the wait where what fits into memory is one tensor; by workers that need no start; at most all of the wait
    where that is left to other processes."""
    shares = Shares(trace)
    share = shares.part(spent / shares.ran)
    if fetched is not None and fetched.workers and fetched.passes > 1 and fetched.starts_ns > HALF * fetched.ns:
        return saved(share * fetched.starts_ns / fetched.ns * (1 - 1 / fetched.passes))
    users = sum(ns for ns, places in met if any(_of_users(trace, place) for place in places))
    part = users / max(sum(ns for ns, _ in met), 1)
    passes = 1 if fetched is None else fetched.passes
    if once and passes > 1:  # once for each sample, or, of what is kept as one tensor, next to nothing for any
        whole = fetched is not None and not fetched.workers
        return saved(max(share * part, LOADED * share if whole else 0.0), least=share * part * (1 - 1 / passes))
    if fetched is not None and not fetched.workers and not part:
        return saved(LOADED * share)
    return saved(share, least=0.0)


def _of_users(trace: Trace, frame: Frame) -> bool:
    return frame[0].co_filename in trace.files or is_users(frame[0].co_filename)


def _slowest(trace: Trace, met: list[tuple[int, Chain]]) -> Frame | None:
    """Return the innermost place of the user's, in this cell before others, in which most of the time passes, or the
    slowest line of the function in which it does."""
    lines: dict[tuple[str, int], dict[Frame, int]] = {}
    functions: dict[CodeType, int] = {}
    for ns, places in met:
        within = [p for p in places if p[0].co_filename in trace.files or is_users(p[0].co_filename)]
        place = next((p for p in within if p[0].co_filename in trace.files), next(iter(within), None))
        if place is not None:
            on_line = lines.setdefault(_at(trace, place), {})
            on_line[place] = on_line.get(place, 0) + ns
            functions[place[0]] = functions.get(place[0], 0) + ns
    half = HALF * sum(ns for ns, _ in met)
    longest = max(lines.values(), key=lambda places: sum(places.values()), default={})
    if sum(longest.values()) > half:
        return max(longest, key=lambda place: longest[place])
    # several lines of one function share it: the slowest of them
    code = max(functions, key=lambda code: functions[code], default=None)
    if code is None or functions[code] <= half:
        return None
    own = [places for places in lines.values() if next(iter(places))[0] is code]
    longest = max(own, key=lambda places: sum(places.values()))
    return max(longest, key=lambda place: longest[place])


def _named(frame: Frame) -> str:
    """Return the name of the function that a frame runs in; of a comprehension, of that around it."""
    return frame[0].co_qualname.partition(".<locals>.<")[0].rpartition(".")[2]


def _kept(trace: Trace, slow: Frame) -> str:
    """The remedy for a line of a data set's ``__getitem__`` that draws nothing: its result, kept for each sample."""
    code = slow[0]
    if code.co_name != "__getitem__" or code.co_argcount != 2:
        return ""
    own, index = code.co_varnames[:2]
    if read := _read_whole(trace, code, own):
        return f"Read it once, before the loop: {own}.kept = {read} in __init__, and index {own}.kept in its place"
    nodes = around(trace, slow)
    call = next((n for n in nodes[::-1] if isinstance(n, ast.Call)), None)
    text = ast.unparse(call) if call is not None else ""
    names = names_in(call) if call is not None else set()
    if text and len(text) < 70 and not names & set(code.co_varnames[2:]) and names & {own, index}:
        if index not in names:
            return f"Do it once, before the loop: {own}.kept = {text} in __init__, and {own}.kept in its place"
        each = f"{own}.kept = [{text} for {index} in range(len({own}))]"
        return f"Do it once for each sample, before the loop: {each} in __init__, and {own}.kept[{index}] in its place"
    return (
        "Do its work once for each sample, before the loop: move what __getitem__ does to a method make(i), keep "
        f"{own}.kept = [{own}.make(i) for i in range(len({own}))] in __init__, and return {own}.kept[{index}]"
    )


def _read_whole(trace: Trace, code: CodeType, own: str) -> str:
    """The call by which a function reads a file that is the same for all samples; "" where it reads none."""
    tree = tree_of(trace, code.co_filename)
    line = code.co_firstlineno + trace.files.get(code.co_filename, 0)
    nodes = ast.walk(tree) if tree is not None else ()
    made = next((n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == code.co_name and
                 n.lineno <= line <= last_line(n)), None)  # fmt: skip
    for call in (n for n in ast.walk(made) if isinstance(n, ast.Call)) if made is not None else ():
        text = ast.unparse(call)
        mine = names_in(call) & set(code.co_varnames)
        if READS.search(ast.unparse(call.func) + "(") and mine <= {own} and len(text) < 70:
            return text
    return ""


def _in_makers(trace: Trace, met: list[tuple[int, Chain]], fetched: Fetched) -> Frame | None:
    """Return the slowest line of what makes the samples, where most of the time passes in that: it asks for the work,
    whatever does it."""
    lines: dict[tuple[str, int], dict[Frame, int]] = {}
    for ns, places in met:
        asks = next((p for p in reversed(places) if any(p[0] is code for code in fetched.makers)), None)
        if asks is not None:
            on_line = lines.setdefault(_at(trace, asks), {})
            on_line[asks] = on_line.get(asks, 0) + ns
    if sum(sum(places.values()) for places in lines.values()) <= HALF * sum(ns for ns, _ in met):
        return None
    longest = max(lines.values(), key=lambda places: sum(places.values()))
    return max(longest, key=lambda place: longest[place])


def _draws(trace: Trace, met: list[tuple[int, Chain]], slow: Frame) -> bool:
    """Return whether a line draws random numbers, by itself or in functions of the user's that it calls: its work is
    another one each time."""
    known = {trace.place(*slow).code: None}
    for _, places in met:
        at = next((k for k, p in enumerate(places) if p[0] is slow[0] and _at(trace, p) == _at(trace, slow)), 0)
        known |= dict.fromkeys(name for code, _ in places[:at] for name in code.co_names)
    return any(DRAWS.search(name) for name in known)


def _own_at(trace: Trace, sample: Sample) -> int:
    """Return which of a sample's places is the innermost of this cell."""
    return next((k for k, p in enumerate(sample.places) if p[0].co_filename in trace.files), 0)


def _quoted(trace: Trace, frame: Frame) -> str:
    """Return what runs at a place as it is quoted behind it; nothing where that is long."""
    code = trace.place(*frame).code
    return f" (`{code}`)" if code and len(code) < 60 else ""


def _by_workers(trace: Trace, fetched: Fetched) -> tuple[str, list[str]]:
    """Where other processes load, which nobody looks into: what they run, and what can be done about it."""
    n = fetched.workers
    who, them = ("its worker", "it has") if n == 1 else (f"its {n} workers", "they have")
    made = [code for code in fetched.makers if code.co_filename in trace.files]
    spots = [f"{code.co_name} (line {code.co_firstlineno + trace.files[code.co_filename]})" for code in made]
    does = (
        f"; {who} {'runs' if n == 1 else 'run'} {listed(spots)}"
        if spots
        else f"; {who} {'makes' if n == 1 else 'make'} them"
    )
    ways = []
    if fetched.starts_ns > HALF * fetched.ns:
        does += f", and most of the time passes until {them} started"
        kept = "keep the workers from one pass to the next: persistent_workers=True"
        ways.append(kept if fetched.passes > 1 else "load in this process, which has not to be started: num_workers=0")
    elif (cores := os.cpu_count() or 1) > n:
        ways.append(f"load in more processes: num_workers={min(2 * n, cores)}")
    if spots:
        ways.insert(0, f"make {listed(spots)} faster or do {verb(spots, 'its', 'their')} work once, before the loop")
    return does, ways


def _asked(trace: Trace, sample: Sample, turns: int) -> int:
    """About how many batches came: steps, else backward passes, else the iterations in which it was met."""
    passes = sum(spent[2] for line, spent in trace.lines.items())
    return max(trace.steps.count, min(passes, 10 * turns) if not trace.steps.count else 0, turns)


def _at(trace: Trace, place: tuple[CodeType, int]) -> tuple[str, int]:
    there = trace.place(*place)
    return there.file, there.line


def _header(code: str) -> str:
    """Of a loop that is shown from its first line: that line."""
    return code.removesuffix("…").strip().rstrip(":")


def _text(trace: Trace, line: int) -> str:
    lines = trace.texts()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _slow_line(trace: Trace, lines: dict[int, list[Sample]], total: int, scale: float) -> list[Found]:
    """A line of Python, and no op, in which most of a loop's time passes."""
    if not lines:
        return []
    line, samples = max(lines.items(), key=lambda pair: sum(s.ns for s in pair[1]))
    spent = sum(s.ns for s in samples)
    turns = sum(s.beats for s in samples)
    if spent * scale < LEAST_NS or spent < HALF * total or turns < TURNS or spent * scale / turns < SMALL_NS:
        return []
    caller = max(samples, key=lambda s: s.ns)
    own = _own_at(trace, caller)
    called = [p for p in caller.places if p[0].co_filename in trace.files][1:2]
    who = f", called on {spot(trace, called[0])}" if called and called[0][0] is not caller.places[own][0] else ""
    slow = _slowest(trace, [(s.ns, s.places[: _own_at(trace, s)]) for s in samples])
    most = f"; most of that in {slow[0].co_name}, {spot(trace, slow)}{_quoted(trace, slow)}" if slow else ""
    message = (
        f"Line {line} (`{_text(trace, line)}`{who}) takes about {_share(spent, total)} of this cell's time and "
        f"runs no op: the training step waits for it ({time_text(spent / 1e6)} in all{most})."
    )
    message += saved((1 - 1 / turns) * spent / total)
    remedy = "Do its work once, before the loop, or in a DataLoader with num_workers, which works while the step runs."
    if slow and known_at(trace, (slow,), "") is DEQUE:
        message += f" It {DEQUE.does}."
        remedy = DEQUE.remedy
    return [Found("data-loader", "note", line, None, message, remedy)]


# -- values of a GPU ---------------------------------------------------------------------------------------------------


@rule(850)
def asked(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """`.item()`, `.tolist()`, `.numpy()`, a condition or print() of a GPU's tensor in a loop: Python waits for it."""
    total = trace.wall_ns - trace.own_ns
    by_line: dict[int, list[Row]] = {}
    for row in trace.rows:
        if row.cut in ASKING and row.device not in ("", "cpu"):
            line = row.line
            if line is not None:
                by_line.setdefault(line, []).append(row)
        elif row in trace.copies and trace.copies[row].to == "cpu":
            line = row.line
            if line is not None:
                row.waited_ns = max(row.waited_ns, trace.copies[row].ns)
                by_line.setdefault(line, []).append(row)
    if not by_line:
        return []
    no_queue = interpreted()
    line, rows = max(by_line.items(), key=lambda pair: (sum(r.waited_ns for r in pair[1]), len(pair[1])))
    if no_queue:
        line, rows = max(by_line.items(), key=lambda pair: sum(r.count for r in pair[1]))
    count, waited = sum(r.count for r in rows), sum(r.waited_ns for r in rows)
    share = waited / total if total > 0 else 0.0
    if count < FEW or (share < SHARE and not no_queue):
        return []
    row = max(rows, key=lambda r: (r.waited_ns, r.count))
    _, col, place = where(trace, row.chain)
    often = count >= 4 * max(trace.steps.count, 1) and share > 0.3
    cost = f"{time_text(waited / count / 1e6)} each, {100 * share:.0f} % of this cell's time"
    if no_queue:
        cost = "no wait can be measured under Triton's interpreter, where there is no queue"
    device = row.device if row.device != "cpu" else "the GPU"
    message = capital(
        f"{place} asks {device} for values in a loop: `{code_of(trace, row)}` ran {count:,} times, and each time "
        f"Python waits until the GPU has done all that was queued ({cost})."
    )
    remedy = (
        "Gather .detach() in a list, which stays on the device, and take the values once after the loop, or every "
        "50 steps."
    )
    return [Found("wait", "warning" if often else "note", line, col, message, remedy, [row])]


def interpreted() -> bool:
    """Whether the device `cuda` is Triton's interpreter, which computes at once and on the CPU."""
    try:
        return cuda.array_library() is np
    except Exception:  # neither a GPU nor the interpreter: another library's device
        return False


# -- copies ------------------------------------------------------------------------------------------------------------


@rule(830)
def copied(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """The same values copied to another device again and again, or there and back within one graph."""
    total = trace.wall_ns - trace.own_ns
    found = []
    for row, c in sorted(trace.copies.items(), key=lambda pair: -pair[1].size):
        if c.same < TURNS:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} copies the same values to {c.to} again and again: `{code_of(trace, row)}` ran {c.count:,} times, "
            f"{size_text(c.size)} in all, though the tensor{_called(row)} did not change."
        )
        severity = "warning" if c.size >= BIG and total > 0 and c.ns > SHARE * total else "note"
        remedy = "Copy it once, before the loop, and go on with the copy."
        found.append(Found("copy", severity, line, col, message, remedy, [row]))
    return found[:1] or _back(trace, total)


def _called(row: Row) -> str:
    ref = row.refs[0] if row.refs else None
    named = isinstance(ref, Leaf) and ref.name and not ref.name.startswith("unnamed")
    return f" {ref.name}" if named else ""  # type: ignore[union-attr]


def _back(trace: Trace, total: int) -> list[Found]:
    """Values that go to the CPU and come back to the device they were on."""
    for row, c in trace.copies.items():
        if c.to == "cpu" or c.count < TURNS:
            continue
        before: dict[Ref, None] = ancestors([row])
        out = [r for r in before if isinstance(r, Row) and r in trace.copies and trace.copies[r].to == "cpu"]
        if not out:
            continue
        first = max(out, key=lambda r: r.number)
        line, col, place = where(trace, first.chain)
        there = where(trace, row.chain)[2]
        size = c.size + trace.copies[first].size
        message = capital(
            f"{place} takes values off the GPU (`{code_of(trace, first)}`) and {there} brings them back "
            f"(`{code_of(trace, row)}`), {c.count:,} times, {size_text(size)} in all: each way Python waits for the "
            "GPU."
        )
        spent = c.ns + trace.copies[first].ns
        severity = "warning" if total > 0 and spent > 0.3 * total and size >= BIG else "note"
        return [Found("copy", severity, line, col, message, "Stay on the device between the two.", [first, row])]
    return []
