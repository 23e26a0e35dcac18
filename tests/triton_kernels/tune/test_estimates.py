"""Figures that follow from others by a formula, against what a person reckons by hand: estimates, occupancy, limits of
error, races and intervals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.resources import Resources
from triton_kernels.tune import own
from triton_kernels.tune.declared import each, of_products, of_rows
from triton_kernels.tune.devices import DEVICES, occupancy
from triton_kernels.tune.measure import Failed, judge, tolerance
from triton_kernels.tune.measure_static import estimate_ms, facts_of
from triton_kernels.tune.measure_triton import TritonMeasure
from triton_kernels.tune.race import interval, race, student_t

from .test_own import problem

H100 = DEVICES["sm_90"]  # 132 multiprocessors, 64 warps on each, 3.35 TB/s, 67 TFLOP/s in float32
MS_OF_BYTES, MS_OF_FLOPS = 3.35e9, 67e9


@pytest.mark.parametrize(("moved", "flops", "programs", "shared", "ms"), [
    (MS_OF_BYTES, 0.0, 132 * 16, 0, 1.0),  # 16 blocks of 4 warps fill all 64
    (3 * MS_OF_BYTES, 0.0, 132 * 16, 0, 3.0),
    (0.0, MS_OF_FLOPS, 132 * 16, 0, 1.0),
    (MS_OF_BYTES, 2 * MS_OF_FLOPS, 132 * 16, 0, 2.0),  # whichever takes longer
    (MS_OF_BYTES, 0.0, 132 * 16 + 1, 0, 2 * 2112 / 2113),  # one block more is a second wave
    (MS_OF_BYTES, 0.0, 132 * 4, 0, 1.0),  # a quarter of the warps keeps it busy
    (MS_OF_BYTES, 0.0, 132 * 2, 0, 2.0),
    (MS_OF_BYTES, 0.0, 132, 0, 4.0),
    (MS_OF_BYTES, 0.0, 66, 0, 8.0),  # half of the multiprocessors stand still
    (MS_OF_BYTES, 0.0, 132, 1 << 15, 2.0),  # or so many bytes on their way
    (MS_OF_BYTES, 0.0, 132, 1 << 16, 1.0),
])  # fmt: skip
def test_the_estimate_is_the_rooflines(moved: float, flops: float, programs: int, shared: int, ms: float) -> None:
    full = occupancy(H100, 32, shared, 4)
    assert estimate_ms(H100, "float32", flops, moved, programs, 4, full, shared) == pytest.approx(ms)
    if not shared:
        assert estimate_ms(H100, "float32", flops, moved, programs, 4, full) == pytest.approx(ms)


@pytest.mark.parametrize(("target", "registers", "shared", "warps", "blocks", "share", "limit"), [
    ("sm_90", 32, 0, 4, 16, 1.0, "warps"),
    ("sm_90", 33, 0, 4, 12, 0.75, "registers"),  # they are handed out by 8 a lane, in four partitions
    ("sm_90", 128, 0, 4, 4, 0.25, "registers"),
    ("sm_90", 16, 0, 1, 32, 0.5, "blocks"),
    ("sm_90", 32, 100 * 1024, 4, 2, 0.125, "shared memory"),
    ("sm_90", 32, 113 * 1024, 4, 2, 0.125, "shared memory"),  # with 1 KiB for the system each, of 228
    ("sm_90", 32, 113 * 1024 + 1, 4, 1, 0.0625, "shared memory"),
    ("sm_86", 32, 0, 4, 12, 1.0, "warps"),
    ("gfx942", 32, 0, 4, 8, 1.0, "warps"),
    ("gfx942", 32, 0, 1, 16, 0.5, "blocks"),
    ("gfx942", 256, 0, 1, 8, 0.25, "registers"),
    ("gfx942", 32, 32 * 1024, 1, 2, 0.0625, "shared memory"),  # nothing for the system
])  # fmt: skip
def test_what_allows_no_more_blocks(
    target: str, registers: int, shared: int, warps: int, blocks: int, share: float, limit: str
) -> None:
    found = occupancy(DEVICES[target], registers, shared, warps)
    assert (found.blocks, found.share, found.limit) == (blocks, share, limit)


def test_spilled_registers_are_moved_twice() -> None:
    plain = facts_of(Resources(32, 0, 0), "sm_90", "float32", 1e6, 1e9, 264, 4)
    spilt = facts_of(Resources(32, 0, 8), "sm_90", "float32", 1e6, 1e9, 264, 4)
    assert (plain["bytes"], spilt["bytes"]) == (1e9, 1e9 + 2 * 8 * 32 * 4 * 264)
    assert (plain["bound_by"], plain["occupancy"], plain["limited_by"]) == ("memory", 1.0, "warps")
    assert (plain["registers"], plain["shared_bytes"], spilt["spill_bytes"], plain["programs"]) == (32, 0, 8, 264)
    full = occupancy(H100, 32, 0, 4)
    assert plain["estimate_ms"] == estimate_ms(H100, "float32", 1e6, 1e9, 264, 4, full)
    assert facts_of(Resources(32, 0, 0), "sm_90", "float32", 21e9, 1e9, 264, 4)["bound_by"] == "arithmetic"
    with pytest.raises(Failed, match="no block fits a multiprocessor of sm_90 for its registers: 255 registers a"):
        facts_of(Resources(255, 0, 0), "sm_90", "float32", 1e6, 1e9, 264, 32)


def test_the_work_of_a_kernel() -> None:
    assert each(2, 3)((4, 5), 4, {}) == (60, 160)
    rows = of_rows(2, 3, 5)
    assert rows((4, 100), 4, {"BLOCK": 128}) == (5 * 4 * 128, 2 * 4 * 400)  # lanes beyond a row's end reckon too
    assert rows((4, 100), 4, {"BLOCK": 100}) == (5 * 4 * 100, 2 * 4 * 400)
    assert rows((4, 100), 4, {"BLOCK": 64}) == (5 * 4 * 128, 3 * 4 * 400)  # longer rows are read again

    def tiles(m: int, n: int, k: int) -> dict[str, int]:
        return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}

    products = of_products(lambda shape: shape)
    assert products((64, 64, 64), 4, tiles(32, 32, 32)) == (2 * 64**3, 4 * 3 * 64**2)  # each operand once
    flops, moved = products((64, 64, 64), 4, tiles(2, 4, 8))  # small tiles read them again and again, from L2
    assert (flops, moved) == (2 * 64**3, pytest.approx(4 * 64**3 * (1 / 2 + 1 / 4) / 3))
    flops, moved = products((65, 33, 17), 2, tiles(32, 16, 8))
    assert (flops, moved) == (2 * 96 * 48 * 24, 2 * (65 * 17 + 17 * 33 + 65 * 33))
    quarter = of_products(lambda shape: shape, second=0.25)
    assert quarter((64, 32, 16), 4, tiles(32, 32, 16))[1] == 4 * (64 * 16 + 0.25 * 16 * 32 + 64 * 32)
    assert quarter((64, 64, 64), 4, tiles(2, 4, 8))[1] == pytest.approx(4 * 64**3 * (0.25 / 2 + 1 / 4) / 3)


def test_how_much_a_sum_may_be_off() -> None:
    assert tolerance("float32", 4) == 32 * 2.0**-24
    assert tolerance("float64", 9) == 40 * 2.0**-53
    assert tolerance("float16", 4) == 4 * 2.0**-11 + 16 * 2.0**-24
    assert tolerance("bfloat16") == 4 * 2.0**-8 + 8 * 2.0**-24


def test_every_result_beyond_the_limit_is_counted() -> None:
    right = np.ones(4)
    assert judge(np.array([1.0, 1.0, 1.5, 0.5]), right, right, 0.5) == 1.0  # just what is allowed
    with pytest.raises(Failed, match=r"3 of 4 results are wrong; the worst at \(3,\): 2.5 instead of 1, 3 times what"):
        judge(np.array([1.0, 1.75, 0.25, 2.5]), right, right, 0.5)
    assert judge(np.array([0.0, 2.0**-24]), np.zeros(2), np.zeros(2), 0.5, 2.0**-24) == 1.0
    both = np.array([np.nan, np.inf, -np.inf, 0.0])
    assert judge(both, both, right, 1e-6) == 0.0


@pytest.mark.parametrize(("ratios", "count", "lost"), [
    ([1.06] * 16, 4, True), ([1.061] * 16, 2, True), ([1.0, 1.061] + [1.0] * 14, 16, False),
    ([1.015] * 16, 8, True), ([1.016] * 16, 4, True), ([1.0] + [1.016] * 15, 4, True),
    ([1.0] * 2 + [1.016] * 14, 8, True),
    ([1.009] * 16, 8, True), ([1.0] * 16, 16, False), ([1.0] * 5 + [1.02] * 3 + [1.0] * 8, 16, False),
    ([0.9] * 8 + [1.5] * 8, 16, False),
])  # fmt: skip
def test_when_a_config_has_lost(ratios: list[float], count: int, lost: bool) -> None:
    left = iter(ratios)
    asked = []

    def pairs(number: int) -> tuple[list[float], list[float]]:
        asked.append(number)
        return [2 * next(left) for _ in range(number)], [2.0] * number

    found = race(pairs)
    assert (found.count, found.lost) == (count, lost)
    assert found.ratio == pytest.approx(np.median(ratios[:count]))
    assert found.samples == tuple(2 * ratio for ratio in ratios[:count])
    assert asked == [2, 2, 4, 8][: len(asked)]


@pytest.mark.parametrize(("freedom", "p", "t"), [
    (1, 0.975, 12.706), (2, 0.975, 4.303), (3, 0.975, 3.182), (5, 0.975, 2.571), (10, 0.95, 1.812), (30, 0.995, 2.750),
])  # fmt: skip
def test_students_distribution_as_tables_have_it(freedom: int, p: float, t: float) -> None:
    assert student_t(freedom, p) == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize(("count", "low", "high"), [(1, 1, 1), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 1, 9), (12, 2, 11),
                                                    (20, 5, 16), (100, 40, 61)])  # fmt: skip
def test_intervals_by_order(count: int, low: int, high: int) -> None:
    """The ranks as tables of the sign test have them, or one more on each side."""
    values = np.arange(count, 0, -1)
    assert interval(values) == ((count + 1) / 2, low, high)


def clock(*times: float) -> SimpleNamespace:
    """A clock that was looked at so many times."""
    return SimpleNamespace(perf_counter=iter(times).__next__, monotonic=iter(times).__next__)


def test_building_takes_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_kernels.tune import measure_triton

    config = {"SKIP": 0, "BLOCK": 64, "num_warps": 4}
    monkeypatch.setattr(own, "time", clock(10.0, 10.25))
    measure = problem().measure
    measure.kind = "interpret"
    built = measure.build(config)
    assert built.compile_ms == 250.0
    monkeypatch.setattr(measure_triton, "time", clock(10.0, 10.25))
    assert TritonMeasure("softmax_kernel", (4, 4), "float32").build(config).compile_ms == 250.0


@pytest.mark.parametrize(("took", "again"), [(2.0, True), (2.1, False)])
def test_a_check_that_takes_long_is_left_to_the_finalists(
    monkeypatch: pytest.MonkeyPatch, took: float, again: bool
) -> None:
    asked = []

    class Interpreter:
        def __init__(self, measure: object) -> None:
            assert measure.kind == "interpret"  # type: ignore[attr-defined]

        def call(self, name: str, config: object, limit_s: float) -> float:
            asked.append((name, limit_s))
            return 0.25

    monkeypatch.setattr(own, "Worker", Interpreter)
    monkeypatch.setattr(own, "time", clock(100.0, 100.0 + took))
    measure = problem().measure
    measure._interpreter, measure._check_s = None, 0.0
    assert measure.check({"BLOCK": 64}) == 0.25
    assert asked == [("check", 50.0), ("check", 50.0)]  # once more, since the process had to be started too
    assert measure.check({"BLOCK": 256}) == (0.25 if again else 0.0)
    assert asked[2:] == ([("check", pytest.approx(1.0 + 10.0 * took))] if again else [])
