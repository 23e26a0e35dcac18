"""Remedies that name an argument: `dim=-1` that is another number now, `drop_last=True` that is to go."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..examples import lines_of, on_line, quoted
from ..remedies import remedy

GIVEN = re.compile(r"\b([a-z]\w*)=(\"[^\"]*\"|'[^']*'|\{[^}]*\}|\[[^\]]*\]|-?\d[\d.]*e-?\d+|-?[\w.]*\w)")
WITHOUT = {  # arguments that calls have without saying so: where a remedy asks for them they are added to these
    "dim": ("argmax", "softmax", "log_softmax", "normalize", "cosine_similarity", "cat", "stack", "max", "min", "sum",
            "mean", "Softmax"),
    "descending": ("sort", "argsort"),
    "reduction": ("cross_entropy", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits", "nll_loss",
                  "binary_cross_entropy", "smooth_l1_loss", "CrossEntropyLoss", "MSELoss", "BCELoss", "NLLLoss",
                  "BCEWithLogitsLoss", "L1Loss", "SmoothL1Loss", "kl_div"),
    "ignore_index": ("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss"),
    "shuffle": ("DataLoader",), "drop_last": ("DataLoader",), "persistent_workers": ("DataLoader",),
    "log_input": ("poisson_nll_loss", "PoissonNLLLoss"),
    "create_graph": ("grad", "backward"), "retain_graph": ("backward",),
    "use_reentrant": ("checkpoint",), "batch_first": ("LSTM", "GRU", "RNN", "TransformerEncoderLayer"),
    "weight_decay": ("SGD", "Adam", "AdamW", "RMSprop"), "padding_idx": ("Embedding",),
    "keepdim": ("sum", "mean", "max", "std", "norm"), "antialias": ("interpolate",), "dtype": ("tensor", "zeros_like"),
    "replacement": ("WeightedRandomSampler", "RandomSampler", "multinomial"), "sparse": ("Embedding",),
    "track_running_stats": ("BatchNorm1d", "BatchNorm2d"), "correction": ("std", "var"),
    "approximate": ("gelu",), "freeze": ("from_pretrained",),
    "key_padding_mask": ("attn",), "is_causal": ("scaled_dot_product_attention",),
    "norm_first": ("TransformerEncoderLayer",), "set_to_none": ("zero_grad",), "logprob": (),
}  # fmt: skip
TWO = ("cosine_similarity", "pairwise_distance", "cross")  # take two tensors
PLACE = {"shuffle": 2, "dim": 1, "descending": 2, "p": 0}  # where such an argument stands without its name


@remedy()
def named(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """An argument that the remedy writes gets the value that it has there."""
    asked = [(key, value) for key, value in GIVEN.findall(finding.remedy) if not value.endswith("..")]
    calls = list(_calls(cell, finding))
    for key, value in dict.fromkeys(asked):
        if value in ("False", "True") and re.search(rf"[Ll]eave (?:the )?{key}(?:={value})? out", finding.remedy):
            continue
        known = {n.id for n in cell.all(ast.Name)} | {"True", "False", "None"}
        if (value.isidentifier() and value not in known) or f"{key}={value}) / len" in finding.remedy:
            continue
        own = re.search(rf"(\w+)\([^()]*\b{key}=", finding.remedy)
        alike = [call for call in calls if own is not None and last_name(call.func) == own[1]]
        for call in alike or calls:
            word = next((w for w in call.keywords if w.arg == key), None)
            if word is not None and cell.code(word.value) != value:
                yield Patch(f"{key}={value}", cell.put((word.value, value)))
            elif word is None and (last_name(call.func) in WITHOUT.get(key, ()) or f"{key} is " in finding.message):
                yield from with_argument(cell, call, key, value)


def with_argument(cell: Cell, call: ast.Call, key: str, value: str) -> Iterator[Patch]:
    place = 2 if key == "dim" and last_name(call.func) in TWO else PLACE.get(key)
    method = isinstance(call.func, ast.Attribute) and not _library(call.func.value)
    if place is not None and len(call.args) > place - method >= 0:
        yield Patch(f"{key}={value}", cell.put((call.args[place - method], value)))
    elif not any(w.arg is None for w in call.keywords):
        code = cell.code(call)
        comma = ", " if call.args or call.keywords else ""
        yield Patch(f"{key}={value}", cell.put((call, f"{code[:-1].rstrip().rstrip(',')}{comma}{key}={value})")))


def _library(node: ast.expr) -> bool:
    return ast.unparse(node) in ("torch", "core", "F", "nn", "nn.functional", "torch.nn.functional", "np")


def _calls(cell: Cell, finding: Finding) -> Iterator[ast.Call]:
    """Go through the calls that a finding speaks of: quoted ones, those on its lines, those that made what is called
    there, and those of the remedy's own function."""
    quotes = [ast.dump(tree) for tree in quoted(finding.message)]
    lines = [n for line in lines_of(finding) for n in on_line(cell, line) if isinstance(n, ast.Call)]
    told = [call for call in lines if ast.dump(call) in quotes]
    seen: dict[ast.Call, None] = dict.fromkeys([*told, *lines])
    made = {ast.unparse(a.targets[0]): a.value for a in cell.all(ast.Assign) if isinstance(a.value, ast.Call)}
    for call in list(seen):
        maker = made.get(ast.unparse(call.func))
        if isinstance(maker, ast.Call):
            seen[maker] = None
    functions = set(re.findall(r"\b(\w+)\(", finding.remedy))
    for call in cell.all(ast.Call):
        if last_name(call.func) in functions:
            seen[call] = None
    optimizers = re.search(r"of the optimizer", finding.remedy)
    for call in cell.all(ast.Call) if optimizers else ():
        if last_name(call.func) in WITHOUT["weight_decay"]:
            seen[call] = None
    yield from seen


@remedy()
def left_out(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`Leave drop_last=True out`: the argument goes from the call."""
    for key in re.findall(r"[Ll]eave (?:the )?(\w+)(?:=\w+)? out|[Ww]ithout (\w+)=", finding.remedy):
        name = key[0] or key[1]
        for call in _calls(cell, finding):
            for word in call.keywords:
                if word.arg == name:
                    yield Patch(f"Leave {name} out", cell.splice([without(cell, call, word)]))


def without(cell: Cell, call: ast.Call, word: ast.keyword) -> tuple[int, int, str]:
    """Return the piece that takes a named argument out of a call."""
    begin, end = cell.span(word)
    before = cell.text[:begin].rstrip()
    if before.endswith(","):
        return len(before) - 1, end, ""
    rest = cell.text[end:]
    return begin, end + len(rest) - len(rest.lstrip(" ,")), ""


@remedy("layout")
def batch_first(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`batch_first=True` goes where what the layer gets, and what is read of it, are in the other order."""
    if "or batch_first=True" not in finding.remedy:
        return
    for call in cell.calls("LSTM", "GRU", "RNN", "TransformerEncoderLayer", "MultiheadAttention"):
        for word in call.keywords:
            if word.arg == "batch_first":
                yield Patch("Leave batch_first out", cell.splice([without(cell, call, word)]))
