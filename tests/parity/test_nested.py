"""Nested tensors beside PyTorch's of the jagged layout: what functions give and refuse, gradients, a layer by hand."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

BOTH = (core, torch)


@pytest.fixture(autouse=True)
def quiet(caplog):
    """PyTorch says of nested tensors that they are a prototype, and of attention which kernels it did not take."""
    caplog.set_level("CRITICAL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(t: Any) -> dict[str, Any]:
    """Return the same nested and dense tensors of a library; `h` leaves rows out."""
    rng = np.random.default_rng(0)

    def dense(*shape: int) -> Any:
        return t.tensor(rng.normal(size=shape).astype(np.float32))

    tn, a, s = t.nested, [dense(2, 4), dense(3, 4)], [dense(2, 8), dense(3, 8)]
    x = tn.nested_tensor(a, layout=t.jagged, requires_grad=True)
    v, off = dense(5, 4), t.tensor([0, 2, 5])
    sq = tn.nested_tensor(s, layout=t.jagged)
    return {
        "t": t, "tn": tn, "F": t.nn.functional, "J": {"layout": t.jagged}, "a": a, "x": x, "j": x.size(1), "v": v,
        "y": tn.nested_tensor_from_jagged(v, off), "z": tn.nested_tensor_from_jagged(v, off), "off": off,
        "h": tn.nested_tensor_from_jagged(dense(7, 4), t.tensor([0, 3, 7]), t.tensor([2, 3])), "sq": sq,
        "q": sq.unflatten(-1, (2, 4)).transpose(1, 2), "d": dense(3, 5, 4), "W": dense(3, 4), "b": dense(3),
        "M": dense(4, 3), "B": dense(2, 4, 3), "w": dense(4), "E": dense(9, 4), "L": t.tensor([2, 3, 1]),
        "S": t.tensor([1, 0, 2]), "i": x.detach().abs().mul(2).to(t.int64).clamp(max=8), "R": dense(2, 3, 4),
        "copy": copy, "pickle": pickle,
    }  # fmt: skip


def plain(r: Any) -> Any:
    """Return a result as plain data; sizes that differ have other numbers in each library."""
    if isinstance(r, core.Tensor | torch.Tensor):
        if r.is_nested:
            return ["nested", re.sub(r"j\d+", "j", str([*r.shape])), *map(plain, r.unbind())]
        return [str(r.dtype).rpartition(".")[2], r.detach().numpy()]
    if isinstance(r, tuple | list):
        return [plain(p) for p in r]
    return re.sub(
        r"<([A-Za-z0-9]+)( object at \w+)?>", r"<\1>", re.sub(r"j\d+", "j", re.sub(r"torch\.|core\.", "", str(r)))
    )


def same(mine: Any, theirs: Any) -> None:
    if isinstance(mine, list):
        assert len(mine) == len(theirs)
        for m, t in zip(mine, theirs, strict=True):
            same(m, t)
    elif isinstance(mine, np.ndarray):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)
    else:
        assert mine == theirs


GIVES = """
x; repr(x); str(x * 2); x.shape; x.size(); x.size(1); x.size(-1); x.dim(); x.ndim; x.numel(); x.stride(); len(x)
x.layout; x.is_nested; x.is_contiguous(); x.is_leaf; x.requires_grad; x.dtype; x.device; x.element_size(); x.nbytes
x.values(); x.offsets(); x.lengths(); h.lengths(); h.offsets(); h.values(); x.is_sparse; q.stride(); q.is_contiguous()
j == j; j == 3; j != j; j >= 2; j > 1; j < 2; j * 4; 4 * j == j * 4; isinstance(j, t.SymInt); y.shape == z.shape
x.shape == (2, j, 4); x.shape == y.shape; tn.nested_tensor([[1.0, 2.0], [3.0]], **J)
tn.nested_tensor(a, dtype=t.float64, **J); tn.nested_tensor([t.ones(2, 3), t.ones(2, 4)], **J)
tn.nested_tensor([t.ones(2, 3, 4), t.ones(2, 5, 4)], **J); tn.nested_tensor(t.ones(2, 3), **J)
tn.nested_tensor([t.ones(0, 2), t.ones(3, 2)], **J); tn.as_nested_tensor(d, **J); tn.as_nested_tensor(a, **J)
tn.as_nested_tensor(x, **J) is x; tn.nested_tensor_from_jagged(v, lengths=t.tensor([2, 3]))
tn.nested_tensor_from_jagged(v, off, min_seqlen=2, max_seqlen=3)
tn.nested_tensor_from_jagged(d[0].T, off, jagged_dim=2)
tn.narrow(d, 1, 0, L, **J); tn.narrow(d, 1, S, L, **J); tn.narrow(d, 1, 1, 2, **J); tn.narrow(d, 1, S, L, **J).values()
tn.masked_select(d[0], d[0] > 0); x.unbind(); list(x); x[0]; x[-1]; x[0, 1]; x[..., 0]; x[..., 1:3]; x.select(0, 1)
x.select(2, 1); h; h.unbind(); h[0]; h.contiguous().values(); h + h.detach(); (h + 1).values(); h.transpose(1, 2)
x + x; y + z; x + 1; 2 - x; x * w; w + x; x * R; R - x; x + R[:, :1]; x * R[:, :, :1]; x / x.sum(1, keepdim=True)
x - x.mean(-1, keepdim=True); x * t.tensor(2.0); -x; x**2; x.pow(2); x.abs().log1p().clamp(max=1); x.square().exp()
x == x; x > 0; t.logical_and(x > 0, x < 1); (x == x).all(); t.isnan(x).any(); t.where(x > 0, x, 0.0)
x.masked_fill(x > 0, 1.0); t.nan_to_num(x); x.long() + 1.5; t.maximum(x, x * 2); t.sigmoid(x); t.tanh(x); x.sin()
F.relu(x); F.gelu(x); F.silu(x); F.leaky_relu(x); F.elu(x); F.softplus(x); F.hardtanh(x); F.dropout(x, training=False)
x.clone(); x.detach(); x.to(t.float64); x.double(); x.half(); x.to("cpu"); x.cpu(); x.type_as(x); x.contiguous() is x
t.zeros_like(x); t.ones_like(x); t.full_like(x, 2.0); t.zeros_like(x, dtype=t.int64); t.rand_like(x).shape
x.detach().clone().mul_(2); x.detach().clone().add_(x.detach()); x.detach().clone().fill_(2); x.detach().clone().zero_()
x.detach().clone().copy_(x.detach() * 3)
x.sum(); x.mean(); x.max(); x.amax(1); x.amin(1); x.max(1); x.min(1)
x.argmax(1); x.prod(1); x.any(1); x.all(-1); x.argmax(-1); x.min(-1); x.amax(-1); x.sum(1); x.sum(1, keepdim=True)
x.sum(-1); x.sum(dim=-1, keepdim=True); x.sum((0, 1)); x.sum(1, dtype=t.float64); x.mean(1); x.mean((1,), True)
x.mean(-1); x.mean((0, 1)); x.softmax(-1); x.softmax(1); t.softmax(x, 1); F.softmax(x, dim=-1); x.log_softmax(-1)
q.sum(2); q.sum(1); q.mean(2); q.softmax(-1); q; q.contiguous(); q.unbind(); q.to_padded_tensor(0.0)
q.transpose(-2, -1); x.transpose(1, 2)
x.permute(0, 2, 1); x.mT; x.view(2, -1, 4); x.view(2, -1, 2, 2); x.reshape(2, -1, 2, 2)
sq.view(2, sq.size(1), 2, 4); sq.reshape(*sq.shape[:-1], 2, 4); sq.unflatten(2, [2, -1]); x.unflatten(-1, (2, 2))
x.unflatten(-1, (2, 2)).flatten(-2); q.transpose(1, 2).flatten(2, 3); q.transpose(1, 2).flatten(start_dim=2)
q.transpose(1, 2).contiguous().view(2, -1, 8); x.unsqueeze(-1); x.unsqueeze(1); x.unsqueeze(2); x.squeeze(-1)
x.expand(2, -1, 4); x.expand(2, j, 4); x.expand_as(x); x.unsqueeze(-1).expand(2, -1, 4, 3); t.cat([x, x], -1)
t.cat([x, x * 2], 2); t.stack([x, x], -1); x.chunk(2, -1); x.chunk(2, 0); x.split(2, -1); x.split([1, 3], -1)
t.split(x, 2, dim=2); x.narrow(2, 0, 2); F.linear(x, W, b); x @ M; t.matmul(x, M); x @ B; t.bmm(x, B)
x.transpose(1, 2) @ x; q @ t.ones(4, 3); F.layer_norm(x, (4,)); F.layer_norm(x, (4,), w, w); F.rms_norm(x, (4,), w)
F.embedding(i, E); F.one_hot(i, 9); x.to_padded_tensor(0.0); tn.to_padded_tensor(x, -1.0, output_size=(2, 5, 4))
tn.to_padded_tensor(x, 0.0, (2, 2, 4)); tn.to_padded_tensor(i, 7); F.scaled_dot_product_attention(q, q * 2, q + 1)
F.scaled_dot_product_attention(q, q, q, scale=0.3).transpose(1, 2).flatten(-2); copy.deepcopy(x)
pickle.loads(pickle.dumps(x)); t.is_tensor(x); t.numel(x); t.autograd.grad(x.sum(), x)
t.autograd.grad((x * 2).values().sum(), x)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("expression", [e.strip() for e in GIVES if e.strip()])
def test_what_it_gives(expression):
    mine, theirs = (plain(eval(expression, made(t))) for t in BOTH)
    same(mine, theirs)


REFUSED = """
x + tn.nested_tensor(a, **J); x + t.ones(5); x * t.ones(3, 1, 1); x * t.ones(2, 4, 1); x + t.ones(1, 2, 3, 4); x.sum(0)
x.sum((1, 2)); x.mean(0); x.softmax(0); x.numpy(); x.tolist(); x.item(); bool(x); x[:, 0]; x[:, -1]; x[0:1]; x[None]
x[5]; x[t.tensor([0])]; x[x > 0]; x.T; x.transpose(0, 1); x.permute(1, 0, 2); x.view(-1, 8); x.view(2, 5, 4)
x.unflatten(-1, (2, 2)).flatten(1); x.flatten(); x.unsqueeze(0); x.squeeze(0); t.cat([x, x], 1); t.cat([x, x], 0)
t.cat([x, t.ones(2, 3, 4)], 2); t.stack([x, x]); x.chunk(2, 1); x.split(1, 0); x.narrow(1, 0, 1); x.unbind(1)
x.size(3); x @ x.transpose(1, 2)
q @ q.transpose(-2, -1); F.layer_norm(x, (2, 4)); F.layer_norm(x, (5,)); t.nn.Linear(5, 2)(x)
F.scaled_dot_product_attention(q, q, t.ones(2, 2, 3, 4))
F.scaled_dot_product_attention(q, q, q, attn_mask=t.ones(3, 3))
F.scaled_dot_product_attention(x, x, t.ones(1)); tn.nested_tensor([], **J); tn.nested_tensor(a, layout=t.sparse_coo)
tn.nested_tensor([t.ones(2), t.ones(3, dtype=t.float64)], **J); tn.nested_tensor([t.ones(()), t.ones(())], **J)
tn.nested_tensor([t.ones(2, 3, 4), t.ones(1, 5, 4)], **J); tn.nested_tensor([t.ones(2, 1), t.ones(3)], **J)
tn.nested_tensor(3, **J); tn.nested_tensor_from_jagged(v); tn.nested_tensor_from_jagged(v, t.tensor([0, 2, 9])).unbind()
tn.narrow(d, 0, 1, 2, **J); tn.to_padded_tensor(d, 0.0); x.to_padded_tensor(); tn.masked_select(d, d[:, :, 0] > 0)
j > 3; x.sort(); x.topk(2); x.norm(); x.var(1); x.roll(1, 1); x.flip(1); x.tril(); x.repeat(1, 1, 2); x.gather(1, i)
F.pad(x, (0, 1)); F.mse_loss(x, x); F.cross_entropy(x, x); t.einsum("bij,jk->bik", x, M); t.nn.BatchNorm1d(4)(x)
t.nn.Conv1d(4, 4, 1)(x); t.nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x); x.index_select(0, L)
t.allclose(x, x); x.new_zeros(3); x.to_dense(); x.masked_select(x > 0); x.add_(x); F.relu(x, inplace=True)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("expression", [e.strip() for e in REFUSED if e.strip()])
def test_what_it_refuses(expression):
    with pytest.raises(Exception, match=r".") as theirs:
        eval(expression, made(torch))
    with pytest.raises(theirs.type) as mine:
        eval(expression, made(core))
    if not issubclass(theirs.type, IndexError | TypeError):
        assert "remedy" in str(mine.value) or "needed" in str(mine.value) or "came" in str(mine.value)


# a loss of the nested tensor x, of weights, and of what it is multiplied with
LOSSES = """
(x * x).sum(); (x * w).values().sum(); (x.softmax(-1) * w).sum(); (x.amax(1) ** 2).sum()
F.linear(x, W, b).square().sum(); F.layer_norm(x, (4,), w, w).pow(3).sum(); F.rms_norm(x, (4,), w).pow(3).sum()
x.to_padded_tensor(1.0).square().sum(); F.gelu(x).sum(); t.cat([x, x * 2], -1).pow(3).sum(); (x @ M).square().sum()
sum((p * p * (k + 1)).sum() for k, p in enumerate(x.unbind())); x.chunk(2, -1)[1].exp().sum(); x[0].square().sum()
(x.transpose(1, 2) @ x).square().sum(); x.double().square().sum().float(); x.mean().exp()
""".replace("\n", ";").split(";")
# whose gradients PyTorch has no formulas for: beside the same of each tensor p of the list, the k-th
BY_PIECES = {
    "(x * R).square().sum()": "sum((p * R[k, : len(p)]).square().sum() for k, p in enumerate(a))",
    "(x * R[:, :1]).square().sum()": "sum((p * R[k, :1]).square().sum() for k, p in enumerate(a))",
    "(x.sum(1) ** 2).sum()": "sum((p.sum(0) ** 2).sum() for p in a)",
    "(x.mean(1) * R[:, 0]).sum()": "sum((p.mean(0) * R[k, 0]).sum() for k, p in enumerate(a))",
    "x.sum(-1).square().sum()": "sum(p.sum(-1).square().sum() for p in a)",
    "(x.softmax(1) * R).sum()": "sum((p.softmax(0) * R[k, : len(p)]).sum() for k, p in enumerate(a))",
    "x.softmax(1).square().sum()": "sum(p.softmax(0).square().sum() for p in a)",  # PyTorch's own is wrong
    "(x.log_softmax(1) * R).sum()": "sum((p.log_softmax(0) * R[k, : len(p)]).sum() for k, p in enumerate(a))",
    "x.logsumexp(1).square().sum()": "sum(p.logsumexp(0).square().sum() for p in a)",
    "(x / x.sum(1, keepdim=True)).sin().sum()": "sum((p / p.sum(0, keepdim=True)).sin().sum() for p in a)",
    "x.unflatten(-1, (2, 2)).transpose(1, 2).sum(2).square().sum()": "sum(p.sum(0).square().sum() for p in a)",
    "(x.mean((0, 1)) * w).sum()": "(t.cat(a).mean(0) * w).sum()",
    "x.var(-1).square().sum()": "sum(p.var(-1).square().sum() for p in a)",
    "x.cumsum(1).square().sum()": "sum(p.cumsum(0).square().sum() for p in a)",
    "F.glu(x, -1).square().sum()": "sum(F.glu(p, -1).square().sum() for p in a)",
    "F.scaled_dot_product_attention(*[x.unsqueeze(1)] * 3, is_causal=True).square().sum()":
        "sum(F.scaled_dot_product_attention(*[p[None]] * 3, is_causal=True).square().sum() for p in a)",
}  # fmt: skip


def gradients(t: Any, expression: str, start: str) -> list[Any]:
    given = made(t)
    for name in ("W", "b", "w", "M", "R"):
        given[name].requires_grad_()
    if start == "list":
        sources = [p.clone().requires_grad_() for p in given["a"]]
        given["a"] = sources
        given["x"] = t.nested.as_nested_tensor(sources, layout=t.jagged)
    elif start == "values":
        sources = [given["v"].requires_grad_()]
        given["x"] = t.nested.nested_tensor_from_jagged(given["v"], given["off"])
    else:
        sources = [given["x"]]
    eval(expression, given).backward()
    return [plain(s.grad) for s in (*sources, *(given[n] for n in ("W", "b", "w", "M", "R")))]


@pytest.mark.parametrize("start", ["list", "values", "leaf"])
@pytest.mark.parametrize("expression", [e.strip() for e in LOSSES if e.strip()])
def test_gradients_go_to_the_list_to_the_values_and_to_weights(expression, start):
    same(gradients(core, expression, start), gradients(torch, expression, start))


@pytest.mark.parametrize("expression", BY_PIECES)
def test_gradients_are_those_of_each_sequence_alone(expression):
    same(gradients(core, expression, "list"), gradients(torch, BY_PIECES[expression], "list"))


def layer(t: Any) -> Any:
    """Return a transformer encoder layer as PyTorch's users write it for nested tensors."""

    class Layer(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = t.nn.LayerNorm(8), t.nn.RMSNorm(8, eps=1e-6)
            self.q, self.k, self.v, self.out = (t.nn.Linear(8, 8) for _ in range(4))
            self.mlp = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.GELU(), t.nn.Dropout(0.0), t.nn.Linear(16, 8))

        def forward(self, x: Any) -> Any:
            y = self.norm1(x)
            q, k, v = (p(y).unflatten(-1, (2, 4)).transpose(1, 2) for p in (self.q, self.k, self.v))
            y = t.nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            return x + self.mlp(self.norm2(x))

    return Layer()


def test_a_transformer_layer_trains_as_pytorchs():
    rng = np.random.default_rng(1)
    tokens = [rng.integers(0, 20, n) for n in (3, 7, 1, 5)]
    theirs = torch.nn.ModuleDict(
        {"words": torch.nn.Embedding(20, 8), "layer": layer(torch), "head": torch.nn.Linear(8, 20)}
    )
    mine = core.nn.ModuleDict({"words": core.nn.Embedding(20, 8), "layer": layer(core), "head": core.nn.Linear(8, 20)})
    mine.load_state_dict({k: core.tensor(p.numpy()) for k, p in theirs.state_dict().items()})
    losses: dict[Any, list[float]] = {}
    for t, model in zip(BOTH, (mine, theirs), strict=True):
        optimizer = t.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(3):
            x = model["layer"](model["words"](t.nested.nested_tensor([t.tensor(n) for n in tokens], layout=t.jagged)))
            logits = model["head"](x).values()
            loss = t.nn.functional.cross_entropy(logits, t.tensor(np.concatenate(tokens)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.setdefault(t, []).append(loss.item())
    np.testing.assert_allclose(losses[core], losses[torch], rtol=1e-5)
    assert losses[core][-1] < losses[core][0]
    for (name, p), other in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), other.grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)
