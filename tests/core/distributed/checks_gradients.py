"""Gradients through collectives on several ranks, in names that core and PyTorch share."""

from __future__ import annotations


def _x(torch, rank):
    return torch.full((3,), rank + 1.0, requires_grad=True)


def check_all_reduce(torch, dist, rank, size):
    x = _x(torch, rank)
    y = dist.nn.functional.all_reduce(x * x)
    assert y.tolist() == [float(sum((r + 1) ** 2 for r in range(size)))] * 3
    (y * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [2.0 * (rank + 1) * sum(r + 1 for r in range(size))] * 3


def check_broadcast(torch, dist, rank, size):
    x = _x(torch, rank)
    y = dist.nn.functional.broadcast(x * 1, 1)
    assert y.tolist() == [2.0] * 3
    (y * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [float(sum(r + 1 for r in range(size))) if rank == 1 else 0.0] * 3


def check_reduce(torch, dist, rank, size):
    x = _x(torch, rank)
    y = dist.nn.functional.reduce(x * 1, 1)
    (y * (rank + 5)).sum().backward()
    assert x.grad.tolist() == [6.0] * 3


def check_all_gather(torch, dist, rank, size):
    x = _x(torch, rank)
    many = dist.nn.functional.all_gather(x * 2)
    assert [t[0].item() for t in many] == [2.0 * (r + 1) for r in range(size)]
    sum((t * (k + 1) * (rank + 1)).sum() for k, t in enumerate(many)).backward()
    assert x.grad.tolist() == [2.0 * (rank + 1) * sum(r + 1 for r in range(size))] * 3


def check_gather_and_scatter(torch, dist, rank, size):
    x = _x(torch, rank)
    many = dist.nn.functional.gather(x * 1, 0)
    sum((t * (k + 1)).sum() for k, t in enumerate(many)).backward()
    assert x.grad.tolist() == [rank + 1.0] * 3
    xs = [_x(torch, rank) for _ in range(size)]
    y = dist.nn.functional.scatter(xs, 0)
    assert y.tolist() == [1.0] * 3
    (y * (rank + 1)).sum().backward()
    if rank == 0:
        assert [t.grad[0].item() for t in xs] == [r + 1.0 for r in range(size)]


def check_reduce_scatter(torch, dist, rank, size):
    xs = [_x(torch, rank) for _ in range(size)]
    y = dist.nn.functional.reduce_scatter(torch.zeros(3), xs)
    assert y.tolist() == [float(sum(r + 1 for r in range(size)))] * 3
    (y * (rank + 1)).sum().backward()
    assert [t.grad[0].item() for t in xs] == [r + 1.0 for r in range(size)]


def check_all_to_all(torch, dist, rank, size):
    xs = [torch.full((r + 1,), float(rank), requires_grad=True) for r in range(size)]
    many = dist.nn.functional.all_to_all([torch.zeros(rank + 1) for _ in range(size)], xs)
    assert [t[0].item() for t in many] == [float(r) for r in range(size)]
    sum((t * (10 * rank + k)).sum() for k, t in enumerate(many)).backward()
    assert [t.grad[0].item() for t in xs] == [10.0 * r + rank for r in range(size)]
    x = torch.arange(float(size), requires_grad=True)
    y = dist.nn.functional.all_to_all_single(torch.zeros(size), x)
    (y * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [r + 1.0 for r in range(size)]
