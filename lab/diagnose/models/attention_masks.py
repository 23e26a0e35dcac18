"""Masks of an attention that are missing, the wrong way round, or added where they should be applied; targets that
nobody has shifted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.figures import shape_text

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ...recorder.user_files import shown_name
from ...recorder.value_facts import ATTENDING, Told
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import name_of
from ..reading.scope import Scope
from ..reading.sources import Function, Source, called, own_nodes, sources
from ..values.nonfinite_effects import FILLING
from .dimension_order import ATTENDING as LAYERS

PADDING = {"key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask"}
TOKENS = re.compile(r"attention_mask|attn_mask|(^|_)(valid|real|token)_?mask$|^valid$", re.I)
"""Names of masks that are 1 where there is something."""
BETWEEN = {"dropout", "cast", "float", "to", "type_as", "div", "contiguous", "clone"}
RECURRENT = {"gru", "lstm", "rnn_tanh", "rnn_relu"}
PLACEWISE = {"cross_entropy", "nll_loss", "log_softmax", "linear", "relu", "gelu", "tanh", "dropout", "layer_norm",
             "mul", "view", "reshape", "transpose", "permute", "flatten", "contiguous", "silu", "add"}  # fmt: skip
MASKS = {"eq", "ne", "lt", "le", "gt", "ge", "cast", "float", "to", "where", "logical_not", "type_as"}


@rule(450)
def no_causal_mask(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A model that is to tell the next token and reads it; or targets that are the very inputs."""
    if trace.error is not None:
        return []
    for loss, told in trace.values.told.items():
        if not loss.reached or loss not in trace.rows or told.embedding not in (behind := ancestors([loss])):
            continue
        if told.after > 0.95 > max(told.same, told.following):
            return [_shifted_twice(trace, loss)]
        masks = {row: _causal(trace, row) for row in behind if isinstance(row, Row)}
        attends = [row for row, causal in masks.items() if causal is not None]
        attends = [row for row in attends if told.embedding in ancestors([_keys(row)])]
        if told.following > 0.95 > told.same and any(masks[row] is False for row in attends) and not _lost(trace):
            row = min((row for row in attends if masks[row] is False), key=lambda r: r.number)
            return [_sees(trace, loss, row)]
        if told.same > 0.99 > told.following and attends and all(masks[row] for row in attends):
            return [_not_shifted(trace, loss, told)]
        if told.same > 0.99 > told.following and not attends and _reads_forwards(trace, loss, told.embedding):
            return [_not_shifted(trace, loss, told)]
    return []


def _reads_forwards(trace: Trace, loss: Row, embedding: Row) -> bool:
    """Whether one recurrent layer in one direction, and what works on each place by itself, stand between what a model
    reads and its loss: none that sums the places up, as in an encoder of whole sequences."""
    stack, between = [loss], set()
    while stack:
        row = stack.pop()
        if row is not embedding and row not in between and row.requires_grad:
            between.add(row)
            stack += [r for r in row.refs if isinstance(r, Row)]
    ran = [r.op for r in between]
    one = sum(op in RECURRENT for op in ran) == 1
    places = PLACEWISE | {r.op for r in between if r.view and r.op not in ("select", "slice", "getitem", "narrow")}
    alone = all(op in RECURRENT or op in places for op in ran)
    return one and alone and not any("bidirectional" in source.text for source in sources(trace))


def _causal(trace: Trace, row: Row) -> bool | None:
    """Whether an attention of positions to each other leaves out the later ones; None for any other op, and where
    that is not known."""
    if row.op in ATTENDING:
        own = len(row.refs) < 3 or row.op == "multi_head_attention_forward" or row.refs[0].shape == row.refs[1].shape
        return trace.values.masked.get(row) if own else None
    square = len(row.shape) > 2 and row.shape[-1] == row.shape[-2] > 2
    if row.op != "softmax" or not square or row.stats is None:
        return None
    n = row.shape[-1]
    zeros = row.stats.zeros
    return True if zeros > 0.8 * (n - 1) / (2 * n) else False if zeros < 0.2 * (n - 1) / (2 * n) else None


def _keys(row: Row) -> Ref:
    """What the keys of an attention were made of: of a decoder's look at its encoder another embedding."""
    while row.op not in ATTENDING and row.op not in ("matmul", "einsum", "baddbmm"):
        before = next((r for r in row.refs if isinstance(r, Row)), None)
        if before is None:
            return row
        row = before
    more = [ref for ref in row.refs[:2] if isinstance(ref, Row) and len(ref.shape) > 2]
    return more[-1] if more else row


def _sees(trace: Trace, loss: Row, row: Row) -> Found:
    line, col, place = where(trace, row.chain)
    there = where(trace, loss.chain)[2]
    message = capital(
        f"{place} lets each position look at later ones (`{code_of(trace, row)}` has no causal mask), and the "
        "target of "
        f"the loss on {there} is the next token, which stands right there in the input: it can be copied and need not "
        "be foretold."
    )
    remedy = (
        "Give it a causal mask: is_causal=True, or mask=nn.Transformer.generate_square_subsequent_mask(T); by hand: "
        "scores.masked_fill(torch.ones(T, T).triu(1).bool(), float('-inf'))."
    )
    return Found("mask", "warning", line, col, message, remedy, [row, loss])


def _lost(trace: Trace) -> bool:
    """Whether scores are masked in a statement that keeps nothing of it: ``scores.masked_fill(mask, -inf)``."""
    alone = (n.value for source in sources(trace) for n in source.nodes if isinstance(n, ast.Expr))
    return any(called(value) in ("masked_fill", "where") for value in alone)


def _shifted_twice(trace: Trace, loss: Row) -> Found:
    line, col, place = where(trace, loss.chain)
    ran = {code.co_name for code, _ in loss.chain}
    shifts = [
        source.place(node).words
        for source in sources(trace)
        for function in source.nodes
        if isinstance(function, Function) and function.name in ran
        for node in own_nodes(function)
        if isinstance(node, ast.Subscript) and re.search(r"(^|, )1:(,|$)", ast.unparse(node.slice).strip("()"))
    ]
    elsewhere = [shift for shift in dict.fromkeys(shifts) if shift != place]
    at = f" ({' and '.join(elsewhere[:3])})" if elsewhere else ""
    message = capital(
        f"{place} asks each position for the token after the next (`{code_of(trace, loss)}`): the targets are shifted "
        f"twice{at}."
    )
    remedy = "Shift once: leave it to the model's loss where that does it, and give it labels as long as the inputs."
    return Found("loss", "warning", line, col, message, remedy, [loss])


def _not_shifted(trace: Trace, loss: Row, told: Told) -> Found:
    line, col, place = where(trace, loss.chain)
    message = capital(
        f"{place} asks for the token that the model has just read: the targets are the inputs of "
        f"`{code_of(trace, told.embedding)}`, position by position, so nothing is foretold."
    )
    remedy = "Shift them by one: the inputs are tokens[:, :-1], the targets tokens[:, 1:]."
    return Found("loss", "warning", line, col, message, remedy, [loss])


@rule(305)
def inverted(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A padding mask that says where tokens are to a layer that takes where they are not."""
    for row in trace.rows:
        kinds = {kind for kind, _ in trace.entered[row.path]} if row.path else set()
        if not kinds & LAYERS or row.op not in ("where", "masked_fill_", "masked_fill", "zeros_like"):
            continue
        for ref in row.refs:
            mask = _unviewed(ref)
            if not isinstance(mask, Row) or mask.path == row.path or mask.dtype != "bool":
                continue
            if (said := _valid(mask)) is None or (named := _keyword(trace, row)) is None:
                continue
            line, col, place = where(trace, row.chain)
            there = where(trace, mask.chain)[2]
            at = "" if there == place else f" ({there})"
            message = capital(
                f"{place} hides the tokens and leaves the padding: `{code_of(trace, mask)}`{at} is True {said}, and "
                f"{named} is True where a key is to be ignored."
            )
            remedy = f"Turn it round: {named}=~mask."
            return [Found("mask", _severity(trace), line, col, message, remedy, [mask, row])]
    return []


@text_rule(303, "key_padding_mask")
def tokens_hidden(scope: Scope) -> Iterator[Found]:
    """``src_key_padding_mask=attention_mask.bool()`` of a mask that is 1 at each token."""
    for call in scope.flow.of(ast.Call):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg not in PADDING:
                continue
            of = _where_one(scope.flow.inner(keyword.value))
            item = of.slice.value if isinstance(of, ast.Subscript) and isinstance(of.slice, ast.Constant) else ""
            name = name_of(of) or str(item)
            filled = next(_filled_with_one(scope.trace, name), None) if name else None
            if filled is None and (of is keyword.value or not TOKENS.search(name)):
                continue
            why = f" ({filled[0].place(filled[1]).words}: `{ast.unparse(filled[1])}`)" if filled else ""
            says = (
                f"hides the tokens and leaves the padding: `{ast.unparse(keyword.value)}` is True at each token{why}, "
                f"and {keyword.arg} is True where a key is to be ignored."
            )
            remedy = f"Turn it round: {keyword.arg}=({ast.unparse(of)} == 0)."
            proof = "the mask is filled with 1 up to the length of each sample" if filled else ""
            yield scope.tell(keyword.value, "mask", says, remedy, proof=proof)


def _where_one(node: ast.expr) -> ast.expr:
    """What a mask is True at the ones of: ``m.bool()``, ``m.to(torch.bool)``, ``m == 1``, ``m > 0``; of any other the
    mask itself."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        told = type(node.ops[0]), ast.unparse(node.comparators[0])
        return node.left if told in ((ast.Eq, "1"), (ast.Gt, "0"), (ast.NotEq, "0")) else node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        to_bool = called(node) in ("to", "type") and ast.unparse(node.args[0] if node.args else node).endswith(".bool")
        return node.func.value if called(node) == "bool" or to_bool else node
    return node


def _filled_with_one(trace: Trace, name: str) -> Iterator[tuple[Source, ast.Assign]]:
    """Yield where a mask of zeros gets ones from the beginning of a sample up to its length: ``m[i, :n] = 1``."""
    for source in sources(trace):
        made = source.given.get(name, ())
        zeros = bool(made) and all(re.search(r"\bzeros\(|\bFalse\b", ast.unparse(value)) for value in made)
        for node in source.nodes if zeros else ():
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(node, ast.Assign) or not isinstance(target, ast.Subscript):
                continue
            last = target.slice.elts[-1] if isinstance(target.slice, ast.Tuple) else target.slice
            if not isinstance(last, ast.Slice) or last.lower is not None or last.upper is None:
                continue
            if isinstance(last.upper, ast.BinOp) or "pad" in ast.unparse(node).lower():
                continue  # the padding stands in front
            if name_of(target.value) == name and getattr(node.value, "value", None) == 1:
                yield source, node


def _severity(trace: Trace) -> str:
    """An error where a softmax had nothing left: then the NaN that it makes is an error as well, and comes second."""
    return "error" if any(row.bad is not None and row.bad.nan for row in trace.rows) else "warning"


def _keyword(trace: Trace, row: Row) -> str | None:
    """The keyword by which the line that runs a layer hands it a padding mask."""
    code = code_of(trace, row)
    return next((name for name in sorted(PADDING, key=len, reverse=True) if name + "=" in code.replace(" ", "")), None)


def _unviewed(ref: Ref) -> Ref:
    while (
        isinstance(ref, Row)
        and ref.refs
        and (ref.view or ref.cut == "cast" or (ref.op == "cast" and ref.dtype == "bool"))
    ):
        ref = ref.refs[0]
    return ref


def _valid(mask: Row) -> str | None:
    """In words where a mask is True, if that is where tokens are: `ids != PAD`, `arange(T) < lengths[:, None]`."""
    if mask.op in ("ne", "gt") and len(mask.refs) == 1 and "int" in getattr(mask.refs[0], "dtype", ""):
        return "at each token" if mask.stats is None or (mask.stats.mean or 0) > 0.02 else None
    if mask.op not in ("lt", "le", "gt", "ge") or len(mask.refs) != 2 or len(mask.shape) != 2:
        return None
    first, second = (tuple(ref.shape) for ref in mask.refs)
    places, lengths = (first, second) if mask.op in ("lt", "le") else (second, first)
    if lengths == (mask.shape[0], 1) and places in ((mask.shape[1],), (1, mask.shape[1])):
        return "before the end of each sample"
    return None


@rule(306, proof="the mask's place in the attention was recorded")
def past_hidden(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A lower triangle given to a layer that ignores what is True, or an upper one to an attention that keeps it."""
    for row in trace.rows:
        # of a layer that turns its mask round itself the text tells, below
        if row in trace.values.future and row.op in code_of(trace, row):
            fills = row.refs[0] if row.op == "softmax" and isinstance(row.refs[0], Row) else row
            line, col, place = where(trace, fills.chain if fills.op in FILLING else row.chain)
            does = f"{place} keeps what comes later and hides the past"
            if row.op == "softmax":
                message = f"{does}: the weights of `{code_of(trace, row)}` are 0 below the diagonal, and above it not."
                remedy = "Hide what is above the diagonal: masked_fill(torch.tril(torch.ones(T, T)) == 0, -inf)."
            else:
                message = (
                    f"{does} (the mask of `{code_of(trace, row)}` is True above the diagonal): "
                    "scaled_dot_product_attention takes True where a key takes part."
                )
                remedy = "Turn it round: attn_mask=~mask, or is_causal=True without a mask."
            message = capital(message)
            return [Found("mask", _severity(trace), line, col, message, remedy, [row])]
    layers = {kind for path in trace.entered for kind, _ in path} & LAYERS
    for source in sources(trace):
        for scope in source.scopes():
            for node in own_nodes(scope):
                found = _wrong_triangle(scope, node, bool(layers))
                if found is None:
                    continue
                line, col, place = source.place(node)
                if trace.error is None and _ran(trace, source, node):
                    message, remedy = found
                    return [Found("mask", _severity(trace), line, col, capital(f"{place} {message}"), remedy)]
    return []


def _wrong_triangle(scope: ast.AST, node: ast.AST, layers: bool) -> tuple[str, str] | None:
    if not isinstance(node, ast.Call):
        return None
    given = {k.arg: k.value for k in node.keywords if k.arg}
    if called(node) == "scaled_dot_product_attention" and "attn_mask" in given:
        text = _text(scope, given["attn_mask"])
        if text.count("triu(") == 1 and "bool" in text and not _turned(text):
            return (
                f"keeps what comes later and hides the past (`{ast.unparse(given['attn_mask'])}` is True above the "
                "diagonal): scaled_dot_product_attention takes True where a key takes part.",
                "Turn it round: attn_mask=~mask, or is_causal=True without a mask.",
            )
        return None
    name = next((k for k in ("attn_mask", "src_mask", "tgt_mask", "mask") if k in given), None)
    if name is None or not layers or called(node) == "scaled_dot_product_attention" or called(node)[:1].isupper():
        return None
    text = _text(scope, given[name])
    if text.count("tril(") == 1 and not _turned(text) and (name != "mask" or "self." in ast.unparse(node.func)):
        boolean = "bool" in text or "== 1" in text
        what = "is True at the past" if boolean else "holds 1 and 0, which are added to the scores"
        return (
            f"does not hide the future: `{ast.unparse(given[name])}` {what}, and {name} of this layer takes True (or "
            "-inf) where a key is to be left out.",
            f"Give it the upper triangle: {name}=torch.ones(T, T).triu(1).bool().",
        )
    return None


def _text(scope: ast.AST, node: ast.expr) -> str:
    """What an expression is, with the one assignment that made each plain variable in it put in."""
    if not isinstance(node, ast.Name):
        return ast.unparse(node)
    made = [
        n.value
        for n in own_nodes(scope)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)
    ]
    return ast.unparse(made[0]) if len(made) == 1 else ""


def _turned(text: str) -> bool:
    """Whether something turns a mask round or makes it one of -inf."""
    return any(
        word in text for word in ("~", "== 0", "logical_not", "inf", "1 -", "1.0 -", "masked_fill", "where", "log(")
    )


def _ran(trace: Trace, source: Source, node: ast.AST) -> bool:
    """Whether ops ran on a line of a source."""
    line, last = int(getattr(node, "lineno", 0)), int(getattr(node, "end_lineno", 0))
    return any(name == source.name and line <= at <= last for name, at in _lines(trace))


def _lines(trace: Trace) -> Iterator[tuple[str, int]]:
    for row in trace.rows:
        for code, lasti in row.chain:
            place = trace.place(code, lasti)
            if code.co_filename in trace.files:
                yield "", place.line + trace.files[code.co_filename]
            else:
                yield shown_name(code.co_filename), place.line


@rule(456)
def not_applied(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A mask of ones and zeros that is added to the scores of a softmax, or multiplied with them."""
    for row in trace.rows:
        if row.op != "softmax" or len(row.shape) < 2 or row.stats is None or row.stats.zeros or not row.refs:
            continue
        if len(row.shape) == 2 and not _weighs(trace, row):
            continue
        ref = row.refs[0]
        while isinstance(ref, Row) and ref.refs and (ref.view or ref.op in BETWEEN) and len(ref.refs) == 1:
            ref = ref.refs[0]
        if not isinstance(ref, Row) or ref.op not in ("add", "mul", "add_", "mul_") or len(ref.refs) != 2:
            continue
        mask = next((r for r in ref.refs if _is_mask(r)), None)
        if mask is None:
            continue
        line, col, place = where(trace, ref.chain)
        does = "adds a mask of 0 and 1 to" if ref.op.startswith("add") else "multiplies a mask of 0 and 1 with"
        gets = "hardly less weight" if ref.op.startswith("add") else "the score 0, which is no small one"
        message = capital(
            f"{place} {does} the scores of a softmax (`{code_of(trace, ref)}`): what is to be left out gets "
            f"{gets}, and no weight of "
            f"`{code_of(trace, row)}` is 0."
        )
        remedy = "Write scores.masked_fill(mask == 0, float('-inf')) before the softmax."
        return [Found("mask", "warning", line, col, message, remedy, [ref, row])]
    return []


def _weighs(trace: Trace, row: Row, depth: int = 3) -> bool:
    """Whether a softmax gives weights for the places of samples, which a product with a third dimension reads."""
    for after in trace.consumers().get(row, ()):
        if after.op in ("matmul", "bmm", "einsum", "mul") and any(len(r.shape) == 3 for r in after.refs):
            return True
        if depth and after.view and _weighs(trace, after, depth - 1):
            return True
    return False


def _is_mask(ref: Ref) -> bool:
    """Whether values are 0 and 1 alone, made by a comparison or a triangle."""
    if ref.requires_grad:
        return False
    below = [r for r in ancestors([ref]) if isinstance(r, Row)]
    triangle = any(r.op in ("tril", "triu") for r in below[:8])
    one = ref
    while isinstance(one, Row) and one.view and one.refs:
        one = one.refs[0]
    stats = one.stats if isinstance(one, Row) else None
    low_high = (stats.min, stats.max) if stats is not None else getattr(one, "span", None)
    if low_high != (0.0, 1.0):
        return False
    return triangle or (isinstance(one, Row) and one.op in MASKS and any(r.dtype == "bool" for r in below))


FILLED = {"where", "masked_fill", "masked_fill_"}
LAST = re.compile(r"dim=(-?\d+)|softmax\([^()]*,\s*(-?\d+)\)|\.softmax\((-?\d+)\)")


@rule(605)
def rows_hidden(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``scores.masked_fill(~mask.unsqueeze(-1), -1e9).softmax(-1)``: whole rows are lowered, and no key is left out."""
    for row in trace.rows:
        if row.op != "softmax" or len(row.shape) < 3 or not row.refs or row.shape[-1] < 2:
            continue
        along = next((int(n) for m in LAST.findall(code_of(trace, row)) for n in m if n), None)
        filled = row.refs[0]
        if along not in (-1, len(row.shape) - 1) or not isinstance(filled, Row) or filled.op not in FILLED:
            continue
        masks = [ref for ref in filled.refs if ref.dtype == "bool"]
        if len(masks) != 1 or masks[0].shape[-1:] != (1,) or len(masks[0].shape) < 2:
            continue
        others = [r for r in ancestors([filled]) if isinstance(r, Row) and r is not filled and r.op in FILLED]
        if any(ref.dtype == "bool" and ref.shape[-1:] == row.shape[-1:] for r in others for ref in r.refs):
            continue  # the keys are hidden as well
        line, col, place = where(trace, filled.chain)
        shape, turned = shape_text(masks[0].shape), shape_text((*masks[0].shape[:-2], 1, masks[0].shape[-2]))
        message = capital(
            f"{place} hides whole rows of the scores (`{code_of(trace, filled)}`): the mask has the shape {shape}, one "
            f"value for each place that asks, and `{code_of(trace, row)}` goes over the places that are asked. All of "
            "a row is lowered alike, its weights stay as they are, and padding is read as anything else."
        )
        remedy = f"Turn the mask: mask.transpose(-1, -2), of shape {turned}."
        return [Found("mask", "warning", line, col, message, remedy, [filled, row])]
    return []
