"""Profiles: what they record, in which steps, and what is made of it."""

from __future__ import annotations

import gzip
import json

import pytest

import core
from core.autograd import profiler as older
from core.profiler import ProfilerAction, profile, record_function, schedule, tensorboard_trace_handler
from core.utils.flop_counter import FlopCounterMode, register_flop_formula


def work() -> None:
    x = core.ones(4, 3, requires_grad=True)
    with record_function("inner"):
        y = core.nn.functional.linear(x, core.ones(2, 3))
    y.exp().sum().backward()


def test_ops_blocks_and_gradients_are_events():
    with profile(record_shapes=True, with_stack=True, with_flops=True) as prof, record_function("outer"):
        work()
    events = {e.name: e for e in prof.events()}
    assert {"linear", "exp", "sum", "inner", "outer", "backward", "ExpBackward0"} <= events.keys()
    assert events["linear"].cpu_parent is events["inner"]
    assert events["inner"].cpu_parent is events["outer"]
    assert events["linear"].input_shapes[:2] == [[4, 3], [2, 3]]
    assert events["linear"].flops == 48
    assert "test_profiler.py" in events["linear"].stack[0]
    outer = events["outer"]
    assert outer.self_cpu_time_total < outer.cpu_time_total
    total = prof.key_averages().self_cpu_time_total
    assert total == pytest.approx(outer.cpu_time_total, rel=0.01)


def test_a_table_is_sorted_and_cut():
    with profile() as prof:
        for _ in range(3):
            work()
    averages = prof.key_averages()
    said = averages.table(sort_by="cpu_time_total", row_limit=2)
    assert "Self CPU time total" in said
    assert len(said.splitlines()) == 7
    assert next(a.count for a in averages if a.key == "linear") == 3
    with pytest.raises(ValueError, match="unknown sort_by"):
        averages.table(sort_by="beauty")


def test_a_schedule_says_which_steps_are_recorded(tmp_path):
    told: list[tuple[int, list[str]]] = []

    def ready(p: profile) -> None:
        told.append((p.step_num, sorted({e.name for e in p.events() if e.name.startswith("Prof")})))

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
        for _ in range(9):
            work()
            prof.step()
    assert told == [(4, ["ProfilerStep#2", "ProfilerStep#3"]), (8, ["ProfilerStep#6", "ProfilerStep#7"])]
    plan = schedule(wait=0, warmup=0, active=1, skip_first=2)
    assert [plan(k) for k in range(4)] == [ProfilerAction.NONE] * 2 + [ProfilerAction.RECORD_AND_SAVE] * 2
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=0, active=0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_chromes(tmp_path, packed):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), "me", packed)):
        work()
    (path,) = tmp_path.iterdir()
    with (gzip.open if packed else open)(path, "rt") as file:
        trace = json.load(file)
    found = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {"linear", "inner"} <= {e["name"] for e in found}
    assert all(e["dur"] >= 0 for e in found)


def test_results_before_the_end_are_refused():
    with profile() as prof, pytest.raises(RuntimeError, match="didn't finish running"):
        prof.events()


def test_nobody_listens_afterwards():
    with profile():
        pass
    assert not core.events.observe.observers


def test_the_older_profiler_has_the_same_events():
    with older.profile(record_shapes=True) as prof:
        work()
    assert "linear" in [e.name for e in prof.function_events]
    assert "linear" in prof.table()
    assert prof.total_average().count == len(prof.function_events)
    with older.profile(enabled=False) as off:
        work()
    assert off.function_events is None
    with pytest.raises(NotImplementedError, match="emit_nvtx is not here"):
        older.emit_nvtx()


def test_a_named_function_is_a_block():
    @record_function("named")
    def f(x: int) -> int:
        return x + 1

    with profile() as prof:
        assert f(1) == 2
    assert [e.name for e in prof.events()] == ["named"]


def test_flops_are_counted_by_module():
    model = core.nn.Sequential(core.nn.Conv2d(3, 4, 3), core.nn.Flatten(), core.nn.Linear(4 * 36, 5))
    with FlopCounterMode(display=False) as counter:
        model(core.ones(2, 3, 8, 8)).sum().backward()
    conv, linear = 2 * 2 * 4 * 36 * 27, 2 * 2 * 5 * 144
    counts = counter.get_flop_counts()
    assert counts["Sequential.0"] == {"convolution": conv}
    assert sum(counts["Sequential"].values()) == conv + linear
    # the weight's gradients count as the forward pass does, and the linear layer's input's
    assert counter.get_total_flops() == 2 * conv + 3 * linear
    assert "Sequential.0" in counter.get_table(2)


def test_a_formula_of_ones_own_counts(monkeypatch):
    from core.utils import flop_counter

    monkeypatch.setattr(flop_counter, "_own", {})

    @register_flop_formula("exp")
    def of_exp(x: tuple[int, ...], out_shape: tuple[int, ...]) -> int:
        return 7 * len(x)

    with FlopCounterMode(display=False) as counter:
        core.ones(2, 3).exp()
    assert counter.get_total_flops() == 14
