"""The trace of a cell: rows of its ops, leaves, gradients, times, memory. No tensor is kept alive by any of it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from core.base.source import Location
from core.nn import Parameter
from widgets.record import ErrorRow, Stats

from .cell_source import CellSource, Chain
from .loss_course import Course
from .tensor_types import original


class Leaf:
    """A tensor that no recorded op made: a parameter by its identity, anything else by the place that reads it."""

    __slots__ = ("dtype", "kind", "made", "module", "name", "op", "position", "renewed", "requires_grad", "shape",
                 "span", "tensor", "token")  # fmt: skip

    def __init__(self, token: object, t: Any, kind: str, name: str, op: str, position: int) -> None:
        self.token, self.kind, self.name, self.op, self.position = token, kind, name, op, position
        self.shape, self.dtype = tuple(t._a.shape), t._kind.dtype.name
        self.requires_grad = bool(t._requires_grad)
        self.made: Row | None = None  # the row without a graph that made it, before requires_grad began one here
        self.module = isinstance(t, Parameter) or bool(getattr(t, "is_parameter", False))  # made to be trained
        self.tensor = weakref.ref(t)
        self.renewed = 0  # how often another tensor took the place of one that was gone
        self.span: tuple[float, float] | None = None  # least and largest value, of data that may be gone at the end

    def alive(self) -> Any:
        """Return the tensor, or None once it is gone: the shadow of another library's tensor may outlive it."""
        t = self.tensor()
        return t if t is not None and original(t) is not None else None


class Row:
    """One op at one place on the same inputs, however often it ran; or a cut: a value that left the graph there."""

    __slots__ = ("backend", "backward_ns", "bad", "bad_backward", "chain", "count", "course", "cut", "device", "dtype",
                 "error", "flags", "forward_ns", "given", "grown", "inner", "into", "judged", "kernel", "largest",
                 "line", "max_ns", "number", "op", "path", "phase", "place", "quiet", "reached", "refs",
                 "requires_grad", "shape", "size", "sizes", "stats", "steps", "stops", "sums", "token", "unseen",
                 "view", "waited_ns")  # fmt: skip

    def __init__(
        self, token: object, number: int, op: str, chain: Chain, inner: Any, path: int, refs: tuple[Ref, ...]
    ) -> None:
        self.token, self.number, self.op, self.chain, self.inner = token, number, op, chain, inner
        self.path, self.refs = path, refs
        self.count = self.forward_ns = self.backward_ns = self.max_ns = self.size = 0
        self.largest = self.grown = 0  # bytes of its largest result, and how often one was larger than all before
        self.sizes = 0  # bytes of all its results
        self.waited_ns = 0  # for values of another device that left the graph here
        self.unseen = 0  # runs in steps that were not recorded, as far as others tell; the times are theirs as well
        self.kernel = self.backend = self.dtype = self.device = ""
        self.shape: tuple[int, ...] = ()
        self.phase = "forward"
        self.requires_grad = False
        self.reached = 0  # how often backward ran through it
        self.stops = False  # gradients are wanted of an input, and none can pass
        self.quiet = False  # it stops them because it ran under no_grad
        self.view = False  # its values are not looked at: they are its input's
        self.cut = ""  # detach, numpy, ... or "return" where values came back
        self.steps: tuple[Any, ...] = ()
        self.stats: Stats | None = None
        self.bad: Bad | None = None
        self.bad_backward: Bad | None = None
        self.error = ""
        self.given: list[tuple[tuple[int, ...], str, Stats | None]] = []  # shapes, dtypes, figures, where it failed
        self.flags: set[str] = set()
        self.judged = False  # it ran in a model in evaluation mode
        self.course: Course | None = None  # of a single number with a gradient: a loss
        self.sums: tuple[float, float] | None = None  # least and largest, of probabilities that nll_loss or a row gets
        self.into: Row | None = None  # the row that took this one over when rows were folded by place alone
        self.place: Location | None = None  # where the user's code called it, once the trace is closed
        self.line: int | None = None  # the line of the cell on whose behalf it ran, likewise

    @property
    def runs(self) -> int:
        """How often it ran in all, in which its times have passed; `count` is how often that was recorded."""
        return self.count + self.unseen


Ref = Row | Leaf


@dataclass
class Bad:
    """The first time values were not finite: how many, and what the inputs held."""

    nan: int
    inf: int
    total: int
    inputs: list[tuple[str, Stats | None]] = field(default_factory=list)
    inputs_finite: bool = True
    run: int = 1
    when: int = 0
    """Its place among all that were noted."""


@dataclass
class Gradient:
    """The last gradient of a leaf, reduced to figures, and how often one came."""

    count: int = 0
    accumulated: bool = False
    """Whether one of them went into `.grad`, and was no answer of `autograd.grad` alone."""
    fresh: bool = False
    norm: float = 0.0
    rms: float = 0.0
    mean: float = 0.0
    std: float = 0.0
    max_abs: float = 0.0
    zeros: float = 0.0
    nonfinite: int = 0
    nan: int = 0
    histogram: list[int] = field(default_factory=list)

    def shown(self) -> tuple[float, float, float, float, float]:
        """norm, rms, mean, std and the largest size of all elements; those above are of the finite ones."""
        if self.nan:
            return (math.nan,) * 5
        if self.nonfinite:
            return math.inf, math.inf, math.nan, math.nan, math.inf
        return self.norm, self.rms, self.mean, self.std, self.max_abs


class Block:
    """An array that an op made: its size, when it came and when it went (0: it was alive at the end)."""

    __slots__ = ("backward", "born_ns", "died_ns", "row", "size")

    def __init__(self, row: Row | None, size: int, born_ns: int, backward: bool = False) -> None:
        self.row, self.size, self.born_ns, self.backward, self.died_ns = row, size, born_ns, backward, 0


@dataclass
class Sample:
    """A state in which the cell was met between its ops."""

    kind: str
    """ "python", "op" or "loader": what ran there."""
    places: Chain
    """The user's frames, innermost first."""
    waits: int = -1
    """Which of them asks a data loader for a batch; those before it are the data set's own."""
    ns: int = 0
    beat: int = -1
    beats: int = 0
    """In how many different iterations, as far as modules, gradients and steps tell."""


@dataclass
class Spent:
    """The time in which the cell was met on one of its lines, whatever ran there."""

    place: tuple[CodeType, int] | None
    """The innermost frame in the cell's own code; None where it had not come to any."""
    ns: int = 0
    recorder_ns: int = 0
    """What listening took there."""
    starved_ns: int = 0
    """What other programs had of it."""


@dataclass
class Copied:
    """What an op copied from one device to another."""

    to: str
    count: int = 0
    size: int = 0
    ns: int = 0
    same: int = 0
    """The most often that one tensor was copied without a change of its values."""


@dataclass
class Kept:
    """Tensors of one place and of several iterations that a variable of the cell keeps, with their history."""

    path: tuple[str, ...]
    """The variable, then attributes (".log") and keys ("'loss'"); "" for a number, or where they differ."""
    count: int
    size: int
    """Bytes of the tensors and of what their graphs saved."""
    nodes: int
    rows: list[Row]
    reached: bool
    """Whether backward() has gone through them."""
    judged: bool
    """Whether they are of models in evaluation mode."""


@dataclass
class OptimizerFacts:
    """What the steps of one optimizer found."""

    kind: str
    steps: int = 0
    idle: int = 0
    """Steps that found no gradient."""
    stale: int = 0
    """Steps by gradients that were added to those which a step had used already."""
    again: int = 0
    """Of these, the ones after the same backward() as the step before."""
    stale_at: Chain = ()
    """That backward(), the first time."""
    fed: Chain = ()
    """The backward() before its last step."""
    step_at: Chain = ()
    """Its last step."""
    summed: int = 0
    """The fewest passes of one backward() whose gradients add up for a step: 1 where each pass has its own."""
    eps: float = 0.0
    """What it adds to a divisor so that it is not 0; 0 where it has no such setting."""
    rates: list[float] = field(default_factory=list)
    """The learning rates of its steps, up to a limit."""
    RATES = 2048

    @property
    def piles_up(self) -> bool:
        """Whether nothing clears what its steps have used: in a GAN the other's loss adds to it once in between."""
        return bool(self.again) or self.stale > 0.6 * (self.steps - 1)


@dataclass
class StepFacts:
    """What the steps of the optimizers found."""

    optimizers: list[OptimizerFacts] = field(default_factory=list)
    """Each that made a step, in the order of their first."""
    followed: dict[Chain, Chain] = field(default_factory=dict)
    """For a backward(), the step that came next."""
    unused: list[tuple[str, list[Leaf]]] = field(default_factory=list)
    """Optimizers that the cell's variables hold and that made no step, in a cell where others did: name, parameters."""
    piled: OptimizerFacts | None = None
    """The optimizer whose gradients pile up."""

    count: int = 0
    unseen: int = 0
    """Steps of the loop that were not recorded, and are not in `count`."""
    beats: int = 0
    """Modules entered, gradients that came and steps made so far: a clock of the training loop."""
    told: Any = None
    """Who is told of each of them: an object whose `beat` is set."""
    last_backward: Chain = ()
    last_step: Chain = ()
    dropped: list[Chain] = field(default_factory=list)
    """For every step before which gradients of the same backward() were cleared unused: that backward()."""
    dropped_runs: int = 0
    """How many passes of backward() that were."""
    idle_always: tuple[int, Chain, list[Leaf]] | None = None
    """An optimizer (its id) none of whose steps found a gradient, its step, and what it holds."""
    anew: list[str] = field(default_factory=list)
    """The classes of optimizers with a state that made one step each on the same parameters."""
    strangers: tuple[Chain, int] = ((), 0)
    """A step whose parameters got no gradient while others did that no optimizer holds, and how often."""
    shrinks: tuple[float, float] = (0.0, 0.0)
    """The weight decay, and by which share it makes weights smaller in each step."""
    highest_lr: float = 0.0
    asleep: int = 0
    """Steps with a learning rate below a ten-thousandth of the highest before them."""
    lr: float = 0.0
    """The largest learning rate of the last step."""
    adaptive: bool = False
    """Whether steps are scaled by the gradients' own size, as Adam's are."""
    curved: bool = False
    """Whether a step's length comes of the loss's curvature, as LBFGS's does, which evaluates the loss on its way."""
    stale: Chain | None = None
    """The backward() that added to gradients which a step had used already, before the next step."""
    cleared: Chain | None = None
    """A step that found nothing though gradients had come since the step before."""
    by_hand: int = 0
    """How often a parameter with a gradient was changed in place without an optimizer."""
    idle: Chain | None = None
    """A step of parameters that have no gradient."""
    idle_leaves: list[Leaf] = field(default_factory=list)
    stepped: dict[Leaf, Chain] = field(default_factory=dict)
    """Where the optimizer that holds a parameter stepped."""
    fed: dict[Leaf, Chain] = field(default_factory=dict)
    """The last backward() before that."""
    from_zero: set[Leaf] = field(default_factory=set)
    """Parameters that were all zero before a step: beside them every change is large."""
    in_evaluation: dict[int, int] = field(default_factory=dict)
    """Module paths that ran in evaluation mode before a step trained them, and how often."""

    @property
    def ran(self) -> int:
        """How many steps there were."""
        return self.count + self.unseen

    def beat(self) -> None:
        """The training loop went on."""
        self.beats += 1
        if self.told is not None:
            self.told.beat = self.beats


@dataclass
class Trace(CellSource):
    """All that was gathered."""

    rows: list[Row] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    gradients: dict[Leaf, Gradient] = field(default_factory=dict)
    updates: dict[Leaf, float] = field(default_factory=dict)
    largest: dict[Leaf, float] = field(default_factory=dict)
    """The largest |update| / |weight| of a step."""
    weights: dict[Leaf, float] = field(default_factory=dict)
    first: dict[Leaf, tuple[float, float]] = field(default_factory=dict)
    """The root mean squares of a parameter and its gradient when the first gradient came."""
    alike: set[Leaf] = field(default_factory=set)
    """Weights whose rows, and the rows of whose first gradients, are all the same."""
    given: set[Leaf] = field(default_factory=set)
    """Parameters whose gradient a step found though none came: it was assigned by hand."""
    constant: set[Leaf] = field(default_factory=set)
    """Weights that held one value everywhere when their first gradient came."""
    optimized: dict[Leaf, None] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    compiled: dict[int, Any] = field(default_factory=dict)
    """The functions of `core.compile` that were called, by their ids."""
    events: list[tuple[Row, int, int, str]] = field(default_factory=list)
    """(row, start ns, length ns, phase) of single runs, up to a limit."""
    started_ns: int = 0
    again: dict[Row, list[int]] = field(default_factory=dict)
    """Ops of some length -> [runs looked at, of these on values that were met before, ns of those]."""
    again_of: dict[Row, Row] = field(default_factory=dict)
    """Where such values were first met."""
    single: dict[Row, tuple[int, int]] = field(default_factory=dict)
    """Ops of some length without a graph -> how many samples of batches they got, and how many different ones."""
    one_hot: dict[Row, tuple[int, int]] = field(default_factory=dict)
    """Products -> (position, columns) of an operand whose rows hold a single 1."""
    sparse: dict[Row, tuple[int, float]] = field(default_factory=dict)
    """Products -> (position, share of values that are not 0) of a large matrix of almost only zeros."""
    extended: set[Row] = field(default_factory=set)
    """Ops that put their own earlier result together with more."""
    spans: dict[Chain, list[int]] = field(default_factory=dict)
    """Where backward() or grad() ran -> [runs, ns]."""
    wasted: dict[Chain, dict[Leaf, int]] = field(default_factory=dict)
    """Where backward() ran -> parameters whose gradients of it were cleared unused, and how many of its runs."""
    hooked: list[tuple[str, int, Any]] = field(default_factory=list)
    """Modules on which one function is registered as a hook many times: class, how often, its code."""
    anomaly: bool = False
    """Whether gradients were searched for NaN."""
    steps: StepFacts = field(default_factory=StepFacts)
    modes: dict[int, dict[tuple[bool, bool], int]] = field(default_factory=dict)
    """Module path -> how often it ran in (training, with gradients), of modules for which that matters."""
    dropped: dict[Row, int] = field(default_factory=dict)
    """Dropouts that a module in evaluation mode ran, and how often."""
    strays: set[Row] = field(default_factory=set)
    """Of these, the ones of a module that the model around it does not list."""
    repeated: dict[Row, tuple[int, int]] = field(default_factory=dict)
    """Ops that take values by integer tensors in which some indices repeat: how many values, how many places."""
    fetched: dict[Chain, Any] = field(default_factory=dict)
    """Loops over a data loader -> the `Fetched` of each."""
    joined: dict[Row, int] = field(default_factory=dict)
    """Ops that put tensors with a history together -> the most at once that one row had made."""
    kept: list[Kept] = field(default_factory=list)
    """Containers that hold tensors of several iterations with their history."""
    second: dict[int, int] = field(default_factory=dict)
    """Module paths inside recurrent or attention layers that take the samples in dimension 1 -> the layer's path."""
    evaluated: set[int] = field(default_factory=set)
    """Module paths, of whole models, that last ran in evaluation mode."""
    waiting: set[Leaf] = field(default_factory=set)
    """Parameters in the optimizers that the cell made."""
    samples: dict[Any, Sample] = field(default_factory=dict)
    """What the cell was met at between its ops."""
    spent: dict[tuple[int, int] | None, Spent] = field(default_factory=dict)
    """On which lines it was met."""
    sampled_ns: int = 0
    """The time of which such samples tell; 0 where they were not made by C, and so not equally everywhere."""
    starved_ns: int = 0
    """How long its thread was ready to run and other programs had the processors."""
    blind_ns: int = 0
    """Time of its own of which, for that reason, nobody knows where it went."""
    copies: dict[Row, Copied] = field(default_factory=dict)
    """Ops that copied between devices."""
    failed: list[tuple[Ref, Chain]] = field(default_factory=list)
    """Tensors whose backward() had nothing to do."""
    backwards: list[Chain] = field(default_factory=list)
    """Where backward() ran."""
    chosen: list[Chain] = field(default_factory=list)
    """Where gradients of chosen tensors were asked for (autograd.grad, torch.func), and no others are wanted."""
    roots: dict[Chain, dict[Row, None]] = field(default_factory=dict)
    """What it ran on there."""
    broke: Row | None = None
    """What the backward() ran on that did not come to its end."""
    kernels: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    """(kernel, backend, op) -> [runs, ns, bytes]."""
    choices: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    """(kernel, backend, op) -> the `Choice` of its first run."""
    paths: list[str] = field(default_factory=lambda: [""])
    """Module paths by number, once they have names."""
    entered: list[tuple[tuple[str, str], ...]] = field(default_factory=lambda: [()])
    """By number of a module path: the modules entered on the way to it, outermost first, as (class, name)."""
    lines: dict[int, list[int]] = field(default_factory=dict)
    """line -> [forward ns, backward ns, runs]."""
    backward_ns: int = 0
    update_ns: int = 0
    own_ns: int = 0
    around_ns: int = 0
    """What listening to another library took beside that."""
    wall_ns: int = 0
    folded: bool = False
    error: ErrorRow | None = None
    stopped: str = ""
    """Where the user stopped the cell, and after how much, in a sentence; in between findings about what is missing
    have no ground."""
    remade: tuple[str, int | None, str] | None = None
    """A variable that was a leaf and is the result of an op, where an error read its .grad: name, line, source."""
    unseen: Any = None
    """The first loss that was not finite, where its step was not recorded: an `unseen_losses.UnseenLoss`."""
    values: Any = None
    """What single values told: `value_facts.ValueFacts`."""
    arrays: dict[str, Any] = field(default_factory=dict)
    """The arrays and tensors that the user's variables hold at the end, each a `held_arrays.Held`."""
    space: Mapping[str, Any] = field(default_factory=dict)
    """The user's variables themselves, at the end."""
    authors: list[str] = field(default_factory=list)
    """Files and cells of the user's that define what the cell reads by name."""
    sources: Any = None
    """The user's sources that took part, once a diagnosis has asked for them."""
    loops: Any = None
    """The loops around places, once a diagnosis has asked for them."""
    loaded: list[Any] = field(default_factory=list)
    """Calls of load_state_dict, each a `loaded_states.Loaded`."""
    order: dict[Leaf, int] = field(default_factory=dict)
    """Parameters of modules, in the order in which their module lists them."""
    defined: set[str] = field(default_factory=set)
    """Names of parameters that belong to what the cell itself defines."""
    idle_attributes: dict[str, tuple[bool, list[Leaf]]] = field(default_factory=dict)
    """Attributes that were meant to be requires_grad: whether modules have them, and of which parameters."""

    def close(self, source: str, code: str) -> None:
        """End the gathering: take the cell's source, and find in one pass where it called every row."""
        self.source, self.code = source, code
        for row in self.rows:
            row.place = self.place(*row.chain[0]) if row.chain else None
            row.line = self.line(row.chain)

    # -- the graph -----------------------------------------------------------------------------------------------------

    def consumers(self) -> dict[Ref, list[Row]]:
        """Who reads what."""
        found: dict[Ref, list[Row]] = {}
        for row in self.rows:
            for ref in dict.fromkeys(row.refs):
                found.setdefault(ref, []).append(row)
        return found

    def roots_of(self, path: int) -> int:
        """Return the path of the whole model that a path belongs to."""
        outer = self.entered[path][:1]
        return self.entered.index(outer) if outer else path

    def parameters(self) -> Iterator[Leaf]:
        """Leaves that want a gradient."""
        return (leaf for leaf in self.leaves if leaf.requires_grad and leaf.kind == "parameter")


def ancestors(
    start: Iterable[Ref], extra: dict[Ref, list[Ref]] | None = None, stop: set[Ref] | None = None
) -> dict[Ref, None]:
    """Find all that `start` was computed from, itself included; `extra` adds edges, `stop` is not passed through."""
    seen: dict[Ref, None] = {}
    stack = list(start)
    while stack:
        ref = stack.pop()
        if ref in seen:
            continue
        seen[ref] = None
        if stop is not None and ref in stop:
            continue
        if isinstance(ref, Row):
            stack.extend(ref.refs)
        if extra:
            stack.extend(extra.get(ref, ()))
    return seen
