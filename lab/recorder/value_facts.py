"""What single values tell of an op while they are there: digits that a difference has lost, a sum that stands still,
targets that are the inputs, padding that is counted. Each is looked at in the first runs of its row only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.events import observe

from .cell_trace import Ref, Row, Trace
from .tensor_stats import on_host
from .tensor_types import TENSORS

FEW, MANY = 4, 1 << 16  # runs that are looked at, and elements
BATCHES, SAMPLES = 64, 8  # batches of which the classes are, and samples from which they tell anything
RUNS, CLASSES = 4096, 1024  # runs of which the targets are counted, and classes
SAMPLE = 4096
MANY_STILL = 0.25  # of the elements to which something was added, from which they are said to stand still
EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The spacing of a dtype's numbers at 1."""
WHOLE = {name: 2.0 / eps for name, eps in EPS.items()}
"""The size from which a dtype leaves out whole numbers."""
ULPS = 32
DIFFERENCES = {"sub", "rsub", "sub_", "remainder", "fmod", "diff"}
CASTS = {"cast", "float", "to", "type", "type_as", "half", "bfloat16"}
SUMS = {"add", "add_"}
LOSSES = {"cross_entropy", "nll_loss"}
ATTENDING = {"scaled_dot_product_attention", "multi_head_attention_forward"}
COMPARES = {"eq", "ne"}
CHOOSES = {"argmax", "max", "max_dim", "topk"}
SHAPES = {"squeeze", "view", "reshape", "flatten", "select", "getitem"}
NOTED = DIFFERENCES | SUMS | LOSSES | ATTENDING | COMPARES | CASTS | {"embedding", "softmax", "setitem_"}


CALL = "call"
"""The entry of an event's `params` that holds PyTorch's arguments: an object with `args` and `keywords`."""


@dataclass
class Lost:
    """What a difference of two tensors left: how many results are a few units in the last place of what they come
    from."""

    share: float
    largest: float
    """The size of the largest operand of those."""
    whole: bool
    """Whether the operands are beyond the whole numbers that their dtype can tell apart."""


@dataclass
class Still:
    """A sum to which something was added without a change."""

    runs: int = 0
    row_runs: int = 0
    lost: float = 0.0
    value: float = 0.0
    added: float = 0.0


@dataclass
class Told:
    """How the targets of a loss are related to the numbers that an embedding has read: shares of equal places."""

    embedding: Row
    same: float
    following: float
    after: float = 0.0
    """That of the places whose target is the number after the next."""


@dataclass
class ValueFacts:
    """All of it, by rows."""

    lost: dict[Row, Lost] = field(default_factory=dict)
    cancelled: dict[Row, float] = field(default_factory=dict)
    """Differences of which some are 0, of single numbers, or of operands beyond their dtype's whole numbers -> the
    largest of these."""
    wrapped: dict[Row, float] = field(default_factory=dict)
    """Differences and sums in uint8 -> the share of results that do not fit."""
    merged: dict[Row, tuple[float, float]] = field(default_factory=dict)
    """Casts to float32 -> the share of neighbouring values that differ before and are one after, and how large."""
    crowded: dict[Row, tuple[float, float]] = field(default_factory=dict)
    """Casts to half precision of whole numbers -> the share of different ones that become one, and the largest."""
    fractions: set[Row] = field(default_factory=set)
    """Writes of a plain number that has a fraction into a tensor of whole numbers."""
    still: dict[Row, Still] = field(default_factory=dict)
    told: dict[Row, Told] = field(default_factory=dict)
    padded: dict[Row, tuple[float, int]] = field(default_factory=dict)
    """Comparisons of class numbers -> the share that the loss leaves out, and the number by which it knows them."""
    classes: dict[Row, tuple[int, int, set[int]]] = field(default_factory=dict)
    """Cross entropies -> batches that were looked at, of these the ones of one class, and which classes those were."""
    targets: dict[Row, dict[int, int]] = field(default_factory=dict)
    """Cross entropies, and predictions that are compared with classes -> how often each class was the target."""
    commonest: dict[Row, tuple[int, float, int | None]] = field(default_factory=dict)
    """Cross entropies of sequences -> their commonest target, its share, and the class that is left out."""
    hidden: dict[Row, tuple[int, int]] = field(default_factory=dict)
    """Cross entropies -> how many samples of how many have no finite score, all being left out."""
    blank: dict[Row, tuple[int, float]] = field(default_factory=dict)
    """Embeddings of sequences -> batches looked at, and the mean share of places at which all samples are alike."""
    filled: dict[Row, tuple[int, float]] = field(default_factory=dict)
    """Embeddings of sequences -> the number that they end with more or less often, and its share of all places."""
    masked: dict[Row, bool] = field(default_factory=dict)
    """Attention that runs as one op -> whether it was given a mask."""
    future: set[Row] = field(default_factory=set)
    """Attention whose mask leaves each position the later ones and hides itself and what came before."""
    ignored: int | None = None
    """The class that the last cross entropy left out."""
    _numbers: tuple[Row, Any] | None = None
    _sums: dict[Row, float] = field(default_factory=dict)
    _totals: dict[Row, tuple[int, Any, Any]] = field(default_factory=dict)
    """Sums in half precision that grow in place -> which tensor, its values, and what was lost of each."""


def note(trace: Trace, row: Row, e: observe.OpEvent) -> None:
    """Look at one run of an op in `NOTED`."""
    facts: ValueFacts = trace.values
    if row.dtype == "uint8" and row.device == "cpu":
        if row.count <= FEW and e.op in ("sub", "add"):
            _wraps(facts, row, e)
        elif e.op in SUMS:
            _total_wraps(facts, row, e)
    if e.op in SUMS:
        if not row.requires_grad and row.dtype in EPS and row.device == "cpu":
            if not row.shape:
                _sum(facts, row, e)
            elif row.dtype != "float32":
                _totals(facts, row, e)
        return
    if e.op in LOSSES:
        facts.ignored = _ignored(e)
        if row.requires_grad and row.count <= BATCHES and row.device == "cpu":
            _classes(facts, row, e)
    if e.op in LOSSES | COMPARES and row.count <= RUNS and row.device == "cpu":
        _count_targets(facts, row, e)
    if e.op == "setitem_":
        number = _given(e)[0][2:3]
        if row.dtype.startswith(("int", "uint")) and row.count <= BATCHES and number and isinstance(number[0], float):
            facts.fractions |= {row} if not number[0].is_integer() else set()
        return
    if e.op == "embedding" and len(row.shape) > 2:
        facts._numbers = None  # those of an earlier batch are not what this one's targets follow
    if row.count > FEW or row.device != "cpu":
        return
    tensors = [t for t in e.inputs if isinstance(t, TENSORS)]
    if e.op in CASTS:
        if row.dtype == "float32" and tensors and tensors[0]._kind.dtype.name in ("float64", "int64"):
            facts.merged[row] = max(merged(on_host(tensors[0]._a)), facts.merged.get(row, (0.0, 0.0)))
        elif row.dtype in ("float16", "bfloat16") and tensors and not row.requires_grad:
            facts.crowded[row] = max(
                crowded(on_host(tensors[0]._a), on_host(e.outputs[0]._a), row.dtype), facts.crowded.get(row, (0.0, 0.0))
            )
    elif e.op in DIFFERENCES:
        if row.dtype in EPS and tensors and (row.shape or row.op == "sub"):
            _difference(facts, row, e, tensors)
    elif e.op == "embedding":
        ids = next((t for t in tensors if t._kind.dtype.name.startswith("int")), None)
        if ids is not None and ids._a.ndim == 2 and min(ids._a.shape) > 1:
            facts._numbers = row, np.array(on_host(ids._a)[:8, :256])
            _blank(facts, row, on_host(ids._a))
            _filled(facts, row, on_host(ids._a))
    elif e.op in ATTENDING or e.op == "softmax":
        if e.op in ATTENDING:
            facts.masked[row] = _masked(e)
        if _future(e):
            facts.future.add(row)
    elif e.op in LOSSES:
        if row.requires_grad and len(tensors) > 1:
            _common(facts, row, tensors[1])
            _targets(facts, row, tensors[1])
            _hidden(facts, row, tensors)
    elif facts.ignored is not None and len(tensors) == 2:
        _compared(facts, row, tensors)


def _difference(facts: ValueFacts, row: Row, e: observe.OpEvent, tensors: list[Any]) -> None:
    if row.op in ("remainder", "fmod"):
        a, b = tensors[0]._a, np.zeros(())
    elif row.op == "diff":
        a = b = on_host(tensors[0]._a)
        (args, named), n = _given(e), tensors[0]._a.ndim
        dim = named.get("dim", args[2] if len(args) > 2 else -1)
        if named.get("n", args[1] if len(args) > 1 else 1) != 1 or len(tensors) > 1 or not isinstance(dim, int):
            return
        whole = (slice(None),) * (dim % n)
        a, b = a[(*whole, slice(1, None))], a[(*whole, slice(None, -1))]
    elif len(tensors) < 2 or any(t._kind.dtype.name != row.dtype for t in tensors):
        return
    else:
        a, b = tensors[0]._a, tensors[1]._a
    out = on_host(e.outputs[0]._a)
    if not out.size or row.op == "sub_":  # whose operand has its new values already
        return
    a, b = on_host(a), on_host(b)
    if out.size > MANY:
        if out.size > MANY * len(out):
            return
        step = -(-out.size // MANY)  # of the first dimension's entries, each step-th
        a, b = (x[::step] if np.ndim(x) == out.ndim and len(x) == len(out) else x for x in (a, b))
        out = out[::step]
    sizes = np.maximum(np.abs(a), np.abs(b))
    sizes = np.broadcast_to(sizes, out.shape).reshape(-1)[:: max(out.size // SAMPLE, 1)]
    results = np.abs(out).reshape(-1)[:: max(out.size // SAMPLE, 1)]
    close = (results <= ULPS * EPS[row.dtype] * sizes) & (sizes > 0) & np.isfinite(sizes)
    if (close & (results > 0)).any():  # tensors that are equal lose nothing
        least = float(sizes.min())
        facts.lost[row] = Lost(float(close.mean()), float(sizes[close].max()), least >= WHOLE[row.dtype])
    equal = (results == 0) & (sizes >= (WHOLE[row.dtype] if row.shape else 1.0)) & np.isfinite(sizes)
    if equal.any():
        facts.cancelled[row] = float(sizes[equal].max())


def merged(values: Any) -> tuple[float, float]:
    """Return which share of neighbouring values that differ are one in float32, and the largest size of such values:
    of those that are so large that float32 leaves out whole numbers.

    >>> merged(np.array([1.7e9, 1.7e9 + 10, 1.7e9 + 20])), merged(np.array([0.5, 0.5 + 1e-12]))
    ((1.0, 1700000020.0), (0.0, 0.0))
    """
    a = np.asarray(values)
    a = a.reshape(-1, a.shape[-1])[: max(SAMPLE // max(a.shape[-1], 1), 1), :SAMPLE] if a.ndim else a.reshape(1, 1)
    sizes = np.abs(a[:, 1:])
    differ = (a[:, 1:] != a[:, :-1]) & (sizes >= WHOLE["float32"] / 2) & np.isfinite(sizes)
    if not differ.any():
        return 0.0, 0.0
    narrow = a.astype(np.float32)
    lost = differ & (narrow[:, 1:] == narrow[:, :-1])
    return float(lost.sum() / differ.sum()), float(sizes[differ].max())


def crowded(values: Any, narrow: Any, dtype: str) -> tuple[float, float]:
    """Return which share of different whole numbers a narrower dtype makes one of others, and the largest of them.

    >>> crowded(np.arange(512), np.arange(512).astype(np.float16), "float16")
    (0.0, 0.0)
    """
    a = np.asarray(values).reshape(-1)[:SAMPLE]
    if a.size < SAMPLES or a.dtype.kind not in "fiu" or not (largest := float(np.abs(a).max())) > WHOLE[dtype]:
        return 0.0, 0.0
    if a.dtype.kind == "f" and (a != np.round(a)).any():
        return 0.0, 0.0
    before = len(np.unique(a))
    return 1 - len(np.unique(np.asarray(narrow).reshape(-1)[:SAMPLE].astype(np.float32))) / before, largest


def _wraps(facts: ValueFacts, row: Row, e: observe.OpEvent) -> None:
    """Count results that are below 0 or above 255."""
    given = [on_host(t._a) for t in e.inputs if isinstance(t, TENSORS) and t._kind.dtype.name == "uint8"]
    if len(given) == 2 and e.outputs[0]._a.size > 1:
        shape = e.outputs[0]._a.shape
        step = max(e.outputs[0]._a.size // MANY, 1)
        a, b = (np.broadcast_to(x, shape).reshape(-1)[::step].astype(np.int16) for x in given)
        exact = a - b if e.op == "sub" else a + b
        off = float(((exact < 0) | (exact > 255)).mean())
        if off:
            facts.wrapped[row] = max(off, facts.wrapped.get(row, 0.0))


def _total_wraps(facts: ValueFacts, row: Row, e: observe.OpEvent) -> None:
    """Count what is beyond 255 in a sum that has gone on for a while: less is left than was added."""
    tensors, total = [t for t in e.inputs if isinstance(t, TENSORS)], on_host(e.outputs[0]._a)
    if len(tensors) == 2 and tensors[1]._kind.dtype.name in ("uint8", "bool") and total.size <= MANY:
        share = float((total < on_host(tensors[1]._a)).mean())
        if share:
            facts.wrapped[row] = min(facts.wrapped.get(row, 0.0) + share, 1.0)


def _totals(facts: ValueFacts, row: Row, e: observe.OpEvent) -> None:
    """Are many elements of a total in half precision what they were before, though something was added?"""
    tensors = [t for t in e.inputs if isinstance(t, TENSORS)]
    if len(tensors) != 2 or e.outputs[0]._a.size > SAMPLE:
        return
    total = 0 if "again" in row.flags else id(getattr(tensors[0], "original", tensors[0]))
    now, given, added = (np.asarray(on_host(t._a)).astype(np.float32) for t in (e.outputs[0], *tensors))
    known = facts._totals.get(row)
    lost = np.zeros_like(now)
    if known is not None and known[0] == total and known[1].shape == now.shape:
        before, added = known[1] if e.op == "add_" else given, np.broadcast_to(added, now.shape)
        gained = (added != 0) & np.isfinite(now)
        same = gained & (now == before)
        lost = known[2] + np.where(same, np.abs(added), 0)
        if same.sum() > MANY_STILL * gained.sum():
            still, at = facts.still.setdefault(row, Still()), int(np.argmax(np.where(same, lost, 0)))
            still.runs, still.lost = still.runs + 1, float(lost.flat[at])
            still.value, still.added = float(now.flat[at]), float(added.flat[at])
    facts._totals[row] = total, now, lost


def _sum(facts: ValueFacts, row: Row, e: observe.OpEvent) -> None:
    """Is a total what it was before, though something was added?"""
    total, given = e.outputs[0], e.inputs[0]
    if not isinstance(given, TENSORS):
        return
    now = float(total._a)
    in_place = getattr(given, "original", given) is getattr(total, "original", total)
    before = facts._sums.get(row) if in_place else float(given._a)
    facts._sums[row] = now
    found = facts.still.get(row)
    if before is None or now != before or now != now or abs(now) == float("inf"):
        return
    other = e.inputs[1] if len(e.inputs) > 1 else None
    added = float(other._a) if isinstance(other, TENSORS) and other._a.size == 1 else _number(other, e)
    if added and 2 * abs(added) <= 2 * EPS[row.dtype] * abs(now):
        if found is None:
            found = facts.still[row] = Still()
        found.runs, found.lost = found.runs + 1, found.lost + abs(added)
        found.value, found.added = now, added


def _number(other: Any, e: observe.OpEvent) -> float:
    """Return a plain number that was added; PyTorch's function was given it beside the tensors."""
    if isinstance(other, int | float):
        return float(other)
    given = _given(e)[0]
    return float(given[1]) if len(given) > 1 and isinstance(given[1], int | float) else 0.0


def _given(e: observe.OpEvent) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return what a function of PyTorch's was called with."""
    call = e.params.get(CALL) if isinstance(e.params, Mapping) else None
    return (call.args, call.keywords) if call is not None else ((), {})


def _ignored(e: observe.OpEvent) -> int | None:
    """Return the class that a loss leaves out."""
    named = _given(e)[1] if CALL in e.params else e.params
    found = named.get("ignore_index", -100)
    return found if isinstance(found, int) else None


def _hidden(facts: ValueFacts, row: Row, tensors: list[Any]) -> None:
    """Count samples without a finite score, where an op before has given infinities."""
    before: Ref = row.refs[0]
    while isinstance(before, Row) and before.view and before.refs:
        before = before.refs[0]
    if not isinstance(before, Row) or before.bad is None or before.bad.nan or tensors[0]._a.ndim < 2:
        return
    nothing = (on_host(tensors[0]._a) == -np.inf).all(1)
    if nothing.any() and nothing.shape == tensors[1]._a.shape:
        facts.hidden[row] = int(nothing.sum()), nothing.size


def _masked(e: observe.OpEvent) -> bool:
    """Return whether an attention was told to leave anything out."""
    if CALL not in e.params:
        return bool(e.params.get("causal")) or len([t for t in e.inputs if t is not None]) > 3
    given, named = _given(e)
    if e.op == "scaled_dot_product_attention":
        return (
            named.get("attn_mask") is not None
            or bool(named.get("is_causal"))
            or any(a is not None and a is not False and not isinstance(a, float) for a in given[3:])
        )
    return named.get("attn_mask") is not None or bool(named.get("is_causal"))


def _future(e: observe.OpEvent) -> bool:
    """Return whether a mask keeps all above the diagonal and nothing below it, or a softmax gives the past none."""
    if e.op == "softmax":
        weights = on_host(e.outputs[0]._a)
        if weights.ndim < 3 or weights.shape[-1] != weights.shape[-2] or not 2 < weights.shape[-1] <= 256:
            return False
        one = weights[(0,) * (weights.ndim - 2)]
        # the last has nothing that comes later: where all is hidden from it, it takes all alike
        past, later = one[np.tril_indices(len(one) - 1, -1)], one[np.triu_indices(len(one), 1)]
        return bool((past == 0).all() and (later > 0).all())
    mask = next((t for t in e.inputs[3:4] if isinstance(t, TENSORS)), None)
    if mask is None or e.op != "scaled_dot_product_attention":
        return False
    values = on_host(mask._a)
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] or not 2 < values.shape[-1] <= 256:
        return False
    one = values[(0,) * (values.ndim - 2)]
    if one.dtype != bool:
        if one.dtype.kind != "f" or not np.isinf(one).any():
            return False
        one = np.isfinite(one)
    past, later = one[np.tril_indices(len(one), -1)], one[np.triu_indices(len(one), 1)]
    return bool(not past.any() and later.all())


def _classes(facts: ValueFacts, row: Row, e: observe.OpEvent) -> None:
    """Look whether all targets of a batch are of one class."""
    target = next((t for t in e.inputs[1:2] if isinstance(t, TENSORS)), None)
    if target is None or not target._kind.dtype.name.startswith("int"):
        return
    values = on_host(target._a)
    if values.ndim != 1 or not SAMPLES <= values.size <= MANY:
        return
    looked, single, classes = facts.classes.get(row, (0, 0, set()))
    one = bool(values.min() == values.max())
    facts.classes[row] = looked + 1, single + one, classes | ({int(values[0])} if one else set())


def _count_targets(facts: ValueFacts, row: Row, e: observe.OpEvent) -> None:
    """Count the classes that a loss or a comparison has as targets: of the latter what the model did not choose."""
    tensors = [t for t in e.inputs[:2] if isinstance(t, TENSORS)]
    if len(tensors) < 2:
        return
    target = tensors[1]
    if e.op in COMPARES:
        chosen = [choice_of(ref) is not None for ref in row.refs]
        if row.requires_grad or sum(chosen) != 1 or len(chosen) != 2:
            return
        target = tensors[chosen.index(False)]
    values = on_host(target._a) if target._kind.dtype.name.startswith("int") else None
    if values is None or not 0 < values.size <= MANY:
        return
    counts = facts.targets.setdefault(row, {})
    for number, count in zip(*np.unique(values, return_counts=True), strict=True):
        if number >= 0 and number != facts.ignored and (number in counts or len(counts) < CLASSES):
            counts[int(number)] = counts.get(int(number), 0) + int(count)


def choice_of(ref: Ref) -> Row | None:
    """Return the op that chose the classes which a value holds, by the largest score; None where none did."""
    while isinstance(ref, Row) and ref.op in SHAPES and len(ref.refs) == 1:
        ref = ref.refs[0]
    return ref if isinstance(ref, Row) and ref.op in CHOOSES else None


def _blank(facts: ValueFacts, row: Row, ids: Any) -> None:
    """Count the last places of sequences at which all samples hold the same number."""
    if len(ids) < 4 or ids.shape[1] < SAMPLES or ids.size > MANY:
        return
    alike = (ids == ids[:1, -1:]).all(axis=0)
    if alike.all():  # one number and nothing else: no sequences, but such as the kinds of BERT's tokens
        return
    last = int(np.argmin(alike[::-1]))
    looked, share = facts.blank.get(row, (0, 0.0))
    facts.blank[row] = looked + 1, (looked * share + last / len(alike)) / (looked + 1)


def _filled(facts: ValueFacts, row: Row, ids: Any) -> None:
    """Note the number with which sequences of different lengths are filled up."""
    if row in facts.filled or len(ids) < 4 or ids.shape[1] < 4 or ids.size > MANY:
        return
    ends, counts = np.unique(ids[:, -1], return_counts=True)
    number = ends[np.argmax(counts)]
    at_end = np.cumprod((ids == number)[:, ::-1], axis=1).sum(axis=1)
    if (
        len(np.unique(at_end)) > 1
        and (at_end > 1).mean() > 0.25
        and not (ids[at_end < ids.shape[1], 0] == number).any()
    ):
        facts.filled[row] = int(number), float(at_end.sum() / ids.size)


def _common(facts: ValueFacts, row: Row, target: Any) -> None:
    """Note the commonest target of a loss that has one for each place of a sequence."""
    if not target._kind.dtype.name.startswith("int") or target._a.size > MANY or target._a.size < SAMPLES:
        return
    length = facts._numbers[0].shape[:2] if facts._numbers is not None else ()
    places = [length[0] * (length[1] - k) for k in range(3)] if len(length) > 1 else []  # the last have no target
    if target._a.ndim < 2 and target._a.size not in places:
        return
    values, counts = np.unique(on_host(target._a), return_counts=True)
    best = int(np.argmax(counts))
    if row not in facts.commonest and len(values) > 2:
        facts.commonest[row] = int(values[best]), float(counts[best] / counts.sum()), facts.ignored


def _targets(facts: ValueFacts, row: Row, target: Any) -> None:
    """Compare a loss's targets with the numbers that an embedding has read before."""
    if facts._numbers is None or not target._kind.dtype.name.startswith("int"):
        return
    embedding, ids = facts._numbers
    samples, length = ids.shape
    of = embedding.shape[:2]
    values = on_host(target._a)
    fewer = next((k for k in range(3) if values.size == of[0] * (of[1] - k)), None)  # places that have no target
    if fewer is None or not 3 + fewer < of[1] <= 256:
        return
    values = values.reshape(of[0], of[1] - fewer)[:samples]
    shares = []
    for ahead in range(3):
        length = min(of[1] - ahead, values.shape[1])
        one, other = values[:, :length], ids[:, ahead : ahead + length]
        wanted = one >= 0  # the others are left out
        shares.append(float((one == other)[wanted].mean()) if wanted.any() else 0.0)
    told = Told(embedding, *shares)
    if length > 2 and len(np.unique(ids)) > 2:
        facts.told[row] = told


def _compared(facts: ValueFacts, row: Row, tensors: list[Any]) -> None:
    """Count the places that the loss leaves out among those that are compared."""
    a, b = (t._a for t in tensors)
    if a.shape != b.shape or a.ndim > 3 or not 1 < a.size <= MANY:
        return
    if any(not t._kind.dtype.name.startswith("int") for t in tensors):
        return
    left_out = (on_host(a) == facts.ignored) | (on_host(b) == facts.ignored)
    facts.padded[row] = float(left_out.mean()), int(facts.ignored or 0)
