"""Texts about scores, ratios, noise and settings: what is told, and what comes close to it."""

from __future__ import annotations

_LOSS = "\nloss = {0}\nloss.backward()\nopt.step()\n"
NOISE = {
    "uniform noise times a spread": "def f(mu, std):\n    eps = torch.rand_like(std)\n    return mu + eps * std",
    "uniform noise times a spread, in place": "z = mu + torch.exp(0.5 * logvar) * torch.rand_like(mu)",
    "uniform noise of a size": "z = mu + sigma * torch.rand(mu.shape)",
}
NOISE_NOT = {
    "normal noise times a spread": "z = mu + std * torch.randn_like(std)",
    "uniform noise that is moved first": "u = torch.rand_like(std) * 2 - 1\nz = mu + std * u",
    "uniform numbers between two ends": "x = low + (high - low) * torch.rand(8)",
}
_CODE = "def f(x):\n    z = enc(x)\n    idx = torch.cdist(z, book.weight).argmin(1)\n    q = book(idx)\n"
CODES = {
    "codes read as they are": _CODE + "    out = dec(q)\n    return F.mse_loss(out, x) + F.mse_loss(z, q.detach())",
    "codes picked from a table": (
        _CODE.replace("book(idx)", "book.weight[idx]")
        + "    out = dec(q)\n    return F.mse_loss(out, x) + F.mse_loss(q.detach(), z)"
    ),
}
CODES_NOT = {
    "codes passed straight through": (
        _CODE + "    s = z + (q - z).detach()\n    return F.mse_loss(dec(s), x) + F.mse_loss(z, q.detach())"
    ),
    "codes that nothing is held to": _CODE + "    return F.mse_loss(dec(q), x)",
    "codes of a choice that is soft": (
        "def f(x):\n    z = enc(x)\n    q = z.softmax(1) @ book.weight\n"
        "    return F.mse_loss(dec(q), x) + F.mse_loss(z, q.detach())"
    ),
}
FILLED = {
    "scores filled with zero": "s = s.masked_fill(m == 0, 0)\na = s.softmax(-1)",
    "scores filled with a tiny number": "s = s.masked_fill(m, 1e-9)\na = F.softmax(s, dim=-1)",
    "scores filled with minus one": "a = torch.softmax(q.masked_fill(m, -1), -1)",
    "scores where a mask is": "s = torch.where(m, s, 0.0)\na = torch.softmax(s, -1)",
}
FILLED_NOT = {
    "scores filled with a low number": "s = s.masked_fill(m == 0, -1e9)\na = s.softmax(-1)",
    "scores filled with minus infinity": "s = s.masked_fill(m, float('-inf'))\na = s.softmax(-1)",
    "weights filled with zero": "a = s.softmax(-1)\na = a.masked_fill(m, 0)",
    "scores where another score is": "s = torch.where(m, s, t)\na = s.softmax(-1)",
}
CUT = {
    "weights times a triangle": "a = s.softmax(-1)\na = a * torch.tril(torch.ones(n, n))",
    "weights times a causal mask": "w = F.softmax(s, -1) * causal_mask",
    "weights times a variable of a triangle": "m = torch.ones(n, n).tril()\na = torch.softmax(s, -1)\no = (a * m) @ v",
}
CUT_NOT = {
    "weights times a triangle, and divided": "a = s.softmax(-1) * torch.tril(o)\na = a / a.sum(-1, keepdim=True)",
    "weights times a mask of heads": "a = s.softmax(-1) * head_mask",
    "scores times a triangle of decay": "o = (q @ k.T * torch.tril(decay)) @ v",
}
RATIOS = {
    "log-probabilities divided": "ratio = logp / old_logp",
    "log-probabilities subtracted alone": "ratio = new_log_probs - old_log_probs",
    "log-probabilities of a distribution divided": "new = dist.log_prob(a)\nratios = new / batch.log_probs",
}
RATIOS_NOT = {
    "probabilities divided": "ratio = pi_a / pi_old",
    "an exponential of the difference": "ratio = torch.exp(logp - old_logp)",
    "a difference that is named so": "log_ratio = logp - old_logp\nratio = log_ratio.exp()",
    "exponentials divided": "a = logp.exp()\nb = old_logp.exp()\nratio = a / b",
}
ONES = {
    "the old one of the new one": (
        "for epoch in range(4):\n    for logp, adv in batches:\n        old = logp.detach()\n"
        "        ratio = torch.exp(logp - old)\n"
        "        s = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)"
    ),
    "the old one of the new one, in place": (
        "while True:\n    for k in range(9):\n        r = (logp - logp.detach()).exp()\n"
        "        s = torch.clamp(r, 0.8, 1.2) * adv"
    ),
}
ONES_NOT = {
    "a ratio that is not clipped": "r = (logp - logp.detach()).exp()\nloss = -(r * adv).mean()",
    "a step for each batch of samples": (
        "for k in range(9):\n    r = (logp - logp.detach()).exp()\n    s = torch.clamp(r, 0.8, 1.2) * adv"
    ),
    "an old one that was kept": "r = (logp - old.detach()).exp()\ns = r.clamp(0.8, 1.2) * adv",
}
DENSITIES = {
    "a log-probability as the loss": _LOSS.format("dist.log_prob(y).mean()"),
    "a log-probability in two lines": "lp = flow.log_prob(x).sum()" + _LOSS.format("lp / 8"),
}
DENSITIES_NOT = {
    "minus a log-probability": _LOSS.format("-dist.log_prob(y).mean()"),
    "log-probabilities of two": _LOSS.format("q.log_prob(z).mean() - p.log_prob(z).mean()"),
    "a step that goes up": "opt = SGD(p, lr=1, maximize=True)" + _LOSS.format("dist.log_prob(y).mean()"),
}
AVERAGES_TURNED = {
    "momentum as others mean it": "bn = nn.BatchNorm2d(64, momentum=0.99)",
    "momentum by position": "bn = nn.BatchNorm1d(64, 1e-5, 0.9)",
    "momentum of a variable": "m = 0.997\nbn = nn.BatchNorm2d(64, momentum=m, eps=1e-3)",
}
AVERAGES_TURNED_NOT = {
    "momentum as it is meant here": "bn = nn.BatchNorm2d(64, momentum=0.01)",
    "momentum of one": "bn = nn.BatchNorm2d(64, momentum=1.0)",
    "momentum of an optimizer": "opt = torch.optim.SGD(p, momentum=0.99)",
}
KEPT_SHARES = {
    "a dropout of what is kept": "d = nn.Dropout(keep_prob)",
    "a dropout of what is kept, a number": "keep = 0.8\nd = nn.Dropout(p=keep)",
    "a dropout of what is kept, a call": "h = F.dropout(h, self.keep_prob, self.training)",
}
KEPT_SHARES_NOT = {
    "a dropout of the rest": "d = nn.Dropout(1 - keep_prob)",
    "a dropout of nearly all": "d = nn.Dropout(0.9)",
    "a dropout of some": "d = nn.Dropout(0.5)",
    "a small share by that name": "keep = 0.1\nd = nn.Dropout(keep)",
}
PENALTIES = {
    "a penalty taken away": _LOSS.format("F.mse_loss(a, b) - 1e-4 * sum(p.norm() for p in net.parameters())"),
    "a penalty taken away, in a variable": (
        "l2 = sum((p ** 2).sum() for p in net.parameters())" + _LOSS.format("data - decay * l2")
    ),
}
PENALTIES_NOT = {
    "a penalty that is added": _LOSS.format("data + 1e-4 * sum(p.norm() for p in net.parameters())"),
    "something else taken away": _LOSS.format("data - 0.01 * entropy"),
}
RARE = {
    "positives by their share": "loss = nn.BCEWithLogitsLoss(pos_weight=labels.float().mean())",
    "positives by negatives": "w = torch.tensor([n_pos / n_neg])\nloss = nn.BCEWithLogitsLoss(pos_weight=w)",
    "positives by all": "l = F.binary_cross_entropy_with_logits(a, b, pos_weight=pos / n)",
}
RARE_NOT = {
    "negatives by positives": "w = n_neg / n_pos\nloss = nn.BCEWithLogitsLoss(pos_weight=w)",
    "all without the positives": "w = (n - n_pos) / n_pos\nloss = nn.BCEWithLogitsLoss(pos_weight=w)",
    "a plain weight": "loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([9.0]))",
}
_LSTM = "self.rnn = nn.LSTM(8, 8, {0})\ndef forward(self, x):\n    out, _ = self.rnn(x)\n    {1}"
LAST_STEPS = {
    "the last sample": _LSTM.format("batch_first=True", "return self.fc(out[-1])"),
    "the last sample, with all the rest": _LSTM.format("batch_first=True", "return self.fc(out[-1, :, :])"),
    "the last sample of a layer without a class": "rnn = nn.GRU(8, 8, batch_first=True)\no, h = rnn(x)\ny = fc(o[-1])",
}
LAST_STEPS_NOT = {
    "the last step": _LSTM.format("batch_first=True", "return self.fc(out[:, -1])"),
    "the last step of time first": _LSTM.format("bias=False", "return self.fc(out[-1])"),
    "the last state": "rnn = nn.GRU(8, 8, batch_first=True)\no, h = rnn(x)\ny = fc(h[-1])",
    "the last step after a turn": _LSTM.format("batch_first=True", "out = out.transpose(0, 1)\n    return out[-1]"),
}
