"""Remedies for what takes time, as rows: an op in place of several, or the part that is needed alone."""

from __future__ import annotations

from ..examples import rewrite

SLOW = ("slow", "cost", "overhead")

rewrite(SLOW, r"torch\.diagonal|diagonal of", "torch.diagonal(_a @ _b.T)", "(_a * _b).sum(-1)", "Multiply the rows")
rewrite(SLOW, r"torch\.diagonal|diagonal of", "torch.diag(_a @ _b.T)", "(_a * _b).sum(-1)", "Multiply the rows")
rewrite(SLOW, r"torch\.diagonal|diagonal of", "(_a @ _b.t()).diag()", "(_a * _b).sum(-1)", "Multiply the rows")
rewrite(SLOW, r"torch\.diagonal|diagonal of", "(_a @ _b).diag()", "(_a * _b.T).sum(-1)", "Multiply the rows")
rewrite(SLOW, r"torch\.diagonal|diagonal of", "(_a @ _b.T).trace()", "(_a * _b).sum()", "Multiply the rows")
rewrite(SLOW, r"Take the part first", "(_x.float() / _c)[_s]", "(_x[_s].float() / _c)", "Take the part first")
rewrite(SLOW, r"Take the part first", "_x.float()[_s]", "_x[_s].float()", "Take the part first")
rewrite(SLOW, r"Take the part first", "(_x / _c)[_s]", "(_x[_s] / _c)", "Take the part first")
rewrite(SLOW, r"Take the part first", "_x.to(_d)[_s]", "_x[_s].to(_d)", "Take the part first")
rewrite(SLOW, r"Take the part first", "_f(_x)[_s]", "_f(_x[_s])", "Take the part first")
rewrite(SLOW, r"Take the part first", "(_x @ _w)[_s]", "_x[_s] @ _w", "Take the part first")
rewrite(SLOW, r"[Uu]se F\.gelu", "0.5 * _x * (1 + torch.tanh(_c * (_x + 0.044715 * _x ** 3)))",
        "F.gelu(_x, approximate='tanh')", "Use F.gelu")  # fmt: skip
rewrite(SLOW, r"[Uu]se F\.gelu", "0.5 * _x * (1 + torch.tanh(_c * (_x + 0.044715 * torch.pow(_x, 3))))",
        "F.gelu(_x, approximate='tanh')", "Use F.gelu")  # fmt: skip
rewrite(SLOW, r"[Uu]se F\.gelu", "0.5 * _x * (1 + torch.erf(_x / _c))", "F.gelu(_x)", "Use F.gelu")
rewrite(SLOW, r"[Uu]se F\.silu", "_x * torch.sigmoid(_x)", "F.silu(_x)", "Use F.silu")
rewrite(SLOW, r"Scale rows and columns", "_d @ _a", "torch.diagonal(_d)[:, None] * _a", "Scale the rows")
rewrite(SLOW, r"Scale rows and columns", "_a @ _d", "_a * torch.diagonal(_d)", "Scale the columns")
rewrite(SLOW, r"svdvals", "_u, _s, _v = torch.linalg.svd(_a)", "_s = torch.linalg.svdvals(_a)", "Take the values alone")
rewrite(SLOW, r"svdvals", "_u, _s, _v = torch.svd(_a)", "_s = torch.linalg.svdvals(_a)", "Take the values alone")
rewrite(SLOW, r"svdvals", "torch.linalg.svd(_a)[1]", "torch.linalg.svdvals(_a)", "Take the values alone")
rewrite(SLOW, r"eigvalsh", "_l, _v = torch.linalg.eigh(_a)", "_l = torch.linalg.eigvalsh(_a)", "Take the values alone")
rewrite(SLOW, r"torch\.linalg\.solve|solve\(", "torch.linalg.inv(_a) @ _b", "torch.linalg.solve(_a, _b)", "Solve it")
rewrite(SLOW, r"torch\.linalg\.solve|solve\(", "torch.inverse(_a) @ _b", "torch.linalg.solve(_a, _b)", "Solve it")
rewrite(SLOW, r"slogdet|logdet", "torch.log(torch.det(_a))", "torch.logdet(_a)", "Use logdet")
# -- loops over groups, and over points ----------------------------------------
GROUP = "Add up by the group's number"
rewrite(
    SLOW,
    r"once for each group|all rows at once|whole tensors",
    "for _v in range(_n):\n    _i = _s[_d == _v]\n    if len(_i) > 0:\n        _a[_v] = _h[_i].mean(dim=0)",
    "_a.index_add_(0, _d, _h[_s])\n_a = _a / torch.bincount(_d, minlength=len(_a)).clamp(min=1)[:, None]",
    GROUP,
    "all",
)
_OWNERS = "owners = torch.repeat_interleave(torch.arange(_n), torch.tensor([len(part) for part in _l]))"
_SUMS = "sums = _h.new_zeros((_n,) + _h.shape[1:]).index_add(0, owners, _h[torch.cat(_l)])"
rewrite(
    SLOW,
    r"along a dimension of their own|all rows at once|whole tensors",
    ("for _v in range(_n):\n    _a.append(_h[_l[_v]].mean(dim=0))", "torch.stack(_a)"),
    (f"{_OWNERS}\n{_SUMS}\n_a = sums / torch.bincount(owners, minlength=_n)[:, None]", "_a"),
    GROUP,
    "all",
)
rewrite(
    SLOW,
    r"one gradient of the sum|them in one pass",
    "for _n in range(len(_x)):\n    _a = _x[_n].clone().requires_grad_(True)\n    _y = _f(_a)\n"
    "    for _i in range(len(_y)):\n        _o[_n, _i] = torch.autograd.grad(_y[_i], _a, retain_graph=True)[0]",
    "_a = _x.clone().requires_grad_(True)\n_y = _f(_a)\nfor _i in range(_y.shape[1]):\n"
    "    _o[:, _i] = torch.autograd.grad(_y[:, _i].sum(), _a, retain_graph=True)[0]",
    "Give it all at once",
    "all",
)
