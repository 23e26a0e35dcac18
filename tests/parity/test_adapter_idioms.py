"""PyTorch's idioms under the recorder: the same results bit for bit as without it, and nothing left behind."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from core.events import observe  # noqa: E402
from lab.recorder import tensor_types  # noqa: E402
from tests.lab.conftest import run_cell  # noqa: E402

IDIOMS = {
    "functional_call": """
from torch.func import functional_call, grad, vmap
m=nn.Linear(16,4)
p=dict(m.named_parameters())
out=functional_call(m,p,(x,))
f=lambda p: F.cross_entropy(functional_call(m,p,(x,)),labels)
r=grad(f)({k:v.detach() for k,v in p.items()})['weight']
""",
    "per sample": """
from torch.func import vmap, grad, functional_call
m=nn.Linear(16,4)
p={k:v.detach() for k,v in m.named_parameters()}
g=vmap(grad(lambda p,a,b: F.cross_entropy(functional_call(m,p,(a[None],)),b[None])),in_dims=(None,0,0))(p,x,labels)
r=g['weight']
""",
    "lstm": """
m=nn.LSTM(4,8,2,batch_first=True,bidirectional=True)
o,(h,c)=m(x.reshape(64,4,4))
o.mean().backward()
r=m.weight_ih_l0.grad
""",
    "packed": """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
m=nn.GRU(4,8,batch_first=True)
p=pack_padded_sequence(x.reshape(64,4,4),torch.full((64,),3),batch_first=True)
o,h=m(p)
o,_=pad_packed_sequence(o)
o.mean().backward()
r=m.weight_ih_l0.grad
""",
    "autocast": """
m=nn.Linear(16,4)
with torch.autocast('cpu',dtype=torch.bfloat16):
    l=F.cross_entropy(m(x),labels)
l.backward()
r=m.weight.grad
""",
    "hooks": """
m=nn.Sequential(nn.Linear(16,8),nn.ReLU(),nn.Linear(8,4))
seen=[]
h1=m[1].register_forward_hook(lambda mod,i,o: seen.append(o.detach().mean()))
h2=m[0].register_full_backward_hook(lambda mod,gi,go: seen.append(go[0].sum()))
m[2].weight.register_hook(lambda g: g*2)
F.cross_entropy(m(x),labels).backward()
r=m[2].weight.grad
r2=torch.stack(seen)
h1.remove();h2.remove()
""",
    "grad create_graph": """
w=torch.randn(16,4,requires_grad=True)
l=F.cross_entropy(torch.tanh(x@w),labels)
(g,)=torch.autograd.grad(l,w,create_graph=True)
(g.pow(2).sum()).backward()
r=w.grad
""",
    "inplace": """
w=torch.randn(64,16,requires_grad=True)
a=w*1
a[:,0]=0
a[1:3]+=x[1:3]
a.mul_(2).add_(1)
a.sum().backward()
r=w.grad
""",
    "view inplace": """
w=torch.randn(64,16,requires_grad=True)
a=w*1
b=a[:4]
b.mul_(3)
a.t()[0].zero_()
a.sum().backward()
r=w.grad
""",
    "meta": """
m=nn.Linear(16,4,device='meta')
o=m(torch.empty(3,16,device='meta'))
m2=m.to_empty(device='cpu')
for p in m2.parameters(): nn.init.constant_(p,.1)
r=m2(x)
r.sum().backward()
""",
    "deepcopy": """
import copy
m=nn.Linear(16,4)
F.cross_entropy(m(x),labels).backward()
m2=copy.deepcopy(m)
F.cross_entropy(m2(x),labels).backward()
r=m2.weight.grad
""",
    "exception in forward": """
class N(nn.Module):
    def __init__(s):
        super().__init__();s.l=nn.Linear(16,4)
    def forward(s,a):
        h=s.l(a)
        if a.shape[0]==64: raise ValueError('no')
        return h
m=N()
try:
    m(x)
except ValueError: pass
r=m(x[:3])
r.sum().backward()
""",
    "reused module": """
l=nn.Linear(16,16)
m=nn.Sequential(l,nn.ReLU(),l,nn.Sequential(l,nn.Tanh()))
m(x).mean().backward()
r=l.weight.grad
""",
    "no_grad decorator": """
m=nn.Linear(16,4)
@torch.no_grad()
def ev(a): return m(a).argmax(1)
@torch.inference_mode()
def ev2(a): return m(a)
r=ev(x)
r2=ev2(x)
F.cross_entropy(m(x),labels).backward()
""",
    "checkpoint reentrant": """
from torch.utils.checkpoint import checkpoint
m=nn.Sequential(nn.Linear(16,8),nn.Dropout(.5),nn.Linear(8,4))
a=x.clone().requires_grad_()
o=checkpoint(m,a,use_reentrant=True)
o.sum().backward()
r=m[0].weight.grad
o=checkpoint(m,a,use_reentrant=False)
o.sum().backward()
r2=m[0].weight.grad
""",
    "sparse": """
e=nn.Embedding(10,4,sparse=True)
o=torch.optim.SparseAdam(list(e.parameters()))
e(labels).sum().backward()
o.step()
r=e.weight
""",
    "complex": """
a=torch.fft.fft(x)
w=torch.randn(16,dtype=torch.complex64,requires_grad=True)
l=(a*w).abs().sum()
l.backward()
r=w.grad
""",
    "multi-output fn": """
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx,a,b):
        ctx.save_for_backward(a,b);return a*b,a+b
    @staticmethod
    def backward(ctx,g,h):
        a,b=ctx.saved_tensors;return g*b+h,g*a+h
a=x.clone().requires_grad_();b=x.flip(0).requires_grad_()
p,q=Fn.apply(a,b)
(p*q).sum().backward()
r=a.grad
""",
    "save hooks": """
w=torch.randn(16,4,requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(lambda t:t.numpy(), lambda n: torch.from_numpy(n)):
    l=(x@w).exp().sum()
l.backward()
r=w.grad
""",
    "lbfgs": """
w=torch.zeros(16,requires_grad=True)
o=torch.optim.LBFGS([w])
def c():
    o.zero_grad();l=F.mse_loss(x@w,y);l.backward();return l
o.step(c)
r=w
""",
    "loader workers": """
from torch.utils.data import DataLoader, TensorDataset
m=nn.Linear(16,4)
for a,b in DataLoader(TensorDataset(x,labels),batch_size=16,shuffle=True):
    F.cross_entropy(m(a),b).backward()
r=m.weight.grad
""",
    "dropout rng": """
torch.manual_seed(1)
d=nn.Dropout(.5)
r=d(x)
r2=torch.rand(4)
r3=F.dropout(x,.2)
""",
    "subclass": """
class T(torch.Tensor): pass
t=x.as_subclass(T)
r=(t*2).sum()
ok=type(r).__name__
""",
    "parametrize": """
m=nn.utils.parametrizations.weight_norm(nn.Linear(16,4))
o=torch.optim.SGD(m.parameters(),lr=.1)
for i in range(2):
    o.zero_grad();m(x).square().mean().backward();o.step()
r=m.weight
""",
    "post acc hook": """
w=torch.randn(16,4,requires_grad=True)
calls=[]
w.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad.norm()))
F.cross_entropy(x@w,labels).backward()
r=torch.stack(calls)
""",
    "raise in backward": """
w=torch.randn(16,4,requires_grad=True)
h=torch.exp(x@w)
h+=1
try:
    h.sum().backward()
except RuntimeError: pass
(x@w).sum().backward()
r=w.grad
""",
    "nested function mode": """
from torch.overrides import TorchFunctionMode
class M(TorchFunctionMode):
    def __torch_function__(s,f,t,a=(),k=None): return f(*a,**(k or {}))
with M():
    r=torch.tanh(x).sum()
with torch.device('cpu'):
    z=torch.zeros(3)
""",
}


def space() -> dict[str, Any]:
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "x": x, "y": x[:, 0] * 0.5,
            "labels": torch.randint(0, 4, (64,))}  # fmt: skip


def left() -> tuple[int, ...]:
    modules = torch.nn.modules.module
    modes = torch.overrides._get_current_function_mode_stack()
    hooks = modules._global_forward_pre_hooks, modules._global_forward_hooks
    return len(modes), *map(len, hooks), len(tensor_types.adapters), len(observe.observers)


@pytest.mark.parametrize("name", IDIOMS)
def test_as_without_the_card(name: str) -> None:
    before = left()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = space()
        exec(IDIOMS[name], alone)
        watched = space()
        record = run_cell(IDIOMS[name], watched)
    assert record.error is None
    assert left() == before
    for key in ("r", "r2"):
        if key in alone:
            a, b = (v[key].detach().as_subclass(torch.Tensor) for v in (alone, watched))
            assert a.dtype == b.dtype
            assert torch.equal(a, b)
    for value in watched.values():
        if name != "hooks" and isinstance(value, torch.nn.Module):
            assert not any(p._backward_hooks for p in value.parameters())


def test_what_a_closure_runs_is_recorded() -> None:
    record = run_cell(IDIOMS["lbfgs"], space())
    assert {"matmul", "mse_loss"} <= {op.op for op in record.ops}
    assert {op.line for op in record.ops if op.op == "mse_loss"} == {4}
