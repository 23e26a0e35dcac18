"""What collectives do on several ranks, in names that core and PyTorch share: `jobs` runs these on either."""

from __future__ import annotations

import functools
import math
import operator


def full(torch, value, *size, dtype=None):
    return torch.full(size, value, dtype=dtype or torch.float32)


def check_all_reduce_with_every_op(torch, dist, rank, size):
    op = dist.ReduceOp
    values = [float(r + 1) for r in range(size)]
    for how, expected in ((op.SUM, sum(values)), (op.PRODUCT, math.prod(values)), (op.MIN, 1.0), (op.MAX, float(size)),
                          (op.AVG, sum(values) / size)):  # fmt: skip
        x = full(torch, values[rank], 2, 3)
        assert dist.all_reduce(x, op=how) is None
        assert x.tolist() == [[expected] * 3] * 2, (how, x)


def check_all_reduce_of_bits(torch, dist, rank, size):
    op = dist.ReduceOp
    values = [8 | (r & 3) for r in range(size)]
    for how, one in ((op.BAND, operator.and_), (op.BOR, operator.or_), (op.BXOR, operator.xor)):
        x = torch.tensor([values[rank]], dtype=torch.int32)
        dist.all_reduce(x, op=how)
        assert x.item() == functools.reduce(one, values), (how, x)


def check_all_reduce_of_every_dtype(torch, dist, rank, size):
    total = size * (size + 1) // 2
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
                  torch.int64):  # fmt: skip
        x = full(torch, rank + 1, 5, dtype=dtype)
        dist.all_reduce(x)
        assert x.dtype == dtype
        assert x.tolist() == [total] * 5, x


def check_all_reduce_of_strided_memory(torch, dist, rank, size):
    x = torch.arange(12.0).reshape(3, 4).t()[1:]
    base = x.clone()
    x += rank
    dist.all_reduce(x)
    assert torch.equal(x, base * size + sum(range(size)))


def check_all_reduce_of_scalars_and_nothing(torch, dist, rank, size):
    x = torch.tensor(1.5)
    dist.all_reduce(x)
    assert x.item() == 1.5 * size
    y = torch.zeros(0)
    dist.all_reduce(y)
    assert y.numel() == 0


def check_async_work(torch, dist, rank, size):
    many = [full(torch, rank + k, 1000 * k + 1) for k in range(5)]
    works = [dist.all_reduce(t, async_op=True) for t in many]
    for k in reversed(range(5)):
        assert works[k].wait()
        assert works[k].is_completed()
        assert many[k].tolist() == [sum(r + k for r in range(size))] * many[k].numel()


def check_work_gives_a_future(torch, dist, rank, size):
    x = full(torch, 1.0, 3)
    half = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] / 2)
    assert half.wait().tolist() == [size / 2] * 3


def check_broadcast(torch, dist, rank, size):
    for src in range(size):
        x = torch.arange(6).reshape(2, 3).t() + 10 * rank
        dist.broadcast(x, src)
        assert torch.equal(x, torch.arange(6).reshape(2, 3).t() + 10 * src)
    flags = torch.tensor([rank == 0, True])
    dist.broadcast(flags, src=0)
    assert flags.tolist() == [True, True]


def check_reduce(torch, dist, rank, size):
    x = full(torch, rank + 1.0, 4)
    dist.reduce(x, dst=size - 1)
    if rank == size - 1:
        assert x.tolist() == [size * (size + 1) / 2] * 4


def check_all_gather(torch, dist, rank, size):
    many = [torch.zeros(2, 3, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(many, full(torch, rank, 2, 3, dtype=torch.int64))
    assert [t.tolist() for t in many] == [[[r] * 3] * 2 for r in range(size)]


def check_all_gather_into_tensor(torch, dist, rank, size):
    for shape in ((size * 2, 3), (size, 2, 3)):
        out = torch.zeros(shape)
        dist.all_gather_into_tensor(out, full(torch, rank, 2, 3))
        assert torch.equal(out.reshape(size, 6), torch.arange(float(size))[:, None].expand(size, 6))


def check_gather(torch, dist, rank, size):
    many = [torch.zeros(3) for _ in range(size)] if rank == 1 else None
    dist.gather(full(torch, rank, 3), many, dst=1)
    if rank == 1:
        assert [t.tolist() for t in many] == [[float(r)] * 3 for r in range(size)]


def check_scatter(torch, dist, rank, size):
    out = torch.zeros(3)
    dist.scatter(out, [full(torch, 10 + r, 3) for r in range(size)] if rank == 1 else None, src=1)
    assert out.tolist() == [10.0 + rank] * 3


def check_reduce_scatter(torch, dist, rank, size):
    out = torch.zeros(2)
    dist.reduce_scatter(out, [full(torch, rank + 10 * k, 2) for k in range(size)])
    assert out.tolist() == [sum(r + 10 * rank for r in range(size))] * 2
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * size) + rank)
    assert out.tolist() == [size * (2 * rank + k) + sum(range(size)) for k in range(2)]


def check_all_to_all(torch, dist, rank, size):
    out = torch.zeros(size)
    dist.all_to_all_single(out, torch.arange(float(size)) + 10 * rank)
    assert out.tolist() == [10.0 * r + rank for r in range(size)]
    # rank r sends r + 1 rows to each
    rows = torch.full(((rank + 1) * size, 2), float(rank))
    out = torch.zeros(sum(r + 1 for r in range(size)), 2)
    dist.all_to_all_single(out, rows, output_split_sizes=[r + 1 for r in range(size)],
                           input_split_sizes=[rank + 1] * size)  # fmt: skip
    assert out[:, 1].tolist() == [float(r) for r in range(size) for _ in range(r + 1)]


def check_messages(torch, dist, rank, size):
    x = torch.zeros(3)
    if rank == 0:
        for r in range(1, size):
            dist.send(full(torch, r, 3), r)
        seen = sorted(dist.recv(x) for _ in range(1, size))
        assert seen == list(range(1, size))
    else:
        assert dist.recv(x, 0) == 0
        assert x.tolist() == [float(rank)] * 3
        dist.send(x, 0)
    dist.barrier()  # before another message could be the one from any rank


def check_messages_by_tag(torch, dist, rank, size):
    if rank == 0:
        works = [dist.isend(full(torch, tag, 2), 1, tag=tag) for tag in (3, 7)]
        for w in works:
            w.wait()
    elif rank == 1:
        a, b = torch.zeros(2), torch.zeros(2)
        late = dist.irecv(a, 0, tag=7)
        dist.recv(b, 0, tag=3)
        late.wait()
        assert (a.tolist(), b.tolist()) == ([7.0] * 2, [3.0] * 2)


def check_batches_of_messages(torch, dist, rank, size):
    out, come = full(torch, rank, 4), torch.zeros(4)
    ops = [dist.P2POp(dist.isend, out, (rank + 1) % size), dist.P2POp(dist.irecv, come, (rank - 1) % size)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    assert come.tolist() == [float((rank - 1) % size)] * 4


def check_objects(torch, dist, rank, size):
    many = [None] * size
    dist.all_gather_object(many, {"rank": rank, "long": "x" * (100 * rank)})
    assert [m["rank"] for m in many] == list(range(size))
    assert len(many[-1]["long"]) == 100 * (size - 1)
    several = [rank, {"a": torch.full((2,), float(rank))}]
    dist.broadcast_object_list(several, src=1)
    assert several[0] == 1
    assert several[1]["a"].tolist() == [1.0, 1.0]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(("of", rank), gathered, dst=0)
    assert gathered == ([("of", r) for r in range(size)] if rank == 0 else None)
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" * r for r in range(size)] if rank == 0 else None, src=0)
    assert out == [f"for {rank}" * rank]


def check_groups(torch, dist, rank, size):
    even = dist.new_group(list(range(0, size, 2)))
    odd = dist.new_group(list(range(1, size, 2)))
    own, other = (even, odd) if rank % 2 == 0 else (odd, even)
    x = full(torch, rank, 1)
    dist.all_reduce(x, group=own)
    assert x.item() == sum(range(rank % 2, size, 2))
    assert dist.get_rank(own) == rank // 2
    assert dist.get_rank(other) == -1
    assert dist.get_world_size(own) == len(range(rank % 2, size, 2))
    assert dist.get_process_group_ranks(own) == list(range(rank % 2, size, 2))
    assert dist.get_global_rank(own, dist.get_group_rank(own, rank)) == rank
    y = full(torch, rank, 1)
    src = rank % 2  # a rank among all
    dist.broadcast(y, src, group=own)
    assert y.item() == src


def check_subgroups(torch, dist, rank, size):
    if size % 2:
        return
    own, everyone = dist.new_subgroups(group_size=2)
    assert len(everyone) == size // 2
    x = full(torch, rank, 1)
    dist.all_reduce(x, group=own)
    assert x.item() == rank // 2 * 4 + 1
    pairs = [[r, size - 1 - r] for r in range(size // 2)]
    own, _ = dist.new_subgroups_by_enumeration(pairs)
    dist.all_reduce(x.fill_(1), group=own)
    assert x.item() == 2


def check_device_mesh(torch, dist, rank, size):
    if size != 4:
        return
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.shape == (2, 2)
    assert list(mesh.get_coordinate()) == [rank // 2, rank % 2]
    assert mesh.get_local_rank("tp") == rank % 2
    assert mesh["dp"].size() == 2
    assert mesh["dp"].get_local_rank() == rank // 2
    assert mesh.mesh.tolist() == [[0, 1], [2, 3]]
    x = full(torch, rank, 1)
    dist.all_reduce(x, group=mesh.get_group("dp"))
    assert x.item() == (rank % 2) * 2 + 2
    y = full(torch, rank, 1)
    dist.all_reduce(y, group=mesh["tp"].get_group())
    assert y.item() == rank // 2 * 4 + 1


def check_barriers(torch, dist, rank, size):
    dist.barrier()
    assert dist.barrier(async_op=True).wait() in (True, None)
    dist.monitored_barrier()


def check_arguments_are_refused_on_every_rank(torch, dist, rank, size):
    for call, kind in ((lambda: dist.all_reduce(3), TypeError),
                       (lambda: dist.all_gather([torch.zeros(1)] * size, 3), TypeError),
                       (lambda: dist.broadcast(torch.zeros(1), size + 3), (ValueError, RuntimeError)),
                       (lambda: dist.reduce_scatter_tensor(torch.zeros(2), torch.zeros(3)), (ValueError, RuntimeError)),
                       (lambda: dist.new_group([size]), (ValueError, RuntimeError)),
                       (lambda: dist.init_process_group("gloo"), (ValueError, RuntimeError))):  # fmt: skip
        try:
            call()
        except kind:
            continue
        raise AssertionError("nothing was refused")
    dist.barrier()


def check_random_sizes(torch, dist, rank, size):
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        n = int(torch.randint(1, 3000, (1,), generator=generator))
        x = torch.arange(float(n)) * (rank + 1)
        dist.all_reduce(x)
        assert torch.equal(x, torch.arange(float(n)) * (size * (size + 1) // 2))
