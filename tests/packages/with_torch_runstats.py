"""torch-runstats: running means, with groups; sums and standard deviations by index."""

import torch
from told import steps, tell
from torch_runstats import Reduction, RunningStats
from torch_runstats.scatter import scatter, scatter_mean, scatter_std

stats = RunningStats(dim=(3,), reduction=Reduction.MEAN)
rms = RunningStats(dim=(3,), reduction=Reduction.RMS, ignore_nan=True)
x = torch.linspace(-1, 1, 12).view(4, 3).sin()
index = torch.tensor([0, 1, 0, 2])
results = [
    stats.accumulate_batch(x),
    stats.accumulate_batch(x * 2, accumulate_by=index),
    stats.current_result(),
    rms.accumulate_batch(x, index),
    rms.current_result(),
]
net = torch.nn.Linear(3, 2)
torch.manual_seed(0)
torch.nn.init.normal_(net.weight), torch.nn.init.zeros_(net.bias)
tell(
    results=results,
    mean=scatter_mean(x, index, 0),
    std=scatter_std(x, index, 0),
    trained=steps(net.parameters(), lambda: scatter(net(x), index, 0, reduce="sum").square().mean()),
)
