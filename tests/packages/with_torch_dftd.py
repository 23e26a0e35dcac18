"""torch-dftd: dispersion energies D2 and D3, with forces."""

import torch
from told import tell
from torch_dftd.dftd3_xc_params import get_dftd3_default_params
from torch_dftd.nn.dftd2_module import DFTD2Module
from torch_dftd.nn.dftd3_module import DFTD3Module

Z = torch.tensor([8, 1, 1, 6])
pos = torch.tensor([[0.0, 0.0, 0.1], [0.0, 0.8, -0.5], [0.0, -0.8, -0.5], [2.5, 0.3, 0.4]])
i, j = torch.triu_indices(4, 4, 1)
edges = torch.stack([torch.cat([i, j]), torch.cat([j, i])])
found = {}
for kind, damping, old in ((DFTD2Module, "zero", True), (DFTD3Module, "zero", False), (DFTD3Module, "bj", False)):
    params = get_dftd3_default_params(damping, "pbe", old=old)
    p = pos.clone().requires_grad_()
    module = kind(params, bidirectional=True)
    energy = module.calc_energy_batch(Z, p, edges, shift_pos=torch.zeros(12, 3), damping=damping).sum()
    energy.backward()
    found[kind.__name__ + damping] = [energy * 1000, p.grad * 1000]
tell(**found)
