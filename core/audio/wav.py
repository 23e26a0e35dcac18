"""Wav files: 8, 16, 24 and 32 bits of PCM, 32 and 64 bits of floating point, any number of channels.

*Source*: IBM and Microsoft, "Multimedia programming interface and data specifications 1.0" (1991), and the extensible
format that followed. The standard library's `wave` reads no floats, so the few header fields are read here.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import text
from ..tensors.tensor import Tensor, from_array

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_NAMES = {(_PCM, 8): "PCM_U", (_PCM, 16): "PCM_S", (_PCM, 24): "PCM_S", (_PCM, 32): "PCM_S", (_FLOAT, 32): "PCM_F",
          (_FLOAT, 64): "PCM_F"}  # fmt: skip
_KNOWN = {2: "ADPCM", 6: "A-law", 7: "mu-law", 0x55: "MP3"}


class AudioMetaData(NamedTuple):
    """What a file holds; `num_frames` are the samples of one channel."""

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int
    encoding: str


class _Header(NamedTuple):
    meta: AudioMetaData
    begin: int  # byte of the first sample
    size_bytes: int


def _broken(path: Any, at: int, came: str, needed: str, remedy: str = "") -> RuntimeError:
    return RuntimeError(text(f"{path} cannot be read as a wav file: broken at byte {at}", op="core.audio.load",
                             came=came, needed=needed, remedy=remedy))  # fmt: skip


def _header(path: Path, file: Any) -> _Header:
    size = os.fstat(file.fileno()).st_size
    head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise _broken(path, 0, repr(head) if head else "an empty file", "b'RIFF....WAVE'", "is it a wav file?")
    kind = None
    at = 12
    while True:
        chunk = file.read(8)
        if len(chunk) < 8:
            what = "'data'" if kind else "'fmt '"
            raise _broken(path, at, "the end of the file", f"a chunk {what}", "the file was cut off")
        name, length = chunk[:4], struct.unpack("<I", chunk[4:])[0]
        begin = at + 8
        if name == b"fmt ":
            body = file.read(length) if length < 4096 else b""
            if len(body) < 16:
                raise _broken(path, at, f"a chunk 'fmt ' of {length} bytes", "16 bytes or more")
            kind = _format(path, at, body)
        elif name == b"data":
            if kind is None:
                raise _broken(path, at, "samples", "a chunk 'fmt ' before them")
            rate, channels, bits, encoding = kind
            frame = channels * bits // 8
            if length == 0xFFFFFFFF:  # written to a pipe: the length was not known
                length = (size - begin) // frame * frame
            if begin + length > size or length % frame:
                raise _broken(path, size, f"{size - begin} bytes of samples", f"{length}, in whole frames of {frame}",
                              "the file was cut off")  # fmt: skip
            return _Header(AudioMetaData(rate, length // frame, channels, bits, encoding), begin, length)
        at = begin + length + length % 2
        file.seek(at)


def _format(path: Path, at: int, body: bytes) -> tuple[int, int, int, str]:
    tag, channels, rate, _, align, bits = struct.unpack("<HHIIHH", body[:16])
    if tag == _EXTENSIBLE and len(body) >= 26:
        tag = struct.unpack("<H", body[24:26])[0]
    encoding = _NAMES.get((tag, bits))
    if encoding is None:
        came = f"{_KNOWN.get(tag, f'format {tag}') if tag not in (_PCM, _FLOAT) else 'PCM'} of {bits} bits"
        raise _broken(path, at, came, "PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64",
                      "convert it by another program")  # fmt: skip
    if not channels or not rate or align != channels * bits // 8:
        raise _broken(path, at, f"{channels} channels, {rate} Hz, frames of {align} bytes", "what belongs together")
    return rate, channels, bits, encoding


def info(path: str | os.PathLike[str]) -> AudioMetaData:
    """Return what a wav file holds, from its header alone.

    *Raises*: RuntimeError that names the file and the byte, for what is no wav file or one cut off.
    """
    path = Path(path)
    with path.open("rb") as file:
        return _header(path, file).meta


def load(path: str | os.PathLike[str], frame_offset: int = 0, num_frames: int = -1, normalize: bool = True,
         channels_first: bool = True) -> tuple[Tensor, int]:  # fmt: skip
    """Return (the samples, the sample rate) of a wav file.

    *Shapes*: (channels, frames), or (frames, channels). Values are float32 of [-1, 1); without `normalize` they stay
    the file's: uint8, int16, int32 (24 bits moved up by 8) or floats. frame_offset, num_frames : the part to read.

    *Raises*: RuntimeError that names the file and the byte, for what is no wav file or one cut off.

    >>> import core, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tone.wav")
    >>> save(path, core.tensor([[0.0, 0.5, -0.5]]), 8000, bits_per_sample=16, encoding="PCM_S")
    >>> load(path)
    (tensor([[ 0.0000,  0.5000, -0.5000]]), 8000)
    """
    path = Path(path)
    if frame_offset < 0 or num_frames < -1:
        raise ValueError(text("frame_offset is at least 0, and num_frames too, or -1 for all", op="core.audio.load",
                              came=f"{frame_offset}, {num_frames}"))  # fmt: skip
    with path.open("rb") as file:
        head = _header(path, file)
        meta = head.meta
        frame = meta.num_channels * meta.bits_per_sample // 8
        count = max(meta.num_frames - frame_offset, 0)
        count = count if num_frames == -1 else min(count, num_frames)
        file.seek(head.begin + frame_offset * frame)
        raw = file.read(count * frame)
    samples = _decoded(raw, meta).reshape(-1, meta.num_channels)
    if normalize:
        samples = _unit(samples)
    samples = np.array(samples.T if channels_first else samples, order="C")
    return from_array(samples), meta.sample_rate


def _decoded(raw: bytes, meta: AudioMetaData) -> Any:
    bits = meta.bits_per_sample
    if meta.encoding == "PCM_F":
        return np.frombuffer(raw, f"<f{bits // 8}").astype(f"f{bits // 8}", copy=False)
    if bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0].astype(np.int32, copy=False)
    return np.frombuffer(raw, "u1" if bits == 8 else f"<i{bits // 8}").astype(f"{'u' if bits == 8 else 'i'}{bits // 8}")


def _unit(samples: Any) -> Any:
    if samples.dtype == np.uint8:
        return (samples.astype(np.float32) - 128) / 128
    if samples.dtype.kind == "i":
        return samples.astype(np.float32) / np.float32(2 ** (8 * samples.itemsize - 1))
    return samples.astype(np.float32, copy=False)


def save(path: str | os.PathLike[str], src: Tensor, sample_rate: int, channels_first: bool = True,
         encoding: str | None = None, bits_per_sample: int | None = None) -> None:  # fmt: skip
    """Write samples as a wav file.

    src : (channels, frames), or (frames, channels), or one row; floats of [-1, 1], which are cut off outside, or
    integers as `load` gives them without `normalize`. encoding : "PCM_S", "PCM_U" or "PCM_F", and bits_per_sample : 8,
    16, 24, 32 or 64; by default what the dtype has, floats as floats.

    *Raises*: ValueError for what a wav file cannot hold.
    """
    array = src.detach().cpu().numpy() if isinstance(src, Tensor) else np.asarray(src)
    if array.ndim == 1:
        array = array[None] if channels_first else array[:, None]
    if array.ndim != 2:
        raise ValueError(text("Input tensor has to be 2D.", op="core.audio.save", came=f"shape {array.shape}",
                              needed="(channels, frames)"))  # fmt: skip
    frames = array.T if channels_first else array
    if not 0 < frames.shape[1] < 65536 or not 0 < int(sample_rate) < 2**32:
        raise ValueError(text("a wav file has 1 to 65,535 channels and a positive rate", op="core.audio.save",
                              came=f"{frames.shape[1]} channels, {sample_rate} Hz",
                              remedy="channels_first=False?"))  # fmt: skip
    floats = array.dtype.kind == "f"
    if array.dtype.name not in ("uint8", "int16", "int32") and not floats:
        raise ValueError(text(f"samples of {array.dtype} are not known", op="core.audio.save",
                              needed="floats, uint8, int16 or int32"))  # fmt: skip
    own = 64 if array.dtype == np.float64 else 32 if floats else 8 * array.itemsize
    bits = bits_per_sample or (8 if encoding == "PCM_U" else 16 if encoding == "PCM_S" and floats else own)
    encoding = encoding or ("PCM_F" if floats and bits >= 32 else "PCM_U" if bits == 8 else "PCM_S")
    tag = _FLOAT if encoding == "PCM_F" else _PCM
    if _NAMES.get((tag, bits)) != encoding:
        raise ValueError(text(f"a wav file holds no {encoding} of {bits} bits", op="core.audio.save", needed=", ".join(
            f"{name} of {n}" for (_, n), name in _NAMES.items())))  # fmt: skip
    body = _encoded(frames, tag, bits)
    if len(body) > 2**32 - 64:
        raise ValueError(text("a wav file holds at most 4 GB", op="core.audio.save", came=f"{len(body)} bytes"))
    align = frames.shape[1] * bits // 8
    head = struct.pack("<HHIIHH", tag, frames.shape[1], int(sample_rate), int(sample_rate) * align, align, bits)
    chunks = _chunk(b"fmt ", head) + (_chunk(b"fact", struct.pack("<I", len(frames))) if tag == _FLOAT else b"")
    chunks += _chunk(b"data", body)
    Path(path).write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _encoded(frames: Any, tag: int, bits: int) -> bytes:
    frames = np.ascontiguousarray(frames)
    if tag == _FLOAT:
        values = frames if frames.dtype.kind == "f" else _unit(frames)
        return values.astype(f"<f{bits // 8}").tobytes()
    if frames.dtype.kind == "f" or 8 * frames.itemsize != (32 if bits == 24 else bits):
        unit = frames.astype(np.float64) if frames.dtype.kind == "f" else _unit(frames).astype(np.float64)
        top = 2.0 ** (bits - 1)
        values = np.nan_to_num(np.rint(unit * top)).clip(-top, top - 1).astype(np.int64)
        if bits == 8:
            return (values + 128).astype(np.uint8).tobytes()
        if bits == 24:
            return np.ascontiguousarray(values.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3]).tobytes()
        return values.astype(f"<i{bits // 8}").tobytes()
    if bits == 24:
        return np.ascontiguousarray(frames.astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:]).tobytes()
    return frames.astype(frames.dtype.newbyteorder("<")).tobytes()
