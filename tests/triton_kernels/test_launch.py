"""The real driver and launcher on a fake libcuda: no PyTorch, the host's stream, frozen plans."""

import pathlib

import pytest

from tests.fake_gpu import run

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def launched():
    return run(HERE / "fake_launch.py", FAKE_PARAMETERS=6)


def test_mode_and_no_torch(launched):
    assert launched["before"] is None
    assert launched["after"] == "cuda"
    assert launched["torch"] is False


def test_a_launch_reaches_the_driver(launched):
    seen = launched["axpy"]
    assert seen["count"] == 1
    assert seen["stream"] == launched["stream"] != launched["other_stream"]
    assert seen["grid"] == [8, 1, 1]  # 8192 elements in blocks of 1024
    assert seen["block"] == [256, 1, 1]
    assert seen["parameters"][:3] == launched["addresses"]
    assert launched["float"] == 0.1  # all 64 bits of it


def test_the_frozen_plan_passes_new_pointers_and_the_current_stream(launched):
    seen = launched["again"]
    assert seen["stream"] == launched["other_stream"]
    x, y, out = launched["addresses"]
    assert seen["parameters"][:3] == [y, x, out]
    assert launched["plans_aligned"] == 1


def test_unaligned_pointers_get_a_plan_of_their_own(launched):
    assert launched["plans_unaligned"] == 2
    assert launched["unaligned"]["parameters"][0] == launched["addresses"][0] + 4


def test_the_plan_in_c_says_what_tritons_launcher_says(launched):
    """Every kind of parameter: pointers, floats of both widths, integers of both widths, one that is 1."""
    ours, theirs = launched["in_c"], launched["by_triton"]
    assert ours["count"] == theirs["count"] + 1
    for said in ("grid", "block", "shared_bytes"):
        assert ours[said] == theirs[said]
    four_bytes = {2: "narrow", 3: "small", 5: "out_ptr_offset"}  # the fake reads eight; `one` is in the kernel's code
    for k, (a, b) in enumerate(zip(ours["parameters"], theirs["parameters"], strict=True)):
        mask = 2**32 - 1 if k in four_bytes else 2**64 - 1
        assert a & mask == b & mask, k
    assert ours["parameters"][4] == 2**40
    assert launched["kind_of_plan"] == "Plan"


def test_other_launchers(launched):
    assert launched["softmax"]["grid"] == [16, 1, 1]
    assert launched["empty_launches"] == 0


def test_an_update_is_one_launch_over_all_tensors_and_its_tables_stay_on_the_device(launched):
    seen, again = launched["update"], launched["update_again"]
    assert seen["launches"] == 1
    assert seen["grid"] == [16, 1, 1]  # two tensors of 8192 elements in blocks of 1024
    assert seen["uploads"] == again["uploads"] == 2  # the addresses and the blocks
    assert seen["parameters"][:2] == again["parameters"][:2]


def test_a_host_array_is_refused_by_name(launched):
    assert "kernel axpy_kernel[grid=(8, 1, 1)" in launched["error"]
    assert "a CUDA launch needs cupy arrays, got ndarray" in launched["error"]


def test_a_planned_launch_is_cheap(launched):
    """Wide of the figures, which `python -m lab bench launch` takes: machines that run tests have other work too."""
    print({k: round(v, 2) for k, v in launched.items() if k.endswith("_us")})
    assert launched["launch_us"] < 10
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
