"""The values that a loss went through, as few as are needed to tell where it went."""

from __future__ import annotations

from collections import deque


class Course:
    """What a loss went through: its first values and its last."""

    __slots__ = ("count", "first", "last")
    FEW = 64

    def __init__(self) -> None:
        self.count, self.first = 0, []  # type: ignore[var-annotated]
        self.last: deque[float] = deque(maxlen=self.FEW)

    def note(self, value: float) -> None:
        """The next value."""
        self.count += 1
        if self.count <= self.FEW:
            self.first.append(value)
        self.last.append(value)

    def ends(self) -> tuple[float, float, float]:
        """Return where it began, where it ended, and how high it went: of eight values and more the medians of
        quarters, since losses of small batches leap; NaN where it ended so.

        >>> course = Course()
        >>> for value in [4, 3, 9, 2, 2, 1, 5, 1]:
        ...     course.note(value)
        >>> course.ends()
        (3.5, 3.0, 5.5)
        """
        values = [*self.first, *list(self.last)[-max(self.count - len(self.first), 0) :]][: self.count]
        if self.count <= self.FEW:
            values = self.first
        if values[-1] != values[-1] or self.count < 8:
            return values[0], values[-1], max(values)
        quarter = len(values) // 4
        parts = [sorted(values[k : k + quarter]) for k in range(0, len(values) - quarter + 1, quarter)]
        middle = [0.5 * (part[(quarter - 1) // 2] + part[quarter // 2]) for part in parts]
        return middle[0], middle[-1], max(middle)
