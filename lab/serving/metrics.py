"""Counters and histograms as the text that Prometheus reads.

Source: "Exposition formats", https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Labels = tuple[tuple[str, str], ...]


def labelled(name: str, labels: Labels) -> str:
    """Return a metric's name with its labels.

    >>> labelled("requests", (("model", 'a"b'),))
    'requests{model="a\\\\"b"}'
    """
    escaped = ((key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, value in labels)
    inside = ",".join(f'{key}="{value}"' for key, value in escaped)
    return f"{name}{{{inside}}}" if inside else name


class Histogram:
    """How many values were at most each bound, their sum and their count."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: Labels) -> list[str]:
        """Return its lines.

        >>> h = Histogram((1, 2))
        >>> for value in (1, 1.5, 9):
        ...     h.add(value)
        >>> h.lines("rows", ())
        ['rows_bucket{le="1"} 1', 'rows_bucket{le="2"} 2', 'rows_bucket{le="+Inf"} 3', 'rows_sum 11.5', 'rows_count 3']
        """
        out, total = [], 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            out.append(f"{labelled(name + '_bucket', (*labels, ('le', str(bound))))} {total}")
        return [*out, f"{labelled(name + '_sum', labels)} {self.sum}", f"{labelled(name + '_count', labels)} {total}"]


class Metrics:
    """What the server counts, by model."""

    def __init__(self, models: Sequence[str], queue_length: Callable[[str], int]) -> None:
        self.models, self.queue_length = tuple(models), queue_length
        self.requests = dict.fromkeys(models, 0)
        self.errors: dict[tuple[str, str], int] = {}
        self.seconds = {model: Histogram(SECONDS) for model in models}
        self.rows = {model: Histogram(ROWS) for model in models}

    def answered(self, model: str, seconds: float) -> None:
        """Count a request that was answered with tensors."""
        self.requests[model] += 1
        self.seconds[model].add(seconds)

    def refused(self, model: str, reason: str) -> None:
        """Count a request that was answered with an error; `model` is empty where there is none of that name."""
        key = (model if model in self.requests else "", reason)
        self.errors[key] = self.errors.get(key, 0) + 1

    def ran(self, model: str, rows: int) -> None:
        """Count a run of the program."""
        self.rows[model].add(rows)

    def text(self) -> str:
        """Return everything."""
        out: list[str] = []

        def metric(name: str, kind: str, what: str, lines: list[str]) -> None:
            out.extend([f"# HELP {name} {what}", f"# TYPE {name} {kind}", *lines])

        of = {model: (("model", model),) for model in self.models}
        metric("gradlab_requests_total", "counter", "Requests answered with tensors.",
               [f"{labelled('gradlab_requests_total', of[m])} {n}" for m, n in self.requests.items()])  # fmt: skip
        metric("gradlab_errors_total", "counter", "Requests answered with an error, by its reason.",
               [f"{labelled('gradlab_errors_total', (('model', m), ('reason', r)))} {n}"
                for (m, r), n in self.errors.items()])  # fmt: skip
        for name, histograms, what in (
            ("gradlab_request_seconds", self.seconds, "From a request's head to its answer."),
            ("gradlab_batch_rows", self.rows, "Rows that one run of the program took."),
        ):
            metric(name, "histogram", what, [line for m, h in histograms.items() for line in h.lines(name, of[m])])
        metric("gradlab_queue_length", "gauge", "Requests that wait for a run.",
               [f"{labelled('gradlab_queue_length', of[m])} {self.queue_length(m)}" for m in self.models])  # fmt: skip
        return "\n".join(out) + "\n"
