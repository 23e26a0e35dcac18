"""What a function's code does and reads, from its bytecode: names, and lines whose effects no tape hears."""

from __future__ import annotations

import dis
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

_EFFECTS = {
    "STORE_ATTR": "sets the attribute {!r}", "DELETE_ATTR": "deletes the attribute {!r}",
    "STORE_GLOBAL": "sets the global {!r}", "DELETE_GLOBAL": "deletes the global {!r}",
    "LOAD_BUILD_CLASS": "makes a class", "GET_AWAITABLE": "awaits", "IMPORT_NAME": "imports {!r}",
    "DELETE_SUBSCR": "deletes an item",
}  # fmt: skip

REFUSED = {
    **dict.fromkeys(("print", "input", "open", "breakpoint", "exec", "eval", "compile", "__import__"), "calls {}()"),
    **dict.fromkeys(("globals", "locals", "vars", "setattr", "delattr", "id", "hash"), "calls {}()"),
    **dict.fromkeys(("register_hook", "retain_grad", "register_forward_hook", "register_full_backward_hook",
                     "register_post_accumulate_grad_hook", "register_forward_pre_hook"), "calls {}()"),
    **dict.fromkeys(("grad", "grad_fn", "is_leaf", "_version", "__dict__", "data_ptr", "_a", "_node",
                     "_grad", "_storage"), "reads .{}"),
    **dict.fromkeys(("autocast", "vmap", "functional_call", "checkpoint", "manual_seed", "set_rng_state", "fork_rng",
                     "set_default_dtype", "set_num_threads", "set_grad_enabled"), "uses {}"),
    **dict.fromkeys(("share_memory_", "set_", "resize_", "requires_grad_", "save", "load", "load_state_dict",
                     "from_numpy", "as_tensor", "from_dlpack", "frombuffer"), "calls {}()"),
    **dict.fromkeys(("untyped_storage", "storage", "to_dlpack", "__array_interface__", "get_num_threads",
                     "initial_seed", "get_rng_state", "deepcopy"), "uses {}"),
    # what looks at values without an event
    **dict.fromkeys(("linalg", "inverse", "det", "logdet", "slogdet", "lu", "lu_solve", "lu_unpack", "qr", "svd",
                     "cholesky", "cholesky_inverse", "cholesky_solve", "eig", "pinverse", "lstsq", "matrix_exp",
                     "matrix_power", "geqrf", "ormqr", "ldl_factor", "svd_lowrank", "pca_lowrank", "lobpcg", "cov",
                     "corrcoef", "quantile", "nanquantile", "bincount", "histc", "histogram", "histogramdd",
                     "take_along_dim", "gaussian_nll_loss", "multilabel_margin_loss", "binary_cross_entropy",
                     "one_hot", "pack_padded_sequence", "pad_packed_sequence", "unique", "unique_consecutive",
                     "renorm"),
                    "uses {}, which looks at values"),
}  # fmt: skip
"""Names that a compiled function may not use, and what is said of them."""

MAKERS = frozenset(("tensor", "scalar_tensor", "new_tensor", "linspace", "logspace", "eye", "tril_indices",
                    "triu_indices", "vander", "hann_window", "hamming_window", "blackman_window", "bartlett_window",
                    "kaiser_window", "empty", "empty_like", "new_empty", "range", "complex"))  # fmt: skip
"""Names of functions that make tensors of numbers without an event."""

_LOADS = frozenset(("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_CONST",
                    "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_SMALL_INT"))  # fmt: skip
"""Instructions that load one plain value; the last two are Python 3.14's."""

_COMPUTED = frozenset(("attrgetter", "methodcaller", "__getattribute__", "__getattr__"))


class Effect(NamedTuple):
    """A line with an effect, or something that a replay would not do."""

    what: str
    line: str


class Code(NamedTuple):
    """What a piece of code does, what is inside it too.

    globals : names that it loads as globals (or builtins). names : all attributes that it asks for, and its texts, by
    which getattr may ask. effects : lines that a replay would not do.
    """

    globals: tuple[str, ...]
    names: frozenset[str]
    effects: tuple[Effect, ...]
    by_name: bool  # whether it asks for attributes by names that it computes


@lru_cache(maxsize=4096)
def read(code: CodeType) -> Code:
    """Return what a piece of code does."""
    loads: dict[str, None] = {}
    names: set[str] = set()
    effects: list[Effect] = []
    for part in _parts(code):
        names.update(c for c in part.co_consts if isinstance(c, str) and c.isidentifier())
        for tuple_ in part.co_consts:
            if isinstance(tuple_, tuple):
                names.update(c for c in tuple_ if isinstance(c, str))
        line = part.co_firstlineno
        for i in dis.get_instructions(part):
            if i.starts_line is not None:
                line = i.positions.lineno if i.positions and i.positions.lineno else line
            elif i.positions and i.positions.lineno:
                line = i.positions.lineno
            said = _EFFECTS.get(i.opname)
            if said is not None:
                effects.append(Effect(said.format(i.argval), where(part, line)))
            elif i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in code.co_freevars:
                effects.append(Effect(f"sets the variable {i.argval!r} of the function around it", where(part, line)))
            elif i.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                loads[i.argval] = None
            elif i.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
                names.add(i.argval)
            if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD") and i.argval in REFUSED:
                effects.append(Effect(REFUSED[i.argval].format(i.argval), where(part, line)))
    computed = not _COMPUTED.isdisjoint((*loads, *names)) or any(map(_asks, _parts(code)))
    return Code(tuple(loads), frozenset(names), tuple(effects), computed)


def _asks(code: CodeType) -> bool:
    """Return whether it calls getattr or hasattr otherwise than with a text that stands there as the name."""
    steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "PRECALL", "PUSH_NULL", "NOP")]
    for k, step in enumerate(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in ("getattr", "hasattr"):
            at = _loaded(steps, k + 1)
            if at < 0 or at + 1 >= len(steps) or steps[at].opname != "LOAD_CONST" or type(steps[at].argval) is not str:
                return True
            end = at + 1 if steps[at + 1].opname == "CALL" else _loaded(steps, at + 1)
            if (
                end < 0
                or end >= len(steps)
                or steps[end].opname != "CALL"
                or steps[end].argval != (2 if end == at + 1 else 3)
            ):
                return True
        elif step.argval in ("getattr", "hasattr") and step.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
            return True
    return False


def _loaded(steps: list[dis.Instruction], at: int) -> int:
    """Return where what follows the load of one plain value begins; -1 where something else stands there."""
    if at >= len(steps) or steps[at].opname not in _LOADS:
        return -1
    at += 1
    while at < len(steps) and steps[at].opname == "LOAD_ATTR":
        at += 1
    return at


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from _parts(c)


def where(code: CodeType, line: int) -> str:
    """Return a line of code as people read it."""
    text = linecache.getline(code.co_filename, line).strip()
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{file} line {line}" + (f" ({text})" if text else "")
