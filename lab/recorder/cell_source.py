"""The source of a cell: its text, its syntax tree, and the places in it and elsewhere that its ops were called from."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import CodeType

from core.base import syntax
from core.base.source import Location, locate

Chain = tuple[tuple[CodeType, int], ...]  # the user's frames, innermost first


@dataclass
class CellSource:
    """What was recorded, as text, and each place that is asked for, found once."""

    files: dict[str, int] = field(default_factory=dict)
    """Files that are this cell, with what to add to their line numbers."""
    block: int | None = None
    """The line of the `with` statement that is recorded, where it is not all of a file."""
    source: str = ""
    code: str = ""
    """The source as Python ran it, magics rewritten, line for line."""
    _texts: tuple[str, list[str]] | None = None
    _tree: tuple[str, ast.Module | None, list[ast.AST]] | None = None
    _places: dict[tuple[int, int], tuple[CodeType, Location]] = field(default_factory=dict)

    # -- places --------------------------------------------------------------------------------------------------------

    def place(self, code: CodeType, lasti: int) -> Location:
        """Return where an instruction stands in its file, its line as Python counts it; found once for each record."""
        key = id(code), lasti  # a code object hashes by its whole content
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = code, locate(code, lasti)  # held, so that no other one takes its number
        return known[1]

    def own_place(self, chain: Chain) -> Location | None:
        """Return the innermost place in this cell, its line as the cell shows it."""
        for code, lasti in chain:
            offset = self.files.get(code.co_filename)
            if offset is not None:
                moved = self.place(code, lasti)
                if offset:
                    moved = moved._replace(line=moved.line + offset, end_line=moved.end_line + offset)
                return moved if moved.code else moved._replace(code=self.segment(moved))
        return None

    def line(self, chain: Chain) -> int | None:
        """Return the line of this cell on whose behalf something ran."""
        for code, lasti in chain:
            offset = self.files.get(code.co_filename)
            if offset is not None:
                return self.place(code, lasti).line + offset
        return None

    # -- the text ------------------------------------------------------------------------------------------------------

    def texts(self) -> list[str]:
        """Return the lines of the cell."""
        if self._texts is None or self._texts[0] is not self.source:
            self._texts = self.source, self.source.splitlines()
        return self._texts[1]

    def tree(self) -> ast.Module | None:
        """Return the cell's syntax tree, to be read only; None where it is no Python."""
        if self._tree is None or self._tree[0] is not self.code:
            try:
                tree = syntax.parse(self.code)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._tree = self.code, None, []
            else:
                self._tree = self.code, tree, list(ast.walk(tree))
        return self._tree[1]

    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, in the order of `ast.walk`."""
        return [] if self.tree() is None or self._tree is None else self._tree[2]

    def segment(self, place: Location) -> str:
        """Return the text at a place of this cell, for code whose file Python's line cache does not know."""
        lines = self.texts()
        if not 0 < place.line <= len(lines):
            return ""
        text = lines[place.line - 1]
        if place.end_line != place.line:
            return text[place.col :].strip() + " …"
        return text[place.col : place.end_col].strip()
