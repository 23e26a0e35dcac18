"""When a step of a training loop ends, told by what every loop does: an optimizer's step, or a backward pass.

A loop may step several optimizers, some more often than others (a GAN's critic), and call backward() several times. Its
step ends with the optimizer that steps rarest: after it all have done what one time round the loop asks of them.
"""

from __future__ import annotations

from collections import deque

WINDOW = 8  # the last steps of optimizers that tell which of them steps rarest
PASSES = 32  # backward passes without a step of an optimizer, after which none is expected: gradients may add up


class StepEnds:
    """Counts the steps of a loop, by marks that it is told in turn.

    >>> ends = StepEnds()
    >>> [ends.stepped(key) for key in "cccgcccg"], ends.count  # a critic that steps three times, and the generator
    ([True, True, True, True, False, False, False, True], 2)
    >>> for _ in range(20):  # another loop, of one optimizer
    ...     ended = ends.stepped("f")
    >>> ended, ends.count
    (True, 22)
    """

    def __init__(self) -> None:
        self.count = 0
        """Steps that have ended."""
        self.loops = 0
        """Loops that were met, each with a leader of its own: the mark that its steps end with."""
        self._leader: object = None
        self.alone = False
        """Whether the last steps were all of the leader."""
        self._window: deque[object] = deque(maxlen=WINDOW)
        self._gap: int | None = None  # the most steps of others that came between two of the leader's
        self._others = 0  # steps of others since its last
        self._doubtful: tuple[object, int] = (
            None,
            0,
        )  # the leader before, and its steps that count until it is seen to go on

    def stepped(self, key: object) -> bool:
        """An optimizer has stepped; return whether a step of the loop has ended with it.

        key : what tells it from others; one that is made anew for every step is better known by its parameters.
        """
        if self.alone and key == self._leader:
            self.count += 1
            return True
        return self._among_several(key)

    def passed(self, passes: int) -> bool:
        """A backward pass has ended, and so many have since an optimizer stepped; return whether a step of a loop
        without optimizers has."""
        if passes <= PASSES:
            return False
        if passes == PASSES + 1:
            self._lead(None)
            self._doubtful = (None, 0)
            self._window.clear()
            self.count += PASSES
        self.count += 1
        return True

    def _lead(self, leader: object) -> None:
        """Another mark ends the steps from now on: of another loop, or one of this loop's that is seen to be rarer."""
        self.loops += 1
        self._leader, self.alone = leader, False
        self._gap, self._others = None, 0

    def _among_several(self, key: object) -> bool:
        if self.alone:
            self._window.extend([self._leader] * WINDOW)
            self._gap = 0
        self._window.append(key)
        often = {k: self._window.count(k) for k in self._window}
        if key == self._leader:
            self._gap = None if often[key] == 1 else max(self._gap or 0, self._others)
            self._others = 0
        else:
            self._others += 1
        gone = self._gap is not None and self._others > self._gap + 1
        if self._leader not in often or gone:
            row = next((n for n, k in enumerate(reversed(self._window)) if k != key), len(self._window))
            self._lead(key)
            self._doubtful = (None, 0)
            self.count += row - 1  # made while the loop before was not yet seen to be over
            self._window.clear()
            self._window.extend([key] * row)
        elif often[self._leader] > often[key] + 1:
            self._doubtful = self._leader, min(self.count, WINDOW)
            self._lead(key)
        elif key == self._doubtful[0]:
            self.count -= self._doubtful[1]  # it goes on: these were parts of this loop's steps
            self._doubtful = (None, 0)
        self.alone = len({*self._window}) == 1 and len(self._window) == WINDOW
        ended = key == self._leader
        self.count += ended
        return ended
