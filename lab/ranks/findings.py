"""What is wrong between ranks: each rule looks at a comparison of them, and gives findings that name lines."""

from __future__ import annotations

import ast
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from widgets.figures import size_text, time_text
from widgets.record import Finding

from .compare import Comparison, Part
from .pool import RankOf

__all__ = ["findings", "ranks_text"]

Rule = Callable[[Comparison, str], Iterator[Finding]]
LATE_SHARE, LATE_TIMES, LATE_LEAST = 0.15, 0.7, 5  # of the time; of the operations; so many of them at least
ALIKE = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "barrier", "all_reduce_coalesced")
"""Operations whose parts have as many bytes on every rank."""
NAMES = 3  # of parameters in a sentence


def ranks_text(ranks: Sequence[int]) -> str:
    """Name ranks.

    >>> ranks_text([2]), ranks_text([0, 1, 2, 3]), ranks_text([0, 2]), ranks_text([0, 1, 3])
    ('rank 2', 'ranks 0 to 3', 'ranks 0 and 2', 'ranks 0, 1 and 3')
    """
    ranks = sorted(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def _names(names: Sequence[str]) -> str:
    shown = [f"`{n}`" for n in names[:NAMES]]
    if len(names) > NAMES:
        return f"{', '.join(shown)} and {len(names) - NAMES} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _at(c: Comparison, part: Part) -> str:
    return f"`{part.op}` on {c.words(*part.site[:2])}" + (" (of `DistributedDataParallel`)" if part.bucket else "")


def _place(c: Comparison, r: RankOf) -> tuple[int | None, str]:
    """Return the line on which a rank was last, and its words with the line's text."""
    if r.error is not None and r.error["line"]:
        return r.error["line"], f"line {r.error['line']}" + _quoted(c.text(r.error["line"]))
    if "line" in r.place:
        line = r.place["line"]
        text = _quoted(r.place.get("text", "") or (c.text(line) if r.place["file"] == c.name else ""))
        return (line if r.place["file"] == c.name else None), c.words(r.place["file"], line) + text
    return None, "a line that it has not told"


def _quoted(text: str) -> str:
    return f" (`{text.replace('`', chr(39))}`)" if text else ""


def _under(c: Comparison, line: int | None) -> str:
    """Return where a line of the cell stands under a test that mentions the rank: " It stands under `if rank == 0:`"."""
    try:
        tree = ast.parse("\n".join(c.source))
    except SyntaxError:
        return ""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.If) and line is not None
             and node.lineno <= line <= (node.end_lineno or 0) and "rank" in ast.unparse(node.test)]  # fmt: skip
    return f"`if {ast.unparse(found[-1].test)}:` on line {found[-1].lineno}" if found else ""


# -- what ended the cell -----------------------------------------------------------------------------------------------


def dead(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank whose process has ended."""
    for r in c.ranks:
        if r.state != "died":
            continue
        line, where = _place(c, r)
        if r.code is not None and r.code < 0:
            how = f"it was killed by {_signal(-r.code)}"
            if r.code == -9:
                how += ", which the system also sends when memory runs out"
            elif -r.code in (4, 6, 7, 8, 11):
                how += ", a crash in native code"
        else:
            how = f"its process ended with code {r.code}" if r.code is not None else "its process has ended"
        yield Finding("dead-rank", "error", line, message=f"Rank {r.number} died on {where}: {how}.",
                      remedy="All ranks were ended, with their variables; the next `%%ranks` cell starts new ones.")  # fmt: skip


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def hung(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank that has not come to a collective in which the others waited until the timeout."""
    late = [r for r in c.ranks if r.error is not None and "Timed out waiting" in r.error["said"]]
    guilty = [r for r in c.ranks if r.state in ("stopped", "ended") and r not in late]
    if not late or cause != "failed":
        return
    for r in guilty:
        part = next((p for t in c.together for p in t.parts.values() if p.rank == late[0].number and p.failed), None)
        what = _at(c, part) if part else "a collective"
        line, where = _place(c, r)
        gone = " It did not answer Ctrl-C, so all ranks were ended." if r.state == "ended" else ""
        yield Finding("hung-rank", "error", line, message=f"Rank {r.number} hangs on {where}: "
                      f"{ranks_text([x.number for x in late])} waited for it in {what} until the timeout.{gone}",
                      remedy="See what it waits for there, or give a longer `--timeout`.")  # fmt: skip


def left(c: Comparison, cause: str) -> Iterator[Finding]:
    """A collective that not all ranks have reached."""
    for t in c.together:
        missing = [r for r in c.ranks if r.number in t.group and r.number not in t.parts and r.state == "done"]
        if t.whole or not missing:
            continue
        part = t.parts[min(t.parts)]
        line = c.line(part.site)
        under = _under(c, line)
        last = [p for u in c.together if u.group == t.group for p in u.parts.values() if p.rank == missing[0].number]
        ended = f"; its last collective was {_at(c, last[-1])}" if last else "; it has called no collective"
        yield Finding("collective-left", "error", line, message=f"{_capital(ranks_text(list(t.parts)))} "
                      f"{'waits' if len(t.parts) == 1 else 'wait'} in {_at(c, part)} for "
                      f"{ranks_text([r.number for r in missing])}, which has ended the cell without it{ended}.",
                      remedy=(f"It stands under {under}: a collective is called by all ranks of its group. " if under else "")
                      + "Give all ranks the same number of steps, and call it on each.")  # fmt: skip
        return


def different(c: Comparison, cause: str) -> Iterator[Finding]:
    """Ranks that met in different collectives."""
    for t in c.together:
        kinds: dict[tuple[str, int], list[Part]] = defaultdict(list)
        for part in t.parts.values():
            kinds[part.op, part.size_bytes if part.op in ALIKE else -1].append(part)
        if len(kinds) < 2:
            continue
        several = sorted(kinds.values(), key=len)
        few, most = several[0], several[-1]
        same = few[0].op == most[0].op

        def said(parts: list[Part], same: bool = same) -> str:
            size = f" of {size_text(parts[0].size_bytes)}" if same else ""
            ranks = ranks_text([p.rank for p in parts])
            return f"{ranks} {'calls' if len(parts) == 1 else 'call'} {_at(c, parts[0])}{size}"

        under = _under(c, c.line(few[0].site))
        yield Finding("collective-mismatch", "error", c.line(few[0].site),
                      message=f"{_capital(said(few))} where {said(most)}: it is collective number {t.sequence + 1} of the "
                      "cell on each.",
                      remedy="All ranks call the same collectives, in the same order, with the same shapes and dtypes."
                      + (f" It stands under {under}." if under else ""))  # fmt: skip
        return


# -- parameters and gradients ------------------------------------------------------------------------------------------


def _steps(c: Comparison) -> Iterator[dict[int, dict[str, Any]]]:
    """Give the steps that all ranks have compared."""
    found: dict[tuple[int, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    for r in c.ranks:
        for step in r.log.get("steps", ()):
            found[step["optimizer"], step["step"]][r.number] = step
    for key in sorted(found):
        if len(found[key]) == len(c.ranks) > 1:
            yield found[key]


def _apart(step: dict[int, dict[str, Any]], what: str) -> tuple[list[str], list[str]]:
    """Return the names whose checksums differ between ranks, and those whose are equal, of those that all ranks have."""
    ranks = list(step.values())
    names = [n for n in ranks[0][what] if all(n in r[what] for r in ranks)]
    differ = [n for n in names if len({r[what][n] for r in ranks}) > 1]
    return differ, [n for n in names if n not in set(differ)]


def parameters(c: Comparison, cause: str) -> Iterator[Finding]:
    """Copies of a model that are not equal: different initial weights, or gradients that are not averaged."""
    steps = list(_steps(c))
    if not steps:
        return
    first, last = steps[0], steps[-1]
    settings = {tuple(s["lr"]) for s in first.values()}
    final = [r.log.get("final", {}) for r in c.ranks]
    still = {n for n in final[0] if len({f.get(n) for f in final}) > 1}
    begun, equal = _apart(first, "before")
    grads, shared = _apart(last, "gradients")
    at = c.ranks[0].sites[first[0]["site"]] if first[0]["site"] >= 0 else {"file": "", "line": 0}
    line = at["line"] if at["file"] == c.name else None
    where = c.words(at["file"], at["line"])
    broadcast = "for p in model.parameters(): dist.broadcast(p.data, 0)"
    unlike = [n for n in begun if n in set(shared) and n in still]
    if unlike and not set(begun) & set(grads):  # else they are parts of a model that is divided among ranks
        yield Finding("weights-differ", "error", line, message=f"The ranks have different initial weights: {_names(unlike)} "
                      f"differ{'s' * (len(unlike) == 1)} before the first step on {where}, and gradients are the same on all, "
                      "so that the copies never become equal.", remedy=f"Wrap the model in `DistributedDataParallel`, which "
                      f"begins with rank 0's weights, or before the first step: `{broadcast}`.")  # fmt: skip
        return
    moved = [n for n in grads if n in still]
    if not moved or len(settings) > 1:
        return
    alike = [n for n in moved if n in set(equal)]
    step = last[0]["step"]
    if alike:
        part = "" if len(alike) == len(moved) and not shared else f" ({_names(alike)})"
        yield Finding("gradients-differ", "error", line, message=f"Gradients differ between the ranks at step {step} on "
                      f"{where}{part}: they are not averaged, and the copies of the model, equal at the start, drift apart.",
                      remedy="Wrap the model in `DistributedDataParallel` and call the wrapped one, or average after "
                      "`backward()`: `dist.all_reduce(p.grad); p.grad /= dist.get_world_size()`.")  # fmt: skip
    elif not any(p.op not in ("barrier", "init_process_group") for t in c.together for p in t.parts.values()):
        yield Finding("gradients-differ", "warning", line, message=f"Each rank trains a model of its own: weights differ "
                      f"before the first step on {where}, gradients at every step, and nothing is sent between the ranks.",
                      remedy="Wrap the model in `DistributedDataParallel`, unless that is what you want.")  # fmt: skip


# -- data --------------------------------------------------------------------------------------------------------------


def same_data(c: Comparison, cause: str) -> Iterator[Finding]:
    """The same batches on all ranks."""
    calls = [[x for x in r.log.get("calls", ()) if x[2] is not None] for r in c.ranks]
    n = min(map(len, calls), default=0)
    if len(calls) < 2 or n < 2:
        return
    alike = [k for k in range(n) if len({rank[k][2] for rank in calls}) == 1]
    whole = len({x[2] for x in calls[0][:n]}) == 1  # the same batch at each step: all of the data
    steps = list(_steps(c))
    tensor_parallel = bool(steps) and not _apart(steps[0], "before")[1]
    if len(alike) < n or tensor_parallel:
        return
    site = calls[0][0][3]
    at = c.ranks[0].sites[site] if site >= 0 else {"file": "", "line": 0}
    line = at["line"] if at["file"] == c.name else None
    loaders = [x for x in c.ranks[0].log.get("loaders", ()) if x["sampler"] != "DistributedSampler"]
    seeds = {r.log.get("seed") for r in c.ranks}
    made = next((k for k, text in enumerate(c.source, 1) if "DataLoader(" in text), None)
    if loaders or made:
        name = f"`{loaders[0]['name']}`" if loaders else "the loader"
        seed = f" in the same order (all have seed {min(seeds)})" if len(seeds) == 1 else ""
        yield Finding("same-data", "error", made or line, message=f"All ranks read the same batches{seed}: {name}"
                      f"{f' on line {made}' if made else ''} has no `DistributedSampler`, and {n} of {n} batches are equal on "
                      "all ranks, so that they do one rank's work.",
                      remedy="`DataLoader(data, batch_size, sampler=DistributedSampler(data))`, and "
                      "`sampler.set_epoch(epoch)` in each epoch.")  # fmt: skip
        return
    why = f"all have seed {min(seeds)}" if len(seeds) == 1 else "they are made alike"
    what = "batch" if whole else "batches"
    yield Finding("same-data", "warning", line, message=f"All ranks compute the same {what} on {c.words(at['file'], at['line'])}"
                  f" ({why}), so that they do one rank's work.", remedy="Give each rank its part: `x[rank::world_size]`, or "
                  "after the model is made `manual_seed(seed + rank)`.")  # fmt: skip


def unbalanced(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank with more or fewer steps, or larger or smaller batches, than the others."""
    if len(c.ranks) < 2 or not all(r.log for r in c.ranks):
        return
    done = [r.log["stepped"] for r in c.ranks]
    site = next((s["site"] for s in c.ranks[0].log["steps"]), -1)
    at = c.ranks[0].sites[site] if site >= 0 else {"file": "", "line": 0}
    if len(set(done)) > 1 and max(done) and all(r.state == "done" for r in c.ranks):
        usual = Counter(done).most_common(1)[0][0]
        odd = [r.number for r, n in zip(c.ranks, done, strict=True) if n != usual]
        counts = ", ".join(str(done[k]) for k in odd)
        yield Finding("unbalanced-data", "warning", at["line"] if at["file"] == c.name else None,
                      message=f"{_capital(ranks_text(odd))} made {counts} optimizer steps on "
                      f"{c.words(at['file'], at['line'])}, the others {usual}.",
                      remedy="Give all ranks as many batches: `DistributedSampler(data, drop_last=True)`, or train in `with "
                      "Join([model]):`.")  # fmt: skip
    items = [r.log["items"] / max(1, r.log["called"]) for r in c.ranks]
    usual_items = median(items)
    odd = [r.number for r, n in zip(c.ranks, items, strict=True) if usual_items and abs(n / usual_items - 1) > 0.1]
    if odd and min(r.log["called"] for r in c.ranks):
        call = c.ranks[odd[0]].log["calls"][0][3]
        at = c.ranks[odd[0]].sites[call] if call >= 0 else {"file": "", "line": 0}
        counts = ", ".join(f"{items[k]:.4g}" for k in odd)
        rest = f"{median([n for k, n in enumerate(items) if k not in odd] or items):.4g}"
        yield Finding("unbalanced-batch", "warning", at["line"] if at["file"] == c.name else None,
                      message=f"{_capital(ranks_text(odd))} {'has' if len(odd) == 1 else 'have'} batches of {counts} items on "
                      f"{c.words(at['file'], at['line'])}, the others of {rest}: a mean over ranks gives each item another "
                      "weight, and the others wait.",
                      remedy="Divide the data evenly (`DistributedSampler`), or weigh each rank's loss by its items.")  # fmt: skip


# -- time --------------------------------------------------------------------------------------------------------------


def late(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank for which the others wait again and again."""
    whole = [t for t in c.together if t.whole and len(t.parts) > 1 and t.parts[min(t.parts)].op != "init_process_group"]
    if len(whole) < LATE_LEAST or not c.seconds:
        return
    cost: dict[int, float] = defaultdict(float)
    times: Counter[int] = Counter()
    for t in whole:
        rank, by = t.late()
        waited = sum(t.waited(p) for p in t.parts.values()) / (len(t.parts) - 1)
        cost[rank] += min(waited, by) if len(t.parts) == 2 else waited
        times[rank] += by > 1e-3
    rank = max(cost, key=lambda k: cost[k])
    counted = sum(times.values())
    if cost[rank] < LATE_SHARE * c.seconds or cost[rank] < LATE_TIMES * sum(cost.values()) or times[rank] < LATE_LEAST \
            or times[rank] < LATE_TIMES * counted:  # fmt: skip
        return
    by = median([t.late()[1] for t in whole if t.late()[0] == rank and t.late()[1] > 1e-3])
    file, line, more = _excess(c, rank)
    where = ""
    if file:
        text = c.text(line) if file == c.name else ""
        where = f": it is {time_text(1e3 * more)} longer on {c.words(file, line)}{_quoted(text)} than the others"
    yield Finding("late-rank", "warning", line if file == c.name else None,
                  message=f"Rank {rank} is late to {times[rank]} of {len(whole)} operations, by {time_text(1e3 * by)} each time; "
                  f"the others wait for it {100 * cost[rank] / c.seconds:.0f} % of the time{where}.",
                  remedy="See what it does there that the others do not: more data, a slower device, writing files, "
                  "or logging on one rank.")  # fmt: skip


def _excess(c: Comparison, rank: int) -> tuple[str, int, float]:
    """Return the line on which a rank is longer than the others, and by how much."""
    own = c.lines_of(c.ranks[rank])
    others = [c.lines_of(r) for r in c.ranks if r.number != rank]
    found = {key: s - median([o.get(key, 0.0) for o in others]) for key, s in own.items()}
    if not found:
        return "", 0, 0.0
    key = max(found, key=lambda k: found[k])
    return (*key, found[key]) if found[key] > 0.02 else ("", 0, 0.0)


def by_hand(c: Comparison, cause: str) -> Iterator[Finding]:
    """Gradients that are summed one after the other when the backward pass is over."""
    r = c.ranks[0]
    if len(c.ranks) < 2 or not r.log:
        return
    parts = [p for t in c.together if (p := t.parts.get(0)) is not None and p.op in ("all_reduce", "reduce", "all_gather")]
    spent, took, sites, n = 0.0, 0.0, Counter[tuple[str, int, str]](), 0
    for step in r.log["steps"]:
        begin, end = (step[k] + r.ahead - c.begin for k in ("passed", "begun"))
        inside = [p for p in parts if begin <= p.begun <= end and not p.bucket and (p.waits is None or p.done is not None)]
        size = sum(p.size_bytes for p in inside)
        if not step["bytes"] or size < 0.8 * step["bytes"] or any(p.bucket and begin <= p.begun <= end for p in parts):
            continue
        n += 1
        took += end - begin
        spent += sum((p.done or p.begun) - p.begun for p in inside)
        sites.update(p.site for p in inside)
    if n < 2 or not took or spent < 0.02 * took:
        return
    site = sites.most_common(1)[0][0]
    calls = sum(sites.values()) / n
    at = r.sites[r.log["steps"][0]["backward"]] if r.log["steps"][0]["backward"] >= 0 else {"file": "", "line": 0}
    yield Finding("no-overlap", "warning" if spent > 0.15 * took else "note", c.line(site),
                  message=f"Gradients are summed on {c.words(*site[:2])} after the backward pass on "
                  f"{c.words(at['file'], at['line'])} is over, {calls:.0f} operations a step, one after the other: "
                  f"they take {100 * spent / took:.0f} % of the time from `backward()` to the step.",
                  remedy="`DistributedDataParallel(model)` sums them in buckets while the backward pass goes on.")  # fmt: skip


RULES: tuple[Rule, ...] = (dead, hung, different, left, parameters, same_data, unbalanced, late, by_hand)


def findings(c: Comparison, cause: str) -> list[Finding]:
    """Return what is wrong, what ended the cell first."""
    return [found for rule in RULES for found in rule(c, cause)]
