"""CIFAR's pickled batches read without running them: a pickle is a program, and only its data are of interest.

`pickletools.genops` splits a file into opcodes and executes none. Those that build plain values are followed here, and
of all the things that a pickle may name only NumPy's arrays and dtypes are known. Anything else is refused by its name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import text

_MARK = object()
_ARRAYS = {f"{m} _reconstruct" for m in ("numpy.core.multiarray", "numpy._core.multiarray")}
_BUFFERS = {f"{m} _frombuffer" for m in ("numpy.core.numeric", "numpy._core.numeric")}
_KNOWN = {*_ARRAYS, *_BUFFERS, "numpy ndarray", "numpy dtype", "_codecs encode"}


class _Name(str):
    """What the pickle names, not looked up."""


class _Array:
    value: Any = None


class _DType:
    def __init__(self, code: str) -> None:
        self.dtype = np.dtype(code)
        if self.dtype.kind not in "biuf":
            raise ValueError(f"an array of {code}, which holds no plain numbers")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _call(name: Any, args: tuple[Any, ...]) -> Any:
    if name == "numpy dtype":
        return _DType(args[0])
    if name in _ARRAYS:
        return _Array()
    if name in _BUFFERS:
        data, dtype, shape, order = args
        return np.frombuffer(data, dtype.dtype).reshape(shape, order=order).copy()
    if name == "_codecs encode" and args[1:] == ("latin1",):
        return args[0].encode("latin-1")
    raise ValueError(f"a call of {name!r}")


def _build(thing: Any, state: Any) -> None:
    if isinstance(thing, _DType):
        if state[1] in (">", "<"):
            thing.dtype = thing.dtype.newbyteorder(state[1])
        return
    if not isinstance(thing, _Array):
        raise ValueError(f"a state for {type(thing).__name__}")
    _, shape, dtype, fortran, data = state
    data = data.encode("latin-1") if isinstance(data, str) else data
    thing.value = np.frombuffer(data, dtype.dtype).reshape(shape, order="F" if fortran else "C").copy()


class _Reader:
    """The stack machine, over opcodes that only build values."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def since_mark(self) -> list[Any]:
        at = max(k for k, value in enumerate(self.stack) if value is _MARK)
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def pairs(self, items: list[Any]) -> None:
        self.stack[-1].update((k, _plain(v)) for k, v in zip(items[::2], items[1::2], strict=True))

    def step(self, name: str, arg: Any) -> None:
        stack = self.stack
        if name in _PUSHED:
            stack.append(arg)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else int(arg)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[int(arg)])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            n = int(name[-1])
            stack[-n:] = [tuple(stack[-n:])]
        elif name in ("TUPLE", "LIST", "DICT"):
            items = self.since_mark()
            stack.append(tuple(items) if name == "TUPLE" else [] if name == "LIST" else {})
            if name == "LIST":
                stack[-1].extend(map(_plain, items))
            elif name == "DICT":
                self.pairs(items)
        elif name in ("APPEND", "APPENDS"):
            items = self.since_mark() if name == "APPENDS" else [stack.pop()]
            stack[-1].extend(map(_plain, items))
        elif name in ("SETITEM", "SETITEMS"):
            items = self.since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            self.pairs(items)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            called = arg if name == "GLOBAL" else f"{stack.pop(-2)} {stack.pop()}"
            if called not in _KNOWN:
                raise ValueError(f"the name {called.replace(' ', '.')!r}")
            stack.append(_Name(called))
        elif name == "REDUCE":
            args = stack.pop()
            stack.append(_call(stack.pop(), args))
        elif name == "BUILD":
            state = stack.pop()
            _build(stack[-1], state)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise ValueError(f"the opcode {name}")


_PUSHED = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT", "SHORT_BINSTRING",
           "BINSTRING", "STRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINBYTES",
           "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "NONE": lambda: None, "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False, "MARK": lambda: _MARK,
}  # fmt: skip


def read_pickle(path: Path) -> dict[str, Any]:
    """Return the dict in a CIFAR batch: keys as str, arrays as NumPy's, nothing executed.

    *Raises*: RuntimeError that names the file, the byte and what stands there, for anything that is no plain data.

    >>> import pathlib, pickle, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "batch")
    >>> _ = path.write_bytes(pickle.dumps({"labels": [3, 1]}, 2))
    >>> read_pickle(path)
    {'labels': [3, 1]}
    """
    data, reader, at, opcode = path.read_bytes(), _Reader(), 0, ""
    try:
        for op, arg, position in pickletools.genops(data):
            opcode, at = op.name, position or 0
            reader.step(op.name, arg)
        (value,) = reader.stack
        if not isinstance(value, dict):
            raise ValueError(f"a {type(value).__name__}")
    except Exception as error:
        why = f"{error}" if isinstance(error, ValueError) else f"{opcode or 'nothing'}: {type(error).__name__}: {error}"
        raise RuntimeError(
            text(f"Dataset not found or corrupted. {path} is broken or no data at byte {at}", op="pickle", came=why,
                 needed="a pickled dict of numbers, strings and NumPy arrays; no other thing in it is run",
                 remedy="copy the file anew, from where you trust")
        ) from None  # fmt: skip
    return {k.decode("latin-1") if isinstance(k, bytes) else str(k): _plain(v) for k, v in value.items()}
