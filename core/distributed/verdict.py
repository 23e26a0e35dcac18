"""Who has failed or hangs, from what the ranks have reported; said in a paragraph."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Failure", "Rank", "Stopped", "verdict"]

LEFT_S, OTHERS_S = 3.0, 5.0  # without progress: where a rank has ended; where ranks wait in different collectives
LOOKS = 8  # ... and this often they have looked, at most four times a second
ALIKE = 60  # characters of two errors that are the same
USUAL_S = 1800.0  # PyTorch's: after half an hour a collective gives up
_PAIRS = {"send", "recv", "isend", "irecv", "batch_isend_irecv"}


@dataclass
class Rank:
    """What is known of a rank."""

    number: int
    host: str = ""
    pid: int = 0
    front: int = 0  # the process that mpiexec knows
    step: int = 0
    done: int = 0  # collectives
    place: dict[str, Any] = field(default_factory=dict)  # file, line, name, text; op, bytes, ranks of what it waits for
    still_s: float = 0.0  # since its last step or collective
    looks: int = 0  # of its own at where it is, meanwhile: a program that gets no time of the processor has none
    stopped: bool = False
    memory_mb: int = 0
    code: int | None = None
    error: str = ""
    ordered: bool = False  # it was told to end
    oom: bool = False
    left: list[str] = field(default_factory=list)
    heard_s: float = 0.0
    failed_s: float = 0.0  # when that was heard
    attempt: int = 0

    def take(self, told: dict[str, Any]) -> None:
        """Take a report."""
        for name, value in told.items():
            if name in self.__dataclass_fields__ and not (name == "place" and not value and self.place):
                setattr(self, name, value)

    @property
    def ended(self) -> bool:
        """Whether its program has come to its end."""
        return self.code == 0 or bool(self.place.get("ended"))

    @property
    def waits(self) -> str:
        """The collective in which it waits, or ""."""
        return "" if self.ended or self.failed else str(self.place.get("op", ""))

    @property
    def failed(self) -> bool:
        """Whether it has ended by itself, and badly."""
        return self.code not in (None, 0) and not self.ordered

    def who(self, size: int) -> str:
        """Return "rank 1 of 4 on host a"."""
        return f"rank {self.number} of {size}" + (f" on {self.host}" if self.host else "")

    def where(self, quoted: bool = True) -> str:
        """Return "at step 3, train.py:12, in `loss.backward()`"."""
        told = f"at step {self.step}" + (" of this start" if self.attempt else "")
        if file := self.place.get("file"):
            told += f", {file}:{self.place['line']}"
            if quoted and self.place.get("text"):
                told += f", in `{self.place['text']}`"
        return told


def _several(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _numbers(ranks: Sequence[Rank]) -> str:
    """Return "rank 1" or "ranks 1 and 2"."""
    return f"rank{'s' * (len(ranks) > 1)} {_several([str(r.number) for r in ranks])}"


def _together(ranks: Sequence[Rank], say: Callable[[Rank], str]) -> str:
    """Return what is said of ranks, of which the same is said once; of six different at most."""
    said: dict[str, list[Rank]] = {}
    for r in ranks:
        said.setdefault(say(r), []).append(r)
    told = [f"{_numbers(k)} {words}" for words, k in list(said.items())[:6]]
    return "; ".join(told) + ("; ..." if len(said) > 6 else "")


def _size(rank: Rank) -> str:
    return f" of {rank.place['bytes']:,} bytes" if rank.place.get("bytes") else ""


@dataclass
class Failure:
    """Which ranks have failed, and of what kind that was. `str` says it."""

    guilty: list[Rank]
    ranks: list[Rank]
    kind: str
    seconds: float = 0.0
    said: str = ""
    ran_s: float = 0.0

    @property
    def code(self) -> int:
        """The launcher's exit code: the rank's own, 128 and the signal's number, 124 for what hangs."""
        if self.kind in ("hangs", "waits", "left", "others", "silent", "unborn"):
            return 124
        code = self.guilty[0].code if self.guilty else 1
        return 1 if not code else code if code > 0 else 128 - code

    def __str__(self) -> str:
        told = getattr(self, f"_{self.kind}")()
        return " ".join([told, *self._rest()])

    # -- the kinds -----------------------------------------------------------------------------------------------------

    def _raised(self) -> str:
        first = self.guilty[0]
        if first.error.startswith("sys.exit"):
            told = f"{self._who(first)} ended with {first.error} {first.where()}."
        else:
            told = f"{self._who(first)} failed {first.where()}: {first.error.rstrip('.')}."
            told += " Its traceback is above." if "Error" in first.error else ""
        same = [r for r in self.guilty[1:] if r.error[:ALIKE] == first.error[:ALIKE]]
        told += f" So did {_together(same, lambda r: r.where(quoted=False))}." if same else ""
        for other in [r for r in self.guilty[1:] if r not in same][:3]:
            told += f" Rank {other.number} failed {other.where(quoted=False)}: {other.error.rstrip('.')}."
        return told

    def _died(self) -> str:
        first = self.guilty[0]
        number = -(first.code or 0)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "a signal"
        told = f"{self._who(first)} was ended by {name} (signal {number}), last seen {first.where()}."
        if first.oom:
            told += f" The system ended it for want of memory; it used {first.memory_mb} MB when last seen."
        elif number == signal.SIGKILL:
            told += (" Somebody sent it that signal, or the system did for want of memory: it used "
                     f"{first.memory_mb} MB when last seen.")  # fmt: skip
        elif number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
            told += " That is a crash in compiled code; Python's lines at that moment are above."
        return told

    def _exited(self) -> str:
        first = self.guilty[0]
        return f"{self._who(first)} ended with code {first.code} {first.where()}."

    def _hangs(self) -> str:
        first = self.guilty[0]
        why = " It is stopped (SIGSTOP): kill -CONT lets it go on." if first.stopped else ""
        told = f"{self._who(first)} made no progress for {self.seconds:.0f} s {first.where()}.{why}"
        for other in self.guilty[1:4]:
            told += f" Neither did rank {other.number}, {other.where()}."
        return told

    def _waits(self) -> str:
        return (f"All ranks wait for each other, for {self.seconds:.0f} s: {self._waiting(self.guilty)}. "
                "Each of them needs another one to make the call that answers its own.")  # fmt: skip

    def _others(self) -> str:
        return (f"The ranks wait in collectives that do not match, for {self.seconds:.0f} s: "
                f"{self._waiting(self.guilty)}. All ranks of a group have to call the same ones in the same order, "
                "with tensors of the same shape; --check compares them at once.")  # fmt: skip

    def _left(self) -> str:
        first = self.guilty[0]
        told = f"{self._who(first)} has ended its program after step {first.step}, and other ranks wait for it."
        if len(self.guilty) > 1:
            told += f" So {'have' if len(self.guilty) > 2 else 'has'} {_numbers(self.guilty[1:])}."
        return f"{told} Every rank has to make the same number of steps (drop_last, or the context manager Join)."

    def _silent(self) -> str:
        hosts = sorted({r.host for r in self.guilty})
        first = self.guilty[0]
        return (f"Nothing has been heard from {_several(hosts)} for {self.seconds:.0f} s, with "
                f"{_numbers(self.guilty)}; rank {first.number} was last seen {first.where()}.")  # fmt: skip

    def _unborn(self) -> str:
        begun = "have" if len(self.guilty) > 1 else "has"
        return f"R{_numbers(self.guilty)[1:]} {begun} not begun within {self.seconds:.0f} s{self._quoted()}."

    def _mpiexec(self) -> str:
        begun = any(r.pid for r in self.ranks)
        return f"mpiexec {'has ended' if begun else 'could not start the ranks'}{self._quoted()}."

    def _quoted(self) -> str:
        all_lines = [k.strip() for k in self.said.splitlines() if k.strip() and not k.startswith("=")]
        lines = [k for k in all_lines if not k.startswith(("[mpiexec@", "[proxy:"))] or all_lines  # its own calls
        return f"; it said: {' / '.join(lines[-6:])[:600]}" if lines else ""

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _who(self, rank: Rank) -> str:
        told = rank.who(len(self.ranks))
        return told[0].upper() + told[1:]

    def _waiting(self, ranks: list[Rank]) -> str:
        return _together(ranks, lambda r: f"in {r.waits}{_size(r)} {r.where(quoted=False)}")

    def _rest(self) -> list[str]:
        others = [r for r in self.ranks if r not in self.guilty and r.pid and not r.failed]
        waiting = [r for r in others if r.waits]
        told = [f"Waiting for it: {self._waiting(waiting)}."] if waiting else []
        busy = [r for r in others if not r.waits and not r.ended]
        if busy:
            told.append(f"Meanwhile: {_together(busy, lambda r: r.where(quoted=False))}.")
        left = [p for r in self.ranks for p in r.left]
        if left:
            told.append(f"Processes that it left behind were ended: {'; '.join(left[:4])}.")
        return told


class Stopped(Failure):
    """The launcher was told to stop."""

    def __init__(self, ranks: list[Rank], number: int) -> None:
        super().__init__([], ranks, "stopped")
        self.number = number

    @property
    def code(self) -> int:
        """128 and the signal's number."""
        return 128 + self.number

    def _stopped(self) -> str:
        name = "Ctrl-C" if self.number == signal.SIGINT else signal.Signals(self.number).name
        lines = _together([r for r in self.ranks if r.pid and not r.ended], Rank.where)
        return f"Stopped by {name}: {lines or 'no rank had begun'}."

    def _rest(self) -> list[str]:
        return []


def verdict(ranks: list[Rank], timeout_s: float | None, mpiexec: tuple[int, str] | None = None) -> Failure | None:
    """Return the failure that the reports tell of, None where there is none.

    timeout_s : how long a rank may make no optimizer step and no collective; 0 for ever; None for half an hour, as long
        as another rank waits for it.
    mpiexec : its exit code and its own words, once it has ended.
    """
    failed = [r for r in ranks if r.failed]
    if failed:
        return _of_failed(failed, ranks)
    found = _of_ended(ranks) or _of_others(ranks, OTHERS_S) or _of_hanging(ranks, timeout_s)
    if found is not None or mpiexec is None:
        return found
    code, said = mpiexec
    early = [r for r in ranks if r.code == 0]  # mpiexec ends the others, and names one of them
    if early and any(r.code is None or r.ordered for r in ranks) and code in (0, 9):
        return Failure(early, ranks, "left")
    told = re.search(r"PID (\d+) RUNNING AT (\S+)\s+=\s+EXIT CODE: (\d+)", said)
    named = [r for r in ranks if told and r.front == int(told[1])]
    if named:
        named[0].code = -int(told[3]) if int(told[3]) < 32 else int(told[3])  # type: ignore[index]
        return Failure(named, ranks, "died" if named[0].code < 0 else "exited", said=said)
    return Failure([r for r in ranks if r.code not in (None, 0)], ranks, "mpiexec", said=said or f"exit code {code}")


def _of_failed(failed: list[Rank], ranks: list[Rank]) -> Failure:
    """Return who failed first; where ranks only waited in vain, who let them wait."""
    late = [r for r in failed if r.error.startswith("DistBackendError: Timed out")]
    if len(late) == len(failed):
        alive = [r for r in ranks if r.code is None]
        ended = [r for r in ranks if r.ended]
        hanging = [r for r in alive if not r.waits and not r.ended]
        if hanging or ended:
            found = Failure(hanging or ended, ranks, "hangs" if hanging else "left", max(r.still_s for r in failed))
            return found
    first = sorted([r for r in failed if r not in late] or failed, key=lambda r: r.failed_s)
    kinds = ["died" if (r.code or 0) < 0 else "raised" if r.error else "exited" for r in first]
    return Failure([r for r, kind in zip(first, kinds, strict=True) if kind == kinds[0]], ranks, kinds[0])


def _of_ended(ranks: list[Rank]) -> Failure | None:
    """Return ranks whose program has ended while others wait for them."""
    ended = [r for r in ranks if r.ended]
    waiting = [r for r in ranks if r.waits and r.still_s >= LEFT_S and r.looks >= LOOKS]
    if not ended or not waiting or any(not r.waits for r in ranks if not r.ended):
        return None
    missed = {k for r in waiting for k in (r.place.get("ranks") or range(len(ranks)))}
    early = [r for r in ended if r.number in missed]
    return Failure(early, ranks, "left", max(r.still_s for r in waiting)) if early else None


def _of_others(ranks: list[Rank], after_s: float) -> Failure | None:
    """Return ranks of one group that wait in different collectives, or in one with different sizes."""
    if len({(r.waits, r.place.get("bytes")) for r in ranks}) < 2:
        return None
    if not all(r.waits and r.still_s >= after_s and r.looks >= LOOKS for r in ranks):
        return None
    groups = {tuple(r.place.get("ranks") or ()) for r in ranks}
    if len(groups) > 1 or any(r.waits in _PAIRS for r in ranks):
        return None
    return Failure(list(ranks), ranks, "others", min(r.still_s for r in ranks))


def _of_hanging(ranks: list[Rank], timeout_s: float | None) -> Failure | None:
    """Return ranks that make no progress, though they wait for nobody; or all, where all wait."""
    alive = [r for r in ranks if r.pid and r.code is None]
    if timeout_s is None:
        timeout_s = USUAL_S if any(r.waits and r.still_s >= USUAL_S for r in alive) else 0.0
    if not timeout_s:
        return None
    still = [r for r in alive if r.still_s >= timeout_s]
    idle = [r for r in still if not r.waits and not r.ended] or [r for r in still if r.stopped]
    if idle:
        idle.sort(key=lambda r: not r.stopped)
        return Failure(idle, ranks, "hangs", idle[0].still_s)
    if still and len(still) == len(alive) == len(ranks):
        kind = "waits" if any(r.waits for r in still) else "hangs"
        return _of_others(ranks, timeout_s) or Failure(
            [r for r in still if r.waits] or still, ranks, kind, min(r.still_s for r in still)
        )
    return None
