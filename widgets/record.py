"""The record of one cell: plain, JSON-able rows that a recorder fills and the card draws.

All times are milliseconds, all ids integers that are unique within one record and one kind. An op names what it read by
`"o12"` (the output of op 12) or `"t3"` (leaf tensor 3). The JSON bears the format's version, so that a record saved
today says clearly when tomorrow's code cannot read it.
"""

import json
import types
from collections import Counter
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from .compiled_functions import CompiledFunction
from .run_curves import RunCurves

VERSION = 1
"""Version of the JSON format; raised when a field changes its meaning or goes away."""

HISTOGRAM_BINS = 64
HISTOGRAM_LOW = -40
HISTOGRAM_HIGH = 24


@dataclass
class Stats:
    """Figures of one tensor's values, reduced where the tensor lives."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    zeros: float = 0.0
    """Share of exact zeros, 0 to 1."""
    nonfinite: int = 0
    """Count of NaN and infinite elements."""


@dataclass
class OpRow:
    """One operation of the graph; what a loop repeats at the same place on the same inputs is folded into one row."""

    id: int
    op: str
    count: int = 1
    line: int | None = None
    col: int | None = None
    end_line: int | None = None
    end_col: int | None = None
    file: str = ""
    """Empty for this cell, else "In [3]" or a path."""
    code: str = ""
    """The expression that called it."""
    module: str = ""
    """Dotted path of the module it ran in, such as "model.0"; empty at the cell's top level."""
    kernel: str = ""
    backend: str = ""
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    inputs: list[str] = field(default_factory=list)
    """"o12" is the output of op 12, "t3" is leaf tensor 3."""
    forward_ms: float = 0.0
    """Total over `count` runs."""
    backward_ms: float = 0.0
    forward_max_ms: float = 0.0
    """The slowest single run."""
    size_bytes: int = 0
    requires_grad: bool = False
    stats: Stats | None = None
    flags: list[str] = field(default_factory=list)
    """Of "cut", "nan", "error", "unreached"."""
    calls: list[list[int]] = field(default_factory=list)
    """The places of this cell that led here, outermost first: line, column, end line, end column, how many parts of
    `module` had been entered there, and how many with the module that was called next. Empty where `line` says it."""
    via: list[int] = field(default_factory=list)
    """Where it lies in `Record.pages`, innermost first: page, line, page, line, ..."""
    site: int = 0
    """Rows of one number are the same op at the same place on other inputs, as a loop makes them; 0: there is one.
    Negative where making a layer runs it, which may do so several times."""


@dataclass
class TensorRow:
    """A leaf of the graph: a parameter, an input or a constant."""

    id: int
    name: str
    kind: str = "constant"
    """"parameter", "input" or "constant"."""
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    requires_grad: bool = False


@dataclass
class LineRow:
    """Time spent on behalf of one line of this cell; an optimizer's update counts as forward of its line."""

    line: int
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    """The gradients of its ops, wherever backward() was called."""
    count: int = 0
    total_ms: float = 0.0
    """How long the cell was on this line, whatever it did there: all lines are its time. 0 where nobody looked."""
    other_ms: float = 0.0
    """Of that, what was neither an op, a step nor a backward pass: Python, data, waiting."""


@dataclass
class Page:
    """A function of another cell or file that this cell called: its text, and the time below each of its lines."""

    name: str
    file: str = ""
    """As "In [3]" or "model.py"."""
    first: int = 1
    """The number of its first line in that file."""
    text: str = ""
    lines: list[LineRow] = field(default_factory=list)


@dataclass
class GradientRow:
    """One parameter's gradient; the figures are None when there is no gradient."""

    name: str
    module: str = ""
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    norm: float | None = None
    rms: float | None = None
    mean: float | None = None
    std: float | None = None
    max_abs: float | None = None
    zeros: float | None = None
    """Share of exact zeros, 0 to 1."""
    nonfinite: int = 0
    weight_rms: float | None = None
    update_ratio: float | None = None
    """|update| / |weight| when an optimizer ran."""
    histogram: list[int] = field(default_factory=list)
    """64 counts of log2|g| from -40 to +24; the outer bins take what lies beyond."""
    count: int = 0
    """How often it was accumulated."""
    flags: list[str] = field(default_factory=list)
    """Of "none", "vanishing", "exploding", "zero", "nan", "infinite"."""


@dataclass
class KernelRow:
    """All launches of one kernel on behalf of one op."""

    kernel: str
    backend: str = ""
    op: str = ""
    count: int = 0
    total_ms: float = 0.0
    mean_us: float = 0.0
    bytes_per_s: float | None = None
    """What it was given and gave, each counted once; of a gradient's kernel without what was saved."""
    flops_per_s: float | None = None
    inputs: list[str] = field(default_factory=list)
    """Shape and dtype of what it was given when it first ran."""
    dtype: str = ""
    device: str = ""
    config: str = ""
    """What it was launched with, as "BLOCK=1024, num_warps=4" or "2 threads"."""
    declined: list[str] = field(default_factory=list)
    """The kernels that stand before it, each with its reason: "gemm (BLAS): takes float32 and float64, got int64"."""
    tune: str = ""
    """The command that opens the tuner on it, or nothing."""


@dataclass
class Machine:
    """What the machine was measured to do at most."""

    name: str = ""
    device: str = "cpu"
    threads: int = 0
    bytes_per_s: float = 0.0
    """Of a copy: what was read and what was written."""
    flops_per_s: dict[str, float] = field(default_factory=dict)
    """Of a matrix product, by dtype."""


def kernel_names(kernels: list[KernelRow]) -> list[str]:
    """Return what each row is called: its kernel, with the op where several ops run the same one.

    Examples
    --------
    >>> kernel_names([KernelRow("gemm", op="linear"), KernelRow("exp_f32", op="exp"), KernelRow("gemm", op="matmul")])
    ['gemm (linear)', 'exp_f32', 'gemm (matmul)']
    """
    met = Counter(k.kernel for k in kernels)
    return [f"{k.kernel} ({k.op})" if met[k.kernel] > 1 and k.op else k.kernel for k in kernels]


@dataclass
class MemoryRow:
    """Bytes of results that one line made, and on whose behalf they are alive when most are."""

    line: int | None
    made_bytes: int = 0
    peak_bytes: int = 0
    """Of `made_bytes`, those alive at the peak."""
    kept_bytes: int = 0
    """Those alive at the end of the cell."""
    count: int = 0
    held_bytes: int = 0
    """Of all bytes alive at the peak, those that this line keeps alive, whoever made them."""


@dataclass
class Held:
    """What one op had made and was alive at the peak, with the line that kept it and why."""

    op: str
    number: int | None = None
    """Its row in `Record.ops`."""
    line: int | None = None
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    keeper: int | None = None
    why: str = ""
    """Such as "saved for the gradient of matmul" or "variable h"."""
    size_bytes: int = 0
    count: int = 0


@dataclass
class Memory:
    """The bytes of results alive in the course of a cell; parameters and data made before it are not counted."""

    peak_bytes: int = 0
    peak_ms: float = 0.0
    end_bytes: int = 0
    times_ms: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    """Alive from each of `times_ms` on."""
    rows: list[MemoryRow] = field(default_factory=list)
    peak_line: int | None = None
    peak_op: str = ""
    """The op with whose result the peak was reached, and its line."""
    held: list[Held] = field(default_factory=list)
    """What was alive at the peak, the largest first."""


@dataclass
class Run:
    """One run of an op on the timeline."""

    op: int
    start_ms: float
    ms: float
    phase: str = "forward"
    """"forward", "backward" or "update"."""


@dataclass
class Finding:
    """Something wrong, said in one sentence that names the line, with its remedy."""

    kind: str
    """"cut", "no-gradient", "vanishing", "exploding" or "nan"."""
    severity: str
    """"error", "warning" or "note"."""
    line: int | None = None
    col: int | None = None
    message: str = ""
    remedy: str = ""
    ops: list[int] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    tried: str = ""
    """What came of trying the remedy, or why it was not tried."""
    reads: bool = False
    """Whether a note reads like a mistake that nothing recorded confirms."""
    patch: str = ""
    """The lines that the remedy changes: their numbers, "-" taken out, "+" put in; those of another source begin with
    its name."""


@dataclass
class ErrorRow:
    """The exception that ended the cell."""

    type: str
    message: str = ""
    line: int | None = None
    detail: str = ""
    """The whole text, of which `message` is the first line."""


@dataclass
class Change:
    """One difference between two records."""

    kind: str
    """"finding", "time", "memory", "op added", "op gone", "op shape", "line" or "gradient"."""
    name: str
    before: str = ""
    after: str = ""
    line: int | None = None
    note: str = ""


@dataclass
class Comparison:
    """What changed between two records of one piece of code."""

    before: str = ""
    """The title of the earlier one."""
    after: str = ""
    changes: list[Change] = field(default_factory=list)
    note: str = ""
    """How long both took, where they are runs of the same code and that is no change."""

    def __str__(self) -> str:
        from .difference import text

        return text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


@dataclass
class Record:
    """What one cell did: its operations, their times, its gradients, and what is wrong with them.

    Examples
    --------
    >>> record = Record(source="y = x.tanh()", ops=[OpRow(0, "tanh", line=1, shape=[8, 8], inputs=["t0"])])
    >>> again = Record.from_json(record.to_json())
    >>> again == record, again.ops[0].op
    (True, 'tanh')
    """

    title: str = ""
    source: str = ""
    wall_ms: float = 0.0
    """From the cell's first line to its last by its own clock, recording included; 0 where that is not known."""
    recording_ms: float = 0.0
    """Of that, what listening took; all other times, those of `runs` too, are without it."""
    starved_ms: float = 0.0
    """Of that, how long other programs had the processor while the cell was ready to run."""
    ops_ms: float = 0.0
    """Measured time inside ops."""
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    update_ms: float = 0.0
    """Optimizer steps."""
    ops: list[OpRow] = field(default_factory=list)
    tensors: list[TensorRow] = field(default_factory=list)
    lines: list[LineRow] = field(default_factory=list)
    gradients: list[GradientRow] = field(default_factory=list)
    kernels: list[KernelRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    """The source of functions that were defined elsewhere, in the order in which they were called."""
    error: ErrorRow | None = None
    stopped: str = ""
    """Where the user stopped the cell, in a sentence; that is no error."""
    memory: Memory | None = None
    runs: list[Run] = field(default_factory=list)
    """The timeline: the first runs of ops, in the order in which they began."""
    runs_left: int = 0
    """How many came after those."""
    course: RunCurves | None = None
    """Of the training loop, where the cell has one."""
    comparison: Comparison | None = None
    """With the last run of the same cell, where there was one."""
    compiled: list[CompiledFunction] = field(default_factory=list)
    machine: Machine | None = None
    """None where it was not measured."""
    checked: str = ""
    """What `--check` found, in a sentence, or of how many steps the record is; empty where neither is to be said."""
    device: str = "cpu"
    environment: dict[str, str] = field(default_factory=dict)
    folded: bool = False

    @property
    def other_ms(self) -> float | None:
        """What is left of `wall_ms`: Python, data, waiting. None where it is not known, or where threads overlapped."""
        left = self.wall_ms - self.recording_ms - self.forward_ms - self.backward_ms - self.update_ms
        return left if self.wall_ms and left >= 0 else None

    def __str__(self) -> str:
        from .text import text

        return text(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from .card import html

        return {"text/html": html(self), "text/plain": str(self)}

    def to_json(self) -> str:
        """Write the record as one line of strict JSON; a NaN or infinite figure becomes a string.

        Examples
        --------
        >>> Record(title="a cell").to_json()[:30]
        '{"version":1,"title":"a cell",'
        """
        return json.dumps({"version": VERSION, **_plain(self)}, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a record written by `to_json`.

        Raises
        ------
        ValueError
            When the text is no record, is of another version, or has a field of a wrong type.

        Examples
        --------
        >>> Record.from_json('{"version": 99}')
        Traceback (most recent call last):
        ...
        ValueError: Record.from_json: got version 99, needs version 1. Remedy: run the cell again, or read ...
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"Record.from_json: got no JSON ({error}), needs what Record.to_json wrote") from None
        version = data.pop("version", None) if isinstance(data, dict) else type(data).__name__
        if version != VERSION:
            raise ValueError(
                f"Record.from_json: got version {version}, needs version {VERSION}. "
                "Remedy: run the cell again, or read it with the gradlab that wrote it"
            )
        record: Self = _build(cls, data, "Record")
        return record


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def _is_row(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _plain(value: Any) -> Any:
    """Dataclasses to dicts; half the time of `dataclasses.asdict`, which deep-copies every leaf."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no nan, inf
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(value.__class__)}
    if hasattr(value, "item"):  # a NumPy scalar of a recorder
        return _plain(value.item())
    raise TypeError(
        f"Record.to_json: got a {type(value).__name__}, needs plain data (str, int, float, bool, list, dict)"
    )


def _build(hint: Any, value: Any, where: str) -> Any:
    """Turn JSON back into `hint`, checking every type on the way."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _build(next(a for a in arguments if a is not type(None)), value, where)
    if origin is list and isinstance(value, list):
        return [_build(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {key: _build(arguments[1], item, f"{where}[{key!r}]") for key, item in value.items()}
    if _is_row(hint) and isinstance(value, dict):
        kind: Any = hint
        hints = _hints(kind)
        if unknown := sorted(set(value) - set(hints)):
            raise ValueError(f"Record.from_json: {where} has unknown field {unknown[0]!r}, needs of {', '.join(hints)}")
        try:
            return kind(**{name: _build(hints[name], item, f"{where}.{name}") for name, item in value.items()})
        except TypeError as error:
            raise ValueError(f"Record.from_json: {where} lacks a field ({error})") from None
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is float and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    wanted = getattr(hint, "__name__", hint) if origin is None else hint
    raise ValueError(f"Record.from_json: {where} got {type(value).__name__} ({value!r:.60}), needs {wanted}")
