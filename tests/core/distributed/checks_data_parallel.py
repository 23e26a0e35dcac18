"""What `DistributedDataParallel` does on ranks: run by test_on_ranks.py."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from core.distributed.algorithms.join import Join
from core.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from core.events import observe
from core.nn.parallel import DistributedDataParallel as DDP
from tests.core.distributed.divided import seeded
from tests.core.distributed.models import (
    MODELS,
    batches,
    cnn,
    loss_of,
    mean,
    mlp,
    raises,
    same_everywhere,
    share,
)


def check_models_begin_as_rank_0s() -> None:
    core.manual_seed(dist.get_rank())
    model = cnn()
    model[1].running_mean.fill_(float(dist.get_rank()))
    wrapped = DDP(model)
    assert same_everywhere(*wrapped.parameters(), *wrapped.buffers())
    assert model[1].running_mean.tolist() == [0.0] * 8


def check_other_shapes_are_refused_on_every_rank() -> None:
    if dist.get_world_size() == 1:
        return
    told = raises(RuntimeError, lambda: DDP(nn.Linear(2, 3 if dist.get_rank() == 1 else 2)))
    assert "same model across all ranks" in told
    assert "(2, 2)" in told
    assert "(3, 2)" in told
    assert "on rank 1" in told


def check_gradients_are_means_and_no_sync_adds_up() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    model = DDP(nn.Linear(1, 1, bias=False))
    w = model.module.weight
    with model.no_sync():
        model(core.full((1, 1), float(rank))).sum().backward()
    assert w.grad.item() == rank
    model(core.full((1, 1), 10.0 * rank)).sum().backward()
    mean_rank = (n - 1) / 2
    assert w.grad.item() == (11 * mean_rank if n > 1 else 0.0)
    model(core.ones(1, 1)).sum().backward()  # added to what is there
    assert abs(w.grad.item() - 11 * mean_rank - 1) < 1e-5


def check_two_passes_through_before_one_back() -> None:
    model = DDP(nn.Linear(1, 1, bias=False))
    (model(core.ones(1, 1)) + model(core.full((1, 1), 2.0))).sum().backward()
    assert model.module.weight.grad.item() == 3.0


class Half(nn.Module):
    """Uses one of its layers, another on each rank, and one never."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])

    def forward(self, x: Any, which: int) -> Any:
        return {"out": [self.parts[which](x)]}


def check_parameters_that_a_rank_does_not_use() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return
    for more in ({}, {"gradient_as_bucket_view": True}):
        model = DDP(Half(), find_unused_parameters=True, bucket_cap_mb=1e-5, **more)
        for _ in range(3):
            model.zero_grad()
            model(core.ones(1, 2), rank % 2)["out"][0].sum().backward()
            first, second, never = (p.grad for p in model.parameters())
            assert first.tolist() == [[0.5, 0.5]] * 2
            assert second.tolist() == [[0.5, 0.5]] * 2
            assert never is None


def check_unused_parameters_are_named() -> None:
    if dist.get_world_size() == 1:
        return
    model = DDP(Half())
    model(core.ones(1, 2), 1)["out"][0].sum().backward()
    told = raises(RuntimeError, lambda: model(core.ones(1, 2), 1))
    assert "Expected to have finished reduction" in told
    assert "parts.0.weight, parts.2.weight" in told


class Again(Half):
    """Runs its first layer twice, each time anew in the backward pass, and uses no other."""

    def forward(self, x: Any, reentrant: bool) -> Any:
        for _ in range(2):
            x = core.utils.checkpoint.checkpoint(self.parts[0], x, use_reentrant=reentrant)
        return x


def check_a_static_graph_may_leave_out_and_repeat() -> None:
    for reentrant in (False, True):
        inner = Again()
        nn.init.ones_(inner.parts[0].weight)
        model = DDP(inner, static_graph=True, bucket_cap_mb=1e-5)
        for _ in range(3):
            model.zero_grad()
            model(core.full((1, 2), float(dist.get_rank()), requires_grad=True), reentrant).sum().backward()
            used, *unused = (p.grad for p in model.parameters())
            assert used.tolist() == [[4 * (dist.get_world_size() - 1) / 2] * 2] * 2, used
            assert unused == [None, None]


def check_sparse_gradients_stay_sparse() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    model = DDP(nn.Sequential(nn.Embedding(6, 2, sparse=True), nn.Flatten(0)))
    for _ in range(2):
        model.zero_grad()
        model(core.tensor([rank, 5])).sum().backward()
        g = model.module[0].weight.grad
        assert g.is_sparse
        assert g.to_dense().tolist() == [[1 / n if k < n else float(k == 5)] * 2 for k in range(6)]


def check_buckets_follow_the_order_of_arrival() -> None:
    if dist.get_world_size() == 1:
        return
    # registered in the order in which they are used last to first
    model = nn.ModuleDict({"c": nn.Linear(4, 4), "b": nn.Linear(4, 4), "a": nn.Linear(4, 4)})
    model.forward = lambda x: model["c"](model["b"](model["a"](x)))  # type: ignore[method-assign]
    wrapped = DDP(model, bucket_cap_mb=1e-5)
    names = {id(p): name for name, p in model.named_parameters()}
    for _ in range(2):
        wrapped(core.ones(2, 4)).sum().backward()
    wrapped(core.ones(2, 4))
    order = [names[id(p)][0] for b in wrapped.reducer.buckets for p in b.params]
    assert order == list("ccbbaa"), order


def check_most_is_sent_before_the_pass_ends() -> Any:
    """The share of the bytes that were sent when 90 % of the gradients had come, counted in the second pass."""
    if dist.get_world_size() == 1:
        return None
    shares = {}
    for name, cap in (("mlp", 0.005), ("gpt", 0.02)):
        core.manual_seed(0)
        inner = MODELS[name]()
        come: list[Any] = []
        for p in inner.parameters():
            p.register_post_accumulate_grad_hook(come.append)
        model = DDP(inner, bucket_cap_mb=cap)
        sent: list[tuple[int, int]] = []

        def hook(state: Any, bucket: Any, come: list[Any] = come, sent: list[Any] = sent) -> Any:
            sent.append((len(come), bucket.buffer().nbytes))
            return default_hooks.allreduce_hook(state, bucket)

        model.register_comm_hook(None, hook)
        for x, y in batches(name, 2):
            come.clear(), sent.clear()
            loss_of(model, share(x), share(y)).backward()
        leaves = len(list(inner.parameters()))
        assert len(come) == leaves
        shares[name] = sum(size for at, size in sent if at <= 0.9 * leaves) / sum(size for _, size in sent)
    return shares


def check_compressed_gradients_are_close() -> None:
    for hook, limit in ((default_hooks.fp16_compress_hook, 1e-3), (default_hooks.bf16_compress_hook, 1e-2),
                        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 1e-3)):  # fmt: skip
        core.manual_seed(0)
        plain, model = DDP(mlp()), DDP(mlp())
        plain.module.load_state_dict(model.module.state_dict())
        model.register_comm_hook(None, hook)
        x, y = batches("mlp", 1)[0]
        for m in (plain, model):
            loss_of(m, share(x), share(y)).backward()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert q.grad.dtype == core.float32
            assert core.allclose(p.grad, q.grad, atol=limit, rtol=limit)
            assert not core.equal(p.grad, q.grad)
        assert same_everywhere(*(p.grad for p in model.parameters()))
    assert "only be called once" in raises(RuntimeError, lambda: model.register_comm_hook(None, hook))


class Sent(observe.Follower):
    """Counts the bytes of collectives."""

    size_bytes = 0

    def collective(self, work: Any, what: str) -> None:
        self.size_bytes += work.size_bytes * (what == "begun")


def check_compressed_gradients_are_half_as_many_bytes() -> None:
    if dist.get_world_size() == 1:
        return
    sizes = []
    for hook in (default_hooks.allreduce_hook, default_hooks.bf16_compress_hook):
        model, sent = DDP(nn.Linear(8, 8)), Sent()
        model.register_comm_hook(None, hook)
        observe.follow(sent)
        model(core.ones(1, 8)).sum().backward()
        observe.unfollow(sent)
        sizes.append(sent.size_bytes)
    assert sizes == [4 * 72, 2 * 72]


def power(model: Any, hook: Any = powerSGD_hook.powerSGD_hook, **more: Any) -> Any:
    """A model whose gradients are sent as thin matrices from the third step on, and the state of that."""
    model = DDP(model)
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=0.1, **more)
    model.register_comm_hook(state, hook)
    return model, state


def check_thin_matrices_of_full_rank_are_the_gradients() -> None:
    plain, (model, state) = DDP(seeded(mlp)), power(seeded(mlp), matrix_approximation_rank=64)
    for x, y in batches("mlp", 5):
        for m in (plain, model):
            m.zero_grad()
            loss_of(m, share(x), share(y)).backward()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert core.allclose(p.grad, q.grad, atol=1e-5)
    assert state.iter == 5
    assert same_everywhere(*(p.grad for p in model.parameters()))


def check_thin_matrices_send_little_and_lose_nothing_for_good() -> None:
    """What a step leaves out is kept, and comes with the next ones: of equal gradients the sum comes to theirs."""
    n, steps = dist.get_world_size(), 40
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        model, state = power(seeded(lambda: nn.Linear(32, 32, bias=False)), hook, matrix_approximation_rank=2)
        x = core.randn(8, 32, generator=core.Generator().manual_seed(dist.get_rank()))
        total, true = core.zeros(32, 32), None
        for _ in range(steps):
            model.zero_grad()
            model(x).square().mean().backward()
            total += model.module.weight.grad
            true = model.module.weight.grad.clone() if true is None else true  # the first two are sent as they are
        kept = state.error_dict[0].clone()
        dist.all_reduce(kept)
        assert core.allclose(total + kept.view(32, 32) / n, steps * true, atol=1e-4)
        assert (total - steps * true).norm() < 0.2 * (steps * true).norm()
        assert state.compression_stats() == (8.0, (steps - 2) * 1024, (steps - 2) * 128)
    told = raises(ValueError, lambda: powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1))
    assert "start_powerSGD_iter" in told


def check_buffers_are_rank_0s_in_each_pass() -> None:
    core.manual_seed(0)
    for sent in (True, False):
        model = DDP(nn.BatchNorm1d(2), broadcast_buffers=sent)
        for _ in range(2):
            model(core.full((2, 2), float(dist.get_rank())) + core.tensor([[0.0], [1.0]])).sum().backward()
        model.eval()
        model(core.ones(2, 2))
        assert same_everywhere(*model.buffers()) == (sent or dist.get_world_size() == 1)


def check_uneven_inputs() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for initial in (True, False):
        core.manual_seed(0)
        model = DDP(nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, affine=False)), bucket_cap_mb=1e-5)
        core.nn.init.ones_(model.module[0].weight)
        model.module[1] = nn.Identity()
        opt = core.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=initial):
            for _ in range(2 + rank):
                opt.zero_grad()
                model(core.ones(1, 1)).sum().backward()
                opt.step()
        # each step takes 0.1 times the share of the ranks that have inputs, or just 0.1
        gone = sum((n - max(0, k - 1)) / n if initial else 1.0 for k in range(2 + n - 1))
        assert same_everywhere(model.module[0].weight)
        assert abs(model.module[0].weight.item() - (1 - 0.1 * gone)) < 1e-5, (model.module[0].weight, gone)


def check_uneven_inputs_of_a_model_with_buffers_and_zero() -> None:
    core.manual_seed(0)
    model = DDP(cnn(), bucket_cap_mb=0.002)
    opt = ZeroRedundancyOptimizer(model.parameters(), core.optim.Adam, lr=1e-3)
    many = batches("cnn", 3 + dist.get_rank())
    with Join([model, opt]):
        for x, y in many:
            opt.zero_grad()
            loss_of(model, share(x), share(y)).backward()
            opt.step()
    assert same_everywhere(*model.parameters(), *model.buffers())
    if dist.get_world_size() > 1:

        def early() -> None:
            with Join([model, opt], throw_on_early_termination=True):
                for x, y in many:
                    loss_of(model, share(x), share(y)).backward()

        told = raises(RuntimeError, early)
        assert "exhausted" in told


def check_local_sgd_averages_models() -> None:
    rank = dist.get_rank()
    model = DDP(nn.Linear(1, 1, bias=False))
    state = post_localSGD_hook.PostLocalSGDState(None, None, 1, post_local_gradient_allreduce=False)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = dist.algorithms.model_averaging.PeriodicModelAverager(period=2, warmup_steps=1)
    opt = PostLocalSGDOptimizer(core.optim.SGD(model.parameters(), lr=0.1), averager)
    seen = []
    for _ in range(4):
        opt.zero_grad()
        model(core.full((1, 1), float(rank))).sum().backward()
        opt.step()
        seen.append(same_everywhere(model.module.weight))
    assert seen == ([True, True, False, True] if dist.get_world_size() > 1 else [True] * 4)


def check_zero_divides_the_state_and_gathers_it() -> None:
    n = dist.get_world_size()
    core.manual_seed(0)
    model = DDP(mlp())
    opt = ZeroRedundancyOptimizer(model.parameters(), core.optim.Adam, lr=1e-3)
    schedule = core.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    before = core.events.observe.tally.steps
    for x, y in batches("mlp", 2):
        loss_of(model, share(x), share(y)).backward()
        opt.step()
        schedule.step()
    assert core.events.observe.tally.steps == before + 2
    assert opt.optim.param_groups[0]["lr"] == 5e-4  # of the last step
    counts: list[Any] = [None] * n
    dist.all_gather_object(counts, len(opt.state))
    assert sum(counts) == 6
    assert max(counts) < 6 or n == 1
    opt.consolidate_state_dict(to=n - 1)
    if dist.get_rank() == n - 1:
        state = opt.state_dict()
        assert list(state["state"]) == list(range(6))
    else:
        assert "has not been consolidated" in raises(RuntimeError, opt.state_dict)
        state = None
    told = [state]
    dist.broadcast_object_list(told, src=n - 1)
    other = ZeroRedundancyOptimizer(model.parameters(), core.optim.Adam, lr=1.0)
    other.load_state_dict(told[0])
    assert other.param_groups[0]["lr"] == 2.5e-4
    for p, mine in opt.state.items():
        assert core.equal(other.state[p]["exp_avg"], mine["exp_avg"])
    plain = core.optim.Adam(model.parameters())
    plain.load_state_dict(told[0])
    assert len(plain.state) == 6


def check_samplers_divide_the_data() -> None:
    n = dist.get_world_size()
    sampler = core.utils.data.DistributedSampler(range(10), shuffle=True)
    assert (sampler.rank, sampler.num_replicas) == (dist.get_rank(), n)
    every: list[Any] = [None] * n
    dist.all_gather_object(every, list(sampler))
    assert {k for part in every for k in part} == set(range(10))
    assert {len(part) for part in every} == {-(-10 // n)}


def check_batch_norm_is_that_of_all_batches() -> None:
    """Ranks with batches of different sizes, one of them empty, against one batch in one process."""
    rank, n = dist.get_rank(), dist.get_world_size()
    g = core.Generator().manual_seed(3)
    x, weights = core.randn(6, 3, 4, generator=g), core.randn(6, 3, 4, generator=g)
    ends = [0, 1, 6, 6, 6] if n == 4 else [0, 2, 6] if n == 2 else [0, 6]
    one, sync = nn.BatchNorm1d(3), nn.SyncBatchNorm(3)
    whole, part = x.clone().requires_grad_(), x[ends[rank] : ends[rank + 1]].clone().requires_grad_()
    (one(whole) * weights).sum().backward()
    (sync(part) * weights[ends[rank] : ends[rank + 1]]).sum().backward()
    assert core.allclose(part.grad, whole.grad[ends[rank] : ends[rank + 1]], atol=1e-5)
    for p, q in zip(sync.parameters(), one.parameters(), strict=True):
        dist.all_reduce(p.grad)
        assert core.allclose(p.grad, q.grad, atol=1e-5)
    for b, c in zip(sync.buffers(), one.buffers(), strict=True):
        assert core.allclose(b, c, atol=1e-6)
    if n == 2:
        told = raises(ValueError, lambda: nn.SyncBatchNorm(3)(core.zeros(1 - rank, 3)))
        assert "more than 1 value per channel" in told


def check_a_copy_is_a_model_of_its_own() -> None:
    core.manual_seed(0)
    model = DDP(mlp())
    x, y = batches("mlp", 1)[0]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        model.zero_grad()
        loss_of(model, share(x), share(y)).backward()
        loss_of(other, share(x), share(y)).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            assert p is not q
            assert core.equal(p.grad, q.grad)
    plain = copy.deepcopy(model.module)
    assert not any(p._post_hooks for p in plain.parameters())


def check_losses_are_seen_alike() -> Any:
    return mean(core.tensor(float(dist.get_rank())))
