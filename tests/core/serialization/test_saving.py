"""`core.save` and `core.load`: both formats give back what they got; what they refuse, and what they say."""

from __future__ import annotations

import collections
import io
import math
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import core
from core.serialization import LoadError

FORMATS = ["pt", "safetensors"]


def there_and_back(obj, format, **kwargs):
    f = io.BytesIO()
    core.save(obj, f, format=format)
    f.seek(0)
    return core.load(f, **kwargs)


def same(a, b, path="") -> None:
    assert type(a) is type(b), f"{path}: {type(a)}, {type(b)}"
    if isinstance(a, core.Tensor):
        said = [(x.dtype, x.shape, x.stride() if x.numel() else (), x.requires_grad, x.device) for x in (a, b)]
        assert said[0] == said[1], path
        assert a.tolist() == b.tolist(), path
    elif isinstance(a, np.ndarray | np.generic):
        assert a.dtype == b.dtype, path
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            same(a[key], b[key], f"{path}[{key!r}]")
        if type(a) is collections.OrderedDict:
            same(vars(a), vars(b), path)
    elif isinstance(a, list | tuple | collections.deque):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}[{i}]")
    else:
        assert a == b or (a != a and b != b), path
        assert math.copysign(1, a) == math.copysign(1, b) if type(a) is float else True


def everything() -> dict:
    x = core.arange(24.0).reshape(2, 3, 4)
    model = core.nn.Sequential(core.nn.Linear(4, 3), core.nn.BatchNorm1d(3))
    optimizer = core.optim.Adam(model.parameters())
    scheduler = core.optim.lr_scheduler.StepLR(optimizer, 2)
    model(core.ones(5, 4)).square().sum().backward()
    optimizer.step()
    scheduler.step()
    return {
        "tensors": [x.to(d) for d in core.base.dtypes.all_dtypes],
        "strides": [x.transpose(0, 2), x.permute(1, 2, 0), core.ones(2, 3, 4, 4).to(memory_format=core.channels_last)],
        "small": [core.tensor(2.5), core.empty(0), core.empty(3, 0, 2), core.ones(1, 1)],
        "gradient": core.ones(2, requires_grad=True),
        "parameter": core.nn.Parameter(core.ones(2)),
        "frozen": core.nn.Parameter(core.arange(2), requires_grad=False),
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "random": core.get_rng_state(),
        "numbers": [0, -1, 2**31, 2**63, -(2**64), 2**5000, 0.1, -0.0, 5e-324, math.inf, -math.inf, math.nan, 1j, True],
        "texts": ["", "$", "a.b", "ü€\U0001f600", "\x00", b"", b"\x00\xff", bytearray(b"x"), None],
        "containers": [(), (1,), [[]], {}, {"$": 1}, {1: {2: 3}, None: 4, (1, "a"): 5, 2.5: 6, b"k": 8},
                       {1, 2}, frozenset("ab"), collections.OrderedDict(b=1, a=2), collections.Counter("aab"),
                       collections.defaultdict(list, a=[1]), collections.defaultdict(None), collections.deque([1], 4),
                       collections.deque([1, 2])],
        "kinds": [core.float32, core.bool, core.device("cpu"), core.Size([2, 3]), range(2, 9, 3), slice(1, None)],
        "numpy": [np.arange(6).reshape(2, 3), np.float32(1.5), np.int8(-1), np.array(2.0), np.ones(2, "u2"),
                  np.array([1 + 2j]), np.array([True, False])],
    }  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_everything_comes_back(format, tmp_path):
    obj = everything()
    same(obj, there_and_back(obj, format))
    path = tmp_path / {"pt": "a.pt", "safetensors": "a.safetensors"}[format]
    core.save(obj, path)
    same(obj, core.load(path))
    same(obj, core.load(path, mmap=True))


@pytest.mark.parametrize("format", FORMATS)
def test_memory_is_shared_again(format):
    x = core.zeros(4, 4)
    w = core.nn.Parameter(core.ones(3))
    flat = core.zeros(6)
    saved = {"x": x, "row": x[1], "t": x.t(), "w": w, "same": w, "values": w.detach(), "apart": core.zeros(4),
             "a": flat[:4], "b": flat[2:], "n": np.zeros(2)}  # fmt: skip
    got = there_and_back(saved, format)
    got["x"][1, 2] = 7.0
    assert got["row"].tolist() == [0, 0, 7, 0]
    assert got["t"][2, 1] == 7
    assert got["w"] is got["same"]
    got["values"][0] = 9
    assert got["w"].tolist() == [9, 1, 1]
    got["a"][2] = 5
    assert got["b"].tolist() == [5, 0, 0, 0]
    assert got["apart"].tolist() == [0] * 4
    # and autograd knows of it
    version = got["x"]._version
    got["row"].zero_()
    assert got["x"]._version == version + 1


@pytest.mark.parametrize("format", FORMATS)
def test_shared_memory_is_written_once(format):
    x = core.zeros(1000, 100)
    one, many = io.BytesIO(), io.BytesIO()
    core.save([x], one, format=format)
    core.save([x, x, x.detach(), x[5:], x.t()], many, format=format)
    assert many.tell() < one.tell() + 2000
    part = io.BytesIO()
    core.save(x[3], part, format=format)
    assert part.tell() < 2500, "of a small view of a large memory only the view is saved"


@pytest.mark.parametrize("format", FORMATS)
def test_tied_weights_stay_tied(format):
    class Tied(core.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = core.nn.Embedding(5, 3), core.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    model, other = Tied(), Tied()
    state = there_and_back(model.state_dict(), format)
    assert state["head.weight"].data_ptr() == state["embedding.weight"].data_ptr()
    other.load_state_dict(state)
    assert other.head.weight is other.embedding.weight
    assert (other.head.weight == model.head.weight).all()


def test_the_format_goes_by_the_name_and_is_told_by_the_bytes(tmp_path):
    zips = ["a.pt", "a.PTH", "a.bin", "a.ckpt", "a.pth.tar"]
    for name in [*zips, "a.safetensors", "a.model", "a"]:
        core.save({"x": core.ones(2)}, tmp_path / name)
        assert zipfile.is_zipfile(tmp_path / name) == (name in zips)
        os.rename(tmp_path / name, tmp_path / "other")
        assert core.load(str(tmp_path / "other"))["x"].tolist() == [1, 1]
    core.save(core.ones(1), os.fsencode(tmp_path / "b.pt"))
    with open(tmp_path / "b.pt", "rb") as f:
        assert core.load(f).item() == 1
    with open(tmp_path / "c.safetensors", "wb") as f:
        core.save(core.ones(1), f)
    assert (tmp_path / "c.safetensors").read_bytes()[8:9] == b"{"
    core.save(core.ones(1), tmp_path / "d.pt", format="safetensors")
    assert not zipfile.is_zipfile(tmp_path / "d.pt")


@pytest.mark.parametrize("format", FORMATS)
def test_several_in_one_open_file_and_a_stream_that_cannot_seek(format):
    class Stream:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)

    s = Stream()
    core.save([1, core.ones(3)], s, format=format)
    f = io.BytesIO(b"before" + s.data)
    f.seek(6)
    assert core.load(f)[1].tolist() == [1, 1, 1]
    with pytest.raises(AttributeError, match="seekable"):
        core.load(Stream())


class Note:
    pass


def local_module():
    class Local(core.nn.Module):
        pass

    return Local()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (local_module, r"Local.*state_dict\(\)"),
        (lambda: core.optim.SGD([core.ones(1)]), r"core.optim.*SGD.*state_dict\(\)"),
        (Note, "test_saving.Note"),
        (lambda: print, "builtin_function.*save its name"),
        (lambda: lambda: 0, "function"),
        (lambda: collections.namedtuple("P", "x")(1), "_asdict"),
        (lambda: np.array([None]), "array of object"),
    ],
)
def test_what_is_no_data_is_refused_with_the_remedy(make, says, format, tmp_path):
    path = tmp_path / f"a.{format}"
    core.save(1, path)
    with pytest.raises(TypeError, match=f"(?s)cannot save.*{says}") as error:
        core.save({"things": [make()]}, path)
    assert "things" in str(error.value), "where it is"
    assert core.load(path) == 1, "the old file is as it was"
    assert os.listdir(tmp_path) == [path.name]


def test_other_mistakes(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)Parent directory .*/no does not exist.*makedirs"):
        core.save(1, tmp_path / "no" / "a.pt")
    with pytest.raises(IsADirectoryError):
        core.save(1, tmp_path)
    with pytest.raises(FileNotFoundError):
        core.load(tmp_path / "none.pt")
    with pytest.raises(ValueError, match="unknown format 'zip'"):
        core.save(1, tmp_path / "a", format="zip")
    with pytest.raises(ValueError, match="no pickle module"):
        core.save(1, tmp_path / "a.pt", pickle)
    with pytest.raises(AttributeError, match="'write'"):
        core.save(1, 5)
    x = core.zeros(2, dtype=core.complex64)
    for format in FORMATS:
        with pytest.raises(RuntimeError, match=r"(?s)view the same data as different types.*clone"):
            core.save([x, core.view_as_real(x)], io.BytesIO(), format=format)
    inside = [1]
    inside.append(inside)
    with pytest.raises(ValueError, match="contains itself"):
        core.save(inside, io.BytesIO(), format="safetensors")
    assert there_and_back(inside, "pt")[1][0] == 1
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for format in FORMATS:
        with pytest.raises(ValueError, match="nested too deeply"):
            core.save(deep, io.BytesIO(), format=format)
    with pytest.raises(TypeError, match="text file"):
        core.load(io.StringIO("{}"))
    f = io.BytesIO()
    core.save(core.ones(1), f)
    f.seek(0)
    with pytest.raises(ValueError, match="must be a file path"):
        core.load(f, mmap=True)
    with pytest.raises(ValueError, match="surrogate"):
        core.save("\ud800", io.BytesIO(), format="safetensors")
    assert there_and_back("\ud800", "pt") == "\ud800"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty.*seek"),
        (b"\x93NUMPY\x01\x00", "numpy.load"),
        (b"\x89HDF\r\n\x1a\n", "h5py"),
        (b"hello, world", "begins with b'hello, w'"),
        (pickle.dumps({"a": 1}), "torch.save did not write.*pickle.load"),
        (b"PK\x03\x04", "cut off"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{]", "header cannot be read"),
    ],
)
def test_files_of_other_kinds(data, says):
    with pytest.raises(LoadError, match=f"(?s){says}"):
        core.load(io.BytesIO(data))


def test_numpys_archives_are_named():
    f = io.BytesIO()
    np.savez(f, x=np.ones(2))
    f.seek(0)
    with pytest.raises(LoadError, match=r"(?s)npz.*numpy\.load"):
        core.load(f)


@pytest.mark.parametrize("format", FORMATS)
def test_places(format):
    x = core.ones(4, device="cuda")
    saved = {
        "x": x,
        "half": x[1:3],
        "p": core.nn.Parameter(x),
        "cpu": core.zeros(2),
        "s": core.ones(2, 3, device="cuda").t(),
    }
    got = there_and_back(saved, format)
    assert got["x"].device == x.device
    assert got["cpu"].device.type == "cpu"
    assert type(got["p"]) is core.nn.Parameter
    got["x"][1] = 5
    assert got["half"].tolist() == [5, 1]
    assert got["s"].tolist() == [[1, 1]] * 3
    for where in ("cpu", core.device("cpu"), {str(x.device): "cpu"}, lambda memory, place: memory,
                  lambda memory, place: memory.cpu()):  # fmt: skip
        got = there_and_back(saved, format, map_location=where)
        assert {t.device.type for t in got.values()} == {"cpu"}
        got["x"][1] = 5
        assert got["half"].tolist() == [5, 1]
    seen = []
    there_and_back(saved, format, map_location=lambda memory, place: seen.append((place, memory.nbytes())))
    assert (str(x.device), 16) in seen
    assert there_and_back(saved, format, map_location="cuda")["cpu"].device.type == "cuda"


def test_a_device_that_is_not_there_is_named_with_the_remedy(tmp_path):
    core.save(core.ones(2, device="cuda"), tmp_path / "a.pt")
    core.save(core.ones(2, device="cuda"), tmp_path / "a.safetensors")
    script = f"""
import core
for name in {[str(tmp_path / n) for n in ("a.pt", "a.safetensors")]!r}:
    assert core.load(name, map_location="cpu").tolist() == [1, 1]
    try:
        core.load(name)
    except core.serialization.LoadError as error:
        assert "map_location" in str(error), error
    else:
        raise AssertionError
"""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=60, env=environment | {"CUDA_VISIBLE_DEVICES": ""}
    )


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_object_gives_the_same_bytes(format):
    a, b = io.BytesIO(), io.BytesIO()
    for f in (a, b):
        core.save({"x": core.ones(3), "n": [1, "a"]}, f, format=format)
    assert a.getvalue() == b.getvalue()


@pytest.mark.by_turns
def test_large_tensors_are_not_copied_to_be_saved_nor_read_before_they_are_touched(tmp_path):
    script = f"""
import core, resource
x = core.ones(64 << 20, dtype=core.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for format in ("pt", "safetensors"):
    core.save({{"x": x}}, {str(tmp_path / "a")!r}, format=format)
    core.load({str(tmp_path / "a")!r}, mmap=True)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 24 << 10, f"{{grown}} KiB"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_importing_core_loads_none_of_it():
    script = "import sys, core; print([m for m in sys.modules if m.startswith('core.serialization.')])"
    out = subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"
