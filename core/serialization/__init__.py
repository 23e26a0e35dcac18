"""Saving and loading: `core.save`, `core.load`, in safetensors and in PyTorch's own format, without running pickles."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, BinaryIO, TypeAlias

from ..base.device import device
from ..base.errors import LoadError, text

__all__ = ["LoadError", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

FILE_LIKE: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None
STORAGE: TypeAlias = Any
DEFAULT_PROTOCOL = 2
_TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")


def _format_of(f: Any, obj: Any) -> str:
    """Return what `save` writes: by the suffix of a path, where it says; to an open file what PyTorch would, unless its
    name says else."""
    if isinstance(f, str | bytes | os.PathLike):
        name = os.fsdecode(f).lower()
        module = hasattr(obj, "state_dict") and not name.endswith(".safetensors")
        return "pt" if module or name.endswith(_TORCH_SUFFIXES) else "safetensors"
    return "safetensors" if str(getattr(f, "name", "")).lower().endswith(".safetensors") else "pt"


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2,
         _use_new_zipfile_serialization: bool = True, *, format: str | None = None) -> None:  # fmt: skip
    """Save tensors, and dicts, lists and plain values with tensors in them: a state dict, a whole checkpoint.

    obj : tensors, parameters, NumPy arrays, numbers, texts, bytes, dtypes, devices, generators, and dicts, lists,
        tuples, sets, OrderedDicts, defaultdicts, Counters and deques of them; in "pt" modules and dataclasses too,
        whose classes `load` finds by their names. Tensors that share memory share it again after loading, and memory
        is written once.
    f : a path or a binary file. A path is replaced in one step once everything is written and on the disk: whoever is
        killed in the middle leaves the old file whole. What is open already is written straight.
    format : "safetensors" or "pt"; by default "pt" for the suffixes .pt, .pth, .bin, .ckpt, .tar, for files that are
        open, and for a module unless the suffix is .safetensors; else "safetensors". Every safetensors reader sees a
        state dict's tensors by its keys, and those of nested objects by their paths: ``model.0.weight``. PyTorch reads
        what "pt" writes with ``weights_only=True`` (NumPy arrays, defaultdicts, deques, frozensets, ranges and slices
        only without).
    pickle_module, pickle_protocol : as PyTorch's; no pickle module takes part here.

    Of a tensor its values, strides, dtype, device and `requires_grad` are saved; not its history nor its `.grad`.

    Raises
    ------
    TypeError
        For functions and objects of other classes.
    RuntimeError
        Where the folder does not exist, or one memory is seen as two dtypes.
    OSError
        Where the disk is full, with what was needed; the old file is as it was.

    >>> import core, io
    >>> model = core.nn.Linear(2, 1)
    >>> f = io.BytesIO()
    >>> core.save({"model": model.state_dict(), "epoch": 3}, f)
    >>> _ = f.seek(0)
    >>> checkpoint = core.load(f)
    >>> checkpoint["epoch"], model.load_state_dict(checkpoint["model"])
    (3, <All keys matched successfully>)
    """
    format = format or _format_of(f, obj)
    if format not in ("pt", "safetensors"):
        raise ValueError(text(f"unknown format {format!r}", op="save", needed="'safetensors' or 'pt'"))
    if pickle_module is not None or not _use_new_zipfile_serialization:
        raise ValueError(
            text(
                "only the format that PyTorch writes since 1.6 is written, by no pickle module",
                op="save",
                remedy="leave out pickle_module and _use_new_zipfile_serialization",
            )
        )
    write = _writer(obj, f, format)
    if isinstance(f, str | bytes | os.PathLike):
        from .atomic import replacing

        with replacing(f) as file:
            write(file)
    elif hasattr(f, "write"):
        write(f)
    else:
        raise AttributeError(text(f"expected 'f' to be string, path, or a file-like object with a 'write' "
                                  f"attribute, not {type(f).__name__}", op="save"))  # fmt: skip


def _writer(obj: Any, f: Any, format: str) -> Any:
    """Return a function that writes `obj` to a file; what cannot be saved is refused here, before a file is touched."""
    if format == "safetensors":
        from . import safetensors, structure

        entries, metadata = structure.encoded(obj)

        def write(file: BinaryIO) -> None:
            safetensors.write(file, entries, metadata)

        return write
    from . import torch_file

    name = os.path.basename(os.fsdecode(f)) if isinstance(f, str | bytes | os.PathLike) else "archive"
    return torch_file.writer(obj, os.path.splitext(name)[0] or "archive")


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = True,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:  # fmt: skip
    """Load what `save` or PyTorch saved, or any safetensors file; its format is told by its first bytes.

    f : a path, or a binary file that can seek.
    map_location : where tensors go: a device, a dict such as ``{"cuda:0": "cpu"}``, or a function of memory and its
        place, such as ``lambda storage, location: storage``. None: where they were.
    mmap : let the file be the memory of the tensors: it is read when they are, and not written. Only for paths.
    weights_only : no file runs code here, whatever is asked for: a pickle is read by our own interpreter, which makes
        tensors, numbers, texts and containers and refuses everything else by name. With False it makes modules and
        dataclasses too, of classes that the program has defined by then, without their `__init__`.
    pickle_module, pickle_load_args : as PyTorch's, without effect.

    Tensors of dtypes that `core` lacks, as float8_e8m0fnu, come as NumPy arrays.

    Raises
    ------
    LoadError
        A RuntimeError (and UnpicklingError) for files that are broken, of another kind, or hold other classes.
    FileNotFoundError
        And other errors of the file system.

    >>> import core, io
    >>> f = io.BytesIO()
    >>> w = core.ones(2, 2)
    >>> core.save({"w": w, "row": w[0]}, f, format="safetensors")
    >>> _ = f.seek(0)
    >>> loaded = core.load(f)
    >>> _ = loaded["row"].zero_()
    >>> loaded["w"]
    tensor([[0., 0.],
            [1., 1.]])
    """
    from .source import Source

    with Source(f) as source:
        try:
            return _loaded(source, map_location, bool(mmap), weights_only is not False)
        except LoadError as error:
            if source.own and source.name not in str(error):
                raise LoadError(f"{error}\n  file: {source.name}") from error.__cause__
            raise


def _loaded(source: Any, map_location: Any, mmap: bool, weights_only: bool) -> Any:
    from . import safetensors

    start = source.read(0, min(source.size, 16))
    if not start:
        raise LoadError(text("the file is empty (Ran out of input)", op="load", came=source.name,
                             remedy="a file object is read from where it stands: f.seek(0)"))  # fmt: skip
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        from .torch_file import read

        return read(source, map_location, mmap, weights_only)
    if safetensors.looks_like(start, source.size):
        from .restructure import Decoder

        return Decoder(source, map_location, mmap).object()
    if start[0] == 0x80:
        from .legacy import read as read_legacy

        return read_legacy(source, map_location, mmap, weights_only)
    raise LoadError(text(f"this is no file that core.load reads: it begins with {start[:8]!r}", op="load",
                         came=source.name, needed="safetensors, or what torch.save wrote",
                         remedy=_REMEDIES.get(start[:4], "look where it came from")))  # fmt: skip


_REMEDIES = {
    b"\x93NUM": "numpy.load reads .npy files",
    b"\x89HDF": "h5py reads HDF5 files",
    b"\x1f\x8b\x08\x00": "it is compressed by gzip: unpack it",
    b"GGUF": "GGUF files are for llama.cpp",
}


def __getattr__(name: str) -> Any:
    # The list of safe names brings modules along that `import core` need not wait for.
    if name in ("add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"):
        from . import allowed

        return getattr(allowed, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
