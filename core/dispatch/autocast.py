"""Autocast's mechanism: the public functions that autocast_table.py names cast what they are given while autocast is on
in their thread, and cost one test of a number while it is off everywhere.

`core.amp.autocast` is what people use.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .. import native
from ..base import dtypes
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..tensors.tensor import Tensor
from . import autocast_table
from .autocast_table import FLOAT32, FLOAT32_RESULT, LOWER, PAD_MODES, PLAIN, REFUSED, WIDEST
from .type_errors import guarded

F = TypeVar("F", bound=Callable[..., Any])
DEVICES = ("cpu", "cuda")


class _State(threading.local):
    """One thread's autocast: for which devices it is on and to which dtype it casts."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.dtypes: dict[str, Dtype] = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.cache_enabled = True
        self.nesting = 0
        self.cache: dict[tuple[int, Dtype], tuple[Tensor, int, Tensor]] = {}
        self.inside = False  # a function that cast its arguments is running: what it calls casts nothing


state = _State()
_count = 0
_lock = threading.Lock()


def switch(device: str, on: bool) -> None:
    """Turn this thread's autocast for a device on or off."""
    global _count
    if (device in state.on) != on:
        with _lock:  # no call between the two: Ctrl-C comes before both or after
            state.on, _count = state.on | {device} if on else state.on - {device}, _count + (1 if on else -1)
    if native.module is not None:
        native.module.set_casting(_count)


def busy() -> bool:
    """Return whether functions that run now in this thread may cast."""
    return bool(_count and state.on and not state.inside)


@contextmanager
def plain() -> Iterator[None]:
    """Nothing in the block casts: gradients are of the types that the forward had."""
    before, state.inside = state.inside, True
    try:
        yield
    finally:
        state.inside = before


Snapshot = tuple[frozenset[str], dict[str, Dtype], bool]


def snapshot() -> Snapshot:
    """How this thread's autocast stands, for `as_it_was`."""
    return frozenset(state.on), dict(state.dtypes), state.cache_enabled


@contextmanager
def as_it_was(then: Snapshot) -> Iterator[None]:
    """Autocast as at the snapshot, for what is computed again; weights that are cast are forgotten afterwards."""
    now, inside, cache = snapshot(), state.inside, state.cache
    if not then[0] and not now[0]:
        yield
        return
    state.cache, state.inside = {}, False
    try:
        _restore(then)
        yield
    finally:
        _restore(now)
        state.cache, state.inside = cache, inside


def _restore(s: Snapshot) -> None:
    for device in DEVICES:
        switch(device, device in s[0])
    state.dtypes, state.cache_enabled = dict(s[1]), s[2]


def public_function(function: Callable[..., Any], name: str, parser: str | None = None) -> Callable[..., Any]:
    """Return what is public of `function`: what casts its arguments while autocast is on, where that knows `name`,
    behind a fast path in C if it has one: that of an elementwise op, or the printed parser of the key `parser`."""
    rules = {device: getattr(autocast_table, device).get(name) for device in DEVICES}
    if not any(rules.values()):
        return behind(function, parser)

    code = inspect.unwrap(function).__code__
    parameters = code.co_varnames[: code.co_argcount]
    has_dtype = "dtype" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    dtype_at = parameters.index("dtype") if "dtype" in parameters else len(code.co_varnames)
    only = _ONLY.get(name)

    @functools.wraps(function)
    def casts(*args: Any, **kwargs: Any) -> Any:
        if not state.on or state.inside or kwargs.get("out") is not None:
            return function(*args, **kwargs)
        device = _device(args) or _device(tuple(kwargs.values()))
        rule = rules[device] if device in state.on else None
        if rule is None or (only is not None and not only(**dict(zip(parameters, args, strict=False)), **kwargs)):
            return function(*args, **kwargs)
        assert device is not None
        if rule is REFUSED:
            raise RuntimeError(_refusal(name))
        if rule is FLOAT32_RESULT:
            args, kwargs = _to_float32(args, kwargs, dtype_at, has_dtype, device)
        elif rule is not PLAIN:
            args, kwargs = _cast(rule, device, args, kwargs)
        state.inside = True
        try:
            return function(*args, **kwargs)
        finally:
            state.inside = False

    if native.module is not None:
        return native.module.PublicFunction(function, casts, **_fast(function, parser))

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        return casts(*args, **kwargs) if _count else function(*args, **kwargs)

    return guarded(public)


def elementwise_call_of(function: Any) -> Any:
    """Return the C path of an elementwise op's public function (native/binding/graph/elementwise_call.c), None of any
    other."""
    return (
        None if hasattr(function, "__wrapped__") else getattr(function, "elementwise_call", None)
    )  # what wraps it has a copy


def _fast(function: Any, parser: str | None) -> dict[str, Any]:
    elementwise_call = None if parser else elementwise_call_of(function)
    return {"parser": parser} if parser else {"elementwise": elementwise_call} if elementwise_call is not None else {}


def behind(function: F, parser: str | None = None) -> F:
    """`function` behind its fast path in C (`public_function`), if it has one, outside of autocast; classes with
    ``__torch_function__`` are asked before it is called."""
    if native.module is None:
        return guarded(function)  # type: ignore[no-any-return]
    return native.module.PublicFunction(function, function, **_fast(function, parser))  # type: ignore[no-any-return]


def _device(values: Any) -> str | None:
    """Return where the first tensor among arguments lies."""
    for v in values:
        if isinstance(v, Tensor):
            return v._kind.device.type
        if isinstance(v, list | tuple) and (found := _device(v)):
            return found
    return None


def _eligible(t: Any, device: str) -> bool:
    return (isinstance(t, Tensor) and t._kind.dtype.category == 2 and t._kind.dtype is not dtypes.float64
            and t._kind.device.type == device)  # fmt: skip


def _tensors(values: Any, device: str) -> Iterator[Tensor]:
    for v in values:
        if _eligible(v, device):
            yield v
        elif isinstance(v, list | tuple):
            yield from _tensors(v, device)


def _cast(rule: str, device: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if rule is LOWER:
        to = state.dtypes[device]
    elif rule is FLOAT32:
        to = dtypes.float32
    else:
        assert rule is WIDEST
        to = state.dtypes[device]
        for t in _tensors((*args, *kwargs.values()), device):
            to = dtypes.promote_types(to, t._kind.dtype)
    return tuple([_one(a, to, device) for a in args]), {k: _one(v, to, device) for k, v in kwargs.items()}


def _one(a: Any, to: Dtype, device: str) -> Any:
    if type(a) in (list, tuple):
        return type(a)(_one(v, to, device) for v in a)
    return a if not _eligible(a, device) or a._kind.dtype is to else cast(a, to, device)


def cast(t: Tensor, to: Dtype, device: str) -> Tensor:
    """`t` as another dtype, on the graph; a weight is cast once and kept until autocast's outermost block ends."""
    kept = (state.cache_enabled and mode.enabled and not mode.batch and t._requires_grad and t._node is None
            and t._base is None and to is state.dtypes[device] and t._kind.dtype is dtypes.float32)  # fmt: skip
    if not kept:
        return declarations.functions["to"](t, kind_of(to, t._kind.device))  # type: ignore[no-any-return]
    key, version = (id(t), to), t._version
    found = state.cache.get(key)
    if found is None or found[1] != version:  # a weight that was written since is cast anew
        found = state.cache[key] = t, version, declarations.functions["to"](t, kind_of(to, t._kind.device))
    return found[2]


def _to_float32(args: tuple[Any, ...], kwargs: dict[str, Any], at: int, has_dtype: bool, device: str) -> Any:
    """Name float32 as the result's dtype, where none is named and the first argument may be cast. `at` is the place of
    `dtype` among the arguments."""
    first = args[0] if args else kwargs.get("input")
    if not _eligible(first, device) or (len(args) > at and args[at] is not None) or kwargs.get("dtype") is not None:
        return args, kwargs
    if not has_dtype:
        return _cast(FLOAT32, device, args, kwargs)
    return args[:at], {**kwargs, "dtype": dtypes.float32}  # what follows `dtype` is given by name, if at all


def _known_pad(input: Any = None, pad: Any = (), mode: str = "constant", value: Any = None) -> bool:
    return len(pad) // 2 in PAD_MODES.get(mode, ())


def _not_an_average(mode: str = "nearest", **_: Any) -> bool:
    return mode != "area"


_ONLY: dict[str, Callable[..., bool]] = {"pad": _known_pad, "interpolate": _not_an_average}


def _refusal(name: str) -> str:
    return text(f"torch.nn.functional.{name} and torch.nn.BCELoss are unsafe to autocast.", op=name,
                came="probabilities while autocast is on: their logarithms overflow float16",
                remedy="binary_cross_entropy_with_logits or BCEWithLogitsLoss on what went into the sigmoid, or a "
                       "block of autocast with enabled=False")  # fmt: skip
