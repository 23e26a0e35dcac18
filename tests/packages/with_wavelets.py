"""pytorch-wavelets: discrete and dual-tree wavelet transforms, with gradients."""

import torch
from pytorch_wavelets import DTCWTForward, DTCWTInverse
from pytorch_wavelets.scatternet import ScatLayer
from told import tell

x = torch.linspace(-1, 1, 2 * 16 * 16).view(1, 2, 16, 16).sin().requires_grad_()
found = {}
for name, forward, back in (
    (
        "dtcwt",
        DTCWTForward(J=2, biort="near_sym_b", qshift="qshift_b"),
        DTCWTInverse(biort="near_sym_b", qshift="qshift_b"),
    ),
):
    low, high = forward(x)
    y = back((low, [h * 0.5 for h in high]))
    y.square().sum().backward()
    found[name] = [low, *high, y, x.grad]
    x.grad = None
s = ScatLayer()(x)
s.square().sum().backward()
tell(**found, scattered=s, gradient=x.grad)
