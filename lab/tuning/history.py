"""``tune history KERNEL``: a kernel's sessions, and two of them compared in words; as text, or as a page.

``%tune history matmul_f32`` lists what the store knows and compares the two latest sessions of the same problem;
``--compare 2 5`` takes others. ``-o page.html`` writes a page that needs no kernel.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from triton_kernels.tune import past
from triton_kernels.tune import problem as problems
from triton_kernels.tune.database import KEY
from triton_kernels.tune.store import Store
from widgets.figures import count_text
from widgets.past import Compared, History, Problem, Session
from widgets.training import seconds_text

from .config_text import words

_NAMED = 3  # configs that are named in a sentence
_ENDS = {"faster": "faster", "default": "the default stays", "noisy": "too noisy to tell", "failed": "failed",
         "stopped": "stopped", "by hand": "chosen by hand"}  # fmt: skip
_FACTS = {"source": "text of the kernel", "mode": "arguments"}
Record = dict[str, Any]


def history(
    store: Store, kernel: str, shape: str = "", dtype: str = "", pair: tuple[int, int] | None = None
) -> History:
    """Return a kernel's sessions by problem, each with its number, and two of them compared.

    *Raises*: ValueError where there is none, or none of a number.
    """
    wanted = list(problems.parse_shape(shape)) if shape else []
    kept = [s for s in store.sessions(kernel) if s["trials"] or s["outcome"]]
    kept = [s for s in kept if wanted in ([], s["shape"]) and dtype in ("", s["dtype"])]
    if not kept:
        known = ", ".join(sorted({k["kernel"] for k in store.tuned()})) or "none"
        at = f" at {shape}" * bool(shape) + f" in {dtype}" * bool(dtype)
        raise ValueError(f"no session of {kernel}{at} is in {store.where}. Kernels that were tuned: {known}")
    view = History(" ".join(part for part in (kernel, shape, dtype) if part))
    of: dict[str, Problem] = {}
    for number, session in enumerate(kept, 1):
        title = " ".join(filter(None, (kernel, past.as_text(session["shape"]), session["dtype"])))
        title += f" on {session['device']}"
        name = repr([session[n] for n in KEY if n != "source"])
        of.setdefault(name, Problem(title)).sessions.append(row(number, session))
    view.problems = list(of.values())
    pair = pair or _latest_two(kept)
    if pair is not None:
        if not all(1 <= n <= len(kept) for n in pair):
            raise ValueError(f"--compare {pair[0]} {pair[1]}: there are the sessions 1 to {len(kept)}")
        view.compared = comparison(*pair, kept[pair[0] - 1], kept[pair[1] - 1])
    return view


def _latest_two(kept: list[Record]) -> tuple[int, int] | None:
    """Return the numbers of the last session, and of the one before it of the same problem, whatever its text was."""
    last = kept[-1]
    for k in range(len(kept) - 2, -1, -1):
        if all(kept[k][n] == last[n] for n in KEY if n != "source"):
            return k + 1, len(kept)
    return None


def row(number: int, session: Record) -> Session:
    """Return a session as it is listed."""
    outcome, trials = session["outcome"] or {}, session["trials"]
    ends = [t["at"] for t in trials] or [session["at"]]
    took = outcome.get("seconds", max(max(ends) - session["at"], 0.0))
    facts = [f"{name} {value}" for name, value in session["environment"].items() if name != "device"]
    made = Session(number, time.strftime("%Y-%m-%d %H:%M", time.localtime(session["at"])),
                  _ENDS.get(outcome.get("verdict", ""), "no end was written"), len(trials), seconds_text(took),
                  machine=" · ".join(facts))  # fmt: skip
    if "config" in outcome:
        made.config, made.ratio = words(outcome["config"]), outcome["ratio"]
        made.time_ms = outcome["ratio"] * outcome["default_ms"] if "default_ms" in outcome else None
        if outcome["verdict"] == "faster":
            made.low, made.high = outcome["low"], outcome["high"]
    return made


# -- two of them -------------------------------------------------------------------------------------------------------


def comparison(a: int, b: int, first: Record, second: Record) -> Compared:
    """Return what is different in the second of two sessions, in words."""
    found = past.compare(first, second)
    facts = [(_FACTS.get(n, n.replace("_", " ")), *_shortened(n, x, y)) for n, x, y in found.facts]
    changed = {repr(sorted(c.config.items())) for c in found.changed}
    dots = [(words(c), x, y, repr(sorted(c.items())) in changed) for c, x, y in found.timed]
    return Compared(a, b, sentences(found), facts, dots, found.machine[0] if found.machine else 1.0)


def _shortened(name: str, before: str, now: str) -> tuple[str, str]:
    return (before[:12], now[:12]) if name == "source" else (before, now)


def sentences(found: past.Comparison) -> list[str]:
    """Return a comparison in words, what matters most first."""
    said = [_choice(found)]
    if found.machine is None:
        said.append(f"{count_text(found.both, 'config')} were timed in both: from {past.LEAST} on it can be told what "
                    "is noise.")  # fmt: skip
    else:
        said.append(_machine(found))
        if found.changed:
            named = "; ".join(f"{words(c.config)} takes {c.ratio:.2f} times as long" for c in found.changed[:_NAMED])
            more = f", and {len(found.changed) - _NAMED} more" if len(found.changed) > _NAMED else ""
            said.append(f"Beside the others {count_text(len(found.changed), 'config')} changed: {named}{more}.")
        else:
            said.append(f"None of the {found.both} configs that both timed has changed beside the others: what differs "
                        "is noise.")  # fmt: skip
    for what, some in (("wrong or failing now, right before", found.failing), ("right now, not before", found.mended)):
        if some:
            config, why = some[0]
            said.append(f"{count_text(len(some), 'config')} {what}: {words(config)} ({why}).")
    if found.only_first or found.only_second:
        said.append(f"Tried in the first alone: {found.only_first}; in the second alone: {found.only_second}.")
    return said


def _choice(found: past.Comparison) -> str:
    first, second = found.chosen
    if first is None or second is None:
        who = "neither session has one" if first is second else f"the {'second' if first else 'first'} has none"
        return f"The choices cannot be compared: {who}."
    noisy = [which for which, o in (("first", first), ("second", second)) if o["verdict"] == "noisy"]
    if noisy:
        return f"The choices cannot be compared: the {' and the '.join(noisy)} named none, for noise."
    if all(o["config"] == o.get("default") for o in (first, second)):
        return "The default stays in both."
    then, now = (f"{o['ratio']:.3f} ({o['low']:.3f} to {o['high']:.3f})" for o in (first, second))
    if first["config"] == second["config"]:
        what = f"The same choice, {words(second['config'])}"
    else:
        what = f"Another choice: {words(second['config'])} in place of {words(first['config'])}"
    if found.better:
        return f"{what}. Of the default's time it takes {now}, {found.better} than the {then} before."
    return f"{what}. Of the default's time: {then} before, {now} now, which is no difference that can be told."


def _machine(found: past.Comparison) -> str:
    assert found.machine is not None
    middle, low, high = found.machine
    if found.slower == 1.0:
        told = f"({middle:.2f} of the time, {low:.2f} to {high:.2f})"
        return f"The machine: as fast as before, as far as can be told {told}."
    how = f"{middle:.2f} times as long" if middle > 1.0 else f"{middle:.2f} of the time"
    return f"The machine: all configs alike take {how} ({low:.2f} to {high:.2f}); that is not the kernel."


# -- the command -------------------------------------------------------------------------------------------------------


def add_to(parts: Any) -> None:
    """Add the command to a group of commands."""
    about = "a kernel's sessions, and two of them compared"
    made: argparse.ArgumentParser = parts.add_parser("history", help=about, description=about)
    made.add_argument("kernel", metavar="KERNEL", help="such as matmul_f32")
    made.add_argument(
        "shape", metavar="SHAPE", nargs="?", default="", help="such as 512x512x512; all where none is named"
    )
    made.add_argument("dtype", metavar="DTYPE", nargs="?", default="", help="such as float32")
    made.add_argument("--compare", metavar="N", type=int, nargs=2, help="two sessions by number (the latest two)")
    made.add_argument("-o", "--output", type=Path, help="a page, FILE.html; it must not exist")


def asked(options: argparse.Namespace) -> History:
    """Return what a command asks for. *Raises*: ValueError."""
    pair = tuple(options.compare) if options.compare else None
    with Store() as store:
        return history(store, options.kernel, options.shape, options.dtype, pair)
