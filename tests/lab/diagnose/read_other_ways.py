"""Mistakes in spellings that people use as often as those of the planted cells, and right programs that look the same:
the rule, and the line that it tells, or none. They are read and not run."""

from __future__ import annotations

WAYS: dict[str, tuple[str, int | None, str]] = {
    "both directions, the first result by its place": (
        "last_states.both_directions",
        6,
        """
class Reader(nn.Module):
    def __init__(self):
        self.encoder = nn.GRU(8, 8, bidirectional=True, batch_first=True)
    def summarise(self, tokens):
        states = self.encoder(tokens)[0]
        return states[:, states.shape[1] - 1, :]
""",
    ),
    "last of padding by select": (
        "carried_states.last_of_padding",
        7,
        """
def collate(items): return pad_sequence(items, batch_first=True)
class Trip(nn.Module):
    def __init__(self):
        self.rnn = nn.LSTM(3, 32, batch_first=True)
    def forward(self, batch):
        hs, _ = self.rnn(batch["x"])
        return self.head(hs.select(1, -1))
""",
    ),
    "a ratio that is clipped, by a function": (
        "probability_ratios.ratio_of_logarithms",
        3,
        """
def surrogate(idx):
    logp_now = Categorical(logits=policy(obs[idx])).log_prob(acts[idx])
    weight = torch.div(logp_now, logp_before[idx])
    return -torch.minimum(weight * adv, weight.clamp(0.8, 1.2) * adv).mean()
""",
    ),
    "a share of two log-likelihoods that measures a fit": (
        "probability_ratios.ratio_of_logarithms",
        None,
        """
def mcfadden(model, x, y):
    logp_model = model(x).log_prob(y).sum()
    logp_null = null.log_prob(y).sum()
    share = logp_model / logp_null
    return 1 - share
""",
    ),
    "the old probability anew under no_grad": (
        "probability_ratios.always_one",
        6,
        """
class Trainer:
    def update(self, s, a, adv):
        for _ in range(self.passes):
            new_lp = self.log_likelihood(s, a)
            with torch.no_grad():
                ref_lp = self.log_likelihood(s, a)
            r = torch.exp(new_lp - ref_lp)
            loss = -torch.min(r * adv, torch.clamp(r, 0.8, 1.2) * adv).mean()
            loss.backward()
trainer = Trainer()
for it in range(25):
    trainer.update(s, a, adv)
""",
    ),
    "a reference model beside the policy": (
        "probability_ratios.always_one",
        None,
        """
class Trainer:
    def update(self, s, a, adv):
        for _ in range(self.passes):
            new_lp = self.log_likelihood(self.actor, s, a)
            with torch.no_grad():
                ref_lp = self.log_likelihood(self.reference, s, a)
            r = torch.exp(new_lp - ref_lp)
            loss = -torch.min(r * adv, torch.clamp(r, 0.8, 1.2) * adv).mean()
            loss.backward()
trainer = Trainer()
for it in range(25):
    trainer.update(s, a, adv)
""",
    ),
    "a variance of another name": (
        "priors.precision_for_variance",
        4,
        """
def hetero_loss(out, target):
    s = out["s"].clamp(-8, 8)
    sq = (target - out["center"]).pow(2)
    return torch.mean(0.5 * s + 0.5 * sq * s.exp())
""",
    ),
    "a precision is multiplied with the error": (
        "priors.precision_for_variance",
        None,
        """
def hetero_loss(out, target):
    s = out["log_precision"]
    sq = (target - out["center"]).pow(2)
    return torch.mean(-0.5 * s + 0.5 * sq * s.exp())
""",
    ),
    "a product of residuals over a spread": (
        "priors.spread_for_variance",
        3,
        """
def neg_log_lik(mean, sd, obs):
    resid = obs - mean
    quad = resid * resid / (2.0 * sd)
    return (sd.log() + quad).mean()
""",
    ),
    "half of a logarithm of a variance": (
        "priors.spread_for_variance",
        None,
        """
def neg_log_lik(mean, v, obs):
    resid = obs - mean
    quad = resid * resid / (2.0 * v)
    return (0.5 * v.log() + quad).mean()
""",
    ),
    "one row of a buffer of positions": (
        "carried_states.one_position_for_all",
        4,
        """
class Order(nn.Module):
    def embed(self, ids):
        length = ids.shape[1]
        where = self.table[length]
        return self.tok(ids) + where
""",
    ),
    "an embedding of lengths": (
        "carried_states.one_position_for_all",
        None,
        """
class Order(nn.Module):
    def embed(self, ids):
        length = ids.shape[1]
        return self.tok(ids).mean(1) + self.by_length[length]
""",
    ),
    "masked weights by where": (
        "said_twice.masked_too_late",
        2,
        """
att = torch.softmax(scores, dim=-1)
att = torch.where(adj > 0, att, torch.full_like(att, -1e9))
""",
    ),
    "weights set to 0 by where": (
        "said_twice.masked_too_late",
        None,
        """
att = torch.softmax(scores, dim=-1)
att = torch.where(adj > 0, att, torch.zeros_like(att))
""",
    ),
    "scores of 0 by zeros_like": (
        "attention_scores.masked_by_zero",
        1,
        """
att = torch.where(allowed, att, torch.zeros_like(att))
p = F.softmax(att, dim=-1)
""",
    ),
    "scores of -inf by full_like": (
        "attention_scores.masked_by_zero",
        None,
        """
att = torch.where(allowed, att, torch.full_like(att, float("-inf")))
p = F.softmax(att, dim=-1)
""",
    ),
    "tril of weights": (
        "attention_scores.weights_cut",
        3,
        """
def weights(h):
    probs = F.softmax(h @ h.transpose(1, 2), dim=2)
    return torch.tril(probs)
""",
    ),
    "tril of weights that are divided again": (
        "attention_scores.weights_cut",
        None,
        """
def weights(h):
    probs = torch.tril(F.softmax(h @ h.transpose(1, 2), dim=2))
    return probs / probs.sum(-1, keepdim=True)
""",
    ),
    "a contrastive loss by where": (
        "pairs_compared.friends_apart",
        4,
        """
class Contrastive(nn.Module):
    def forward(self, dist, match):
        gap = torch.clamp(self.margin - dist, min=0)
        return torch.where(match.bool(), gap.square(), dist.square()).mean()
""",
    ),
    "a contrastive loss by where, right": (
        "pairs_compared.friends_apart",
        None,
        """
class Contrastive(nn.Module):
    def forward(self, dist, match):
        gap = torch.clamp(self.margin - dist, min=0)
        return torch.where(match.bool(), dist.square(), gap.square()).mean()
""",
    ),
    "predicted noise in a conditional expression": (
        "noise_schedules.predicted_noise_added",
        5,
        """
def generate(model, pts):
    for k in reversed(range(50)):
        e = model(pts, k)
        mu = (pts - beta[k] / (1 - abar[k]).sqrt() * e) / alpha[k].sqrt()
        pts = mu + beta[k].sqrt() * e if k > 0 else mu
    return pts
""",
    ),
    "a step of DDIM keeps the predicted noise": (
        "noise_schedules.predicted_noise_added",
        None,
        """
def generate(model, pts):
    for k in reversed(range(1, 50)):
        e = model(pts, k)
        mean = (pts - (1 - abar[k]).sqrt() * e) / abar[k].sqrt() * abar[k - 1].sqrt()
        pts = mean + (1 - abar[k - 1]).sqrt() * e
    return pts
""",
    ),
    "the larger of stacked critics": (
        "action_values.larger_critic",
        3,
        """
u2 = actor(s2)
both = torch.stack([slow_a(torch.cat([s2, u2], 1)), slow_b(torch.cat([s2, u2], 1))])
y = r + 0.95 * both.amax(dim=0)
""",
    ),
    "the larger of two views, no target": (
        "action_values.larger_critic",
        None,
        """
both = torch.stack([tower_a(x), tower_b(x)])
y = head(both.amax(dim=0))
""",
    ),
    "advantages from the front, by their errors": (
        "policy_steps.from_the_front",
        4,
        """
def advantages(td):
    out, acc = [], 0.0
    for err in td:
        acc = err + GAMMA * LAM * acc
        out.append(acc)
    return out
""",
    ),
    "advantages from the end, by their errors": (
        "policy_steps.from_the_front",
        None,
        """
def advantages(td):
    out, acc = [], 0.0
    for err in reversed(td):
        acc = err + GAMMA * LAM * acc
        out.append(acc)
    return out[::-1]
""",
    ),
    "chance by a variable": (
        "policy_steps.chance_turned",
        3,
        """
def choose(self, ctx):
    greedy = torch.rand(()).item() < self.eps
    if greedy:
        return int(qnet(ctx).argmax())
    return random.randrange(4)
def anneal(self):
    self.eps = max(self.lo, self.eps * self.rate)
""",
    ),
    "entropy by add with alpha": (
        "soft_actors.entropy_taken_off",
        2,
        """
nxt, lp = act(s2)
soft_value = torch.minimum(*lagged(s2, nxt)).add(lp, alpha=ent_coef)
""",
    ),
    "entropy by sub with alpha": (
        "soft_actors.entropy_taken_off",
        None,
        """
nxt, lp = act(s2)
soft_value = torch.minimum(*lagged(s2, nxt)).sub(lp, alpha=ent_coef)
""",
    ),
    "a temperature in a function": (
        "soft_actors.temperature_turned",
        4,
        """
wanted = -float(n_act)
def temperature_loss(lp):
    gap = lp.detach() + wanted
    return torch.mean(log_temp * gap)
loss_t = temperature_loss(lp)
loss_t.backward()
""",
    ),
    "a temperature in a function, right": (
        "soft_actors.temperature_turned",
        None,
        """
wanted = -float(n_act)
def temperature_loss(lp):
    gap = lp.detach() + wanted
    return -torch.mean(log_temp * gap)
loss_t = temperature_loss(lp)
loss_t.backward()
""",
    ),
    "a critic's step in a function": (
        "adversaries.both_want_the_same",
        4,
        """
def judge_step(genuine):
    made = maker(torch.randn(len(genuine), 4)).detach()
    gap = judge(genuine).mean() - judge(made).mean()
    total = gap + 10.0 * penalty(genuine, made)
    total.backward()
for it in range(60):
    judge_step(x)
    made = maker(z)
    loss_m = judge(made).mean().neg()
    loss_m.backward()
""",
    ),
    "a critic's step in a function, right": (
        "adversaries.both_want_the_same",
        None,
        """
def judge_step(genuine):
    made = maker(torch.randn(len(genuine), 4)).detach()
    gap = judge(made).mean() - judge(genuine).mean()
    gap.backward()
for it in range(60):
    judge_step(x)
    made = maker(z)
    loss_m = judge(made).mean().neg()
    loss_m.backward()
""",
    ),
    "positions counted along the batch": (
        "carried_states.one_position_for_all",
        7,
        """
class Order(nn.Module):
    def __init__(self):
        self.pos_embed = nn.Embedding(64, 32)
        self.enc = nn.TransformerEncoderLayer(32, 4, batch_first=True)
    def forward(self, x):
        length = x.size(1)
        pos = torch.arange(x.size(0)).unsqueeze(1)
        return self.enc(self.tok(x) + self.pos_embed(pos))
""",
    ),
    "positions counted along the tokens": (
        "carried_states.one_position_for_all",
        None,
        """
class Order(nn.Module):
    def __init__(self):
        self.pos_embed = nn.Embedding(64, 32)
        self.enc = nn.TransformerEncoderLayer(32, 4, batch_first=True)
    def forward(self, x):
        rows = torch.arange(x.size(0)).unsqueeze(1)
        pos = torch.arange(x.size(1)).unsqueeze(0)
        return self.enc(self.tok(x) + self.pos_embed(pos))[rows, 0]
""",
    ),
}
