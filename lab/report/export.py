"""A record as a file: the card as a page, the rows as JSON, the findings as text, the timeline for Perfetto."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import widgets
from widgets.record import Record
from widgets.still import escape

FORMS = (".html", ".json", ".txt")
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>:root {{ color-scheme: light dark }} body {{ margin: 16px; font: 13px/1.45 system-ui, sans-serif }}
h1 {{ font-size: 17px; margin: 4px 0 0; overflow-wrap: anywhere }} p {{ margin: 2px 0 12px }}
@media (prefers-color-scheme: dark) {{ :root {{ --jp-layout-color1: #16181c; --jp-content-font-color1: #e6e8eb;
--jp-content-font-color2: #a3a9b2; --jp-border-color2: #3a3f47; --jp-brand-color1: #64a8f0;
--jp-error-color1: #f0645a; --jp-warn-color1: #f5a742 }}
body {{ background: #16181c; color: #e6e8eb }} }}</style></head>
<body><main><h1>{title}</h1><p>{about}</p>{card}</main></body>
</html>
"""


def page(record: Record) -> str:
    """Return the card as a whole HTML page, which asks nothing of the network.

    >>> page(Record(title="a <b>"))[:15], "<title>a &lt;b&gt;</title>" in page(Record(title="a <b>"))
    ('<!doctype html>', True)
    """
    about = [f"{name} {value}" for name, value in record.environment.items()]
    return PAGE.format(
        title=escape(record.title or "autograd"), about=escape(" · ".join(about)), card=widgets.html(record)
    )


def save(record: Record, path: str | os.PathLike[str]) -> None:
    """Write a record to a file: `.html` the card, `.json` what `Record.from_json` reads, `.txt` the text.

    *Raises*: ValueError for another suffix, FileNotFoundError for a folder that is not there.
    """
    target = Path(path)
    if target.suffix not in FORMS:
        raise ValueError(
            f"save: got {target.name!r}, needs a name that ends in {', '.join(FORMS)}; remedy: report.html for the card"
        )
    if not target.parent.is_dir():
        what = "is no folder" if target.parent.exists() else "does not exist"
        raise FileNotFoundError(
            f"save: got {os.fspath(path)!r}, but the folder {str(target.parent)!r} {what}; needs one that is there; "
            f"remedy: Path({str(target.parent)!r}).mkdir(parents=True), or another name"
        )
    make = {".html": page, ".json": Record.to_json, ".txt": widgets.text}[target.suffix]
    target.write_text(make(record), encoding="utf-8", errors="replace")


def to_chrome_trace(record: Record, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Return the timeline in Chrome's trace format, which Perfetto opens; also written to `path` where one is given.

    Times are in microseconds; forward, backward and update are threads of one process, bytes alive a counter.

    *Source*: the Trace Event Format. The file holds the runs that the record kept (the first 20,000), and says
    how many came later.

    >>> from widgets.record import OpRow, Run
    >>> made = to_chrome_trace(Record(ops=[OpRow(0, "tanh", line=3)], runs=[Run(0, 0.5, 0.25)]))
    >>> event = made["traceEvents"][-1]
    >>> event["name"], event["ph"], event["ts"], event["dur"], event["args"]["line"]
    ('tanh', 'X', 500.0, 250.0, 3)
    """
    ops = {op.id: op for op in record.ops}
    lanes = {"forward": 1, "backward": 2, "update": 3}
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": record.title or "autograd"}},
        *({"name": "thread_name", "ph": "M", "pid": 1, "tid": n, "args": {"name": lane}} for lane, n in lanes.items()),
    ]
    if record.memory is not None:
        for time, alive in zip(record.memory.times_ms, record.memory.bytes, strict=True):
            events.append({"name": "bytes alive", "ph": "C", "pid": 1, "ts": 1e3 * time, "args": {"bytes": alive}})
    for run in record.runs:
        op = ops[run.op]
        about = {"line": op.line, "file": op.file, "code": op.code, "module": op.module, "kernel": op.kernel,
                 "shape": op.shape, "dtype": op.dtype}  # fmt: skip
        events.append({"name": op.op, "cat": run.phase, "ph": "X", "pid": 1, "tid": lanes.get(run.phase, 1),
                       "ts": 1e3 * run.start_ms, "dur": 1e3 * run.ms,
                       "args": {k: v for k, v in about.items() if v not in ("", None, [])}})  # fmt: skip
    trace: dict[str, Any] = {"traceEvents": events, "displayTimeUnit": "ms"}
    if record.runs_left:
        said = f"the timeline ends here: {record.runs_left:,} later runs of the cell were not kept"
        trace["otherData"] = {"left out": said}
        end = max((1e3 * (run.start_ms + run.ms) for run in record.runs), default=0.0)
        events.append({"name": said, "ph": "i", "s": "g", "pid": 1, "tid": 1, "ts": end})
    if path is not None:
        Path(path).write_text(json.dumps(trace), encoding="utf-8")
    return trace
