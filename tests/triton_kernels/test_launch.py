"""The real driver and launcher on a fake libcuda: no PyTorch, the host's stream, frozen plans."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "Triton itself needs a C compiler to launch"
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, HERE / "fake_cuda.c"], check=True)
    (folder / "libcuda.so").symlink_to(library)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "LD_LIBRARY_PATH": str(folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "FAKE_PARAMETERS": "4",
        "XDG_DATA_HOME": str(folder / "data"),
    }
    done = subprocess.run([sys.executable, HERE / "fake_launch.py"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_mode_and_no_torch(launched):
    assert launched["before"] is None
    assert launched["after"] == "cuda"
    assert launched["torch"] is False


def test_a_launch_reaches_the_driver(launched):
    seen = launched["axpy"]
    assert seen["count"] == 1
    assert seen["stream"] == 0x77
    assert seen["grid"] == [8, 1, 1]  # 8192 elements in blocks of 1024
    assert seen["block"] == [256, 1, 1]
    assert seen["parameters"][:3] == [0x1000, 0x11000, 0x21000]
    assert launched["float"] == 0.1  # all 64 bits of it


def test_the_frozen_plan_passes_new_pointers_and_the_current_stream(launched):
    seen = launched["again"]
    assert seen["stream"] == 0x99
    assert seen["parameters"][:3] == [0x11000, 0x1000, 0x21000]
    assert launched["plans_aligned"] == 1


def test_unaligned_pointers_get_a_plan_of_their_own(launched):
    assert launched["plans_unaligned"] == 2
    assert launched["unaligned"]["parameters"][0] == 0x1004


def test_other_launchers(launched):
    assert launched["matmul"]["grid"] == [2, 1, 1]
    assert launched["matmul"]["parameters"][:2] == [0x1000, 0x9000]
    assert launched["softmax"]["grid"] == [16, 1, 1]
    assert launched["empty_launches"] == 0


def test_an_update_is_one_launch_over_all_tensors_and_its_tables_stay_on_the_device(launched):
    seen, again = launched["update"], launched["update_again"]
    assert seen["launches"] == 1
    assert seen["grid"] == [16, 1, 1]  # two tensors of 8192 elements in blocks of 1024
    assert seen["uploads"] == again["uploads"] == 2  # the addresses and the blocks
    assert seen["parameters"][:2] == again["parameters"][:2] == [0x7E00_0000_1000, 0x7E00_0000_2000]


def test_a_host_array_is_refused_by_name(launched):
    assert "kernel axpy_kernel[grid=(8, 1, 1)" in launched["error"]
    assert "a CUDA launch needs device arrays, got ndarray" in launched["error"]


def test_a_planned_launch_is_cheap(launched):
    print({k: round(v, 2) for k, v in launched.items() if k.endswith("_us")})
    assert launched["plan_us"] < 20
    assert launched["elementwise_us"] < 60


def test_launchers_take_what_was_tuned_for_this_gpu_and_this_text(launched):
    seen = launched["tuned"]
    assert seen["device"] == "a fake GPU (sm_90)"
    assert seen["axpy"]["grid"] == [4, 1, 1]  # 8192 elements in blocks of 2048; a frozen launch with 1024 was forgotten
    assert seen["axpy"]["block"] == [128, 1, 1]
    assert seen["stale"]["grid"] == launched["softmax"]["grid"]
    assert seen["illegal"]["grid"] == launched["softmax"]["grid"]  # a constraint of the space says no
    assert seen["softmax"]["grid"] == [64, 1, 1]
    assert seen["softmax"]["block"] == [256, 1, 1]


def test_a_class_out_of_range_is_told_without_a_wait(launched):
    seen = launched["fault"]
    assert seen["waits"] == 0
    assert [told[0] for told in seen["told"]] == ["200 is no class"]
    assert "CUDA_LAUNCH_BLOCKING=1" in seen["told"][0][1]
