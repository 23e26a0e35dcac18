"""Files that claim more than they hold: refused before any memory is asked for, whatever bytes were changed."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import core
from core.audio import wav
from core.base.errors import LoadError
from core.vision.datasets.idx import read_idx

ROOM = 8 << 20  # bytes beyond a few times the file, for Python's own


def saved(value, **options):
    file = io.BytesIO()
    core.save(value, file, **options)
    return file.getvalue()


def peak(call):
    """The most memory that was held meanwhile, and what the call gave or raised."""
    tracemalloc.start()
    try:
        found = call()
    except Exception as error:
        found = error
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most, found


def lazily(conj: bool, neg: bool, sizes: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """A .pt file with a tensor of one complex number, of these sizes, conjugated or negated lazily."""
    data = saved(core.tensor([1 + 2j]))
    source = zipfile.ZipFile(io.BytesIO(data))
    (name,) = [n for n in source.namelist() if n.endswith("data.pkl")]
    root = name.removesuffix("data.pkl")

    class Storage:
        pass

    class Pickler(pickle._Pickler):  # the one in Python lets names be written that are not there
        def persistent_id(self, value):
            return (
                ("storage", Name("torch", "ComplexFloatStorage"), "0", "cpu", 1) if isinstance(value, Storage) else None
            )

        def save_name(self, value):
            self.write(b"c" + f"{value.module}\n{value.name}\n".encode())

        dispatch = pickle._Pickler.dispatch.copy()

    class Name:
        def __init__(self, module, name):
            self.module, self.name = module, name

        def __call__(self):
            """Callable, as `__reduce__` wants it."""

    class Made:
        def __reduce__(self):
            return Name("torch._utils", "_rebuild_tensor_v2"), (
                Storage(), 0, sizes, strides, False, None, {"conj": conj, "neg": neg})  # fmt: skip

    Pickler.dispatch[Name] = Pickler.save_name
    out = io.BytesIO()
    Pickler(out, 2).dump(Made())
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as target:
        for n in source.namelist():
            target.writestr(n, out.getvalue() if n == root + "data.pkl" else source.read(n))
    return made.getvalue()


@pytest.mark.parametrize(
    ("conj", "neg", "value"), [(True, False, 1 - 2j), (False, True, -1 - 2j), (True, True, -1 + 2j)]
)
def test_lazily_conjugated_memory_is_as_large_as_the_file(conj, neg, value):
    small = core.load(io.BytesIO(lazily(conj, neg, (3,), (0,))))
    assert small.tolist() == [value] * 3
    data = lazily(conj, neg, (2**40,), (0,))
    most, found = peak(lambda: core.load(io.BytesIO(data)))
    assert most < ROOM
    assert found.shape == (2**40,)  # as it was saved: one number, a stride of 0
    assert found[-1].item() == value


def claiming(shape, size):
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


@pytest.mark.parametrize("data", [
    claiming([2**40], 2**42), claiming([2**40], 16), claiming([-4], 16), claiming([2**63, 2], 16), claiming([4], 2**63),
    struct.pack("<Q", 2**62) + b"{" + bytes(7), struct.pack("<Q", 2**40) + b"{}      ",
    b"PK\x03\x04" + bytes(12), b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", b"\0" * 16,
], ids=lambda d: d[:24].hex())  # fmt: skip
def test_what_a_file_claims_is_held_against_its_length(data):
    began = time.monotonic()
    most, found = peak(lambda: core.load(io.BytesIO(data)))
    assert isinstance(found, LoadError)
    assert most < ROOM
    assert time.monotonic() - began < 5


def idx(ndim, *sizes):
    return bytes([0, 0, 8, ndim]) + b"".join(struct.pack(">I", s) for s in sizes) + bytes(4)


@pytest.mark.parametrize(
    "data", [idx(2, 2**20, 2**20), idx(3, 2**31, 2**31, 2**31), idx(255), b"\0\0\x0d\x01" + b"\xff" * 12]
)
@pytest.mark.parametrize("packed", [False, True])
def test_an_idx_file_of_16_bytes_claims_in_vain(tmp_path, data, packed):
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(data) if packed else data)
    most, found = peak(lambda: read_idx(path))
    assert isinstance(found, RuntimeError)
    assert "broken at byte" in str(found)
    assert most < ROOM


def wave():
    return b"RIFF\x44\0\0\0WAVEfmt \x10\0\0\0\1\0\2\0\x40\x1f\0\0\0\x7d\0\0\4\0\x10\0data\x20\0\0\0" + bytes(range(32))


def files():
    rng = np.random.default_rng(0)
    a = core.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
    value = {"a": a, "view": a[1:], "t": a.t(), "n": [1, 2.5, "x", None], "w": core.nn.Parameter(a[0].clone())}
    pt = saved(value)
    return {"pt": pt, "safetensors": written(value)}


def written(value):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.safetensors")
        core.save(value, path)
        return path.read_bytes()


def mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 8])):
        at, how = chance.randrange(len(out)), chance.randrange(6)
        if how == 0:
            out[at] = chance.randrange(256)
        elif how == 1:
            out[at] ^= 1 << chance.randrange(8)
        elif how == 2:
            out[at : at + 8] = struct.pack("<q", chance.choice([-1, 2**31, 2**40, 2**62, -(2**63), 0]))
        elif how == 3:
            del out[at:]
            out = out or bytearray(1)
        elif how == 4:
            out[at:at] = out[max(0, at - 16) : at]
        else:  # a digit of a text becomes nine of them
            digits = [k for k, b in enumerate(out) if 48 <= b < 58]
            if digits:
                k = chance.choice(digits)
                out[k : k + 1] = b"999999999"
    return bytes(out)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_changed_files_are_refused_or_read_in_the_memory_they_have(kind):
    data, chance = files()[kind], random.Random(kind)
    refused = 0
    for _ in range(400):
        changed = mutated(data, chance)
        began = time.monotonic()
        most, found = peak(lambda changed=changed: core.load(io.BytesIO(changed)))
        assert most < ROOM + 20 * len(changed)
        assert not isinstance(found, Exception) or isinstance(found, LoadError), repr(found)
        assert time.monotonic() - began < 10
        refused += isinstance(found, Exception)
    assert refused > 40


def test_changed_wav_files_are_refused_or_read(tmp_path):
    chance, path = random.Random(1), tmp_path / "a.wav"
    path.write_bytes(wave())
    assert wav.load(path)[0].shape == (2, 8)
    for _ in range(400):
        path.write_bytes(mutated(wave(), chance))
        most, found = peak(lambda: wav.load(path))
        assert most < ROOM
        assert not isinstance(found, Exception) or (isinstance(found, RuntimeError) and "broken at" in str(found)), (
            found
        )
