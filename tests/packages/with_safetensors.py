"""safetensors: a module's tensors written to a file and read back, shared ones once, with torch's own functions."""

import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
from told import steps, tell

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
x = torch.linspace(-1, 1, 15).view(5, 3)
trained = steps(model.parameters(), lambda: model(x).square().mean())
model[2].weight = torch.nn.Parameter(model[2].weight.detach().to(torch.bfloat16).float())
folder = Path(tempfile.mkdtemp())
save_file(dict(model.state_dict()), folder / "plain.safetensors", metadata={"format": "pt"})
with safe_open(folder / "plain.safetensors", framework="pt") as f:
    names, part = sorted(f.keys()), f.get_slice("0.weight")[1:3]
tied = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
tied[1].weight = tied[0].weight
save_model(tied, str(folder / "tied.safetensors"))
other = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
other[1].weight = other[0].weight
missing, unexpected = load_model(other, str(folder / "tied.safetensors"))
half = dict(sorted(load(save({"h": x.half(), "b": x.bfloat16(), "i": torch.arange(4), "t": x > 0})).items()))
again = dict(sorted(load_file(folder / "plain.safetensors").items()))
tell(trained=trained, part=part, names=[len(n) for n in names], again=again,
     tied=other[1](x), left=[len(missing), len(unexpected)], half=half)  # fmt: skip
