"""Gradients of the user's own, and values that a type, a bound or a sum swallows: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "a derivative without its inner one": Mistake(
        "gradient",
        11,
        """
torch.manual_seed(0)
class ScaledTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        out = torch.tanh(2.0 * v)
        ctx.save_for_backward(out)
        return out
    @staticmethod
    def backward(ctx, g):
        out, = ctx.saved_tensors
        return g * (1 - out ** 2)
lin = nn.Linear(16, 4)
opt = torch.optim.SGD(lin.parameters(), lr=0.1)
for it in range(4):
    loss = F.cross_entropy(ScaledTanh.apply(lin(x)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("return g * (1 - out ** 2)", "return g * 2.0 * (1 - out ** 2)"),),
    ),
    "the sign of a cosine": Mistake(
        "gradient",
        10,
        """
torch.manual_seed(0)
class Snake(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inp, a):
        ctx.save_for_backward(inp, a)
        return inp + torch.sin(a * inp) ** 2 / a
    @staticmethod
    def backward(ctx, grad_output):
        inp, a = ctx.saved_tensors
        grad_inp = grad_output * (1 - torch.sin(2 * a * inp))
        grad_a = grad_output * (inp * torch.sin(2 * a * inp) / a - torch.sin(a * inp) ** 2 / a ** 2)
        return grad_inp, grad_a.sum().reshape(1)
lin, a = nn.Linear(16, 4), nn.Parameter(torch.ones(1))
opt = torch.optim.SGD([*lin.parameters(), a], lr=0.1)
for it in range(4):
    loss = F.cross_entropy(Snake.apply(lin(x), a), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(1 - torch.sin(2 * a * inp))", "(1 + torch.sin(2 * a * inp))"),),
    ),
    "a product's gradients exchanged": Mistake(
        "gradient",
        10,
        """
torch.manual_seed(0)
class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b
    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * a, grad * b
l1, l2 = nn.Linear(16, 4), nn.Linear(16, 4)
opt = torch.optim.SGD([*l1.parameters(), *l2.parameters()], lr=0.1)
for it in range(4):
    loss = F.cross_entropy(Mul.apply(l1(x), l2(x)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("grad * a, grad * b", "grad * b, grad * a"),),
    ),
    "a gradient written over": Mistake(
        "gradient",
        10,
        """
torch.manual_seed(0)
class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v.clamp(min=0)
    @staticmethod
    def backward(ctx, grad_output):
        v, = ctx.saved_tensors
        grad_output[v < 0] = 0
        return grad_output
lin, head = nn.Linear(16, 16), nn.Linear(16, 4)
opt = torch.optim.SGD([*lin.parameters(), *head.parameters()], lr=0.1)
for it in range(4):
    h = lin(x)
    loss = F.cross_entropy(head(MyReLU.apply(h) + h), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "        grad_output[v < 0] = 0\n        return grad_output",
                "        g = grad_output.clone()\n        g[v < 0] = 0\n        return g",
            ),
        ),
    ),
    "whole numbers for a share": Mistake(
        "dtype",
        9,
        """
torch.manual_seed(0)
enc, dec = nn.Linear(16, 8), nn.Linear(4, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
total_steps = 8
for step in range(total_steps):
    mu, logvar = enc(x).chunk(2, 1)
    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    beta = step // total_steps
    loss = (dec(z) - x).pow(2).sum(1).mean() + beta * kl
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("step // total_steps", "step / total_steps"),),
    ),
    "fractions into whole numbers": Mistake(
        "dtype",
        7,
        """
torch.manual_seed(0)
rewards = torch.randint(0, 2, (64,))
returns = torch.zeros_like(rewards)
g = 0.0
for t in reversed(range(64)):
    g = rewards[t] + 0.9 * g
    returns[t] = g
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    loss = F.mse_loss(net(x).squeeze(1), returns.float())
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.zeros_like(rewards)", "torch.zeros(64)"),),
    ),
    "shares cut to zero": Mistake(
        "data",
        2,
        """
torch.manual_seed(0)
target = torch.rand(64).long()
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    loss = F.mse_loss(net(x).squeeze(1), target.float())
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.rand(64).long()", "torch.rand(64)"),),
    ),
    "weights cut to zero": Mistake(
        "dtype",
        3,
        """
torch.manual_seed(0)
net = nn.Linear(16, 4)
weights = torch.rand(16).long()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    loss = F.cross_entropy(net(x * weights), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.rand(16).long()", "torch.rand(16)"),),
    ),
    "an epsilon larger than the signal": Mistake(
        "dtype",
        3,
        """
torch.manual_seed(0)
charge = torch.randn(64, 16) * 1e-12
unit = charge / (charge.norm(dim=1, keepdim=True) + 1e-8)
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    loss = F.cross_entropy(net(unit), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("+ 1e-8", "+ 1e-18"),),
    ),
    "one and almost nothing": Mistake(
        "dtype",
        3,
        """
torch.manual_seed(0)
rate = torch.rand(1000) * 1e-9
growth = torch.log(1 + rate)
print(growth.sum().item())
""",
        (("torch.log(1 + rate)", "torch.log1p(rate)"),),
    ),
    "clamped from the start": Mistake(
        "vanishing",
        6,
        """
torch.manual_seed(0)
mean = nn.Linear(16, 2)
log_std = nn.Parameter(torch.full((2,), -5.0))
opt = torch.optim.Adam([*mean.parameters(), log_std], lr=1e-2)
for it in range(5):
    std = log_std.clamp(-2, 2).exp()
    loss = -torch.distributions.Normal(mean(x), std).log_prob(x[:, :2]).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(2,), -5.0", "(2,), -1.0"),),
    ),
    "memory of somebody else": Mistake(
        "data",
        3,
        """
torch.manual_seed(0)
H = 16
counts = torch.empty(4, H)
for c in range(4):
    for row in x[labels == c]:
        counts[c] += row
print(counts.mean(1).shape)
""",
        (("torch.empty(4, H)", "torch.zeros(4, H)"),),
    ),
    "angles on a line": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
yaw = (torch.rand(64) * 2 - 1) * torch.pi
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    pred_yaw = net(x).squeeze(1)
    loss = F.mse_loss(pred_yaw, yaw)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("loss = F.mse_loss(pred_yaw, yaw)", "loss = (1 - torch.cos(pred_yaw - yaw)).mean()"),),
    ),
    "a window by running sums": Mistake(
        "dtype",
        5,
        """
torch.manual_seed(0)
signal = 1000 + 0.01 * torch.randn(200_000)
c = torch.cumsum(signal, 0)
w = 16
moving = (c[w:] - c[:-w]) / w
print(moving.std().item())
""",
        (("torch.cumsum(signal, 0)", "torch.cumsum(signal.double(), 0)"),),
    ),
    "gradient flows without negatives drawn": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
users, items = nn.Embedding(20, 8), nn.Embedding(50, 8)
opt = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=1e-2)
for epoch in range(4):
    u, i = torch.randint(0, 20, (64,)), torch.randint(0, 50, (64,))
    score = (users(u) * items(i)).sum(1)
    loss = F.binary_cross_entropy_with_logits(score, torch.ones(64))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "loss = F.binary_cross_entropy_with_logits(score, torch.ones(64))",
                "loss = F.softplus(-score).mean() + F.softplus((users(u) * items(49 - i)).sum(1)).mean()",
            ),
        ),
    ),
    "gumbel with one minus": Mistake(
        "loss",
        6,
        """
torch.manual_seed(0)
logits = nn.Parameter(torch.zeros(64, 4))
opt = torch.optim.Adam([logits], lr=0.1)
def sample_gumbel(shape, eps=1e-20):
    U = torch.rand(shape)
    return torch.log(-torch.log(U + eps) + eps)
for it in range(4):
    s = F.softmax((logits + sample_gumbel((64, 4))) / 0.5, -1)
    loss = F.nll_loss(torch.log(s + 1e-8), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("return torch.log(-", "return -torch.log(-"),),
    ),
    "weights of runge kutta": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
def f(t, s):
    return torch.stack([s[1], -s[0]])
def rk4_step(f, t, s, dt):
    k1 = f(t, s)
    k2 = f(t + dt / 2, s + dt / 2 * k1)
    k3 = f(t + dt / 2, s + dt / 2 * k2)
    k4 = f(t + dt, s + dt * k3)
    return s + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 4
s = torch.tensor([1.0, 0.0])
for k in range(50):
    s = rk4_step(f, k * 0.1, s, 0.1)
print(s)
""",
        (("+ k4) / 4", "+ k4) / 6"),),
    ),
    "spectrum without its other half": Mistake(
        "data",
        3,
        """
torch.manual_seed(0)
wave = torch.sin(2 * torch.pi * 50 * torch.arange(1000) / 1000.0)
power = torch.fft.rfft(wave).real ** 2
print(power.argmax().item(), power.max().item())
""",
        (("torch.fft.rfft(wave).real ** 2", "torch.fft.rfft(wave).abs() ** 2"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
