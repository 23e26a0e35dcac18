"""What the tuner has chosen for the C kernels on this processor: read when `core` is imported, handed to the kernels.

A kernel looks its choice up by its shape, in C: nothing where nothing is stored, some ten nanoseconds else. What may be
chosen is how the work is divided and how large the blocks are; no choice changes a bit of a result.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import module

SOURCE = "core.native 1"
"""What results are filed under; another number forgets those of before."""
SHARING = {"THREADS": "threads", "SHARE": "share", "CHUNKS": "chunks"}
"""Of every kernel: at most so many threads; work that is worth one's while; pieces for each."""
ITEM_SIZES = {"float32": 4, "float64": 8}
_MOST = 64


class Kernel(NamedTuple):
    """axes : of the shape that a kernel is looked up by. own : its tunables besides, and what C calls them. dtypes : of
    its inputs."""

    axes: tuple[str, ...]
    own: Mapping[str, str] = {}
    dtypes: tuple[str, ...] = tuple(ITEM_SIZES)


KERNELS = {
    "core_elementwise": Kernel(("items",)),
    "core_reduce": Kernel(("outer", "n", "inner"), {"TILE": "rows"}),
    "core_softmax": Kernel(("rows", "columns")),
    "core_softmax_backward": Kernel(("rows", "columns")),
    "core_layer_norm": Kernel(("rows", "columns")),
    "core_attention": Kernel(("heads", "queries", "keys", "width")),
    "core_attention_backward": Kernel(("heads", "queries", "keys", "width"), {"QUERIES": "rows"}),
    "core_recurrent": Kernel(("steps", "sequences", "inputs", "hidden"), {"TILE": "rows", "SEQUENCES": "block"}),
    "core_recurrent_backward": Kernel(
        ("steps", "sequences", "inputs", "hidden"), {"TILE": "rows", "SEQUENCES": "block"}
    ),
    "core_matmul": Kernel(("M", "N", "K"), {"ROWS": "rows", "PACKED_KIB": "block"}),
    "core_convolution": Kernel(("images", "terms", "outputs", "places"), {"ROWS": "rows", "PANELS": "block"}),
    "core_int8_linear": Kernel(("M", "N", "K"), {"ROWS": "rows"}, ("float32",)),
    "core_int8_weights": Kernel(("M", "N", "K"), {"COLUMNS": "rows"}, ("float32",)),
    "core_int4_weights": Kernel(("M", "N", "K"), {"COLUMNS": "rows"}, ("float32",)),
}


def numbers(kernel: str, config: Mapping[str, Any]) -> tuple[int, ...]:
    """Return a config as C takes it: threads, share, chunks, rows, block; 0 is what the kernel takes by itself.

    >>> numbers("core_reduce", {"THREADS": 2, "SHARE": 4096, "CHUNKS": 1, "TILE": 256})
    (2, 4096, 1, 256, 0)
    """
    fields = {"threads": 0, "share": 32768, "chunks": 4, "rows": 0, "block": 0}
    for name, field in {**SHARING, **KERNELS[kernel].own}.items():
        fields[field] = int(config[name])
    return tuple(fields.values())


def begin() -> None:
    """Take what is stored, if anything is: reading a file is all that it costs who has tuned nothing of this."""
    # the path is triton_kernels.tune.places.data_folder's, whose import takes longer than all else here
    base = os.environ.get("XDG_DATA_HOME", "")
    base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".local", "share")
    if not os.path.isabs(base):  # a user without a home
        return
    with contextlib.suppress(Exception):  # core runs without what would only make it faster
        with open(os.path.join(base, "gradlab", "tuning", "best.json"), "rb") as file:
            tuned = b'"core_' in file.read()
        if tuned:
            take()


def take() -> None:
    """Hand the kernels what is stored for this processor now, and nothing else."""
    if module is None or not hasattr(module, "choose"):
        return
    from triton_kernels.tune import lookup, places

    found: dict[str, list[Any]] = {name: [] for name in KERNELS}
    for entry in lookup.entries():
        kernel, dtype = entry["kernel"], entry["dtype"]
        if (
            kernel in found
            and dtype in ITEM_SIZES
            and entry["source"] == SOURCE
            and entry["device"] == places.cpu_name()
        ):
            try:
                choice = (tuple(entry["shape"]), ITEM_SIZES[dtype], *numbers(kernel, entry["config"]))
                module.choose(kernel, [choice])  # one that it refuses spoils no other
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
            found[kernel].append(choice)
    for kernel, choices in found.items():
        with contextlib.suppress(ValueError):  # an extension that was built before this kernel took any
            module.choose(kernel, choices[-_MOST:])
