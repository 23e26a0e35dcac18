"""Texts are read without a word: of the same text Python warns again with every reading."""

from __future__ import annotations

import ast
import threading
import warnings

import pytest

from core.base import syntax

TEXT = "\n".join(['label = "\\d"', "assert (label, 'never false')"])


def test_nothing_is_said_of_a_text_that_is_only_read() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ast.parse(TEXT)
        assert len(told) == 1, "Python itself warns"
        tree = syntax.parse(TEXT)
        value = syntax.expression('"\\d"')
        with syntax.unheard():
            compile(tree, "<of an assertion that never fails>", "exec")
        assert len(told) == 1
        compile(tree, "<of an assertion that never fails>", "exec")
        assert len(told) == 2
    assert ast.unparse(tree).startswith("label = '\\\\d'")
    assert isinstance(value, ast.Constant)


def test_other_warnings_and_those_of_other_threads_are_told() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with syntax.unheard():
            with syntax.unheard():
                pass
            warnings.warn("of another kind", UserWarning, stacklevel=1)
            other = threading.Thread(target=ast.parse, args=(TEXT,))
            other.start()
            other.join()
        assert [w.category.__name__ for w in told][:1] == ["UserWarning"]
        assert len(told) == 2
        ast.parse(TEXT)
        assert len(told) == 3


def test_readings_that_end_in_another_order_leave_nothing_behind() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        first, second = syntax.unheard(), syntax.unheard()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        ast.parse(TEXT)
        assert len(told) == 1


def test_a_text_that_is_none_raises_as_before() -> None:
    with pytest.raises(SyntaxError):
        syntax.parse("x = = 1")
    with pytest.raises(SyntaxError):
        syntax.expression("x = 1")
