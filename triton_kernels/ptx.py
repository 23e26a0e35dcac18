"""What `tl.inline_asm_elementwise` computes where its text is NVIDIA's assembly (PTX), in NumPy.

Triton's interpreter refuses inline assembly. Kernels use it for arithmetic: approximate functions, conversions to
narrow numbers, bytes put together, bits chosen. `run` computes these, lane by lane, as the PTX ISA has them (9.0,
chapter 9.7), an approximate function exactly. A barrier is nothing where a program is one thread. What branches,
touches memory or asks other threads is refused by its name.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from triton.runtime import interpreter as it

_FLOATS: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
_NARROW = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0, 8), "e5m2": (ml_dtypes.float8_e5m2, 57344.0, 8),
           "e2m1": (ml_dtypes.float4_e2m1fn, 6.0, 4)}  # fmt: skip
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_TYPE = re.compile(r"(?:[bsu](?:8|16|32|64)|b?f16|f32|f64|tf32|e4m3|e5m2|e2m1|ue8m0|pred)(?:x2)?")
_NOTHING = ("bar", "barrier", "membar", "fence", "griddepcontrol", "nanosleep")  # to one thread
_CLOCKS = ("%clock", "%clock64", "%globaltimer", "%smid")
_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
             "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
             "hs": np.greater_equal}  # fmt: skip


def _as(kind: str, bits: np.ndarray) -> np.ndarray:
    """Return the numbers of a kind that registers hold."""
    if kind in _FLOATS:
        dtype = np.dtype(_FLOATS[kind])
        return bits.astype(_WORDS[8 * dtype.itemsize]).view(dtype)
    size = int(kind[1:])
    word = bits.astype(_WORDS[size])
    return word.view(f"i{size // 8}") if kind[0] == "s" else word


def _bits(kind: str, numbers: np.ndarray) -> np.ndarray:
    """Return what registers hold of numbers of a kind."""
    size = 8 * np.dtype(_FLOATS[kind]).itemsize if kind in _FLOATS else int(kind[1:])
    made = numbers.astype(_FLOATS[kind] if kind in _FLOATS else f"{'i' if kind[0] == 's' else 'u'}{size // 8}")
    return np.ascontiguousarray(made).view(_WORDS[size]).astype(np.uint64)


def _width(kind: str) -> int:
    return int(re.findall(r"\d+", kind)[0])


def _wide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(object) * b.astype(object)


def _product(mods: Sequence[str], kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if kind in _FLOATS:
        return a * b
    whole = _wide(a, b)
    return whole >> _width(kind) if "hi" in mods else whole


def _fused(kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return a / b
    whole, by = a.astype(object), np.where(b == 0, 1, b).astype(object)
    return np.where((whole < 0) == (by < 0), abs(whole) // abs(by), -(abs(whole) // abs(by)))


def _shifted(op: str, kind: str, a: np.ndarray, count: np.ndarray) -> np.ndarray:
    size = _width(kind)
    by = np.minimum(count, size).astype(object)
    return (a.astype(object) << by) if op == "shl" else (a.astype(object) >> by)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "min": np.fmin, "max": np.fmax, "neg": np.negative, "abs": np.abs,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "div": _quotient,
    "rem": lambda a, b: a.astype(object) - _quotient(a, b) * b.astype(object), "sqrt": np.sqrt,
    "rcp": lambda a: 1 / a, "rsqrt": lambda a: 1 / np.sqrt(a), "ex2": np.exp2, "lg2": np.log2, "sin": np.sin,
    "cos": np.cos, "tanh": np.tanh, "copysign": lambda a, b: np.copysign(b, a), "cnot": np.equal,
}  # fmt: skip


def ones(a: np.ndarray) -> np.ndarray:
    """Return how many bits of integers are 1."""
    return np.array([int(each).bit_count() for each in _unsigned(a).reshape(-1)]).reshape(a.shape)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """Return how many bits of integers are 0 above the first 1."""
    size = 8 * a.itemsize
    return np.array([size - int(each).bit_length() for each in _unsigned(a).reshape(-1)]).reshape(a.shape)


def _unsigned(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).view(_WORDS[8 * a.itemsize])


_FUNCTIONS |= {"popc": ones, "clz": leading_zeros}


class _Lanes:
    """The registers of all lanes, by name, each 64 bits."""

    def __init__(self, text: str, count: int) -> None:
        self.text, self.count = text, count
        self.held: dict[str, np.ndarray] = {}

    # -- operands ------------------------------------------------------------------------------------------------------

    def read(self, operand: str, kind: str) -> np.ndarray:
        """Return an operand's bits. *Raises*: NotImplementedError."""
        if operand.startswith("{"):
            parts = _parts(operand[1:-1])
            size = _width(kind) * (2 if kind.endswith("x2") else 1) // len(parts)
            whole = np.zeros(self.count, np.uint64)
            for k, part in enumerate(parts):
                whole |= (self.read(part, f"b{size}") & np.uint64(2**size - 1)) << np.uint64(size * k)
            return whole
        if operand in self.held:
            return self.held[operand]
        if operand in _CLOCKS:
            return np.zeros(self.count, np.uint64)
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", operand):
            return self._all(int(operand[2:], 16))
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", operand) and kind not in _FLOATS:
            return self._all(int(operand.rstrip("U"), 0) % 2**64)
        try:
            return _bits(kind, np.full(self.count, float(operand)))
        except (ValueError, KeyError):
            raise self._unknown(f"operand {operand}") from None

    def write(self, operand: str, bits: np.ndarray, size: int, where: np.ndarray | None) -> None:
        """Give a register bits, in the lanes where a predicate holds."""
        if operand.startswith("{"):
            parts = _parts(operand[1:-1])
            part = size // len(parts)
            for k, name in enumerate(parts):
                self.write(name, (bits >> np.uint64(part * k)) & np.uint64(2**part - 1), part, where)
        elif operand != "_":
            bits = bits & np.uint64(2**size - 1)
            old = self.held.get(operand, np.zeros(self.count, np.uint64))
            self.held[operand] = bits if where is None else np.where(where, bits, old)

    def _all(self, value: int) -> np.ndarray:
        return np.full(self.count, value, np.uint64)

    def _unknown(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"inline_asm: {what} of PTX is not known to the interpreter here: {self.text!r}")

    def predicate(self, name: str) -> np.ndarray:
        """Return in which lanes a predicate holds."""
        holds = self.read(name.lstrip("!"), "b32") != 0
        return ~holds if name.startswith("!") else holds

    # -- instructions --------------------------------------------------------------------------------------------------

    def execute(self, statement: str) -> None:
        """Run one instruction. *Raises*: NotImplementedError."""
        where = None
        if statement.startswith("@"):
            name, _, statement = statement[1:].partition(" ")
            where = self.predicate(name)
        head, *rest = statement.split(None, 1)
        operands = _parts(rest[0]) if rest else []
        op, *mods = head.split(".")
        kinds = [m for m in mods if _TYPE.fullmatch(m)]
        if op in _NOTHING:
            return
        if op == "trap" or not operands or not kinds:
            raise self._unknown(f"the instruction {head}")
        if op == "setp":
            self._compared(mods, kinds[-1], operands[0], operands[1:], where)
        else:
            bits, size = self._result(op, mods, kinds, operands[1:], head)
            self.write(operands[0], bits, size, where)

    def _result(
        self, op: str, mods: Sequence[str], kinds: Sequence[str], sources: Sequence[str], head: str
    ) -> tuple[np.ndarray, int]:
        """Return what an instruction gives, and how many bits that has."""
        kind = kinds[-1]
        if op == "cvt":
            return self._converted(mods, kinds, sources, head)
        if op == "selp":
            return np.where(self.predicate(sources[2]), *(self.read(s, kind) for s in sources[:2])), _width(kind)
        if kind == "pred":
            given = list(map(self.predicate, sources))
            return (given[0] if op == "mov" else _FUNCTIONS[op](*given)).astype(np.uint64), 1
        if not kind.endswith("x2"):
            return self._computed(op, mods, kind, [self.read(s, kind) for s in sources], head)
        half, read = kind.removesuffix("x2"), [self.read(s, "b32") for s in sources]
        part = np.uint64(_width(half))
        low, size = self._computed(op, mods, half, read, head)
        high, _ = self._computed(op, mods, half, [each >> part for each in read], head)
        return low | (high << part), 2 * size

    def _computed(
        self, op: str, mods: Sequence[str], kind: str, read: Sequence[np.ndarray], head: str
    ) -> tuple[np.ndarray, int]:
        """Return what an instruction computes of one kind, and how many bits that has."""
        size = _width(kind)
        if op == "mov":
            return read[0], size
        if op == "lop3":
            a, b, c, table = read
            found = np.zeros(self.count, np.uint64)
            for k in range(8):
                term = [each if k >> (2 - place) & 1 else ~each for place, each in enumerate((a, b, c))]
                found |= np.where(table >> np.uint64(k) & np.uint64(1), term[0] & term[1] & term[2], np.uint64(0))
            return found, 32
        if op == "prmt":
            return permuted(*read), 32
        if op in ("bfe", "bfi"):
            return _field(op, kind, read), size
        numbers = [_as(kind, each) for each in read]
        if op in ("shl", "shr"):
            found = _shifted(op, kind, numbers[0], read[1] & np.uint64(0xFFFFFFFF))
        elif op == "mul":
            found = _product(mods, kind, *numbers)
        elif op in ("mad", "fma"):
            if kind in _FLOATS:
                found = _fused(kind, *numbers)
            elif "wide" in mods:
                found = _wide(*numbers[:2]) + _as(f"{kind[0]}{2 * size}", read[2]).astype(object)
            else:
                found = _product(mods, kind, *numbers[:2]) + numbers[2].astype(object)
        elif op in _FUNCTIONS and op != "cnot":
            found = np.asarray(_FUNCTIONS[op](*numbers))
        else:
            raise self._unknown(f"the instruction {head}")
        if "wide" in mods:
            kind, size = f"{kind[0]}{2 * size}", 2 * size
        if kind in _FLOATS:
            found = np.clip(found, 0, 1) if "sat" in mods else np.maximum(found, 0) if "relu" in mods else found
            return _bits(kind, np.asarray(found)), size
        if found.dtype == object:
            return np.array([int(each) % 2**64 for each in found], np.uint64), size
        return found.astype(np.int64).view(np.uint64) if found.dtype.kind == "i" else found.astype(np.uint64), size

    def _compared(
        self, mods: Sequence[str], kind: str, target: str, sources: Sequence[str], where: np.ndarray | None
    ) -> None:
        name = next((m for m in mods if m.removesuffix("u") in _COMPARED), "")
        if not name or len(sources) > 2:
            raise self._unknown(f"the instruction setp.{'.'.join(mods)}")
        a, b = (_as(kind, self.read(s, kind)) for s in sources)
        holds = _COMPARED[name.removesuffix("u") if name not in _COMPARED else name](a, b)
        if kind in _FLOATS and (name.endswith("u") or name == "ne"):
            unordered = np.isnan(a.astype(np.float64)) | np.isnan(b.astype(np.float64))
            holds = holds & ~unordered if name == "ne" else holds | unordered
        yes, _, no = target.partition("|")
        self.write(yes.strip(), holds.astype(np.uint64), 1, where)
        if no:
            self.write(no.strip(), (~holds).astype(np.uint64), 1, where)

    def _converted(
        self, mods: Sequence[str], kinds: Sequence[str], sources: Sequence[str], head: str
    ) -> tuple[np.ndarray, int]:
        """Return what a conversion gives, and how many bits that has."""
        to, of = kinds[0], kinds[-1]
        if not to.endswith("x2"):
            return self._one(mods, to, of, self.read(sources[0], of), head)
        if len(sources) == 2:  # the first is the upper one
            (high, size), (low, _) = (
                self._one(mods, to[:-2], of, self.read(source, of), head) for source in sources
            )  # fmt: skip
        else:
            whole, part = self.read(sources[0], "b32"), {"e2m1": 4, "e4m3": 8, "e5m2": 8, "ue8m0": 8}.get(of[:-2], 16)
            (low, size), (high, _) = (self._one(mods, to[:-2], of[:-2], each, head)
                                      for each in (whole, whole >> np.uint64(part)))  # fmt: skip
        return low | (high << np.uint64(size)), 2 * size

    def _one(self, mods: Sequence[str], to: str, of: str, bits: np.ndarray, head: str) -> tuple[np.ndarray, int]:
        if of in _NARROW:
            dtype, _, size = _NARROW[of]
            numbers = (bits & np.uint64(2**size - 1)).astype(np.uint8).view(dtype).astype(np.float64)
        elif of == "ue8m0":
            numbers = np.exp2((bits & np.uint64(255)).astype(np.float64) - 127)
        elif of == "tf32":
            numbers = _as("f32", bits)
        else:
            numbers = _as(of, bits)
        exact = numbers.astype(np.float64) if of in (*_FLOATS, *_NARROW, "ue8m0", "tf32") else numbers
        if "relu" in mods:
            exact = np.where(np.isnan(exact), exact, np.maximum(exact, 0))
        for mode in _TO_INTEGER:
            if mode in mods:
                exact = _TO_INTEGER[mode](exact)
        if to == "tf32":
            up = np.uint64(0x1000) if "rna" in mods else np.uint64(0)
            word = _bits("f32", exact)
            finite = word & np.uint64(0x7F800000) != np.uint64(0x7F800000)
            return np.where(finite, (word + up) & np.uint64(0xFFFFE000), word), 32
        if to in _NARROW:
            dtype, most, size = _NARROW[to]
            nan = np.isnan(exact)
            made = np.clip(np.where(nan, most, exact), -most, most).astype(dtype).view(np.uint8)
            nothing = 0x7F if size == 8 else made
            return np.where(nan, nothing, made).astype(np.uint64), size
        if to == "ue8m0":
            word = _bits("f32", np.abs(exact))
            power = (word >> np.uint64(23)) + np.where("rp" in mods, (word & np.uint64(0x7FFFFF)) != 0, False)
            return np.where(np.isnan(exact), 255, np.minimum(power, 254)).astype(np.uint64), 8
        if to in _FLOATS:
            exact = np.clip(exact, 0, 1) if "sat" in mods else exact
            mode = next((m for m in mods if m in ("rz", "rm", "rp")), "")
            return _bits(to, rounded(mode, exact, np.dtype(_FLOATS[to]))), _width(to)
        if not re.fullmatch(r"[sub]\d+", to):
            raise self._unknown(f"the instruction {head}")
        size = _width(to)
        if exact.dtype.kind == "f" or "sat" in mods:
            info = np.iinfo(f"{'i' if to[0] == 's' else 'u'}{size // 8}")
            whole = [0 if each != each else min(max(each, info.min), info.max) for each in exact.tolist()]
            return np.array([int(each) % 2**64 for each in whole], np.uint64), size
        return exact.astype(np.int64).view(np.uint64) if exact.dtype.kind == "i" else exact.astype(np.uint64), size


def rounded(mode: str, exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return float64 as another dtype, rounded to nearest or towards zero ("rz"), below ("rm") or above ("rp")."""
    near = exact.astype(dtype)
    got = near.astype(np.float64)
    if not mode or dtype == np.float64:
        return near
    far = {"rz": np.abs(got) > np.abs(exact), "rm": got > exact, "rp": got < exact}[mode]
    down = {"rz": np.ones_like(far), "rm": got > 0, "rp": got < 0}[mode]  # whether the step is towards zero
    word = _unsigned(near)
    return np.where(far, np.where(down, word - 1, word + 1), word).astype(word.dtype).view(dtype)


def permuted(*words: np.ndarray) -> np.ndarray:
    """Return the bytes of two words of 32 bits that a third chooses, as `prmt` does."""
    a, b, chosen = (each.astype(np.uint64) & np.uint64(0xFFFFFFFF) for each in words)
    whole = a | (b << np.uint64(32))
    found = np.zeros_like(whole)
    for k in range(4):
        nibble = chosen >> np.uint64(4 * k) & np.uint64(15)
        byte = whole >> (np.uint64(8) * (nibble & np.uint64(7))) & np.uint64(255)
        sign = np.where(byte >> np.uint64(7), np.uint64(255), np.uint64(0))
        found |= np.where(nibble >> np.uint64(3), sign, byte) << np.uint64(8 * k)
    return found


def _field(op: str, kind: str, read: Sequence[np.ndarray]) -> np.ndarray:
    """Return bits taken out of a word, or put into one."""
    at, count = (each & np.uint64(255) for each in read[-2:])
    ones = (np.uint64(1) << np.minimum(count, np.uint64(63))) - np.uint64(1)
    if op == "bfi":
        a, b = read[:2]
        return (b & ~(ones << at)) | ((a & ones) << at)
    taken = read[0] >> at & ones
    if kind[0] == "s":
        top = taken >> np.maximum(count, np.uint64(1)) - np.uint64(1) & np.uint64(1)
        taken = np.where(top & (count > 0), taken | ~ones, taken)
    return taken


def _parts(operands: str) -> list[str]:
    """Split operands at the commas that are not within braces."""
    return [each.strip() for each in re.findall(r"(?:\{[^}]*\}|[^,{])+", operands) if each.strip()]


def _statements(text: str) -> list[str]:
    bare = re.sub(r"/\*.*?\*/", " ", re.sub(r"//[^\n]*", " ", text), flags=re.DOTALL)
    found = [re.sub(r"^[{}\s]+", "", each).strip() for each in bare.split(";")]
    return [" ".join(each.split()) for each in found if each and not each.startswith(".")]


def run(text: str, values: Sequence[np.ndarray], kinds: Sequence[Any], pack: int = 1) -> list[np.ndarray]:
    """Return what a text computes of arrays of one length: an array for each dtype. pack : elements for each run of it,
    of which those of less than four bytes lie side by side in a register.

    >>> run("lg2.approx.f32 $0, $1;", [np.array([8.0, 0.5], np.float32)], [np.float32])
    [array([ 3., -1.], dtype=float32)]

    *Raises*: NotImplementedError, naming what is not known.
    """
    length = len(values[0]) if values else 1
    lanes = _Lanes(text.strip(), -(-length // pack))

    def together(size: int) -> int:
        return min(max(4 // size, 1), pack)

    place = sum(pack // together(np.dtype(kind).itemsize) for kind in kinds)
    for k in range(place):
        lanes.held[f"${k}"] = np.zeros(lanes.count, np.uint64)
    for value in values:
        size = value.dtype.itemsize
        word = np.zeros(lanes.count * pack, _WORDS[8 * size])
        word[:length] = np.ascontiguousarray(value).view(_WORDS[8 * size])
        per = together(size)
        for register in word.astype(np.uint64).reshape(lanes.count, pack // per, per).transpose(1, 2, 0):
            whole = np.zeros(lanes.count, np.uint64)
            for k, each in enumerate(register):
                whole |= each << np.uint64(8 * size * k)
            lanes.held[f"${place}"], place = whole, place + 1
    with np.errstate(all="ignore"):
        for statement in _statements(text):
            lanes.execute(statement)
    found, place = [], 0
    for kind in map(np.dtype, kinds):
        size, per = kind.itemsize, together(kind.itemsize)
        out = np.empty((lanes.count, pack), _WORDS[8 * size])
        for k in range(pack):
            register = lanes.held[f"${place + k // per}"]
            out[:, k] = (register >> np.uint64(8 * size * (k % per))).astype(_WORDS[8 * size])
        found.append(out.reshape(-1)[:length].view(kind))
        place += pack // per
    return found


def install() -> None:
    """Have the interpreter run inline assembly."""

    def create(
        self: Any, text: str, constraints: str, values: Sequence[Any], kinds: Sequence[Any], pure: bool, pack: int
    ) -> Any:
        flat = [np.broadcast_to(v.data, kinds[0].shape if kinds[0].is_block() else v.data.shape).reshape(-1)
                for v in values]  # fmt: skip
        found = run(text, flat, [it._get_np_dtype(kind.scalar) for kind in kinds], pack)
        shaped = [a.reshape(kind.shape) if kind.is_block() else a for a, kind in zip(found, kinds, strict=True)]
        made = [it.TensorHandle(a, kind.scalar) for a, kind in zip(shaped, kinds, strict=True)]
        return types.SimpleNamespace(get_result=made.__getitem__)

    it.InterpreterBuilder.create_inline_asm = create
