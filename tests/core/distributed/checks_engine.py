"""What core's engine does beyond gloo's, or promises of its own: sizes that differ, rounding, bits, memory."""

from __future__ import annotations

import gc
import hashlib
from datetime import timedelta

import pytest


def check_results_have_the_same_bits_everywhere_and_each_time(torch, dist, rank, size):
    for n in (5, 1000, 300_001, 9_000_000):
        generator = torch.Generator().manual_seed(rank)
        own = torch.randn(n, generator=generator)
        prints = []
        for _ in range(3):
            x = own.clone()
            dist.all_reduce(x)
            prints.append(hashlib.sha256(x.numpy().tobytes()).hexdigest())
        many = [None] * size
        dist.all_gather_object(many, prints)
        assert len({p for row in many for p in row}) == 1, (n, many)


def check_narrow_floats_are_rounded_once(torch, dist, rank, size):
    for dtype, step in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
        x = torch.tensor([1.0 if rank == 0 else step], dtype=dtype)  # 1 + step is 1 in this dtype
        dist.all_reduce(x)
        expected = torch.tensor(1.0 + (size - 1) * step).to(dtype)
        assert x.item() == expected.item(), (dtype, x)


def check_narrow_floats_in_every_reduction(torch, dist, rank, size):
    """What each rank has is summed up in float32, in the ranks' order, and rounded once; several are on their way."""
    for dtype in (torch.bfloat16, torch.float16):
        for count in (1, 3, 1000):
            every = [torch.randn(count, generator=torch.Generator().manual_seed(r)).to(dtype) for r in range(size)]
            wide = torch.stack(every).float()
            total = wide[0]
            for row in wide[1:]:
                total = total + row
            x, y, z = (every[rank].clone() for _ in range(3))
            works = [dist.all_reduce(x, async_op=True), dist.all_reduce(y, dist.ReduceOp.MAX, async_op=True)]
            for work in works[::-1] if rank % 2 else works:
                work.wait()
            assert torch.equal(x, total.to(dtype))
            assert torch.equal(y, wide.max(0).values.to(dtype))
            dist.reduce(z, size - 1)
            assert torch.equal(z, total.to(dtype) if rank == size - 1 else every[rank])
            out = torch.zeros(count, dtype=dtype)
            dist.reduce_scatter_tensor(out, torch.cat([every[rank]] * size))
            assert torch.equal(out, total.to(dtype))
    x = torch.full((2,), 60000.0, dtype=torch.float16)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [60000.0] * 2  # the sum is no float16


def check_gathered_tensors_of_different_sizes(torch, dist, rank, size):
    many = [torch.zeros(k, 2) for k in range(size)]
    dist.all_gather(many, torch.full((rank, 2), float(rank)))
    assert [t.tolist() for t in many] == [[[float(k)] * 2] * k for k in range(size)]
    many = [torch.zeros(k + 1) for k in range(size)] if rank == 0 else None
    dist.gather(torch.full((rank + 1,), float(rank)), many)
    if rank == 0:
        assert [t.tolist() for t in many] == [[float(k)] * (k + 1) for k in range(size)]
    out = torch.zeros(rank + 1)
    dist.scatter(out, [torch.full((k + 1,), float(k)) for k in range(size)] if rank == 0 else None)
    assert out.tolist() == [float(rank)] * (rank + 1)
    out = torch.zeros(rank + 1)
    dist.reduce_scatter(out, [torch.full((k + 1,), float(rank + k)) for k in range(size)])
    assert out.tolist() == [float(sum(r + rank for r in range(size)))] * (rank + 1)


def check_stacked_all_gather(torch, dist, rank, size):
    out = torch.zeros(size, 2, 3)
    dist.all_gather_into_tensor(out, torch.full((2, 3), float(rank)))
    assert out[:, 1, 2].tolist() == [float(r) for r in range(size)]


def check_all_to_all_of_lists(torch, dist, rank, size):
    out = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(out, [torch.full((r + 1,), float(rank)) for r in range(size)])
    assert [t.tolist() for t in out] == [[float(r)] * (rank + 1) for r in range(size)]


def check_other_sums(torch, dist, rank, size):
    x = torch.tensor([True, rank == 0, False])
    dist.all_reduce(x)
    assert x.tolist() == [True, True, False]
    x = torch.tensor([True, rank == 0, False])
    dist.all_reduce(x, op=dist.ReduceOp.PRODUCT)
    assert x.tolist() == [True, False, False]
    x = torch.tensor([complex(rank, 1)])
    dist.all_reduce(x)
    assert x.tolist() == [complex(sum(range(size)), size)]
    x = torch.tensor([-7 * rank, 7 * rank])
    total = sum(range(size)) * 7
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [-(total // size), total // size]
    x = torch.full((3,), 2.0)
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5))
    assert x.tolist() == [float(size)] * 3
    for op in ("BAND", "MAX"):
        kind = torch.float32 if op == "BAND" else torch.complex64
        with pytest.raises(RuntimeError, match=op):
            dist.all_reduce(torch.ones(2, dtype=kind), op=getattr(dist.ReduceOp, op))


def check_large_sums_in_pieces(torch, dist, rank, size):
    n = (1 << 23) + (1 << 22) + 5  # 48 MB and a bit: four pieces
    x = torch.arange(n, dtype=torch.int32) + rank
    dist.all_reduce(x)
    expected = torch.arange(n, dtype=torch.int32) * size + sum(range(size))
    assert torch.equal(x, expected)


def check_work_that_nobody_keeps(torch, dist, rank, size):
    x, y = torch.full((50_000,), 1.0), torch.full((4, 3), 1.0).t()
    for t in (x, y):
        dist.all_reduce(t, async_op=True)
    gc.collect()
    rubbish = [torch.full((50_000,), 7.0) for _ in range(20)]
    dist.barrier()
    other = dist.new_group(list(range(size)))
    dist.destroy_process_group(other)
    for _ in range(1000):
        dist.barrier()
        if x[-1].item() == size and y[0, 0].item() == size:
            break
    assert x.tolist() == [float(size)] * 50_000
    assert y.tolist() == [[float(size)] * 4] * 3
    assert len(rubbish) == 20


def check_blocks_of_collectives(torch, dist, rank, size):
    xs = [torch.full((10,), float(k + rank)) for k in range(4)]
    with dist._coalescing_manager():
        for x in xs:
            assert dist.all_reduce(x) is None
    assert [x[0].item() for x in xs] == [float(sum(k + r for r in range(size))) for k in range(4)]
    outs = [torch.zeros(size) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as block:
        for k, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((1,), float(rank + k)), async_op=True)
    block.wait()
    assert [out.tolist() for out in outs] == [[float(r + k) for r in range(size)] for k in range(3)]
    dist.all_reduce_coalesced(xs)
    lists = [[torch.zeros(1) for _ in range(size)] for _ in range(2)]
    dist.all_gather_coalesced(lists, [torch.full((1,), float(rank + k)) for k in range(2)])
    assert [[t.item() for t in many] for many in lists] == [[float(r + k) for r in range(size)] for k in range(2)]


def check_objects_from_one_to_another(torch, dist, rank, size):
    if rank == 0:
        dist.send_object_list([{"a": 1}, "b"], 1)
    elif rank == 1:
        found = [None, None]
        assert dist.recv_object_list(found) == 0
        assert found == [{"a": 1}, "b"]


def check_groups_by_local_synchronization(torch, dist, rank, size):
    if rank < 2:
        pair = dist.new_group([0, 1], use_local_synchronization=True)
        x = torch.ones(1)
        dist.all_reduce(x, group=pair)
        assert x.item() == 2
        dist.destroy_process_group(pair)


def check_parts_of_a_group(torch, dist, rank, size):
    part = dist.split_group(split_ranks=[[0, 2], [1]])
    assert (part is None) == (rank == 3)
    if part is not None:
        x = torch.full((1,), float(rank))
        dist.all_reduce(x, group=part)
        assert x.item() == (1.0 if rank == 1 else 2.0)
    turned = dist.new_group([2, 0, 1], sort_ranks=False)
    if rank < 3:
        assert dist.get_rank(turned) == {2: 0, 0: 1, 1: 2}[rank]
        many = [torch.zeros(1) for _ in range(3)]
        dist.all_gather(many, torch.full((1,), float(rank)), group=turned)
        assert [t.item() for t in many] == [2.0, 0.0, 1.0]


def check_messages_in_a_group(torch, dist, rank, size):
    group = dist.new_group([1, 2])
    x = torch.full((2,), float(rank))
    if rank == 1:
        dist.send(x, 2, group=group)
        dist.recv(x, group_src=1, group=group)
    elif rank == 2:
        assert dist.recv(x, group=group) == 1
        assert x.tolist() == [1.0, 1.0]
        dist.send(x * 2, group_dst=0, group=group)
    if rank == 1:
        assert x.tolist() == [2.0, 2.0]


def check_a_group_ends_with_what_nobody_sends(torch, dist, rank, size):
    group = dist.new_group()
    x = torch.zeros(3)
    work = dist.irecv(x, group=group)
    dist.destroy_process_group(group)
    assert work.is_completed()
    assert x.tolist() == [0.0] * 3


def check_a_work_tells_what_it_is(torch, dist, rank, size):
    x = torch.zeros(3)
    if rank == 1:
        work = dist.irecv(x, 0)
        dist.barrier()
        work.wait(timedelta(seconds=10))
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
        assert work.source_rank() == 0
        assert work.result()[0] is x
    else:
        dist.barrier()
        if rank == 0:
            dist.isend(torch.ones(3), 1).wait()


def check_writes_are_counted(torch, dist, rank, size):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    dist.all_reduce(y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def check_a_group_of_gpus_refuses_what_is_on_the_cpu(torch, dist, rank, size):
    group = dist.new_group(backend="nccl")
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(1), group=group)
