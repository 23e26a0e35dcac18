"""Remedies for losses, as rows: the words of a finding, the code that it means, and what belongs there."""

from __future__ import annotations

from ..examples import insert, rewrite

# -- signs and sides ----------------------------------------
rewrite("loss", r"[Tt]ake 1 - ", "_q", "1 - _q", "Take 1 minus it", "quoted")
rewrite("loss", r"[Pp]ut a minus before it", "_q", "-_q", "Put a minus before it", "quoted")
rewrite("loss", r"[Pp]ut a minus before it: -0\.5", "0.5", "-0.5", "Put a minus before it")
rewrite("loss", r"Leave the minus out", "-_x", "_x", "Leave the minus out", "quoted")
rewrite("loss", r"Leave the minus out", "-_x", "_x", "Leave the minus out")
rewrite("loss", r"Add it: x \+ eps", "_x - _e * _g", "_x + _e * _g", "Add it")
rewrite("loss", r"Return \w+\.sum", "-_s", "_s", "Turn the sign", "quoted")
rewrite("loss", r"Turn them round: (\w+) - (\w+) \+", r"\2 - \1", r"\1 - \2", "Turn them round")
rewrite("loss", r"Turn them round: \+ (\w+) - (\w+)", r"\2 - \1", r"\1 - \2", "Turn them round")
rewrite("loss", r"opposite signs: .*critic", "_a.mean() - _b.mean()", "_b.mean() - _a.mean()", "Turn the two round")
rewrite("loss", r"Turn the two signs", "F.relu(1 + _r).mean() + F.relu(1 - _f).mean()",
        "F.relu(1 - _r).mean() + F.relu(1 + _f).mean()", "Turn the two signs")  # fmt: skip
rewrite("loss", r"other way round: \w*\.?exp\(", "torch.exp(_a - _b)", "torch.exp(_b - _a)", "Turn it round")
rewrite("loss", r"Compare with -", "_n / _s", "-_n / _s", "Turn the sign", "all")
rewrite("loss", r"Add it: \w+ = ", "_a - _b", "_a + _b", "Add it", "quoted")
rewrite("loss", r"Add it: \w+ = ", "_a.sub(_b)", "_a.add(_b)", "Add it", "quoted")
rewrite("loss", r"Subtract it: \w+ = ", "_a + _b", "_a - _b", "Subtract it")
rewrite("loss", r"Subtract it: \w+ = ", "torch.add(_a, _b, alpha=_c)", "torch.sub(_a, _b, alpha=_c)", "Subtract it")
rewrite("loss", r"Turn the difference round", "F.logsigmoid(_a - _b)", "F.logsigmoid(_b - _a)", "Turn it round")
rewrite("loss", r"other way round: exp\(", "_a.sub(_b).exp()", "(_b - _a).exp()", "Turn it round", "quoted")
rewrite("loss", r"Take 1 minus it", "_q", "1 - _q", "Take 1 minus it", "quoted")
rewrite("loss", r"\nAdd (\w+ / [\w.()]+)\.", "1 / _n", r"\1", "Add the share that was taken away")
rewrite("loss", r"label of real samples: (\w+)\.", "_f(_a, _b)", r"_f(_a, \1)", "Give it that of real ones", "quoted")
rewrite("loss", r"Turn it round: \w+ != ", "_a == _b", "_a != _b", "Turn it round")
rewrite(
    "loss", r"(?:Go backwards|Go from the end): for ", "range(*_r)", "reversed(range(*_r))", "Go backwards", "loops"
)
rewrite(
    "data", r"(?:Go backwards|Go from the end): for ", "range(*_r)", "reversed(range(*_r))", "Go backwards", "loops"
)
rewrite("loss", r"falls for ever", "-_x", "_x", "Turn the sign", "quoted")
rewrite("loss", r"Take the smaller one", "torch.maximum(_a, _b)", "torch.min(_a, _b)", "Take the smaller one")
rewrite("loss", r"Take the smaller one", "torch.max(_a, _b)", "torch.min(_a, _b)", "Take the smaller one")
rewrite("loss", r"Take the nearest of the others", "_d.masked_fill(_s, _z).max(1).values",
        "_d.masked_fill(_s, float('inf')).min(1).values", "Take the nearest of the others")  # fmt: skip
rewrite("loss", r"Weigh both labels", "(1 - _l) * _a + _l * _b", "_l * _a + (1 - _l) * _b", "Exchange the shares")

rewrite("loss", r"Put a minus before it: loss = -critic", "_a - _b", "_b - _a", "Turn the sign")
rewrite("loss", r"Put a minus before it: loss = -critic", "_l = _v", "_l = -(_v)", "Put a minus before it")
rewrite("loss", r"Give it the action that was taken: \w+\.log_prob\((\w+)\)", "_d.log_prob(_s)",
        r"_d.log_prob(torch.as_tensor(\1))", "Give it the action that was taken", "quoted")  # fmt: skip

rewrite(
    "loss",
    r"gives boxes to (\w+)\(\).*first: (\w+)\(boxes\)",
    r"\1(_a, _b)",
    r"\1(\2(_a), \2(_b))",
    "Make corners first",
)
rewrite("evaluation", r"training part of both: \w+\[(\w+)\]", "_f(_a, _b)", r"_f(_a[\1], _b[\1])",
        "Take the training part", "quoted")  # fmt: skip

rewrite("loss", r"Turn the weights round: \w+ \* ", "(1 - _s) * _a + _s * _b", "_s * _a + (1 - _s) * _b",
        "Turn the weights round")  # fmt: skip
rewrite("loss", r"Give it -1 and 1: 2 \* y - 1", "_f(_a, _b, _y, *_r)", "_f(_a, _b, 2 * _y - 1, *_r)",
        "Bring them to -1 and 1", "quoted")  # fmt: skip
rewrite("loss", r"add at the other: [\w.]+\(0, (\w+),", "_o.index_add(0, _i, _m)", r"_o.index_add(0, \1, _m)",
        "Add at the other end")  # fmt: skip
rewrite("layout", r"; (\w+) is read nowhere\).*each sequence's own last step", "_q[:, -1]",
        r"_q[torch.arange(len(_q)), \1 - 1]", "Take each one's last step")  # fmt: skip

# -- factors, squares, logarithms ----------------------------------------
rewrite("loss", r"torch\.exp\(-\w+\)", "torch.exp(_c)", "torch.exp(-_c)", "Turn the sign in it", "quoted")
rewrite("loss", r"Divide by the square", "_a / (2 * _s)", "_a / (2 * _s ** 2)", "Divide by the square")
rewrite("loss", r"Divide by the square", "_a / _s", "_a / _s ** 2", "Divide by the square")
rewrite("loss", r"Divide by both: / \(2 \* ", "(_a - _b) / _h", "(_a - _b) / (2 * _h)", "Divide by both")
rewrite("loss", r"Write 2 \* ", "(_i + _e) / _u", "(2 * _i + _e) / _u", "Take it twice")
rewrite("loss", r"Write 2 \* ", "_i / _u", "2 * _i / _u", "Take it twice", "quoted")
rewrite("loss", r"Square first", "_d.mean() ** 2", "(_d ** 2).mean()", "Square first")
rewrite("loss", r"Square first", "_d.mean()", "(_d ** 2).mean()", "Square first", "quoted")
rewrite("loss", r"Take its root: \(2 \* ", "_s * torch.randn_like(_x)", "(2 * _s) ** 0.5 * torch.randn_like(_x)",
        "Take its root")  # fmt: skip
rewrite("loss", r"Take 20 \* log10", "10 * torch.log10(_x)", "20 * torch.log10(_x)", "Take 20 times")
rewrite("loss", r"Take 1 - \w+ \*\* 2", "torch.tanh(_a)", "_a", "Take the tanh once")
rewrite("loss", r"Divide it among the n classes", "_h * (1 - _e) + _e", "_h * (1 - _e) + _e / _h.shape[-1]",
        "Divide it among the classes")  # fmt: skip
rewrite("loss", r"Divide the logits", "F.softmax(_l, *_r) / _t", "F.softmax(_l / _t, *_r)", "Divide the logits")
rewrite("loss", r"Divide the logits", "torch.softmax(_l, *_r) / _t", "torch.softmax(_l / _t, *_r)", "Divide the logits")
rewrite("loss", r"Scale them up", "_a * _t", "_a / _t", "Divide by the temperature", "quoted")
rewrite("loss", r"Scale them up", "_q", "20 * _q", "Scale them up", "quoted")
rewrite("loss", r"add \(1 - \w+\) \* \S*log\(1 - ", "_t * torch.log(_p + _e)",
        "_t * torch.log(_p + _e) + (1 - _t) * torch.log(1 - _p + _e)", "Add the second half")  # fmt: skip
rewrite("loss", r"add \(1 - \w+\) \* \S*log\(1 - ", "_t * torch.log(_p)",
        "_t * torch.log(_p) + (1 - _t) * torch.log(1 - _p)", "Add the second half")  # fmt: skip
rewrite("loss", r"Weigh by the inverse", "_a / _b", "_b / _a", "Take the inverse", "quoted")
rewrite("loss", r"Weigh by the inverse", "_q", "1 / _q", "Take the inverse", "quoted")
rewrite("loss", r"Take the inverse: pos_weight", "_l.mean()", "(1 - _l.mean()) / _l.mean()", "Take the inverse")
rewrite("loss", r"Take the inverse: pos_weight", "_a / _b", "_b / _a", "Take the inverse", "quoted")
rewrite("loss", r"Bring them to length 1 first", "_a @ _b.t()", "F.normalize(_a, dim=-1) @ F.normalize(_b, dim=-1).t()",
        "Bring them to length 1")  # fmt: skip
rewrite("loss", r"Bring them to length 1 first", "_a @ _b.T", "F.normalize(_a, dim=-1) @ F.normalize(_b, dim=-1).T",
        "Bring them to length 1")  # fmt: skip
rewrite("loss", r"Multiply first: ", "torch.min(_r, _c) * _a", "torch.min(_r * _a, _c * _a)", "Multiply first")
rewrite("loss", r"Multiply with \(1 - (\w+)\)", r"_x * \1", r"_x * (1 - \1)", "Turn it round")
rewrite("loss", r"Multiply with \(1 - (\w+)\)", r"_x * \1", r"_x * (1 - \1.float())", "Turn it round")
rewrite("loss", r"wrap the difference", "F.mse_loss(_a, _b)",
        "(torch.atan2(torch.sin(_a - _b), torch.cos(_a - _b)) ** 2).mean()", "Wrap the difference")  # fmt: skip

# -- sums: over what ----------------------------------------
rewrite("loss", r"Sum over the features alone", ("torch.sum(_x)", "F.logsigmoid(_s)"),
        ("(_x).sum(-1)", "F.logsigmoid(_s).mean()"), "Sum over the features alone")  # fmt: skip
for _kind in ("loss", "layout"):
    rewrite(_kind, r"Sum over the features alone", "torch.sum(_x)", "(_x).sum(-1)", "Sum over the features alone")
rewrite("loss", r"Sum the logarithms", "torch.exp(_a - _b)", "torch.exp((_a - _b).sum(-1))", "Sum the logarithms")
rewrite("loss", r"how often each node is in (\w+).*bincount\((\w+)", r"_z.index_add(0, \1, *_r)",
        r"_z.index_add(0, \2, *_r)", "Count the same end", "all")  # fmt: skip
rewrite("loss", r"Count them too: ", "_a.sum(_d)", "(_a + torch.eye(len(_a))).sum(_d)", "Count them too")

# -- what a loss is given ----------------------------------------
rewrite(
    "loss", r"label of real samples: 1", "_f(_a, _z)", "_f(_a, torch.ones_like(_z))", "Give it the label 1", "quoted"
)
rewrite("loss", r"Leave it as the layer gives it", "F.relu(_x)", "_x", "Leave it as it is", "quoted")
rewrite("loss", r"Leave it as the layer gives it", "_f(_x)", "_x", "Leave it as it is", "quoted")
rewrite("loss", r"2 \* (\w+) - 1", r"\1", r"(2 * \1 - 1)", "Bring them to -1 and 1")
rewrite("loss", r"2 \* \w+ - 1", "_f(_a, _b, _y)", "_f(_a, _b, 2 * _y - 1)", "Bring them to -1 and 1", "quoted")
rewrite("loss", r"Compute the target under torch\.no_grad|target\.detach\(\)", "_q", "(_q).detach()", "Detach it",
        "quoted")  # fmt: skip
rewrite("loss", r"Take the value: .*max\(1\)", "_x.argmax(*_r)", "_x.max(1).values", "Take the value")
rewrite("loss", r"use binary_cross_entropy_with_logits", "F.cross_entropy(_a, _b)",
        "F.binary_cross_entropy_with_logits(_a, _b.float())", "Use the loss for several labels", "quoted")  # fmt: skip
rewrite("loss", r"use binary_cross_entropy_with_logits", "nn.CrossEntropyLoss()", "nn.BCEWithLogitsLoss()",
        "Use the loss for several labels", "all")  # fmt: skip
rewrite("loss", r"\.gather\(1, (\w+)\[:, None\]\)", "_q.max(1)[0]", r"_q.gather(1, \1[:, None]).squeeze(1)",
        "Take that of the action")  # fmt: skip
rewrite("loss", r"\.gather\(1, (\w+)\[:, None\]\)", "_q.max(1).values", r"_q.gather(1, \1[:, None]).squeeze(1)",
        "Take that of the action")  # fmt: skip
rewrite("loss", r"softmax over one class", ("nn.Softmax(*_r)", "F.binary_cross_entropy(_p, _y)"),
        ("nn.Sigmoid()", "F.binary_cross_entropy(_p, _y)"), "A sigmoid of the one output", "all")  # fmt: skip
rewrite("loss", r"softmax over one class", ("torch.softmax(_x, *_r)", "F.binary_cross_entropy(_p, _y)"),
        ("torch.sigmoid(_x)", "F.binary_cross_entropy(_p, _y)"), "A sigmoid of the one output", "all")  # fmt: skip
rewrite("loss", r"softmax over one class", ("F.softmax(_x, *_r)", "F.binary_cross_entropy(_p, _y)"),
        ("torch.sigmoid(_x)", "F.binary_cross_entropy(_p, _y)"), "A sigmoid of the one output", "all")  # fmt: skip
rewrite("loss", r"without the exp", "torch.exp(_x)", "_x", "Leave the exp out", "quoted")
rewrite("loss", r"Give them minus infinity", "_l[_m] = 0", "_l[_m] = float('-inf')", "Give them minus infinity")
rewrite("loss", r"Do one of the two", "nn.CrossEntropyLoss(weight=_w)", "nn.CrossEntropyLoss()", "Weigh once")
insert("loss", r"overlap of logits with a mask \(`(\w+) \* ", r"\1 = torch.sigmoid(\1)", "Take the sigmoid first",
       "before")  # fmt: skip
insert(
    "loss", r"Take it out before the softmax: (\w+\.fill_diagonal_\(.+\))\.$", r"\1", "Take the diagonal out", "after"
)
insert("loss", r"Take it out of the sum: (\w+) \* \(1 - torch\.eye", r"\1 = \1 * (1 - torch.eye(len(\1)))",
       "Take the diagonal out", "after")  # fmt: skip
rewrite("layout", r"Mask the scores, and take the softmax", ("_w.masked_fill(_m, _v)", "_w = torch.softmax(_s, *_r)"),
        ("_w.masked_fill(_m, _v).softmax(-1)", "_w = _s"), "Mask the scores")  # fmt: skip
