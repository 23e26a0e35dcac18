"""Padding, masks and class numbers that are read as data: a mean over what fills sequences up, vectors of padding that
are no zeros, a class that the loss leaves out, class numbers that were blended or cut to 0."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..losses.losses import DIFFERENCES, EACH
from ..order import rule
from ..reading.calls import given, name_of, speaks
from ..reading.scope import calls, flow_around, tell, unpacked
from ..reading.sources import Function, Source, called, names_in
from ..training.start_values import _range

PADDED = 0.1  # share of padding from which a mean over it is said
HIDES = {"mul", "masked_fill", "masked_fill_", "where", "index", "gather", "take_along_dim", "embedding_bag", "getitem",
         "scaled_dot_product_attention", "multi_head_attention_forward", "index_select"}  # fmt: skip
BLENDS = {"bilinear", "bicubic", "linear", "trilinear", "area"}
MASKS = re.compile(r"mask|label|seg|target|annot|(^|_)(gt|y|tgt)(_|\d|$)", re.I)
SAME = {"view", "reshape", "cast", "select", "slice", "index", "getitem", "stack", "cat", "squeeze", "unsqueeze",
        "copy", "flatten", "to", "float", "double"}  # fmt: skip


@rule(521)
def averaged_over_padding(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``emb(ids).mean(1)`` of sequences that are filled up: short ones are mostly the mean of padding."""
    filled = {row: told for row, told in trace.values.filled.items() if told[1] >= PADDED}
    for row in trace.rows if filled else ():
        if not row.reached or not row.refs or len(row.refs[0].shape) != 3 or len(row.shape) != 2:
            continue
        if row.op != "mean" and not (row.op == "sum" and _divided(trace, row)):
            continue
        before = tuple(row.refs[0].shape)
        if row.shape != (before[0], before[2]):
            continue
        above = ancestors([row.refs[0]])
        source = next((e for e in filled if e in above and tuple(e.shape[:2]) == before[:2]), None)
        if source is None:
            continue
        before_it = ancestors([source])  # how the batch was picked hides nothing
        if any(isinstance(r, Row) and _hides(trace, r) for r in above if r not in before_it):
            continue
        number, share = filled[source]
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} takes the mean over all places of the sequences (`{code_of(trace, row)}`): {share:.0%} of them "
            f"are padding ({number}), so what a short sequence says is mixed with nothing and divided by the full "
            "length."
        )
        remedy = f"Leave it out: m = (ids != {number})[..., None]; (h * m).sum(1) / m.sum(1)."
        return [Found("layout", "note", line, col, message, remedy, [row])]
    return []


def _hides(trace: Trace, row: Row) -> bool:
    """Whether an op may leave out the padding: a product with a mask of places, an attention with one, an index."""
    if row.op == "mul":
        masks = [r for r in row.refs if not r.requires_grad and len(r.shape) > 1]
        return any(len(r.shape) < len(row.shape) or r.shape[-1] == 1 for r in masks)
    return row.op in HIDES and trace.values.masked.get(row, True)


def _divided(trace: Trace, row: Row) -> bool:
    """Whether a sum over the places is divided by how many there are."""
    after = [r for r in trace.consumers().get(row, ()) if r.reached]
    code = code_of(trace, after[0]) if len(after) == 1 and after[0].op == "div" and len(after[0].refs) == 1 else ""
    return re.search(r"size\(-?\d\)|shape\[-?\d\]|len\(", code) is not None


@rule(522, proof="padding_idx sets its row to 0 only where the layer is made")
def padding_overwritten(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``nn.Embedding(n, d, padding_idx=0)`` and ``init.normal_(emb.weight)``: the vector of the padding is 0 no
    more."""
    for source, made in calls(trace, "Embedding"):
        pad = given(made, "padding_idx", 2)
        above = source.parents.get(made)
        if pad is None or ast.unparse(pad) == "None" or not isinstance(above, ast.Assign):
            continue
        table = f"{ast.unparse(above.targets[0])}.weight"
        scope = next((a for a in source.around(made) if isinstance(a, ast.ClassDef)), source.tree)
        nodes = list(ast.walk(scope))
        inside = set(nodes)
        draws = [n for name, some in source.calls.items() if name.endswith(("normal_", "uniform_")) for n in some]
        draws = [n for n in draws if n in inside]
        parts = [n.value for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Attribute)]
        if not draws or any(ast.unparse(part) in (table, f"{table}.data") for part in parts):
            continue  # it is set to 0 again
        for node in draws:
            of = getattr(node.func, "value", node) if not node.args else node.args[0]
            text = ast.unparse(of).removesuffix(".data")
            method = ast.unparse(getattr(node.func, "value", node)).removesuffix(".data")
            every = any(
                isinstance(a, ast.For) and name_of(a.target) == text and ast.unparse(a.iter) == "self.parameters()"
                and not any(isinstance(n, ast.If) and not re.search(r"dim\b|dim\(|shape", ast.unparse(n.test))
                            for n in ast.walk(a))
                for a in source.around(node)
            )  # fmt: skip
            if table not in (text, method) and not every and not _of_each_embedding(source, node, (text, method)):
                continue
            if _left_out_later(trace, table) or "pack_padded_sequence" in source.text:
                continue
            says = (
                f"draws the whole table anew (`{ast.unparse(node)}`), and with it the vector of the padding "
                f"({ast.unparse(pad)}), which padding_idx had set to 0 ({source.place(made).words}): it gets no "
                "gradient, so the padding stays noise."
            )
            remedy = f"Set it to 0 again, under no_grad: {table}[{ast.unparse(pad)}].zero_()."
            return tell(source, node, "data", "warning", says, remedy)
    return []


def _left_out_later(trace: Trace, table: str) -> bool:
    """Whether what a table gives is multiplied with a mask each time: nothing reads the vector of the padding."""
    name = ".".join(table.split(".")[-2:])
    reads = [
        r
        for r in trace.rows
        if r.op == "embedding" and any(isinstance(ref, Leaf) and ref.name.endswith(name) for ref in r.refs)
    ]
    readers = trace.consumers()
    return bool(reads) and all(any(r.op == "mul" and _hides(trace, r) for r in readers.get(row, ())) for row in reads)


def _of_each_embedding(source: Source, node: ast.Call, texts: tuple[str, str]) -> bool:
    """Whether a draw is of the weights of every module that is an embedding: in a loop over modules(), or in a function
    that apply() is given."""
    branch = next((a for a in source.around(node) if isinstance(a, ast.If)), None)
    tests = re.search(r"isinstance\((\w+), .*Embedding", ast.unparse(branch.test)) if branch is not None else None
    if tests is None or branch is None or f"{tests[1]}.weight" not in texts:
        return False
    if not any(n is node for statement in branch.body for n in ast.walk(statement)):
        return False
    return "padding_idx" not in " ".join(map(ast.unparse, branch.body)) and "Embedding" not in " ".join(
        ast.unparse(n.test) for n in branch.orelse if isinstance(n, ast.If)
    )


@rule(523)
def class_left_out(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``CrossEntropyLoss(ignore_index=0)`` where 0 is a class: its samples teach nothing."""
    rows = [row for row in trace.rows if row.op == "cross_entropy" and row.reached and len(row.refs) > 1]
    flat = [row for row in rows if len(row.refs[0].shape) == 2 and not _view(row.refs[0]) and not _view(row.refs[1])]
    if not flat or len(flat) < len(rows):
        return []
    for source, node in calls(trace, "CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss"):
        flow = flow_around(source, node)
        left = given(node, "ignore_index") or unpacked(flow, node).get("ignore_index")
        number = flow.number(left) if left is not None else None
        if number is None or not 0 <= number < flat[0].refs[0].shape[1]:
            continue
        classes = flat[0].refs[0].shape[1]
        held = any(_holds(row.refs[1], number) for row in flat)
        if not held:
            continue
        says = (
            f"leaves out class {number:.0f} (`{ast.unparse(node)}`), which is one of the {classes} that the model "
            "tells "
            "apart and which targets have: its samples teach nothing, and are always taken for another class."
        )
        return tell(source, node, "loss", "warning" if classes == 2 else "note", says, "Leave ignore_index out.")
    return []


def _view(ref: Ref) -> bool:
    return isinstance(ref, Row) and ref.op in ("view", "reshape", "flatten", "transpose", "permute")


def _holds(ref: Ref, number: float) -> bool:
    """Whether a number is the least that a tensor of classes holds."""
    while isinstance(ref, Row) and ref.cut and ref.refs:
        ref = ref.refs[0]
    stats = ref.stats if isinstance(ref, Row) else None
    if stats is not None:
        return stats.min == number
    t = ref.alive() if isinstance(ref, Leaf) else None
    return t is not None and t._kind.device.type == "cpu" and t._a.size > 0 and float(t._a.min()) == number


@rule(524)
def mask_blended(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``F.interpolate(mask.float(), size, mode="bilinear").long()``: class numbers between two classes."""
    for source, node in calls(trace, "interpolate", "grid_sample", "upsample"):
        mode = given(node, "mode", 3 if called(node) == "interpolate" else 2)
        blends = mode.value if isinstance(mode, ast.Constant) else None
        if called(node) == "grid_sample" and mode is None:
            blends = "bilinear"
        if blends not in BLENDS or not node.args:
            continue
        node = _on_masks(source, node)
        flow = flow_around(source, node)
        if not speaks(node.args[0], MASKS) or speaks(node.args[0], re.compile(r"logit|pred|out|prob", re.I)):
            continue
        names = {ast.unparse(node.args[0])}
        above: ast.AST | None = node
        whole = False
        for above in source.around(node):
            if isinstance(above, ast.stmt):
                break
            whole = whole or (isinstance(above, ast.Attribute) and above.attr in ("long", "int", "round"))
        if isinstance(above, ast.Assign):
            names = {ast.unparse(t) for t in above.targets}
        for other in flow.nodes:
            if isinstance(other, ast.Call) and called(other) in ("long", "int", "round", "to", "type") and not whole:
                kind = called(other) in ("long", "int", "round") or "long" in ast.unparse(other)
                whole = kind and bool(names & {ast.unparse(n) for n in ast.walk(other.func)})
        if not whole:
            continue
        says = (
            f"resizes class numbers by {blends} interpolation (`{ast.unparse(node)}`): between a 0 and a 2 it "
            "makes 1s, "
            "classes that are not there, along every edge."
        )
        return tell(source, node, "data", "warning", says, 'Take the nearest: mode="nearest".')
    return []


def _on_masks(source: Source, node: ast.Call) -> ast.Call:
    """The call of a function that resizes what it is given, if that is a mask; else the call that resizes."""
    function = next((a for a in source.around(node) if isinstance(a, Function)), None)
    if function is None or not {a.arg for a in function.args.args} & names_in(node.args[0]):
        return node
    for other in source.calls.get(function.name, ()):
        if other.args and speaks(other.args[0], MASKS):
            return other
    return node


@rule(525)
def cut_to_whole(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(mask / 255).long()``: targets below 1 are all 0; and targets of a regression without their fractions."""
    for source, node in calls(trace, "tensor", "as_tensor", "astype"):
        kind = given(node, "dtype") or (node.args[0] if called(node) == "astype" and node.args else None)
        whole = kind is not None and re.search(r"(^|\.)u?(int\d*|long)\b|['\"]u?int", ast.unparse(kind))
        of = node.func.value if called(node) == "astype" else node.args[0] if node.args else None  # type: ignore[attr-defined]
        if not whole or not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Div):
            continue
        if ast.unparse(of.right) in ("255", "255.0"):
            says = (
                f"cuts what it has brought to 0 to 1 to whole numbers (`{ast.unparse(node)}`): all but the largest "
                "become 0, and there is nothing to tell apart."
            )
            remedy = "Keep the class numbers as they are stored, without a division; a fraction stays a float."
            return tell(source, node, "data", "warning", says, remedy)
    for row in trace.rows:
        if not row.reached or len(row.refs) < 2 or row.op not in EACH | DIFFERENCES | {"cross_entropy"}:
            continue
        if row.refs[1].requires_grad or not row.refs[0].requires_grad:
            continue
        cast = _whole(row.refs[1])
        if cast is None:
            continue
        span = _range(cast.refs[0])
        if span is None or not span[0] < span[1]:
            continue
        line, col, place = where(trace, cast.chain)
        low, high = span
        if low > -1 and high < 1:
            message = (
                f"{place} cuts targets to whole numbers (`{code_of(trace, cast)}`) that lie between {low:.3g} and "
                f"{high:.3g}: every one becomes 0, and there is nothing to tell apart."
            )
            remedy = "Keep the class numbers as they are stored, without a division; a fraction stays a float."
            return [Found("data", "warning", line, col, capital(message), remedy, [cast])]
        if row.op in ("squared_error", "absolute_error", "mse_loss", "l1_loss", "smooth_l1_error") and high % 1:
            message = (
                f"{place} cuts the targets of a regression to whole numbers (`{code_of(trace, cast)}`, up to "
                f"{high:.3g} "
                "before): what stands behind the point is lost."
            )
            return [Found("data", "note", line, col, capital(message), "Keep them as floats: .float().", [cast])]
    return []


def _whole(ref: Ref) -> Row | None:
    """The cast to whole numbers that targets come from."""
    for _ in range(8):
        if not isinstance(ref, Row) or not ref.refs or (ref.op not in SAME and ref.cut not in ("cast", "return")):
            return None
        before = ref.refs[0]
        casts = ref.cut == "cast" or (ref.op == "cast" and ref.dtype.startswith("int"))
        if casts and before.dtype.startswith("float"):
            return ref
        ref = before
    return None


@rule(579)
def numbered_by_hash(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``hash(word) % n``: Python numbers a text differently in each process."""
    for source, node in calls(trace, "hash"):
        above = source.parents.get(node, node)
        inside = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mod) and above.left is node
        if not isinstance(node.func, ast.Name) or not inside or not node.args or "tuple" in ast.unparse(node):
            continue
        if any(isinstance(a, Function) and a.name == "hash" for a in source.nodes) or not names_in(node.args[0]):
            continue
        says = (
            f"numbers texts by hash() (`{ast.unparse(above)}`), which gives another number in each process "
            "(PYTHONHASHSEED): weights that are saved belong to other words when they are loaded."
        )
        remedy = "Take a hash that stays: zlib.crc32(word.encode()) % n, or keep a vocabulary."
        return tell(source, node, "data", "note", says, remedy)
    return []
