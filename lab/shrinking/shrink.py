"""`shrink`: variants of a model in fewer bits and with fewer channels, made of copies and measured beside it.

Each variant that can be made has its size, its latency at two batch sizes (medians, all variants in turn), its score on
the user's data, how far its outputs are from those in float32, and what it did to each layer. The model itself, the
data and random numbers stay as they are.
"""

from __future__ import annotations

import copy
import os
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from core.base.pytorch import libraries
from widgets import shrunk
from widgets.figures import count_text, share, size_text
from widgets.shrunk import Shrunk, Variant
from widgets.still import escape

from ..report.export import PAGE
from ..training.put_back import put_back
from . import layers, scoring
from .retraining import RATE, Retraining, divided
from .samples import Samples, samples_of
from .variants import NOT_RETRAINED, RECIPES, Made, Recipe, refusal_of

FORMS = (".html", ".txt")
ITEMS = 2048
"""Of the data, at most."""
ROUNDS = 7
ROUND_S = 0.03  # each variant's share of a round
MOST_ROUNDS_S = 40.0  # for all rounds together: of slow models there are fewer, and 3 at least
MANY = 32
SLOWER = 1.1
FAR = 0.25
"""Outputs that differ by more are worth as much by chance alone."""


@dataclass
class Shrinking:
    """What `shrink` found: a view that prints itself as text and as a card, and its rows by name."""

    view: Shrunk = field(default_factory=lambda: Shrunk("model"))

    def __getitem__(self, name: str) -> Variant:
        return next(v for v in self.view.variants if v.name == name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file: `.html` the card as a page that needs nothing else, `.txt` the text.

        *Raises*: ValueError for another suffix.
        """
        target = Path(path)
        if target.suffix not in FORMS:
            raise ValueError(f"shrink: got {target.name!r}, needs a name that ends in {', '.join(FORMS)}")
        page = PAGE.format(title=escape(self.view.title), about=escape(self.view.place), card=shrunk.html(self.view))
        target.write_text(page if target.suffix == ".html" else f"{self}\n", encoding="utf-8")

    def __str__(self) -> str:
        return shrunk.text(self.view)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": shrunk.html(self.view)}


def shrink(model: Any, data: Any, *, metric: Any = None, variants: Sequence[str] | None = None, items: int = ITEMS,
           retrain: int = 0, title: str = "model", data_title: str = "data",
           sources: Sequence[layers.Source] = ()) -> Shrinking:  # fmt: skip
    """Measure variants of a model: float32, bf16, int8 and int4, pruned at 25, 50 and 75 %.

    data : a DataLoader, a pair (x, y), or x alone, by which outputs are compared with those in float32. metric :
    "accuracy", "mse", "mae" or a function of outputs and targets; by default what the targets tell. variants : names,
    all by default. items : of the data, at most. retrain : steps of AdamW that pruned variants are trained for, on
    three quarters of the data; all variants are then judged on the last quarter. title, data_title : what model and
    data are called. sources : (name, text) of the cells that may have made the model.

    A variant that cannot be made says why. Of a model of PyTorch float32 and bf16 are measured.

    *Raises*: TypeError and ValueError for a model, data, a measure or a name that there is not.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(8, 16), core.nn.ReLU(), core.nn.Linear(16, 2))
    >>> found = shrink(model, (core.rand(40, 8), core.zeros(40).long()), variants=["float32", "bf16"])
    >>> [v.name for v in found.view.variants], found.view.measure
    (['float32', 'bf16'], 'accuracy')
    >>> found["bf16"].size_bytes / found["float32"].size_bytes
    0.5
    """
    library = _library_of(model)
    recipes = _recipes(variants)
    view = Shrunk(title, _told(model), many=MANY)
    with put_back(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples, training = samples_of(data, library, items), None
        if retrain > 0:
            samples, training = divided(samples, retrain)
        try:
            reference = _evaluated(copy.deepcopy(model), library)
        except Exception as error:
            view.refusal, view.remedy = refusal_of(error)
            view.refusal = f"the model cannot be copied: {view.refusal}"
            return Shrinking(view)
        _measured(view, reference, training, samples, metric, recipes, library, data_title,
                  layers.made_by(model, title, sources))  # fmt: skip
    _judge(view)
    return Shrinking(view)


def _library_of(model: Any) -> Any:
    """Return core or PyTorch: whose module the model is."""
    for library in libraries():
        if isinstance(model, library.nn.Module):
            return library
    raise TypeError(f"shrink: the model is {type(model).__name__}; needed: a module of core.nn, or of torch.nn. "
                    "Remedy: a class derived from nn.Module that calls the function")  # fmt: skip


def _recipes(names: Sequence[str] | None) -> list[Recipe]:
    if names is None:
        return list(RECIPES)
    known = {recipe.key: recipe for recipe in RECIPES} | {recipe.name: recipe for recipe in RECIPES}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        came = repr(unknown[0])[:40] if unknown else "none"
        raise ValueError(f"shrink: there is no variant {came}; needed: {', '.join(r.key for r in RECIPES)}")
    chosen = dict.fromkeys(["float32", *names])  # all are compared with it
    return list(dict.fromkeys(known[name] for name in chosen))


def _told(model: Any) -> str:
    return f"{type(model).__name__}, {count_text(sum(p.numel() for p in model.parameters()), 'parameter')}"


def _evaluated(model: Any, library: Any) -> Any:
    """Return a model ready to be compared: in evaluation, its floats in float32."""
    model = model.eval()
    return model.float() if any(p.dtype != library.float32 and p.is_floating_point() for p in model.parameters()) \
        else model  # fmt: skip


# -- measuring ---------------------------------------------------------------------------------------------------------


def _measured(view: Shrunk, reference: Any, training: Retraining | None, samples: Samples, metric: Any,
              recipes: list[Recipe], library: Any, data_title: str,
              made: Callable[[str], tuple[str, str]]) -> None:  # fmt: skip
    """Make and measure every variant."""
    whole = Made(reference, lambda x: x)
    wanted = _outputs(whole, samples, library)
    measure = None
    if samples.labelled:
        measure = scoring.measure_of(metric, wanted[0], scoring.array_of(samples.batches[0][1]))
        view.measure, view.higher = measure.name, measure.higher
    elif metric is not None:
        raise ValueError(
            "shrink: a metric needs targets; came: inputs alone. Needed: --data (x, y) or a loader of pairs"
        )
    if training is not None:
        training.loss_of(view.measure)  # there is one
    few = tuple(x[: layers.ROWS] for x in samples.batches[0][0])
    names = list(layers.layers_of(reference))
    before = layers.heard(reference, few, names, library)
    runs: dict[str, Made] = {}
    for recipe in recipes:
        variant = Variant(recipe.name, note=recipe.note)
        view.variants.append(variant)
        try:
            found = (
                whole if recipe.key == "float32" else recipe.made(reference, samples, library, view.title, data_title)
            )
            if training is not None and recipe.pruned:
                training.run(found.model, view.measure)
                found.note = f"{found.note.removesuffix(NOT_RETRAINED)}, retrained"
            outputs = wanted if found is whole else _outputs(found, samples, library)
            if measure is not None:
                variant.score = scoring.score(measure, outputs, samples.batches, library)
            variant.apart = scoring.apart(outputs, wanted)
            if found is not whole:
                variant.layers = layers.errors(before, reference, found, few, library, made)
            variant.size_bytes, variant.code = size_of(found.model), found.code
            variant.note = found.note or variant.note
        except Exception as error:
            variant.refusal, variant.remedy = refusal_of(error)
            variant.note = ""
            continue
        runs[recipe.name] = found
    rounds = 0
    for count, where in ((1, "one_s"), (MANY, "many_s")):
        rows = samples.rows(count)
        calls: dict[str, Callable[[], Any]] = {name: partial(_run, found.model, tuple(map(found.cast, rows)), library)
                 for name, found in runs.items()}  # fmt: skip
        times, rounds = latencies(calls)
        for variant in view.variants:
            if variant.name in times:
                setattr(variant, where, times[variant.name])
    view.foot = _foot(view, samples, training, library, rounds)


def _run(model: Any, inputs: tuple[Any, ...], library: Any) -> Any:
    with library.no_grad():
        return model(*inputs)


def _outputs(made: Made, samples: Samples, library: Any) -> list[Any]:
    found = []
    for inputs, _ in samples.batches:
        output = scoring.first_tensor(_run(made.model, tuple(map(made.cast, inputs)), library), library)
        if output is None:
            raise TypeError("shrink: the model gives no tensor")
        found.append(scoring.array_of(output))
    return found


def size_of(model: Any) -> int:
    """Return the bytes of a model's state, what is shared counted once.

    >>> import core
    >>> size_of(core.nn.Linear(4, 2))
    40
    """
    seen: dict[Any, int] = {}
    for t in _tensors([*model.state_dict().values()]):
        seen[t.data_ptr(), tuple(t.shape)] = t.numel() * t.element_size()
    return sum(seen.values())


def _tensors(found: list[Any]) -> list[Any]:
    out = []
    for x in found:
        if isinstance(x, dict | list | tuple):
            out += _tensors(list(x.values()) if isinstance(x, dict) else list(x))
        elif hasattr(x, "element_size"):
            out.append(x)
    return out


def latencies(calls: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], int]:
    """Return seconds a call, the median of some rounds in which each has its turn, and how many rounds there were."""
    counts: dict[str, int] = {}
    share_s = 0.0
    for name, call in calls.items():
        call()
        begin = perf_counter()
        call()
        once = perf_counter() - begin
        counts[name] = max(1, min(500, int(ROUND_S / max(once, 1e-7))))
        share_s += once * counts[name]
    rounds = max(3, min(ROUNDS, int(MOST_ROUNDS_S / max(share_s, 1e-7))))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = perf_counter()
            for _ in range(counts[name]):
                call()
            found[name].append((perf_counter() - begin) / counts[name])
    return {name: statistics.median(times) for name, times in found.items()}, rounds


def _foot(view: Shrunk, samples: Samples, training: Retraining | None, library: Any, rounds: int) -> list[str]:
    of = "the first " if samples.cut and training is None else ""
    what = view.measure or "the difference of outputs"
    found = [f"{what} on {of}{count_text(samples.count, 'item')}; latency: the median of {rounds} rounds in which "
             f"each variant has its turn, {count_text(library.get_num_threads(), 'thread')}; size: the bytes of the "
             "state."]  # fmt: skip
    notes = {
        "pruned": "Pruned variants were not trained afterwards, which is what gives them their accuracy back: see "
        "--retrain."
        if training is None
        else f"Pruned variants were trained for {count_text(training.steps, 'step')} of AdamW with a rate of {RATE:g} "
        f"on {count_text(training.samples.count, 'item')}, the others on none; all are judged on the rest.",
        "int8 static": "The scales of int8 static come from some of these items: judge it by other data too.",
    }
    made = [v.name for v in view.variants if not v.refusal]
    return found + [said for word, said in notes.items() if any(name.startswith(word) for name in made)]


# -- the sentence ------------------------------------------------------------------------------------------------------


def _judge(view: Shrunk) -> None:
    """Recommend the smallest variant that is worth about as much and is no slower, and say why."""
    first = next((v for v in view.variants if v.size_bytes), None)
    if first is None or len(view.variants) < 2:
        return
    good = [v for v in view.variants if v.size_bytes and _as_good(view, v, first) and not _slower(v, first)]
    smaller = [v for v in good if (v.size_bytes or 0) < (first.size_bytes or 0)]  # of a quantised model none is
    best = min(smaller or [first], key=lambda v: (v.size_bytes or 0, v.many_s or 0.0))
    view.chosen = best.name
    lost = "1 point" if view.measure in shrunk.SHARES else "1 %"
    worth = view.measure or "the outputs"
    if best is first:
        view.said = f"Stay with {first.name}: no smaller variant keeps {worth} within {lost} and is no slower."
        return
    saved = (first.size_bytes or 0) - (best.size_bytes or 0)
    view.said = (f"{best.name} is the smallest that keeps {worth} within {lost} and is no slower: "
                 f"{size_text(saved)} ({share(saved / (first.size_bytes or 1))}) less.")  # fmt: skip


def _as_good(view: Shrunk, v: Variant, first: Variant) -> bool:
    if not view.measure:
        return (v.apart or 0.0) <= 0.01
    if v.score is None or first.score is None or (v.apart or 0.0) > FAR:
        return False
    lost = (first.score - v.score) * (1 if view.higher else -1)
    return lost <= (0.01 if view.measure in shrunk.SHARES else 0.01 * abs(first.score)) + 1e-12


def _slower(v: Variant, first: Variant) -> bool:
    pairs = ((v.one_s, first.one_s), (v.many_s, first.many_s))
    return any(a is not None and b is not None and a > SLOWER * b for a, b in pairs)
