"""CUDA graphs: the work of a piece of code captured once, and told to the GPU again as one thing.

A replay runs the same kernels on the same addresses. What goes in is written into the tensors that were there at the
capture, what comes out is in those that it made, and their memory is kept in a pool that nobody else takes from.
Random numbers are new at each replay: a graph draws what the same code, run there and then, would draw, and moves the
generator on by as much. Its kernels read the seed and the offset of its first number from memory (`philox.Place`).
Under Triton's interpreter there is nothing to capture: kernels are Python there, and what NumPy does leaves no trace.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from ..backends.cuda import devices as _devices
from ..backends.cuda import memory as _memory
from ..backends.cuda.shared import retell
from ..base.device import device as Device
from ..rng import philox
from ..rng.generator import Generator, default_of, on_gpus
from ..rng.philox import Place
from .devices import library
from .streams import Stream, current_stream, default_stream, synchronize
from .streams import stream as stream_block

_MODES = ("global", "thread_local", "relaxed")


def _needed(what: str) -> Any:
    cupy = library()
    if cupy is None:
        raise RuntimeError(
            f"{what} needs a GPU: Triton's interpreter runs kernels as Python over NumPy, and of what NumPy does "
            "beside them nothing can be captured\n  remedy: call the function as it is, whose results are the same; "
            "core.cuda.make_graphed_callables does so by itself"
        )
    return cupy


def is_current_stream_capturing() -> bool:
    """Return whether a graph is being captured from the current stream.

    >>> import core
    >>> core.cuda.is_current_stream_capturing() if core.cuda.is_available() else False
    False
    """
    cupy = library()
    return cupy is not None and bool(cupy.cuda.get_current_stream().is_capturing())


class _Pool:
    """Where a graph's memory comes from; its handle lets graphs that never run at once share it."""

    def __init__(self, cupy: Any) -> None:
        self.blocks = cupy.cuda.MemoryPool()
        self.id = (id(self), 0)


_pools: dict[tuple[int, int], _Pool] = {}


def graph_pool_handle() -> tuple[int, int]:
    """Return a handle of memory for several graphs: ``core.cuda.graph(g, pool=handle)``."""
    pool = _Pool(_needed("graph_pool_handle"))
    _pools[pool.id] = pool
    return pool.id


class CUDAGraph:
    """A piece of a stream's work that can be told to the GPU again and again.

    Use it through `core.cuda.graph`:

    >>> import core
    >>> def step(x):
    ...     return (x * 2).relu()
    >>> if core.cuda.is_available() and core.cuda.get_device_capability() > (0, 0):
    ...     x = core.ones(4, device="cuda")
    ...     step(x)  # once before, so that kernels are compiled
    ...     g = core.cuda.CUDAGraph()
    ...     with core.cuda.graph(g):
    ...         y = step(x)
    ...     x.copy_(core.full((4,), 3.0))
    ...     g.replay()  # y is 6 now
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._cupy = _needed("CUDAGraph")
        self._graph: Any = None
        self._pool: _Pool | None = None
        self._kept: list[Any] = []  # the launches, whose code must stay loaded
        self._generators: dict[Generator, Place] = {}  # whose numbers it may draw
        self._counts: dict[Generator, int] = {}  # and how many it does
        self._read: dict[int, Place] = {}
        self._undo: Any = None
        self._stream: Any = None
        self._device = _devices.current()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Capture the current stream's work from now on; it is not done.

        Every mode captures as "relaxed" does, as the pool may have to ask for memory meanwhile.
        """
        from triton_kernels import faults

        if capture_error_mode not in _MODES:
            raise RuntimeError(f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                               f"{capture_error_mode}")  # fmt: skip
        if self._graph is not None or self._stream is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create "
                               "a new instance or call reset()")  # fmt: skip
        cupy = self._cupy
        stream = cupy.cuda.get_current_stream()
        if not stream.ptr:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's "
                               "ok to replay them on the default stream.)\n  remedy: with graph(g):")  # fmt: skip
        if isinstance(pool, CUDAGraph):
            pool = pool.pool()
        found = _pools.get(tuple(pool)) if pool is not None else _Pool(cupy)
        if found is None:
            raise RuntimeError(f"CUDAGraph: no pool has the handle {pool}\n  remedy: core.cuda.graph_pool_handle()")
        self._pool = _pools[found.id] = found
        self._device = _devices.current()
        self.register_generator_state(default_of(Device("cuda", self._device)))
        self._strange = {g: bytes(g.engine.state()) for g in on_gpus if g not in self._generators}
        counted, blocks = _memory.counted, found.blocks
        assert counted is not None
        counted.graphs.add(blocks)
        taking = cupy.cuda.using_allocator(lambda size: counted.take(blocks.malloc, blocks, size))
        noted = faults.note

        def note(launch: Any) -> None:
            self._kept.append(launch)
            noted(launch)

        def undo() -> None:
            faults.note = noted
            taking.__exit__(None, None, None)
            philox.read = None
            self._counts = {g: g.end_capture() for g in self._generators}

        taking.__enter__()
        faults.note = note
        philox.read = self._read
        for generator, place in self._generators.items():
            generator.begin_capture(place)
        self._undo, self._stream = undo, stream
        try:
            stream.begin_capture()
        except RuntimeError as error:
            self.reset()
            retell(error)

    def capture_end(self) -> None:
        """End the capture.

        *Raises*: `core.AcceleratorError` where something was done that a graph cannot hold; RuntimeError where random
        numbers were drawn, which each replay would repeat.
        """
        if self._stream is None:
            raise RuntimeError("CUDAGraph.capture_end: no capture was begun\n  remedy: capture_begin() first")
        stream, self._stream = self._stream, None
        undo, self._undo = self._undo, None
        undo()
        try:
            self._graph = stream.end_capture()
        except RuntimeError as error:
            self.reset()
            retell(error)
        if any(bytes(g.engine.state()) != state for g, state in self._strange.items()):
            self.reset()
            raise RuntimeError(
                "CUDAGraph: random numbers of a generator that the graph does not know were drawn while it was "
                "captured, and each replay would draw the same again\n  remedy: before the capture "
                "graph.register_generator_state(generator), which must be of the kind 'philox'"
            )

    def register_generator_state(self, generator: Generator) -> None:
        """Let the capture draw numbers of this generator too; the default one's it may draw anyway."""
        if self._stream is not None:
            raise RuntimeError("CUDAGraph.register_generator_state: the capture has begun\n  remedy: call it before")
        if generator.kind == "philox" and generator not in self._generators:
            self._generators[generator] = Place(lambda: self._cupy.empty(2, "int64"))

    def replay(self) -> None:
        """Tell the GPU all of it again, in the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        from triton_kernels import faults

        if self._kept:
            faults.note(self)
        try:
            with _devices.on(Device("cuda", self._device)):
                self._draw()
                self._graph.launch(self._cupy.cuda.get_current_stream())
        except RuntimeError as error:
            retell(error)

    def _draw(self) -> None:
        """Set the numbers of a replay aside, and write where they begin."""
        for generator, count in self._counts.items():
            if count:
                taken = generator.take(count)
                if taken is None:
                    raise RuntimeError("CUDAGraph.replay: the graph draws numbers of Philox, and its generator is of "
                                       "the kind 'torch' now\n  remedy: core.manual_seed(seed)")  # fmt: skip
                begin = np.array(taken, np.uint64).view(np.int64)
                self._generators[generator].array.set(begin, self._cupy.cuda.get_current_stream())

    def describe(self) -> str:
        """Return the graph among the launches that an error lists."""
        names = list(dict.fromkeys(launch.name for launch in self._kept))
        return f"a CUDA graph of {len(self._kept)} launches ({', '.join(names[:8])}{' …' if len(names) > 8 else ''})"

    @property
    def name(self) -> str:
        return "CUDAGraph"

    def reset(self) -> None:
        """Forget what was captured, and let go of its memory."""
        if self._undo is not None:
            undo, self._undo = self._undo, None
            undo()
        self._graph = self._pool = self._stream = None
        self._kept, self._generators, self._counts, self._read = [], {}, {}, {}

    def pool(self) -> tuple[int, int]:
        """Return the handle of its memory, for another graph: ``core.cuda.graph(other, pool=g.pool())``."""
        if self._pool is None:
            raise RuntimeError("CUDAGraph.pool: nothing was captured yet")
        return self._pool.id

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph as text for Graphviz."""
        if self._graph is None:
            raise RuntimeError("CUDAGraph.debug_dump: nothing was captured yet")
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(self._graph.debug_dot_str())

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            _pools.pop(pool.id, None)


class graph:
    """A block whose work on the GPU is captured into `cuda_graph` and not done.

    pool : memory shared with other graphs, a `graph_pool_handle()` or another graph's `pool()`. stream : where to
    capture; one of its own if None. The block must not read from the GPU (`.item()`, `print`), and what it needs from
    memory of the CPU must be pinned. Run the same code once before it, so that kernels are compiled. The graph keeps
    its inputs alive, so `check_input_liveness` has nothing to check; `enable_annotations` is for PyTorch's profiler.

    *Raises*: RuntimeError under Triton's interpreter, with what is missing.
    """

    default_capture_stream: Stream | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None,
                 capture_error_mode: str = "global", *, check_input_liveness: bool = False,
                 enable_annotations: bool = False) -> None:  # fmt: skip
        _needed("core.cuda.graph")
        if stream is None:
            found = graph.default_capture_stream
            if found is None or found.device_index != _devices.current():
                found = graph.default_capture_stream = Stream()
            stream = found
        self.cuda_graph, self.pool, self.mode = cuda_graph, pool, capture_error_mode
        self.capture_stream, self._around = stream, stream_block(stream)

    def __enter__(self) -> None:
        synchronize()
        gc.collect()
        library().get_default_memory_pool().free_all_blocks()
        self._around.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.mode)
        except BaseException:
            self._around.__exit__()
            raise

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            if error is None:
                self.cuda_graph.capture_end()
            else:
                self._abandon()
        finally:
            self._around.__exit__()

    def _abandon(self) -> None:
        """The block failed: the stream must be freed of the capture, and its error is the one to tell."""
        told = self.cuda_graph._stream
        self.cuda_graph.reset()
        try:
            if told is not None:
                told.end_capture()
        except RuntimeError:
            return


def make_graphed_callables(callables: Any, sample_args: Any, num_warmup_iters: int = 3,
                           allow_unused_input: bool = False, pool: Any = None) -> Any:  # fmt: skip
    """Functions or modules whose forward and backward passes are CUDA graphs, for arguments like `sample_args`.

    One callable and its tuple of sample tensors, or a tuple of callables and a tuple of such tuples. Results are
    written into the same memory at each call. Under Triton's interpreter the callables are given back as they are: it
    has nothing to capture, and their results are the same.

    >>> import core
    >>> linear = core.nn.Linear(2, 2)
    >>> if core.cuda.is_available():
    ...     x = core.ones(1, 2, device="cuda")
    ...     linear = core.cuda.make_graphed_callables(linear.to("cuda"), (x,))
    """
    several = isinstance(callables, tuple)
    made, samples = (callables, sample_args) if several else ((callables,), (sample_args,))
    for given in samples:
        if not all(hasattr(x, "_kind") for x in given):
            raise TypeError("make_graphed_callables: sample_args must be tensors, in a tuple for each callable")
    if library() is None:
        return callables
    from .graphed import graphed

    shared = pool or graph_pool_handle()
    stream = Stream()
    out = [graphed(f, args, num_warmup_iters, allow_unused_input, shared, stream)
           for f, args in zip(made, samples, strict=True)]  # fmt: skip
    return tuple(out) if several else out[0]


__all__ = ["CUDAGraph", "current_stream", "default_stream", "graph", "graph_pool_handle",
           "is_current_stream_capturing", "make_graphed_callables"]  # fmt: skip
