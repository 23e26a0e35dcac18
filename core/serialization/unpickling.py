"""A machine for the instructions of a pickle that can make nothing but data.

A pickle is a program for a stack machine. The one here knows the instructions for numbers, texts and containers; where
a pickle calls something, the machine looks the name up in a list (`allowed`) and calls our own function of that name,
or refuses. Nothing is imported, no class of the file's choice is made, and work and memory are in proportion to the
length of the file. Source: CPython's Lib/pickletools.py.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from ..base.errors import LoadError, text
from . import keys
from .source import Source, broken

_CHUNK = 1 << 16
_MAX_CONTAINERS = 5_000_000  # each takes one byte of the file and 64 of memory


class Stream:
    """The bytes of a part of a file, in order."""

    def __init__(self, source: Source, at: int, end: int) -> None:
        self.source, self.next, self.end = source, at, end
        self.buffer, self.k = b"", 0

    @classmethod
    def of(cls, source: Source, data: bytes) -> Stream:
        """Over bytes that were read already."""
        stream = cls(source, len(data), len(data))
        stream.buffer = data
        return stream

    @property
    def at(self) -> int:
        """Where in the file the next byte is."""
        return self.next - len(self.buffer) + self.k

    def take(self, n: int) -> bytes:
        """Return the next n bytes."""
        k = self.k
        if k + n <= len(self.buffer):
            self.k = k + n
            return self.buffer[k : k + n]
        if n > self.end - self.at:
            raise broken(f"its pickle needs {n:,} bytes more than it has")
        rest = self.buffer[k:]
        wanted = min(max(n - len(rest), _CHUNK), self.end - self.next)
        self.buffer, self.k = rest + self.source.read(self.next, wanted), n
        self.next += wanted
        return self.buffer[:n]

    def line(self) -> bytes:
        """Return the bytes up to the end of the line."""
        out = bytearray()
        while len(out) < 1 << 20:
            byte = self.take(1)
            if byte == b"\n":
                return bytes(out)
            out += byte
        raise broken("a line of its pickle does not end")


Reader = Callable[[Stream], Any]
Action = Callable[["Machine", Any], None]


class Machine:
    """Runs one pickle. `find` gives what a name stands for, `call` calls what may be called, `new` makes an empty
    object, `build` completes one, `persistent` gives the memory that an id names."""

    def __init__(self, stream: Stream, *, find: Callable[[str, str], Any], call: Callable[[Any, Any], Any],
                 new: Callable[[Any, Any], Any], build: Callable[[Any, Any], None],
                 persistent: Callable[[Any], Any]) -> None:  # fmt: skip
        self.stream, self.find, self.call, self.new = stream, find, call, new
        self.complete, self.persistent = build, persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.containers = 0

    def run(self) -> Any:
        """Return the object that the pickle makes. *Raises*: LoadError, and nothing else."""
        take, stack = self.stream.take, self.stack
        try:
            while True:
                code = take(1)[0]
                if code == 0x2E:  # STOP
                    return stack.pop()
                instruction = OPCODES.get(code)
                if instruction is None:
                    raise broken(f"instruction {bytes([code])!r} of its pickle is unknown, or makes objects of classes")
                read, act = instruction
                act(self, read(self.stream))
        except (LoadError, OSError, MemoryError):
            raise
        except Exception as error:  # whatever the false arguments of an instruction, or of a call, bring about
            raise broken(f"its pickle cannot be read ({type(error).__name__}: {str(error)[:200]})") from None

    def grown(self) -> None:
        """Count a container."""
        self.containers += 1
        if self.containers > _MAX_CONTAINERS:
            raise LoadError(text(f"its pickle makes more than {_MAX_CONTAINERS:,} objects", op="load",
                                 remedy="save numbers in tensors"))  # fmt: skip

    def since_mark(self) -> list[Any]:
        """Return what was pushed after the last mark, taken off."""
        at = self.marks.pop()
        items = self.stack[at:]
        del self.stack[at:]
        return items

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


# -- arguments ---------------------------------------------------------------------------------------------------------


def _nothing(s: Stream) -> None:
    return None


def _number(form: str) -> Reader:
    unpack, size = struct.Struct("<" + form).unpack, struct.calcsize("<" + form)
    return lambda s: unpack(s.take(size))[0]


def _sized(form: str, decode: Callable[[bytes], Any] = lambda b: b) -> Reader:
    length = _number(form)

    def read(s: Stream) -> Any:
        n = length(s)
        if n < 0:
            raise ValueError("a negative length")
        return decode(s.take(n))

    return read


def _text(b: bytes) -> str:
    return b.decode("utf-8", "surrogatepass")


def _old_text(b: bytes) -> str:
    try:
        return b.decode()
    except UnicodeDecodeError:
        return b.decode("latin1")


def _long(b: bytes) -> int:
    return int.from_bytes(b, "little", signed=True)


def _decimal(s: Stream) -> Any:
    line = s.line()
    return line == b"01" if line in (b"00", b"01") else int(line.rstrip(b"L"))


def _quoted(s: Stream) -> str:
    line = s.line()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"') or b"\\" in line:
        raise ValueError("a quoted text")
    return _old_text(line[1:-1])


def _names(s: Stream) -> tuple[str, str]:
    return _text(s.line()), _text(s.line())


# -- instructions ------------------------------------------------------------------------------------------------------


def _push(m: Machine, value: Any) -> None:
    m.stack.append(value)


def _constant(value: Any) -> tuple[Reader, Action]:
    return _nothing, lambda m, _: m.stack.append(value)


def _fresh(make: Callable[[], Any]) -> tuple[Reader, Action]:
    def act(m: Machine, _: Any) -> None:
        m.grown()
        m.stack.append(make())

    return _nothing, act


def _tuple_of(n: int) -> tuple[Reader, Action]:
    def act(m: Machine, _: Any) -> None:
        m.grown()
        items = tuple(m.stack[-n:])
        if len(items) < n:
            raise IndexError("the stack is empty")
        m.stack[-n:] = [items]

    return _nothing, act


def _gathered(make: Callable[[list[Any]], Any]) -> tuple[Reader, Action]:
    def act(m: Machine, _: Any) -> None:
        m.grown()
        m.stack.append(make(m.since_mark()))

    return _nothing, act


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    return {keys.checked(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


def _extend(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if not isinstance(target, list | deque):
        raise TypeError(f"a {type(target).__name__} is filled as a list")
    target.extend(items)


def _fill(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if not isinstance(target, dict):
        raise TypeError(f"a {type(target).__name__} is filled as a dict")
    target.update(_pairs(items))


def _append(m: Machine, _: Any) -> None:
    item = m.stack.pop()
    _extend(m, [item])


def _set_item(m: Machine, _: Any) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _fill(m, [key, value])


def _add_items(m: Machine, _: Any) -> None:
    items = m.since_mark()
    target = m.stack[-1]
    if type(target) is not set:
        raise TypeError(f"a {type(target).__name__} is filled as a set")
    target.update(keys.checked(x) for x in items)


def _stack_global(m: Machine, _: Any) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise TypeError("a name is no text")
    m.stack.append(m.find(module, name))


def _reduce(m: Machine, _: Any) -> None:
    args, function = m.stack.pop(), m.stack.pop()
    if type(args) is not tuple:
        raise TypeError("arguments are no tuple")
    m.grown()
    m.stack.append(m.call(function, args))


def _new(m: Machine, _: Any) -> None:
    args, cls = m.stack.pop(), m.stack.pop()
    if type(args) is not tuple:
        raise TypeError("arguments are no tuple")
    m.grown()
    m.stack.append(m.new(cls, args))


def _build(m: Machine, _: Any) -> None:
    state = m.stack.pop()
    m.complete(m.stack[-1], state)


def _mark(m: Machine, _: Any) -> None:
    m.marks.append(len(m.stack))


def _pop(m: Machine, _: Any) -> None:
    if m.marks and m.marks[-1] == len(m.stack):
        m.marks.pop()
    else:
        m.stack.pop()


def _memoize(m: Machine, _: Any) -> None:
    m.put(len(m.memo))


def _protocol(m: Machine, n: int) -> None:
    if n > 5:
        raise ValueError(f"protocol {n}")


OPCODES: dict[int, tuple[Reader, Action]] = {
    ord(code): how
    for code, how in {
        # numbers and texts
        "I": (_decimal, _push), "L": (_decimal, _push), "J": (_number("i"), _push), "K": (_number("B"), _push),
        "M": (_number("H"), _push), "F": (lambda s: float(s.line()), _push),
        "G": (lambda s: struct.unpack(">d", s.take(8))[0], _push),
        "\x8a": (_sized("B", _long), _push), "\x8b": (_sized("i", _long), _push),
        "N": _constant(None), "\x88": _constant(True), "\x89": _constant(False),
        "V": (lambda s: s.line().decode("raw-unicode-escape"), _push), "X": (_sized("I", _text), _push),
        "\x8c": (_sized("B", _text), _push), "\x8d": (_sized("Q", _text), _push),
        "S": (_quoted, _push), "T": (_sized("i", _old_text), _push), "U": (_sized("B", _old_text), _push),
        "B": (_sized("I"), _push), "C": (_sized("B"), _push), "\x8e": (_sized("Q"), _push),
        "\x96": (_sized("Q", bytearray), _push),
        # containers
        "]": _fresh(list), "}": _fresh(dict), "\x8f": _fresh(set), ")": _constant(()),
        "l": _gathered(list), "d": _gathered(_pairs), "t": _gathered(tuple),
        "\x91": _gathered(lambda items: frozenset(keys.checked(x) for x in items)),
        "\x85": _tuple_of(1), "\x86": _tuple_of(2), "\x87": _tuple_of(3),
        "a": (_nothing, _append), "e": (_nothing, lambda m, _: _extend(m, m.since_mark())),
        "s": (_nothing, _set_item), "u": (_nothing, lambda m, _: _fill(m, m.since_mark())),
        "\x90": (_nothing, _add_items),
        # the stack and the memo
        "(": (_nothing, _mark), "0": (_nothing, _pop), "1": (_nothing, lambda m, _: m.since_mark() and None),
        "2": (_nothing, lambda m, _: m.stack.append(m.stack[-1])),
        "g": (lambda s: int(s.line()), lambda m, k: m.get(k)), "h": (_number("B"), lambda m, k: m.get(k)),
        "j": (_number("I"), lambda m, k: m.get(k)),
        "p": (lambda s: int(s.line()), lambda m, k: m.put(k)), "q": (_number("B"), lambda m, k: m.put(k)),
        "r": (_number("I"), lambda m, k: m.put(k)), "\x94": (_nothing, _memoize),
        # names, calls, and the rest
        "c": (_names, lambda m, names: m.stack.append(m.find(*names))), "\x93": (_nothing, _stack_global),
        "R": (_nothing, _reduce), "\x81": (_nothing, _new), "b": (_nothing, _build),
        "Q": (_nothing, lambda m, _: m.stack.append(m.persistent(m.stack.pop()))),
        "\x80": (_number("B"), _protocol), "\x95": (_number("Q"), lambda m, _: None),
    }.items()
}  # fmt: skip
