"""The data sets from local files: their layouts, and what broken files say. Every file is made here."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import sys
from contextlib import suppress

import numpy as np
import pytest

import core
from core.utils.data import DataLoader
from core.vision import datasets, transforms


def idx(array, code=8):
    array = np.asarray(array)
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def pictures(rng):
    return rng.integers(0, 256, (6, 28, 28)).astype(np.uint8), np.array([3, 1, 4, 1, 5, 9], np.uint8)


def put(folder, pictures, prefix="train", packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, data in zip(("images-idx3", "labels-idx1"), map(idx, pictures), strict=True):
        path = folder / f"{prefix}-{kind}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("folder", ["MNIST/raw", "raw", "."])
def test_mnist_layouts(tmp_path, pictures, folder, packed):
    put(tmp_path / folder, pictures, packed=packed)
    data = datasets.MNIST(tmp_path, download=True)  # the files are there: nothing to download
    assert (data.data.numpy() == pictures[0]).all()
    assert data.targets.tolist() == [3, 1, 4, 1, 5, 9]
    assert data.targets.dtype is core.int64
    image, label = data[2]
    assert (image.mode, image.size, label) == ("L", (28, 28), 4)
    assert (np.asarray(image) == pictures[0][2]).all()
    assert data.class_to_idx["9 - nine"] == 9
    assert "Split: Train" in repr(data)
    assert "Number of datapoints: 6" in repr(data)


def test_mnist_in_a_loader_with_transforms(tmp_path, pictures):
    put(tmp_path, pictures, "t10k")
    both = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    data = datasets.MNIST(str(tmp_path), train=False, transform=both, target_transform=lambda k: -k)
    x, y = next(iter(DataLoader(data, batch_size=4)))
    want = (pictures[0][:4].astype(np.float32) / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(x.numpy()[:, 0], want, rtol=1e-5, atol=1e-6)
    assert y.tolist() == [-3, -1, -4, -1]


def test_kin_and_emnist(tmp_path, pictures):
    put(tmp_path / "FashionMNIST" / "raw", pictures)
    put(tmp_path / "KMNIST" / "raw", pictures)
    put(tmp_path / "EMNIST" / "raw", pictures, "emnist-letters-test")
    assert datasets.FashionMNIST(tmp_path).classes[int(datasets.FashionMNIST(tmp_path).targets[5])] == "Ankle boot"
    assert len(datasets.KMNIST(tmp_path)) == 6
    letters = datasets.EMNIST(tmp_path, "letters", train=False, as_tensor=True)
    assert letters.classes[letters[0][1]] == "c"
    assert letters[0][0].shape == (1, 28, 28)
    assert len(datasets.EMNIST.classes_split_dict["balanced"]) == 47
    assert len(datasets.EMNIST.classes_split_dict["byclass"]) == 62
    with pytest.raises(ValueError, match="Unknown value 'all' for argument split"):
        datasets.EMNIST(tmp_path, "all")


def test_missing_files_are_named_with_their_folder(tmp_path):
    with pytest.raises(RuntimeError, match="Dataset not found") as error:
        datasets.MNIST(tmp_path, download=True)
    said = str(error.value)
    assert "downloads nothing" in said
    assert "train-images-idx3-ubyte, train-labels-idx1-ubyte" in said
    assert str(tmp_path / "MNIST" / "raw") in said
    with pytest.raises(RuntimeError, match="data_batch_1") as error:
        datasets.CIFAR10(tmp_path, download=True)
    assert str(tmp_path / "cifar-10-batches-py") in str(error.value)


def test_broken_idx_files(tmp_path, pictures):
    def fails(images, labels, *phrases):
        (tmp_path / "train-images-idx3-ubyte").write_bytes(images)
        (tmp_path / "train-labels-idx1-ubyte").write_bytes(labels)
        with pytest.raises(RuntimeError) as error:
            datasets.MNIST(tmp_path)
        for phrase in phrases:
            assert phrase in str(error.value), str(error.value)

    images, labels = map(idx, pictures)
    fails(images[:-10], labels, "train-images-idx3-ubyte is broken at byte 4710", "needed: 4720 bytes")
    fails(images + b"xy", labels, "at byte 4720", "2 bytes more")
    fails(b"PK\x03\x04" + images, labels, "at byte 0", "magic number 50 4b 03 04")
    fails(images[:6], labels, "at byte 6", "3 sizes, up to byte 16")
    fails(b"", labels, "magic number of an empty file")
    fails(labels, images, "at byte 4", "the sizes 6", "n×28×28", "mistaken for each other")
    fails(images, idx(pictures[1][:4]), "4 labels and 6 pictures")
    fails(images, idx(np.array([3, 1, 4, 1, 50, 9], np.uint8)), "at byte 12", "the label 50")
    (tmp_path / "train-images-idx3-ubyte").unlink()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images)[:-300])
    with pytest.raises(RuntimeError, match=r"ubyte.gz is broken.*\n.*cut off or damaged"):
        datasets.MNIST(tmp_path)


@pytest.fixture
def cifar(rng):
    return rng.integers(0, 256, (5, 4, 3072)).astype(np.uint8), rng.integers(0, 10, (5, 4)).tolist()


def batches(folder, cifar, protocol=2, key="labels", names=("batches.meta", "label_names")):
    folder.mkdir(parents=True)
    for k, (pixels, labels) in enumerate(zip(*cifar, strict=True), 1):
        batch = {"data": pixels, key: labels, "batch_label": f"batch {k}", "filenames": ["a.png"] * 4}
        (folder / f"data_batch_{k}").write_bytes(pickle.dumps(batch, protocol))
    (folder / names[0]).write_bytes(pickle.dumps({names[1]: [f"thing {k}" for k in range(10)]}, protocol))


@pytest.mark.parametrize("protocol", range(6))
def test_cifar10_pickled(tmp_path, cifar, protocol):
    batches(tmp_path / "cifar-10-batches-py", cifar, protocol)
    data = datasets.CIFAR10(tmp_path)
    want = cifar[0].reshape(-1, 3, 32, 32)
    assert data.data.shape == (20, 32, 32, 3)
    assert (data.data == want.transpose(0, 2, 3, 1)).all()
    assert data.targets == [k for part in cifar[1] for k in part]
    assert data.classes[3] == "thing 3"
    image, label = data[7]
    assert image.mode == "RGB"
    assert (transforms.PILToTensor()(image).numpy() == want[7]).all()
    assert label == data.targets[7]
    assert (datasets.CIFAR10(tmp_path, as_tensor=True)[7][0].numpy() == want[7]).all()


def python2_batch():
    """A batch as Python 2 wrote it: byte strings under str keys, an array by `_reconstruct`."""
    pixels = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8)

    def string(b):
        return b"U" + bytes([len(b)]) + b if len(b) < 256 else b"T" + struct.pack("<I", len(b)) + b

    minus = b"J\xff\xff\xff\xff"
    array = (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85" + string(b"b")
             + b"tR(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\n(" + string(b"u1") + b"K\0K\x01tR(K\x03" + string(b"|")
             + b"NNN" + minus + minus + b"K\0tb\x89" + string(pixels.tobytes()) + b"tb")  # fmt: skip
    return b"\x80\x02}(" + string(b"labels") + b"](K\x07K\x02e" + string(b"data") + array + b"u.", pixels.reshape(
        2, 3072
    )


def test_python_2_batches_are_read(tmp_path):
    data, pixels = python2_batch()
    assert (pickle.loads(data, encoding="latin1")["data"] == pixels).all()  # a true pickle
    (tmp_path / "test_batch").write_bytes(data)
    got = datasets.CIFAR10(tmp_path, train=False)
    assert (got.data.transpose(0, 3, 1, 2).reshape(2, -1) == pixels).all()
    assert got.targets == [7, 2]
    assert got.classes[2] == "bird"


class Evil:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def test_a_pickle_is_never_run(tmp_path):
    mark = tmp_path / "owned"
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": Evil(mark), "labels": []}))
    with pytest.raises(RuntimeError, match=r"test_batch is broken or no data at byte \d+") as error:
        datasets.CIFAR10(tmp_path, train=False)
    assert "the name 'posix.system'" in str(error.value)
    assert not mark.exists()
    pickle.loads((tmp_path / "test_batch").read_bytes())
    assert mark.exists()  # the pickle does what it is meant to do


def test_broken_cifar_batches(tmp_path, cifar):
    def fails(data, *phrases):
        (tmp_path / "test_batch").write_bytes(data)
        with pytest.raises(RuntimeError) as error:
            datasets.CIFAR10(tmp_path, train=False)
        for phrase in phrases:
            assert phrase in str(error.value), str(error.value)

    pixels, labels = cifar[0][0], cifar[1][0]
    whole = pickle.dumps({"data": pixels, "labels": labels})
    fails(whole[: len(whole) // 2], "at byte")
    fails(b"", "at byte 0")
    fails(b"\x80\x02]q\x00.", "a list")
    fails(pickle.dumps({"data": pixels}), "keys data and labels")
    fails(pickle.dumps({"data": pixels[:, :100], "labels": labels}), "uint8(4, 100) with 4 labels", "uint8 (4, 3072)")
    fails(pickle.dumps({"data": pixels, "labels": [*labels[:3], 77]}), "label 77", "0 to 9")
    rng = np.random.default_rng(1)
    for _ in range(300):  # whatever a file holds, the answer is a RuntimeError
        bad = bytearray(whole)
        for at in rng.integers(0, 60, 3):
            bad[at] = rng.integers(0, 256)
        (tmp_path / "test_batch").write_bytes(bytes(bad))
        with suppress(RuntimeError):
            datasets.CIFAR10(tmp_path, train=False)


def test_cifar_binary(tmp_path, rng):
    records = rng.integers(0, 10, (3, 3073)).astype(np.uint8)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "test_batch.bin").write_bytes(records.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(f"kind{k}" for k in range(10)) + "\n\n")
    data = datasets.CIFAR10(tmp_path, train=False)
    assert data.targets == records[:, 0].tolist()
    assert (data.data[1, :, :, 2].ravel() == records[1, 1 + 2048 :]).all()
    assert data.classes[4] == "kind4"
    (folder / "test_batch.bin").write_bytes(records.tobytes()[:-1])
    with pytest.raises(RuntimeError, match=r"test_batch.bin is broken\n.*3072 bytes at byte 6146.*records of 3073"):
        datasets.CIFAR10(tmp_path, train=False)


def test_cifar100(tmp_path, rng):
    pixels = rng.integers(0, 256, (3, 3072)).astype(np.uint8)
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    batch = {b"data": pixels, b"fine_labels": [99, 0, 50], b"coarse_labels": [1, 1, 1]}
    (folder / "train").write_bytes(pickle.dumps(batch))
    assert datasets.CIFAR100(tmp_path).targets == [99, 0, 50]
    binary = tmp_path / "b" / "cifar-100-binary"
    binary.mkdir(parents=True)
    (binary / "test.bin").write_bytes(b"".join(bytes([1, k]) + p.tobytes() for k, p in enumerate(pixels)))
    assert datasets.CIFAR100(tmp_path / "b", train=False).targets == [0, 1, 2]


@pytest.fixture
def folder(tmp_path, rng):
    from PIL import Image

    for name in ("dog/2.png", "dog/1.PNG", "cat/deep/9.jpg", "cat/3.bmp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (5, 7, 3)).astype(np.uint8)).save(path)
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    return tmp_path


def test_image_folder(folder):
    data = datasets.ImageFolder(str(folder))
    assert data.classes == ["cat", "dog"]
    assert data.class_to_idx == {"cat": 0, "dog": 1}
    names = [os.path.relpath(p, folder) for p, _ in data.samples]
    assert names == ["cat/3.bmp", "cat/deep/9.jpg", "dog/1.PNG", "dog/2.png"]
    assert data.targets == [0, 0, 1, 1]
    assert data.imgs is data.samples
    image, label = datasets.ImageFolder(folder, transform=transforms.ToTensor())[3]
    assert image.shape == (3, 5, 7)
    assert label == 1
    only = datasets.ImageFolder(folder, is_valid_file=lambda p: p.endswith("png"), allow_empty=True)
    assert [os.path.basename(p) for p, _ in only.samples] == ["2.png"]


def test_image_folder_errors(folder, tmp_path, monkeypatch):
    (folder / "bird").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no valid file for the classes bird[\s\S]*extensions are: .jpg"):
        datasets.ImageFolder(folder)
    (folder / "bird" / "1.png").write_bytes((folder / "dog" / "2.png").read_bytes()[:80])
    data = datasets.ImageFolder(folder)
    with pytest.raises(RuntimeError, match=r"bird/1.png cannot be read as a picture"):
        data[0]
    empty = tmp_path / "cat" / "deep"
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        datasets.ImageFolder(empty)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"needs Pillow[\s\S]*pip install 'gradlab\[vision\]'"):
        data[1]


def test_fake_data_is_the_same_every_time_and_leaves_no_trace():
    data = datasets.FakeData(5, (3, 6, 4), 7, transform=transforms.PILToTensor())
    core.manual_seed(3)
    a = data[2]
    after = core.rand(1)
    core.manual_seed(3)
    assert core.rand(1).item() == after.item()
    b = data[2]
    assert (a[0] == b[0]).all()
    assert a[1] == b[1]
    assert (a[0] != data[3][0]).any()
    assert len(list(data)) == 5


def test_one_transforms_argument_excludes_the_others(tmp_path):
    with pytest.raises(ValueError, match="Only transforms or"):
        datasets.VisionDataset(tmp_path, transforms=lambda a, b: (a, b), transform=lambda a: a)
