"""Texts for test_read_rules.py about what is trained for: policies, adversaries, latent spaces, noise; what is
told, and what comes close and is not."""

from __future__ import annotations

BACK = "\nloss.backward()"
SPREADS = {
    "a variance for a spread": (
        "def sample(self, mu, logvar):\n    std = torch.exp(logvar)\n    eps = torch.randn_like(std)\n"
        "    return mu + eps * std"
    ),
    "a variance for a spread, on one line": "z = m + log_var.exp() * torch.randn(8, 2)",
    "a variance for a spread, by methods": (
        "def draw(m, lv):\n    e = torch.randn_like(m)\n    return e.mul(lv.exp()).add(m)"
    ),
    "a variance given to a distribution": "q = Normal(mu, self.logvar.exp())\nz = q.rsample()",
}
SPREADS_NOT = {
    "half of the logarithm": "std = torch.exp(0.5 * logvar)\nz = mu + std * torch.randn_like(std)",
    "the root of the variance": "std = logvar.exp().sqrt()\nz = mu + torch.randn_like(mu) * std",
    "the logarithm of a spread": "z = mu + log_std.exp() * torch.randn_like(mu)",
    "a variance in a divergence": "kl = 0.5 * (logvar.exp() + mu ** 2 - 1 - logvar).sum()",
    "a variance that weighs an error": "loss = (0.5 * torch.exp(-logvar) * (y - mu) ** 2 + 0.5 * logvar).mean()",
}
DIVERGENCES = {
    "a divergence with the other sign": (
        "out, mu, logvar = net(x)\n"
        "loss = F.mse_loss(out, x) + 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())" + BACK
    ),
    "a divergence with the other sign, in a function": (
        "def vae_loss(out, x, mu, lv):\n    fit = F.binary_cross_entropy(out, x)\n"
        "    kl = torch.mean(0.5 * torch.sum(1 + lv - mu ** 2 - torch.exp(lv), dim=1))\n    return fit + beta * kl, kl"
    ),
}
DIVERGENCES_NOT = {
    "a divergence with a minus before": (
        "loss = F.mse_loss(out, x) - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())" + BACK
    ),
    "a divergence, the terms the other way round": (
        "kl = 0.5 * (logvar.exp() + mu ** 2 - 1 - logvar).sum()\nloss = fit + beta * kl" + BACK
    ),
    "minus a bound": ("elbo = likelihood + 0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum()\nloss = -elbo" + BACK),
    "a bound that is returned": (
        "def elbo(x, mu, lv):\n    return log_px + 0.5 * torch.sum(1 + lv - mu ** 2 - torch.exp(lv))"
    ),
    "the loss of a spread that is learnt": "loss = (logvar - logvar.exp() * 0).mean()" + BACK,
}
LIKELY = {
    "a policy's loss with a plus": "loss = (dist.log_prob(action) * reward).mean()" + BACK,
    "a policy's loss with a plus, of lists": (
        "parts = []\nfor log_prob, R in zip(kept, returns):\n    parts.append(log_prob * R)\n"
        "loss = torch.stack(parts).sum()" + BACK
    ),
    "a policy's loss with a plus, summed up": "loss = 0\nfor logp, G in zip(a, b):\n    loss += logp * G" + BACK,
    "an advantage the wrong way round": (
        "advantage = values.detach() - returns\nactor = -(log_probs * advantage).mean()\n"
        "loss = actor + 0.5 * F.mse_loss(values, returns)" + BACK
    ),
    "an advantage the wrong way round, normalised": (
        "adv = (value - ret).detach()\nloss = -torch.mean(new_log_prob * adv)" + BACK
    ),
}
LIKELY_NOT = {
    "a policy's loss": "loss = -(dist.log_prob(action) * reward).mean()" + BACK,
    "a policy's loss, the minus in the list": (
        "parts = []\nfor log_prob, R in zip(kept, returns):\n    parts.append(-log_prob * R)\n"
        "loss = torch.cat(parts).sum()" + BACK
    ),
    "a policy's loss that is subtracted": "loss = 0\nfor logp, G in zip(a, b):\n    loss -= logp * G" + BACK,
    "a gain whose minus is followed": "gain = (log_prob * advantage).mean()\n(-gain).backward()",
    "a gain that is made larger": "opt = SGD(p, lr=1, maximize=True)\nloss = (log_prob * advantage).mean()" + BACK,
    "an advantage": "adv = returns - values.detach()\nloss = -(log_probs * adv).mean()" + BACK,
    "what an action costs": "loss = (log_prob * cost).mean()" + BACK,
    "a soft actor": "loss = (alpha * log_prob - q).mean()" + BACK,
    "a log-probability with a minus": "nll = -dist.log_prob(a)\nloss = (nll * returns).mean()" + BACK,
    "a sign that depends": (
        "if gain:\n    loss = (log_prob * reward).mean()\nelse:\n    loss = -(log_prob * reward).mean()" + BACK
    ),
    "a product that is only shown": "loss = -(log_prob * reward).mean()\nprint((log_prob * reward).mean())" + BACK,
}
ENTROPIES = {
    "an entropy that is added": "loss = policy_loss + 0.01 * dist.entropy().mean()" + BACK,
    "an entropy that is added, by a name": (
        "entropy = dist.entropy().mean()\nloss = actor_loss + 0.5 * critic_loss + beta * entropy" + BACK
    ),
    "an entropy that is written out": (
        "ent = -(probs * log_probs).sum(1).mean()\nloss = pg_loss + ENT_COEF * ent" + BACK
    ),
    "minus a bonus of the other sign": "bonus = -entropy.mean()\nloss = policy_loss - 0.01 * bonus" + BACK,
}
ENTROPIES_NOT = {
    "an entropy that is subtracted": "loss = policy_loss - 0.01 * dist.entropy().mean()" + BACK,
    "minus an entropy that is added": "entropy_loss = -dist.entropy().mean()\nloss = actor_loss + entropy_loss" + BACK,
    "minus an entropy, written out": "ent = (p * logp).sum(1).mean()\nloss = actor_loss + 0.01 * ent" + BACK,
    "an entropy that is to be small": "loss = F.cross_entropy(a, y) + 0.1 * entropy" + BACK,
    "log-probabilities by what they brought": (
        "parts = []\nfor t in range(8):\n    logp = F.log_softmax(policy(x[t]), 0)\n"
        "    parts.append(-logp[a] * float(a == 1))\nloss = torch.stack(parts).sum()" + BACK
    ),
    "a factor below zero": "COEF = -0.01\nloss = policy_loss + COEF * entropy" + BACK,
    "an entropy of which nobody knows": "loss = policy_loss + 0.01 * entropy_loss" + BACK,
}
RETURNS = {
    "returns from the start": (
        "R, returns = 0, []\nfor r in rewards:\n    R = r + gamma * R\n    returns.append(R)\nuse(returns)"
    ),
    "returns from the start, by numbers": (
        "G = []\ntotal = 0\nfor t in range(len(self.rewards)):\n    total = self.rewards[t] + self.gamma * total\n"
        "    G.append(total)"
    ),
    "returns in the other order": (
        "R, returns = 0, []\nfor r in reversed(rewards):\n    R = r + GAMMA * R\n    returns.append(R)\n"
        "returns = torch.tensor(returns)"
    ),
    "returns in the other order, by a slice": (
        "out = []\ng = 0\nfor r in rewards[::-1]:\n    g = discount * g + r\n    out.append(g)\nweigh(log_probs, out)"
    ),
}
RETURNS_NOT = {
    "returns that are put in front": (
        "R, returns = 0, []\nfor r in reversed(rewards):\n    R = r + gamma * R\n    returns.insert(0, R)\nuse(returns)"
    ),
    "returns that are turned": (
        "R, returns = 0, []\nfor r in rewards[::-1]:\n    R = r + gamma * R\n    returns.append(R)\n"
        "returns = returns[::-1]"
    ),
    "returns and log-probabilities from the end": (
        "R, returns = 0, []\nfor r in reversed(rewards):\n    R = r + gamma * R\n    returns.append(R)\n"
        "for lp, R in zip(reversed(log_probs), returns):\n    use(lp, R)"
    ),
    "a running mean": "m = []\nfor v in values:\n    a = 0.1 * v + gamma * a\n    m.append(a)",
    "returns that nobody gathers": "for r in rewards:\n    R = r + gamma * R\nprint(R)",
}
ITSELF = {
    "weights of its own": "for k in range(9):\n    target_net.load_state_dict(target_net.state_dict())",
    "weights of its own, of an object": "self.target_q.load_state_dict(self.target_q.state_dict())",
}
ITSELF_NOT = {
    "weights of the other": "target_net.load_state_dict(net.state_dict())",
    "weights that were kept": "net.load_state_dict(best)",
    "weights of another part": "self.target.net.load_state_dict(self.net.state_dict())",
}
_TARGET = (
    "net, target_net = Net(), Net()\ntarget_net.load_state_dict(net.state_dict())\ntarget_net.eval()\n"
    "for p in target_net.parameters():\n    p.requires_grad_(False)\n"
    "for k in range(9):\n    nxt = target_net(s2).max(1)[0]\n    y = r + GAMMA * nxt * (1 - done)\n"
    "    loss = F.mse_loss(net(s).gather(1, a), y)\n    loss.backward()\n"
)
FOLLOWED = {
    "a target that stays as it was": _TARGET,
    "a target that stays, of an object": (
        "class Agent:\n    def __init__(self):\n        self.q = Net()\n        self.q_target = Net()\n"
        "        self.q_target.load_state_dict(self.q.state_dict())\n    def train(self):\n"
        "        for b in self.memory:\n"
        "            y = b.r + self.gamma * self.q_target(b.s2).max(1).values\n"
        "            loss = F.mse_loss(self.q(b.s), y)\n            loss.backward()"
    ),
}
FOLLOWED_NOT = {
    "a target that is loaded": _TARGET + "    if k % 3 == 0:\n        target_net.load_state_dict(net.state_dict())",
    "a target that a function moves": _TARGET + "    soft_update(target_net, net)",
    "a target that follows": (
        _TARGET + "    for t, p in zip(target_net.parameters(), net.parameters()):\n        t.lerp_(p, 0.01)"
    ),
    "a target that is made elsewhere": _TARGET.replace("net, target_net = Net(), Net()\n", ""),
    "a teacher": "teacher = Net()\nfor x in xs:\n    loss = kl(net(x), teacher(x))\n    loss.backward()",
}
_PAIRS = "TAU = 0.005\nfor t, p in zip(target.parameters(), net.parameters()):\n    "
MIXED = {
    "a target that is replaced": _PAIRS + "t.data.copy_(TAU * t.data + (1 - TAU) * p.data)",
    "a target that is replaced, in a function": (
        "def follow(target, net, tau=0.01):\n    for p, t in zip(net.parameters(), target.parameters()):\n"
        "        t.data = (1.0 - tau) * p.data + tau * t.data"
    ),
    "an average that is replaced": "for e, p in zip(ema.parameters(), net.parameters()):\n    e.lerp_(p, 0.999)",
}
MIXED_NOT = {
    "a target that follows slowly": _PAIRS + "t.data.copy_(TAU * p.data + (1 - TAU) * t.data)",
    "a share that is given": (
        "def follow(target, net, tau):\n    for t, p in zip(target.parameters(), net.parameters()):\n"
        "        t.data.copy_(tau * t.data + (1 - tau) * p.data)"
    ),
    "an average that follows": "for e, p in zip(ema.parameters(), net.parameters()):\n    e.lerp_(p, 0.001)",
    "a copy": _PAIRS + "t.data.copy_(p.data)",
    "two networks of one kind": "for a, b in zip(x.parameters(), y.parameters()):\n    a.copy_(0.1 * a + 0.9 * b)",
}
_MEMORY = "memory.append((s, a, r, s2, float(done)))\n"
UNPACKED = {
    "the end of an episode, by its place": (
        _MEMORY + "st, ac, rw, nx, dn = (torch.tensor(v) for v in zip(*batch))\ny = rw + GAMMA * net(nx).max(1)[0]"
    ),
    "the end of an episode, made a tensor beside others": (
        _MEMORY + "st, ac, rw, nx, dn = zip(*batch)\nrw, dn = torch.tensor(rw), torch.tensor(dn)\n"
        "y = rw + GAMMA * net(torch.stack(nx)).max(1)[0]"
    ),
    "the end of an episode, thrown away": (
        "buffer.push(s, a, r, s2, done)\ns, a, r, s2, _ = buffer.sample(32)\ny = gamma * net(s2).max(1)[0] + r"
    ),
}
UNPACKED_NOT = {
    "the end of an episode that counts": (
        _MEMORY + "st, ac, rw, nx, dn = zip(*batch)\ny = rw + GAMMA * net(nx).max(1)[0] * (1 - dn)"
    ),
    "the end of an episode that picks": (
        _MEMORY + "st, ac, rw, nx, dn = zip(*batch)\ny = rw + GAMMA * net(nx).max(1)[0]\ny[dn] = rw[dn]"
    ),
    "a memory without ends": "memory.append((s, a, r, s2))\ns, a, r, s2 = zip(*b)\ny = r + GAMMA * net(s2).max(1)[0]",
    "a memory whose target is none": _MEMORY + "st, ac, rw, nx, dn = zip(*batch)\ny = rw",
}
_PAIR = "g_opt = Adam(G.parameters())\nd_opt = Adam(D.parameters())\n"
_D_STEP = (
    "fake = G(z)\nones, zeros = torch.ones(8, 1), torch.zeros(8, 1)\n"
    "d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)\nd_loss.backward()\nd_opt.step()\n"
)
ADVERSARIES = {
    "samples detached for the generator": (
        _PAIR
        + _D_STEP
        + "g_loss = bce(D(fake.detach()), ones) + F.l1_loss(fake, real)\ng_loss.backward()\ng_opt.step()"
    ),
    "samples detached for the generator, by names": (
        _PAIR + "def make(c):\n    return G(torch.cat([c, noise]))\nfor c, real in data:\n    out = make(c)\n"
        "    judged = D(torch.cat([out.detach(), c]))\n    loss = -judged.mean() + 10 * (out - real).abs().mean()\n"
        "    g_opt.zero_grad()\n    loss.backward()\n    g_opt.step()"
    ),
}
ADVERSARIES_NOT = {
    "samples with their graph": (
        _PAIR + _D_STEP + "g_loss = bce(D(fake), ones) + F.l1_loss(fake, real)\ng_loss.backward()\ng_opt.step()"
    ),
    "samples detached for the critic": _PAIR + _D_STEP,
    "nothing but detached samples": _PAIR
    + "fake = G(z)\nloss = bce(D(fake.detach()), ones)\nloss.backward()\ng_opt.step()",
    "one optimizer of both": "opt = Adam(net.parameters())\nloss = f(net(x.detach()))\nloss.backward()\nopt.step()",
    "features of real images, detached": (
        _PAIR + "fake = G(z)\nloss = F.l1_loss(D(fake), D(real).detach())\nloss.backward()\ng_opt.step()"
    ),
}
FOUND_OUT = {
    "a generator with the critic's label": (
        _PAIR + _D_STEP + "g_loss = bce(D(fake), zeros)\ng_loss.backward()\ng_opt.step()"
    ),
    "a generator with the critic's label, by names": (
        _PAIR + "for real in data:\n    fake = G(z)\n    out = D(fake.detach())\n"
        "    loss_d = F.mse_loss(out, torch.zeros_like(out))\n    loss_d.backward()\n    d_opt.step()\n"
        "    again = D(fake)\n"
        "    loss_g = F.mse_loss(again, torch.zeros_like(again))\n    loss_g.backward()\n    g_opt.step()"
    ),
}
FOUND_OUT_NOT = {
    "a generator with the other label": (
        _PAIR + _D_STEP + "g_loss = bce(D(fake), ones)\ng_loss.backward()\ng_opt.step()"
    ),
    "a label that is filled again": (
        _PAIR + "label = torch.zeros(8, 1)\nfake = G(z)\nd_loss = bce(D(fake.detach()), label)\nd_loss.backward()\n"
        "d_opt.step()\nlabel.fill_(1)\ng_loss = bce(D(fake), label)\ng_loss.backward()\ng_opt.step()"
    ),
    "the generator's loss turned round": (
        _PAIR
        + _D_STEP.replace("zeros)\nd_loss", "ones * 0)\nd_loss")
        + "g_loss = bce(D(fake), ones)\ng_loss.backward()\ng_opt.step()"
    ),
}
_SAMPLER = (
    "def sample(net, n, stride=10):\n    for t in range(T - 1, 0, {step}):\n"
    "        a, b = alpha_bar[t], alpha_bar[{before}]\n"
    "        x = b.sqrt() * f(x, a) + (1 - b).sqrt() * eps"
)
LEVELS = {
    "the level of a step that is left out": _SAMPLER.format(step="-stride", before="t - 1"),
    "the level of a step that is left out, reversed": (
        "for i in reversed(range(0, 1000, 20)):\n    x = step(x, sigmas[i], sigmas[i - 1])"
    ),
}
LEVELS_NOT = {
    "the level of the next step": _SAMPLER.format(step="-stride", before="max(t - stride, 0)"),
    "every step": _SAMPLER.format(step="-1", before="t - 1"),
    "every step, by default": _SAMPLER.format(step="-stride", before="t - 1").replace("=10", "=1"),
    "neighbours of something else": "for i in range(0, 90, 3):\n    d = x[i] - x[i - 1]",
}
ROOTS = {
    "noise without its root": "noisy = a.sqrt() * x + (1 - a) * noise",
    "noise without its root, by names": (
        "def q(x0, t):\n    ab = alpha_bar[t]\n    s = torch.sqrt(ab)\n"
        "    return s * x0 + (1 - ab) * torch.randn_like(x0)"
    ),
    "noise without its root, of a step": "z = ab.sqrt()[t, None] * x + (1 - ab[t, None]) * noise",
    "noise without its root, of a power": "z = (1.0 - abar) * eps + abar ** 0.5 * x",
}
ROOTS_NOT = {
    "noise with its root": "noisy = a.sqrt() * x + (1 - a).sqrt() * noise",
    "a straight line": "x = a * x + (1 - a) * noise",
    "noise of another step": "z = ab.sqrt()[t] * x + (1 - ab[s]) * noise",
    "a variance": "v = a.sqrt() * x + (1 - b) * noise",
    "no noise": "m = a.sqrt() * x + (1 - a) * y",
}
_SCALED = "scaler.scale(loss).backward()\n{between}clip_grad_norm_(net.parameters(), 1.0)\nscaler.step(opt)"
SCALED = {
    "clipped with their scale": _SCALED.format(between=""),
    "clipped with their scale, in a function": (
        "def step(loss):\n    amp.scale(loss).backward()\n    nn.utils.clip_grad_value_(net.parameters(), 0.5)\n"
        "    amp.step(optimizer)\n    amp.update()"
    ),
}
SCALED_NOT = {
    "clipped without their scale": _SCALED.format(between="scaler.unscale_(opt)\n"),
    "clipped with no scale": "loss.backward()\nclip_grad_norm_(net.parameters(), 1.0)\nopt.step()",
    "a scaler that does nothing": "scaler = GradScaler(enabled=False)\n" + _SCALED.format(between=""),
}
TRIPLETS = {
    "what belongs together pushed apart": (
        "d_pos = F.pairwise_distance(a, p)\nd_neg = F.pairwise_distance(a, n)\n"
        "loss = F.relu(d_neg - d_pos + margin).mean()"
    ),
    "what belongs together pushed apart, by squares": (
        "pos = (a - p).pow(2).sum(1)\nneg = (a - n).pow(2).sum(1)\nloss = torch.clamp(margin - pos + neg, min=0).mean()"
    ),
}
TRIPLETS_NOT = {
    "what belongs together pulled together": (
        "d_pos = F.pairwise_distance(a, p)\nd_neg = F.pairwise_distance(a, n)\n"
        "loss = F.relu(d_pos - d_neg + margin).mean()"
    ),
    "similarities": (
        "pos = F.cosine_similarity(a, p)\nneg = F.cosine_similarity(a, n)\nloss = F.relu(neg - pos + margin).mean()"
    ),
    "of which nobody knows": "loss = F.relu(neg - pos + margin).mean()",
}
SURROGATES = {
    "the larger surrogate": (
        "ratio = torch.exp(new - old)\ngain = ratio * adv\nheld = torch.clamp(ratio, 0.8, 1.2) * adv\n"
        "loss = -torch.max(gain, held).mean()"
    ),
    "the larger surrogate, on one line": (
        "r = (new_logp - old_logp).exp()\nloss = -torch.maximum(r * advantages, r.clip(0.8, 1.2) * advantages).mean()"
    ),
}
SURROGATES_NOT = {
    "the smaller surrogate": (
        "ratio = torch.exp(new - old)\ngain = ratio * adv\nheld = torch.clamp(ratio, 0.8, 1.2) * adv\n"
        "loss = -torch.min(gain, held).mean()"
    ),
    "the larger of two losses": (
        "ratio = torch.exp(new - old)\none = -adv * ratio\ntwo = -adv * torch.clamp(ratio, 0.8, 1.2)\n"
        "loss = torch.max(one, two).mean()"
    ),
    "the larger of two errors": "v = torch.max((value - returns) ** 2, (clipped - returns) ** 2).mean()",
}
_CE = "ce = F.cross_entropy(out, y, reduction='none')\n"
FOCAL = {
    "a focal loss of the exponential": _CE + "pt = torch.exp(ce)\nloss = ((1 - pt) ** gamma * ce).mean()",
    "a focal loss of what is right": _CE + "pt = (-ce).exp()\nloss = (alpha * pt ** self.gamma * ce).mean()",
}
FOCAL_NOT = {
    "a focal loss": _CE + "pt = torch.exp(-ce)\nloss = ((1 - pt) ** gamma * ce).mean()",
    "a focal loss of probabilities": "p = out.softmax(1)\nloss = -((1 - p) ** gamma * p.log()).mean()",
    "the focal loss of what is wrong": "p = torch.sigmoid(out)\nloss = -(p ** gamma * (1 - p).log()).mean()",
}
ONESELF = {
    "a divergence of one tensor": (
        "soft = F.softmax(large / T, dim=-1)\nout = F.log_softmax(large / T, dim=-1)\nloss = F.kl_div(out, soft)"
    ),
    "an error of one tensor": "loss = F.mse_loss(pred, pred.detach())",
    "a criterion of one tensor": "loss = criterion(out, out)",
}
ONESELF_NOT = {
    "a divergence of two": "loss = F.kl_div(F.log_softmax(a / T, 1), F.softmax(b / T, 1))",
    "what went in": "loss = F.mse_loss(net(x), x)",
    "what it was before": "old = x.clone()\nx = f(x)\nloss = F.mse_loss(x, old)",
    "an entropy": "loss = F.cross_entropy(out, out.softmax(1))",
}
RESIDUALS = {
    "a residual of itself": "class Net:\n    def forward(self, x):\n        x = self.layer(x)\n        return x + x",
    "a residual of itself, kept": "class Net:\n    def forward(self, h):\n        h = h + h\n        return f(h)",
}
RESIDUALS_NOT = {
    "a residual": "class Net:\n    def forward(self, x):\n        return x + self.layer(x)",
    "twice the value": "class Net:\n    def forward(self, x):\n        return 2 * x",
    "a sum elsewhere": "y = x + x",
}
LARGEST = {
    "the largest of the batch": "pred = out.argmax()\nright += (pred == y).sum().item()",
    "the largest of the batch, of a function": "acc = (torch.argmax(net(x)) == y).float().mean()",
}
LARGEST_NOT = {
    "the largest of each": "right += (out.argmax(1) == y).sum().item()",
    "the largest of each, by a name": "right += (torch.argmax(out, dim=-1) == y).sum()",
    "the largest for one sample": "right += int(out.argmax() == y)",
    "batches of one": "dl = DataLoader(d, batch_size=1)\nright += (out.argmax() == y).sum()",
}
MASKED = {
    "a mask after the softmax": "w = F.softmax(scores, dim=-1)\nw = w.masked_fill(mask == 0, -1e9)\nout = w @ v",
    "a mask after the softmax, infinite": "out = scores.softmax(-1).masked_fill(~mask, float('-inf')) @ v",
}
MASKED_NOT = {
    "a mask before the softmax": "scores = scores.masked_fill(mask == 0, -1e9)\nw = scores.softmax(-1)",
    "weights set to zero": "w = scores.softmax(-1).masked_fill(~mask, 0.0)",
    "a mask of others": "w = scores.softmax(-1)\ns = other.masked_fill(~mask, -1e9)",
}
BESIDE = {
    "a sample beside itself": (
        "def nt_xent(z1, z2, t=0.5):\n    z = F.normalize(torch.cat([z1, z2]), dim=1)\n    sim = z @ z.T / t\n"
        "    pair = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])\n    return F.cross_entropy(sim, pair)"
    ),
    "a sample beside itself, by hand": (
        "def loss(z, t):\n    s = torch.mm(z, z.t()) / t\n    e = torch.exp(s)\n"
        "    pos = torch.cat([torch.diag(s, n), torch.diag(s, -n)])\n    return -(pos - torch.log(e.sum(1))).mean()"
    ),
    "a sample beside itself, by cosines": (
        "s = F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=-1)\nloss = criterion(s / 0.1, pair)\n"
        "ce = torch.logsumexp(s, 1)"
    ),
    "a sample beside itself, in a method": (
        "class Loss(nn.Module):\n    def __init__(self):\n        self.criterion = nn.CrossEntropyLoss()\n"
        "    def forward(self, z, pair):\n        logits = torch.matmul(z, z.transpose(0, 1))\n"
        "        return self.criterion(logits, pair)"
    ),
}
BESIDE_NOT = {
    "the diagonal is filled": (
        "sim = z @ z.T / t\nsim.fill_diagonal_(float('-inf'))\nloss = F.cross_entropy(sim, pair)"
    ),
    "the diagonal is masked": "sim = z @ z.T\nsim = sim.masked_fill(same, -9e15)\nloss = F.cross_entropy(sim, pair)",
    "the diagonal is subtracted": "sim = z @ z.T - torch.diag(big)\nloss = F.cross_entropy(sim, pair)",
    "its own term is subtracted": (
        "s = z @ z.T / t\ne = torch.exp(s)\nneg = e.sum(1) - math.exp(1 / t)\nloss = -(pos - torch.log(neg)).mean()"
    ),
    "a part of the matrix": "sim = z @ z.T\nloss = F.cross_entropy(sim[:n, n:], torch.arange(n))",
    "what is not on the diagonal": "sim = z @ z.T\nrest = sim[~same].view(n, -1)\nloss = F.cross_entropy(rest, pair)",
    "a mask by name": "sim = z @ z.T\nsim = sim - 1e9 * self_mask\nloss = F.cross_entropy(sim, pair)",
    "two views": "sim = a @ b.T / t\nloss = F.cross_entropy(sim, torch.arange(n))",
    "attention": "w = torch.softmax(x @ x.T, dim=-1)\nloss = F.cross_entropy(w @ x, y)",
    "a matrix of distances": "g = x @ x.T\nd = norms + norms.T - 2 * g\nloss = F.cross_entropy(net(x), y)",
    "another transpose": "sim = z @ z.transpose(1, 2)\nloss = F.cross_entropy(sim, pair)",
    "a cosine of pairs": "s = F.cosine_similarity(z, z2)\nloss = F.cross_entropy(s, pair)",
}
QUANTILES = {
    "a quantile turned": "errors = preds[:, i] - target\nloss = torch.max((q - 1) * errors, q * errors).mean()",
    "a quantile turned, on one line": "loss = torch.maximum(tau * (y_hat - y), (tau - 1) * (y_hat - y)).sum()",
    "a quantile turned, by a condition": ("e = out - labels\nloss = torch.where(e >= 0, q * e, (q - 1) * e).mean()"),
}
QUANTILES_NOT = {
    "a quantile": "errors = target - preds[:, i]\nloss = torch.max((q - 1) * errors, q * errors).mean()",
    "a quantile of what nobody can tell": "e = a - b\nloss = torch.max((q - 1) * e, q * e).mean()",
    "a quantile of two predictions": "e = pred - pred_target\nloss = torch.max((q - 1) * e, q * e).mean()",
    "the larger of two": "e = pred - target\nloss = torch.max(e, -e).mean()",
    "two factors": "e = pred - target\nloss = torch.max(a * e, b * e).mean()",
    "another sum": "e = pred + target\nloss = torch.max((q - 1) * e, q * e).mean()",
}
RISKS = {
    "a risk of those before": (
        "def cox(risk, time, event):\n    order = torch.argsort(time)\n    risk, event = risk[order], event[order]\n"
        "    return -((risk - torch.logcumsumexp(risk, 0)) * event).mean()"
    ),
    "a risk of those before, by hand": (
        "durations, idx = durations.sort()\nh = torch.exp(log_h[idx])\n"
        "loss = -((log_h[idx] - torch.log(torch.cumsum(h, 0))) * events[idx]).sum()"
    ),
    "a risk of those before, by a method": (
        "i = t.argsort()\nloss = -((f[i] - f[i].exp().cumsum(0).log()) * status[i]).mean()"
    ),
}
RISKS_NOT = {
    "a risk of those after": (
        "order = torch.argsort(time, descending=True)\nloss = -((f[order] - f[order].logcumsumexp(0)) * event).mean()"
    ),
    "a risk of those after, by a minus": (
        "order = torch.argsort(-time)\nloss = -((f[order] - f[order].logcumsumexp(0)) * event).mean()"
    ),
    "a risk that is turned round": (
        "order = torch.argsort(time)\nloss = -((f - f.flip(0).logcumsumexp(0).flip(0)) * event).mean()"
    ),
    "an order by something else": (
        "order = torch.argsort(scores)\nloss = -((f[order] - f[order].logcumsumexp(0)) * event).mean()"
    ),
    "a sum of what was sorted": "t, i = time.sort()\ntotal = torch.cumsum(cost[i], 0)\nprint(event)",
    "no event": "i = time.argsort()\nloss = f[i].logcumsumexp(0).mean()",
    "two orders": ("i = time.argsort()\nj = i.argsort()\nloss = -((f[i] - f[i].logcumsumexp(0))[j] * event).mean()"),
}
