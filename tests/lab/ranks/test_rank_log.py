"""What one rank notes of itself, in a world of one process."""

from __future__ import annotations

import json

import numpy as np
import pytest

import core
from core import nn
from core.distributed.rank_log import ROW, RankLog, checksum


@pytest.fixture
def world():
    core.distributed.init_process_group("gloo", rank=0, world_size=1)
    yield
    core.distributed.destroy_process_group()


def test_steps_batches_and_operations_are_plain_data(world):
    net = nn.Linear(4, 2)
    space = {"net": net}
    optimizer = core.optim.SGD(net.parameters(), lr=0.1)
    log = RankLog(space)
    log.start()
    for _ in range(5):
        optimizer.zero_grad()
        net(core.rand(3, 4)).sum().backward()
        core.distributed.all_reduce(net.weight.grad)
        optimizer.step()
    with core.no_grad():
        net(core.rand(7, 4))
    log.stop()
    told, changed = json.loads(json.dumps(log.told())), json.loads(json.dumps(log.changed()))
    assert told["error"] == ""
    assert [s["step"] for s in told["steps"]] == [1, 2, 4]
    assert list(told["steps"][0]["gradients"]) == ["net.weight", "net.bias"]
    assert told["steps"][0]["after"] == told["steps"][1]["before"]
    assert told["final"]["net.weight"] == checksum(net.weight.detach()._a)
    assert ([call[1] for call in told["calls"]], told["passes"], told["stepped"]) == ([3] * 5, 5, 5)
    rows = [dict(zip(ROW, row, strict=True)) for row in changed["rows"]]
    assert [(row["op"], row["bytes"], row["sequence"]) for row in rows] == [("all_reduce", 32, k) for k in range(5)]
    assert changed["sites"][rows[0]["site"]]["text"] == "core.distributed.all_reduce(net.weight.grad)"
    core.distributed.all_reduce(core.ones(1))
    assert log.changed()["rows"] == []


def test_what_runs_inside_a_function_of_autograd_is_heard(world):
    log = RankLog({})
    log.start()
    core.distributed.nn.all_reduce(core.ones(2, requires_grad=True)).sum().backward()
    log.stop()
    assert [row[3] for row in log.changed()["rows"]] == ["all_reduce", "all_reduce"]


def test_a_checksum_of_a_large_array_takes_pieces_of_it():
    a = np.zeros(1 << 22, np.uint8)
    b = a.copy()
    b[:] = 1
    assert checksum(a) != checksum(b)
    assert checksum(a.reshape(2, -1).T) == checksum(a)
