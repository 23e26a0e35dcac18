"""The end of a recording: names are settled, what the modules hold is listed, and the trace becomes a `Record`."""

from __future__ import annotations

import linecache
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from operator import itemgetter
from typing import Any

import numpy as np

from core import native
from core.backends.sparse_array import values_of
from widgets.record import (
    ErrorRow,
    Finding,
    GradientRow,
    LineRow,
    OpRow,
    Record,
    Run,
    TensorRow,
)

from ..diagnose import Found, diagnose
from ..diagnose.finding import ended
from ..recorder import kernel_choices, repeats, tensor_stats
from ..recorder.authors import authors
from ..recorder.cell_trace import Leaf, Ref, Row, Trace
from ..recorder.held_arrays import held_arrays
from ..recorder.observer import EVENTS, Recorder
from ..recorder.op_to_row import latest
from ..recorder.tensor_types import original, seen
from ..recorder.user_files import shown_name
from ..recorder.variable_names import assigned, attributes, is_module, operand
from .call_places import calls, sites
from .called_functions import pages
from .compiled_functions import compiled_functions
from .kept_graphs import kept
from .line_times import line_times, starved, timed
from .memory_course import record_memory

LEAST = 0.005  # of a cell's time: a line without ops that takes less has no row
FEW = 64  # entries of a container, or attributes of an object, that are looked at

SEQUENCES = {"LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer",
             "TransformerDecoder", "TransformerDecoderLayer", "Transformer"}  # fmt: skip


def settle(recorder: Recorder, space: Mapping[str, Any], text: str) -> Trace:
    """Name what has no name yet and list the parameters of every module that took part."""
    trace, names = recorder.trace, recorder.fold.names
    trace.own_ns, trace.around_ns = recorder.own_ns, recorder.around_ns
    code = "".join(next((linecache.getlines(f) for f in trace.files if linecache.getlines(f)), [])) or text
    trace.close(text, code)
    trace.arrays, trace.space = held_arrays(space), space
    shared = _shared(trace)
    for variable in assigned(code, trace.block):
        value = space.get(variable)
        t = seen(value)
        if is_module(value):
            names.note(value, variable)
            _list_parameters(recorder, value, variable, trace.defined, shared)
        elif t is not None and t._requires_grad and t._node is None:
            trace.defined.add(variable)
            if not any(leaf.name == variable and leaf.shape == t._a.shape for leaf in trace.parameters()):
                recorder.fold.parameter(t, variable)
    for parent, reference, kind in recorder.fold.paths[1:]:
        module = reference()
        name = names.modules.get(id(module)) or (names.module(module, [space]) if module is not None else "")
        if not name:
            above = trace.paths[parent]
            name = f"{above}.{kind}" if above else kind
        trace.paths.append(name)
        trace.entered.append((*trace.entered[parent], (kind, name)))
        if parent in trace.second:
            trace.second[len(trace.paths) - 1] = trace.second[parent]
        elif kind in SEQUENCES and module is not None and _samples_second(module):
            trace.second[len(trace.paths) - 1] = len(trace.paths) - 1
        if parent == 0 and module is not None:
            _list_parameters(recorder, module, name, set(), shared)
    for leaf in trace.leaves:
        t = leaf.alive()
        if not leaf.name and t is not None:  # its start values were written before a module had it
            leaf.name = names.known(original(t))
        if not leaf.name:
            leaf.name = _read_as(trace, leaf) or _unnamed(leaf)
        if t is not None and leaf.requires_grad and not t._requires_grad and leaf not in trace.gradients:
            leaf.requires_grad = False  # its start values were written before it was frozen
        if t is not None and leaf.requires_grad and leaf.kind == "parameter":
            trace.weights[leaf] = tensor_stats.rms(t._a)
            g = trace.gradients.get(leaf)
            if g is not None and not g.fresh and t._grad is not None:
                tensor_stats.gradient(g, values_of(t._grad._a))
    _order(trace, space)
    trace.authors = authors(code, space)
    _idle_attributes(recorder)
    trace.kept = kept(recorder, space)
    _waiting(recorder, space)
    trace.remade = _remade(trace, space)
    trace.broke = recorder.root
    trace.hooked = repeats.hooks_of(
        [m for _, reference, _ in recorder.fold.paths[1:] if (m := reference()) is not None]
    )
    return trace


def _idle_attributes(recorder: Recorder) -> None:
    """Note what was set on modules and parameters in place of requires_grad."""
    trace = recorder.trace
    for number, (_, reference, _) in enumerate(recorder.fold.paths[1:], 1):
        module = reference()
        if module is not None and "requires_grad" in vars(module):
            begin = trace.paths[number] + "."
            leaves = [leaf for leaf in trace.parameters() if leaf.name.startswith(begin)]
            trace.idle_attributes.setdefault("requires_grad", (True, []))[1].extend(leaves)
    for leaf in trace.parameters():
        t = original(leaf.tensor())
        for name in getattr(t, "__dict__", ()) if t is not None else ():
            if "grad" in name and name[:1] == "r" and name not in ("requires_grad", "retains_grad"):
                trace.idle_attributes.setdefault(name, (False, []))[1].append(leaf)


def _samples_second(module: Any) -> bool:
    """Return whether a layer for sequences takes (time, samples, features)."""
    said = (getattr(inner, "batch_first", None) for inner in module.modules())
    return next((flag is False for flag in said if flag is not None), False)


def _remade(trace: Trace, space: Mapping[str, Any]) -> tuple[str, int | None, str] | None:
    """Return the variable whose .grad the failing line reads, when it holds the result of an op."""
    error = trace.error
    lines = trace.texts()
    if error is None or error.line is None or not 0 < error.line <= len(lines):
        return None
    for name in re.findall(r"(\w+)\.grad\b", lines[error.line - 1]):
        value = space.get(name)
        t = seen(value)
        if t is not None and t._node is not None and t._grad is None:
            place = trace.place(*t._node.place) if t._node.place else None
            own = place is not None and place.file in trace.files
            line = place.line + trace.files[place.file] if place is not None and own else None
            return name, line, lines[line - 1].strip() if line and line <= len(lines) else ""
    return None


def _waiting(recorder: Recorder, space: Mapping[str, Any]) -> None:
    """Note what the optimizers hold that the cell made and that made no step."""
    trace = recorder.trace
    facts = trace.steps
    for name, optimizer in _optimizers(trace, space):
        held = (seen(p) for group in optimizer.param_groups for p in group.get("params", ()))
        leaves = [recorder.fold.parameter(p) for p in held if p is not None and p._requires_grad]
        if not facts.count:
            trace.waiting.update(leaves)
        elif leaves and not any(leaf in trace.optimized for leaf in leaves):
            facts.unused.append((name, leaves))
    facts.piled = next((o for o in facts.optimizers if o.stale and o.piles_up), None)
    if facts.piled is not None and facts.stale is None:
        facts.stale = facts.piled.stale_at


def _optimizers(trace: Trace, space: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the optimizers that the cell made, by themselves or in an object, a list or a dictionary of its own."""
    for variable in assigned(trace.code, trace.block):
        value = space.get(variable)
        found = {variable: value}
        if isinstance(value, dict):
            found |= {f"{variable}[{key!r}]": item for key, item in list(value.items())[:FEW]}
        elif isinstance(value, list | tuple):
            found |= {f"{variable}[{k}]": item for k, item in enumerate(value[:FEW])}
        elif not isinstance(value, type):
            found |= {f"{variable}.{key}": item for key, item in list(attributes(value).items())[:FEW]}
        for name, item in found.items():
            has = "param_groups" in attributes(item) or hasattr(type(item), "param_groups")
            groups = getattr(item, "param_groups", None) if has else None
            if isinstance(groups, list) and callable(getattr(item, "zero_grad", None)):
                yield name, item


def _order(trace: Trace, space: Mapping[str, Any]) -> None:
    """Note the places of parameters whose module did not run here: backward() alone may."""
    left = {leaf.name: leaf for leaf in trace.parameters() if leaf not in trace.order}
    for root in {name.partition(".")[0] for name in left if "." in name}:
        module: Any = space.get(root)
        for path, _ in module.named_parameters() if is_module(module) else ():
            leaf = left.get(f"{root}.{path}")
            if leaf is not None:
                trace.order[leaf] = len(trace.order)


def _shared(trace: Trace) -> set[str]:
    """Return the plain variables that several parameters go by, as a loop over a model's calls each of them."""
    names = Counter(leaf.name for leaf in trace.parameters() if "." not in leaf.name and "[" not in leaf.name)
    return {name for name, count in names.items() if name and count > 1}


def _list_parameters(recorder: Recorder, module: Any, name: str, into: set[str], shared: set[str]) -> None:
    for path, parameter in module.named_parameters():
        p = seen(parameter)
        if p is not None and p._requires_grad and p._kind.device.type != "meta":
            leaf = recorder.fold.parameter(p, f"{name}.{path}")
            # as it was called where it was made, or as a loop, or a package, calls each of them
            root = re.split(r"[.\[]", leaf.name, maxsplit=1)[0]
            said = re.search(rf"\b{re.escape(root)}\b", recorder.trace.code)
            if root == "self" or leaf.name in shared or not said:
                leaf.name = f"{name}.{path}"
            recorder.trace.order.setdefault(leaf, len(recorder.trace.order))
            into.add(leaf.name)


def _read_as(trace: Trace, leaf: Leaf) -> str:
    """Return what the expression that reads a leaf calls it."""
    for row in trace.rows:
        if row.op == leaf.op and leaf in row.refs and row.place is not None and row.inner == row.chain[0]:
            return operand(row.place.code, leaf.position)
    return ""


def _unnamed(leaf: Leaf) -> str:
    return f"unnamed {'parameter' if leaf.kind == 'parameter' else 'tensor'} {'×'.join(map(str, leaf.shape))}".strip()


def build(trace: Trace, title: str, error: ErrorRow | None, checks: Sequence[Any] = ()) -> Record:
    """Return the record of a settled trace, with its findings; a cell that the user stopped has no error."""
    error = None if trace.stopped else error
    found = [*(f for check in checks for f in check.findings(trace)), *diagnose(trace)]
    record = Record(title=title, source=trace.source, error=error, folded=trace.folded, environment=environment())
    record.environment["recording"] = f"{(trace.own_ns + trace.around_ns) / 1e6:.3g} ms, in wall alone"
    record.stopped = trace.stopped
    for check in checks:
        record.environment[check.name] = check.summary()
    record.checked = "\n".join(check.sentence() for check in checks)
    numbers = _rows(trace, record, found)
    _leaves(trace, record, numbers)
    _lines(trace, record)
    _gradients(trace, record, found)
    _runs(trace, record, numbers)
    record.pages, ways = pages(trace, numbers)
    for number, way in ways.items():
        record.ops[number].via = way
    record.memory = record_memory(trace, numbers)
    record.kernels = kernel_choices.rows(trace)
    record.compiled = compiled_functions(trace)
    for f in found:
        ops = [numbers[row] for row in f.rows if row in numbers]
        parameters = [leaf.name for leaf in f.leaves]
        said = ended(f.message), ended(f.remedy)
        record.findings.append(Finding(f.kind, f.severity, f.line, f.col, *said, ops, parameters, reads=f.reads))
    record.starved_ms = starved(trace) / 1e6
    record.wall_ms, record.recording_ms = trace.wall_ns / 1e6, (trace.own_ns + trace.around_ns) / 1e6
    record.forward_ms = sum(r.forward_ns for r in trace.rows if r.phase != "update") / 1e6
    record.backward_ms = trace.backward_ns / 1e6
    record.update_ms = (trace.update_ns or sum(r.forward_ns for r in trace.rows if r.phase == "update")) / 1e6
    record.ops_ms = record.forward_ms + record.backward_ms + record.update_ms
    record.device = "cuda" if any(row.device == "cuda" for row in trace.rows) else "cpu"
    return record


def _shown(trace: Trace, found: list[Found]) -> list[Row]:
    """Return the rows that are drawn: all ops, and of the cuts those that a finding names or that an op reads."""
    named = {row for f in found for row in f.rows}
    read = {ref for row in trace.rows if not row.cut for ref in row.refs}
    for row in reversed(trace.rows):  # what leads to a cut that is read is read too
        if row.cut and (row in read or row in named):
            read.update(row.refs)
            named.add(row)
    return [row for row in trace.rows if not row.cut or row in named]


def _rows(trace: Trace, record: Record, found: list[Found]) -> dict[Ref, int]:
    """Fill in the op rows, and return the number of every row and leaf."""
    rows = _shown(trace, found)
    numbers: dict[Ref, int] = {row: k for k, row in enumerate(rows)}
    used = dict.fromkeys(ref for row in rows for ref in row.refs if isinstance(ref, Leaf))
    for leaf in trace.leaves:
        if leaf in used or leaf.kind == "parameter":
            numbers[leaf] = len(record.tensors)
            kind = leaf.kind
            shape = list(leaf.shape)
            record.tensors.append(TensorRow(numbers[leaf], leaf.name, kind, shape, leaf.dtype, leaf.requires_grad))
    first = {row for f in found if f.kind == "nan" for row in f.rows}
    for row in rows:
        place, file = row.place, ""
        if place is not None:
            own = place.file in trace.files
            file = "" if own else shown_name(place.file)
            if own:
                place = trace.own_place(row.chain[:1])
        flags = set(row.flags)
        if row in first or (row.bad is not None and row.bad.nan):  # a mask's -inf alone is no fault
            flags.add("nan")
        if row.error:
            flags.add("error")
        names = [("t" if isinstance(r, Leaf) else "o") + str(numbers[r]) for r in row.refs if r in numbers]
        record.ops.append(
            OpRow(
                numbers[row],
                {"return": "from_numpy"}.get(row.cut, row.cut) if row.cut else row.op,
                row.runs,
                place.line if place else None,
                place.col if place else None,
                place.end_line if place else None,
                place.end_col if place else None,
                file,
                place.code if place else "",
                trace.paths[row.path],
                row.kernel,
                row.backend,
                list(row.shape),
                row.dtype,
                names,
                row.forward_ns / 1e6,
                row.backward_ns / 1e6,
                row.max_ns / 1e6,
                row.size,
                row.requires_grad,
                row.stats,
                sorted(flags),
                calls(trace, row),
            )
        )
    for row, site in zip(rows, sites(rows), strict=True):
        record.ops[numbers[row]].site = site
    return numbers


def _leaves(trace: Trace, record: Record, numbers: dict[Ref, int]) -> None:
    """A constant that the cell's own code names is an input of the graph."""
    for leaf in trace.leaves:
        if leaf in numbers and leaf.kind == "constant" and not leaf.name.startswith("unnamed"):
            record.tensors[numbers[leaf]].kind = "input" if leaf.shape else "constant"


def _lines(trace: Trace, record: Record) -> None:
    lines = {line: list(spent) for line, spent in trace.lines.items()}
    for row in trace.rows:
        if row.cut or (row.phase == "update" and trace.update_ns):
            continue
        if row.line is not None:
            spent = lines.setdefault(row.line, [0, 0, 0])
            spent[0] += row.forward_ns
            spent[1] += row.backward_ns
            spent[2] += row.runs
    total = line_times(trace)
    for line, ns in total.items():
        if ns >= LEAST * sum(total.values()):
            lines.setdefault(line, [0, 0, 0])
    known = timed(trace)
    for line, (f, b, n) in sorted(lines.items()):
        all_ns = total.get(line, 0)
        other = max(all_ns - known.get(line, 0), 0) / 1e6
        record.lines.append(LineRow(line, f / 1e6, b / 1e6, n, all_ns / 1e6, other))


def _runs(trace: Trace, record: Record, numbers: dict[Ref, int]) -> None:
    for row, start, took, phase in sorted(trace.events, key=itemgetter(1)):
        number = numbers.get(latest(row))
        if number is not None:
            record.runs.append(Run(number, (start - trace.started_ns) / 1e6, took / 1e6, phase))

    # an op that failed, or that was not begun, has a count and no run
    ran = sum(row.count - bool(row.error) + row.reached for row in trace.rows if not row.cut)
    if len(trace.events) >= EVENTS:
        record.runs_left = max(ran - len(trace.events), 0)


def _gradients(trace: Trace, record: Record, found: list[Found]) -> None:
    if not trace.backwards and not trace.chosen and not trace.failed:
        return  # a cell that asks for no gradient misses none
    flags: dict[Leaf, set[str]] = {}
    for f in found:
        if f.kind in ("vanishing", "exploding"):
            for leaf in f.leaves:
                flags.setdefault(leaf, set()).add(f.kind)
    for leaf in _ordered(trace):
        row = GradientRow(leaf.name, leaf.name.rpartition(".")[0], list(leaf.shape), leaf.dtype)
        row.weight_rms = trace.weights.get(leaf)
        g = trace.gradients.get(leaf)
        mine = flags.get(leaf, set())
        if g is None:
            mine.add("none")
        else:
            row.norm, row.rms, row.mean, row.std, row.max_abs = g.shown()
            row.zeros, row.nonfinite = g.zeros, g.nonfinite
            row.histogram, row.count, row.update_ratio = g.histogram, g.count, trace.updates.get(leaf)
            if g.nonfinite:
                mine.add("nan" if g.nan else "infinite")
            elif g.max_abs == 0:
                mine.add("zero")
        row.flags = sorted(mine)
        record.gradients.append(row)


def _ordered(trace: Trace) -> list[Leaf]:
    """Return the parameters as they were met, a module's together and in its own order."""
    first: dict[str, int] = {}
    places = {}
    for k, leaf in enumerate(trace.parameters()):
        root = leaf.name.partition(".")[0] if leaf in trace.order else leaf.name
        places[leaf] = (first.setdefault(root, k), trace.order.get(leaf, k))
    return sorted(places, key=lambda leaf: places[leaf])


def environment() -> dict[str, str]:
    """Return the versions and the C kernels with which the figures were taken."""
    try:
        version = metadata.version("gradlab")
    except metadata.PackageNotFoundError:
        version = "from source"
    c_kernels = f"{native.module.get_num_threads()} threads" if native.module is not None else "off: " + native.reason
    return {
        "gradlab": version,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "C kernels": c_kernels,
    }
