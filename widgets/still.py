"""The still card: what remains where scripts are stripped (an untrusted notebook, GitHub, a mail).

JupyterLab's sanitizer keeps tables, `<details>`, inline styles and images from `data:` and drops the rest, so that is
all that is used here. The colours are legible on white and on black, since no theme reaches this far.
"""

import base64
import html as html_module
import re
from collections.abc import Iterable
from dataclasses import replace

from .figures import count_text, number, rate_text, shape_text, share, shorten, size_text, time_text
from .graph import Graph
from .picture import png
from .record import ErrorRow, Finding, Record, kernel_names
from .source import lines_of

GRADIENT_ROWS = 100
LINE_ROWS = 40
KERNEL_ROWS = 25
LONGEST = 1000  # characters of a sentence
CODE = 120  # of a line
NAME = 60  # and of a name
NBSP = "\u00a0"
WORDS = {"error": "✕ Error", "warning": "▲ Warning", "note": "● Note"}
READS = "● Worth a look"  # a note that reads like a mistake, which nothing recorded confirms
TONES = {"error": "#d32f2f", "warning": "#c77700", "note": "#1976d2"}
NO_GRADIENT = "no gradient: backward did not reach it"
STOPPED = "What follows is of what ran until then."
PARTIAL = "The cell stopped here, so this card is partial: it shows what ran before."


def still(record: Record, graph: Graph, run: str = "") -> str:
    """Return the findings, the picture of the graph and the tables, without any script or style sheet; `run` is what
    remains of the course of a loop."""
    image = png(record, graph)
    title, figures = _name(record.title or "autograd", CODE), escape(shorten(headline(record), LONGEST))
    parts = [f"<p><b>{title}</b> &nbsp; {figures}</p>", _findings(record)]
    if image:
        alt = escape(f"graph of the cell: {count_text(len(record.ops), 'op')}")
        code = base64.b64encode(image).decode("ascii")
        parts.append(f'<p><img alt="{alt}" src="data:image/png;base64,{code}" style="max-width:100%"></p>')
    parts += [run, _gradients(record), _lines(record), _memory(record), _kernels(record)]
    return f'<div class="gradlab-still">{"".join(parts)}</div>'


def escape(text: str) -> str:
    """Text for HTML; what UTF-8 cannot hold becomes a question mark, marks that turn the writing round are shown.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html_module.escape(_STRANGE.sub("\ufffd", str(text)).encode("utf-8", "replace").decode("utf-8"), quote=True)


_STRANGE = re.compile("[\x00\u202a-\u202e\u2066-\u2069]")


def headline(record: Record) -> str:
    """Return the figures of the cell in one line.

    Examples
    --------
    >>> from widgets.record import Record
    >>> headline(Record(forward_ms=1.5, backward_ms=3, wall_ms=6))
    '0 ops · forward 1.50 ms · backward 3.00 ms · update 0 ms · other 1.50 ms · wall 6.00 ms · cpu'
    """
    times = {"forward": record.forward_ms, "backward": record.backward_ms, "update": record.update_ms}
    if record.recording_ms:
        times["recording"] = record.recording_ms
    if record.other_ms is not None:
        times["other"] = record.other_ms  # with the parts before it, it makes up the whole
    if record.wall_ms:
        times["wall"] = record.wall_ms
    figures = [f"{name} {time_text(ms)}" for name, ms in times.items()]
    return " · ".join([count_text(len(record.ops), "op"), *figures, record.device])


def error_sentence(record: Record) -> tuple[str, str]:
    """Return what ended the cell, and what that means for the card; empty when nothing did, or when a finding
    explains it."""
    if record.error is None or explained(record):
        return "", ""
    where = f"line {record.error.line}: " if record.error.line else ""
    said = error_message(record)
    message = f": {said}" if said else ""
    return f"{where}{record.error.type}{message}", PARTIAL


def explained(record: Record) -> bool:
    """Return whether the first finding is the reason of the error that ended the cell."""
    return record.error is not None and bool(record.findings) and _reason(record.findings[0], record.error)


def _reason(finding: Finding, error: ErrorRow) -> bool:
    if finding.kind == "error" and finding.line == error.line:
        return True  # else it may name the line that fails because of its own
    caused = rf"so line {error.line} fails\b|backward\(\) on line {error.line} has nothing to do\b"
    return re.search(caused, finding.message) is not None


def shown(record: Record) -> list[Finding]:
    """Return the findings as they are shown: the one that explains the cell's error also says that the card is partial.

    Examples
    --------
    >>> from widgets.record import ErrorRow, Finding, Record
    >>> found = Finding("error", "error", 5, message="Line 5 fails in `SGD`: got an empty list.", remedy="Fill it.")
    >>> shown(Record(error=ErrorRow("ValueError", "got an empty list", 5), findings=[found]))[0].remedy
    'Fill it. The cell stopped here (ValueError), so this card is partial: it shows what ran before.'
    """
    if record.error is None or not explained(record):
        return record.findings
    first, *rest = record.findings
    kind = record.error.type
    partial = PARTIAL if kind in first.message else PARTIAL.replace("here", f"here ({kind})", 1)
    return [replace(first, remedy=f"{first.remedy} {partial}".strip()), *rest]


def error_message(record: Record) -> str:
    """Return the text of the exception that ended the cell, "" where a finding says it already.

    Examples
    --------
    >>> from widgets.record import ErrorRow, Finding, Record
    >>> record = Record(error=ErrorRow("ValueError", "got an empty list", 5))
    >>> error_message(record)
    'got an empty list'
    >>> record.findings.append(Finding("error", "error", 5, message="Line 5 fails in `SGD`: got an empty list."))
    >>> error_message(record)
    ''
    """
    text = record.error.message if record.error is not None else ""
    bare = text.strip().rstrip(".")
    return "" if bare and any(bare in f.message for f in record.findings) else text


def word(finding: Finding) -> str:
    """Return how grave a finding is, as a sign and a word."""
    return READS if finding.reads else WORDS.get(finding.severity, WORDS["note"])


def sentence(finding: Finding) -> str:
    """Return what a finding says, with its line in front when the sentence does not name it.

    Examples
    --------
    >>> from widgets.record import Finding
    >>> sentence(Finding("cut", "error", 3, message="Line 3 cuts the graph.")), sentence(Finding("nan", "error", 3))
    ('Line 3 cuts the graph.', 'line 3: ')
    """
    named = finding.line is None or re.search(rf"\bline {finding.line}\b", finding.message, re.IGNORECASE)
    return finding.message if named else f"line {finding.line}: {finding.message}"


def _prose(text: str) -> str:
    """Escaped text in which what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(shorten(text, LONGEST)))


def _trial(finding: Finding) -> str:
    """What came of trying a remedy, and the changed lines."""
    said = f"<br><small><b>{_prose(finding.tried)}</b></small>" if finding.tried else ""
    lines = "<br>".join(escape(shorten(line, LONGEST)) for line in finding.patch.splitlines())
    return said + (f'<br><small style="white-space:pre-wrap;font-family:monospace">{lines}</small>' if lines else "")


def _findings(record: Record) -> str:
    rows = []
    message, remedy = error_sentence(record)
    if message:
        rows.append(("error", WORDS["error"], message, remedy, ""))
    if record.stopped:
        rows.append(("note", WORDS["note"], record.stopped, STOPPED, ""))
    for f in shown(record):
        rows.append((f.severity if f.severity in WORDS else "note", word(f), sentence(f), f.remedy, _trial(f)))
    checked = f"<p>{_prose(record.checked)}</p>" if record.checked else ""
    if not rows and not checked:
        return (
            "<p>✓ No problems found.</p>"
            if record.ops or record.backward_ms
            else "<p>No operation ran in this cell.</p>"
        )
    said = "".join(
        f'<p style="border-left:3px solid {TONES[severity]};padding-left:10px;margin:6px 0">'
        f"<b>{name}</b> &nbsp; {_prose(message)}"
        f"{f'<br><small>{_prose(remedy)}</small>' if remedy else ''}{trial}</p>"
        for severity, name, message, remedy, trial in rows
    )
    return said + checked


def _table(title: str, heads: list[str], rows: Iterable[list[str]], total: int, limit: int, words: set[int]) -> str:
    """Return a closed table whose columns `words` are text, and the others figures."""
    left = ' style="text-align:left"'
    head = "".join(f"<th{left if k in words else ''}>{name}</th>" for k, name in enumerate(heads))
    body = "".join(
        f"<tr>{''.join(f'<td{left}>{c}</td>' if k in words else f'<td>{c}</td>' for k, c in enumerate(row))}</tr>"
        for row in rows
    )
    more = f"<p>… and {total - limit:,} more</p>" if total > limit else ""
    return (
        f"<details><summary>{title}</summary><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
        "</details>"
    )


def _name(text: str, limit: int = NAME) -> str:
    return escape(shorten(text, limit))


def _whole(figure: str) -> str:
    """Return a figure whose unit stays with it."""
    return figure.replace(" ", NBSP)


def _gradients(record: Record) -> str:
    rows = []
    for g in record.gradients[:GRADIENT_ROWS]:
        figures = [
            number(g.norm),
            number(g.rms),
            number(g.mean),
            number(g.std),
            _whole(share(g.zeros)),
            number(g.update_ratio),
        ]
        note = NO_GRADIENT if g.norm is None else ", ".join(g.flags)
        rows.append([_name(g.name), shape_text(g.shape), *figures, _name(note)])
    heads = ["parameter", "shape", "norm", "rms", "mean", "std", "zeros", "update/weight", "note"]
    return _table(f"Gradients ({len(record.gradients)})", heads, rows, len(record.gradients), GRADIENT_ROWS, {0, 1, 8})


def _lines(record: Record) -> str:
    source = lines_of(record.source)
    rows = []
    for row in record.lines[:LINE_ROWS]:
        code = source[row.line - 1] if 0 < row.line <= len(source) else ""
        parts = row.forward_ms, row.backward_ms, row.other_ms
        times = [time_text(ms) for ms in (*parts, sum(parts))]
        rows.append([str(row.line), f"{row.count:,}", *map(_whole, times), f"<code>{_name(code, CODE)}</code>"])
    heads = ["line", "runs", "forward", "backward", "other", "sum", "source"]
    return _table("Time by line", heads, rows, len(record.lines), LINE_ROWS, {6})


def _memory(record: Record) -> str:
    if record.memory is None:
        return ""
    rows = []
    for row in record.memory.rows[:LINE_ROWS]:
        sizes = (row.made_bytes, row.peak_bytes, row.held_bytes, row.kept_bytes)
        rows.append([str(row.line or "elsewhere"), *(_whole(size_text(size)) for size in sizes), f"{row.count:,}"])
    heads = ["line", "made", "alive at the peak", "kept at the peak", "alive at the end", "arrays"]
    title = f"Memory by line, {size_text(record.memory.peak_bytes)} at most"
    return _table(title, heads, rows, len(record.memory.rows), LINE_ROWS, set())


def _kernels(record: Record) -> str:
    rows = []
    names = kernel_names(record.kernels)
    for k, kernel in sorted(zip(record.kernels, names, strict=True), key=lambda pair: -pair[0].total_ms)[:KERNEL_ROWS]:
        rates = [rate_text(k.bytes_per_s), rate_text(k.flops_per_s)]
        figures = [f"{k.count:,}", _whole(time_text(k.total_ms)), _whole(time_text(k.mean_us / 1e3)), *rates]
        rows.append([_name(kernel), _name(k.backend), *figures])
    heads = ["kernel", "backend", "runs", "total", "mean", "GB/s", "GFLOP/s"]
    return _table("Time by kernel", heads, rows, len(record.kernels), KERNEL_ROWS, {0, 1})
