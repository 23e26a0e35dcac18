"""What shapes, budgets, spaces, intervals and files say, word by word."""

from __future__ import annotations

import datetime
import gzip
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import events as ev
from triton_kernels.tune import exchange, recall
from triton_kernels.tune import problem as problems
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.race import interval, interval_over, standing
from triton_kernels.tune.session import seconds_of
from triton_kernels.tune.space import Constraint, Space, Tunable, as_config, powers_of_two
from triton_kernels.tune.store import Store
from triton_kernels.tune.table import Table

# -- shapes, budgets, spaces -------------------------------------------------------------------------------------------


def test_shapes_by_their_words():
    assert problems.parse_shape("2147483647") == (2147483647,)
    for wrong in ("2147483648", "0", "4x0", (3, -1), "65536x" * 3 + "65536", (1 << 31,)):
        with pytest.raises(Unknown, match="every size of a shape is from 1 to 2147483647"):
            problems.parse_shape(wrong)
    assert problems.parse_shape((1 << 20, 1 << 20)) == (1 << 20, 1 << 20)
    assert problems.fit_axes("k", ("items",), (3, 4)) == (12,)
    assert problems.fit_axes("k", ("rows", "columns"), (2, 3, 4)) == (6, 4)
    assert problems.fit_axes("k", ("rows", "columns"), (4,)) == (1, 4)
    with pytest.raises(Unknown, match="k takes a shape MxNxK, 3 sizes; came: 3x4"):
        problems.fit_axes("k", ("m", "n", "k"), (3, 4))
    assert len(problems.hash_of("x")) == 16


def test_budgets_by_their_words():
    for text, seconds in (("2min", 120.0), ("0.5h", 1800.0), (" 3 s ", 3.0), ("4", 4.0), (0.25, 0.25), ("2m", 120.0)):
        assert seconds_of(text) == seconds
    with pytest.raises(ValueError, match="a budget is a positive time such as 60s, 5m or 1h; came: '0s'"):
        seconds_of("0s")


def test_tunables_their_neighbours_and_places():
    t = Tunable("A", (1, 2, 8, 16), 2)
    assert [t.neighbours(v) for v in t.values] == [(2,), (1, 8), (2, 16), (8,)]
    assert [t.encode(v) for v in t.values] == [0.0, 0.25, 0.75, 1.0]
    assert Tunable("A", (0, 1, 3), 0)._places().tolist() == [0.0, 0.5, 1.0]  # 0 has no logarithm
    assert Tunable("A", (4,), 4)._places().tolist() == [0.0]
    assert Tunable("A", (-1, 4), 4)._places().tolist() == [0.0, 1.0]
    assert Tunable("A", (True, False), True)._places().tolist() == [0.0, 1.0]
    assert Tunable("A", ("x", "y"), "x").coordinates().tolist() == [[0.0], [1.0]]
    assert Tunable("A", ("x", "y", 3), "x").coordinates().tolist() == (np.eye(3) * math.sqrt(0.5)).tolist()
    twos = Tunable("A", (96, 100, 1 << 10, 3 << 9), 96).coordinates()
    assert twos[:, 1] == pytest.approx([(5 - 2) / 6, 0.0, 1.0, 1.0])  # 2^10 and 2^9 count as 2^8
    assert Tunable("A", (1, 2, 4), 1).coordinates().shape == (3, 1)
    assert Tunable("A", (3, 5, 7), 3).coordinates().shape == (3, 1)  # odd, all of them
    assert Tunable("A", (3, 4), 3).coordinates().shape == (2, 1)
    assert Tunable("A", (0, 3, 4), 3).coordinates().shape == (3, 1)
    for values, default, said in (
        ((1, 1), 1, "distinct and at least one"),
        ((), 1, "distinct"),
        ((1,), 2, "none of its"),
    ):
        with pytest.raises(ValueError, match=said):
            Tunable("A", values, default)
    assert powers_of_two("A", 4, 4, 4).values == (4,)
    for low, high in ((0, 4), (3, 8), (8, 4)):
        with pytest.raises(ValueError, match="needs powers of two with low <= high"):
            powers_of_two("A", low, high, 4)


def test_configs_near_a_config():
    odd = Constraint("not both odd", lambda c: not (c["A"] % 2 and c["B"] % 2))
    space = Space([Tunable("A", (1, 2, 3), 2), Tunable("B", (1, 2, 3), 2)], [odd])
    assert space.neighbours({"A": 2, "B": 1}) == [{"A": 2, "B": 2}]
    assert space.around({"A": 2, "B": 1}) == [{"A": 2, "B": 2}, {"A": 2, "B": 3}]
    assert space.encode({"A": 1, "B": 3}) == (0.0, 1.0)
    assert space.with_default({"A": 1, "B": 2}).default == {"A": 1, "B": 2}
    beyond = space.beyond({"A": 2, "B": 2}, np.random.default_rng(0), 50)
    assert 20 < len(beyond) < 50
    assert all(space.rejected(c) is None for c in beyond)
    assert len({tuple(c.items()) for c in beyond}) == 5
    only = Space.of([{"A": 1, "B": 2}, {"A": 2, "B": 2}, {"A": 3, "B": 1}])
    assert only.neighbours({"A": 1, "B": 2}) == [{"A": 2, "B": 2}]
    assert only.around({"A": 1, "B": 2}) == [{"A": 2, "B": 2}]
    assert only.beyond({"A": 1, "B": 2}, np.random.default_rng(0), 9) != []
    wide = Space([Tunable(n, (0, 1), 0) for n in "ABCDE"])
    changed = [sum(c.values()) for c in wide.beyond(wide.default, np.random.default_rng(1), 300)]
    assert max(changed) == 3  # two or three tunables
    assert wide.complete(None) == wide.default
    assert wide.complete({"B": 1}) == {**wide.default, "B": 1}
    with pytest.raises(ValueError, match="no tunable named X, Y; the tunables are A, B, C, D, E"):
        wide.complete({"X": 1, "Y": 2})
    with pytest.raises(ValueError, match="breaks a constraint: not both odd"):
        space.complete({"A": 1, "B": 1})
    with pytest.raises(ValueError, match="names each tunable once, got A, A"):
        Space([Tunable("A", (1,), 1)] * 2)
    with pytest.raises(ValueError, match=r"the default .* breaks a constraint: not both odd"):
        space.with_default({"A": 1, "B": 1})


def test_what_a_triton_config_sets_besides():
    def config(block, **rare):
        return SimpleNamespace(kwargs={"B": block}, num_warps=4, num_stages=2, **rare)

    assert as_config(config(8)) == {"B": 8, "num_warps": 4, "num_stages": 2, "num_ctas": 1, "maxnreg": None}
    assert Space.of([config(8), config(16)]).names == ("B", "num_warps", "num_stages")
    some = Space.of([config(8), config(16, maxnreg=64)])
    assert some.names == ("B", "num_warps", "num_stages", "maxnreg")
    assert some.default["maxnreg"] is None
    assert Space.of([config(8, num_ctas=2), config(8, num_ctas=1)]).tunables[3].values == (1, 2)
    assert Space.of([{"B": 1, "num_ctas": 1}]).names == ("B", "num_ctas")
    for configs, said in (([], "at least one config"), ([{"A": 1}, {"B": 1}], "must name the same tunables"),
                          ([config(8, pre_hook=print)], "has a pre_hook")):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            Space.of(configs)


def test_which_spaces_are_enumerated():
    tens = [Tunable(n, tuple(range(10)), 0) for n in "AB"]
    few = [Constraint("few", lambda c: c["A"] == 0)]
    assert (Table(Space(tens), limit=100).complete, len(Table(Space(tens), limit=100))) == (True, 100)
    assert Table(Space(tens), limit=99).complete is False
    assert (Table(Space(tens, few), limit=10).complete, Table(Space(tens, few), limit=9).complete) == (True, False)
    listed = Space.of([{"A": k} for k in range(30)])
    assert Table(listed, limit=30).complete is True
    drawn = Table(listed, limit=29)
    assert (drawn.complete, len(drawn), drawn.config(drawn.default)) == (False, 29, {"A": 0})
    assert drawn.add([{"A": 0}, drawn.config(3)]).tolist() == []
    new = next(k for k in range(30) if drawn.find({"A": k}) is None)
    assert drawn.add([{"A": new}, {"A": new}]).tolist() == [29]
    assert (drawn.config(29), drawn.points[29].tolist()) == ({"A": new}, drawn.coordinates[0][new].tolist())
    assert Table(Space([Tunable("A", (3,), 3), Tunable("B", (1, 2), 2)])).varied == [1]
    assert Table(Space([Tunable("A", (3,), 3)])).varied == [0]
    assert drawn.find({"A": [1]}) is None


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_intervals_over_processes_by_hand():
    values = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    middle, low, high = interval_over(values, [2, 2, 2])
    logs = np.log([1.0, 2.0, 4.0])
    half = 4.3026527 * logs.std(ddof=1) / math.sqrt(3)
    assert middle == pytest.approx(2.0)
    assert low == pytest.approx(math.exp(logs.mean() - half), rel=1e-4)
    assert high == pytest.approx(math.exp(logs.mean() + half), rel=1e-4)
    assert interval_over(values, [6]) == interval(values)
    two = math.log(4.0) / 2
    assert interval_over([1.0, 1.0, 4.0, 4.0], [2, 2])[2] == pytest.approx(2.0 * math.exp(12.7062047 * two), rel=1e-3)
    # of six processes and one comparison the least and the greatest are it
    assert interval_over([5.0, 1.0, 2.0, 3.0, 4.0, 6.0], [1] * 6) == (3.5, 1.0, 6.0)
    assert interval_over([5.0, 1.0, 2.0, 3.0, 4.0], [1] * 5)[0] == pytest.approx(120**0.2)  # the logarithms' mean
    assert interval_over([1e-300, 1.0, 1e300], [1] * 3)[2] == math.exp(700.0)
    wide = [1.0] * 9 + [9.0] * 9 + [5.0] * 2
    assert interval_over([*wide, *wide], [20, 20])[1:] == interval([*wide, *wide])[1:]  # never narrower than of all
    assert interval_over(values, [2, 2, 2], 5)[2] > high


@pytest.mark.parametrize(("ratio", "noise", "verdict", "winner"), [
    (0.5, 0.0, "faster", 1), (1.0, 0.0, "default", 0), (2.0, 0.0, "default", 0), (0.98, 0.5, "noisy", 0),
    (0.995, 0.5, "default", 0),
])  # fmt: skip
def test_verdicts_of_a_final(ratio, noise, verdict, winner):
    mine = [ratio * (1 + noise * (k % 2 * 2 - 1) * (k > 1)) for k in range(9)]
    found = standing([[1.0] * 9, mine, [3.0] * 9])
    assert (found.verdict, found.winner) == (verdict, winner)
    assert found.times_ms == pytest.approx([1.0, float(np.median(mine)), 3.0])
    low, high = interval(mine, 2)[1:]
    assert found.width == pytest.approx((high - low) / 2)
    assert found.ties == ([1] if winner == 0 and low <= 1.0 <= high else [])


# -- results in words --------------------------------------------------------------------------------------------------


def test_how_the_best_stands_to_the_vendors_library():
    def words(best, time_ms=1.0):
        return ev.Vendor("BLAS", time_ms, 1.0, 1.0, 1.0, best, 1.0).in_words()

    assert words((1.2, 1.001, 1.3)).startswith("Nothing tried beats BLAS: the best takes 1.20 times")
    assert words((1.2, 1.0, 1.3)) == "As fast as BLAS, as far as can be told: 1.20 of its time (95 %: 1.00 to 1.30)"
    assert words((0.5, 0.4, 0.8)) == "2.00 times as fast as BLAS (95 %: 1.25 to 2.50)"
    assert words((0.9, 0.8, 1.0)).startswith("As fast as BLAS")
    assert words((0.5, 0.4, 0.8), 3.0).startswith("2.00 times")
    starved = "BLAS cannot be compared with on a machine as busy: it took 1 ms at best and 3.1 ms in the middle"
    assert words((0.5, 0.4, 0.8), 3.1).startswith(starved)


def test_the_commonest_reasons():
    wrong = [ev.Rejected({"A": k, "B": 1}, "correctness", "no") for k in range(26)]
    late = [ev.Rejected({}, "timeout", f"after {k}.5 s") for k in range(3)]
    other = [ev.Rejected({}, "compile", f"error {'abcdefghij'[k]}") for k in range(10)]
    found = ev.reasons_of([*wrong, *late, *other])
    assert found[0] == ("correctness: A=0 B=1: no", 1)
    assert found[23] == ("correctness: A=23 B=1: no", 1)
    assert found[24:26] == (("timeout: after 0.5 s", 3), ("correctness: no", 2))
    assert len(found) == 24 + 8


def test_results_go_out_and_come_back(tmp_path):
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 500_000, datetime.UTC).timestamp()
    key = {"kernel": "k", "source": "s", "device": "d", "shape": [8, 4], "dtype": "float32", "mode": "m"}
    trials = [
        {"config": {"B": 2, "A": 1}, "status": "correct", "median_ms": 2.0, "samples": [1.0, 2.0, 4.0],
         "compile_ms": 7.0, "at": at, "n": 3, "ratio": 1.0, "reason": ""},
        {"config": {"A": 1, "B": 2}, "status": "runtime", "median_ms": None, "reason": "gone", "at": at - 1},
        {"config": {"B": 3, "A": 1}, "status": "compile", "median_ms": None, "reason": "no", "at": at + 1},
        {"config": {"B": 4, "A": 1}, "status": "timeout", "median_ms": None, "reason": "late", "at": at + 2},
        {"config": {"B": 5, "A": 1}, "status": "constraints", "median_ms": None, "reason": "big", "at": at + 3},
    ]  # fmt: skip
    problem = {**key, "trials": trials, "winner": None}
    cache = json.loads(exchange.to_kernel_tuner([problem]))
    assert (cache["device_name"], cache["kernel_name"], cache["problem_size"]) == ("d", "k", [8, 4])
    assert (sorted(cache["tune_params_keys"]), cache["tune_params"]) == (["A", "B"], {"A": [1], "B": [2, 3, 4, 5]})
    assert [e["time"] for e in cache["cache"].values()] == [
        2.0, "CompilationFailedConfig", "RuntimeFailedConfig", "InvalidConfig"]  # fmt: skip
    first = next(iter(cache["cache"].values()))
    assert (first["times"], first["compile_time"], first["timestamp"]) == ([1.0, 2.0, 4.0], 7.0,
                                                                           "2024-05-06T07:08:09.500+00:00")  # fmt: skip
    assert [first[name] for name in ("verification_time", "benchmark_time", "strategy_time", "framework_time")] == [
        0
    ] * 4
    t4 = json.loads(exchange.to_t4([problem]))["results"]
    assert t4[0]["times"] == {"compilation_time": 7.0, "compilation": 7.0, "benchmark": 7.0, "framework": 0,
                              "search_algorithm": 0, "validation": 0, "runtimes": [1.0, 2.0, 4.0]}  # fmt: skip
    assert [r["correctness"] for r in t4] == [1, 0, 0, 0]
    assert [r["measurements"] for r in t4] == [[{"name": "time", "value": 2.0, "unit": "ms"}], [], [], []]
    for form, text in (("kt", exchange.to_kernel_tuner([problem])), ("t4", exchange.to_t4([problem]))):
        path = tmp_path / form
        path.write_bytes(gzip.compress(text.encode()) if form == "kt" else text.encode())
        (back,) = exchange.read(path, "k", "", "d")
        assert (back["kernel"], back["device"], back["dtype"], back["mode"]) == ("k", "d", "float32", "imported")
        assert back["shape"] == ([8, 4] if form == "kt" else [1])
        good = back["trials"][0]
        assert (good["status"], good["median_ms"], good["n"], good["samples"], good["compile_ms"], good["at"]) == (
            "correct", 2.0, 3, [1.0, 2.0, 4.0], 7.0, at)  # fmt: skip
        assert [t["status"] for t in back["trials"][1:]] == [
            "compile", "runtime" if form == "kt" else "timeout", "constraints"]  # fmt: skip
    with pytest.raises(ValueError, match="T4 holds one kernel at one shape, and there are 2: k 8x4 float32 on d; k"):
        exchange.to_t4([problem, problem])
    with Store(tmp_path / "store") as kept:
        assert exchange.take_in(kept, exchange.read(tmp_path / "t4", "k", "", "d")) == 4


def test_choices_as_python():
    def chosen(config, ratio=0.51239, kernel="k"):
        return {"kernel": kernel, "shape": [8, 4], "dtype": "float32", "device": "a  GPU",
                "winner": {"config": config, "ratio": ratio}}  # fmt: skip

    plain = exchange.to_python([chosen({"A": 1}), {**chosen({}), "winner": None}])
    assert plain.splitlines()[2:] == ["CONFIGS = {", "    ('k', (8, 4), 'float32'): {'A': 1},  # a GPU, 0.512", "}"]
    warps = exchange.to_python([chosen({"A": 1, "num_warps": 4, "num_stages": 2, "maxnreg": 64})])
    assert "import triton\n" in warps
    assert "triton.Config({'A': 1}, num_warps=4, num_stages=2, maxnreg=64)" in warps


def test_who_made_a_device():
    for device, maker in [("NVIDIA H100 80GB HBM3", "NVIDIA"), ("sm_90 (H100 SXM)", "NVIDIA"), ("A100", "NVIDIA"),
                          ("gfx942 (MI300X)", "AMD"), ("AMD EPYC 9654 x2", "AMD"), ("Intel(R) Xeon(R) x4", "Intel"),
                          ("Neoverse-N1 x8", "Arm"), ("Apple M2", "Arm"), ("a thing", "a thing")]:  # fmt: skip
        assert recall.vendor(device) == maker
    assert [recall._stem(k) for k in ("matmul_f32", "softmax_bf16", "k_i8", "k_u64", "softmax_kernel")] == [
        "matmul", "softmax", "k", "k", "softmax_kernel"]  # fmt: skip
