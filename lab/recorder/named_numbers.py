"""The numbers that a loop computes at its lines, and which of them have a course: their names, and what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType

from core.base.source import Location
from widgets.run_curves import Curve

from . import number_names
from .series import Series
from .user_files import is_users

Place = tuple[CodeType, int] | None
FEW = 3  # values from which on a number has a course
_VALIDATION = ("val", "valid", "test", "eval", "dev", "held")
_LOSS = ("loss", "nll", "mse", "cross_entropy", "criterion")


@dataclass
class Named:
    """The values of one line."""

    series: Series
    place: Place
    source: str
    """"loss" (what backward() ran on), "number" (what left the graph) or "log"."""
    name: str = ""
    where: Location | None = None
    text: str = ""
    """The expression, where it is no variable's."""
    at: int = 0
    """Steps that had been made at the last one."""
    twins: int = 0
    """How many of them were the loss as well."""
    quiet: int = 0
    """How many were computed without a history."""
    whole: int = 0
    """How many were whole numbers."""

    def is_course(self) -> bool:
        """Return whether a number is computed again and again, and is not the loss once more."""
        count = self.series.count
        return count >= FEW and len(self.series.points) > 1 and self.twins < 0.5 * count


def curves(
    numbers: Iterable[Named], files: Mapping[str, int], locate: Callable[[CodeType, int], Location]
) -> list[Curve]:
    """Return the curves of those that have a name and a course: losses first, then what is measured on other data.

    files : the cell's file names, with what to add to their line numbers.
    """
    known = list(numbers)
    logged = {named.name for named in known if named.source == "log"}
    lossless = not any(named.source == "loss" for named in known)
    found: list[tuple[Named, Curve]] = []
    for named in known:
        if named.source == "number" and not named.is_course():
            continue
        curve = _curve(named, files, locate, lossless)
        if curve is not None and not (named.source != "log" and curve.name in logged):
            found.append((named, curve))
    names = Counter(curve.name for _, curve in found)
    for named, curve in found:
        if names[curve.name] > 1:
            inside = named.place[0].co_name if named.place is not None else ""
            where = f"line {curve.line}" if curve.line else inside if inside.isidentifier() else ""
            curve.name += f" ({where})" if where else ""
    return sorted((curve for _, curve in found), key=lambda c: (c.kind != "loss", c.kind != "validation"))


def _curve(
    named: Named, files: Mapping[str, int], locate: Callable[[CodeType, int], Location], lossless: bool
) -> Curve | None:
    """Return a number's curve, where its place gives it a name; `lossless`: no backward() has told of a loss."""
    line = None
    kind, inside = "loss" if named.source == "loss" else "metric", ""
    if named.place is not None:
        code, _ = named.place
        inside = code.co_name
        place = named.where = named.where or locate(*named.place)
        if not named.name:
            named.name = "-"
            if named.source == "loss":
                named.name = number_names.loss_in(place.code)
            elif is_users(code.co_filename):
                name = number_names.of_number(place, inside)
                # whole numbers are indices and tokens, unless they are summed up: what was right
                named.name = name.text if name.summed or 2 * named.whole < named.series.count else "-"
                named.text = place.code
        if named.name == "-":
            return None
        offset = files.get(code.co_filename)
        line = None if offset is None else place.line + offset
    words = f"{named.name} {named.text}".lower()
    if kind == "metric" and any(word in words for word in _LOSS):
        says = words.startswith(_VALIDATION) or any(f"_{v}" in words for v in _VALIDATION)
        says = says or any(v in inside.lower() for v in _VALIDATION)
        silent = named.source == "number" and 2 * named.quiet > named.series.count
        if says or silent:
            kind = "validation"
        elif named.source == "log" and lossless:
            kind = "loss"
    return named.series.curve(named.name, kind, line)
