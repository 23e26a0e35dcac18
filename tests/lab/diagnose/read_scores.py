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
_KL = "\nkl = -0.5 * ({0}).sum()\nloss = recon + kl\nloss.backward()\nopt.step()\n"
SPREADS_ASIDE = {
    "a spread for a variance": _KL.format("1 + 2 * logstd - mu ** 2 - torch.exp(logstd)"),
    "a variance beside half of it": _KL.format("1 + logvar - mu.pow(2) - (0.5 * logvar).exp()"),
    "a variance squared": _KL.format("1 + logvar - mu.pow(2) - logvar.exp() ** 2"),
}
SPREADS_ASIDE_NOT = {
    "a divergence by the variance": _KL.format("1 + logvar - mu.pow(2) - logvar.exp()"),
    "a divergence by the spread": _KL.format("1 + 2 * logstd - mu ** 2 - torch.exp(2 * logstd)"),
    "a divergence by the square of the spread": _KL.format("1 + 2 * logstd - mu ** 2 - logstd.exp().pow(2)"),
    "a sum with an exponential": _KL.format("1 + a - b - torch.exp(c)"),
}
EMPTIED = {
    "a list that is stored and cleared": "self.all.append(self.steps)\nself.steps.clear()",
    "a list that is stored and deleted": "episodes.append(steps)\ndel steps[:]",
}
EMPTIED_NOT = {
    "a copy that is stored": "episodes.append(list(steps))\nsteps.clear()",
    "a list that is made anew": "steps = []\nfor e in n:\n    episodes.append(steps)\n    steps = []\nsteps.clear()",
    "a list that is only cleared": "episodes.append(total)\nsteps.clear()",
}
_FROZEN = (
    "opt = torch.optim.SGD(net.parameters(), lr=0.1{0})\nfor p in net.body.parameters():\n    p.requires_grad = False\n"
    "opt.zero_grad({1})\nloss.backward()\nopt.step()"
)
FROZEN = {
    "frozen and pushed by momentum": _FROZEN.format(", momentum=0.9", "set_to_none=False"),
    "frozen and pushed by decay": _FROZEN.format(", weight_decay=1e-3", "set_to_none=False"),
    "frozen by an argument": _FROZEN.format(", momentum=0.9", "set_to_none=False").replace(
        "= False\n", "= not freeze\n"
    ),
}
FROZEN_NOT = {
    "frozen without gradients": _FROZEN.format(", momentum=0.9", ""),
    "frozen and pushed by nothing": _FROZEN.format("", "set_to_none=False"),
    "thawed": _FROZEN.format(", momentum=0.9", "set_to_none=False").replace("= False\n", "= True\n"),
    "an optimizer of the others": _FROZEN.format(", momentum=0.9", "set_to_none=False").replace(
        "net.parameters(),", "[p for p in net.parameters() if p.requires_grad],"
    ),
}
_TIE = "class {0}(nn.Module):\n    def __init__(self):\n        {1}\n        self.dec.weight = {2}"
TIED = {
    "weights tied by a copy": _TIE.format("Tied", "pass", "nn.Parameter(self.enc.weight.t().clone())"),
    "weights tied by a copy, in a comment": _TIE.format("Net", "# tie them", "nn.Parameter(self.enc.weight.t())"),
}
TIED_NOT = {
    "weights tied": _TIE.format("Tied", "pass", "self.enc.weight"),
    "weights that begin alike": _TIE.format("Net", "pass", "nn.Parameter(self.enc.weight.clone())"),
}
SCALES = {
    "a variance for a normal's scale": "d = Normal(mu, var)",
    "a variance by its name": "d = torch.distributions.Normal(loc=mu, scale=self.variance)",
    "a covariance for its root": "d = MultivariateNormal(mu, scale_tril=torch.diag(var))",
}
SCALES_NOT = {
    "a root for a normal's scale": "d = Normal(mu, var.sqrt())",
    "a root that was taken before": "var = torch.exp(0.5 * logvar)\nd = Normal(mu, var)",
    "a spread for a normal's scale": "d = Normal(mu, sigma)",
    "a covariance as such": "d = MultivariateNormal(mu, covariance_matrix=torch.diag(var))",
    "another function of that shape": "d = Batch(mu, var)",
}
_STEP = "def step(self, x, t):\n    eps = self.model(x, t)\n    mean = f(x, eps)\n    {0}\n    return {1}"
PREDICTED = {
    "noise that was predicted": _STEP.format("var = v[t]", "mean + var.sqrt() * eps"),
    "noise that was predicted, turned": _STEP.format("pass", "eps * self.sigma[t] + mean"),
}
PREDICTED_NOT = {
    "noise that is drawn": _STEP.format("z = torch.randn_like(x)", "mean + var.sqrt() * z"),
    "a prediction in the units of the data": "def predict(model, x):\n    out = model(x)\n    return out * std + mean",
    "a direction of what was predicted": _STEP.format("x0 = g(x, eps)", "a.sqrt() * x0 + (1 - a).sqrt() * eps"),
}
_MERGE = "class L:\n    def merge(self):\n        {0}\n        {1}\n        self.merged = True\nl.merge()"
AGAIN = {
    "a merge that does not look": _MERGE.format("pass", "self.weight += self.delta()"),
    "a merge in place that does not look": _MERGE.format("pass", "self.base.weight.add_(self.delta())"),
}
AGAIN_NOT = {
    "a merge that looks": _MERGE.format("if self.merged: return", "self.weight += self.delta()"),
    "a merge into another": _MERGE.format("pass", "self.full = self.weight + self.delta()"),
    "a merge that nobody calls": _MERGE.format("pass", "self.weight += 1").replace("l.merge()", ""),
}
_FLIP = (
    "def augment(image, {0}):\n    if torch.rand(1) < 0.5:\n        image = image.flip(-1)\n{1}    return image, {0}"
)
PICTURES = {
    "a flip without the boxes": _FLIP.format("boxes", ""),
    "a flip without the mask": _FLIP.format("mask", ""),
    "a flip without a target of boxes": _FLIP.format("target", "") + "\nboxes = 3",
}
PICTURES_NOT = {
    "a flip with the boxes": _FLIP.format("boxes", "        boxes[:, 0] = w - boxes[:, 0]\n"),
    "a flip with the mask": _FLIP.format("mask", "        mask = mask.flip(-1)\n"),
    "a flip with a class": _FLIP.format("target", ""),
    "a picture that is made brighter": _FLIP.format("boxes", "").replace("image.flip(-1)", "image * 1.1"),
}
FITTED = {
    "a scaler fitted on the test": "a = sc.fit_transform(x_train)\nb = window(sc.fit_transform(x_test))",
    "a scaler fitted on the test after": "sc.fit(train)\na = f(sc.transform(train))\nb = f(sc.fit_transform(test))",
}
FITTED_NOT = {
    "a scaler that is kept": "a = f(sc.fit_transform(x_train))\nb = f(sc.transform(x_test))",
    "two scalers, one for each": "a = f(sx.fit_transform(x_train))\nb = f(sy.fit_transform(y_test))",
}
