"""Every kernel with a space is known to the tuner, right at its configs, and launched with what was stored for it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from triton_kernels import families, faults, runtime, softmax
from triton_kernels.tune import bundled, exchange, lookup
from triton_kernels.tune.declared import kernels
from triton_kernels.tune.measure_triton import TritonMeasure
from triton_kernels.tune.problem import Unknown, find
from triton_kernels.tune.space import Space
from triton_kernels.tune.store import Store
from triton_kernels.tune.triton_problems import Printed, PrintedUpdate, problem

# Kernels of several configs that are launched with another one's choice.
ALONG = {"segment_heads_kernel": "segment_sum_kernel", "unpack_kernel": "merge_kernel",
         "norm_join_kernel": "norm_columns_kernel"}  # fmt: skip
# One that the launcher takes for the kernel itself to be reached: others' tiles are large in the interpreter.
BESIDE = {"merge_kernel": ("sort_kernel", {"TILE": 512, "num_warps": 4}),
          "norm_columns_kernel": ("norm_backward_kernel", {"BLOCK": 1024, "ROWS": 1, "num_warps": 4})}  # fmt: skip
PRINTED = Printed("tanh", ("x",), (), ("t0 = scalar.tanh(x)",), "t0")
CONDITION = Printed("less", ("x", "y"), (), ("t0 = (x < y)",), "t0", "bool")
DESCENT = PrintedUpdate("descent", ("p", "g"), ("lr",), ("t0 = (p - g * lr)",), (("p", "t0"),))


def several(space):
    return len(list(space.configs())) > 1


def test_no_space_is_left_out():
    declared = kernels()
    spaces = set()
    for kernel in declared.values():
        for dtype in kernel.dtypes:
            space = kernel.space_at(kernel.small, dtype)
            spaces.add((space.names, space.constraints))
    missing = [
        f"{module.__name__}.{name}" for module in families.modules() for name, value in vars(module).items()
        if isinstance(value, Space) and not name.startswith("_") and several(value)
        and (value.names, value.constraints) not in spaces and not module.__name__.endswith(("elementwise", "optim"))
    ]  # fmt: skip
    assert missing == []
    names = {case.kernel.fn.__name__ for _, case in families.cases(["fp32", "fp16"])
             if several(case.space) and case.kernel.fn.__module__ != "triton_kernels.generated"}  # fmt: skip
    known = {kernel.kernel.fn.__name__ for kernel in declared.values()}
    assert names - known - {"moments_join_kernel"} == set(ALONG)  # that one's two configs both come, by the shares
    assert set(ALONG.values()) <= known


def config_of(space):
    """A legal config that is not the default."""
    return next(c for c in reversed(list(space.configs())) if c != space.default and c.get("FORM", "tile") == "tile")


def launched(kernel):
    """The launch of the kernel itself among the last ones."""
    return next(one for one in reversed(faults.recent) if one.kernel.fn is kernel.kernel.fn)


def store(name, key, config):
    with Store() as kept:
        session = kept.begin(key, {}, "random")
        kept.win({**key, "kernel": name}, session, {"config": config, "ratio": 0.5, "low": 0.4, "high": 0.6})


@pytest.mark.parametrize("name", [*kernels(), "tanh_kernel", "less_kernel", "descent_kernel"])
def test_what_is_stored_is_launched(name):
    printed = {"tanh_kernel": PRINTED, "less_kernel": CONDITION, "descent_kernel": DESCENT}.get(name)
    kernel = printed.kernel() if printed else kernels()[name]
    shape, dtype = kernel.small, kernel.dtypes[-1] if "float32" not in kernel.dtypes else "float32"
    stated = problem(name, shape, dtype, "sm_90", printed)
    measure = TritonMeasure(name, shape, dtype, printed)
    measure.open()
    config = config_of(stated.space)
    run, key = measure._run(shape, 0), {**stated.key, "device": runtime.device_name()}
    if name in BESIDE:
        beside, its = BESIDE[name]
        store(beside, {**key, "source": problem(beside, shape, dtype, "sm_90").source}, its)
    run.kernel.launch(run.inputs, run.outputs, None)
    assert launched(kernel).asked == (name, stated.shape, dtype)
    store(name, key, config)
    assert run.check(None) <= 1  # the next launch takes it, and gives the right answer
    made = launched(kernel)
    assert {n: (made.constexprs | made.options)[n] for n in config} == config


@pytest.mark.parametrize("name", ["matmul_kernel", "attention_kernel", "conv_kernel", "norm_backward_kernel",
                                  "cross_entropy_kernel", "rnn_step_kernel"])  # fmt: skip
def test_halves_other_data_and_an_odd_shape(name):
    kernel = kernels()[name]
    shape = tuple(n - n // 3 for n in kernel.small)
    measure = TritonMeasure(name, shape, "bfloat16")
    measure.open()
    default = kernel.space_at(shape, "bfloat16").default
    assert measure.check(default, 1) <= 1
    assert measure.check(default, 0, True) <= 1
    assert any(n % 2 for n in kernel.odd(shape, 300))


@pytest.mark.by_turns
def test_what_ships_for_a_device_is_launched_where_nothing_was_tuned(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    x = np.ones((64, 512), np.float32)
    stated, other = (problem("softmax_kernel", s, "float32", "sm_90") for s in ((64, 512), (64, 4096)))
    device, ships = runtime.device_name(), {"BLOCK": 512, "ROWS": 1, "num_warps": 4}

    def taken():
        softmax.softmax_forward(x, np.empty_like(x))
        made = faults.recent[-1]
        return {n: (made.constexprs | made.options)[n] for n in ships}

    with Store(tmp_path / "elsewhere") as kept:  # as on the machine where it was tuned
        for key, config in ((stated.key, ships), (other.key, {**ships, "BLOCK": 4096, "num_warps": 8})):
            key = {**key, "device": device, "mode": "cuda, cold L2"}
            kept.win(key, kept.begin(key, {}, "random"), {"config": config, "ratio": 0.51234, "low": 0.5, "high": 0.6})
        own = {**stated.key, "kernel": "mine", "device": device, "mode": "cuda, cold L2"}
        kept.win(own, kept.begin(own, {}, "x"), {"config": ships, "ratio": 0.5, "low": 0.5, "high": 0.6})
        text = exchange.export(kept, "bundle", device=device)
        with pytest.raises(ValueError, match="has no results of any kernel on another"):
            exchange.export(kept, "bundle", device="another")
        with pytest.raises(ValueError, match="there is no such choice"):
            exchange.export(kept, "bundle", "mine")
        second = {**stated.key, "device": "another", "mode": "cuda"}
        kept.win(second, kept.begin(second, {}, "x"), {"config": ships, "ratio": 0.5, "low": 0.5, "high": 0.6})
        with pytest.raises(ValueError, match="there are those of Triton's interpreter; another"):
            exchange.export(kept, "bundle")
    lookup.forget()
    assert taken() != ships
    (tmp_path / bundled.file_of(device)).write_text(text)
    lookup.forget()
    assert taken() == ships
    assert json.loads(text)["made_with"]["triton"]
    assert [(e["shape"], e["ratio"]) for e in json.loads(text)["entries"]] == [
        ([64, 512], 0.5123),
        ([64, 4096], 0.5123),
    ]
    mine = {"BLOCK": 1024, "ROWS": 1, "num_warps": 4}
    store("softmax_kernel", {**stated.key, "device": device, "shape": [64, 600]}, mine)
    assert taken() == mine  # the user's own, though of another shape
    (tmp_path / bundled.file_of(device)).write_text("{")
    lookup.forget()
    assert taken() == mine


def test_a_stored_config_of_another_layouts_text_is_not_taken(monkeypatch):
    """A printed kernel has a text a layout, under one name: what was found for one says nothing of the others."""
    from triton_kernels import elementwise
    from triton_kernels.tune.sources import source_of

    kernel = elementwise.build("tanh", PRINTED.inputs, (), PRINTED.lines, "t0")
    x = np.ones((40, 30), np.float32)
    key = {"kernel": "tanh_kernel", "device": runtime.device_name(), "shape": [1200], "dtype": "float32",
           "mode": "cuda", "source": source_of(kernel.kernel((), frozenset(), 0))}  # fmt: skip
    store("tanh_kernel", key, {"BLOCK": 512, "num_warps": 4})
    kernel((x.T,), (), np.empty_like(x.T.copy()))
    assert faults.recent[-1].constexprs["BLOCK"] != 512
    kernel((x,), (), np.empty_like(x))
    assert faults.recent[-1].constexprs["BLOCK"] == 512
    kernel((x.T,), (), np.empty_like(x.T.copy()))
    assert faults.recent[-1].constexprs["BLOCK"] != 512


def test_shapes_that_do_not_fit_are_refused_with_the_axes_names():
    for name, shape, dtype, said in [
        ("attention_kernel", "8x64x64", "float16", "takes a shape HEADSxROWSxKEYSxITEMS, 4 sizes; came: 8x64x64"),
        ("attention_kernel", "8x64x64x300", "float16", "takes at most 256 ITEMS; came: 300"),
        ("conv_kernel", "8x64x1x64x9", "float16", "takes at least 2 CHANNELS; came: 1"),
        ("weight_kernel", "8x64x64", "float64", "takes float16, bfloat16, float32, not float64"),
        ("one_hot_kernel", "8x64", "float32", "takes int64, not float32"),
        ("conv_kernal", "1", "float16", "Did you mean conv_kernel"),
    ]:
        with pytest.raises(Unknown, match=said):
            find(name, shape, dtype, "sm_90")


def test_large_shapes_are_checked_at_smaller_ones():
    matmul, attention = kernels()["matmul_kernel"], kernels()["attention_kernel"]
    config = matmul.space_at((4096, 4096, 4096), "float16").default
    assert matmul.checked((1024, 512, 512), "float16", config) == (1024, 512, 512)
    assert matmul.checked((1 << 15, 4096, 4096), "float16", config) == (2048, 4096, 4096)
    config = attention.space_at((64, 4096, 4096, 128), "float16").default
    assert attention.checked((64, 4096, 4096, 128), "float16", config) == (64, 2048, 2048, 128)  # the items stay
    assert kernels()["norm_columns_kernel"].checked((1 << 22, 1100), "float32", {}) == (1 << 16, 1100)


def test_lookups_cost_well_under_a_microsecond():
    import timeit

    kernel = kernels()["softmax_kernel"]
    space, dtype = kernel.space, np.dtype(np.float32)
    found = problem("softmax_kernel", (64, 512), "float32", "sm_90")
    config = {"BLOCK": 512, "ROWS": 1, "num_warps": 4}
    store("softmax_kernel", {**found.key, "device": runtime.device_name()}, config)
    for shape in ((64, 512), (64, 500), (64, 1000), (7, 7)):  # exact, of the bucket, the nearest, none
        want = None if shape == (7, 7) else config
        assert runtime.tuned(kernel.kernel, space, shape, dtype) == want
        took = min(timeit.repeat(lambda s=shape: runtime.tuned(kernel.kernel, space, s, dtype), number=1000, repeat=20))
        assert took / 1000 < 5e-6  # 0.5 us on a quiet machine
    lookup.forget()
