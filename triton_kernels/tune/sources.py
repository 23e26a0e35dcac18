"""What a Triton kernel's text is, apart from comments and place: results of another text must not be used."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
import types
from typing import Any


def source_of(kernel: Any) -> str:
    """Return a hash of a jitted function and of every jitted function that it calls, equal in every mode of Triton."""
    texts: dict[str, str] = {}
    waiting = [kernel]
    while waiting:
        fn = waiting.pop().fn
        name = f"{fn.__module__}.{fn.__qualname__}"
        if name in texts:
            continue
        try:
            texts[name] = ast.dump(ast.parse(textwrap.dedent(inspect.getsource(fn))))
        except (OSError, SyntaxError):
            texts[name] = str(fn.__code__.co_code)
        used = [fn.__globals__.get(each) for each in fn.__code__.co_names]
        for value in list(used):
            if isinstance(value, types.ModuleType) and not value.__name__.startswith("triton."):
                used += [getattr(value, each, None) for each in fn.__code__.co_names]
        waiting += [value for value in used if _jitted(value)]
    return hashlib.sha256("\n".join(f"{k} {texts[k]}" for k in sorted(texts)).encode()).hexdigest()[:16]


def _jitted(value: Any) -> bool:
    fn = getattr(value, "fn", None)
    return isinstance(fn, types.FunctionType) and not fn.__module__.startswith("triton.")
