"""Settings of layers that other libraries mean the other way round."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.scope import Scope
from ..reading.sources import Function, called, sources

NORMS = re.compile(r"^(Lazy)?(BatchNorm|InstanceNorm)[123]d$|^SyncBatchNorm$|^batch_norm$")
DROPS = re.compile(r"^(Feature)?(Alpha)?Dropout[123]?d?$|^dropout[123]?d?$")
NEAR = 0.1  # by which the share of zeros may be below that which is dropped
KEEP = re.compile(r"keep|retain", re.I)
MOST = 0.9  # share of a new batch in stored averages from which they are those of the last few batches


@text_rule(704, earlier=True)
def averages_of_the_last_batch(scope: Scope) -> Iterator[Found]:
    """``nn.BatchNorm2d(64, momentum=0.99)``: here that is the share of the new batch, not of the old average."""
    flow = scope.flow
    for node in flow.nodes:
        if not NORMS.match(called(node)) or not isinstance(node, ast.Call) or _users_own(scope, node):
            continue
        given = next((k.value for k in node.keywords if k.arg == "momentum"), None)
        given = node.args[2] if given is None and len(node.args) > 2 and called(node) != "batch_norm" else given
        momentum = flow.setting(given) if given is not None else None
        if momentum is None or not MOST <= momentum < 1:
            continue
        message = (
            f"gives {called(node)} momentum={momentum:g}, which is the share of the new batch in its "
            "stored averages, and not that of the old ones: evaluation goes by the last batch or two."
        )
        remedy = f"Say momentum={1 - momentum:.2g}, which keeps {momentum:g} of the old averages."
        yield scope.tell(node, "mode", message, remedy)


def _users_own(scope: Scope, call: ast.Call) -> bool:
    """Whether a call is of a function or class of the user's, whose momentum is what they make of it."""
    name = called(call)
    kinds = (n for source in sources(scope.trace) for n in source.nodes if isinstance(n, Function | ast.ClassDef))
    return isinstance(call.func, ast.Name) and any(kind.name == name for kind in kinds)


@text_rule(705, earlier=True)
def share_to_keep(scope: Scope) -> Iterator[Found]:
    """``nn.Dropout(keep_prob)``: here p is the share that is dropped."""
    flow = scope.flow
    for node in flow.nodes:
        if not DROPS.match(called(node)) or not isinstance(node, ast.Call):
            continue
        place_of = 1 if called(node)[0].islower() else 0
        given = next((k.value for k in node.keywords if k.arg == "p"), None)
        given = node.args[place_of] if given is None and len(node.args) > place_of else given
        if given is None:
            continue
        words = ast.unparse(given)
        share = flow.setting(given)
        kept = KEEP.search(words) and "-" not in words and (share is None or share >= 0.5)
        if not kept:
            continue
        message = (
            f"drops what is to be kept (`{ast.unparse(node)}`): the argument is the share that is "
            "dropped, and not the share that is kept."
        )
        remedy = f"Say {called(node)}({'1 - ' + words if share is None else f'{1 - share:.2g}'})."
        rows = [row for row in scope.trace.rows if "dropout" in row.op and row.stats is not None
                and share is not None and row.stats.zeros > share - NEAR]  # fmt: skip
        yield scope.tell(node, "mode", message, remedy, rows=rows[:1])
