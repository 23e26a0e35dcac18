"""torch-complex: complex tensors as pairs, products, inverses, gradients."""

import torch
import torch_complex.functional as F
from told import tell
from torch_complex.tensor import ComplexTensor

real = torch.linspace(-1, 1, 18).view(2, 3, 3).sin().requires_grad_()
imag = torch.linspace(1, 2, 18).view(2, 3, 3).cos().requires_grad_()
z = ComplexTensor(real, imag)
y = F.matmul(z, z.conj().transpose(-1, -2)) + ComplexTensor(torch.eye(3).expand(2, 3, 3), torch.zeros(2, 3, 3))
inverse = y.inverse() if hasattr(y, "inverse") else F.inverse(y)
e = F.einsum("bij,bjk->bik", [z, inverse])
loss = (e.real**2 + e.imag**2).sum() + F.cat([z, z], 1).abs().sum() + F.trace(y).real.sum()
loss.backward()
tell(
    loss=loss,
    real=real.grad,
    imag=imag.grad,
    e=[e.real, e.imag],
    solved=F.solve(z, y).real if hasattr(F, "solve") else 0.0,
)
