"""Sequences that are read along another dimension or to another end: a state carried over to strangers, the last step
of a padded sequence, a batch in the place of time, the encoding of a position that is another one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.expressions import Flow
from ..reading.loaders import fetched_at
from ..reading.scope import flow_around
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

RECURRENT = {"GRU", "LSTM", "RNN"}
BATCH_FIRST = RECURRENT | {"TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer",
                           "MultiheadAttention"}  # fmt: skip
STATE = re.compile(r"^(h|c|hc|hx|cx|hid|hidden|states?|memory|mem|h_?[nt0]|c_?[nt0]|rnn_state|hidden_states?)$", re.I)
_LENGTH = re.compile(r"len|dur|size|count", re.I)
ORDERS = {"randperm", "permutation"}
LENGTHS = re.compile(r"^(x_|seq_|src_|text_|batch_|input_)?(lens?|lengths?)$|^(seq|text|src)lens?$", re.I)


@rule(541)
def state_of_strangers(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``pred, h = net(x, h)`` in a loop over a loader that shuffles: each batch begins where other sequences ended."""
    if not trace.steps.count:
        return []
    found = sources(trace)
    named = {name for source in found for name in _shuffled(source)}
    ran = {fetched_at(trace, chain) for chain, fetched in trace.fetched.items() if fetched.shuffled}
    for source in found:
        for scope in source.scopes():
            for loop in (n for n in own_nodes(scope) if isinstance(n, ast.For)):
                over = names_in(loop.iter) | {n.attr for n in ast.walk(loop.iter) if isinstance(n, ast.Attribute)}
                drawn = any(called(n) in ORDERS for n in ast.walk(loop.iter))
                if not named & over and (source.name, loop.lineno) not in ran and not drawn:
                    continue
                inside = [n for s in loop.body for n in ast.walk(s)]
                if not any(called(n) == "backward" for n in inside):
                    continue
                carried = next((c for n in inside if (c := _carried(source, n, loop)) is not None), None)
                if carried is None or any(_anew(n, carried[0]) for n in inside):
                    continue
                name, node = carried
                line, col, place = source.place(node)
                message = capital(
                    f"{place} begins each batch with the state in which the one before ended (`{ast.unparse(node)}`), "
                    f"and `{ast.unparse(loop.iter)}` shuffles ({source.place(loop).words}): {name} is the memory of "
                    "other sequences, which have nothing to do with those that it is given to."
                )
                remedy = f"Begin each batch anew: {name} = None in the loop over batches; or do not shuffle."
                proof = "the loader shuffled" if (source.name, loop.lineno) in ran else ""
                return [Found("data", "warning", line, col, message, remedy, proof=proof)]
    return []


def _shuffled(source: Source) -> Iterator[str]:
    """Yield the names of loaders that draw an order."""
    for node in source.nodes:
        given = node.value if isinstance(node, ast.Assign) and called(node.value) == "DataLoader" else None
        keywords = given.keywords if isinstance(given, ast.Call) else []
        if any(k.arg == "shuffle" and getattr(k.value, "value", False) is True for k in keywords):
            names = (getattr(t, "attr", getattr(t, "id", "")) for t in node.targets)  # type: ignore[attr-defined]
            yield from (str(name) for name in names if name)


def _carried(source: Source, node: ast.AST, loop: ast.For) -> tuple[str, ast.Assign] | None:
    """The state that a statement hands to a model and takes from it again, right in this loop."""
    if (
        not isinstance(node, ast.Assign)
        or not isinstance(node.value, ast.Call)
        or not isinstance(node.targets[0], ast.Tuple)
    ):
        return None
    inner = next((a for a in source.around(node) if isinstance(a, ast.For | ast.While)), None)
    bound = {n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)}
    read = {
        n.id
        for a in (*node.value.args, *(k.value for k in node.value.keywords))
        for n in ast.walk(a)
        if isinstance(n, ast.Name)
    }
    both = [name for name in bound & read if STATE.match(name)]
    return (both[0], node) if both and inner is loop else None


def _anew(node: ast.AST, name: str) -> bool:
    """Whether a statement gives a state a value that is not made of it."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.For) else []
    bound = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    if name in bound:
        return name not in names_in(node.value if isinstance(node, ast.Assign) else node.iter)  # type: ignore[attr-defined]
    return isinstance(node, ast.Call) and called(node) in ("zero_", "fill_", "copy_") and name in names_in(node.func)


@rule(439)
def last_of_padding(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``def forward(self, x, lengths): ... out[:, -1]``: of all sequences but the longest that is padding."""
    found = sources(trace)
    packed = any(called(n) == "pack_padded_sequence" for s in found for n in s.nodes)
    filled = [(s, n) for s in found for n in s.nodes if called(n) == "pad_sequence" and "left" not in ast.unparse(n)]
    for source in found if not packed else ():
        layers = _layers(source, RECURRENT)
        for scope in (n for n in source.nodes if isinstance(n, Function)):
            nodes = list(own_nodes(scope))
            lengths = next((a.arg for a in scope.args.args if LENGTHS.match(a.arg)), None)
            if any(LENGTHS.match(n.id) for n in nodes if isinstance(n, ast.Name)) or (lengths is None and not filled):
                continue
            if any(called(n) in ("flip", "gather") for n in nodes) or any("mask" in name for name in names_in(scope)):
                continue
            lasts = [
                (n, layer)
                for out, layer, first in _outputs(nodes, layers)
                for n in nodes
                if isinstance(n, ast.Subscript) and _plain(n) == (f"{out}[:, -1]" if first else f"{out}[-1]")
            ]
            for last, layer in [*lasts, *_finals(nodes, layers)][:1]:
                line, col, place = source.place(last)
                why = (
                    f"{lengths} is read nowhere"
                    if lengths
                    else f"{filled[0][0].place(filled[0][1]).words} fills them up"
                )
                message = capital(
                    f"{place} takes the last step of sequences of several lengths (`{ast.unparse(last)}`; {why}): of "
                    f"all but the longest it stands behind padding, which {layer} has read on over."
                )
                remedy = "Take each sequence's own last step: out[torch.arange(len(x)), lengths - 1]; or "
                remedy += "pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False) before the layer."
                sure = lengths is not None or (last, layer) in lasts
                return [Found("layout", "warning" if sure else "note", line, col, message, remedy)]
    return []


def _plain(node: ast.AST) -> str:
    """The text of a part, whole dimensions behind aside."""
    return re.sub(r"(, :)+\]$", "]", ast.unparse(node))


def _finals(nodes: list[ast.AST], layers: dict[str, bool]) -> Iterator[tuple[ast.AST, str]]:
    """Yield where the final state of a layer is read, of the forward direction or of several layers."""
    for node in nodes:
        if (
            not isinstance(node, ast.Assign)
            or not isinstance(node.value, ast.Call)
            or not isinstance(node.targets[0], ast.Tuple)
        ):
            continue
        layer, parts = ast.unparse(node.value.func), node.targets[0].elts
        state = parts[1] if len(parts) == 2 else None
        state = state.elts[0] if isinstance(state, ast.Tuple) and state.elts else state
        if layer not in layers or not isinstance(state, ast.Name):
            continue
        for use in nodes:
            part = isinstance(use, ast.Subscript) or called(use) == "squeeze"
            if part and ast.unparse(use) in (f"{state.id}[-1]", f"{state.id}[0]", f"{state.id}.squeeze(0)"):
                yield use, layer


def _layers(source: Source, kinds: set[str]) -> dict[str, bool]:
    """The names of layers of some kinds, each with whether it takes the batch first."""
    found: dict[str, bool] = {}
    for node in source.nodes:
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = zip(target.elts, value.elts, strict=False) if several else [(target, value)]  # type: ignore[attr-defined]
        for name, made in pairs:
            if called(made) in kinds:
                inner = [n for n in ast.walk(made) if isinstance(n, ast.Call)]
                given = {k.arg: getattr(k.value, "value", None) for n in inner for k in n.keywords}
                found[ast.unparse(name)] = given.get("batch_first") is True
    return found


def _outputs(nodes: list[ast.AST], layers: dict[str, bool]) -> Iterator[tuple[str, str, bool]]:
    """Yield the variables that hold the outputs of layers, with the layer and whether it takes the batch first."""
    for node in nodes:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Subscript) and ast.unparse(value.slice) == "0":
            value = value.value
        if isinstance(node, ast.Assign) and isinstance(value, ast.Call):
            layer, target = ast.unparse(value.func), node.targets[0]
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            if layer in layers and isinstance(first, ast.Name):
                yield first.id, layer, layers[layer]


@rule(441)
def batch_as_time(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``self.lstm = LSTM(..., batch_first=True)``, ``self.lstm(x.permute(1, 0, 2))`` and ``out[-1]``."""
    for source in sources(trace):
        layers: dict[str, bool] = {name: first for name, first in _layers(source, BATCH_FIRST).items() if first}
        for scope in (n for n in source.nodes if isinstance(n, Function) and layers):
            nodes = list(own_nodes(scope))
            moved = [n for n in nodes if _second_is_batch(n)]
            for out, layer, _ in _outputs(nodes, layers):
                call = next(n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == layer)
                before = [n for n in moved if n.lineno <= call.lineno]  # type: ignore[attr-defined]
                given = ast.unparse(call.args[0]) if call.args else ""
                turned = next((n for n in before if n in set(ast.walk(call)) or _gives(source, n) == given), None)
                taken = next((n for n in nodes if _along_zero(n, out) and n.lineno >= call.lineno), None)  # type: ignore[attr-defined]
                if turned is None or taken is None:
                    continue
                line, col, place = source.place(turned)
                message = capital(
                    f"{place} brings the input of {layer} into the order (time, batch, ...) (`{ast.unparse(turned)}`), "
                    f"and {layer} has batch_first=True: it takes time for the samples and runs along the batch, so "
                    f"samples are mixed and time steps never meet (`{ast.unparse(taken)}`, "
                    f"{source.place(taken).words}, is right for the order without)."
                )
                remedy = "Leave the permutation out and take what you need from dimension 1; or batch_first=True."
                return [Found("layout", "warning", line, col, message, remedy)]
    return []


def _second_is_batch(node: ast.AST) -> bool:
    """Whether a call moves dimension 0 to the second place."""
    if not isinstance(node, ast.Call):
        return False
    text = [ast.unparse(a) for a in node.args if isinstance(a, ast.Constant | ast.UnaryOp)]
    if called(node) == "permute":
        return len(text) == 3 and text[1] == "0"
    return called(node) in ("transpose", "swapaxes") and sorted(text) == ["0", "1"]


def _gives(source: Source, node: ast.AST) -> str:
    """The variable that a statement around an expression gives a value."""
    above = next((a for a in source.around(node) if isinstance(a, ast.stmt)), None)
    return ast.unparse(above.targets[0]) if isinstance(above, ast.Assign) else ""


def _along_zero(node: ast.AST, name: str) -> bool:
    """Whether an expression takes one of, or the mean over, dimension 0 of a variable."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
        return ast.unparse(node.slice) in ("-1", "0")
    if (
        isinstance(node, ast.Call)
        and called(node) in ("mean", "sum", "max", "amax")
        and isinstance(node.func, ast.Attribute)
    ):
        given = [ast.unparse(a) for a in node.args] + [ast.unparse(k.value) for k in node.keywords if k.arg == "dim"]
        return ast.unparse(node.func.value) == name and given[:1] == ["0"]
    return False


@rule(451)
def one_position_for_all(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x + self.pe[:, x.size(1)]``: the encoding of one position, and not of the first so many."""
    for source in sources(trace):
        first = any(any(k.arg == "batch_first" and getattr(k.value, "value", 0) is True for k in n.keywords)
                    for n in source.nodes if isinstance(n, ast.Call))  # fmt: skip
        for call in source.calls.get("arange", ()) if first else ():
            if (column := _counts_samples(source, call)) is not None and not _turns(source, call):
                line, col, place = source.place(call)
                said = (
                    f"numbers the samples of a batch and not the tokens (`{ast.unparse(column)}`): with "
                    "batch_first=True dimension 0 is the batch, so all tokens of a sequence get the same position."
                )
                remedy = "Count the tokens: torch.arange(x.size(1)).unsqueeze(0)."
                return [Found("layout", "warning", line, col, capital(f"{place} {said}"), remedy)]
        for node in source.nodes:
            if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, ast.Add):
                continue
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            table = next((p for side in sides for p in ast.walk(side) if _positions(p)), None)
            flow = flow_around(source, node)
            if table is None:
                table = next((p for side in sides if (p := _row_of_the_size(flow, side)) is not None), None)
            if not isinstance(table, ast.Subscript):
                continue
            index = list(table.slice.elts) if isinstance(table.slice, ast.Tuple) else [table.slice]
            while len(index) > 1 and ast.unparse(index[-1]) == ":":
                index.pop()
            one = next((i for i in index if _size(flow.inner(i)) is not None), None)
            if one is not None:
                said = (
                    f"adds the encoding of one position to all (`{ast.unparse(table)}`): an index takes row "
                    f"{ast.unparse(one)} alone, so the tokens have no order."
                )
                first_many = ast.unparse(table).replace(ast.unparse(one), f":{ast.unparse(one)}", 1)
                remedy = f"Take a slice, the first so many: {first_many}."
            elif first and len(index) == 1 and isinstance(index[0], ast.Slice) and index[0].upper is not None:
                if _size(index[0].upper) != "0" or not _column(source, table) or _turns(source, node):
                    continue
                said = (
                    f"numbers the samples of a batch and not the tokens (`{ast.unparse(table)}`): the encoding is of "
                    "(positions, 1, features), for (time, batch, features), and batch_first=True puts the batch first."
                )
                remedy = "Keep it as (1, positions, features) and add self.pe[:, :x.size(1)]."
            else:
                continue
            line, col, place = source.place(table)
            return [Found("layout", "warning", line, col, capital(f"{place} {said}"), remedy)]
    return []


def _positions(node: ast.AST) -> bool:
    """Whether it is a part of a table of positions: ``self.pe[...]``."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
        return False
    return (
        re.fullmatch(
            r"(pe|pos_?enc\w*|pos_?emb\w*|positional_\w+|position_\w+|pos_table|encodings?)", node.value.attr, re.I
        )
        is not None
    )


def _counts_samples(source: Source, node: ast.Call) -> ast.expr | None:
    """Return a column of numbers from 0 to the size of a batch that a table of positions is asked for:
    ``self.pos(torch.arange(x.size(0)).unsqueeze(1))``."""
    column = next((a for a in source.around(node) if called(a) == "unsqueeze"), None)
    flow = flow_around(source, node)
    if not isinstance(column, ast.Call) or [ast.unparse(a) for a in column.args] != ["1"] or not node.args:
        return None
    if _size(flow.inner(node.args[0])) != "0":
        return None
    for call in (n for n in flow.nodes if isinstance(n, ast.Call) and len(n.args) == 1):
        table = ast.unparse(call.func)
        added = isinstance(source.parents.get(call), ast.BinOp) or re.search(r"pos", table, re.I)
        if table.startswith("self.") and added and flow.inner(call.args[0]) is column:
            return column
    return None


def _row_of_the_size(flow: Flow, node: ast.expr) -> ast.Subscript | None:
    """Return the row of a table of the model's that has the number of the tokens, ``self.table[x.size(1)]``: it may be
    one of their lengths only by its name."""
    part = flow.inner(node)
    if (
        not isinstance(part, ast.Subscript)
        or not isinstance(part.value, ast.Attribute)
        or _LENGTH.search(part.value.attr)
    ):
        return None
    index = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
    return part if any(_size(flow.inner(i)) == "1" for i in index) else None


def _size(node: ast.expr) -> str | None:
    """Of which dimension an expression is the size: ``x.size(1)``, ``x.shape[1]``."""
    if isinstance(node, ast.Call) and called(node) == "size" and len(node.args) == 1:
        return ast.unparse(node.args[0])
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return ast.unparse(node.slice)
    return None


def _column(source: Source, table: ast.Subscript) -> bool:
    """Whether a table of positions is kept as (positions, 1, features)."""
    text = source.text
    name = table.value.attr if isinstance(table.value, ast.Attribute) else ""
    return (
        name in text
        and re.search(r"unsqueeze\(0\)\.transpose\(0, 1\)|unsqueeze\(1\)|zeros\(\w+, 1, \w+\)", text) is not None
    )


def _turns(source: Source, node: ast.AST) -> bool:
    """Whether the method around a node, or one that calls it, brings the input into another order."""
    return (
        re.search(r"\.(transpose|permute|swapaxes)\(", source.text.replace("unsqueeze(0).transpose(0, 1)", ""))
        is not None
    )
