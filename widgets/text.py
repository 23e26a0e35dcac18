"""The card's answer as plain text: the findings first, then the lines, the gradients and the kernels."""

from . import run_card
from .difference import NOTHING
from .figures import count_text, number, plain, rate_text, shape_text, share, shorten, size_text, time_text
from .record import Record, kernel_names
from .source import lines_of
from .still import NO_GRADIENT, STOPPED, WORDS, error_sentence, headline, sentence, shown, word

FINDINGS = 8
LINES = 12
MEMORY_BYTES = 1_000_000
GRADIENTS = 16
KERNELS = 8
WIDTH = 100
LONGEST = 1000
"""Characters of a sentence: names in it may have ten thousand."""


def text(record: Record) -> str:
    """Write a record as at most about 60 lines of text.

    Examples
    --------
    >>> from widgets.record import LineRow, Record
    >>> lines = [LineRow(1, 0.25, 0, 3)]
    >>> print(text(Record(title="In [2]", source="y = x.exp()", forward_ms=0.25, wall_ms=0.5, lines=lines)))
    In [2]: 0 ops · forward 250 µs · backward 0 ms · update 0 ms · other 250 µs · wall 500 µs · cpu
    No operation ran in this cell.
    <BLANKLINE>
    line  runs  forward  backward  source
       1     3   250 µs      0 ms  y = x.exp()
    """
    out = [plain(f"{record.title or 'autograd'}: {headline(record)}", LONGEST).rstrip(), *findings(record)]
    compared = record.comparison
    if compared is not None and compared.changes:
        changes = count_text(len(compared.changes), "change")
        beside = shorten(plain(compared.before), 30) or "the last run"
        out.append(f"{changes} beside {beside}: print(lab.last().comparison)")
    elif compared is not None:
        out.append(f"{NOTHING} {compared.note}".rstrip())
    run = [] if record.course is None else run_card.text(record.course)
    for part in (run, _lines(record), _memory(record), _gradients(record), _kernels(record)):
        if part:
            out += ["", *part]
    return "\n".join(line.rstrip() for line in out)


def findings(record: Record) -> list[str]:
    """Return what is wrong, the gravest first: a line for each, and below it the remedy."""
    out = []
    message, remedy = error_sentence(record)
    if message:
        out += [f"{WORDS['error']}: {plain(message, LONGEST)}", f"    {remedy}"]
    if record.stopped:
        out += [f"{WORDS['note']}: {plain(record.stopped, LONGEST)}", f"    {STOPPED}"]
    for f in shown(record)[:FINDINGS]:
        out.append(f"{word(f)}: {plain(sentence(f), LONGEST)}")
        if f.remedy:
            out.append(f"    {plain(f.remedy, LONGEST)}")
        if f.tried:
            out.append(f"    {plain(f.tried, LONGEST)}")
        out += [f"        {plain(line, LONGEST)}" for line in f.patch.splitlines()]
    if len(record.findings) > FINDINGS:
        out.append(f"... and {count_text(len(record.findings) - FINDINGS, 'more finding')}")
    if record.checked:
        out.append(plain(record.checked))
    return out or ["No problems found." if record.ops or record.backward_ms else "No operation ran in this cell."]


def _columns(heads: list[str], rows: list[list[str]], left: set[int]) -> list[str]:
    """Aligned columns; those in `left` are text and the others figures."""
    widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
    return [
        "  ".join(
            c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, *rows]
    ]


def _more(out: list[str], total: int, limit: int, noun: str) -> list[str]:
    return [*out, f"... and {count_text(total - limit, 'more ' + noun)}"] if total > limit else out


def _lines(record: Record) -> list[str]:
    if not record.lines:
        return []
    source = lines_of(record.source)
    whole = sum(row.total_ms for row in record.lines)
    slowest = sorted(record.lines, key=lambda row: (-row.total_ms, -(row.forward_ms + row.backward_ms)))[:LINES]
    rows = []
    for row in sorted(slowest, key=lambda row: row.line):
        code = plain(source[row.line - 1].strip()) if 0 < row.line <= len(source) else ""
        times = [time_text(row.forward_ms), time_text(row.backward_ms)]
        all_of_it = [time_text(row.total_ms), share(row.total_ms / whole)] if whole else []
        rows.append([str(row.line), *all_of_it, f"{row.count:,}", *times, shorten(code, 60)])
    heads = ["line", *(["time", "share"] if whole else []), "runs", "forward", "backward", "source"]
    out = _columns(heads, rows, {len(heads) - 1})
    return _more(out, len(record.lines), LINES, "line")


def _memory(record: Record) -> list[str]:
    """Return the peak, where it is worth a word, and who kept most of it."""
    memory = record.memory
    if memory is None or memory.peak_bytes < MEMORY_BYTES:
        return []
    where = f" on line {memory.peak_line}" if memory.peak_line else ""
    by = f" ({shorten(plain(memory.peak_op), 30)})" if memory.peak_op else ""
    out = [f"memory: at most {size_text(memory.peak_bytes)} of results{where}{by}"]
    most = max(memory.held, key=lambda h: h.size_bytes, default=None)
    if most is not None:
        keeper = f" by line {most.keeper}" if most.keeper else ""
        why = shorten(plain(most.why), 60)
        out.append(
            f"    the largest part: {shorten(plain(most.op), 30)}, {size_text(most.size_bytes)}, kept{keeper}: {why}"
        )
    return out


def _gradients(record: Record) -> list[str]:
    """Those that bear a flag come first: they must not be the ones that are left out."""
    if not record.gradients:
        return []
    chosen = sorted(record.gradients, key=lambda g: not (g.flags or g.norm is None))[:GRADIENTS]
    rows = []
    for g in chosen:
        note = NO_GRADIENT if g.norm is None else ", ".join(map(plain, g.flags))
        figures = [number(g.norm), number(g.rms), share(g.zeros), number(g.update_ratio)]
        rows.append([shorten(plain(g.name), 40, keep_end=True), shape_text(g.shape), *figures, note])
    out = _columns(["parameter", "shape", "norm", "rms", "zeros", "update/weight", "note"], rows, {0, 1, 6})
    return _more(out, len(record.gradients), GRADIENTS, "parameter")


def _kernels(record: Record) -> list[str]:
    if not record.kernels:
        return []
    rows = []
    names = kernel_names(record.kernels)
    for k, kernel in sorted(zip(record.kernels, names, strict=True), key=lambda pair: -pair[0].total_ms)[:KERNELS]:
        rates = [rate_text(k.bytes_per_s), rate_text(k.flops_per_s)]
        name = shorten(plain(kernel), 40)
        rows.append([name, plain(k.backend), f"{k.count:,}", time_text(k.total_ms), time_text(k.mean_us / 1e3), *rates])
    out = _columns(["kernel", "backend", "runs", "total", "mean", "GB/s", "GFLOP/s"], rows, {0, 1})
    return _more(out, len(record.kernels), KERNELS, "kernel")
