"""tensordict: a TensorDict's shapes, stacks and a TensorDictModule, two steps."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from told import steps, tell

torch.manual_seed(0)
data = TensorDict({"x": torch.linspace(-1, 1, 12).view(3, 4), "more": {"y": torch.ones(3, 2)}}, batch_size=[3])
module = TensorDictModule(torch.nn.Linear(4, 2), in_keys=["x"], out_keys=["z"])
tell(trained=steps(module.parameters(), lambda: (module(data)["z"] - data["more", "y"]).square().mean()),
     stacked=torch.stack([data, data], 0)["x"], part=data[1]["more", "y"])  # fmt: skip
