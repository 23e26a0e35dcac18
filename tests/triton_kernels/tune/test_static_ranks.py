"""How well estimates order what was recorded: the committed figures, and the parts that they are made of."""

from __future__ import annotations

import json
from statistics import median

import numpy as np
import pytest

from triton_kernels.tune import static_ranks
from triton_kernels.tune.counting import SAMPLED, counted, pointers
from triton_kernels.tune.estimates import AGREED, LEAST, Launched, correlation, time_ms, trust
from triton_kernels.tune.estimates import Constants as Fitted
from triton_kernels.tune.measure_static import fed
from triton_kernels.tune.own import OwnMeasure
from triton_kernels.tune.static_ranks import counts_at
from triton_kernels.tune.texts import made
from triton_kernels.tune.worker import Worker

from .test_estimates import H100, occupancy


def test_the_committed_constants_order_what_was_recorded() -> None:
    spaces = static_ranks.recordings()
    assert len(spaces) == AGREED[3] >= 6
    found = [ways[0].correlation for ways in static_ranks.left_out(spaces, tries=400)]
    assert (min(found), median(found), max(found)) == pytest.approx(AGREED[:3], abs=0.05)
    for ways in static_ranks.as_committed(spaces):
        static, before, roof, chance = ways
        assert static.correlation > max(before.correlation, roof.correlation, chance.correlation), static
        assert static.ten <= min(roof.ten, chance.ten)
        assert chance.correlation == 0.0
    assert sum(ways[0].correlation < LEAST for ways in static_ranks.as_committed(spaces)) <= 1


@pytest.mark.by_turns
def test_a_product_of_large_matrices_is_not_given_tiny_tiles(tmp_path, monkeypatch) -> None:
    """As it was while each array was counted once: 16 x 32 with one warp came first, having the most programs."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    n = 2048
    measure = OwnMeasure(
        static_ranks.PRODUCT, "product",
        {name: np.zeros((n, n), np.float16) for name in ("a_ptr", "b_ptr", "c_ptr")}
        | {"M": n, "N": n, "K": n, "am": n, "ak": 1, "bk": 1, "bn": n, "cm": n, "cn": 1, "GROUP_M": 8},
        {}, {}, "float16",
    )  # fmt: skip
    estimates = []
    with Worker(measure) as worker:
        for m, k, deep, warps in ((16, 32, 32, 1), (64, 64, 32, 4), (128, 128, 64, 8)):
            config = {"BLOCK_M": m, "BLOCK_N": k, "BLOCK_K": deep, "num_warps": warps, "num_stages": 3}
            measure.grids[tuple(sorted(config.items()))] = (n // m * (n // k),)
            worker.renew()
            facts = worker.call("build", config, limit_s=120.0).facts
            assert facts["flops"] == 2.0 * n**3
            assert facts["asked"] == 2 * (n * n * n * (1 / m + 1 / k) + n * n)
            estimates.append(facts["estimate_ms"])
    assert estimates == sorted(estimates, reverse=True)
    assert estimates[0] > 3.0 * estimates[2]


def test_a_file_is_written_as_it_was_read() -> None:
    content = json.loads(static_ranks.RECORDED.read_text())
    assert static_ranks.written(content) == static_ranks.RECORDED.read_text()


@pytest.mark.parametrize(("shape", "tile"), [((64, 96, 64), (32, 32, 16)), ((70, 50, 33), (16, 32, 32))])
def test_what_is_counted_is_what_the_formula_says(shape: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    kernel = made(static_ranks.PRODUCT, "product")
    m, n, k = shape
    bm, bn, bk = tile
    flops, asked, programs = counts_at(shape, "float32", *tile)
    named = dict(zip(kernel.arg_names, [*pointers(["fp32"] * 3), m, n, k, k, 1, 1, k, n, 1], strict=False))
    named |= {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8}
    found = counted(kernel, named, (programs,))
    assert found.flops == flops
    assert found.loaded == asked - 4 * m * n
    assert found.stored == pytest.approx(4 * m * n, rel=0.5)  # some tiles are cut off by the edge: three are counted
    assert found.idle == 0.0
    assert SAMPLED == 3


def test_ranks_of_equal_values() -> None:
    assert correlation([1, 1, 1], [3, 2, 1]) == 0.0
    assert correlation([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1.0)
    assert correlation([3, 2, 1], [1, 2, 3]) == pytest.approx(-1.0)


@pytest.mark.parametrize(("change", "ms"), [
    ({}, 1.0),  # 132 programs that wait 1,000 times for their 16 KiB, 1,000 ns each
    ({"flying": 8192.0}, 2.0),
    ({"flying": 1e9, "asked": 132 * 16384e3 * 10}, 132 * 16384e4 / 3.35e12 * 1e3),  # what passes through L2
    ({"flops": 132 * 7.5e9 * 0.0 + 67e9 * 3, "flying": 1e9, "asked": 1.0}, 3.0),
    ({"flops": 67e9 * 3, "flying": 1e9, "asked": 1.0, "fed": 1.0}, 6.0),  # a byte an operation: half of them a second
    ({"flops": 67e9 * 3, "pipelined": False}, 4.0),  # first its loads, then its arithmetic
    ({"programs": 133, "asked": 133 * 16384e3}, 2.0),  # one more is a second wave
    ({"moved": 3.35e9 * 5}, 5.0),
])  # fmt: skip
def test_a_launchs_time(change: dict[str, float], ms: float) -> None:
    full = occupancy(H100, 255, 200 * 1024, 4)
    plain = {"dtype": "float32", "flops": 0.0, "moved": 0.0, "asked": 132 * 16384e3, "programs": 132, "num_warps": 4,
             "flying": 16384.0, "full": full}  # fmt: skip
    launched = Launched(**{**plain, **change})  # type: ignore[arg-type]
    assert time_ms(H100, launched, Fitted(1000.0, 1.0, 1.0, 1.0, 0.0)) == pytest.approx(ms)


@pytest.mark.parametrize(("ptx", "bytes_"), [
    ("", 0.0),
    ("add.f32 %f1; ld.shared.b32 %r1;", 0.0),
    ("ld.shared.b32 %r1, [%r2]; ld.shared.v4.b32 {%r1}, [%r2]; fma.rn.f32 %f1; fma.rn.f32 %f2;", 5.0),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {}; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {};", 0.125),
    ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {};", (64 + 128) * 16 * 2 / (2 * 64 * 128 * 16)),
])  # fmt: skip
def test_what_feeds_an_operation(ptx: str, bytes_: float) -> None:
    assert fed(ptx) == bytes_


def test_who_is_told_that_an_order_is_no_advice() -> None:
    assert "rank correlation of 0.52 to 0.92, 0.81 in the middle" in trust(1.0, 1.0)
    assert "products of matrices alone have been compared" in trust(0.0, 1.0)
    assert "was not counted" in trust(1.0, 0.0)
    assert all("no advice" in trust(*counted) for counted in ((0.0, 1.0), (0.0, 0.0), (1.0, 0.0)))


def test_of_equal_estimates_none_is_first() -> None:
    space = static_ranks.recordings()[1]
    same = static_ranks.ranked("", space, [1.0] * len(space.contestants))
    mean = np.mean([c.ms for c in space.contestants]) / min(c.ms for c in space.contestants) - 1.0
    assert same.first == pytest.approx(mean, rel=0.2)
