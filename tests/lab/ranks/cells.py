"""Cells for four ranks: what is wrong in them is found with its line; what comes close and is right is left alone."""

from __future__ import annotations

SETUP = """
import time
import core as torch
import core.distributed as dist
from core import nn
import core.nn.functional as F
from core.nn.parallel import DistributedDataParallel as DDP
from core.utils.data import DataLoader, DistributedSampler, TensorDataset
rank, size = dist.get_rank(), dist.get_world_size()

def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

def batch(n=16):
    return torch.randn(n, 64), torch.randint(0, 10, (n,))
"""

STEP = """
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
"""

# name: (kind of the first finding, its line, words that it says, cell); the magic's line is line 1
PLANTED: dict[str, tuple[str, int, tuple[str, ...], str]] = {
    "a rank that is always late": ("late-rank", 7, ("Rank 2 is late", "line 7"), """
model = DDP(net())
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x, y = batch()
    time.sleep(0.08 if rank == 2 else 0)""" + STEP),
    "gradients that nobody averages": ("gradients-differ", 8, ("Gradients differ", "line 8"), """
model = net()
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x, y = batch()""" + STEP.replace("opt.zero_grad()\n    F", "F") + """
dist.barrier()
"""),
    "only some gradients are averaged": ("gradients-differ", 10, ("line 10", "`model.2.weight`"), """
model = net()
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    for p in model[0].parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    opt.step(); opt.zero_grad()
"""),
    "the wrapped model is not the one that is called": ("gradients-differ", 10, ("not averaged",), """
model = net()
ddp = DDP(model)
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = batch()
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
"""),
    "different initial weights": ("weights-differ", 9, ("different initial weights", "line 9"), """
model = net(seed=rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    opt.step(); opt.zero_grad()
"""),
    "each rank has a model of its own": ("gradients-differ", 6, ("nothing is sent",), """
model = net(seed=rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = batch()
    F.cross_entropy(model(x), y).backward(); opt.step(); opt.zero_grad()
"""),
    "no DistributedSampler": ("same-data", 4, ("no `DistributedSampler`", "`loader`", "line 4"), """
model = DDP(net())
data = TensorDataset(*batch(256))
loader = DataLoader(data, 32, shuffle=True)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:""" + STEP),
    "the same random batches": ("same-data", 7, ("same batches", "seed 0"), """
model = DDP(net())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x, y = batch()
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
"""),
    "a rank with larger batches": ("unbalanced-batch", 8, ("Rank 1 has batches of 32 items", "the others of 16"), """
model = DDP(net())
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x, y = batch(32 if rank == 1 else 16)
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
"""),
    "a rank with fewer steps": ("collective-left", 8, ("rank 1, which has ended the cell without it", "line 8"), """
model = DDP(net())
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6 - (rank == 1)):
    x, y = batch()
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
"""),
    "more steps where nothing is sent": ("gradients-differ", 6, ("drift apart",), """
model = net()
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3 + rank):
    x, y = batch(); F.cross_entropy(model(x), y).backward(); opt.step(); opt.zero_grad()
"""),
    "sums by hand after the backward pass": ("no-overlap", 9, ("line 9", "4 operations a step", "line 7"), """
model = net()
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    opt.step(); opt.zero_grad()
"""),
    "another collective on one rank": ("collective-mismatch", 4, (
        "Rank 1 calls `broadcast` on line 4", "`all_reduce` on line 6", "number 1"), """
t = torch.ones(4)
if rank == 1:
    dist.broadcast(t, 0)
else:
    dist.all_reduce(t)
"""),
    "another size on one rank": ("collective-mismatch", 3, ("of 32 bytes", "of 16 bytes"), """
t = torch.ones(8 if rank == 3 else 4)
dist.all_reduce(t)
"""),
    "a collective under a rank": ("collective-left", 4, ("Rank 0 waits in `barrier` on line 4 for ranks 1 to 3",), """
t = torch.ones(4)
if rank == 0:
    dist.barrier()
"""),
    "a rank that hangs": ("hung-rank", 6, (
        "Rank 1 hangs on line 6", "ranks 0, 2 and 3 waited for it in `all_reduce` on line 7"), """
t = torch.ones(4)
dist.all_reduce(t)
if rank == 1:
    while True:
        time.sleep(0.01)
dist.all_reduce(t)
"""),
}  # fmt: skip

HEALTHY: dict[str, str] = {
    "DDP with a sampler": """
model = DDP(net())
torch.manual_seed(0)
data = TensorDataset(*batch(256))
sampler = DistributedSampler(data)
loader = DataLoader(data, 16, sampler=sampler)
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:""" + STEP.replace("\n    ", "\n        "),
    "ZeRO": """
from core.distributed.optim import ZeroRedundancyOptimizer
model = DDP(net())
torch.manual_seed(rank)
opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
for step in range(4):
    x, y = batch()""" + STEP,
    "gradients added up before they are sent": """
model = DDP(net())
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    opt.zero_grad()
    with model.no_sync():
        x, y = batch()
        F.cross_entropy(model(x), y).backward()
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    opt.step()
""",
    "weights averaged every second step": """
model = net()
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 9):
    x, y = batch()
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
    if step % 2 == 0:
        for p in model.parameters():
            dist.all_reduce(p.data, op=dist.ReduceOp.AVG)
""",
    "another learning rate on each rank": """
model = net()
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=10.0 ** -rank)
for step in range(4):
    x, y = batch()""" + STEP,
    "weights and optimizer state in shares": """
from core.distributed.fsdp import fully_shard
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, 10))
fully_shard(model)
torch.manual_seed(rank)
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(4):
    x, y = batch()""" + STEP,
    "batches of other sizes at the end, in a Join": """
from core.distributed.algorithms.join import Join
model = DDP(net())
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
with Join([model]):
    for step in range(5):
        x, y = batch()""" + STEP.replace("\n    ", "\n        ") + """
""",
    "stages on two ranks": """
torch.manual_seed(rank)
stage = nn.Linear(64, 64) if rank < 2 else nn.Linear(64, 10)
opt = torch.optim.SGD(stage.parameters(), lr=0.1)
for step in range(4):
    if rank < 2:
        out = stage(torch.randn(16, 64))
        dist.send(out.detach(), rank + 2)
        g = torch.empty(16, 64)
        dist.recv(g, rank + 2)
        opt.zero_grad(); out.backward(g); opt.step()
    else:
        x = torch.empty(16, 64)
        dist.recv(x, rank - 2)
        x.requires_grad_()
        opt.zero_grad(); F.cross_entropy(stage(x), torch.randint(0, 10, (16,))).backward(); opt.step()
        dist.send(x.grad, rank - 2)
""",
    "features divided among the ranks": """
torch.manual_seed(rank)
part = nn.Linear(64, 32)
head = nn.Linear(32, 10)
opt = torch.optim.SGD([*part.parameters(), *head.parameters()], lr=0.1)
same = torch.Generator().manual_seed(5)
for step in range(4):
    x, y = torch.randn(16, 64, generator=same), torch.randint(0, 10, (16,), generator=same)
    out = torch.distributed.nn.all_reduce(head(part(x).relu()))
    opt.zero_grad()
    F.cross_entropy(out, y).backward()
    opt.step()
""",
    "results of other sizes, and a message": """
from core.distributed import recv, send
found = [torch.empty(r + 1) for r in range(size)]
dist.all_gather(found, torch.ones(rank + 1))
t = torch.ones(3)
if rank == 0:
    send(t, 1)
if rank == 1:
    recv(t, 0)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
dist.barrier()
""",
    "a group of some ranks": """
pair = dist.new_group([0, 1])
t = torch.ones(2)
if rank < 2:
    for k in range(6):
        dist.all_reduce(t, group=pair)
dist.barrier()
""",
    "rank 0 writes a line": """
model = DDP(net())
torch.manual_seed(rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x, y = batch()""" + STEP + """
    if rank == 0:
        print(step)
""",
}  # fmt: skip
