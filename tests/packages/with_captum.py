"""captum: integrated gradients, saliency, DeepLift and layer conductance of a small model."""

import torch
from captum.attr import DeepLift, InputXGradient, IntegratedGradients, LayerConductance, Saliency
from told import tell

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
x = torch.randn(4, 5)
tell(
    integrated=IntegratedGradients(model).attribute(x, target=1, n_steps=20),
    saliency=Saliency(model).attribute(x.clone().requires_grad_(), target=0),
    product=InputXGradient(model).attribute(x.clone().requires_grad_(), target=2),
    deep=DeepLift(model).attribute(x, torch.zeros_like(x), target=1),
    layer=LayerConductance(model, model[0]).attribute(x, target=1, n_steps=20),
)
