"""``%%autograd --precision`` for PyTorch: its functions once more on tensors of float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..diagnose.values.precision import LARGEST, Companion
from .arrays import values

_RANDOM = ("rand", "dropout", "bernoulli", "normal", "multinomial", "poisson", "uniform", "exponential", "geometric")
_CASTS = {"to", "float", "double", "half", "bfloat16", "clone", "contiguous", "type", "type_as", "detach", "cpu"}
_KEPT = {"backward", "tensor", "as_tensor", "from_numpy", "empty", "zeros", "ones", "full", "arange"}


class Prepared(NamedTuple):
    """A call as it will run in float64: made before the call itself, which may change what it is given."""

    args: Any
    keywords: Any
    given: list[Companion]
    tensors: list[Any]
    before: Any


def prepare(watch: Any, call: Any) -> Prepared | None:
    """Return a call's arguments in float64; None where it is not to be run again."""
    torch, precision = watch.torch, watch.precision
    if call.name in _KEPT or any(part in call.name for part in _RANDOM):
        return None
    tensors = watch._tensors((call.args, call.keywords))
    if not any(t.is_floating_point() or t.is_complex() for t in tensors) and call.name not in _CASTS:
        return None
    if sum(t.numel() for t in tensors) > LARGEST or any(t.layout is not torch.strided for t in tensors):
        precision.left["too large"] += 1
        return None
    given: list[Companion] = []

    def exact(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            companion = _of(watch, x)
            if x.is_floating_point() or x.is_complex() or call.name in _CASTS:
                given.append(companion)
                return torch.from_numpy(np.array(companion.array))
            return x.detach().clone()
        if isinstance(x, list | tuple):
            made = [exact(v) for v in x]
            return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
        return {k: exact(v) for k, v in x.items()} if isinstance(x, dict) else x

    before = np.array(values(tensors[0])) if tensors and tensors[0].is_floating_point() else None
    return Prepared(exact(call.args), exact(call.keywords), given, tensors, before)


def compare(watch: Any, call: Any, out: Any, made: Prepared) -> None:
    """Run the call in float64 and compare its results with what it gave."""
    torch, precision = watch.torch, watch.precision
    place, name = watch._place(), call.name
    outs = watch._tensors(out)
    if name in _CASTS and made.given and outs:
        exact = [made.given[0].array]
    else:
        exact = _again(watch, call, made)
    for t, a in zip(outs, exact, strict=False):
        if a is None or not (t.is_floating_point() or t.is_complex()) or t.layout is not torch.strided:
            continue
        kind = np.complex128 if t.is_complex() else np.float64
        precision.note(name, place, made.given, t, _memory(t), str(t.dtype).rpartition(".")[2],
                       np.asarray(values(t)).astype(kind), np.asarray(a).astype(kind))  # fmt: skip
    if len(made.tensors) == 2 and len(outs) == 1 and made.before is not None and made.given:
        after = np.asarray(values(outs[0]))
        if after.shape == made.before.shape:
            dtype = str(outs[0].dtype).rpartition(".")[2]
            precision.added(name, place, made.given[0], made.before, np.asarray(values(made.tensors[1])), after, dtype)


def _again(watch: Any, call: Any, made: Prepared) -> list[Any]:
    torch, precision = watch.torch, watch.precision
    state = torch.get_rng_state()
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            result = call.function(*made.args, **made.keywords)
    except Exception as error:
        precision.left[f"{call.name} in float64 raised {type(error).__name__}"] += 1
        return []
    finally:
        torch.set_rng_state(state)
    wide = (torch.float64, torch.complex128)
    return [np.array(values(t)) if t.dtype in wide else None for t in watch._tensors(result)]


def _of(watch: Any, t: Any) -> Companion:
    if t.requires_grad and t.is_leaf:
        return Companion(np.asarray(values(t)).astype(np.float64), 0.0)
    found: Companion = watch.precision.companion(t, _memory(t), lambda: values(t))
    return found


def _memory(t: Any) -> tuple[int, int]:
    return t.untyped_storage().data_ptr(), 0 if t.is_inference() else t._version
