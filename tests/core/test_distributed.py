"""The group of one process: what it does, and what it refuses."""

from __future__ import annotations

import pytest

import core
from core import distributed as dist
from core.distributed import checkpoint, fsdp, tensor
from core.distributed import nn as functional
from core.events import observe

WEIGHT = core.ones(3)


@pytest.fixture
def group():
    dist.init_process_group("gloo", world_size=1, rank=0)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


def test_the_group_begins_and_ends(monkeypatch):
    assert dist.is_available()
    assert not dist.is_initialized()
    assert dist.group.WORLD is None
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group(init_method="env://")
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group()
    dist.destroy_process_group()
    assert not dist.is_initialized()


@pytest.mark.parametrize(("given", "said"), [
    ({"world_size": 2, "rank": 0}, "have not been started together"),
    ({"world_size": 1, "rank": 1}, "rank 1 is no process of a world of 1"),
])  # fmt: skip
def test_processes_that_nobody_started_are_refused(given, said):
    with pytest.raises((RuntimeError, ValueError), match=said):
        dist.init_process_group("gloo", **given)
    assert not dist.is_initialized()


def test_collectives_of_one_give_what_is_there(group):
    x = core.tensor([1.0, 2.0])
    assert dist.all_reduce(x) is None
    assert dist.all_reduce(x, async_op=True).wait()
    assert dist.broadcast(x, 0) is None
    many = [core.zeros(2)]
    dist.all_gather(many, x)
    into = core.zeros(1, 2)
    dist.all_gather_into_tensor(into, x)
    out = core.zeros(2)
    dist.reduce_scatter(out, [x])
    for found in (many[0], into[0], out):
        assert found.tolist() == [1.0, 2.0]
    objects: list[object] = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    dist.barrier()
    assert dist.new_group([0]).size() == 1
    assert dist.get_rank(dist.new_group([])) == -1


def test_collectives_are_told_to_observers(group):
    class Heard(observe.Observer):
        def __init__(self):
            self.names = []

        def write(self, event):
            self.names.append((event.name, event.place[0].co_name))

        def read(self, event):
            self.names.append((event.kind, event.place[0].co_name))

    own = "test_collectives_are_told_to_observers"
    with observe.observing(Heard()) as heard:
        dist.all_reduce(core.ones(2))
        dist.reduce_scatter_tensor(core.zeros(2), core.ones(2))
    assert sorted(heard.names) == [("distributed.all_reduce", own), ("distributed.reduce_scatter_tensor", own),
                                   ("sent", own), ("sent", own)]  # fmt: skip


@pytest.mark.parametrize(("collective", "said"), [
    (lambda x: dist.all_reduce(x), "goes to other processes"),
    (lambda x: dist.all_gather_into_tensor(x, WEIGHT), "writes what comes from elsewhere"),
])  # fmt: skip
def test_an_exported_program_refuses_collectives(group, collective, said):
    def step(x):
        y = x * 2
        collective(y)
        return y + 1

    with pytest.raises(RuntimeError, match=said):
        core.export(step, (core.ones(3),))


def test_what_needs_a_second_process_says_so(group):
    for call in (lambda: dist.send(core.ones(1), 1), lambda: dist.recv(core.ones(1), 1),
                 lambda: dist.broadcast(core.ones(1), 1), lambda: dist.new_group([0, 1]),
                 lambda: dist.init_device_mesh("cpu", (2,))):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"core\.distributed has one process"):
            call()
    with pytest.raises(ValueError, match="one entry for each process"):
        dist.all_gather([core.zeros(1), core.zeros(1)], core.ones(1))
    with pytest.raises(TypeError, match="Invalid function argument"):
        dist.all_reduce(3)


def test_gradients_go_through_the_collectives_that_have_them(group):
    x = core.ones(2, requires_grad=True)
    (functional.all_reduce(x) * functional.all_gather(2 * x)[0]).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_distributed_data_parallel_is_the_module(group):
    core.manual_seed(0)
    inner = core.nn.Linear(2, 1)
    model = core.nn.parallel.DistributedDataParallel(inner)
    with model.no_sync():
        model(core.ones(3, 2)).sum().backward()
    assert inner.weight.grad.tolist() == [[3.0, 3.0]]
    state = model.state_dict()
    core.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    with pytest.raises(RuntimeError, match="doesn't have any parameter"):
        core.nn.parallel.DistributedDataParallel(core.nn.ReLU())


def test_distributed_data_parallel_needs_the_group():
    with pytest.raises(ValueError, match="Default process group"):
        core.nn.parallel.DistributedDataParallel(core.nn.Linear(1, 1))


def test_nothing_is_divided_among_processes():
    model = core.nn.Linear(1, 1)
    assert not isinstance(model, fsdp.FullyShardedDataParallel)
    assert not isinstance(core.ones(1), tensor.DTensor)
    assert tensor.Shard(1).is_shard(1)
    for make in (lambda: tensor.SomethingNew(), lambda: checkpoint.SomethingNew(), lambda: fsdp.SomethingNew()):
        with pytest.raises(NotImplementedError, match="is not here"):
            make()


def test_states_of_one_process_are_the_state_dicts():
    model = core.nn.Linear(2, 1)
    optimizer = core.optim.Adam(model.parameters())
    model(core.ones(1, 2)).sum().backward()
    optimizer.step()
    state, of_optimizer = checkpoint.get_state_dict(model, optimizer)
    assert list(of_optimizer["state"]) == ["weight", "bias"]
    other = core.nn.Linear(2, 1)
    again = core.optim.Adam(other.parameters())
    checkpoint.set_state_dict(other, again, model_state_dict=state, optim_state_dict=of_optimizer)
    assert core.equal(other.weight, model.weight)
    assert core.equal(again.state[other.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])
