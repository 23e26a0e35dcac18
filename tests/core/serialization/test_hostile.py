"""Files that want harm: nothing but LoadError comes of them, nothing runs, and time and memory stay bounded."""

from __future__ import annotations

import collections
import io
import json
import pickle
import random
import resource
import struct
import time
import zipfile
from pathlib import Path

import pytest

import core
from core.serialization import LoadError

REDUCE_TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def archive(program: bytes, memory: bytes = b"\0" * 16, **more: bytes) -> io.BytesIO:
    """A file as PyTorch's with this pickle."""
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("a/data.pkl", program)
        z.writestr("a/data/0", memory)
        z.writestr("a/version", "3\n")
        for name, data in more.items():
            z.writestr(f"a/{name}", data)
    f.seek(0)
    return f


def refuse(program: bytes, says: str = ".", **more) -> str:
    for weights_only in (False, True):
        with pytest.raises(LoadError, match=says) as error:
            core.load(archive(program, **more), weights_only=weights_only)
    return str(error.value)


@pytest.fixture(autouse=True)
def bounded():
    """Every test here within 2 GB more than there was, and 20 seconds of work."""
    lines = Path("/proc/self/status").read_text().splitlines()
    size = int(next(line for line in lines if line.startswith("VmSize")).split()[1]) << 10
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (2 << 30), before[1]))
    begun = time.process_time()
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.process_time() - begun < 20


class Evil:
    def __reduce__(self):
        return run_me, ()


class Ran(Exception):
    pass


def run_me(*args):
    raise Ran


NAMES = """os.system posix.system subprocess.Popen builtins.eval builtins.exec builtins.getattr builtins.__import__
numpy.load torch.load torch.storage._load_from_bytes torch.jit._pickle.build_intlist torch._utils.os core.load
operator.attrgetter functools.partial collections.namedtuple collections.OrderedDict.update
tests.core.serialization.test_hostile.run_me"""


@pytest.mark.parametrize("name", NAMES.split())
def test_no_name_but_those_in_the_list_is_called(name):
    module, _, last = name.rpartition(".")
    for named in (f"c{module}\n{last}\n".encode(), b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c"
                  + bytes([len(last)]) + last.encode() + b"\x93"):  # fmt: skip
        for call in (b"(X\x01\x00\x00\x001tR.", b")\x81.", b"."):
            said = refuse(b"\x80\x04" + named + call, "not an allowed global")
            assert name in said
            assert "weights_only=False neither" in said
            assert "state_dict" in said
    refuse(b"\x80\x02(cos\nsystem\nX\x01\x00\x00\x001o.", "not an allowed global")
    refuse(b"(S'1'\nios\nsystem\n.", "instruction")


def test_pythons_own_pickles_of_such_things():
    for protocol in range(6):
        refuse(pickle.dumps(Evil(), protocol), "run_me")
        refuse(pickle.dumps(run_me, protocol), "run_me")
    with pytest.raises(LoadError, match=r"torch\.save did not write"):
        core.load(io.BytesIO(pickle.dumps(run_me)))


SPIN = b"\x80\x02" + b")" + b"2\x86" * 60  # a tuple of two of itself, sixty times: 2**60 parts to hash


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (b"", "more than it has"),
        (b"\x80\x02", "more than it has"),
        (b".", "IndexError"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x02h\x05.", "KeyError"),
        (b"\x80\x02\x8d" + struct.pack("<Q", 2**62) + b"x.", "more than it has"),
        (b"\x80\x02\x96" + struct.pack("<Q", 2**40) + b"x.", "more than it has"),
        (b"\x80\x02\x8b" + struct.pack("<i", -5) + b".", "negative"),
        (b"\x80\x02X" + struct.pack("<I", 2**31) + b".", "more than it has"),
        (b"\x80\x02I" + b"9" * 50000 + b"\n.", "ValueError"),
        (SPIN + b"N\x93.", "no text"),
        (b"\x80\x02}" + SPIN[2:] + b"Ns.", "more than 100 parts"),
        (b"\x80\x04\x8f(" + SPIN[2:] + b"\x90.", "more than 100 parts"),
        (b"\x80\x04(" + SPIN[2:] + b"\x91.", "more than 100 parts"),
        (b"\x80\x02c__builtin__\nset\n]" + SPIN[2:] + b"a\x85R.", "more than 100 parts"),
        (b"\x80\x02}]Ns.", "list is a key"),
        (b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "bytes"),
        (b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.", "bytes"),
        (b"\x80\x02c__builtin__\nlist\nc__builtin__\nrange\nJ\xff\xff\xff\x7f\x85R\x85R.", "list of"),
        (b"\x80\x02c__builtin__\nset\nc__builtin__\nrange\nJ\xff\xff\xff\x7f\x85R\x85R.", "members"),
        (b"\x80\x02ccollections\nCounter\nc__builtin__\nrange\nJ\xff\xff\xff\x7f\x85R\x85R.", "cannot be read"),
        (b"\x80\x02ccollections\ndefaultdict\nctorch\nSize\n\x85R.", "not an allowed"),
        (b"\x80\x02cnumpy\ndtype\nX\x0b\x00\x00\x00V2000000000\x88\x88\x87R.", "not an allowed"),
        (b"\x80\x02cnumpy\ndtype\nX\x01\x00\x00\x00O\x88\x88\x87R.", "not an allowed"),
        (b"\x80\x02cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\nX\x02\x00\x00\x00f8\x88\x88\x87RX\x01\x00\x00\x00a\x86R.",
         "NumPy number"),
        (b"\x80\x02X\x01\x00\x00\x00aNb.", "completed by a state"),
        (b"\x80\x02Q.", "IndexError"),
        (b"\x80\x02NQ.", "where memory should be"),
        (b"\x80\x02ctorch\ndevice\nX\x05\x00\x00\x00nopeX\x85R.", "cannot be read"),
    ],
)  # fmt: skip
def test_pickles_that_are_bombs_or_broken(program, says):
    refuse(program, says)


BOMB = b")" + b"2\x86" * 60


@pytest.mark.parametrize("program", [
    BOMB + b"Q", BOMB + b")R", BOMB + b")\x81", BOMB + BOMB + b"b", BOMB + BOMB + b"\x93",
    b"ctorch\ndevice\n" + BOMB + b"\x85R", b"ctorch\nSize\n" + BOMB + b"\x85R", b"ctorch\nSize\n" + BOMB + b"R",
    b"ccollections\ndefaultdict\n" + BOMB + b"\x85R", b"ccollections\nOrderedDict\n" + BOMB + b"\x85R",
    b"ccollections\nCounter\n" + BOMB + b"\x85R", b"ccollections\ndeque\n" + BOMB + BOMB + b"\x86R",
    b"c__builtin__\nint\n" + BOMB + b"\x85R", b"c__builtin__\nbytes\n" + BOMB + b"\x85R",
    b"c__builtin__\nset\n" + BOMB + b"R", b"c_codecs\nencode\n" + BOMB + b"\x85R",
    b"cnumpy\ndtype\n" + BOMB + b"NN\x87R", b"cnumpy._core.multiarray\n_reconstruct\n" + BOMB + BOMB + BOMB + b"\x87R",
    b"cnumpy._core.multiarray\nscalar\n" + BOMB + BOMB + b"\x86R",
    b"ctorch._utils\n_rebuild_parameter\n" + BOMB + BOMB + BOMB + b"\x87R",
    b"ctorch._tensor\n_rebuild_from_type_v2\n(" + BOMB + BOMB + BOMB + BOMB + b"tR",
    b"ctorch._utils\n_rebuild_tensor_v2\n(" + BOMB + b"K\x00" + BOMB + BOMB + b"NNtR",
    b"cargparse\nNamespace\n" + BOMB + b"R", b"ctypes\nSimpleNamespace\n" + BOMB + b"R",
    b"(X\x07\x00\x00\x00storage" + BOMB + BOMB + BOMB + BOMB + b"tQ", b"X\x01\x00\x00\x00a" + BOMB + b"b",
])  # fmt: skip
def test_nothing_goes_through_the_parts_of_a_bomb(program):
    """Neither compares, nor hashes, nor shows in a message what would have 2**60 parts."""
    refuse(b"\x80\x02" + program + b".")


def test_a_tensor_whose_shape_is_a_bomb():
    for k in range(3):
        parts = [b"(K\x01t", b"(K\x01t", b"K\x00"]
        parts[k] = BOMB if k == 2 else b"(" + BOMB + b"t"
        shape, stride, offset = parts
        refuse(
            b"\x80\x02" + REDUCE_TENSOR + b"(" + storage(4) + offset + shape + stride + b"\x89NtR.", "tensor of shape"
        )


def test_a_classs_own_names_are_not_taken_over():
    made = core.load(archive(b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsNsb."))
    assert list(made.items()) == []


@pytest.mark.by_turns
def test_deep_nesting_and_many_objects():
    made = core.load(archive(b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b"."))
    assert type(made) is list
    del made
    refuse(b"\x80\x02" + b"}" * 5_000_001 + b".", "more than 5,000,000 objects")
    shared = core.load(archive(b"\x80\x02]q\x00" + b"(h\x00h\x00e" * 1000 + b"."))
    assert len(shared) == 2000


def storage(count: int, kind: bytes = b"FloatStorage", key: bytes = b"0", place: bytes = b"cpu") -> bytes:
    text = lambda x: b"X" + struct.pack("<I", len(x)) + x
    return (b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(key) + text(place)
            + b"\x8a\x08" + struct.pack("<q", count) + b"tQ")  # fmt: skip


def tensor(memory: bytes, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    number = lambda n: b"\x8a\x09" + n.to_bytes(9, "little", signed=True)
    shape = lambda ns: b"(" + b"".join(map(number, ns)) + b"t"
    return (b"\x80\x02" + REDUCE_TENSOR + b"(" + memory + number(offset) + shape(size) + shape(stride)
            + b"\x89ccollections\nOrderedDict\n)RtR.")  # fmt: skip


def test_tensors_that_reach_out_of_their_memory():
    assert core.load(archive(tensor(storage(4), 0, (2, 2), (2, 1)))).tolist() == [[0, 0], [0, 0]]
    for offset, size, stride in [
        (1, (4,), (1,)), (0, (5,), (1,)), (0, (2, 2), (3, 1)), (-1, (2,), (1,)), (0, (2,), (-1,)), (0, (-2,), (1,)),
        (0, (2**62,), (0,)), (0, (2**61, 2**61), (0, 0)), (0, (2,), (2**61,)), (2**63, (1,), (1,)),
        (0, (1,) * 65, (1,) * 65), (0, (2,), (1, 1)), (0, (2**33, 2**33), (0, 0)),
    ]:  # fmt: skip
        refuse(tensor(storage(4), offset, size, stride), "a tensor of shape")
    refuse(tensor(storage(2**60), 0, (1,), (1,)), "is said to have")
    refuse(tensor(storage(-1), 0, (1,), (1,)), "where memory should be")
    refuse(tensor(storage(5), 0, (1,), (1,)), "is said to have")
    refuse(tensor(storage(4, key=b"../../../etc/passwd"), 0, (1,), (1,)), "lacks the record")
    refuse(tensor(storage(4, place=b"nowhere:7"), 0, (1,), (1,)), "map_location")
    refuse(tensor(storage(4, place="cuda:²".encode()), 0, (1,), (1,)), "map_location")
    refuse(tensor(storage(4, kind=b"QInt8Storage"), 0, (1,), (1,)), "quantised")
    refuse(b"\x80\x02ctorch._utils\n_rebuild_parameter\nNNN\x87R.", "parameter without a tensor")


def changed(f: io.BytesIO, at: bytes, skip: int, data: bytes) -> io.BytesIO:
    whole = bytearray(f.getvalue())
    k = whole.rindex(at) + skip
    whole[k : k + len(data)] = data
    return io.BytesIO(bytes(whole))


@pytest.mark.parametrize(
    ("at", "skip", "data", "says"),
    [
        (b"PK\x01\x02", 20, struct.pack("<II", 2**31, 2**31), "lies over another"),
        (b"PK\x01\x02", 42, struct.pack("<I", 0), "not where it is said to be"),
        (b"PK\x01\x02", 42, struct.pack("<I", 2**31), "the file has"),
        (b"PK\x05\x06", 10, struct.pack("<H", 60000), "not where it is said to be"),
        (b"PK\x05\x06", 16, struct.pack("<I", 2**31), "not where it is said to be"),
        (b"PK\x05\x06", 0, b"xx", "cut off"),
    ],
)
def test_archives_with_false_places(at, skip, data, says):
    f = changed(archive(b"\x80\x02N."), at, skip, data)
    with pytest.raises(LoadError, match=says):
        core.load(f)


def test_records_that_lie_over_one_another_or_are_packed():
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("a/data.pkl", b"\x80\x02N.")
        z.writestr("a/data/0", b"x" * 1000)
        first = z.getinfo("a/data/0")
        for k in range(1, 100):  # one memory under a hundred names would be read a hundred times
            again = zipfile.ZipInfo(f"a/data/{k}")
            again.header_offset, again.file_size, again.compress_size, again.CRC = first.header_offset, 1000, 1000, 0
            z.filelist.append(again)
    f.seek(0)
    with pytest.raises(LoadError, match=r"not where|lies over"):
        core.load(f)
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a/data.pkl", b"N" * 10**8)  # 100 MB in 100 KB
    f.seek(0)
    with pytest.raises(LoadError, match="compressed"):
        core.load(f)
    f = archive(b"\x80\x02X\x04\x00\x00\x00true.")
    with pytest.raises(LoadError, match="not those that were written"):
        core.load(io.BytesIO(f.getvalue().replace(b"true", b"fals")))


def safetensors(header: object, data: bytes = b"\0" * 8) -> io.BytesIO:
    said = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(len(said).to_bytes(8, "little") + said + data)


def entry(dtype="F32", shape=(2,), at=(0, 8)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(at)}


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"x": entry(at=(0, 4))}, "needs 8 bytes and has 4"),
        ({"x": entry(at=(8, 0))}, "said to be at"),
        ({"x": entry(shape=(-2,))}, "has the shape"),
        ({"x": entry(shape=(True, 2))}, "has the shape"),
        ({"x": entry(shape=(2**62, 2**62))}, "needs"),
        ({"x": entry(at=(0, 8)), "y": entry(at=(0, 8))}, "begin at"),
        ({"x": entry(at=(4, 12))}, "begin at"),
        ({"x": entry(shape=(1,), at=(0, 4))}, "tensors end at"),
        ({"x": entry(dtype="F4", shape=(16,))}, "NumPy and ml_dtypes lack"),
        ({"x": {"dtype": "F32"}}, "lacks its dtype"),
        ({"__metadata__": {"a": 1}}, "not texts"),
        (b'{"x": 1, "x": 2}', "stands twice"),
        (b'{"x": NaN}', "no JSON"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "RecursionError"),
        (b'{"x": ' + b"9" * 10_000 + b"}", "ValueError"),
        (b'{"\xff": 1}', "UnicodeDecodeError"),
    ],
)
def test_false_headers(header, says):
    with pytest.raises(LoadError, match=says):
        core.load(safetensors(header))


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"$": "tensor", "key": "y"}, "names the tensor 'y', which it lacks"),
        ({"$": "tensor", "key": "x", "view": [[3], [1], 0]}, "has 2"),
        ({"$": "tensor", "key": "x", "view": [[2], [1], -1]}, "a tensor of shape"),
        ({"$": "tensor", "key": "x", "view": [[2**62], [0], 0]}, "a tensor of shape"),
        ({"$": "tensor", "key": "x", "stride": [5]}, "has 2"),
        ({"$": "tensor", "key": "x", "dtype": "O"}, "ValueError|TypeError"),
        ({"$": "tensor", "key": "x", "dtype": "complex128"}, "ValueError"),
        ({"$": "tensor", "key": "x", "device": "cuda:²"}, "map_location"),
        ({"$": "again", "number": 7}, "IndexError"),
        ({"$": "nothing"}, "KeyError"),
        ({"$": "int", "hex": "0x"}, "ValueError"),
        ({"$": "scalar", "dtype": "O", "bytes": "AAAAAAAAAAA="}, "ValueError|TypeError"),
        ({"$": "dict", "items": [[[], 1]]}, "list is a key"),
        ({"$": "defaultdict", "factory": "eval", "items": []}, "KeyError"),
        ({"$": "Generator", "device": "cpu", "state": 5}, "AttributeError"),
        ({"$": "range", "parts": [1, 2, 0]}, "ValueError"),
        ({"$": "OrderedDict", "items": [], "attributes": []}, "AttributeError"),
    ],
)
def test_false_structures(node, says):
    said = json.dumps({"version": 1, "object": node})
    with pytest.raises(LoadError, match=says):
        core.load(safetensors({"__metadata__": {"gradlab": said}, "x": entry()}))


def test_a_structure_of_a_later_version_is_named():
    with pytest.raises(LoadError, match="newer version"):
        core.load(safetensors({"__metadata__": {"gradlab": '{"version": 2, "object": 0}'}, "x": entry()}))


def legacy() -> bytes:
    """A file of the kind before 1.6, made by hand."""
    texts = [pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2),
             pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}, 2),
             tensor(storage(4), 0, (2, 2), (2, 1)), pickle.dumps(["0"], 2)]  # fmt: skip
    return b"".join(texts) + struct.pack("<q4f", 4, 1, 2, 3, 4)


def test_the_format_before_1_6(tmp_path):
    assert core.load(io.BytesIO(legacy())).tolist() == [[1, 2], [3, 4]]
    (tmp_path / "a.pt").write_bytes(legacy())
    with pytest.raises(LoadError, match="mmap can only be used with"):
        core.load(tmp_path / "a.pt", mmap=True)
    for wrong in (legacy()[:-1], legacy().replace(b"\x8a\x08\x04", b"\x8a\x08\x05"),
                  legacy().replace(struct.pack("<q", 4), struct.pack("<q", 2**50))):  # fmt: skip
        with pytest.raises(LoadError):
            core.load(io.BytesIO(wrong))


def files() -> dict[str, bytes]:
    model = core.nn.Sequential(core.nn.Linear(3, 2), core.nn.BatchNorm1d(2))
    optimizer = core.optim.Adam(model.parameters())
    model(core.ones(4, 3)).sum().backward()
    optimizer.step()
    x = core.arange(6.0).reshape(2, 3)
    obj = {"m": model.state_dict(), "o": optimizer.state_dict(), "x": x, "t": x.t(), "row": x[1], "big": 2**99,
           "c": collections.Counter("ab"), "s": {1, 2}, "f": (1.5, None, b"x"), "p": core.nn.Parameter(x),
           "n": x.numpy().astype("f8")}  # fmt: skip
    made = {}
    for format in ("pt", "safetensors"):
        f = io.BytesIO()
        core.save(obj, f, format=format)
        made[format] = f.getvalue()
    return made | {"legacy": legacy()}


@pytest.mark.parametrize("format", ["pt", "safetensors", "legacy"])
def test_whatever_chance_changes_there_is_an_answer_or_our_error(format, tmp_path):
    whole, dice = files()[format], random.Random(1)
    program = whole.find(b"\x80\x02") if format == "pt" else 0
    path = tmp_path / "a"
    refused = 0
    for k in range(700):
        data = bytearray(whole)
        for _ in range(dice.choice((1, 1, 1, 3, 20))):
            # three of four within the pickle or the header, where the meaning is
            at = program + dice.randrange(min(2500, len(data))) if dice.random() < 0.75 else dice.randrange(len(data))
            at = min(at, len(data) - 1)
            what = dice.random()
            if what < 0.6:
                data[at] = dice.randrange(256)
            elif what < 0.8:
                del data[at : at + dice.choice((1, 2, 8))]
            else:
                data[at:at] = data[max(0, at - 9) : at]
        if dice.random() < 0.1:
            del data[dice.randrange(len(data)) :]
        if format == "pt" and k % 2:  # past the checksum, which else finds nearly all of them
            data = bytearray(_rewrapped(bytes(data), program))
        try:
            if k % 5:
                core.load(io.BytesIO(bytes(data)))
            else:
                path.write_bytes(data)
                core.load(path, mmap=format != "legacy")
        except LoadError:
            refused += 1
    assert refused > 200


def _rewrapped(data: bytes, program: int) -> bytes:
    """The changed pickle in an archive that is whole."""
    f = io.BytesIO()
    original = zipfile.ZipFile(io.BytesIO(files_pt()))
    size = original.getinfo("archive/data.pkl").file_size
    with zipfile.ZipFile(f, "w") as z:
        for name in original.namelist():
            z.writestr(name, data[program : program + size] if name.endswith(".pkl") else original.read(name))
    return f.getvalue()


_made: dict[str, bytes] = {}


def files_pt() -> bytes:
    if not _made:
        _made.update(files())
    return _made["pt"]


def test_classes_that_a_person_trusts():
    import datetime

    day = datetime.date(2024, 5, 6)
    for protocol in (2, 4):
        program = pickle.dumps(day, protocol)
        refuse(program, "datetime.date")
        with core.serialization.safe_globals([datetime.date]):
            assert core.load(archive(program)) == day
        with core.serialization.safe_globals([(datetime.date, "other.Day")]):
            assert core.load(archive(program.replace(b"datetime", b"other").replace(b"date", b"Day"))
                             if protocol == 2 else _stacked(day)) == day  # fmt: skip
        refuse(program, "datetime.date")
    core.serialization.add_safe_globals([datetime.date])
    assert core.serialization.get_safe_globals() == [datetime.date]
    core.serialization.clear_safe_globals()
    assert core.serialization.get_safe_globals() == []


def _stacked(day) -> io.BytesIO:
    return archive(b"\x80\x02cother\nDay\n" + pickle.dumps(day.__reduce__()[1], 2)[2:-1] + b"R.")


class Settings:
    def __init__(self):
        raise AssertionError("not called")


def test_a_trusted_class_of_ones_own():
    made = Settings.__new__(Settings)
    made.lr = 0.1
    program = pickle.dumps(made, 2)
    refuse(program, "Settings")
    with core.serialization.safe_globals([Settings]):
        assert core.load(archive(program)).lr == 0.1
