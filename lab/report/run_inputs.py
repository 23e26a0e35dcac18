"""What a cell reads and does not make: settings, data, functions of other cells, each in words that two runs can be
compared by."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from core.base import syntax
from core.tensors.tensor import Tensor

from ..adapters.arrays import values
from ..recorder.loops import length
from ..recorder.tensor_stats import on_host, spread
from ..recorder.variable_names import assigned, attributes, is_module

MOST = 128  # names
ENTRIES = 32  # of a dictionary, or attributes of an object
LONGEST = 60  # characters of a value
DEEP = 3  # functions that call one another
DIGITS = 6
_SCALARS = (int, float, complex, bool, str, type(None))


def described(text: str, space: Mapping[str, Any]) -> dict[str, str]:
    """Return what the variables that a cell reads hold, by name; what it assigns itself is left out.

    >>> described("loss = f(x) * rate", {"rate": 0.1, "f": abs, "loss": 3, "x": [1, 2]})
    {'rate': '0.1', 'x': '[1, 2]'}
    """
    own = assigned(text)
    found: dict[str, str] = {}
    for name in list(dict.fromkeys(_read(text)))[:MOST]:
        if name in space and name not in own and not name.startswith("_"):
            _describe(name, space[name], space, found, own, DEEP)
    return found


def _read(text: str) -> Iterator[str]:
    try:
        tree = syntax.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _describe(name: str, value: Any, space: Mapping[str, Any], found: dict[str, str], own: set[str], left: int) -> None:
    if name in found or len(found) >= MOST or isinstance(value, ModuleType):
        return
    if isinstance(value, FunctionType):
        _of_function(name, value, space, found, own, left)
    elif isinstance(value, type):
        if value.__module__ == "__main__":
            methods = [m for m in vars(value).values() if isinstance(m, FunctionType)]
            found[name] = f"class #{_digest(*(_code(m.__code__) for m in methods))}"
    elif type(value) is dict:
        for key, item in list(value.items())[:ENTRIES]:
            if type(item) in _SCALARS:
                found[f"{name}[{key!r}]"] = _short(item)
    elif (words := _words(value)) is not None:
        found[name] = words
    elif not is_module(value) and type(value).__module__ in ("__main__", "types", "argparse"):
        for key, item in list(attributes(value).items())[:ENTRIES]:
            if type(item) in _SCALARS:
                found[f"{name}.{key}"] = _short(item)


def _of_function(name: str, function: FunctionType, space: Mapping[str, Any], found: dict[str, str], own: set[str],
                 left: int) -> None:  # fmt: skip
    if function.__globals__ is not space and function.__module__ != "__main__":
        return
    found[name] = f"function #{_digest(_code(function.__code__))}"
    for inner in function.__code__.co_names if left else ():
        if inner in space and inner not in own and not inner.startswith("_"):
            _describe(inner, space[inner], space, found, own, left - 1)


def _words(value: Any) -> str | None:
    """Return a value in words, with a digest where it is more than they say; None of what is no setting and no data."""
    if type(value) in _SCALARS:
        return _short(value)
    if type(value) in (list, tuple) and len(value) <= ENTRIES and all(type(v) in _SCALARS for v in value):
        return _short(value)
    kind = type(value).__name__
    array = _array(value)
    if array is not None:
        size = "×".join(f"{n:,}" for n in array.shape)
        return f"{array.dtype} {size} #{_digest(np.ascontiguousarray(spread(array)).tobytes())}".replace("  ", " ")
    if kind == "DataLoader":
        own = attributes(value)
        data = own.get("dataset")
        tensors = attributes(data).get("tensors")
        parts = [a for t in tensors if (a := _array(t)) is not None] if isinstance(tensors, tuple) else []
        digest = f" #{_digest(*(np.ascontiguousarray(spread(a)).tobytes() for a in parts))}" if parts else ""
        rows, batch = (len(parts[0]) if parts else length(data)), own.get("batch_size")
        return f"{kind} of {rows if rows is None else format(rows, ',')} in batches of {batch}{digest}"
    if type(value) in (list, tuple):
        return f"{kind} of {len(value):,}"
    groups = attributes(value).get("param_groups")
    if isinstance(groups, list) and groups and isinstance(groups[0], dict):
        rate = groups[0].get("lr")
        return f"{kind}, lr {rate:g}" if isinstance(rate, int | float) else kind
    return None


def _array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype != object else None
    if isinstance(value, Tensor):
        return on_host(value._a) if value._kind.device.type == "cpu" else None
    if type(value).__module__ == "torch" and type(value).__name__ == "Tensor" and value.device.type == "cpu":
        return values(value) if not value.is_sparse else None
    return None


def _code(code: CodeType) -> bytes:
    """Return what a function does, without where it stands."""
    constants = [_code(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return b"|".join([code.co_code, *constants, repr(code.co_names).encode(), repr(code.co_varnames).encode()])


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"/".join(parts), digest_size=4).hexdigest()[:DIGITS]


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 8]}… #{_digest(said.encode())}"
