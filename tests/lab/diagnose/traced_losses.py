"""Programs for test_traced_rules.py with losses, masks and graphs that are not what was meant."""

from __future__ import annotations

from collections.abc import Callable

from lab.diagnose.evaluation import judged_wrongly
from lab.diagnose.losses import crossed_shapes, loss_terms, losses
from lab.diagnose.models import attention_masks
from lab.diagnose.training import start_values

from .traced_case import Case

# -- terms that do not go together -------------------------------------------------------------------------------------

CRITIC = "critic, made = nn.Linear(16, 1), nn.Linear(16, 16)\nfake = made(x){cut}\nloss = {loss}\nloss.backward()"


def critic(loss: str, found: bool = True, cut: str = ".detach()") -> Case:
    return Case(loss_terms.same_sign, CRITIC.format(loss=loss, cut=cut), found)


VAE = (
    "enc, dec = nn.Linear({n}, 4), nn.Linear(2, {n})\nt = torch.randn(64, {n})\nz = enc(t) * {size}\n"
    "m, v = z[:, :2], z[:, 2:]\nr = dec(m)\nloss = {mean} + {kl}\nloss.backward()"
)
KL = "(-0.5 * (1 + v - m.pow(2) - v.exp()).sum(1)).mean()"


def vae(mean: str = "F.mse_loss(r, t)", kl: str = KL, found: bool = True, n: int = 16, size: float = 0.01) -> Case:
    return Case(loss_terms.summed_beside_averaged, VAE.format(mean=mean, kl=kl, n=n, size=size), found)


ACTOR = (
    "net, value = nn.Linear(16, 4), nn.Linear(16, {k})\nreturns = torch.randn(64)\nv = value(x)[:, 0]\n"
    "logp = F.log_softmax(net(x), 1).gather(1, labels[:, None])[:, 0]\nloss = {loss}\nloss.backward()"
)


def actor(loss: str, found: bool = True, k: int = 1) -> Case:
    return Case(loss_terms.advantage_on_graph, ACTOR.format(loss=loss, k=k), found)


TERMS = {
    "both scores are lowered": critic("critic(x).mean() + critic(fake).mean()"),
    "both scores are raised": critic("-critic(x).mean() - critic(fake).mean()"),
    "both scores are raised, by a factor": critic("critic(x).mean() * -1.0 + critic(fake).mean() / -2.0"),
    "both scores, turned twice": critic("-(critic(x).mean() * -1.0) + critic(fake).mean()"),
    "both scores, and no cut": critic("critic(x).mean() + critic(fake).mean()", False, cut=""),
    "both scores, under no_grad": critic("critic(x).mean() + critic(fake).mean()", True, cut=".data"),
    "both scores, behind ten factors": critic("critic(x).mean()" + " * 1.0" * 10 + " + critic(fake).mean()"),
    "both scores, behind eleven factors": critic("critic(x).mean()" + " * 1.0" * 11 + " + critic(fake).mean()", False),
    "both scores, and one of no network": Case(
        loss_terms.same_sign,
        "critic, w = nn.Linear(16, 1), P(16, 16)\nloss = critic(x).mean() + critic((x @ w).detach()).mean()\n"
        "loss.backward()",
    ),
    "both scores, and one of values of no network": Case(
        loss_terms.same_sign,
        "critic, w = nn.Linear(16, 1), P(16, 16)\nloss = critic(x).mean() + critic((x @ w).data).mean()\n"
        "loss.backward()",
    ),
    "scores of two signs": critic("critic(fake).mean() - critic(x).mean()", False),
    "scores of two signs, turned": critic("-critic(x).mean() + critic(fake).mean()", False),
    "scores of two signs, by a factor": critic("-1.0 * critic(x).mean() + critic(fake).mean()", False),
    "scores of data alone": critic("critic(x).mean() + critic(x * 2.0).mean()", False),
    "scores that bend": critic("critic(x).exp().mean() + critic(fake).exp().mean()", False),
    "scores of two critics": Case(
        loss_terms.same_sign,
        "a, b, made = nn.Linear(16, 1), nn.Linear(16, 1), nn.Linear(16, 16)\n"
        "loss = a(x).mean() + b(made(x).detach()).mean()\nloss.backward()", False,
    ),
    "a divergence that has won": vae(),
    "a divergence that has won, by hand": vae("(r - t).pow(2).mean()"),
    "a divergence that has won, by sizes": vae("(r - t).abs().mean()"),
    "a divergence of half its sum": vae(kl="-0.5 * (1 + v - m * m - v.exp()).sum() / 64", found=False),
    "a divergence by half of each": vae(kl="(0.5 * (m.square() + v.exp() - 1 - v)).sum(1).mean()"),
    "a divergence by a division": vae(kl="((m.pow(2) + v.exp() - 1 - v).sum(1) / 2).mean()"),
    "a divergence with a factor": vae(kl="0.1 * " + KL, found=False),
    "a divergence without its half": vae(kl="(m.pow(2) + v.exp() - 1 - v).sum(1).mean()", found=False),
    "a divergence of samples of 15": vae(n=15, found=False),
    "a divergence of a sum": vae("F.mse_loss(r, t, reduction='sum') / 64", found=False),
    "a divergence of a plain sum": vae("F.mse_loss(r, t, reduction='sum')", found=False),
    "a divergence beside a large average": vae("(r - 20 * t).pow(2).mean()"),
    "a divergence that has not won": vae(size=3.0, found=False),
    "no divergence": vae(kl="(m.abs() + v).sum(1).mean() * 0.5", found=False),
    "two averages beside a divergence": vae("F.mse_loss(r, t) + F.l1_loss(r, t)", found=False),
    "an advantage on the graph": actor("-(logp * (returns - v)).mean()"),
    "an advantage on the graph, first": actor("-((returns - v) * logp).mean()"),
    "an advantage that is cut": actor("-(logp * (returns - v).detach()).mean()", False),
    "an advantage of a wide layer": actor("-(logp * (returns - v)).mean()", False, k=2),
    "an advantage that is no difference": actor("-(logp * (returns * v)).mean()", False),
    "an advantage of two critics": actor("-(logp * (v * 2.0 - v)).mean()", False),
    "no logarithm with an advantage": actor("-(logp.exp() * (returns - v)).mean()", False),
}  # fmt: skip

# -- losses ------------------------------------------------------------------------------------------------------------


def loss(code: str, found: bool = True, rule: Callable[..., list] = losses.doubled, n: int = 4) -> Case:  # type: ignore[type-arg]
    text = f"net, t, w = nn.Linear(16, {n}), torch.randn(64), torch.ones(64, 1)\nz = net(x)\n{code}.backward()"
    return Case(rule, text, found)


LOSSES = {
    "a softmax too many": loss("F.cross_entropy(torch.softmax(z, 1), labels)"),
    "a sigmoid too many": loss("F.cross_entropy(torch.sigmoid(z), labels)"),
    "a softmax too many, on another line": loss("s = z.softmax(1)\nF.cross_entropy(s, labels)"),
    "a softmax before a loss of logits": loss(
        "F.binary_cross_entropy_with_logits(torch.softmax(z, 1), x[:, :4].sigmoid())"
    ),
    "nll_loss of probabilities": loss("F.nll_loss(torch.softmax(z, 1), labels)"),
    "nll_loss of sigmoids": loss("F.nll_loss(torch.sigmoid(z), labels)"),
    "nll_loss of scores": loss("F.nll_loss(z, labels)"),
    "nll_loss of small scores": loss("F.nll_loss(-z.abs(), labels)", False),
    "nll_loss over the samples": loss("F.nll_loss(torch.log_softmax(z, 0), labels)"),
    "nll_loss over the samples, by a log": loss("F.nll_loss((torch.softmax(z, 0) + 1e-9).log(), labels)"),
    "nll_loss over the samples, on two lines": loss("s = z.log_softmax(0)\nF.nll_loss(s, labels)"),
    "nll_loss as it should be": loss("F.nll_loss(torch.log_softmax(z, 1), labels)", False),
    "kl_div of probabilities": loss("F.kl_div(torch.softmax(z, 1), x[:, :4].softmax(1), reduction='sum')"),
    "kl_div of a target in logarithms": loss(
        "F.kl_div(torch.log_softmax(z, 1), x[:, :4].log_softmax(1), reduction='sum')"
    ),
    "a relu before cross_entropy": loss("F.cross_entropy(torch.relu(z), labels)"),
    "the arguments of cross_entropy": loss("F.cross_entropy(x[:, :4], z.softmax(1))"),
    "the arguments of binary_cross_entropy": loss("F.binary_cross_entropy(x[:, :4].sigmoid(), z.sigmoid())"),
    "a softmax over one class": loss("torch.softmax(z, 1).sum()", n=1),
    "a log_softmax over one class": loss("torch.log_softmax(z, 1).sum()", n=1),
    "cross_entropy of one class": loss("F.cross_entropy(z, labels * 0)", n=1),
    "a softmax over a dimension of one": loss("torch.softmax(z[:, None], 1).sum()"),
    "a log_softmax over a dimension of one": loss("torch.log_softmax(z[:, :, None], 2).sum()"),
    "a softmax over the samples": loss("-torch.softmax(z, 0)[torch.arange(64), labels].log().mean()"),
    "a softmax over the samples, by gather": loss(
        "s = z.softmax(0)\n-(s.clamp(1e-9).log() * 2.0).gather(1, labels[:, None]).mean()"
    ),
    "a softmax over the samples, times others": loss("(torch.softmax(z, 0) * x[:, :4]).sum()", False),
    "an attention over the queries": loss("(torch.softmax(z @ z.T, 0) @ z).sum()"),
    "(N, 1) against (N,)": loss("((z - t) ** 2).mean()", rule=losses.broadcast, n=1),
    "(N,) against (N, 1)": loss("(t - z).abs().mean()", rule=losses.broadcast, n=1),
    "(N, 1) against (N,), by parts": loss("((net(x) * 1.0 - t) ** 2).mean()", rule=losses.broadcast, n=1),
    "(N,) against (N,)": loss("((z[:, 0] - t) ** 2).mean()", False, losses.broadcast, n=1),
    "losses of samples by weights": loss(
        "(F.cross_entropy(z, labels, reduction='none') * w).mean()", rule=losses.broadcast
    ),
    "losses of samples by plain weights": loss(
        "(F.cross_entropy(z, labels, reduction='none') * w[:, 0]).mean()", False, losses.broadcast
    ),
    "a likelihood by hand": loss("(z.exp().log() * t).mean()", rule=losses.broadcast, n=1),
    "a product of scores": loss("(z * t).mean()", False, losses.broadcast, n=1),
    "two softmaxes too many": loss(
        "(F.cross_entropy(torch.softmax(z, 1), labels) + F.cross_entropy(torch.sigmoid(net(x)), labels))"
    ),
    "two losses of (N, 1) against (N,)": loss(
        "(((z - t) ** 2).mean() + (net(x) - t).abs().mean())", rule=losses.broadcast, n=1
    ),
    "(N, N) beside a loss": Case(
        crossed_shapes.crossed,
        "net = nn.Linear(16, 1)\nz = net(x)\nacc = ((z > 0) == (x[:, 0] > 0)).float().mean()\n"
        "z.square().mean().backward()",
    ),
    "(N, N) on the way to a loss": Case(
        crossed_shapes.crossed,
        "net, w = nn.Linear(16, 1), torch.randn(64)\nd = torch.tanh(w) * net(x)\nd.square().mean().backward()",
    ),
    "(N, N) that is meant": Case(
        crossed_shapes.crossed,
        "net, w = nn.Linear(16, 1), torch.randn(64)\nd = w * net(x)\nd.mean(0).square().mean().backward()", False,
    ),
    "(N, N) of a column that somebody makes": Case(
        crossed_shapes.crossed,
        "net, w = nn.Linear(16, 4), torch.randn(64)\nd = w * net(x)[:, 0].unsqueeze(1)\nd.square().mean().backward()",
        False,
    ),
    "(N, N) of one origin": Case(
        crossed_shapes.crossed,
        "net = nn.Linear(16, 1)\nz = net(x)\n(z - z.detach()[:, 0]).abs().mean().backward()", False
    ),
    "(2, 2)": Case(
        crossed_shapes.crossed, "net, w = nn.Linear(16, 1), torch.randn(2)\n"
        "(net(x[:2]) * w).square().mean().backward()",
        False,
    ),
    "targets above a sigmoid": Case(
        start_values.out_of_reach, "net, t = nn.Linear(16, 1), torch.rand(64, 1) * 3\n"
        "F.mse_loss(torch.sigmoid(net(x)), t).backward()",
    ),
    "targets below a relu": Case(
        start_values.out_of_reach, "net, t = nn.Linear(16, 1), torch.randn(64, 1)\np = net(x).relu()\n"
        "F.l1_loss(p, t).backward()",
    ),
    "targets beyond a tanh": Case(
        start_values.out_of_reach, "net, t = nn.Sequential(nn.Linear(16, 1), nn.Tanh()), torch.randn(64, 1) * 9\n"
        "F.mse_loss(t, net(x)).backward()",
    ),
    "targets of a sigmoid": Case(
        start_values.out_of_reach, "net, t = nn.Linear(16, 1), torch.rand(64, 1)\n"
        "F.mse_loss(torch.sigmoid(net(x)), t).backward()", False,
    ),
    "logits against targets to 2": Case(
        start_values.targets_outside, "net, t = nn.Linear(16, 1), 2.0 * (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()",
    ),
    "logits against targets to 9": Case(
        start_values.targets_outside, "net, t = nn.Linear(16, 1), 9.0 * (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()",
    ),
    "logits against targets of two signs": Case(
        start_values.targets_outside, "net, t = nn.Linear(16, 1), 2.0 * (x[:, :1] > 0).float() - 1.0\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()",
    ),
    "logits against targets": Case(
        start_values.targets_outside, "net, t = nn.Linear(16, 1), (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()", False,
    ),
    "a dropout of 0.9": Case(
        start_values.dropped_out, "net = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.95))\nnet(x).sum().backward()"
    ),
    "a dropout of all": Case(
        start_values.dropped_out, "a = nn.Linear(16, 64)\nF.dropout(a(x), 1.0).sum().backward()"
    ),
    "a dropout of a half": Case(
        start_values.dropped_out, "net = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5))\n"
        "net(x).sum().backward()", False
    ),
    "a dropout of zeros": Case(
        start_values.dropped_out,
        "a = nn.Linear(16, 64)\nh = a(x).relu() * (torch.rand(64, 64) > 0.9).float()\n"
        "F.dropout(h, 0.5).sum().backward()",
        False,
    ),
    "logits against a half": Case(
        judged_wrongly.logits_for_probabilities,
        "net, t = nn.Linear(16, 1), (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()\n"
        "hit = ((net(x) > 0.5) == t).float().mean()",
    ),
    "logits that are rounded": Case(
        judged_wrongly.logits_for_probabilities,
        "net, t = nn.Linear(16, 1), (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()\n"
        "hit = (torch.round(net(x)) == t).float().mean()",
    ),
    "logits against 0": Case(
        judged_wrongly.logits_for_probabilities,
        "net, t = nn.Linear(16, 1), (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()\n"
        "hit = ((net(x) > 0.0) == t).float().mean()", False,
    ),
    "probabilities against a half": Case(
        judged_wrongly.logits_for_probabilities,
        "net, t = nn.Linear(16, 1), (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()\n"
        "hit = ((torch.sigmoid(net(x)) > 0.5) == t).float().mean()", False,
    ),
    "another layer against a half": Case(
        judged_wrongly.logits_for_probabilities,
        "net, b, t = nn.Linear(16, 1), nn.Linear(16, 1), (x[:, :1] > 0).float()\n"
        "F.binary_cross_entropy_with_logits(net(x), t).backward()\nhit = ((b(x) > 0.5) == t).float().mean()", False,
    ),
}  # fmt: skip

# -- masks -------------------------------------------------------------------------------------------------------------

SCORES = (
    "q, h = nn.Linear(16, 16), torch.randn(2, 5, 16)\ns = q(h) @ h.transpose(1, 2)\n"
    "keep = (torch.arange(5)[None] < torch.tensor([[3], [4]])).float()\n"
)
LAYER = (
    "layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)\nh = torch.randn(4, 5, 16)\n"
    "ids = torch.tensor([[3, 4, 5, 0, 0]] * 4)\n{more}\nout = layer(h, {given})"
)
PLAIN = (
    "q = torch.randn(2, 1, 5, 8, requires_grad=True)\n{more}\nout = F.scaled_dot_product_attention(q, q, q, {given})"
)


def applied(code: str, found: bool = True) -> Case:
    return Case(attention_masks.not_applied, SCORES + code, found)


def layer(given: str, found: bool = True, more: str = "m = 0") -> Case:
    rule = attention_masks.past_hidden if "_mask" not in given or "src_mask" in given else attention_masks.inverted
    return Case(rule, LAYER.format(given=given, more=more), found)


def plain(given: str, found: bool = True, more: str = "m = 0") -> Case:
    return Case(attention_masks.past_hidden, PLAIN.format(given=given, more=more), found)


UPPER, LOWER = "torch.ones(5, 5).triu(1)", "torch.ones(5, 5).tril()"
MASKS = {
    "a mask that is added": applied("w = torch.softmax(s + keep[:, None], -1)"),
    "a mask that is multiplied": applied("w = torch.softmax(s * keep[:, None], -1)"),
    "a mask that is added in place": applied("w = torch.softmax((s * 0.5).add_(keep[:, None]), -1)"),
    "a triangle that is added": applied(f"w = torch.softmax(s + {LOWER}, -1)"),
    "a mask that is scaled first": applied("w = torch.softmax((s + keep[:, None]) / 4.0, -1)"),
    "a mask of -inf that is added": applied("w = torch.softmax(s + (1.0 - keep[:, None]) * -1e9, -1)", False),
    "a mask that is learnt": applied("m = P(5, 5)\nw = torch.softmax(s + m, -1)", False),
    "a mask of 0 and 2": applied("w = torch.softmax(s + keep[:, None] * 2, -1)", False),
    "numbers from 0 to 1 that are added": applied("r = torch.linspace(0, 1, 5)\nw = torch.softmax(s + r, -1)", False),
    "a mask in a table of two dimensions": applied("w = torch.softmax(s[0] + keep[:1], -1)", False),
    "tokens are hidden": layer("src_key_padding_mask=ids != 0"),
    "tokens are hidden, above 0": layer("src_key_padding_mask=(ids > 0)"),
    "tokens are hidden, with spaces": layer("src_key_padding_mask = ids != 0"),
    "tokens are hidden, by their number": layer(
        "src_key_padding_mask=m", True, "m = torch.arange(5)[None] < torch.tensor([[3]] * 4)"
    ),
    "padding is hidden": layer("src_key_padding_mask=ids == 0", False),
    "padding is hidden, turned": layer("src_key_padding_mask=~(ids != 0)", False),
    "the past is hidden": layer(f"src_mask={LOWER}.bool()"),
    "the past is hidden, by a name": layer("src_mask=m", True, f"m = {LOWER} == 1"),
    "the past is hidden, by 1 and 0": layer("src_mask=m", True, f"m = {LOWER}"),
    "the past is hidden, turned": layer("src_mask=m", False, f"m = {LOWER} == 0"),
    "the past is hidden, of a name twice": layer("src_mask=m", False, f"m = {LOWER}\nm = m.bool()"),
    "the future is hidden": layer(f"src_mask={UPPER}.bool()", False),
    "the future is kept": plain(f"attn_mask={UPPER}.bool()"),
    "the future is kept, by a name": plain("attn_mask=m", True, f"m = {UPPER}.to(torch.bool)"),
    "the future is kept, turned": plain(f"attn_mask=~{UPPER}.bool()", False),
    "the future is kept, of numbers": plain(f"attn_mask={UPPER}", False),
    "the future is left out": plain(f"attn_mask={LOWER}.bool()", False),
}

_TOKENS = (
    "torch.manual_seed(0)\nids = torch.randint(0, 9, (16, 7))\nemb, head = nn.Embedding(9, 16), nn.Linear(16, 9)\n"
    "h = emb(ids[:, :-1])\n{attend}\nloss = F.cross_entropy(head(o).reshape(-1, 9), ids[:, {after}].reshape(-1))\n"
    "loss.backward()"
)
_HAND = "s = h @ h.transpose(1, 2) / 4.0{mask}\no = torch.softmax(s, -1) @ h"
_WHOLE = "o = F.scaled_dot_product_attention(h, h, h{mask})"
_CAUSAL = " + torch.full((6, 6), float('-inf')).triu(1)"


def tokens(attend: str, mask: str, after: str = "1:", found: bool = True) -> Case:
    return Case(attention_masks.no_causal_mask, _TOKENS.format(attend=attend.format(mask=mask), after=after), found)


MASKS |= {
    "the next token by hand": tokens(_HAND, ""),
    "the next token by hand, masked": tokens(_HAND, _CAUSAL, found=False),
    "the same token by hand, masked": tokens(_HAND, _CAUSAL, ":-1"),
    "the same token by hand": tokens(_HAND, "", ":-1", False),
    "the next token": tokens(_WHOLE, ""),
    "the next token, masked": tokens(_WHOLE, ", is_causal=True", found=False),
    "the same token, masked": tokens(_WHOLE, ", is_causal=True", ":-1"),
    "the next token of another text": Case(
        attention_masks.no_causal_mask,
        _TOKENS.format(
            attend="g = torch.randn(16, 6, 16)\no = h + F.scaled_dot_product_attention(g, g, g)", after="1:"
        ),
        False,
    ),
}

PROGRAMS = TERMS | LOSSES | MASKS
