"""The parameters of a function that a user wrote."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 14):
    from annotationlib import Format


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, also where annotations have names that only a type checker knows.

    Python 3.14 evaluates annotations when they are asked for, not where the function is made: a name that is imported
    under `TYPE_CHECKING` alone is met here first.

    >>> str(signature(lambda x, *, scale=1.0: x))
    '(x, *, scale=1.0)'
    """
    if sys.version_info >= (3, 14):
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)
