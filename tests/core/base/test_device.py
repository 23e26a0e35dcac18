"""Devices: one object for each, what is no device, and what is said where a device is not there."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest

import core
from core.base.device import kind


def test_one_object_for_each():
    assert core.device("cuda:0") is core.device("cuda", 0) is core.device(0) is core.device(core.device("cuda:0"))
    assert core.device("cpu") is core.device() is core.device("cpu:0")
    assert core.device("cuda") is not core.device("cuda:0")
    assert (
        pickle.loads(pickle.dumps(core.device("cuda:1")))
        is copy.deepcopy(core.device("cuda:1"))
        is core.device("cuda:1")
    )
    assert repr(core.device("cuda:1")) == "device(type='cuda', index=1)"
    assert (str(core.device("cuda")), str(core.device("cuda:1"))) == ("cuda", "cuda:1")


@pytest.mark.parametrize("wrong", ["gpu", "", "tpu:0", None, 1.5])
def test_what_is_no_device(wrong):
    with pytest.raises(
        RuntimeError, match="Expected one of cpu, cuda, meta device type at start of device string"
    ) as caught:
        core.ones(2, device=core.device(wrong))
    assert repr(wrong) in str(caught.value) or str(wrong) in str(caught.value)


@pytest.mark.parametrize("wrong", ["cuda:", "cuda:x", "cuda:-1", "cuda:1.5"])
def test_what_is_no_index(wrong):
    with pytest.raises(RuntimeError, match="Invalid device string"):
        core.device(wrong)


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="invalid device ordinal") as caught:
        core.ones(2, device="cuda:7")
    assert "cuda:7" in str(caught.value)


def test_no_gpu_and_no_interpreter_says_why_and_what_to_do():
    code = (
        "import core\n"
        "try: core.ones(2, device='cuda')\n"
        "except RuntimeError as e: print(e)\n"
        "print(core.cuda.is_available(), core.ones(2).device)"
    )
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    lines = done.stdout.splitlines()
    if lines[-1] == "True cpu":
        pytest.fail("a GPU in spite of CUDA_VISIBLE_DEVICES=''")
    assert lines[0].startswith("No CUDA GPUs are available")
    assert "device 'cuda'" in lines[1]
    assert "reason: " in lines[1]
    assert "TRITON_INTERPRET=1" in lines[1]
    assert lines[-1] == "False cpu"


def test_kinds():
    k = kind(core.float32, core.device("cpu"))
    assert k is core.ones(2)._kind is kind(core.float32)
    assert k.boolean is kind(core.bool)
    assert str(k) == "float32 on cpu"
    assert pickle.loads(pickle.dumps(k)) is k


def test_tensors_know_their_device():
    x = core.ones(2, device="cuda")
    assert x.device is core.device("cuda:0")
    assert x.is_cuda
    assert not core.ones(2).is_cuda
    assert (x + 1).device is x.device
    assert x.to("cpu").device.type == "cpu"
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()


@pytest.mark.parametrize("name", ["mps", "xpu", "mps:0"])
def test_pytorchs_other_types_have_names_and_no_place(name):
    place = core.device(name)
    assert place is core.device(name)
    assert place.type == name.partition(":")[0]
    assert place != core.ones(1).device
    for put in (lambda: core.ones(2, device=place), lambda: core.ones(2).to(name)):
        with pytest.raises(RuntimeError, match=r"there is no device of type '\w+' here"):
            put()
