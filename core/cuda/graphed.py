"""One callable as two CUDA graphs, forward and backward, behind an autograd function."""

from __future__ import annotations

from typing import Any

from ..autograd import Function
from ..autograd import grad as grad_of
from ..base.modes import enable_grad, no_grad
from ..ops.creation import empty_like
from ..tensors.tensor import Tensor
from .graphs import CUDAGraph, graph
from .streams import Stream, current_stream
from .streams import stream as stream_block


def graphed(callable_: Any, sample: tuple[Tensor, ...], warmups: int, unused: bool, pool: Any, stream: Stream) -> Any:
    """`callable_` as graphs; a module gets them as its `forward` and is given back."""
    module = callable_ if hasattr(callable_, "parameters") else None
    parameters = tuple(module.parameters()) if module is not None else ()
    places = (*sample, *parameters)
    wanted = [t for t in places if t.requires_grad]
    plain = module.forward if module is not None else callable_

    def run() -> tuple[tuple[Tensor, ...], bool]:
        out = plain(*sample)
        return ((out,), True) if isinstance(out, Tensor) else (tuple(out), False)

    def back(outs: tuple[Tensor, ...], grads: tuple[Tensor, ...]) -> tuple[Any, ...]:
        ends = [o for o in outs if o.requires_grad]
        return tuple(grad_of(ends, wanted, grad_outputs=grads, allow_unused=unused)) if ends and wanted else ()

    stream.wait_stream(current_stream())
    with stream_block(stream), enable_grad():
        for _ in range(warmups):
            outs, _ = run()
            back(outs, tuple(empty_like(o) for o in outs if o.requires_grad))
        del outs
    current_stream().wait_stream(stream)

    forward, backward = CUDAGraph(), CUDAGraph()
    with enable_grad(), graph(forward, pool=pool, stream=stream):
        outs, single = run()
    grads = tuple(empty_like(o) for o in outs if o.requires_grad)
    with graph(backward, pool=pool, stream=stream):
        found = list(back(outs, grads))
    results = [found.pop(0) if t.requires_grad and wanted and found else None for t in places]
    fixed = tuple(o.detach() for o in outs)

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *given: Tensor) -> Any:
            with no_grad():
                for mine, theirs in zip(sample, given[: len(sample)], strict=True):
                    if mine.data_ptr() != theirs.data_ptr():
                        mine.detach().copy_(theirs)
            forward.replay()
            return tuple(f.detach() for f in fixed)

        @staticmethod
        def backward(ctx: Any, *arrived: Any) -> Any:
            needed = [g for g, o in zip(arrived, outs, strict=True) if o.requires_grad]
            with no_grad():
                for mine, theirs in zip(grads, needed, strict=True):
                    if theirs is None:
                        mine.zero_()
                    elif mine.data_ptr() != theirs.data_ptr():
                        mine.copy_(theirs)
            backward.replay()
            return tuple(None if r is None else r.detach() for r in results)

    def call(*given: Tensor) -> Any:
        if len(given) != len(sample) or any(a.shape != b.shape or a.dtype is not b.dtype
                                            for a, b in zip(given, sample, strict=False)):  # fmt: skip
            raise RuntimeError(
                "a graphed callable takes tensors of the shapes and dtypes of its samples\n"
                f"  came: {', '.join(f'{tuple(t.shape)} {t.dtype}' for t in given)}; "
                f"needed: {', '.join(f'{tuple(t.shape)} {t.dtype}' for t in sample)}"
            )
        out = Graphed.apply(*given, *parameters)
        out = out if isinstance(out, tuple) else (out,)
        return out[0] if single else out

    if module is None:
        return call
    training = module.training

    def forward_of(*given: Any, **named: Any) -> Any:
        return call(*given) if module.training == training and not named else plain(*given, **named)

    module.forward = forward_of
    return module
