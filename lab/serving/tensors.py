"""Tensors of the Open Inference Protocol, to and from NumPy: as JSON, and as bytes behind the JSON.

Source: Open Inference Protocol, REST, and its binary tensor data extension,
https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np
import orjson

from .limits import Limits
from .refusal import Refused

DATATYPES: dict[str, tuple[str, Any]] = {
    "bool": ("BOOL", np.bool_), "uint8": ("UINT8", np.uint8), "uint16": ("UINT16", np.uint16),
    "uint32": ("UINT32", np.uint32), "uint64": ("UINT64", np.uint64), "int8": ("INT8", np.int8),
    "int16": ("INT16", np.int16), "int32": ("INT32", np.int32), "int64": ("INT64", np.int64),
    "float16": ("FP16", np.float16), "bfloat16": ("BF16", ml_dtypes.bfloat16), "float32": ("FP32", np.float32),
    "float64": ("FP64", np.float64),
}  # fmt: skip
"""A dtype's name in core -> its name in the protocol, its NumPy type."""


def named(x: Any, name: str, kind: type, where: str) -> Any:
    """Return the entry `name` of a JSON object. *Raises*: Refused where it is missing or of another kind."""
    found = x.get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        said = {list: "a list", str: "a text", dict: "an object", int: "a number"}[kind]
        came = "nothing" if name not in x else type(found).__name__
        raise Refused(400, "malformed", f"{where}: {name!r} has to be {said}; came: {came}")
    return found


def shape_of(x: dict[str, Any], where: str, limits: Limits) -> tuple[int, ...]:
    """Return the shape that a request's tensor has. *Raises*: Refused for what is none, or is too large."""
    shape = named(x, "shape", list, where)
    if len(shape) > 32:
        raise Refused(400, "shape", f"{where}: a shape of {len(shape)} sizes; needed: at most 32")
    count = 1
    for size in shape:
        if type(size) is not int or size < 0:
            raise Refused(400, "shape", f"{where}: a shape has whole numbers from 0; came: {_short(shape)}")
        count *= max(size, 1)  # an empty tensor may not hide a size that the program would fill
    if count > limits.elements:
        raise Refused(413, "too large", f"{where}: the shape {_short(shape)} is too large; needed: at most "
                                        f"{limits.elements:,} elements")  # fmt: skip
    return tuple(shape)


def array_of(data: list[Any], dtype: str, shape: tuple[int, ...], where: str) -> np.ndarray:
    """Return the array of a tensor's JSON data, flat or nested. *Raises*: Refused for what does not fit exactly."""
    datatype, numpy_type = DATATYPES[dtype]
    flat = _flat(data, shape, where)
    wanted = math.prod(shape)
    if len(flat) != wanted:
        raise Refused(400, "shape", f"{where}: {len(flat):,} elements of data for the shape {list(shape)}; "
                                    f"needed: {wanted:,}")  # fmt: skip
    allowed = {bool} if dtype == "bool" else {int} if "int" in dtype else {int, float}
    # before NumPy sees them: it would take the text "1" for a number, and make a table as wide as the longest text
    if others := set(map(type, flat)) - allowed:
        said = {"bool": "true and false", "int": "whole numbers", "float": "numbers"}[_stem(dtype)]
        came = ", ".join(sorted(_JSON_KINDS.get(t, t.__name__) for t in others))
        raise Refused(400, "dtype", f"{where}: {datatype} needs {said}; came: {came}")
    try:
        if allowed != {int, float}:
            return np.array(flat, numpy_type).reshape(shape)
        found = np.array(flat, np.float64)
    except OverflowError:
        raise Refused(400, "dtype", f"{where}: a number is too large for {datatype}") from None
    with np.errstate(over="ignore"):
        out = found.astype(numpy_type)
    if not np.isfinite(out).all() and not np.array_equal(np.isfinite(found), np.isfinite(out)):
        raise Refused(400, "dtype", f"{where}: a number is too large for {datatype}")
    return out.reshape(shape)


_JSON_KINDS = {bool: "a truth value", int: "a whole number", float: "a number with a point", str: "a text",
               type(None): "null", dict: "an object", list: "a list"}  # fmt: skip


def _stem(dtype: str) -> str:
    return "bool" if dtype == "bool" else "int" if "int" in dtype else "float"


def _flat(data: list[Any], shape: tuple[int, ...], where: str) -> list[Any]:
    """Return the elements of data that are flat, or nested as the shape says."""
    if not data or not isinstance(data[0], list):
        return data
    level = [data]
    for depth, size in enumerate(shape):
        if not all(isinstance(x, list) and len(x) == size for x in level):
            raise Refused(400, "shape", f"{where}: the data are nested otherwise than the shape {list(shape)} (at "
                                        f"depth {depth}, lists of {size} are needed)")  # fmt: skip
        level = list(chain.from_iterable(level))
    return level


def _short(shape: list[Any]) -> str:
    said = json.dumps(shape)
    return said if len(said) <= 120 else said[:117] + "..."


def array_of_bytes(raw: bytes, dtype: str, shape: tuple[int, ...], where: str) -> np.ndarray:
    """Return the array of a tensor's bytes, little-endian. *Raises*: Refused where their number does not fit."""
    numpy_type = np.dtype(DATATYPES[dtype][1])
    wanted = math.prod(shape) * numpy_type.itemsize
    if len(raw) != wanted:
        raise Refused(400, "shape", f"{where}: {len(raw)} bytes for the shape {list(shape)}; needed: {wanted}")
    if dtype == "bool":
        return np.frombuffer(raw, np.uint8).reshape(shape) != 0
    return np.frombuffer(raw, numpy_type).reshape(shape).copy()  # a program may write its inputs


def document(a: np.ndarray, name: str, dtype: str) -> dict[str, Any]:
    """Return a tensor as an object for `json_bytes`, its data flat and row by row."""
    plain = a.astype(np.float32) if dtype in ("bfloat16", "float16") else a
    return {"name": name, "datatype": DATATYPES[dtype][0], "shape": list(a.shape), "data": plain.ravel()}


def json_bytes(x: Any) -> bytes:
    """Return an object as JSON. Arrays are lists, their numbers as short as tells them apart in their dtype; one with
    not-a-numbers is written as Python's JSON does: NaN, Infinity.

    >>> json_bytes({"data": np.array([0.1, 2], np.float32)}), json_bytes([np.array([np.inf])])
    (b'{"data":[0.1,2.0]}', b'[[Infinity]]')
    """
    if all(np.isfinite(a).all() for a in _arrays(x)):
        with suppress(TypeError):  # a text that is no Unicode, such as a lone surrogate in a request's id
            return orjson.dumps(x, option=orjson.OPT_SERIALIZE_NUMPY)  # type: ignore[no-any-return]
    return json.dumps(x, separators=(",", ":"), default=np.ndarray.tolist).encode()


def _arrays(x: Any) -> Iterator[np.ndarray]:
    """Yield the arrays of real numbers in an object of JSON."""
    if isinstance(x, dict | list):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _arrays(part)
    elif isinstance(x, np.ndarray) and x.dtype.kind == "f":
        yield x
