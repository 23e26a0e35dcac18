"""`%%ranks 4`: a cell on several processes that stay from cell to cell, and its card; `%ranks stop` ends them."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import publish_display_data

from widgets import ranked

from ..console.options import HELP, Parser, meant
from ..ranks.cell import errors, view
from ..ranks.pool import Lost, Pool, Refused
from ..ranks.words import ranks_text
from .inner_cell import _number

EXAMPLE = "%%ranks 4 --timeout 60"
TIMEOUT_S = 60.0
MOST = 64
ENDS = {"stopped": "stopped", "ended": "ended", "died": "died"}
_publish: Callable[..., None] = publish_display_data
_MAGIC = re.compile(r"^\s*[%!]", re.MULTILINE)


class RanksFailed(RuntimeError):
    """A cell that has failed on ranks: its errors have been shown, so that only a line is left to say."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class RanksStopped(KeyboardInterrupt):
    """A cell that was stopped by Ctrl-C."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%ranks: {message}")


def _seconds(said: str) -> float:
    found = float(said)
    if not found > 0:
        raise argparse.ArgumentTypeError("needed is a number of seconds above 0")
    return found


def parser() -> Parser:
    """Return the parser of the options of `%%ranks`."""
    found = _Parser(
        prog="%%ranks",
        add_help=False,
        usage="%%%%ranks [N] [options], or %%ranks stop",
        example=EXAMPLE,
        description="A cell on N processes that stay from cell to cell, in one world of core.distributed.",
    )
    found.add_argument("ranks", nargs="?", metavar="N", help="how many; without it those that are there")
    found.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=TIMEOUT_S,
                       help=f"for which a collective waits for a rank that does not come ({TIMEOUT_S:g})")  # fmt: skip
    found.add_argument("--text", action="store_true", help="show the card as text alone")
    found.add_argument("--no-card", action="store_true", help="show what the ranks print, and no card")
    return found


def show_errors(pool: Pool, names: dict[str, Any]) -> str:
    """Print the errors of a cell, equal ones once; return what ended it in a line."""
    first = ""
    for ranks, error in errors(pool, names):
        where = f", line {error['line']}" if error["line"] else ""
        print(f"{ranks_text(ranks)}{where}:\n{error['traceback'].rstrip()}", file=sys.stderr)
        hint = error["said"].partition("\n")[2] if error["name"] else ""
        if hint:
            print(hint, file=sys.stderr)
        first = first or f"{ranks_text(ranks)}{where}: {error['type']}: {error['said'].partition(chr(10))[0]}"
    ends: dict[tuple[str, Any], list[int]] = {}
    for rank in pool.ranks:
        if rank.state in ENDS:
            line = (rank.error or {}).get("line") or rank.place.get("line")
            ends.setdefault((rank.state, line), []).append(rank.number)
    for (state, line), ranks in ends.items():
        did = ENDS[state] if state == "died" else f"{'was' if len(ranks) == 1 else 'were'} {ENDS[state]}"
        print(f"{ranks_text(ranks)} {did}{f' on line {line}' if line else ''}", file=sys.stderr)
    return first


@magics_class
class RankMagics(Magics):
    """`%%ranks` and `%ranks`."""

    shell: Any
    pool: Pool | None = None

    @no_var_expand
    @line_cell_magic
    def ranks(self, line: str, cell: str | None = None) -> None:
        """Run a cell on several processes that stay from cell to cell, and show what each did.

        ``%%ranks [N] [--timeout 60] [--text] [--no-card]``

        ``%%ranks 4``      on 4 ranks; variables of earlier ``%%ranks`` cells are there, those of the notebook are not
        ``%ranks``         which are there
        ``%ranks stop``    end them

        `core.distributed` has begun in each. What a rank prints has its number in front. The card has a timeline of the
        ranks (computing, communicating, waiting for others), what each line sent, and what is wrong between the ranks.
        Another number of ranks starts anew. A collective that waits for a rank for longer than the timeout ends the
        cell, and says where that rank is.
        """
        if set(HELP) & set(line.split()):
            print(parser().format_help())
            return
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"%%ranks: {error}") from None
        if cell is None:
            self._line(words)
            return
        options = parser().parse_args(words)
        pool = self._pool(options.ranks)
        name = f"In [{_number(self.shell) or self.shell.execution_count}]"
        self._run(pool, name, line, cell, options)

    def _line(self, words: list[str]) -> None:
        pool = self.pool if self.pool is not None and self.pool.alive else None
        if words == ["stop"]:
            if pool is not None:
                pool.stop()
            self.pool = None
            print("the ranks have ended" if pool is not None else "there are no ranks")
        elif not words:
            there = "there are no ranks" if pool is None else f"{pool.size} ranks are there: pid " + ", ".join(
                str(rank.pid) for rank in pool.ranks)  # fmt: skip
            print(f"{there}; %%ranks N runs a cell on N, %ranks stop ends them")
        elif words[0].isdigit():
            raise UsageError(f"%ranks {' '.join(words)}: write %%ranks, as the first line of a cell")
        else:
            near = meant(words[0], ["stop"])
            raise UsageError(f"%ranks: {words[0]!r} is not stop{near or ';'} %%ranks N runs a cell")

    def _pool(self, said: str | None) -> Pool:
        """Return the ranks that are asked for; start them where they are not there."""
        if said is not None and not (said.isdigit() and 0 < int(said) <= MOST):
            raise UsageError(f"%%ranks: {said!r} is no number of ranks; needed: 1 to {MOST}")
        pool = self.pool
        if pool is not None and not pool.alive:
            if not pool.ended:
                pool.stop("they have ended between two cells")
            print(f"The {pool.size} ranks have ended ({pool.ended}), with their variables.")
            said, pool, self.pool = said or str(pool.size), None, None
        if pool is not None and said is not None and int(said) != pool.size:
            pool.stop()
            new = "1 rank in place of {}: it starts" if said == "1" else f"{said} ranks in place of {{}}: they start"
            print(f"{new.format(pool.size)} anew, without the variables of earlier cells.")
            pool = self.pool = None
        if pool is None:
            if said is None:
                raise UsageError("%%ranks: there are no ranks yet; needed: how many, as in %%ranks 4")
            pool = Pool(int(said))
            try:
                took = pool.start()
            except (Refused, Lost) as error:
                raise UsageError(f"%%ranks: {error}") from None
            self.pool = pool
            print(f"{pool.size} rank{'s' * (pool.size > 1)} started in {took:.1f} s")
        return pool

    def _run(self, pool: Pool, name: str, line: str, cell: str, options: Any) -> None:
        magics = (getattr(self.shell, "_gradlab", None) or (None,))[0]
        try:
            pool.run(f"#\n{cell}", name, options.timeout, torch=getattr(magics, "alias", None) is not None)
        except Lost as error:
            raise UsageError(f"%%ranks: the ranks have ended ({error}); the next run starts new ones") from None
        said = show_errors(pool, self.shell.user_ns)
        if "SyntaxError" in said and _MAGIC.search(cell):
            print("Ranks run Python alone: magics and shell commands are the notebook's.", file=sys.stderr)
        if not options.no_card:
            shown = view(pool, f"%%ranks {pool.size} · {name}", name, f"%%ranks {line}\n{cell}")
            if said == "" and shown.findings:
                said = shown.findings[0].message
            bundle = {"text/plain": ranked.text(shown)}
            if not options.text:
                bundle["text/html"] = ranked.html(shown)
            if shown.says:
                _publish(bundle)
        if pool.cause == "you":
            raise RanksStopped("the cell was stopped on all ranks" + (f"; {pool.ended}" if pool.ended else ""))
        if any(rank.state != "done" for rank in pool.ranks):
            raise RanksFailed(said or "a rank has not ended the cell")

    def close(self) -> None:
        """End the ranks."""
        if self.pool is not None:
            self.pool.stop("with the extension")
            self.pool = None
