"""Which ops take the place of a loop, by its text; and loops of which nobody knows it."""

from __future__ import annotations

import ast

import pytest

from lab.diagnose.speed.loop_recipes import _modelled, recipe_of
from lab.diagnose.speed.time_shares import Loop

KNOWN = {
    "for t, p in zip(truth.flatten(), seen.flatten()):\n    table[t, p] += 1": "truth.flatten() * n + seen.flatten()",
    "for i in range(n):\n    for j in range(m):\n        table[int(a[i][j]), b[i, j].item()] += 1": "bincount(a * n + b",  # noqa: E501
    "for i in range(n):\n    t, p = a[i], b[i]\n    table[t][p] += 1": "bincount(t * n + p",
    "for s, d in roads.tolist():\n    load[d] += f(h[s], h[d])": "load.index_add_(0, roads[:, 1], values)",
    "for s, d in roads.t().tolist():\n    load[d] += w[s]": "w[roads[0]] in place of `w[s]`",
    "for v in range(n):\n    out.append(h[near[v]].mean(0))": "h[index]) sums for all at once, and / lengths[:, None]",
    "out = torch.stack([h[each].sum(dim=0) for each in near])": "index_add(0, owner, h[index]) sums for all at once.",
    "for v in range(n):\n    out[v] = h[src[dst == v]].mean(0)": "index_add(0, dst, h[src])",
    "for v in range(n):\n    near = src[dst == v]\n    out[v] = h[near].sum(0)": "index_add(0, dst, h[src])",
    "for i in range(n):\n    for j in range(k):\n        m[i, j] = ((true == i) & (seen == j)).sum()": "true.flatten() * k",  # noqa: E501
    "for i in range(n):\n    own = sims[i][kind == kind[i]].mean()": "kind[:, None] == kind[None]",
    "for i in range(n):\n    for j in range(i + 1, n):\n        s.append(v[b, i] @ v[b, j])": "v[:, i] and v[:, j]",
    "for e in range(m):\n    box = box.index_add(0, dst[e:e + 1], f(h[src[e]], h[dst[e]])[None])": "h[src] in place of `h[src[e]]`",  # noqa: E501
    "for t in tags:\n    a.append(f(move[t], said[t]))": "move[tags] in place of `move[t]`",
    "for b in range(n):\n    left = 0\n    for t in range(m):\n        left = r[b, t] + g * left": "`for b in range(n)` do not",  # noqa: E501
    "for w in words:\n    count[w] += 1": "collections.Counter(words)",
    "for i in range(n):\n    y[i][kind[i]] = 1": "y[torch.arange(len(kind)), kind] = 1",
    "for i in range(n):\n    ids[i, ends[i]:] = PAD": "ids[torch.arange(ids.shape[1]) >= ends[:, None]] = PAD",
    "for i in range(n):\n    rows.append(h[i, :ends[i]].mean(0))": "(h * mask[..., None]).sum(1) / ends[:, None]",
    "for i in range(n):\n    rows.append(h[i, :ends[i]].sum(0))": "(h * mask[..., None]).sum(1).",
    "for i in range(len(a)):\n    for j in range(len(b)):\n        d[i, j] = (a[i] - b[j]).pow(2).sum().sqrt()": "cdist(a, b)",  # noqa: E501
    "for i in range(n):\n    for j in range(m):\n        d[i, j] = ((a[i] - b[j]) ** 2).sum()": "torch.cdist(a, b) ** 2",  # noqa: E501
    "for p in wells:\n    for q in towns:\n        d.append(torch.dist(p - q))": "torch.cdist(wells, towns)",
    "for i, p in enumerate(made):\n    for j, q in enumerate(true):\n        m[i, j] = share(p, q)": "made[:, None] in place of `p`",  # noqa: E501
    "for i in range(n):\n    p = made[i]\n    for j in range(m):\n        m[i, j] = max(p[0], true[j, 0])": "torch.maximum",  # noqa: E501
    "for s in range(n):\n    for u in range(k):\n        for c in range(n):\n            m[s, u, c] = f(e[s, u], z[c])": "e[:, :, None]",  # noqa: E501
    "for shop in sold:\n    left = 0\n    for day in shop:\n        left = w * left + day\n        out.append(left)": "`for shop in sold` do not",  # noqa: E501
    "for t in range(0, n - 9):\n    out.append(f(x[t:t + 9]))": "x.unfold(0, 9, 1)",
    "for q in asked:\n    near = ((known - q) ** 2).sum(1).topk(3)": "torch.cdist(asked, known)",
}
UNKNOWN = (
    "for k in range(n):\n    h = f(h, x[k])",
    "for t in range(0, n, 9):\n    out.append(f(x[t:t + 9]))",
    "for epoch in range(9):\n    for t in range(n):\n        h = f(h, x[t])",
    "for i in range(n):\n    for j in range(m):\n        r[i][j] = c[i, j] + min(r[i - 1][j], r[i][j - 1])",
    "for q in asked:\n    out.append(known - q)",
)
MODELS = {
    "for i in range(n):\n    out.append(net(x[i:i + 1]))": "net(x)",
    "for i in range(n):\n    out.append(net(x[i].unsqueeze(0)))": "net(x)",
    "for a, b, c in drawn:\n    q = net(a[None])[0, b]": "net(torch.stack([a for a, b, c in drawn]))",
    "for i in range(n):\n    for j in range(m):\n        at = torch.stack([ys[i], xs[j]])\n        out[i, j] = net(at)": "cartesian",  # noqa: E501
    "for b in range(n):\n    for j in range(m):\n        row.append(self.net(seen[b, j]))": "self.net(seen)",
    "for t in range(n - 9):\n    seen = x[t:t + 9].unsqueeze(0)\n    out.append(net(seen))": "net(x.unfold(0, 9, 1))",
    "for a, b in drawn:\n    gap = net(a) - slow(b)": "net(torch.stack([a for a, b in drawn])) and slow(torch.stack([b for a, b in drawn]))",  # noqa: E501
    "for row in rows:\n    out.append(self.net(row))": "self.net(rows)",
}


def levels(text: str) -> list[Loop]:
    """The loops of a text, the innermost first."""
    return [n for n in ast.walk(ast.parse(text)) if isinstance(n, Loop)][::-1]


@pytest.mark.parametrize("text", KNOWN)
def test_what_takes_the_place_of_a_loop(text: str) -> None:
    assert KNOWN[text] in recipe_of(levels(text))


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_loop_of_which_nobody_knows_it(text: str) -> None:
    assert not recipe_of(levels(text))


@pytest.mark.parametrize("text", MODELS)
def test_a_model_that_is_called_for_each_row(text: str) -> None:
    assert MODELS[text] in _modelled(levels(text))
    assert text.count("for ") > 1 or not _modelled(levels(f"{text}\n    loss.backward()"))
    assert not recipe_of([])
    assert not _modelled(levels("for x, y in test_loader:\n    right += net(x).argmax(1) == y"))
