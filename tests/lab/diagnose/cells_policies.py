"""Mistakes of logic that agents, adversaries, autoencoders and diffusion make: each runs, learns nothing and raises
nothing."""

from __future__ import annotations

from .planted_more import Planted

_STEPS = """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.001)
for step in range(4):
{lines}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def _steps(*lines: str, before: str = "") -> str:
    return before + _STEPS.format(lines="\n".join(f"    {line}" for line in lines)).lstrip("\n" if before else "")


_ACT = (
    "log_probs = F.log_softmax(net(x), 1)",
    "actions = torch.multinomial(log_probs.exp().detach(), 1)",
    "log_prob = log_probs.gather(1, actions).squeeze(1)",
    "reward = (actions.squeeze(1) == labels).float()",
)
_VAE = """
torch.manual_seed(0)
encode, decode = nn.Linear(16, 4), nn.Linear(2, 16)
opt = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=1e-3)
for step in range(4):
    mu, logvar = encode(x).chunk(2, 1)
    z = mu + {spread} * torch.randn_like(mu)
    kl = {sign}0.5 * torch.mean(torch.sum(1 + logvar - mu ** 2 - logvar.exp(), 1))
    loss = (decode(z) - x).pow(2).sum(1).mean() + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_Q = """
torch.manual_seed(0)
GAMMA, memory = 0.9, []
net, target_net = nn.Linear(16, 4), nn.Linear(16, 4)
target_net.load_state_dict(net.state_dict())
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for k in range(16):
    done = k % 5 == 4
    memory.append((x[k], labels[k], y[k], x[k + 1], float(done)))
for k in range(4):
    state, action, gain, after, over = (torch.stack([torch.as_tensor(e) for e in v]) for v in zip(*memory))
    with torch.no_grad():
        wanted = gain + GAMMA * target_net(after).max(1).values{alive}
    loss = F.mse_loss(net(state).gather(1, action[:, None]).squeeze(1), wanted)
    opt.zero_grad()
    loss.backward()
    opt.step()
{follow}
"""
_RETURNS = """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
gamma = 0.9
for episode in range(3):
    log_probs = F.log_softmax(net(x[:8]), 1)[:, 0]
    rewards = [float(v) for v in y[:8]]
    R, returns = 0.0, []
    for r in {order}:
        R = r + gamma * R
        returns.append(R)
    loss = -(log_probs * torch.tensor(returns)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_GAN = """
torch.manual_seed(0)
G, D = nn.Linear(4, 16), nn.Linear(16, 1)
g_opt, d_opt = torch.optim.SGD(G.parameters(), lr=0.01), torch.optim.SGD(D.parameters(), lr=0.01)
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
for step in range(3):
    fake = G(torch.randn(64, 4))
    d_loss = F.binary_cross_entropy_with_logits(D(x), ones)
    d_loss = d_loss + F.binary_cross_entropy_with_logits(D(fake.detach()), zeros)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = F.binary_cross_entropy_with_logits(D({shown}), {label}){more}
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
_NOISE = """
torch.manual_seed(0)
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.05, 40), 0)
net = nn.Linear(16, 16)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    a, noise = alpha_bar[torch.randint(0, 40, (64,))][:, None], torch.randn(64, 16)
    noisy = a.sqrt() * x + {rest} * noise
    loss = (net(noisy) - noise).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    z = torch.randn(8, 16)
    for t in range(39, 0, -{stride}):
        eps = net(z)
        clean = (z - (1 - alpha_bar[t]).sqrt() * eps) / alpha_bar[t].sqrt()
        before = alpha_bar[t - 1]
        z = before.sqrt() * clean + (1 - before).sqrt() * eps
"""
_KEEP = "    if k % 2:\n        target_net.load_state_dict(net.state_dict())"
_MIX = (
    "    with torch.no_grad():\n        for t, p in zip(target_net.parameters(), net.parameters()):\n"
    "            t.copy_({share} * t + {other} * p)"
)
_TRIPLET = (
    "mate, rest = net(x.flip(0)), net(x.roll(1, 0))",
    "d_pos = F.pairwise_distance(net(x), mate)",
    "d_neg = F.pairwise_distance(net(x), rest)",
)
_CLIP = (
    "ratio = torch.exp(log_prob - log_prob.detach())",
    "gain = ratio * reward",
    "held = torch.clamp(ratio, 0.8, 1.2) * reward",
)

PLANTED = {
    "an autoencoder that takes a variance for a spread": Planted(
        "loss", (6,), _VAE.format(spread="logvar.exp()", sign="-")
    ),
    "an autoencoder with its divergence turned": Planted(
        "loss", (7,), _VAE.format(spread="(0.5 * logvar).exp()", sign="")
    ),
    "a policy that unlearns what was rewarded": Planted(
        "loss", (9,), _steps(*_ACT, "loss = (log_prob * reward).mean()")
    ),
    "a policy that loses its entropy": Planted(
        "loss",
        (10,),
        _steps(
            *_ACT,
            "entropy = -(log_probs.exp() * log_probs).sum(1).mean()",
            "loss = -(log_prob * reward).mean() + 0.01 * entropy",
        ),
    ),
    "the larger of two surrogates": Planted(
        "loss", (12,), _steps(*_ACT, *_CLIP, "loss = -torch.maximum(gain, held).mean()")
    ),
    "returns summed from the start": Planted("data", (10,), _RETURNS.format(order="rewards")),
    "returns in the other order": Planted("data", (11,), _RETURNS.format(order="reversed(rewards)")),
    "an end of an episode under another name": Planted("unused", (12,), _Q.format(alive="", follow=_KEEP)),
    "a target network that is never renewed": Planted("alias", (12,), _Q.format(alive=" * (1 - over)", follow="")),
    "a target network that is nearly replaced": Planted(
        "alias", (19,), _Q.format(alive=" * (1 - over)", follow=_MIX.format(share=0.005, other=0.995))
    ),
    "a target network loaded from itself": Planted(
        "alias", (18,), _Q.format(alive=" * (1 - over)", follow=_KEEP.replace("(net.", "(target_net."))
    ),
    "a generator whose samples are detached": Planted(
        "cut", (12,), _GAN.format(shown="fake.detach()", label="ones", more=" + F.l1_loss(fake, x)")
    ),
    "a generator that is to be found out": Planted("loss", (12,), _GAN.format(shown="fake", label="zeros", more="")),
    "noise without its root": Planted("loss", (7,), _NOISE.format(rest="(1 - a)", stride=1)),
    "a sampler that jumps": Planted("loss", (17,), _NOISE.format(rest="(1 - a).sqrt()", stride=5)),
    "a triplet that pushes friends apart": Planted(
        "loss", (8,), _steps(*_TRIPLET, "loss = F.relu(d_neg - d_pos + 0.5).mean()")
    ),
    "a focal loss of what is easy": Planted(
        "loss",
        (6,),
        _steps(
            "ce = F.cross_entropy(net(x), labels, reduction='none')",
            "pt, gamma = torch.exp(ce), 1.0",
            "loss = ((1 - pt) ** gamma * ce).mean()",
        ),
    ),
}
HEALTHY = {
    "an autoencoder that draws and weighs as it should": _VAE.format(spread="(0.5 * logvar).exp()", sign="-"),
    "a policy with an entropy bonus": _steps(
        *_ACT,
        "entropy = -(log_probs.exp() * log_probs).sum(1).mean()",
        "loss = -(log_prob * reward).mean() - 0.01 * entropy",
    ),
    "the smaller of two surrogates": _steps(*_ACT, *_CLIP, "loss = -torch.minimum(gain, held).mean()"),
    "a target network that is renewed": _Q.format(alive=" * (1 - over)", follow=_KEEP),
    "a target network that follows": _Q.format(alive=" * (1 - over)", follow=_MIX.format(share=0.995, other=0.005)),
    "a generator and its critic": _GAN.format(shown="fake", label="ones", more=""),
    "a sampler that goes step by step": _NOISE.format(rest="(1 - a).sqrt()", stride=1),
    "a triplet": _steps(*_TRIPLET, "loss = F.relu(d_pos - d_neg + 0.5).mean()"),
}
