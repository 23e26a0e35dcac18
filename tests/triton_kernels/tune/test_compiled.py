"""Programs that keep what a launch or a warm-up returns, ask it for registers, and launch it, while it is captured."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_kernels import tune
from triton_kernels.tune.compiled import constants_of
from triton_kernels.tune.texts import made, text_of
from triton_kernels.tune.worker import Here

from . import adopted_kernels as theirs


def by_occupancy(x):
    """As Triton's own lesson of a softmax launches: the grid from what one program takes of a multiprocessor."""
    out = np.empty_like(x)
    kernel = theirs.scaled.warmup(x, out, 64, len(x), 3.0, grid=(1,), num_warps=2)
    kernel._init_handles()
    programs = min(-(-len(x) // 64), 65536 // (kernel.n_regs * 32), 232448 // kernel.metadata.shared)
    kernel[(programs, 1, 1)](x, out, 64, len(x), 3.0)
    return out


def test_a_kernel_that_was_warmed_up_is_launched_by_a_grid():
    x = np.arange(300, dtype=np.float32)
    with tune.capture() as seen:
        out = by_occupancy(x)
    np.testing.assert_allclose(out, 1.5 * x)
    (launch,) = seen
    assert (launch.name, launch.call.grid) == ("scaled", (5, 1, 1))
    assert launch.roles == {"x": "in", "out": "out"}
    assert launch.config == {"num_warps": 2}


class Kept(triton.KernelInterface):
    """A library's own way to launch: it looks for the jitted function below, and keeps what it compiled by dtype."""

    def __init__(self, fn):
        self.fn, self.arg_names, self.kept = fn, fn.arg_names, {}
        while not isinstance(fn, triton.runtime.JITFunction):
            fn = fn.fn
        self.constants = [p.name for p in fn.params if p.is_constexpr]
        assert fn.cache_key

    def run(self, *args, grid, **named):
        if args[0].dtype not in self.kept:
            self.kept[args[0].dtype] = self.fn.run(*args, grid=grid, **named)
        else:
            given = [a for n, a in zip(self.arg_names, args, strict=True) if n not in self.constants]
            self.kept[args[0].dtype][grid](*given)


def test_what_a_library_has_compiled_is_launched_again():
    bases = type(theirs.scaled).__bases__
    first, then = np.ones(100, np.float32), np.full(70, 2.0, np.float32)
    outs = np.empty_like(first), np.empty_like(then)
    with tune.capture() as seen:
        kernel = Kept(theirs.scaled)
        kernel[(2,)](first, outs[0], 64, 100, 4.0)
        kernel[(2,)](then, outs[1], 64, 70, 4.0)
    assert outs[0].tolist() == [2.0] * 100
    assert outs[1].tolist() == [4.0] * 70
    assert [each.call.arguments["n"] for each in seen] == [100, 70]
    assert type(theirs.scaled).__bases__ == bases


def test_a_launcher_s_arguments_and_too_few():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    with tune.capture():
        kernel = theirs.scaled[(1,)](x, out, 64, 64, 4.0)
        out[:] = 0
        kernel.run(1, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, out, 64, 64, 4.0)
        assert out.tolist() == [2.0] * 64
        with pytest.raises(TypeError, match="scaled, compiled, takes x, out, n, scale; got 1 arguments"):
            kernel[(1, 1, 1)](x)


class Timing(triton.KernelInterface):
    """A library's own tuner, which is not below Triton's: it times every config, and launches the best."""

    def __init__(self, fn, configs):
        self.fn, self.arg_names, self.configs, self.timed = fn, fn.arg_names, configs, 0

    def run(self, *args, **named):
        def time(config):
            self.timed += 1
            self.fn.run(*args, **named, **config.kwargs)
            return self.timed

        best = min(self.configs, key=time) if len(self.configs) > 1 else self.configs[0]
        return self.fn.run(*args, **named, **best.kwargs, num_warps=best.num_warps)


def test_a_tuner_that_is_not_below_triton_s_is_left_its_first_config_and_its_configs_are_the_space():
    x, out = np.ones(300, np.float32), np.zeros(300, np.float32)
    kernel = Timing(theirs.in_place, [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((128, 4), (64, 2))])
    with tune.capture() as seen:
        kernel[(3,)](x, out, 300)
    assert kernel.timed == 0
    assert len(kernel.configs) == 2
    assert seen.launches[0].config == {"BLOCK": 128, "num_warps": 4, "num_stages": 3}
    space = seen.problem(target="sm_90").space
    assert [config["BLOCK"] for config in space.only] == [128, 64]


def test_constant_functions_and_triton_s_own_are_part_of_a_text(monkeypatch):
    out = np.empty(4, np.float32)
    with tune.capture():
        monkeypatch.setattr(theirs, "zeros_like", triton.language.zeros_like)
        monkeypatch.setattr(theirs, "absolute", triton.language.math.abs)  # as a library imported now would have it
        made(text_of(theirs.by_functions_of_its_own), "by_functions_of_its_own")[(1,)](np.ones(4, np.float32), out, 4)
    assert out.tolist() == [5.0] * 4
    assert "int_of = triton.constexpr_function(int_of)" in text_of(theirs.by_functions_of_its_own)


def test_an_argument_that_is_given_as_a_constant_is_one():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with tune.capture() as seen:
        theirs.by_a_size[(1,)](x, out, tl.constexpr(8))
        assert constants_of(theirs.by_a_size) == {"size"}
    assert out.tolist() == x[::-1].tolist()
    assert seen.launches[0].call.arguments["size"] == 8
    assert "size: tl.constexpr" in text_of(theirs.by_a_size)
    assert seen.problem(target="sm_90").space.default["num_warps"] == 4


def test_a_library_s_own_folder_named_triton_is_not_triton():
    x, out = np.ones(3, np.float32), np.empty(3, np.float32)
    text = "def launch(kernel, *args):\n    kernel[(1,)](*args)\n"
    space = {}
    exec(compile(text, "/library/ops/triton/activations.py", "exec"), space)
    with tune.capture() as seen:
        space["launch"](theirs.scaled, x, out, 64, 3, 4.0)
    assert seen.launches[0].where == "activations.py:2"


def test_a_tuple_as_grid_stays_where_an_autotuner_chooses():
    x, out = np.arange(24, dtype=np.float32), np.zeros(2, np.float32)
    kernel = triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32)], key=[])(theirs.sums_of_twelve)
    with tune.capture() as seen:
        kernel[(2,)](x, out)
    problem = seen.problem(target="sm_90")
    measure = Here(problem.check)
    for config in problem.space.only:
        measure.call("check", config, 0, False, limit_s=60.0)
    assert out.tolist() == [66.0, 210.0]
