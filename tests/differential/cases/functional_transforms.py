# packages: torch
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

torch.manual_seed(0)
x = torch.randn(3)
print(grad(lambda t: t.sin().sum())(x))
print(vmap(grad(lambda t: (t**3).sum()))(torch.randn(4, 3)))
print(jacrev(lambda t: t.exp())(x), jacfwd(lambda t: t.exp())(x))
print(hessian(lambda t: (t**3).sum())(x))
print(jvp(torch.sin, (x,), (torch.ones(3),)))
value, pull = vjp(lambda t: t.square(), x)
print(value, pull(torch.ones(3)))
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
parameters = {k: v.detach() for k, v in model.named_parameters()}
xs, ys = torch.randn(6, 3), torch.randn(6, 1)


def loss(parameters, x, y):
    return (functional_call(model, parameters, (x[None],))[0] - y).square().mean()


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, ys)
print({k: tuple(v.shape) for k, v in per_sample.items()})
noise = vmap(lambda t: t + torch.randn(3), randomness="different")(torch.zeros(2, 3))
try:
    vmap(lambda t: t.item())(xs)
except RuntimeError as error:
    print(type(error).__name__, str(error)[:60])
import torch.autograd.forward_ad as fwad

with fwad.dual_level():
    dual = fwad.make_dual(x, torch.ones(3))
    print(fwad.unpack_dual(dual.sin() * 2).tangent)
print(torch.autograd.functional.jacobian(lambda t: t.exp().sum(), x))
