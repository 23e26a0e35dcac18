"""A name of a library's that stands for something of ours for a while."""

from __future__ import annotations

from typing import Any


class Patch:
    """A name of a class or a module that stands for something of ours while it is on.

    >>> class Theirs:
    ...     name = 1
    >>> patch = Patch(Theirs, "name", 2)
    >>> patch.on()
    >>> Theirs.name
    2
    >>> patch.off()
    >>> Theirs.name
    1
    """

    def __init__(self, owner: Any, name: str, ours: Any) -> None:
        self.owner, self.name, self.ours = owner, name, ours
        self.theirs = vars(owner)[name]

    def on(self) -> None:
        """Put ours there."""
        if vars(self.owner)[self.name] is self.theirs:
            setattr(self.owner, self.name, self.ours)

    def off(self) -> None:
        """Put theirs back, unless somebody has put something over ours, which then does nothing of its own."""
        if vars(self.owner)[self.name] is self.ours:
            setattr(self.owner, self.name, self.theirs)
