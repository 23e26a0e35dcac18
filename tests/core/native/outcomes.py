"""What a call comes to, its error included, so that a function's quick form can be held to the function itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def outcome(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the call gives, or the class and text of its error."""
    try:
        return call(*args, **kwargs)
    except Exception as e:
        return type(e), str(e)
