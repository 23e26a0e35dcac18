"""Tries the patches of a record's findings from a snapshot, and writes into the findings what came of it."""

from __future__ import annotations

import difflib
import time
from dataclasses import replace
from typing import Any

from widgets.record import Finding, Record

from . import families  # noqa: F401 - fills the table of remedies
from .cell import Patch
from .criteria import CRITERIA, NO_FASTER, SPEED, Criterion, Runs
from .elsewhere import CELLS, cells_from, makes, place_of, seen_there
from .remedies import guesses, of_text, patches
from .snapshot import TOO_LONG, Order, Snapshot
from .timing import Comparison
from .verdict import STAYS, Verdict, judge

BUDGET_S = 60.0  # for all trials of a cell
LEAST_S, MOST_S = 5.0, 20.0  # for one run
SHORT_S = 8.0  # a cell that runs longer is tried on its first backward passes alone
PASSES = 50
SLEEPS = 3  # times the processor's time that a cell takes which waits: what counts is the clock on the wall
FINDINGS = 3  # that are tried
ALIKE = 2  # more lines of one mistake
_UNKNOWN = "fails: NameError"
Again = tuple[tuple[str, str], ...]


def _again(patch: Patch, used: bool = False) -> Again:
    """Return what has to run again for a patch of another source: its cells from there on, where models are made, or
    where a function of it was `used` before the cell."""
    if not patch.file or not (used or makes(patch.was, patch.text)):
        return ()
    cells = tuple(cells_from(patch.file))[-CELLS:]
    return cells if any(file == patch.file for file, _ in cells) else ((patch.file, patch.was), *cells)


class Prover:
    """The trials of one cell: its unchanged runs are made once."""

    def __init__(self, snapshot: Snapshot, text: str, wall_s: float) -> None:
        self.snapshot, self.text = snapshot, text
        self.left: list[dict[str, Any]] = []  # what was found with the patch that was tried last
        self.begin()
        self.steps = PASSES if wall_s > SHORT_S else 0
        self.seconds = min(max(LEAST_S, 10 * wall_s), MOST_S)
        self._before: dict[tuple[str, Again], tuple[dict[str, Any], dict[str, Any]]] = {}

    def begin(self) -> None:
        """Let the time for trials begin now."""
        self.end = time.monotonic() + BUDGET_S

    def run(self, what: str, patch: Patch, again: Again = ()) -> dict[str, Any]:
        """Run the cell with a patch and "measure" or "record" it; `again` runs before it, patched where that is of the
        patch's own source."""
        text = self.text if patch.file else patch.text
        others = ((patch.file, patch.text),) if patch.file else ()
        changed = tuple((file, patch.text if file == patch.file else was) for file, was in again)
        return self.snapshot.run(Order(text, what, self.steps, self.seconds, others=others, again=changed))

    def before(self, patch: Patch, again: Again = ()) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the unchanged cell gives, measured and found, with the source that a patch changes as it was."""
        key = patch.file, again
        if key not in self._before:
            as_it_is = self.unchanged(patch)
            self._before[key] = self.run("measure", as_it_is, again), self.run("record", as_it_is, again)
        return self._before[key]

    def unchanged(self, patch: Patch) -> Patch:
        """Return the patch of the same source that changes nothing."""
        return replace(patch, text=patch.was) if patch.file else Patch("", self.text)

    def one(self, kind: str, patch: Patch) -> Verdict:
        """Try one patch for a finding of a kind; what takes too long is tried on its first backward passes alone."""
        verdict = self._whole(kind, patch)
        if verdict.said == STAYS and patch.file and not _again(patch) and cells_from(patch.file):
            used = self._whole(kind, patch, _again(patch, used=True))
            verdict = used if used.level in ("proved", "consistent") else verdict
        if TOO_LONG in verdict.said and not self.steps:
            before, _ = self._before.get((patch.file, _again(patch)), ({}, {}))
            self.steps = PASSES + (before.get("passes", 0) if before.get("error") else 0)  # past where it fails
            self._before.clear()
            verdict = self._whole(kind, patch)
        return verdict

    def _whole(self, kind: str, patch: Patch, again: Again | None = None) -> Verdict:
        again = _again(patch) if again is None else again
        before, found = self.before(patch, again)
        if "leaves" not in before or "found" not in found:
            return Verdict("untried", before["error"] if "leaves" not in before else found["error"])
        if not any(f["kind"] == kind for f in found["found"]) and kind not in SPEED:
            return Verdict("untried", "the finding does not come in a trial of the unchanged cell")
        verdict = self._judged(kind, patch, again, before, found)
        if verdict.level == "refuted" and self.snapshot.gone:  # in the middle: nothing is known of the patch
            return Verdict("untried", self.snapshot.gone)
        return verdict

    def _judged(self, kind: str, patch: Patch, again: Again, before: dict[str, Any], found: dict[str, Any]) -> Verdict:
        """Return the verdict on a patch of a cell that runs and has the finding."""
        after = self.run("measure", patch, again)
        if "leaves" not in after:
            slow = TOO_LONG in after["error"] and kind not in SPEED  # nothing is known of it
            return Verdict("untried" if slow else "refuted", after["error"])
        compared = None
        if kind in SPEED:
            once = Runs(before, after, found, found)
            first = judge(kind, *self._texts(patch), once)
            if first.said != NO_FASTER or not _may_be_faster(once):
                return first
            compared = self._compared(patch, again, once)
        found_after = self.run("record", patch, again)
        if "found" not in found_after:
            return Verdict("refuted", found_after["error"])
        self.left = found_after["found"]
        runs = Runs(before, after, found, found_after, compared)
        verdict = judge(kind, *self._texts(patch), runs)
        if verdict.level == "consistent" and self._by_chance(kind):
            return Verdict("refuted", "the finding goes by itself when other random numbers are drawn")
        return verdict

    def _alike(self, finding: Finding, patch: Patch) -> Patch | None:
        """Return a patch with what mends the same mistake on another line too, which a rule tells of one at a time."""
        if patch.file:
            return self._alike_there(finding, patch)
        lines, new = self.text.split("\n"), patch.text.split("\n")
        for left in self.left:
            line = left["line"]
            if left["kind"] != finding.kind or not line or line > len(new):
                continue
            own = finding.line is not None and new[line - 1] == lines[finding.line - 1]
            if new[line - 1] in lines and not own:
                found = patches(patch.text, Finding(**left))
                return next((replace(p, said=f"{patch.said}, on line {line} too") for p in found if not p.file), None)
        return None

    def _alike_there(self, finding: Finding, patch: Patch) -> Patch | None:
        """As `_alike`, of a patch of another source: the mistake's other line is one of that too."""
        for left in [Finding(**each) for each in self.left if each["kind"] == finding.kind]:
            place = place_of(left)
            if place is not None and place.file == patch.file:
                found = of_text(patch.text, seen_there(left, place._replace(text=patch.text)))
                said = f"{patch.said}, on line {place.line} too"
                return next((replace(patch, said=said, text=p.text) for p in found if not p.file), None)
        return None

    def _texts(self, patch: Patch) -> tuple[tuple[str, str], tuple[str, str] | None]:
        """Return the cell's text before and with a patch, and those of another source that is changed."""
        if patch.file:
            return (self.text, self.text), (patch.was, patch.text)
        return (self.text, patch.text), None

    def _compared(self, patch: Patch, again: Again, once: Runs) -> Comparison:
        """Run the cell and a patch until it is known which is faster, or the time is over."""
        clock = "wall_ms" if once.before["wall_ms"] > SLEEPS * once.before["cpu_ms"] else "cpu_ms"
        comparison, unchanged = Comparison(once.before[clock], once.after[clock]), self.unchanged(patch)
        for kept in comparison.turns():
            if time.monotonic() > self.end:
                break
            run = self.run("measure", patch if kept is comparison.blocks[-1][1] else unchanged, again)
            if clock not in run:
                break
            kept.append(max(run[clock], 1e-3))
        return comparison

    def _by_chance(self, kind: str) -> bool:
        """Whether the finding goes when nothing but the random numbers is changed."""
        found = self.run("record", Patch("", _other_draws(self.text)))
        return "found" in found and not any(f["kind"] == kind for f in found["found"])

    def finding(self, finding: Finding) -> tuple[Verdict, Patch] | None:
        """Try the patches of a finding until one is proved; return the best, None where there is no patch.

        A guess that fails is not told: the finding may be right, and another way of doing it better. Nor is code of a
        remedy that names what is not there.
        """
        best = self._best(finding, patches(self.text, finding))
        if best is None or best[0].level == "refuted":
            best = self._best(finding, guesses(self.text, finding), best)
        return best

    def _best(
        self, finding: Finding, found: list[Patch], best: tuple[Verdict, Patch] | None = None
    ) -> tuple[Verdict, Patch] | None:
        """Try patches until one is proved; return the best of them and of one that was tried before."""
        order = {"proved": 0, "consistent": 1, "unknown": 2, "refuted": 3, "untried": 4}
        for patch in found:
            if time.monotonic() > self.end:
                return best or (Verdict("untried", "the time for trials was over"), patch)
            verdict = self.one(finding.kind, patch)
            for _ in range(ALIKE):
                more = self._alike(finding, patch) if verdict.said == STAYS else None
                if more is None:
                    break
                patch, verdict = more, self.one(finding.kind, more)
            if verdict.level == "refuted" and (patch.guess or _UNKNOWN in verdict.said):
                continue
            if best is None or order[verdict.level] < order[best[0].level]:
                best = verdict, patch
            if verdict.level == "untried" or CRITERIA.get(finding.kind, Criterion()).enough(verdict.level):
                break
        return best


def _may_be_faster(runs: Runs) -> bool:
    """Whether more runs could show that a patch makes the cell faster with the same values."""
    quicker = any(runs.after[clock] < runs.before[clock] for clock in ("cpu_ms", "wall_ms"))
    return not runs.after["error"] and quicker and bool(runs.tolerance())


def alone_s(record: Record) -> float:
    """Return how long a cell takes when nothing is recorded, and nobody else has the processor.

    >>> alone_s(Record(wall_ms=9000.0, recording_ms=7000.0, starved_ms=500.0))
    1.5
    """
    return max(record.wall_ms - record.recording_ms - record.starved_ms, 0.0) / 1e3


def _other_draws(text: str) -> str:
    """The text with random numbers drawn at its begin, on its first line, so that all lines keep their numbers."""
    draws = "[m.randn(7) for m in map(__import__('sys').modules.get, ('torch', 'core')) if hasattr(m, 'randn')]"
    head, _, rest = text.partition("\n")
    plain = not head.startswith(("%", "!", "#", "from __future__", "class ", "def ", "@", "for ", "with ", "if ", '"'))
    return f"{draws}; {text}" if plain and head.strip() else f"{head}\n{draws}; {rest}" if _simple(rest) else text


def _simple(text: str) -> bool:
    first = text.partition("\n")[0]
    return bool(first.strip()) and not first.startswith((" ", "class ", "def ", "@", "for ", "with ", "if ", "#"))


def prove(record: Record, snapshot: Snapshot, text: str) -> None:
    """Try the remedies of a record's first findings, and put those that do not help behind the others.

    Each tried finding gets `tried`, a sentence, and `patch`, the changed lines.
    """
    prover = Prover(snapshot, text, alone_s(record))
    refuted = []
    for k, finding in enumerate(record.findings[:FINDINGS]):
        outcome = prover.finding(finding)
        if outcome is None:
            continue
        verdict, patch = outcome
        record.findings[k] = replace(finding, tried=sentence(verdict), patch=shown(text, patch))
        if verdict.level == "refuted":
            refuted.append(record.findings[k])
    if record.error is None:  # what explains an error stays in front
        record.findings.sort(key=lambda f: any(f is r for r in refuted))


def propose(record: Record, text: str, reason: str) -> None:
    """Show the first patch of each finding untried, and say why it is where there is a reason."""
    tried = sentence(Verdict("untried", reason)) if reason else ""
    for k, finding in enumerate(record.findings):
        found = [patch for patch in patches(text, finding) if not patch.guess]
        if found:
            record.findings[k] = replace(finding, tried=tried, patch=shown(text, found[0]))


def sentence(verdict: Verdict) -> str:
    """Return a verdict as the card says it.

    >>> sentence(Verdict("proved", "4 parameters get gradients now")), sentence(Verdict("refuted", "the finding stays"))
    ('Tried: 4 parameters get gradients now.', 'Tried: it did not help (the finding stays).')
    >>> sentence(Verdict("unknown", "the machine is busy: one and the same cell took 12 to 31 ms"))
    'Tried: could not tell whether it helps (the machine is busy: one and the same cell took 12 to 31 ms).'
    """
    if verdict.level == "untried":
        return f"Not tried: {verdict.said}."
    if verdict.level == "unknown":
        return f"Tried: could not tell whether it helps ({verdict.said})."
    if verdict.level == "refuted":
        return f"Tried: it did not help ({verdict.said})."
    return f"Tried: {verdict.said}."


def shown(text: str, patch: Patch) -> str:
    """Return what a patch changes as the card shows it; of another source with its name before each line."""
    if not patch.file:
        return changed_lines(text, patch.text)
    return "\n".join(f"{patch.name} {line}" for line in changed_lines(patch.was, patch.text).split("\n"))


def changed_lines(text: str, new: str) -> str:
    """Return the lines that a patch changes, with their numbers in the old text: "-" taken out, "+" put in."""
    old_lines, new_lines = text.split("\n"), new.split("\n")
    out = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if tag != "equal":
            out += [f"line {k + 1} - {old_lines[k]}" for k in range(a, b)]
            out += [f"line {a + 1} + {line}" for line in new_lines[c:d]]
    return "\n".join(out)
