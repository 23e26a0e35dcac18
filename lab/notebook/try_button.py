"""The card's button "Try it": the process from before a cell sleeps until the next one begins, a press tries in it.

Nothing runs unasked: what sleeps is a fork of the kernel, made where that takes some milliseconds, and what comes from
the page is the number of a card and that of a finding.
"""

from __future__ import annotations

import atexit
import threading
from dataclasses import replace
from typing import Any

from widgets.record import Record

from ..prove import proving
from ..prove.verdict import Verdict
from .try_magic import Trying

ANOTHER_CELL = "another cell has run since, and the state before this one has gone: run this cell again, then try"


class Offer(Trying):
    """What a press on one card can ask for, from the start of its cell until the next cell begins."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell, asked=False)
        self.place = ""  # of the card
        self._record = Record()
        self._prover: proving.Prover | None = None
        self._told: dict[int, dict[str, str]] = {}
        self._turn = threading.Lock()  # one trial at a time, and none while the process is let go
        self._over = ""  # why nothing is tried any more

    def finish(self, record: Record, text: str) -> None:
        """Show as untried changes of the cell what may mend it; the copy of the process stays where there are any."""
        global _latest
        try:
            proving.propose(record, text, self.reason)
        except Exception as error:  # of a rule: the card is drawn without
            record.environment["remedies"] = f"not known: {type(error).__name__}: {error}"
        if self.snapshot is None or not any(finding.patch for finding in record.findings):
            self.close()
            return
        self._record, self._prover = record, proving.Prover(self.snapshot, text, proving.alone_s(record))
        _latest = self  # the next cell lets it go, whatever becomes of the card

    def show(self, place: str) -> bool:
        """Let the buttons of the card at a place ask; return whether they can."""
        self.place = place if self._prover is not None else ""
        return bool(self.place)

    def press(self, number: int) -> dict[str, str]:
        """Try the remedy of a finding, once; return what the card is to say, the changed lines, and how it ended."""
        if self._prover is None or not 0 <= number < len(self._record.findings):
            raise ValueError(f"this card has no finding {number}")
        with self._turn:
            if number not in self._told:
                self._told[number] = self._tried(self._prover, number)
            return self._told[number]

    def _tried(self, prover: proving.Prover, number: int) -> dict[str, str]:
        finding = self._record.findings[number]
        prover.begin()
        outcome = None if self._over else prover.finding(finding)
        if outcome is None or (self._over and outcome[0].level != "proved"):  # it was ended before all was tried
            why = self._over or "no change of the cell is known for it"
            return {"said": proving.sentence(Verdict("untried", why)), "patch": finding.patch, "level": "untried"}
        verdict, patch = outcome
        said, lines = proving.sentence(verdict), proving.shown(prover.text, patch)
        self._record.findings[number] = replace(finding, tried=said, patch=lines)
        return {"said": said, "patch": lines, "level": verdict.level}

    def close(self, why: str = "") -> None:
        """Let the sleeping process go; a large one takes a while to end, and nobody need wait for that."""
        self._over = self._over or why
        if self.snapshot is not None:
            self.snapshot.kill()
            threading.Thread(target=self.ended, name="gradlab try", daemon=True).start()

    def ended(self) -> None:
        """Wait until the process that slept has gone."""
        with self._turn:
            super().close()


_latest: Offer | None = None


def press(place: str, number: int) -> dict[str, str]:
    """Try the remedy of a finding of the card at a place."""
    offer = _latest
    if offer is None or offer.place != place:
        return {"said": proving.sentence(Verdict("untried", ANOTHER_CELL)), "patch": "", "level": "untried"}
    return offer.press(number)


def another_cell() -> None:
    """Let go what the last card could ask for."""
    global _latest
    offer, _latest = _latest, None
    if offer is not None:
        offer.close(ANOTHER_CELL)


def _at_exit() -> None:
    """No thread begins any more when the process ends."""
    if _latest is not None and _latest.snapshot is not None:
        _latest.snapshot.kill()
        _latest.ended()


atexit.register(_at_exit)
