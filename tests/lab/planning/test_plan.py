"""What a model costs, what a division of it takes, and which is chosen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import core
from core import nn
from lab.planning import command
from lab.planning.costs import ModelCosts, Part, costs_of
from lab.planning.estimate import BFLOAT16, FLOAT32, Division, estimate, stages
from lab.planning.machine import MACHINES, Level, Machine, machine_of
from lab.planning.models import GPT, MODELS
from lab.planning.plan import plan

WIRE = Machine("wire", 1e12, 1e9, 1e12, (Level("wire", 0, 1e-6, 1e9),), op_s=0.0)


def chain(n: int = 8, parameters: int = 1_000_000, **more: float) -> ModelCosts:
    return ModelCosts([Part(str(k), parameters, 1e9, 1e5, 1e4, **more) for k in range(n)], 16, 2 * n)  # type: ignore[arg-type]


def test_costs_of_a_gpt_are_those_of_its_layers() -> None:
    with core.device("meta"):
        model, x = GPT(64, 3), core.zeros(2, 64, dtype=core.int64)
        found = costs_of(model, [x])
    assert found.parameters == sum(p.numel() for p in model.parameters())
    names = [p.name for p in found.parts]
    assert [n for n in names if n.startswith("blocks")] == ["blocks.0", "blocks.1", "blocks.2"]
    block = next(p for p in found.parts if p.name == "blocks.1")
    tokens, wide = 64, 64
    layers = 2 * tokens * wide * (3 * wide + wide + 4 * wide + 4 * wide)
    assert block.flops == layers + 4 * tokens * tokens * wide  # q times k, and times v
    assert (block.sums, block.summed) == (2, 2 * tokens * wide * 4)  # after attention, after the MLP
    assert block.out == tokens * wide * 4


def test_three_projections_of_one_input_are_divided_together() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))

        def forward(self, x: core.Tensor) -> core.Tensor:
            return self.o(nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))

    found = costs_of(nn.Sequential(Attention()), [core.ones(2, 4, 8)])
    assert [(p.sums, p.summed) for p in found.parts] == [(1, 4 * 8 * 4)]


def test_the_same_numbers_on_meta_and_on_the_processor() -> None:
    for name, make in MODELS.items():
        model, x, _ = make(2)
        here = costs_of(model, [x], name)
        with core.device("meta"):
            model, x, _ = make(2)
            assert costs_of(model, [x], name) == here


def test_stages_have_neighbours_and_the_least_longest() -> None:
    parts = [Part(str(k), flops=f) for k, f in enumerate([5, 1, 1, 1, 4, 4])]
    runs = stages(parts, 3)
    assert [p for run in runs for p in run] == parts
    assert max(sum(p.flops for p in run) for run in runs) == 6
    with pytest.raises(ValueError, match="2 parts make no 3 stages"):
        stages(parts[:2], 3)


def test_a_step_of_one_rank_computes_and_no_more() -> None:
    e = estimate(chain(), WIRE, Division(), 16, FLOAT32)
    assert e.compute_s == pytest.approx(3 * 8 * 1e9 * 16 / 1e12)
    assert (e.tensor_s, e.pipeline_s, e.data_s, e.useful) == (0.0, 0.0, 0.0, 1.0)
    assert e.memory == pytest.approx(8e6 * 16 + 8 * 1e5 * 16)


def test_what_summing_gradients_adds_counts_where_it_was_measured() -> None:
    slow = replace(WIRE, gradients=Level("in training", 0, 1e-3, 1e8), overlap=0.0)
    known, raw = (estimate(chain(1), m, Division(data=2), 32, FLOAT32) for m in (slow, replace(WIRE, overlap=0.0)))
    assert known.data_s == pytest.approx(2 * 1e-3 + 4e6 / 1e8)
    assert raw.data_s == pytest.approx(2 * 1e-6 + 4e6 / 1e9 + 4 * 4e6 / 1e12)  # the wire's, and copies
    tensor = estimate(chain(1, summed=1e6, sums=1), slow, Division(tensor=2), 1, FLOAT32)
    assert tensor.tensor_s == pytest.approx(2 * (2 * 1e-6 + 1e6 / 1e9))  # other sums are the wire's


def test_gradients_are_hidden_behind_the_backward_pass_but_for_the_last_bucket() -> None:
    costs, d = chain(), Division(data=4)
    size = 8e6 * 4
    copied = 4 * size / 1e12  # into buckets and back
    whole = WIRE.all_reduce(size / 2, 4) * 2  # two buckets
    open_ = replace(WIRE, overlap=0.0)
    assert estimate(costs, open_, d, 64, FLOAT32).data_s == pytest.approx(whole + copied)
    assert estimate(costs, WIRE, d, 64, FLOAT32).data_s == pytest.approx(whole / 2 + copied)
    assert estimate(costs, open_, replace(d, sharded=3), 64, FLOAT32).data_s == pytest.approx(1.5 * whole + copied)


def test_a_pipeline_waits_for_its_first_and_last_micro_batch() -> None:
    free = replace(WIRE, levels=(Level("free", 0, 0.0, 1e30),))
    few = estimate(chain(), free, Division(pipeline=4, micro=4), 16)
    assert few.pipeline_s / few.compute_s == pytest.approx(3 / 4)
    many = estimate(chain(), free, Division(pipeline=4, micro=16), 16)
    assert many.pipeline_s / many.compute_s == pytest.approx(3 / 16)


def test_what_is_shared_takes_less_memory() -> None:
    held = [estimate(chain(), WIRE, Division(data=8, sharded=k), 128, BFLOAT16).memory for k in (0, 1, 3)]
    kept = 8 * 1e5 * 16
    assert held == pytest.approx([8e6 * 16 + kept, 8e6 * (4 + 12 / 8) + kept, 8e6 * 16 / 8 + kept])
    assert estimate(chain(), WIRE, Division(data=8, recompute=True), 128).memory < held[0]


def test_levels_carry_what_the_inner_ones_leave() -> None:
    two = replace(WIRE, levels=(Level("in", 8, 0.0, 100e9), Level("out", 0, 0.0, 1e9)))
    inner = 2 * 7 / 8 * 1e9 / 100e9
    assert two.all_reduce(1e9, 8) == pytest.approx(inner)
    assert two.all_reduce(1e9, 16) == pytest.approx(inner + 1e9 / 8 / 1e9)
    assert two.all_reduce(1e9, 2, apart=8) == pytest.approx(1.0)  # neighbours in other nodes


def test_more_failures_and_more_gpus_leave_less_useful_time() -> None:
    share = [estimate(chain(), WIRE, Division(data=n), 16 * n).useful for n in (8, 1024, 65536)]
    assert sorted(share, reverse=True) == share
    assert 0 < share[-1] < share[0] < 1


def test_a_model_that_does_not_fit_is_divided_or_refused() -> None:
    small = replace(WIRE, memory=5e8, levels=(Level("in", 8, 1e-6, 100e9), Level("out", 0, 1e-6, 10e9)))
    found = plan(chain(parameters=10_000_000), small, [1, 8])
    assert found.best[1] == "needs 1.28 GB a GPU at least, of 0.5"
    best = found.best[8]
    assert not isinstance(best, str)
    assert best.memory <= 0.9 * small.memory
    assert best.division.ranks == 8
    assert "needs 1.28 GB" in str(found)
    assert plan(chain(), WIRE, [64], batch=3).best[64] == "3 samples are too few to divide"


def test_a_machine_of_a_file_is_the_one_that_was_written(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    mine = replace(MACHINES["h100-ib400"], crowding={2: 1.5}, gradients=Level("in training", 0, 1e-4, 1e9))
    file.write_text(json.dumps(mine.plain()))
    assert machine_of(str(file)) == mine
    file.write_text('{"name": "x"}')
    with pytest.raises(ValueError, match=r"net\.json describes no machine: KeyError: 'levels'"):
        machine_of(str(file))
    with pytest.raises(ValueError, match="no machine is called 'h200'"):
        machine_of("h200")


def test_the_command_plans_a_file_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.py"
    file.write_text("from lab.planning.models import GPT\nimport core\nmodel = GPT(256, 8)\n"
                    "x = core.zeros(4, 64, dtype=core.int64)\n")  # fmt: skip
    picture = tmp_path / "plan.png"
    assert command.main([f"{file}:model", "--inputs", "x", "--meta", "--gpus", "8..512", "--plot", str(picture)]) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()[3:6]] == ["8", "64", "512"]
    assert "Assumed: " in said
    assert picture.stat().st_size > 10_000
    assert command.main([f"{file}:model", "--inputs", "x", "--json", "--gpus", "8"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["8"]["samples"] == 32


@pytest.mark.parametrize(("words", "said"), [
    (["train.py:model"], "needed FILE.py:MODEL and --inputs"),
    (["none.py:model", "--inputs", "x"], "no such file: none.py"),
    (["train.py:model", "--inputs", "x", "--gpus", "8..4"], "8..4 is no range"),
    (["train.py:model", "--inputs", "x", "--net", "h200"], "no machine is called 'h200'"),
    (["train.py:model", "--inputs", "y"], "has nothing called 'y'"),
    (["train.py:model", "--inputs", "3"], "the inputs hold no tensor"),
    (["train.py:model", "--inputs", "x", "--plot", "a.doc"], "needs a name that ends in"),
])  # fmt: skip
def test_what_the_command_refuses(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    (tmp_path / "train.py").write_text("import core\nmodel, x = core.nn.Linear(2, 2), core.ones(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        command.main(words)
    assert said in capsys.readouterr().err
