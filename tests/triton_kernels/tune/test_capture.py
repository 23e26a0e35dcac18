"""`tune.capture`: any program's launches, with roles; `tune.adopt`: a problem of any kernel; wrong configs refused."""

from __future__ import annotations

import ctypes
import mmap
import threading

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner, Heuristics

import core
from triton_kernels import tune
from triton_kernels.tune.addresses import behind_tables
from triton_kernels.tune.arguments import Call
from triton_kernels.tune.grids import Rules
from triton_kernels.tune.hooks import hooked
from triton_kernels.tune.launches import again
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.texts import made, text_of
from triton_kernels.tune.worker import Here

from . import adopted_kernels as theirs

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def why(problem, config, seed=0):
    """What is wrong with a config, or nothing."""
    measure = Here(problem.check)
    try:
        measure.call("check", {**problem.space.default, **config}, seed, False, limit_s=60.0)
    except Failed as failure:
        return failure.reason
    return ""


def test_a_program_runs_as_always_and_its_launches_are_listed():
    x, y = floats(5, 70), floats(300)
    with tune.capture() as seen:
        out, scaled = theirs.softmax(x), theirs.scale(y)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(scaled, 1.5 * y, rtol=1e-6)
    assert [(launch.name, launch.call.grid) for launch in seen] == [("row_softmax", (5,)), ("scaled", (5,))]
    (launch,) = seen.of("scaled")
    assert launch.roles == {"x": "in", "out": "out"}
    launch.seen = None  # as after a launch on a GPU
    assert launch.roles == {"x": "in", "out": "out"}
    listed = "scaled [5] (x float32[300] in, out float32[300] out, BLOCK=64, n=300, scale=3.0) at adopted_kernels.py:"
    assert listed in str(seen)


def test_nothing_is_left_changed():
    kind, before = type(theirs.scaled), (type(theirs.scaled).run, Autotuner.run, Heuristics.run)
    with pytest.raises(ZeroDivisionError), tune.capture():
        theirs.scale(floats(3), 1 / 0)
    assert (kind.run, Autotuner.run, Heuristics.run) == before
    assert "__init_subclass__" not in vars(Autotuner)


def test_captures_do_not_nest():
    with tune.capture(), pytest.raises(RuntimeError, match="another capture is open"), tune.capture():
        pass


def test_an_autotuner_takes_the_first_config_that_its_pruning_leaves_and_its_hooks_run():
    x = floats(300)
    with tune.capture() as seen:
        out = theirs.total(x)
    assert out[0] == pytest.approx(x.sum(), rel=1e-4)  # the 7 that stood there was set to zero
    (launch,) = seen
    assert launch.config == {"BLOCK": 128, "num_warps": 4, "num_stages": 3}
    assert launch.roles == {"x": "in", "total": "atomic"}
    assert launch.call.arguments["EVEN"] is False


@pytest.mark.parametrize("again", [False, True])
def test_what_stays_is_of_the_config_that_the_pruning_has_left(again):
    x = floats(300)
    with tune.capture() as seen:
        np.testing.assert_array_equal(theirs.multiply(x), 8 * x)
    problem = seen.problem(target="sm_90", program=(lambda: theirs.multiply(x)) if again else None)
    assert {t.name: t.values for t in problem.space.tunables if t.name.isupper()} == {"BLOCK": (32, 64, 128)}
    for block in (32, 64, 128):
        measure = Here(problem.check).measure
        assert measure._changed(0, {**problem.space.default, "BLOCK": block}).arguments["FACTOR"] == 8
        assert not why(problem, {"BLOCK": block})


def test_what_is_read_first_is_restored_and_parts_that_are_left_stay():
    x, seen_ = floats(100), np.full(100, 9.0, np.float32)
    before = x.copy()
    with tune.capture() as seen:
        theirs.in_place[(2,)](x, seen_, 100, BLOCK=64)
    np.testing.assert_allclose(x, np.tanh(before), rtol=1e-6)
    assert seen.launches[0].roles == {"x": "both", "seen": "partly out"}
    problem = seen.problem(target="sm_90")
    assert not why(problem, {})
    assert not why(problem, {}, seed=1)


def test_views_of_one_memory_have_roles_of_their_own():
    packed = floats(3, 64)
    with tune.capture() as seen:
        theirs.scaled[(1,)](packed[0], packed[2], 64, 64, 2.0)
    assert seen.launches[0].roles == {"x": "in", "out": "out"}
    assert len(seen.launches[0].call.regions) == 1
    np.testing.assert_array_equal(packed[2], packed[0])


def test_core_s_tensors_tuples_and_tables_of_addresses():
    a, b, out = core.arange(4.0), core.ones(4), core.empty(4)
    with tune.capture() as seen:
        theirs.pair_sum[(1,)]((a, b), out, 4, BLOCK=4)
    assert out.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert seen.launches[0].roles == {"pair[0]": "in", "pair[1]": "in", "out": "out"}
    table, joined = core.tensor([a.data_ptr(), b.data_ptr()]), core.empty(8)
    with tune.capture() as seen:
        theirs.through_table[(2,)](table, joined, 4, BLOCK=4)
    assert joined.tolist() == [0.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    assert not why(seen.problem(target="sm_90"), {})  # the addresses are set anew where it runs


def test_memory_may_lie_low():
    """As that of small arrays does in Debian's Python, which is no position-independent program."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 4
    where = libc.mmap(1 << 28, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE,
                      mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)  # fmt: skip
    low = core.from_numpy(np.ctypeslib.as_array((ctypes.c_float * 4).from_address(where)))
    assert low.data_ptr() == where
    assert any(found is low for found in behind_tables({"table": core.tensor([where])}))


def test_a_stray_access_does_not_happen_and_is_no_problem_to_tune():
    x, out = floats(100), floats(100)
    with tune.capture() as seen:
        theirs.strays[(2,)](x, out, BLOCK=64)
    np.testing.assert_array_equal(x, out)
    said = "out-of-bounds load of 4 bytes: 28 of 64 unmasked lanes in program 1; of x .400 bytes. the first is 0 bytes"
    with pytest.raises(
        Unknown, match=f"strays: it asks for memory .*{said}.* Remedy: an array as large as the kernel takes it for"
    ):
        seen.problem()


def test_a_config_that_strays_is_wrong():
    with tune.capture() as seen:
        theirs.strays[lambda config: (128 // config["BLOCK"],)](floats(100 + 28), floats(128), BLOCK=64)
    configs = {"BLOCK": (64, 256)}
    assert "out-of-bounds" not in why(seen.problem(configs=configs, target="sm_90"), {})
    with tune.capture() as seen:
        theirs.strays[lambda config: (1,)](floats(128), floats(128), BLOCK=64)
    assert "out-of-bounds load" in why(seen.problem(configs=configs, target="sm_90"), {"BLOCK": 256})


def test_a_text_stands_alone():
    text = text_of(theirs.scaled)
    assert "autotune" not in text_of(theirs.summed)
    kernel, out = made(text, "scaled"), np.zeros(3, np.float32)
    with tune.capture():
        kernel[(1,)](np.ones(3, np.float32), out, 4, 3, 5.0)
    assert out.tolist() == [2.5, 2.5, 2.5]
    with tune.capture():
        made(text_of(theirs.asked_of_modules), "asked_of_modules")[(1,)](
            np.full(4, 3.0, np.float32), out := floats(4), 4
        )
    assert out.tolist() == [1.5] * 4  # what two functions ask of modules within a module


@pytest.mark.by_turns
def test_three_programs_are_listed_with_their_arguments_and_two_are_tuned():
    """Must show 2 of "any kernel as it stands": nothing of the programs is changed."""
    listed = []
    with tune.capture() as rows:
        theirs.softmax(floats(5, 70))
    with tune.capture() as products:
        theirs.matmul(floats(40, 50), floats(50, 70)), theirs.matmul(floats(90, 24), floats(24, 33))
    with tune.capture() as sums:
        theirs.total(floats(300))
    for seen in (rows, products, sums):
        listed += str(seen).splitlines()
        for launch in seen:
            assert list(launch.call.arguments) == list(launch.kernel.arg_names)
            assert all(name in str(launch) for name in launch.kernel.arg_names)
    assert [line.partition(" at ")[0] for line in listed] == [
        "row_softmax [5] (out float32[5,70] out, x float32[5,70] in, stride=70, columns=70, BLOCK=128)",
        "product [3x3] (a float32[40,50] in, b float32[50,70] in, c float32[40,70] out, M=40, N=70, K=50, BM=16, "
        "BN=32, BK=16)",
        "product [6x2] (a float32[90,24] in, b float32[24,33] in, c float32[90,33] out, M=90, N=33, K=24, BM=16, "
        "BN=32, BK=16)",
        "summed [3] num_warps=4 num_stages=3 (x float32[300] in, total float32[1] atomic, n=300, EVEN=False, "
        "BLOCK=128)",
    ]
    for seen in (rows, sums):
        result = tune.run(seen.problem(target="sm_90"), evaluations=4, budget=None)
        assert (result.verdict, result.best.facts["registers"] > 0) == ("estimate", True)


@pytest.mark.by_turns
def test_constants_that_may_be_others_are_found_and_tuned():
    with tune.capture() as seen:
        theirs.scale(floats(300)), theirs.scale(floats(1000))
    problem = seen.problem(target="sm_90")
    assert {t.name: t.values for t in problem.space.tunables}["BLOCK"] == (32, 64, 128)
    assert problem.measure.grids[(("BLOCK", 32), ("num_stages", 3), ("num_warps", 4))] == (32,)
    result = tune.run(problem, evaluations=4, budget=None)
    assert result.verdict == "estimate"
    assert result.best.facts["registers"] > 0


@pytest.mark.by_turns
def test_a_row_in_a_block_is_tuned_at_larger_blocks_alone():
    with tune.capture() as seen:
        theirs.softmax(floats(5, 70)), theirs.softmax(floats(5, 300))
    problem = seen.problem(target="sm_90")
    assert {t.name: t.values for t in problem.space.tunables}["BLOCK"] == (512, 1024)


@pytest.mark.by_turns
def test_a_product_s_two_axes_are_told_apart_by_two_shapes():
    with tune.capture() as seen:
        theirs.matmul(floats(40, 50), floats(50, 70)), theirs.matmul(floats(90, 24), floats(24, 33))
    problem = seen.problem(target="sm_90")
    assert {t.name: len(t.values) for t in problem.space.tunables if t.name[0] == "B"} == {"BM": 3, "BN": 3, "BK": 3}


@triton.jit
def planted(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if WRONG == 1:
        v = tl.where(at == n - 1, 0.0, v)
    elif WRONG == 2:
        v *= 1.001
    elif WRONG == 3 and n > 128:
        v = 0.0 * v
    tl.store(out + at, v, mask=(at < n) & ((WRONG != 4) | (at % 2 == 0)))
    if WRONG == 5:
        tl.store(x + at, v + 1.0, mask=at < n)


GRID = {"grid": lambda config: (-(-100 // config["BLOCK"]),)}


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("wrong", "said"),
    [(1, "1 of 100"), (2, "of 100 results are wrong"), (4, "50 of 100"), (5, "writes into x where the default")],
)
def test_planted_wrong_configs_are_refused(wrong, said):
    arguments = {"x": floats(100), "out": np.empty(100, np.float32), "n": 100}
    configs = {"WRONG": (0, 1, 2, 3, 4, 5), "BLOCK": (64,)}
    problem = tune.adopt(planted, arguments, configs=configs, target="sm_90", **GRID)
    assert said in why(problem, {"WRONG": wrong})
    assert not why(problem, {"WRONG": 3})  # it is right at this size


def test_what_is_wrong_at_another_captured_size_alone_is_refused():
    with tune.capture() as seen:
        for n in (200, 100):
            planted[lambda c: (triton.cdiv(n, c["BLOCK"]),)](floats(n), np.empty(n, np.float32), n, 0, BLOCK=64)  # noqa: B023
    problem = seen.problem(configs={"WRONG": (0, 3), "BLOCK": (64,)}, target="sm_90")
    problem.check.calls = problem.check.calls[::-1]  # the smaller one is tuned
    problem.check.variants = problem.check.variants[::-1]
    assert "at x=float32[200]" in why(problem, {"WRONG": 3})


def test_a_tolerance_is_honoured():
    arguments = {"x": floats(100), "out": np.empty(100, np.float32), "n": 100}
    configs = {"WRONG": (0, 2), "BLOCK": (64,)}
    problem = tune.adopt(planted, arguments, configs=configs, target="sm_90", tolerance=0.01, **GRID)
    assert not why(problem, {"WRONG": 2})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"m": 3}, "planted has no argument m; it has x, out, n, WRONG, BLOCK"),
        ({"n": None}, ""),
        (
            {"x": np.zeros(3, np.complex64)},
            "x is an array of complex64, which Triton has no pointers to. Remedy: ",
        ),
    ],
)
def test_refusals_say_what_to_do(changes, said):
    arguments = {"x": floats(100), "out": np.empty(100, np.float32), "n": 100, **changes}
    if not said:
        del arguments["n"]
        said = "missing 1 required positional argument: 'n'. Remedy: it in the arguments"
    with pytest.raises(Unknown, match=".*".join(said.split(" of"))):
        tune.adopt(planted, arguments, configs={"WRONG": (0,), "BLOCK": (64,)}, target="sm_90", **GRID)


def test_auto_launches_an_autotuned_kernel_with_heuristics_and_constants_anywhere():
    fast = tune.auto()(theirs.summed)
    x, out = core.ones(5000), core.zeros(1)
    assert fast.config_for(x, out, 5000) == {"BLOCK": 4096, "num_warps": 8, "num_stages": 3}
    fast[lambda config: (triton.cdiv(5000, config["BLOCK"]),)](x, out, 5000)
    assert out.item() == 5000.0


@pytest.mark.by_turns
def test_tune_takes_a_kernel_without_a_reference():
    x = core.arange(300.0)
    result = tune.run(
        theirs.scaled,
        {"x": x, "out": core.empty(300), "n": 300, "scale": 2.0},
        grid=lambda config: (triton.cdiv(300, config["BLOCK"]),),
        configs={"BLOCK": (64, 128), "num_warps": (1, 4)},
        target="sm_90",
        budget=None,
    )
    assert result.verdict == "estimate"
    assert result.evaluations == 4


def call(grid, **sizes):
    return Call({**sizes, "BM": 16, "BN": 16}, [], [], grid, {})


def test_a_grid_follows_sizes_and_blocks():
    rules = Rules([call((12,), M=40, N=60), call((2,), M=17, N=3)], ["BM", "BN"])
    assert rules.grids({"BM": 8, "BN": 16}) == [[(20,), (3,)], [(24,), (2,)]]  # either block may be of either size
    rules.keep({"BM": 8, "BN": 16}, (20,))
    assert rules.grids({"BM": 16, "BN": 32}) == [[(6,), (2,)]]
    assert Rules([call((7,), M=40)], ["BM"]).grids({"BM": 8}) == [[(7,)]]  # a constant


def test_blocks_that_cover_all_may_need_more_programs_when_they_are_smaller():
    rules = Rules([call((1,), M=14, N=10)], ["BM", "BN"])
    for smaller in ({"BM": 8, "BN": 16}, {"BM": 16, "BN": 8}):
        assert [(2,)] in rules.grids(smaller)
        rules.keep(smaller, (2,))
    assert rules.grids({"BM": 8, "BN": 8}) == [[(4,)]]


def test_a_launch_that_fails_is_listed_with_its_error():
    with tune.capture() as seen, pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
        theirs.pair_sum[(1,)]((floats(4), floats(4)), floats(4), BLOCK=4)
    assert len(seen) == 0  # it was not launched
    with tune.capture() as seen, pytest.raises(ValueError, match="range"):
        theirs.pair_sum[(1,)]((floats(4), floats(4)), floats(4), 4, BLOCK=3)
    assert "not recorded: it failed: ValueError" in str(seen)
    with pytest.raises(Unknown, match="pair_sum: it failed: ValueError"):
        seen.problem()


@triton.jit
def far_away(x, out, distance, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * distance))


@pytest.mark.parametrize("distance", [1 << 58, -(1 << 60), -(1 << 40)])
def test_addresses_beyond_the_last_one_are_none_of_its_arguments(distance):
    x, out = floats(4), floats(4)
    with tune.capture() as seen:
        far_away[(1,)](x, out, distance, BLOCK=4)
    assert out.tolist() == [x[0], 0.0, 0.0, 0.0]
    assert "3 of 4 unmasked lanes" in seen.launches[0].refused


def test_an_expanded_array_is_named():
    grad = np.broadcast_to(np.ones(1, np.float32), (100,))
    with tune.capture() as seen:
        theirs.scaled[(2,)](grad, floats(100), 64, 100, 2.0)
    with pytest.raises(Unknown, match=r"Remedy: \.contiguous\(\) for x, expanded to more elements than its memory has"):
        seen.problem()


def test_launches_of_all_threads_are_recorded_and_others_run_as_ever_afterwards():
    outs = []

    def launch():
        for _ in range(5):
            outs.append(theirs.total(floats(300)))

    threads = [threading.Thread(target=launch) for _ in range(3)]
    with tune.capture() as seen:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert (len(outs), sum(each.count for each in seen)) == (15, 15)
    assert all(each.roles == {"x": "in", "total": "atomic"} for each in seen)
    assert {each.config["BLOCK"] for each in seen} == {128}


def test_who_asks_what_a_launch_would_be_hears_of_its_own_thread_alone():
    with tune.capture() as seen:
        theirs.scale(floats(300))
    (launch,) = seen
    out = np.empty(3, np.float32)
    kind = type(theirs.scaled)
    stock, ran = kind.run, []
    kind.run = lambda self, *args, **named: ran.append(self)
    try:
        with hooked(seen, alone=True):
            other = threading.Thread(target=lambda: theirs.scaled[(1,)](out, out, 64, 3, 1.0))
            other.start()
            other.join()
            _, grid = again(seen, launch, {"BLOCK": 32})
        assert (grid, len(ran), len(seen)) == ((5,), 1, 1)
    finally:
        kind.run = stock


def test_captures_that_end_in_any_order_leave_nothing():
    kind, seen = type(theirs.scaled), tune.Captured()
    before = kind.run
    first, second = hooked(seen), hooked(seen, alone=True)
    first.__enter__(), second.__enter__()
    with pytest.raises(RuntimeError, match="another capture is open"), tune.capture():
        pass
    first.__exit__(None, None, None)
    assert kind.run is not before
    second.__exit__(None, None, None)
    assert kind.run is before


@triton.jit
def waits(x, out, n, BLOCK: tl.constexpr):
    done = 0
    while done < n:  # for ever with a block of another size
        done += 64 if BLOCK == 64 else 0
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@pytest.mark.by_turns
def test_a_proposal_that_hangs_is_not_waited_for():
    with tune.capture() as seen:
        waits[(1,)](floats(64), floats(64), 64, BLOCK=64)
    problem = seen.problem(target="sm_90")
    assert problem.space.names == ("num_warps", "num_stages")
    assert "BLOCK stays 64: checking had no result after" in " ".join(problem.notes)


def test_words_for_masks_are_elementwise_as_to_the_compiler():
    x, out = floats(5, 7), np.zeros((5, 7), np.float32)
    with tune.capture() as seen:
        theirs.words_for_masks[(1,)](x, out, 5, 7, BLOCK=8)
    right = x.copy()
    right[0], right[:, 0] = 1.0, 1.0
    np.testing.assert_array_equal(out, right)
    assert seen.launches[0].roles == {"x": "in", "out": "out"}


def test_a_function_that_was_copied_under_another_name():
    x, out = floats(32), np.zeros(32, np.float32)
    kernel = theirs.activated_by(theirs.halved)
    with tune.capture() as seen:
        kernel[(2,)](x, out, BLOCK=16)
    np.testing.assert_array_equal(out, 0.5 * x)
    assert seen.launches[0].name == "activated_by_halved"
    assert not why(seen.problem("activated_by_halved", target="sm_90"), {"BLOCK": 8})


def test_where_programs_follow_one_another_a_whole_program_is_asked_for():
    with tune.capture() as seen:
        theirs.handed_on[lambda config: (32 // config["BLOCK"],)](floats(32), np.zeros(32, np.float32))
    assert seen.launches[0].roles == {"x": "in", "out": "out"}
    problem = seen.problem(target="sm_90")
    assert "problem(..., program=f) judges configs by what f returns" in problem.notes[-1]
    assert "results are wrong" in why(problem, {"BLOCK": 16})


def test_the_variable_of_a_loop_can_be_cast():
    x, out = floats(5, 7), np.zeros(7, np.float32)
    with tune.capture():
        theirs.sum_of_rows[(1,)](x, out, 5, 7, BLOCK=8)
    np.testing.assert_allclose(out, x.sum(0) + 15, rtol=1e-5)
    with tune.capture():
        theirs.every_third[(1,)](x := floats(2, 4), out := np.zeros(4, np.float32), 4, 0.5, BLOCK=4)
    np.testing.assert_allclose(out, 2 * x.sum(0) + 8, rtol=1e-5)  # rows 0, 0, 1 and 1


def test_a_kernel_with_a_gpu_s_instructions_is_refused_with_what_to_do():
    x = np.zeros(8, np.int32)
    said = "assembled: it has instructions of a GPU in its text .* Remedy: where a GPU is connected"
    with pytest.raises(Unknown, match=said), tune.capture() as seen:
        theirs.assembled[(1,)](x, x.copy(), BLOCK=8)
    with pytest.raises(Unknown, match=said):
        seen.problem()
