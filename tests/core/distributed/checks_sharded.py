"""What modules with divided parameters do on ranks: run by test_on_ranks.py."""

from __future__ import annotations

import copy
import functools
import weakref
from itertools import pairwise
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed import checkpoint, fsdp, tensor
from core.distributed.algorithms.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from core.distributed.checkpoint import StateDictOptions
from core.distributed.fsdp import FullyShardedDataParallel as FSDP
from core.distributed.fsdp import fully_shard
from core.distributed.sharding import units_of
from tests.core.distributed.divided import seeded, sharded, wrapped
from tests.core.distributed.models import batches, loss_of, mlp, raises, same_everywhere, share, trained, twice


def check_each_process_has_its_rows() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    core.manual_seed(0)
    model, plain = fully_shard(nn.Linear(3, 5)), nn.Linear(3, 5)
    core.manual_seed(0)
    plain.reset_parameters()
    core.manual_seed(0)
    model.reset_parameters()  # of the whole, as one process draws it
    if n == 1:
        return
    rows = -(-5 // n)
    assert model.weight.shape == (5, 3)
    assert model.weight.numel() == 15
    assert model.weight.to_local().tolist() == plain.weight[rank * rows : (rank + 1) * rows].tolist()
    assert core.equal(model.weight.full_tensor(), plain.weight)
    assert isinstance(model.weight, nn.Parameter)
    assert isinstance(model.weight, tensor.DTensor)
    assert model.weight.placements == (tensor.Shard(0),)
    x = core.ones(2, 3, requires_grad=True)
    model(x).sum().backward()
    assert model.weight.grad.full_tensor().tolist() == [[2.0] * 3] * 5
    assert core.allclose(x.grad, plain.weight.sum(0))
    told = raises(ValueError, lambda: fully_shard(nn.ParameterList([nn.Parameter(core.tensor(1.0))])))
    assert "scalar" in told


class Seen(nn.Linear):
    """A layer that remembers the memory of the weights it computed with."""

    def forward(self, x: Any) -> Any:
        assert self.weight.shape == (4, 4)
        assert dist.get_world_size() == 1 or not isinstance(self.weight, tensor.DTensor)
        a = self.weight._a
        while a.base is not None:
            a = a.base
        self.memory = weakref.ref(a)
        return super().forward(x)


def check_whole_parameters_are_let_go_of() -> None:
    if dist.get_world_size() == 1:
        return
    for kept in (False, True):
        model = nn.Sequential(Seen(4, 4), nn.Tanh(), Seen(4, 4))
        for m in (model[0], model[2], model):
            fully_shard(m, reshard_after_forward=not kept)
        out = model(core.ones(2, 4))
        assert [m.memory() is None for m in (model[0], model[2])] == [not kept] * 2
        assert all(isinstance(p, tensor.DTensor) for p in model.parameters())
        out.sum().backward()
        assert [m.memory() for m in (model[0], model[2])] == [None, None]
        assert not any(unit.there for unit in units_of(model))


def plain_and_sharded(make: Any = mlp) -> tuple[Any, Any]:
    return seeded(make), sharded(seeded(make))


def check_gradients_add_up_without_being_sent() -> None:
    plain, model = plain_and_sharded()
    if dist.get_world_size() == 1:
        return
    first, second, third = batches("mlp", 3)
    for x, y in (first, second, third):
        loss_of(plain, x, y).backward()
    model.set_requires_gradient_sync(False)
    loss_of(model, *map(share, first)).backward()
    assert all(p.grad is None for p in model.parameters())
    model.set_requires_gradient_sync(True)
    loss_of(model, *map(share, second)).backward()
    loss_of(model, *map(share, third)).backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert core.allclose(p.grad.full_tensor(), q.grad, atol=1e-5)


def check_norms_are_of_all_processes() -> None:
    plain, model = plain_and_sharded()
    x, y = batches("mlp", 1)[0]
    loss_of(plain, x, y).backward()
    loss_of(model, share(x), share(y)).backward()
    for kind in (2.0, 1.0, float("inf")):
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.5, norm_type=kind) for m in (plain, model)]
        assert core.allclose(norms[1], norms[0], atol=1e-5), norms
    if dist.get_world_size() == 1:
        return
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert core.allclose(p.grad.full_tensor(), q.grad, atol=1e-5)


def check_a_parameter_that_nobody_uses_keeps_no_gradient() -> None:
    if dist.get_world_size() == 1:
        return
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "never": nn.Linear(2, 2)})
    model.forward = None
    rank = dist.get_rank()

    class Some(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: Any) -> Any:
            return self.parts["b" if rank else "a"](x)

    some = fully_shard(Some())
    some(core.ones(1, 2)).sum().backward()
    n = dist.get_world_size()
    assert some.parts["a"].bias.grad.full_tensor().tolist() == [1 / n] * 2
    assert core.allclose(some.parts["b"].bias.grad.full_tensor(), core.full((2,), (n - 1) / n))
    assert some.parts["never"].bias.grad is None


def check_checkpointed_modules() -> None:
    """Activation checkpoints within and around divided modules."""
    for around in (False, True):
        plain, model = plain_and_sharded()
        if dist.get_world_size() == 1:
            return
        x = batches("mlp", 1)[0][0]

        def run(m: Any, x: Any, around: bool = around) -> Any:
            again = functools.partial(core.utils.checkpoint.checkpoint, use_reentrant=False)
            for k, part in enumerate(m):
                x = again(part, x) if around or k == 2 else part(x)
            return x

        run(plain, x).square().mean().backward()
        for unit in units_of(model):
            unit.reshard_after_forward = True
        run(model, share(x)).square().mean().backward()
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            assert core.allclose(p.grad.full_tensor(), q.grad, atol=1e-5)


def check_states_are_whole_or_in_parts() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    plain, model = plain_and_sharded()
    opt, other = core.optim.AdamW(model.parameters(), lr=0.01), core.optim.AdamW(plain.parameters(), lr=0.01)
    for x, y in batches("mlp", 2):
        loss_of(model, share(x), share(y)).backward()
        loss_of(plain, x, y).backward()
        opt.step(), other.step()
    whole = checkpoint.get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    for k, v in plain.state_dict().items():
        assert core.allclose(whole[k], v, atol=1e-4), k
    alone = checkpoint.get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert bool(alone) == (rank == 0)
    state = checkpoint.get_optimizer_state_dict(model, opt, options=StateDictOptions(full_state_dict=True))
    assert state["state"]["0.weight"]["exp_avg"].shape == (64, 16)
    core.manual_seed(7)
    again = sharded(mlp())
    opt2 = core.optim.AdamW(again.parameters(), lr=1.0)
    checkpoint.set_state_dict(again, opt2, model_state_dict=whole, optim_state_dict=state)
    for p, q in zip(again.parameters(), model.parameters(), strict=True):
        assert core.equal(tensor_of(p), tensor_of(q))
        assert core.equal(opt2.state[p]["exp_avg"], opt.state[q]["exp_avg"])
    parts = checkpoint.get_model_state_dict(model)
    assert n == 1 or all(isinstance(v, tensor.DTensor) for v in parts.values())
    third = sharded(mlp())
    third.load_state_dict(parts)
    assert equal(third, model)
    only_first = whole if rank == 0 else {}
    fourth = sharded(mlp())
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    checkpoint.set_model_state_dict(fourth, only_first, options=options)
    assert equal(fourth, model)


def tensor_of(p: Any) -> Any:
    return (p.to_local() if isinstance(p, tensor.DTensor) else p).detach()


def equal(one: Any, other: Any) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(core.equal(tensor_of(p), tensor_of(q)) for p, q in pairs)


def check_wrapped_states() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    core.manual_seed(0)
    plain = mlp()
    core.manual_seed(0)
    model = FSDP(mlp(), auto_wrap_policy=fsdp.ModuleWrapPolicy({nn.Linear}))
    assert len(FSDP.fsdp_modules(model)) == 4
    assert [k for k, _ in model.named_parameters()] == [k for k, _ in plain.named_parameters()]
    state = model.state_dict()
    assert all(core.equal(state[k], v) for k, v in plain.state_dict().items())
    with FSDP.state_dict_type(model, fsdp.StateDictType.FULL_STATE_DICT, fsdp.FullStateDictConfig(rank0_only=True)):
        assert bool(model.state_dict()) == (rank == 0)
    with FSDP.state_dict_type(model, fsdp.StateDictType.SHARDED_STATE_DICT):
        parts = model.state_dict()
    assert n == 1 or all(isinstance(v, tensor.DTensor) for v in parts.values())
    model.load_state_dict({k: v + 1 for k, v in state.items()})
    with FSDP.summon_full_params(model):
        assert core.allclose(dict(model.named_parameters())["0.weight"], plain[0].weight + 1)
        with core.no_grad():
            for p in model.parameters():
                p.zero_()
    assert all(not v.any() for v in model.state_dict().values())
    opt = core.optim.Adam(model.parameters())
    x, y = batches("mlp", 1)[0]
    with model.no_sync():
        loss_of(model, share(x), share(y)).backward()
    loss_of(model, share(x), share(y)).backward()
    model.clip_grad_norm_(1.0)
    opt.step()
    full = FSDP.optim_state_dict(model, opt)
    assert full["state"]["0.weight"]["exp_avg"].shape == (64, 16)
    assert same_everywhere(full["state"]["0.weight"]["exp_avg"])
    other = core.optim.Adam(model.parameters())
    other.load_state_dict(FSDP.optim_state_dict_to_load(model, other, full))
    for p in model.parameters():
        assert core.equal(other.state[p]["exp_avg"], opt.state[p]["exp_avg"])


def check_models_are_sent_from_rank_0() -> None:
    core.manual_seed(dist.get_rank())
    model = FSDP(mlp(), sync_module_states=True)
    core.manual_seed(0)
    assert all(core.equal(v, w) for v, w in zip(model.state_dict().values(), mlp().state_dict().values(), strict=True))


def check_evaluation_leaves_no_trace() -> None:
    _, model = plain_and_sharded()
    x, y = batches("mlp", 1)[0]
    with core.no_grad():
        first = model(x)
    model(x)  # with a graph that is thrown away
    loss_of(model, share(x), share(y)).backward()
    with core.inference_mode():
        assert core.equal(model(x), first)
    assert dist.get_world_size() == 1 or all(p.grad is not None for p in model.parameters())


def check_a_step_is_left_out_by_all() -> None:
    if dist.get_world_size() == 1:
        return
    _, model = plain_and_sharded()
    opt = core.optim.SGD(model.parameters(), lr=0.1)
    scaler = fsdp.ShardedGradScaler("cpu", init_scale=4.0)
    before = [tensor_of(p).clone() for p in model.parameters()]
    x, y = batches("mlp", 1)[0]
    for bad in (True, False):
        opt.zero_grad()
        scaler.scale(loss_of(model, share(x), share(y))).backward()
        if bad and dist.get_rank() == 0:
            with core.no_grad():
                next(iter(model.parameters())).grad.to_local()[0, 0] = float("inf")
        scaler.step(opt)
        scaler.update()
        changed = any(not core.equal(tensor_of(p), b) for p, b in zip(model.parameters(), before, strict=True))
        assert changed == (not bad)
        assert scaler.get_scale() == 2.0


def check_modules_are_wrapped_as_they_are_made() -> None:
    with fsdp.enable_wrap(wrapper_cls=FSDP):
        model = nn.Sequential(fsdp.wrap(nn.Linear(2, 2)), fsdp.wrap(nn.Linear(2, 2)))
    assert [type(m) for m in model] == [FSDP, FSDP]
    assert isinstance(fsdp.wrap(nn.Linear(2, 2)), nn.Linear)
    sizes = [len(FSDP.fsdp_modules(FSDP(mlp(), auto_wrap_policy=policy))) for policy in (
        fsdp.CustomPolicy(lambda m: isinstance(m, nn.Tanh)),
        functools.partial(fsdp.size_based_auto_wrap_policy, min_num_params=1000))]  # fmt: skip
    assert sizes == [3, 3]


def check_parameters_that_get_their_memory_later() -> None:
    """A model on "meta", then on the CPU; another dtype; a state that is assigned; a parameter of another kind."""
    if dist.get_world_size() == 1:
        return
    plain = seeded(mlp)
    with core.device("meta"):
        model = sharded(mlp())
        third = sharded(mlp())
    model.to_empty(device="cpu")
    x = batches("mlp", 1)[0][0]
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    checkpoint.set_model_state_dict(third, plain.state_dict() if dist.get_rank() == 0 else {}, options=options)
    assert core.equal(third(x), plain(x))
    for assign in (False, True):
        state = {k: nn.Parameter(tensor.distribute_tensor(v, p.device_mesh, p.placements))
                 for (k, v), p in zip(plain.state_dict().items(), model.parameters(), strict=True)}  # fmt: skip
        model.load_state_dict(state, assign=assign)
        with core.no_grad():
            assert core.equal(model(x), plain(x))
            for p in (*plain.parameters(), *model.parameters()):
                p.mul_(2.0)
            assert core.equal(model(x), plain(x))
    opt = core.optim.SGD(model.parameters(), lr=0.1)
    model(x).sum().backward()
    opt.step()
    assert not core.equal(model(x), plain(x))
    model.zero_grad()
    model(x).sum().backward()
    model.double()
    with core.no_grad():
        assert model(x.double()).dtype == core.float64
        model[0].weight = nn.Parameter(core.ones(64, 16))
        assert "replaced by another" in raises(RuntimeError, lambda: model(x.double()))


# -- dtypes ------------------------------------------------------------------------------------------------------------


class Told(nn.Module):
    """A layer that remembers the dtypes that it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.told = nn.Linear(4, 4), []

    def forward(self, x: Any, *, scale: Any) -> Any:
        self.told.append((x.dtype, scale.dtype, self.layer.weight.dtype))
        return self.layer(x) * scale


def check_a_policy_says_in_which_dtypes_a_module_computes() -> None:
    half, one = core.bfloat16, core.float32
    x, scale = core.ones(2, 4), core.ones(4)
    for policy, told, out in (
        (fsdp.MixedPrecisionPolicy(half, one), (half, half, half), half),
        (fsdp.MixedPrecisionPolicy(half, one, one), (half, half, half), one),
        (fsdp.MixedPrecisionPolicy(half, cast_forward_inputs=False), (one, one, half), None),
        (fsdp.MixedPrecisionPolicy(output_dtype=half), (one, one, one), half),
    ):  # fmt: skip
        model = Told()
        if out is None:
            model.layer.forward = lambda x, m=model.layer: x.to(m.weight.dtype) @ m.weight.T + m.bias
        fully_shard(model, mp_policy=policy)
        y = model(x, scale=scale)
        assert model.told == [told], (policy, model.told)
        assert out in (None, y.dtype)
        y.float().sum().backward()
        assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {one}
        model.unshard()
        assert model.layer.weight.dtype == told[2]
        model.reshard()
        assert model.layer.weight.dtype == one


def in_half(plain: Any) -> Any:
    """A copy of a model that computes in bfloat16, as a policy lets it."""
    return copy.deepcopy(plain).to(core.bfloat16)


def check_gradients_in_half_are_those_of_one_process() -> None:
    """Of this rank's rows, in bfloat16, against their mean in one process."""
    n = dist.get_world_size()
    x, y = batches("mlp", 1)[0]
    for wrap in (lambda m: sharded(m, mp_policy=fsdp.MixedPrecisionPolicy(core.bfloat16, core.float32)),
                 lambda m: FSDP(m, mixed_precision=fsdp.MixedPrecision(core.bfloat16, core.float32))):  # fmt: skip
        plain, model = seeded(mlp), wrap(seeded(mlp))
        means = [core.zeros_like(p) for p in plain.parameters()]
        for a, b in zip(x.chunk(n), y.chunk(n), strict=True):
            one = in_half(plain)
            loss_of(one, a.to(core.bfloat16), b).backward()
            for mean, p in zip(means, one.parameters(), strict=True):
                mean += p.grad.float() / n
        loss_of(model, share(x), share(y)).backward()
        for mean, p in zip(means, model.parameters(), strict=True):
            assert core.allclose(p.grad.full_tensor(), mean, atol=1e-6), (p.grad.full_tensor() - mean).abs().max()


def check_sums_in_half_are_rounded_once() -> None:
    n = dist.get_world_size()
    model = fully_shard(nn.Linear(1, 1, bias=False), mp_policy=fsdp.MixedPrecisionPolicy(core.bfloat16))
    model(core.full((1, 1), 1.0 if dist.get_rank() == 0 else 2.0**-8)).sum().backward()
    expected = core.tensor((1.0 + (n - 1) * 2.0**-8) / n).to(core.bfloat16)
    assert model.weight.grad.full_tensor().item() == expected.item()
    small = fully_shard(nn.Linear(1, 1, bias=False), mp_policy=fsdp.MixedPrecisionPolicy(core.bfloat16, core.float32))
    small.set_requires_gradient_sync(False)
    for k in range(17):  # each is half of what bfloat16 tells apart at 1: they are added up in float32
        small.set_requires_gradient_sync(k == 16)
        small(core.full((1, 1), 1.0 if k == 0 else 2.0**-9)).sum().backward()
    assert small.weight.grad.full_tensor().item() == 1 + 16 * 2.0**-9


def check_half_trains_as_well() -> None:
    policy = fsdp.MixedPrecisionPolicy(core.bfloat16, core.float32)
    whole = trained("gpt", lambda m: m, data=lambda x: x)
    half = twice("gpt", functools.partial(sharded, mp_policy=policy))
    assert max(abs(a - b) for a, b in zip(whole, half, strict=True)) < 0.1
    again = twice("gpt", functools.partial(wrapped, mixed_precision=fsdp.MixedPrecision(core.bfloat16)))
    assert max(abs(a - b) for a, b in zip(whole, again, strict=True)) < 0.1


def check_norms_over_batches_stay_wide() -> None:
    precision = fsdp.MixedPrecision(core.bfloat16, buffer_dtype=core.bfloat16)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    model.register_buffer("scale", core.ones(1))
    model = FSDP(model, mixed_precision=precision)
    y = model(core.randn(2, 1, 4, 4))
    y.float().sum().backward()
    assert (model[1].running_mean.dtype, model.scale.dtype) == (core.float32, core.bfloat16)
    with FSDP.summon_full_params(model):
        assert {p.dtype for p in model.parameters()} == {core.float32}
    bad = fsdp.MixedPrecision(core.bfloat16, keep_low_precision_grads=True)
    assert "parameters' dtype" in raises(NotImplementedError, lambda: FSDP(nn.Linear(1, 1), mixed_precision=bad))
    assert "mesh['dp']" in raises(NotImplementedError, lambda: fully_shard(nn.Linear(1, 1), dp_mesh_dims=("dp",)))


# -- what is gathered before it is needed ------------------------------------------------------------------------------


def check_parameters_are_gathered_before_they_are_needed() -> None:
    """While a layer computes, what comes next is on its way: in the backward pass always, else where asked for."""
    if dist.get_world_size() == 1:
        return
    for ahead in (False, True):
        model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])
        log: list[tuple[str, int, list[bool]]] = []

        def note(kind: str, k: int, model: Any = model, log: Any = log) -> None:
            log.append((kind, k, [units_of(m)[0].there or units_of(m)[0].coming is not None for m in model]))

        for k, m in enumerate(model):
            fully_shard(m)
            m.register_forward_hook(lambda m, x, y, k=k: note("forward", k))
            m.register_full_backward_pre_hook(lambda m, g, k=k: note("backward", k))
        fully_shard(model)
        if ahead:
            for one, other in pairwise(model):
                one.set_modules_to_forward_prefetch([other])
        model(core.ones(2, 4, requires_grad=True)).sum().backward()
        forward = {k: there for kind, k, there in log if kind == "forward"}
        assert [forward[0][1], forward[1][2]] == [ahead, ahead], log
        backward = {k: there for kind, k, there in log if kind == "backward"}
        assert backward[1][1], log  # begun while the last one was computed
        assert not any(u.there or u.coming for u in units_of(model))


def check_modules_that_are_run_again_keep_their_names() -> None:
    plain, model = seeded(mlp), seeded(mlp)
    wrap = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    model = FSDP(model, auto_wrap_policy=fsdp.ModuleWrapPolicy({nn.Linear}))
    apply_activation_checkpointing(model, wrap, lambda m: isinstance(m, nn.Linear))
    assert [k for k, _ in model.named_parameters()] == [k for k, _ in plain.named_parameters()]
    assert list(model.state_dict()) == list(plain.state_dict())
    model.load_state_dict(plain.state_dict())
    x, y = batches("mlp", 1)[0]
    loss_of(plain, x, y).backward()
    loss_of(model, share(x), share(y)).backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        g = p.grad.full_tensor() if dist.get_world_size() > 1 else p.grad
        assert core.allclose(g, q.grad, atol=1e-5)
