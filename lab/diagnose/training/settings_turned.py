"""Settings of layers that other libraries mean the other way round."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.expressions import flow_of
from ..reading.sources import called, sources

NORMS = re.compile(r"^(Lazy)?(BatchNorm|InstanceNorm)[123]d$|^SyncBatchNorm$|^batch_norm$")
DROPS = re.compile(r"^(Feature)?(Alpha)?Dropout[123]?d?$|^dropout[123]?d?$")
KEEP = re.compile(r"keep|retain", re.I)
MOST = 0.9  # share of a new batch in stored averages from which they are those of the last few batches


@rule(704)
def averages_of_the_last_batch(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``nn.BatchNorm2d(64, momentum=0.99)``: here that is the share of the new batch, not of the old average."""
    for source in sources(trace):
        for scope in source.scopes(earlier=True):
            flow = flow_of(source, scope)
            for node in flow.nodes:
                if not NORMS.match(called(node)) or not isinstance(node, ast.Call):
                    continue
                given = next((k.value for k in node.keywords if k.arg == "momentum"), None)
                given = node.args[2] if given is None and len(node.args) > 2 and called(node) != "batch_norm" else given
                momentum = flow.number(given) if given is not None else None
                if momentum is None or not MOST <= momentum < 1:
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} gives {called(node)} momentum={momentum:g}, which is the share of the new batch in its "
                    "stored averages, and not that of the old ones: evaluation goes by the last batch or two."
                )
                remedy = f"Say momentum={1 - momentum:.2g}, which keeps {momentum:g} of the old averages."
                return [Found("mode", "warning", line, col, message, remedy)]
    return []


@rule(705)
def share_to_keep(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``nn.Dropout(keep_prob)``: here p is the share that is dropped."""
    for source in sources(trace):
        for scope in source.scopes(earlier=True):
            flow = flow_of(source, scope)
            for node in flow.nodes:
                if not DROPS.match(called(node)) or not isinstance(node, ast.Call):
                    continue
                place_of = 1 if called(node)[0].islower() else 0
                given = next((k.value for k in node.keywords if k.arg == "p"), None)
                given = node.args[place_of] if given is None and len(node.args) > place_of else given
                if given is None:
                    continue
                words = ast.unparse(given)
                share = flow.number(given)
                kept = KEEP.search(words) and "-" not in words and (share is None or share >= 0.5)
                if not kept:
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} drops what is to be kept (`{ast.unparse(node)}`): the argument is the share that is "
                    "dropped, and not the share that is kept."
                )
                remedy = f"Say {called(node)}({'1 - ' + words if share is None else f'{1 - share:.2g}'})."
                return [Found("mode", "warning", line, col, message, remedy)]
    return []
