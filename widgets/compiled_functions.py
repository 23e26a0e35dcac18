"""What a record says of the functions of `core.compile` that a cell called."""

from dataclasses import dataclass, field


@dataclass
class CompiledPiece:
    """A loop, or a kernel, of what a function was compiled to, or why something of it was not."""

    part: str = ""
    """"forward", "backward", or nothing where they are one."""
    what: str = ""
    line: int | None = None
    """The first line of this cell that it is made of."""
    place: str = ""
    """Its other lines."""


@dataclass
class CompiledFunction:
    """What `core.compile` made of a function that the cell called."""

    name: str = ""
    said: list[str] = field(default_factory=list)
    """Of each kind of call whether it is compiled, its time and its memory, or why not."""
    pieces: list[CompiledPiece] = field(default_factory=list)
