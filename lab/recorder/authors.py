"""Which of the user's files and earlier cells wrote what a cell uses: functions, classes, data sets of loaders."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

from core.base import syntax

from .user_files import is_users
from .variable_names import attributes

FILES, DEPTH = 16, 2  # of which at most so many are told, and how deep into objects they are looked for
PARTS = ("dataset", "collate_fn", "sampler", "batch_sampler", "transform")


def authors(code: str, space: Mapping[str, Any]) -> list[str]:
    """Return the files of the user's in which what a cell reads by name is defined.

    >>> space = {}
    >>> exec(compile("def f(): pass", "/home/me/model.py", "exec"), space)
    >>> authors("f()", space)
    ['/home/me/model.py']
    """
    try:
        tree = syntax.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    found: dict[str, None] = {}
    for name in names:
        for file in _files(space.get(name), DEPTH):
            if is_users(file):
                found[file] = None
        if len(found) >= FILES:
            break
    return list(found)


def _files(value: Any, depth: int) -> Iterator[str]:
    """Yield the files that define a function, a class, or the class of an object and of what it holds."""
    if isinstance(value, FunctionType | MethodType):
        yield (value if isinstance(value, FunctionType) else value.__func__).__code__.co_filename
        return
    yield from _of_class(value if isinstance(value, type) else type(value))
    if depth and not isinstance(value, type):
        held = attributes(value)
        parts: Iterable[Any] = (held.get(part) for part in PARTS)
        for part in parts:
            if part is not None:
                yield from _files(part, depth - 1)


def _of_class(kind: type) -> Iterator[str]:
    for member in vars(kind).values():
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if isinstance(function, FunctionType):
            yield function.__code__.co_filename
            return
