"""Remedies as changes of a text: what each rule makes of a finding's sentence, without a trial."""

from __future__ import annotations

import pytest

from lab.prove import families  # noqa: F401 - fills the table of remedies
from lab.prove.remedies import patches
from widgets.record import Finding

HOOKED = "def look(x):\n    net[0].register_forward_hook(keep)\n    net(x)\n    return seen['a']\n"
GROUPS = "".join(f"g = {{{{'params': []}}}}\nfor p in {x}:\n    g['params'].append(p)\n{{}}" for x in "abc")
CASES = {
    "padding beside a slice": (
        Finding("evaluation", "warning", 1, message="what `pred == y[9:]` compares is 0, which the loss leaves out"),
        "acc = (pred == y[9:]).float().mean()",
        "acc = (pred == y[9:])[y[9:] != 0].float().mean()",
    ),
    "the labels by the cell's name": (
        Finding("data", "warning", 2, remedy="Give each sample the weight of its class: w[labels]."),
        "w = 1 / torch.bincount(y_tr)\ns = WeightedRandomSampler(w, 9)",
        "w = 1 / torch.bincount(y_tr)\ns = WeightedRandomSampler(w[y_tr], 9)",
    ),
    "each mask": (
        Finding("mask", "warning", 1, remedy="Turn it round: key_padding_mask=~mask."),
        "attn(h, h, h, key_padding_mask=mask)\nattn(h, h, h, key_padding_mask=x != 0)",
        "attn(h, h, h, key_padding_mask=~mask)\nattn(h, h, h, key_padding_mask=~(x != 0))",
    ),
    "the std of one value": (
        Finding("nan", "error", 1, remedy="Leave out the last batch, or divide by n (correction=0)."),
        "z = x.std(0) + y.std()",
        "z = x.std(0) + y.std(correction=0)",
    ),
    "acos at its ends": (
        Finding("nan", "error", 1, remedy="Keep its argument away from the point where the slope is infinite."),
        "t = torch.acos(c.clamp(-1, 1))",
        "t = torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6))",
    ),
    "a difference in float64": (
        Finding("dtype", "warning", 2, remedy="Subtract in float64 or int64, and make it float32 after that."),
        "t = torch.tensor(clicks, dtype=torch.float32)\nd = t[1:] - t[:-1]",
        "t = torch.tensor(clicks, dtype=torch.float64)\nd = (t[1:] - t[:-1]).float()",
    ),
    "one-hot rows of an attribute": (
        Finding("slow", "note", 2, message="`self.inp(hot)` multiplies by one-hot rows", remedy="nn.Embedding"),
        "hot = F.one_hot(ids, 9).float()\nv = self.inp(hot)",
        "hot = F.one_hot(ids, 9).float()\nv = F.embedding(ids, self.inp.weight.T)",
    ),
    "cat of a tuple": (
        Finding("slow", "note", 2),
        "for x in data:\n    bank = torch.cat((bank, f(x)), dim=0)",
        "bank_parts = [bank]\nfor x in data:\n    bank_parts.append(f(x))\nbank = torch.cat(bank_parts, dim=0)",
    ),
    "a hook of a function": (
        Finding("slow", "warning", 2, remedy="Register it once, or call .remove() on the handle when it is done."),
        HOOKED,
        HOOKED.replace("    net[0]", "    hook = net[0]").replace("    return", "    hook.remove()\n    return"),
    ),
    "two scores": (
        Finding("loss", "warning", 1, remedy="Give them opposite signs: loss = critic(fake) - critic(real)."),
        "loss = critic(real).mean() + critic(fake).mean()",
        "loss = critic(real).mean() - critic(fake).mean()",
    ),
    "a reconstruction that is averaged": (
        Finding("loss", "warning", 2, message="`F.mse_loss(r, x)` (line 1) is averaged over 64 values of a sample",
                remedy="Sum the reconstruction over a sample too: F.mse_loss(..., reduction='sum') / len(x)."),
        "a = F.mse_loss(r, x)\nloss = a + kl",
        "a = F.mse_loss(r, x, reduction='sum') / len(r)\nloss = a + kl",
    ),
    "a reconstruction beside a divergence of the batch": (
        Finding("loss", "warning", 1, message="Line 1 averages `F.mse_loss(r, x)` over the 64 values of a sample",
                remedy="Sum the reconstruction over samples and values too: F.mse_loss(r, x, reduction='sum')."),
        "a = F.mse_loss(r, x)\nloss = a + kl",
        "a = F.mse_loss(r, x, reduction='sum')\nloss = a + kl",
    ),
    "the chain rule": (
        Finding("gradient", "warning", 4, remedy="By the chain rule the gradient is g * gain; --check tells."),
        "def forward(ctx, x, gain):\n    ctx.gain = gain\ndef backward(ctx, g):\n    return g, None",
        "def forward(ctx, x, gain):\n    ctx.gain = gain\ndef backward(ctx, g):\n    return g * ctx.gain, None",
    ),
    "the mask of an attention": (
        Finding("mask", "warning", 1, remedy="Turn it round: attn_mask=~mask, or is_causal=True without a mask."),
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask[:T, :T])",
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=~(self.mask[:T, :T]))",
    ),
    "the square of a variance": (
        Finding("scale", "warning", 1, remedy="Take the root of the variance: (var + eps).sqrt()."),
        "std = (variance + eps) ** 2",
        "std = (variance + eps) ** 0.5",
    ),
    "a variance": (
        Finding("scale", "warning", 1, remedy="Take the root of the variance: (var + eps).sqrt()."),
        "z = (x - m) / (v + eps)",
        "z = (x - m) / ((v + eps) ** 0.5)",
    ),
    "an exponential by hand": (
        Finding("nan", "error", 1, remedy="Subtract the maximum first, or use softmax, which does."),
        "e = torch.exp(a @ b)",
        "e = torch.exp(a @ b - (a @ b).max(-1, keepdim=True).values)",
    ),
    "an exponential that is a method": (
        Finding("nan", "error", 1, remedy="Subtract the maximum first, or use softmax, which does."),
        "e = z.exp()",
        "e = (z - z.max(-1, keepdim=True).values).exp()",
    ),
    "one-hot rows times a weight": (
        Finding("slow", "note", 2, message="Line 2 looks up rows by a product: `h @ w` multiplies by one-hot rows"),
        "h = F.one_hot(ids, n).float()\nv = h @ self.w",
        "h = F.one_hot(ids, n).float()\nv = self.w[ids]",
    ),
    "a sum of means": (
        Finding("evaluation", "note", 1, remedy="Divide by the batches, len(dl), or add loss.item() * len(y)."),
        "history[e] /= len(dl.dataset)",
        "history[e] /= len(dl)",
    ),
    "a root that is a method": (
        Finding("nan", "error", 1, remedy="Add a small eps inside the root: (x + 1e-12).sqrt()."),
        "d = a.pow(2).sum(1).sqrt()",
        "d = (a.pow(2).sum(1) + 1e-12).sqrt()",
    ),
    "an expression that the remedy writes": (
        Finding("loss", "warning", 1, message="Line 1 takes the norm (`g.norm(2, dim=1)`).",
                remedy="Make a row of each sample: g.flatten(1).norm(2, dim=1)."),
        "p = ((g.norm(2, dim=1) - 1) ** 2).mean()",
        "p = ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean()",
    ),
    "a schedule that watches an accuracy": (
        Finding("learning-rate", "warning", 2, remedy="Let the scheduler lower it more slowly."),
        "s = ReduceLROnPlateau(opt, factor=0.2)\nsched.step(val_acc)",
        "s = ReduceLROnPlateau(opt, factor=0.2, mode='max')\nsched.step(val_acc)",
    ),
    "a shape that two lines need": (
        Finding("broadcast", "warning", 1, message="Line 1 makes (8, 8) of shapes (8,) and (8, 1): `ratio * adv`."),
        "a = ratio * adv\nb = held * adv",
        "adv = adv.squeeze(-1)\na = ratio * adv\nb = held * adv",
    ),
    "the columns of a gradient": (
        Finding("gradient", "warning", 1, message="Line 1 takes all (`torch.autograd.grad(g, x, torch.ones_like(g))`).",
                remedy="Differentiate each by itself: grad(g[:, 0].sum(), X, create_graph=True)."),
        "(h,) = torch.autograd.grad(g, x, torch.ones_like(g))",
        "(h,) = torch.autograd.grad(g[:, 0].sum(), x, create_graph=True)",
    ),
    "an average of few digits": (
        Finding("dtype", "warning", 2, remedy="Keep the average in float32: copy.deepcopy(model).float()."),
        "def __init__(self, m, dtype=torch.bfloat16):\n    self.s = [p.to(dtype) for p in m.parameters()]",
        "def __init__(self, m, dtype=torch.float32):\n    self.s = [p.to(dtype) for p in m.parameters()]",
    ),
    "a state that an object keeps": (
        Finding("memory", "error", 2, remedy="Cut the state between iterations: h = h.detach()."),
        "def update(self, z):\n    self.value = self.value + z.mean(0)",
        "def update(self, z):\n    self.value = self.value.detach()\n    self.value = self.value + z.mean(0)",
    ),
    "a state that begins with None": (
        Finding("error", "error", 3, remedy="Cut the state between iterations: h = h.detach()."),
        "h = None\nfor x in data:\n    y, h = net(x, h)",
        "h = None\nfor x in data:\n    if h is not None: h = h.detach()\n    y, h = net(x, h)",
    ),
    "a loader of what is in memory": (
        Finding("slow", "note", 2, message="Line 2 waits 9 ms for 8 batches of data that are in memory."),
        "for epoch in range(3):\n    for i, (a, b) in enumerate(self.loader):\n        f(a)",
        "self.loader = DataLoader(self.loader.dataset, batch_size=None, sampler=self.loader.batch_sampler)\n"
        "for epoch in range(3):\n    for i, (a, b) in enumerate(self.loader):\n        f(a)",
    ),
    "a mean that is divided in each turn": (
        Finding("evaluation", "warning", 3, remedy="Divide once, behind the loop."),
        "for k, b in enumerate(batches):\n    total += f(b)\n    total = total / (k + 1)\nprint(total)",
        "for k, b in enumerate(batches):\n    total += f(b)\ntotal = total / (k + 1)\nprint(total)",
    ),
    "what two uses share": (
        Finding("loss", "warning", 2, message="Line 2 changes a between two uses: line 1 has taken it as it was.",
                remedy="Change it before both."),
        "b = r * a\na = a - a.mean()\nc = s * a",
        "a = a - a.mean()\nb = r * a\nc = s * a",
    ),
    "changed at random in training alone": (
        Finding("mode", "warning", 2, remedy="Ask first: if self.training: m = cut(m)."),
        "def forward(self, m):\n    m = cut(m)\n    return self.net(m)",
        "def forward(self, m):\n    if self.training:\n        m = cut(m)\n    return self.net(m)",
    ),
    "the best of two begins": (
        Finding("evaluation", "warning", 2, remedy='Begin at the other end: best = float("inf").'),
        "best, kept = 0.0, None\nif loss < best: best = loss",
        "best, kept = float('inf'), None\nif loss < best: best = loss",
    ),
    "orders of both": (
        Finding("data", "warning", 1, message="Line 1 mixes (`x[torch.randperm(len(x))]`), and line 2 in another one.",
                remedy="Draw it once: order = torch.randperm(len(x)), for both."),
        "a = x[torch.randperm(len(x))]\nb = y[torch.randperm(len(y))]",
        "order = torch.randperm(len(x))\na = x[order]\nb = y[order]",
    ),
    "an argument that is one by default": (
        Finding("evaluation", "warning", 1, message="Line 1 judges (`model(x, t)`): ratio is 0.5 by default.",
                remedy="Let it go on by itself: ratio=0."),
        "out = model(x, t)",
        "out = model(x, t, ratio=0)",
    ),
    "a layer of a size that forward() tells": (
        Finding("optimizer", "error", 6, remedy="Make it once in __init__ (self.fc = nn.Linear(9, 4)) and call it."),
        "class Net(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n"
        "    def forward(self, h):\n        fc = nn.Linear(h.shape[1], self.n)\n        return fc(h)",
        "class Net(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n"
        "        self.fc = nn.LazyLinear(self.n)\n"
        "    def forward(self, h):\n        fc = self.fc\n        return fc(h)",
    ),
    "a copy within what is made": (
        Finding("alias", "error", 2, remedy="Work on a copy: x = self.data[i].copy(); or write to a new variable."),
        "x = torch.from_numpy(self.data[i])\nx.sub_(3)",
        "x = torch.from_numpy(self.data[i].copy())\nx.sub_(3)",
    ),
    "a place that is written to": (
        Finding("data", "error", 2, message="Line 2 (`kept[found]`) reads another order.",
                remedy="Number them in the whole: kept[order[found]]."),
        "order = rest(kept)\nkept[found] = True",
        "order = rest(kept)\nkept[order[found]] = True",
    ),
    "each group": (
        Finding("optimizer", "warning", 3, remedy="Put it among them once it is full: groups.append(g)."),
        GROUPS.format("", "groups.append(g)\n", ""),
        GROUPS.format(*["groups.append(g)\n"] * 3),
    ),
    "tensors by whole batches": (
        Finding("data-loader", "note", 3),
        "rows = TensorDataset(x, y)\nloader = DataLoader(rows, batch_size=64, shuffle=True)\nfor b in loader: f(b)",
        "rows = TensorDataset(x, y)\nloader = DataLoader(rows, batch_size=None, sampler=torch.utils.data.BatchSampler("
        "torch.utils.data.RandomSampler(rows), 64, False))\nfor b in loader: f(b)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_rule_makes_the_change(name: str) -> None:
    finding, text, new = CASES[name]
    assert new in [patch.text for patch in patches(text, finding)]


def test_what_needs_the_loop_stays_in_it() -> None:
    finding = Finding("slow", "note", 3, message="Line 3 computes the same again.")
    loop = "for i in a:\n    for x in b:\n        {}\n"
    assert patches(loop.format("y = f(x)"), finding) == []
    assert patches(loop.format("hits += 1").replace("    for", "    hits = 0\n    for"), finding) == []
    outer = [patch.text for patch in patches(loop.format("y = f(i)"), finding)]
    assert outer == ["for i in a:\n    y = f(i)\n    for x in b:\n        pass\n"]
