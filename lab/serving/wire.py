"""A request's bytes to tensors, and tensors to an answer's bytes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from .refusal import Refused
from .served import Asked, Served
from .tensors import DATATYPES, array_of, array_of_bytes, document, json_bytes, named, shape_of

HEADER = "inference-header-content-length"
"""With bytes behind the JSON, how long the JSON is."""


class Wanted(NamedTuple):
    """A request, read: its tensors, its id, and of each output that is wanted whether as bytes."""

    asked: Asked
    id: str | None
    outputs: dict[str, bool]


def read(body: bytes, json_length: str | None, model: Served) -> Wanted:
    """Return the request that a body holds. *Raises*: Refused with what is amiss, and where."""
    head, rest = _parted(body, json_length)
    try:
        found = json.loads(head)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise Refused(400, "malformed", f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, "malformed", f"the body has to be an object; came: {type(found).__name__}")
    tensors = named(found, "inputs", list, "the body")
    if len(tensors) > model.limits.tensors:
        raise Refused(413, "too large", f"{len(tensors)} tensors; needed: at most {model.limits.tensors}")
    arrays: dict[str, np.ndarray] = {}
    for k, x in enumerate(tensors):
        where = f"inputs[{k}]"
        if not isinstance(x, dict):
            raise Refused(400, "malformed", f"{where} has to be an object; came: {type(x).__name__}")
        name = named(x, "name", str, where)
        if name not in model.inputs or name in arrays:
            problem = "comes twice" if name in arrays else "is no input of the model"
            needed = ", ".join(model.inputs)
            raise Refused(400, "names", f"{where}: {name!r:.80} {problem}; needed: {needed}")
        arrays[name], rest = _array(x, f"{where} ({name})", model, model.inputs[name], rest)
    if missing := [name for name in model.inputs if name not in arrays]:
        raise Refused(400, "names", f"the inputs {', '.join(missing)} are missing")
    if rest:
        raise Refused(400, "malformed", f"{len(rest)} bytes behind the JSON belong to no tensor")
    asked = model.asked([arrays[name] for name in model.inputs])
    request_id = found.get("id")
    if request_id is not None and not isinstance(request_id, str):
        raise Refused(400, "malformed", f"'id' has to be a text; came: {type(request_id).__name__}")
    return Wanted(asked, request_id, _outputs(found, model))


def _parted(body: bytes, json_length: str | None) -> tuple[bytes, memoryview]:
    """Return the JSON of a body, and the bytes behind it."""
    if json_length is None:
        return body, memoryview(b"")
    length = int(json_length) if json_length.isascii() and json_length.isdigit() and len(json_length) < 12 else -1
    if not 0 <= length <= len(body):
        raise Refused(400, "malformed", f"{HEADER} has to be the bytes of the JSON, from 0 to {len(body)}; "
                                        f"came: {json_length!r:.40}")  # fmt: skip
    return body[:length], memoryview(body)[length:]


def _array(x: dict[str, Any], where: str, model: Served, k: int, rest: memoryview) -> tuple[np.ndarray, memoryview]:
    """Return an input's array, and the bytes that are left behind the JSON."""
    value = model.program.inputs[k]
    datatype = named(x, "datatype", str, where)
    if datatype != DATATYPES[value.dtype][0]:
        raise Refused(400, "dtype", f"{where} is {DATATYPES[value.dtype][0]}; came: {datatype!r:.40}")
    shape = shape_of(x, where, model.limits)
    fits = len(shape) == len(value.shape) and all(
        n == d for n, d in zip(shape, value.shape, strict=True) if isinstance(d, int)
    )
    if not fits:  # said before the data are looked at
        raise Refused(400, "shape", f"{where} has another shape; came: {list(shape)}; needed: {value!r}")
    size = _parameters(x, where).get("binary_data_size")
    if size is None:
        return array_of(named(x, "data", list, where), value.dtype, shape, where), rest
    if "data" in x:
        raise Refused(400, "malformed", f"{where} has 'data' and 'binary_data_size'; needed: one of them")
    if type(size) is not int or not 0 <= size <= len(rest):
        raise Refused(400, "malformed", f"{where}: binary_data_size has to be a number from 0 to the {len(rest)} bytes "
                                        f"that are left behind the JSON; came: {size!r:.40}")  # fmt: skip
    return array_of_bytes(bytes(rest[:size]), value.dtype, shape, where), rest[size:]


def _parameters(x: dict[str, Any], where: str) -> dict[str, Any]:
    return named(x, "parameters", dict, where) if "parameters" in x else {}


def _outputs(found: dict[str, Any], model: Served) -> dict[str, bool]:
    """Return of each output that is wanted whether it is wanted as bytes."""
    all_bytes = _parameters(found, "the body").get("binary_data_output") is True
    if not found.get("outputs"):
        return dict.fromkeys(model.output_names, all_bytes)
    out: dict[str, bool] = {}
    for k, x in enumerate(named(found, "outputs", list, "the body")):
        where = f"outputs[{k}]"
        if not isinstance(x, dict):
            raise Refused(400, "malformed", f"{where} has to be an object; came: {type(x).__name__}")
        name = named(x, "name", str, where)
        if name not in model.output_names:
            needed = ", ".join(model.output_names)
            raise Refused(400, "names", f"{where}: {name!r:.80} is no output of the model; needed: {needed}")
        out[name] = _parameters(x, where).get("binary_data", all_bytes) is True
    return out


def written(outputs: list[np.ndarray], wanted: Wanted, model: Served) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the body of an answer and its headers. Not-a-numbers are written as Python's JSON does: NaN, Infinity."""
    entries, raw = [], []
    for name, value, a in zip(model.output_names, model.program.outputs, outputs, strict=True):
        if name not in wanted.outputs:
            continue
        if wanted.outputs[name]:
            data = np.ascontiguousarray(a).tobytes()
            raw.append(data)
            entries.append({"name": name, "datatype": DATATYPES[value.dtype][0], "shape": list(a.shape),
                            "parameters": {"binary_data_size": len(data)}})  # fmt: skip
        else:
            entries.append(document(a, name, value.dtype))
    answer = {"model_name": model.name, "outputs": entries}
    if wanted.id is not None:
        answer["id"] = wanted.id
    head = json_bytes(answer)
    if not raw:
        return head, [(b"content-type", b"application/json")]
    return b"".join([head, *raw]), [(b"content-type", b"application/octet-stream"),
                                    (HEADER.encode(), str(len(head)).encode())]  # fmt: skip
