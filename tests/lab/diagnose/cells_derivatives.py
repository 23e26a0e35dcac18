"""Derivatives by inputs, signals, and inputs that are changed: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "residual without a graph": Mistake(
        "cut",
        7,
        """
torch.manual_seed(0)
u_net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(u_net.parameters(), lr=1e-3)
t = torch.linspace(0, 1, 50).view(-1, 1).requires_grad_(True)
for it in range(5):
    u = u_net(t)
    u_t = torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), retain_graph=True)[0]
    residual = u_t + 2.0 * u
    loss = (residual ** 2).mean() + (u_net(torch.zeros(1, 1)) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("retain_graph=True", "create_graph=True"),),
    ),
    "straight lines have no curvature": Mistake(
        "gradient",
        10,
        """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def grad(out, inp):
    return torch.autograd.grad(out, inp, torch.ones_like(out), create_graph=True)[0]
for it in range(5):
    xs = torch.rand(100, 1, requires_grad=True)
    u = net(xs)
    u_x = grad(u, xs)
    u_xx = grad(u_x, xs)
    pde = ((u_xx + torch.sin(3 * xs)) ** 2).mean()
    bc = net(torch.zeros(1, 1)).pow(2).mean()
    loss = pde + bc
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("nn.ReLU()", "nn.Tanh()"),),
    ),
    "curvature of both columns": Mistake(
        "gradient",
        8,
        """
torch.manual_seed(0)
mlp = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(mlp.parameters(), lr=1e-3)
for it in range(5):
    X = torch.rand(100, 2, requires_grad=True)
    p = mlp(X)
    grads, = torch.autograd.grad(p, X, torch.ones_like(p), create_graph=True)
    grads2, = torch.autograd.grad(grads, X, torch.ones_like(grads), create_graph=True)
    u_x, u_t = grads[:, 0], grads[:, 1]
    u_xx = grads2[:, 0]
    loss = ((u_t - 0.1 * u_xx) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "grads2, = torch.autograd.grad(grads, X, torch.ones_like(grads), create_graph=True)",
                "grads2, = torch.autograd.grad(grads[:, 0].sum(), X, create_graph=True)",
            ),
        ),
    ),
    "a step too small for float32": Mistake(
        "dtype",
        6,
        """
torch.manual_seed(0)
def f(v):
    return torch.sin(v) * v
h = 1e-8
pts = torch.linspace(1, 2, 20)
slope = (f(pts + h) - f(pts)) / h
print(slope)
""",
        (("h = 1e-8", "h = 1e-3"),),
    ),
    "half of the distance": Mistake(
        "loss",
        3,
        """
torch.manual_seed(0)
def derivative(f, v, h=1e-2):
    return (f(v + h) - f(v - h)) / h
pts = torch.linspace(0, 3, 50)
print((derivative(torch.sin, pts) - torch.cos(pts)).abs().max().item())
""",
        (("/ h\n", "/ (2 * h)\n"),),
    ),
    "one array in the list": Mistake(
        "alias",
        6,
        """
torch.manual_seed(0)
A = torch.tensor([[0.0, 1.0], [-1.0, -0.1]])
state = torch.tensor([1.0, 0.0])
trajectory = []
for k in range(100):
    trajectory.append(state)
    state += 0.05 * A @ state
path = torch.stack(trajectory)
print(path.std(0))
""",
        (("trajectory.append(state)", "trajectory.append(state.clone())"),),
    ),
    "forces uphill": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
energy_net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(energy_net.parameters(), lr=1e-3)
pos = torch.randn(20, 3)
E_ref, F_ref = pos.pow(2).sum(), -2 * pos
for it in range(5):
    R = pos.clone().requires_grad_(True)
    energy = energy_net(R).sum()
    forces = torch.autograd.grad(energy, R, create_graph=True)[0]
    loss = (energy - E_ref) ** 2 / 20 + F.mse_loss(forces, F_ref)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("forces = torch", "forces = -torch"),),
    ),
    "degrees in a sine": Mistake(
        "data",
        3,
        """
torch.manual_seed(0)
heading_deg = torch.rand(64) * 360
feats = torch.stack([torch.sin(heading_deg), torch.cos(heading_deg)], 1)
net = nn.Linear(2, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for it in range(4):
    loss = F.mse_loss(net(feats).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            ("heading_deg = torch.rand(64) * 360", "heading = torch.deg2rad(torch.rand(64) * 360)"),
            ("torch.sin(heading_deg), torch.cos(heading_deg)", "torch.sin(heading), torch.cos(heading)"),
        ),
    ),
    "momentum the wrong way": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
H = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(H.parameters(), lr=1e-3)
qp = torch.randn(64, 2)
dqp = torch.stack([qp[:, 1], -qp[:, 0]], 1)
for it in range(5):
    z = qp.clone().requires_grad_(True)
    dH = torch.autograd.grad(H(z).sum(), z, create_graph=True)[0]
    dq, dp = dH[:, 1], dH[:, 0]
    loss = F.mse_loss(torch.stack([dq, dp], 1), dqp)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("dH[:, 1], dH[:, 0]", "dH[:, 1], -dH[:, 0]"),),
    ),
    "ten for twenty": Mistake(
        "loss",
        5,
        """
torch.manual_seed(0)
wave = torch.randn(2048)
frames = wave.unfold(0, 256, 128) * torch.hann_window(256)
magnitude = torch.fft.rfft(frames).abs()
db = 10 * torch.log10(magnitude + 1e-8)
print(db.max().item())
""",
        (("10 * torch.log10", "20 * torch.log10"),),
    ),
    "an attack downhill": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
def fgsm(model, images, labels, eps=0.03):
    images = images.clone().detach().requires_grad_(True)
    loss = F.cross_entropy(model(images), labels)
    model.zero_grad()
    loss.backward()
    return (images - eps * images.grad.sign()).detach()
adv = fgsm(model, x, labels)
print((model(adv).argmax(1) == labels).float().mean().item())
""",
        (("images - eps", "images + eps"),),
    ),
    "projected onto itself": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
eps, alpha = 0.03, 0.01
x_adv = x.clone()
for i in range(10):
    x_adv = x_adv.detach().requires_grad_(True)
    loss = F.cross_entropy(net(x_adv), labels)
    g = torch.autograd.grad(loss, x_adv)[0]
    new = x_adv + alpha * g.sign()
    x_adv = torch.max(torch.min(new, x_adv + eps), x_adv - eps)
print((x_adv - x).abs().max().item())
""",
        (
            (
                "x_adv = torch.max(torch.min(new, x_adv + eps), x_adv - eps)",
                "x_adv = torch.max(torch.min(new, x + eps), x - eps)",
            ),
        ),
    ),
    "an image that is given anew": Mistake(
        "rebound",
        11,
        """
torch.manual_seed(0)
feat = nn.Linear(16, 8)
content = feat(x).detach()
img = torch.rand(64, 16, requires_grad=True)
opt = torch.optim.Adam([img], lr=0.05)
for it in range(6):
    loss = F.mse_loss(feat(img), content)
    opt.zero_grad()
    loss.backward()
    opt.step()
    img = img.clamp(0, 1)
""",
        (),
    ),
    "the model in place of the image": Mistake(
        "optimizer",
        5,
        """
torch.manual_seed(0)
vgg = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
style = vgg(x).detach()
canvas = torch.rand(64, 16, requires_grad=True)
optimizer = torch.optim.Adam(vgg.parameters(), lr=0.01)
for it in range(6):
    loss = F.mse_loss(vgg(canvas), style)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(canvas.std().item())
""",
        (),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
