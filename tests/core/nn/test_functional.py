from __future__ import annotations

import inspect

import core
import core.nn.functional as F
from core.dispatch import publish


def test_it_shows_every_function_that_is_declared_for_it() -> None:
    assert [n for n in publish.namespaces["nn.functional"] if n not in F.__all__] == []
    assert [n for n in F.__all__ if not callable(getattr(F, n, None))] == []
    assert len(set(F.__all__)) == len(F.__all__)


def test_every_function_says_what_it_does_by_an_example() -> None:
    assert [n for n in F.__all__ if ">>> " not in (inspect.getdoc(getattr(F, n)) or "")] == []


def test_it_is_reached_as_an_attribute_too() -> None:
    assert core.nn.functional is F
