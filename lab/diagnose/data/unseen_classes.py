"""Classes that a model is judged by and that no training sample had: the set is sorted, and split by position."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Row, Trace
from ...recorder.value_facts import RUNS, choice_of
from ..finding import Found, capital, listed, where
from ..order import rule
from ..reading.sources import Place, assigned, called, own_nodes, sources
from .held_out import rows_of, splits_in

EXPECTED = 20  # targets of a class that training would have had, were its samples drawn as those that judge it
SHARE = 0.1  # of the targets from which classes are worth a word

DRAWN = re.compile(r"perm|shuf|choice|sample", re.I)


@rule(554)
def never_trained(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Targets of an evaluation whose classes were no target of a loss that trained."""
    counted = trace.values.targets if trace.values is not None else {}
    trains: dict[int, int] = {}
    losses = [row for row in counted if row.requires_grad]
    for row in losses:
        for number, count in counted[row].items():
            trains[number] = trains.get(number, 0) + count
    if trace.error is not None or trace.steps.unseen or len(trains) < 2 or any(row.count > RUNS for row in losses):
        return []
    scores = {_scores(row) for row in losses}
    for row, counts in counted.items():
        if row.requires_grad or len(scores) != 1 or _scores(row) not in scores:
            continue
        total, known = sum(counts.values()), sum(trains.values())
        strange = {n: count for n, count in counts.items() if n not in trains and count * known >= EXPECTED * total}
        if sum(strange.values()) < SHARE * total:
            continue
        line, col, place = where(trace, row.chain)
        share = 100 * sum(strange.values()) / total
        says = (
            f"judges the model by classes that it has never been trained on: {share:.0f} % of the {total:,} targets "
            f"are of {_classes(sorted(strange))}, and of the {known:,} targets of the losses none was"
        )
        split = _split(trace)
        if split is not None:
            line, col = split.line, split.col
            message = f"{split.words} splits the samples by their position, and they stand in order: {place} {says}."
        else:
            message = f"{place} {says}."
        remedy = "Shuffle before the split: order = torch.randperm(n), whose first part trains and whose rest judges."
        return [Found("evaluation", "warning", line, col, capital(message), remedy, [row])]
    return []


def _classes(numbers: list[int]) -> str:
    return f"class {numbers[0]}" if len(numbers) == 1 else f"the classes {listed([str(n) for n in numbers])}"


def _scores(row: Row) -> int:
    """How many classes a loss, or the choice that a comparison reads, tells apart; 0 where nobody knows."""
    chosen = next((choice for ref in row.refs if (choice := choice_of(ref)) is not None), row)
    shape = chosen.refs[0].shape if chosen.refs else ()
    return shape[1] if len(shape) > 1 else 0


def _split(trace: Trace) -> Place | None:
    """Where samples are split by their position: ``Subset(data, range(n))``, or two slices with one end."""
    for source in sources(trace):
        for scope in source.scopes(earlier=True):
            nodes = list(own_nodes(scope))
            for node in nodes:
                given = node.args[1:2] if isinstance(node, ast.Call) and called(node) == "Subset" else []
                if given and "range" in ast.unparse(given[0]):
                    return source.place(node)
            pairs = list(assigned(nodes))
            drawn = {pair.name for pair in pairs if DRAWN.search(ast.unparse(pair.value))}
            for name, split in splits_in(nodes, pairs).items():
                if isinstance(rows_of(split.node), ast.Slice) and name not in drawn:
                    return source.place(split.node)
    return None
