"""Copies of a model that are not equal, and data that are: what ranks train, and on what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any

from widgets.record import Finding

from .compare import Comparison, Site
from .words import capital, names_text, ranks_text, verb

BATCHES = 2  # that are compared at least
OFF = 0.1  # by which share a batch may be larger or smaller than usual
NO_DATA = ("barrier", "init_process_group", "new_group")

Step = dict[int, dict[str, Any]]
"""A step of an optimizer, by rank."""


def _steps(c: Comparison) -> list[Step]:
    """Return the steps that all ranks have compared."""
    found: dict[tuple[int, int], Step] = defaultdict(dict)
    for r in c.ranks:
        for step in r.log.get("steps", ()):
            found[step["optimizer"], step["step"]][r.number] = step
    return [found[key] for key in sorted(found) if len(found[key]) == len(c.ranks) > 1]


def _apart(step: Step, what: str) -> tuple[list[str], list[str]]:
    """Return the names whose checksums differ between ranks, and those whose are equal; of what all ranks have."""
    ranks = list(step.values())
    names = [n for n in ranks[0][what] if all(n in r[what] for r in ranks)]
    differ = [n for n in names if len({r[what][n] for r in ranks}) > 1]
    return differ, [n for n in names if n not in set(differ)]


def parameters(c: Comparison, cause: str) -> Iterator[Finding]:
    """Copies of a model that are not equal: different initial weights, or gradients that are not averaged."""
    steps = _steps(c)
    if not steps:
        return
    first, last = steps[0], steps[-1]
    final = [r.log.get("final", {}) for r in c.ranks]
    still = {n for n in final[0] if len({f.get(n) for f in final}) > 1}
    begun, equal = _apart(first, "before")
    grads, shared = _apart(last, "gradients")
    site = c.site(c.ranks[0], first[0]["site"])
    where = c.words(site)
    unlike = [n for n in begun if n in set(shared) and n in still]
    if unlike and not set(begun) & set(grads):  # else they are parts of a model that is divided among ranks
        differ = "differs" if len(unlike) == 1 else "differ"
        yield Finding("weights-differ", "error", c.line(site),
                      message=f"The ranks have different initial weights: {names_text(unlike)} {differ} before the "
                              f"first step on {where}, and gradients are the same on all, so that the copies "
                              "never become equal.",
                      remedy="Wrap the model in `DistributedDataParallel`, which begins with rank 0's weights, or "
                             "before the first step: `for p in model.parameters(): dist.broadcast(p.data, 0)`."
                      )  # fmt: skip
        return
    moved = [n for n in grads if n in still]
    settings = {tuple(s["lr"]) for s in first.values()}
    if not moved or len(settings) > 1:
        return
    alike = [n for n in moved if n in set(equal)]
    if alike == moved:  # shares of a divided model are alike at the start only where they begin as ones or zeros
        which = f" ({names_text(alike)})" if shared else ""
        yield Finding("gradients-differ", "error", c.line(site),
                      message=f"Gradients differ between the ranks at step {last[0]['step']} on {where}{which}: they "
                              "are not averaged, and the copies of the model, equal at the start, drift apart.",
                      remedy="Wrap the model in `DistributedDataParallel` and call the wrapped one, or average after "
                             "`backward()`: `dist.all_reduce(p.grad); p.grad /= dist.get_world_size()`.")  # fmt: skip
    elif all(p.op in NO_DATA for t in c.together for p in t.parts.values()) and not c.alone:
        yield Finding("gradients-differ", "warning", c.line(site),
                      message="Each rank trains a model of its own: weights differ before the first step on "
                              f"{where}, gradients at every step, and nothing is sent between the ranks.",
                      remedy="Wrap the model in `DistributedDataParallel`, unless that is what you want.")  # fmt: skip


def same_data(c: Comparison, cause: str) -> Iterator[Finding]:
    """The same batches on all ranks."""
    calls = [[x for x in r.log.get("calls", ()) if x[2] is not None] for r in c.ranks]
    n = min(map(len, calls), default=0)
    if len(calls) < 2 or n < BATCHES or any(len({rank[k][2] for rank in calls}) > 1 for k in range(n)):
        return
    steps = _steps(c)
    if steps and not _apart(steps[0], "before")[1]:
        return  # the ranks have different layers: of what is divided among them all need the same data
    site = c.site(c.ranks[0], calls[0][0][3])
    seeds = sorted({str(r.log.get("seed")) for r in c.ranks})
    loaders = [x for x in c.ranks[0].log.get("loaders", ()) if x["sampler"] != "DistributedSampler"]
    made = next((k for k, text in enumerate(c.source, 1) if "DataLoader(" in text), None)
    if loaders or made:
        name = f"`{loaders[0]['name']}`" if loaders else "the loader"
        order = f" in the same order (all have seed {seeds[0]})" if len(seeds) == 1 else ""
        yield Finding("same-data", "error", made or c.line(site),
                      message=f"All ranks read the same batches{order}: {name}{f' on line {made}' if made else ''} has "
                              f"no `DistributedSampler`, and {n} of {n} batches are equal on all ranks, so that they "
                              "do one rank's work.",
                      remedy="`DataLoader(data, batch_size, sampler=DistributedSampler(data))`, and "
                             "`sampler.set_epoch(epoch)` in each epoch.")  # fmt: skip
        return
    what = "batch" if len({x[2] for x in calls[0][:n]}) == 1 else "batches"
    why = f"all have seed {seeds[0]}" if len(seeds) == 1 else "they are made alike"
    yield Finding("same-data", "warning", c.line(site),
                  message=f"All ranks compute the same {what} on {c.words(site)} ({why}), so that they do one "
                          "rank's work.",
                  remedy="Give each rank its part: `x[rank::world_size]`, or after the model is made "
                         "`manual_seed(seed + rank)`.")  # fmt: skip


def unbalanced(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank with more or fewer steps, or larger or smaller batches, than the others."""
    if len(c.ranks) < 2 or not all(r.log for r in c.ranks):
        return
    done = [r.log["stepped"] for r in c.ranks]
    if len(set(done)) > 1 and all(r.state == "done" for r in c.ranks):
        usual = Counter(done).most_common(1)[0][0]
        odd = [r.number for r, n in zip(c.ranks, done, strict=True) if n != usual]
        site = next((c.site(r, s["site"]) for r in c.ranks for s in r.log["steps"]), Site())
        yield Finding("unbalanced-data", "warning", c.line(site),
                      message=f"{capital(ranks_text(odd))} made {', '.join(str(done[k]) for k in odd)} optimizer steps "
                              f"on {c.words(site)}, the others {usual}.",
                      remedy="Give all ranks as many batches: `DistributedSampler(data, drop_last=True)`, or train in "
                             "`with Join([model]):`.")  # fmt: skip
    if not all(r.log["calls"] for r in c.ranks):
        return
    items = [sum(call[1] for call in r.log["calls"]) / len(r.log["calls"]) for r in c.ranks]
    usual = median(items)
    odd = [r.number for r, n in zip(c.ranks, items, strict=True) if usual and abs(n / usual - 1) > OFF]
    if odd:
        site = c.site(c.ranks[odd[0]], c.ranks[odd[0]].log["calls"][0][3])
        rest = median([n for k, n in enumerate(items) if k not in odd] or items)
        yield Finding("unbalanced-batch", "warning", c.line(site),
                      message=f"{capital(ranks_text(odd))} {verb(odd, 'has', 'have')} batches of "
                              f"{', '.join(f'{items[k]:.4g}' for k in odd)} items on {c.words(site)}, the others of "
                              f"{rest:.4g}: a mean over ranks gives each item another weight, and the others wait.",
                      remedy="Divide the data evenly (`DistributedSampler`), or weigh each rank's loss by its "
                             "items.")  # fmt: skip
