"""`shrink`: channels, features and heads that matter least are removed, and with them what they are tied to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ....base.errors import text
from ....base.modes import no_grad
from ....tensors.tensor import Tensor
from ...modules.module import Module
from .apply import Indices, Swap, refused, tried, update_optimizer
from .choice import Family, Fitting, amounts, families, partners, score
from .scores import way_of
from .tracing import ShrinkError, Trace, traced


class Group(NamedTuple):
    """Channels, features or heads that can be removed: of which layers, how many there are, and how many stay."""

    layers: tuple[str, ...]
    what: str
    size: int
    keep: int
    exact: bool  # whether the rest gives what it would with zeros in their place
    note: str


class ShrinkPlan:
    """What `plan` found: printed it is a table; `apply` does it.

    Attributes
    ----------
    groups : what can be removed, and how much of it is.
    kept : (parameter's axis, reason) of what stays whole.
    keep : name of a parameter or buffer -> axis -> the indices that stay.
    parameters, parameters_after : how many numbers the model trains, and will train.
    """

    def __init__(self, model: Module, trace: Trace, fitting: Fitting, swap: Swap, made: Sequence[Family]) -> None:
        self._model, self._swap, self._shapes = model, swap, {n: tuple(t._a.shape) for n, t, _ in trace.own.values()}
        self.keep: dict[str, Indices] = swap.keep
        self.applied = False
        inexact: dict[int, str] = {}
        for a, where in trace.inexact:
            for f in fitting.families_of([a]):
                inexact.setdefault(id(f), where)
        for call in swap.scaled:  # a mean that is written out, a scale
            there = fitting.families_of([a for v in call.values if v is not None for a in trace.axes[v]])
            for f in [f for f in there if f.keep < len(f)] or made:
                inexact.setdefault(id(f), call.where)
        self.groups = [_group(f, inexact.get(id(f), "")) for f in made]
        self.kept = _kept(trace, made)
        self.parameters = sum(p._a.size for p in model.parameters())
        lost = dict.fromkeys(self._shapes, 1.0)
        for name, keep in self.keep.items():
            for axis, index in keep.items():
                lost[name] *= len(index) / self._shapes[name][axis]
        self.parameters_after = sum(round(p._a.size * lost[name]) for name, p in model.named_parameters())

    @property
    def exact(self) -> bool:
        """Whether the smaller model gives what this one does with zeros in place of what is removed."""
        return all(g.exact for g in self.groups if g.keep < g.size)

    def zero(self) -> None:
        """Set to zero what would be removed, to see what the model gives without it (nan, where it divides by the norm
        of a row that is removed).

        Raises
        ------
        ShrinkError
            When it was removed already.
        """
        self._fresh("zero")
        with no_grad():
            for name, t, _ in self._swap.trace.own.values():
                for axis, index in self.keep.get(name, {}).items():
                    gone = sorted(set(range(t.shape[axis])) - set(index.tolist()))
                    t.detach()[(slice(None),) * axis + (gone,)] = 0

    def apply(self, optimizer: Any = None) -> ShrinkPlan:
        """Remove it: the parameters are the same objects with fewer numbers, in the same modules, whose sizes are set;
        gradients that are there follow. `optimizer` (one or several) has the state of its steps cut alike; one that is
        not given keeps a state of the former shapes, and must be made anew.

        Raises
        ------
        ShrinkError
            When it was done already, or parameters have changed their shape since.
        """
        self._fresh("apply")
        self._swap.do()
        self._swap.gradients()
        named = {name: t for name, t, _ in self._swap.trace.own.values()}
        several = optimizer if isinstance(optimizer, list | tuple) else [] if optimizer is None else [optimizer]
        for one in several:
            update_optimizer(one, self.keep, named, self._shapes)
        self.applied = True
        return self

    def _fresh(self, what: str) -> None:
        changed = [n for n, t, _ in self._swap.trace.own.values() if tuple(t._a.shape) != self._shapes[n]]
        if self.applied or changed:
            raise ShrinkError(text("this plan is of a model that has changed since", op=f"ShrinkPlan.{what}",
                                   came="applied already" if self.applied else ", ".join(changed[:3]),
                                   remedy="a new plan: core.nn.utils.shrink.plan(model, example_inputs)"))  # fmt: skip

    def __str__(self) -> str:
        rows = [("removed from", "of", "size", "keep", "note")]
        rows += [(", ".join(g.layers[:3]) + (f" + {len(g.layers) - 3}" if len(g.layers) > 3 else ""), g.what,
                  str(g.size), str(g.keep), g.note) for g in self.groups]  # fmt: skip
        widths = [max(len(r[k]) for r in rows) for k in range(4)]
        lines = ["  ".join([r[0].ljust(widths[0]), r[1].ljust(widths[1]), r[2].rjust(widths[2]), r[3].rjust(widths[3]),
                            r[4]]).rstrip() for r in rows]  # fmt: skip
        share = 100 * self.parameters_after / max(1, self.parameters)
        lines.append(f"parameters: {self.parameters:,} -> {self.parameters_after:,} ({share:.1f} %)")
        reasons: dict[str, list[str]] = {}
        for place, why in self.kept:
            reasons.setdefault(why, []).append(place)
        for why, places in reasons.items():
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            lines.append(f"stays whole: {', '.join(places[:3])}{more}: {why}")
        return "\n".join(lines)

    __repr__ = __str__


def _layer(name: str) -> str:
    return name.rpartition(".")[0] or name


def _group(f: Family, inexact: str) -> Group:
    makers = [n for n, d in f.places if d == 0] or [n for n, _ in f.places]
    what = "heads or groups" if f.around else "features of each" if f.inside else "channels"
    said = f.why or (f"not as with zeros: {inexact}" if inexact and f.keep < len(f) else "")
    if f.keep != f.wanted:
        said = said or f"{f.wanted} would not go with {f.fitted}"
    return Group(tuple(dict.fromkeys(map(_layer, makers))), what, len(f), f.keep, not inexact, said)


def _kept(trace: Trace, made: Sequence[Family]) -> list[tuple[str, str]]:
    free = {int(a) for f in made for a in f.atoms}
    found = []
    for name, t, axes in trace.own.values():
        if not t.requires_grad:
            continue
        for d, a in enumerate(axes):
            why = trace.atoms.reason(a)
            if why and d < 2 and not free & set(trace.atoms.plain(a).ravel().tolist()):
                found.append((f"{name} axis {d}", why))
    return found


def plan(model: Module, example_inputs: Any, amount: float | Mapping[str, float] = 0.5, by: Any = "magnitude", *,
         globally: bool = False, round_to: int = 1, keep: Iterable[str | Module] = (), heads: bool = True,
         example_kwargs: Mapping[str, Any] | None = None) -> ShrinkPlan:  # fmt: skip
    """Return what `shrink` would remove, as a `ShrinkPlan`, which can be printed and then applied.

    The arguments are those of `shrink`.

    >>> import core
    >>> from core.nn.utils.shrink import plan
    >>> model = core.nn.Sequential(core.nn.Linear(4, 8), core.nn.ReLU(), core.nn.Linear(8, 2))
    >>> print(plan(model, core.ones(1, 4), amount=0.5))
    removed from  of        size  keep  note
    0             channels     8     4
    parameters: 58 -> 30 (51.7 %)
    stays whole: 0.weight axis 1: input 0 of the model (linear at ...)
    stays whole: 2.weight axis 0, 2.bias axis 0: an output of the model
    """
    result, made = planned(model, example_inputs, amount, by, globally=globally, round_to=round_to, keep=keep,
                           heads=heads, example_kwargs=example_kwargs)  # fmt: skip
    if not result.keep and (not isinstance(amount, int | float) or amount):
        reasons = list(dict.fromkeys([f.why or f.fitted for f in made if f.why or f.fitted]
                                     + [why for _, why in result.kept]))  # fmt: skip
        raise ShrinkError(text("nothing can be removed from this model", op="shrink",
                               came="; ".join(reasons[:4]) or f"{len(made)} groups of channels, all too small",
                               remedy="sizes taken from tensors (x.shape) or attributes (self.heads) in place of "
                               "numbers in the source, a larger amount, or heads=False"))  # fmt: skip
    return result


def planned(model: Module, example_inputs: Any, amount: float | Mapping[str, float], by: Any = "magnitude", *,
            globally: bool = False, round_to: int = 1, keep: Iterable[str | Module] = (), heads: bool = True,
            example_kwargs: Mapping[str, Any] | None = None,
            once: Mapping[Any, int] | None = None) -> tuple[ShrinkPlan, list[Family]]:  # fmt: skip
    """Return a plan, which may be to remove nothing, and the families. `once` has by their places how many there were
    before the first of several plans."""
    shares = amount.values() if isinstance(amount, Mapping) else [amount]
    if not all(isinstance(a, int | float) and 0 <= a < 1 for a in shares):
        raise ValueError(text("amount is a share of what is there, at least 0 and below 1", op="shrink",
                              came=f"amount={amount!r}", needed="0.5 for half of the channels"))  # fmt: skip
    args = tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    kwargs = dict(example_kwargs or {})
    trace = traced(model, args, kwargs, _protected(model, keep))
    made = families(trace)
    together = partners(trace, made)
    score(trace, made, way_of(by))
    while True:  # each trial that fails lets something more stay whole
        whole = -1
        while whole != (whole := sum(bool(f.why) for f in made)):  # what cannot follow may let another
            amounts(made, amount, round_to, heads, together, globally, once or {})
            fitting = Fitting(trace, made)
            fitting.run()
        swap = Swap(model, trace, fitting)
        found = tried(swap, args, kwargs) if swap.keep else None
        if found is None:
            break
        at, what = found
        _pin(trace, fitting, at, refused(trace.calls[at], what), made)
    return ShrinkPlan(model, trace, fitting, swap, made), made


def _pin(trace: Trace, fitting: Fitting, at: int, why: str, made: Sequence[Family]) -> None:
    """Let what takes part in an op at which a trial ended stay whole; else what stands nearest before it."""
    for k in (at, *range(at - 1, -1, -1)):
        c = trace.calls[k]
        axes = [a for v in (*c.values, *c.outputs) if v is not None for a in trace.axes[v]]
        found = [f for f in fitting.families_of(axes) if f.keep < len(f)]
        if found:
            for f in found:
                f.why = why
            return
    for f in made:
        f.why = f.why or why


def _protected(model: Module, keep: Iterable[str | Module]) -> dict[int, str]:
    modules = dict(model.named_modules())
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    found: dict[int, str] = {}
    for one in [keep] if isinstance(keep, str | Module) else keep:
        if isinstance(one, str) and one not in modules and one not in named:
            raise ValueError(text(f"the model has no layer {one!r}", op="shrink", came=f"keep={one!r}",
                                  needed=f"names among {', '.join([n for n in modules if n][:8])} ..."))  # fmt: skip
        inside: list[Tensor]
        if isinstance(one, str) and one in named:
            inside = [named[one]]
        else:
            module = modules[one] if isinstance(one, str) else one
            inside = [*module.parameters(), *module.buffers()]
        found.update((id(t), "to be kept as it is") for t in inside)
    return found


def shrink(model: Module, example_inputs: Any, amount: float | Mapping[str, float] = 0.5, by: Any = "magnitude", *,
           globally: bool = False, round_to: int = 1, keep: Iterable[str | Module] = (), heads: bool = True,
           example_kwargs: Mapping[str, Any] | None = None, optimizer: Any = None) -> ShrinkPlan:  # fmt: skip
    """Make a model smaller in place: remove the channels, features and heads that matter least, and with them whatever
    is tied to them in other layers. Return the plan, which printed says what was done and what stays, and why.

    One run of the model on `example_inputs` tells what is tied. Whole numbers that the modules hold (``num_heads``,
    ``hidden``) are set where shapes depend on them. The smaller model is tried before anything is changed.

    Parameters
    ----------
    example_inputs : what the model is called with: a tensor or a tuple; `example_kwargs` what it takes by name.
    amount : the share to remove of each group of channels; by names of layers to remove from these alone.
    by : "magnitude" (or "l2"), "l1"; "taylor": what the loss would change by first order, from the gradients that are
        there; "random"; a `Movement`; scores of the elements by parameters' names; or a function of name and parameter.
    globally : compare all channels with one another, and remove the share of them all; a tenth of each layer stays.
    round_to : keep multiples of this, as some processors like them.
    keep : layers (or names of them) whose shapes stay. What the model takes and gives stays in any case.
    heads : of what is taken apart (heads and their features, groups and their channels) remove whole heads and groups;
        False: the same features of each.
    optimizer : one or several whose state is to follow. Others have to be made anew.

    What an op does that is not followed, or a number in the source that cannot change, stays whole, with the op, the
    line and the reason in the plan.

    Raises
    ------
    ShrinkError
        When nothing can be removed, with the reasons.

    Source: arXiv 2301.12900 (dependency graphs), 1608.08710 (magnitude), 1906.10771 (Taylor).

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Conv2d(3, 8, 3), core.nn.BatchNorm2d(8), core.nn.ReLU(),
    ...                            core.nn.Flatten(), core.nn.Linear(8 * 16, 5))
    >>> plan = core.nn.utils.shrink.shrink(model, core.ones(1, 3, 6, 6), amount=0.5)
    >>> model[0], model[4].weight.shape
    (Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1)), core.Size([5, 64]))
    """
    return plan(model, example_inputs, amount, by, globally=globally, round_to=round_to, keep=keep, heads=heads,
                example_kwargs=example_kwargs).apply(optimizer)  # fmt: skip
