"""A graph that was cut: which line cut it, where the values went, which parameters get no gradient because of it.

Values leave the graph in every healthy cell (a loss that is printed, an accuracy). A cut is reported only when its
values flow back into what backward() ran on and a parameter before it gets no gradient by any other way.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, listed, verb, where
from ..order import rule
from ..reading.sources import Place
from . import value_flow
from .cut_remedies import (
    COMPARISONS,
    derivative_without_graph,
    grad_switch,
    mended,
    straight_through,
    subject,
    with_graph,
)
from .no_grad_calls import called_quietly
from .path_to_loss import Between, Blamed, discrete
from .target_networks import copies_of_trained, is_of

WAYS = {
    "detach": "takes {x} off the graph",
    "data": "takes the values of {x} off the graph",
    "numpy": "hands the values of {x} to NumPy",
    "item": "hands the value of {x} to Python as a number",
    "tolist": "hands the values of {x} to Python as numbers",
    "tensor": "copies the values of {x} into a new constant",
    "cast": "has no gradient",
    "draw": "draws at random, which has no gradient",
    "parameter": "makes a new leaf of the values of {x}",
}
COMPARES = {"sub", "squared_error", "absolute_error", "smooth_l1_error", "huber_error", "mse_loss", "l1_loss",
            "smooth_l1_loss", "huber_loss", "kl_div", "divergence", "divergence_log", "cross_entropy", "nll_loss",
            "binary_entropy", "binary_entropy_logits", "binary_cross_entropy",
            "binary_cross_entropy_with_logits"}  # fmt: skip
"""Ops that compare what is trained with what it shall be."""
MEANT = "The optimizer does not hold them: if they are not to train, all is well, and no_grad saves the graph's time."
ASIDE = "If they are not to train, all is well; else go on with the tensor, with its graph."
DRAWS = {"constant", "bernoulli", "normal", "poisson", "binomial"}


def without_gradient(trace: Trace) -> set[Leaf]:
    """Parameters that no gradient reached."""
    return {leaf for leaf in trace.parameters() if leaf not in trace.gradients and leaf not in trace.given}


@rule(130)
def cuts(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A finding for every cut that costs a parameter its gradient, the one nearest to the loss before those behind."""
    dead = without_gradient(trace) - explained
    if not dead or not (trace.backwards or trace.failed):
        return []
    extra = value_flow.edges(trace)
    begun = [leaf for leaf in trace.gradients if leaf.made is not None or leaf in extra]
    for leaf in begun:
        if leaf.made is not None:  # requires_grad was set on the result of an op without a graph
            extra.setdefault(leaf, []).append(leaf.made)
    roots: list[Ref] = [*_reached(trace), *begun, *(ref for ref, _ in trace.failed)]
    readers: dict[Ref, list[Row]] = {}
    for row in ancestors(roots, extra):
        if isinstance(row, Row):
            for ref in (*row.refs, *extra.get(row, ())):
                readers.setdefault(ref, []).append(row)
    wanted = [leaf for leaf in trace.leaves if leaf in dead and leaf not in explained]
    known = {leaf for leaf in dead if leaf in trace.optimized or leaf in trace.waiting}
    if trace.failed and known:
        wanted = [leaf for leaf in wanted if leaf in known]
    between = Between(trace, roots, extra, readers)
    return _told(trace, _blamed(trace, wanted, between, extra, readers), readers, explained)


def _told(trace: Trace, blamed: dict[Leaf, Blamed], readers: dict[Ref, list[Row]], explained: set[Leaf]) -> list[Found]:
    """A finding for each cut that is nearest to the loss, with those behind it."""
    groups: dict[Row, dict[Row, list[Leaf]]] = {}  # the nearest cut -> the one that costs the leaf -> leaves
    for leaf, by in sorted(blamed.items(), key=lambda pair: len(pair[1].before)):
        groups.setdefault(by.before[0] if by.before else by.cut, {}).setdefault(by.cut, []).append(leaf)
    found: dict[tuple[object, ...], _Cut] = {}
    for row in sorted(groups, key=lambda row: (discrete(row), row.number)):
        for cut, lost in list(groups[row].items()):
            if _left_out(trace, cut, lost):
                del groups[row][cut]
            explained.update(groups[row].get(cut, ()))
        if groups[row]:
            new = _Cut(trace, row, readers, groups[row])
            old = found.setdefault(new.key, new)
            if old is not new:
                old.add(new)
    return [cut.found() for cut in found.values()]


def _reached(trace: Trace) -> list[Row]:
    """What the gradients of backward() came through, and not those that were asked for by autograd.grad alone."""
    reached = [row for row in trace.rows if row.reached]
    if trace.chosen:
        own = ancestors(row for chain in trace.backwards for row in trace.roots.get(chain, ()))
        reached = [row for row in reached if row in own]
    return reached


def _blamed(
    trace: Trace, wanted: list[Leaf], anywhere: Between, extra: dict[Ref, list[Ref]], readers: dict[Ref, list[Row]]
) -> dict[Leaf, Blamed]:
    """The cut that each parameter lies behind: on the way to the loss after which its optimizer steps, if there is one
    on it, else to any."""
    own: dict[Chain, Between] = {}
    found = {}
    for leaf in wanted:
        chain = trace.steps.fed.get(leaf, ())
        if chain in trace.roots and chain not in own:
            own[chain] = Between(trace, trace.roots[chain], extra, readers)
        blamed = (own[chain].blame(leaf) if chain in own else None) or anywhere.blame(leaf)
        if blamed is not None:
            found[leaf] = blamed
    return found


def _left_out(trace: Trace, row: Row, lost: list[Leaf]) -> bool:
    """Whether what ran under no_grad is a frozen part: no optimizer holds it, or one that was given another's; or what
    is cut off is a target network."""
    if _meant(trace, lost) and (copies := copies_of_trained(trace)) and all(is_of(leaf, copies) for leaf in lost):
        return True
    always = trace.steps.idle_always
    others = any(leaf.module and leaf not in trace.optimized for leaf in trace.gradients)
    wrong = set(always[2]) if always is not None and others else set()
    return row.quiet and not trace.failed and (_meant(trace, lost) or wrong.issuperset(lost))


def _meant(trace: Trace, lost: list[Leaf]) -> bool:
    """Whether there are optimizers and none holds these parameters."""
    return bool(trace.optimized) and not any(leaf in trace.optimized for leaf in lost)


def _aside(trace: Trace, row: Row, readers: dict[Ref, list[Row]], lost: list[Leaf]) -> bool:
    """Whether a cell that makes no optimizer may leave these parameters out on purpose: they ran under no_grad, or
    their values are only what a loss compares others with."""
    if trace.optimized or trace.failed or any(leaf in trace.waiting for leaf in lost):
        return False
    if row.quiet:
        return True
    joins, seen, stack = [], {row}, [row]
    while stack:
        for after in readers.get(stack.pop(), ()):
            if after in seen:
                continue
            seen.add(after)
            if after.requires_grad:
                joins.append(after)
            else:
                stack.append(after)
    return bool(joins) and all(join.op in COMPARES for join in joins)


class _Cut:
    """A cut, what it costs, and the cuts behind it; those of one place and of the same words become one."""

    def __init__(self, trace: Trace, row: Row, readers: dict[Ref, list[Row]], groups: dict[Row, list[Leaf]]) -> None:
        self.trace = trace
        self.last, self.back = _way(row, readers)
        self.line, self.col, self.place, code = _spot(trace, row, self.last)
        self.own = groups.get(row, [])
        self.behind: dict[tuple[str, str], list[Leaf]] = {}
        self.rows = [row, *([self.last] if self.last is not row else []), *([self.back] if self.back else [])]
        for cut, lost in groups.items():
            if cut is not row:
                place, text = _spot(trace, cut, _way(cut, readers)[0])[2:]
                self.behind.setdefault((place, text), []).extend(lost)
                self.rows.append(cut)
        lost = self.own or [leaf for leaves in groups.values() for leaf in leaves]
        self.meant = _meant(trace, lost) or _aside(trace, row, readers, lost)
        self.severity = "error" if trace.failed else "note" if self.meant else "warning"
        self.done = _done(trace, row, self.last, self.place, self.line, code) + self._brought()
        self.key = (self.place, self.done, self.severity)
        self.remedy = (MEANT if trace.optimized else ASIDE) if self.meant else mended(trace, row, self.last, self.back)
        if not self.meant and (beside := straight_through(self.last, readers)):
            self.remedy = beside

    def add(self, other: _Cut) -> None:
        """Take in another of the same words: a loop over layers cuts at one place for each."""
        self.own.extend(other.own)
        self.rows.extend(other.rows)
        for spot, leaves in other.behind.items():
            self.behind.setdefault(spot, []).extend(leaves)

    def _brought(self) -> str:
        """In words: where the values come back."""
        if self.back is None:
            return ""
        made_anew = value_flow.brought(self.trace, self.last) if self.back.cut != "return" else None
        there = f"line {made_anew}" if made_anew is not None else where(self.trace, self.back.chain)[2]
        it = "it" if self.last.cut == "item" else "them"
        there = there if there != self.place else "the same line"
        if self.back.cut == "return" or made_anew is not None:
            return f", and {there} brings {it} back as a constant"
        return f", and {there} goes on with {it}"

    def found(self) -> Found:
        """The finding."""
        for row in self.rows:
            row.flags.add("cut")
        trace, leaves = self.trace, [*self.own, *(leaf for group in self.behind.values() for leaf in group)]
        named = self.own or leaves
        so = f"so {listed(named)} {verb(named, 'gets', 'get')} no gradient"
        spots = [f"{place} (`{code}`)" for place, code in self.behind]
        if self.behind and self.own:
            parts = [f"{spot} cuts off {listed(lost)}" for spot, lost in zip(spots, self.behind.values(), strict=True)]
            so += f", and behind it {listed(parts)}"
        elif self.behind:
            so += (
                f", and behind it {listed(spots)} {verb(spots, 'cuts', 'cut')} {verb(named, 'it', 'them')} off as well"
            )
        failed = f"; backward() on {where(trace, trace.failed[0][1])[2]} has nothing to do" if trace.failed else ""
        message = capital(f"{self.place} cuts the graph: {self.done}, {so}{failed}.")
        remedy = self.remedy
        if spots and not self.meant:
            remedy += f" Then mend {listed(list(dict.fromkeys(place for place, _ in self.behind)))} as well."
        return Found("cut", self.severity, self.line, self.col, message, remedy, self.rows, leaves)


def _spot(trace: Trace, row: Row, last: Row) -> tuple[int | None, int | None, str, str]:
    """Line, column and place of a cut, and its code."""
    line, col, place = where(trace, last.chain)
    code = code_of(trace, last)
    within = called_quietly(trace, row) if row.quiet and not last.cut else None
    if within is not None:  # what is called there is what somebody meant not to train, and its insides are blameless
        line, col, place = where(trace, within[0])
        code = trace.place(*within[0][0]).code or code
    return line, col, place, code


def _done(trace: Trace, row: Row, last: Row, place: str, line: int | None, code: str) -> str:
    """In words: what cuts the graph there."""
    if last.cut:
        return f"`{code}` {WAYS.get(last.cut, 'takes {x} off the graph').format(x=subject(code))}"
    if row.quiet:
        if (switch := grad_switch(trace, line)) is not None:
            return f"`{code}` runs under `{switch[1]}` (line {switch[0]}), which was False"
        within = called_quietly(trace, row)
        return f"`{code}` runs under no_grad" + (f" (line {within[1]})" if within and within[1] != line else "")
    if row.op in COMPARISONS:
        return f"`{code}` is a comparison, which has no gradient"
    return f"`{row.op}` in `{code}` has no gradient"


def _way(row: Row, readers: dict[Ref, list[Row]]) -> tuple[Row, Row | None]:
    """From the cut along values that stay outside: the last step out, and the op that brought them back."""
    last = row
    seen = {row}
    while True:
        after = [r for r in readers.get(last, ()) if r not in seen]
        step = next((r for r in after if r.cut and r.cut != "return"), None)
        if step is None:
            back = next((r for r in after if r.cut == "return"), None)
            if back is None and last.cut in ("item", "tolist", "numpy"):
                later = [r for r in after if r.number > last.number] or after
                back = min(later, key=lambda r: r.number, default=None)
            return last, back
        seen.add(step)
        last = step


@rule(140)
def drawn(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Draws from a distribution on the way to the loss: they pass gradients of exactly 0 on."""
    zero = {leaf for leaf, g in trace.gradients.items() if not g.max_abs and not g.nonfinite and leaf not in explained}
    draws: dict[Chain, tuple[list[Row], list[Leaf]]] = {}
    for row in trace.rows:
        if row.op not in DRAWS or not row.reached or not zero or row.phase != "forward":
            continue
        before = ancestors([row])
        lost = [leaf for leaf in trace.leaves if leaf in zero and leaf in before]
        zero.difference_update(lost)
        rows, leaves = draws.setdefault(row.chain, ([], []))
        rows.append(row)
        leaves.extend(lost)
    found = []
    for chain, (rows, leaves) in draws.items():
        if not leaves:
            continue
        explained.update(leaves)
        for row in rows:
            row.flags.add("cut")
        line, col, place = where(trace, chain)
        names = f"{listed(leaves)} {verb(leaves, 'gets a gradient', 'get gradients')} of exactly 0"
        code = code_of(trace, rows[0])
        message = capital(
            f"{place} cuts the graph: `{code}` draws at random, and no gradient passes a draw, so {names}."
        )
        remedy = "Draw noise beside the graph and compute with it: mean + std * torch.randn_like(std), gumbel_softmax."
        found.append(Found("cut", "warning", line, col, message, remedy, rows, leaves))
    return found


def indices_alone(trace: Trace, row: Row, lost: list[Leaf], failed: str = "") -> Found:
    """Of an op's results only the one that has no gradient goes on: the indices of a sort, of topk, of max."""
    line, col, place = where(trace, row.chain)
    row.flags.add("cut")
    message = capital(
        f"{place} cuts the graph: of `{code_of(trace, row)}` only what has no gradient (indices, or a comparison) goes "
        f"on to the loss, so {listed(lost)} {verb(lost, 'gets', 'get')} no gradient{failed}."
    )
    remedy = "Go on with its values, which have a gradient: weigh by them what the indices choose."
    return Found("cut", "error" if failed else "warning", line, col, message, remedy, [row], lost)


@rule(160)
def nothing_to_do(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """backward() on something that no parameter led to, where no cut explains it."""
    found = []
    for ref, chain in trace.failed:
        before = ancestors([ref])
        if any(isinstance(r, Row) and "cut" in r.flags for r in before) or any(leaf in explained for leaf in before):
            continue
        if explained:
            continue
        if (gone := _numbers(trace, before)) is not None:
            found += gone
            continue
        if chosen := _indices(trace, before):
            found += chosen
            continue
        line, col, place = where(trace, chain)
        if isinstance(ref, Row) and ref.requires_grad:  # it had a graph in an earlier iteration
            found.append(_switched_off(trace, ref, line, col, place))
            continue
        ends = [r for r in before if isinstance(r, Row) and r.requires_grad and not r.view]
        lost = [r for r in before if isinstance(r, Leaf) and r.requires_grad and r.kind == "parameter"]
        if ends and lost:
            end = max(ends, key=lambda r: r.number)
            found.append(indices_alone(trace, end, lost, f"; backward() on {place} has nothing to do"))
            continue
        quiet = [r for r in before if isinstance(r, Row) and r.quiet]
        leaves = [r for r in before if isinstance(r, Leaf) and r.name and not r.name.startswith("unnamed")]
        leaves.sort(key=lambda r: not r.module)  # the module's parameters before the data
        why = "nothing that led to it has requires_grad=True"
        frozen = [r for r in leaves if r.module and not r.requires_grad]
        if quiet and any(isinstance(n, ast.Expr) and _switches_off(n.value) for n in trace.nodes()):
            found.append(_switched_off(trace, ref, line, col, place))
            continue
        if quiet:
            why = f"{where(trace, min(quiet, key=lambda r: r.number).chain)[2]} ran under no_grad"
        elif any(r.requires_grad for r in leaves):
            found.append(_switched_off(trace, ref, line, col, place))
            continue
        elif frozen and (at := freezing(trace)) is not None:
            why = f"line {at} has set requires_grad=False for all that led to it ({listed(frozen)})"
        elif (first := derivative_without_graph(trace, leaves)) is not None:
            found.append(_derived(first, line, col, place))
            continue
        elif leaves:
            why += f" (it was computed from {listed(leaves)})"
            readers = trace.consumers()
            aside = [r for r in trace.rows if r.requires_grad and r not in readers and r not in before and not r.cut]
            if aside:
                row = aside[-1]
                why = f"it was computed from {listed(leaves)} alone, and what the model gives, `{code_of(trace, row)}` "
                why += f"({where(trace, row.chain)[2]}), is not in it"
        message = capital(f"{place} calls backward() on a value that has no graph: {why}.")
        remedy = "Leave no_grad before the forward pass." if quiet else "Make what is trained with requires_grad=True."
        if frozen and not quiet:
            remedy = "Freeze only what shall stay as it is: requires_grad_(True) for the layers that train, after that."
        if "is not in it" in why:
            remedy = "Compute the loss from the model's output: loss(output, target)."
        found.append(Found("no-gradient", "error", line, col, message, remedy, quiet[:1], []))
    return found


def _derived(first: tuple[str, Place, ast.Call, ast.Call], line: int | None, col: int | None, place: str) -> Found:
    """A derivative that was taken without a graph of its own, and is derived again."""
    name, at, call, to_change = first
    message = capital(
        f"{place} goes back through a value that has no graph: {name} is a derivative that {at.words} takes "
        f"(`{ast.unparse(call)}`), and without create_graph=True it is a constant, which has no derivative of its own."
    )
    remedy = f"Keep a graph of the first derivative: {with_graph(to_change)}."
    return Found("no-gradient", "error", line, col, message, remedy, [], [])


def _numbers(trace: Trace, before: Collection[Ref]) -> list[Found] | None:
    """The first value that Python took as a number, where backward() is called on a tensor made of nothing else."""
    if any(isinstance(r, Row) for r in before):
        return None
    readers = trace.consumers()
    for row in trace.rows:
        if row.cut in ("item", "tolist", "numpy") and not readers.get(row):
            between = Between(trace, [row], {}, readers)
            wanted = [leaf for leaf in trace.parameters() if leaf in ancestors([row])]
            if blamed := {leaf: by for leaf in wanted if (by := between.blame(leaf)) is not None}:
                return _told(trace, blamed, readers, set())
    return None


def _indices(trace: Trace, before: Collection[Ref]) -> list[Found]:
    """The first result of an argmax that picks rows of a constant, where backward() is called on nothing else: core's
    ops take indices as arrays, of which the recording knows the shape alone."""
    readers = trace.consumers()
    picks = [r for r in before if isinstance(r, Row) and r.op in ("index", "getitem")]
    wanted = [leaf for leaf in trace.leaves if leaf.requires_grad and leaf.kind == "parameter"]
    blamed: dict[Leaf, Blamed] = {}
    for row in trace.rows:
        if row.op != "argmax" or row.requires_grad or readers.get(row):
            continue
        last = max((pick.number for pick in picks if any(
            isinstance(ref, Leaf) and ref.dtype == row.dtype and ref.shape == row.shape for ref in pick.refs[1:]
        )), default=0)  # fmt: skip
        if last > row.number:
            behind = ancestors([row])
            blamed.update((leaf, Blamed(row)) for leaf in wanted if leaf in behind and leaf not in blamed)
    return _told(trace, blamed, readers, set())


def _switched_off(trace: Trace, ref: Ref, line: int | None, col: int | None, place: str) -> Found:
    """Gradients were off for all that followed."""
    made = where(trace, ref.chain)[2] if isinstance(ref, Row) else "the line before"
    by = ""
    for call in (n for n in trace.nodes() if isinstance(n, ast.Call)):
        if _switches_off(call):
            by = f", since `{ast.unparse(call)}` on line {call.lineno}"
    message = capital(f"{place} calls backward() on a value that has no graph: gradients were off when {made} ran{by}.")
    remedy = "Use `with torch.no_grad():` for what shall have no graph: it ends with its block."
    return Found("no-gradient", "error", line, col, message, remedy, [ref] if isinstance(ref, Row) else [], [])


def _switches_off(node: ast.expr) -> bool:
    """Whether it is ``torch.set_grad_enabled(False)``."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("set_grad_enabled"):
        return False
    given = node.args[0] if node.args else None
    return isinstance(given, ast.Constant) and not given.value


def freezing(trace: Trace) -> int | None:
    """The last line on which the cell sets requires_grad to False."""
    found = [0]
    for node in trace.nodes():
        off: ast.expr | None = None
        if isinstance(node, ast.Assign) and any(getattr(t, "attr", "") == "requires_grad" for t in node.targets):
            off = node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "requires_grad_" and node.args:
            off = node.args[0]
        if isinstance(off, ast.Constant) and off.value is False:
            found.append(node.lineno)  # type: ignore[attr-defined]
    return max(found) or None
