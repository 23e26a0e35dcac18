"""Options of magics and commands: a word that is none of them is told with the one that was meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

HELP = ("-h", "--help")


def meant(word: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?", where something known is near a word, or nothing.

    >>> meant("--chek", ["--text", "--check"]), meant("--zzz", ["--text"])
    ('; did you mean --check?', '')
    """
    near = get_close_matches(word.lower(), list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


class Parser(argparse.ArgumentParser):
    """A parser that looks at the options before all else: one that does not exist is told, with the nearest.

    `example` ends the help; `script` says that what follows the first argument is not this parser's.
    """

    def __init__(self, *args: Any, example: str = "", script: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.epilog = f"example:\n  {example}" if example else None
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self._script = script

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        """As argparse; the error of an unknown option comes first, before what else is amiss because of it."""
        if args is not None:
            self._look_at(list(args))
        return super().parse_known_args(args, namespace)

    def _look_at(self, words: Sequence[str]) -> None:
        known = self._option_string_actions
        value = False  # whether the word belongs to the option before it
        for k, word in enumerate(words):
            name = word.partition("=")[0]
            if value:
                value = False
            elif word == "--":
                return
            elif not name.startswith("--"):
                if self._script or self._subparsers is not None:  # the command's own parser looks at the rest
                    return
            elif name in known:
                value = known[name].nargs != 0 and "=" not in word
            elif not any(option.startswith(name) for option in known):
                end = next((n for n in range(k + 1, len(words)) if words[n].startswith("-")), len(words))
                self.error(f"unrecognized arguments: {' '.join(words[k:end])}{meant(name, known)}")
