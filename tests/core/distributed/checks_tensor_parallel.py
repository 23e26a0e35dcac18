"""What divided tensors and layers do on ranks: run by test_on_ranks.py."""

from __future__ import annotations

import copy
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed.fsdp import fully_shard
from core.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
    local_map,
    randn,
)
from core.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    parallelize_module,
)
from tests.core.distributed.divided import gpt, mesh, mlp, sharded
from tests.core.distributed.models import Gpt, raises, same_everywhere, share

# -- divided tensors ---------------------------------------------------------------------------------------------------

PLACES = (Shard(0), Shard(1), Replicate())


def check_tensors_are_divided_and_gathered() -> None:
    over, x = mesh(), core.arange(15.0).view(5, 3)
    for p in PLACES:
        d = distribute_tensor(x if dist.get_rank() == 0 else x * 0, over, [p])
        assert d.shape == (5, 3)
        assert (d.numel(), len(d), d.size(1)) == (15, 5, 3)
        assert core.equal(d.full_tensor(), x)
        for q in PLACES:
            moved = d.redistribute(placements=[q])
            assert moved.placements == (q,)
            assert core.equal(moved.full_tensor(), x)
    part = DTensor.from_local(core.ones(5, 3), over, [Partial()])
    for q in PLACES:
        assert core.equal(part.redistribute(placements=[q]).full_tensor(), core.full((5, 3), float(over.size())))


def check_elements_are_computed_in_parts() -> None:
    over, x = mesh(), core.randn(5, 3)
    dist.broadcast(x, 0)
    for p in PLACES:
        d = distribute_tensor(x, over, [p])
        y = (2 * d + 1).tanh() - d / 3
        assert y.placements == (p,)
        assert core.allclose(y.full_tensor(), (2 * x + 1).tanh() - x / 3)
        assert core.allclose((d @ d.T).full_tensor(), x @ x.T, atol=1e-6)
        assert core.allclose(d.sum(0).full_tensor(), x.sum(0), atol=1e-6)
        assert core.allclose((d + core.ones(3)).full_tensor(), x + 1)
        d[1, 1] = 7.0
        d.mul_(2)
        assert d.full_tensor()[1, 1] == 14
        d.copy_(x)
        assert core.equal(d.full_tensor(), x)


def check_gradients_of_divided_tensors() -> None:
    over, x, w = mesh(), core.randn(5, 3), core.randn(5, 3)
    dist.broadcast(x, 0), dist.broadcast(w, 0)
    for p in PLACES:
        for q in PLACES:
            d = distribute_tensor(x, over, [p]).requires_grad_()
            moved = d.redistribute(placements=[q]) ** 2
            (moved.full_tensor() * w).sum().backward()
            assert d.grad.placements == (p,)
            assert core.allclose(d.grad.full_tensor(), 2 * x * w)
    local = core.full((2,), float(dist.get_rank()), requires_grad=True)
    (DTensor.from_local(local, over, [Partial()]).full_tensor() * core.tensor([1.0, 3.0])).sum().backward()
    assert local.grad.tolist() == [1.0, 3.0]
    spread = distribute_tensor(core.ones(2), over, [Replicate()]).requires_grad_()
    (spread.to_local(grad_placements=[Partial()]) * (dist.get_rank() + 1)).sum().backward()
    assert spread.grad.to_local().tolist() == [sum(range(over.size() + 1))] * 2


def check_tensors_over_two_dimensions() -> None:
    n = dist.get_world_size()
    if n < 4:
        return
    over, x = init_device_mesh("cpu", (2, 2)), core.arange(35.0).view(5, 7)
    every = [(a, b) for a in PLACES for b in PLACES]
    for places in every:
        d = distribute_tensor(x, over, places)
        assert core.equal(d.full_tensor(), x), places
        for then in every:
            moved = d.redistribute(placements=then)
            assert core.equal(moved.full_tensor(), x), (places, then)
            assert moved.to_local().tolist() == distribute_tensor(x, over, then).to_local().tolist()


def check_random_tensors_are_the_same_on_every_process() -> None:
    core.manual_seed(3)
    expected = core.randn(6, 2)
    core.manual_seed(3)
    assert core.equal(randn(6, 2, device_mesh=mesh(), placements=[Shard(0)]).full_tensor(), expected)
    d = distribute_tensor(core.zeros(6, 2), mesh(), [Shard(1)])
    core.manual_seed(3)
    nn.init.xavier_uniform_(d)
    core.manual_seed(3)
    assert core.equal(d.full_tensor(), nn.init.xavier_uniform_(core.zeros(6, 2)))


def check_layers_have_the_gradients_of_whole_ones() -> None:
    over, words = mesh(), core.tensor([[0, 3], [6, 0]])
    core.manual_seed(0)
    for make, style, x in (
        (lambda: nn.Linear(6, 5), ColwiseParallel(output_layouts=Replicate()), core.randn(4, 6)),
        (lambda: nn.Linear(6, 5), RowwiseParallel(input_layouts=Replicate()), core.randn(4, 6)),
        (lambda: nn.Linear(6, 5, bias=False), RowwiseParallel(input_layouts=Replicate()), core.randn(2, 4, 6)),
        (lambda: nn.Embedding(7, 6, padding_idx=3), ColwiseParallel(output_layouts=Replicate()), words),
        (lambda: nn.Embedding(7, 6, padding_idx=3), RowwiseParallel(), words),
        (lambda: nn.Embedding(3, 6), RowwiseParallel(), core.tensor([[0, 2], [1, 0]])),
    ):  # fmt: skip
        plain = make()
        divided = parallelize_module(copy.deepcopy(plain), over, style)
        inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for _ in range(2)]
        outs = [m(i) for m, i in zip((plain, divided), inputs, strict=True)]
        assert core.allclose(*outs, atol=1e-6), style
        weights = core.randn(outs[0].shape)
        dist.broadcast(weights, 0)
        for out in outs:
            (out * weights).sum().backward()
        for p, q in zip(plain.parameters(), divided.parameters(), strict=True):
            assert core.allclose(p.grad, q.grad.full_tensor(), atol=1e-5), (style, q.placements)
        if x.is_floating_point():
            assert core.allclose(inputs[0].grad, inputs[1].grad, atol=1e-5), style


def check_prepared_inputs_and_outputs() -> None:
    over, n = mesh(), dist.get_world_size()

    class Rows(nn.Module):
        def forward(self, x: Any, *, y: Any) -> Any:
            assert isinstance(x, DTensor)
            assert x.placements == (Replicate(),)
            assert x.to_local().shape == (n, 2)
            assert y.shape == (n, 2)
            return x.to_local() + y

    model = parallelize_module(Rows(), over, PrepareModuleInput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), input_kwarg_layouts={"y": Shard(0)},
        desired_input_kwarg_layouts={"y": Replicate()}))  # fmt: skip
    parallelize_module(model, over, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0)))
    x = core.full((1, 2), float(dist.get_rank()))
    assert model(x, y=x).tolist() == (2 * x).tolist()


def check_what_cannot_be_divided_says_so() -> None:
    over = mesh()
    told = raises(NotImplementedError, lambda: parallelize_module(nn.ReLU(), over, ColwiseParallel()))
    assert "nn.Linear and nn.Embedding" in told
    assert "same length" in raises(ValueError, lambda: distribute_tensor(core.ones(2), over, [Shard(0), Shard(0)]))
    assert "not there" in raises(ValueError, lambda: distribute_tensor(core.ones(2), over, [Shard(1)]))
    if over.size() > 1:
        d = distribute_tensor(core.ones(4), over, [Shard(0)])
        assert "another size" in raises(RuntimeError, lambda: setattr(d, "grad", core.ones(4)))


def check_parameters_of_divided_tensors_are_divided() -> None:
    over = mesh()
    p = nn.Parameter(distribute_tensor(core.ones(4, 2), over, [Shard(0)]))
    assert isinstance(p, DTensor)
    assert (p.placements, p.requires_grad, p.is_leaf) == ((Shard(0),), True, True)


def check_functions_of_parts() -> None:
    over = mesh()
    d = distribute_tensor(core.arange(8.0), over, [Shard(0)])
    double = local_map(lambda x: 2 * x, out_placements=[Shard(0)], in_placements=([Shard(0)],))
    assert double(d).full_tensor().tolist() == [2.0 * k for k in range(8)]


def check_divided_layers_are_sharded_in_another_dimension() -> None:
    """Each process has a quarter of a layer: its part in one dimension of a mesh, divided in the other."""
    n = dist.get_world_size()
    both = init_device_mesh("cpu", (max(1, n // 2), min(n, 2)), mesh_dim_names=("data", "model"))
    core.manual_seed(0)
    plain = Gpt()
    model = sharded(gpt(copy.deepcopy(plain), both["model"]), mesh=both["data"])
    x = core.arange(24).view(2, 12) % 32
    assert core.allclose(model(x), plain(x), atol=1e-5)
    for m in (model, plain):
        m(x).square().mean().backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert core.allclose(p.grad.full_tensor() if isinstance(p, DTensor) else p.grad, q.grad, atol=1e-6)
    norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.1) for m in (model, plain)]
    assert core.allclose(*norms, atol=1e-6)
    if n == 4:
        weight = model.blocks[0].q.weight
        assert weight.placements == (Shard(0), Shard(0))
        assert weight.device_mesh.mesh_dim_names == ("model", "data")
        assert weight.to_local().shape == (8, 32)
        other = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        told = raises(ValueError, lambda: fully_shard(gpt(Gpt(), both["model"]).blocks[0], mesh=other["data"]))
        assert "same parent mesh" in told


def check_copies_are_divided_alike() -> None:
    model = mlp(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 4)), mesh())
    other = copy.deepcopy(model)
    assert [p.placements for p in other.parameters()] == [p.placements for p in model.parameters()]
    x = core.ones(2, 4)
    assert core.equal(other(x), model(x))
    assert same_everywhere(model(x))
    other.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
    assert core.equal(other[0].weight.full_tensor(), 2 * model[0].weight.full_tensor())
    assert share(core.ones(4, 1)).shape[0] == 4 // dist.get_world_size()
